"""Compiled kernels on disk: lost, damaged, full, read-only or out of date.

Every case is a new process with a copy of the package or of its cache, and must give
the value that this process finds with kernels of its own.
"""

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bayesmdp as bm

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        sys.platform != "linux", reason="processes are forked, files limited in size"
    ),
]

# Everything is imported and made ready once, then forked for each case: the package's
# folder and the user's cache directory, and the size of files for which there is room.
SCRIPT = """
import io, json, os, resource, sys, warnings
import numba
numba.njit(lambda: 0)()
cases = json.loads(sys.argv[1])
sys.path.insert(0, cases[0][0])
import bayesmdp.engine.simulation

class Terminal(io.StringIO):
    def isatty(self):
        return True

def look(root, cache, room):
    sys.stderr, before = Terminal(), sys.stderr
    os.environ["XDG_CACHE_HOME"] = cache
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    if root != cases[0][0]:
        sys.path[0] = root
        for name in [name for name in sys.modules if name.startswith("bayesmdp")]:
            del sys.modules[name]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        import bayesmdp as bm
        from bayesmdp._jit import has_compiled
        log = bm.worlds.gridworld().sample(40, seed=3)
        if room < 10**6:  # a second kernel that cannot be kept
            bm.worlds.gridworld().simulate([0] * 25, 1, seed=0)
    assert bm.__file__.startswith(root + os.sep)
    said = [[type(w.message).__name__, str(w.message)] for w in told]
    value = log.counts().next_state.tolist()
    seen = sys.stderr.getvalue()
    found = dict(value=value, compiled=has_compiled(), told=said, seen=seen)
    print(json.dumps(found))
    sys.stderr = before

for case in cases:
    sys.stdout.flush()
    if os.fork() == 0:
        look(*case)
        sys.stdout.flush()
        os._exit(0)
    assert os.wait()[1] == 0
"""
ROOM = 2**30
NOTHING = {"compiled": False, "told": [], "seen": ""}  # of a process that only reads
BYTECODE = shutil.ignore_patterns("__pycache__")


def value() -> list[int]:
    """What the script must find."""
    log = bm.worlds.gridworld().sample(40, seed=3)
    found: list[int] = log.counts().next_state.tolist()
    return found


def run(cases: dict[str, tuple[Path, Path, int]]) -> dict[str, dict[str, Any]]:
    """Run all cases; what each found."""
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([*cases.values()], default=str)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={
            **{k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"},
            "OPENBLAS_NUM_THREADS": "1",
        },
    )
    assert ran.returncode == 0, ran.stderr
    lines = map(json.loads, ran.stdout.splitlines())
    return dict(zip(cases, lines, strict=True))


class Bomb:
    """A pickle that leaves a mark where it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _truncate(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def _flip(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3] ^= 1
    path.write_bytes(whole)


def _block(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _forge(path: Path) -> None:
    content = pickle.dumps(Bomb(path.with_name("exploded")))
    path.write_bytes(path.read_bytes()[:32] + content)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "empty": _empty,
    "truncated": _truncate,
    "flipped": _flip,
    "directory": _block,
    "forged": _forge,
}


def kernel(cache: Path) -> Path:
    (path,) = cache.rglob("*.sample_pairs-*.kernel")
    return path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where everything is: the package as `install/bayesmdp`, a cache for each case."""
    root = tmp_path_factory.mktemp("kernels")
    source, copy = Path(bm.__file__).parent, root / "install" / "bayesmdp"
    shutil.copytree(source, copy, ignore=BYTECODE)
    (copy / "__pycache__").write_text("a file where a folder should be")
    return root


@pytest.fixture(scope="module")
def found(root: Path) -> dict[str, dict[str, Any]]:
    """What all cases found: a first run, and then those that meet its kernels."""
    install, cache = root / "install", root / "cache"
    first = run({"first": (install, cache, ROOM)})
    cases = {"second": (install, cache, ROOM)}
    for name, damage in DAMAGE.items():
        shutil.copytree(cache, root / name)
        damage(kernel(root / name))
        cases[name] = (install, root / name, ROOM)
    cases["after flipped"] = cases["flipped"]
    cases["full"] = (install, root / "full", 4096)
    cases["nowhere"] = (install, Path("/dev/null/x"), ROOM)
    changed = root / "changed"
    shutil.copytree(install / "bayesmdp", changed / "bayesmdp", ignore=BYTECODE)
    (changed / "bayesmdp" / "__pycache__").touch()
    _change(changed / "bayesmdp" / "posterior" / "_random.py")
    cases["changed"] = (changed, cache, ROOM)
    return first | run(cases)


def _change(path: Path) -> None:
    """Change a function that `sample_pairs`, in another file, calls; keep the date."""
    before = path.stat()
    text = path.read_text(encoding="utf-8")
    assert text.count("(0, 1, 12, 17, 255)") == 1
    path.write_text(text.replace("(0, 1, 12, 17, 255)", "(0, 1, 13, 17, 255)"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


def test_a_read_only_install_keeps_kernels_in_the_users_cache(
    root: Path, found: dict[str, dict[str, Any]]
) -> None:
    places = [path.name for path in (root / "cache" / "bayesmdp").iterdir()]
    assert all(name.startswith("kernels-") for name in places)
    assert found["first"]["value"] == value()
    assert found["first"]["told"] == []
    assert found["second"] == NOTHING | {"value": value()}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_noticed_and_told_of_once(
    root: Path, found: dict[str, dict[str, Any]], name: str
) -> None:
    assert found[name]["value"] == value()
    assert found[name]["compiled"]
    ((category, said),) = found[name]["told"]
    assert category == "CacheWarning"
    assert str(kernel(root / name)) in said
    assert "NUMBA_CACHE_DIR" in said
    assert not list((root / name).rglob("exploded"))


def test_a_damaged_file_is_replaced(found: dict[str, dict[str, Any]]) -> None:
    assert found["after flipped"] == NOTHING | {"value": value()}


@pytest.mark.parametrize(
    ("name", "why"), [("full", "File too large"), ("nowhere", "/dev/null")]
)
def test_where_nothing_can_be_written_kernels_are_compiled_in_memory(
    root: Path, found: dict[str, dict[str, Any]], name: str, why: str
) -> None:
    assert found[name]["value"] == value()
    ((category, said),) = found[name]["told"]
    assert category == "CacheWarning"
    assert why in said
    assert not [path for path in (root / "full").rglob("*") if path.is_file()]


def test_a_changed_kernel_with_unchanged_dates_is_compiled_again(
    found: dict[str, dict[str, Any]],
) -> None:
    assert found["changed"]["compiled"]
    assert found["changed"]["told"] == []
    assert found["changed"]["value"] != value()


def test_who_waits_at_a_terminal_is_told_that_kernels_compile(
    found: dict[str, dict[str, Any]],
) -> None:
    for name in ("first", "flipped", "full", "changed"):
        assert re.fullmatch(
            r"bayesmdp: compiling kernels \(once; about \d+ s\)\n", found[name]["seen"]
        ), name
