"""Arrays and kernels of a GPU, by CuPy.

The sources in ``engine/cuda`` are compiled when they are first needed, once for each
set of constants, by CUDA's run-time compiler, which comes with CuPy; CuPy keeps what is
compiled on disk. `Device` is all that the rest knows of CuPy: tests put one in its
place that compiles the same sources for the CPU.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from bayesmdp._checks import argument
from bayesmdp.errors import BackendError, TooLargeError

_SOURCES = Path(__file__).parent / "cuda"
_OLDEST = 8  # compute capability
_SHARED_BY_DEFAULT = 45 * 1024  # bytes that a block has unasked, beside static ones

#: An array of the device: CuPy's, which looks like NumPy's.
Array = Any
#: ``launch(blocks, threads, arguments, shared bytes)``.
Launch = Callable[[int, int, tuple[Any, ...], int], None]


def source_of(*names: str) -> str:
    """Put sources together, common ones first."""
    return "\n".join((_SOURCES / f"{name}.cu").read_text("utf-8") for name in names)


class Device(ABC):
    """What kernels run on."""

    name: str
    n_processors: int
    shared_bytes: int  # that a block may have
    warp: int  # threads that go together
    most_threads: int  # of a block: registers allow no more
    full: type[Exception] = MemoryError  # raised where there is no memory left

    def __init__(self, xp: Any) -> None:
        self.xp = xp  # NumPy's functions for arrays of the device
        self._lock = RLock()

    @contextmanager
    def at_work(self, name: str) -> Iterator[None]:
        """Use the device alone; say it in a sentence if it is full."""
        with self._lock:
            try:
                yield
            except self.full as problem:
                raise TooLargeError(
                    f"`{argument('device', name)}` has no memory left "
                    f"({problem}): take {argument('device', 'cpu')}, fewer draws at "
                    "once, or end what else uses the GPU."
                ) from problem

    def n_groups(self, n: int) -> int:
        """Count groups of ``n`` draws: as many as a warp has lanes lie side by side."""
        return -(-n // self.warp)

    def grouped(self, array: Array) -> Array:
        """Lay ``[n, length]`` out in groups of draws, ``[groups, length, lanes]``."""
        n, length = array.shape
        padded = self.xp.zeros((self.n_groups(n) * self.warp, length))
        padded[:n] = array
        by_group = padded.reshape(-1, self.warp, length)
        return self.xp.ascontiguousarray(by_group.transpose(0, 2, 1))

    def by_draw(self, array: Array, n: int) -> Array:
        """Lay ``[..., groups, length, lanes]`` out by draws, ``[..., n, length]``."""
        *more, groups, length, lanes = array.shape
        turned = array.swapaxes(-1, -2).reshape(*more, groups * lanes, length)
        return self.xp.ascontiguousarray(turned[..., :n, :])

    @abstractmethod
    def kernel(
        self, sources: tuple[str, ...], name: str, **constants: object
    ) -> Launch:
        """Return a kernel of some sources, compiled with constants."""

    @abstractmethod
    def put(self, array: Any) -> Array:
        """Copy an array to the device, in one piece."""

    @abstractmethod
    def get(self, array: Array) -> Any:
        """Copy an array from the device."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Memory that is left on the device, or held for the next array."""


