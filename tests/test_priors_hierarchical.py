"""Means and evidence of the hierarchical prior against every set of next states.

Draws are looked at in ``test_hierarchical_draws.py``.
"""

from itertools import combinations
from math import exp, lgamma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesmdp as bm

L = 6  # states, all of them possible next states
TASK = bm.Task(L, 1, np.zeros(L), discount=0.9)
SETS = [s for k in range(1, L + 1) for s in combinations(range(L), k)]


def enumerated(
    n: list[int], a: float, decay: float
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Evidence, predictions, and for each set its weight and its Dirichlet mean."""
    sizes = np.array([decay ** len(s) for s in SETS])
    of_size = np.array([sum(len(s) == len(o) for o in SETS) for s in SETS])
    weight = sizes / of_size / sum(decay**k for k in range(1, L + 1))
    mean = np.zeros((len(SETS), L))
    for i, s in enumerate(SETS):
        inside = np.isin(np.arange(L), s)
        if any(n[t] for t in range(L) if t not in s):
            weight[i] = 0.0
            continue
        whole = len(s) * a
        log_p = lgamma(whole) - lgamma(whole + sum(n))
        log_p += sum(lgamma(a + n[t]) - lgamma(a) for t in s)
        weight[i] *= exp(log_p)
        mean[i] = (a + np.array(n)) * inside / (whole + sum(n))
    evidence = weight.sum()
    weight = weight / evidence
    return evidence, weight @ mean, weight, mean


def counts_of(n: list[int]) -> bm.Counts:
    return bm.Counts.from_arrays([0] * L, [0] * L, range(L), n, n_states=L)


COUNTS = st.lists(st.integers(0, 4), min_size=L, max_size=L).filter(any)


@given(COUNTS, st.sampled_from([0.2, 1.0, 2.5]), st.sampled_from([0.05, 0.6, 1.0]))
def test_predictions_and_evidence_equal_enumeration(
    n: list[int], a: float, decay: float
) -> None:
    prior = bm.RandomSupportPrior(a, decay)
    posterior = bm.fit(counts_of(n), TASK, prior=prior)
    evidence, predicted, _, _ = enumerated(n, a, decay)
    assert posterior.mean().to_dense()[0, 0] == pytest.approx(predicted, abs=1e-12)
    assert posterior.log_evidence() == pytest.approx(np.log(evidence), abs=1e-10)


@given(COUNTS, st.sampled_from([0.2, 1.0, 2.5]))
def test_the_split_among_seen_states_is_exact(n: list[int], a: float) -> None:
    """Seen states keep ``a + n``: their split is Dirichlet of that, in any set."""
    prior = bm.RandomSupportPrior(a)
    alpha = bm.fit(counts_of(n), TASK, prior=prior).alpha[:L]
    seen = np.array(n) > 0
    assert alpha[seen] == pytest.approx(a + np.array(n)[seen], rel=1e-12)
    assert np.unique(alpha[~seen]).size <= 1


@pytest.mark.parametrize("a", [0.2, 1.0, 2.5])
@pytest.mark.parametrize("decay", [0.05, 0.6, 1.0])
def test_a_pair_never_visited_keeps_mean_and_concentration(
    a: float, decay: float
) -> None:
    """``E sum theta^2`` over sets, each ``(a + 1) / (k a + 1)``, is the row's own."""
    prior = bm.RandomSupportPrior(a, decay)
    counts = bm.Counts.from_arrays([1], [0], [2], n_states=L)
    alpha = bm.fit(counts, TASK, prior=prior).alpha[:L]
    share = np.array([decay**k for k in range(1, L + 1)])
    k = np.arange(1, L + 1)
    expected = (share / share.sum()) @ ((a + 1) / (k * a + 1))
    each, total = alpha[0], alpha.sum()
    assert alpha == pytest.approx(np.full(L, each))
    assert L * each * (each + 1) / (total * (total + 1)) == pytest.approx(expected)


@given(COUNTS)
def test_a_fallback_takes_the_mass_of_all_unseen_states(n: list[int]) -> None:
    _, predicted, _, _ = enumerated(n, 1.0, 0.6)
    prior = bm.RandomSupportPrior(1.0, 0.6, fallback=5)
    posterior = bm.fit(counts_of(n), TASK, prior=prior)
    mean = posterior.mean().to_dense()[0, 0]
    seen = np.array(n) > 0
    expected = np.where(seen, predicted, 0.0)
    expected[5] += predicted[~seen].sum()
    assert mean == pytest.approx(expected, abs=1e-12)
    assert (np.diff(posterior.layout.indptr)[0]) == seen[:5].sum() + 1


def test_unseen_mass_falls_with_repetition_and_rises_with_variety() -> None:
    prior = bm.RandomSupportPrior()

    def unseen(n: list[int]) -> float:
        row = bm.fit(counts_of(n), TASK, prior=prior).mean().to_dense()[0, 0]
        return float(row[np.array(n) == 0].sum())

    repeated = [unseen([k, 0, 0, 0, 0, 0]) for k in (1, 3, 10, 100)]
    assert repeated == sorted(repeated, reverse=True)
    assert unseen([2, 2, 2, 0, 0, 0]) > unseen([6, 0, 0, 0, 0, 0])


def test_sizes_are_those_of_the_support() -> None:
    """On a support of two states, unseen mass is that of two states."""
    mask = np.zeros((L, L), dtype=bool)
    mask[:, [2, 4]] = True
    two = bm.Task(2, 1, [0, 0], discount=0.9)
    prior = bm.RandomSupportPrior(support=mask)
    posterior = bm.fit(counts_of([0, 0, 3, 0, 0, 0]), TASK, prior=prior)
    small = bm.fit(
        bm.Counts.from_arrays([0], [0], [0], [3]),
        two,
        prior=bm.RandomSupportPrior(),
    )
    assert posterior.alpha[:2] == pytest.approx(small.alpha[:2])
    assert posterior.log_evidence() == pytest.approx(small.log_evidence())


def test_evidence_prefers_few_next_states_where_there_are_few() -> None:
    few, many = [9, 8, 0, 0, 0, 0], [3, 3, 3, 3, 3, 2]

    def gain(n: list[int]) -> float:
        flat = bm.fit(counts_of(n), TASK, prior=bm.SymmetricPrior(1.0))
        sparse = bm.fit(counts_of(n), TASK, prior=bm.RandomSupportPrior(1.0, 0.5))
        return sparse.log_evidence() - flat.log_evidence()

    assert gain(few) > 1
    assert gain(many) < 0
