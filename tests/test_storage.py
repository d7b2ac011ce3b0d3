"""Run directories: what comes back is what was kept, to the bit."""

import hashlib
import json
import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changed_runs import array_of

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, BayesmdpWarning, StorageError
from bayesmdp.storage import check_log, load, load_result, save, save_result

WORLD = bm.worlds.gridworld()
RNG = np.random.default_rng(0)
COUNTS = bm.Counts.from_arrays(*RNG.integers(0, (3, 2, 4), (60, 3)).T)
LABELS = {
    "state_labels": ["Intensivstation", "'; drop", "Tod \N{SKULL}", ""],
    "action_labels": ["0", "\n"],
}


def task(reward: Any, **more: Any) -> bm.Task:
    return bm.Task(4, 2, reward, **{"discount": 0.7 + 0.1, "terminal": [3], **more})


MASK = RNG.random((4, 2, 4)) < 0.5
MASK[COUNTS.state, COUNTS.action, COUNTS.next_state] = True
POSTERIORS = {
    "grid": bm.fit(
        WORLD.sample(500, seed=0),
        WORLD.task,
        prior=bm.SymmetricPrior(0.3, support=WORLD.support),
        min_count=3,
    ),
    "state reward": bm.fit(
        COUNTS, task(RNG.random(4), **LABELS), prior=bm.SymmetricPrior()
    ),
    "pair reward": bm.fit(
        COUNTS,
        task(RNG.random((4, 2)), start=2),
        min_count=8,
        prior=bm.SymmetricPrior(),
    ),
    "dense reward": bm.fit(
        COUNTS,
        task(RNG.random((4, 2, 4)), discount=1, start=np.array([0.1, 0.2, 0.7, 0])),
        prior=bm.SymmetricPrior(1 / 3, support=MASK),
    ),
    "triplets": bm.fit(
        COUNTS,
        task(([0, 1, 2], [1, 1, 0], [3, 0, 1], [0.1, -2, 1e50])),
        prior=bm.SparsePrior(1e-9, fallback=3),
    ),
    "as many triplets as actions": bm.fit(  # which a tuple could not say
        COUNTS,
        task(bm.model.RewardTriplets(np.array([5, 11]), np.array([0.1, -2]))),
        prior=bm.SymmetricPrior(),
    ),
    "several rewards, a horizon": bm.fit(
        COUNTS,
        task(
            {"cost": RNG.random((4, 2)), "qaly": RNG.random((4, 2))},
            horizon=20,
            cycle="half",
            reward_unit={"qaly": "years"},
        ),
        prior=bm.SymmetricPrior(),
    ),
    "no reward, all labels": bm.fit(
        COUNTS,
        task(([], [], [], []), terminal=(), **LABELS),
        prior=bm.SparsePrior(fallback="Tod \N{SKULL}"),
    ),
}


def parts(item: Any, name: str = "") -> dict[str, Any]:
    """Every array and plain value inside a record, by its place."""
    if isinstance(item, np.ndarray):
        return {name: item}
    if hasattr(item, "__dataclass_fields__"):
        inside = {x.name: getattr(item, x.name) for x in fields(item)}
    elif isinstance(item, tuple):
        inside = {str(i): x for i, x in enumerate(item)}
    else:
        return {name: item}
    return {k: v for n, x in inside.items() for k, v in parts(x, f"{name}.{n}").items()}


def assert_same(found: bm.Posterior, wanted: bm.Posterior) -> None:
    one, other = parts(found), parts(wanted)
    assert one.keys() == other.keys()
    for name, x in one.items():
        y = other[name]
        assert type(x) is type(y), name
        if isinstance(x, np.ndarray):
            assert x.dtype == y.dtype, name
            assert x.shape == y.shape, name
            assert x.tobytes() == y.tobytes(), name
            assert not x.flags.writeable, name
        else:
            assert x == y, name


