"""A kill at any moment leaves the old run or the new one; writers do not mix.

`KILLER` is a process that forks: each child saves, and kills itself with SIGKILL just
before the n-th time it opens, makes, renames or deletes a file, for every n. Each state
that is left behind is then looked at. Other moments are met by the last test, by luck.
"""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.errors import StorageError
from bayesmdp.storage import load, load_result, save, save_result

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL and fork"),
]

SETUP = """
import os, signal, sys
from pathlib import Path
import numpy as np
import bayesmdp as bm
from bayesmdp.storage import save, save_result

def posterior(k):
    task = bm.Task(3, 1, reward=[0, 0, k], discount=0.5, terminal=[2])
    counts = bm.Counts.from_arrays([0, 1], [0, 0], [1, 2], [k, 2 * k])
    return bm.fit(counts, task, prior=bm.SymmetricPrior(k))
"""
KILLER = """
import shutil

WATCHED = ("open", "os.listdir", "os.mkdir", "os.rename", "os.remove", "os.rmdir")
root, templates = map(Path, sys.argv[1:])
os.fsync = lambda handle: None  # a kill is no power cut

def until(n, path):
    def hook(event, arguments):
        nonlocal n
        if event in WATCHED and str(arguments[0]).startswith(str(path)):
            n -= 1
            if n == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    return hook

n, killed, second = 0, True, posterior(2)
while killed:
    n += 1
    path = root / f"run{n}"
    if OLD:
        shutil.copytree(templates / "1", path)
    pid = os.fork()
    if pid == 0:
        sys.addaudithook(until(n, path))
        act(path)
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(pid, 0)[1])
"""
NEW = "OLD = False\ndef act(path): save(second, path)\n"
REPLACE = "OLD = True\ndef act(path): save(second, path, overwrite=True)\n"
RESULT = (
    "OLD = True\n"
    "def act(path):\n"
    "    found = {'k': 2, 'x': np.full(100, 2)}\n"
    "    save_result(path, 'found', found, overwrite=True)\n"
)


def namespace() -> dict[str, Callable[[int], bm.Posterior]]:
    found: dict[str, Callable[[int], bm.Posterior]] = {}
    exec(SETUP, found)  # the same posteriors here as there
    return found


posterior = namespace()["posterior"]


def kill_everywhere(script: str, tmp_path: Path) -> list[Path]:
    """Return a directory for each state that a kill can leave behind."""
    for k in (1, 2):
        path = save(posterior(k), tmp_path / str(k))
        save_result(path, "found", {"k": k, "x": np.full(100, k)})
    root = tmp_path / "runs"
    root.mkdir()
    command = [sys.executable, "-c", SETUP + script + KILLER, root, tmp_path]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    paths = list(root.iterdir())
    assert len(paths) > 5
    return list({state(path): path for path in paths}.values())


def state(path: Path) -> frozenset[tuple[str, bytes]]:
    """What a directory holds; names that were drawn at random are all the same."""
    files = [x for x in path.rglob("*") if x.is_file()]
    return frozenset(
        (re.sub(r"-[0-9a-f]{32}$", "-random", str(x.relative_to(path))), x.read_bytes())
        for x in files
    )


def which(path: Path) -> int:
    """Whose run this is, all of it."""
    found = load(path).posterior
    k = int(found.task.reward[2])  # type: ignore[index]
    wanted = posterior(k)
    assert found.counts == wanted.counts
    assert found.alpha.tobytes() == wanted.alpha.tobytes()
    return k


def leftovers(path: Path) -> list[Path]:
    """Files that nobody will read."""
    return [x for x in path.rglob("*") if x.is_file() and x.suffix != ".json"]


def test_a_first_save_that_is_killed_leaves_nothing_or_a_run(tmp_path: Path) -> None:
    outcomes = set()
    for path in kill_everywhere(NEW, tmp_path):
        if (path / "config.json").exists():
            outcomes.add(which(path))
        else:
            outcomes.add(0)
            with pytest.raises(StorageError, match=r"no directory|no `config.json`"):
                load(path)
        save(posterior(3), path, overwrite=True)
        assert which(path) == 3
        assert leftovers(path) == []
    assert outcomes == {0, 2}


def test_a_run_that_is_replaced_is_the_old_or_the_new(tmp_path: Path) -> None:
    outcomes, unsettled = set(), 0
    for path in kill_everywhere(REPLACE, tmp_path):
        unsettled += bool(leftovers(path))
        k = which(path)
        outcomes.add(k)
        results = load(path).results
        assert results == (("found",) if k == 1 else ())
        if results:
            assert load_result(path, "found")["k"] == 1
        save(posterior(3), path, overwrite=True)
        assert which(path) == 3
        assert leftovers(path) == []
        assert load(path).results == ()
    assert outcomes == {1, 2}
    assert unsettled > 0  # kills did meet writers at work


def test_a_result_that_is_replaced_is_the_old_or_the_new(tmp_path: Path) -> None:
    outcomes = set()
    for path in kill_everywhere(RESULT, tmp_path):
        assert which(path) == 1
        result = load_result(path, "found")
        k = result["k"]
        assert result["x"].tolist() == [k] * 100
        outcomes.add(k)
        save_result(path, "found", {"k": 3}, overwrite=True)
        assert load_result(path, "found") == {"k": 3}
        assert leftovers(path) == []
    assert outcomes == {1, 2}


WRITER = """
k = int(sys.argv[1])
print("ready", flush=True)
while True:
    save(posterior(k), sys.argv[2], overwrite=True)
    k += 2
    print(k, flush=True)
"""


def test_writers_and_readers_at_once_never_meet_a_mixture(tmp_path: Path) -> None:
    path = save(posterior(1), tmp_path / "run")
    luck = random.Random(0)
    seen: set[int] = set()
    for _ in range(2):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", SETUP + WRITER, str(k), str(path)],
                stdout=subprocess.PIPE,
            )
            for k in (2, 3)
        ]
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.readline()
        met: set[int] = set()
        try:
            while len(met) < 4:  # at work, both of them or one after the other
                met.add(which(path))
            time.sleep(luck.random() / 10)
        finally:
            for writer in writers:
                writer.send_signal(signal.SIGKILL)
                writer.communicate()
        seen |= {*met, which(path)}
        save(posterior(1), path, overwrite=True)
        assert which(path) == 1
        assert leftovers(path) == []
    assert {k % 2 for k in seen} == {0, 1}
