"""The one way the package compiles: `jit`, a typed wrapper around numba.

Kernels release the GIL, so threads run them side by side; they are cached on disk, so
a new process does not compile again; multiply-adds may be contracted (faster, and the
same on every thread), nothing else may be reordered. Every kernel takes float64, int64
or uint64 scalars and C-contiguous arrays, so each compiles once.

Numba's cache looks at the file of a kernel, not at the kernels it calls in other files.
The cache directory is therefore named by the content of all files with kernels: after
an upgrade or an edit nothing stale is ever run.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
_config: Any = numba.config


def _cache_directory() -> str:
    """Directory for compiled kernels, below NUMBA_CACHE_DIR or beside the package."""
    package = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        if b"@jit" in content or path == Path(__file__):
            digest.update(content)
    base = _config.CACHE_DIR or package / "__pycache__"
    return str(Path(base) / f"kernels-{digest.hexdigest()}")


_DIRECTORY = _cache_directory()


def jit(function: Kernel) -> Kernel:
    """Compile on first call; where no cache directory can be written, in memory."""
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}}
    said, _config.CACHE_DIR = _config.CACHE_DIR, _DIRECTORY
    try:
        compiled: Kernel = numba.njit(function, cache=True, **options)
    except RuntimeError:  # numba found no directory it can write its cache to
        compiled = numba.njit(function, **options)
    finally:
        _config.CACHE_DIR = said
    return compiled
