"""Evaluations, optimisations and comparisons come back equal to the bit."""

import dataclasses
import json
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
        storage.save_evaluation(path, kept, name)
        same(kept, storage.load_evaluation(path, name))
    with_values = bm.evaluate(np.full((5, 5), 0.2), DRAWS, keep_values=True)
    storage.save_evaluation(path, with_values, "odd", overwrite=True)
    same(with_values, storage.load_evaluation(path, "odd"))
    storage.save_evaluation(path, odd, "odd", overwrite=True)
    text = (path / "results" / "odd.json").read_text()
    assert json.loads(text)["record"]["variance_reduction"] is None
    assert storage.load(path).results == ("odd", "plain")


def test_an_optimisation_comes_back_and_can_be_resumed(
    path: Path, result: bm.Optimisation
) -> None:
    assert result.history
    storage.save_optimisation(path, result)
    found = storage.load_optimisation(path)
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
    storage.save_optimisation(path, bare, "bare")
    same(bare, storage.load_optimisation(path, "bare"))
    step = Step("a", 1, nan, float("inf"), 16)
    stepped = dataclasses.replace(result, history=(step, step))
    storage.save_optimisation(path, stepped, "bare", overwrite=True)
    same(stepped, storage.load_optimisation(path, "bare"))
    assert bare.to_dict()["gap"] is None
    assert "nan" not in bare.summary()
    assert "perfect information" in result.summary()
    json.dumps(bare.to_dict(), allow_nan=False)


DRAWN = np.full((5, 5), 0.2)
DRAWN.flags.writeable = False


def test_a_comparison_comes_back(path: Path, table: Comparison) -> None:
    odd = dataclasses.replace(table.rows[0], difference_mcse=float("nan"))
    table = dataclasses.replace(table, rows=(odd, *table.rows[1:]))
    storage.save_comparison(path, table)
    found = storage.load_comparison(path)
    same(table, found)
    assert str(found) == str(table)
    with pytest.raises(StorageError, match="is there already"):
        storage.save_comparison(path, table)
    storage.save_comparison(path, table, overwrite=True)


def test_weights_of_models_come_back(path: Path) -> None:
    weights = [0.01, 0.9, 0.09]
    models = [DRAWS.dynamics(i) for i in range(3)]
    exact = bm.Ensemble(models, WORLD.task, weights=weights).draws()
    kept = bm.evaluate([0] * 5, exact)
    storage.save_evaluation(path, kept, "exact")
    found = storage.load_evaluation(path, "exact")
    same(kept, found)
    assert found.interval() == kept.interval()
    assert found.weights is not None
    assert found.weights.tolist() == pytest.approx(weights)
    short = dataclasses.replace(kept, weights=kept.weights[:2])  # type: ignore[index]
    storage.save_evaluation(path, short, "short")
    with pytest.raises(StorageError, match=r"'weights' has shape \(2,\), not \(3,\)"):
        storage.load_evaluation(path, "short")


@pytest.mark.parametrize("ends", [None, 1.0, [], [0.1], [0.1, 0.2, 0.3], ["a", "b"]])
def test_an_interval_that_has_not_two_ends_is_refused(
    ends: object, path: Path, table: Comparison
) -> None:
    storage.save_comparison(path, table)
    found = storage.load_result(path, "comparison")
    rows = [{**row, "interval": ends} for row in found.record["rows"]]
    record = {**found.record, "rows": rows}
    storage.save_result(path, "comparison", record, found.arrays, overwrite=True)
    with pytest.raises(StorageError, match=r"ComparisonRow has .* as 'interval'"):
        storage.load_comparison(path)


