"""Prior sensitivity, against closed forms and plain loops."""

import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from bad_input import COUNTS, EVEN, LOG, case, check, counted, labelled, task

import bayesmdp as bm
from bayesmdp.diagnostics import PriorSensitivity
from bayesmdp.errors import (
    ArgumentError,
    CountsError,
    EndlessError,
    PolicyError,
    PriorError,
    TaskError,
)

WORLD = bm.worlds.gridworld()
DATA = WORLD.sample(300, seed=0)
RIGHT = np.ones(25, dtype=int)
PRIORS = {
    "neighbours": bm.SymmetricPrior(support=WORLD.support),
    "any": bm.SymmetricPrior(0.2),
    "careful": bm.SparsePrior(1.0, fallback=20),
}
POSTERIORS = [bm.fit(DATA, WORLD.task, prior=prior) for prior in PRIORS.values()]


@cache
def whole() -> PriorSensitivity:
    """Not at import: it compiles."""
    return bm.prior_sensitivity(RIGHT, DATA, WORLD.task, PRIORS, n_draws=200, seed=5)


def test_a_posterior_is_not_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    own = POSTERIORS[1]
    fitted: list[Any] = []

    def noted(*data: Any, **how: Any) -> Any:
        fitted.append(how["prior"])
        return bm.fit(*data, **how)

    monkeypatch.setattr("bayesmdp.diagnostics._advice.fit", noted)
    how: Any = {"n_draws": 200, "seed": 5}
    found = bm.prior_sensitivity(RIGHT, own, own.task, PRIORS, **how)
    assert fitted == [PRIORS["neighbours"], PRIORS["careful"]]
    assert found.to_dict() == whole().to_dict()
    fitted.clear()  # one of other pairs is another posterior
    logged, alone = bm.policies.behaviour(own), {"any": own.prior}
    bm.prior_sensitivity(logged, own, own.task, alone, min_count=1, **how)
    assert fitted == [own.prior]


def test_a_single_choice_has_its_closed_form() -> None:
    """One step to reward 1 or nothing: p ~ Beta(a, b); 4 Monte Carlo errors."""
    g = 0.9
    known = bm.Task(3, 1, reward=[0, 1, 0], discount=g, start=0, terminal=[1, 2])
    counts = bm.Counts.from_arrays([0, 0], [0, 0], [1, 2], [6, 3])
    only = np.zeros((3, 3), dtype=bool)
    only[:, 1:] = True
    priors = {str(c): bm.SymmetricPrior(c, only) for c in (0.5, 4.0)}
    found = bm.prior_sensitivity([0, 0, 0], counts, known, priors, n_draws=4000)
    for p, c in enumerate((0.5, 4.0)):
        a, b = 6 + c, 3 + c
        mean = a / (a + b)
        variance = a * b / (a + b) ** 2 / (a + b + 1)
        chance = mean - mean**2 - variance
        for name, wanted in (
            ("value", g * mean),
            ("epistemic_sd", g * math.sqrt(variance)),
            ("aleatoric_sd", g * math.sqrt(chance)),
        ):
            for got, error in (
                (getattr(found, name)[p, 0], getattr(found, f"{name}_mcse")[p, 0]),
                (
                    getattr(found, f"start_{name}")[p],
                    getattr(found, f"start_{name}_mcse")[p],
                ),
            ):
                assert abs(got - wanted) <= 4 * error + 1e-12
    assert found.predicted_value == pytest.approx(found.start_value, abs=1e-9)


def test_values_and_doubts_are_those_of_an_evaluation_under_each_prior() -> None:
    for p, posterior in enumerate(POSTERIORS):
        wanted = bm.evaluate(RIGHT, posterior.draws(200, seed=5))
        for name in ("value", "epistemic_sd", "aleatoric_sd"):
            for of in (name, f"{name}_mcse"):
                assert (getattr(whole(), of)[p] == getattr(wanted, of)).all()
                at_start = getattr(whole(), f"start_{of}")[p]
                assert at_start == getattr(wanted, f"start_{of}")


