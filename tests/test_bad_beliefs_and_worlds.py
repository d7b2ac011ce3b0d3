"""What is said of a bad fit or prior, and of bad dynamics or a bad world."""

from collections.abc import Callable

import numpy as np
import pytest
from bad_input import (
    COUNTS,
    INF,
    LOG,
    NAN,
    NARROW,
    POSTERIOR,
    case,
    check,
    counted,
    labelled,
    task,
    with_support,
    without,
)

import bayesmdp as bm
from bayesmdp.errors import (
    ArgumentError,
    CountsError,
    DynamicsError,
    PriorError,
    TaskError,
)

FIT_CASES = [
    case(
        "counts and task of different n_states",
        CountsError,
        lambda: bm.fit(
            bm.Counts.from_dense(np.ones((2, 2, 2))), task(), prior=bm.SymmetricPrior()
        ),
        "`data` and `task` disagree about `n_states`: 2 and 3.",
    ),
    case(
        "counts and task of different n_actions",
        CountsError,
        lambda: bm.fit(
            bm.Counts.from_dense(np.ones((3, 4, 3))), task(), prior=bm.SymmetricPrior()
        ),
        "`data` and `task` disagree about `n_actions`: 4 and 2.",
    ),
    case(
        "counts that state n_states alone, and not the task's",
        CountsError,
        lambda: bm.fit(
            bm.Counts.from_arrays([0], [0], [1], n_states=4),
            task(),
            prior=bm.SymmetricPrior(),
        ),
        "`data` and `task` disagree about `n_states`: 4 and 3.",
    ),
    case(
        "a state the task does not have",
        CountsError,
        lambda: bm.fit(
            counted((0, 0, 1), (3, 0, 1)), task(), prior=bm.SymmetricPrior()
        ),
        "`state` must be in 0..2; the data has 3 (ids start from 0).",
    ),
    case(
        "an action the task does not have",
        CountsError,
        lambda: bm.fit(
            counted((0, 0, 1), (0, 2, 1)), task(), prior=bm.SymmetricPrior()
        ),
        "`action` must be in 0..1; the data has 2 (ids start from 0).",
    ),
    case(
        "a next state the task does not have",
        CountsError,
        lambda: bm.fit(
            LOG,
            task(n_states=2, reward=[0, 1], terminal=[1]),
            prior=bm.SymmetricPrior(),
        ),
        "`next_state` must be in 0..1; the data has 2 (ids start from 0).",
    ),
    case(
        "an update with a state the task does not have",
        CountsError,
        lambda: POSTERIOR.update(counted((3, 0, 1))),
        "`state` must be in 0..2; the data has 3 (ids start from 0).",
    ),
    case(
        "no data at all",
        CountsError,
        lambda: bm.fit(
            bm.Counts.from_arrays([], [], []), task(), prior=bm.SymmetricPrior()
        ),
        "`data` holds no transitions: there is nothing to learn from.",
    ),
    case(
        "an array in place of counts",
        ArgumentError,
        lambda: bm.fit(np.ones((3, 2, 3)), task(), prior=bm.SymmetricPrior()),
        "Counts or a dataframe (pandas, polars, pyarrow, DuckDB, Ibis); got ndarray.",
    ),
    case(
        "a terminal state that leads elsewhere",
        CountsError,
        lambda: bm.fit(
            counted((2, 0, 2), (2, 1, 0), (2, 1, 0)),
            labelled(),
            prior=bm.SymmetricPrior(),
        ),
        "Terminal state home has 2 outgoing transitions to state ward; drop them, or",
        "take the state out of `terminal`",
    ),
    case(
        "a negative min_count",
        ArgumentError,
        lambda: bm.fit(COUNTS, task(), min_count=-1, prior=bm.SymmetricPrior()),
        "`min_count` must be at least 0; got -1.",
    ),
    case(
        "a count outside the support",
        PriorError,
        lambda: with_support(without((1, 1, 2))),
        "`data` has 1 transition",
        "from state icu, action treat to next state home",
        "widen the support, or leave these transitions out.",
    ),
    case(
        "a pair with empty support",
        PriorError,
        lambda: with_support(without((0, 1))),
        "no next state for state ward, action treat",
        "widen the support",
    ),
    case(
        "a pair never observed, under a sparse prior without fallback",
        PriorError,
        lambda: bm.fit(COUNTS, labelled(), prior=bm.SparsePrior()),
        "no next state for state ward, action treat",
        "add a next state, FallbackPrior(",
    ),
    case(
        "a support of the wrong shape",
        PriorError,
        lambda: with_support(np.ones((2, 2), dtype=bool)),
        "`support` must have shape (3, 3) or (3, 2, 3); got (2, 2).",
    ),
    case(
        "a support of numbers",
        PriorError,
        lambda: with_support(np.ones((3, 3))),
        "`support` must be boolean or three columns (state, action, next_state); got "
        "dtype float64.",
    ),
    case(
        "support columns of different length",
        PriorError,
        lambda: with_support(([0, 0], [0, 1], [1])),
        "`support` columns must have the same number of rows: `state` has 2",
    ),
    case(
        "a support that names a state that does not exist",
        PriorError,
        lambda: with_support(([0, 0], [0, 1], [1, 3])),
        "`support next_state` must be in 0..2: row 1 has 3.",
    ),
    case(
        "a concentration of 0",
        PriorError,
        lambda: bm.SymmetricPrior(0),
        "`concentration` must be in (0, inf); got 0.",
    ),
    case(
        "a negative concentration",
        PriorError,
        lambda: bm.SparsePrior(-1.0),
        "`concentration` must be in (0, inf); got -1.",
    ),
    case(
        "a NaN concentration",
        PriorError,
        lambda: bm.SymmetricPrior(NAN),
        "`concentration` must be in (0, inf); got nan.",
    ),
    case(
        "an infinite concentration",
        PriorError,
        lambda: bm.SymmetricPrior(INF),
        "`concentration` must be in (0, inf); got inf.",
    ),
    case(
        "an unknown fallback label",
        TaskError,
        lambda: bm.fit(COUNTS, labelled(), prior=bm.SparsePrior(fallback="death")),
        "`fallback` 'death' is not among the labels: ward, icu, home.",
    ),
    case(
        "a fallback state that does not exist",
        TaskError,
        lambda: bm.fit(COUNTS, task(), prior=bm.SparsePrior(fallback=3)),
        "`fallback` must be in 0..2; got 3.",
    ),
    case(
        "the evidence of a sparse prior",
        PriorError,
        lambda: bm.fit(COUNTS, task(), prior=bm.SparsePrior(fallback=2)).log_evidence(),
        "SparsePrior has no evidence: its rows are made by looking at the data",
    ),
]

