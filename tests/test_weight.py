"""How many files a call runs, and how long files are: what `docs/design.md` says."""

import re
from pathlib import Path

import bayesmdp as bm
from benchmarks import weight


def test_one_call_runs_few_files() -> None:
    """A layer that is put in between has to pay for itself here."""
    found = weight.touched_by_calls()
    for name, most in weight.MOST.items():
        assert 10 < len(found[name]) <= most, sorted(found[name])
    assert "evaluation/_evaluate.py" in found["evaluate"] & found["optimise"]


def test_a_file_that_runs_is_counted_also_on_another_thread() -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(bm.Counts.from_arrays, [0], [0], [0]).result()

    assert "data/_counts.py" in weight.touched(work)
    assert weight.touched(lambda: None) == set()


def test_no_file_has_five_hundred_lines() -> None:
    long = [
        path.name
        for path in weight.PACKAGE.rglob("*.py")
        if len(path.read_text().splitlines()) >= 500
    ]
    assert long == []


def test_lines_are_counted_once() -> None:
    found = weight.lines()
    assert {"shared", "engine", "evaluation"} <= set(found)
    for room in found.values():
        assert room["code"] + room["docstrings"] < room["lines"]
    said = (Path(__file__).parents[1] / "docs" / "design.md").read_text()
    (rows,) = re.findall(r"`evaluate` (\d+), `optimise` (\d+)", said)
    assert tuple(map(int, rows)) == tuple(weight.MOST.values())
