"""What is believed: Dirichlet rows and their evidence."""

import warnings
from collections import defaultdict
from math import lgamma, log, log1p

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import bayesmdp as bm

S, A = 4, 2
LABELS = ["ward", "icu", "home", "grave"]
TASK = bm.Task(
    S, A, [0, 0, 1, -1], discount=0.9, terminal=["home", "grave"], state_labels=LABELS
)
Triplet = tuple[int, int, int]
LOGS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, A - 1), st.integers(0, S - 1)),
    min_size=1,
    max_size=25,
)
# Support that rules nothing out that LOGS can hold, but something a prior would.
SUPPORT = np.ones((S, A, S), dtype=bool)
SUPPORT[2:, :, :2] = False
PRIORS = [
    bm.SymmetricPrior(),
    bm.SymmetricPrior(0.3, support=SUPPORT),
    bm.SparsePrior(0.7, fallback="grave"),
]


def count(rows: list[Triplet], numbers: list[int] | None = None) -> bm.Counts:
    return bm.Counts.from_arrays(*zip(*rows, strict=True), numbers)


def visits(table: dict[tuple[int, int], int], n_states: int = S) -> bm.Counts:
    """Counts with given visits of pairs, all of them to state 1."""
    rows = [(s, a, 1) for s, a in table]
    return bm.Counts.from_arrays(
        *zip(*rows, strict=True),
        list(table.values()),
        n_states=n_states,
        n_actions=A,
    )


def dense_alpha(posterior: bm.Posterior) -> np.ndarray:
    """Dirichlet parameters as ``[S, A, S]``, zero where impossible."""
    rows = posterior.layout
    dense = np.zeros((rows.n_states, rows.n_actions, rows.n_states))
    row = rows.row_of_entry
    dense[rows.state[row], rows.action[row], rows.next_state] = posterior.alpha
    return dense


def assert_same(one: bm.Posterior, two: bm.Posterior) -> None:
    assert np.array_equal(one.alpha, two.alpha)
    for name in ("pair", "indptr", "next_state"):
        assert np.array_equal(getattr(one.layout, name), getattr(two.layout, name))
    assert np.array_equal(one.available, two.available)
    assert one.counts == two.counts


# --- fit -----------------------------------------------------------------------


def test_counts_are_added_to_the_concentration() -> None:
    posterior = bm.fit(
        count([(0, 0, 1), (0, 0, 2), (1, 1, 3)], [2, 1, 5]),
        TASK,
        prior=bm.SymmetricPrior(0.5),
    )
    expected = np.zeros((S, A, S))
    expected[:2] = 0.5
    expected[0, 0] = [0.5, 2.5, 1.5, 0.5]
    expected[1, 1] = [0.5, 0.5, 0.5, 5.5]
    assert np.array_equal(dense_alpha(posterior), expected)


def test_the_default_prior_is_flat() -> None:
    posterior = bm.fit(count([(0, 0, 1)]), TASK, prior=bm.SymmetricPrior())
    assert dense_alpha(posterior)[0].tolist() == [[1, 2, 1, 1], [1, 1, 1, 1]]


def test_terminal_states_have_no_rows() -> None:
    posterior = bm.fit(count([(0, 0, 1)]), TASK, prior=bm.SymmetricPrior())
    assert posterior.layout.state.tolist() == [0, 0, 1, 1]
    assert posterior.available.tolist() == [[True] * 2] * 2 + [[False] * 2] * 2


def test_staying_in_a_terminal_state_is_ignored_and_said() -> None:
    plain = bm.fit(count([(0, 0, 1)]), TASK, prior=bm.SymmetricPrior())
    logged = bm.fit(
        count([(0, 0, 1), (2, 0, 2)], [1, 3]), TASK, prior=bm.SymmetricPrior()
    )
    assert np.array_equal(plain.alpha, logged.alpha)
    assert "3 logged transitions in terminal states ignored" in logged.summary()
    assert "ignored" not in plain.summary()


