"""Records as frames of pandas and polars, and as ArviZ takes them."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.errors import ArgumentError

with warnings.catch_warnings():  # ArviZ 0.23 announces 1.0 once a day
    warnings.simplefilter("ignore", FutureWarning)
    import arviz


@pytest.fixture(scope="module")
def world() -> bm.MDP:
    return bm.worlds.synthetic(0, 4, 2, discount=0.9)


@pytest.fixture(scope="module")
def log(world: bm.MDP) -> bm.Transitions:
    return world.simulate(world.available / 2, 30, max_steps=5, seed=0)


@pytest.fixture(scope="module")
def posterior(world: bm.MDP, log: bm.Transitions) -> Any:
    return bm.fit(log, world.task, prior=bm.SymmetricPrior())


Made = Callable[[Any, bm.Transitions], Any]
FLAT = {"flat": bm.SymmetricPrior()}
#: How each record is made, how many rows it has, and one of its columns.
RECORDS: Mapping[str, tuple[Made, int, str]] = {
    "Evaluation": (lambda p, _: bm.evaluate([0] * 4, p), 4, "epistemic_sd"),
    "ActionValues": (lambda p, _: bm.action_values([0] * 4, p), 8, "probability_best"),
    "Comparison": (
        lambda p, _: bm.compare({"a": [0] * 4, "b": [1] * 4}, p),
        2,
        "difference_interval_low",
    ),
    "OffPolicy": (
        lambda p, log: bm.off_policy(p.available / 2, log, p.task),
        6,
        "interval_high",
    ),
    "Optimisation": (lambda p, _: bm.optimise(p, effort="quick"), -1, "gap"),
    "Improvement": (lambda p, _: bm.improve(p, effort="quick"), -1, "why"),
    "RiskFrontier": (
        lambda p, _: bm.risk_frontier(p, (0.5, 1.0), effort="quick"),
        2,
        "tail_mean",
    ),
    "Findings": (lambda p, log: bm.validate(log, p.task), -1, "code"),
    "Check": (lambda p, log: bm.check(p, log, n_draws=20), -1, "p_value"),
    "CrossFit": (lambda p, log: bm.cross_fit(log, p.task, *FLAT.values()), 2, "fold"),
    "NegativeControl": (
        lambda p, log: bm.negative_control(
            log, p.task, *FLAT.values(), n_permutations=9
        ),
        9,
        "gain",
    ),
    "MarkovOrder": (lambda _, log: bm.diagnostics.markov_order(log), 1, "g2"),
    "PriorComparison": (
        lambda p, log: bm.compare_priors(FLAT, log, p.task, n_folds=2),
        1,
        "log_evidence",
    ),
    "PriorSensitivity": (
        lambda p, log: bm.prior_sensitivity([0] * 4, log, p.task, FLAT, n_draws=50),
        1,
        "gain",
    ),
    "Calibration": (
        lambda p, _: bm.check_calibration(p.task, bm.SymmetricPrior(), n_datasets=100),
        -1,
        "bias",
    ),
}


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.filterwarnings("ignore::bayesmdp.BayesmdpWarning")
def test_every_record_is_a_frame_of_both_packages(
    name: str, posterior: Any, log: bm.Transitions
) -> None:
    make, n_rows, column = RECORDS[name]
    record = make(posterior, log)
    assert type(record).__name__ == name
    pandas, polars = record.to_pandas(), record.to_polars()
    assert len(pandas) == len(polars)
    assert n_rows in (-1, len(pandas))
    if len(pandas):
        assert column in pandas.columns
        left = pandas.reset_index()[column].tolist()
        assert [
            x is None or x == y or np.isnan(y)
            for x, y in zip(polars[column].to_list(), left, strict=True)
        ] == [True] * len(left)


def test_a_frame_has_the_numbers_of_the_record(posterior: Any) -> None:
    found = bm.evaluate([0] * 4, posterior)
    assert found.to_pandas()["value"].to_numpy() == pytest.approx(found.value, abs=0)
    table = bm.compare({"a": [0] * 4, "b": [1] * 4}, posterior)
    frame = table.to_pandas()
    row = next(x for x in table.rows if x.name == "b")
    assert row.difference_interval is not None
    assert frame.loc["b", "difference_interval_high"] == row.difference_interval[1]
    assert np.isnan(frame.loc["a", "difference_interval_high"])


def test_several_rewards_are_named_wherever_they_are_shown(posterior: Any) -> None:
    both = {"cost": [5.0] * 4, "qaly": [1.0, 2, 3, 4]}
    unit = {"cost": "EUR"}
    task = bm.Task(4, 2, both, discount=0.9, reward_unit=unit)
    belief = bm.fit(posterior.counts, task, prior=bm.SymmetricPrior())
    found = bm.evaluate([0] * 4, belief, n_draws=50, keep_values=True)
    assert found.rewards is not None
    assert "start_value={cost: 50, qaly: " in repr(found)
    assert "\ncost (EUR) " in found.summary()
    frame = found.to_pandas()
    assert frame.columns[0] == "reward"
    assert frame["reward"].tolist() == ["cost"] * 4 + ["qaly"] * 4
    qaly = found.rewards["qaly"]
    assert frame["value"].tolist()[4:] == qaly.value.tolist()
    assert "reward" not in qaly.to_pandas()
    data = found.to_inference_data().posterior
    assert data["value"].dims == ("chain", "draw", "reward", "state")
    at = data["start_value"].sel(reward="qaly").values[0]
    np.testing.assert_array_equal(at, qaly.start_values)


@pytest.mark.parametrize("package", ["pandas", "polars", "arviz"])
def test_a_missing_package_is_named(
    package: str, posterior: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, package, None)
    found = bm.evaluate([0] * 4, posterior, n_draws=20)
    method = "to_inference_data" if package == "arviz" else f"to_{package}"
    with pytest.raises(ArgumentError, match=f"`{method}` needs (?i:{package}), which"):
        getattr(found, method)()


def test_arviz_sees_every_draw_of_the_value(posterior: Any) -> None:
    found = bm.evaluate([0] * 4, posterior, n_draws=400, keep_values=True)
    data = found.to_inference_data()
    assert isinstance(data, arviz.InferenceData)
    assert np.array_equal(data.posterior["start_value"].values[0], found.start_values)
    assert found.values is not None
    assert np.array_equal(data.posterior["value"].values[0], found.values)
    table = arviz.summary(data, var_names=["start_value"], round_to="none")
    assert table.loc["start_value", "mean"] == pytest.approx(found.start_values.mean())
    assert table.loc["start_value", "sd"] == pytest.approx(
        found.start_values.std(ddof=1)
    )


def test_chains_of_an_ensemble_come_back_as_chains(world: bm.MDP) -> None:
    """One chain apart from the others: ArviZ must find it in the values."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(4), (200, 4, 2))
    rows[:50, :, :, int(np.argmax(world.task.reward))] += 5.0
    rows /= rows.sum(axis=3, keepdims=True)
    found = bm.evaluate([0] * 4, bm.Ensemble(rows, world.task))
    data = found.to_inference_data(chains=4)
    assert data.posterior["start_value"].shape == (4, 50)
    assert np.array_equal(
        data.posterior["start_value"].values[1], found.start_values[50:100]
    )
    assert float(arviz.rhat(data)["start_value"]) > 1.3


