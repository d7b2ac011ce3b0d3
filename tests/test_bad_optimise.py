"""What is said of a bad call of `optimise` or its methods."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bad_input import EVEN, NAN, POSTERIOR, case, check, labelled

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, BeliefError, PolicyError

DRAWS = POSTERIOR.draws(10)


def ensemble() -> bm.Ensemble:
    model = bm.Dynamics.from_dense(np.full((3, 2, 3), 1 / 3))
    return bm.Ensemble([model, model], labelled())


def optimise(belief: object = POSTERIOR, **changes: Any) -> object:
    return bm.optimise(belief, **changes)


def gradient(**changes: Any) -> bm.StochasticGradient:
    arguments: dict[str, Any] = {"learning_rate": 1.0, "batch": 8, "n_steps": 2}
    return bm.StochasticGradient(**(arguments | changes))


OPTIMISE_CASES = [
    case(
        "an unknown method",
        ArgumentError,
        lambda: optimise(method="sgd"),
        "`method` must be MirrorAscent(...) or StochasticGradient(...); got 'sgd'.",
    ),
    case(
        "a method that was not made",
        ArgumentError,
        lambda: optimise(method=bm.MirrorAscent),
        "`method` must be MirrorAscent(...) or StochasticGradient(...); got <class",
    ),
    case(
        "an unknown objective",
        ArgumentError,
        lambda: optimise(objective="median"),
        "`objective` must be PosteriorMean(), CVaR(0.1) or another that derives from "
        "bayesmdp.optimisation.Objective; got 'median'.",
    ),
    case(
        "an unknown start",
        ArgumentError,
        lambda: optimise(starts=["nominal", "best"]),
        "`starts` has 'best', which is none of: nominal, mle, second_order, msbi",
    ),
    case(
        "no start by name",
        ArgumentError,
        lambda: optimise(starts=[]),
        "`starts` holds no name.",
    ),
    case(
        "no start by policy",
        ArgumentError,
        lambda: optimise(starts={}),
        "`starts` holds no policy.",
    ),
    case(
        "a number in place of starts",
        ArgumentError,
        lambda: optimise(starts=3),
        "`starts`",
    ),
    case(
        "a start of another size",
        PolicyError,
        lambda: optimise(starts={"mine": [0, 1]}),
        "must have shape (3, 2) or (3,); got (2,).",
    ),
    case(
        "a start that an ensemble cannot have",
        BeliefError,
        lambda: optimise(ensemble(), starts=["mle"]),
        "`mle` needs logged counts, which Ensemble does not have",
    ),
    case(
        "a policy to resume from",
        ArgumentError,
        lambda: optimise(resume=EVEN),
        "`resume` must be an earlier Optimisation; got ndarray.",
    ),
    case(
        "draws in place of a belief",
        BeliefError,
        lambda: optimise(DRAWS),
        "`posterior` must be a Posterior or an Ensemble; got Draws.",
    ),
    case(
        "an optimisation with a bad seed",
        ArgumentError,
        lambda: optimise(seed=-1),
        "`seed` must be at least 0; got -1.",
    ),
    case(
        "an optimisation without threads",
        ArgumentError,
        lambda: optimise(threads=0),
        "`threads` must be at least 1; got 0.",
    ),
    case(
        "mirror ascent without steps",
        ArgumentError,
        lambda: bm.MirrorAscent(n_steps=0),
        "`n_steps` must be at least 1; got 0.",
    ),
    case(
        "an objective that was not made",
        ArgumentError,
        lambda: optimise(objective=bm.PosteriorMean),
        "`objective` must be PosteriorMean(), CVaR(0.1) or another that derives from "
        "bayesmdp.optimisation.Objective; got <class",
    ),
    case(
        "an unknown effort",
        ArgumentError,
        lambda: optimise(effort="through"),
        "`effort` must be one of quick, normal, thorough; got 'through'",
        "'thorough'?",
    ),
    case(
        "a number in place of an effort",
        ArgumentError,
        lambda: optimise(effort=3),
        "`effort` must be one of quick, normal, thorough; got 3.",
    ),
    case(
        "less than no time",
        ArgumentError,
        lambda: optimise(max_seconds=-1),
        "`max_seconds` must be in [0, inf); got -1.",
    ),
    case(
        "a time that is no number",
        ArgumentError,
        lambda: optimise(max_seconds=NAN),
        "`max_seconds` must be in [0, inf); got nan.",
    ),
    case(
        "time in words",
        ArgumentError,
        lambda: optimise(max_seconds="soon"),
        "`max_seconds` must be a number in [0, inf); got 'soon'.",
    ),
    case(
        "an unknown device",
        ArgumentError,
        lambda: optimise(device="cup"),
        "`device` must be one of cpu",
        "got 'cup'",
    ),
    case(
        "starts beside a result to resume",
        ArgumentError,
        lambda: optimise(resume=optimise(effort="quick"), starts=["mle"]),
        "Give `starts` or `resume`, not both.",
    ),
    case(
        "a list in place of an effort",
        ArgumentError,
        lambda: optimise(effort=["quick"]),
        "`effort` must be one of quick, normal, thorough; got ['quick']",
    ),
    case(
        "a negative tolerance",
        ArgumentError,
        lambda: bm.MirrorAscent(tolerance=-1),
        "`tolerance` must be in [0, inf); got -1.",
    ),
    case(
        "a learning rate of 0",
        ArgumentError,
        lambda: gradient(learning_rate=0),
        "`learning_rate` must be in (0, inf); got 0.",
    ),
    case(
        "a learning rate in words",
        ArgumentError,
        lambda: gradient(learning_rate="slow"),
        "`learning_rate` must be a number in (0, inf); got 'slow'.",
    ),
    case(
        "a scheduled learning rate that is NaN",
        ArgumentError,
        lambda: optimise(method=gradient(learning_rate=lambda step: NAN)),
        "`learning_rate` must be",
        "nan",
    ),
    case(
        "gradient steps on one draw",
        ArgumentError,
        lambda: gradient(batch=1),
        "`batch` must be at least 2; got 1.",
    ),
    case(
        "gradient ascent without steps",
        ArgumentError,
        lambda: gradient(n_steps=0),
        "`n_steps` must be at least 1; got 0.",
    ),
    case(
        "no softness",
        ArgumentError,
        lambda: gradient(softness=0),
        "`softness` must be in (0, 1]; got 0.",
    ),
    case(
        "too much softness",
        ArgumentError,
        lambda: gradient(softness=2),
        "`softness` must be in (0, 1]; got 2.",
    ),
    case(
        "draws shared by a negative number of steps",
        ArgumentError,
        lambda: gradient(resample_every=-1),
        "`resample_every` must be at least 0; got -1.",
    ),
]


@pytest.mark.parametrize(("error", "call", "said"), OPTIMISE_CASES)
def test_the_message_names_what_is_wrong(
    error: type[bm.BayesmdpError], call: Callable[[], object], said: tuple[str, ...]
) -> None:
    check(error, call, said)


def test_a_result_of_another_task_cannot_be_resumed() -> None:
    earlier = bm.optimise(bm.worlds.casino(), seed=0)
    world = bm.worlds.synthetic(0)
    belief = bm.fit(world.sample(20, seed=0), world.task, prior=bm.SymmetricPrior())
    with pytest.raises(PolicyError, match=r"`resume` must have shape \(5, 5\)"):
        bm.optimise(belief, resume=earlier)


def test_the_good_call_behind_each_case_is_good() -> None:
    found = optimise(method=gradient(), starts={"mine": EVEN})
    assert isinstance(found, bm.Optimisation)
