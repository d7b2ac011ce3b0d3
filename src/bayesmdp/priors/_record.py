"""Priors as plain dicts that JSON can hold, and back.

A prior is its class and its fields. Numbers, text and None stand for themselves; what
JSON has no word for is a dict with one key that says what it is::

    {"kind": "SparsePrior", "concentration": 1.0, "fallback": "death"}
    {"tuple": [...]}  {"mapping": [[key, value], ...]}  {"number": "inf"}
    {"array": {"dtype": "<i8", "shape": [3], "zlib": base64 of the packed bytes}}

Boolean arrays take one bit an entry before they are packed. Every prior that the room
lists is known, so that a new one needs nothing here.
"""

import base64
import dataclasses
import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._io import MOST_PACKED
from bayesmdp._memory import check_room
from bayesmdp.errors import BayesmdpError, PriorError
from bayesmdp.priors._named import AnyPrior

_DEPTH = 30  # priors inside priors; more is damage
_KINDS = "biufU"  # of arrays


def prior_to_dict(prior: AnyPrior) -> dict[str, Any]:
    """Describe a prior by a dict of what JSON can hold.

    Parameters
    ----------
    prior
        One of this package; its fields hold numbers, text, arrays, priors, or lists,
        tuples and mappings of them.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.priors.prior_to_dict(bm.SparsePrior(fallback="death"))
    {'kind': 'SparsePrior', 'concentration': 1.0, 'fallback': 'death'}
    """
    record = _encode(prior, "prior", 0)
    if not (isinstance(record, dict) and "kind" in record):
        raise PriorError(f"`prior` must be a prior; got {prior!r:.80}.")
    return record


def prior_from_dict(record: Mapping[str, Any]) -> AnyPrior:
    """Make the prior that `prior_to_dict` described.

    Parameters
    ----------
    record
        What `prior_to_dict` returned; also after a trip through JSON.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.priors.prior_from_dict({"kind": "SymmetricPrior", "concentration": 0.5})
    SymmetricPrior(concentration=0.5)
    """
    if not isinstance(record, dict) or "kind" not in record:
        raise PriorError(
            f"`prior` must be a dict with a 'kind', such as SparsePrior; got "
            f"{record!r:.80}."
        )
    prior = _decode(record, "prior", 0)
    if not isinstance(prior, AnyPrior):
        raise PriorError(f"`prior` must be a prior; got {type(prior).__name__}.")
    return prior


def _registry() -> dict[str, type]:
    """Every prior of the room that is a dataclass, by name."""
    from bayesmdp import priors

    found = {name: getattr(priors, name) for name in priors.__all__}
    return {
        name: item
        for name, item in found.items()
        if isinstance(item, type)
        and dataclasses.is_dataclass(item)
        and name not in ("Cells", "EvidenceCurve")  # records, not priors
    }


def _check_depth(where: str, depth: int) -> None:
    if depth > _DEPTH:
        raise PriorError(f"`{where:.80}` is nested more than {_DEPTH} times.")


def _encode(value: Any, where: str, depth: int) -> Any:
    """Describe one value; ``where`` is its place, for messages."""
    _check_depth(where, depth)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"number": repr(value)}
    if isinstance(value, np.ndarray):
        return {"array": _encode_array(value, where)}

    def inner(item: Any, name: object) -> Any:
        return _encode(item, f"{where}.{name}", depth + 1)

    if isinstance(value, list):
        return [inner(x, i) for i, x in enumerate(value)]
    if isinstance(value, tuple):
        return {"tuple": [inner(x, i) for i, x in enumerate(value)]}
    if isinstance(value, Mapping):
        odd = next((k for k in value if not isinstance(k, str | int)), None)
        if odd is not None:
            raise PriorError(f"`{where}` has a key that cannot be saved: {odd!r:.80}.")
        return {"mapping": [[k, inner(x, k)] for k, x in value.items()]}
    return _encode_prior(value, where, inner)


def _encode_prior(
    value: Any, where: str, inner: Callable[[Any, object], Any]
) -> dict[str, Any]:
    kind = type(value)
    known = _registry()
    if known.get(kind.__name__) is not kind:
        raise PriorError(
            f"`{where}` is of type {kind.__name__}, which cannot be saved (known are "
            f"{', '.join(sorted(known))}): keep the log, and `fit` gives the same "
            "posterior again."
        )
    fields = [x.name for x in dataclasses.fields(kind) if x.init]
    values = {name: inner(getattr(value, name), name) for name in fields}
    return {"kind": kind.__name__, **values}


def _encode_array(array: NDArray[Any], where: str) -> dict[str, Any]:
    if array.dtype.kind not in _KINDS:
        raise PriorError(
            f"`{where}` holds an array of {array.dtype}, which cannot be saved; give "
            "numbers, text or True and False."
        )
    plain = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    data = np.packbits(plain) if array.dtype == np.bool_ else plain
    packed = base64.b64encode(zlib.compress(data.tobytes(), 6)).decode("ascii")
    return {"dtype": plain.dtype.str, "shape": list(array.shape), "zlib": packed}


