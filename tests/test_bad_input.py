"""Every complaint, once: its class, and that it says what is wrong and where.

A case is one bad thing in an otherwise good call. Its fragments must stand in the
message in this order: the parameter, the first offender, the remedy if there is one.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.errors import (
    ArgumentError,
    CountsError,
    DynamicsError,
    EndlessError,
    PolicyError,
    PriorError,
    TaskError,
)

LABELS = ["ward", "icu", "home"]
NAN, INF = float("nan"), float("inf")


def task(**changes: Any) -> bm.Task:
    """Three states, two actions, the last state terminal; some of it changed."""
    arguments: dict[str, Any] = {
        "n_states": 3,
        "n_actions": 2,
        "reward": [0.0, 0.0, 1.0],
        "discount": 0.9,
        "terminal": [2],
    }
    return bm.Task(**(arguments | changes))


def labelled(**changes: Any) -> bm.Task:
    return task(state_labels=LABELS, action_labels=["wait", "treat"], **changes)


def counted(*triplets: tuple[int, int, int]) -> bm.Counts:
    return bm.Counts.from_arrays(*zip(*triplets, strict=True))


COUNTS = counted((0, 0, 1), (1, 1, 2))
POSTERIOR = bm.fit(COUNTS, task())
NARROW = bm.fit(COUNTS, labelled(), min_count=1)  # ward: wait, icu: treat
EVEN = np.full((3, 2), 0.5)
LOG = bm.Transitions.from_arrays([0, 1], [0, 1], [1, 2], episode=[4, 9])
BARE_LOG = bm.Transitions.from_arrays([0, 1], [0, 1], [1, 2])


def dense(value: float) -> np.ndarray:
    """Counts of one, but for one cell."""
    array = np.ones((3, 2, 3))
    array[1, 0, 2] = value
    return array


def rewards(value: float) -> np.ndarray:
    array = np.zeros((3, 2, 3))
    array[1, 0, 2] = value
    return array


def policy(state: int, row: list[float]) -> np.ndarray:
    array = EVEN.copy()
    array[state] = row
    return array


def with_support(mask: object) -> bm.Posterior:
    return bm.fit(COUNTS, labelled(), prior=bm.SymmetricPrior(support=mask))


def without(*cells: tuple[int, ...]) -> np.ndarray:
    """Say that everything is possible but some next states."""
    mask = np.ones((3, 2, 3), dtype=bool)
    for cell in cells:
        mask[cell] = False
    return mask


def circle(concentration: float) -> bm.Draws:
    """A paid self-loop whose exit was never seen, without discount."""
    loop = bm.Task(2, 1, [[1.0], [0.0]], discount=1.0, terminal=[1])
    prior = bm.SymmetricPrior(concentration)
    return bm.fit(counted((0, 0, 0)), loop, prior=prior).draws(2)


def trapped() -> bm.Draws:
    """In the icu, both actions lead back to the icu."""
    stay = without((1, slice(None), 0), (1, slice(None), 2))
    prior = bm.SymmetricPrior(support=stay)
    counts = counted((0, 0, 1), (1, 1, 1))
    return bm.fit(counts, labelled(discount=1.0), prior=prior).draws(2)


def case(
    name: str, error: type[bm.BayesmdpError], call: Callable[[], object], *said: str
) -> Any:
    return pytest.param(error, call, said, id=name)


COUNT_CASES = [
    case(
        "a negative count in an array [S, A, S]",
        CountsError,
        lambda: bm.Counts.from_dense(dense(-2)),
        "`array`",
        "state 1, action 0, next_state 2",
        "-2",
    ),
    case(
        "a fractional count in an array [S, A, S]",
        CountsError,
        lambda: bm.Counts.from_dense(dense(0.5)),
        "`array` must hold whole numbers: state 1, action 0, next_state 2 is 0.5.",
    ),
    case(
        "a NaN count in an array [S, A, S]",
        CountsError,
        lambda: bm.Counts.from_dense(dense(NAN)),
        "`array` must hold whole numbers: state 1, action 0, next_state 2 is nan.",
    ),
    case(
        "an infinite count in an array [S, A, S]",
        CountsError,
        lambda: bm.Counts.from_dense(dense(INF)),
        "`array`",
        "state 1, action 0, next_state 2 is inf",
    ),
    case(
        "counts whose state axes differ",
        CountsError,
        lambda: bm.Counts.from_dense(np.ones((3, 2, 4))),
        "`array` must have shape (n_states, n_actions, n_states); got (3, 2, 4).",
    ),
    case(
        "a negative count in a column",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 1], [0, 0], [1, 0], [3, -1]),
        "`count` must be 0 or more: row 1 has -1.",
    ),
    case(
        "a fractional count in a column",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 1], [0, 0], [1, 0], [3, 1.5]),
        "`count` must hold whole numbers: row 1 is 1.5.",
    ),
    case(
        "a NaN count in a column",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 1], [0, 0], [1, 0], [3, NAN]),
        "`count` must hold whole numbers: row 1 is nan.",
    ),
    case(
        "a negative state",
        CountsError,
        lambda: bm.Counts.from_arrays([0, -1], [0, 0], [1, 0]),
        "`state` must be 0 or more: row 1 has -1.",
    ),
    case(
        "a fractional action",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 1], [0, 0.5], [1, 0]),
        "`action` must hold whole numbers: row 1 is 0.5.",
    ),
    case(
        "a state beyond n_states",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 3], [0, 0], [1, 0], n_states=3),
        "`state` must be in 0..2: row 1 has 3.",
    ),
    case(
        "an action beyond n_actions",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 1], [0, 2], [1, 0], n_actions=2),
        "`action` must be in 0..1: row 1 has 2.",
    ),
    case(
        "a next state beyond n_states",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 1], [0, 0], [1, 7], n_states=3),
        "`next_state` must be in 0..2: row 1 has 7.",
    ),
    case(
        "a column with two axes",
        CountsError,
        lambda: bm.Counts.from_arrays([[0, 1]], [0, 0], [1, 0]),
        "`state` must have one axis (row); got shape (1, 2).",
    ),
    case(
        "columns of counts of different length",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 1], [0], [1, 0]),
        "same number of rows: `state` has 2, `action` has 1, `next_state` has 2",
    ),
    case(
        "ids too large to index",
        CountsError,
        lambda: bm.Counts.from_arrays([2**40], [0], [0]),
        "`n_states`",
        str(2**40 + 1),
        "Map ids to 0..n-1 first.",
    ),
    case(
        "adding counts of different sizes",
        CountsError,
        lambda: (
            bm.Counts.from_arrays([0], [0], [0], n_states=2, n_actions=1)
            + bm.Counts.from_arrays([0], [0], [0], n_states=3, n_actions=1)
        ),
        "Counts of different `n_states` cannot be added: 2 and 3.",
    ),
    case(
        "columns of transitions of different length",
        CountsError,
        lambda: bm.Transitions.from_arrays([0, 1], [0], [1, 0]),
        "same number of rows: `state` has",
        "2",
        "`action` has",
        "1",
    ),
    case(
        "a flag missing for one transition",
        CountsError,
        lambda: bm.Transitions.from_arrays([0, 1], [0, 0], [1, 0], truncated=[True]),
        "same number of rows: `state` has",
        "2",
        "`truncated` has",
        "1",
    ),
    case(
        "a NaN in the reward column",
        CountsError,
        lambda: bm.Transitions.from_arrays([0, 1], [0, 0], [1, 0], reward=[1.0, NAN]),
        "`reward` must be finite: row 1 is nan.",
    ),
    case(
        "a negative episode",
        CountsError,
        lambda: bm.Transitions.from_arrays([0, 1], [0, 0], [1, 0], episode=[0, -3]),
        "`episode` must be 0 or more: row 1 has -3.",
    ),
    case(
        "reward statistics without a reward column",
        CountsError,
        BARE_LOG.reward_statistics,
        "These transitions have no `reward` column.",
    ),
    case(
        "folds without an episode column",
        CountsError,
        lambda: BARE_LOG.counts_by_fold(2),
        "Splitting needs an `episode` column",
    ),
    case(
        "more folds than episodes",
        CountsError,
        lambda: LOG.counts_by_fold(3),
        "`n_folds` is 3 but there are only 2 episodes.",
    ),
    case(
        "a single fold",
        ArgumentError,
        lambda: LOG.counts_by_fold(1),
        "`n_folds` must be at least 2; got 1.",
    ),
    case(
        "folds that are not a whole number",
        ArgumentError,
        lambda: LOG.counts_by_fold(2.5),
        "`n_folds` must be a whole number; got 2.5.",
    ),
]

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
        "`discount` must be in [0, 1]; got 1.01.",
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
        "`reward` columns must have the same number of rows: got 2, 2, 2 and 1.",
    ),
    case(
        "a reward of a state that does not exist",
        TaskError,
        lambda: task(reward=([0, 3], [0, 0], [1, 2], [1.0, 2.0])),
        "`reward state` must be in 0..2: row 1 has 3.",
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
        "`start` must sum to 1; it sums to 0.9.",
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
        "`state_labels` must be distinct: 'ward' stands there twice.",
    ),
    case(
        "an unknown start label",
        TaskError,
        lambda: labelled(start="hall"),
        "`start` 'hall' is not among the labels.",
    ),
    case(
        "an unknown terminal label",
        TaskError,
        lambda: task(state_labels=LABELS, terminal=["home", "hall"]),
        "`terminal` 'hall' is not among the labels.",
    ),
    case(
        "an unknown action label",
        TaskError,
        lambda: labelled().action("operate"),
        "`action` 'operate' is not among the labels.",
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
        "a policy of the wrong shape",
        PolicyError,
        lambda: bm.evaluate(np.full((2, 3), 1 / 3), POSTERIOR.draws(2)),
        "`policy` must have shape (3, 2) or (3,); got (2, 3).",
    ),
]

FIT_CASES = [
    case(
        "counts and task of different n_states",
        CountsError,
        lambda: bm.fit(bm.Counts.from_dense(np.ones((2, 2, 2))), task()),
        "`data` and `task` disagree about `n_states`: 2 and 3.",
    ),
    case(
        "counts and task of different n_actions",
        CountsError,
        lambda: bm.fit(bm.Counts.from_dense(np.ones((3, 4, 3))), task()),
        "`data` and `task` disagree about `n_actions`: 4 and 2.",
    ),
    case(
        "a state the task does not have",
        CountsError,
        lambda: bm.fit(counted((0, 0, 1), (3, 0, 1)), task()),
        "`state` must be in 0..2; the data has 3.",
    ),
    case(
        "an action the task does not have",
        CountsError,
        lambda: bm.fit(counted((0, 0, 1), (0, 2, 1)), task()),
        "`action` must be in 0..1; the data has 2.",
    ),
    case(
        "a next state the task does not have",
        CountsError,
        lambda: bm.fit(LOG, task(n_states=2, reward=[0, 1], terminal=[1])),
        "`next_state` must be in 0..1; the data has 2.",
    ),
    case(
        "an update with a state the task does not have",
        CountsError,
        lambda: POSTERIOR.update(counted((3, 0, 1))),
        "`state` must be in 0..2; the data has 3.",
    ),
    case(
        "no data at all",
        CountsError,
        lambda: bm.fit(bm.Counts.from_arrays([], [], []), task()),
        "`data` holds no transitions: there is nothing to learn from.",
    ),
    case(
        "an array in place of counts",
        ArgumentError,
        lambda: bm.fit(np.ones((3, 2, 3)), task()),
        "`data` must be Transitions or Counts; got ndarray.",
    ),
    case(
        "a terminal state that leads elsewhere",
        CountsError,
        lambda: bm.fit(counted((2, 0, 2), (2, 1, 0), (2, 1, 0)), labelled()),
        "Terminal state home has 2 outgoing transitions to state ward; drop them, or "
        "take the state out of `terminal`.",
    ),
    case(
        "a negative min_count",
        ArgumentError,
        lambda: bm.fit(COUNTS, task(), min_count=-1),
        "`min_count` must be at least 0; got -1.",
    ),
    case(
        "a count outside the support",
        PriorError,
        lambda: with_support(without((1, 1, 2))),
        "`data` has 1 transition",
        "from state icu, action treat to next state home",
        "widen the support or mend the data.",
    ),
    case(
        "a pair with empty support",
        PriorError,
        lambda: with_support(without((0, 1))),
        "support is empty for state ward, action treat",
        "Widen the support",
    ),
    case(
        "a pair never seen, under a sparse prior without fallback",
        PriorError,
        lambda: bm.fit(COUNTS, labelled(), prior=bm.SparsePrior()),
        "support is empty for state ward, action treat",
        "give a fallback",
    ),
    case(
        "a support of the wrong shape",
        PriorError,
        lambda: with_support(np.ones((2, 2), dtype=bool)),
        "`support` must have shape (3, 3) or (3, 2, 3); got (2, 2).",
    ),
    case(
        "a support of numbers",
        PriorError,
        lambda: with_support(np.ones((3, 3))),
        "`support` must be boolean or three columns (state, action, next_state); got "
        "dtype float64.",
    ),
    case(
        "support columns of different length",
        PriorError,
        lambda: with_support(([0, 0], [0, 1], [1])),
        "`support` columns must have the same number of rows: got 2, 2 and 1.",
    ),
    case(
        "a support that names a state that does not exist",
        PriorError,
        lambda: with_support(([0, 0], [0, 1], [1, 3])),
        "`support next_state` must be in 0..2: row 1 has 3.",
    ),
    case(
        "a concentration of 0",
        PriorError,
        lambda: bm.SymmetricPrior(0),
        "`concentration` must be in (0, inf); got 0.",
    ),
    case(
        "a negative concentration",
        PriorError,
        lambda: bm.SparsePrior(-1.0),
        "`concentration` must be in (0, inf); got -1.",
    ),
    case(
        "a NaN concentration",
        PriorError,
        lambda: bm.SymmetricPrior(NAN),
        "`concentration` must be in (0, inf); got nan.",
    ),
    case(
        "an infinite concentration",
        PriorError,
        lambda: bm.SymmetricPrior(INF),
        "`concentration` must be in (0, inf); got inf.",
    ),
    case(
        "an unknown fallback label",
        TaskError,
        lambda: bm.fit(COUNTS, labelled(), prior=bm.SparsePrior(fallback="death")),
        "`fallback` 'death' is not among the labels.",
    ),
    case(
        "a fallback state that does not exist",
        TaskError,
        lambda: bm.fit(COUNTS, task(), prior=bm.SparsePrior(fallback=3)),
        "`fallback` must be in 0..2; got 3.",
    ),
    case(
        "the evidence of a sparse prior",
        PriorError,
        lambda: bm.fit(COUNTS, task(), prior=bm.SparsePrior(fallback=2)).log_evidence(),
        "SparsePrior has no evidence: its support is chosen by looking at the data",
    ),
]

DRAW_CASES = [
    case(
        "a single draw",
        ArgumentError,
        lambda: POSTERIOR.draws(1),
        "`n_draws` must be at least 2; got 1.",
    ),
    case(
        "draws that are not a whole number",
        ArgumentError,
        lambda: POSTERIOR.draws(10.5),
        "`n_draws` must be a whole number; got 10.5.",
    ),
    case(
        "a negative seed",
        ArgumentError,
        lambda: POSTERIOR.draws(2, seed=-1),
        "`seed` must be at least 0; got -1.",
    ),
    case(
        "a seed that is too large",
        ArgumentError,
        lambda: POSTERIOR.draws(2, seed=2**64),
        "`seed` must be below 2**64; got 18446744073709551616.",
    ),
    case(
        "a seed that is not a whole number",
        ArgumentError,
        lambda: POSTERIOR.draws(2, seed=1.5),
        "`seed` must be a whole number; got 1.5.",
    ),
    case(
        "a draw beyond the last",
        ArgumentError,
        lambda: POSTERIOR.draws(5).dynamics(5),
        "`draw` must be in 0..4; got 5.",
    ),
    case(
        "a negative draw",
        ArgumentError,
        lambda: POSTERIOR.draws(5).dynamics(-1),
        "`draw` must be at least 0; got -1.",
    ),
    case(
        "a posterior in place of draws",
        ArgumentError,
        lambda: bm.evaluate(EVEN, POSTERIOR),
        "`draws` must come from `posterior.draws(n, seed)`; got Posterior.",
    ),
    case(
        "no threads",
        ArgumentError,
        lambda: bm.evaluate(EVEN, POSTERIOR.draws(2), threads=0),
        "`threads` must be at least 1; got 0.",
    ),
    case(
        "a tolerance of 0",
        ArgumentError,
        lambda: bm.evaluate(EVEN, POSTERIOR.draws(2), tolerance=0),
        "`tolerance` must be in (0, inf); got 0.",
    ),
    case(
        "a negative tolerance",
        ArgumentError,
        lambda: bm.evaluate(EVEN, POSTERIOR.draws(2), tolerance=-0.1),
        "`tolerance` must be in (0, inf); got -0.1.",
    ),
    case(
        "an endless policy without discount",
        EndlessError,
        lambda: bm.evaluate([0, 0, 0], trapped()),
        "With discount 1 every episode must end, but from state icu",
        "another policy",
        "a discount below 1.",
    ),
    case(
        "an infinite mean without discount",
        EndlessError,
        lambda: bm.evaluate([0, 0], circle(0.5)),
        "the posterior mean is infinite",
        "cycle through state(s) 0",
        "concentration 0.5",
        "raise the prior's concentration",
    ),
    case(
        "a mean just infinite without discount",
        EndlessError,
        lambda: bm.evaluate([0, 0], circle(1.0)),
        "cycle through state(s) 0",
        "concentration 1, which must be above 1",
    ),
    case(
        "a bound on draws without discount",
        ArgumentError,
        lambda: bm.draws_needed(0.1, discount=1.0),
        "`discount` must be below 1",
    ),
    case(
        "a bound on draws for no error",
        ArgumentError,
        lambda: bm.draws_needed(0.0, discount=0.9),
        "`error` must be in (0, inf); got 0.",
    ),
    case(
        "a bound on draws that never fails",
        ArgumentError,
        lambda: bm.draws_needed(0.1, discount=0.9, failure=0.0),
        "`failure` must be in (0, 1]; got 0.",
    ),
    case(
        "a horizon too short",
        ArgumentError,
        lambda: bm.draws_needed(0.001, discount=0.999, max_reward=1.0, horizon=13_808),
        "`horizon` 13808",
        "`error` 0.001",
        "at least 13809.",
    ),
]

WORLD_CASES = [
    case(
        "dynamics and task of different n_states",
        DynamicsError,
        lambda: bm.World(bm.Dynamics.from_dense(np.full((2, 2, 2), 0.5)), task()),
        "`dynamics` and `task` disagree about `n_states`: 2 and 3.",
    ),
    case(
        "dynamics and task of different n_actions",
        DynamicsError,
        lambda: bm.World(bm.Dynamics.from_dense(np.full((3, 1, 3), 1 / 3)), task()),
        "`dynamics` and `task` disagree about `n_actions`: 1 and 2.",
    ),
    case(
        "a live state without an action",
        DynamicsError,
        lambda: bm.World(
            bm.Dynamics.from_arrays([0], [0], [2], [1.0], n_states=3, n_actions=2),
            labelled(),
        ),
        "`dynamics` has no action for state icu, which is not terminal.",
    ),
    case(
        "dynamics whose state axes differ",
        DynamicsError,
        lambda: bm.Dynamics.from_dense(np.full((2, 1, 3), 1 / 3)),
        "`array` must have shape (n_states, n_actions, n_states); got (2, 1, 3).",
    ),
    case(
        "a row that does not sum to 1",
        DynamicsError,
        lambda: bm.Dynamics.from_dense([[[0.5, 0.5]], [[0.5, 0.4]]]),
        "`probability` rows must sum to 1: state 1, action 0 sums to 0.9.",
    ),
    case(
        "a negative probability of a next state",
        DynamicsError,
        lambda: bm.Dynamics.from_dense([[[0.5, 0.5]], [[1.5, -0.5]]]),
        "`probability` must not be negative: state 1, action 0, next state 1",
        "has -0.5.",
    ),
    case(
        "a NaN probability of a next state",
        DynamicsError,
        lambda: bm.Dynamics.from_dense([[[0.5, 0.5]], [[1.0, NAN]]]),
        "`array` must be finite: state 1, action 0, next_state 1 is nan.",
    ),
    case(
        "columns of dynamics of different length",
        DynamicsError,
        lambda: bm.Dynamics.from_arrays([0], [0], [0, 1], [1], n_states=2, n_actions=1),
        "Columns must have the same number of rows: got 1, 1, 2 and 1.",
    ),
    case(
        "a pair without a row",
        ArgumentError,
        lambda: NARROW.mean().row(0, 1),
        "State 0 has no available action 1.",
    ),
    case(
        "wind of probability 2",
        ArgumentError,
        lambda: bm.worlds.gridworld(p_rand=2),
        "`p_rand` must be in [0, 1]; got 2.",
    ),
    case(
        "a grid one square wide",
        ArgumentError,
        lambda: bm.worlds.gridworld(width=1),
        "`width` must be at least 2; got 1.",
    ),
]


@pytest.mark.parametrize(
    ("error", "call", "said"),
    [
        *COUNT_CASES,
        *TASK_CASES,
        *POLICY_CASES,
        *FIT_CASES,
        *DRAW_CASES,
        *WORLD_CASES,
    ],
)
def test_the_message_names_what_is_wrong(
    error: type[bm.BayesmdpError], call: Callable[[], object], said: tuple[str, ...]
) -> None:
    assert issubclass(error, bm.BayesmdpError)
    assert all(len(fragment) > 1 or fragment.isdigit() for fragment in said)
    in_order = ".*".join(re.escape(fragment) for fragment in said)
    with pytest.raises(error, match=in_order) as caught:
        call()
    assert type(caught.value) is error


@pytest.mark.parametrize("said", ["many", "1.5", "0", "-2"])
def test_a_bad_number_of_threads_in_the_environment_is_refused(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("BAYESMDP_THREADS", said)
    with pytest.raises(ArgumentError, match=rf"`BAYESMDP_THREADS` must .*{said}"):
        bm.evaluate(EVEN, POSTERIOR.draws(2))


def test_threads_given_as_an_argument_overrule_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BAYESMDP_THREADS", "many")
    assert bm.evaluate(EVEN, POSTERIOR.draws(2), threads=1).n_draws == 2


def test_the_least_horizon_that_is_offered_is_enough() -> None:
    assert bm.draws_needed(0.001, discount=0.999, horizon=13_809) > 0


def test_an_error_is_a_value_error() -> None:
    assert issubclass(bm.BayesmdpError, ValueError)


RAGGED = [[1], [0, 1], [1]]
NOT_NUMBERS = {"None": None, "text": "many", "a list of texts": ["a", "b", "c"]}
NOT_ARRAYS = NOT_NUMBERS | {"a ragged list": RAGGED}


def of_arrays(make: Callable[..., object], *columns: list[int], **more: object) -> Any:
    """Build a call with one column replaced, for each column."""

    def call(i: int, bad: object) -> object:
        return make(*[bad if j == i else c for j, c in enumerate(columns)], **more)

    return call


COUNT_COLUMNS = of_arrays(bm.Counts.from_arrays, [0, 1, 0], [0] * 3, [1] * 3, [1] * 3)
LOG_COLUMNS = of_arrays(bm.Transitions.from_arrays, [0, 1, 0], [0] * 3, [1] * 3)
ROWS = of_arrays(
    bm.Dynamics.from_arrays, [0, 1], [0, 0], [1, 0], [1, 1], n_states=2, n_actions=1
)
TRIPLET = ([0], [0], [0])

WRONG_ARRAYS: dict[str, Callable[[Any], object]] = {
    "Counts.from_dense(array)": bm.Counts.from_dense,
    "Counts.from_arrays(state)": lambda bad: COUNT_COLUMNS(0, bad),
    "Counts.from_arrays(action)": lambda bad: COUNT_COLUMNS(1, bad),
    "Counts.from_arrays(next_state)": lambda bad: COUNT_COLUMNS(2, bad),
    "Transitions.from_arrays(state)": lambda bad: LOG_COLUMNS(0, bad),
    "Dynamics.from_dense(array)": bm.Dynamics.from_dense,
    "Dynamics.from_arrays(state)": lambda bad: ROWS(0, bad),
    "Dynamics.from_arrays(probability)": lambda bad: ROWS(3, bad),
    "Task(reward)": lambda bad: task(reward=bad),
    "Task(start)": lambda bad: task(start=bad),
    "Task(terminal)": lambda bad: task(terminal=bad),
    "evaluate(policy)": lambda bad: bm.evaluate(bad, POSTERIOR.draws(2)),
    "restrict(policy)": lambda bad: bm.restrict(bad, POSTERIOR),
}
OPTIONAL_ARRAYS: dict[str, Callable[[Any], object]] = {
    "Counts.from_arrays(count)": lambda bad: COUNT_COLUMNS(3, bad),
    "Transitions.from_arrays(reward)": lambda bad: bm.Transitions.from_arrays(
        [0] * 3, [0] * 3, [0] * 3, reward=bad
    ),
    "Transitions.from_arrays(episode)": lambda bad: bm.Transitions.from_arrays(
        [0] * 3, [0] * 3, [0] * 3, episode=bad
    ),
    "Transitions.from_arrays(terminated)": lambda bad: bm.Transitions.from_arrays(
        [0] * 3, [0] * 3, [0] * 3, terminated=bad
    ),
    "SymmetricPrior(support)": with_support,
}
WRONG_NUMBERS: dict[str, Callable[[Any], object]] = {
    "Task(n_states)": lambda bad: task(n_states=bad),
    "Task(n_actions)": lambda bad: task(n_actions=bad),
    "Task(discount)": lambda bad: task(discount=bad),
    "Dynamics.from_arrays(n_states)": lambda bad: bm.Dynamics.from_arrays(
        *TRIPLET, [1.0], n_states=bad, n_actions=1
    ),
    "fit(min_count)": lambda bad: bm.fit(COUNTS, task(), min_count=bad),
    "SymmetricPrior(concentration)": bm.SymmetricPrior,
    "SparsePrior(concentration)": bm.SparsePrior,
    "draws(n_draws)": POSTERIOR.draws,
    "draws(seed)": lambda bad: POSTERIOR.draws(2, seed=bad),
    "dynamics(draw)": POSTERIOR.draws(2).dynamics,
    "counts_by_fold(n_folds)": LOG.counts_by_fold,
    "draws_needed(error)": lambda bad: bm.draws_needed(bad, discount=0.5),
    "draws_needed(discount)": lambda bad: bm.draws_needed(0.1, discount=bad),
    "gridworld(p_rand)": bm.worlds.gridworld,
    "gridworld(width)": lambda bad: bm.worlds.gridworld(width=bad),
}
OPTIONAL_NUMBERS: dict[str, Callable[[Any], object]] = {
    "Counts.from_arrays(n_states)": lambda bad: bm.Counts.from_arrays(
        *TRIPLET, n_states=bad
    ),
    "Counts.from_arrays(n_actions)": lambda bad: bm.Counts.from_arrays(
        *TRIPLET, n_actions=bad
    ),
    "Transitions.from_arrays(n_states)": lambda bad: bm.Transitions.from_arrays(
        *TRIPLET, n_states=bad
    ),
    "evaluate(threads)": lambda bad: bm.evaluate(EVEN, POSTERIOR.draws(2), threads=bad),
    "evaluate(tolerance)": lambda bad: bm.evaluate(
        EVEN, POSTERIOR.draws(2), tolerance=bad
    ),
    "draws_needed(horizon)": lambda bad: bm.draws_needed(
        0.1, discount=0.5, horizon=bad
    ),
    "SparsePrior(fallback)": lambda bad: bm.fit(
        COUNTS, task(), prior=bm.SparsePrior(fallback=bad)
    ),
}


def product(
    calls: dict[str, Callable[[Any], object]], bad: dict[str, Any], *, none: bool
) -> list[Any]:
    """Every call with every bad value; None only where it is not the default."""
    return [
        pytest.param(call, value, id=f"{name} given {what}")
        for name, call in calls.items()
        for what, value in bad.items()
        if none or value is not None
    ]


@pytest.mark.parametrize(
    ("call", "bad"),
    [
        *product(WRONG_ARRAYS, NOT_ARRAYS, none=True),
        *product(OPTIONAL_ARRAYS, NOT_ARRAYS, none=False),
        *product(WRONG_NUMBERS, NOT_NUMBERS, none=True),
        *product(OPTIONAL_NUMBERS, NOT_NUMBERS, none=False),
    ],
)
def test_the_wrong_type_is_our_error(call: Callable[[Any], object], bad: Any) -> None:
    with pytest.raises(bm.BayesmdpError):
        call(bad)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: task(state_labels=3), id="labels that are a number"),
        pytest.param(lambda: task(terminal=1.5), id="a fractional terminal state"),
        pytest.param(
            lambda: task(discount=10**400), id="a discount too large for a float"
        ),
        pytest.param(
            lambda: bm.evaluate([["a", "b"]] * 3, POSTERIOR.draws(2)),
            id="a policy [S, A] of texts",
        ),
        pytest.param(
            lambda: bm.Counts.from_arrays(*TRIPLET, n_states=2.5, n_actions=1),
            id="a fractional n_states of counts",
        ),
        pytest.param(
            lambda: bm.Counts.from_arrays([], [], [], n_states=-1, n_actions=1),
            id="a negative n_states of counts",
        ),
        pytest.param(lambda: bm.fit(COUNTS, None), id="no task"),
        pytest.param(
            lambda: bm.fit(COUNTS, task(), prior=1.0), id="a number for a prior"
        ),
        pytest.param(
            lambda: bm.fit(COUNTS, task(), prior=bm.SymmetricPrior),
            id="a prior that was not made",
        ),
        pytest.param(lambda: with_support(([0], [0])), id="a support of two columns"),
        pytest.param(
            lambda: bm.World(np.full((3, 2, 3), 1 / 3), task()),
            id="an array for dynamics",
        ),
        pytest.param(
            lambda: bm.World(POSTERIOR.mean(), None), id="a world without a task"
        ),
        pytest.param(lambda: bm.restrict(EVEN, task()), id="a task for a belief"),
        pytest.param(
            lambda: bm.evaluate_analytic(EVEN, POSTERIOR.draws(2)),
            id="draws for a posterior",
        ),
        pytest.param(
            lambda: bm.Dynamics(POSTERIOR.rows, np.full(POSTERIOR.alpha.size, NAN)),
            id="dynamics that are NaN",
        ),
        pytest.param(
            lambda: bm.draws_needed(1e-200, discount=0.5),
            id="an error too small to square",
        ),
    ],
)
def test_the_wrong_thing_is_our_error(call: Callable[[], object]) -> None:
    with pytest.raises(bm.BayesmdpError):
        call()
