"""Checks of what users hand in, each worded once.

A check returns the value in the form the package uses inside (a read-only
``float64`` or ``int64`` array, a plain ``int`` or ``float``) or raises the error
class it was given, with a sentence that names the parameter and the first offender.

Messages spell an argument as in Python, or as an option of the command line: one table
maps arguments to options, so that a remedy can be typed where it is read.
"""

import hashlib
import importlib
import operator
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayesmdp._typing import BoolArray, FloatArray, IntArray, Seed
from bayesmdp.errors import ArgumentError, BayesmdpError, BayesmdpWarning

ErrorClass = type[BayesmdpError]
Array = TypeVar("Array", FloatArray, IntArray, BoolArray)

MAX_SEED = 2**64
MAX_ID = 10**7  # an id beyond is a code of some register, not a number of a state
SUM_TOLERANCE = 1e-8


def frozen(array: Array) -> Array:
    """Return the array read-only, copied unless nobody else can write to it."""
    if array.flags.writeable or array.base is not None:
        array = array.copy()
        array.flags.writeable = False
    return array


def sealed(array: Array) -> Array:
    """Make an array of our own read-only in place, and return it."""
    array.flags.writeable = False
    return array


def read_only(array: np.ndarray) -> Any:
    """Read-only view: numba compiles once for inputs that all look the same."""
    view = np.require(array, requirements=("C", "A")).view()
    view.flags.writeable = False
    return view


def writable(array: np.ndarray) -> Any:
    """Return the array, or a copy that may be written to.

    Vectors and rows that kernels are given then have the type of those they make
    themselves, and what they call compiles once for both. Nothing writes to them.
    """
    return np.require(array, requirements=("C", "A", "W"))


def place(index: tuple[int, ...], axes: tuple[str, ...]) -> str:
    """Name an element: ``state 3, action 0``."""
    return ", ".join(f"{a} {int(i)}" for a, i in zip(axes, index, strict=False))


def first_true(mask: BoolArray) -> tuple[int, ...]:
    """Index of the first True element."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def any_array(name: str, value: object, error: ErrorClass) -> NDArray[Any]:
    """Return an array of whatever is in it; ragged lists have no shape."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError):
        raise error(
            f"`{name}` must be an array or a list whose rows have the same length."
        ) from None


def float_array(
    name: str,
    value: object,
    axes: tuple[str, ...],
    error: ErrorClass,
    shape: tuple[int, ...] | None = None,
) -> FloatArray:
    """Return finite float64 numbers of the given axes (and shape), read-only."""
    raw = any_array(name, value, error)
    try:
        if raw.dtype.kind not in "iufbO":
            raise TypeError
        array = np.ascontiguousarray(raw, dtype=np.float64)
    except (TypeError, ValueError):
        raise error(f"`{name}` must hold numbers{_but(value, raw, axes)}.") from None
    if array.ndim != len(axes) or (shape is not None and array.shape != shape):
        n = f"{len(axes)} ax{'i' if len(axes) == 1 else 'e'}s"
        wanted = f"shape {shape}" if shape is not None else n
        raise error(
            f"`{name}` must have {wanted} ({', '.join(axes)}); got {array.shape}."
        )
    bad = ~np.isfinite(array)
    if bad.any():
        where = first_true(bad)
        raise error(f"`{name}` must be finite: {place(where, axes)} is {array[where]}.")
    return frozen(array)


def _but(value: object, raw: NDArray[Any], axes: tuple[str, ...]) -> str:
    """Name the first thing that is no number, as far as axes have names."""
    if 0 < raw.ndim <= len(axes):
        # As text, which an array makes of numbers beside it, they are none.
        for index, x in np.ndenumerate(np.array(value, dtype=object)):
            try:
                if isinstance(x, str | bytes):
                    raise TypeError
                float(x)
            except (TypeError, ValueError):
                return f": {place(index, axes)} is {x!r:.40}"
    return f"; got {value!r:.80}"


