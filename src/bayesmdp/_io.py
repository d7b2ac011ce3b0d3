"""Files that are written whole or not at all, and read no further than they reach.

A file is written under a hidden name beside its place and then renamed, which is atomic
everywhere: a reader finds the old file or the new one, and whatever goes wrong, the old
one stays. A file that is replaced keeps its mode: what only its owner could read, only
its owner can read afterwards, and in the meantime too.

A few bytes can claim any size. What they claim is compared with what is there, and with
the memory there is, before anything is made so large.
"""

import math
import os
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp._checks import argument
from bayesmdp._memory import check_room
from bayesmdp.errors import BayesmdpError, StorageError

HIDDEN = ".bayesmdp-"  # begins the name of a file until it is whole
MOST_PACKED = 1032  # bytes that one byte of deflate can stand for


@contextmanager
def worded(path: Path, doing: str) -> Iterator[None]:
    """Turn what the system or a library says of a file into one sentence."""
    try:
        yield
    except (BayesmdpError, MemoryError):
        raise
    except UnicodeEncodeError as problem:
        half = problem.object[problem.start]
        raise StorageError(
            f"`{path}` cannot be {doing}: a label holds {half!r}, half a character; "
            "fix how the labels were read."
        ) from problem
    except OSError as problem:
        said = problem.strerror or str(problem)
        raise StorageError(f"`{path}` cannot be {doing}: {said}.") from problem
    except Exception as problem:  # libraries of formats share no base class
        said = " ".join(str(problem).split()).rstrip(". ") or type(problem).__name__
        raise StorageError(f"`{path}` cannot be {doing}: {said:.200}.") from problem


def check_file(
    path: str | os.PathLike[str], suffix: str = "", *, overwrite: bool = True
) -> None:
    """Say before a long job whether a file can be written, or replaced, there.

    Parameters
    ----------
    path
        The file.
    suffix
        How its name must end, such as ``.csv``; in any way where not given.
    overwrite
        Whether a file that is there may be replaced.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> check_file(pathlib.Path(tempfile.mkdtemp(), "best.csv"))
    """
    file = Path(path)
    if suffix and file.suffix.lower() != suffix:
        raise StorageError(f"`{file}` must end in {suffix}: name it so.")
    with worded(file, "written"):
        check_plain(file)
        if file.exists() and not overwrite:
            raise _there_already(file)
        if not file.parent.is_dir():
            raise StorageError(
                f"`{file}` cannot be written: there is no directory `{file.parent}`; "
                "make it first."
            )
        with tempfile.TemporaryFile(dir=file.parent, prefix=HIDDEN) as probe:
            probe.write(b"room for a file")


def write_atomic(path: Path, content: str | bytes, *, overwrite: bool = True) -> None:
    """Have a file hold this, in one moment; who may read it stays as it was."""
    fresh = path.with_name(f"{HIDDEN}{uuid.uuid4().hex}")
    mode = _mode(path)
    try:
        made = os.open(fresh, os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
        os.close(made)
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)
        flush(fresh)
        if mode is not None:
            fresh.chmod(mode)
        if overwrite:
            fresh.replace(path)
        else:
            _place(fresh, path)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Have a file, or the names in a directory, on the disk."""
    if path.is_dir():
        if os.name == "nt":  # directories cannot be opened there
            return
        handle = os.open(path, os.O_RDONLY)
    else:
        handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _mode(path: Path) -> int | None:
    """Permissions of a file, None where there is none."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None


def _place(fresh: Path, path: Path) -> None:
    """Give a file a name that nobody has, also if two try at once."""
    try:
        os.link(fresh, path)
    except FileExistsError:
        raise _there_already(path) from None
    except OSError:  # a file system without links
        if path.exists():
            raise _there_already(path) from None
        fresh.replace(path)


def _there_already(path: Path) -> StorageError:
    return StorageError(
        f"`{path}` is there already: name another file, or say that it may be replaced "
        f"({argument('overwrite')})."
    )


def check_plain(path: Path) -> None:
    """Refuse what is not a file with an end, such as a pipe."""
    if path.exists() and not path.is_file():
        raise StorageError(f"`{path}` is not a plain file: name another.")


def check_fits(path: Path, n_bytes: int) -> None:
    """Refuse a file whose content would not fit into memory."""
    remedy = "read it on a larger machine"
    check_room(n_bytes, f"`{path}` takes", lambda _: remedy, StorageError)


def _check_claim(stream: IO[bytes], n_bytes: int) -> None:
    """Compare what a ``.npy`` file of so many bytes claims to hold."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"it is of format {version}, and (1, 0) and (2, 0) are known")
    shape, _, kind = _HEADERS[version](stream)
    if kind.hasobject:
        raise ValueError("it holds Python objects, which are never loaded")
    claimed, there = math.prod(shape) * kind.itemsize, n_bytes - stream.tell()
    if claimed != there or kind.itemsize == 0:
        raise ValueError(
            f"it claims {kind} of shape {shape}, which is {claimed} bytes, and holds "
            f"{there}"
        )


def read_array(path: Path) -> NDArray[Any]:
    """Read a ``.npy`` file, never by unpickling."""
    check_plain(path)
    with path.open("rb") as stream:
        n_bytes = os.fstat(stream.fileno()).st_size
        _check_claim(stream, n_bytes)
        check_fits(path, n_bytes)
        stream.seek(0)
        found: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        return found


_HEADERS: dict[tuple[int, int], Callable[[IO[bytes]], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
