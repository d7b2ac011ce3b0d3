"""Studies: the same bytes whatever interrupts them, and nothing lost."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import toy_study
from click.testing import CliRunner

from bayesmdp import paper
from bayesmdp.cli import main
from bayesmdp.errors import ArgumentError, BayesmdpError
from bayesmdp.paper import Effort, Study, find_study, run_study

QUICK = Effort(quick=True)


def results(directory: Path) -> dict[str, bytes]:
    """All that two runs of one study must share."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.suffix != ".seconds"
    }


def test_records_stand_in_the_order_of_jobs_for_any_number_of_processes(
    tmp_path: Path,
) -> None:
    one = run_study(toy_study.STUDY, QUICK, tmp_path / "one")
    two = run_study(toy_study.STUDY, QUICK, tmp_path / "two", n_jobs=2)
    assert results(one.directory) == results(two.directory)
    lines = (one.directory / "records.jsonl").read_text().splitlines()
    assert [json.loads(x)["seed"] for x in lines] == sorted([*range(6)] * 2)
    assert one.summary in (one.directory / "summary.md").read_text()
    assert one.seconds >= 6 * 0.01


def test_a_job_that_is_done_is_not_done_again(tmp_path: Path) -> None:
    directory = run_study(toy_study.STUDY, QUICK, tmp_path).directory
    file = directory / "jobs" / "coin-03.jsonl"
    file.write_text(file.read_text().replace('"share": ', '"share": 1e3, "was": '))
    run_study(toy_study.STUDY, QUICK, tmp_path, resume=True)
    assert "1e3" in (directory / "records.jsonl").read_text()


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    run_study(toy_study.STUDY, QUICK, tmp_path)
    with pytest.raises(ArgumentError, match="--resume"):
        run_study(toy_study.STUDY, QUICK, tmp_path)
    with pytest.raises(ArgumentError, match="other options"):
        run_study(toy_study.STUDY, Effort(), tmp_path, resume=True)
    (tmp_path / "mine" / "coins").mkdir(parents=True)
    (tmp_path / "mine" / "coins" / "thesis.tex").touch()
    with pytest.raises(ArgumentError, match="not empty"):
        run_study(toy_study.STUDY, QUICK, tmp_path / "mine")
    (tmp_path / "file").touch()
    with pytest.raises(BayesmdpError, match="cannot be kept"):
        run_study(toy_study.STUDY, QUICK, tmp_path / "file")


def test_a_study_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(paper.STUDIES, "coins", "coins")
    with pytest.raises(ArgumentError, match="did you mean 'coins'"):
        find_study("coin")


