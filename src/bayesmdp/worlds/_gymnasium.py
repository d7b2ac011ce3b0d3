"""Gymnasium's tables as worlds.

``env.unwrapped.P[s][a]`` lists outcomes (probability, next state, reward, terminated).
Two things in it have no place in a `Task`, and are settled here:

* *Ends belong to transitions there, and to states here.* From the start, follow the
  outcomes that go on: these states are live. If no episode can end in a live state, the
  states in which episodes end are terminal and nothing changes. (So it is in all tables
  of Gymnasium. Taxi's also describe what happens after the passenger was dropped off,
  and CliffWalking's what happens after the goal; nobody ever gets there.) Otherwise one
  terminal state ``"end"`` is added, and every outcome that ends leads there.
* *The same next state may pay differently.* Its mean is what counts for values.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._labelled import in_order
from bayesmdp._typing import ArrayLike, BoolArray, FloatArray
from bayesmdp.data.environments import discrete, opened
from bayesmdp.errors import ArgumentError, BayesmdpWarning, DynamicsError, TaskError
from bayesmdp.model import Task
from bayesmdp.worlds._mdp import MDP
from bayesmdp.worlds._outcomes import Outcomes

_RESETS = 1000  # tried where an environment does not say where it starts
_SHAPE = "(probability, next state, reward, terminated)"


def from_gymnasium(
    env: Any, *, discount: float = 0.99, start: int | str | ArrayLike | None = None
) -> MDP:
    """Read the table ``env.unwrapped.P`` of a Gymnasium environment as a world.

    Ids stay those of the environment. Terminal states are those in which its episodes
    end; where an episode can also go on from such a state, one state labelled
    ``"end"`` is added after the others, and whatever ends leads there.

    Wrappers are looked through. So a time limit is no part of the world: it cuts
    episodes off, it does not end them. What an environment does beside its table
    (Taxi's fickle passenger) is not seen.

    Parameters
    ----------
    env
        An environment, or the name of one.
    discount
        In [0, 1].
    start
        A state, probabilities ``[S]``, or ``"uniform"`` over the states in which no
        episode ends; where not given, the environment's ``initial_state_distrib``, or
        else the frequencies of 1,000 resets, which is said in a warning unless they
        all agree. States that cannot be reached from there keep their rows, but
        whether a state is terminal is not up to them.

    Returns
    -------
    MDP
        Where a transition pays now this and now that, its mean is taken, and a warning
        says so: values are right, the spread of returns leaves this out.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> lake = bm.worlds.from_gymnasium("FrozenLake-v1", discount=0.99)
    >>> lake.task.terminal.tolist()  # four holes and the goal
    [5, 7, 11, 12, 15]
    >>> best = bm.policies.nominal(bm.Ensemble([lake.dynamics], lake.task))
    >>> print(f"{lake.task.start @ lake.value(best):.7f}")
    0.5420259
    """
    with opened(env, "from_gymnasium") as made:
        bare = made.unwrapped
        outcomes = _read(bare)
        weights = _start(bare, outcomes, start)
    live = _live(outcomes, weights > 0)
    ended = np.zeros(outcomes.n_states, dtype=np.bool_)
    ended[outcomes.next_state[outcomes.ends & live[outcomes.state]]] = True
    labels = None
    if (ended & live).any():
        labels = [*map(str, range(outcomes.n_states)), "end"]
        outcomes, terminal = _with_end(outcomes), np.array([outcomes.n_states])
        weights = np.append(weights, 0.0)
    else:
        terminal = np.flatnonzero(_ever_ends(outcomes) & ~live)
        outcomes = outcomes.of(~np.isin(outcomes.state, terminal))
    task = Task(
        outcomes.n_states,
        outcomes.n_actions,
        outcomes.mean_reward("from_gymnasium", live),
        discount=discount,
        start=weights,
        terminal=terminal,
        state_labels=labels,
    )
    return MDP(outcomes.dynamics(), task)


def _read(env: Any) -> Outcomes:
    """Turn the nested table into columns, checked."""
    table = getattr(env, "P", None)
    if not isinstance(table, Mapping | Sequence | np.ndarray) or isinstance(table, str):
        raise ArgumentError(
            f"`env` {type(env).__name__} has no table `P` of its dynamics; "
            "`bm.data.collect` gathers transitions from environments without one."
        )
    n_states, first = discrete(env.observation_space, "env.observation_space")
    n_actions, first_action = discrete(env.action_space, "env.action_space")
    if first or first_action:
        raise ArgumentError(
            "`env` must number states and actions from 0 for its table to be read; "
            f"got {env.observation_space} and {env.action_space}."
        )
    rows = list(_rows(table))
    columns = np.array(rows, dtype=np.float64).reshape(-1, 6).T
    _check_columns(columns, n_states, n_actions)
    state, action, next_state = columns[[0, 1, 3]].astype(np.int64)
    return Outcomes(
        n_states,
        n_actions,
        state,
        action,
        next_state,
        columns[2],
        columns[4],
        columns[5] == 1,
    ).of(columns[2] > 0)


def _rows(table: Any) -> Iterator[tuple[float, ...]]:
    """State, action and the four numbers of each outcome."""
    for state, actions in _items(table, "P"):
        for action, outcomes in _items(actions, f"P[{state!r:.20}]"):
            for _, outcome in _items(outcomes, f"P[{state!r:.20}][{action!r:.20}]"):
                try:
                    p, next_state, reward, ends = map(float, outcome)
                    row = (float(state), float(action), p, next_state, reward, ends)
                except (TypeError, ValueError):
                    raise DynamicsError(
                        f"`env.unwrapped.P` must hold outcomes {_SHAPE}: state "
                        f"{state!r:.20}, action {action!r:.20} has {outcome!r:.80}."
                    ) from None
                yield row


def _items(values: Any, name: str) -> Iterator[tuple[Any, Any]]:
    if isinstance(values, Mapping):
        return iter(values.items())
    if isinstance(values, Sequence | np.ndarray) and not isinstance(values, str):
        return iter(enumerate(values))
    raise DynamicsError(
        f"`env.unwrapped.{name}` must be a dict or a list; got {type(values).__name__}."
    )


def _check_columns(columns: FloatArray, n_states: int, n_actions: int) -> None:
    state, action, p, next_state, _, ends = columns
    faults = {
        "finite numbers": ~np.isfinite(columns).all(axis=0),
        f"states in 0..{n_states - 1}": ~np.isin(state, np.arange(n_states)),
        f"actions in 0..{n_actions - 1}": ~np.isin(action, np.arange(n_actions)),
        f"next states in 0..{n_states - 1}": ~np.isin(next_state, np.arange(n_states)),
        "probabilities of 0 or more": p < 0,
        "True or False for the end": ~np.isin(ends, (0, 1)),
    }
    for wanted, wrong in faults.items():
        if wrong.any():
            s, a, *outcome = columns[:, int(np.argmax(wrong))]
            said = ", ".join(f"{x:g}" for x in outcome)
            raise DynamicsError(
                f"`env.unwrapped.P` must hold {wanted}: state {s:g}, action {a:g} has "
                f"({said}) as {_SHAPE}."
            )


def _ever_ends(outcomes: Outcomes) -> BoolArray:
    """Whether some outcome, wherever it is, ends in each state, ``[S]``."""
    mask = np.zeros(outcomes.n_states, dtype=np.bool_)
    mask[outcomes.next_state[outcomes.ends]] = True
    return mask


def _start(
    env: Any, outcomes: Outcomes, start: int | str | ArrayLike | None
) -> FloatArray:
    """Return the probability of each state at the start, ``[S]``."""
    n_states = outcomes.n_states
    if start is None:
        start = getattr(env, "initial_state_distrib", None)
        start = _frequencies(env, n_states) if start is None else start
    if isinstance(start, str):
        if start != "uniform":
            raise TaskError(
                "`start` must be 'uniform', a state or probabilities; got "
                f"{start!r:.80}."
            )
        quiet = ~_ever_ends(outcomes)
        if not quiet.any():
            raise TaskError("`start` 'uniform' finds no state in which nothing ends.")
        return np.asarray(quiet / quiet.sum())
    if isinstance(start, int | np.integer):
        (state,) = _checks.index_array("start", [start], TaskError, n_states, "state")
        return np.asarray(np.eye(1, n_states, state)[0])
    start = in_order("start", start, ("state",), TaskError)
    return _checks.float_array("start", start, ("state",), TaskError, (n_states,))


def _frequencies(env: Any, n_states: int) -> FloatArray:
    """How often resets with seeds 0, 1, ... lead to each state, ``[S]``."""
    seen = [env.reset(seed=seed)[0] for seed in range(_RESETS)]
    states = _checks.index_array("env.reset", seen, ArgumentError, n_states, "seed")
    frequency = np.bincount(states, minlength=n_states) / _RESETS
    n_seen = np.count_nonzero(frequency)
    if n_seen > 1:
        warnings.warn(
            "`from_gymnasium`: the environment has no `initial_state_distrib`; the "
            f"start is that of {_RESETS} resets, which led to {n_seen} states; `start` "
            "sets another.",
            BayesmdpWarning,
            stacklevel=4,
        )
    return frequency


def _live(outcomes: Outcomes, live: BoolArray) -> BoolArray:
    """States that can be met before an episode is over, from a mask of starts."""
    while True:
        grown = live.copy()
        grown[outcomes.next_state[~outcomes.ends & live[outcomes.state]]] = True
        if (grown == live).all():
            return live
        live = grown


def _with_end(outcomes: Outcomes) -> Outcomes:
    """Send every outcome that ends to a state of its own."""
    end = outcomes.n_states
    return replace(
        outcomes,
        n_states=end + 1,
        next_state=np.where(outcomes.ends, end, outcomes.next_state),
    )
