"""The kernels of `bayesmdp.engine._gpu` compiled for the CPU, one thread per block.

It runs the same source and the same Python as a GPU does; what it cannot show is
whether threads of a block get in each other's way.
"""

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import get_ident
from typing import Any

import numpy as np

from bayesmdp.engine._gpu import GPU
from bayesmdp.engine._gpu_device import Device, Launch, source_of

_COMPILED = TemporaryDirectory()  # until the process ends
COMPILER = next((x for x in ("c++", "g++", "clang++") if shutil.which(x)), None)
_SCALARS = {
    int: ctypes.c_longlong,
    float: ctypes.c_double,
    np.uint64: ctypes.c_ulonglong,
}


def _given(argument: Any) -> Any:
    """Return an argument as C takes it."""
    if isinstance(argument, np.ndarray):
        assert argument.flags.c_contiguous
        return ctypes.c_void_p(argument.ctypes.data)
    if isinstance(argument, np.integer) and not isinstance(argument, np.uint64):
        argument = int(argument)
    return _SCALARS[type(argument)](argument)


@cache
def _library(sources: tuple[str, ...], options: tuple[str, ...]) -> ctypes.CDLL:
    assert COMPILER is not None
    number = len(list(Path(_COMPILED.name).iterdir()))
    folder = Path(_COMPILED.name) / str(number)
    folder.mkdir()
    (folder / "kernels.cpp").write_text(source_of(*sources), "utf-8")
    out = folder / "kernels.so"
    command = [COMPILER, "-O2", "-std=c++17", "-shared", "-fPIC", *options]
    subprocess.run([*command, "-o", out, folder / "kernels.cpp"], check=True)
    return ctypes.CDLL(str(out))


class HostDevice(Device):
    """Stands in for a GPU of three multiprocessors, whose warps have one lane."""

    name, n_processors, warp, most_threads = "the CPU", 3, 1, 1

    def __init__(self, free: int = 2**30, shared_bytes: int = 200_000) -> None:
        super().__init__(np)
        self.free, self.shared_bytes = free, shared_bytes
        self.launched: list[str] = []
        self.threads: set[int] = set()  # that launched
        self.constants: list[dict[str, object]] = []  # of kernels

    def kernel(
        self, sources: tuple[str, ...], name: str, **constants: object
    ) -> Launch:
        options = tuple(f"-D{k}={v}" for k, v in constants.items())
        library = _library(sources, options)
        self.constants.append(constants)
        run = getattr(library, name)

        def launch(
            blocks: int, threads: int, arguments: tuple[Any, ...], shared: int = 0
        ) -> None:
            self.launched.append(name)
            self.threads.add(get_ident())
            given = [_given(argument) for argument in arguments]
            for block in range(blocks):
                library.set_block(ctypes.c_longlong(block), ctypes.c_longlong(blocks))
                run(*given)

        return launch

    def put(self, array: Any) -> Any:
        return np.ascontiguousarray(array).copy()

    def get(self, array: Any) -> Any:
        return np.array(array)

    def free_bytes(self) -> int:
        return self.free


class HostGPU(GPU):
    """The backend on this device; other processes make their own."""

    def __init__(self, name: str = "host", **how: Any) -> None:
        super().__init__(name, HostDevice(**how))
        self.how = how

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.name, self.how)


def _again(name: str, how: dict[str, Any]) -> HostGPU:
    return HostGPU(name, **how)
