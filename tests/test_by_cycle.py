"""Rows and rewards that change with time, against all paths and against each other."""

from typing import Any

import numpy as np
import pytest
from all_paths import (
    COUNTS,
    CYCLES,
    END,
    MODELS,
    POLICY,
    SHAPES,
    START,
    A,
    S,
    rewards,
    task,
)
from bad_input import case, check

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, BeliefError, TaskError

BELIEF = bm.Ensemble(MODELS, task("pairs", (0.9, 0.9), horizon=5))


@pytest.mark.parametrize("cycle", CYCLES)
@pytest.mark.parametrize("form", ["pairs", "transitions"])
def test_rows_that_change_with_time_are_added_up_by_cycle(
    cycle: str, form: str
) -> None:
    g, until, length = 0.9, (2, 3), 6
    paid = np.random.default_rng(4).normal(size=(3, *SHAPES[form]))
    paid[:, END] = 0.0
    parts = []
    for reward, model in zip(paid, MODELS, strict=True):
        about = bm.Task(
            S, A, reward, discount=g, start=START, terminal=[END],
            horizon=length, cycle=cycle,
        )  # fmt: skip
        parts.append(bm.Ensemble([model, MODELS[0]], about))
    beliefs = bm.posterior.BeliefsByCycle(parts, until)
    found = bm.evaluate(POLICY, beliefs)
    phase = [0, 0, 1, 2, 2, 2]
    live = np.arange(S) != END
    for m, model_of in enumerate((lambda f: MODELS[f], lambda f: MODELS[0])):
        at, total = START, 0.0
        for c in range(length):
            model = model_of(phase[c])
            moves = np.einsum("sa,sat->st", POLICY, model) * live[:, None]
            if form == "transitions":
                mean = np.einsum("sa,sat,sat->s", POLICY, model, paid[phase[c]])
                total += g**c * at @ (mean * live)
                at = at @ moves
                continue
            mean = (POLICY * paid[phase[c]]).sum(axis=1) * live
            later = (POLICY * paid[min(phase[c] + (c == 1) + (c == 2), 2)]).sum(1)
            after = at @ moves
            if cycle in ("both", "darth"):
                weight = np.ones(7) if cycle == "both" else np.full(7, 2 / 3)
                if cycle == "darth":
                    weight[2::2], weight[[0, -1]] = 4 / 3, 1 / 3
                total += weight[c] * g**c * at @ mean
                if c == length - 1:
                    total += weight[-1] * g**length * after @ (later * live)
            else:
                share = {"start": 0.0, "end": 1.0, "half": 0.5}[cycle]
                total += (1 - share) * g**c * at @ mean
                total += share * g ** (c + 1) * after @ mean
            at = after
        np.testing.assert_allclose(found.start_values[m], total, rtol=1e-12)


def test_the_same_belief_at_all_times_is_that_belief() -> None:
    """Its rows are shared, and a belief of other data has rows of its own."""
    state, action, next_state = np.indices((3, A, S)).reshape(3, -1)
    counts = bm.Counts.from_arrays(state, action, next_state)
    about = task("pairs", (0.97, 0.9), horizon=8, cycle="half")
    one = bm.fit(counts, about, prior=bm.SymmetricPrior())
    more = bm.Counts.from_arrays(state, action, next_state, 1 + (state == 0))
    two = bm.fit(more, about, prior=bm.SymmetricPrior())
    alone = bm.evaluate(POLICY, one, n_draws=64)
    same = bm.posterior.BeliefsByCycle([one, one], [3])
    again = bm.evaluate(POLICY, same, n_draws=64)
    np.testing.assert_allclose(again.start_values, alone.start_values, rtol=1e-12)
    other = bm.posterior.BeliefsByCycle([one, two], [3])
    apart = bm.evaluate(POLICY, other, n_draws=64)
    assert apart.start_epistemic_sd < 0.95 * alone.start_epistemic_sd
    found = bm.optimise(other, reward={"qaly": 3, "cost": -1}, effort="quick")
    nominal = bm.policies.nominal(other.with_reward({"qaly": 3, "cost": -1}))
    table = bm.compare(
        {"nominal": nominal, "found": found.policy},
        other.draws(500),
        reward={"qaly": 3, "cost": -1},
    )
    assert table.rows[0].difference >= -3 * table.rows[0].difference_mcse


@pytest.mark.parametrize(
    ("error", "call", "said"),
    [
        case(
            "one", BeliefError,
            lambda: bm.posterior.BeliefsByCycle([BELIEF], []), "`beliefs` must be",
        ),
        case(
            "no horizon", BeliefError,
            lambda: bm.posterior.BeliefsByCycle([bm.worlds.casino()] * 2, [1]),
            "need a task with a `horizon`",
        ),
        case(
            "too many", BeliefError,
            lambda: bm.posterior.BeliefsByCycle([BELIEF] * 2, [1, 2]),
            "`until` must list 1 whole number", "[1, 2]",
        ),
        case(
            "too late", BeliefError,
            lambda: bm.posterior.BeliefsByCycle([BELIEF] * 2, [5]),
            "`until` must hold cycles in 1..4, each later than the one before", "[5]",
        ),
        case(
            "another task", BeliefError,
            lambda: bm.posterior.BeliefsByCycle(
                [BELIEF, bm.Ensemble(MODELS, task("pairs", (0.9, 0.8), horizon=5))], [2]
            ),
            "`beliefs[1]` and `beliefs[0]` differ in `discount`",
        ),
        case(
            "one model and more", BeliefError,
            lambda: bm.posterior.BeliefsByCycle(
                [bm.Ensemble(MODELS[:1], BELIEF.task), BELIEF], [2]
            ),
            "`beliefs[0]` has 1 model and `beliefs[1]` 3", "give as many",
        ),
        case(
            "a posterior and models", BeliefError,
            lambda: bm.posterior.BeliefsByCycle(
                [bm.fit(COUNTS, BELIEF.task, prior=bm.SymmetricPrior()), BELIEF], [2]
            ),
            "all posteriors or all ensembles", "`beliefs[1]` of type Ensemble",
        ),
    ],
)  # fmt: skip
def test_bad_beliefs_by_cycle_get_one_sentence(
    error: Any, call: Any, said: Any
) -> None:
    check(error, call, said)


