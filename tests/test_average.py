"""Averages per step against closed forms, discounts near 1, simulation and enumeration.

The maintenance problem: a machine is new, worn or broken; it runs, or is replaced.
"""

from itertools import product
from typing import Any

import numpy as np
import pytest
from bad_input import case, check
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.errors import ArgumentError, EndlessError, TaskError

Array = NDArray[np.float64]
RNG = np.random.default_rng(8)
S, A = 4, 2
MODELS = RNG.dirichlet(np.ones(S), size=(3, S, A))
POLICY = RNG.dirichlet(np.ones(A), size=S)
REWARDS = {"cost": RNG.normal(size=(S, A)), "output": RNG.normal(size=(S, A))}
TASK = bm.Task(S, A, REWARDS, criterion="average")

STATES = ["new", "worn", "broken"]
RUN, REPLACE = 0, 1
MACHINE = np.zeros((3, 2, 3))
MACHINE[:, RUN] = [[0.7, 0.25, 0.05], [0, 0.6, 0.4], [0, 0, 1]]
MACHINE[:, REPLACE] = [0.95, 0.05, 0]
COST = np.array([[-1.0, -6.0], [-2.0, -6.0], [-10.0, -9.0]])


def maintenance() -> bm.Ensemble:
    task = bm.Task(3, 2, COST, criterion="average", state_labels=STATES)
    return bm.Ensemble([MACHINE], task)


def solved(model: Array, paid: Array, policy: Array) -> tuple[float, Array]:
    """Gain and bias by least squares with the share of time, without renewals."""
    chain = np.einsum("sa,sat->st", policy, model)
    b = np.einsum("sa,sa->s", policy, paid)
    n = len(chain)
    equations = np.vstack([chain.T - np.eye(n), np.ones(n)])
    share = np.linalg.lstsq(equations, np.r_[np.zeros(n), 1.0], rcond=None)[0]
    gain = float(share @ b)
    left = np.vstack([np.eye(n) - chain, share])
    return gain, np.linalg.lstsq(left, np.r_[b - gain, 0.0], rcond=None)[0]


def test_draws_that_are_left_out_are_said_to_be_so_without_episodes() -> None:
    """Two states that a draw may hardly ever leave."""
    log = bm.Transitions.from_arrays([0, 1] * 20, [0] * 40, [0, 1] * 20)
    task = bm.Task(2, 1, [1, 0], criterion="average")
    posterior = bm.fit(log, task, prior=bm.SymmetricPrior(0.002))
    with pytest.warns(bm.BayesmdpWarning, match="left out"):
        found = bm.evaluate([0, 0], posterior.draws(500))
    assert found.n_endless
    (note,) = [x for x in found.notes if "left out" in x]
    assert note.endswith(
        "draws have returns to a state too long to resolve; they are left out."
    )


def test_two_states_have_a_closed_form() -> None:
    a, b, r = 0.3, 0.1, np.array([2.0, -1.0])
    model = np.array([[[1 - a, a]], [[b, 1 - b]]])
    task = bm.Task(2, 1, r, criterion="average")
    found = bm.evaluate([0, 0], bm.Ensemble([model], task))
    share = np.array([b, a]) / (a + b)
    assert found.start_value == pytest.approx(share @ r)
    np.testing.assert_allclose(found.occupancy, share)
    assert found.bias is not None
    np.testing.assert_allclose(found.bias, (r - share @ r) / (a + b))
    rate = a * b * (2 - a - b) / (a + b) ** 3 * (r[0] - r[1]) ** 2
    assert found.start_aleatoric_sd**2 == pytest.approx(rate)


def test_biases_have_the_errors_of_repeated_runs() -> None:
    """40 runs: a ratio of sds is within 0.65 and 1.5 in all but 1 of 1,000 cases."""
    counts = bm.Counts.from_dense(np.random.default_rng(3).poisson(4.0, (S, A, S)))
    about = bm.Task(S, A, REWARDS["cost"], criterion="average")
    belief = bm.fit(counts, about, prior=bm.SymmetricPrior())
    runs = [bm.evaluate(POLICY, belief, n_draws=200, seed=s) for s in range(40)]
    for name in ("bias", "bias_sd"):
        spread = np.std([getattr(x, name) for x in runs], axis=0, ddof=1)
        claimed = np.mean([getattr(x, f"{name}_mcse") for x in runs], axis=0)
        assert ((spread / claimed > 0.65) & (spread / claimed < 1.5)).all(), name
        assert f"{name}_mcse" in runs[0].to_dict()["states"][0]


