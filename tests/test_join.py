"""Sums that join to the same bits, and the gradient of rows a policy does not use.

Answers found another way: a sweep in one go, NumPy on ``draws.dynamics(i)``, and
enumeration of the models of an ensemble. Statistical tests state their error rate;
seeds are fixed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, pairwise

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sweeps import gradient_of, nominal_of

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.engine._backend import Joiner, Node
from bayesmdp.engine._solve import SOLVED

Array = NDArray[np.float64]
BLOCK = engine.BLOCK
WANT = engine.Want(variance=True, occupancy=True, gradient=True)
FIELDS = ("state", "row", "start", "status", "products", "weights", "kept")


def assert_same_bits(one: engine.Sums, other: engine.Sums) -> None:
    for name in FIELDS:
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for left, right in zip(one.nodes, other.nodes, strict=True):
        assert (left.level, left.index) == (right.level, right.index)
        assert np.array_equal(left.state, right.state)


# ------------------------------------------------------------ the tree


def leaf(index: int, seed: int = 0) -> engine.Sums:
    """One block of draws with sums of very different size: order shows in the bits."""
    rng = np.random.default_rng([seed, index])
    size = 10.0 ** rng.uniform(-8, 8)
    node = Node(0, index, size * rng.normal(size=(1, 2, 5)), rng.normal(size=(1, 2, 3)))
    return engine.Sums(
        nodes=(node,),
        start=rng.normal(size=(1, 4, BLOCK)),
        status=np.full((1, BLOCK), SOLVED, dtype=np.int8),
        products=rng.integers(9, size=(1, BLOCK)),
        weights=np.ones(BLOCK),
        kept=rng.normal(size=(1, 2, BLOCK, 5)),
    )


def join_all(parts: list[engine.Sums]) -> engine.Sums:
    return reduce(engine.Sums.join, parts)


def tree_sum(leaves: list[Array]) -> Array:
    """Add by halves, the left one a power of two: the tree of `Joiner`, from above."""
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << ((len(leaves) - 1).bit_length() - 1)
    return tree_sum(leaves[:half]) + tree_sum(leaves[half:])


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 31, 64])
def test_sums_are_those_of_a_binary_tree(n: int) -> None:
    parts = [leaf(i) for i in range(n)]
    joined = join_all(parts)
    assert np.array_equal(joined.state, tree_sum([part.state for part in parts]))
    assert np.array_equal(joined.row, tree_sum([part.row for part in parts]))
    assert len(joined.nodes) == n.bit_count()
    in_a_row = sum(part.state for part in parts)
    np.testing.assert_allclose(joined.state, in_a_row, rtol=1e-9, atol=1e-6)
    if n > 8:
        assert not np.array_equal(joined.state, in_a_row)  # order shows


@settings(max_examples=60)
@given(
    first=st.integers(0, 20),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_neighbours_join_in_any_order_to_the_same_bits(
    first: int, sizes: list[int], order: object
) -> None:
    """Wherever the range begins, however it is cut, whoever joins first."""
    leaves = [leaf(first + i) for i in range(sum(sizes))]
    edges = np.cumsum([0, *sizes])
    parts = [join_all(leaves[a:b]) for a, b in pairwise(edges)]
    while len(parts) > 1:
        at = order.randrange(len(parts) - 1)  # type: ignore[attr-defined]
        parts[at : at + 2] = [parts[at].join(parts[at + 1])]
    assert_same_bits(parts[0], join_all(leaves))


def test_joining_holds_few_sums_however_many_blocks() -> None:
    joiner = Joiner()
    for i in range(1000):
        joiner.add(leaf(i))
        assert len(joiner.nodes) <= (i + 1).bit_length()
    assert joiner.n_draws == 1000 * BLOCK


# ------------------------------------------------------------ sweeps apart


@dataclass(frozen=True)
class Ground:
    """A problem, and how to sweep ranges of its draws."""

    problem: engine.Problem
    nominal: engine.Nominal

    def sweep(self, first: int, stop: int, threads: int = 1) -> engine.Sums:
        with engine.workers(threads, None) as pool:
            return engine.sweep(
                self.problem,
                self.nominal,
                stop - first,
                want=WANT,
                pool=pool,
                first=first,
            )


def sparse_posterior(
    n: int, n_actions: int = 2, discount: float = 0.97
) -> bm.Posterior:
    rng = np.random.default_rng(n)
    state = np.repeat(np.arange(n), 4 * n_actions)
    action = np.tile(np.repeat(np.arange(n_actions), 4), n)
    next_state = rng.integers(n, size=state.size)
    task = bm.Task(n, n_actions, rng.normal(size=n), discount=discount)
    counts = bm.Counts.from_arrays(state, action, next_state, n_states=n)
    return bm.fit(counts, task, prior=bm.SparsePrior())


def ring_posterior(n: int = 600) -> bm.Posterior:
    """Nearly periodic, so that iterations fail and every draw is retried."""
    order = np.random.default_rng(n).permutation(n)
    head = np.concatenate([np.roll(order, -1), np.roll(order, -2)])
    tail, seen = np.tile(order, 2), np.repeat([10**6, 1], n)
    task = bm.Task(n, 1, np.random.default_rng(0).normal(size=n), discount=0.99999)
    counts = bm.Counts.from_arrays(tail, 0 * tail, head, seen)
    return bm.fit(counts, task, prior=bm.SparsePrior())


def ground(posterior: bm.Posterior, solver: str, control: bool = True) -> Ground:
    """Two policies, one of them deterministic, on every row."""
    n, n_actions = posterior.task.n_states, posterior.task.n_actions
    rng = np.random.default_rng(1)
    policies = np.stack(
        [
            rng.dirichlet(np.ones(n_actions), size=n),
            np.eye(n_actions)[rng.integers(n_actions, size=n)],
        ]
    )
    draws = posterior.draws(2, seed=6)
    problem = engine.Problem.of_draws(draws, policies, every_row=True)
    return Ground(problem, nominal_of(problem, control=control, solver=solver))


GROUNDS: dict[str, Callable[[], Ground]] = {
    "dense": lambda: ground(sparse_posterior(12), "dense"),
    "iterative": lambda: ground(sparse_posterior(90), "iterative"),
    "banded": lambda: ground(ring_posterior(100), "auto", control=False),
    "without control variates": lambda: ground(sparse_posterior(9), "auto", False),
}
N_BLOCKS, RAGGED = 7, 5
N_DRAWS = N_BLOCKS * BLOCK + RAGGED
EDGES = tuple(range(BLOCK, N_DRAWS, BLOCK))


@pytest.mark.usefixtures("many_tasks")
@pytest.mark.parametrize("name", GROUNDS)
def test_ranges_swept_apart_join_to_what_one_sweep_gives(name: str) -> None:
    """Every split in two and in three at borders of blocks; the last part is ragged."""
    at = GROUNDS[name]()
    whole = at.sweep(0, N_DRAWS)
    assert whole.ended.all()
    assert_same_bits(whole, at.sweep(0, N_DRAWS, threads=2))
    kept: dict[tuple[int, int], engine.Sums] = {}

    def part(first: int, stop: int) -> engine.Sums:
        if (first, stop) not in kept:
            kept[first, stop] = at.sweep(first, stop, threads=1 + (first + stop) % 2)
        return kept[first, stop]

    for a in EDGES:
        assert_same_bits(whole, part(0, a).join(part(a, N_DRAWS)))
    for a, b in combinations(EDGES, 2):
        left, middle, right = part(0, a), part(a, b), part(b, N_DRAWS)
        assert_same_bits(whole, left.join(middle).join(right))
        assert_same_bits(whole, left.join(middle.join(right)))


def test_ranges_of_retried_draws_join_too() -> None:
    at = ground(ring_posterior(), "iterative", control=False)
    whole = at.sweep(0, 3 * BLOCK, threads=2)
    assert whole.retried.all()
    parts = [at.sweep(i * BLOCK, (i + 1) * BLOCK) for i in range(3)]
    assert_same_bits(whole, parts[0].join(parts[1]).join(parts[2]))
    assert_same_bits(whole, parts[0].join(parts[1].join(parts[2])))


def test_a_range_that_does_not_begin_at_zero_may_be_cut_too() -> None:
    at = GROUNDS["iterative"]()
    whole = at.sweep(3 * BLOCK, N_DRAWS)
    for a in EDGES[3:]:
        assert_same_bits(whole, at.sweep(3 * BLOCK, a).join(at.sweep(a, N_DRAWS)))
    assert not np.array_equal(whole.start, at.sweep(0, N_DRAWS - 3 * BLOCK).start)


def test_a_range_that_begins_within_a_block_is_refused() -> None:
    """Its blocks would lie across those of the tree, and join to other bits."""
    with pytest.raises(AssertionError):
        GROUNDS["dense"]().sweep(BLOCK // 2, 3 * BLOCK)


@pytest.mark.parametrize("after", [1, 2, 5])
def test_ranges_that_do_not_follow_each_other_are_not_joined(after: int) -> None:
    """Draws counted twice or left out would be a wrong result without a word."""
    with pytest.raises(AssertionError):
        leaf(2).join(leaf(after))


# ------------------------------------------------------------ rows that are not used


def by_hand(draws: bm.Draws, policy: Array, n_draws: int) -> Array:
    """Return ``d (Q - V)`` of every row in every draw, ``[D, S, A]``, all sampled."""
    task = draws.belief.task
    at = reference.setting(task, task.reward)
    out = []
    for i in range(n_draws):
        one = reference.solve(draws.dynamics(i).to_dense(), policy, at)
        value = (one.value - at.terminal_value)[:, None]
        out.append(one.occupancy[:, None] * (one.q - value))
    return np.array(out)


@pytest.mark.parametrize("solver", ["dense", "iterative"])
def test_rows_without_probability_have_the_gradient_of_rows_that_are_sampled(
    solver: str,
) -> None:
    """The mean stands in for a row that is independent of values and visits.

    Rows in use are the same draw by draw. The others have the same expectation; with
    1,500 draws of 40 rows, one of them is off by 5 errors 2 times in 1e5. Their noise
    is smaller, up to its own noise, 5 times 1 / sqrt(2 D).
    """
    n, n_draws = 20, 1500
    posterior = sparse_posterior(n, n_actions=3, discount=0.9)
    policy = np.eye(3)[np.random.default_rng(0).integers(3, size=n)]
    draws = posterior.draws(n_draws, seed=8)
    problem = engine.Problem.of_draws(draws, policy[None], every_row=True)
    with engine.workers(2, None) as pool:
        found = engine.slopes(
            problem, problem.policies[0], n_draws, pool=pool, solver=solver
        )
    state, action = problem.rows.row_id.T
    plain = by_hand(draws, policy, n_draws)[:, state, action]
    mean, noise = plain.mean(axis=0), plain.var(axis=0, ddof=1) / n_draws
    used = problem.policies[0] > 0
    assert used.sum() == n
    np.testing.assert_allclose(found.slope[used], mean[used], rtol=1e-7, atol=1e-9)
    slope, own = gradient_of(problem, n_draws, solver)
    np.testing.assert_allclose(slope, found.slope, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(own[used], noise[used], rtol=1e-6, atol=1e-15)
    other = ~used
    off = np.abs(found.slope - mean)[other]
    assert (off < 5 * np.sqrt(noise + own)[other]).all()
    assert off.max() > 1e-6  # they were not sampled
    assert (own[other] < noise[other] * (1 + 5 / np.sqrt(2 * n_draws))).all()
    assert np.median(own[other] / noise[other]) < 0.8


def test_the_mean_row_of_each_draw_is_what_is_added() -> None:
    """By hand, from sampled rows in use and mean rows for the rest: no noise left."""
    n, n_draws = 20, 40
    posterior = sparse_posterior(n, n_actions=3, discount=0.9)
    policy = np.eye(3)[np.random.default_rng(0).integers(3, size=n)]
    draws = posterior.draws(n_draws, seed=8)
    problem = engine.Problem.of_draws(draws, policy[None], every_row=True)
    with engine.workers(1, None) as pool:
        found = engine.slopes(problem, problem.policies[0], n_draws, pool=pool)
    at = reference.setting(posterior.task, posterior.task.reward)
    mean, slopes = posterior.mean().to_dense(), []
    for i in range(n_draws):
        theta = np.where(policy[:, :, None] > 0, draws.dynamics(i).to_dense(), mean)
        one = reference.solve(theta, policy, at)
        slopes.append(one.occupancy[:, None] * (one.q - one.value[:, None]))
    state, action = problem.rows.row_id.T
    expected = np.array(slopes)[:, state, action]
    np.testing.assert_allclose(found.slope, expected.mean(axis=0), atol=1e-12)
    _, noise = gradient_of(problem, n_draws)
    wanted = expected.var(axis=0) / (n_draws - 1)
    np.testing.assert_allclose(noise, wanted, rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("solver", ["dense", "iterative"])
def test_models_of_an_ensemble_keep_their_own_rows(solver: str) -> None:
    """Rows of a model belong together: enumeration, and the mean rows are wrong."""
    n, weights = 8, np.array([0.2, 0.5, 0.3])
    rng = np.random.default_rng(4)
    task = bm.Task(n, 2, rng.normal(size=n), discount=0.9)
    models = [
        bm.Dynamics.from_dense(rng.dirichlet(np.full(n, 0.3), size=(n, 2)))
        for _ in weights
    ]
    ensemble = bm.Ensemble(models, task, weights=weights)
    policy = np.eye(2)[rng.integers(2, size=n)]
    problem = engine.Problem.of_draws(ensemble.draws(), policy[None], every_row=True)
    with engine.workers(1, None) as pool:
        found = engine.slopes(
            problem,
            problem.policies[0],
            3,
            pool=pool,
            weights=3 * weights,
            exact=True,
            solver=solver,
        )
    state, action = problem.rows.row_id.T
    each = by_hand(ensemble.draws(), policy, 3)
    expected = np.tensordot(weights, each, axes=1)[state, action]
    np.testing.assert_allclose(found.slope, expected, rtol=1e-7, atol=1e-9)
    assert found.gap_mcse == 0
    best = np.tensordot(weights, each, axes=1).max(axis=1)
    assert found.gap == pytest.approx(np.maximum(best, 0).sum(), rel=1e-7)
    at = reference.setting(task, task.reward)
    mean, wrong = ensemble.mean().to_dense(), 0.0
    for share, model in zip(weights, models, strict=True):
        theta = np.where(policy[:, :, None] > 0, model.to_dense(), mean)
        one = reference.solve(theta, policy, at)
        wrong += share * one.occupancy[:, None] * (one.q - one.value[:, None])
    assert np.abs(wrong[state, action] - expected).max() > 0.01