def best_values(posterior: bm.Posterior) -> np.ndarray:
    """Action values ``[S, A]`` of the mean model, by plain value iteration."""
    known, model = WORLD.task, posterior.mean().to_dense()
    s, a, t = np.indices(model.shape)
    reward = known.transition_reward(s.ravel(), a.ravel(), t.ravel())
    paid = (model * reward.reshape(model.shape)).sum(axis=2)
    value = np.zeros(known.n_states)
    for _ in range(5000):
        q = paid + known.discount * model @ value
        value = np.where(known.is_terminal, 0.0, q.max(axis=1))
    return q


def test_flips_and_stakes_are_those_of_value_iteration() -> None:
    q = [best_values(posterior) for posterior in POSTERIORS]
    visits = np.bincount(DATA.counts().state, DATA.counts().count, minlength=25)
    for s in range(25):
        advised = whole().recommended[:, s].tolist()
        if WORLD.task.is_terminal[s]:
            assert advised == [-1, -1, -1]
            assert not whole().flips[s]
            assert whole().stake[s] == 0
            continue
        ties = [{a for a in range(4) if x[s, a] > x[s].max() - 1e-9} for x in q]
        assert all(a in tied for a, tied in zip(advised, ties, strict=True))
        common = set.intersection(*ties)
        assert whole().flips[s] == (not common)
        if common:
            assert advised == [min(common)] * 3
        losses = [x[s].max() - x[s, a] for x in q for a in advised]
        assert whole().stake[s] == pytest.approx(max(losses), abs=1e-9)
    fragile = [s for s in np.argsort(-visits, kind="stable") if whole().flips[s]]
    assert whole().fragile.tolist() == fragile
    assert len(fragile) > 3
    assert whole().flip_share == pytest.approx(visits[fragile].sum() / visits.sum())
    for p, x in enumerate(q):
        live = ~WORLD.task.is_terminal
        predicted = WORLD.task.start[live] @ x.max(axis=1)[live]
        assert whole().predicted_value[p] == pytest.approx(predicted)
        followed = visits @ (whole().recommended[p] == 1) / visits.sum()
        assert whole().agreement[p] == pytest.approx(followed)


def test_ties_do_not_flip() -> None:
    """Actions 0 and 1 are alike under the first prior, only 1 is best for the other."""
    known = bm.Task(3, 2, reward=[0, 1, 0], discount=0.9, terminal=[1, 2])
    counts = bm.Counts.from_arrays([0, 0], [0, 1], [1, 1], [3, 4])
    priors = {"as seen": bm.SparsePrior(1), "doubtful": bm.SymmetricPrior(1)}
    found = bm.prior_sensitivity([0, 0, 0], counts, known, priors, n_draws=20)
    assert found.recommended[:, 0].tolist() == [1, 1]
    assert not found.flips.any()
    both = bm.compare_priors(priors, counts, known, n_folds=0)
    assert both.agreement.tolist() == [[1, 1], [1, 1]]


def test_a_policy_of_chances_follows_in_part() -> None:
    even = np.full((25, 4), 0.25)
    found = bm.prior_sensitivity(even, DATA, WORLD.task, PRIORS, n_draws=20)
    assert found.agreement == pytest.approx(0.25)
    assert (found.recommended == whole().recommended).all()


def test_identical_priors_agree_in_everything() -> None:
    prior = PRIORS["any"]
    found = bm.prior_sensitivity(
        RIGHT, DATA, WORLD.task, {"a": prior, "b": prior}, n_draws=50
    )
    assert (found.value[0] == found.value[1]).all()
    assert not found.flips.any()
    assert not found.stake.any()
    assert found.fragile.size == found.flip_share == 0
    assert "recommendations flip in 0 of 20 states" in found.summary()


def test_the_order_of_priors_permutes_the_rows() -> None:
    backwards = dict(reversed(PRIORS.items()))
    found = bm.prior_sensitivity(
        RIGHT, DATA, WORLD.task, backwards, n_draws=200, seed=5
    )
    assert (found.value == whole().value[::-1]).all()
    assert (found.recommended == whole().recommended[::-1]).all()
    assert (found.flips == whole().flips).all()
    assert found.stake == pytest.approx(whole().stake)


