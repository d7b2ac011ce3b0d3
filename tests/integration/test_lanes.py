"""Rewards of one chain that iterations solve together: each as alone.

Answers found another way: elimination, and each reward by itself.
"""

from typing import Any

import numpy as np
import pytest
from all_paths import COUNTS, DISCOUNTS, END, POLICY, START, A, S, rewards
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import spsolve

import bayesmdp as bm
from bayesmdp.engine._kernel import Method
from bayesmdp.engine._krylov import System, fill_inverse
from bayesmdp.engine._solve import Krylov, bounded

pytestmark = pytest.mark.integration  # its kernel takes 18 s to compile

Array = NDArray[np.float64]


def posteriors(
    n: int, n_rewards: int, discount: float
) -> tuple[bm.Posterior, list[bm.Posterior]]:
    """A belief with several rewards, one of them 0, and with each alone."""
    rng = np.random.default_rng(n)
    state, next_state = np.repeat(np.arange(2, n), 6), rng.integers(n, size=6 * (n - 2))
    action, seen = (
        np.tile([0, 0, 0, 1, 1, 1], n - 2),
        rng.integers(1, 10, size=state.size),
    )
    counts = bm.Counts.from_arrays(state, action, next_state, seen, n_states=n)
    paid = {f"r{k}": rng.normal(size=n) * 10.0**k for k in range(n_rewards)}
    paid["r0"][:] = 0.0
    made = [
        bm.fit(
            counts,
            bm.Task(n, 2, reward, discount=discount, terminal=[0, 1], start=5),
            prior=bm.SparsePrior(),
        )
        for reward in (paid, *paid.values())
    ]
    return made[0], made[1:]


@pytest.mark.parametrize(("n", "n_rewards"), [(80, 2), (80, 3), (80, 6), (9000, 3)])
def test_rewards_solved_together_are_those_solved_alone(n: int, n_rewards: int) -> None:
    together, alone = posteriors(n, n_rewards, 0.95)
    policy = np.arange(n) % 2
    how = {"n_draws": 4, "threads": 1}
    found = bm.evaluate(policy, together, solver="iterative", **how)
    for k, posterior in enumerate(alone):
        one = bm.evaluate(policy, posterior, solver="iterative", **how)
        part = found.rewards[f"r{k}"]
        for name in ("value", "epistemic_sd", "aleatoric_sd", "occupancy"):
            wanted = getattr(one, name)
            close = 2e-8 * np.abs(wanted).max()
            np.testing.assert_allclose(getattr(part, name), wanted, rtol=0, atol=close)
    if n < 1000:
        exact = bm.evaluate(policy, together, solver="dense", **how)
        sd = np.array([x.start_aleatoric_sd for x in exact.rewards.values()])
        gap = found.start_aleatoric_covariance - exact.start_aleatoric_covariance
        assert np.abs(gap / np.maximum(np.outer(sd, sd), 1e-300)).max() < 1e-7


def solved(
    table: csr_array, n: int, g: float, backward: bool, rhs: Array
) -> tuple[int, Array]:
    """Products, and solutions [K, S] of a chain among its first ``n`` states."""
    n_states = table.shape[1]
    krylov = Krylov(backward)
    space = Method(krylov=krylov).space(n, n_states, table.nnz, 2)
    begin, stop = table.indptr[:-1].astype(np.uint32), table.indptr[1:].astype("u4")
    column = table.indices.astype(np.uint32)
    system = System(g, backward, begin, stop, column, table.data, space.inverse)
    fill_inverse(system)
    x, length = np.zeros((len(rhs), n_states)), np.zeros(n_states)
    return bounded(system, space, length, space.lanes, rhs, x), x


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("n_rhs", [2, 4, 7])
def test_lanes_equal_a_sparse_direct_solve(backward: bool, n_rhs: int) -> None:
    """Discount 1 and rare ends; right-hand sides of many sizes, and one of 0."""
    rng, n, n_states = np.random.default_rng(n_rhs), 150, 153
    table = rng.dirichlet(np.full(n_states, 0.05), size=n)
    table[:, n:] *= 0.05
    table /= table.sum(axis=1, keepdims=True)
    chain = csr_array(np.where(table > 1e-6, table, 0))
    chain.data /= np.repeat(
        np.add.reduceat(chain.data, chain.indptr[:-1]), np.diff(chain.indptr)
    )
    rhs = rng.normal(size=(n_rhs, n_states)) * 10.0 ** rng.integers(-9, 9, (n_rhs, 1))
    rhs[:, n:], rhs[1] = 0.0, 0.0
    products, x = solved(chain, n, 1.0, backward, rhs)
    wanted = spsolve((eye_array(n) - chain[:, :n]).tocsc(), rhs[:, :n].T).T
    assert products > 0
    assert not x[:, n:].any()
    assert not x[1].any()
    for found, right in zip(x, wanted, strict=True):
        np.testing.assert_allclose(found[:n], right, atol=1e-9 * np.abs(right).max())


def test_a_chain_that_iterations_cannot_solve_is_said_to_fail() -> None:
    """A ring of 2,000 states at a discount next to 1 takes too many products."""
    n = 2000
    at = np.arange(n)
    ring = csr_array(
        (
            np.full(2 * n, 0.5),
            np.stack([(at - 1) % n, (at + 1) % n], 1).ravel(),
            2 * np.arange(n + 1),
        ),
        shape=(n, n),
    )
    rhs = np.random.default_rng(0).normal(size=(3, n))
    assert solved(ring, n, 1 - 1e-9, False, rhs)[0] < 0


@pytest.mark.parametrize("g", DISCOUNTS.values(), ids=list(DISCOUNTS))
def test_iterations_and_elimination_agree_on_several_rewards(g: Any) -> None:
    """Within 1e-8 of the largest value, which is what iterations are held to."""
    rng = np.random.default_rng(5)
    three = {**rewards("pairs"), "days": rng.normal(size=(S, A))}
    discount = dict(zip(three, (*g, g[0]), strict=True))
    about = bm.Task(S, A, three, discount=discount, start=START, terminal=[END])
    one = bm.fit(COUNTS, about, prior=bm.SymmetricPrior())
    there, here = (
        bm.evaluate(POLICY, one, n_draws=64, solver=x) for x in ("dense", "iterative")
    )
    assert (there.solver, here.solver) == ("dense", "iterative")
    assert there.rewards is not None
    assert here.rewards is not None
    for name in three:
        for field in ("value", "epistemic_sd", "aleatoric_sd", "occupancy"):
            ours, others = (getattr(x.rewards[name], field) for x in (here, there))
            np.testing.assert_allclose(ours, others, atol=1e-8)
    for field in ("start_aleatoric_covariance", "start_epistemic_covariance"):
        mine, other = (getattr(x, field) for x in (here, there))
        np.testing.assert_allclose(mine, other, atol=1e-8)
