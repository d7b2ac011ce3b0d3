"""The command line, in this process: exit code 0, 1 or 2, words, and no traceback."""

import json
import os
import shlex
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner, Result

from bayesmdp.cli import main
from fuzz import Case, DifferenceError, naive, runs, tables, tasks

LOG = (
    "s,a,sp,r,id,t\nward,wait,icu,0,1,0\nicu,treat,home,1,1,1\nward,treat,home,1,2,0\n"
)
TASK = 'discount = 0.9\nterminal = ["home"]\nreward.state.home = 1\n'
#: Odd values of options, by what they are for.
ODD = ["", "-1", "0", "1e9", "nan", "inf", "x", "é", "0.5", "99999999999999999999", "-"]
INTERNAL = ("Traceback", "fault of bayesmdp itself", "internal error")


def check(case: Case) -> bool:
    """Call one command, or two of which the second reads what the first wrote."""
    pick = case.random
    (case.folder / "log.csv").write_text(LOG, encoding="utf-8")
    (case.folder / "task.toml").write_text(TASK, encoding="utf-8")
    kinds: list[Callable[[Case], list[str]]] = [_fit, _validate, _of_run]
    arguments = pick.choice([*kinds, *kinds, _any])(case)
    for _ in range(pick.choice([0, 0, 0, 0, 1])):
        arguments = _spoilt(case, arguments)
    case.note("command", shlex.join(arguments))
    with _inside(case.folder):
        done = CliRunner().invoke(main, arguments)
        _judge(done, arguments)
        if arguments[:1] == ["fit"] and done.exit_code < 2 and Path("run").is_dir():
            _same_run(arguments)
    return done.exit_code < 2


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _judge(done: Result, arguments: list[str]) -> None:
    problem = done.exception
    if problem is not None and not isinstance(problem, SystemExit):
        raise problem
    if done.exit_code not in (0, 1, 2):
        raise DifferenceError(f"exit code {done.exit_code}: {done.output!r:.300}")
    said = done.output + done.stderr
    shown = "--debug" in arguments  # which shows tracebacks
    if any(word in said for word in INTERNAL[shown:]):
        raise DifferenceError(f"an internal error: {said[-400:]!r}")
    asked = arguments[0] == "validate" and {"-q", "--quiet"} & set(arguments)
    if done.exit_code == 2 and not said.strip() and not asked:
        raise DifferenceError("exit code 2 without a word")


def _same_run(arguments: list[str]) -> None:
    """Count the rows of the file naively: the run that was written holds them."""
    info = ["info", "run", "--json"]
    done = CliRunner().invoke(main, info)
    _judge(done, info)
    if done.exit_code > 1:
        raise DifferenceError(
            f"`fit` wrote what `info` cannot read: {done.output!r:.300}"
        )
    said = json.loads(done.stdout)
    labels = "--labels" in arguments
    try:
        cells = naive.csv_cells(Path("log.csv").read_bytes())
        log = naive.read(naive.by_role(cells, {}), labels=labels)
    except (naive.OpenError, naive.RefusedError):
        return  # held against each other by the readers' target
    if said["n_transitions"] != log.counts.total():
        raise DifferenceError(
            f"{said['n_transitions']} transitions of {log.counts.total()}"
        )


def _log(case: Case) -> str:
    """Choose the file of a log: the sound one, or one like those of the readers."""
    if case.happens(0.3):
        columns, _ = tables.table(case)
        content = tables.as_csv(case, columns)
        case.note("log", content)
        (case.folder / "log.csv").write_bytes(content)
    return case.random.choice(["log.csv"] * 9 + ["nothing.csv"])


def _fit(case: Case) -> list[str]:
    pick = case.random
    found = ["fit", _log(case)]
    if case.happens(0.1):
        return [
            *found,
            "--init",
            pick.choice(["new.toml", "task.toml", ".", "no/t.toml"]),
        ]
    found += ["-o", pick.choice(["run"] * 9 + ["log.csv"])]
    if case.happens(0.6):
        if case.happens(0.3):
            path = case.folder / "task.toml"
            settings = tasks._settings(case)
            lines = [tasks._line(key, value) for key, value in settings.items()]
            path.write_text("".join(lines), encoding="utf-8")
            case.note("task", tomllib.loads(path.read_text(encoding="utf-8")))
        found += ["--task", "task.toml"]
    else:
        found += ["--discount", pick.choice(["0.9", "0.5", "1", "0"])]
        if case.happens(0.3):
            found += ["--terminal", pick.choice(["home", "2", "x"])]
    if case.happens(0.5):
        priors = ["symmetric", "sparse", "scaled", "evidence", "hierarchical"]
        found += ["--prior", pick.choice(priors)]
    options = [["--fallback", "home"], ["--min-count", "1"], ["--concentration", "0.5"]]
    options += [["--labels"], ["--json"], ["-q"], ["--columns", "state=s"], ["--debug"]]
    return found + _some(case, options)


