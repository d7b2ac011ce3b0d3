"""The one way the package compiles: `jit`, a typed wrapper around numba.

Kernels release the GIL, so threads run them side by side; they are cached on disk, so
a new process does not compile again; multiply-adds may be contracted (faster, and the
same on every thread), nothing else may be reordered. Every kernel takes float64, int64
or uint64 scalars and C-contiguous arrays, so each compiles once.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def jit(function: Kernel) -> Kernel:
    """Compile on first call; where no cache directory can be written, in memory."""
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}}
    try:
        compiled: Kernel = numba.njit(function, cache=True, **options)
    except RuntimeError:  # numba found no directory it can write its cache to
        compiled = numba.njit(function, **options)
    return compiled
