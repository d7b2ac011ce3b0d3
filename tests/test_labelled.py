"""Tables with labels are matched by label, whatever the order of their rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bayesmdp as bm
from bayesmdp.errors import BayesmdpError, DynamicsError, PriorError, TaskError

STATES, ACTIONS = ("icu", "ward", "home"), ("wait", "treat")
ORDER, TURNED = [2, 0, 1], [1, 0]


def task(reward: Any = (0, 0, 1), **options: Any) -> bm.Task:
    names = {"state_labels": STATES, "action_labels": ACTIONS, "terminal": "home"}
    return bm.Task(3, 2, reward, discount=0.9, **{**names, **options})


def labelled(values: Any, rows: Any = STATES, columns: Any = ACTIONS) -> dict[str, Any]:
    """Return the same numbers as every kind of table, states and actions shuffled."""
    array = np.asarray(values)[ORDER]
    index = [rows[i] for i in ORDER]
    if array.ndim == 1:
        return {
            "pandas": pd.Series(array, index),
            "pandas, one column": pd.DataFrame({"x": array}, index),
            "pandas, a column of labels": pd.DataFrame({"s": index, "x": array}),
            "polars, a column of labels": pl.DataFrame({"s": index, "x": array}),
        }
    turned = array[:, TURNED] if columns is ACTIONS else array[:, ORDER]
    names = [columns[i] for i in (TURNED if columns is ACTIONS else ORDER)]
    body = {name: turned[:, i] for i, name in enumerate(names)}
    return {
        "pandas": pd.DataFrame(body, index),
        "pandas, a column of labels": pd.DataFrame({"s": index, **body}),
        "polars, a column of labels": pl.DataFrame({"s": index, **body}),
        "Arrow, a column of labels": pa.table({"s": index, **body}),
    }


def test_the_state_that_is_named_is_paid() -> None:
    paid = pd.Series({"c": 5, "a": 1, "b": 2})
    found = bm.Task(3, 2, paid, discount=0.9, state_labels=list("abc"))
    assert isinstance(found.reward, np.ndarray)
    assert found.reward.tolist() == [1, 2, 5]
    assert found.terminal_value.tolist() == [0, 0, 0]


@pytest.mark.parametrize("values", [[3.0, 5.0, 7.0], [[1.0, 2], [3, 4], [5, 6]]])
def test_rewards_are_matched(values: Any) -> None:
    for kind, table in labelled(values).items():
        reward = task(table).reward
        assert isinstance(reward, np.ndarray), kind
        assert reward.tolist() == np.asarray(values).tolist(), kind


def test_starts_are_matched() -> None:
    for kind, table in labelled([0.25, 0.75, 0.0]).items():
        assert task(start=table).start.tolist() == [0.25, 0.75, 0.0], kind
    log = bm.read_transitions(
        pd.DataFrame({"s": ["w2", "w10"], "a": [0, 0], "sp": ["w10", "w2"]})
    )
    share = pd.Series({"w10": 0.75, "w2": 0.25})
    found = bm.Task.from_data(log, discount=0.9, reward=share, start=share)
    assert found.state_labels == ("w2", "w10")
    assert found.start.tolist() == found.reward.tolist() == [0.25, 0.75]  # type: ignore[union-attr]


def test_policies_are_matched() -> None:
    counts = bm.Counts.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [1, 0, 2, 0])
    posterior = bm.fit(counts, task(), prior=bm.SymmetricPrior())
    draws = posterior.draws(20)
    policy = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]])
    wanted = bm.evaluate(policy, draws)
    for kind, table in labelled(policy).items():
        assert np.array_equal(bm.evaluate(table, draws).value, wanted.value), kind
    wanted = bm.evaluate([1, 0, 0], draws)
    for kind, table in labelled([1, 0, 0]).items():
        assert np.array_equal(bm.evaluate(table, draws).value, wanted.value), kind
    named = {"ward": "wait", "icu": "treat"}
    for live in (named, pd.Series(named), pd.Series({"ward": 0, "icu": 1})):
        assert np.array_equal(bm.evaluate(live, draws).value, wanted.value)  # no end
    with pytest.raises(BayesmdpError, match="has nothing for state 'ward'"):
        bm.evaluate(pd.Series({"icu": 1}), draws)
    with pytest.raises(BayesmdpError, match=r"`policies\['mine'\]` has state 'wrad'"):
        bm.compare({"a": policy, "mine": pd.Series({"icu": 1, "wrad": 0})}, draws)


def test_supports_are_matched_where_names_are_known() -> None:
    world = bm.worlds.MDP(
        bm.model.Dynamics.from_dense(np.full((3, 2, 3), 1 / 3)),
        task(),
        support=labelled(np.tri(3, dtype=bool), columns=STATES)["pandas"],
    )
    assert world.support is not None
    assert world.support.tolist() == np.tri(3, dtype=bool).tolist()
    available = np.array([[True, True], [False, True], [True, True]])
    for kind, table in labelled(available).items():
        found = bm.Ensemble([world.dynamics], task(), available=table).available
        assert found[:2].tolist() == available[:2].tolist(), kind
    # A prior knows no task, and so no names.
    mask = np.tri(3, dtype=bool)
    frame = pd.DataFrame(mask, STATES, STATES)
    with pytest.raises(PriorError, match="`support` names states, the first 'icu'"):
        bm.SymmetricPrior(support=frame)
    shuffled = pd.DataFrame(mask).loc[ORDER, ORDER]
    assert np.array_equal(bm.SymmetricPrior(support=shuffled).support, mask)  # type: ignore[arg-type]
    with pytest.raises(DynamicsError, match="`transitions` names states, the first"):
        bm.worlds.from_mdptoolbox(
            [pd.DataFrame(np.eye(3), STATES, STATES)], [0, 0, 0], discount=0.9
        )


PLAIN: dict[str, Callable[[Any], Any]] = {
    "a list": np.ndarray.tolist,
    "pandas without labels": lambda x: pd.Series(x) if x.ndim == 1 else pd.DataFrame(x),
    "polars without labels": lambda x: pl.Series(x) if x.ndim == 1 else pl.DataFrame(x),
    "ids in another order": lambda x: (
        pd.Series(x) if x.ndim == 1 else pd.DataFrame(x)
    ).loc[ORDER],
}


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("labels", [STATES, None])
def test_what_has_no_labels_stands_in_order(make: Any, labels: Any) -> None:
    for values in (np.arange(3.0), np.arange(6.0).reshape(3, 2)):
        known = task(make(values), state_labels=labels, terminal=2)
        assert isinstance(known.reward, np.ndarray)
        assert known.reward.tolist() == values.tolist()


ROWS = {"icu": 1.0, "ward": 2.0, "home": 3.0}
REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a name unknown": (
        pd.Series({**ROWS, "wrad": 0}).drop("ward"),
        {},
        "`reward` has state 'wrad' (did you mean 'ward'?), which the task does not "
        "have: label every state once, or give an array",
    ),
    "a name missing": (
        pd.Series(ROWS).drop("ward"),
        {},
        "`reward` has nothing for state 'ward'",
    ),
    "a name twice": (
        pd.Series([1, 2, 3], ["icu", "ward", "icu"]),
        {},
        "`reward` has state 'icu' twice",
    ),
    "no names in the task": (
        pd.Series(ROWS),
        {"state_labels": None, "terminal": 2},
        "`reward` names states, the first 'icu', and there are no `state_labels`",
    ),
    "an action unknown": (
        pd.DataFrame({"wait": [1, 2, 3], "dose": [1, 2, 3]}),
        {},
        "`reward` has action 'dose', which the task does not have",
    ),
    "names of actions, and none in the task": (
        pd.DataFrame({"wait": [1, 2, 3], "treat": [1, 2, 3]}),
        {"action_labels": None},
        "there are no `action_labels`",
    ),
    "labels that could be ids": (
        pd.Series([1, 2, 3]),
        {"state_labels": ["2", "1", "0"], "terminal": ()},
        "named by numbers in another order: give the labels as text",
    ),
    "dates": (
        pd.Series([1, 2, 3], pd.date_range("2020-01-01", periods=3)),
        {},
        "`reward` has state '2020-01-01 00:00:00'",
    ),
    "a column twice": (
        pd.DataFrame([[1, 2]] * 3, columns=["wait", "wait"]),
        {},
        "`reward` cannot be read",
    ),
    "too few rows": (pd.Series([1.0, 2.0]), {}, "must have shape (3,)"),
    "nothing": (pl.DataFrame(), {}, "`reward` must have shape (3, 2)"),
}


@pytest.mark.parametrize(("table", "options", "said"), REFUSED.values(), ids=REFUSED)
def test_labels_that_do_not_fit_are_refused(
    table: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(TaskError) as caught:
        task(table, **options)
    assert said in str(caught.value)


def test_labels_that_are_numbers_are_text() -> None:
    named = {"state_labels": ["1", "2", "death"], "terminal": "death"}
    for index in ([2, "death", 1], ["2", "death", "1"]):
        known = task(pd.Series([5, 7, 3], index), **named)
        assert known.reward.tolist() == [3, 5, 7]  # type: ignore[union-attr]
