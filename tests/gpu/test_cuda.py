"""On a GPU: the cases of `gpu_cases.py`, and the same bits on every run."""

from collections.abc import Callable

import gpu_cases
import numpy as np
import pytest
from gpu_beliefs import BELIEFS, CHOICE, STOCHASTIC, Array, belief_of
from gpu_cases import N_DRAWS

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.errors import BackendError

_TIMES = 5

try:
    engine.backend_of("cuda")
except BackendError as problem:
    pytest.skip(f"no GPU: {problem}", allow_module_level=True)


@pytest.mark.parametrize("case", gpu_cases.CASES)
def test_a_gpu_computes_what_the_cpu_does(case: str) -> None:
    gpu_cases.CASES[case]("cuda")


@pytest.mark.parametrize("belief", BELIEFS)
@pytest.mark.parametrize("policy", [STOCHASTIC, CHOICE], ids=["stochastic", "choice"])
def test_every_run_gives_the_same_bits(belief: str, policy: Array) -> None:
    """Threads of a block end in any order; sums must not."""
    make: Callable[[], bm.posterior.Belief] = BELIEFS[belief]
    found = belief_of(make)
    draws = found.draws() if found.n_models else found.draws(20 * N_DRAWS, seed=2)
    runs = [bm.evaluate(policy, draws, device="cuda") for _ in range(_TIMES)]
    for again in runs[1:]:
        for name in ("value", "total_sd", "total_sd_mcse", "occupancy", "start_values"):
            assert (getattr(again, name) == getattr(runs[0], name)).all(), name


@pytest.mark.parametrize("n_states", [60, 300, 540, 1500])
def test_chains_of_any_size_are_solved_as_by_elimination(n_states: int) -> None:
    """More states than a warp has lanes, more than stay in registers, and streamed."""
    world = bm.worlds.synthetic(1, n_states, 2, discount=0.98)
    log = world.sample(30 * n_states, seed=0)
    draws = bm.fit(log, world.task, prior=bm.SymmetricPrior(0.1)).draws(48, seed=1)
    policy = np.full((n_states, 2), 0.5)
    ours = bm.evaluate(policy, draws, device="cuda", control=False)
    theirs = bm.evaluate(policy, draws, control=False)
    gpu_cases.assert_same(ours, theirs)


def test_auto_takes_the_gpu_for_what_takes_the_cpu_long() -> None:
    world = bm.worlds.synthetic(1, 300, 2)
    belief = bm.fit(world.sample(900, seed=0), world.task, prior=bm.SymmetricPrior())
    policy = np.full((300, 2), 0.5)
    assert bm.evaluate(policy, belief, n_draws=32, device="auto").device == "cuda"
