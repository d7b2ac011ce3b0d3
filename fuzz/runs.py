"""Run directories: damaged, mixed up, or changed by somebody who signs the change.

What is damaged is refused or loads with the numbers it had; what is changed and signed
again may hold anything, and is refused or loads, in words.
"""

import base64
import copy
import hashlib
import json
import tempfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import bayesmdp as bm
from fuzz import Case, DifferenceError, attempt, tables

Files = dict[str, bytes]
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    "x",
    "",
    [],
    {},
    2**70,
    "9" * 30,
    [None],
    1e308,
]
ODD += [
    {"$record": "SparsePrior"},
    {"array": {}},
    {"number": "nan"},
    {"tuple": [1]},
    [[]],
]
ODD += [{"$array": "task.start"}, {"$number": "inf"}, {"$task": None}, {"$array": 3}]
ODD += [{"$record": "Evaluation"}, {"$record": "Step", "step": 1}]
ODD += ["\ud800", "../x", "é", {"a": {"b": [1, 2]}}, -(2**63), 10**7, "\x1b[1m"]
HEADS = ["config.json", "results/comparison.json", "results/mine.json"]
HEADS += ["results/first.json", "results/optimised.json"]
PRIORS: dict[str, Callable[[], Any]] = {
    "symmetric": bm.SymmetricPrior,
    "sparse": lambda: bm.SparsePrior(0.5, fallback="0"),
    "hierarchical": bm.HierarchicalPrior,
    "mixture": lambda: bm.MixturePrior([bm.SymmetricPrior(), bm.ScaledPrior()]),
}


@cache
def whole(name: str) -> Files:
    """Return the files of a sound run, by name."""
    world = bm.worlds.synthetic(0)
    task = world.task.with_labels(
        state_labels=[str(i) for i in range(5)], action_labels=list("abcde")
    )
    log = world.sample(60, seed=list(PRIORS).index(name))
    posterior = bm.fit(log, task, prior=PRIORS[name]())
    with tempfile.TemporaryDirectory() as folder:
        path = bm.storage.save(
            posterior, folder, source="a test", findings=bm.validate(log)
        )
        if name == "symmetric":
            draws = posterior.draws(32)
            first = bm.evaluate([0] * 5, draws)
            bm.storage.save_result(path, "first", first)
            table = bm.compare({"x": [0] * 5, "y": [1] * 5}, draws)
            bm.storage.save_result(path, "comparison", table)
            search = bm.MirrorAscent(n_steps=1)
            best = bm.optimise(posterior, method=search, starts=["nominal"])
            bm.storage.save_result(path, "optimised", best)
            bm.storage.save_result(path, "mine", {"k": [1, 2], "x": np.ones(2)})
        return {
            str(x.relative_to(path)): x.read_bytes()
            for x in sorted(path.rglob("*"))
            if x.is_file()
        }


@cache
def numbers(name: str) -> dict[str, Any]:
    """Return what a sound run says."""
    with tempfile.TemporaryDirectory() as folder:
        _write(whole(name), Path(folder))
        return _say_all(Path(folder))


def check(case: Case) -> bool:
    """Load one run after something happened to it."""
    pick = case.random
    name = pick.choice(["symmetric", "symmetric", "symmetric", *PRIORS])
    case.note("run", name)
    files = dict(whole(name))
    signed = case.happens(0.5)
    change = _signed if signed else _damage
    change(case, files, name)
    _write(files, case.folder)
    for odd in [x for x in files if case.happens(0.01)]:
        _replace(case, case.folder / odd)
    said = _say_all(case.folder)
    if not signed:
        wanted = numbers(name)
        for what, value in said.items():
            if not isinstance(value, Exception) and value != wanted.get(what):
                raise DifferenceError(f"{what} of a damaged run: {value!r:.300}")
    return not isinstance(said["run"], Exception)


def _write(files: Files, folder: Path) -> None:
    (folder / "results").mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _say_all(path: Path) -> dict[str, Any]:
    """Ask a run for all that it holds; each answer is plain, or an error of ours."""
    loads: dict[str, Callable[[], Any]] = {
        "run": lambda: _run(path),
        "mine": lambda: _mine(bm.storage.load_result(path, "mine", dict)),
        "first": lambda: _shown(bm.storage.load_result(path, "first", bm.Evaluation)),
        "comparison": lambda: _shown(
            bm.storage.load_result(path, "comparison", bm.Comparison)
        ),
        "optimised": lambda: _optimised(
            bm.storage.load_result(path, "optimised", bm.Optimisation)
        ),
    }
    return {name: attempt(call) for name, call in loads.items()}


def _run(path: Path) -> Any:
    run = bm.storage.load(path)
    run.summary()
    run._repr_html_()
    described = run.describe()
    json.dumps(described)
    found = attempt(lambda: run.findings)
    alpha = getattr(run.posterior, "alpha", np.zeros(0))
    return {
        "n": described["n_transitions"],
        "prior": described["prior"],
        "discount": described["discount"],
        "alpha": alpha.tobytes(),
        "counts": run.posterior.counts.count.tolist(),
        "findings": None if found is None else str(found),
    }


def _mine(result: dict[str, Any]) -> Any:
    arrays = {x: y for x, y in result.items() if isinstance(y, np.ndarray)}
    return result | {x: y.tolist() for x, y in arrays.items()}


