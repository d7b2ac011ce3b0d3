"""A value of the wrong type, or the wrong thing, is our error, not a stray one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bad_input import COUNTS, EVEN, LOG, NAN, POSTERIOR, task, with_support

import bayesmdp as bm

RAGGED = [[1], [0, 1], [1]]
NOT_NUMBERS = {"None": None, "text": "many", "a list of texts": ["a", "b", "c"]}
NOT_ARRAYS = NOT_NUMBERS | {"a ragged list": RAGGED}


def of_arrays(make: Callable[..., object], *columns: list[int], **more: object) -> Any:
    """Build a call with one column replaced, for each column."""

    def call(i: int, bad: object) -> object:
        return make(*[bad if j == i else c for j, c in enumerate(columns)], **more)

    return call


COUNT_COLUMNS = of_arrays(bm.Counts.from_arrays, [0, 1, 0], [0] * 3, [1] * 3, [1] * 3)
LOG_COLUMNS = of_arrays(bm.Transitions.from_arrays, [0, 1, 0], [0] * 3, [1] * 3)
ROWS = of_arrays(
    bm.Dynamics.from_arrays, [0, 1], [0, 0], [1, 0], [1, 1], n_states=2, n_actions=1
)
TRIPLET = ([0], [0], [0])

WRONG_ARRAYS: dict[str, Callable[[Any], object]] = {
    "Counts.from_dense(array)": bm.Counts.from_dense,
    "Counts.from_arrays(state)": lambda bad: COUNT_COLUMNS(0, bad),
    "Counts.from_arrays(action)": lambda bad: COUNT_COLUMNS(1, bad),
    "Counts.from_arrays(next_state)": lambda bad: COUNT_COLUMNS(2, bad),
    "Transitions.from_arrays(state)": lambda bad: LOG_COLUMNS(0, bad),
    "Dynamics.from_dense(array)": bm.Dynamics.from_dense,
    "Dynamics.from_arrays(state)": lambda bad: ROWS(0, bad),
    "Dynamics.from_arrays(probability)": lambda bad: ROWS(3, bad),
    "Task(reward)": lambda bad: task(reward=bad),
    "Task(start)": lambda bad: task(start=bad),
    "Task(terminal)": lambda bad: task(terminal=bad),
    "evaluate(policy)": lambda bad: bm.evaluate(bad, POSTERIOR.draws(2)),
    "restrict(policy)": lambda bad: bm.restrict(bad, POSTERIOR),
}
OPTIONAL_ARRAYS: dict[str, Callable[[Any], object]] = {
    "Counts.from_arrays(count)": lambda bad: COUNT_COLUMNS(3, bad),
    "Transitions.from_arrays(reward)": lambda bad: bm.Transitions.from_arrays(
        [0] * 3, [0] * 3, [0] * 3, reward=bad
    ),
    "Transitions.from_arrays(episode)": lambda bad: bm.Transitions.from_arrays(
        [0] * 3, [0] * 3, [0] * 3, episode=bad
    ),
    "Transitions.from_arrays(terminated)": lambda bad: bm.Transitions.from_arrays(
        [0] * 3, [0] * 3, [0] * 3, terminated=bad
    ),
    "SymmetricPrior(support)": with_support,
}
WRONG_NUMBERS: dict[str, Callable[[Any], object]] = {
    "Task(n_states)": lambda bad: task(n_states=bad),
    "Task(n_actions)": lambda bad: task(n_actions=bad),
    "Task(discount)": lambda bad: task(discount=bad),
    "Dynamics.from_arrays(n_states)": lambda bad: bm.Dynamics.from_arrays(
        *TRIPLET, [1.0], n_states=bad, n_actions=1
    ),
    "fit(min_count)": lambda bad: bm.fit(
        COUNTS, task(), min_count=bad, prior=bm.SymmetricPrior()
    ),
    "SymmetricPrior(concentration)": bm.SymmetricPrior,
    "SparsePrior(concentration)": bm.SparsePrior,
    "draws(n_draws)": POSTERIOR.draws,
    "draws(seed)": lambda bad: POSTERIOR.draws(2, seed=bad),
    "dynamics(draw)": POSTERIOR.draws(2).dynamics,
    "counts_by_fold(n_folds)": LOG.counts_by_fold,
    "draws_needed(error)": lambda bad: bm.draws_needed(bad, discount=0.5),
    "draws_needed(discount)": lambda bad: bm.draws_needed(0.1, discount=bad),
    "gridworld(p_rand)": bm.worlds.gridworld,
    "gridworld(width)": lambda bad: bm.worlds.gridworld(width=bad),
}
OPTIONAL_NUMBERS: dict[str, Callable[[Any], object]] = {
    "Counts.from_arrays(n_states)": lambda bad: bm.Counts.from_arrays(
        *TRIPLET, n_states=bad
    ),
    "Counts.from_arrays(n_actions)": lambda bad: bm.Counts.from_arrays(
        *TRIPLET, n_actions=bad
    ),
    "Transitions.from_arrays(n_states)": lambda bad: bm.Transitions.from_arrays(
        *TRIPLET, n_states=bad
    ),
    "evaluate(threads)": lambda bad: bm.evaluate(EVEN, POSTERIOR.draws(2), threads=bad),
    "evaluate(tolerance)": lambda bad: bm.evaluate(
        EVEN, POSTERIOR.draws(2), tolerance=bad
    ),
    "draws_needed(horizon)": lambda bad: bm.draws_needed(
        0.1, discount=0.5, horizon=bad
    ),
    "SparsePrior(fallback)": lambda bad: bm.fit(
        COUNTS, task(), prior=bm.SparsePrior(fallback=bad)
    ),
}


def product(
    calls: dict[str, Callable[[Any], object]], bad: dict[str, Any], *, none: bool
) -> list[Any]:
    """Every call with every bad value; None only where it is not the default."""
    return [
        pytest.param(call, value, id=f"{name} given {what}")
        for name, call in calls.items()
        for what, value in bad.items()
        if none or value is not None
    ]


@pytest.mark.parametrize(
    ("call", "bad"),
    [
        *product(WRONG_ARRAYS, NOT_ARRAYS, none=True),
        *product(OPTIONAL_ARRAYS, NOT_ARRAYS, none=False),
        *product(WRONG_NUMBERS, NOT_NUMBERS, none=True),
        *product(OPTIONAL_NUMBERS, NOT_NUMBERS, none=False),
    ],
)
def test_the_wrong_type_is_our_error(call: Callable[[Any], object], bad: Any) -> None:
    with pytest.raises(bm.BayesmdpError):
        call(bad)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: task(state_labels=3), id="labels that are a number"),
        pytest.param(lambda: task(terminal=1.5), id="a fractional terminal state"),
        pytest.param(
            lambda: task(discount=10**400), id="a discount too large for a float"
        ),
        pytest.param(
            lambda: bm.evaluate([["a", "b"]] * 3, POSTERIOR.draws(2)),
            id="a policy [S, A] of texts",
        ),
        pytest.param(
            lambda: bm.Counts.from_arrays(*TRIPLET, n_states=2.5, n_actions=1),
            id="a fractional n_states of counts",
        ),
        pytest.param(
            lambda: bm.Counts.from_arrays([], [], [], n_states=-1, n_actions=1),
            id="a negative n_states of counts",
        ),
        pytest.param(
            lambda: bm.fit(COUNTS, None, prior=bm.SymmetricPrior()), id="no task"
        ),
        pytest.param(
            lambda: bm.fit(COUNTS, task(), prior=1.0), id="a number for a prior"
        ),
        pytest.param(
            lambda: bm.fit(COUNTS, task(), prior=bm.SymmetricPrior),
            id="a prior that was not made",
        ),
        pytest.param(lambda: with_support(([0], [0])), id="a support of two columns"),
        pytest.param(
            lambda: bm.MDP(np.full((3, 3), 1 / 3), task()),
            id="an array without actions for dynamics",
        ),
        pytest.param(
            lambda: bm.MDP(POSTERIOR.mean(), None), id="a world without a task"
        ),
        pytest.param(lambda: bm.restrict(EVEN, task()), id="a task for a belief"),
        pytest.param(
            lambda: bm.evaluate_analytic(EVEN, POSTERIOR.draws(2)),
            id="draws for a posterior",
        ),
        pytest.param(
            lambda: bm.Dynamics(POSTERIOR.layout, np.full(POSTERIOR.alpha.size, NAN)),
            id="dynamics that are NaN",
        ),
        pytest.param(
            lambda: bm.draws_needed(1e-200, discount=0.5),
            id="an error too small to square",
        ),
    ],
)
def test_the_wrong_thing_is_our_error(call: Callable[[], object]) -> None:
    with pytest.raises(bm.BayesmdpError):
        call()
