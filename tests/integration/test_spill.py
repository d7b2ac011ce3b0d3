"""Rows that do not fit in memory: where they go, and that they do not stay."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

#: More rows than fit in memory; then how it ends.
SPILL = """
import os, pathlib, sys, tempfile
from bayesmdp.data._queries import connect
connection = connect()
connection.execute("set memory_limit = '40MB'")
connection.execute("create table t as select md5(i::text) from range(2_000_000) r(i)")
(home,) = pathlib.Path(tempfile.gettempdir()).iterdir()
print(oct(home.stat().st_mode & 0o777), sum(x.is_file() for x in home.rglob("*")))
{}
"""


def spill(folder: Path, ending: str) -> str:
    found = subprocess.run(
        [sys.executable, "-c", SPILL.format(ending)],
        env=os.environ | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Error" not in found.stderr.replace("ValueError: planned", ""), found.stderr
    return found.stdout


def test_what_does_not_fit_is_nobody_elses_to_read(tmp_path: Path) -> None:
    mode, n_files = spill(tmp_path, "raise ValueError('planned')").split()
    assert mode == "0o700"
    assert int(n_files) > 0  # in use while it ran
    assert list(tmp_path.iterdir()) == []
    spill(tmp_path, "os.kill(os.getpid(), 9)")
    (left,) = tmp_path.iterdir()
    assert any(x.is_file() for x in left.rglob("*"))
    # The next to read removes it, but nothing of a process that lives.
    folder = tmp_path / "bayesmdp-spill-mine"
    folder.mkdir()
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    read = "import bayesmdp as bm, sys; bm.read_transitions(sys.argv[1])"
    (tmp_path / "log.csv").write_text("s,a,sp\n0,0,1\n")
    subprocess.run(
        [sys.executable, "-c", read, str(tmp_path / "log.csv")],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        check=True,
    )
    os.close(handle)
    assert {x.name for x in tmp_path.iterdir()} == {folder.name, "log.csv"}
