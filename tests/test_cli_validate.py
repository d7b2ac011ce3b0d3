"""``bayesmdp validate``: prints what `validate` finds; the exit code is the verdict."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import bayesmdp as bm
from bayesmdp._checks import spelled_as_options
from bayesmdp.cli import main

HEAD = "episode,step,cluster,action,next_state,reward,terminated\n"
CLEAN = "7,0,0,0,1,0,0\n7,1,1,1,0,0,0\n7,2,0,1,2,1,1\n8,0,1,0,1,0,0\n8,1,1,1,2,0.5,1\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clean.csv").write_text(HEAD + CLEAN)
    (tmp_path / "gap.csv").write_text(HEAD + CLEAN.replace("7,1,1,1,0,0,0\n", ""))
    (tmp_path / "bad.csv").write_text(HEAD + CLEAN + "9,0,-1,0,x,0,0\n")
    return tmp_path


def run(*arguments: str) -> tuple[int, str, str]:
    columns = ["--columns", "state=cluster"]
    result = CliRunner().invoke(main, ["validate", *arguments, *columns])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("clean.csv", 0, "5 rows of `clean.csv`: 1 note."),
        ("gap.csv", 1, "step-gaps"),
        ("bad.csv", 2, "negative-ids"),
    ],
)
def test_the_exit_code_is_the_verdict(name: str, code: int, said: str) -> None:
    found, printed, warned = run(name)
    assert (found, warned) == (code, "")
    assert said in printed
    assert "\x1b" not in printed  # no colours where nobody sees them
    lines = printed.splitlines()
    assert all(line == line.rstrip() and len(line) <= 100 for line in lines)
    words = " ".join(printed.split())
    for x in bm.validate(name, columns={"state": "cluster"}):
        assert x.code in words
        assert x.severity in words


@pytest.mark.usefixtures("here")
def test_json_is_the_record() -> None:
    code, printed, _ = run("bad.csv", "--json", "--min-count", "2")
    assert code == 2
    record = json.loads(printed)
    with spelled_as_options():
        found = bm.validate("bad.csv", columns={"state": "cluster"}, min_count=2)
    assert record == found.to_dict()


@pytest.mark.usefixtures("here")
def test_options_reach_the_checks() -> None:
    code, printed, _ = run("clean.csv", "--n-states", "2", "--n-actions", "4")
    assert code == 2
    assert "ids-beyond-sizes" in printed
    assert "2 of 4 actions never taken" in printed
    code, printed, _ = run("clean.csv", "--min-count", "0")
    assert (code, printed) == (0, "5 rows of `clean.csv`: nothing found.\n\n")
    assert run("clean.csv", "gap.csv")[0] == 2  # one log: rows are there twice
    assert run("clean.csv", "--labels")[0] == 0


@pytest.mark.usefixtures("here")
def test_a_task_file_is_held_against_the_log() -> None:
    task = "discount = 0.9\nterminal = [1]\nn_states = 3\nn_actions = 2\n"
    Path("task.toml").write_text(task + "[reward]\nfrom_data = true\n")
    code, printed, _ = run("clean.csv", "--task", "task.toml")
    assert code == 2
    assert "terminal-states-left" in printed
    assert "ends-in-live-states" in printed
    code, printed, _ = run("bad.csv", "--task", "task.toml")  # cannot be read at all
    assert code == 2
    assert "negative-ids" in printed
    assert run("clean.csv", "--task", "nothing.toml")[0] == 2


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ward.csv"], "there is no file `ward.csv`"),
        (
            ["clean.csv", "--columns", "cluster"],
            "'cluster' is not of the form ROLE=NAME",
        ),
        (["clean.csv", "--columns", "reward=action"] * 2, "'reward' is given twice"),
        (
            ["clean.csv", "--columns", "reward=r", "a=b"],
            "there is no file 'a=b'; for a column, repeat the option: --columns a=b",
        ),
        (["clean.csv", "--columns", "sate=action"], "did you mean 'state'?"),
        (["clean.csv", "--min-count", "-1"], "--min-count"),
        (["clean.csv", "--task", "x.toml", "--n-states", "3"], "without --task"),
        ([], "FILE..."),
    ],
)
def test_bad_calls_are_a_sentence_and_exit_code_2(
    arguments: list[str], said: str
) -> None:
    code, printed, warned = run(*arguments)
    assert (code, printed) == (2, "")
    assert said in warned


def test_help_has_an_example() -> None:
    code, printed, _ = run("--help")
    assert code == 0
    assert "Example: bayesmdp validate ward.csv" in printed
