"""The table of speed at clinical size and beyond: ``python -m benchmarks``.

Every part runs its workloads in processes of their own, one after the other, on one
thread unless its name says otherwise. Times are the best of a few repeats, rivals run
in the same process on the same draws, and every row says what its value was checked
against. Where a rival is not installed, the reason stands among what was skipped.
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import Row, made_with, milliseconds
from benchmarks.threads import compare
from benchmarks.worker import ROOT, WorkerError, work

RESULTS = ROOT / "benchmarks" / "results" / "scale.json"
SCRATCH = ROOT / ".benchmarks" / "scale.json"  # of runs that are not the whole table
ACCURATE, WITHIN = 1e-8, 1e-6  # of values against another solver, another planner
AIMED = 1e-3  # accuracy that QuantEcon aims at by default
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
DENSE_SIZES = (125, 250, 500, 1_000, 2_000)
_SEPSIS = "needs ICU-Sepsis: `pip install --no-deps icu-sepsis==2.0.1`"

Say = Callable[[str], None]


def to_stderr(sentence: str) -> None:
    """Tell how it goes."""
    print(sentence, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Effort:
    """How much to do."""

    quick: bool
    threads: int

    @property
    def repeats(self) -> int:
        """How often a time is taken."""
        return 2 if self.quick else 5


@dataclass
class Found:
    """What one part came to."""

    rows: list[Row] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)


def _ms(seconds: float) -> str:
    return f"{milliseconds(seconds)} ms"


def clinical(effort: Effort) -> Found:
    """One draw of the sparse clinical belief, and its solves alone."""
    n_draws = 32 if effort.quick else 128
    found = work("clinical", n_draws=n_draws, repeats=effort.repeats)
    rows = []
    for name, what, target in (
        ("gradient", "value + gradient a draw, stochastic policy over all pairs", 4.0),
        ("variance", "value + variance a draw, deterministic policy", 1.5),
    ):
        of = found[name]
        rows.append(
            Row(
                f"clinical: {what}",
                1e3 * of["seconds"],
                "ms",
                "<=",
                target,
                f"means of 4 draws within {of['gap']:.0e} of LAPACK's",
                of["gap"] < ACCURATE,
                f"the same by dense elimination {_ms(of['dense_seconds'])}, "
                f"{of['dense_seconds'] / of['seconds']:.3g} x",
            )
        )
    of = found["solves"]
    check = f"value and occupancy within {of['gap']:.0e}"
    for name, what in (("lapack", "dense LU (LAPACK)"), ("dense", "our dense LU")):
        ratio = of[f"{name}_seconds"] / of["ours_seconds"]
        times = f"{_ms(of[f'{name}_seconds'])} / {_ms(of['ours_seconds'])}"
        right = of["gap"] < ACCURATE
        what = f"clinical: {what} / our two solves, same draws"
        rows.append(Row(what, ratio, "x", ">=", 5.0, check, right, times))
    return Found(rows, found)


def full_support(effort: Effort) -> Found:
    """Every next state possible after every pair."""
    n_draws = 8 if effort.quick else 16
    found = work("full_support", n_draws=n_draws, repeats=effort.repeats)
    check = f"means of 4 draws within {found['gap']:.0e} of LAPACK's"
    right = found["gap"] < ACCURATE
    what = "716 states, full support, value + variance"
    ratio = found["dense_seconds"] / found["seconds"]
    rival = f"dense elimination {_ms(found['dense_seconds'])}, {ratio:.3g} x"
    said = f"{found['belief_entries']:,} entries"
    peak = found["peak_bytes"] / 1e6
    took = 1e3 * found["seconds"]
    rows = [
        Row(f"{what} a draw", took, "ms", "<=", 30.0, check, right, rival),
        Row(f"{what}: peak memory", peak, "MB", "<=", 500.0, said, right),
    ]
    return Found(rows, found)


def hierarchical(effort: Effort) -> Found:
    """Fit, and one draw, of the default belief."""
    n_draws = 32 if effort.quick else 128
    found = work("hierarchical", n_draws=n_draws, repeats=effort.repeats)
    check = f"means of 4 draws within {found['gap']:.0e} of LAPACK's"
    right = found["gap"] < ACCURATE
    what, grid = "clinical, default prior", found["grid"]
    dense = f"the same by dense elimination {_ms(found['dense_seconds'])}"
    took = 1e3 * found["seconds"]
    ratio, times = _against(grid["ours"], grid["symmetric"])
    said = "gridworld: evaluate by the default prior / by the symmetric one"
    fit = f"{what}: fit, on every core"
    draw = f"{what}: value + variance a draw"
    rows = [
        Row(draw, took, "ms", "<=", 3.0, check, right, dense),
        Row(fit, found["fit_seconds"], "s", "<=", 20.0, check, right),
        Row(said, ratio, "x", "<=", 2.0, check, right, times),
    ]
    return Found(rows, found)


def optimise(effort: Effort) -> Found:
    """Search for the best policy under the sparse clinical belief."""
    found = work("optimise", threads=effort.threads, quick=effort.quick)
    gain, error = found["minus_nominal"], found["minus_nominal_mcse"]
    errors = gain / error if error > 0 else math.copysign(math.inf, gain)
    same = gain == 0.0 and error == 0.0  # the search returned the nominal policy
    errors = 0.0 if same else errors
    right = errors >= -2
    said = f"minus nominal {gain:+.2g} ({error:.1g}) on 512 fresh draws"
    said = "returned the nominal policy itself" if same else said
    said += f"; starts {', '.join(found['starts'])}"
    what = f"optimise, clinical, {effort.threads} threads"
    what += ", two steps only" if effort.quick else ""
    peak = found["peak_bytes"] / 1e9
    target = None if effort.quick else 40.0
    rows = [
        Row(what, found["seconds"], "s", "<=", target, said, right),
        Row(f"{what}: peak memory", peak, "GB", "<=", 1.0, said, right),
        Row(
            "optimise minus nominal, fresh draws",
            errors,
            "errors",
            ">=",
            -2,
            said,
            right,
        ),
    ]
    return Found(rows, found)


def large(effort: Effort) -> Found:
    """Sparse models of growing size, and how the cost of a draw grows."""
    found, out = [], Found()
    for n in [n for n in SIZES if not effort.quick or n <= 100_000]:
        # A block at least: what a sweep costs once is then shared at every size.
        n_draws = min(max(1_600_000 // n, 16), 256 if effort.quick else 1_024)
        one = work(
            "large",
            n_states=n,
            n_draws=n_draws,
            repeats=effort.repeats,
            direct=n == (3_000 if effort.quick else 10_000),
        )
        if "skipped" in one:
            out.skipped.append(one["skipped"])
        else:
            found.append(one)
    lu = work("dense", sizes=list(DENSE_SIZES), repeats=effort.repeats)["points"]
    limits = {100_000: (0.3, 1.0), 1_000_000: (5.0, 8.0)}
    for one in found:
        if one["states"] in limits:
            out.rows += _size_rows(one, *limits[one["states"]])
    out.rows += _growth_rows(found)
    out.record = {"sizes": found, "dense": lu, "local": _local_exponents(found)}
    return out


def _size_rows(one: dict[str, Any], seconds: float, gigabytes: float) -> list[Row]:
    what = f"{one['states']:,} states, 10 actions, 5 next states"
    check = f"off by {one['bound']:.0e} at most, from the residual"
    right = one["bound"] < ACCURATE
    peak = one["peak_bytes"] / 1e9
    rival = ", ".join(
        f"{name} {_ms(of['seconds'])}" for name, of in one["rivals"].items()
    )
    return [
        Row(
            f"{what}: value of a draw",
            one["seconds"],
            "s",
            "<=",
            seconds,
            check,
            right,
            f"solve alone: {rival}",
        ),
        Row(f"{what}: peak memory", peak, "GB", "<=", gigabytes, check, right),
    ]


def _local_exponents(found: list[dict[str, Any]]) -> list[float]:
    """Exponents of the cost between neighbouring sizes."""
    return [
        math.log(b["seconds"] / a["seconds"]) / math.log(b["states"] / a["states"])
        for a, b in pairwise(found)
    ]


def _growth_rows(found: list[dict[str, Any]]) -> list[Row]:
    """Exponents of the cost over the whole range, in seconds and in operations."""
    worst = max(one["bound"] for one in found)
    local = ", ".join(f"{e:.2f}" for e in _local_exponents(found))
    seconds = [one["seconds"] for one in found]
    operations = [5 * one["states"] * one["products"] for one in found]
    what = f"cost against size, {found[0]['states']:,} to {found[-1]['states']:,}"
    check, right = f"all sizes off by {worst:.0e} at most", worst < ACCURATE
    return [
        Row(
            what,
            _exponent(found, seconds),
            "exponent",
            "<=",
            1.1,
            f"{check}; between neighbours {local}",
            right,
            "dense LU: 3",
        ),
        Row(
            f"{what}: the same in multiply-adds of the products",
            _exponent(found, operations),
            "",
            "<=",
            None,
            check,
            right,
        ),
    ]


def _exponent(found: list[dict[str, Any]], cost: list[float]) -> float:
    """Fit by least squares on logarithms."""
    x = [math.log(one["states"]) for one in found]
    y = [math.log(one) for one in cost]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    return slope / sum((a - mx) ** 2 for a in x)


def planner(effort: Effort) -> Found:
    """Plan for the ICU-Sepsis model itself."""
    found = work("planner", repeats=effort.repeats)
    right = found["converged"] and found["residual"] < 1e-9
    check = f"{found['status']}; Bellman residual {found['residual']:.0e}"
    what = "planner on the ICU-Sepsis model"
    rows = [Row(what, 1e3 * found["seconds"], "ms", "<=", 40.0, check, right)]
    out = Found(rows, found)
    whole = found["seconds"] + found["building_seconds"]
    if "skipped" in found:
        out.skipped.append(found["skipped"])
        return out
    for name in ("default", "1e-8"):
        of = found["rival"][name]
        ratio = of["seconds"] / found["seconds"]
        near = of["gap"] < (WITHIN if name != "default" else AIMED)
        check = f"values within {of['gap']:.0e}"
        times = f"{_ms(of['seconds'])} / {_ms(found['seconds'])}"
        said = f"QuantEcon's mpi (epsilon {name}) / our planner"
        rows.append(
            Row(said, ratio, "x", ">=", 1.0, check, bool(right and near), times)
        )
    rival = found["rival"]["1e-8"]["seconds"] + found["rival"]["building_seconds"]
    said = f"QuantEcon, its matrix ready, {_ms(rival)}"
    what = f"{what}, building its problem too"
    rows.append(Row(what, 1e3 * whole, "ms", "<=", None, "the same plan", right, said))
    return out


def gamma(effort: Effort) -> Found:
    """Gamma variates of the clinical rows."""
    found = work("gamma", n_draws=64, repeats=effort.repeats)
    square = found["ours"]["square_of_z"]
    row = Row(
        f"NumPy / our Dirichlet rows, {found['gammas']:,} clinical shapes",
        found["ratio"],
        "x",
        ">=",
        2.0,
        f"means of 64 draws: mean square of z {square:.3f}",
        bool(abs(square - 1) < 0.05),
        f"{_ms(found['numpy']['seconds'])} / {_ms(found['ours']['seconds'])}",
    )
    return Found([row], found)


def threads(effort: Effort) -> Found:
    """Several threads against as many processes."""
    n = effort.threads
    if n < 2:
        return Found(skipped=["threads: one thread cannot be compared with several"])
    found = compare(n, 1 if effort.quick else 3, 1.0 if effort.quick else 3.0)
    check = "the same bits as one thread" if found["same_bits"] else "other bits"
    row = Row(
        f"{n} threads / {n} processes, clinical sweep",
        found["efficiency"],
        "",
        ">=",
        0.85,
        check,
        found["same_bits"],
        f"{n} processes {found['processes']:.0f}, {n} threads {found['threads']:.0f}, "
        f"1 thread {found['one_thread']:.0f} draws a second",
    )
    return Found([row], found)


def read(effort: Effort) -> Found:
    """Count a log larger than what Python should hold, and arrays."""
    n_rows, n_arrays = (10**6, 10**6) if effort.quick else (5 * 10**7, 10**7)
    files = _files_in_turns(n_rows, 1 if effort.quick else 3, effort.threads)
    one, other = (
        min(files[x], key=lambda run: float(run["seconds"])) for x in ("ours", "duckdb")
    )
    digests = {run["digest"] for x in ("ours", "duckdb") for run in files[x]}
    right = len(digests) == 1 and one["n_rows"] == n_rows
    said = f"{one['distinct']:,} distinct transitions counted alike"
    what = f"{n_rows:,} rows of Parquet to counts, {effort.threads} threads"
    peak, theirs = (
        max(run["peak_bytes"] for run in files[x]) / 1e9 for x in ("ours", "duckdb")
    )
    ratio, times = _against(one["seconds"], other["seconds"])
    target = None if effort.quick else 2.0
    held = f"DuckDB {theirs:.2g} GB"
    rows = [
        Row(f"{what}: ours / DuckDB", ratio, "x", "<=", target, said, right, times),
        Row(f"{what}: peak memory", peak, "GB", "<=", 2.0, said, right, held),
    ]
    found = work("read_arrays", n_rows=n_arrays, repeats=effort.repeats)
    what = f"{n_arrays:,} rows of arrays to counts: ours / np.unique of packed keys"
    said = f"{found['distinct']:,} distinct transitions counted alike"
    ratio, times = _against(found["seconds"], found["unique_seconds"])
    rows.append(Row(what, ratio, "x", "<=", target, said, found["same"], times))
    return Found(rows, {**files, "arrays": found})


def _files_in_turns(n_rows: int, turns: int, threads: int) -> dict[str, Any]:
    """Run ours and the rival's two ways one after the other, again and again."""
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    with TemporaryDirectory(prefix="bayesmdp-bench-") as folder:
        made = work("read_make", folder=folder, n_rows=n_rows)
        at = {"folder": folder, "threads": threads}
        for _ in range(turns + 1):
            ours.append(work("read_ours", **at))
            theirs += [work("read_rival", by_name=x, **at) for x in (False, True)]
    # The first of each only warmed the cache of files.
    return {"made": made, "ours": ours[1:], "duckdb": theirs[2:]}