def _shown(found: bm.Evaluation | bm.Comparison) -> Any:
    """Have a record say itself in every way it can."""
    found._repr_html_()
    if isinstance(found, bm.Evaluation):
        found.summary()
    return found.to_dict(), str(found), repr(found)


def _optimised(found: bm.Optimisation) -> Any:
    shown = _shown(found.evaluation)
    return found.to_dict(), found.policy.tobytes(), repr(found), str(found), shown


def _damage(case: Case, files: Files, name: str) -> None:
    """Do what disks, copies and people do."""
    pick = case.random
    for _ in range(pick.choice([1, 1, 2])):
        at = pick.choice(list(files))
        how = pick.choice(["bytes", "bytes", "bytes", "empty", "lost", "other", "edit"])
        case.note("damage", (how, at))
        if how == "bytes":
            files[at] = tables.damaged(case, files[at])
        elif how == "empty":
            files[at] = b""
        elif how == "lost":
            del files[at]
        elif how == "other" and at == "config.json":
            continue  # all of another run is that run
        elif how == "other":
            other = whole(pick.choice([x for x in PRIORS if x != name]))
            files[at] = other.get(at, files[pick.choice(list(files))])
        elif at.endswith(".json"):
            record = _parsed(files[at])
            _spoil(case, record)
            files[at] = json.dumps(record).encode("ascii")
        if not files:
            return


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return {}


def _replace(case: Case, path: Path) -> None:
    """Put something else than a file there."""
    path.unlink()
    if case.happens(0.5):
        path.mkdir()
    else:
        path.symlink_to(path)
    case.note("no file", path.name)


def _signed(case: Case, files: Files, name: str) -> None:
    """Change records and arrays, and make the checksums right."""
    pick = case.random
    at = pick.choice([x for x in HEADS if x in files])
    record = json.loads(files[at])
    how = pick.choice(["record", "record", "arrays", "both"])
    case.note("signed", (how, at))
    if how != "record":
        _arrays(case, record["arrays"])
    if how != "arrays":
        for _ in range(pick.choice([1, 1, 3])):
            _spoil(case, record)
    files[at] = _sealed(record)
    if at == "config.json":  # results name their run by its checksum
        new = json.loads(files[at]).get("checksum")
        for other in [x for x in HEADS[1:] if x in files]:
            files[other] = _sealed(json.loads(files[other]) | {"run": new})


def _sealed(record: Any) -> bytes:
    if isinstance(record, dict):
        record.pop("checksum", None)
        text = json.dumps(record, sort_keys=True, separators=(",", ":"))
        record["checksum"] = hashlib.sha256(text.encode("ascii")).hexdigest()
    return json.dumps(record).encode("ascii")


def _spoil(case: Case, record: Any) -> None:
    """Change one value at any depth, or drop, double or add a key."""
    pick, place = case.random, record
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = pick.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and case.happens(0.75):
            place = place[key]
            continue
        how = pick.choice(["value", "value", "value", "drop", "copy"])
        if how == "value":
            place[key] = copy.deepcopy(pick.choice(ODD))
        elif how == "drop":
            del place[key]
        elif isinstance(place, dict):
            place[pick.choice(["k", "kind", "extra", "0"])] = copy.deepcopy(place[key])
        else:
            place.append(copy.deepcopy(place[key]))
        case.note("changed", (key, how))
        return


def _arrays(case: Case, said: dict[str, Any]) -> None:
    """Change one array of a record: its type, shape, values or bytes."""
    pick = case.random
    name = pick.choice(list(said))
    how = pick.choice(["value", "type", "axes", "drop", "bytes", "claim", "more"])
    case.note("array", (name, how))
    content = zlib.decompress(base64.b64decode(said[name]["zlib"]))
    array = np.frombuffer(content, said[name]["kind"]).reshape(said[name]["shape"])
    if how == "drop":
        del said[name]
    elif how == "bytes":
        said[name] |= {"zlib": _packed(tables.damaged(case, content))}
    elif how == "claim":
        said[name] |= {"shape": [pick.choice([10**13, 2**62, 10**4])]}
    elif how == "more":
        said[f"more_{name}"] = said[name]
    else:
        array = _changed(case, array, how)
        said[name] = {"kind": array.dtype.str, "shape": list(array.shape)}
        said[name]["zlib"] = _packed(array.tobytes())


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


def _changed(case: Case, array: np.ndarray, how: str) -> np.ndarray:
    pick = case.random
    if how == "type":
        kind = pick.choice(["f4", "i4", "u8", "?", "U3", "c16", ">f8", "S2", "f2"])
        with np.errstate(all="ignore"):
            return np.zeros(array.shape, kind)
    if how == "axes":
        shapes = [(0,), (), (1, *array.shape), (*array.shape, 0), (3,)]
        return np.zeros(pick.choice(shapes), array.dtype)
    array = array.copy()
    if array.size and array.dtype.kind in "fiu":
        odd = [-1, 0, 10**9, 3] + (
            [np.nan, np.inf, 1e308] if array.dtype.kind == "f" else []
        )
        array.flat[pick.randrange(array.size)] = pick.choice(odd)
    elif array.size and array.dtype.kind == "U":
        array.flat[0] = array.flat[-1]
    return array
