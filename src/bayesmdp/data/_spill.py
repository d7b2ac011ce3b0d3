"""Where DuckDB puts rows that do not fit in memory: for their owner's eyes only.

A process has one folder, that only its user may enter, with a place in it for each
connection. The folder is removed when the process exits. Of a process that was killed
it stays, and the next one removes it: a lock, which the system lets go of when a
process dies, tells folders in use from others. Where there are no such locks (Windows,
some network file systems), nothing of another process is touched.
"""

import atexit
import os
import shutil
import tempfile
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

_PREFIX = "bayesmdp-spill-"
_UNLOCKED = "bayesmdp-new-"


def spill_folder() -> Path:
    """Name a place for one connection, which DuckDB makes when it must spill."""
    return _home(os.getpid()) / uuid.uuid4().hex


@cache
def _home(process: int) -> Path:
    """Make the folder of a process; a fork has one of its own."""
    for old in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        handle = _lock(old)
        if handle is not None:
            shutil.rmtree(old, ignore_errors=True)
            os.close(handle)
    new = Path(tempfile.mkdtemp(prefix=_UNLOCKED))
    _lock(new)  # before it has a name that others look for; held to the end
    home = new.rename(new.with_name(new.name.replace(_UNLOCKED, _PREFIX)))
    atexit.register(_remove, home, process)
    return home


def _lock(folder: Path) -> int | None:
    """Return a handle that holds the lock, or None where somebody else holds it."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    with suppress(OSError):  # not a folder, not ours, gone, or without locks
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
        else:
            return handle
    return None


def _remove(home: Path, process: int) -> None:
    if os.getpid() == process:  # a fork may end before its parent
        shutil.rmtree(home, ignore_errors=True)
