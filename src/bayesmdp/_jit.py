"""The one way the package compiles: `jit`, a typed wrapper around numba.

Kernels release the GIL, so threads run them side by side; they are kept on disk
(`bayesmdp._kernel_cache`), so a new process does not compile again; multiply-adds may
be contracted (faster, and the same on every thread), nothing else may be reordered.
Every kernel takes float64, int64 or uint64 scalars and C-contiguous arrays, so each
compiles once.

A kernel that others call is compiled for them as a *part*: without what only Python
needs, and neither optimised nor translated to machine code by itself, because that is
done again wherever it is taken in. Numba alone would do it at every level of calls,
which takes twice as long and makes nothing faster.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

from bayesmdp._kernel_cache import Disk

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
_config: Any = numba.config
_njit: Any = numba.njit
# Versions of numba that parts are known to work with; others compile as they will.
_KNOWN = (0, 61), (0, 68)


def jit(function: Kernel) -> Kernel:
    """Compile on first call, or read from disk what another process has compiled."""
    if _config.DISABLE_JIT:
        return function
    options: dict[str, Any] = {
        "nogil": True,
        "fastmath": {"contract"},
        "no_cfunc_wrapper": True,
    }
    compiled = _njit(function, **options)
    compiled._cache = Disk(function)
    if _KNOWN[0] <= numba.version_info.short <= _KNOWN[1]:
        from bayesmdp._kernel_parts import PartCompiler

        options |= {"no_cpython_wrapper": True, "pipeline_class": PartCompiler}
        part = _njit(function, **options)
        compiled.get_call_template = part.get_call_template
        compiled.get_overload = part.get_overload
    return compiled  # type: ignore[no-any-return]
