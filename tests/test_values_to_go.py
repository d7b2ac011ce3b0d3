"""Values by cycles to go against all paths from there, and against evaluations."""

import numpy as np
import pytest
from all_paths import (
    COUNTS,
    CYCLES,
    MODELS,
    POLICY,
    SHAPES,
    WEIGHTS,
    S,
    paths,
    task,
)

import bayesmdp as bm
from bayesmdp.errors import TaskError


@pytest.mark.parametrize("form", SHAPES)
@pytest.mark.parametrize("cycle", CYCLES)
def test_values_to_go_are_what_all_paths_from_there_say(form: str, cycle: str) -> None:
    g = 0.9
    ensemble = bm.Ensemble(MODELS, task(form, (g, 0.8), horizon=4, cycle=cycle))
    found = bm.evaluation.values_to_go(POLICY, ensemble, reward="cost")
    for to_go in range(5):
        for s in range(S):
            each = [
                sum(
                    p * sum(g**t * x[0] for t, x in earned)
                    for p, earned in paths(
                        m, form, WEIGHTS[cycle][4 - to_go :], np.eye(S)[s]
                    )
                )
                for m in MODELS
            ]
            assert found.value[to_go, s] == pytest.approx(np.mean(each))
            assert found.epistemic_sd[to_go, s] == pytest.approx(np.std(each))
    whole = bm.evaluate(POLICY, ensemble, reward="cost")
    np.testing.assert_allclose(found.value[-1], whole.value, atol=1e-12)
    assert not found.value_mcse.any()


def test_values_to_go_of_draws_are_those_of_the_evaluation() -> None:
    about = task("pairs", (0.97, 0.97), horizon=8, cycle="half")
    one = bm.fit(COUNTS, about, prior=bm.SymmetricPrior())
    found = bm.evaluation.values_to_go(POLICY, one, reward="qaly", n_draws=100)
    same = bm.evaluate(POLICY, one, reward="qaly", n_draws=100, control=False)
    for name in ("value", "value_mcse", "epistemic_sd", "epistemic_sd_mcse"):
        there = getattr(same, name)
        np.testing.assert_allclose(getattr(found, name)[-1], there, atol=1e-12)
    assert found.to_pandas().shape == (9 * S, 6)
    assert "cycles to go" in found.summary()


def test_values_to_go_need_a_horizon_and_some_of_the_last_cycle() -> None:
    never = bm.Ensemble(MODELS, task("pairs", (0.9, 0.9)).with_reward("cost"))
    with pytest.raises(bm.BayesmdpError, match="needs a task with a `horizon`"):
        bm.evaluation.values_to_go(POLICY, never)
    short = task("pairs", (0.5, 0.9), horizon=1500)
    with pytest.raises(bm.BayesmdpError, match="take a shorter `horizon`"):
        bm.evaluation.values_to_go(POLICY, bm.Ensemble(MODELS, short), reward="cost")
    with pytest.raises(TaskError, match="looks at one reward"):
        bm.evaluation.values_to_go(POLICY, bm.Ensemble(MODELS, short))
