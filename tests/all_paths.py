"""A small problem with a horizon, and all its paths."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bayesmdp as bm

Array = NDArray[np.float64]

S, A, END = 4, 2, 3
RNG = np.random.default_rng(21)
MODELS = RNG.dirichlet(np.ones(S), size=(3, S, A))
POLICY = np.array([[0.3, 0.7], [0.6, 0.4], [1.0, 0.0], [0.5, 0.5]])
START = np.array([0.4, 0.3, 0.2, 0.1])
SHAPES = {"states": (S,), "pairs": (S, A), "transitions": (S, A, S)}
CYCLES = ("start", "end", "both", "half", "darth")
#: Written down, not computed: five points of time, four cycles.
WEIGHTS = {
    "start": [1, 1, 1, 1, 0],
    "end": [0, 1, 1, 1, 1],
    "both": [1, 1, 1, 1, 1],
    "half": [1 / 2, 1, 1, 1, 1 / 2],
    "darth": [1 / 3, 2 / 3, 4 / 3, 2 / 3, 1 / 3],
}
COUNTS = bm.Counts.from_arrays(*np.indices((3, A, S)).reshape(3, -1))
DISCOUNTS = {"one": (0.9, 0.9), "two": (0.95, 0.8), "with 1": (0.94, 1.0)}


def rewards(form: str) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {name: rng.normal(size=SHAPES[form]) for name in ("cost", "qaly")}


def task(form: str, g: Sequence[float], **more: Any) -> bm.Task:
    discount = dict(zip(("cost", "qaly"), g, strict=True))
    return bm.Task(
        S, A, rewards(form), discount=discount, start=START, terminal=[END], **more
    )


def paths(
    model: Array, form: str, weight: Sequence[float], start: Array = START
) -> Iterator[Any]:
    """Probability of every path of some cycles, and what is earned at which time."""
    paid = np.stack(list(rewards(form).values()))

    def follow(t: int, s: int, chance: float, earned: list[Any]) -> Iterator[Any]:
        if s == END:
            last = weight[t] * paid[:, s] if form == "states" else np.zeros(2)
            yield chance, [*earned, (t, last)]
            return
        for a in range(A):
            being = np.zeros(2)
            if form != "transitions":
                being = weight[t] * (paid[:, s] if form == "states" else paid[:, s, a])
            if t == len(weight) - 1:
                yield chance * POLICY[s, a], [*earned, (t, being)]
                continue
            for j in range(S):
                moved = paid[:, s, a, j] if form == "transitions" else being
                p = chance * POLICY[s, a] * model[s, a, j]
                yield from follow(t + 1, j, p, [*earned, (t, moved)])

    for s in np.flatnonzero(start):
        yield from follow(0, s, start[s], [])
