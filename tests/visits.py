"""Random visits, and the steps they make on a grid, by a loop over grid points."""

import math
from collections import Counter
from typing import Any

import numpy as np

STATES = ("well", "ill", "worse")
ACTIONS = ("drug", "none")


def random_visits(seed: int, n: int = 40) -> dict[str, list[Any]]:
    """Patients with visits at irregular days; some die or are transplanted, some not.

    Days are whole, so that some visits, and some ends, lie on the points of a grid.
    """
    rng = np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {
        x: [] for x in ("patient", "day", "state", "action", "end", "status")
    }
    for patient in range(n):
        days = np.unique(rng.integers(0, 60, rng.integers(1, 8)))
        end = int(days[-1] + rng.integers(0, 25))
        status = int(rng.choice(3, p=[0.5, 0.4, 0.1]))
        for day in rng.permutation(days):  # rows are in no order
            seen = rng.choice(STATES), rng.choice(ACTIONS)
            cells = (patient, int(day), *map(str, seen), end, status)
            for column, cell in zip(rows.values(), cells, strict=True):
                column.append(cell)
    return rows


def steps_by_hand(
    visits: dict[str, list[Any]], every: float, limit: int | None = None
) -> Counter[tuple[str, str, str]]:
    """Ask at each point of each patient's grid what was known there."""
    meaning = {0: None, 1: "death", 2: "transplant"}
    counted: Counter[tuple[str, str, str]] = Counter()
    for patient in set(visits["patient"]):
        rows = [
            (day, state, action, end, status)
            for x, day, state, action, end, status in zip(*visits.values(), strict=True)
            if x == patient
        ]
        rows.sort()
        start, end, outcome = rows[0][0], rows[-1][3], meaning[rows[-1][4]]

        def known(k: int) -> tuple[str, str | None] | None:
            """What is known at a point: a state and an action, or the outcome."""
            point = start + k * every  # noqa: B023
            if point >= end and outcome and k:  # noqa: B023
                return outcome, None  # noqa: B023
            if point > end + every / 2:  # noqa: B023  less than half of the step
                return None
            past = [row for row in rows if row[0] <= point]  # noqa: B023
            age = k - math.ceil((past[-1][0] - start) / every)  # noqa: B023
            return None if limit is not None and age > limit else past[-1][1:3]

        for k in range(200):
            here, after = known(k), known(k + 1)
            if here is None or here[1] is None or after is None:
                continue
            counted[here[0], here[1], after[0]] += 1
    return counted
