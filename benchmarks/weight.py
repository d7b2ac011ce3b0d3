"""What the package weighs: Python lines and files of rooms, and files that a call runs.

A file is counted for a call if Python runs a function of it, or hands over to a kernel
of it, once everything was called before: a profiler tells. Kernels that only kernels
call are compiled into these. `docs/design.md` has the table.
"""

import ast
import csv
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from click.testing import CliRunner

import bayesmdp as bm
from bayesmdp.cli import main
from benchmarks import Row, made_with

PACKAGE = Path(bm.__file__).parent
#: Files that a call may run, at most.
MOST = {"evaluate": 18, "optimise": 27}


def touched(work: Callable[[], object]) -> set[str]:
    """Files of the package of which a function runs, on any thread."""
    found: set[str] = set()

    def profile(frame: Any, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            found.add(path.relative_to(PACKAGE).as_posix())

    before = sys.getprofile()
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return found


def calls() -> dict[str, Callable[[], object]]:
    """Return one `evaluate` and one `optimise`, on the grid with Dirichlet rows."""
    world = bm.worlds.gridworld()
    prior = bm.SymmetricPrior(0.1)
    posterior = bm.fit(world.sample(1000, seed=1), world.task, prior=prior)
    policy = np.full(posterior.available.shape, 1 / world.task.n_actions)

    def evaluate() -> object:
        return bm.evaluate(policy, posterior.draws(200, seed=1), progress=False)

    def optimise() -> object:
        return bm.optimise(posterior, seed=1, progress=False)

    return {"evaluate": evaluate, "optimise": optimise}


def touched_by_calls() -> dict[str, set[str]]:
    """Files of each call, the second time that it is made."""
    found = {}
    for name, call in calls().items():
        call()
        found[name] = touched(call)
    return found


def touched_by_commands() -> dict[str, set[str]]:
    """Files of ``bayesmdp fit`` and ``bayesmdp report``, the second time."""
    rng, found = np.random.default_rng(0), {}
    columns = ("state", "action", "next_state", "reward")
    with TemporaryDirectory() as where:
        log, page = (str(Path(where) / x) for x in ("log.csv", "page.html"))
        with Path(log).open("w", encoding="utf-8", newline="") as file:
            written = csv.writer(file)
            written.writerow(columns)
            written.writerows(rng.integers(3, size=(500, len(columns))).tolist())
        for run in (str(Path(where) / x) for x in ("once", "again")):
            for words in (
                ["fit", log, "--discount", "0.9", "-o", run],
                ["report", run, "-o", page],
            ):
                call = partial(CliRunner().invoke, main, words)
                found[f"bayesmdp {words[0]}"] = touched(call)
    return found


def lines() -> dict[str, Counter[str]]:
    """Python files, their lines, and lines of docstrings and of code, by room."""
    found: dict[str, Counter[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        room = found.setdefault(parts[0] if len(parts) > 1 else "shared", Counter())
        text = path.read_text(encoding="utf-8")
        said, written = _docstrings(text), [x.strip() for x in text.splitlines()]
        room["files"] += 1
        room["lines"] += len(written)
        room["docstrings"] += len(said)
        room["code"] += sum(
            bool(x) and x[0] != "#" and i not in said for i, x in enumerate(written, 1)
        )
    return found


def _docstrings(text: str) -> set[int]:
    """Numbers of the lines of docstrings."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    found: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, kinds) and ast.get_docstring(node) is not None:
            said = node.body[0]
            found |= set(range(said.lineno, (said.end_lineno or said.lineno) + 1))
    return found


def run() -> dict[str, Any]:
    """Count everything."""
    rows = []
    for name, files in (touched_by_calls() | touched_by_commands()).items():
        where = Counter(Path(x).parts[0] if "/" in x else "shared" for x in files)
        said = ", ".join(f"{room} {n}" for room, n in where.most_common())
        what, most = f"files that one `{name}` runs", MOST.get(name)
        rows.append(Row(what, len(files), "", "<=", most, said, bool(files)))
    counted = lines()
    total: Counter[str] = sum(counted.values(), Counter())
    for room, n in [("the package", total), *counted.items()]:
        said = f"{n['lines']:,} in {n['files']} files; code {n['code']:,}, docstrings "
        said += f"{n['docstrings']:,}"
        share = 100 * n["lines"] / total["lines"]
        rows.append(Row(f"lines of {room}", share, "%", "<=", None, said, True))
    return {
        "problem": "what the package weighs",
        "made_with": made_with(),
        "before": False,
        "rows": [row.as_record() for row in rows],
    }
