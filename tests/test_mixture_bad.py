"""What is said of bad mixtures, and where a mixture cannot go."""

from typing import Any

import pytest
from bad_input import COUNTS, EVEN, NAN, case, check, labelled, task, without

import bayesmdp as bm
from bayesmdp.errors import (
    ArgumentError,
    BeliefError,
    CountsError,
    PolicyError,
    PriorError,
    TaskError,
)

ONE, TWO = bm.SymmetricPrior(1.0), bm.ScaledPrior(1.0)
SPARSE = bm.SparsePrior(fallback="home")


def mixture(*priors: Any, **more: Any) -> bm.MixturePrior:
    return bm.MixturePrior(priors or (ONE, TWO), **more)


def fitted(*priors: Any, **more: Any) -> bm.posterior.MixturePosterior:
    return bm.fit(COUNTS, labelled(), prior=mixture(*priors, **more))


CASES = [
    case("none", PriorError, lambda: bm.MixturePrior([]), "at least two priors; got 0"),
    case("one", PriorError, lambda: mixture(ONE), "at least two", "got 1: one alone"),
    case(
        "a prior by itself",
        PriorError,
        lambda: bm.MixturePrior(ONE),  # type: ignore[arg-type]
        "`priors` must be a list of priors; got SymmetricPrior.",
    ),
    case(
        "priors by name",
        PriorError,
        lambda: bm.MixturePrior({"one": ONE, "two": TWO}),  # type: ignore[arg-type]
        "`priors` must be a list of priors; got dict.",
    ),
    case(
        "text",
        PriorError,
        lambda: bm.MixturePrior("ab"),  # type: ignore[arg-type]
        "`priors` must be a list of priors; got str.",
    ),
    case(
        "a number among priors",
        PriorError,
        lambda: mixture(ONE, 0.5),
        "`priors[1]` must be a prior such as SymmetricPrior(1.0); got 0.5.",
    ),
    case(
        "a class in place of a prior",
        PriorError,
        lambda: mixture(bm.SymmetricPrior, ONE),
        "`priors[0]` must be a prior",
    ),
    case(
        "a mixture in a mixture",
        PriorError,
        lambda: mixture(ONE, mixture()),
        "`priors[1]` is a mixture itself; list its components instead",
    ),
    case(
        "a fallback over a mixture",
        PriorError,
        lambda: bm.FallbackPrior(mixture(), 0),  # type: ignore[arg-type]
        "`base` must be a prior such as SymmetricPrior(1.0); got MixturePrior",
    ),
    case(
        "too few weights",
        PriorError,
        lambda: mixture(weights=[1.0]),
        "`weights` must have shape (2,) (prior); got (1,).",
    ),
    case(
        "a negative weight",
        PriorError,
        lambda: mixture(weights=[1.5, -0.5]),
        "`weights` must not be negative: prior 1 has -0.5.",
    ),
    case(
        "weights that do not sum to 1",
        PriorError,
        lambda: mixture(weights=[1, 2]),
        "`weights` must sum to 1; the sum is 3.",
    ),
    case(
        "a weight that is no number",
        PriorError,
        lambda: mixture(posterior_weights=[NAN, 1]),
        "`posterior_weights` must be finite: prior 0 is nan.",
    ),
    case(
        "weights in words",
        PriorError,
        lambda: mixture(weights="even"),
        "`weights` must hold numbers; got 'even'.",
    ),
    case(
        "both kinds of weights",
        PriorError,
        lambda: mixture(weights=[0.5, 0.5], posterior_weights=[0.5, 0.5]),
        "Give `weights` (before the data) or `posterior_weights` (after them), not",
    ),
    *(
        case(
            f"a component without evidence: {type(prior).__name__}",
            PriorError,
            lambda prior=prior: fitted(ONE, prior),
            f"`priors[1]`, a {type(prior).__name__}, looks at the data",
            "the probability of the data under it is not defined",
            "MixturePrior([...], posterior_weights=[...]).",
        )
        for prior in (
            SPARSE,
            bm.RandomSupportPrior(fallback="home"),
            bm.FallbackPrior(SPARSE, "home"),
        )
    ),
    case(
        "a support that rules data out",
        PriorError,
        lambda: fitted(ONE, bm.SymmetricPrior(1.0, without((1, 1, 2)))),
        "`priors[1]`: `data` has 1 transition from state icu, action treat to next",
        "widen the support, or leave these transitions out.",
    ),
    case(
        "an empty support",
        PriorError,
        lambda: fitted(bm.SymmetricPrior(1.0, without((0, 1))), ONE),
        "`priors[0]`: The prior allows no next state for state ward, action treat",
    ),
    case(
        "a fallback that is not a state",
        TaskError,
        lambda: fitted(ONE, bm.FallbackPrior(TWO, "death")),
        "`priors[1]`: `fallback` 'death' is not among the labels: ward, icu, home.",
    ),
    case(
        "a component that cannot choose",
        PriorError,
        lambda: fitted(ONE, bm.EvidencePrior()),
        "`priors[1]`: EvidencePrior finds no best concentration",
    ),
    case(
        "the evidence of given weights",
        PriorError,
        lambda: fitted(ONE, SPARSE, posterior_weights=[0.5, 0.5]).log_evidence(),
        "`posterior_weights` has no evidence",
        "give `weights` instead",
    ),
    case(
        "no data",
        CountsError,
        lambda: bm.fit(bm.Counts.from_arrays([], [], []), task(), prior=mixture()),
        "`data` holds no transitions",
    ),
    case(
        "the class itself as a prior",
        ArgumentError,
        lambda: bm.fit(COUNTS, task(), prior=bm.MixturePrior),  # type: ignore[call-overload]
        "`prior` must be a prior such as HierarchicalPrior(); got <class",
    ),
    case(
        "one draw",
        ArgumentError,
        lambda: fitted().draws(1),
        "`n_draws` must be at least 2; got 1.",
    ),
    case(
        "a draw that is not there",
        ArgumentError,
        lambda: fitted().draws(5).dynamics(5),
        "`draw` must be in 0..4; got 5.",
    ),
    case(
        "a policy on an unavailable pair",
        PolicyError,
        lambda: bm.evaluate(
            EVEN, bm.fit(COUNTS, task(), prior=mixture(), min_count=1).draws(5)
        ),
        "`policy` uses an unavailable pair",
    ),
    case(
        "second order",
        BeliefError,
        lambda: bm.policies.second_order(fitted()),  # type: ignore[arg-type]
        "`second_order` needs independent Dirichlet rows, and those of a mixture share",
        "use one of `posterior.components`.",
    ),
    case(
        "an analytic evaluation",
        BeliefError,
        lambda: bm.evaluate_analytic(EVEN, fitted()),  # type: ignore[arg-type]
        "`evaluate_analytic` needs independent Dirichlet rows",
        "use one of `posterior.components`.",
    ),
    case(
        "a start that needs rows",
        BeliefError,
        lambda: bm.optimise(fitted(), starts=["second_order"]),
        "`second_order` needs independent Dirichlet rows",
    ),
]


@pytest.mark.parametrize(("error", "call", "said"), CASES)
def test_bad_mixtures_are_refused(error: Any, call: Any, said: Any) -> None:
    check(error, call, said)