def test_more_data_leave_less_to_the_prior() -> None:
    much = WORLD.sample(100_000, seed=1)
    found = bm.prior_sensitivity(RIGHT, much, WORLD.task, PRIORS, n_draws=50)
    assert np.ptp(found.start_value) < 0.05 * np.ptp(whole().start_value)
    assert found.flip_share < whole().flip_share


def test_named_states_and_actions_are_called_by_name() -> None:
    tried = counted(*[(0, 0, 2)] * 20, *[(0, 0, 1)] * 3, (0, 1, 2), (1, 0, 2))
    known = labelled(reward=[0.0, -1.0, 1.0])
    priors = {"seen": bm.SparsePrior(0.01, fallback="icu"), "flat": bm.SymmetricPrior()}
    found = bm.prior_sensitivity(
        [0, 0, 0], tried, known, priors, n_draws=50, min_count=1
    )
    (row,) = found.to_dict()["fragile"]
    assert (row["state"], row["visits"]) == ("ward", 24)
    assert row["recommended"] == {"seen": "treat", "flat": "wait"}
    last = found.summary().splitlines()[-1].split()
    assert last[:3] == ["state", "ward", "24"]
    assert last[-2:] == ["treat", "wait"]


def test_counts_and_transitions_and_threads_give_the_same() -> None:
    found = bm.prior_sensitivity(
        RIGHT, DATA.counts(), WORLD.task, PRIORS, n_draws=200, seed=5, threads=1
    )
    assert found.to_dict() == whole().to_dict()


def test_the_record_is_plain_sealed_and_shown() -> None:
    plain = json.loads(json.dumps(whole().to_dict(), allow_nan=False))
    assert [row["name"] for row in plain["rows"]] == list(PRIORS)
    with pytest.raises(ValueError, match="read-only"):
        whole().value[0] = 0
    lines = whole().summary(2).splitlines()
    assert lines[0] == "One policy under 3 priors, 200 draws each (seed 5)"
    assert all("±" in line for line in lines[2:4])
    assert len(lines) == len(whole().summary(0).splitlines()) + 3
    assert (
        repr(whole())
        == f"PriorSensitivity(3 priors, {whole().fragile.size} fragile states)"
    )
    assert str(whole()) == whole().summary()


LONG = bm.Task(2, 1, reward=[1, 0], discount=1.0, terminal=[1])
STAYS = bm.Counts.from_arrays([0, 0], [0, 0], [0, 1], [3, 1])


def test_what_an_evaluation_warns_of_names_its_prior() -> None:
    """An exit concentration of 1.5: the mean return exists, its variance does not."""
    priors = {"loose": bm.SymmetricPrior(0.5), "firm": bm.SymmetricPrior(9.0)}
    with pytest.warns(bm.BayesmdpWarning, match="Under 'loose': ") as caught:
        found = bm.prior_sensitivity([0, 0], STAYS, LONG, priors, n_draws=50)
    assert [str(x.message) for x in caught] == list(found.notes)
    assert all("'loose'" in note for note in found.notes)
    assert f"note: {found.notes[0]}" in found.summary()


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"executor": 4}], ids=str)
def test_no_prior_is_blamed_for_bad_workers(wrong: dict[str, int]) -> None:
    with pytest.raises(ArgumentError, match=r"^`(threads|executor)` must be"):
        bm.prior_sensitivity(RIGHT, DATA, WORLD.task, PRIORS, **wrong)  # type: ignore[arg-type]


FLAT = {"flat": bm.SymmetricPrior()}
WAIT = [0, 0, 0]
NEVER = np.ones((3, 3), dtype=bool)
NEVER[0, 1] = False

