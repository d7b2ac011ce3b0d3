"""What is said of a bad task, and of a bad policy."""

from collections.abc import Callable

import numpy as np
import pytest
from bad_input import (
    EVEN,
    INF,
    LABELS,
    NAN,
    NARROW,
    POSTERIOR,
    case,
    check,
    labelled,
    task,
)

import bayesmdp as bm
from bayesmdp.errors import PolicyError, TaskError


def rewards(value: float) -> np.ndarray:
    array = np.zeros((3, 2, 3))
    array[1, 0, 2] = value
    return array


def policy(state: int, row: list[float]) -> np.ndarray:
    array = EVEN.copy()
    array[state] = row
    return array


TASK_CASES = [
    case(
        "no states",
        TaskError,
        lambda: task(n_states=0),
        "`n_states` must be at least 1; got 0.",
    ),
    case(
        "a fractional number of actions",
        TaskError,
        lambda: task(n_actions=2.5),
        "`n_actions` must be a whole number; got 2.5.",
    ),
    case(
        "a discount above 1",
        TaskError,
        lambda: task(discount=1.01),
        "`discount` must be in [0, 1]; got 1.01: it is the factor by which the next "
        "cycle counts less, 1 / (1 + rate).",
    ),
    case(
        "a negative discount",
        TaskError,
        lambda: task(discount=-0.1),
        "`discount` must be in [0, 1]; got -0.1.",
    ),
    case(
        "a NaN discount",
        TaskError,
        lambda: task(discount=NAN),
        "`discount` must be in [0, 1]; got nan.",
    ),
    case(
        "a reward [S] of the wrong length",
        TaskError,
        lambda: task(reward=[0.0, 1.0]),
        "`reward` must have shape (3,) (state); got (2,).",
    ),
    case(
        "a reward [S, A] of the wrong shape",
        TaskError,
        lambda: task(reward=np.zeros((2, 3))),
        "`reward` must have shape (3, 2) (state, action); got (2, 3).",
    ),
    case(
        "a reward [S, A, S] of the wrong shape",
        TaskError,
        lambda: task(reward=np.zeros((3, 2, 2))),
        "`reward` must have shape (3, 2, 3)",
        "got (3, 2, 2).",
    ),
    case(
        "a reward that is one number",
        TaskError,
        lambda: task(reward=1.0),
        "`reward` must be [S], [S, A], [S, A, S] or four columns; got 0 axes.",
    ),
    case(
        "a reward that is text in one cell",
        TaskError,
        lambda: task(reward=[[300.0, 1], [2, "n/a"], [0, 0]]),
        "`reward` must hold numbers: state 1, action 1 is 'n/a'.",
    ),
    case(
        "a cost that is no number in one cell",
        TaskError,
        lambda: task(reward={"cost": [[0, 1], [1j, 1], [0, 0]], "qaly": EVEN}),
        "Reward 'cost': `reward` must hold numbers: state 1, action 0 is 1j.",
    ),
    case(
        "numbers of states by name",
        TaskError,
        lambda: task(reward={"a": 1.0, "b": 2.0}),
        "`reward` 'a' is a number, and names are for several rewards, each as [S], ",
        "give numbers of states as an array in their order, or as a pandas Series",
    ),
    case(
        "discounts in a list",
        TaskError,
        lambda: task(reward={"a": [0, 1, 2], "b": [0, 1, 2]}, discount=[0.96, 0.98]),
        "`discount` must be one for all rewards, or by name, such as {'a': ..., 'b': ",
        "got [0.96, 0.98].",
    ),
    case(
        "no start",
        TaskError,
        lambda: task(start=None),
        "`start` must be 'uniform', 'logged', a state, or probabilities; got None.",
    ),
    case(
        "a start in a state that is not there",
        TaskError,
        lambda: task(start={"x": 1.0}, state_labels=["a", "b", "c"]),
        "`start` 'x' is not among the labels",
    ),
    case(
        "a start that is text in a state",
        TaskError,
        lambda: task(start={0: "all"}),
        "`start[0]` must be a number in [0, inf); got 'all'.",
    ),
    case(
        "a NaN reward of a state",
        TaskError,
        lambda: task(reward=[0.0, NAN, 1.0]),
        "`reward` must be finite: state 1 is nan.",
    ),
    case(
        "an infinite reward of a pair",
        TaskError,
        lambda: task(reward=[[0, 0], [0, INF], [0, 0]]),
        "`reward` must be finite: state 1, action 1 is inf.",
    ),
    case(
        "a NaN reward of a transition",
        TaskError,
        lambda: task(reward=rewards(NAN)),
        "`reward` must be finite: state 1, action 0, next_state 2 is nan.",
    ),
    case(
        "a NaN reward in a column",
        TaskError,
        lambda: task(reward=([0, 1], [0, 0], [1, 2], [1.0, NAN])),
        "`reward` must be finite: row 1 is nan.",
    ),
    case(
        "a reward triplet given twice",
        TaskError,
        lambda: task(reward=([0, 1, 0], [0, 0, 0], [1, 2, 1], [1.0, 2.0, 3.0])),
        "`reward` names a transition twice: row 2 repeats state 0, action 0, "
        "next_state 1.",
    ),
    case(
        "reward columns of different length",
        TaskError,
        lambda: task(reward=([0, 1], [0, 0], [1, 2], [1.0])),
        "same number of rows: `state` has 2",
        "`reward` has 1",
    ),
    case(
        "a reward of a state that does not exist",
        TaskError,
        lambda: task(reward=([0, 3], [0, 0], [1, 2], [1.0, 2.0])),
        "`reward state` must be in 0..2: row 1 has 3.",
    ),
    case(
        "a reward that could be [S, A] or four columns",
        TaskError,
        lambda: task(n_states=4, reward=([0, 1], [0, 0], [1, 2], [1.0, 2.0])),
        "`reward` as a tuple of four could be [S, A] or four columns; give it as an "
        "array, [S, A] or [S, A, S].",
    ),
    case(
        "rewards of another task's transitions",
        TaskError,
        lambda: task(reward=bm.model.RewardTriplets([99], [1.0])),
        "`reward state` must be in 0..2: row 0 has 16.",
    ),
    case(
        "a start on terminal states only",
        TaskError,
        lambda: labelled(start="home"),
        "`start` lies on terminal states only (first: state home)",
    ),
    case(
        "a start distribution on terminal states only",
        TaskError,
        lambda: task(start=[0.0, 0.0, 1.0]),
        "`start` lies on terminal states only (first: state 2)",
    ),
    case(
        "a negative start probability",
        TaskError,
        lambda: task(start=[1.5, -0.5, 0.0]),
        "`start` must not be negative: state 1 has -0.5.",
    ),
    case(
        "a start that does not sum to 1",
        TaskError,
        lambda: task(start=[0.5, 0.4, 0.0]),
        "`start` must sum to 1; the sum is 0.9.",
    ),
    case(
        "a NaN start probability",
        TaskError,
        lambda: task(start=[NAN, 1.0, 0.0]),
        "`start` must be finite: state 0 is nan.",
    ),
    case(
        "a start of the wrong length",
        TaskError,
        lambda: task(start=[0.5, 0.5]),
        "`start` must have shape (3,) (state); got (2,).",
    ),
    case(
        "a start state that does not exist",
        TaskError,
        lambda: task(start=3),
        "`start` must be in 0..2; got 3.",
    ),
    case(
        "a terminal state that does not exist",
        TaskError,
        lambda: task(terminal=[2, 3]),
        "`terminal` must be in 0..2; got 3.",
    ),
    case(
        "a negative terminal state",
        TaskError,
        lambda: task(terminal=-1),
        "`terminal` must be at least 0; got -1.",
    ),
    case(
        "a mask in place of terminal states",
        TaskError,
        lambda: task(terminal=np.array([False, False, True])),
        "`terminal`",
    ),
    case(
        "every state terminal",
        TaskError,
        lambda: task(terminal=[0, 1, 2]),
        "`terminal` holds every state: nothing is left to decide.",
    ),
    case(
        "too few labels of states",
        TaskError,
        lambda: task(state_labels=["ward", "icu"]),
        "`state_labels` must have 3 entries; got 2.",
    ),
    case(
        "too many labels of actions",
        TaskError,
        lambda: task(action_labels=["wait", "treat", "pray"]),
        "`action_labels` must have 2 entries; got 3.",
    ),
    case(
        "the same label twice",
        TaskError,
        lambda: task(state_labels=["ward", "icu", "ward"]),
        "`state_labels` must be distinct: 'ward' is repeated.",
    ),
    case(
        "an unknown start label",
        TaskError,
        lambda: labelled(start="hall"),
        "`start` 'hall' is not among the labels: ward, icu, home.",
    ),
    case(
        "an unknown terminal label",
        TaskError,
        lambda: task(state_labels=LABELS, terminal=["home", "hall"]),
        "`terminal` 'hall' is not among the labels: ward, icu, home.",
    ),
    case(
        "an unknown action label",
        TaskError,
        lambda: labelled().action("operate"),
        "`action` 'operate' is not among the labels: wait, treat.",
    ),
    case(
        "a label where there are none",
        TaskError,
        lambda: task(start="ward"),
        "`start` 'ward' is a label",
        "give an index or set the labels.",
    ),
]

