"""The command line, run as a user would."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

import bayesmdp as bm
from bayesmdp._checks import argument, column, spelled_as_options
from bayesmdp.cli import main
from bayesmdp.cli.commands import info
from bayesmdp.errors import BayesmdpError, BayesmdpWarning


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bayesmdp", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def names() -> list[str]:
    import click

    return main.list_commands(click.Context(main))


def test_info_says_versions_and_threads() -> None:
    record = json.loads(run("info", "--json").stdout)
    assert record["schema_version"] == 1
    assert record["threads"] >= 1
    assert record["numba"]
    assert "numba" in CliRunner().invoke(main, ["info"]).stdout


@pytest.mark.parametrize("name", names())
def test_every_command_has_help_with_an_example(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert f"Example: bayesmdp {name}" in result.output
    for option in ("--json", "--quiet"):
        assert option in result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["demo", "--threads", "0"], "Invalid value for '--threads'"),
        (["demo", "--seed", "-1"], "Invalid value for '--seed'"),
        (["no-such"], "No such command 'no-such'"),
        (["dmeo"], "No such command 'dmeo' (did you mean 'demo'?)"),
        (["demo", "--thread", "1"], "Did you mean"),
        (["--debgu", "demo"], "--debug"),  # in words of click, which change
    ],
)
def test_bad_arguments_exit_with_2_and_a_sentence(
    arguments: list[str], sentence: str
) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert sentence in result.output


def test_a_library_error_is_one_sentence_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BAYESMDP_THREADS", "many")
    result = run("info")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "`BAYESMDP_THREADS` must be a whole number; got 'many'." in result.stderr


def test_library_errors_are_value_errors() -> None:
    assert issubclass(BayesmdpError, ValueError)


def failing(monkeypatch: pytest.MonkeyPatch, problem: BaseException) -> None:
    """Have `bayesmdp info` fail."""

    def fail(_: object) -> int:
        raise problem

    monkeypatch.setattr(info, "thread_count", fail)


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (BayesmdpError("`x` is 7."), "bayesmdp: `x` is 7.\n"),
        (OSError(5, "Input/output error"), "cannot go on: Input/output error.\n"),
        (MemoryError(), "cannot go on: there is not enough memory.\n"),
        (KeyError("x"), "internal error, please report it: KeyError: 'x'; `--debug`"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_debug_shows_where_an_error_came_from(
    problem: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, problem)
    plain = CliRunner().invoke(main, ["info"])
    assert (plain.exit_code, plain.stdout) == (2, "")
    assert said in plain.stderr
    assert plain.stderr.count("\n") == 1
    shown = CliRunner().invoke(main, ["--debug", "info"])
    assert shown.exit_code == 2
    assert "Traceback (most recent call last)" in shown.stderr
    assert "in fail" in shown.stderr
    assert said in shown.stderr


@pytest.mark.parametrize("arguments", [["--debug", "info"], ["info", "--debug"]])
def test_debug_may_stand_anywhere(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, BayesmdpError("`x` is 7."))
    shown = CliRunner().invoke(main, arguments)
    assert "Traceback (most recent call last)" in shown.stderr
    literal = CliRunner().invoke(main, ["info", "--", "--debug"])
    assert "There is no directory `--debug`" in literal.stderr
    assert "Traceback" not in literal.stderr


@pytest.mark.skipif(os.name == "nt", reason="no such shell")
def test_streams_that_are_closed_are_no_fault() -> None:
    python = f"{sys.executable} -m bayesmdp"
    command = f"{python} info >&- && {python} info no-such 2>&-"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


@pytest.mark.filterwarnings("default::RuntimeWarning")
def test_warnings_are_told_once_and_exit_with_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def warn(_: object) -> int:
        for category in (BayesmdpWarning, BayesmdpWarning, RuntimeWarning):
            said = f"{category.__name__}: {argument('min_count', 5)}"
            warnings.warn(said, category, stacklevel=1)
        return 1

    monkeypatch.setattr(info, "thread_count", warn)
    done = CliRunner().invoke(main, ["info"])
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "bayesmdp: warning: BayesmdpWarning: --min-count 5",
        "bayesmdp: warning: RuntimeWarning: --min-count 5",
    ]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to be had")
def test_a_full_disk_is_a_sentence() -> None:
    command = [sys.executable, "-m", "bayesmdp", "info"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert done.returncode == 2
    assert done.stderr == "bayesmdp: cannot go on: No space left on device.\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to be had")
def test_help_on_a_full_disk_is_a_sentence() -> None:
    command = [sys.executable, "-m", "bayesmdp", "--help"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert done.returncode == 2
    assert done.stderr == "bayesmdp: cannot go on: No space left on device.\n"


@pytest.mark.parametrize("arguments", [["--help"], ["info"], ["validate", "log.csv"]])
def test_a_closed_pipe_changes_nothing(arguments: list[str], tmp_path: Path) -> None:
    log = "state,action,next_state\n0,0,1\n" + "1,0,-1\n" * 3
    (tmp_path / "log.csv").write_text(log)
    reader, writer = os.pipe()
    os.close(reader)  # as head does once it has seen enough
    command = [sys.executable, "-m", "bayesmdp", *arguments]
    done = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, cwd=tmp_path, timeout=120
    )
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == (2 if "validate" in arguments else 0)


def test_help_takes_less_than_six_times_as_long_as_the_imports_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A ratio of processor times (3.5 here), so that a slow machine passes too.

    Bytecode is kept, as where the package is installed: the first run writes it.
    """
    resource = pytest.importorskip("resource")
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return float(used.ru_utime + used.ru_stime)

    needed, ours = [], []
    for _ in range(2):
        began = spent()
        subprocess.run([sys.executable, "-c", "import numpy, click"], check=True)
        between = spent()
        assert run("--help").returncode == 0
        needed.append(between - began)
        ours.append(spent() - between)
    assert min(ours) < 6 * min(needed)


