"""What stops a command while it imports: Ctrl-C, or a limit of addresses."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = [str(Path(sys.executable).with_name("bayesmdp"))]
MODULE = [sys.executable, "-m", "bayesmdp"]
#: Python reads it before anything else; it acts when a certain module is sought.
BEFORE = """
import os, signal, sys

class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["STOPS_AT"]:
            sys.meta_path.remove(self)
            {act}

sys.meta_path.insert(0, Stop())
"""
PRESS = "signal.raise_signal(signal.SIGINT)"
LIMIT = """
            import resource
            pages = int(open("/proc/self/statm").read().split()[0])
            room = (pages + 20) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
"""


def stopped(
    folder: Path, act: str, at: str, command: list[str]
) -> "subprocess.CompletedProcess[str]":
    (folder / "sitecustomize.py").write_text(BEFORE.format(act=act))
    (folder / "log.csv").write_text("s,a,sp\n0,0,1\n")
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder), "STOPS_AT": at},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.skipif(not Path(SCRIPT[0]).exists(), reason="the command is not installed")
@pytest.mark.parametrize(
    ("command", "at"),
    [
        ([*SCRIPT, "validate", "log.csv"], "numpy"),
        ([*MODULE, "validate", "log.csv"], "numpy"),
        ([*SCRIPT, "validate", "log.csv"], "click"),
        ([*SCRIPT, "validate", "log.csv"], "_duckdb"),
        ([*SCRIPT, "--help"], "bayesmdp.cli.commands.fit"),
    ],
)
def test_ctrl_c_while_importing_ends_with_130(
    command: list[str], at: str, tmp_path: Path
) -> None:
    done = stopped(tmp_path, PRESS, at, command)
    assert done.returncode == 130, done.stderr
    assert done.stderr == "bayesmdp: interrupted.\n"


def test_ctrl_c_while_a_program_of_others_imports_is_theirs(tmp_path: Path) -> None:
    code = "try:\n import bayesmdp\nexcept KeyboardInterrupt:\n print('caught')"
    done = stopped(tmp_path, PRESS, "numpy", [sys.executable, "-c", code])
    assert (done.returncode, done.stdout) == (0, "caught\n")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("at", ["numpy._core._multiarray_umath", "_duckdb"])
def test_a_limit_of_addresses_that_breaks_an_import_is_named(
    at: str, tmp_path: Path
) -> None:
    pytest.importorskip("resource")
    done = stopped(tmp_path, LIMIT, at, [*MODULE, "validate", "log.csv"])
    assert done.returncode == 2, done.stderr
    assert "address space of this process, limited to" in done.stderr
    assert "`ulimit -v`" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_package_is_not_blamed_on_a_limit(tmp_path: Path) -> None:
    if shutil.which("sh") is None:
        pytest.skip("needs sh")
    lost = 'raise ImportError("No module named \'duckdb\'", name="duckdb")'
    command = f"ulimit -v 50000000; {sys.executable} -m bayesmdp validate log.csv"
    done = stopped(tmp_path, lost, "_duckdb", ["sh", "-c", command])
    assert done.returncode == 2
    assert "ulimit" not in done.stderr
    assert "No module named 'duckdb'" in done.stderr
