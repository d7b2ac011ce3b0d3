"""Studies: the same bytes whatever interrupts them, and nothing lost."""

import json
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import toy_study
from click.testing import CliRunner

import bayesmdp as bm
import studies
from bayesmdp._io import HIDDEN
from bayesmdp.errors import ArgumentError, BayesmdpError
from studies import Effort, Study, cohorts, find_study, grid_data, run_study
from studies.__main__ import main

QUICK = Effort(quick=True)
JOBS = "jobs.jsonl"


def results(directory: Path) -> dict[str, bytes]:
    """All that two runs of one study must share: jobs in any order, without times."""
    return {
        str(path.relative_to(directory)): (
            b"\n".join(sorted(jobs_in(path)))
            if path.name == JOBS
            else path.read_bytes()
        )
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def jobs_in(path: Path) -> list[bytes]:
    """Lines of a file of jobs, without times; the first is the header."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [re.sub(rb'"seconds": [0-9.e-]+', b"", line) for line in lines]


def keys_in(path: Path) -> list[str]:
    """Names of the jobs in a file."""
    return [json.loads(x)["job"] for x in path.read_bytes().splitlines()[1:]]


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
    file = directory / JOBS
    file.write_text(file.read_text().replace('"share": ', '"share": 1e3, "was": '))
    run_study(toy_study.STUDY, QUICK, tmp_path, resume=True)
    assert "1000.0" in (directory / "records.jsonl").read_text()


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    run_study(toy_study.STUDY, QUICK, tmp_path)
    with pytest.raises(ArgumentError, match="--resume"):
        run_study(toy_study.STUDY, QUICK, tmp_path)
    with pytest.raises(ArgumentError, match="with --quick, and this call has none"):
        run_study(toy_study.STUDY, Effort(), tmp_path, resume=True)
    (tmp_path / "mine" / "coins").mkdir(parents=True)
    (tmp_path / "mine" / "coins" / "thesis.tex").touch()
    with pytest.raises(ArgumentError, match="not empty"):
        run_study(toy_study.STUDY, QUICK, tmp_path / "mine")
    (tmp_path / "file").touch()
    with pytest.raises(BayesmdpError, match="cannot be kept"):
        run_study(toy_study.STUDY, QUICK, tmp_path / "file")


def test_help_names_every_study() -> None:
    said = CliRunner().invoke(main, ["--help"]).stdout
    assert "\\b" not in said
    assert "\n    casino        figure 6              bounds" in said  # line by line
    named = set(said.replace("fig1 .. fig5", "fig1 fig2 fig3 fig4 fig5").split())
    assert {*studies.STUDIES, "all"} <= named
    nothing = CliRunner().invoke(main, [])
    assert nothing.exit_code == 2
    assert nothing.stderr.startswith("bayesmdp: Name a study: fig1, fig2")


def test_every_figure_of_the_paper_can_be_asked_for_by_its_number() -> None:
    numbers = {f"fig{i}" for i in range(1, 14)}
    assert numbers <= {*studies.STUDIES, *studies.FIGURES}
    assert set(studies.FIGURES.values()) <= set(studies.STUDIES)
    assert find_study("fig6").name == "casino"


@pytest.mark.parametrize("then", [Effort(seeds=4), Effort(), QUICK])
def test_what_differs_from_a_run_that_is_there_is_said(
    tmp_path: Path, then: Effort
) -> None:
    said = {
        Effort(seeds=4): "with --seeds 4, and this call has --full",
        Effort(): "with no options, and this call has --full",
        QUICK: "with --quick, and this call has --full",
    }
    run_study(toy_study.STUDY, then, tmp_path)
    for resume in (False, True):
        with pytest.raises(ArgumentError, match=f"was begun {said[then]}, see"):
            run_study(toy_study.STUDY, Effort(full=True), tmp_path, resume=resume)
    if then.seeds:
        with pytest.raises(
            ArgumentError, match="with --seeds 4, and this call has none"
        ):
            run_study(toy_study.STUDY, Effort(), tmp_path)
    (tmp_path / "coins" / JOBS).write_text("[\n")
    with pytest.raises(ArgumentError, match="was begun otherwise"):
        run_study(toy_study.STUDY, then, tmp_path)


@pytest.fixture
def listening() -> Iterator[None]:
    """Hear Ctrl-C also where the tests were started deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
def test_ctrl_c_in_a_search_ends_the_job_and_keeps_nothing_of_it(
    tmp_path: Path,
) -> None:
    """A search takes the first one for a wish to see its best so far."""
    belief = grid_data.learnt(0, 25)

    def work(seed: int) -> list[dict[str, float]]:
        if seed == 1:
            found = bm.optimise(belief, method=bm.StochasticGradient(rate, 16, 5))
            assert found.interrupted  # not reached
        return toy_study.work(seed)

    def rate(step: int) -> float:
        if step == 2:
            signal.raise_signal(signal.SIGINT)
        return 1.0

    study = replace(toy_study.STUDY, work=work)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, QUICK, tmp_path)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert keys_in(tmp_path / "coins" / JOBS) == ["coin-00"]