def test_transitions_and_their_counts_give_the_same_posterior() -> None:
    log_ = bm.Transitions.from_arrays([0, 1, 0], [0, 1, 0], [1, 3, 1])
    assert_same(
        bm.fit(log_, TASK, prior=bm.SymmetricPrior()),
        bm.fit(log_.counts(), TASK, prior=bm.SymmetricPrior()),
    )


def test_the_mean_is_alpha_over_its_sum() -> None:
    posterior = bm.fit(
        count([(0, 0, 1), (1, 1, 3)], [4, 2]), TASK, prior=bm.SymmetricPrior()
    )
    mean = posterior.mean()
    assert mean.to_dense()[0, 0] == pytest.approx(np.array([1, 5, 1, 1]) / 8)
    assert mean.to_dense()[1, 1] == pytest.approx(np.array([1, 1, 1, 3]) / 6)
    assert np.array_equal(mean.available, posterior.available)


def test_the_arrays_of_a_posterior_are_read_only() -> None:
    posterior = bm.fit(count([(0, 0, 1)]), TASK, prior=bm.SymmetricPrior())
    arrays = [posterior.alpha, posterior.available, posterior.layout.next_state]
    arrays += [
        posterior.mean().probability,
        posterior.layout.pair,
        posterior.layout.indptr,
    ]
    assert not any(array.flags.writeable for array in arrays)


def test_the_summary_says_what_the_belief_rests_on() -> None:
    said = bm.fit(
        count([(0, 0, 1), (1, 1, 3)], [4, 2]), TASK, prior=bm.SymmetricPrior()
    ).summary()
    assert "Posterior of 4 states (2 terminal) and 2 actions from 6 trans" in said
    assert "prior: SymmetricPrior(concentration=1.0)" in said
    assert "4 of 4 pairs available" in said
    assert "visits of a pair: median 1, from 0 to 4; 2 pairs never visited" in said


# --- update --------------------------------------------------------------------


@given(LOGS, LOGS, st.sampled_from(PRIORS), st.integers(0, 4))
def test_an_update_is_a_fit_on_all_data(
    old: list[Triplet],
    new: list[Triplet],
    prior: bm.SymmetricPrior | bm.SparsePrior,
    min_count: int,
) -> None:
    first = bm.fit(count(old), TASK, prior=prior, min_count=min_count)
    at_once = bm.fit(count(old + new), TASK, prior=prior, min_count=min_count)
    assert_same(first.update(count(new)), at_once)


def test_an_update_leaves_the_old_posterior_alone() -> None:
    posterior = bm.fit(count([(0, 0, 1)]), TASK, prior=bm.SymmetricPrior())
    before = posterior.alpha.copy()
    posterior.update(count([(0, 0, 1)]))
    assert np.array_equal(posterior.alpha, before)
    assert posterior.counts.total == 1


def test_an_update_with_nothing_changes_nothing() -> None:
    posterior = bm.fit(count([(0, 0, 1)]), TASK, prior=bm.SymmetricPrior())
    assert_same(posterior.update(bm.Counts.from_arrays([], [], [])), posterior)


def test_an_update_can_make_a_pair_available() -> None:
    posterior = bm.fit(
        count([(0, 0, 1), (0, 1, 2)], [5, 3]),
        TASK,
        min_count=5,
        prior=bm.SymmetricPrior(),
    )
    assert posterior.available[0].tolist() == [True, False]
    updated = posterior.update(count([(0, 1, 2)], [2]))
    assert updated.available[0].tolist() == [True, True]
    assert dense_alpha(updated)[0, 1].tolist() == [1, 1, 6, 1]


def test_a_support_that_changes_later_does_not_change_the_prior() -> None:
    support = np.ones((S, S), dtype=bool)
    posterior = bm.fit(
        count([(0, 0, 1)]), TASK, prior=bm.SymmetricPrior(support=support)
    )
    support[:, 3] = False
    updated = posterior.update(count([(0, 0, 1)]))
    assert updated.layout.next_state.size == posterior.layout.next_state.size


