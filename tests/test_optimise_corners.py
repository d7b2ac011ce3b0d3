"""Where a search can go wrong: without discount, with rare states, with many models."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp.engine import Problem, workers
from bayesmdp.engine.planning import hindsight_values, plan
from bayesmdp.errors import BayesmdpWarning, EndlessError

Array = NDArray[np.float64]


def model(*entries: tuple[int, int, int, float], n: int, ends: int) -> bm.Dynamics:
    """Rows of two actions by their entries; the last ``ends`` states stay put."""
    dense = np.zeros((n, 2, n))
    for state, action, next_state, probability in entries:
        dense[state, action, next_state] = probability
    dense[range(n - ends, n), :, range(n - ends, n)] = 1.0
    return bm.Dynamics.from_dense(dense)


def circling() -> bm.Ensemble:
    """Action 0 of state 1 ends in one model and goes back in the other."""
    common = [(0, 0, 1, 1.0), (0, 1, 2, 1.0), (1, 1, 2, 1.0)]
    models = [
        model(*common, (1, 0, 2, 1.0), n=3, ends=1),
        model(*common, (1, 0, 0, 1.0), n=3, ends=1),
    ]
    reward = np.array([[-1.0, -5.0], [-1.0, -5.0], [0.0, 0.0]])
    task = bm.Task(3, 2, reward, discount=1.0, start=0, terminal=[2])
    return bm.Ensemble(models, task, weights=[0.7, 0.3])


def test_hindsight_plans_from_a_policy_that_ends_in_that_model() -> None:
    belief = circling()
    problem = Problem.of_belief(belief).with_stream(belief.draws().stream)
    with workers(1, None) as pool:
        found = hindsight_values(problem, 2, plan(problem).choice, pool)
    assert found.tolist() == [-2.0, -5.0]


def test_without_discount_the_bound_is_above_the_value() -> None:
    result = bm.optimise(circling(), starts=["uniform"])
    assert result.upper_bound == pytest.approx(0.7 * -2 + 0.3 * -5)
    assert result.gap == pytest.approx(result.upper_bound - result.start_value)
    assert result.gap >= 0


def test_a_model_of_no_weight_has_no_veto() -> None:
    loops = circling()
    certain = bm.Ensemble(loops.dynamics, loops.task, weights=[1.0, 0.0])
    assert bm.evaluate([0, 0, 0], certain.draws()).start_value == -2.0
    assert bm.optimise(certain).start_value == pytest.approx(-2.0)
    with pytest.raises(EndlessError, match="state 0"):
        bm.evaluate([0, 0, 0], loops.draws())


def test_a_start_without_a_mean_is_left_out() -> None:
    """The nominal policy stays in a paid loop whose exit has concentration 0.5."""
    task = bm.Task(2, 2, [[-1.0, -4.0], [0, 0]], discount=1.0, start=0, terminal=[1])
    counts = bm.Counts.from_arrays([0, 0], [0, 1], [0, 1], [1, 30])
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior(0.5))
    with pytest.raises(EndlessError, match="mean is infinite"):
        bm.evaluate(bm.policies.nominal(posterior), posterior.draws(10))
    with pytest.raises(EndlessError, match="none of the starts"):
        bm.optimise(posterior, starts=["nominal"])
    result = bm.optimise(posterior, starts={"in": [0, 0], "out": [1, 0]})
    assert result.policy[0, 1] > 0.5
    assert result.start_value == pytest.approx(-4.1, abs=0.1)
    assert list(result.starts) == ["out"]
    assert result.status.endswith("left out: in")


def never_ended(prior: Any = None) -> bm.Posterior:
    """Logs that go round 0 and 1, and never to the end, 2."""
    task = bm.Task(3, 2, [-1.0, -1.0, 0.0], discount=1.0, start=0, terminal=[2])
    counts = bm.Counts.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 0, 0], n_states=3)
    return bm.fit(counts, task, prior=prior or bm.SymmetricPrior(3.0))


def test_frequencies_that_never_end_keep_nobody_from_optimising() -> None:
    posterior = never_ended()
    said = "from state 0 no policy ends at the visit frequencies; .* than `mle`"
    with pytest.raises(EndlessError, match=said):
        bm.policies.mle(posterior)
    with pytest.raises(EndlessError, match=said):
        bm.optimise(posterior, starts=["mle"])
    method = bm.StochasticGradient(0.1, 16, 2)
    result = bm.optimise(posterior, method=method, starts=["mle", "uniform"])
    assert list(result.starts) == ["uniform"]
    assert result.status.endswith("were left out: mle")
    assert "left out: mle" in result.summary()
    everyone = bm.optimise(posterior, method=method, starts=["uniform"])
    assert "left out" not in everyone.status


def test_where_no_policy_ends_a_fallback_helps() -> None:
    support = np.ones((3, 2, 3), dtype=np.bool_)
    support[:2, :, 2] = False
    prior = bm.SymmetricPrior(3.0, support=support)
    with pytest.raises(EndlessError, match=r"from state 0 no action ever .* Fallback"):
        bm.optimise(never_ended(prior))
    method = bm.StochasticGradient(0.1, 16, 2)
    found = bm.optimise(
        never_ended(bm.FallbackPrior(prior, 2, weight=3.0)), method=method
    )
    assert np.isfinite(found.start_value)


def rare(n_models: int = 1200, n_rare: int = 12) -> bm.Ensemble:
    """One model in a hundred leads to state 1, where everything is decided."""
    usual = [(0, a, t, 0.5) for a in (0, 1) for t in (2, 3)]
    special = [(0, a, 1, 1.0) for a in (0, 1)]
    decided = [(1, 0, 2, 1.0), (1, 1, 3, 1.0)]
    ways = [special] * n_rare + [usual] * (n_models - n_rare)
    models = [model(*way, *decided, n=4, ends=2) for way in ways]
    task = bm.Task(4, 2, [0, 0, 100.0, -100.0], discount=0.9, start=0, terminal=[2, 3])
    return bm.Ensemble(models, task)


def test_a_state_that_few_models_reach_is_not_an_unreached_one() -> None:
    bad: Array = np.array([[0.5, 0.5], [0, 1], [0, 0], [0, 0]])
    good: Array = np.array([[0.5, 0.5], [1, 0], [0, 0], [0, 0]])
    result = bm.optimise(rare(), starts={"bad": bad, "good": good})
    assert result.policy[1].tolist() == [1.0, 0.0]


def test_the_published_algorithm_does_not_run_out_of_models() -> None:
    method = bm.StochasticGradient(1.0, 4096, 30)  # over 100,000 draws of models
    result = bm.optimise(rare(), method=method)
    assert result.steps == 30
    assert result.draws_used == 30 * 4096


def test_resuming_the_published_algorithm_goes_on_where_it_stood() -> None:
    world = bm.worlds.synthetic(1)
    posterior = bm.fit(world.sample(50, seed=0), world.task, prior=bm.SymmetricPrior())
    seen: list[int] = []

    def rate(step: int) -> float:
        seen.append(step)
        return 1e-9

    first = bm.optimise(posterior, method=bm.StochasticGradient(0.1, 16, 5))
    method = bm.StochasticGradient(rate, 16, 2)
    second = bm.optimise(posterior, method=method, resume=first)
    assert second.policy == pytest.approx(first.policy, abs=1e-6)
    assert seen == [5, 6]
    assert second.draws_used == first.draws_used + 32


def test_msbi_plans_for_an_ensemble_too() -> None:
    world = bm.worlds.synthetic(2)
    one = bm.Ensemble([world.dynamics], world.task)
    assert np.array_equal(bm.policies.msbi(one, 4), bm.policies.nominal(one))
    assert "msbi" in bm.optimise(one).starts


def test_discount_1_starts_from_the_uniform_policy_where_others_have_no_mean() -> None:
    """Each action leaves with Beta(0.4, 1.4), all three together with exits 1.2."""
    task = bm.Task(2, 3, [-1, 0], terminal=[1], discount=1.0)
    counts = bm.Counts.from_arrays([0] * 3, [0, 1, 2], [0] * 3, n_states=2)
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior(0.4))
    with pytest.warns(BayesmdpWarning, match="exits of concentration 1.2"):
        found = bm.optimise(posterior, seed=0, effort="quick")
    assert list(found.starts) == ["uniform"]
    assert found.left_out == ("nominal",)


def test_a_known_model_is_solved_and_said_to_be() -> None:
    """Without epistemic spread, gains are compared with rounding."""
    world = bm.worlds.synthetic(1)
    known = bm.Ensemble([world.dynamics], world.task)
    found = bm.optimise(known, seed=0, effort="quick")
    assert found.converged
    assert found.steps < 300
    best = bm.evaluate(bm.policies.nominal(known), known.draws()).start_value
    assert found.start_value == pytest.approx(best, rel=1e-9)


def test_the_tolerance_of_an_ensemble_is_the_one_that_is_given() -> None:
    casino = bm.worlds.casino()
    loose = bm.optimise(casino, method=bm.MirrorAscent(tolerance=10.0))
    assert loose.steps == 0
    assert {step.n_draws for step in bm.optimise(casino).history} == {2}