def sum_tolerance(value: object) -> float:
    """How far from 1 sums of probabilities may be in the precision they came in."""
    kind = np.asarray(value).dtype
    rough = kind.kind == "f" and kind.itemsize < 8
    return 16 * float(np.finfo(kind).eps) if rough else SUM_TOLERANCE


def sums_to_divide(name: str, total: FloatArray, tolerance: float) -> FloatArray:
    """Return what to divide rows by, given their sums; says aloud where it is not 1."""
    off = np.abs(total - 1.0)
    rough = (off > SUM_TOLERANCE) & (off <= tolerance)
    if rough.any() and off.max() <= tolerance:  # otherwise it is refused anyhow
        warnings.warn(
            f"`{name}` is of low precision: {int(rough.sum())} of {total.size} sums of "
            f"probabilities are off 1 by up to {off[rough].max():.1g}, and were "
            "divided out.",
            BayesmdpWarning,
            stacklevel=4,
        )
    return np.where(rough, total, 1.0)


def shares(name: str, value: object, of: str, n: int, error: ErrorClass) -> FloatArray:
    """Return ``n`` probabilities that sum to 1, read-only; ``of`` says of what."""
    found = float_array(name, value, (of,), error, (n,))
    if (found < 0).any():
        i = int(np.argmax(found < 0))
        raise error(f"`{name}` must not be negative: {of} {i} has {found[i]:g}.")
    found = found / sums_to_divide(name, found.sum(keepdims=True), sum_tolerance(value))
    if abs(found.sum() - 1.0) > SUM_TOLERANCE:
        raise error(f"`{name}` must sum to 1; the sum is {found.sum():.10g}.")
    return sealed(found)


def index_array(
    name: str,
    value: object,
    error: ErrorClass,
    upper: int | None = None,
    of: str = "row",
) -> IntArray:
    """Return whole numbers in ``0..upper-1`` as a one-axis int64 array."""
    array = any_array(name, value, error)
    if array.ndim != 1:
        raise error(f"`{name}` must have one axis ({of}); got shape {array.shape}.")
    whole = whole_numbers(name, array, error, of)
    bad = whole < 0 if upper is None else (whole < 0) | (whole >= upper)
    if bad.any():
        i = int(np.argmax(bad))
        bound = "0 or more" if upper is None else f"in 0..{upper - 1}"
        raise error(f"`{name}` must be {bound}: {of} {i} has {int(whole[i])}.")
    return frozen(whole)


def whole_numbers(
    name: str, array: np.ndarray, error: ErrorClass, of: str = "row"
) -> IntArray:
    """Return integer-valued numbers as int64; fractions and NaN are errors."""
    if array.dtype.kind == "b" or array.dtype.kind not in "iuf":
        if array.size == 0:
            return np.zeros(array.shape, dtype=np.int64)
        raise error(f"`{name}` must hold whole numbers; got dtype {array.dtype}.")
    if array.dtype.kind == "f":
        bad = ~(np.isfinite(array) & (array == np.floor(array)))
        bad |= np.abs(np.where(bad, 0, array)) >= 2.0**53
        if bad.any():
            where = first_true(bad)
            at = place(where, (of,) if array.ndim == 1 else _axes(array.ndim))
            raise error(f"`{name}` must hold whole numbers: {at} is {array[where]}.")
    elif array.dtype.kind == "u" and array.size and array.max() > 2**62:
        raise error(f"`{name}` must be below 2**62; got {array.max()}.")
    return np.ascontiguousarray(array, dtype=np.int64)


def _axes(n: int) -> tuple[str, ...]:
    return ("state", "action", "next_state")[:n]


def size(name: str, value: object, error: ErrorClass) -> int:
    """Return a number of states or actions."""
    number = integer(name, value, 1, error)
    if number > MAX_ID + 1:
        raise error(
            f"`{name}` must be at most {MAX_ID + 1}, since ids end at {MAX_ID}; got "
            f"{number}."
        )
    return number