@pytest.fixture
def coins(monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setattr(paper, "find_study", lambda name: toy_study.STUDY)
    return toy_study.STUDY


def test_the_command_prints_the_summary_and_says_where_it_is(
    coins: Study, tmp_path: Path
) -> None:
    asked = ["reproduce", "coins", "--quick", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0
    assert "heads: 0." in done.stdout
    assert "kept in" in done.stderr
    again = CliRunner().invoke(main, asked)
    assert again.exit_code == 2
    assert "--resume" in again.stderr
    record = json.loads(CliRunner().invoke(main, [*asked, "--resume", "--json"]).stdout)
    assert (record["schema_version"], record["study"]) == (1, "coins")


def test_an_interrupt_leaves_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(seed: int) -> list[dict[str, float]]:
        if seed == 2:
            raise KeyboardInterrupt
        return toy_study.work(seed)

    stopped = Study("coins", "Coins", toy_study.jobs, work, toy_study.tell)
    monkeypatch.setattr(paper, "find_study", lambda name: stopped)
    asked = ["reproduce", "coins", "--quick", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 130
    assert "--resume" in done.stderr
    kept = sorted(x.name for x in (tmp_path / "coins" / "jobs").glob("*.jsonl"))
    assert kept == ["coin-00.jsonl", "coin-01.jsonl"]


def test_quick_and_full_contradict(coins: Study, tmp_path: Path) -> None:
    asked = ["reproduce", "coins", "--quick", "--full", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 2
    assert "`--quick` and `--full` contradict" in done.stderr
    assert not (tmp_path / "out").exists()


def with_picture() -> Study:
    figures = pytest.importorskip("matplotlib.figure")

    def plot(records: list[dict[str, float]]) -> dict[str, Any]:
        figure = figures.Figure(figsize=(2, 2))
        figure.subplots().plot([x["share"] for x in records])
        return {"coins": figure}

    return replace(toy_study.STUDY, plot=plot)


def test_pictures_are_the_same_files_in_every_run(tmp_path: Path) -> None:
    one, two = (run_study(with_picture(), QUICK, tmp_path / x) for x in "ab")
    assert results(one.directory) == results(two.directory)
    assert {"coins.png", "coins.svg"} <= results(one.directory).keys()
    assert one.skipped == ()


def test_a_reason_is_given_where_matplotlib_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = replace(toy_study.STUDY, plot=lambda records: {})
    monkeypatch.setattr("bayesmdp.paper._study.find_spec", lambda name: None)
    assert "matplotlib" in run_study(study, QUICK, tmp_path).skipped[0]


def test_a_kill_at_the_very_beginning_stands_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "coins").mkdir()
    (tmp_path / "coins" / ".fresh-7-study.json").write_text('{"sch')
    directory = run_study(toy_study.STUDY, QUICK, tmp_path, resume=True).directory
    assert not list(directory.rglob(".*"))


def test_records_of_two_versions_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_study(toy_study.STUDY, QUICK, tmp_path)
    monkeypatch.setattr("bayesmdp.paper._study.__version__", "99")
    with pytest.raises(ArgumentError, match="another version"):
        run_study(toy_study.STUDY, QUICK, tmp_path, resume=True)


def test_studies_that_share_jobs_do_each_once(tmp_path: Path) -> None:
    def fails(seed: int) -> list[dict[str, float]]:
        raise AssertionError(f"job {seed} was done already")

    alone = run_study(toy_study.STUDY, QUICK, tmp_path)
    first = run_study(toy_study.TOSSES, QUICK, tmp_path)
    second = run_study(replace(toy_study.LUCK, work=fails), QUICK, tmp_path)
    records = [x.directory / "records.jsonl" for x in (alone, first, second)]
    assert len({x.read_bytes() for x in records}) == 1
    assert first.summary == alone.summary != second.summary
    assert second.seconds == first.seconds  # whoever spent them
    assert not (first.directory / "jobs").exists()
    assert len(list((tmp_path / "coins-jobs" / "jobs").glob("*.jsonl"))) == 6


def test_shared_jobs_are_completed_and_never_of_other_options(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    for study in (toy_study.TOSSES, toy_study.LUCK):
        run_study(study, QUICK, whole)
    broken = tmp_path / "broken"
    directory = run_study(toy_study.LUCK, QUICK, broken).directory
    (broken / "coins-jobs" / "jobs" / "coin-04.jsonl").unlink()
    run_study(toy_study.TOSSES, QUICK, broken, n_jobs=2)
    assert results(broken) == results(whole)
    with pytest.raises(ArgumentError, match="holds a run already"):
        run_study(toy_study.LUCK, QUICK, broken)
    (directory / "study.json").unlink()
    for file in directory.iterdir():
        file.unlink()
    with pytest.raises(ArgumentError, match=r"coins-jobs.*other options"):
        run_study(toy_study.LUCK, Effort(), broken)
    assert not any(directory.iterdir())


def test_a_bar_shows_before_the_first_job_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(
        "rich.progress.Progress.update",
        lambda *_, description, **__: shown.append(description),
    )

    def work(seed: int) -> list[dict[str, float]]:
        assert shown[0] == "coins 0/6"
        return toy_study.work(seed)

    study = replace(toy_study.STUDY, work=work)
    run_study(study, Effort(quick=True), tmp_path, progress=True)
    assert shown[-1] == "coins 6/6"
