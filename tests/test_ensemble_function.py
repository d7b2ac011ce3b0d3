"""Ensembles drawn by a function: pure draws, honest Monte Carlo errors."""

import traceback
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.errors import BeliefError

TASK = bm.Task(2, 2, reward="alive", discount=0.9, terminal=1, start=0)
Drawn = tuple[Any, Any]


def rows(die: np.ndarray) -> np.ndarray:
    """Dynamics of one state that is left for good with these probabilities."""
    found = np.zeros((2, 2, 2))
    found[0] = np.column_stack([1 - die, die])
    found[1, :, 1] = 1
    return found


def draw(rng: np.random.Generator) -> Drawn:
    risk, ratio = rng.beta(20, 60), rng.lognormal(np.log(0.6), 0.2)
    return rows(np.array([risk, min(risk * ratio, 1)])), None


def values(belief: bm.Ensemble, action: int) -> np.ndarray:
    die = np.array([m.to_dense()[0, action, 1] for m in belief.dynamics])
    return 1 / (1 - 0.9 * (1 - die))


def test_a_draw_depends_on_seed_and_number_alone() -> None:
    few = bm.Ensemble.from_function(draw, 3, seed=5, task=TASK)
    many = bm.Ensemble.from_function(draw, 9, seed=5, task=TASK)
    other = bm.Ensemble.from_function(draw, 3, seed=6, task=TASK)
    assert np.array_equal(few.table, many.table[:3])
    assert not np.isclose(few.table, other.table).any()
    assert len({*many.table[:, 0].tolist()}) == 9


def test_rows_of_a_draw_share_their_parameters() -> None:
    belief = bm.Ensemble.from_function(draw, 200, seed=0, task=TASK)
    die = np.array([m.to_dense()[0, :, 1] for m in belief.dynamics])
    assert np.corrcoef(np.log(die.T))[0, 1] > 0.5
    table = bm.compare({"no": [0, 0], "yes": [1, 0]}, belief, reference="no")
    (row,) = (x for x in table.rows if x.name == "yes")
    gain = values(belief, 1) - values(belief, 0)
    assert row.difference == pytest.approx(gain.mean())
    assert row.difference_mcse == pytest.approx(gain.std() / np.sqrt(200), rel=0.01)


def test_errors_of_differences_weigh_models_as_means_do() -> None:
    models = bm.Ensemble.from_function(draw, 40, seed=1, task=TASK).dynamics
    weight = np.arange(1.0, 41.0) ** 2
    belief = bm.Ensemble(models, TASK, weights=weight / weight.sum(), sampled=True)
    table = bm.compare({"no": [0, 0], "yes": [1, 0]}, belief, reference="no")
    (row,) = (x for x in table.rows if x.name == "yes")
    w, gain = belief.weights, values(belief, 1) - values(belief, 0)
    variance = w @ (gain - w @ gain) ** 2
    assert row.difference == pytest.approx(w @ gain)
    assert row.difference_mcse == pytest.approx(np.sqrt(variance * (w @ w)))


def test_errors_cover_the_truth() -> None:
    """The mean over 200 ensembles stands for the truth; 95 % of 200 is 190 +- 3."""
    found = [
        bm.evaluate([1, 0], bm.Ensemble.from_function(draw, 60, seed=s, task=TASK))
        for s in range(200)
    ]
    mean = np.array([x.start_value for x in found])
    error = np.array([x.start_value_mcse for x in found])
    assert mean.std() / error.mean() == pytest.approx(1, abs=0.15)
    inside = np.abs(mean - mean.mean()) < 1.96 * error
    assert 181 <= inside.sum() <= 198
    sd = np.array([x.start_epistemic_sd for x in found])
    sd_error = np.array([x.start_epistemic_sd_mcse for x in found])
    assert sd.std() / sd_error.mean() == pytest.approx(1, abs=0.2)


def test_drawing_again_from_the_models_adds_to_the_error() -> None:
    belief = bm.Ensemble.from_function(draw, 100, seed=0, task=TASK)
    every = bm.evaluate([1, 0], belief)
    some = bm.evaluate([1, 0], belief.draws(50, seed=1))
    spread = every.start_epistemic_sd
    assert every.start_value_mcse == pytest.approx(spread / 10, rel=0.01)
    assert some.start_value_mcse > spread / 10


def test_a_given_set_of_models_has_no_error() -> None:
    belief = bm.Ensemble.from_function(draw, 50, seed=0, task=TASK)
    given = bm.Ensemble(belief.dynamics, TASK)
    assert bm.evaluate([1, 0], given).start_value_mcse == 0
    assert "exactly" in bm.evaluate([1, 0], given).summary()
    assert "sampled" in bm.evaluate([1, 0], belief).summary()
    assert "a sample of 50 models" in belief.describe()


def with_reward(rng: np.random.Generator) -> Drawn:
    found, _ = draw(rng)
    return found, [rng.uniform(1, 3), 0]


def test_rewards_are_drawn_too() -> None:
    belief = bm.Ensemble.from_function(with_reward, 40, seed=0, task=TASK)
    paid = np.array([x[0] for x in belief.rewards])
    expected = (paid * values(belief, 0)).mean()
    assert bm.evaluate([0, 0], belief).start_value == pytest.approx(expected)


