"""Files and dataframes: `read_transitions` and `validate` beside a naive reader."""

import gzip
import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import bayesmdp as bm
from fuzz import Case, DifferenceError, attempt, naive, tables

#: Names of files, of which some are patterns.
FILES = ["log"] * 8 + ["log [1]", "it's", "lög", "a*b", "a b", "50%20", "a?", "{x}"]
ODD_NAMES = [
    "__file",
    "__row",
    "__text_state",
    "count",
    "n",
    "c0",
    "%s",
    "it's",
    "next",
]
ODD_NAMES += ["select", "a.b", "x;y", "état", "__fold", "low", "$1", "filename", "a b"]
Read = bm.Transitions | bm.BayesmdpError


def check(case: Case) -> bool:
    """Read one table from one or from several sources."""
    way = case.random.choices(
        [text_file, typed_frames, damaged_parquet], [70, 22, 8], k=1
    )[0]
    return way(case)


def text_file(case: Case) -> bool:
    """CSV or JSON, whole or damaged, plain or packed, as Python's modules read it."""
    columns, named = tables.table(case)
    if case.happens(0.1):
        columns, named = _renamed(case, columns, named)
    kind = "csv" if case.happens(0.7) else "json"
    paths = [
        _written(case, part, kind, f"{i}{case.random.choice(FILES)}")
        for i, part in enumerate(_parts(case, columns))
    ]
    options: dict[str, Any] = {"columns": named, "labels": case.happens(0.25)}
    if case.happens(0.1):
        options |= {"n_states": case.random.randint(1, 8)}
    case.note("options", options)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", bm.BayesmdpWarning)
        read = attempt(lambda: bm.read_transitions(paths, **options))
    told = any(issubclass(x.category, bm.BayesmdpWarning) for x in warned)
    told = told or (isinstance(read, bm.Transitions) and bool(read.notes))
    compare(case, read, lambda: _naively(paths, kind, options), told)
    if case.happens(0.12):
        _same_verdict(read, attempt(lambda: bm.validate(paths, **options)))
    return not isinstance(read, Exception)


def _renamed(
    case: Case, columns: tables.Table, named: dict[str, str]
) -> tuple[tables.Table, dict[str, str]]:
    """Call columns by names that mean something to engines, or nothing to anybody."""
    odd = case.random.sample(ODD_NAMES, 3)
    roles = {alias: role for role, found in naive.ALIASES.items() for alias in found}
    columns, named = dict(columns), dict(named)
    for old in case.random.sample(list(columns), min(2, len(columns))):
        role = roles.get(old.lower())
        new = odd.pop()
        if role is not None and new not in columns and role not in named:
            columns[new], named[role] = columns.pop(old), new
    return columns, named


def _parts(case: Case, columns: tables.Table) -> list[tables.Table]:
    """Share out rows among files, whose columns stand in any order."""
    n = len(next(iter(columns.values())))
    if n < 2 or case.happens(0.85):
        return [columns]
    at = case.random.randrange(1, n)
    order = case.random.sample(list(columns), len(columns))
    first = {name: cells[:at] for name, cells in columns.items()}
    return [first, {name: columns[name][at:] for name in order}]


def _written(case: Case, columns: tables.Table, kind: str, name: str) -> Path:
    """Write a file, maybe packed, maybe damaged."""
    write = tables.as_csv if kind == "csv" else tables.as_json
    content = write(case, columns)
    if case.happens(0.08):
        content = tables.damaged(case, content)
    path = case.folder / f"{name}.{kind}"
    case.note(path.name, content)
    if case.happens(0.1):
        path = path.with_name(f"{path.name}.gz")
        content = gzip.compress(content, mtime=0)
        if case.happens(0.35):
            content = tables.damaged(case, content)
            case.note("packed", content)
    path.write_bytes(content)
    return path


def _naively(paths: list[Path], kind: str, options: dict[str, Any]) -> naive.Log:
    """Read files one after the other, by Python's own modules."""
    named = options["columns"]
    joint: dict[str, list[str | None]] = {}
    for path in paths:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = _unpacked(content)
        read = naive.csv_cells if kind == "csv" else naive.json_cells
        cells = read(content)
        if joint and cells.keys() != joint.keys():
            raise naive.OpenError("files with different columns")
        joint = {name: [*joint.get(name, []), *x] for name, x in cells.items()}
    missing = [name for name in named.values() if name not in joint]
    if missing:
        raise naive.RefusedError(f"no column {missing[0]!r}")
    found = naive.read(naive.by_role(joint, named), labels=options["labels"])
    size, used = (
        options.get("n_states"),
        {x for s, _, t in found.counts for x in (s, t)},
    )
    if size is not None and (len(used) if found.named_states else 1 + max(used)) > size:
        raise naive.RefusedError("more states than there are")
    return found