def _decode(value: Any, where: str, depth: int) -> Any:
    """Make one value; ``where`` is its place, for messages."""
    _check_depth(where, depth)
    if value is None or isinstance(value, bool | int | float | str):
        return value

    def inner(item: Any, name: object) -> Any:
        return _decode(item, f"{where}.{name}", depth + 1)

    if isinstance(value, list):
        return [inner(x, i) for i, x in enumerate(value)]
    if not isinstance(value, dict):
        raise PriorError(f"`{where}` is of type {type(value).__name__}: unknown here.")
    if "kind" in value:
        return _decode_prior(value, where, inner)
    return _decode_tagged(value, where, inner)


def _decode_tagged(
    value: dict[str, Any], where: str, inner: Callable[[Any, object], Any]
) -> Any:
    """Make what JSON has no word for."""
    if len(value) == 1:
        ((tag, content),) = value.items()
        if tag == "array":
            return _decode_array(content, where)
        if tag == "number" and content in ("nan", "inf", "-inf"):
            return float(content)
        if tag == "tuple" and isinstance(content, list):
            return tuple(inner(x, i) for i, x in enumerate(content))
        if tag == "mapping" and _are_pairs(content):
            return {k: inner(x, k) for k, x in content}
    raise PriorError(f"`{where}` is none of a number, text, array or prior.")


def _are_pairs(content: Any) -> bool:
    """Whether this lists keys, which are text or whole numbers, and values."""
    return isinstance(content, list) and all(
        isinstance(x, list) and len(x) == 2 and isinstance(x[0], str | int)
        for x in content
    )


def _decode_prior(
    record: dict[str, Any], where: str, inner: Callable[[Any, object], Any]
) -> Any:
    known, name = _registry(), record["kind"]
    if name == "PooledPrior":
        raise PriorError(
            f"`{where}`: there is no PooledPrior any more, as it counted data twice; "
            "fit the data again with HierarchicalPrior() (--prior hierarchical)."
        )
    if name == "HierarchicalSparsePrior":
        raise PriorError(
            f"`{where}`: HierarchicalSparsePrior is now RandomSupportPrior (--prior "
            "random-support); fit the data again."
        )
    if not isinstance(name, str) or name not in known:
        hint = _checks.did_you_mean(name, known)
        raise PriorError(
            f"`{where}` is of an unknown kind, {name!r:.80}{hint}; known are "
            f"{', '.join(sorted(known))}: a newer bayesmdp may know it."
        )
    fields = {x.name for x in dataclasses.fields(known[name]) if x.init}
    strange = next((x for x in record if x != "kind" and x not in fields), None)
    if strange is not None:
        raise PriorError(
            f"`{where}`: {name} has no field {strange!r:.80}; it has "
            f"{', '.join(sorted(fields))}."
        )
    values = {key: inner(x, key) for key, x in record.items() if key != "kind"}
    try:
        return known[name](**values)
    except BayesmdpError:
        raise
    except (TypeError, ValueError, AttributeError) as problem:
        raise PriorError(
            f"`{where}`: {name} cannot be made from its record: {problem}."
        ) from problem


def _decode_array(record: Any, where: str) -> NDArray[Any]:
    try:
        kind, shape = np.dtype(record["dtype"]), tuple(record["shape"])
        if kind.kind not in _KINDS or any(type(n) is not int or n < 0 for n in shape):
            raise ValueError("its dtype or shape")
        size = math.prod(shape)
        n_bytes = -(-size // 8) if kind == np.bool_ else size * kind.itemsize
        packed = base64.b64decode(record["zlib"], validate=True)
        if n_bytes > MOST_PACKED * len(packed):
            raise ValueError(f"it claims {n_bytes} bytes, and {len(packed)} are packed")
        remedy = "read it on a larger machine"
        check_room(2 * size * kind.itemsize, f"`{where}` takes", lambda _: remedy)
        data = zlib.decompressobj().decompress(packed, n_bytes + 1)
        if len(data) != n_bytes:
            raise ValueError("its length")
        if kind == np.bool_:
            bits = np.unpackbits(np.frombuffer(data, np.uint8), count=size)
            return _checks.sealed(bits.astype(np.bool_).reshape(shape))
        array = np.frombuffer(data, kind).reshape(shape)
        native: NDArray[Any] = array.astype(kind.newbyteorder("="))
        native.flags.writeable = False
        return native
    except BayesmdpError:
        raise
    except (KeyError, TypeError, ValueError, SyntaxError, zlib.error) as problem:
        raise PriorError(
            f"`{where}` is not an array as it was saved: {problem}."
        ) from problem
