"""A policy as a table that people read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, PolicyLike
from bayesmdp.errors import ArgumentError
from bayesmdp.model._align import Data, align
from bayesmdp.model._policies import AnyPair, as_policy
from bayesmdp.model._task import Task

if TYPE_CHECKING:
    import pandas as pd


def policy_table(
    policy: PolicyLike, task: Task, counts: Data | None = None
) -> pd.DataFrame:
    """Return a data frame of what a policy does, one row per pair it may use.

    Needs pandas. ``.to_csv(path)`` and ``.to_markdown()`` are the frame's own, and so
    is ``.to_excel(path)`` where openpyxl is installed.

    Parameters
    ----------
    policy
        As in `bayesmdp.evaluate`.
    task
        The known part; its labels name states and actions.
    counts
        What was logged, as in `bayesmdp.fit`, such as ``posterior.counts``.

    Returns
    -------
    DataFrame
        Columns ``state``, ``action``, ``probability``, and with counts ``visits``: how
        often the pair was logged. Terminal states have no rows.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(3, 2, reward=[0, 0, 1], discount=0.9, terminal="home",
    ...                state_labels=["ward", "icu", "home"],
    ...                action_labels=["wait", "treat"])
    >>> log = bm.Counts.from_arrays([0, 1, 1], [0, 1, 1], [1, 1, 2])
    >>> table = bm.policy_table({"ward": "wait", "icu": "treat"}, task, log)
    >>> print(table.to_string(index=False))
    state action  probability  visits
     ward   wait          1.0       1
      icu  treat          1.0       2
    """
    _checks.of_type("task", task, Task, ArgumentError)
    checked = as_policy(policy, AnyPair(task))
    try:
        import pandas as pd
    except ImportError:
        raise ArgumentError(
            "`policy_table` needs pandas, which is not installed; "
            "`bm.storage.write_policy` does not."
        ) from None
    columns = ["state", "action", "probability"]
    table = pd.DataFrame(used_pairs(checked, task), columns=columns)
    if counts is not None:
        found, _ = align(counts, task)
        visits = found.pair_totals(task.n_states, task.n_actions)
        table["visits"] = visits[checked > 0]
    return table


def used_pairs(policy: FloatArray, task: Task) -> list[dict[str, Any]]:
    """Name state, action and probability of all that a policy ``[S, A]`` may do."""
    return [
        {
            "state": task.state_name(state),
            "action": task.action_name(action),
            "probability": float(policy[state, action]),
        }
        for state, action in np.argwhere(policy > 0).tolist()
    ]