WORLD_CASES = [
    case(
        "dynamics and task of different n_states",
        DynamicsError,
        lambda: bm.MDP(bm.Dynamics.from_dense(np.full((2, 2, 2), 0.5)), task()),
        "`dynamics` and `task` disagree about `n_states`: 2 and 3.",
    ),
    case(
        "dynamics and task of different n_actions",
        DynamicsError,
        lambda: bm.MDP(bm.Dynamics.from_dense(np.full((3, 1, 3), 1 / 3)), task()),
        "`dynamics` and `task` disagree about `n_actions`: 1 and 2.",
    ),
    case(
        "a live state without an action",
        DynamicsError,
        lambda: bm.MDP(
            bm.Dynamics.from_arrays([0], [0], [2], [1.0], n_states=3, n_actions=2),
            labelled(),
        ),
        "`dynamics` has no action for state icu, which is not terminal.",
    ),
    case(
        "dynamics whose state axes differ",
        DynamicsError,
        lambda: bm.Dynamics.from_dense(np.full((2, 1, 3), 1 / 3)),
        "`array` must have shape (n_states, n_actions, n_states); got (2, 1, 3).",
    ),
    case(
        "a row that does not sum to 1",
        DynamicsError,
        lambda: bm.Dynamics.from_dense([[[0.5, 0.5]], [[0.5, 0.4]]]),
        "`probability` rows must sum to 1: state 1, action 0 sums to 0.9.",
    ),
    case(
        "a negative probability of a next state",
        DynamicsError,
        lambda: bm.Dynamics.from_dense([[[0.5, 0.5]], [[1.5, -0.5]]]),
        "`probability` must not be negative: state 1, action 0, next state 1",
        "has -0.5.",
    ),
    case(
        "a NaN probability of a next state",
        DynamicsError,
        lambda: bm.Dynamics.from_dense([[[0.5, 0.5]], [[1.0, NAN]]]),
        "`array` must be finite: state 1, action 0, next_state 1 is nan.",
    ),
    case(
        "columns of dynamics of different length",
        DynamicsError,
        lambda: bm.Dynamics.from_arrays([0], [0], [0, 1], [1], n_states=2, n_actions=1),
        "Columns must have the same number of rows: `state` has 1, `action` has 1, "
        "`next_state` has 2",
    ),
    case(
        "a pair without a row",
        ArgumentError,
        lambda: NARROW.mean().row(0, 1),
        "State 0 has no available action 1.",
    ),
    case(
        "wind of probability 2",
        ArgumentError,
        lambda: bm.worlds.gridworld(p_rand=2),
        "`p_rand` must be in [0, 1]; got 2.",
    ),
    case(
        "a grid one square wide",
        ArgumentError,
        lambda: bm.worlds.gridworld(width=1),
        "`width` must be at least 2; got 1.",
    ),
]


@pytest.mark.parametrize(("error", "call", "said"), [*FIT_CASES, *WORLD_CASES])
def test_the_message_names_what_is_wrong(
    error: type[bm.BayesmdpError], call: Callable[[], object], said: tuple[str, ...]
) -> None:
    check(error, call, said)
