"""Runs and results changed by somebody who makes the checksums right again."""

import base64
import hashlib
import json
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np


def seal(record: dict[str, Any]) -> dict[str, Any]:
    """Give a record the checksum of what it says."""
    record.pop("checksum", None)
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return record | {"checksum": hashlib.sha256(text.encode()).hexdigest()}


def packed(content: bytes, kind: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """Claim that bytes are an array of that kind and shape."""
    text = base64.b64encode(zlib.compress(content)).decode()
    return {"kind": kind, "shape": list(shape), "zlib": text}


def many_zeros(kind: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """Pack an array of zeros without making it."""
    packer, size = zlib.compressobj(), math.prod(shape) * np.dtype(kind).itemsize
    parts = [
        packer.compress(bytes(min(10**6, size - i))) for i in range(0, size, 10**6)
    ]
    text = base64.b64encode(b"".join([*parts, packer.flush()])).decode()
    return {"kind": kind, "shape": list(shape), "zlib": text}


def as_array(array: Any) -> dict[str, Any]:
    """Write an array as a run holds it."""
    array = np.asarray(array)
    return packed(array.tobytes(), array.dtype.str, array.shape)


def array_of(said: dict[str, Any]) -> Any:
    """Read an array as anyone can."""
    content = zlib.decompress(base64.b64decode(said["zlib"]))
    return np.frombuffer(content, said["kind"]).reshape(said["shape"])


def rewritten(path: Path, **changes: Any) -> None:
    """Change what a file says."""
    path.write_text(json.dumps(seal(json.loads(path.read_text()) | changes)))


def with_arrays(path: Path, **said: Any) -> None:
    """Change what a file says of its arrays."""
    arrays = json.loads(path.read_text())["arrays"]
    for name, array in said.items():
        as_is = isinstance(array, dict) or array is None or isinstance(array, str)
        arrays[name] = array if as_is else as_array(array)
    rewritten(path, arrays=arrays)
