"""Arrays and kernels of a GPU, by CuPy.

The sources in ``engine/cuda`` are compiled when they are first needed, once for each
set of constants, by CUDA's run-time compiler, which comes with CuPy; CuPy keeps what is
compiled on disk. `Device` is all that the rest knows of CuPy: tests put one in its
place that compiles the same sources for the CPU.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bayesmdp.errors import BackendError

_SOURCES = Path(__file__).parent / "cuda"
_SHARED_BY_DEFAULT = 48 * 1024  # bytes that a block has without asking

#: An array of the device: CuPy's, which looks like NumPy's.
Array = Any
#: ``launch(blocks, threads, arguments, shared bytes)``.
Launch = Callable[[int, int, tuple[Any, ...], int], None]


def source_of(*names: str) -> str:
    """Put sources together, common ones first."""
    return "\n".join((_SOURCES / f"{name}.cu").read_text("utf-8") for name in names)


class Device:
    """One GPU."""

    def __init__(self) -> None:
        self.xp: Any = _cupy()
        properties = self.xp.cuda.runtime.getDeviceProperties(0)
        self.name: str = properties["name"].decode()
        self.n_processors: int = properties["multiProcessorCount"]
        self.shared_bytes: int = properties["sharedMemPerBlockOptin"]
        self.warp, self.most_threads = 32, 512  # of a block: registers allow no more
        self._modules: dict[Any, Any] = {}

    def kernel(
        self, sources: tuple[str, ...], name: str, **constants: object
    ) -> Launch:
        """Return a kernel of some sources, compiled with constants."""
        key = sources, tuple(sorted(constants.items()))
        if key not in self._modules:
            options = ("-std=c++17", *(f"-D{k}={v}" for k, v in constants.items()))
            code = source_of(*sources)
            self._modules[key] = self.xp.RawModule(code=code, options=options)
        found = self._modules[key].get_function(name)

        def launch(
            blocks: int, threads: int, arguments: tuple[Any, ...], shared: int = 0
        ) -> None:
            if shared > _SHARED_BY_DEFAULT:
                found.max_dynamic_shared_size_bytes = shared
            found((blocks,), (threads,), arguments, shared_mem=shared)

        return launch

    def put(self, array: Any) -> Array:
        """Copy an array to the device, in one piece."""
        return self.xp.asarray(np.ascontiguousarray(array))

    def get(self, array: Array) -> Any:
        """Copy an array from the device."""
        return self.xp.asnumpy(array)

    def free_bytes(self) -> int:
        """Memory that is left on the device, or held by CuPy for the next array."""
        free, _ = self.xp.cuda.runtime.memGetInfo()
        return int(free + self.xp.get_default_memory_pool().free_bytes())

    def quietly(self) -> AbstractContextManager[Any]:
        """Return a context in which arithmetic on arrays does not warn."""
        return np.errstate(all="ignore")


@cache
def _cupy() -> Any:
    """Import CuPy, and look for a GPU; or say in a sentence what is missing."""
    try:
        import cupy
    except ImportError as problem:
        raise BackendError(
            "`device='cuda'` needs CuPy: pip install 'bayesmdp[cuda]', or take "
            "device='cpu'."
        ) from problem
    try:
        n_devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as problem:
        why = str(problem).split(":", 1)[-1].strip()
        raise BackendError(
            f"`device='cuda'` finds no GPU that CUDA can use ({why}): see what "
            "`nvidia-smi` says of GPU and driver, or take device='cpu'."
        ) from problem
    if not n_devices:
        raise BackendError("`device='cuda'` finds no GPU; take device='cpu'.")
    return cupy


@cache
def first_device() -> Device:
    """Return the GPU of this process; ``CUDA_VISIBLE_DEVICES`` says which."""
    return Device()