def _unpacked(packed: bytes) -> bytes:
    try:
        return gzip.decompress(packed)
    except Exception:
        raise naive.RefusedError("damaged gzip") from None


def compare(
    case: Case, read: Read, naively: Callable[[], naive.Log], told: bool
) -> None:
    """Hold what was read against the naive reader; `told` means a warning was given."""
    try:
        wanted = naively()
    except naive.OpenError:
        return
    except naive.RefusedError as reason:
        if not isinstance(read, Exception) and not told:
            raise DifferenceError(f"was read, and must not: {reason}") from None
        return
    if not isinstance(read, Exception):
        _same_log(case, read, wanted)


def _same_log(case: Case, read: bm.Transitions, wanted: naive.Log) -> None:
    """Compare names and counts; and, now and then, rewards, ends, starts and folds."""
    states, actions = read.state_labels, read.action_labels
    _same("whether states have names", states is not None, wanted.named_states)
    _same("whether actions have names", actions is not None, wanted.named_actions)
    _same("counts", _by_name(read, read.counts()), wanted.counts)
    if states is not None and all(
        str(x).isascii() and str(x).islower() for x in states
    ):
        _same("the order of states", states, tuple(sorted(states)))
    if wanted.rewards is not None and case.happens(0.5):
        _same_rewards(read, wanted.rewards)
    if wanted.ends is not None and case.happens(0.5):
        ends = read.endings()
        flagged = (ends.terminated + ends.stays_terminated).tolist()
        _same("flagged arrivals", _by_state(read, ends.state, flagged), wanted.ends)
    if wanted.starts is not None and case.happens(0.5):
        found = attempt(read.starts)
        if not isinstance(found, Exception):
            begun = _by_state(read, found.state, found.count.tolist())
            _same("starts", begun, wanted.starts)
    if "episode" in read.table.roles and case.happens(0.3):
        folds = attempt(lambda: read.counts_by_fold(2, seed=1))
        if not isinstance(folds, Exception):
            parts = (_by_name(read, x) for x in folds)
            _same("folds", sum(parts, Counter()), wanted.counts)


def _named(labels: Any, i: int) -> Any:
    return i if labels is None else labels[i]


def _by_name(read: bm.Transitions, counts: bm.Counts) -> Counter[Any]:
    """Count by what states and actions are called."""
    s, a = read.state_labels, read.action_labels
    return Counter(
        {
            (_named(s, i), _named(a, j), _named(s, k)): n
            for (i, j, k), n in counted(counts).items()
        }
    )


def _by_state(read: bm.Transitions, state: Any, count: list[int]) -> Counter[Any]:
    names = [_named(read.state_labels, i) for i in state.tolist()]
    return +Counter(dict(zip(names, count, strict=True)))


def counted(counts: bm.Counts) -> Counter[tuple[int, int, int]]:
    """Turn counts into plain Python."""
    columns = (counts.state, counts.action, counts.next_state, counts.count)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return Counter({(s, a, t): n for s, a, t, n in rows})


def _same_rewards(read: bm.Transitions, wanted: Mapping[Any, float]) -> None:
    said = attempt(read.reward_statistics)
    if isinstance(said, Exception):
        return
    columns = (said.state, said.action, said.next_state)
    ids = zip(*(column.tolist() for column in columns), strict=True)
    s, a = read.state_labels, read.action_labels
    keys = [(_named(s, i), _named(a, j), _named(s, k)) for i, j, k in ids]
    for key, mean, sd in zip(keys, said.mean, said.sd, strict=True):
        if not (math.isfinite(mean) and math.isfinite(sd)):
            raise DifferenceError(f"rewards of {key}: mean {mean}, sd {sd}")
        scale = max(abs(x) for x in (*wanted.values(), 1e-300))
        if not math.isclose(mean, wanted[key], rel_tol=1e-9, abs_tol=1e-9 * scale):
            raise DifferenceError(f"reward of {key}: {mean}, and naively {wanted[key]}")


def _same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise DifferenceError(f"{what}: {found!r:.300}, and naively {wanted!r:.300}")


def _same_verdict(read: Read, found: bm.data.Findings | bm.BayesmdpError) -> None:
    """Errors of `validate` are what reading refuses."""
    refused = isinstance(found, Exception) or bool(found.errors)
    if isinstance(read, Exception) and not refused:
        raise DifferenceError(f"validate finds no error, and reading says: {read}")
    if refused and not isinstance(read, Exception):
        said = found if isinstance(found, Exception) else found.summary()
        raise DifferenceError(f"was read, and validate says: {said!s:.400}")