CASES = [
    case(
        "no priors",
        ArgumentError,
        lambda: bm.prior_sensitivity(WAIT, COUNTS, task(), {}),
        "`priors` must map at least one name to a prior, as in {'flat': "
        "SymmetricPrior(1.0)}; got dict.",
    ),
    case(
        "a list of priors",
        ArgumentError,
        lambda: bm.prior_sensitivity(WAIT, COUNTS, task(), [bm.SymmetricPrior()]),  # type: ignore[arg-type]
        "`priors` must map at least one name to a prior, as in {'flat': "
        "SymmetricPrior(1.0)}; got list.",
    ),
    case(
        "a prior that is none",
        ArgumentError,
        lambda: bm.prior_sensitivity(WAIT, COUNTS, task(), {"x": None}),  # type: ignore[dict-item]
        "`priors['x']` must be a prior such as SymmetricPrior(1.0); got None.",
    ),
    case(
        "a policy of another shape",
        PolicyError,
        lambda: bm.prior_sensitivity(np.ones((2, 2)), COUNTS, task(), FLAT),
        "`policy` must have shape (3, 2) or (3,); got (2, 2).",
    ),
    case(
        "a policy whose rows do not sum to 1",
        PolicyError,
        lambda: bm.prior_sensitivity(2 * EVEN, COUNTS, task(), FLAT),
        "`policy` rows must sum to 1: state 0 sums to 2.",
    ),
    case(
        "a policy with an action that is not there",
        PolicyError,
        lambda: bm.prior_sensitivity([0, 5, 0], COUNTS, task(), FLAT),
        "`policy` must hold actions in 0..1: state 1 has 5.",
    ),
    case(
        "a policy on an unavailable pair",
        PolicyError,
        lambda: bm.prior_sensitivity([1, 1, 0], COUNTS, labelled(), FLAT, min_count=1),
        "`policy` uses an unavailable pair: state ward, action treat",
        "bm.restrict",
    ),
    case(
        "data that are none",
        ArgumentError,
        lambda: bm.prior_sensitivity(WAIT, EVEN, task(), FLAT),  # type: ignore[arg-type]
        "Counts or a dataframe (pandas, polars, pyarrow, DuckDB, Ibis); got ndarray.",
    ),
    case(
        "data before task",
        ArgumentError,
        lambda: bm.prior_sensitivity(WAIT, task(), LOG, FLAT),  # type: ignore[arg-type]
        "`task` must be of type Task; got Transitions.",
    ),
    case(
        "data without a transition",
        CountsError,
        lambda: bm.prior_sensitivity(
            WAIT, bm.Counts.from_arrays([], [], []), task(), FLAT
        ),
        "`data` holds no transition",
    ),
    case(
        "a state the task does not have",
        CountsError,
        lambda: bm.prior_sensitivity(WAIT, counted((0, 0, 3)), task(), FLAT),
        "`next_state` must be in 0..2; the data has 3 (ids start from 0).",
    ),
    case(
        "a min_count below 0",
        ArgumentError,
        lambda: bm.prior_sensitivity(WAIT, COUNTS, task(), FLAT, min_count=-1),
        "`min_count` must be at least 0; got -1.",
    ),
    case(
        "one draw",
        ArgumentError,
        lambda: bm.prior_sensitivity(WAIT, COUNTS, task(), FLAT, n_draws=1),
        "`n_draws` must be at least 2; got 1.",
    ),
    case(
        "a seed that is no number",
        ArgumentError,
        lambda: bm.prior_sensitivity(WAIT, COUNTS, task(), FLAT, seed="x"),  # type: ignore[arg-type]
        "`seed` must be a whole number; got 'x'.",
    ),
    case(
        "a support that rules out the data",
        PriorError,
        lambda: bm.prior_sensitivity(
            WAIT, COUNTS, task(), {**FLAT, "no": bm.SymmetricPrior(support=NEVER)}
        ),
        "`priors['no']`: `data` has 1 transition from state 0, action 0 to ",
        "next state 1",
    ),
    case(
        "a fallback that is not a state",
        TaskError,
        lambda: bm.prior_sensitivity(
            WAIT, COUNTS, labelled(), {"sad": bm.SparsePrior(fallback="death")}
        ),
        "`priors['sad']`: ",
        "death",
    ),
    case(
        "a return without a mean under one prior",
        EndlessError,
        lambda: bm.prior_sensitivity(
            [0, 0],
            bm.Counts.from_arrays([0, 0], [0, 0], [0, 0]),
            LONG,
            {"thin": bm.SymmetricPrior(0.5)},
        ),
        "`priors['thin']`: ",
    ),
    case(
        "a summary of less than no states",
        ArgumentError,
        lambda: whole().summary(-1),
        "`max_rows` must be at least 0; got -1.",
    ),
]


