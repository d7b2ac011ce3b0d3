"""Priors side by side: what is refused, in one sentence."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from bad_input import COUNTS, LOG, case, check, labelled, task
from test_compare_priors import DATA

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, CountsError, PriorError

FLAT = {"flat": bm.SymmetricPrior()}
ALONE = bm.Transitions.from_arrays([0, 1], [0, 1], [1, 2])
ENDED = bm.Transitions.from_arrays([2, 2], [0, 1], [2, 2], episode=[0, 1])
ONCE = bm.Transitions.from_arrays(
    [0] * 7, [0] * 7, [1] * 6 + [2], episode=np.arange(7)
)  # without the last, always the same
NEVER = np.ones((3, 3), dtype=bool)
NEVER[0, 1] = False

CASES = [
    case(
        "no priors",
        ArgumentError,
        lambda: bm.compare_priors({}, LOG, task()),
        "`priors` must map at least one name to a prior, as in {'flat': "
        "SymmetricPrior(1.0)}; got dict.",
    ),
    case(
        "a prior without a name",
        ArgumentError,
        lambda: bm.compare_priors(bm.SymmetricPrior(), LOG, task()),
        "`priors` must map at least one name",
    ),  # type: ignore[arg-type]
    case(
        "a name that is no text",
        ArgumentError,
        lambda: bm.compare_priors({1: bm.SymmetricPrior()}, LOG, task()),
        "`priors` must be of type str; got int.",
    ),  # type: ignore[dict-item]
    case(
        "a number as a prior",
        ArgumentError,
        lambda: bm.compare_priors({"one": 1.0}, LOG, task()),
        "`priors['one']` must be a prior such as SymmetricPrior(1.0); got 1.0.",
    ),  # type: ignore[dict-item]
    case(
        "a class as a prior",
        ArgumentError,
        lambda: bm.compare_priors({"flat": bm.SymmetricPrior}, LOG, task()),
        "`priors['flat']` must be a prior",
    ),  # type: ignore[dict-item]
    case(
        "counts to be folded",
        ArgumentError,
        lambda: bm.compare_priors(FLAT, COUNTS, task()),
        "`data` must be Transitions with an `episode` column",
        "got Counts",
        "n_folds=0",
    ),
    case(
        "an array as data",
        ArgumentError,
        lambda: bm.compare_priors(FLAT, np.ones((3, 2, 3)), task()),
        "`data` must be",
        "Transitions",
        "got ndarray",
    ),  # type: ignore[arg-type]
    case(
        "an array as data, without folds",
        ArgumentError,
        lambda: bm.compare_priors(FLAT, np.ones((3, 2, 3)), task(), n_folds=0),
        "Counts or a dataframe (pandas, polars, pyarrow, DuckDB, Ibis); got ndarray",
    ),  # type: ignore[arg-type]
    case(
        "no episodes",
        CountsError,
        lambda: bm.compare_priors(FLAT, ALONE, task()),
        "Splitting needs an `episode` column",
    ),
    case(
        "more folds than episodes",
        CountsError,
        lambda: bm.compare_priors(FLAT, LOG, task(), n_folds=3),
        "`n_folds` is 3 but there are only 2 episodes.",
    ),
    case(
        "one fold",
        ArgumentError,
        lambda: bm.compare_priors(FLAT, LOG, task(), n_folds=1),
        "`n_folds` must be at least 2, or 0",
        "got 1.",
    ),
    case(
        "less than no folds",
        ArgumentError,
        lambda: bm.compare_priors(FLAT, LOG, task(), n_folds=-1),
        "`n_folds` must be at least 0; got -1.",
    ),
    case(
        "half a fold",
        ArgumentError,
        lambda: bm.compare_priors(FLAT, LOG, task(), n_folds=2.5),
        "`n_folds` must be a whole number; got 2.5.",
    ),  # type: ignore[arg-type]
    case(
        "a task that is none",
        ArgumentError,
        lambda: bm.compare_priors(FLAT, LOG, None),
        "`task` must be of type Task; got NoneType.",
    ),  # type: ignore[arg-type]
    case(
        "a min_count below 0",
        ArgumentError,
        lambda: bm.compare_priors(FLAT, LOG, task(), min_count=-2),
        "`min_count` must be at least 0; got -2.",
    ),
    case(
        "a seed below 0",
        ArgumentError,
        lambda: bm.compare_priors(FLAT, LOG, task(), seed=-1),
        "`seed` must be at least 0; got -1.",
    ),
    case(
        "no threads",
        ArgumentError,
        lambda: bm.compare_priors(FLAT, LOG, task(), threads=0),
        "`threads` must be at least 1; got 0.",
    ),
    case(
        "an executor that is none",
        ArgumentError,
        lambda: bm.compare_priors(FLAT, LOG, task(), executor=4),
        "`executor` must be of type Executor; got int.",
    ),  # type: ignore[arg-type]
    case(
        "states the task does not have",
        CountsError,
        lambda: bm.compare_priors(FLAT, DATA, task(), n_folds=2),
        "disagree about `n_states`: 5 and 3",
    ),
    case(
        "names the task does not have",
        CountsError,
        lambda: bm.compare_priors(
            FLAT,
            replace(LOG, state_labels=("ward", "icv", "home")),
            labelled(),
            n_folds=2,
        ),
        "`data` names a state 'icv'",
        "did you mean 'icu'?",
    ),
    case(
        "a support that rules out the data",
        PriorError,
        lambda: bm.compare_priors(
            {**FLAT, "narrow": bm.SymmetricPrior(support=NEVER)}, LOG, task(), n_folds=2
        ),
        "`priors['narrow']`: `data` has 1 transition from state 0, action 0 to next ",
        "state 1",
    ),
    case(
        "data that cannot choose a number",
        PriorError,
        lambda: bm.compare_priors({"ev": bm.EvidencePrior()}, LOG, task(), n_folds=2),
        "`priors['ev']`: EvidencePrior finds no best concentration",
    ),
    case(
        "training folds that cannot choose a number",
        PriorError,
        lambda: bm.compare_priors({"ev": bm.EvidencePrior()}, ONCE, task(), n_folds=7),
        "`priors['ev']` without fold ",
        "EvidencePrior finds no best concentration",
    ),
    case(
        "nothing but padding",
        CountsError,
        lambda: bm.compare_priors(FLAT, ENDED, task(), n_folds=2),
        "`data` holds no transition from a state that is not terminal.",
    ),
    case(
        "a row that is not there",
        ArgumentError,
        lambda: bm.compare_priors(FLAT, LOG, task(), n_folds=2)["sparse"],
        "No prior 'sparse' in this comparison; there are: flat.",
    ),
]


@pytest.mark.parametrize(("error", "call", "said"), CASES)
def test_bad_input_is_refused_in_one_sentence(
    error: type[bm.BayesmdpError], call: Callable[[], object], said: tuple[str, ...]
) -> None:
    check(error, call, said)