def typed_frames(case: Case) -> bool:
    """Typed columns in every engine, and as Parquet: one answer."""
    columns = _typed(case)
    case.note("columns", columns)
    labels = case.happens(0.3)
    case.note("labels", labels)
    try:
        arrow = pa.table(columns)
    except (pa.ArrowException, ValueError, OverflowError):
        return False  # not a table at all
    path = case.folder / "log.parquet"
    pq.write_table(arrow, path)
    sources: dict[str, Any] = {
        "pyarrow": arrow,
        "parquet": path,
        "duckdb": duckdb.from_arrow(arrow),
        "polars": pl.from_arrow(arrow),
        "lazy polars": pl.from_arrow(arrow).lazy(),
        "pandas": arrow.to_pandas(),
        "pandas of arrow": arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "nullable pandas": pd.DataFrame(columns).convert_dtypes(),
    }
    found = {}
    for name in case.random.sample(list(sources), 3):
        found[name] = attempt(lambda s=sources[name]: _told(s, labels))
    answers = {x: y for x, y in found.items() if not isinstance(y, Exception)}
    for name, answer in answers.items():
        first = next(iter(answers))
        if answer != answers[first]:
            raise DifferenceError(f"{first}: {answers[first]}\n{name}: {answer}")
    return bool(answers)


def _told(source: Any, labels: bool) -> tuple[Any, ...]:
    """Everything that a log says, in plain Python."""
    read = bm.read_transitions(source, labels=labels)
    rewards = None
    if "reward" in read.table.roles:
        said = read.reward_statistics()
        rewards = [f"{x + 0.0:.9e}" for x in said.mean.tolist()]
    ends = read.endings()
    flagged = None if ends.terminated is None else ends.terminated.tolist()
    folds = None
    if "episode" in read.table.roles:
        dealt = attempt(lambda: read.counts_by_fold(2, seed=3))
        folds = None if isinstance(dealt, Exception) else [counted(x) for x in dealt]
    labelled = (read.state_labels, read.action_labels)
    return read.n_rows, *labelled, counted(read.counts()), rewards, flagged, folds


def _typed(case: Case) -> dict[str, Any]:
    """Make columns of one type each."""
    pick = case.random
    n = pick.choice([1, 3, 8, 20])
    kinds = ["int"] * 5 + ["float", "text", "text", "text", "decimal", "bool", "odd"]
    kind = pick.choice(kinds)
    other = pick.choice(kinds)
    found: dict[str, Any] = {
        "s": _column(case, kind, n),
        "a": _column(case, other, n),
        "sp": _column(case, kind if case.happens(0.95) else other, n),
    }
    if case.happens(0.5):
        found["r"] = _column(case, pick.choice(["float", "reward", "int", "bool"]), n)
    if case.happens(0.4):
        found["id"] = _column(case, pick.choice(["int", "text", "float"]), n)
    if case.happens(0.4):
        found["done"] = _column(case, pick.choice(["bool", "bool", "flag", "text"]), n)
    if case.happens(0.1):
        name = pick.choice(list(found))
        found[name] = [None if case.happens(0.3) else x for x in found[name]]
    return found


def _column(case: Case, kind: str, n: int) -> list[Any]:
    pick = case.random
    among: list[Any] = {
        "int": [0, 1, 2, *pick.choice([[3]] * 4 + [[-1], [10**7 + 1], [2**60]])],
        "float": [0.0, 1.0, *pick.choice([[2.0]] * 3 + [[0.5], [math.nan], [-0.0]])],
        "reward": [0.1, 0.2, 0.3, -1.5, 1e10],
        "text": pick.sample(tables.CLEAN, 3)
        + pick.sample(tables.NAMES, pick.choice([0, 1, 3]))
        + pick.choice([[]] * 6 + [["7"], ["01"]]),
        "decimal": [Decimal("0"), Decimal("1"), Decimal("2.0")],
        "bool": [True, False],
        "flag": [0, 1],
        "odd": pick.choice([[[1], [2]], [b"x", b"y"], [{"a": 1}]]),
    }[kind]
    return [pick.choice(among) for _ in range(n)]


def damaged_parquet(case: Case) -> bool:
    """Damaged Parquet, which has no checksums: refused or read, in words."""
    columns = {"s": [0, 1, 2, 1] * 5, "a": [0, 1] * 10, "sp": [1, 2, 0, 0] * 5}
    path = case.folder / "log.parquet"
    compression = case.random.choice(["none", "snappy", "zstd"])
    pq.write_table(pa.table(columns), path, compression=compression)
    content = tables.damaged(case, path.read_bytes())
    case.note("bytes", content)
    path.write_bytes(content)
    found = attempt(lambda: bm.read_transitions(path).counts())
    return not isinstance(found, Exception)
