"""What is said of bad draws, evaluations and bounds, and of a bad environment."""

from collections.abc import Callable

import numpy as np
import pytest
from bad_input import EVEN, POSTERIOR, case, check, counted, labelled, without

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, EndlessError


def circle(concentration: float) -> bm.Draws:
    """A paid self-loop whose exit was never observed, without discount."""
    loop = bm.Task(2, 1, [[1.0], [0.0]], discount=1.0, terminal=[1])
    prior = bm.SymmetricPrior(concentration)
    return bm.fit(counted((0, 0, 0)), loop, prior=prior).draws(2)


def trapped() -> bm.Draws:
    """In the icu, both actions lead back to the icu."""
    stay = without((1, slice(None), 0), (1, slice(None), 2))
    prior = bm.SymmetricPrior(support=stay)
    counts = counted((0, 0, 1), (1, 1, 1))
    return bm.fit(counts, labelled(discount=1.0), prior=prior).draws(2)


DRAW_CASES = [
    case(
        "a single draw",
        ArgumentError,
        lambda: POSTERIOR.draws(1),
        "`n_draws` must be at least 2; got 1.",
    ),
    case(
        "draws that are not a whole number",
        ArgumentError,
        lambda: POSTERIOR.draws(10.5),
        "`n_draws` must be a whole number; got 10.5.",
    ),
    case(
        "a negative seed",
        ArgumentError,
        lambda: POSTERIOR.draws(2, seed=-1),
        "`seed` must be at least 0; got -1.",
    ),
    case(
        "a seed that is too large",
        ArgumentError,
        lambda: POSTERIOR.draws(2, seed=2**64),
        "`seed` must be below 2**64; got 18446744073709551616.",
    ),
    case(
        "a seed that is not a whole number",
        ArgumentError,
        lambda: POSTERIOR.draws(2, seed=1.5),
        "`seed` must be a whole number; got 1.5.",
    ),
    case(
        "a draw beyond the last",
        ArgumentError,
        lambda: POSTERIOR.draws(5).dynamics(5),
        "`draw` must be in 0..4; got 5.",
    ),
    case(
        "a negative draw",
        ArgumentError,
        lambda: POSTERIOR.draws(5).dynamics(-1),
        "`draw` must be at least 0; got -1.",
    ),
    case(
        "values kept by a word",
        ArgumentError,
        lambda: bm.evaluate(EVEN, POSTERIOR, keep_values="x"),
        "`keep_values` must be of type bool; got str.",
    ),
    case(
        "no control variates by None",
        ArgumentError,
        lambda: bm.evaluate(EVEN, POSTERIOR, control=None),
        "`control` must be of type bool; got NoneType.",
    ),
    case(
        "values of actions kept by a list",
        ArgumentError,
        lambda: bm.action_values(EVEN, POSTERIOR, keep_values=[1]),
        "`keep_values` must be of type bool; got list.",
    ),
    case(
        "values kept by an array",
        ArgumentError,
        lambda: bm.evaluate(EVEN, POSTERIOR, keep_values=np.array([True])),
        "`keep_values` must be of type bool; got ndarray.",
    ),
    case(
        "a task in place of draws",
        ArgumentError,
        lambda: bm.evaluate(EVEN, POSTERIOR.task),
        "`draws` must be a posterior or an ensemble",
        "`posterior.draws(n, seed)`; got Task.",
    ),
    case(
        "a number of draws of draws",
        ArgumentError,
        lambda: bm.evaluate(EVEN, POSTERIOR.draws(5), n_draws=10),
        "`n_draws` cannot be given with draws",
    ),
    case(
        "a seed of draws",
        ArgumentError,
        lambda: bm.action_values(EVEN, POSTERIOR.draws(5), seed=1),
        "`seed` cannot be given with draws",
    ),
    case(
        "no threads",
        ArgumentError,
        lambda: bm.evaluate(EVEN, POSTERIOR.draws(2), threads=0),
        "`threads` must be at least 1; got 0.",
    ),
    case(
        "a tolerance of 0",
        ArgumentError,
        lambda: bm.evaluate(EVEN, POSTERIOR.draws(2), tolerance=0),
        "`tolerance` must be in (0, inf); got 0.",
    ),
    case(
        "a negative tolerance",
        ArgumentError,
        lambda: bm.evaluate(EVEN, POSTERIOR.draws(2), tolerance=-0.1),
        "`tolerance` must be in (0, inf); got -0.1.",
    ),
    case(
        "an endless policy without discount",
        EndlessError,
        lambda: bm.evaluate([0, 0, 0], trapped()),
        "With discount 1 every episode must end, but from state icu",
        "another policy",
        "a discount below 1.",
    ),
    case(
        "an infinite mean without discount",
        EndlessError,
        lambda: bm.evaluate([0, 0], circle(0.5)),
        "the posterior mean is infinite",
        "cycle through state(s) 0",
        "concentration 0.5",
        "raise the prior's concentration",
    ),
    case(
        "a mean just infinite without discount",
        EndlessError,
        lambda: bm.evaluate([0, 0], circle(1.0)),
        "cycle through state(s) 0",
        "concentration 1, which must be above 1",
    ),
    case(
        "a bound on draws without discount",
        ArgumentError,
        lambda: bm.evaluation.draws_needed(0.1, discount=1.0),
        "`discount` must be below 1",
    ),
    case(
        "a bound on draws for no error",
        ArgumentError,
        lambda: bm.evaluation.draws_needed(0.0, discount=0.9),
        "`error` must be in (0, inf); got 0.",
    ),
    case(
        "a bound on draws that never fails",
        ArgumentError,
        lambda: bm.evaluation.draws_needed(0.1, discount=0.9, failure=0.0),
        "`failure` must be in (0, 1]; got 0.",
    ),
    case(
        "a horizon too short",
        ArgumentError,
        lambda: bm.evaluation.draws_needed(
            0.001, discount=0.999, max_reward=1.0, horizon=13_808
        ),
        "`horizon` 13808",
        "`error` 0.001",
        "at least 13809.",
    ),
]


@pytest.mark.parametrize(("error", "call", "said"), DRAW_CASES)
def test_the_message_names_what_is_wrong(
    error: type[bm.BayesmdpError], call: Callable[[], object], said: tuple[str, ...]
) -> None:
    check(error, call, said)


@pytest.mark.parametrize("said", ["many", "1.5", "0", "-2"])
def test_a_bad_number_of_threads_in_the_environment_is_refused(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("BAYESMDP_THREADS", said)
    with pytest.raises(ArgumentError, match=rf"`BAYESMDP_THREADS` must .*{said}"):
        bm.evaluate(EVEN, POSTERIOR.draws(2))


def test_threads_given_as_an_argument_overrule_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BAYESMDP_THREADS", "many")
    assert bm.evaluate(EVEN, POSTERIOR.draws(2), threads=1).n_draws == 2


def test_the_least_horizon_that_is_offered_is_enough() -> None:
    assert bm.evaluation.draws_needed(0.001, discount=0.999, horizon=13_809) > 0


def test_an_error_is_a_value_error() -> None:
    assert issubclass(bm.BayesmdpError, ValueError)


def test_flags_may_be_numpy_s() -> None:
    found = bm.evaluate(EVEN, POSTERIOR, n_draws=5, keep_values=np.bool_(True))
    assert found.values is not None
    assert bm.evaluate(EVEN, POSTERIOR, n_draws=5, control=np.bool_(False)).notes == ()
