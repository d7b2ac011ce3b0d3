"""Arrays of the MDP toolboxes (MATLAB, R, Python) as worlds.

There, a model is one matrix ``[S, S]`` for each action, dense or sparse, and nothing
ever ends. A reward ``[S]`` is paid for every step that leaves the state, which is what
it means here as long as no state is terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._labelled import in_order
from bayesmdp._typing import ArrayLike, FloatArray, IntArray, Name
from bayesmdp.errors import BayesmdpError, DynamicsError, TaskError
from bayesmdp.model import Dynamics, Task, is_sparse, reward_triplets
from bayesmdp.worlds._mdp import MDP

#: Size, row, column, value, and how far sums may be from 1.
_Entries = tuple[int, IntArray, IntArray, FloatArray, float]


def from_mdptoolbox(
    transitions: Any,
    reward: Any,
    *,
    discount: float,
    start: Name | ArrayLike = "uniform",
    terminal: Name | Sequence[Name] | IntArray = (),
    state_labels: Sequence[str] | None = None,
    action_labels: Sequence[str] | None = None,
) -> MDP:
    """Read the arrays that MDP toolboxes work with.

    Parameters
    ----------
    transitions
        Probabilities ``[A, S, S]``, or a list of A matrices ``[S, S]``, dense or
        SciPy's sparse ones. Every row must sum to 1, within the
        precision that the matrices come in.
    reward
        ``[S]``, ``[S, A]``, ``[A, S, S]``, or a list of A matrices ``[S, S]``.
    discount
        In [0, 1].
    start, terminal, state_labels, action_labels
        As in `Task`. Toolboxes know no terminal states; below discount 1, an
        absorbing state that pays nothing need not be one.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> wait = [[0.1, 0.9, 0.0], [0.1, 0.0, 0.9], [0.1, 0.0, 0.9]]  # fire, or growth
    >>> cut = [[1, 0, 0], [1, 0, 0], [1, 0, 0]]
    >>> forest = bm.worlds.from_mdptoolbox(
    ...     [wait, cut], [[0, 0], [0, 1], [4, 2]], discount=0.9
    ... )
    >>> print(forest.value([0, 0, 0]).round(3))
    [26.244 29.484 33.484]
    """
    matrices = _matrices(transitions, "transitions", DynamicsError)
    if not matrices:
        raise DynamicsError(
            "`transitions` must be [A, S, S], or a list of matrices [S, S], one for "
            f"each action; got {np.shape(transitions) or type(transitions).__name__}."
        )
    n_states, n_actions = matrices[0][0], len(matrices)
    state, action, next_state, probability = _columns(matrices)
    tolerance = max(m[4] for m in matrices)
    probability = _summed(state, action, probability, n_states, n_actions, tolerance)
    task = Task(
        n_states,
        n_actions,
        _reward(reward, n_states, n_actions),
        discount=discount,
        start=start,
        terminal=terminal,
        state_labels=state_labels,
        action_labels=action_labels,
    )
    dynamics = Dynamics.from_arrays(
        state, action, next_state, probability, n_states=n_states, n_actions=n_actions
    )
    return MDP(dynamics, task)


def _matrices(value: Any, name: str, error: type[BayesmdpError]) -> list[_Entries]:
    """Return the matrix of each action; none where the value holds no matrices."""
    listed = isinstance(value, list | tuple) or (
        isinstance(value, np.ndarray) and value.ndim == 1
    )
    if isinstance(value, list | tuple):
        value = [in_order(name, x, ("state", "state"), error) for x in value]
    if not (listed and any(map(is_sparse, value))):
        value = _checks.any_array(name, value, error)
        if value.ndim != 3 and not (value.ndim == 1 and value.dtype == object):
            return []
    found = [_entries(matrix, name, i, error) for i, matrix in enumerate(value)]
    for action, (size, *_) in enumerate(found):
        if size != found[0][0]:
            raise error(
                f"`{name}` must have as many states for every action: action 0 has "
                f"{found[0][0]}, action {action} has {size}."
            )
    return found


def _entries(
    matrix: Any, name: str, action: int, error: type[BayesmdpError]
) -> _Entries:
    """Return what is not zero in a square matrix."""
    said = f"{name} of action {action}"
    if is_sparse(matrix):
        found = matrix.tocoo(copy=True)
        found.sum_duplicates()
        shape, row, column, value = found.shape, found.row, found.col, found.data
    else:
        dense = _checks.any_array(said, matrix, error)
        shape = dense.shape
        row, column = np.nonzero(np.atleast_2d(dense))[:2]
        value = dense[row, column] if dense.ndim == 2 else dense
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise error(
            f"`{name}` must hold square matrices [S, S]: action {action} has shape "
            f"{shape}."
        )
    tolerance = _checks.sum_tolerance(value)
    value = _checks.float_array(said, value, ("entry",), error)
    return shape[0], row.astype(np.int64), column.astype(np.int64), value, tolerance


def _columns(
    matrices: list[_Entries],
) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """State, action, next state and value of every entry."""
    action = np.repeat(np.arange(len(matrices)), [m[1].size for m in matrices])
    state, next_state = (np.concatenate([m[i] for m in matrices]) for i in (1, 2))
    return state, action, next_state, np.concatenate([m[3] for m in matrices])


def _summed(
    state: IntArray,
    action: IntArray,
    probability: FloatArray,
    n_states: int,
    n_actions: int,
    tolerance: float,
) -> FloatArray:
    """Refuse rows that are no distributions, empty ones too; divide out rounding."""
    if (probability < 0).any():
        at = int(np.argmax(probability < 0))
        raise DynamicsError(
            f"`transitions` must not be negative: action {action[at]}, state "
            f"{state[at]} has {probability[at]:g}."
        )
    total = np.bincount(
        action * n_states + state, probability, minlength=n_actions * n_states
    )
    sums = _checks.sums_to_divide("transitions", np.asarray(total, float), tolerance)
    off = np.abs(total / sums - 1.0) > _checks.SUM_TOLERANCE
    if off.any():
        at = int(np.argmax(off))
        raise DynamicsError(
            f"`transitions` rows must sum to 1: action {at // n_states}, state "
            f"{at % n_states} sums to {total[at]:.10g}."
        )
    return np.asarray(probability / sums[action * n_states + state])


def _reward(reward: Any, n_states: int, n_actions: int) -> Any:
    """Return ``[S]`` and ``[S, A]`` as they are, matrices as columns of entries."""
    if is_sparse(reward):
        reward = reward.toarray()
    reward = in_order("reward", reward, ("state", "action"), TaskError)
    matrices = _matrices(reward, "reward", TaskError)
    if matrices:
        shape: tuple[int, ...] = (len(matrices), matrices[0][0], matrices[0][0])
    else:
        reward = _checks.any_array("reward", reward, TaskError)
        shape = reward.shape
    if shape == (n_actions, n_states, n_states):
        columns = _columns(matrices)
        return reward_triplets(*columns, n_states=n_states, n_actions=n_actions)
    if shape not in {(n_states,), (n_states, n_actions)}:
        raise TaskError(
            f"`reward` must be [S], [S, A] or [A, S, S] with {n_states} states and "
            f"{n_actions} actions; got shape {shape}."
        )
    return reward