def test_a_result_of_another_kind_or_task_is_refused(
    path: Path, table: Comparison, result: bm.Optimisation, tmp_path: Path
) -> None:
    storage.save_comparison(path, table, "x")
    for load in (storage.load_optimisation, storage.load_evaluation):
        with pytest.raises(StorageError, match=r"'x' of `.*run` is no .* but compar"):
            load(path, "x")
    storage.save_result(path, "y", {"value": 1})
    with pytest.raises(StorageError, match="is no comparison but of no known kind"):
        storage.load_comparison(path, "y")
    storage.save_result(path, "z", {"kind": "optimisation"})
    with pytest.raises(StorageError, match=r"cannot be used .*: recompute it"):
        storage.load_optimisation(path, "z")
    storage.save_result(path, "w", {"kind": "evaluation"}, {"value": [1.0]})
    with pytest.raises(StorageError, match="Evaluation has no 'value_mcse'"):
        storage.load_evaluation(path, "w")
    ones = {field.name: 1 for field in dataclasses.fields(bm.Evaluation)}
    storage.save_result(path, "v", {**ones, "kind": "evaluation"})
    with pytest.raises(
        StorageError, match=r"'v' of .* cannot be used .*: recompute it"
    ):
        storage.load_evaluation(path, "v")
    small = bm.Task(2, 1, reward=[0, 1], discount=0.5)
    other = bm.fit(
        bm.Counts.from_arrays([0, 1], [0, 0], [1, 0]), small, prior=bm.SymmetricPrior()
    )
    elsewhere = storage.save(other, tmp_path / "other")
    with pytest.raises(StorageError, match="a run of 2 states and 1 actions"):
        storage.save_optimisation(elsewhere, result)
    with pytest.raises(StorageError, match="`comparison` must be of type Comparison"):
        storage.save_comparison(path, result)  # type: ignore[arg-type]
    assert storage.load(elsewhere).results == ()


def test_results_are_told_in_words(
    path: Path, table: Comparison, result: bm.Optimisation
) -> None:
    storage.save_comparison(path, table)
    storage.save_optimisation(path, result)
    storage.save_evaluation(path, result.evaluation, "judged")
    storage.save_result(path, "own", {"a": 1})
    hollow = {"kind": "comparison", "rows": [], "reference": "x", "evaluations": []}
    storage.save_result(path, "hollow", hollow)
    (path / "results" / "broken.json").write_text("{")
    text = storage.load(path).summary()
    names = ", ".join(row.name for row in table.rows)
    worth = bm.evaluation.rounded(result.start_value, result.start_value_mcse)
    n_draws = result.evaluation.n_draws
    for said in (
        f"comparison: {names} (best first), compared with 2 on 64 draws",
        f"optimised: a policy worth {worth} from the start; {result.status}",
        f"judged: a policy worth {worth} from the start, on {n_draws} draws",
        "own: a result of your own",
        "hollow: a result of your own",
        "broken: damaged; recompute it",
    ):
        assert said in text


def test_a_place_for_a_result_is_checked_before_the_work(path: Path) -> None:
    storage.check_result(path, "optimised")
    assert not (path / "results").exists()
    storage.save_result(path, "optimised", {})
    with pytest.raises(StorageError, match="is there already"):
        storage.check_result(path, "optimised")
    storage.check_result(path, "optimised", overwrite=True)
    (other,) = {x.name for x in (path / "results").iterdir()} - {"optimised.json"}
    assert other == "optimised.npz"


def test_a_place_that_cannot_be_written_is_told_before_the_work(path: Path) -> None:
    (path / "results").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match="results` cannot be written"):
        storage.check_result(path, "optimised")


def test_the_current_comparison_is_made_where_it_is_missing_or_old(
    path: Path, result: bm.Optimisation, table: Comparison
) -> None:
    run = storage.load(path)
    made, why = storage.current_comparison(run, n_draws=32, seed=4)
    assert why.startswith("no comparison was kept")
    assert set(made.evaluations) == {"behaviour", "mle", "nominal"}
    assert made.reference == "behaviour"
    assert made.evaluations["mle"].n_draws == 32
    same(made, storage.current_comparison(run)[0])  # as it was kept
    storage.save_optimisation(path, result)
    made, why = storage.current_comparison(run, n_draws=32)
    assert "lacks the optimised policy as it is now" in why
    assert np.array_equal(made.evaluations["optimised"].policy, result.policy)
    assert storage.current_comparison(run)[1] == ""
    storage.save_comparison(path, table, overwrite=True)  # policies of one's own
    made, why = storage.current_comparison(run, n_draws=32)
    assert list(made.evaluations) == ["<all> 0", "always 1", "2", "optimised"]
    assert (made.reference, made.min_count) == ("2", 3)
    changed = dataclasses.replace(result, policy=DRAWN)
    storage.save_optimisation(path, changed, overwrite=True)
    made, why = storage.current_comparison(run, n_draws=32)
    assert "as it is now" in why
    assert np.array_equal(made.evaluations["optimised"].policy, DRAWN)


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
    with pytest.raises(bm.errors.ArgumentError, match=r"what `Findings.to_dict` ret"):
        bm.data.Findings.from_dict({"findings": [{}]})
