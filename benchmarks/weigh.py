"""What the package weighs: ``python -m benchmarks.weigh``.

Lines and files of each room, and how many files have a function that runs in one call:
`evaluate`, `optimise`, and the commands `fit` and `report` on a small log. Templates
count as files that run. Each call is made twice, and counted the second time, once
kernels are read. Kernels that only kernels call are compiled into these.
"""

import ast
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import click
from click.testing import CliRunner

import bayesmdp as bm
from bayesmdp.cli import main as command

PACKAGE = Path(bm.__file__).parent
SUFFIXES = (".py", ".js", ".css", ".j2")
#: Files that may run in one call, at most: a layer in between has to pay for itself.
MOST = {"evaluate": 17, "optimise": 26}
COLUMNS = ("files", "lines", "code", "docstrings", "comments", "blank")


def weights() -> dict[str, Counter[str]]:
    """Lines and files by room; what stands in no room is ``(top)``."""
    found: dict[str, Counter[str]] = {}
    for path in sorted(PACKAGE.rglob("*")):
        inside = path.relative_to(PACKAGE).parts
        if path.suffix in SUFFIXES and "__pycache__" not in inside:
            room = inside[0] if len(inside) > 1 else "(top)"
            found.setdefault(room, Counter()).update(_weight(path))
    return found


def _weight(path: Path) -> dict[str, int]:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    said = _docstrings(text) if path.suffix == ".py" else set()
    others = [line.strip() for i, line in enumerate(lines, 1) if i not in said]
    comments = sum(line.startswith("#") for line in others)
    blank = others.count("")
    return {
        "files": 1,
        "lines": len(lines),
        "code": len(others) - comments - blank,
        "docstrings": len(said),
        "comments": comments,
        "blank": blank,
    }


def _docstrings(text: str) -> set[int]:
    """Numbers of the lines that docstrings stand in."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found |= set(range(value.lineno, (value.end_lineno or 0) + 1))
    return found


def files_run(work: Callable[[], object]) -> set[str]:
    """Names of the files of the package that have a function which runs."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            found.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    inside = (Path(name) for name in found if name.startswith(str(PACKAGE)))
    return {path.relative_to(PACKAGE).as_posix() for path in inside}


def runs() -> dict[str, set[str]]:
    """Files that run in each of four calls, on a world of four states."""
    world = bm.worlds.synthetic(0, 4, 2, discount=0.9)
    log = world.simulate(world.available / 2, 50, max_steps=10, seed=0)
    posterior = bm.fit(log, world.task, prior=bm.SymmetricPrior(0.1))
    policy = bm.policies.nominal(posterior)
    calls: dict[str, Callable[[], object]] = {
        "evaluate": lambda: bm.evaluate(policy, posterior.draws(32)),
        "optimise": lambda: bm.optimise(posterior),
    }
    # what is done once, such as reading kernels, is no part of a call
    bm.fit(log, world.task)
    for call in calls.values():
        call()
    with tempfile.TemporaryDirectory() as folder:
        file, once, again = (str(Path(folder, x)) for x in ("log.csv", "once", "again"))
        columns = log.table.columns  # type: ignore[attr-defined]
        rows = zip(*(x.astype(float).tolist() for x in columns.values()), strict=True)
        text = [",".join(columns), *(",".join(f"{x:g}" for x in row) for row in rows)]
        Path(file).write_text("\n".join(text) + "\n", encoding="utf-8")
        fit = ["fit", file, "--discount", "0.9", "-o"]
        page = ["--draws", "50", "-o", str(Path(folder, "page.html"))]
        _invoke([*fit, once])
        _invoke(["report", once, *page])
        calls["bayesmdp fit"] = lambda: _invoke([*fit, again])
        calls["bayesmdp report"] = lambda: _invoke(["report", again, *page])
        return {name: files_run(call) for name, call in calls.items()}


def _invoke(arguments: list[str]) -> None:
    result = CliRunner().invoke(command, arguments)
    if result.exit_code not in (0, 1):
        raise RuntimeError(result.output)


def _main() -> None:
    every = weights()
    order = sorted(every, key=lambda room: -every[room]["lines"])
    total: Counter[str] = sum(every.values(), Counter())
    click.echo(f"{'room':<14}" + "".join(f"{x:>12}" for x in COLUMNS))
    for room, of in [*((x, every[x]) for x in order), ("together", total)]:
        click.echo(f"{room:<14}" + "".join(f"{of[x]:>12,}" for x in COLUMNS))
    click.echo("\nfiles that run")
    for name, files in runs().items():
        click.echo(f"{name:<16}{len(files):>4}")
        if "--names" in sys.argv:
            click.echo("  " + "\n  ".join(sorted(files)))


if __name__ == "__main__":
    _main()
