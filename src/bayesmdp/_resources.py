"""What large work takes: memory, asked for before it begins, and time, which is told.

Work that cannot fit is refused, not killed. A bar shows where a person waits for it: on
a terminal, after a second.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

try:  # now, for it cannot be loaded where memory has run out
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

from bayesmdp.errors import ArgumentError, BayesmdpError, TooLargeError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_CGROUP, _PROCESS = Path("/sys/fs/cgroup"), Path("/proc/self")
# Limit, use, and files that are held, in the two versions of control groups.
_FIRST = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_SECOND = ("memory.max", "memory.current", "inactive_file")
_NOT_MAPPED = ("failed to map segment", "cannot allocate memory")
_LITTLE = 64_000_000  # bytes that any machine has
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def available_bytes(needed: int | None = None) -> int:
    """Return ``BAYESMDP_MEMORY``, else what the system and its container have left.

    Where little is ``needed``, just that: the system is not asked, which would take
    longer than a small sweep.
    """
    said = os.environ.get("BAYESMDP_MEMORY", "").strip()
    if said:
        return _parsed(said)
    if needed is not None and needed <= _LITTLE:
        return needed
    return min(_of_system(), _of_container(), _of_process())


def _parsed(said: str) -> int:
    """Read a size such as ``8GB``."""
    text = said.lower().removesuffix("b").strip()
    unit = text[-1:] if text[-1:] in _UNITS else ""
    try:
        size = float(text.removesuffix(unit)) * _UNITS[unit]
    except ValueError:
        size = -1.0
    if not 0 <= size < 2**62:
        raise ArgumentError(
            f"`BAYESMDP_MEMORY` must be a size such as 8GB; got {said!r}."
        )
    return int(size)


def _of_system() -> int:
    """Memory that can be had without swapping; no limit where nothing says so."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**62


def _of_process() -> int:
    """Memory that the process's own limit of addresses leaves (``ulimit -v``)."""
    limit = _address_limit()
    if limit is None:
        return 2**62
    try:
        pages = int((_PROCESS / "statm").read_text(encoding="ascii").split()[0])
        return max(limit - pages * os.sysconf("SC_PAGE_SIZE"), 0)
    except (OSError, ValueError):  # another system
        return 2**62


def _address_limit() -> int | None:
    """Bytes of addresses that the process may have, where that is limited."""
    try:
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        return None if limit == resource.RLIM_INFINITY else limit
    except (AttributeError, OSError, ValueError):  # another system
        return None


def limit_at_fault(problem: BaseException) -> str | None:
    """Say so where the limit of addresses is why memory, or a library, was not had."""
    limit, cause = _address_limit(), problem
    while limit is not None:
        said = str(cause).lower()
        if isinstance(cause, MemoryError) or any(x in said for x in _NOT_MAPPED):
            return (
                "cannot go on: memory or a library does not fit into the address space "
                f"of this process, limited to {gigabytes(limit)} (`ulimit -v`): raise "
                "that limit."
            )
        if (before := cause.__cause__ or cause.__context__) is None:
            break
        cause = before
    return None


def _of_container() -> int:
    """Memory that limits of the container, and of all groups around it, leave."""
    try:
        lines = (_PROCESS / "cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        lines = []
    left = [_left_in(_CGROUP, _SECOND)]
    for line in lines:
        kinds, _, path = line.partition(":")[2].partition(":")  # after a number
        parts = Path(path.lstrip("/")).parts
        groups = [Path(*parts[:n]) for n in range(len(parts) + 1)]
        if not kinds:
            left += [_left_in(_CGROUP / group, _SECOND) for group in groups]
        elif "memory" in kinds.split(","):
            left += [_left_in(_CGROUP / "memory" / group, _FIRST) for group in groups]
    return min(left)


def _left_in(group: Path, names: tuple[str, str, str]) -> int:
    """Memory that one control group's limit leaves; no limit where it has none."""
    limit_name, used_name, cached_name = names
    try:
        limit = (group / limit_name).read_text(encoding="ascii").strip()
        if limit == "max":
            return 2**62
        used = int((group / used_name).read_text(encoding="ascii"))
        cached = 0  # what was read from files is given back when it is needed
        for line in (group / "memory.stat").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{cached_name} "):
                cached = int(line.split()[1])
        return max(int(limit) - used + cached, 0)
    except (OSError, ValueError):
        return 2**62


def check_room(
    needed: int,
    what: str,
    remedy: Callable[[int], str],
    error: type[BayesmdpError] = TooLargeError,
) -> None:
    """Refuse what does not fit; ``remedy`` says what would, given the bytes free."""
    if needed > (there := available_bytes(needed)):
        raise error(
            f"{what} {gigabytes(needed)} of memory, and {gigabytes(there)} are free: "
            f"{remedy(there)}."
        )


def check_draws(n_draws: int) -> None:
    """Refuse a number of draws whose results alone, 8 bytes each, would not fit."""
    check_room(
        8 * n_draws,
        f"One result for each of `n_draws` {n_draws} draws takes",
        lambda there: f"about {there // 8} draws would fit",
    )


def gigabytes(n_bytes: float) -> str:
    """Write a size for people to read."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes / 1e3:.3g} kB"


Show = Callable[..., None]  # (done), (done, note)

_PATIENCE = 1.0  # seconds before the bar shows


class _Bar:
    """Starts a rich bar on stderr once the work has taken a while."""

    def __init__(self, what: str, total: int, patience: float) -> None:
        self._what, self._total, self._patience = what, total, patience
        self._began = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def show(self, done: int, note: str = "") -> None:
        """Move to ``done``, with a word on how it goes."""
        if self._progress is None:
            if time.monotonic() - self._began < self._patience:
                return
            from rich.console import Console
            from rich.progress import Progress

            self._progress = Progress(console=Console(stderr=True), transient=True)
            self._progress.start()
            self._task = self._progress.add_task(self._what, total=self._total)
        if self._task is not None:
            said = f"{self._what} {note}"
            self._progress.update(self._task, completed=done, description=said)

    def close(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()


@contextmanager
def progress_bar(
    what: str, total: int, wanted: bool | None = None, patience: float | None = None
) -> Iterator[Show]:
    """Yield a function to call with the amount done; it does nothing if nobody looks.

    ``wanted`` None means: on a terminal. Work that takes less than ``patience`` seconds
    shows nothing; None means one.
    """
    with told(wanted):
        if not (sys.stderr.isatty() if wanted is None else wanted):
            yield lambda *_: None
            return
        bar = _Bar(what, total, _PATIENCE if patience is None else patience)
        try:
            yield bar.show
        finally:
            bar.close()


_wanted: list[bool | None] = [None]  # the innermost is last


@contextmanager
def told(wanted: bool | None) -> Iterator[None]:
    """Keep in mind whether news are wanted; None leaves it as it is."""
    _wanted.append(_wanted[-1] if wanted is None else wanted)
    try:
        yield
    finally:
        _wanted.pop()


def announce(sentence: str) -> None:
    """Say what takes time, where bars would be shown, and in notebooks."""
    wanted = _wanted[-1]
    if sys.stderr is None:
        return
    if wanted is None:
        wanted = sys.stderr.isatty() or "ipykernel" in sys.modules
    if wanted:
        sys.stderr.write(f"bayesmdp: {sentence}\n")
        sys.stderr.flush()
