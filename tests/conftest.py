"""Settings every test shares, and kernels that are compiled once for all processes."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import bayesmdp as bm

# The same examples in every run: a failure can be reproduced, and the error rates
# that statistical tests state are those of one fixed set of draws.
settings.register_profile(
    "fixed",
    derandomize=True,
    max_examples=50,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fixed")


@pytest.fixture
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share out also what takes less than a millisecond, for tests of sharing."""
    monkeypatch.setattr("bayesmdp.engine._sweep._LEAST_SECONDS", 0.0)


def _walk() -> bm.Posterior:
    """Return a belief about more states than are eliminated: a walk to the last."""
    state = np.arange(150)
    counts = bm.Counts.from_arrays(
        np.tile(state, 2),
        np.repeat([0, 1], 150),
        np.concatenate([state, np.minimum(state + 1, 149)]),
    )
    task = bm.Task(150, 2, reward=state == 149, discount=0.9)
    return bm.fit(counts, task, prior=bm.SparsePrior())


def _compile_eliminations() -> None:
    """Compile what evaluates for few states, and what plans."""
    from bayesmdp.engine import Problem, workers
    from bayesmdp.engine.planning import hindsight_values, plan

    world = bm.worlds.gridworld()
    posterior = bm.fit(world.sample(300, seed=0), world.task, prior=bm.SymmetricPrior())
    bm.evaluate([0] * 25, posterior.draws(4), solver="dense", threads=1)
    problem = Problem.of_belief(posterior).with_stream(posterior.draws(2).stream)
    with workers(1, None) as pool:
        hindsight_values(problem, 2, plan(problem).choice, pool)
    bm.policies.msbi(posterior, 4, threads=1)
    bm.policies.nominal(_walk())


def _compile_iterations() -> None:
    """Compile what evaluates for more states, and the chains of the default prior."""
    bm.evaluate([1] * 150, _walk().draws(4), solver="iterative", threads=1)
    world = bm.worlds.gridworld()
    bm.fit(world.sample(300, seed=0), world.task).draws(2).dynamics(1)


SHARES = (_compile_eliminations, _compile_iterations)


def pytest_sessionstart() -> None:
    """Compile a share of the kernels, where several processes are at work.

    No process begins with tests before all have collected theirs: by then each finds
    in the cache what the others have compiled.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        for compile_share in SHARES[number::processes]:
            compile_share()
