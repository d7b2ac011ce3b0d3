"""What is said of bad priors, grids and fallbacks."""

from typing import Any

import numpy as np
import pytest
from bad_input import COUNTS, INF, NAN, case, check, counted, labelled, task, without

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, CountsError, PriorError, TaskError

SAME = bm.Counts.from_arrays([0, 1], [0, 1], [1, 2], [5, 5])


def fitted(prior: Any) -> bm.Posterior:
    return bm.fit(COUNTS, labelled(), prior=prior)


def curve(*grid: Any, data: Any = SAME, **more: Any) -> bm.priors.EvidenceCurve:
    return bm.priors.evidence_curve(data, labelled(), *grid, **more)


CASES = [
    case(
        "a grid without points",
        PriorError,
        lambda: curve([]),
        "`grid` holds no concentration; give some above 0",
    ),
    case(
        "a grid with a zero",
        PriorError,
        lambda: curve([1.0, 0.5, 0.0]),
        "`grid` must be above 0: point 2 is 0.",
    ),
    case(
        "a grid with a negative point",
        PriorError,
        lambda: curve([-1.0, 0.5]),
        "`grid` must be above 0: point 0 is -1.",
    ),
    case(
        "a grid with a NaN",
        PriorError,
        lambda: curve([1.0, NAN]),
        "`grid` must be finite: point 1 is nan.",
    ),
    case("a grid of text", PriorError, lambda: curve(["a"]), "`grid` must hold num"),
    case(
        "a grid of two axes",
        PriorError,
        lambda: curve([[1.0]]),
        "`grid` must have 1 axis (point); got (1, 1).",
    ),
    case(
        "a grid too close to 0",
        PriorError,
        lambda: curve([1e-310]),
        "`grid` must be at least 1e-300",
    ),
    case(
        "a grid too far from 0",
        PriorError,
        lambda: curve([1.0, 1e200]),
        "`grid` must be at most 1e+100; got 1e+200",
    ),
    case(
        "a curve of no data",
        CountsError,
        lambda: curve(data=bm.Counts.from_arrays([], [], [])),
        "`data` holds no transitions",
    ),
    case(
        "a curve of a posterior",
        ArgumentError,
        lambda: curve(data=bm.fit(COUNTS, task(), prior=bm.SymmetricPrior())),
        "Counts or a dataframe (pandas, polars, pyarrow, DuckDB, Ibis); got Posterior.",
    ),
    case(
        "a curve without a task",
        ArgumentError,
        lambda: bm.priors.evidence_curve(SAME, None),  # type: ignore[arg-type]
        "`task` must be of type Task; got NoneType.",
    ),
    case(
        "a curve with a negative min_count",
        ArgumentError,
        lambda: curve(min_count=-1),
        "`min_count` must be at least 0; got -1.",
    ),
    case(
        "a curve whose support rules data out",
        PriorError,
        lambda: curve(support=without((1, 1, 2))),
        "`data` has 5 transitions from state icu, action treat to next state home",
        "widen the support",
    ),
    case(
        "a curve with an empty support",
        PriorError,
        lambda: curve(support=without((0, 1))),
        "no next state for state ward, action treat",
    ),
    case(
        "evidence where every pair leads to one state",
        PriorError,
        lambda: bm.fit(SAME, task(), prior=bm.EvidencePrior()),
        "EvidencePrior finds no best concentration: the evidence keeps rising towards",
        "give a number, as in SymmetricPrior(0.1).",
    ),
    case(
        "evidence where no pair was visited twice",
        PriorError,
        lambda: fitted(bm.EvidencePrior()),
        "EvidencePrior finds no best concentration: the data say nothing about it",
    ),
    case(
        "evidence where all next states are alike",
        PriorError,
        lambda: bm.fit(
            counted(*[(0, 0, t) for t in range(3)] * 20),
            task(),
            prior=bm.EvidencePrior(),
        ),
        "the evidence keeps rising (above 1e+06)",
    ),
    case(
        "a total of 0",
        PriorError,
        lambda: bm.ScaledPrior(0),
        "`total` must be in (0, inf); got 0.",
    ),
    case(
        "an infinite total",
        PriorError,
        lambda: bm.ScaledPrior(INF),
        "`total` must be in (0, inf); got inf.",
    ),
    case(
        "a total that cannot be sampled",
        PriorError,
        lambda: bm.ScaledPrior(1e-310),
        "`total` must be at least 1e-300",
    ),
    case(
        "a total that cannot be summed",
        PriorError,
        lambda: bm.ScaledPrior(1e308),
        "`total` must be at most 1e+100; got 1e+308, which cannot be summed.",
    ),
    case(
        "a hierarchical concentration that cannot be summed",
        PriorError,
        lambda: bm.RandomSupportPrior(1e308),
        "`concentration` must be at most 1e+100",
    ),
    case(
        "a hierarchical support that is empty, with a fallback",
        PriorError,
        lambda: fitted(
            bm.FallbackPrior(bm.RandomSupportPrior(support=without((0, 1))), "home")
        ),
        "no next state for state ward, action treat: widen the support, or leave out "
        "pairs that were never visited, min_count=1.",
    ),
    case(
        "a decay of 0",
        PriorError,
        lambda: bm.RandomSupportPrior(decay=0),
        "`decay` must be in (0, 1]; got 0.",
    ),
    case(
        "a decay above 1",
        PriorError,
        lambda: bm.RandomSupportPrior(decay=1.5),
        "`decay` must be in (0, 1]; got 1.5.",
    ),
    case(
        "a negative hierarchical concentration",
        PriorError,
        lambda: bm.RandomSupportPrior(-1),
        "`concentration` must be in (0, inf); got -1.",
    ),
    case(
        "a hierarchical fallback that is not a state",
        TaskError,
        lambda: fitted(bm.RandomSupportPrior(fallback="death")),
        "`fallback` 'death' is not among the labels: ward, icu, home.",
    ),
    case(
        "a hierarchical support that rules data out, lumped",
        PriorError,
        lambda: fitted(
            bm.RandomSupportPrior(support=without((1, 1, 2)), fallback="home")
        ),
        "`data` has 1 transition from state icu, action treat to next state home",
    ),
    case(
        "the evidence of a lumped hierarchical prior",
        PriorError,
        lambda: fitted(bm.RandomSupportPrior(fallback="home")).log_evidence(),
        "RandomSupportPrior has no evidence: its rows are made by looking",
    ),
    case(
        "a fallback over a number",
        PriorError,
        lambda: bm.FallbackPrior(1.0, "home"),  # type: ignore[arg-type]
        "`base` must be a prior such as SymmetricPrior(1.0); got 1.0.",
    ),
    case(
        "a fallback over a prior that was not made",
        PriorError,
        lambda: bm.FallbackPrior(bm.SymmetricPrior, "home"),  # type: ignore[arg-type]
        "`base` must be a prior such as SymmetricPrior(1.0); got <class",
    ),
    case(
        "a fallback that is not a label",
        TaskError,
        lambda: fitted(bm.FallbackPrior(bm.ScaledPrior(), "hime")),
        "`fallback` 'hime' is not among the labels (did you mean 'home'?).",
    ),
    case(
        "a fallback that is not a state",
        TaskError,
        lambda: fitted(bm.FallbackPrior(bm.ScaledPrior(), 3)),
        "`fallback` must be in 0..2; got 3.",
    ),
    case(
        "a fallback that is a fraction",
        TaskError,
        lambda: fitted(bm.FallbackPrior(bm.ScaledPrior(), 0.5)),  # type: ignore[arg-type]
        "`fallback` must be a whole number; got 0.5.",
    ),
    case(
        "no fallback",
        PriorError,
        lambda: bm.FallbackPrior(bm.ScaledPrior(), None),  # type: ignore[arg-type]
        "`fallback` must be a state or its label; got None.",
    ),
    case(
        "a fallback without weight",
        PriorError,
        lambda: bm.FallbackPrior(bm.ScaledPrior(), "home", 0),
        "`weight` must be in (0, inf); got 0.",
    ),
    case(
        "the evidence of a fallback over a sparse prior",
        PriorError,
        lambda: fitted(bm.FallbackPrior(bm.SparsePrior(), "home")).log_evidence(),
        "FallbackPrior has no evidence",
    ),
    case(
        "a scaled support of numbers",
        PriorError,
        lambda: fitted(bm.ScaledPrior(support=np.ones((3, 3)))),
        "`support` must be boolean or three columns",
        "got dtype float64.",
    ),
    case(
        "a scaled support of the wrong shape",
        PriorError,
        lambda: fitted(bm.ScaledPrior(support=np.ones((2, 2), dtype=bool))),
        "`support` must have shape (3, 3) or (3, 2, 3); got (2, 2).",
    ),
    case(
        "a ragged support column",
        PriorError,
        lambda: bm.EvidencePrior(support=([[0], [0, 1]], [0], [1])),  # type: ignore[arg-type]
        "`support` must be an array or a list whose rows have the same length.",
    ),
    case(
        "a hierarchical support of two columns",
        PriorError,
        lambda: fitted(bm.RandomSupportPrior(support=([0], [0]))),  # type: ignore[arg-type]
        "`support` must be boolean or three columns",
        "got 2 columns.",
    ),
]