@pytest.mark.parametrize("name", POSTERIORS)
def test_a_posterior_comes_back_equal_to_the_bit(tmp_path: Path, name: str) -> None:
    path = save(POSTERIORS[name], tmp_path / "run")
    assert_same(load(path).posterior, POSTERIORS[name])
    draws = [x.draws(3).dynamics(2) for x in (load(path).posterior, POSTERIORS[name])]
    assert np.array_equal(draws[0].probability, draws[1].probability)


def test_a_difference_would_be_seen() -> None:
    other = bm.fit(
        COUNTS, task(([], [], [], []), terminal=(), **LABELS), prior=bm.SymmetricPrior()
    )
    with pytest.raises(AssertionError):
        assert_same(other, POSTERIORS["no reward, all labels"])


def test_every_field_of_a_task_and_of_a_posterior_is_kept() -> None:
    # A field that is added must be saved as well, here and in storage.
    assert {x.name for x in fields(bm.Task)} == {
        "n_states",
        "n_actions",
        "is_cost",
        "reward",
        "discount",
        "start",
        "terminal",
        "state_labels",
        "action_labels",
        "reward_unit",
        "horizon",
        "cycle",
        "criterion",
        "chosen",  # by `with_reward`; a posterior is kept with all its rewards
    }
    made = {"availability", "layout", "alpha", "sets"}  # by fit, from the others
    kept = {"task", "counts", "prior"}
    assert {x.name for x in fields(bm.Posterior)} == made | kept


@pytest.mark.filterwarnings("ignore:`task` has no")
def test_the_config_says_what_was_done(tmp_path: Path) -> None:
    log = tmp_path / "ward.csv"
    log.write_text("s,a,sp,note\n30,0,40,x\n40,1,30,y\n40,1,30,y\n")
    data = bm.read_transitions(log, columns={"state": "s"}, labels=True)
    plain = bm.Task(2, 2, reward=[0, 1], discount=0.9)
    posterior = bm.fit(data, plain, prior=bm.SparsePrior(2.0), min_count=1)
    source = {"files": [str(log)], "rows": (1, 2)}
    path = save(posterior, tmp_path / "run", data=data, source=source, seed=7)
    config = load(path).config
    assert config["schema"] == 2
    assert config["versions"]["bayesmdp"] == bm.__version__
    assert config["versions"]["numpy"] == np.__version__
    assert config["seed"] == 7
    assert config["source"] == {"files": [str(log)], "rows": [1, 2]}
    assert config["columns"] == {"state": "s", "action": "a", "next_state": "sp"}
    assert config["task"]["state_labels"] == ["30", "40"]
    assert config["prior"] == {
        "$record": "SparsePrior",
        "concentration": 2.0,
        "fallback": None,
    }
    assert config["min_count"] == 1
    with pytest.raises(TypeError):
        config["seed"] = 8  # type: ignore[index]


def test_notes_of_reading_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "ward.csv"
    log.write_text("id,t,s,a\n1,0,0,0\n1,1,1,0\n1,2,0,0\n")
    with pytest.warns(BayesmdpWarning):
        data = bm.read_transitions(log)
    posterior = bm.fit(
        data, bm.Task(2, 1, reward=[0, 1], discount=0.9), prior=bm.SymmetricPrior()
    )
    run = load(save(posterior, tmp_path / "run", data=data))
    assert tuple(run.config["notes"]) == data.notes
    assert "1 last row without a next state" in run.summary()


def test_anyone_can_read_the_files(tmp_path: Path) -> None:
    posterior = POSTERIORS["state reward"]
    path = save(posterior, tmp_path / "run")
    config = json.loads((path / "config.json").read_text())
    assert config["format"] == "bayesmdp run"
    assert config["task"]["state_labels"] == LABELS["state_labels"]
    arrays = {name: array_of(said) for name, said in config["arrays"].items()}
    for name in ("state", "action", "next_state", "count"):
        wanted = getattr(posterior.counts, name)
        assert np.array_equal(arrays[f"counts.{name}"], wanted)
    assert np.array_equal(arrays["task.reward"], posterior.task.reward)
    assert len(list(path.iterdir())) == 1