class CudaDevice(Device):
    """One GPU, by CuPy."""

    warp, most_threads = 32, 512

    def __init__(self) -> None:
        super().__init__(_cupy())
        self.full = self.xp.cuda.memory.OutOfMemoryError
        properties = self.xp.cuda.runtime.getDeviceProperties(0)
        self.name = properties["name"].decode()
        self.n_processors = properties["multiProcessorCount"]
        self.shared_bytes = properties["sharedMemPerBlockOptin"]
        if properties["major"] < _OLDEST:
            had = f"{properties['major']}.{properties['minor']}"
            raise _missing(
                f"needs a GPU of compute capability {_OLDEST}.0 or newer ({self.name} "
                f"has {had}): take another one"
            )
        self._modules: dict[Any, Any] = {}
        self._launches: dict[Any, Launch] = {}

    def kernel(
        self, sources: tuple[str, ...], name: str, **constants: object
    ) -> Launch:
        """Compile a kernel when it is first asked for."""
        key = sources, name, *constants.items()
        if key not in self._launches:
            self._launches[key] = self._made(sources, name, constants)
        return self._launches[key]

    def _made(
        self, sources: tuple[str, ...], name: str, constants: dict[str, object]
    ) -> Launch:
        module = sources, tuple(sorted(constants.items()))
        if module not in self._modules:
            options = ("-std=c++17", *(f"-D{k}={v}" for k, v in constants.items()))
            code = source_of(*sources)
            self._modules[module] = self.xp.RawModule(code=code, options=options)
        try:
            found = self._modules[module].get_function(name)
        except self.xp.cuda.compiler.CompileException as problem:
            said = f"cannot compile kernels ({_reason(problem)}): {_INSTALL}"
            raise _missing(said) from problem
        most = [_SHARED_BY_DEFAULT]

        def launch(
            blocks: int, threads: int, arguments: tuple[Any, ...], shared: int = 0
        ) -> None:
            if shared > most[0]:
                found.max_dynamic_shared_size_bytes = most[0] = shared
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
        held = self.xp.get_default_memory_pool().free_bytes()
        return int(free + held)


@cache
def _cupy() -> Any:
    """Import CuPy, look for a GPU and for a compiler; say what is missing."""
    try:
        import cupy
    except ImportError as problem:
        broken = problem.name != "cupy"  # something that it needs
        why = f", which cannot be imported ({_reason(problem)})" if broken else ""
        raise _missing(f"needs CuPy{why}: {_INSTALL}") from problem
    runtime = cupy.cuda.runtime
    try:
        n_devices = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as problem:
        raise _missing(_no_devices(runtime, problem)) from problem
    if not n_devices:
        raise _missing("finds no GPU: look at CUDA_VISIBLE_DEVICES")
    try:
        cupy.cuda.nvrtc.getVersion()
    except (ImportError, OSError, RuntimeError) as problem:
        said = f"finds no CUDA compiler ({_reason(problem)}): {_INSTALL}"
        raise _missing(said) from problem
    return cupy


_INSTALL = "pip install 'bayesmdp[cuda]'"


def _no_devices(runtime: Any, problem: Exception) -> str:
    """Say why CUDA counts no devices; without any driver it calls that too old."""
    why, driver = _reason(problem), runtime.driverGetVersion()
    if "cudaErrorInsufficientDriver" in why and driver:
        versions = (driver, runtime.runtimeGetVersion())
        had, wanted = (f"{v // 1000}.{v % 1000 // 10}" for v in versions)
        return (
            f"finds a driver for CUDA {had}, and CuPy here is made for CUDA {wanted}: "
            "update NVIDIA's driver, take CuPy for an older CUDA (cupy-cuda12x[ctk])"
        )
    if not driver:
        why = "there is no driver"
    return f"finds no GPU ({why}): see what `nvidia-smi` says of GPU and driver"


def _reason(problem: Exception) -> str:
    """Return the line of a message that says most."""
    lines = [line.strip(" =") for line in str(problem).splitlines()]
    lines = [line for line in lines if line] or [type(problem).__name__]
    original = "Original error:"  # so CuPy introduces it
    at = lines.index(original) + 1 if original in lines[:-1] else 0
    return lines[at].rstrip(".")


def _missing(what: str) -> BackendError:
    return BackendError(
        f"`{argument('device', 'cuda')}` {what}, or take {argument('device', 'cpu')}."
    )


@cache
def first_device() -> Device:
    """Return the GPU of this process; ``CUDA_VISIBLE_DEVICES`` says which."""
    return CudaDevice()
