"""Rows of a log in the order of its episodes, whole episodes at a time.

Tables hand over sorted rows in pieces of any size; how episodes fall into batches does
not depend on the pieces, so every source of one log gives the same batches.

Episodes are dealt out to folds in an order that looks random (`scramble`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._checks import column
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data._queries import scramble
from bayesmdp.errors import CountsError

#: Columns by role; sorted rows have an ``episode``, and a ``step`` where they know one.
Piece: TypeAlias = Mapping[str, NDArray[Any]]
ORDERED = ("state", "action", "next_state", "reward", "episode", "step")


@dataclass(frozen=True, eq=False)
class EpisodeBatch:
    """Whole episodes, one after the other; N rows, E episodes.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> log = bm.Transitions.from_arrays(
    ...     [0, 1, 0], [0, 0, 0], [1, 2, 2], episode=[7, 7, 8]
    ... )
    >>> (batch,) = log.episodes()
    >>> batch.n_episodes, batch.episode.tolist(), batch.step.tolist()
    (2, [0, 0, 1], [0, 1, 0])
    """

    start: IntArray  # [E + 1], the first row of each episode, and N
    episode: IntArray  # [N], number of the episode, from 0 over all batches
    step: IntArray  # [N], 0, 1, ... within the episode
    state: IntArray  # [N]
    action: IntArray  # [N]
    next_state: IntArray  # [N]
    reward: FloatArray | None = None  # [N], where the log has rewards

    @property
    def n_episodes(self) -> int:
        """Number of episodes in this batch."""
        return self.start.size - 1

    @property
    def follows(self) -> BoolArray:
        """Whether a row begins where the one before it ended, ``[N]``.

        Not so for the first row of an episode, and after a row that is missing from the
        log or had to be left out.
        """
        found = np.zeros(self.state.size, dtype=np.bool_)
        found[1:] = self.next_state[:-1] == self.state[1:]
        found[self.start[:-1]] = False
        return found


def batches(pieces: Iterable[Piece], batch_rows: int) -> Iterator[EpisodeBatch]:
    """Fill batches with as many whole episodes as fit, in the order they come."""
    held: list[Piece] = []
    n_held, number = 0, 0
    for piece in _marked(pieces):
        held.append(piece)
        n_held += piece["begins"].size
        if n_held <= batch_rows or not piece["begins"].any():
            continue  # no batch more is known to be full
        rows, start = _joined(held)
        cuts = _cuts(start, batch_rows, ended=False)
        yield from _cut(rows, start, cuts, number)
        rest = start[cuts[-1]]
        held = [{name: column[rest:] for name, column in rows.items()}]
        n_held -= int(rest)
        number += cuts[-1]
    if held:
        rows, start = _joined(held)
        yield from _cut(rows, start, _cuts(start, batch_rows, ended=True), number)


def _marked(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Mark rows with which an episode begins, in place of its name."""
    last: dict[str, NDArray[Any]] = {}  # of the piece before
    for piece in pieces:
        rows = dict(piece)
        keys = {x: rows.pop(x) for x in ("episode", "step") if x in rows}
        if not keys["episode"].size:
            continue
        same = {  # as in the row before
            name: np.append(bool(last) and key[0] == last[name], key[1:] == key[:-1])
            for name, key in keys.items()
        }
        if "step" in keys and (same["episode"] & same["step"]).any():
            (row,) = _checks.first_true(same["episode"] & same["step"])
            raise CountsError(
                f"Episode {keys['episode'][row]} has several rows with `step` "
                f"{keys['step'][row]}, so their order is not known: number the steps."
            )
        last = {name: key[-1] for name, key in keys.items()}
        yield rows | {"begins": ~same["episode"]}


def _joined(held: list[Piece]) -> tuple[Piece, IntArray]:
    """Put pieces together; return also where episodes begin, and the end."""
    rows = {name: np.concatenate([x[name] for x in held]) for name in held[0]}
    begins = rows["begins"]
    return rows, np.append(np.flatnonzero(begins), begins.size)


def _cuts(start: IntArray, batch_rows: int, *, ended: bool) -> list[int]:
    """With which episodes batches begin, and the first that is in none of them.

    Unless the log has ended, its last episode may go on.
    """
    n_whole = start.size - 1 if ended else start.size - 2
    cuts = [0]
    while cuts[-1] < n_whole and (ended or start[-1] - start[cuts[-1]] > batch_rows):
        most = start[cuts[-1]] + batch_rows
        fit = int(np.searchsorted(start, most, side="right")) - 1
        cuts.append(max(fit, cuts[-1] + 1))  # one longer than a batch is kept whole
    return cuts


def _cut(
    rows: Piece, start: IntArray, cuts: list[int], number: int
) -> Iterator[EpisodeBatch]:
    """Make batches of rows, of which the first episode has this number."""
    for first, after in pairwise(cuts):
        begin, end = start[first], start[after]
        own = start[first : after + 1] - begin
        length = np.diff(own)
        columns: dict[str, Any] = {
            "start": own,
            "episode": np.repeat(np.arange(first, after) + number, length),
            "step": np.arange(end - begin) - np.repeat(own[:-1], length),
            **{x: y[begin:end] for x, y in rows.items() if x != "begins"},
        }
        yield EpisodeBatch(**{x: _checks.sealed(y) for x, y in columns.items()})


def folds_of(n_episodes: int, n_folds: int, seed: int) -> IntArray:
    """Fold of each episode, by its number in sorted order."""
    check_folds(n_folds, n_episodes)
    order = np.argsort(scramble(np.arange(n_episodes), seed))
    fold = np.empty(n_episodes, dtype=np.int64)
    fold[order] = np.arange(n_episodes) % n_folds
    return fold


def check_folds(n_folds: int, n_episodes: int | None) -> None:
    """Refuse to split rows without episodes, or more finely than there are any."""
    if n_episodes is None:
        raise CountsError(
            "Splitting needs an `episode` column: rows of one episode must stay "
            "together, or the held-out part is not held out; name it, "
            f"{column('episode')}."
        )
    if n_episodes < n_folds:
        raise CountsError(
            f"`n_folds` is {n_folds} but there {'is' if n_episodes == 1 else 'are'} "
            f"only {_checks.many(n_episodes, 'episode')}."
        )