def test_a_run_remembers_a_digest_of_its_log(tmp_path: Path) -> None:
    """Of what was fitted, not of rows: in any order, and no matter the prior."""
    log = WORLD.sample(200, seed=0)
    counts = log.counts()
    triplets = np.array([counts.state, counts.action, counts.next_state])
    rows = np.repeat(triplets, counts.count, axis=1)
    mixed = bm.Transitions.from_arrays(
        *rows[:, np.random.default_rng(0).permutation(200)]
    )
    fewer = bm.Transitions.from_arrays(*rows[:, 1:])
    said = [
        load(save(bm.fit(x, WORLD.task, prior=prior), tmp_path / str(i))).describe()
        for i, (x, prior) in enumerate(
            [
                (log, bm.SparsePrior(fallback=0)),
                (mixed, bm.SymmetricPrior(0.1)),
                (fewer, None),
            ]
        )
    ]
    one, other, another = (x["log_sha256"] for x in said)
    assert one == other != another
    columns = (*triplets, counts.count)
    digest = hashlib.sha256(b"".join(x.astype("<i8").tobytes() for x in columns))
    assert one == digest.hexdigest()


def test_episodes_of_a_log_are_compared_where_both_are_known(tmp_path: Path) -> None:
    ids = [0, 1, 0, 1], [0, 0, 0, 0], [1, 2, 1, 2]
    log = bm.Transitions.from_arrays(*ids, episode=[7, 7, 8, 8])
    other = bm.Transitions.from_arrays(*ids, episode=[7, 8, 8, 8])
    bare = bm.Transitions.from_arrays(*ids)
    task = bm.Task(3, 1, [0, 0, 1], discount=0.9, terminal=2)
    posterior = bm.fit(log, task, prior=bm.SymmetricPrior(0.1))
    without = load(save(posterior, tmp_path / "without"))
    known = load(save(posterior, tmp_path / "known", data=log))
    for run, fits in ((without, log), (without, other), (known, log), (known, bare)):
        check_log(run, fits, "log.csv")
    with pytest.raises(ArgumentError, match=r"`log.csv` holds .*, but in other episod"):
        check_log(known, other, "log.csv")
    more = bm.Transitions.from_arrays(*(x[:2] for x in ids), episode=[7, 7])
    with pytest.raises(ArgumentError, match=r"`log.csv` does not hold the transitions"):
        check_log(without, more, "log.csv")


def test_the_same_posterior_gives_the_same_files(tmp_path: Path) -> None:
    one, other = (save(POSTERIORS["grid"], tmp_path / x) for x in "ab")
    names = sorted(x.name for x in one.iterdir())
    assert names == sorted(x.name for x in other.iterdir())
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_a_run_is_replaced_only_when_asked(tmp_path: Path) -> None:
    path = save(POSTERIORS["grid"], tmp_path / "run")
    with pytest.raises(StorageError, match="holds a run already"):
        save(POSTERIORS["triplets"], path)
    assert_same(load(path).posterior, POSTERIORS["grid"])
    (path / "diary.txt").write_text("mine")
    save(POSTERIORS["triplets"], path, overwrite=True)
    assert_same(load(path).posterior, POSTERIORS["triplets"])
    assert (path / "diary.txt").read_text() == "mine"


