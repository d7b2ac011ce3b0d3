"""Tables of outcomes as worlds: those of Gymnasium, and CSV files of CRAAM.

In such tables a transition may stand several times.

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

import csv
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._checks import MAX_ID
from bayesmdp._labelled import in_order
from bayesmdp._resources import check_room
from bayesmdp._typing import ArrayLike, BoolArray, FloatArray, IntArray, Name
from bayesmdp.data.environments import discrete, opened
from bayesmdp.errors import (
    ArgumentError,
    BayesmdpError,
    BayesmdpWarning,
    DynamicsError,
    TaskError,
)
from bayesmdp.model import Dynamics, RewardTriplets, Task
from bayesmdp.worlds._mdp import MDP

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What may happen, as columns; axis K runs over outcomes."""

    n_states: int
    n_actions: int
    state: IntArray  # [K]
    action: IntArray  # [K]
    next_state: IntArray  # [K]
    probability: FloatArray  # [K], above 0
    reward: FloatArray  # [K]
    ends: BoolArray  # [K]

    def of(self, kept: BoolArray) -> Outcomes:
        """Outcomes of the mask ``[K]``."""
        names = ("state", "action", "next_state", "probability", "reward", "ends")
        return replace(self, **{name: getattr(self, name)[kept] for name in names})

    def dynamics(self) -> Dynamics:
        """Probabilities, those of the same transition added up."""
        return Dynamics.from_arrays(
            self.state,
            self.action,
            self.next_state,
            self.probability,
            n_states=self.n_states,
            n_actions=self.n_actions,
        )

    def mean_reward(self, needed_by: str, live: BoolArray) -> RewardTriplets:
        """Mean reward of each transition.

        Says aloud where a transition from one of the ``live`` states ``[S]`` pays now
        this and now that; ``needed_by`` is the function that users called.
        """
        pair = self.state * self.n_actions + self.action
        key, place = np.unique(
            pair * self.n_states + self.next_state, return_inverse=True
        )
        p = self.probability
        mean = np.bincount(place, p * self.reward) / np.bincount(place, p)
        off = np.abs(self.reward - mean[place])
        varied = (off > _ROUNDING * np.abs(mean[place])) & live[self.state]
        if varied.any():
            first = int(np.argmax(varied))
            warnings.warn(
                f"`{needed_by}`: rewards vary in "
                f"{_checks.many(np.unique(place[varied]).size, 'transition')} (first: "
                f"state {self.state[first]}, action {self.action[first]}); their mean "
                "is taken, so values are right and the spread of returns is too small.",
                BayesmdpWarning,
                stacklevel=3,
            )
        return RewardTriplets(key, mean)


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


_COLUMNS = ("idstatefrom", "idaction", "idstateto", "probability", "reward")
_OUTCOME = "idoutcome"


def from_craam(
    path: str | PathLike[str], *, discount: float, start: Name | ArrayLike = "uniform"
) -> MDP:
    r"""Read a CSV file ``idstatefrom,idaction,idstateto,probability,reward``.

    Rows of the same transition add up, and their mean is its reward. A state that no
    row leaves is terminal and worth nothing, as it is there.

    Parameters
    ----------
    path
        The file; ids from 0. A column ``idoutcome`` must be 0: models in which an
        adversary chooses among outcomes are no worlds.
    discount
        In [0, 1].
    start
        ``"uniform"`` over the states that are not terminal, a state, or probabilities
        ``[S]``.

    Examples
    --------
    >>> import pathlib, tempfile, bayesmdp as bm
    >>> path = pathlib.Path(tempfile.mkdtemp(), "coin.csv")
    >>> _ = path.write_text(
    ...     "idstatefrom,idaction,idstateto,probability,reward\n"
    ...     "0,0,0,0.5,1\n0,0,1,0.5,0\n"
    ... )
    >>> world = bm.worlds.from_craam(path, discount=1)
    >>> world.task.terminal.tolist(), world.value([0, 0]).tolist()
    ([1], [1.0, 0.0])
    """
    if not isinstance(path, str | PathLike):
        raise ArgumentError(f"`path` must be a path; got {type(path).__name__}.")
    columns = _read_file(Path(path).expanduser()).T
    state, action, next_state = columns[:3].astype(np.int64)
    n_states = int(max(state.max(), next_state.max())) + 1
    n_actions = int(action.max()) + 1
    top = f"state {n_states - 1} and action {n_actions - 1}"
    check_room(
        8 * n_states * n_actions,
        f"`{path}` has ids up to {top}, which takes",
        lambda _: "number both from 0 without gaps",
    )
    outcomes = Outcomes(
        n_states,
        n_actions,
        state,
        action,
        next_state,
        columns[3],
        columns[4],
        np.zeros(state.size, dtype=np.bool_),
    ).of(columns[3] > 0)
    live = np.isin(np.arange(n_states), state)
    task = Task(
        n_states,
        n_actions,
        outcomes.mean_reward("from_craam", live),
        discount=discount,
        start=start,
        terminal=np.flatnonzero(~live),
    )
    return MDP(outcomes.dynamics(), task)


def _read_file(path: Path) -> FloatArray:
    """Return the columns side by side, ``[rows, 5]``."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            rows = list(_lines_of(csv.reader(stream), path.name))
    except BayesmdpError:
        raise
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        said = getattr(problem, "strerror", None) or "it is not text"
        raise DynamicsError(f"`{path}` cannot be read: {said}.") from problem
    if not rows:
        raise DynamicsError(f"`{path.name}` holds no rows.")
    return np.array(rows)


def _lines_of(lines: Iterable[list[str]], name: str) -> Iterator[tuple[float, ...]]:
    """Numbers of each line after the header, checked."""
    header: Sequence[str] = ()
    for number, line in enumerate(lines, 1):
        if not header:
            header = [word.strip().lower() for word in line]
            _check_header(header, name)
        elif line:
            where = f"Line {number} of `{name}`"
            if len(line) != len(header):
                raise DynamicsError(
                    f"{where} has {len(line)} fields where the header has "
                    f"{len(header)}."
                )
            said = dict(zip(header, line, strict=True))
            if _number(said.get(_OUTCOME, "0")) != 0:
                raise DynamicsError(
                    f"{where} has `{_OUTCOME}` {said[_OUTCOME]!r:.40}: models in which "
                    "an adversary chooses among outcomes cannot be read."
                )
            yield tuple(_checked(said, column, where) for column in _COLUMNS)


def _check_header(header: Sequence[str], name: str) -> None:
    for column in _COLUMNS:
        if header.count(column) != 1:
            raise DynamicsError(
                f"The first line of `{name}` must name `{column}` once; it is "
                f"`{','.join(header)!s:.80}`."
            )


def _number(text: str) -> float:
    """Return the number, or NaN; Python's own reading takes 1_12 for 112."""
    try:
        return float("nan" if "_" in text else text)
    except ValueError:
        return float("nan")


def _checked(said: dict[str, str], column: str, where: str) -> float:
    """Return one number of a line."""
    value, is_id = _number(said[column]), column.startswith("id")
    wanted = f"an id in 0..{MAX_ID}" if is_id else "a number"
    right = np.isfinite(value)
    if is_id:
        right = 0 <= value <= MAX_ID and value.is_integer()
    elif column == "probability":
        wanted, right = "a number in [0, 1]", 0 <= value <= 1
    if not right:
        raise DynamicsError(
            f"{where} must have {wanted} as `{column}`; got {said[column]!r:.40}."
        )
    return value
