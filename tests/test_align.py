"""Names of data and task: the same name is the same state, whatever its number."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayesmdp as bm
from bayesmdp.errors import (
    ArgumentError,
    BayesmdpWarning,
    CountsError,
    TaskError,
)

STATES = ("death", "home", "icu", "ward")
ACTIONS = ("treat", "wait")


def random_log(seed: int = 0, n: int = 60) -> bm.Transitions:
    rng = np.random.default_rng(seed)
    columns = (
        rng.integers(2, 4, n),  # from icu or ward
        rng.integers(0, 2, n),
        rng.integers(0, 4, n),
    )
    return bm.Transitions.from_arrays(*columns)


def named(log: bm.Transitions) -> bm.Transitions:
    return replace(log, state_labels=STATES, action_labels=ACTIONS)


def task(states: Any = None, actions: Any = None, n_states: int = 4) -> bm.Task:
    return bm.Task(
        n_states,
        2,
        reward=np.arange(float(n_states)),
        discount=0.9,
        terminal=["home", "death"] if states else [0, 1],
        state_labels=states,
        action_labels=actions,
    )


@pytest.mark.parametrize(
    "states",
    [
        STATES,
        ("ward", "icu", "home", "death"),
        ("icu", "death", "x", "home", "ward", "y"),
    ],
)
@pytest.mark.parametrize("actions", [ACTIONS, ("wait", "treat")])
def test_the_posterior_is_the_one_of_data_numbered_by_hand(
    states: tuple[str, ...], actions: tuple[str, ...]
) -> None:
    data = named(random_log())
    known = task(states, actions, len(states))
    posterior = bm.fit(data, known, prior=bm.SymmetricPrior())
    c = data.counts()
    state = np.array([states.index(x) for x in STATES])
    action = np.array([actions.index(x) for x in ACTIONS])
    by_hand = bm.Counts.from_arrays(
        state[c.state], action[c.action], state[c.next_state], c.count
    )
    assert posterior.counts == by_hand
    assert np.array_equal(
        posterior.alpha, bm.fit(by_hand, known, prior=bm.SymmetricPrior()).alpha
    )
    assert posterior.task is not None
    assert posterior.task.state_labels == states
    assert posterior.task.action_labels == actions


def test_a_task_without_names_takes_those_of_the_data() -> None:
    plain = task()
    with pytest.warns(BayesmdpWarning) as told:
        posterior = bm.fit(named(random_log()), plain, prior=bm.SymmetricPrior())
    said = [str(x.message) for x in told]
    assert "state 0 is 'death', state 3 'ward'" in said[0]
    assert "action 0 is 'treat', action 1 'wait'" in said[1]
    assert {x.filename for x in told} == {__file__}
    assert plain.state_labels is None  # not changed in place
    assert posterior.task.state_labels == STATES
    assert posterior.task.action_labels == ACTIONS
    assert posterior.counts == random_log().counts()
    assert np.array_equal(posterior.task.is_terminal, plain.is_terminal)
    assert np.array_equal(posterior.task.start, plain.start)
    with pytest.warns(BayesmdpWarning):
        sparse = bm.fit(
            named(random_log()), plain, prior=bm.SparsePrior(fallback="death")
        )
    assert sparse.layout.next_state.max() == 3


def test_names_of_states_alone_or_of_actions_alone_will_do() -> None:
    log = random_log()
    states = bm.fit(
        replace(log, state_labels=STATES), task(STATES[::-1]), prior=bm.SymmetricPrior()
    )
    assert states.counts.state.max() == 1  # icu and ward come first there
    assert states.task.action_labels is None
    actions = bm.fit(
        replace(log, action_labels=ACTIONS),
        task(None, ACTIONS[::-1]),
        prior=bm.SymmetricPrior(),
    )
    assert np.array_equal(
        actions.counts.pair_totals(4, 2), log.counts().pair_totals(4, 2)[:, ::-1]
    )


def test_ids_without_names_are_ids() -> None:
    posterior = bm.fit(random_log(), task(STATES, ACTIONS), prior=bm.SymmetricPrior())
    assert posterior.counts == random_log().counts()
    counts = bm.fit(
        random_log().counts(), task(STATES, ACTIONS), prior=bm.SymmetricPrior()
    ).counts
    assert counts == random_log().counts()


def test_numbers_as_names_compare_as_text() -> None:
    frame = pd.DataFrame({"s": [30, 4], "a": [7, 7], "sp": [4, 100]})
    data = bm.read_transitions(frame, labels=True)
    assert data.state_labels == (4, 30, 100)
    known = bm.Task(
        3,
        1,
        reward=[0, 0, 0],
        discount=0.9,
        state_labels=["100", "30", "4"],
        action_labels=["7"],
    )
    counts = bm.fit(data, known, prior=bm.SymmetricPrior()).counts
    assert counts.state.tolist() == [1, 2]
    assert counts.next_state.tolist() == [2, 0]


@pytest.mark.filterwarnings("ignore:`task` has no")
def test_an_update_finds_names_too() -> None:
    first, second = named(random_log(0)), named(random_log(1))
    order = STATES[::-1]
    posterior = bm.fit(first, task(order, ACTIONS), prior=bm.SymmetricPrior()).update(
        second
    )
    both = first.counts() + second.counts()
    expected = bm.fit(
        bm.Counts.from_arrays(
            3 - both.state, both.action, 3 - both.next_state, both.count
        ),
        task(order, ACTIONS),
        prior=bm.SymmetricPrior(),
    )
    assert posterior.counts == expected.counts
    assert np.array_equal(posterior.alpha, expected.alpha)
    # Names that come with later data.
    late = bm.fit(random_log(0), task(), prior=bm.SymmetricPrior()).update(second)
    assert late.task.state_labels == STATES
    assert late.counts == both


def test_a_part_of_the_data_is_numbered_as_the_whole() -> None:
    log = random_log()
    columns = dict(log.table.columns)  # type: ignore[attr-defined]
    log = named(bm.Transitions.from_arrays(**columns, episode=np.arange(60) // 3))
    known = task(STATES[::-1], ACTIONS)
    folds = [
        bm.model.align(log, known, counts=fold)[0] for fold in log.counts_by_fold(4)
    ]
    total = folds[0] + folds[1] + folds[2] + folds[3]
    assert total == bm.model.align(log, known)[0]


REFUSED = {
    "unknown state": (
        lambda log: replace(log, state_labels=("death", "home", "icu", "wrad")),
        lambda: task(STATES, ACTIONS),
        "`data` names a state 'wrad' (did you mean 'ward'?), which does not stand in "
        "the task's `state_labels`: add it there, or fix the data.",
    ),
    "unknown states": (
        lambda log: replace(log, state_labels=("p", "home", "q", "r")),
        lambda: task(STATES, ACTIONS),
        "`data` names a state 'p', which does not stand in the task's `state_labels`, "
        "nor do 2 more: add it there, or fix the data.",
    ),
    "unknown action": (
        lambda log: replace(log, action_labels=("treat", "wait!")),
        lambda: task(STATES, ACTIONS),
        "`data` names an action 'wait!' (did you mean 'wait'?)",
    ),
    "more states than the task has": (
        lambda log: replace(log, state_labels=STATES),
        lambda: task(n_states=5),
        "`data` names 4 states, but `task` has 5 without names: which is which is not "
        "known; give the task `state_labels`, or make it with Task.from_data(data, "
        "...).",
    ),
    "too few names": (
        lambda log: replace(log, state_labels=STATES[:3]),
        lambda: task(STATES, ACTIONS),
        "`data` has state 3, but its `state_labels` are 3: name every one from 0.",
    ),
    "a name twice": (
        lambda log: replace(log, state_labels=("1", 1, "icu", "ward")),
        lambda: task(STATES, ACTIONS),
        "`data` names two states '1': names must differ.",
    ),
}


@pytest.mark.parametrize(("data", "known", "said"), REFUSED.values(), ids=REFUSED)
def test_names_that_do_not_fit_are_refused(data: Any, known: Any, said: str) -> None:
    with pytest.raises(CountsError) as caught:
        bm.fit(data(random_log()), known(), prior=bm.SymmetricPrior())
    assert said in str(caught.value)


def test_other_data_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"Counts or a dataframe .*; got dict"):
        bm.model.align({}, task())  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:`task` has no")
def test_names_stand_in_every_table() -> None:
    # The icu is left once, which is too seldom; nothing is known of the theatre.
    rows = [(3, 0, 2)] * 9 + [(2, 1, 1), (3, 0, 4), (3, 0, 4)]
    log = bm.Transitions.from_arrays(*np.array(rows).T)
    log = replace(log, state_labels=(*STATES, "theatre"), action_labels=ACTIONS)
    known = bm.Task(5, 2, reward=[0, 1, 0, 0, 0], discount=0.9, terminal=[0, 1])
    posterior = bm.fit(log, known, min_count=5, prior=bm.SymmetricPrior())
    said = posterior.summary()
    assert "1 state (icu) without such a pair: most visited one kept" in said
    assert "1 state (theatre) never visited: all actions kept" in said
    assert "(most often theatre, 2 times): terminal?" in said
    policy = np.array([0, 0, 1, 0, 0])
    evaluation = bm.evaluate(policy, posterior.draws(50))
    for name in ("state icu", "state ward", "state theatre"):
        assert name in evaluation.summary()
    analytic = bm.evaluate_analytic(policy, posterior)
    assert "state icu, action wait" in analytic.summary()
    with pytest.raises(bm.BayesmdpError, match="state ward, action wait"):
        bm.evaluate([0, 0, 1, 1, 0], posterior.draws(50))


def test_a_task_with_other_names_is_otherwise_the_same() -> None:
    plain = task()
    _ = plain.is_terminal
    other = plain.with_labels(state_labels=STATES)
    assert other.state("icu") == 2
    assert other.reward is plain.reward
    assert other.action_labels is None
    assert other.with_labels(action_labels=ACTIONS).state_labels == STATES
    with pytest.raises(TaskError, match="`state_labels` must have 4 entries"):
        plain.with_labels(state_labels=["a"])