def size_or_none(name: str, value: object, error: ErrorClass) -> int | None:
    """Return a number of states or actions, or None where it was not given."""
    return None if value is None else size(name, value, error)


def triplets(
    state: object,
    action: object,
    next_state: object,
    n_states: int | None,
    n_actions: int | None,
    error: ErrorClass,
    of: str = "",
) -> dict[str, IntArray]:
    """Return three columns of ids by name; ``of`` says whose they are in messages."""
    return {
        "state": index_array(f"{of}state", state, error, n_states),
        "action": index_array(f"{of}action", action, error, n_actions),
        "next_state": index_array(f"{of}next_state", next_state, error, n_states),
    }


def same_length(
    columns: Mapping[str, NDArray[Any]], error: ErrorClass, of: str = "Columns"
) -> None:
    """Refuse columns of different length."""
    if len({column.size for column in columns.values()}) > 1:
        said = ", ".join(f"`{name}` has {c.size}" for name, c in columns.items())
        raise error(f"{of} must have the same number of rows: {said}.")


def flags(name: str, value: object, error: ErrorClass) -> BoolArray:
    """Return booleans, also given as 0 and 1, as a read-only array."""
    array = any_array(name, value, error)
    if array.dtype.kind in "iuf" and np.isin(array, (0, 1)).all():
        array = array.astype(np.bool_)
    if array.dtype != np.bool_ or array.ndim != 1:
        raise error(f"`{name}` must hold True and False, or 0 and 1, one a row.")
    return frozen(array)


def of_type(name: str, value: object, kind: type, error: ErrorClass) -> None:
    """Refuse an object of another class; NumPy's truth values are such."""
    if not isinstance(value, (bool, np.bool_) if kind is bool else kind):
        raise error(
            f"`{name}` must be of type {kind.__name__}; got {type(value).__name__}."
        )


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Suggest, in brackets, the name that a wrong one resembles; or nothing."""
    near = nearest(str(word), known)
    return f" (did you mean {near!r}?)" if near is not None else ""


def nearest(word: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """Return the name that resembles a word most, upper case or lower, if one does."""
    lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), lower, 1, alike)
    return lower[found[0]] if found else None


def extra(module: str, name: str, needed_by: str) -> Any:
    """Import a package that only the extra ``name`` brings."""
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        raise ArgumentError(
            f"`{needed_by}` needs {module}, which is not installed; "
            f'`pip install "bayesmdp[{name}]"` gets it.'
        ) from problem


def integer(name: str, value: object, low: int, error: ErrorClass) -> int:
    """Return a plain int that is at least ``low``."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise error(f"`{name}` must be a whole number; got {value!r:.80}.") from None
    if number < low:
        raise error(f"`{name}` must be at least {low}; got {number}.")
    return number


def many(n: int, what: str) -> str:
    """Say how many: 1 row, 2 rows, 2 entries, 2 stays."""
    if n == 1:
        return f"{n} {what}"
    if what.endswith("y") and what[-2] not in "aeo":
        return f"{n} {what[:-1]}ies"
    return f"{n} {what}s"


def sizes(**numbers: int) -> str:
    """Say several numbers: ``2 states, 1 action``, of ``state=2, action=1``."""
    return ", ".join(many(n, x.replace("_", " ")) for x, n in numbers.items())


def real(
    name: str,
    value: object,
    error: ErrorClass,
    low: float,
    high: float = float("inf"),
    *,
    open_low: bool = False,
) -> float:
    """Return a finite float in ``[low, high]`` (or ``(low, high]``)."""
    left = "(" if open_low else "["
    right = ")" if high == float("inf") else "]"
    domain = f" in {left}{low:g}, {high:g}{right}"
    must = f"be{domain}"
    if -low == high == np.inf:
        domain, must = "", "be finite"
    try:
        if isinstance(value, str):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise error(f"`{name}` must be a number{domain}; got {value!r:.80}.") from None
    inside = (low < number if open_low else low <= number) and number <= high
    if not (inside and np.isfinite(number)):
        raise error(f"`{name}` must {must}; got {number:g}.")
    return number


