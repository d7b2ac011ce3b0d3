"""Results of every kind come back equal to the bit, by one pair of functions."""

import dataclasses
import hashlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp import storage
from bayesmdp.errors import StorageError
from bayesmdp.evaluation import Comparison
from bayesmdp.optimisation import Step

WORLD = bm.worlds.synthetic(0)
POSTERIOR = bm.fit(WORLD.sample(100, seed=0), WORLD.task, prior=bm.SymmetricPrior())
DRAWS = POSTERIOR.draws(64, seed=3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return storage.save(POSTERIOR, tmp_path / "run")


@pytest.fixture(scope="module")
def result() -> bm.Optimisation:
    method = bm.MirrorAscent(n_steps=2)
    return bm.optimise(POSTERIOR, method=method, starts=["nominal", "mle"], seed=5)


@pytest.fixture(scope="module")
def table() -> Comparison:
    policies = {name: [a] * 5 for a, name in enumerate(["<all> 0", "always 1", "2"])}
    return bm.compare(policies, DRAWS, reference="2", min_count=3)


def same(one: Any, other: Any) -> None:
    """Equal in every field, to the bit and by type, however deep."""
    assert type(one) is type(other) or {type(one), type(other)} <= {np.float64, float}
    if isinstance(one, bm.Task):
        assert np.array_equal(one.start, other.start)
        assert one.discount == other.discount
    elif dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()
        assert not other.flags.writeable
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for x, y in zip(one, other, strict=True):
            same(x, y)
    else:
        assert one == other or (one != one and other != other)


def test_an_evaluation_comes_back(path: Path) -> None:
    evaluation = bm.evaluate(np.full((5, 5), 0.2), DRAWS)
    odd = dataclasses.replace(
        evaluation,
        variance_reduction=float("inf"),
        prior_share=float("nan"),
        notes=("first", "second: <b>"),
        occupancy=np.array([np.nan, -np.inf, -0.0, 1e-308, 0.1]),
    )
    for name, kept in (("plain", evaluation), ("odd", odd)):
        storage.save_result(path, name, kept)
        same(kept, storage.load_result(path, name))
    with_values = bm.evaluate(np.full((5, 5), 0.2), DRAWS, keep_values=True)
    storage.save_result(path, "odd", with_values, overwrite=True)
    same(with_values, storage.load_result(path, "odd"))
    storage.save_result(path, "odd", odd, overwrite=True)
    text = (path / "results" / "odd.json").read_text()
    assert json.loads(text)["record"]["variance_reduction"] == {"$number": "inf"}
    assert storage.load(path).results == ("odd", "plain")


def test_an_optimisation_comes_back_and_can_be_resumed(
    path: Path, result: bm.Optimisation
) -> None:
    assert result.history
    storage.save_result(path, "optimised", result)
    found = storage.load_result(path, "optimised", bm.Optimisation)
    same(result, found)
    method = bm.MirrorAscent(n_steps=1)
    one, other = (
        bm.optimise(POSTERIOR, method=method, resume=x) for x in (result, found)
    )
    assert one.draws_used > result.draws_used
    assert np.array_equal(one.policy, other.policy)
    assert one.start_value == other.start_value


def test_an_optimisation_without_steps_or_bound_comes_back(
    path: Path, result: bm.Optimisation
) -> None:
    nan = float("nan")
    bare = dataclasses.replace(
        result, history=(), gap=nan, starts={"odd, <name>": DRAWN}, left_out=("<b>",)
    )
    storage.save_result(path, "bare", bare)
    same(bare, storage.load_result(path, "bare"))
    step = Step("a", 1, nan, float("inf"), 16)
    stepped = dataclasses.replace(result, history=(step, step))
    storage.save_result(path, "bare", stepped, overwrite=True)
    same(stepped, storage.load_result(path, "bare"))
    assert bare.to_dict()["gap"] is None
    assert "nan" not in bare.summary()
    assert "perfect information" in result.summary()
    json.dumps(bare.to_dict(), allow_nan=False)


DRAWN = np.full((5, 5), 0.2)
DRAWN.flags.writeable = False


def test_a_comparison_comes_back(path: Path, table: Comparison) -> None:
    odd = dataclasses.replace(table.rows[0], difference_mcse=float("nan"))
    table = dataclasses.replace(table, rows=(odd, *table.rows[1:]))
    storage.save_result(path, "comparison", table)
    found = storage.load_result(path, "comparison")
    same(table, found)
    assert str(found) == str(table)
    with pytest.raises(StorageError, match="is there already"):
        storage.save_result(path, "comparison", table)
    storage.save_result(path, "comparison", table, overwrite=True)


def test_weights_of_models_come_back(path: Path) -> None:
    weights = [0.01, 0.9, 0.09]
    models = [DRAWS.dynamics(i) for i in range(3)]
    exact = bm.Ensemble(models, WORLD.task, weights=weights).draws()
    kept = bm.evaluate([0] * 5, exact)
    storage.save_result(path, "exact", kept)
    found = storage.load_result(path, "exact")
    same(kept, found)
    assert found.interval() == kept.interval()
    assert found.weights is not None
    assert found.weights.tolist() == pytest.approx(weights)
    short = dataclasses.replace(kept, weights=kept.weights[:2])  # type: ignore[index]
    storage.save_result(path, "short", short)
    with pytest.raises(StorageError, match=r"'weights' has shape \(2,\), not \(3,\)"):
        storage.load_result(path, "short")


def changed(path: Path, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the record of a result by hand, and sign it again."""
    head = path / "results" / f"{name}.json"
    said = json.loads(head.read_text())
    del said["checksum"]
    change(said["record"])
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    said["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    head.write_text(json.dumps(said))


@pytest.mark.parametrize("ends", [None, 1.0, [], [0.1], [0.1, 0.2, 0.3], ["a", "b"]])
def test_an_interval_that_has_not_two_ends_is_refused(
    ends: object, path: Path, table: Comparison
) -> None:
    storage.save_result(path, "comparison", table)
    changed(path, "comparison", lambda x: x["rows"][0].update(interval=ends))
    with pytest.raises(StorageError, match=r"it has .* as 'rows\.0\.interval"):
        storage.load_result(path, "comparison")


def test_a_result_of_another_kind_or_task_is_refused(
    path: Path, table: Comparison, result: bm.Optimisation, tmp_path: Path
) -> None:
    storage.save_result(path, "x", table)
    for kind in (bm.Optimisation, bm.Evaluation, dict):
        with pytest.raises(StorageError, match=r"'x' of `.*run` is of type Comparison"):
            storage.load_result(path, "x", kind)
    storage.save_result(path, "y", {"value": 1})
    with pytest.raises(StorageError, match="is of type dict, not Comparison"):
        storage.load_result(path, "y", Comparison)
    for name, bad, said in (
        ("kind", {"$record": "Optimisation"}, "Optimisation has no 'policy'"),
        ("no kind", {"$record": "Run"}, "a record of an unknown kind, 'Run'"),
        ("number", {"$number": 1}, "it has {'$number': 1} as"),
        ("array", {"$array": "value"}, "there is no array 'value'"),
        ("task", {"$task": None, "x": 1}, "as ''"),
    ):
        storage.save_result(path, "y", {"value": 1}, overwrite=True)
        changed(path, "y", lambda x, bad=bad: [x.clear(), x.update(bad)])  # type: ignore[misc]
        with pytest.raises(
            StorageError, match=r"cannot be used: .*; recompute it"
        ) as e:
            storage.load_result(path, "y")
        assert said in str(e.value), name
    storage.save_result(path, "v", result.evaluation)
    changed(path, "v", lambda x: x.update(more=1))
    with pytest.raises(StorageError, match="Evaluation has no field 'more'"):
        storage.load_result(path, "v")
    storage.save_result(path, "w", {"x": np.zeros(2)})
    changed(path, "w", lambda x: x.clear())
    with pytest.raises(StorageError, match="holds 'x', which bayesmdp did not write"):
        storage.load_result(path, "w")
    small = bm.Task(2, 1, reward=[0, 1], discount=0.5)
    other = bm.fit(
        bm.Counts.from_arrays([0, 1], [0, 0], [1, 0]), small, prior=bm.SymmetricPrior()
    )
    elsewhere = storage.save(other, tmp_path / "other")
    for about in (result, table, {"mine": [result.evaluation]}):
        with pytest.raises(StorageError, match="another number of states or actions"):
            storage.save_result(elsewhere, "x", about)
    assert storage.load(elsewhere).results == ()


COSTS = {"cost": [0.0, 2.0], "qaly": [1.0, 0.5]}
OF_TWO: dict[str, Any] = {"reward": COSTS, "discount": 0.9, "horizon": 3}


def analysed(**changed: Any) -> tuple[bm.Posterior, dict[str, Any]]:
    """Return a posterior of two states, and what was found of it."""
    task = bm.Task(2, 1, **{**OF_TWO, **changed})
    counts = bm.Counts.from_arrays([0, 1, 0], [0, 0, 0], [1, 0, 0])
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior())
    draws, benefit = posterior.draws(8), {"qaly": 9, "cost": -1}
    both = {"one": [0, 0], "other": np.ones((2, 1))}
    return posterior, {
        "both": bm.evaluate([0, 0], draws),
        "one": bm.evaluate([0, 0], draws, reward="qaly"),
        "benefit": bm.evaluate([0, 0], draws, reward=benefit),
        "costs": bm.cost_effectiveness(both, draws),
    }


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"horizon": 4}, "horizon"),
        ({"cycle": "end"}, "cycle"),
        ({"start": 1}, "start"),
        ({"discount": 0.8}, "reward|discount"),
        ({"reward": COSTS | {"qaly": [1.0, 0.6]}}, "reward"),
        ({"state_labels": ["a", "b"]}, "state_labels"),
    ],
)
def test_a_result_of_another_task_of_the_same_size_is_refused(
    tmp_path: Path, changed: dict[str, Any], what: str
) -> None:
    posterior, found = analysed()
    run, (_, others) = storage.save(posterior, tmp_path / "run"), analysed(**changed)
    for name, result in found.items():
        storage.save_result(run, name, result)
        with pytest.raises(StorageError, match=f"of a task with another ({what}) than"):
            storage.save_result(run, "other", others[name])
    assert sorted(storage.load(run).results) == sorted(found)


def test_the_page_refuses_costs_of_another_task() -> None:
    posterior, found = analysed()
    _, others = analysed(horizon=4)
    qaly = posterior.with_reward("qaly")
    comparison = bm.compare({"one": [0, 0], "two": [0, 0]}, qaly.draws(8))
    assert bm.report(qaly, comparison, cost_effectiveness=found["costs"])
    with pytest.raises(bm.BayesmdpError, match="`cost_effectiveness` is about a task"):
        bm.report(qaly, comparison, cost_effectiveness=others["costs"])


HORIZON = 4


def every_kind() -> dict[str, Any]:
    """What functions of this package return, with numbers of all sorts."""
    policy = np.full((5, 5), 0.2)
    log = WORLD.simulate(policy, 30, max_steps=5, seed=0)
    task, prior = WORLD.task, bm.SymmetricPrior()
    priors = {"flat": prior, "sparse": bm.SparsePrior(fallback=0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = bm.fit(log, task, prior=prior)
        timed = posterior.with_task(task._but(horizon=HORIZON))
        return {
            "analytic": bm.evaluate_analytic(policy, posterior),
            "actions": bm.evaluation.action_values(policy, posterior.draws(20)),
            "to_go": bm.evaluation.values_to_go(policy, timed, n_draws=20),
            "check": bm.check(posterior, log, n_draws=20, n_permutations=9),
            "control": bm.negative_control(log, task, prior, n_permutations=3),
            "cross": bm.cross_fit(log, task, prior),
            "off": bm.off_policy([1] * 5, log, task),
            "priors": bm.compare_priors(priors, log, task),
            "sensitivity": bm.prior_sensitivity(policy, log, task, priors, n_draws=20),
            "improve": bm.improve(posterior, effort="quick"),
            "frontier": bm.risk_frontier(posterior, (0.5, 1.0), effort="quick"),
            "order": bm.diagnostics.markov_order(log, n_permutations=9),
        }


def test_every_result_of_the_package_comes_back(
    path: Path, table: Comparison, result: bm.Optimisation
) -> None:
    made = every_kind()
    # A record that is added must be made here as well.
    rooms = (bm.evaluation, bm.optimisation, bm.diagnostics)
    listed = [getattr(room, name) for room in rooms for name in room.__all__]
    wanted = {x for x in listed if isinstance(x, type) and hasattr(x, "summary")}
    others = {type(table), type(result), type(result.evaluation)}  # above
    others |= {bm.diagnostics.Calibration}  # is made slowly
    assert wanted == {type(x) for x in made.values()} | others
    hollow = made["check"].tests[0]
    hollow = dataclasses.replace(hollow, effect=float("nan"), effect_se=float("nan"))
    made["odd"] = dataclasses.replace(
        made["check"], gap=float("nan"), survival=None, order=None, tests=(hollow,)
    )
    timed = POSTERIOR.with_task(POSTERIOR.task._but(horizon=HORIZON))
    other, to_go = storage.save(timed, path.parent / "timed"), made.pop("to_go")
    storage.save_result(other, "to_go", to_go)
    same(to_go, storage.load_result(other, "to_go"))
    for name, result in made.items():
        storage.save_result(path, name, result)
        found = storage.load_result(path, name)
        same(result, found)
        assert found.summary() == result.summary()
    storage.save_result(path, "all", {"of": made, "n": len(made)})
    found = storage.load_result(path, "all")
    assert found["n"] == len(made)
    same(made, found["of"])
    assert storage.load(path).summary().count("damaged") == 0


def test_results_are_told_in_words(
    path: Path, table: Comparison, result: bm.Optimisation
) -> None:
    storage.save_result(path, "comparison", table)
    storage.save_result(path, "optimised", result)
    storage.save_result(path, "judged", result.evaluation)
    storage.save_result(path, "own", {"a": 1})
    storage.save_result(path, "hollow", table)
    changed(path, "hollow", lambda x: x.update(rows=[]))
    (path / "results" / "broken.json").write_text("{")
    text = storage.load(path).summary()
    for said in (
        f"comparison: {table!r}",
        f"optimised: {result!r}",
        f"judged: {result.evaluation!r}",
        "own: a result of your own",
        "hollow: damaged; recompute it",
        "broken: damaged; recompute it",
    ):
        assert said in text


def test_a_place_for_a_result_is_checked_before_the_work(path: Path) -> None:
    storage.check_target(path, "optimised")
    assert not (path / "results").exists()
    storage.save_result(path, "optimised", {})
    with pytest.raises(StorageError, match="is there already"):
        storage.check_target(path, "optimised")
    storage.check_target(path, "optimised", overwrite=True)
    assert [x.name for x in (path / "results").iterdir()] == ["optimised.json"]


def test_a_place_that_cannot_be_written_is_told_before_the_work(path: Path) -> None:
    (path / "results").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match="results` cannot be written"):
        storage.check_target(path, "optimised")


def test_warnings_and_findings_of_a_fit_last(tmp_path: Path) -> None:
    log = WORLD.sample(100, seed=0)
    found = bm.validate(log)
    path = storage.save(
        POSTERIOR, tmp_path / "a", findings=found, warnings=["beware of <this>"]
    )
    run = storage.load(path)
    assert run.findings == found
    assert run.warnings == ("beware of <this>",)
    assert "warning: beware of <this>" in run.summary()
    bare = storage.load(storage.save(POSTERIOR, tmp_path / "b"))
    assert (bare.findings, bare.warnings) == (None, ())
    with pytest.raises(StorageError, match="`findings` must be of type Findings"):
        storage.save(POSTERIOR, tmp_path / "c", findings=[])  # type: ignore[arg-type]


def test_a_result_about_a_weighted_sum_of_rewards_comes_back(tmp_path: Path) -> None:
    both = {"a": [1, 0, 0], "b": [0, 1, 0]}
    task = bm.Task(3, 2, reward=both, discount=0.9, terminal=[2])
    log = bm.Transitions.from_arrays(
        [0, 1, 0, 1], [0, 1, 1, 0], [1, 2, 1, 2], episode=[0, 0, 1, 1], step=[0, 1] * 2
    )
    posterior = bm.fit(log, task)
    run = storage.save(posterior, tmp_path / "run")
    for reward in ({"a": 1.0, "b": -2.0}, "a"):
        found = bm.check(posterior.with_reward(reward), log, n_draws=20)
        storage.save_result(run, "check", found, overwrite=True)
        assert storage.load_result(run, "check").reward == reward
        same(found, storage.load_result(run, "check"))
