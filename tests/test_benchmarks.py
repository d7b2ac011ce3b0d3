"""``python -m benchmarks``: runs parts, checks values, tells what went wrong."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import bayesmdp
from benchmarks import Row, scale, start, weigh
from benchmarks.__main__ import DOCS, RESULTS, TABLES, main


def bench(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.stdout, result.stderr


def test_help_names_every_part() -> None:
    from benchmarks.scale import PARTS

    code, printed, _ = bench("--help")
    assert code == 0
    words = printed.replace(",", " ").replace(";", " ").split()
    assert {*PARTS, *TABLES} <= set(words)


def test_an_unknown_part_is_one_sentence_and_exit_code_2() -> None:
    code, printed, said = bench("warp")
    assert (code, printed) == (2, "")
    assert "'warp' is none of clinical, hierarchical" in said
    assert "(did you mean 'gamma'?)" in bench("gama")[2]


def test_options_that_other_tables_do_not_have_are_refused() -> None:
    code, printed, said = bench("kernels", "gamma", "--quick")
    assert (code, printed) == (2, "")
    assert said.count("\n") == 1
    assert "`--threads` are not for kernels: leave them out, or name" in said


def test_all_is_every_table_and_one_wrong_value_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row = Row("x", 1.0, "s", "<=", 2.0, "value", True).as_record()
    record = {"problem": "p", "made_with": {}, "rows": [row]}
    for name in TABLES:
        monkeypatch.setattr(f"benchmarks.{name}.run", lambda: record)
    whole = {**record, "failed": [], "whole": True}
    asked: list[object] = []

    def run(parts: object, **more: object) -> dict[str, object]:
        asked.append((parts, more["quick"], more["threads"]))
        return whole

    monkeypatch.setattr(scale, "run", run)
    monkeypatch.setattr(scale, "store", lambda *_, **__: tmp_path)
    monkeypatch.setattr("benchmarks.__main__.RESULTS", tmp_path)
    monkeypatch.setattr("benchmarks.tables.optimisation_tables", lambda _: "page")
    monkeypatch.setattr("benchmarks.efforts.efforts_page", lambda _: "page")
    monkeypatch.setattr("benchmarks.__main__.DOCS", tmp_path)
    (tmp_path / "performance.md").touch()
    code, printed, _ = bench("all", "gamma", "--json")
    assert code == 0
    assert asked == [((), False, None)]  # nothing is left out, so the table is whole
    assert printed.count('"schema_version": 1') == len(TABLES) + 1
    for name in TABLES:
        assert json.loads((tmp_path / f"{name}.json").read_text()) == record
    wrong = {**record, "rows": [{**row, "correct": False}]}
    monkeypatch.setattr("benchmarks.grid.run", lambda: wrong)
    assert bench("all")[0] == 1
    assert bench("grid")[0] == 1
    assert bench("kernels")[0] == 0
    assert len(asked) == 2


def test_a_wrong_value_or_a_failure_is_told_by_the_exit_code() -> None:
    from benchmarks.scale import right

    row = Row("x", 1.0, "s", "<=", 2.0, "value", True).as_record()
    wrong = {**row, "correct": False}
    assert right({"rows": [row], "failed": []})
    assert not right({"rows": [row, wrong], "failed": []})
    assert not right({"rows": [row], "failed": ["part: exit code 1"]})


def test_a_row_without_target_has_no_verdict() -> None:
    from benchmarks import text_table

    told = Row("x", 1.0, "s", "<=", None, "value 1", True, "rival 2 s").as_record()
    met = Row("y", 1.0, "s", "<=", 2.0, "value 1", True).as_record()
    missed = Row("z", 3.0, "s", "<=", 2.0, "value 1", False).as_record()
    assert [row["met"] for row in (told, met, missed)] == [None, True, False]
    record = {"problem": "p", "made_with": {"a": "1"}, "rows": [told, met, missed]}
    _, _, _, *lines = text_table(record).splitlines()
    assert ["rival 2 s" in lines[0], "met" in lines[1], "WRONG" in lines[2]] == [
        True
    ] * 3
    assert "met" not in lines[0]


def test_the_check_of_a_sweep_notices_a_wrong_value() -> None:
    import numpy as np

    from bayesmdp.engine import Want
    from benchmarks.sweeps import ACCURATE, largest_gap, timed_sweep

    world = bayesmdp.worlds.gridworld()
    posterior = bayesmdp.fit(
        world.sample(500, seed=0), world.task, prior=bayesmdp.SymmetricPrior()
    )
    draws, policy = posterior.draws(16, seed=0), np.full((25, 4), 0.25)
    want = Want(variance=True, gradient=True)
    swept = timed_sweep(draws, policy, want, repeats=1)
    assert largest_gap(swept, draws, policy, 4) < ACCURATE
    other = policy + np.array([1e-5, -1e-5, 0, 0])
    assert largest_gap(swept, draws, other, 4) > ACCURATE


def test_the_bound_of_a_large_model_notices_a_wrong_value() -> None:
    from bayesmdp.engine import Want
    from benchmarks import large
    from benchmarks.sweeps import ACCURATE, chain_of, timed_sweep

    n = 100
    reward = large.random_policy(n, 3)
    task = bayesmdp.Task(n, large.N_ACTIONS, reward, discount=large.DISCOUNT)
    prior = bayesmdp.SparsePrior()
    posterior = bayesmdp.fit(large.random_counts(n, 0), task, prior=prior)
    draws, policy = posterior.draws(4, seed=0), large.random_policy(n, 2)
    swept = timed_sweep(draws, policy, Want(), repeats=1)
    value = swept.nominal.reference[0, 0] + swept.first(1).state[0, 0]
    chain = chain_of(draws.dynamics(0), task, policy)
    assert large.error_bound(chain, value) < ACCURATE
    value[7] *= 1 + 1e-6
    assert large.error_bound(chain, value) > ACCURATE


def test_a_page_is_written_from_a_record_with_parts_missing() -> None:
    from benchmarks.performance import performance_tables

    row = Row("x", 1.0, "s", "<=", 2.0, "value 1", True, "rival 2 s").as_record()
    record = {"made_with": {"a": "1"}, "load": [0.5], "rows": [row], "parts": {}}
    page = performance_tables({**record, "skipped": ["planner: no quantecon"]})
    assert "| x | 1 s | <= 2 | met | rival 2 s | value 1: correct |" in page
    assert "- planner: no quantecon" in page


def test_the_page_holds_the_times_of_the_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = (RESULTS / "start.json").read_text(encoding="utf-8")
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    record = json.loads(text)
    assert start.start_table(record) in page
    assert f"BEFORE={record['before']} " in page
    (tmp_path / "start.json").write_text(text, encoding="utf-8")
    (tmp_path / "performance.md").write_text(page, encoding="utf-8")
    for place in ("RESULTS", "DOCS"):
        monkeypatch.setattr(f"benchmarks.__main__.{place}", tmp_path)
    monkeypatch.setattr("benchmarks.__main__.AWAY", tmp_path / "away")
    record["rows"][0]["measured"] = 123.0
    for before, replaced in (("", False), ("c0ffee", True)):
        monkeypatch.setattr(start, "run", lambda b=before: {**record, "before": b})
        assert bench("start")[0] == 0
        found = (tmp_path / "performance.md").read_text(encoding="utf-8")
        assert (start.start_table(record) in found) is replaced
        assert (tmp_path / "away" / "start.json").exists()


def test_the_page_on_information_holds_its_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from benchmarks import information

    record = json.loads((RESULTS / "information.json").read_text(encoding="utf-8"))
    page = (DOCS / "information.md").read_text(encoding="utf-8")
    assert information.information_table(record) in page
    (tmp_path / "information.md").write_text(page, encoding="utf-8")
    for place in ("RESULTS", "DOCS"):
        monkeypatch.setattr(f"benchmarks.__main__.{place}", tmp_path)
    record["table"][0]["seconds"] = 12345.0
    monkeypatch.setattr(information, "run", lambda: record)
    assert bench("information")[0] == 0
    found = (tmp_path / "information.md").read_text(encoding="utf-8")
    assert "| sparse | 12345 |" in found
    assert len(found) < len(page) + 10


def test_the_page_on_a_gpu_holds_its_record_and_says_what_is_wrong() -> None:
    from benchmarks import gpu

    record = json.loads((RESULTS / "gpu.json").read_text(encoding="utf-8"))
    written = gpu.gpu_table(record)
    assert written in (DOCS / "gpu.md").read_text(encoding="utf-8")
    wrong = [row["what"] for row in record["rows"] if not row["correct"]]
    lines = [x for x in written.splitlines() if "| WRONG: " in x]
    assert [x.split(" | ")[0].removeprefix("| ") for x in lines] == wrong


def test_rows_of_a_gpu_say_how_many_threads_it_was_held_against() -> None:
    from benchmarks import gpu

    found = {"cpu": 2.0, "cuda": 1.0, "gap": 0.0, "same_bits": True, "retried": 3}
    for cpu_draws, threads in ((16, "one CPU thread "), (17, "two CPU threads ")):
        row = gpu._row("x", found | {"cpu_draws": cpu_draws}, "s", None)
        assert row.rival.startswith(threads)
        assert row.correct
        assert row.check.endswith("; 3 draws left to the CPU")
    for gap, right in ((1e-13, True), (1e-11, False), (float("nan"), False)):
        assert gpu._draws_row("x", gap).correct is right


def test_what_the_package_weighs_adds_up() -> None:
    every = weigh.weights()
    for of in every.values():
        parts = of["code"] + of["docstrings"] + of["comments"] + of["blank"]
        assert parts == of["lines"]
    names = {path.suffix for path in weigh.PACKAGE.rglob("*.*")}
    assert set(weigh.SUFFIXES) <= names
    own = (weigh.PACKAGE / "errors.py").read_text().splitlines()
    assert weigh._weight(weigh.PACKAGE / "errors.py")["lines"] == len(own)
    casino = bayesmdp.worlds.casino()
    ran = weigh.files_run(lambda: bayesmdp.evaluate([1, 0, 0], casino))
    assert "evaluation/_evaluate.py" in ran
    assert not any(name.startswith("cli/") for name in ran)
    found = weigh.runs()
    for name, most in weigh.MOST.items():
        assert 10 < len(found[name]) <= most, sorted(found[name])
    said = (DOCS / "design.md").read_text()
    for name, most in weigh.MOST.items():
        (row,) = (x for x in said.splitlines() if f"run in one `{name}` |" in x)
        assert row.endswith(f" {most} |")


def test_no_file_has_five_hundred_lines() -> None:
    files = weigh.PACKAGE.rglob("*.py")
    assert [x.name for x in files if len(x.read_text().splitlines()) >= 500] == []