def test_results_come_back_and_belong_to_their_run(tmp_path: Path) -> None:
    path = save(POSTERIORS["grid"], tmp_path / "run")
    arrays = {"policy": np.eye(3), "file": np.array(["x"]), "a b": np.zeros((0, 2))}
    plain = {"value": 0.1, "tags": ("a", None), "n": np.int64(3), "none": {}}
    odd = [float("inf"), -float("inf"), -0.0, 5e-324]
    save_result(path, "first.try", {**plain, "odd": odd, "inner": [arrays, {"0": 1}]})
    save_result(path, "bare", {})
    run = load(path)
    assert run.results == ("bare", "first.try")
    result = load_result(path, "first.try")
    (found, last), back = result.pop("inner"), result.pop("odd")
    assert result == {"value": 0.1, "tags": ("a", None), "n": 3, "none": {}}
    assert last == {"0": 1}
    assert [math.copysign(1, x) for x in back] == [1, -1, -1, 1]
    assert back == odd
    assert list(found) == list(arrays)
    for name, x in arrays.items():
        assert (found[name].dtype, found[name].shape) == (x.dtype, x.shape)
        assert np.array_equal(found[name], x)
        assert not found[name].flags.writeable
    assert load_result(path, "bare") == {}
    with pytest.raises(StorageError, match="is there already"):
        save_result(path, "bare", {"other": 1})
    save_result(path, "bare", {"other": 1}, overwrite=True)
    assert load_result(path, "bare") == {"other": 1}

    save(POSTERIORS["grid"], path, overwrite=True)  # the same: results still hold
    assert run.results == ("bare", "first.try")
    save(POSTERIORS["triplets"], path, overwrite=True)
    assert load(path).results == ()
    assert list((path / "results").iterdir()) == []


def test_results_that_a_replaced_run_left_behind_do_not_count(tmp_path: Path) -> None:
    path = save(POSTERIORS["grid"], tmp_path / "run")
    save_result(path, "old", {"value": 1})
    other = save(POSTERIORS["triplets"], tmp_path / "other")
    for file in other.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    assert load(path).results == ()
    with pytest.raises(StorageError, match="belongs to another run"):
        load_result(path, "old")
    save_result(path, "old", {"value": 2})
    assert load_result(path, "old") == {"value": 2}


def test_describe_and_summary_say_what_the_run_is(tmp_path: Path) -> None:
    path = save(POSTERIORS["grid"], tmp_path / "run", source="a windy grid")
    save_result(path, "policy", {})
    run = load(path)
    record = run.describe()
    assert json.loads(json.dumps(record)) == record
    assert " ".join(record) == (
        "schema_version path source columns notes warnings versions log_sha256 seed "
        "n_states n_actions terminal discount horizon cycle criterion rewards start "
        "n_transitions n_distinct n_available min_count prior results"
    )
    assert record["schema_version"] == 1
    assert record["n_states"] == 25
    assert record["results"] == ["policy"]
    text = run.summary()
    own = "policy: a result of your own"
    for said in ("source: a windy grid", own, "SymmetricPrior", "numpy"):
        assert said in text
    assert repr(run).startswith("Run('")


def test_another_reading_of_the_prior_is_said_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(POSTERIORS["grid"], tmp_path / "run")
    put = bm.SymmetricPrior.__post_init__

    def changed(self: bm.SymmetricPrior) -> None:
        put(self)
        object.__setattr__(self, "concentration", self.concentration * 2)

    monkeypatch.setattr(bm.SymmetricPrior, "__post_init__", changed)
    with pytest.warns(BayesmdpWarning, match="fitted again and is not the one that"):
        load(path)


def test_other_sets_of_next_states_are_said_aloud(tmp_path: Path) -> None:
    """Rows of the same mean were not drawn on random sets by all versions."""
    world = bm.worlds.synthetic(0, 4, 2, discount=0.9)
    prior = bm.RandomSupportPrior()
    belief = bm.fit(world.sample(20, seed=0), world.task, prior=prior)
    load(save(belief, tmp_path / "same"))
    path = save(replace(belief, sets=None), tmp_path / "other")
    with pytest.warns(BayesmdpWarning, match="fitted again and is not the one that"):
        load(path)