def _validate(case: Case) -> list[str]:
    options = [["--task", "task.toml"], ["--min-count", "0"], ["--n-states", "2"]]
    options += [["--labels"], ["--json"], ["-q"], ["--columns", "outcome=sp"]]
    return ["validate", _log(case), *_some(case, options)]


def _of_run(case: Case) -> list[str]:
    """Call a command that reads a run, whole or damaged."""
    pick = case.random
    files = dict(runs.whole("symmetric"))
    if case.happens(0.4):
        change = pick.choice([runs._damage, runs._signed])
        change(case, files, "symmetric")
    (case.folder / "run").mkdir()
    runs._write(files, case.folder / "run")
    (case.folder / "p.csv").write_text("state,action\n" + _rows(case), encoding="utf-8")
    policies = ["behaviour", "mle", "nominal", "uniform", "optimised", "p.csv", "none"]
    policies += ["second_order", "nothing.npy"]
    kinds = ["info", "info", "evaluate", "compare", "report", "optimise"]
    kind = pick.choice(kinds)
    if kind == "info":
        return ["info", "run", *pick.choice([[], ["--json"], ["-q"]])]
    quick = ["--draws", pick.choice(["16", "64"])]
    if kind == "evaluate":
        return [kind, "run", pick.choice(policies), *quick, *_more(case)]
    if kind == "compare":
        return [kind, "run", *pick.sample(policies, 2), *quick, *_more(case)]
    if kind == "optimise":
        quick = ["--steps", "1", "--start", "nominal"]
        more = [[], ["--resume"], ["--overwrite"], ["--policy-out", "best.csv"]]
        return [kind, "run", *quick, *pick.choice(more)]
    out = pick.choice(["page.html", "page.json", "page.txt", "no/page.html"])
    return ["report", "run", "-o", out, *quick]


def _more(case: Case) -> list[str]:
    options = [["--json"], ["-q"], ["--seed", "3"], ["--threads", "1"], ["--restrict"]]
    return _some(case, options)


def _some(case: Case, options: list[list[str]]) -> list[str]:
    """Take none of them, one or two."""
    chosen = case.random.sample(options, case.random.choice([0, 0, 1, 2]))
    return [word for option in chosen for word in option]


def _rows(case: Case) -> str:
    states = [str(i) for i in range(case.random.choice([4, 5, 5, 5, 6]))]
    return "".join(f"{x},{case.random.choice('abcdez')}\n" for x in states)


def _any(case: Case) -> list[str]:
    """Say something to some command; nothing that takes long."""
    pick = case.random
    known = ["validate", "fit", "info", "evaluate", "compare", "--help", "--version"]
    words = [*known, "log.csv", "task.toml", ".", "run", "nominal", "--json", "--quiet"]
    words += ["--", "-h", "--columns", "state=", "=", "--seed", "--draws", *ODD]
    return [
        pick.choice(known),
        *(pick.choice(words) for _ in range(pick.randint(0, 4))),
    ]


def _spoilt(case: Case, arguments: list[str]) -> list[str]:
    """Change, drop, double or add a word."""
    pick = case.random
    at = pick.randrange(1, len(arguments) + 1)
    how = pick.choice(["odd", "odd", "drop", "twice", "more"])
    before, after = arguments[:at], arguments[at:]
    if how == "odd" and after:
        if after[0] in ("16", "64"):  # not millions of draws
            return [*before, pick.choice(["1", "x", "-5", "2"]), *after[1:]]
        return [*before, pick.choice(ODD), *after[1:]]
    if how == "drop" and after and after[0] != "--draws":
        return before + after[1:]
    if how == "twice" and after:
        return [*before, after[0], *after]
    return [
        *before,
        pick.choice(["--nonsense", "--seed=3", "x", "--min-count=-1"]),
        *after,
    ]
