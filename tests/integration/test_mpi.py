"""MPI processes give what one process gives."""

import os
import pickle
import re
import shutil
import sys
from pathlib import Path

import pytest
from test_executor import CALLS, PAGE, assert_identical, page_code, page_says, printed

pytestmark = pytest.mark.integration
pytest.importorskip("mpi4py", reason="mpi4py is not installed")

EVERY_CALL = """
import pickle
from pathlib import Path

from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__":
    from test_executor import CALLS

    with MPIPoolExecutor() as executor:
        assert executor.num_workers == 2
        how = {"executor": executor, "threads": 2}
        found = {name: call(**how) for name, call in CALLS.items()}
    Path("found.pickle").write_bytes(pickle.dumps(found))
"""


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command of the page, which finds what is installed beside this Python."""
    beside = Path(sys.executable).parent
    monkeypatch.setenv("PATH", str(beside), prepend=os.pathsep)
    if shutil.which("mpiexec") is None:
        pytest.skip("mpiexec is neither installed beside this Python nor on PATH")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    (line,) = re.findall(r"^(mpiexec .*) job\.py$", PAGE, re.M)
    return str(line).split()


def test_the_code_of_the_page_runs(start: list[str], tmp_path: Path) -> None:
    assert printed(start, page_code("MPI"), tmp_path) == page_says()


def test_every_call_gives_what_one_thread_gives(
    start: list[str], tmp_path: Path
) -> None:
    printed(start, EVERY_CALL, tmp_path)
    found = pickle.loads((tmp_path / "found.pickle").read_bytes())
    assert found.keys() == CALLS.keys()
    for name, call in CALLS.items():
        assert_identical(found[name], call(threads=1))
