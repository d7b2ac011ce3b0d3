"""What is said of a bad ensemble, casino, baseline or comparison."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bad_input import INF, NAN, POSTERIOR, case, check, labelled, task

import bayesmdp as bm
from bayesmdp.errors import (
    ArgumentError,
    BeliefError,
    EndlessError,
    PolicyError,
    TaskError,
)

MODEL = bm.Dynamics.from_dense(np.full((3, 2, 3), 1 / 3))
DRAWS = POSTERIOR.draws(10)
PAIR = {"wait": [0, 0, 0], "treat": [1, 1, 0]}


def lacking(*pairs: tuple[int, int]) -> bm.Dynamics:
    """A model without a row for some pairs."""
    dense = np.full((3, 2, 3), 1 / 3)
    for pair in pairs:
        dense[pair] = 0.0
    return bm.Dynamics.from_dense(dense)


def of_size(n_states: int, n_actions: int) -> bm.Dynamics:
    shape = (n_states, n_actions, n_states)
    return bm.Dynamics.from_dense(np.full(shape, 1 / n_states))


def ensemble(*models: Any, **changes: Any) -> bm.Ensemble:
    return bm.Ensemble(models or [MODEL, MODEL], labelled(), **changes)


ENSEMBLE_CASES = [
    case(
        "weights that do not sum to 1",
        BeliefError,
        lambda: ensemble(weights=[0.5, 0.4]),
        "`weights` must sum to 1; the sum is 0.9.",
    ),
    case(
        "a negative weight",
        BeliefError,
        lambda: ensemble(weights=[1.5, -0.5]),
        "`weights` must not be negative: model 1 has -0.5.",
    ),
    case(
        "a weight too many",
        BeliefError,
        lambda: ensemble(weights=[0.5, 0.25, 0.25]),
        "`weights` must have shape (2,) (model); got (3,).",
    ),
    case(
        "a NaN weight",
        BeliefError,
        lambda: ensemble(weights=[1.0, NAN]),
        "`weights` must be finite: model 1 is nan.",
    ),
    case(
        "weights that are words",
        BeliefError,
        lambda: ensemble(weights=["much", "little"]),
        "`weights` must hold numbers",
        "much",
    ),
    case(
        "no model",
        BeliefError,
        lambda: bm.Ensemble([], task()),
        "`dynamics` holds no model.",
    ),
    case(
        "a model of another number of states",
        BeliefError,
        lambda: ensemble(MODEL, of_size(4, 2)),
        "`dynamics` and `task` disagree about `n_states`: model 1 has 4, the task 3.",
    ),
    case(
        "a model of another number of actions",
        BeliefError,
        lambda: ensemble(of_size(3, 5), MODEL),
        "`dynamics` and `task` disagree about `n_actions`: model 0 has 5, the task 2.",
    ),
    case(
        "a list in place of a model",
        BeliefError,
        lambda: ensemble(MODEL, [0.5, 0.5]),
        "`dynamics` must hold Dynamics: model 1 is list.",
    ),
    case(
        "a single model, not in a list",
        BeliefError,
        lambda: bm.Ensemble(MODEL, task()),
        "`dynamics`",
        "Dynamics",
    ),
    case(
        "a world in place of the task",
        BeliefError,
        lambda: bm.Ensemble([MODEL], bm.MDP(MODEL, task())),
        "`task` must be",
        "MDP",
    ),
    case(
        "a reward too few",
        BeliefError,
        lambda: ensemble(rewards=[[0, 0, 1]]),
        "`rewards` must have one entry per model, 2; got 1.",
    ),
    case(
        "a number in place of rewards",
        BeliefError,
        lambda: ensemble(rewards=3),
        "`rewards`",
    ),
    case(
        "a reward of the wrong size",
        BeliefError,
        lambda: ensemble(rewards=[[0, 0, 1], [0, 1]]),
        "`rewards`, model 1: `reward` must have shape (3,) (state); got (2,).",
    ),
    case(
        "availability of the wrong shape",
        BeliefError,
        lambda: ensemble(available=np.ones((2, 3), dtype=bool)),
        "`available` must be boolean of shape (3, 2); got bool of shape (2, 3).",
    ),
    case(
        "availability in numbers",
        BeliefError,
        lambda: ensemble(available=np.ones((3, 2))),
        "`available` must be boolean of shape (3, 2); got float64 of shape (3, 2).",
    ),
    case(
        "availability in ragged rows",
        BeliefError,
        lambda: ensemble(available=[[True], [True, False], [True]]),
        "`available`",
    ),
    case(
        "availability of a pair some model lacks",
        BeliefError,
        lambda: ensemble(MODEL, lacking((1, 0)), available=np.ones((3, 2), dtype=bool)),
        "`available` names state icu, action wait, for which some model has no row.",
    ),
    case(
        "a state without a common action",
        BeliefError,
        lambda: ensemble(lacking((0, 1)), lacking((0, 0))),
        "No action of state ward is available in every model.",
    ),
    case(
        "a state left without an action",
        BeliefError,
        lambda: ensemble(available=[[True, True], [False, False], [True, True]]),
        "No action of state icu is available in every model.",
    ),
    case(
        "a single random model",
        ArgumentError,
        lambda: ensemble().draws(1),
        "`n_draws` must be at least 2; got 1.",
    ),
    case(
        "a model beyond the last",
        ArgumentError,
        lambda: ensemble().draws().dynamics(2),
        "`draw` must be in 0..1; got 2.",
    ),
    case(
        "a negative payout",
        ArgumentError,
        lambda: bm.worlds.casino(payout=-1),
        "`payout` must be in [0, inf); got -1.",
    ),
    case(
        "an infinite payout",
        ArgumentError,
        lambda: bm.worlds.casino(payout=INF),
        "`payout` must be in [0, inf); got inf.",
    ),
    case(
        "a probability of losing above 1",
        ArgumentError,
        lambda: bm.worlds.casino(p_lose=1.5),
        "`p_lose` must be in [0, 1]; got 1.5.",
    ),
    case(
        "a casino with a discount above 1",
        TaskError,
        lambda: bm.worlds.casino(discount=1.5),
        "`discount` must be in [0, 1]; got 1.5: it is the factor by which the next "
        "cycle counts less, 1 / (1 + rate).",
    ),
]

BASELINE_CASES = [
    *(
        case(
            f"{name} of an ensemble",
            BeliefError,
            lambda name=name: getattr(bm.policies, name)(ensemble()),
            f"`{name}` needs {needed}, which Ensemble does not have; use a posterior "
            "from `bayesmdp.fit`.",
        )
        for name, needed in (
            ("behaviour", "logged counts"),
            ("mle", "logged counts"),
        )
    ),
    *(
        case(
            f"{name} of an ensemble",
            BeliefError,
            lambda call=call: call(ensemble()),
            f"`{name}` needs independent Dirichlet rows, which this Ensemble does not "
            "have; use draws, or a posterior from `bayesmdp.fit`.",
        )
        for name, call in (
            ("second_order", bm.policies.second_order),
            ("evaluate_analytic", lambda belief: bm.evaluate_analytic([0] * 3, belief)),
        )
    ),
    case(
        "nominal of a world",
        BeliefError,
        lambda: bm.policies.nominal(bm.MDP(MODEL, task())),
        "`posterior` must be",
        "MDP",
    ),
    case(
        "multi-sample induction on one draw",
        ArgumentError,
        lambda: bm.policies.msbi(POSTERIOR, n_draws=1),
        "`n_draws` must be at least 2; got 1.",
    ),
    case(
        "multi-sample induction without iterations",
        ArgumentError,
        lambda: bm.policies.msbi(POSTERIOR, 4, max_iterations=0),
        "`max_iterations` must be at least 1; got 0.",
    ),
    case(
        "multi-sample induction in no memory",
        ArgumentError,
        lambda: bm.policies.msbi(POSTERIOR, 2, memory_limit=-1),
        "`memory_limit` must be",
        "-1",
    ),
    case(
        "multi-sample induction with a bad seed",
        ArgumentError,
        lambda: bm.policies.msbi(POSTERIOR, 4, seed=-1),
        "`seed` must be at least 0; got -1.",
    ),
    case(
        "a plan without discount where nothing ends",
        EndlessError,
        lambda: bm.policies.nominal(
            bm.Ensemble([bm.Dynamics.from_dense(np.eye(3)[:, None])], endless_task())
        ),
        "With discount 1 every episode must end, but from state 0 no action ever",
        "use a discount below 1.",
    ),
]


def endless_task() -> bm.Task:
    return bm.Task(3, 1, np.zeros(3), discount=1.0, terminal=[2])


COMPARE_CASES = [
    case(
        "a comparison of one policy",
        ArgumentError,
        lambda: bm.compare({"wait": [0, 0, 0]}, DRAWS),
        "`policies` must map at least two names to policies, such as {'care': [0, 0]",
    ),
    case(
        "a comparison without names",
        ArgumentError,
        lambda: bm.compare([[0, 0, 0], [1, 1, 0]], DRAWS),
        "`policies` must map at least two names to policies, such as {'care': [0, 0]",
    ),
    case(
        "a reference that is not there",
        ArgumentError,
        lambda: bm.compare(PAIR, DRAWS, reference="clinician"),
        "`reference` 'clinician' is not among the policies: wait, treat.",
    ),
    case(
        "a policy of another size",
        PolicyError,
        lambda: bm.compare(PAIR | {"short": [0, 0]}, DRAWS),
        "must have shape (3, 2) or (3,); got (2,).",
    ),
    case(
        "names that are not words",
        ArgumentError,
        lambda: str(bm.compare({1: [0, 0, 0], "b": [1, 1, 0]}, DRAWS)),
        "`policies`",
    ),
    case(
        "fewer than one observation",
        ArgumentError,
        lambda: bm.compare(PAIR, DRAWS, min_count=0),
        "`min_count` must be at least 1; got 0.",
    ),
    case(
        "a comparison over a number",
        ArgumentError,
        lambda: bm.compare(PAIR, 1000),
        "`draws` must be a posterior or an ensemble",
        "got int.",
    ),
]


@pytest.mark.parametrize(
    ("error", "call", "said"),
    [*ENSEMBLE_CASES, *BASELINE_CASES, *COMPARE_CASES],
)
def test_the_message_names_what_is_wrong(
    error: type[bm.BayesmdpError], call: Callable[[], object], said: tuple[str, ...]
) -> None:
    check(error, call, said)


@pytest.mark.parametrize("name", ["behaviour", "mle", "second_order"])
def test_a_refusal_is_one_sentence(name: str) -> None:
    with pytest.raises(BeliefError) as caught:
        getattr(bm.policies, name)(ensemble())
    said = str(caught.value)
    assert said.endswith(".")
    assert ". " not in said


def test_the_good_call_behind_each_case_is_good() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ensemble(weights=[0.5, 0.5], rewards=[[0, 0, 1]] * 2).n_models == 2
        assert bm.policies.nominal(ensemble()).shape == (3, 2)
        assert len(bm.compare(PAIR, DRAWS, reference="wait", min_count=1).rows) == 2
        assert bm.policies.msbi(POSTERIOR, 2, 50).shape == (3, 2)
