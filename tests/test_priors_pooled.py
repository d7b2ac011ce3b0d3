"""The pooled prior against its formulas in plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import bayesmdp as bm

S, A = 5, 3
TASK = bm.Task(S, A, np.zeros(S), discount=0.9, terminal=[4])


def table(seed: int, n: int = 60) -> np.ndarray:
    """Counts ``[S, A, S]``; the terminal state is padded."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((S, A, S), dtype=np.int64)
    base = rng.dirichlet(np.full(S, 0.5), size=S)
    for _ in range(n):
        s, a = rng.integers(4), rng.integers(A)
        counts[s, a, rng.choice(S, p=base[s])] += 1
    counts[4, 0, 4] = 7
    return counts


def looped(
    counts: np.ndarray, concentration: float, smoothing: float, mask: np.ndarray
) -> np.ndarray:
    """Dirichlet parameters before the data, ``[S, A, S]``."""
    alpha = np.zeros((S, A, S))
    for s in range(4):
        for a in range(A):
            possible = np.flatnonzero(mask[s, a])
            marginal, pooled = {}, {}
            for t in possible:
                marginal[t] = counts[:4, :, t].sum() - counts[s, a, t]
                marginal[t] += 1 / possible.size
                pooled[t] = sum(counts[s, b, t] for b in range(A) if b != a)
            whole, rests_on = sum(marginal.values()), sum(pooled.values()) + smoothing
            for t in possible:
                base = (pooled[t] + smoothing * marginal[t] / whole) / rests_on
                worth = concentration * rests_on / (concentration + rests_on)
                alpha[s, a, t] = worth * base
    return alpha


def asked(prior: bm.PooledPrior, counts: np.ndarray) -> np.ndarray:
    pair = np.arange(4 * A)
    rows, alpha = prior.concentrations(pair, bm.Counts.from_dense(counts), TASK)
    out = np.zeros((S * A, S))
    out[rows.pair[rows.row_of_entry], rows.next_state] = alpha
    return out.reshape(S, A, S)


def pseudo_likelihood(counts: np.ndarray, alpha: np.ndarray) -> float:
    """Sum over pairs of the log probability of the counts in their order."""
    total = 0.0
    for s in range(4):
        for a in range(A):
            n = counts[s, a]
            if n.sum():
                orders = stats.multinomial(n.sum(), np.full(S, 1 / S)).logpmf(n)
                orders += n.sum() * np.log(S)
                total += stats.dirichlet_multinomial.logpmf(n, alpha[s, a], n.sum())
                total -= orders
    return float(total)


@given(st.integers(0, 2**32), st.sampled_from([0.3, 4.0, 1e3]))
def test_rows_are_those_of_the_formulas(seed: int, concentration: float) -> None:
    counts = table(seed)
    mask = np.random.default_rng(seed).random((S, A, S)) < 0.6
    mask |= counts > 0
    mask[:, :, 0] = True
    prior = bm.PooledPrior(concentration, 0.7, mask)
    expected = looped(counts, concentration, 0.7, mask)
    assert asked(prior, counts) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_concentration_maximises_the_leave_one_out_likelihood(seed: int) -> None:
    counts, mask = table(seed, 150), np.ones((S, A, S), dtype=bool)
    grid = np.geomspace(0.01, 1e6, 81)
    score = [pseudo_likelihood(counts, looped(counts, c, 1.0, mask)) for c in grid]
    pair = np.arange(4 * A)
    chosen = bm.PooledPrior().tuned(pair, bm.Counts.from_dense(counts), TASK)
    assert isinstance(chosen.concentration, float)
    best = pseudo_likelihood(counts, looped(counts, chosen.concentration, 1.0, mask))
    assert best >= max(score) - 1e-9
    near = [0.99 * chosen.concentration, 1.01 * chosen.concentration]
    for c in near if chosen.concentration < 1e6 else near[:1]:
        beside = pseudo_likelihood(counts, looped(counts, c, 1.0, mask))
        assert beside <= best


def test_the_own_counts_of_a_pair_are_left_out_of_its_base() -> None:
    counts = table(3)
    more = counts.copy()
    more[1, 2, 3] += 40
    prior = bm.PooledPrior(2.0)
    one, two = asked(prior, counts), asked(prior, more)
    assert one[1, 2] == pytest.approx(two[1, 2])
    assert two[1, 0, 3] > one[1, 0, 3]  # others learn from it
    assert two[0, 0, 3] > one[0, 0, 3]  # through the marginal too


def test_a_pair_alone_in_the_data_has_an_even_base() -> None:
    counts = np.zeros((S, A, S), dtype=np.int64)
    counts[0, 0, 1] = 9
    row = asked(bm.PooledPrior(1.0), counts)[0, 0]
    assert row / row.sum() == pytest.approx(np.full(S, 0.2))


def test_a_base_is_not_worth_more_than_it_rests_on() -> None:
    counts = table(5)
    alpha = asked(bm.PooledPrior(1e12), counts)[:4]
    others = counts.sum(axis=1, keepdims=True) - counts
    assert alpha.sum(axis=2) == pytest.approx(others.sum(axis=2)[:4] + 1)


def test_actions_that_do_not_differ_are_pooled_in_full() -> None:
    """Rows of exact proportions: the more weight, the better, up to all there is."""
    counts = np.zeros((S, A, S), dtype=np.int64)
    counts[:4, :] = [20, 10, 10, 5, 5]
    pair = np.arange(4 * A)
    chosen = bm.PooledPrior().tuned(pair, bm.Counts.from_dense(counts), TASK)
    assert chosen.concentration == 1e6
    total = asked(chosen, counts)[:4].sum(axis=2)
    assert total == pytest.approx(101, rel=1e-3)  # 100 visits of others, and 1