def test_comparisons_have_policies_as_an_axis(posterior: Any) -> None:
    table = bm.compare({"a": [0] * 4, "b": [1] * 4}, posterior, reference="b")
    found = table.to_inference_data().posterior
    assert found["policy"].values.tolist() == ["a", "b"]
    gap = found["start_value"].sel(policy="a") - found["start_value"].sel(policy="b")
    assert np.array_equal(found["difference"].sel(contrast="a - b"), gap)


def test_from_arviz_1_on_it_is_a_tree(
    posterior: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(arviz, "InferenceData")
    found = bm.evaluate([0] * 4, posterior, n_draws=20)
    tree = found.to_inference_data()
    assert type(tree).__name__ == "DataTree"
    assert tree["posterior"]["start_value"].shape == (1, 20)


def test_draws_that_do_not_count_alike_are_refused() -> None:
    casino = bm.worlds.casino(p_lose=0.3)
    with pytest.raises(ArgumentError, match="different weights"):
        bm.evaluate([1, 0, 0], casino).to_inference_data()


def test_chains_must_divide_the_draws(posterior: Any) -> None:
    found = bm.evaluate([0] * 4, posterior, n_draws=20)
    with pytest.raises(ArgumentError, match="`chains` must divide the 20 draws"):
        found.to_inference_data(chains=3)
