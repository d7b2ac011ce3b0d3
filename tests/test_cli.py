"""The command line, run as a user would."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayesmdp.cli import main
from bayesmdp.cli._options import as_options
from bayesmdp.cli.commands import info
from bayesmdp.errors import BayesmdpError


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bayesmdp", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def names() -> list[str]:
    import click

    return main.list_commands(click.Context(main))


def test_demo_shows_epistemic_doubt_falling_and_says_why() -> None:
    result = run("demo")
    assert result.returncode == 0, result.stderr
    assert "After 100 random transitions" in result.stdout
    assert "After 10000 random transitions" in result.stdout
    assert "What changed" in result.stdout
    assert "because" in result.stdout


def test_demo_json_holds_the_numbers() -> None:
    record = json.loads(run("demo", "--json", "--threads", "1").stdout)
    little, much = record["100"], record["10000"]
    assert much["start_epistemic_sd"] < little["start_epistemic_sd"] / 5
    assert much["start_aleatoric_sd"] > 0.2
    gap = abs(much["start_value"] - record["true_start_value"])
    assert gap < 4 * much["start_epistemic_sd"]


def test_info_says_versions_and_threads() -> None:
    record = json.loads(run("info", "--json").stdout)
    assert record["schema_version"] == 1
    assert record["threads"] >= 1
    assert record["numba"]
    assert "numba" in run("info").stdout


@pytest.mark.parametrize("name", names())
def test_every_command_has_help_with_an_example(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert "Example: bayesmdp" in result.output
    assert "--json" in result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["demo", "--threads", "0"], "Invalid value for '--threads'"),
        (["demo", "--seed", "-1"], "Invalid value for '--seed'"),
        (["no-such"], "No such command 'no-such'"),
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
    result = run("demo")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "`BAYESMDP_THREADS` must be a whole number; got 'many'." in result.stderr


def test_library_errors_are_value_errors() -> None:
    assert issubclass(BayesmdpError, ValueError)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to be had")
def test_a_full_disk_is_a_sentence() -> None:
    command = [sys.executable, "-m", "bayesmdp", "info"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert done.returncode == 2
    assert done.stderr == "bayesmdp: cannot go on: No space left on device.\n"


def test_ctrl_c_is_a_sentence_and_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(info, "thread_count", interrupted)
    done = CliRunner().invoke(main, ["info"])
    assert (done.exit_code, done.stderr) == (130, "bayesmdp: interrupted.\n")


def test_the_library_s_arguments_are_told_as_options() -> None:
    said = as_options("give labels=True, columns={'state': 'x'} or min_count=5")
    assert said == "give --labels, --columns state=x or --min-count 5"