def _against(ours: float, theirs: float) -> tuple[float, str]:
    return ours / theirs, f"{_ms(ours)} / {_ms(theirs)}"


PARTS: dict[str, Callable[[Effort], Found]] = {
    "clinical": clinical,
    "hierarchical": hierarchical,
    "full-support": full_support,
    "optimise": optimise,
    "large": large,
    "planner": planner,
    "gamma": gamma,
    "threads": threads,
    "read": read,
}
_CLINICAL = set(PARTS) - {"large", "read"}


def run(
    parts: Iterable[str] = (),
    *,
    quick: bool = False,
    threads: int | None = None,
    say: Say = to_stderr,
) -> dict[str, Any]:
    """Measure the parts named, or all; a record ready for JSON.

    A part that fails is told among the failures, and the others go on.
    """
    from bayesmdp._checks import thread_count

    names = list(dict.fromkeys(parts)) or list(PARTS)
    effort = Effort(quick, thread_count(threads))
    record: dict[str, Any] = {
        "schema_version": 1,
        "problem": "clinical size and beyond, one thread unless it says otherwise",
        "made_with": made_with() | _rival_versions(),
        "load": list(os.getloadavg()) if hasattr(os, "getloadavg") else [],
        "quick": quick,
        "whole": not quick and set(names) == set(PARTS),
        "rows": [],
        "parts": {},
        "skipped": [],
        "failed": [],
    }
    for name in names:
        if name in _CLINICAL and find_spec("icu_sepsis") is None:
            record["skipped"].append(f"{name}: {_SEPSIS}")
            say(f"{name}: skipped: {_SEPSIS}")
            continue
        began = time.perf_counter()
        try:
            found = PARTS[name](effort)
        except WorkerError as problem:
            record["failed"].append(f"{name}: {problem}")
            say(f"{name} failed: {problem}")
            continue
        record["rows"] += [{"part": name, **row.as_record()} for row in found.rows]
        record["parts"][name] = found.record
        record["skipped"] += [f"{name}: {reason}" for reason in found.skipped]
        say(f"{name}: {time.perf_counter() - began:.1f} s")
        for reason in found.skipped:
            say(f"{name}: skipped: {reason}")
    return record


def _rival_versions() -> dict[str, str]:
    """Versions of what only benchmarks need, where it is installed."""
    names = ("duckdb", "quantecon", "matplotlib")
    optional = [name for name in names if find_spec(name)]
    return {name: version(name) for name in optional}


def right(record: dict[str, Any]) -> bool:
    """Whether every value is right and no part failed, whatever the times."""
    return not record["failed"] and all(row["correct"] for row in record["rows"])


def store(record: dict[str, Any], out: Path | None, say: Say = to_stderr) -> Path:
    """Keep the record; that of the whole table also becomes a page and a figure."""
    from benchmarks.figures import scaling_figure
    from benchmarks.performance import performance_tables

    path = out or (RESULTS if record["whole"] else SCRATCH)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    if record["whole"] and not record["failed"] and path == RESULTS:
        page = performance_tables(record)
        (ROOT / "docs" / "performance_tables.md").write_text(page, encoding="utf-8")
        reason = scaling_figure(record, ROOT / "docs" / "figures" / "scaling.svg")
        if reason:
            say(f"figure: skipped: {reason}")
    return path
