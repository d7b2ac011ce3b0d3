"""What a first use costs, with kernels to compile and with kernels on disk.

Every step is timed in new processes by the processor's clock, on one thread, which on
an idle machine is what a person waits for; warm, the best of two. `bayesmdp demo`
runs as it is, on every core, by both clocks: on a busy machine the wall's says little,
and the load before stands in the record. Cold is an empty cache of kernels, warm the
next process. ``BEFORE=COMMIT python -m benchmarks start`` measures an earlier commit of
this repository in the same run.
"""

import json
import os
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import Row, made_with
from benchmarks.tables import table

ROOT = Path(__file__).parents[1]
STEPS = {  # seconds to stay below, cold and warm
    "import": ("import", None, 0.5),
    "evaluate": ("first evaluate, 25 states", 8.0, None),
    "optimise": ("first optimise, 25 states", 6.0, None),
    "iterate": ("first evaluate by iterations", None, None),
    "whole": ("all of this, in one process", None, None),
}
DEMOS = {
    "demo": ("`bayesmdp demo`, wall clock", 100.0, None),
    "demo, processor": ("`bayesmdp demo`, all threads", None, None),
}


def steps() -> dict[str, Any]:
    """Take the steps in this process; seconds of each, and the values found."""
    seconds, values = {}, []
    last = time.process_time()

    def done(name: str, *found: float) -> None:
        nonlocal last
        now = time.process_time()
        seconds[name] = now - last
        values.extend(value.hex() for value in found)
        last = time.process_time()

    import bayesmdp as bm

    done("import")
    world = bm.worlds.gridworld()
    uniform = [[0.25] * 4] * 25
    prior = bm.SymmetricPrior(support=world.support)
    posterior = bm.fit(world.sample(1000, seed=0), world.task, prior=prior)
    draws = posterior.draws(100, seed=0)
    done("prepare")
    done("evaluate", bm.evaluate(uniform, draws, threads=1).start_value)
    found = bm.optimise(posterior, seed=0, threads=1)
    done("optimise", found.evaluation.start_value)
    found = bm.evaluate(uniform, draws, threads=1, solver="iterative")
    done("iterate", found.start_value)
    seconds["whole"] = sum(seconds.values())
    return {"seconds": seconds, "values": values}


@dataclass(frozen=True)
class Taken:
    """Seconds of a step, and whether all its runs found the same."""

    seconds: float
    same: bool


Times = dict[tuple[str, str], Taken]  # by name of a step, and "cold" or "warm"


def new_process(source: Path, kernels: Path, *command: str) -> tuple[float, str]:
    """Run Python with a package and a directory for kernels; wall seconds, output."""
    path = os.pathsep.join([str(source), str(ROOT), os.environ.get("PYTHONPATH", "")])
    began = time.perf_counter()
    ran = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "NUMBA_CACHE_DIR": str(kernels),
            "PYTHONPATH": path.rstrip(os.pathsep),
        },
    )
    if ran.returncode not in (0, 1):  # 1: done, with warnings
        raise RuntimeError(ran.stderr)
    return time.perf_counter() - began, ran.stdout


def first_steps(source: Path, folder: Path) -> Times:
    """Processor's seconds of each step; cold and warm must find the same values."""
    runs = {"cold": ["a"], "warm": ["a", "a"]}  # which directory
    command = "-m", "benchmarks.start"
    found = {
        state: [
            json.loads(new_process(source, folder / name, *command)[1])
            for name in names
        ]
        for state, names in runs.items()
    }
    values = [run["values"] for state in found.values() for run in state]
    same = all(value == values[0] for value in values)
    return {
        (name, state): Taken(min(run["seconds"][name] for run in taken), same)
        for name in STEPS
        for state, taken in found.items()
    }


def demo(source: Path, folder: Path) -> Times:
    """Wall and processor's seconds of the demonstration, on every core."""
    command = "-m", "bayesmdp", "demo", "--out", str(folder / "demo")
    found, texts = {}, []
    for state in ("cold", "warm"):
        before = _of_children()
        wall, text = new_process(source, folder / "demo-kernels", *command)
        found["demo", state] = wall
        found["demo, processor", state] = _of_children() - before
        texts.append(text)
    same = texts[0] == texts[1] and "best of all" in texts[0]
    return {key: Taken(seconds, same) for key, seconds in sorted(found.items())}


def _of_children() -> float:
    """Processor's seconds of all processes that were waited for."""
    used = os.times()
    return used.children_user + used.children_system


def measured(source: Path, folder: Path) -> Times:
    """Measure one package, with kernels in a folder that is still empty."""
    found = first_steps(source, folder)
    if find_spec("icu_sepsis") is not None:
        found |= demo(source, folder)
    return found


def run() -> dict[str, Any]:
    """Measure everything; a record ready for JSON."""
    import bayesmdp

    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    commit = os.environ.get("BEFORE", "")
    with TemporaryDirectory() as name:
        folder, before = Path(name), Times()
        if commit:
            before = measured(_checkout(commit, folder / "before"), folder / "old")
        now = measured(Path(bayesmdp.__file__).parents[1], folder / "new")
    rows = []
    for (step, state), taken in now.items():
        what, *below = (STEPS | DEMOS)[step]
        most = below[state == "warm"]
        check = "same text" if step in DEMOS else "same bits"
        old = before.get((step, state))
        rows.append(
            Row(
                f"{what}, {state}",
                taken.seconds,
                "s",
                "<=",
                most,
                check,
                taken.same,
                f"{commit}: {old.seconds:.3g} s" if old else "",
            )
        )
    return {
        "problem": "first use: kernels compiled (cold), and read from disk (warm)",
        "made_with": made_with() | {"load before": load},
        "before": commit,
        "rows": [row.as_record() for row in rows],
    }


def _checkout(commit: str, folder: Path) -> Path:
    """Lay out the package of a commit; where its sources are."""
    command = ["git", "-C", str(ROOT), "archive", commit, "src"]
    packed = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def start_table(record: dict[str, Any]) -> str:
    """Write a record as the table of `docs/performance.md`, cold beside warm."""
    seconds: dict[str, list[str]] = {}
    for row in record["rows"]:
        old = row["rival"].partition(": ")[2].removesuffix(" s")
        what = row["what"].rsplit(", ", 1)[0]
        seconds.setdefault(what, []).extend([old, f"{row['measured']:.3g}"])
    head = ["seconds", "cold, before", "cold, now", "warm, before", "warm, now"]
    return "\n".join(table(head, [[what, *each] for what, each in seconds.items()]))


if __name__ == "__main__":
    print(json.dumps(steps()))
