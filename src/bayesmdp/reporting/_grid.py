"""Whether the states are squares of a grid, and which way each action points.

They are where actions are called up, right, down and left, and either every state is
called like ``(2, 3)``, row and column, or ``right`` leads most often one state on and
``down`` always the same number of states on, which is then the width.
"""

import re
from typing import Any

import numpy as np

from bayesmdp._typing import IntArray
from bayesmdp.model import Dynamics, Task

_ARROWS = {"up": "↑", "right": "→", "down": "↓", "left": "←"}
_NAMES = {"north": "up", "east": "right", "south": "down", "west": "left"}
_SQUARE = re.compile(r"\(?\s*(\d{1,4})\s*[,;]\s*(\d{1,4})\s*\)?")
_MOST = 2_500  # squares drawn


def find_grid(task: Task, mean: Dynamics) -> dict[str, Any] | None:
    """Return rows and columns of all states, and arrows of actions; or None."""
    names = [task.action_name(a).strip().lower() for a in range(task.n_actions)]
    names = [_NAMES.get(name, name) for name in names]
    if not set(_ARROWS) <= set(names) or task.n_states > _MOST:
        return None
    place = _by_label(task) or _by_moves(task, mean, names)
    if place is None:
        return None
    row, column = place
    return {
        "row": row,
        "column": column,
        "arrow": [_ARROWS.get(name, "·") for name in names],
    }


def _by_label(task: Task) -> tuple[list[int], list[int]] | None:
    found = [_SQUARE.fullmatch(x.strip()) for x in task.state_labels or ()]
    if not found or not all(found):
        return None
    row = [int(x[1]) for x in found if x]
    column = [int(x[2]) for x in found if x]
    if len(set(zip(row, column, strict=True))) < len(row):
        return None
    row, column = ([x - min(of) for x in of] for of in (row, column))
    if (max(row) + 1) * (max(column) + 1) > _MOST:  # mostly holes
        return None
    return row, column


def _by_moves(
    task: Task, mean: Dynamics, names: list[str]
) -> tuple[list[int], list[int]] | None:
    width = _commonest(mean, names.index("down"))
    right = _commonest(mean, names.index("right"))
    if right != 1 or width is None or width < 2 or task.n_states % width:
        return None
    row, column = np.divmod(np.arange(task.n_states), width)
    return row.tolist(), column.tolist()


def _commonest(mean: Dynamics, action: int) -> int | None:
    """How far an action leads most often, to states that come later."""
    rows = mean.rows
    row = rows.row_of_entry
    mine = rows.action[row] == action
    step: IntArray = rows.next_state[mine] - rows.state[row[mine]]
    ahead = step > 0
    if not ahead.any():
        return None
    return int(np.argmax(np.bincount(step[ahead], mean.probability[mine][ahead])))
