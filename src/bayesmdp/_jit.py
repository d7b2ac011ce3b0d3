"""The one way the package compiles: `jit`, a typed wrapper around numba.

Kernels release the GIL, so threads run them side by side; they are kept on disk
(below), so a new process does not compile again; multiply-adds may
be contracted (faster, and the same on every thread), nothing else may be reordered.
Every kernel takes float64, int64 or uint64 scalars and C-contiguous arrays, so each
compiles once.

A kernel that others call is compiled for them as a *part*: without what only Python
needs, and neither optimised nor translated to machine code by itself, because that is
done again wherever it is taken in. Numba alone would do it at every level of calls,
which takes twice as long and makes nothing faster.

**On disk.** What is kept may be lost, damaged or out of date. Numba's own cache looks
at the file of a kernel, not at the kernels it calls in other files, and unpickles
whatever it finds. Ours is a directory named by the content of all folders with kernels,
in the package or, where that cannot be written, in the user's cache directory
(NUMBA_CACHE_DIR overrules both); a file is used only if its checksum fits. What cannot
be written, read or trusted is compiled in memory, and one warning says so.
"""

import hashlib
import os
import pickle
import sys
import uuid
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import llvmlite
import numba

from bayesmdp._resources import announce
from bayesmdp.errors import CacheWarning

_config: Any = numba.config
_DIGEST = 32  # bytes of a checksum
_COMPILERS = "_jit.py", "_kernel_parts.py"
_happened: set[str] = set()  # in this process


def _first(event: str) -> bool:
    """Whether something happens for the first time in this process."""
    before = event in _happened
    _happened.add(event)
    return not before


def has_compiled() -> bool:
    """Whether this process has compiled a kernel, rather than read all from disk."""
    return "compiling" in _happened


def _warn(problem: object) -> None:
    """Say once that the cache does not serve."""
    if _first("warning"):
        warnings.warn(
            f"Compiled kernels on disk could not be read or written ({problem}); they "
            "were compiled again, in memory. Should this come back, set "
            "NUMBA_CACHE_DIR to a directory that can be written.",
            CacheWarning,
            stacklevel=3,
        )


def _hash(*parts: bytes) -> "hashlib.blake2b":
    """Hash parts; none can pass for the end of another."""
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest


@cache
def _file_digest(path: str) -> bytes:
    """Digest of a source file."""
    return _hash(Path(path).read_bytes()).digest()


@cache
def _places() -> tuple[Path, ...]:
    """Directories for compiled kernels, best first; named by what they depend on.

    That is every file of a folder with kernels: constants and the fields of bundles
    come from files without any.
    """
    package = Path(__file__).parent
    files = {path: path.read_bytes() for path in sorted(package.rglob("*.py"))}
    folders = {path.parent for path, content in files.items() if b"\n@jit" in content}
    parts = [files[package / name] for name in _COMPILERS]
    for path, content in files.items():
        if path.parent in folders:
            parts += [path.relative_to(package).as_posix().encode(), content]
    name = f"kernels-{_hash(*parts).hexdigest()[:16]}"
    if _config.CACHE_DIR:
        return (Path(_config.CACHE_DIR).absolute() / name,)
    bases = package / "__pycache__", _user_cache()
    return tuple(base / name for base in bases if base.is_absolute())


