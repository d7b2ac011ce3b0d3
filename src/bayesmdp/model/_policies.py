"""Policies are arrays: ``[S, A]`` probabilities, or ``[S]`` actions.

Both are accepted everywhere, also with labels, and so are names of actions: one per
state, a mapping ``{state: action}``, or ``"always:ACTION"``; ``[S, A]`` is what comes
back. Rows of terminal states are ignored.

A policy as a table that people read.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._checks import argument
from bayesmdp._labelled import in_order
from bayesmdp._typing import BoolArray, FloatArray, IntArray, Name, PolicyLike
from bayesmdp.errors import ArgumentError, BayesmdpWarning, PolicyError, TaskError
from bayesmdp.model._align import Data, align
from bayesmdp.model._task import Task

if TYPE_CHECKING:
    import pandas as pd


_SUM_TOLERANCE = 1e-6
ALWAYS = "always:"  # begins the name of a policy that takes one action
#: What `bayesmdp.policies` makes, and the command line knows by name.
POLICY_NAMES = ("behaviour", "mle", "nominal", "second_order", "msbi", "uniform")
_NOTHING = 1e-12  # a probability this little below 0 is rounding


@runtime_checkable
class KnowsPairs(Protocol):
    """What a policy is checked against: a posterior, an ensemble or a world."""

    @property
    def task(self) -> Task:
        """The known part."""

    @property
    def available(self) -> BoolArray:
        """Pairs a policy may use, ``[S, A]``."""


@dataclass(frozen=True)
class AnyPair:
    """What a policy is checked against where any pair may be used."""

    task: Task

    @property
    def available(self) -> BoolArray:
        """Every pair, ``[S, A]``."""
        return np.ones((self.task.n_states, self.task.n_actions), dtype=np.bool_)


def check_knows(belief: object) -> None:
    """Refuse what a policy cannot be checked against, such as a task."""
    if not isinstance(belief, KnowsPairs):
        raise PolicyError(
            "`belief` must know its task and available pairs, as a posterior does; got "
            f"{type(belief).__name__}."
        )


def as_policy(
    policy: PolicyLike, belief: KnowsPairs, name: str = "policy"
) -> FloatArray:
    """Check a policy; return probabilities ``[S, A]``, 0 in terminal states."""
    check_knows(belief)
    task = belief.task
    found = _probabilities(policy, task, name)
    used = (found > 0) & ~belief.available
    if used.any():
        state, action = _checks.first_true(used)
        raise PolicyError(
            f"`{name}` uses an unavailable pair: {task.pair_name(state, action)}; "
            f"{argument('restrict')} drops such actions."
        )
    return _checks.sealed(found)


def restrict(policy: PolicyLike, belief: KnowsPairs) -> FloatArray:
    """Drop unavailable actions from a policy and renormalise its rows.

    A state that loses all its mass gets equal probability on its available actions. A
    warning names what was dropped.

    Parameters
    ----------
    policy
        ``[S, A]`` or ``[S]``.
    belief
        A posterior, or anything else with available pairs.

    Returns
    -------
    Array
        The policy that is left, ``[S, A]``.

    Examples
    --------
    >>> import warnings, numpy as np, bayesmdp as bm
    >>> task = bm.Task(2, 2, reward=[1, 0], discount=0.9)
    >>> counts = bm.Counts.from_arrays([0, 1], [0, 1], [1, 0])
    >>> posterior = bm.fit(counts, task, min_count=1)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     bm.restrict(np.full((2, 2), 0.5), posterior)
    array([[1., 0.],
           [0., 1.]])
    """
    check_knows(belief)
    task = belief.task
    found = _probabilities(policy, task, "policy")
    dropped = np.where(belief.available, 0.0, found).sum(axis=1)
    kept = np.where(belief.available, found, 0.0)
    left = kept.sum(axis=1)
    lost = (left <= 0) & ~task.is_terminal
    kept[lost] = belief.available[lost]
    left[lost] = kept[lost].sum(axis=1)
    np.divide(kept, left[:, None], out=kept, where=left[:, None] > 0)
    touched = np.flatnonzero(dropped > 0)
    if touched.size:
        worst = int(np.argmax(dropped))
        warnings.warn(
            f"`restrict` dropped probability in {touched.size} of {task.live.size} "
            f"states (mean {dropped[task.live].mean():.3g}, most in state "
            f"{task.state_name(worst)}: {dropped[worst]:.3g}); {int(lost.sum())} had "
            "nothing left and now choose evenly among their available actions.",
            BayesmdpWarning,
            stacklevel=2,
        )
    return _checks.sealed(kept)


def _probabilities(policy: PolicyLike, task: Task, name: str) -> FloatArray:
    """Return ``[S, A]`` probabilities, zero in terminal states."""
    if not isinstance(policy, np.ndarray):
        policy = _in_order(policy, task, name)
    array = _checks.any_array(name, policy, PolicyError)
    if array.dtype.kind in "UO" and array.shape == (task.n_states,):
        array = _numbered(array, task, name)
    if array.dtype.kind not in "iufb":
        raise PolicyError(f"`{name}` must hold numbers; got dtype {array.dtype}.")
    shape = (task.n_states, task.n_actions)
    if array.shape == shape[:1] and array.dtype.kind in "iu":
        return _deterministic(array, task, name)
    if array.shape == shape[:1]:
        raise PolicyError(
            f"`{name}` of shape ({task.n_states},) must hold whole numbers, an action "
            f"for each state; got dtype {array.dtype}."
        )
    if array.shape != shape:
        raise PolicyError(
            f"`{name}` must have shape {shape} or {shape[:1]}; got {array.shape}."
        )
    checked = np.where(task.is_terminal[:, None], 0.0, array)
    found = _checks.float_array(
        name, checked, ("state", "action"), PolicyError, shape
    ).copy()
    found[(found < 0) & (found > -_NOTHING)] = 0.0
    if (found < 0).any():
        state, action = _checks.first_true(found < 0)
        raise PolicyError(
            f"`{name}` must not be negative: {task.pair_name(state, action)} has "
            f"{found[state, action]:g}."
        )
    total = found.sum(axis=1)
    off = (np.abs(total - 1.0) > _SUM_TOLERANCE) & ~task.is_terminal
    if off.any():
        state = int(np.argmax(off))
        raise PolicyError(
            f"`{name}` rows must sum to 1: state {task.state_name(state)} sums to "
            f"{total[state]:.6g}."
        )
    found[task.live] /= total[task.live, None]
    return found


def _in_order(policy: PolicyLike, task: Task, name: str) -> Any:
    """Return actions or probabilities as the task counts states and actions."""
    if isinstance(policy, str):
        return _always(policy, task, name)
    if isinstance(policy, Mapping):
        return _listed(policy, task, name)
    ends = [task.state_name(s) for s in task.terminal]
    return in_order(name, policy, ("state", "action"), PolicyError, task, ends)


def _always(policy: str, task: Task, name: str) -> IntArray:
    """Return one action in every state, ``[S]``."""
    action: Name = policy.removeprefix(ALWAYS)
    if action == policy:
        take = f"; take bm.policies.{policy}(posterior)"
        raise PolicyError(
            f"`{name}` as text must be {ALWAYS!r} and an action; got {policy!r:.60}"
            f"{take if policy in POLICY_NAMES else ''}."
        )
    if task.action_labels is None and str(action).isdecimal():
        action = int(action)
    with _of(name):
        return np.full(task.n_states, task.action(action))


def _listed(policy: Mapping[Any, Name], task: Task, name: str) -> NDArray[Any]:
    """Return the action of each state, ``[S]``; None in terminal states."""
    found = np.full(task.n_states, None)
    for state, action in policy.items():
        with _of(name):
            at = task.state(state)
        if found[at] is not None:
            raise PolicyError(f"`{name}` names state {task.state_name(at)} twice.")
        found[at] = action
    missing = next((s for s in task.live if found[s] is None), None)
    if missing is not None:
        raise PolicyError(
            f"`{name}` has no action for state {task.state_name(missing)}: give one "
            "for every state that is not terminal."
        )
    return found


def _numbered(names: NDArray[Any], task: Task, name: str) -> IntArray:
    """Return numbers of named actions ``[S]``, 0 in terminal states."""
    found, said = np.zeros(task.n_states, dtype=np.int64), names.tolist()
    for state in task.live:
        with _of(f"{name} of state {task.state_name(state)}"):
            found[state] = task.action(said[state])
    return found


@contextmanager
def _of(name: str) -> Iterator[None]:
    """Say in which policy a name is unknown."""
    try:
        yield
    except TaskError as problem:
        raise PolicyError(f"`{name}`: {problem}") from None


def _deterministic(array: np.ndarray, task: Task, name: str) -> FloatArray:
    chosen = np.where(task.is_terminal, 0, array)
    bad = (chosen < 0) | (chosen >= task.n_actions)
    if bad.any():
        state = int(np.argmax(bad))
        raise PolicyError(
            f"`{name}` must hold actions in 0..{task.n_actions - 1}: state "
            f"{task.state_name(state)} has {chosen[state]}."
        )
    found = np.zeros((task.n_states, task.n_actions))
    found[task.live, chosen[task.live]] = 1.0
    return found


def policy_table(
    policy: PolicyLike, task: Task, counts: Data | None = None
) -> pd.DataFrame:
    """Return a policy as a data frame, one row per pair it may use.

    Needs pandas. ``.to_csv(path)`` and ``.to_markdown()`` are the frame's own, and so
    is ``.to_excel(path)`` where openpyxl is installed; of this frame it writes labels
    such as ``=1+1`` as text, not as formulas.

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
    object.__setattr__(table, "to_excel", partial(_write_sheet, table))
    return table


def _write_sheet(table: pd.DataFrame, excel_writer: Any, **how: Any) -> None:
    """Write a sheet as pandas does, but every label as text.

    Not within a writer or by an engine of the caller's, which are left as they are.
    """
    import pandas as pd

    if isinstance(excel_writer, pd.ExcelWriter) or how.get("engine") is not None:
        type(table).to_excel(table, excel_writer, **how)
        return
    with pd.ExcelWriter(excel_writer, engine="openpyxl") as writer:
        type(table).to_excel(table, writer, **how)
        for cell in (x for sheet in writer.book for row in sheet.rows for x in row):
            if cell.data_type == "f":
                cell.data_type = "s"


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
