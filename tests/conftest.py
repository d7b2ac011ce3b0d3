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
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fixed")


def _compile_eliminations() -> None:
    """Compile what evaluates and plans for few states."""
    from bayesmdp.engine import workers
    from bayesmdp.engine.hindsight import hindsight_values
    from bayesmdp.engine.planning import every_row, plan

    posterior = _believe(3)
    bm.evaluate([0] * 3, posterior.draws(4), solver="dense", threads=1)
    problem = every_row(posterior)
    with workers(1, None) as pool:
        hindsight_values(problem, 2, plan(problem).choice, pool)
    bm.policies.msbi(posterior, 4, threads=1)


def _compile_iterations() -> None:
    """Compile what evaluates and plans for more states."""
    posterior = _believe(150)
    bm.evaluate([0] * 150, posterior.draws(4), solver="iterative", threads=1)
    bm.policies.nominal(posterior)


def _believe(n_states: int) -> bm.Posterior:
    """Move on by one state or stay, as seen twice each; the last is the end."""
    state = np.repeat(np.arange(n_states), 2)
    new = np.minimum(state + [0, 1] * n_states, n_states - 1)
    counts = bm.Counts.from_arrays(state, np.zeros_like(state), new)
    task = bm.Task(n_states, 1, reward=np.ones(n_states), discount=0.9)
    return bm.fit(counts, task, prior=bm.SparsePrior())


SHARES = (_compile_eliminations, _compile_iterations)


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark also where pytest-xdist is switched off."""
    config.addinivalue_line("markers", "xdist_group: tests for one process")


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


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file in one process, where there are several."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(item.path.stem))