@pytest.mark.parametrize(("error", "call", "said"), CASES)
def test_bad_input_is_refused_in_one_sentence(
    error: type[bm.BayesmdpError], call: Callable[[], object], said: tuple[str, ...]
) -> None:
    check(error, call, said)


def test_the_gain_over_a_baseline_has_its_closed_form() -> None:
    """Two independent Beta rows, one step: 4 Monte Carlo errors."""
    from scipy.stats import beta

    g, n = 0.9, ((9, 3), (5, 4))
    known = bm.Task(3, 2, reward=[0, 1, 0], discount=g, start=0, terminal=[1, 2])
    counts = bm.Counts.from_arrays(
        [0] * 4, [0, 0, 1, 1], [1, 2, 1, 2], [x for pair in n for x in pair]
    )
    only = np.zeros((3, 3), dtype=bool)
    only[:, 1:] = True
    priors = {str(c): bm.SymmetricPrior(c, only) for c in (0.5, 4.0)}
    found = bm.prior_sensitivity(
        [0, 0, 0], counts, known, priors, baseline=[1, 0, 0], n_draws=4000
    )
    grid = (np.arange(20_000) + 0.5) / 20_000
    for p, c in enumerate((0.5, 4.0)):
        ours, theirs = (beta(a + c, b + c) for a, b in n)
        for name, wanted in (
            ("gain", g * (ours.mean() - theirs.mean())),
            ("gain_epistemic_sd", g * math.sqrt(ours.var() + theirs.var())),
            ("probability_better", theirs.cdf(ours.ppf(grid)).mean()),
        ):
            error = getattr(found, f"{name}_mcse")[p]
            assert (error == 0) == (name == "gain")  # one step: controls explain it all
            assert error < 0.02
            assert abs(getattr(found, name)[p] - wanted) <= 4 * error + 1e-9
        # P(gain <= x) is the mean over ours of P(theirs >= ours - x / g); both limits
        # within 4 errors of an order statistic: sqrt(0.025 * 0.975 / 4000) = 0.0025.
        for end, level in zip(found.gain_interval[p], (0.025, 0.975), strict=True):
            below = theirs.sf(ours.ppf(grid) - end / g).mean()
            assert abs(below - level) <= 4 * 0.0025
        row = found.to_dict()["rows"][p]
        assert row["gain_interval"] == found.gain_interval[p].tolist()


def test_the_gain_is_over_what_was_done_unless_said_otherwise() -> None:
    for p, posterior in enumerate(POSTERIORS):
        policies = {"right": RIGHT, "logged": bm.policies.behaviour(posterior)}
        table = bm.compare(policies, posterior.draws(200, seed=5), reference="logged")
        row = next(x for x in table.rows if x.name == "right")
        assert whole().gain[p] == row.difference
        assert whole().gain_mcse[p] == row.difference_mcse
        assert whole().probability_better[p] == row.probability_better
        assert tuple(whole().gain_interval[p]) == row.difference_interval
    itself = bm.prior_sensitivity(
        RIGHT, DATA, WORLD.task, PRIORS, baseline=RIGHT, n_draws=100
    )
    assert not itself.gain.any()
    assert not itself.gain_epistemic_sd.any()
    assert not itself.gain_interval.any()
    assert not itself.probability_better.any()
    assert "the gain moves by 0 over priors\n" in itself.summary()


def test_a_baseline_that_is_no_policy_is_refused() -> None:
    with pytest.raises(PolicyError, match="`baseline`"):
        bm.prior_sensitivity(RIGHT, DATA, WORLD.task, PRIORS, baseline=[0, 1])


def test_a_hierarchical_prior_takes_part() -> None:
    prior = bm.HierarchicalPrior()
    posterior = bm.fit(DATA, WORLD.task, prior=prior, min_count=3)
    policy = bm.policies.mle(posterior)
    found = bm.prior_sensitivity(
        policy, DATA, WORLD.task, {"h": prior}, n_draws=200, min_count=3
    )
    judged = bm.evaluate(policy, posterior.draws(200))
    assert found.start_value[0] == judged.start_value
    best = bm.policies.nominal(posterior)
    live = WORLD.task.live
    assert (found.recommended[0, live] == best.argmax(axis=1)[live]).all()
    assert posterior.available[live, found.recommended[0, live]].all()
