"""Algorithm 2 of the paper, step for step against dense NumPy on the same draws."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import Setting, setting, solve

import bayesmdp as bm
from bayesmdp.posterior import Draws

Array = NDArray[np.float64]
BATCH, SEED = 16, 3
REWARD = np.array([1.0, -0.5, 0.3, 2.0])
TASK = bm.Task(4, 3, REWARD, discount=0.9, start=[0.5, 0.2, 0.3, 0.0], terminal=[3])


def posterior() -> bm.Posterior:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, size=(4, 3, 4))
    counts[3] = 0
    return bm.fit(bm.Counts.from_dense(counts), TASK, prior=bm.SymmetricPrior())


def softmax(logits: Array) -> Array:
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def published_logits(actions: Array, softness: float, n_actions: int) -> Array:
    """``log(1 - eta)`` for the action of the start, ``log(eta / (A - 1))`` else."""
    chosen = np.eye(n_actions)[actions] > 0
    return np.where(chosen, np.log(1 - softness), np.log(softness / (n_actions - 1)))


def gradient(logits: Array, models: list[Array], at: Setting) -> tuple[float, Array]:
    """Mean over models of the start value, and its derivative by the logits."""
    pi, values, total = softmax(logits), [], np.zeros_like(logits)
    for theta in models:
        solved = solve(theta, pi, at)
        values.append(at.rho @ solved.value)
        mean = (pi * solved.q).sum(axis=1, keepdims=True)
        total += (
            np.where(at.ends, 0.0, solved.occupancy)[:, None] * pi * (solved.q - mean)
        )
    return float(np.mean(values)), total / len(models)


def run_in_numpy(
    belief: bm.Posterior,
    groups: list[int],
    rates: list[float],
    softness: float = 0.1,
) -> tuple[Array, list[float]]:
    """Follow the algorithm; step k uses the batch of draws with number groups[k]."""
    at = setting(TASK, REWARD)
    n_draws = BATCH * (max(groups) + 1)
    draws = Draws(belief, n_draws, SEED, "optimise")
    actions = bm.policies.nominal(belief).argmax(axis=1)
    logits, values = published_logits(actions, softness, 3), []
    for group, rate in zip(groups, rates, strict=True):
        numbers = range(group * BATCH, (group + 1) * BATCH)
        models = [draws.dynamics(i).to_dense() for i in numbers]
        value, slope = gradient(logits, models, at)
        values.append(value)
        logits = logits + rate * slope
    return softmax(logits), values


def run(belief: bm.Posterior, rate: Any = 2.0, n_steps: int = 5, **more: Any) -> Any:
    method = bm.StochasticGradient(rate, BATCH, n_steps, **more)
    return bm.optimise(belief, method=method, seed=SEED)


def assert_same(result: bm.Optimisation, expected: tuple[Array, list[float]]) -> None:
    policy, values = expected
    assert [step.value for step in result.history] == pytest.approx(values, rel=1e-12)
    assert result.policy[:3] == pytest.approx(policy[:3], abs=1e-12)


def test_the_gradient_of_the_reference_is_a_derivative() -> None:
    at, belief = setting(TASK, REWARD), posterior()
    draws = belief.draws(3, seed=0)
    models = [draws.dynamics(i).to_dense() for i in range(3)]
    logits = np.random.default_rng(1).normal(size=(4, 3))
    _, slope = gradient(logits, models, at)
    for state in range(3):
        for action in range(3):
            step = np.zeros_like(logits)
            step[state, action] = 1e-5
            ahead, behind = (gradient(logits + d, models, at)[0] for d in (step, -step))
            assert (ahead - behind) / 2e-5 == pytest.approx(
                slope[state, action], abs=1e-8
            )


@pytest.mark.parametrize(
    ("every", "groups"),
    [
        (1, [0, 1, 2, 3, 4]),
        (2, [0, 0, 1, 1, 2]),
        (3, [0, 0, 0, 1, 1]),
        (0, [0, 0, 0, 0, 0]),
    ],
)
def test_steps_are_those_of_the_paper_on_the_draws_they_say(
    every: int, groups: list[int]
) -> None:
    belief = posterior()
    expected = run_in_numpy(belief, groups, [2.0] * 5)
    assert_same(run(belief, resample_every=every), expected)
    others = {0: [0, 1, 2, 3, 4]}.get(every, [0, 0, 0, 0, 0])
    wrong = run_in_numpy(belief, others, [2.0] * 5)[1]
    assert wrong != pytest.approx(expected[1], rel=1e-6)  # draws do make a difference


def test_the_learning_rate_may_follow_the_step() -> None:
    asked: list[int] = []

    def rate(step: int) -> float:
        asked.append(step)
        return 3.0 / (1 + step)

    belief = posterior()
    result = run(belief, rate)
    assert asked == [0, 1, 2, 3, 4]
    rates = [3.0, 1.5, 1.0, 0.75, 0.6]
    assert_same(result, run_in_numpy(belief, [0, 1, 2, 3, 4], rates))


@pytest.mark.parametrize("softness", [0.01, 0.1, 0.5])
def test_the_start_is_softened_as_published(softness: float) -> None:
    belief = posterior()
    result = run(belief, rate=1e-300, n_steps=1, softness=softness)
    actions = bm.policies.nominal(belief).argmax(axis=1)
    for state in range(3):
        row = np.delete(result.policy[state], actions[state])
        assert result.policy[state, actions[state]] == pytest.approx(1 - softness)
        assert row == pytest.approx([softness / 2] * 2)
    expected = run_in_numpy(belief, [0, 1], [2.0, 2.0], softness)
    assert_same(run(belief, n_steps=2, softness=softness), expected)


def test_a_start_without_its_own_action_is_refused() -> None:
    with pytest.raises(bm.BayesmdpError, match="softness"):
        bm.StochasticGradient(1.0, BATCH, 5, softness=1.0)


def test_the_result_is_the_last_policy_as_it_is() -> None:
    result = run(posterior(), n_steps=3)
    assert result.steps == len(result.history) == 3
    assert [step.step for step in result.history] == [1, 2, 3]
    assert {step.n_draws for step in result.history} == {BATCH}
    assert set(result.starts) == {"nominal"}
    assert result.chosen_start == "nominal"
    assert (result.policy[:3] > 0.001).all()  # not rounded
    assert "published" in result.status
    assert not result.converged


def test_a_batch_that_is_no_multiple_of_a_block_does_not_share_draws() -> None:
    belief = posterior()
    method = bm.StochasticGradient(1e-300, 5, 4)  # a step that moves nothing
    values = [s.value for s in bm.optimise(belief, method=method, seed=1).history]
    assert len(set(values)) == 4


def test_threads_do_not_change_the_published_algorithm() -> None:
    belief = posterior()
    method = bm.StochasticGradient(2.0, 64, 10)
    one, two = (
        bm.optimise(belief, method=method, seed=1, threads=n).policy for n in (1, 2)
    )
    assert np.array_equal(one, two)
