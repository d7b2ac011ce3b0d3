"""Files are replaced whole, in one moment, and keep who may read them."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import toy_study

import bayesmdp as bm
from bayesmdp.errors import StorageError
from studies import Effort, run_study

CASINO = bm.worlds.casino()
PLAY = {"play": [0, 0, 0], "leave": [1, 0, 0]}
TASK = bm.Task(3, 1, reward=[0, 0, 1], discount=0.5, terminal=[2])
COUNTS = bm.Counts.from_arrays([0, 1], [0, 0], [1, 2])
POSTERIOR = bm.fit(COUNTS, TASK, prior=bm.SymmetricPrior())
LOG = bm.Transitions.from_arrays([0, 1], [0, 0], [1, 2])


def save_run(there: Path) -> None:
    bm.storage.save(POSTERIOR, there, overwrite=True)


def save_result(there: Path) -> None:
    if not (there / "config.json").exists():
        save_run(there)
    bm.storage.save_result(there, "found", {"k": np.array([1])}, overwrite=True)


def save_report(there: Path) -> None:
    report = bm.report(CASINO, bm.compare(PLAY, CASINO.draws()))
    report.save(there / "casino.json")
    report.save(there / "casino.html")


def run_coins(there: Path) -> None:
    run_study(toy_study.STUDY, Effort(quick=True), there, resume=True)


def write_policy(there: Path) -> None:
    bm.storage.write_policy([0, 0, 0], POSTERIOR, there / "p.csv")


def write_template(there: Path) -> None:
    bm.storage.write_template(LOG, there / "task.toml", overwrite=True)


WRITERS: list[tuple[Callable[[Path], None], list[str]]] = [
    (save_run, ["config.json"]),
    (save_result, ["results/found.json"]),
    (save_report, ["casino.html", "casino.json"]),
    (run_coins, ["coins/records.jsonl", "coins/summary.md"]),
    (write_policy, ["p.csv"]),
    (write_template, ["task.toml"]),
]


@pytest.mark.parametrize(("write", "names"), WRITERS)
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_file_that_is_replaced_keeps_its_mode(
    write: Callable[[Path], None], names: list[str], mode: int, tmp_path: Path
) -> None:
    write(tmp_path)
    before = {name: (tmp_path / name).stat() for name in names}
    umask = os.umask(0)
    os.umask(umask)
    for name, found in before.items():
        assert stat.S_IMODE(found.st_mode) == 0o666 & ~umask, name
        (tmp_path / name).chmod(mode)
    write(tmp_path)
    for name in names:
        after = (tmp_path / name).stat()
        assert stat.S_IMODE(after.st_mode) == mode, name
        assert after.st_ino != before[name].st_ino, name  # replaced, not written over
    assert not list(tmp_path.rglob(".bayesmdp-*"))


SMALL = """
import resource, signal, sys
import bayesmdp as bm
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))
log = bm.Transitions.from_arrays([0, 1], [0, 0], [1, 2])
try:
    bm.storage.write_template(log, sys.argv[1], overwrite=True)
except bm.errors.StorageError as problem:
    print(problem)
"""


def test_a_template_that_cannot_be_written_leaves_what_was_edited(
    tmp_path: Path,
) -> None:
    path = tmp_path / "task.toml"
    path.write_text("mine")
    command = [sys.executable, "-c", SMALL, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert f"`{path}` cannot be written: File too large." in ran.stdout, ran.stderr
    assert [(x.name, x.read_text()) for x in tmp_path.iterdir()] == [
        ("task.toml", "mine")
    ]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_came_in_the_meantime_is_not_replaced(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "task.toml"
    counts = type(LOG).counts

    def edited_now(self: bm.Transitions) -> bm.Counts:
        path.write_text("mine")
        return counts(self)

    def no_links(*_: object) -> None:
        raise OSError("this file system has no links")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    bm.storage.write_template(LOG, path)
    assert bm.storage.read_task(path).n_states == 3
    path.unlink()
    monkeypatch.setattr(bm.Transitions, "counts", edited_now)
    with pytest.raises(StorageError, match=r"is there already: name another"):
        bm.storage.write_template(LOG, path)
    assert path.read_text() == "mine"
    assert [x.name for x in tmp_path.iterdir()] == ["task.toml"]
