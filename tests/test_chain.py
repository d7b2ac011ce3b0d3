"""The chain of a policy in compressed rows, and elimination within a band.

Answers found another way: dense matrices, NumPy's solve, a closed form.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bayesmdp.engine import _dense as banded
from bayesmdp.engine._chain import Chain, Layout, build_chain, fill_chain

Array = NDArray[np.float64]


# ------------------------------------------------------------ the chain of a policy


def random_rows(
    seed: int, n: int = 9, n_ends: int = 2, n_actions: int = 4
) -> tuple[Layout, Array]:
    """Rows of ``n`` live states, and probabilities of their entries."""
    rng = np.random.default_rng(seed)
    source, length, target, theta = [], [], [], []
    for i in range(n):
        for _ in range(rng.integers(1, n_actions + 1)):
            size = rng.integers(1, n + n_ends + 1)
            source.append(i)
            length.append(size)
            target.append(rng.permutation(n + n_ends)[:size])
            theta.append(rng.dirichlet(np.ones(size)))
    indptr = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    at = np.concatenate(target).astype(np.uint32)
    return Layout(np.array(source), indptr, at), np.concatenate(theta)


def random_choice(rows: Layout, seed: int, single: bool) -> Array:
    """Return a policy ``[R]``: one row a state, or some of them mixed."""
    rng = np.random.default_rng(seed)
    pi = rng.random(rows.source.size) * (rng.random(rows.source.size) < 0.7)
    for i in np.unique(rows.source):
        here = np.flatnonzero(rows.source == i)
        if single or not pi[here].any():
            pi[here] = 0.0
            pi[rng.choice(here)] = 1.0
        pi[here] /= pi[here].sum()
    return pi


def dense_chain(rows: Layout, pi: Array, theta: Array, n_states: int) -> Array:
    row = np.repeat(np.arange(pi.size), np.diff(rows.indptr))
    T = np.zeros((int(rows.source.max()) + 1, n_states))
    np.add.at(T, (rows.source[row], rows.target.astype(np.int64)), pi[row] * theta)
    return T


def values_of(chain: Chain, rows: Layout, pi: Array, theta: Array) -> Array:
    if chain.slot.size == 0:
        return theta
    value = np.full(theta.size, np.nan)  # as left by the draw before
    fill_chain(chain, theta, pi, rows, value)
    return value


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), single=st.booleans())
def test_a_chain_and_its_transpose_equal_the_dense_ones(
    seed: int, single: bool
) -> None:
    n, n_ends = 9, 2
    rows, theta = random_rows(seed, n, n_ends)
    pi = random_choice(rows, seed, single)
    expected = dense_chain(rows, pi, theta, n + n_ends)
    chain = build_chain(pi, rows, n, True)
    value = values_of(chain, rows, pi, theta)
    found, across = np.zeros((n, n + n_ends)), np.zeros((n, n))
    for i in range(n):
        for k in range(chain.begin[i], chain.stop[i]):
            assert found[i, chain.column[k]] == 0.0  # a next state has one slot
            found[i, chain.column[k]] = value[k]
        for k in range(chain.t_begin[i], chain.t_stop[i]):
            assert chain.t_column[k] < n
            across[i, chain.t_column[k]] = value[chain.t_slot[k]]
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert np.array_equal(across, found[:, :n].T)
    if single and (np.bincount(rows.source, pi > 0) == 1).all():
        assert chain.slot.size == 0  # the rows as they are
        assert np.array_equal(chain.column, rows.target)


def test_a_transpose_that_is_not_wanted_is_not_laid_out() -> None:
    rows, _ = random_rows(0)
    chain = build_chain(random_choice(rows, 0, False), rows, 9, False)
    assert chain.t_begin.size == chain.t_column.size == chain.t_slot.size == 0


# ------------------------------------------------------------ elimination in a band


def steps(
    n: int, width: int, seed: int, leaves: float = 0.01
) -> tuple[Layout, Array, NDArray[np.int64]]:
    """One row a state to states within ``width``, and an end; places are shuffled."""
    rng = np.random.default_rng(seed)
    position = rng.permutation(n)
    name = np.argsort(position)
    target, theta, length = [], [], []
    for i in range(n):
        near = name[max(position[i] - width, 0) : position[i] + width + 1]
        keep = near[rng.random(near.size) < 0.8]
        target.append(np.append(keep, n))
        share = rng.dirichlet(np.ones(keep.size)) if keep.size else np.empty(0)
        last = leaves if keep.size else 1.0
        theta.append(np.append(share * (1.0 - leaves), last))
        length.append(keep.size + 1)
    indptr = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    layout = Layout(np.arange(n), indptr, np.concatenate(target).astype(np.uint32))
    return layout, np.concatenate(theta), position


@pytest.mark.parametrize("g", [0.0, 0.9, 0.9999, 1.0])
@pytest.mark.parametrize(
    ("n", "width"), [(1, 0), (5, 0), (40, 1), (60, 7), (25, 24), (2, 1)]
)
def test_elimination_in_a_band_equals_numpy(n: int, width: int, g: float) -> None:
    """Condition numbers stay below 1e4 here, so 1e-10 leaves room for rounding."""
    rows, theta, position = steps(n, width, seed=n)
    pi = np.ones(n)
    A = np.eye(n) - g * dense_chain(rows, pi, theta, n + 1)[:, :n]
    band, slack = np.empty((n, 2 * width + 1)), np.empty(n)
    banded.assemble_band(theta, pi, rows, g, position, band, slack)
    np.testing.assert_allclose(slack[position], A.sum(axis=1), atol=1e-14)
    assert banded.factorise_band(band, slack) >= 0.0099
    rhs, work = np.random.default_rng(n).normal(size=n), np.full(n + 3, np.nan)
    for solve, matrix in (
        (banded.solve_band, A),
        (banded.solve_band_transposed, A.T),
    ):
        x = rhs.copy()
        solve(band, position, x, work)
        np.testing.assert_allclose(
            x, np.linalg.solve(matrix, rhs), rtol=1e-10, atol=1e-10
        )


def test_elimination_notices_a_chain_without_end() -> None:
    rows, theta, position = steps(30, 3, seed=1, leaves=0.0)
    band, slack = np.empty((30, 7)), np.empty(30)
    banded.assemble_band(theta, np.ones(30), rows, 1.0, position, band, slack)
    assert banded.factorise_band(band, slack) <= 0.0


def test_elimination_in_a_band_keeps_every_digit_of_long_episodes() -> None:
    """A queue that grows nine times in ten and ends when empty.

    From ``i`` to ``i - 1`` takes ``d[i] = (1 + up d[i + 1]) / down``: sums of positive
    numbers, so the recursion is right to rounding. Episodes last 1e12 steps.
    """
    n, up, down = 12, 0.9, 0.1
    target, theta = [], []
    for i in range(n):  # state i holds i + 1 in the queue, the end is state n
        target += [min(i + 1, n - 1), i - 1 if i else n]
        theta += [up, down]
    rows = Layout(np.arange(n), 2 * np.arange(n + 1), np.array(target, dtype=np.uint32))
    d = np.empty(n)
    d[n - 1] = 1.0 / down
    for i in reversed(range(n - 1)):
        d[i] = (1.0 + up * d[i + 1]) / down
    expected = np.cumsum(d)
    assert expected.max() > 1e11
    position = np.arange(n)[::-1].copy()
    band, slack = np.empty((n, 3)), np.empty(n)
    banded.assemble_band(np.array(theta), np.ones(n), rows, 1.0, position, band, slack)
    banded.factorise_band(band, slack)
    x = np.ones(n)
    banded.solve_band(band, position, x, np.empty(n))
    np.testing.assert_allclose(x, expected, rtol=1e-13)
