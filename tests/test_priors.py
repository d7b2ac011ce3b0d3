"""One contract for all priors: every law here holds for every prior, by name."""

import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bayesmdp as bm

S, A = 6, 3
LABELS = ("ward", "icu", "theatre", "rehab", "home", "grave")
TASK = bm.Task(
    S,
    A,
    [0, 0, 0, 0, 1, -1],
    discount=0.9,
    terminal=["home", "grave"],
    state_labels=LABELS,
)
MASK = np.ones((S, A, S), dtype=bool)
MASK[0, :, 3] = MASK[1, 2, :2] = False

# Every prior, made for a support; supports are permuted when states are.
CASES: dict[str, Callable[[NDArray[np.bool_]], bm.priors.Prior]] = {
    "symmetric": lambda mask: bm.SymmetricPrior(0.3),
    "symmetric on a support": lambda mask: bm.SymmetricPrior(0.3, mask),
    "symmetric on triplets": lambda mask: bm.SymmetricPrior(0.3, np.nonzero(mask)),
    "scaled": lambda mask: bm.ScaledPrior(2.0),
    "scaled on a support": lambda mask: bm.ScaledPrior(2.0, mask),
    "sparse": lambda mask: bm.SparsePrior(0.7, "grave"),
    "evidence": lambda mask: bm.EvidencePrior(),
    "evidence on a support": lambda mask: bm.EvidencePrior(mask),
    "hierarchical": lambda mask: bm.RandomSupportPrior(0.8, 0.7),
    "hierarchical on a support": lambda mask: bm.RandomSupportPrior(support=mask),
    "hierarchical, lumped": lambda mask: bm.RandomSupportPrior(fallback="grave"),
    "hierarchical, lumped on a support": lambda mask: bm.RandomSupportPrior(
        support=mask, fallback="grave"
    ),
    "fallback over symmetric": lambda mask: bm.FallbackPrior(
        bm.SymmetricPrior(0.3), "grave"
    ),
    "fallback outside the support": lambda mask: bm.FallbackPrior(
        bm.ScaledPrior(1.0, mask & (np.arange(S) != TASK.state("grave"))), "grave", 2.0
    ),
    "fallback over sparse": lambda mask: bm.FallbackPrior(bm.SparsePrior(), "grave"),
    "fallback over evidence": lambda mask: bm.FallbackPrior(
        bm.EvidencePrior(), "grave", 0.5
    ),
    "fallback over hierarchical": lambda mask: bm.FallbackPrior(
        bm.RandomSupportPrior(), "grave"
    ),
    "fallback over fallback": lambda mask: bm.FallbackPrior(
        bm.FallbackPrior(bm.ScaledPrior(), "grave"), "icu"
    ),
}
# Mixtures have no rows of their own: only what holds for every belief is asked of them.
MIXTURES: dict[str, Callable[[NDArray[np.bool_]], Any]] = {
    "mixture": lambda mask: bm.MixturePrior(
        [bm.SymmetricPrior(0.3), bm.ScaledPrior(2.0), bm.RandomSupportPrior()],
        weights=[0.5, 0.3, 0.2],
    ),
    "mixture of supports": lambda mask: bm.MixturePrior(
        [CASES["fallback outside the support"](mask), bm.SymmetricPrior(0.3, mask)]
    ),
    "mixture as given": lambda mask: bm.MixturePrior(
        [bm.SparsePrior(0.7, "grave"), bm.EvidencePrior()], posterior_weights=[0.6, 0.4]
    ),
}
BELIEFS: dict[str, Callable[[NDArray[np.bool_]], Any]] = CASES | MIXTURES
# A number chosen from the pairs that were asked for: rows depend on which.
CHOOSING = {
    "evidence",
    "evidence on a support",
    "fallback over evidence",
}
LOOKING = {
    "sparse",
    "hierarchical, lumped",
    "hierarchical, lumped on a support",
    "fallback over sparse",
    "mixture as given",
}
every_belief = pytest.mark.parametrize("name", BELIEFS)
every_prior = pytest.mark.parametrize("name", CASES)


def random_log(seed: int, n: int = 120) -> list[tuple[int, int, int]]:
    """Transitions of live states that fit every support; some pairs are not tried."""
    rng = np.random.default_rng(seed)
    theta = rng.dirichlet(np.full(S, 0.4), size=(S, A)) * MASK
    theta[:, :, TASK.state("grave")] = 0  # one case rules it out
    theta /= theta.sum(axis=2, keepdims=True)
    pairs = [(s, a) for s in range(4) for a in range(A) if (s, a) != (3, 2)]
    chosen = rng.integers(len(pairs), size=n)
    return [(*pairs[i], int(rng.choice(S, p=theta[pairs[i]]))) for i in chosen]


