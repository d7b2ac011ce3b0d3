"""What the tests of bad input share: a good task, good data, and the shape of a case.

A case is one bad thing in an otherwise good call. Its fragments must stand in the
message in this order: the parameter, the first offender, the remedy if there is one.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm

LABELS = ["ward", "icu", "home"]
NAN, INF = float("nan"), float("inf")


def task(**changes: Any) -> bm.Task:
    """Three states, two actions, the last state terminal; some of it changed."""
    arguments: dict[str, Any] = {
        "n_states": 3,
        "n_actions": 2,
        "reward": [0.0, 0.0, 1.0],
        "discount": 0.9,
        "terminal": [2],
    }
    return bm.Task(**(arguments | changes))


def labelled(**changes: Any) -> bm.Task:
    return task(state_labels=LABELS, action_labels=["wait", "treat"], **changes)


def counted(*triplets: tuple[int, int, int]) -> bm.Counts:
    return bm.Counts.from_arrays(*zip(*triplets, strict=True))


COUNTS = counted((0, 0, 1), (1, 1, 2))
POSTERIOR = bm.fit(COUNTS, task(), prior=bm.SymmetricPrior())
NARROW = bm.fit(
    COUNTS, labelled(), min_count=1, prior=bm.SymmetricPrior()
)  # ward: wait, icu: treat
EVEN = np.full((3, 2), 0.5)
LOG = bm.Transitions.from_arrays([0, 1], [0, 1], [1, 2], episode=[4, 9])


def with_support(mask: object) -> bm.Posterior:
    return bm.fit(COUNTS, labelled(), prior=bm.SymmetricPrior(support=mask))


def without(*cells: tuple[int, ...]) -> np.ndarray:
    """Say that everything is possible but some next states."""
    mask = np.ones((3, 2, 3), dtype=bool)
    for cell in cells:
        mask[cell] = False
    return mask


def case(
    name: str, error: type[bm.BayesmdpError], call: Callable[[], object], *said: str
) -> Any:
    return pytest.param(error, call, said, id=name)


def check(
    error: type[bm.BayesmdpError], call: Callable[[], object], said: tuple[str, ...]
) -> None:
    """Make the call: it must raise this class, and say the fragments in order."""
    assert issubclass(error, bm.BayesmdpError)
    assert all(len(fragment) > 1 or fragment.isdigit() for fragment in said)
    in_order = ".*".join(re.escape(fragment) for fragment in said)
    with pytest.raises(error, match=in_order) as caught:
        call()
    assert type(caught.value) is error