@pytest.mark.parametrize(("error", "call", "said"), CASES)
def test_a_bad_prior_is_refused_in_one_sentence(
    error: type[bm.BayesmdpError], call: Any, said: tuple[str, ...]
) -> None:
    check(error, call, said)


NUMBERS: dict[str, Any] = {
    "ScaledPrior(total)": bm.ScaledPrior,
    "RandomSupportPrior(concentration)": bm.RandomSupportPrior,
    "RandomSupportPrior(decay)": lambda x: bm.RandomSupportPrior(decay=x),
    "FallbackPrior(weight)": lambda x: bm.FallbackPrior(bm.ScaledPrior(), "home", x),
    "FallbackPrior(fallback)": lambda x: fitted(bm.FallbackPrior(bm.ScaledPrior(), x)),
    "FallbackPrior(base)": lambda x: bm.FallbackPrior(x, "home"),
}
OTHERS: dict[str, Any] = {
    "evidence_curve(grid)": lambda x: curve(x),
    "evidence_curve(data)": lambda x: curve(data=x),
    "evidence_curve(min_count)": lambda x: curve(min_count=x),
    "EvidencePrior(support)": lambda x: fitted(bm.EvidencePrior(x)),
    "HierarchicalPrior(support)": lambda x: fitted(bm.HierarchicalPrior(support=x)),
}
WRONG = {
    "text": "many",
    "a list of texts": ["a", "b"],
    "a ragged list": [[1], [0, 1]],
    "a class": bm.SparsePrior,
    "NaN": NAN,
    "a set": {1, 2},
}


@pytest.mark.parametrize("name", [*NUMBERS, *OTHERS])
@pytest.mark.parametrize("bad", WRONG)
def test_a_value_of_the_wrong_type_is_our_error(name: str, bad: str) -> None:
    with pytest.raises(bm.BayesmdpError):
        (NUMBERS | OTHERS)[name](WRONG[bad])


@pytest.mark.parametrize("name", NUMBERS)
def test_nothing_where_a_value_is_needed_is_our_error(name: str) -> None:
    with pytest.raises(bm.BayesmdpError):
        NUMBERS[name](None)