LOG = random_log(1)
COUNTS = bm.Counts.from_arrays(*zip(*LOG, strict=True), n_states=S, n_actions=A)
PAIR = np.arange(4 * A)


def dense(rows: Any, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
    """Parameters as ``[S, A, S]``, zero where impossible."""
    out = np.zeros((S * A, S))
    out[rows.pair[rows.row_of_entry], rows.next_state] = alpha
    return out.reshape(S, A, S)


def asked(prior: bm.priors.Prior) -> NDArray[np.float64]:
    return dense(*prior.concentrations(PAIR, COUNTS, TASK))


@every_prior
def test_rows_are_sorted_of_the_pairs_asked_for_and_positive(name: str) -> None:
    pair = np.array([0, 1, 4, 5, 8, 11])
    rows, alpha = CASES[name](MASK).concentrations(pair, COUNTS, TASK)
    assert rows.pair.tolist() == pair.tolist()
    assert (rows.n_states, rows.n_actions) == (S, A)
    assert rows.indptr[0] == 0
    assert rows.indptr[-1] == rows.next_state.size == alpha.size
    assert (np.diff(rows.indptr) > 0).all()
    key = rows.row_of_entry * S + rows.next_state
    assert (np.diff(key) > 0).all()
    assert ((rows.next_state >= 0) & (rows.next_state < S)).all()
    assert np.isfinite(alpha).all()
    assert (alpha > 0).all()


@every_prior
def test_what_was_observed_is_possible(name: str) -> None:
    rows, _ = CASES[name](MASK).concentrations(PAIR, COUNTS, TASK)
    _, entry = rows.find(COUNTS.state, COUNTS.action, COUNTS.next_state)
    assert (entry >= 0).all()


@every_prior
def test_the_same_question_has_the_same_answer_and_changes_nothing(name: str) -> None:
    prior, pair = CASES[name](MASK), PAIR.copy()
    before = COUNTS.count.copy()
    one, two = (prior.concentrations(pair, COUNTS, TASK) for _ in range(2))
    assert np.array_equal(one[1], two[1])
    assert np.array_equal(one[0].next_state, two[0].next_state)
    assert np.array_equal(pair, PAIR)
    assert np.array_equal(COUNTS.count, before)


@every_prior
def test_a_pair_has_the_same_row_whichever_others_are_asked_for(name: str) -> None:
    some = PAIR[1::2]
    prior = CASES[name](MASK)
    few = dense(*prior.concentrations(some, COUNTS, TASK)).reshape(-1, S)
    same = np.array_equal(few[some], asked(prior).reshape(-1, S)[some])
    assert same == (name not in CHOOSING)


@every_prior
@pytest.mark.parametrize("seed", [0, 1])
def test_relabelling_states_permutes_rows(name: str, seed: int) -> None:
    to = np.random.default_rng(seed).permutation(S)  # old state -> new state
    back = np.argsort(to)
    task = bm.Task(
        S,
        A,
        np.asarray(TASK.reward)[back],
        discount=0.9,
        terminal=to[TASK.terminal],
        state_labels=[LABELS[i] for i in back],
    )
    counts = bm.Counts.from_arrays(
        to[COUNTS.state], COUNTS.action, to[COUNTS.next_state], COUNTS.count
    )
    mask = MASK[back][:, :, back]
    if name == "fallback outside the support":  # its mask names the fallback by index
        prior: bm.priors.Prior = bm.FallbackPrior(
            bm.ScaledPrior(1.0, mask & (back != TASK.state("grave"))), "grave", 2.0
        )
    else:
        prior = CASES[name](mask)
    pair = np.sort((to[:4][:, None] * A + np.arange(A)).ravel())
    found = dense(*prior.concentrations(pair, counts, task))
    expected = asked(CASES[name](MASK))
    assert found[to][:, :, to] == pytest.approx(expected, rel=1e-6)  # six digits chosen


def same_parameters(one: Any, other: Any) -> None:
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        assert np.array_equal(mine, theirs)


@every_belief
@pytest.mark.parametrize("min_count", [0, 4])
def test_an_update_is_a_fit_on_all_data(name: str, min_count: int) -> None:
    prior = BELIEFS[name](MASK)
    halves = [
        bm.Counts.from_arrays(*zip(*part, strict=True), n_states=S, n_actions=A)
        for part in (LOG[:60], LOG[60:])
    ]
    first = bm.fit(halves[0], TASK, prior=prior, min_count=min_count)
    updated = first.update(halves[1])
    at_once = bm.fit(COUNTS, TASK, prior=prior, min_count=min_count)
    same_parameters(updated, at_once)
    one, other = updated.rows().layout, at_once.rows().layout
    assert np.array_equal(one.next_state, other.next_state)


@every_belief
def test_padding_after_the_end_changes_nothing(name: str) -> None:
    prior = BELIEFS[name](MASK)
    padding = bm.Counts.from_arrays([4, 5], [0, 1], [4, 5], [50, 30])
    plain = bm.fit(COUNTS, TASK, prior=prior)
    same_parameters(plain.update(padding), plain)


@every_belief
def test_draws_are_distributions_and_policies_can_be_evaluated(name: str) -> None:
    posterior = bm.fit(COUNTS, TASK, prior=BELIEFS[name](MASK))
    draws = posterior.draws(64, seed=0)
    theta = draws.dynamics(3).to_dense()[:4]
    assert theta.sum(axis=2) == pytest.approx(1.0, abs=1e-12)
    evaluation = bm.evaluate([0, 1, 2, 2, 0, 0], draws)
    assert np.isfinite(evaluation.value).all()
    assert np.abs(evaluation.value).max() <= 1.0
    assert evaluation.start_epistemic_sd > 0


@every_belief
def test_evidence_exists_where_rows_are_not_made_from_the_data(name: str) -> None:
    posterior = bm.fit(COUNTS, TASK, prior=BELIEFS[name](MASK))
    assert posterior.prior.looks_at_data == (name in LOOKING)
    if name in LOOKING:
        assert "evidence -" not in posterior.summary()
        with pytest.raises(bm.errors.PriorError, match="has no evidence"):
            posterior.log_evidence()
    else:
        assert -1000 < posterior.log_evidence() < 0


@pytest.mark.parametrize("name", sorted(set(CASES) - LOOKING - CHOOSING))
def test_evidence_is_the_product_of_predictions(name: str) -> None:
    """Predict each transition from those before it by the posterior mean."""
    prior, total = CASES[name](MASK), 0.0
    counts = np.zeros((S, A, S), dtype=np.int64)
    for s, a, t in LOG:
        pair = np.array([s * A + a])
        rows, alpha = prior.concentrations(pair, bm.Counts.from_dense(counts), TASK)
        row = dense(rows, alpha)[s, a] + counts[s, a]
        total += np.log(row[t] / row.sum())
        counts[s, a, t] += 1
    posterior = bm.fit(COUNTS, TASK, prior=prior)
    assert posterior.log_evidence() == pytest.approx(total, abs=1e-9)


@every_prior
def test_the_summary_names_the_prior_and_the_number_it_chose(name: str) -> None:
    prior = CASES[name](MASK)
    said = bm.fit(COUNTS, TASK, prior=prior).summary().splitlines()[1]
    assert said.strip().startswith(f"prior: {prior}")
    chosen = bm.priors.tuned(prior, PAIR, COUNTS, TASK)
    assert ("which chose" in said) == (name in CHOOSING) == (chosen is not prior)
    if name in CHOOSING:
        assert said.endswith(f"which chose {chosen}")
        assert np.array_equal(asked(chosen), asked(prior))


@every_prior
def test_the_text_of_a_prior_makes_it_again(name: str) -> None:
    prior = CASES[name](MASK)
    again = eval(repr(prior), vars(bm))  # a support is not shown
    assert repr(again) == repr(prior)
    if "support" not in name and "triplets" not in name:
        assert np.array_equal(asked(again), asked(prior))


@every_prior
def test_a_prior_survives_pickling(name: str) -> None:
    prior = CASES[name](MASK)
    again = pickle.loads(pickle.dumps(prior))
    assert np.array_equal(asked(again), asked(prior))


def is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(isinstance(x, np.ndarray) for x in value)
    kinds = (int, float, str, np.ndarray, type(None), bm.priors.Prior)
    return isinstance(value, kinds)


@every_prior
def test_a_prior_is_frozen_and_made_of_plain_things(name: str) -> None:
    prior: Any = CASES[name](MASK)
    assert isinstance(prior, bm.priors.Prior)
    for field in dataclasses.fields(prior):
        assert is_plain(getattr(prior, field.name))
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(prior, field.name, 1.0)


def test_a_support_that_changes_later_changes_no_prior() -> None:
    for make in (bm.ScaledPrior, bm.EvidencePrior, bm.RandomSupportPrior):
        mask = MASK.copy()
        prior = make(support=mask)
        before = asked(prior)
        mask[:] = True
        assert np.array_equal(asked(prior), before)


# --- what each prior says ------------------------------------------------------


def test_a_scaled_prior_adds_up_to_its_total_in_every_row() -> None:
    alpha = asked(bm.ScaledPrior(2.0, MASK))
    assert alpha[:4].sum(axis=2) == pytest.approx(2.0)
    assert alpha[0, 0].tolist() == pytest.approx([0.4, 0.4, 0.4, 0, 0.4, 0.4])


def test_a_fallback_adds_its_weight_to_the_base() -> None:
    base = bm.SymmetricPrior(0.3, MASK)
    added = asked(bm.FallbackPrior(base, "grave", 1.5)) - asked(base)
    expected = np.zeros((S, A, S))
    expected[:4, :, TASK.state("grave")] = 1.5
    assert added == pytest.approx(expected, abs=1e-15)


def test_a_fallback_makes_the_sparse_prior_with_one() -> None:
    """A fallback never observed weighs the same either way."""
    one = asked(bm.FallbackPrior(bm.SparsePrior(0.7), "grave", 0.7))
    assert np.array_equal(one, asked(bm.SparsePrior(0.7, fallback="grave")))


def test_a_fallback_widens_only_rows_that_lack_it() -> None:
    mask = MASK.copy()
    mask[::2, :, TASK.state("grave")] = False
    base = bm.SymmetricPrior(0.3, mask)
    alpha = asked(bm.FallbackPrior(base, "grave", 1.0))
    grave = alpha[:4, 0, TASK.state("grave")]
    assert grave.tolist() == pytest.approx([1.0, 1.3, 1.0, 1.3])
    others = np.arange(S) != TASK.state("grave")
    assert np.array_equal(alpha[:, :, others], asked(base)[:, :, others])


@pytest.mark.parametrize(
    ("name", "made"),
    {
        "symmetric": bm.SymmetricPrior,
        "sparse": bm.SparsePrior,
        "scaled": bm.ScaledPrior,
        "evidence": bm.EvidencePrior,
        "random-support": bm.RandomSupportPrior,
        "hierarchical": bm.HierarchicalPrior,
    }.items(),
)
def test_words_name_priors(name: str, made: type) -> None:
    assert type(bm.priors.named_prior(name)) is made
    careful = bm.priors.named_prior(name, fallback="death")
    assert careful.fallback == "death"  # type: ignore[attr-defined]
    if name not in ("evidence", "hierarchical"):
        given = bm.priors.named_prior(name, concentration=0.5)
        assert 0.5 in vars(given).values()


def test_words_that_name_no_prior() -> None:
    with pytest.raises(
        bm.errors.PriorError, match="must be one of hierarchical, symmetric"
    ):
        bm.priors.named_prior("flat")


def test_a_hierarchical_prior_has_no_concentration_to_give() -> None:
    with pytest.raises(bm.errors.PriorError, match="learns its strengths"):
        bm.priors.named_prior("hierarchical", concentration=1.0)


def test_usual_priors_begin_with_ones_own_and_hold_it_once() -> None:
    names = ["hierarchical", "symmetric", "scaled"]
    for name in names:
        found = bm.priors.usual_priors(bm.priors.named_prior(name))
        assert list(found) == ["as fitted", *(x for x in names if x != name)]
    restricted = bm.HierarchicalPrior(support=np.ones((3, 3), dtype=bool))
    assert list(bm.priors.usual_priors(restricted)) == ["as fitted", *names]
    given = bm.priors.usual_priors(bm.SparsePrior(), ["sparse"], fallback="death")
    assert str(given["sparse"]) == "SparsePrior(concentration=1.0, fallback='death')"


def test_no_fallback_is_built_on_a_hierarchical_prior() -> None:
    with pytest.raises(bm.errors.PriorError, match="must be a prior of Dirichlet rows"):
        bm.FallbackPrior(bm.HierarchicalPrior(), "death")  # type: ignore[arg-type]