def seed_integer(seed: Seed) -> int:
    """Turn a seed into an int in ``0..2**64-1``; a Generator is advanced once."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(0, MAX_SEED, dtype=np.uint64))
    number = integer("seed", seed, 0, ArgumentError)
    if number >= MAX_SEED:
        raise ArgumentError(f"`seed` must be below 2**64; got {number}.")
    return number


def stream_key(seed: int, purpose: str) -> NDArray[np.uint64]:
    """Key of streams of random numbers, uint64 ``[2]``: seed, and hash of a purpose."""
    digest = hashlib.blake2b(purpose.encode(), digest_size=8).digest()
    key = np.array([seed, int.from_bytes(digest, "little")], dtype=np.uint64)
    key.flags.writeable = False
    return key


def thread_count(threads: int | None) -> int:
    """Return how many threads to use: the argument, BAYESMDP_THREADS, or every core."""
    if threads is not None:
        return integer("threads", threads, 1, ArgumentError)
    said = os.environ.get("BAYESMDP_THREADS", "").strip()
    if said:
        try:
            return integer("BAYESMDP_THREADS", int(said), 1, ArgumentError)
        except ValueError as problem:
            if isinstance(problem, BayesmdpError):
                raise
            raise ArgumentError(
                f"`BAYESMDP_THREADS` must be a whole number; got {said!r}."
            ) from None
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


#: In Python, and on the command line.
_SPELLED = {
    "censored": ("censored=[...]", "--censored LABEL"),
    "concentration": ("concentration", "--concentration"),
    "device": ("device={0!r}", "--device {0}"),
    "effort": ("effort", "--effort"),
    "episode": (
        "columns={{'episode': ...}}, or give `episode` as an array",
        "--columns episode=NAME",
    ),
    "every": ("every=...", "--every LENGTH"),
    "fallback": ("FallbackPrior(prior, state)", "--fallback STATE"),
    "hierarchical": ("HierarchicalPrior()", "--prior hierarchical"),
    "labels": ("labels=True", "--labels"),
    "min_count": ("min_count={0}", "--min-count {0}"),
    "missing": ("missing=[...]", "--missing CODE"),
    "outcome": (
        "outcome={{'2': 'death', '0': 'censored'}}",
        "--outcome 2=death --outcome 0=censored",
    ),
    "overwrite": ("overwrite=True", "--overwrite"),
    "permute": ("permute={0!r}", "--permute {0}"),
    "restrict": ("`bm.restrict(policy, posterior)`", "--restrict"),
    "resume": ("`resume`", "--resume"),
    "reward": ("`reward={0!r}`", "--reward {0}"),
    "own starts": ("; policies of your own need names, in a dict", ""),
    "source": ("`source`: ", ""),
    "thorough": ("effort='thorough'", "--effort thorough"),
    "time": ("time='...'", "--time COLUMN"),
    # where a function has no `reward`
    "posterior": ("`posterior.with_reward({0!r})`", "--reward {0}"),
    "task": ("`task.with_reward({0!r})`", "--reward {0}"),
}
_options = [False]


def argument(name: str, value: object = None) -> str:
    """Spell an argument, with its value where it needs one."""
    return _SPELLED[name][_options[-1]].format(value)


def column(role: str, name: str | None = None) -> str:
    """Spell how the column of a role is named, or one that is to be found."""
    if _options[-1]:
        return f"--columns {role}={name or 'NAME'}"
    return f"columns={{{role!r}: {'...' if name is None else repr(name)}}}"


@contextmanager
def spelled_as_options() -> Iterator[None]:
    """Have messages speak of options, as long as a command runs."""
    _options.append(True)
    try:
        yield
    finally:
        _options.pop()