BAD_CALLS: list[tuple[Any, str]] = [
    (lambda p: save(bm.worlds.casino(), p), "is of type Ensemble, which has no counts"),
    (lambda p: save(None, p), "`posterior` must be of type Posterior"),
    (lambda p: save(str(p), None), "before the directory, as in save(posterior, 'war"),
    (lambda p: save(POSTERIORS["grid"], 3), "`path` must be the path"),
    (lambda p: save(POSTERIORS["grid"], ""), "`path` must be the path"),
    (lambda p: save(POSTERIORS["grid"], "a\0b"), "cannot be written"),
    (lambda p: save(POSTERIORS["grid"], p, data=[1]), "`data` must be of type"),
    (
        lambda p: save(POSTERIORS["grid"], p, source=p),
        "which cannot be saved: give tex",
    ),
    (
        lambda p: save(POSTERIORS["grid"], p, source={"x": [float("nan")]}),
        "`source.x.0` is nan",
    ),
    (lambda p: save(POSTERIORS["grid"], p, source={1: 2}), "text as keys"),
    (lambda p: load(p), "There is no directory"),
    (lambda p: load("a\0b"), "There is no directory"),
    (lambda p: save_result(p, "x", {}), "There is no directory"),
    (lambda p: save_result(p, "../x", {}), "`name` must be letters"),
    (lambda p: save_result(p, ".x", {}), "`name` must be letters"),
    (lambda p: load_result(p, "x"), "There is no directory"),
]


@pytest.mark.parametrize(("call", "said"), BAD_CALLS, ids=range(len(BAD_CALLS)))
def test_bad_calls_get_one_sentence_and_write_nothing(
    tmp_path: Path, call: Any, said: str
) -> None:
    with pytest.raises(bm.BayesmdpError) as caught:
        call(tmp_path / "run")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


BAD_RESULTS: list[tuple[Any, str]] = [
    ([], "`result` must be a result of this package or a dict; got list"),
    (3, "`result` must be a result of this package or a dict; got int"),
    ({"y": {1}}, "`result.y` is of type set, which cannot be saved: give text"),
    ({"y": COUNTS}, "`result.y` is of type Counts, which cannot be saved"),
    ({"y": [bm.Task]}, "`result.y.0` is of type type"),
    ({"y": {2: 1}}, "`result.y` must have text as keys"),
    ({"$array": "y"}, "not beginning with $; got '$array'"),
    ({"y": np.array([None])}, "`result.y` must hold numbers, text or True and False"),
]


@pytest.mark.parametrize(("result", "said"), BAD_RESULTS, ids=range(len(BAD_RESULTS)))
def test_results_that_cannot_be_kept_are_refused(
    tmp_path: Path, result: Any, said: str
) -> None:
    path = save(POSTERIORS["grid"], tmp_path / "run")
    with pytest.raises(StorageError) as caught:
        save_result(path, "x", result)
    assert said in str(caught.value)
    assert not (path / "results").exists()


def test_a_result_without_an_end_is_refused(tmp_path: Path) -> None:
    path = save(POSTERIORS["grid"], tmp_path / "run")
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(StorageError, match="is nested more than 50 times"):
        save_result(path, "x", {"y": endless})


def test_labels_that_numpy_would_shorten_come_back(tmp_path: Path) -> None:
    labels = ["a\0", "b", "\ud800", "d"]
    posterior = bm.fit(
        COUNTS, task(np.zeros(4), state_labels=labels), prior=bm.SymmetricPrior()
    )
    again = load(save(posterior, tmp_path / "run")).posterior
    assert again.task.state_labels == tuple(labels)


class Doubling:
    """A prior of one's own."""

    looks_at_data = False

    def concentrations(self, pair: Any, counts: Any, task: bm.Task) -> Any:
        return bm.SymmetricPrior(2).concentrations(pair, counts, task)


@dataclass(frozen=True)
class Scaling(Doubling):
    """One that is a record, too."""

    scale: float = 2.0


@pytest.mark.parametrize("prior", [Doubling(), Scaling()])
def test_a_prior_of_ones_own_is_refused_with_the_remedy(
    tmp_path: Path, prior: Any
) -> None:
    posterior = bm.fit(COUNTS, task(np.arange(4.0)), prior=prior)
    with pytest.raises(StorageError, match=r"ing, which cannot .*: keep the log"):
        save(posterior, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
