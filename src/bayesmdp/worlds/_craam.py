"""Models in the CSV files of CRAAM (Petrik, robust decision processes) as worlds."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from bayesmdp._checks import MAX_ID
from bayesmdp._memory import check_room
from bayesmdp._typing import ArrayLike, FloatArray, Name
from bayesmdp.errors import (
    ArgumentError,
    BayesmdpError,
    DynamicsError,
)
from bayesmdp.model import Task
from bayesmdp.worlds._mdp import MDP
from bayesmdp.worlds._outcomes import Outcomes

_COLUMNS = ("idstatefrom", "idaction", "idstateto", "probability", "reward")
_OUTCOME = "idoutcome"


def from_craam(
    path: str | PathLike[str],
    *,
    discount: float,
    start: Name | ArrayLike = "uniform",
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
    columns = _read(Path(path).expanduser()).T
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


def _read(path: Path) -> FloatArray:
    """Return the columns side by side, ``[rows, 5]``."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            rows = list(_rows(csv.reader(stream), path.name))
    except BayesmdpError:
        raise
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        said = getattr(problem, "strerror", None) or "it is not text"
        raise DynamicsError(f"`{path}` cannot be read: {said}.") from problem
    if not rows:
        raise DynamicsError(f"`{path.name}` holds no rows.")
    return np.array(rows)


def _rows(lines: Iterable[list[str]], name: str) -> Iterator[tuple[float, ...]]:
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