def test_averages_are_the_limit_of_discounts() -> None:
    """``(1 - g) V``, and ``(1 - g^2)`` times variances, off by about ``1 - g``."""
    g = 1 - 1e-7
    found = bm.evaluate(POLICY, bm.Ensemble(MODELS, TASK))
    near = bm.evaluate(POLICY, bm.Ensemble(MODELS, bm.Task(S, A, REWARDS, discount=g)))
    assert found.rewards is not None
    assert near.rewards is not None
    for name, one in found.rewards.items():
        other = near.rewards[name]
        np.testing.assert_allclose(
            (1 - g) * other.start_values, one.start_values, atol=1e-5
        )
        each = [solved(model, REWARDS[name], POLICY) for model in MODELS]
        np.testing.assert_allclose(one.start_values, [gain for gain, _ in each])
        np.testing.assert_allclose(one.bias, np.mean([h for _, h in each], axis=0))
        np.testing.assert_allclose(one.bias_sd, np.std([h for _, h in each], axis=0))
    assert near.start_aleatoric_covariance is not None
    np.testing.assert_allclose(
        (1 - g**2) * near.start_aleatoric_covariance,
        found.start_aleatoric_covariance,
        atol=1e-4,
    )


def test_simulation_agrees_with_gain_and_rate() -> None:
    """2,000 runs of 400 steps: four standard errors, a false alarm in 10,000."""
    belief, policy = maintenance(), np.array([[1.0, 0], [0.5, 0.5], [0, 1.0]])
    found = bm.evaluate(policy, belief)
    rng = np.random.default_rng(12)
    n, steps, state = 2000, 400, np.zeros(2000, dtype=np.int64)
    total = np.zeros(n)
    for _ in range(steps):
        action = (rng.random(n) >= policy[state, 0]).astype(np.int64)
        total += COST[state, action]
        chance = MACHINE[state, action].cumsum(axis=1)
        state = (rng.random(n)[:, None] >= chance[:, :2]).sum(axis=1)
    assert found.bias is not None
    mean, error = total.mean(), total.std() / np.sqrt(n)
    assert abs(mean - steps * found.start_value - found.bias[0]) < 4 * error
    rate = total.var() / steps  # of a finite run: off by about 1 / steps
    assert rate == pytest.approx(found.start_aleatoric_sd**2, rel=0.13)


def test_the_best_policy_of_a_known_machine_is_that_of_all_policies() -> None:
    belief = maintenance()
    value = {
        choice: solved(MACHINE, COST, np.eye(2)[list(choice)])[0]
        for choice in product((RUN, REPLACE), repeat=3)
        if choice[2] == REPLACE  # a broken machine that runs is a second class
    }
    best = max(value, key=value.__getitem__)
    found = bm.policies.nominal(belief)
    assert found.argmax(axis=1).tolist() == list(best)
    result = bm.optimise(belief, effort="quick")
    assert result.start_value == pytest.approx(value[best])
    assert result.upper_bound == pytest.approx(value[best])


def test_uncertain_rows_give_the_mean_and_spread_of_the_gain() -> None:
    """Two Beta rows, integrated on a fine grid; four standard errors."""
    counts = bm.Counts.from_arrays([0, 0, 1, 1], [0] * 4, [0, 1, 0, 1], [20, 10, 4, 30])
    task = bm.Task(2, 1, [1.0, 0.0], criterion="average")
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior())
    found = bm.evaluate([0, 0], posterior, n_draws=4000)
    at = (np.arange(2000) + 0.5) / 2000
    leave, back = at**10 * (1 - at) ** 20, at**4 * (1 - at) ** 30
    weight = np.outer(leave / leave.sum(), back / back.sum())
    gain = at / (at[:, None] + at)
    mean = (weight * gain).sum()
    sd = np.sqrt((weight * (gain - mean) ** 2).sum())
    assert abs(found.start_value - mean) < 4 * found.start_value_mcse + 1e-5
    assert abs(found.start_epistemic_sd - sd) < 4 * found.start_epistemic_sd_mcse
    assert found.variance_reduction > 5


