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
from bayesmdp._typing import ArrayLike, IntArray, Name
from bayesmdp.errors import BayesmdpError, DynamicsError, TaskError
from bayesmdp.model import Dynamics, Task, coordinates, is_sparse, reward_triplets
from bayesmdp.worlds._mdp import MDP


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
    try:
        dynamics = Dynamics.from_matrices(matrices)
    except DynamicsError as problem:
        raise DynamicsError(f"`transitions`: {problem}") from problem
    if not dynamics.available.all():
        state, action = _checks.first_true(~dynamics.available)
        raise DynamicsError(
            f"`transitions` rows must sum to 1: state {state}, action {action} sums "
            "to 0."
        )
    task = Task(
        dynamics.n_states,
        dynamics.n_actions,
        _reward(reward, dynamics.n_states, dynamics.n_actions),
        discount=discount,
        start=start,
        terminal=terminal,
        state_labels=state_labels,
        action_labels=action_labels,
    )
    return MDP(dynamics, task)


def _matrices(value: Any, name: str, error: type[BayesmdpError]) -> list[Any]:
    """Return the matrix of each action; none where the value holds none."""
    found: list[Any] = []
    listed = isinstance(value, np.ndarray) and value.ndim in (1, 3)
    for i, given in enumerate(value if listed or type(value) in (list, tuple) else ()):
        said = f"{name} of action {i}"
        matrix = in_order(name, given, ("state", "state"), error)
        if not is_sparse(matrix):
            matrix = _checks.any_array(said, matrix, error)
            if matrix.ndim != 2:
                return []
            _checks.float_array(said, matrix, ("state", "next_state"), error)
        else:
            matrix = matrix.tocoo(copy=True)
            matrix.sum_duplicates()
            _checks.float_array(said, matrix.data, ("entry",), error)
        found.append(matrix)
    return found


def _reward(reward: Any, n_states: int, n_actions: int) -> Any:
    """Return ``[S]`` and ``[S, A]`` as they are, matrices as columns of entries."""
    if is_sparse(reward):
        reward = reward.toarray()
    reward = in_order("reward", reward, ("state", "action"), TaskError)
    matrices = _matrices(reward, "reward", TaskError)
    if matrices:
        shape: tuple[int, ...] = (len(matrices), *matrices[0].shape)
    else:
        reward = _checks.any_array("reward", reward, TaskError)
        shape = reward.shape
    if shape == (n_actions, n_states, n_states):
        entries = [coordinates(x) for x in matrices]
        action = np.repeat(np.arange(n_actions), [x.data.size for x in entries])
        state, next_state, pays = (
            np.concatenate([getattr(x, name) for x in entries])
            for name in ("row", "col", "data")
        )
        columns = state.astype(np.int64), action, next_state.astype(np.int64), pays
        return reward_triplets(*columns, n_states=n_states, n_actions=n_actions)
    if shape not in {(n_states,), (n_states, n_actions)}:
        raise TaskError(
            f"`reward` must be [S], [S, A] or [A, S, S] with {n_states} states and "
            f"{n_actions} actions; got shape {shape}."
        )
    return reward