# --- evidence ------------------------------------------------------------------


def sequential(rows: list[Triplet], concentration: float, n_next: int) -> float:
    """Sum of log predictive probabilities, one transition after the other."""
    seen: dict[tuple[int, int], list[float]] = defaultdict(
        lambda: [concentration] * n_next
    )
    total = 0.0
    for state, action, next_state in rows:
        row = seen[state, action]
        total += log(row[next_state] / sum(row))
        row[next_state] += 1
    return total


@given(LOGS, st.sampled_from([0.1, 1.0, 2.5]))
def test_the_evidence_is_the_product_of_predictions(
    rows: list[Triplet], concentration: float
) -> None:
    posterior = bm.fit(count(rows), TASK, prior=bm.SymmetricPrior(concentration))
    expected = sequential(rows, concentration, S)
    assert posterior.log_evidence() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("concentration", [0.5, 1.0, 3.0])
def test_the_evidence_of_two_outcomes_is_an_integral(concentration: float) -> None:
    task = bm.Task(2, 1, [0, 1], discount=0.9, terminal=1)
    posterior = bm.fit(
        count([(0, 0, 0), (0, 0, 1)], [3, 4]),
        task,
        prior=bm.SymmetricPrior(concentration),
    )
    prior = stats.beta(concentration, concentration)
    integral, _ = integrate.quad(
        lambda p: p**3 * (1 - p) ** 4 * prior.pdf(p), 0, 1, epsabs=1e-13
    )
    assert posterior.log_evidence() == pytest.approx(log(integral), abs=1e-8)


def test_the_evidence_of_three_outcomes_is_an_integral() -> None:
    task = bm.Task(3, 1, [0, 0, 1], discount=0.9, terminal=[1, 2])
    posterior = bm.fit(
        count([(0, 0, 0), (0, 0, 1), (0, 0, 2)], [2, 1, 3]),
        task,
        prior=bm.SymmetricPrior(2.0),
    )
    density = 120.0  # Gamma(6) / Gamma(2)^3, times p q r
    integral, _ = integrate.dblquad(
        lambda q, p: density * p**3 * q**2 * (1 - p - q) ** 4,
        0,
        1,
        0,
        lambda p: 1 - p,
        epsabs=1e-13,
    )
    assert posterior.log_evidence() == pytest.approx(log(integral), abs=1e-8)


def test_the_evidence_is_of_available_pairs_only() -> None:
    rows = [(0, 0, 1)] * 5 + [(0, 1, 2)] * 2 + [(1, 0, 3)] * 6
    posterior = bm.fit(count(rows), TASK, min_count=5, prior=bm.SymmetricPrior())
    kept = [row for row in rows if row[:2] != (0, 1)]
    assert posterior.log_evidence() == pytest.approx(sequential(kept, 1.0, S))


@pytest.mark.parametrize(
    ("c", "n"), [(1e-6, 10**6), (1e-12, 10**4)], ids=["millionth", "trillionth"]
)
def test_the_evidence_keeps_a_small_concentration_beside_a_large_count(
    c: float, n: int
) -> None:
    """Two next states, ``n`` times each; ``alpha - n`` lost most digits of ``c``."""
    rows = [(0, 0, 1), (0, 0, 2)]
    posterior = bm.fit(count(rows, [n, n]), TASK, prior=bm.SymmetricPrior(c))
    expected = lgamma(S * c) - lgamma(S * c + 2 * n) + 2 * (lgamma(c + n) - lgamma(c))
    assert posterior.log_evidence() == pytest.approx(expected, abs=1e-6)


def test_the_evidence_of_a_large_count_has_its_closed_form() -> None:
    n = 10**6
    posterior = bm.fit(count([(0, 0, 1)], [n]), TASK, prior=bm.SymmetricPrior())
    expected = lgamma(S) + lgamma(1 + n) - lgamma(S + n)
    assert posterior.log_evidence() == pytest.approx(expected, rel=1e-9)
    assert expected == pytest.approx(log(6) - 3 * log(n) - log1p(6 / n), rel=1e-6)