def test_a_quick_run_says_so(tmp_path: Path) -> None:
    assert run_study(toy_study.STUDY, QUICK, tmp_path).summary.startswith("*Run with")
    assert "quick" not in run_study(toy_study.STUDY, Effort(), tmp_path / "b").summary


def test_a_study_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "STUDIES", ("coins",))
    with pytest.raises(ArgumentError, match="did you mean 'coins'"):
        find_study("coin")


@pytest.fixture
def coins(monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setattr(studies, "find_study", lambda name: toy_study.STUDY)
    return toy_study.STUDY


def test_the_command_prints_the_summary_and_says_where_it_is(
    coins: Study, tmp_path: Path
) -> None:
    asked = ["coins", "--quick", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0
    assert "heads: 0." in done.stdout
    assert "kept in" in done.stderr
    assert "a new one begins" not in done.stderr
    again = CliRunner().invoke(main, asked)
    assert again.exit_code == 2
    assert "--resume" in again.stderr
    record = json.loads(CliRunner().invoke(main, [*asked, "--resume", "--json"]).stdout)
    assert (record["schema_version"], record["study"]) == (1, "coins")
    elsewhere = [*asked[:-1], str(tmp_path / "mistyped"), "--resume"]
    told = CliRunner().invoke(main, elsewhere).stderr
    assert "mistyped` holds no run to go on with; a new one begins." in told


def test_an_interrupt_leaves_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(seed: int) -> list[dict[str, float]]:
        if seed == 2:
            raise KeyboardInterrupt
        return toy_study.work(seed)

    stopped = Study("coins", "Coins", toy_study.jobs, work, toy_study.tell)
    monkeypatch.setattr(studies, "find_study", lambda name: stopped)
    asked = ["coins", "--quick", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 130
    assert "--resume" in done.stderr
    assert keys_in(tmp_path / "coins" / JOBS) == ["coin-00", "coin-01"]
    told = CliRunner().invoke(main, [*asked, "--so-far"])
    assert told.exit_code == 0
    assert "over 2 coins" in told.stdout
    assert keys_in(tmp_path / "coins" / JOBS) == ["coin-00", "coin-01"]
    elsewhere = [*asked[:-1], str(tmp_path / "elsewhere"), "--so-far"]
    assert "holds no run to tell of" in CliRunner().invoke(main, elsewhere).stderr
    assert not (tmp_path / "elsewhere").exists()
    every = CliRunner().invoke(main, ["all", "--so-far", "--out", str(tmp_path)])
    assert "name it" in every.stderr


@pytest.mark.parametrize("study", [toy_study.STUDY, toy_study.TOSSES])
def test_telling_leaves_the_files_of_a_run_that_goes_on(
    study: Study, tmp_path: Path
) -> None:
    run_study(study, QUICK, tmp_path)
    jobs = max(tmp_path.glob(f"*/{JOBS}"), key=lambda x: x.stat().st_size)
    jobs.write_bytes(jobs.read_bytes()[:-9])  # the last job is being written
    fresh = jobs.with_name(f"{HIDDEN}1")
    fresh.write_text("# Coi")
    before = {x: x.read_bytes() for x in (jobs, fresh)}
    told = run_study(study, QUICK, tmp_path, so_far=True)
    assert "over 5 coins" in told.summary
    assert {x: x.read_bytes() for x in before} == before
    jobs.write_bytes(before[jobs][:5])  # the header is being written
    with pytest.raises(ArgumentError, match="holds no job that is done"):
        run_study(study, QUICK, tmp_path, so_far=True)
    assert jobs.read_bytes() == before[jobs][:5]
    if study is toy_study.TOSSES:  # whose jobs lie elsewhere
        shutil.rmtree(jobs.parent)
        with pytest.raises(ArgumentError, match="holds no job that is done"):
            run_study(study, QUICK, tmp_path, so_far=True)
        assert not jobs.parent.exists()


def test_quick_and_full_contradict(coins: Study, tmp_path: Path) -> None:
    asked = ["coins", "--quick", "--full", "--out", str(tmp_path / "out")]
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
    monkeypatch.setattr("studies.study.find_spec", lambda name: None)
    assert "matplotlib" in run_study(study, QUICK, tmp_path).skipped[0]


def test_a_kill_at_the_very_beginning_stands_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "coins").mkdir()
    (tmp_path / "coins" / JOBS).write_text('{"sch')
    directory = run_study(toy_study.STUDY, QUICK, tmp_path).directory
    whole = run_study(toy_study.STUDY, QUICK, tmp_path / "whole").directory
    assert results(directory) == results(whole)


def test_what_a_kill_left_half_written_goes(tmp_path: Path) -> None:
    directory = run_study(toy_study.STUDY, QUICK, tmp_path).directory
    whole = results(directory)
    (directory / f"{HIDDEN}1").write_text("# Coi")
    jobs = directory / JOBS
    jobs.write_bytes(jobs.read_bytes()[:-9])  # the last job
    run_study(toy_study.STUDY, QUICK, tmp_path, resume=True)
    assert results(directory) == whole


def test_a_spoilt_line_is_named(tmp_path: Path) -> None:
    directory = run_study(toy_study.STUDY, QUICK, tmp_path).directory
    jobs = directory / JOBS
    lines = jobs.read_bytes().splitlines(keepends=True)
    for spoilt in (lines[3][:20] + b"\n", b"{}\n", b'{"job": "coin-02"}\n'):
        jobs.write_bytes(b"".join([*lines[:3], spoilt, *lines[4:]]))
        with pytest.raises(ArgumentError, match=r"jobs.jsonl`: line 4 is not a fin"):
            run_study(toy_study.STUDY, QUICK, tmp_path, resume=True)


def test_records_of_two_versions_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_study(toy_study.STUDY, QUICK, tmp_path)
    monkeypatch.setattr("studies.study.__version__", "99")
    with pytest.raises(ArgumentError, match="was begun by bayesmdp 0"):
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
    assert keys_in(first.directory / JOBS) == []
    assert len(keys_in(tmp_path / "coins-jobs" / JOBS)) == 6


def test_shared_jobs_are_completed_and_never_of_other_options(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    for study in (toy_study.TOSSES, toy_study.LUCK):
        run_study(study, QUICK, whole)
    broken = tmp_path / "broken"
    directory = run_study(toy_study.LUCK, QUICK, broken).directory
    jobs = broken / "coins-jobs" / JOBS
    lines = jobs.read_bytes().splitlines(keepends=True)
    jobs.write_bytes(b"".join(x for x in lines if b"coin-04" not in x))
    run_study(toy_study.TOSSES, QUICK, broken, n_jobs=2)
    assert results(broken) == results(whole)
    with pytest.raises(ArgumentError, match="holds a run already"):
        run_study(toy_study.LUCK, QUICK, broken)
    for file in directory.iterdir():
        file.unlink()
    with pytest.raises(ArgumentError, match=r"coins-jobs`, which studies share"):
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


@pytest.mark.parametrize("name", ["fig5", "uncertainty", "evidence", "beliefs"])
def test_what_a_study_needs_is_said_before_anything_is_kept(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayesmdp.worlds._sepsis.find_spec", lambda _: None)
    cohorts.sepsis.cache_clear()
    with pytest.raises(BayesmdpError, match="pip install --no-deps icu-sepsis"):
        run_study(find_study(name), QUICK, tmp_path)
    assert not any(tmp_path.iterdir())
