"""What a first use costs, with kernels to compile and with kernels on disk.

Every step is timed in new processes by the processor's clock, on one thread, which on
an idle machine is what a person waits for; the best of a few counts. `bayesmdp demo`
runs as it is, and its wall clock counts. Cold is an empty cache of kernels, warm the
next process. A package other than this one is measured with PYTHONPATH=... before the
command.
"""

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import Row, made_with

ROOT = Path(__file__).parents[1]
STEPS = {  # seconds to stay below, cold and warm
    "import": ("import", None, 0.5),
    "evaluate": ("first evaluate, 25 states", 8.0, None),
    "optimise": ("first optimise, 25 states", 6.0, None),
    "iterate": ("first evaluate by iterations", None, None),
    "whole": ("all of this, in one process", None, None),
}
DEMO = 100.0


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


def new_process(kernels: Path, *command: str) -> tuple[float, str]:
    """Run Python with a directory for kernels; wall seconds, and what is printed."""
    import bayesmdp

    source = str(Path(bayesmdp.__file__).parents[1])  # the same package as here
    path = os.pathsep.join([source, str(ROOT), os.environ.get("PYTHONPATH", "")])
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


def first_steps(folder: Path) -> list[Row]:
    """Cold and warm seconds of each step; both must find the same values."""
    runs = {"cold": ["a", "b"], "warm": ["a", "a", "a"]}  # which directory
    found = {
        state: [
            json.loads(new_process(folder / name, "-m", "benchmarks.start")[1])
            for name in names
        ]
        for state, names in runs.items()
    }
    values = [run["values"] for state in found.values() for run in state]
    same = all(value == values[0] for value in values)
    rows = []
    for name, (what, *below) in STEPS.items():
        for (state, taken), most in zip(found.items(), below, strict=True):
            seconds = min(run["seconds"][name] for run in taken)
            row = f"{what}, {state}", seconds, "s", "<=", most, "same bits", same
            rows.append(Row(*row))
    return rows


def demo(folder: Path) -> list[Row]:
    """Wall seconds of the demonstration, on every core."""
    command = "-m", "bayesmdp", "demo", "--out", str(folder / "demo")
    cold, first = new_process(folder / "demo-kernels", *command)
    warm, second = new_process(folder / "demo-kernels", *command)
    same = first == second and "best of all" in first
    return [
        Row("bayesmdp demo, cold", cold, "s", "<=", DEMO, "same text", same),
        Row("bayesmdp demo, warm", warm, "s", "<=", None, "same text", same),
    ]


def run() -> dict[str, Any]:
    """Measure everything; a record ready for JSON."""
    with TemporaryDirectory() as name:
        rows = first_steps(Path(name))
        if find_spec("icu_sepsis") is not None:
            rows += demo(Path(name))
    return {
        "problem": "first use: kernels compiled (cold), and read from disk (warm)",
        "made_with": made_with(),
        "rows": [row.as_record() for row in rows],
    }


if __name__ == "__main__":
    print(json.dumps(steps()))