# --- min_count -----------------------------------------------------------------

WIDE = bm.Task(5, A, np.zeros(5), discount=0.9, terminal=4)


def test_pairs_with_enough_visits_are_kept() -> None:
    table = {(0, 0): 5, (0, 1): 4, (1, 0): 7, (1, 1): 5, (2, 0): 5, (3, 1): 9}
    posterior = bm.fit(visits(table, 5), WIDE, min_count=5, prior=bm.SymmetricPrior())
    kept = [[True, False], [True, True], [True, False], [False, True], [False] * 2]
    assert posterior.available.tolist() == kept
    assert posterior.min_count == 5
    assert posterior.availability.n_dropped_visits == 4
    said = posterior.summary()
    assert "5 of 8 pairs available (at least 5 visits; 4 logged" in said
    assert "kept" not in said


def test_a_state_without_enough_visits_keeps_its_most_visited_pair() -> None:
    table = {(0, 0): 5, (1, 0): 1, (1, 1): 3, (2, 0): 5, (3, 0): 5}
    posterior = bm.fit(visits(table, 5), WIDE, min_count=5, prior=bm.SymmetricPrior())
    assert posterior.available[1].tolist() == [False, True]
    assert posterior.availability.rescued.tolist() == [1]
    said = "1 state (1) without such a pair: most visited one kept"
    assert said in posterior.summary()


def test_of_equally_visited_pairs_the_first_is_kept() -> None:
    table = {(0, 0): 5, (1, 0): 3, (1, 1): 3, (2, 0): 5, (3, 0): 5}
    posterior = bm.fit(visits(table, 5), WIDE, min_count=5, prior=bm.SymmetricPrior())
    assert posterior.available[1].tolist() == [True, False]


def test_a_state_never_visited_keeps_every_action() -> None:
    posterior = bm.fit(
        visits({(0, 0): 5, (2, 0): 2}, 5), WIDE, min_count=5, prior=bm.SymmetricPrior()
    )
    kept = [[True, False], [True, True], [True, False], [True, True], [False] * 2]
    assert posterior.available.tolist() == kept
    assert posterior.availability.unvisited.tolist() == [1, 3]
    assert posterior.availability.rescued.tolist() == [2]
    assert "2 states (1, 3) never visited: all actions kept" in posterior.summary()


def test_counts_of_unavailable_pairs_stay_on_record() -> None:
    table = {(0, 0): 5, (0, 1): 4, (1, 0): 5}
    posterior = bm.fit(visits(table), TASK, min_count=5, prior=bm.SymmetricPrior())
    assert posterior.counts == visits(table)
    assert (0, 1) not in set(
        zip(
            posterior.layout.state.tolist(),
            posterior.layout.action.tolist(),
            strict=True,
        )
    )


def test_a_min_count_of_0_keeps_everything_in_silence() -> None:
    posterior = bm.fit(visits({(0, 0): 1}), TASK, prior=bm.SymmetricPrior())
    assert posterior.availability.n_available == 4
    assert "4 of 4 pairs available\n" in posterior.summary()


# --- priors --------------------------------------------------------------------


def test_a_sparse_prior_believes_in_what_was_seen_and_the_fallback() -> None:
    posterior = bm.fit(
        count([(0, 0, 1), (0, 0, 2), (1, 1, 3)], [2, 1, 4]),
        TASK,
        prior=bm.SparsePrior(0.5, fallback="grave"),
    )
    expected = np.zeros((S, A, S))
    expected[0, 0] = [0, 2.5, 1.5, 0.5]
    expected[0, 1] = expected[1, 0] = [0, 0, 0, 0.5]
    expected[1, 1] = [0, 0, 0, 4.5]
    assert np.array_equal(dense_alpha(posterior), expected)


