"""What is said of bad data: counts, transitions and folds."""

from collections.abc import Callable

import numpy as np
import pytest
from bad_input import INF, LOG, NAN, case, check

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, CountsError

BARE_LOG = bm.Transitions.from_arrays([0, 1], [0, 1], [1, 2])


def dense(value: float) -> np.ndarray:
    """Counts of one, but for one cell."""
    array = np.ones((3, 2, 3))
    array[1, 0, 2] = value
    return array


COUNT_CASES = [
    case(
        "a negative count in an array [S, A, S]",
        CountsError,
        lambda: bm.Counts.from_dense(dense(-2)),
        "`array`",
        "state 1, action 0, next_state 2",
        "-2",
    ),
    case(
        "a fractional count in an array [S, A, S]",
        CountsError,
        lambda: bm.Counts.from_dense(dense(0.5)),
        "`array` must hold whole numbers: state 1, action 0, next_state 2 is 0.5.",
    ),
    case(
        "a NaN count in an array [S, A, S]",
        CountsError,
        lambda: bm.Counts.from_dense(dense(NAN)),
        "`array` must hold whole numbers: state 1, action 0, next_state 2 is nan.",
    ),
    case(
        "an infinite count in an array [S, A, S]",
        CountsError,
        lambda: bm.Counts.from_dense(dense(INF)),
        "`array`",
        "state 1, action 0, next_state 2 is inf",
    ),
    case(
        "counts whose state axes differ",
        CountsError,
        lambda: bm.Counts.from_dense(np.ones((3, 2, 4))),
        "`array` must have shape (n_states, n_actions, n_states); got (3, 2, 4).",
    ),
    case(
        "a negative count in a column",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 1], [0, 0], [1, 0], [3, -1]),
        "`count` must be 0 or more: row 1 has -1.",
    ),
    case(
        "a fractional count in a column",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 1], [0, 0], [1, 0], [3, 1.5]),
        "`count` must hold whole numbers: row 1 is 1.5.",
    ),
    case(
        "a NaN count in a column",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 1], [0, 0], [1, 0], [3, NAN]),
        "`count` must hold whole numbers: row 1 is nan.",
    ),
    case(
        "a negative state",
        CountsError,
        lambda: bm.Counts.from_arrays([0, -1], [0, 0], [1, 0]),
        "`state` must be 0 or more: row 1 has -1.",
    ),
    case(
        "a fractional action",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 1], [0, 0.5], [1, 0]),
        "`action` must hold whole numbers: row 1 is 0.5.",
    ),
    case(
        "a state beyond n_states",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 3], [0, 0], [1, 0], n_states=3),
        "`state` must be in 0..2: row 1 has 3.",
    ),
    case(
        "an action beyond n_actions",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 1], [0, 2], [1, 0], n_actions=2),
        "`action` must be in 0..1: row 1 has 2.",
    ),
    case(
        "a next state beyond n_states",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 1], [0, 0], [1, 7], n_states=3),
        "`next_state` must be in 0..2: row 1 has 7.",
    ),
    case(
        "a column with two axes",
        CountsError,
        lambda: bm.Counts.from_arrays([[0, 1]], [0, 0], [1, 0]),
        "`state` must have one axis (row); got shape (1, 2).",
    ),
    case(
        "columns of counts of different length",
        CountsError,
        lambda: bm.Counts.from_arrays([0, 1], [0], [1, 0]),
        "same number of rows: `state` has 2, `action` has 1, `next_state` has 2",
    ),
    case(
        "ids too large to index",
        CountsError,
        lambda: bm.Counts.from_arrays([2**40], [0], [0]),
        "`n_states`",
        str(2**40 + 1),
        "number both from 0 without gaps.",
    ),
    case(
        "adding counts of different sizes",
        CountsError,
        lambda: (
            bm.Counts.from_arrays([0], [0], [0], n_states=2, n_actions=1)
            + bm.Counts.from_arrays([0], [0], [0], n_states=3, n_actions=1)
        ),
        "Counts of different `n_states` cannot be added: 2 and 3.",
    ),
    case(
        "columns of transitions of different length",
        CountsError,
        lambda: bm.Transitions.from_arrays([0, 1], [0], [1, 0]),
        "same number of rows: `state` has",
        "2",
        "`action` has",
        "1",
    ),
    case(
        "a flag missing for one transition",
        CountsError,
        lambda: bm.Transitions.from_arrays([0, 1], [0, 0], [1, 0], truncated=[True]),
        "same number of rows: `state` has",
        "2",
        "`truncated` has",
        "1",
    ),
    case(
        "a NaN in the reward column",
        CountsError,
        lambda: bm.Transitions.from_arrays([0, 1], [0, 0], [1, 0], reward=[1.0, NAN]),
        "`reward` must be finite: row 1 is nan.",
    ),
    case(
        "a negative episode",
        CountsError,
        lambda: bm.Transitions.from_arrays([0, 1], [0, 0], [1, 0], episode=[0, -3]),
        "`episode` must be 0 or more: row 1 has -3.",
    ),
    case(
        "reward statistics without a reward column",
        CountsError,
        BARE_LOG.reward_statistics,
        "These transitions have no `reward` column.",
    ),
    case(
        "folds without an episode column",
        CountsError,
        lambda: BARE_LOG.counts_by_fold(2),
        "Splitting needs an `episode` column",
    ),
    case(
        "more folds than episodes",
        CountsError,
        lambda: LOG.counts_by_fold(3),
        "`n_folds` is 3 but there are only 2 episodes.",
    ),
    case(
        "a single fold",
        ArgumentError,
        lambda: LOG.counts_by_fold(1),
        "`n_folds` must be at least 2; got 1.",
    ),
    case(
        "folds that are not a whole number",
        ArgumentError,
        lambda: LOG.counts_by_fold(2.5),
        "`n_folds` must be a whole number; got 2.5.",
    ),
]


@pytest.mark.parametrize(("error", "call", "said"), COUNT_CASES)
def test_the_message_names_what_is_wrong(
    error: type[bm.BayesmdpError], call: Callable[[], object], said: tuple[str, ...]
) -> None:
    check(error, call, said)
