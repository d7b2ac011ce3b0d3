"""Files that are written whole or not at all.

A file is written under a hidden name beside its place and then renamed, which is atomic
everywhere: a reader finds the old file or the new one, and whatever goes wrong, the old
one stays. A file that is replaced keeps its mode: what only its owner could read, only
its owner can read afterwards, and in the meantime too.
"""

import os
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bayesmdp.errors import BayesmdpError, StorageError

Writer = Callable[[Path], None]

HIDDEN = ".bayesmdp-"  # begins the name of a file until it is whole


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


def check_file(path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
    """Say before a long job whether a file can be written, or replaced, there.

    Parameters
    ----------
    path
        The file.
    overwrite
        Whether a file that is there may be replaced.

    Examples
    --------
    >>> import pathlib, tempfile, bayesmdp as bm
    >>> bm.storage.check_file(pathlib.Path(tempfile.mkdtemp(), "best.csv"))
    """
    file = Path(path)
    with worded(file, "written"):
        if file.exists() and not file.is_file():
            raise StorageError(f"`{file}` is not a plain file: name another.")
        if file.exists() and not overwrite:
            raise _there_already(file)
        if not file.parent.is_dir():
            raise StorageError(
                f"`{file}` cannot be written: there is no directory `{file.parent}`; "
                "make it first."
            )
        with tempfile.TemporaryFile(dir=file.parent, prefix=HIDDEN) as probe:
            probe.write(b"room for a file")


def write_atomic(
    path: Path, content: str | bytes | Writer, *, overwrite: bool = True
) -> None:
    """Have a file hold this, in one moment."""
    fresh = write_fresh(path, content)
    try:
        if overwrite:
            fresh.replace(path)
        else:
            _place(fresh, path)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def write_fresh(target: Path, content: str | bytes | Writer) -> Path:
    """Write a file that can take the target's place; it is on the disk."""
    fresh = target.with_name(f"{HIDDEN}{uuid.uuid4().hex}")
    mode = _mode(target)
    try:
        made = os.open(fresh, os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
        os.close(made)
        if callable(content):
            content(fresh)
        else:
            fresh.write_bytes(content.encode() if isinstance(content, str) else content)
        flush(fresh)
        if mode is not None:
            fresh.chmod(mode)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise
    return fresh


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
        "(overwrite=True, --overwrite)."
    )