def test_gradients_of_averages_equal_central_differences() -> None:
    belief = bm.Ensemble(MODELS, TASK).with_reward({"output": 2, "cost": -1})
    draws = belief.draws(16, seed=1)
    problem = engine.Problem.of_belief(belief).with_stream(draws.stream)
    with engine.workers(1, None) as pool:
        found = engine.slopes(problem, problem.rows.of_rows(POLICY), 16, pool=pool)
    for s in range(S):
        change = np.zeros((S, A))
        change[s] = [1e-4, -1e-4]
        up, down = (
            bm.evaluate(POLICY + sign * change, draws).start_value for sign in (1, -1)
        )
        mine = found.slope[problem.rows.row_id[:, 0] == s]
        np.testing.assert_allclose(mine[0] - mine[1], (up - down) / 2e-4, atol=1e-7)


def test_several_closed_classes_are_refused_by_name() -> None:
    with pytest.raises(EndlessError, match=r"closed class.*has 3.*state new.*worn"):
        bm.evaluate(
            [RUN, RUN, RUN],
            bm.Ensemble(
                [np.eye(3)[:, None] * np.ones((1, 2, 1))],
                bm.Task(3, 2, COST, criterion="average", state_labels=STATES),
            ),
        )


def test_a_baseline_with_several_closed_classes_is_refused_as_evaluate_does() -> None:
    model = np.zeros((2, 2, 2))
    model[0, 0, 0] = model[0, 1, 1] = 1
    model[1, :, 1] = 1
    belief = bm.Ensemble([model], bm.Task(2, 2, [1.0, 2.0], criterion="average"))
    with pytest.raises(ArgumentError, match=r"`baseline`: .*one closed class") as found:
        bm.improve(belief, [0, 0])
    with pytest.raises(EndlessError) as same:
        bm.evaluate([0, 0], belief)
    assert str(found.value) == f"`baseline`: {same.value}"


def test_compare_and_improve_know_averages() -> None:
    belief = maintenance()
    careful, late = [RUN, REPLACE, REPLACE], [RUN, RUN, REPLACE]
    table = bm.compare({"careful": careful, "late": late}, belief)
    best = {x.name: x.value for x in table.rows}
    for name, policy in (("careful", careful), ("late", late)):
        gain = solved(MACHINE, COST, np.eye(2)[policy])[0]
        assert best[name] == pytest.approx(gain)
    with pytest.warns(bm.BayesmdpWarning, match="rests on"):  # a single model
        better = bm.improve(belief, late, effort="quick")
    assert better.improvement == pytest.approx(max(best.values()) - best["late"])
    for said in (better.summary(), better.optimisation.summary()):
        assert " per step" in said
        assert "from the start" not in said


@pytest.mark.parametrize(
    ("error", "call", "said"),
    [
        case(
            "discount", TaskError,
            lambda: bm.Task(2, 1, [1, 2], discount=0.9, criterion="average"),
            "`discount` cannot be given with criterion='average'",
        ),
        case(
            "ends", TaskError,
            lambda: bm.Task(2, 1, [1, 2], terminal=[1], criterion="average"),
            "`terminal` cannot be given with criterion='average'",
        ),
        case(
            "horizon", TaskError,
            lambda: bm.Task(2, 1, [1, 2], horizon=5, criterion="average"),
            "`horizon` cannot be given with criterion='average'",
        ),
        case(
            "criterion", TaskError, lambda: bm.Task(2, 1, [1, 2], criterion="mean"),
            "`criterion` must be one of discounted, average; got 'mean'",
        ),
        case(
            "action values", TaskError,
            lambda: bm.action_values([0, 0, 1], maintenance()),
            "`action_values` knows discounted rewards, not criterion='average'",
        ),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(error: Any, call: Any, said: Any) -> None:
    check(error, call, said)


def test_the_summary_says_what_the_aleatoric_sd_is_of() -> None:
    said = bm.evaluate([0, 1, 1], maintenance()).summary()
    assert "the mean over n steps has this over sqrt(n), for large n" in said
    assert "total sd" not in said


def test_the_summary_of_several_rewards_says_so_too() -> None:
    said = bm.evaluate(POLICY, bm.Ensemble(MODELS, TASK)).summary()
    assert said.startswith("Averages per step of a policy over 3 models")
    assert "interval of cost per step" in said
    assert "the mean over n steps has this over sqrt(n), for large n" in said
    assert "total sd" not in said