def test_the_function_may_bring_the_task() -> None:
    def whole(rng: np.random.Generator) -> Drawn:
        found, reward = with_reward(rng)
        return found, bm.Task(2, 2, reward, discount=0.9, terminal=1, start=0)

    belief = bm.Ensemble.from_function(whole, 40, 0)
    same = bm.Ensemble.from_function(with_reward, 40, 0, task=TASK)
    assert np.array_equal(belief.rewards, same.rewards)
    assert belief.task.discount == 0.9


def test_optimise_finds_the_treatment() -> None:
    belief = bm.Ensemble.from_function(draw, 50, seed=0, task=TASK)
    found = bm.optimise(belief, effort="quick")
    assert found.policy[0].tolist() == [0, 1]
    assert found.start_value == pytest.approx(values(belief, 1).mean())
    assert found.start_value_mcse > 0


@pytest.mark.parametrize(
    ("f", "more", "said"),
    [
        (7, {}, "`f` must be a function of a random generator; got int"),
        (lambda rng: rows(np.array([0.5, 0.5])), {}, "`f` must return two things"),
        (lambda rng: (7, None, 3), {}, "two things, .* draw 0 has 3."),
        (lambda rng: (7, None), {}, "`dynamics` must hold Dynamics: model 0 is int"),
        (draw, {"n": 1}, "`n` must be at least 2"),
        (draw, {"seed": -1}, "`seed` must be at least 0"),
        (draw, {"task": None}, "`task` must be given, or `f` must return a Task"),
        (draw, {"task": 7}, "`task` must be of type Task"),
    ],
)
def test_what_cannot_be_drawn_is_refused(f: Any, more: Any, said: str) -> None:
    asked = {"n": 3, "seed": 0, "task": TASK, **more}
    with pytest.raises(bm.BayesmdpError, match=said):
        bm.Ensemble.from_function(f, asked.pop("n"), **asked)


def test_sampled_is_yes_or_no() -> None:
    with pytest.raises(BeliefError, match="`sampled` must be of type bool"):
        bm.Ensemble([rows(np.array([0.5, 0.5]))], TASK, sampled=3)  # type: ignore[arg-type]


def test_tasks_of_draws_differ_in_the_reward_alone() -> None:
    def drawn(rng: np.random.Generator) -> Drawn:
        g = 0.9 if rng.uniform() < 0.7 else 0.8
        task = bm.Task(2, 2, reward=[rng.uniform(), 0], discount=g, start=0)
        return rows(np.array([0.1, 0.2])), task

    with pytest.raises(BeliefError, match=r"draw \d+ has another `discount`"):
        bm.Ensemble.from_function(drawn, 20)


SEVERAL = bm.Task(2, 2, {"cost": [3, 0], "qaly": [1, 0]}, discount=0.9, start=0)


def paying(reward: Any, at: int = 3) -> bm.Ensemble:
    """Draws of which one has another reward."""
    count = iter(range(5))

    def f(rng: np.random.Generator) -> Drawn:
        own = {"cost": [3, 0], "qaly": [1, 0]}
        return rows(rng.uniform(size=2)), reward if next(count) == at else own

    return bm.Ensemble.from_function(f, 5, task=SEVERAL)


def test_rewards_of_draws_are_matched_by_name() -> None:
    turned = paying({"qaly": [1, 0], "cost": [3, 0]})
    np.testing.assert_array_equal(turned.rewards, paying(None).rewards)


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        ({"cost": [3, 0], "ly": [1, 0]}, "cost, qaly; got 'cost', 'ly'"),
        ({"cost": [3, 0]}, "cost, qaly; got 'cost'"),
        ([3, 0], "cost, qaly; got one without a name"),
        ({"cost": [3, 0], "qaly": [1, np.nan]}, "Reward 'qaly': `reward` must be fin"),
        (
            bm.Task(2, 2, {"cost": [3, 0], "qaly": [1, 0]}, discount=0.5).reward,
            "'cost' has the discount 0.5, and the task's 0.9",
        ),
    ],
)
def test_rewards_of_draws_are_refused_by_number(reward: Any, said: str) -> None:
    with pytest.raises(BeliefError, match=rf"model 3.*{said}") as found:
        paying(reward)
    assert found.value.__notes__ == ["Models are draws of `f`, with the same numbers."]


def test_what_fails_inside_the_function_is_told_with_its_draw() -> None:
    count = iter(range(5))

    def f(rng: np.random.Generator) -> Drawn:
        return rows(np.array([1, 1]) / (2 - next(count))), None

    with np.errstate(divide="raise"), pytest.raises(FloatingPointError) as found:
        bm.Ensemble.from_function(f, 5, seed=7, task=TASK)
    assert found.value.__notes__ == ["`f` failed at draw 2 of seed 7."]


@pytest.mark.parametrize(
    "f", [lambda: None, lambda rng: 1 / 0, lambda rng: [][1]], ids=range(3)
)
def test_whatever_fails_is_told_with_its_draw(f: Any) -> None:
    with pytest.raises((TypeError, ArithmeticError, LookupError)) as found:
        bm.Ensemble.from_function(f, 5, seed=7, task=TASK)
    said = "".join(traceback.format_exception(found.value))
    assert said.endswith("`f` failed at draw 0 of seed 7.\n")


def test_it_is_called_once_for_each_draw_in_order() -> None:
    drawn = []

    def f(rng: np.random.Generator) -> Drawn:
        drawn.append(rng.uniform())
        return rows(np.array([drawn[-1], 0.5])), None

    belief = bm.Ensemble.from_function(f, 30, seed=1, task=TASK)
    kept = [model.to_dense()[0, 0, 1] for model in belief.dynamics]
    assert kept == drawn
