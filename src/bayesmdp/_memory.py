"""How much memory there is, so that work that cannot fit is refused, not killed."""

import os
from pathlib import Path

from bayesmdp.errors import ArgumentError

_CGROUP = Path("/sys/fs/cgroup")
_LITTLE = 16_000_000  # bytes that any machine has
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
    return min(_of_system(), _of_container())


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


def _of_container() -> int:
    """Memory that the container's own limit leaves."""
    try:
        limit = (_CGROUP / "memory.max").read_text(encoding="ascii").strip()
        if limit == "max":
            return 2**62
        used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
        cached = 0  # what was read from files is given back when it is needed
        for line in (_CGROUP / "memory.stat").read_text(encoding="ascii").splitlines():
            if line.startswith("inactive_file "):
                cached = int(line.split()[1])
        return max(int(limit) - used + cached, 0)
    except (OSError, ValueError):
        return 2**62


def gigabytes(n_bytes: float) -> str:
    """Write a size for people to read."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes / 1e3:.3g} kB"