def _user_cache() -> Path:
    """Where programs of this user keep what can be made again."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - stays "~" where there is none
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "bayesmdp"


class Disk:
    """The cache of one kernel, with the methods that numba calls."""

    cache_path = None

    def __init__(self, function: Callable[..., Any]) -> None:
        if function.__closure__ is not None:
            raise AssertionError(
                "the name of a kernel's file cannot tell closures apart"
            )
        self._function = function

    def _name(self, signature: Any, codegen: Any) -> str:
        """File for one signature on this kind of machine."""
        made_with = (
            numba.__version__,
            llvmlite.__version__,
            sys.implementation.cache_tag,
        )
        key = repr((str(signature), codegen.magic_tuple(), made_with)).encode()
        own = _file_digest(self._function.__code__.co_filename)
        where = f"{self._function.__module__}.{self._function.__qualname__}"
        return f"{where}-{_hash(where.encode(), own, key).hexdigest()[:32]}.kernel"

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the compiled kernel, or None where it must be compiled."""
        try:
            target.refresh()
            found = _read(self._name(signature, target.codegen()))
            if found is not None:
                from numba.core import compiler

                result: Any = compiler.CompileResult
                return result._rebuild(target, *pickle.loads(found))
        except Exception as problem:  # whatever it is, compiling helps
            _warn(problem)
        if _first("compiling"):
            announce("compiling kernels (once; about 20 s)")
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what has been compiled."""
        try:
            for environment in compiled._find_referenced_environments():  # of parts
                compiled.codegen.set_env(environment.env_name, environment)
            if compiled.lifted or compiled.library.has_dynamic_globals:
                return  # holds addresses of this process
            from numba.core import serialize

            dumps: Any = serialize.dumps
            name = self._name(signature, compiled.codegen)
            _write(name, dumps(compiled._reduce()))
        except Exception as problem:  # it is in memory, which is enough to go on
            _warn(problem)

    def enable(self) -> None:
        """Do nothing: it is always enabled."""

    def disable(self) -> None:
        """Do nothing: it is always enabled."""

    def flush(self) -> None:
        """Do nothing: other processes may be reading."""


def _read(name: str) -> bytes | None:
    """Content of a file that is as it was written; None where there is no file."""
    problem: Exception | None = None
    for place in _places():
        try:
            whole = (place / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except OSError as other:
            problem = other
            continue
        if whole[:_DIGEST] == _hash(name.encode(), whole[_DIGEST:]).digest():
            return whole[_DIGEST:]
        problem = ValueError(f"{place / name} is damaged")
    if problem is not None:
        raise problem
    return None


def _write(name: str, content: bytes) -> None:
    """Write a file with its checksum, whole or not at all, where that is possible."""
    whole = _hash(name.encode(), content).digest() + content
    for place in _places():
        beside = place / f"{uuid.uuid4().hex}.part"
        try:
            place.mkdir(parents=True, exist_ok=True)
            try:
                beside.write_bytes(whole)
                beside.replace(place / name)
            finally:
                beside.unlink(missing_ok=True)
            return
        except OSError as other:
            problem = other
    raise problem


Kernel = TypeVar("Kernel", bound=Callable[..., Any])
_njit: Any = numba.njit
# Versions of numba that all this is known to work with; others compile as they will.
_KNOWN = (0, 61), (0, 68)


def jit(function: Kernel) -> Kernel:
    """Compile on first call, or read from disk what another process has compiled."""
    return _compiled(function, counts=True)


def jit_uncounted(function: Kernel) -> Kernel:
    """Do the same for a kernel that allocates nothing and returns numbers, if anything.

    With few states, counting references to arrays, and handing bundles of them over,
    takes longer than the arithmetic: such a kernel counts none, and is part of those
    that call it. Numba refuses to allocate there; neither it nor what it calls may
    return arrays, for nobody would give them back (`tests/test_kernels.py`).
    """
    return _compiled(function, counts=False)


def _compiled(function: Kernel, counts: bool) -> Kernel:
    if _config.DISABLE_JIT:
        return function
    options: dict[str, Any] = {
        "nogil": True,
        "fastmath": {"contract"},
        "no_cfunc_wrapper": True,
    }
    known = _KNOWN[0] <= numba.version_info.short <= _KNOWN[1]
    if known:
        # both are said of every kernel: callees would take them over
        options |= {"_nrt": counts, "forceinline": not counts}
    compiled = _njit(function, **options)
    compiled._cache = Disk(function)
    if known:
        from bayesmdp._kernel_parts import PartCompiler

        options |= {"no_cpython_wrapper": True, "pipeline_class": PartCompiler}
        part = _njit(function, **options)
        compiled.get_call_template = part.get_call_template
        compiled.get_overload = part.get_overload
    return compiled  # type: ignore[no-any-return]