def test_a_sparse_prior_without_fallback_believes_in_what_was_seen() -> None:
    rows = [(0, 0, 1), (0, 0, 2), (1, 1, 3)]
    posterior = bm.fit(count(rows), TASK, prior=bm.SparsePrior(), min_count=1)
    assert posterior.layout.next_state.tolist() == [1, 2, 3]
    assert posterior.alpha.tolist() == [2, 2, 2]


def test_the_support_of_a_sparse_prior_grows_with_the_data() -> None:
    prior = bm.SparsePrior(fallback=3)
    posterior = bm.fit(count([(0, 0, 1)]), TASK, prior=prior)
    updated = posterior.update(count([(0, 0, 0)]))
    assert dense_alpha(posterior)[0, 0].tolist() == [0, 2, 0, 1]
    assert dense_alpha(updated)[0, 0].tolist() == [2, 2, 0, 1]


def test_a_summary_does_without_evidence_where_there_is_none() -> None:
    prior = bm.SparsePrior(fallback=3)
    assert "evidence" not in bm.fit(count([(0, 0, 1)]), TASK, prior=prior).summary()


@given(st.integers(0, 2**32), st.integers(0, 3))
def test_triplets_and_a_mask_are_the_same_support(seed: int, min_count: int) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.random((S, A, S)) < 0.6
    mask[:, :, 1] = True
    columns = np.nonzero(mask)
    order = rng.integers(0, columns[0].size, columns[0].size)
    triplets = tuple(np.concatenate([c, c[order]]) for c in columns)  # some twice
    counts = count([(0, 0, 1), (0, 1, 1), (1, 1, 1)], [3, 1, 2])
    by_mask, by_triplets = (
        bm.fit(
            counts,
            TASK,
            prior=bm.SymmetricPrior(0.5, support=support),
            min_count=min_count,
        )
        for support in (mask, triplets)
    )
    assert_same(by_mask, by_triplets)


def test_a_support_of_states_holds_for_every_action() -> None:
    mask = np.array([[1, 1, 0, 0], [0, 1, 1, 1], [0] * 4, [0] * 4], dtype=bool)
    posterior = bm.fit(count([(0, 0, 1)]), TASK, prior=bm.SymmetricPrior(support=mask))
    possible = dense_alpha(posterior) > 0
    assert np.array_equal(possible[:, 0], mask)
    assert np.array_equal(possible[:, 1], mask)


def test_a_count_outside_the_support_of_an_unavailable_pair_is_no_matter() -> None:
    mask = np.ones((S, A, S), dtype=bool)
    mask[0, 1, 2] = False
    counts = count([(0, 0, 1), (0, 1, 2)], [5, 1])
    prior = bm.SymmetricPrior(support=mask)
    assert bm.fit(counts, TASK, prior=prior, min_count=5).counts.total == 6
    with pytest.raises(bm.errors.PriorError, match="state ward, action 1"):
        bm.fit(counts, TASK, prior=prior)


@pytest.mark.parametrize(("concentration", "warned"), [(1.01, True), (0.99, False)])
def test_a_prior_that_outweighs_the_data_is_warned_of(
    concentration: float, warned: bool
) -> None:
    """Two logged pairs of three next states: 6 pseudo-counts against 6 visits."""
    known = bm.Task(3, 2, reward=[0, 1, 0], discount=0.9, terminal=[1, 2])
    counts = bm.Counts.from_arrays([0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        bm.fit(counts, known, prior=bm.SymmetricPrior(concentration))
        bm.fit(counts, known, prior=bm.HierarchicalPrior())
    assert [type(x.message) for x in told] == [bm.errors.PriorWarning] * warned
    for x in told:
        assert "pseudo-counts sum to 6.06, and visits to 6; use Hier" in str(x.message)
        assert x.filename == __file__
    flat = {"flat": bm.SymmetricPrior(5.0)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bm.compare_priors(flat, counts, known, n_folds=0)
        bm.check_calibration(known, flat["flat"], n_datasets=10)