POLICY_CASES = [
    case(
        "a policy row that does not sum to 1",
        PolicyError,
        lambda: bm.evaluate(policy(1, [0.5, 0.43]), POSTERIOR.draws(2)),
        "`policy` rows must sum to 1: state 1 sums to 0.93.",
    ),
    case(
        "a policy row that does not sum to 1, with labels",
        PolicyError,
        lambda: bm.restrict(policy(1, [0.5, 0.43]), NARROW),
        "`policy` rows must sum to 1: state icu sums to 0.93.",
    ),
    case(
        "a negative probability of an action",
        PolicyError,
        lambda: bm.evaluate(policy(1, [1.5, -0.5]), POSTERIOR.draws(2)),
        "`policy` must not be negative: state 1, action 1 has -0.5.",
    ),
    case(
        "a NaN probability of an action",
        PolicyError,
        lambda: bm.evaluate(policy(1, [1.0, NAN]), POSTERIOR.draws(2)),
        "`policy` must be finite: state 1, action 1 is nan.",
    ),
    case(
        "an unavailable pair in [S, A]",
        PolicyError,
        lambda: bm.evaluate(EVEN, NARROW.draws(2)),
        "`policy` uses an unavailable pair: state ward, action treat",
        "bm.restrict",
    ),
    case(
        "an unavailable pair in [S]",
        PolicyError,
        lambda: bm.evaluate_analytic([0, 0, 0], NARROW),
        "`policy` uses an unavailable pair: state icu, action wait",
        "bm.restrict",
    ),
    case(
        "a policy [S] of fractions",
        PolicyError,
        lambda: bm.evaluate([0.0, 1.0, 0.0], POSTERIOR.draws(2)),
        "`policy` of shape (3,) must hold whole numbers",
        "got dtype float64.",
    ),
    case(
        "an action that does not exist",
        PolicyError,
        lambda: bm.evaluate([0, 2, 0], POSTERIOR.draws(2)),
        "`policy` must hold actions in 0..1: state 1 has 2.",
    ),
    case(
        "a negative action",
        PolicyError,
        lambda: bm.restrict([0, -1, 0], NARROW),
        "`policy` must hold actions in 0..1: state icu has -1.",
    ),
    case(
        "a policy by its name",
        PolicyError,
        lambda: bm.evaluate("behaviour", POSTERIOR.draws(2)),
        "got 'behaviour'; take bm.policies.behaviour(posterior).",
    ),
    case(
        "a policy by no name",
        PolicyError,
        lambda: bm.improve(POSTERIOR, "clinician"),
        "`baseline` as text must be 'always:' and an action; got 'clinician'.",
    ),
    case(
        "a policy of the wrong shape",
        PolicyError,
        lambda: bm.evaluate(np.full((2, 3), 1 / 3), POSTERIOR.draws(2)),
        "`policy` must have shape (3, 2) or (3,); got (2, 3).",
    ),
]


@pytest.mark.parametrize(("error", "call", "said"), [*TASK_CASES, *POLICY_CASES])
def test_the_message_names_what_is_wrong(
    error: type[bm.BayesmdpError], call: Callable[[], object], said: tuple[str, ...]
) -> None:
    check(error, call, said)