@pytest.mark.parametrize("cycle", ["half", "end"])
@pytest.mark.parametrize("form", ["states", "pairs"])
def test_a_first_reward_that_counts_less_does(form: str, cycle: str) -> None:
    """Bound by value iteration, policies by all there are, visits by their rewards."""
    paid, g, lost = rewards(form)["qaly"], 0.9, {"half": 0.5, "end": 1.0}[cycle]
    belief = bm.Ensemble(MODELS, task(form, (g, g), cycle=cycle)).with_reward("qaly")
    each = [
        np.array([a, b, c, 0]) for a in range(A) for b in range(A) for c in range(A)
    ]
    found = [bm.evaluate(x, belief) for x in each]
    best = max(x.start_value for x in found)
    bound = []
    own = np.broadcast_to(paid[:, None] if form == "states" else paid, (S, A))
    ends = paid[END] if form == "states" else 0.0
    for model in MODELS:
        value = np.full(S, ends)
        for _ in range(600):
            q = own + g * model @ value
            value = np.append(q[:END].max(axis=1), ends)
        first = (q - lost * own)[:END].max(axis=1)
        bound.append(START @ np.append(first, (1 - lost) * ends))
    asked = bm.optimise(belief, effort="quick")
    assert asked.upper_bound == pytest.approx(np.mean(bound), rel=1e-9)
    assert asked.upper_bound >= best - 1e-12
    assert asked.start_value >= best - 1e-6
    one = bm.Ensemble(MODELS[:1], belief.task)
    counted = bm.evaluate(POLICY, one)
    mean = np.append((POLICY * own).sum(axis=1)[:END], ends)
    assert counted.occupancy @ mean == pytest.approx(counted.start_value)
    if form == "states":
        values = [
            bm.evaluate(x, one).start_value for x in (bm.policies.nominal(one), *each)
        ]
        assert values[0] == pytest.approx(max(values))
        return
    with pytest.raises(TaskError, match="give a `horizon`"):
        bm.policies.nominal(belief)


@pytest.mark.parametrize(
    "prior",
    [
        bm.SymmetricPrior(),
        bm.HierarchicalPrior(),
        bm.RandomSupportPrior(),
        bm.MixturePrior([bm.SymmetricPrior(), bm.SymmetricPrior(3)]),
    ],
    ids=lambda x: type(x).__name__,
)
def test_one_belief_with_other_rewards_is_still_one(prior: Any) -> None:
    """The same belief twice, with a copy of its reward, is that belief, to the bit."""
    about = task("pairs", (0.97, 0.97), horizon=8).with_reward("cost")
    other = about._but(reward=np.array(about.reward))
    counts = bm.Counts.from_dense(COUNTS.to_dense())
    one = bm.fit(COUNTS, about, prior=prior)
    alone = bm.evaluate(POLICY, one, n_draws=32).start_values
    for again in (one.with_task(other), bm.fit(counts, other, prior=prior)):
        both = bm.posterior.BeliefsByCycle([one, again], [5])
        found = bm.evaluate(POLICY, both, n_draws=32).start_values
        np.testing.assert_array_equal(found, alone)


def test_beliefs_by_cycle_agree_in_names_and_ends() -> None:
    about = task("states", (0.9, 0.9), horizon=4).with_reward("cost")
    named = about.with_labels(state_labels=["a", "b", "c", "d"])
    one, other = (bm.Ensemble(MODELS, x) for x in (about, named))
    with pytest.raises(BeliefError, match="names of states or actions"):
        bm.posterior.BeliefsByCycle([one, other], [2])
    paid = [np.arange(S) + k for k in range(len(MODELS))]
    other = bm.Ensemble(MODELS, about, paid)
    with pytest.raises(BeliefError, match="terminal states by model"):
        bm.posterior.BeliefsByCycle([one, other], [2])


@pytest.mark.parametrize(
    "call",
    [
        bm.improve,
        lambda belief: bm.optimise(belief, bm.CVaR(0.5, of="improvement")),
    ],
    ids=["improve", "optimise"],
)
def test_a_baseline_has_to_be_given(call: Any) -> None:
    """Two posteriors, each of a log, have no single one."""
    about = task("states", (0.9, 0.9), horizon=4).with_reward("cost")
    fitted = bm.fit(COUNTS, about, prior=bm.SymmetricPrior())
    belief = bm.posterior.BeliefsByCycle([fitted, fitted], [2])
    said = "`baseline` must be given, such as .*: BeliefsByCycle has no log"
    with pytest.raises(ArgumentError, match=said):
        call(belief)