def test_ctrl_c_is_a_sentence_and_130(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    done = CliRunner().invoke(main, ["info"])
    assert (done.exit_code, done.stderr) == (130, "bayesmdp: interrupted.\n")


def test_the_library_s_arguments_are_told_as_options() -> None:
    def said() -> str:
        least = argument("min_count", 5)
        return (
            f"{argument('labels')}, {column('state', 'x')}, {column('step')}, {least}"
        )

    python = "labels=True, columns={'state': 'x'}, columns={'step': ...}, min_count=5"
    assert said() == python
    with spelled_as_options():
        assert said() == (
            "--labels, --columns state=x, --columns step=NAME, --min-count 5"
        )
    assert said() == python


@pytest.mark.parametrize("known", [True, False])
def test_fit_says_where_episodes_begin(tmp_path: Path, known: bool) -> None:
    head = "state,action,next_state,reward" + ",episode,step" * known
    rows = [("1,0,2,0", "a,0"), ("2,0,0,1", "a,1"), ("1,0,0,1", "b,0")]
    lines = [x + f",{y}" * known for x, y in rows]
    (tmp_path / "log.csv").write_text("\n".join([head, *lines]) + "\n")
    fit = ["fit", str(tmp_path / "log.csv"), "--discount", "0.9", "--terminal", "0"]
    done = CliRunner().invoke(main, [*fit, "-o", str(tmp_path / "run")])
    told = "in state 1, as those of the log do"
    if not known:
        told = "evenly in 2 states: the log does not tell where (no `episode` and"
    assert f"Episodes begin {told}" in done.stdout
    start = bm.storage.load(tmp_path / "run").posterior.task.start
    assert start.tolist() == ([0, 1, 0] if known else [0, 0.5, 0.5])


def test_fit_says_which_column_of_the_start_is_lacking(tmp_path: Path) -> None:
    head = "state,action,next_state,reward,id,cycle"
    lines = ["1,0,2,0,a,1", "2,0,0,1,a,2", "1,0,0,1,b,1"]
    (tmp_path / "log.csv").write_text("\n".join([head, *lines]) + "\n")
    fit = ["fit", str(tmp_path / "log.csv"), "--discount", "0.9", "--terminal", "0"]
    done = CliRunner().invoke(main, [*fit, "-o", str(tmp_path / "run")])
    assert "(no `step`); --columns step=NAME or a task file can" in done.stdout
    step = ["--columns", "step=cycle", "-o", str(tmp_path / "again")]
    done = CliRunner().invoke(main, [*fit, *step])
    assert "Episodes begin in state 1, as those of the log do" in done.stdout


def test_what_the_options_lack_is_told_in_options(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("state,action,next_state\n0,0,1\n")
    fit = ["fit", str(tmp_path / "log.csv"), "--discount", "0.9"]
    said = CliRunner().invoke(main, [*fit, "-o", str(tmp_path / "run")]).stderr
    assert "give `reward`, as in a task file, or name its column when" in said
    assert "--columns reward=NAME" in said
    assert "read_transitions" not in said
    said = CliRunner().invoke(main, ["validate", "none.csv"]).stderr
    assert said == "bayesmdp: there is no file `none.csv`.\n"
