"""Which files are meant, and what they are, before any of them is opened."""

import glob
import os
import re
import stat
import zlib
from pathlib import Path
from typing import Any

from bayesmdp._checks import argument
from bayesmdp.errors import ArgumentError, CountsError

KINDS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
PACKED = {".gz": "gzip", ".zst": "zstd"}
_CHUNK = 2**20
#: How files begin that people take for text, or that are packed.
MAGIC: dict[str, bytes | tuple[bytes, ...]] = {
    "gzip": b"\x1f\x8b",
    "zstd": b"\x28\xb5\x2f\xfd",
    "Parquet": b"PAR1",
    "a spreadsheet or an archive": b"PK\x03\x04",
    "UTF-16": (b"\xff\xfe", b"\xfe\xff"),
}


def _refusal(said: str) -> ArgumentError:
    return ArgumentError(f"{argument('source')}{said}")


def is_paths(source: object) -> bool:
    """Tell files from dataframes."""
    return isinstance(source, str | os.PathLike | list | tuple)


def paths_of(source: Any) -> list[str]:
    """Return every file meant, or say which is not there."""
    given = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not given:
        raise ArgumentError("`source` is an empty list of files.")
    paths: list[str] = []
    for item in given:
        if not isinstance(item, str | os.PathLike):
            raise ArgumentError(
                "`source` must be a path, a list of paths or a dataframe; got a list "
                f"with {item!r:.80}."
            )
        paths += _matches(os.fsdecode(item))
    for path in paths:
        _check_file(path)
    real = [os.path.realpath(path) for path in paths]
    twice = next((x for i, x in enumerate(paths) if real[i] in real[:i]), None)
    if twice is not None:
        raise ArgumentError(
            f"`source` has `{twice}` twice: its rows would count twice."
        )
    return paths


def _matches(given: str) -> list[str]:
    """Return the file of that name, or the files that a pattern means, sorted."""
    if not given:
        raise ArgumentError("`source` is an empty path.")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", given):
        raise _refusal(
            f"`{given}` is an address, and only files on this machine are "
            "read: fetch it first, or give a DuckDB relation or a polars scan of it."
        )
    try:
        path = str(Path(given).expanduser())
    except RuntimeError:
        raise _refusal(f"`{given}` names a user unknown here.") from None
    if not glob.has_magic(path) or os.path.lexists(path):
        return [path]
    # Path.glob would need the part without wildcards apart.
    found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207
    files = [x for x in found if not Path(x).is_dir()]
    if not files:
        raise _refusal(f"no file matches `{path}`.")
    return files


def _check_file(name: str) -> None:
    path = Path(name)
    try:
        name.encode()
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise _refusal(f"there is no file `{path}`.") from None
    except UnicodeEncodeError:
        raise _refusal(f"the name {name!r} is not UTF-8: rename the file.") from None
    except (OSError, ValueError) as problem:  # loops of links, names too long
        reason = getattr(problem, "strerror", None) or str(problem)
        said = f"`{name:.80}` cannot be opened: {reason.lower()}."
        raise _refusal(said) from problem
    if stat.S_ISDIR(mode):
        raise _refusal(
            f"`{path}` is a directory; name its files, such as `{path / '*.parquet'}`."
        )
    if not stat.S_ISREG(mode):
        raise _refusal(
            f"`{path}` is no plain file, and files are read more than once: "
            "save its content as one."
        )
    if not os.access(path, os.R_OK):
        raise _refusal(f"`{path}` may not be read: permission denied.")
    if path.stat().st_size == 0:
        raise CountsError(f"`{path}` is empty.")
    _check_content(path)


def _check_content(path: Path) -> None:
    """Refuse what its first bytes say is something else than its name says."""
    kind, packing = _named(path)
    with path.open("rb") as file:
        start = file.read(4096)
    found = next((x for x, magic in MAGIC.items() if start.startswith(magic)), None)
    if packing is not None:
        if found != packing:
            raise CountsError(
                f"`{path}` is not packed with {packing}, as its name says: rename it, "
                "or pack it again."
            )
        if packing == "gzip" and not _is_sound_gzip(path):
            raise CountsError(f"`{path}` was cut short or damaged: pack it again.")
    elif kind == "parquet":
        if found != "Parquet":
            raise CountsError(f"`{path}` is no Parquet file, whatever its name says.")
    elif found in ("gzip", "zstd", "Parquet"):
        raise CountsError(f"`{path}` is in truth {found}: its name must say so.")
    elif found is not None:
        raise CountsError(
            f"`{path}` is {found}, not plain text: save it as CSV in UTF-8, or as "
            "Parquet."
        )
    elif b"\0" in start:
        raise CountsError(f"`{path}` is not text: it holds zero bytes.")


def _is_sound_gzip(path: Path) -> bool:
    """Unpack it once, for the checksum and the length, at which DuckDB does not look.

    zstd's checksum, where a file has one, is looked at while it is read.
    """
    gzip = zlib.MAX_WBITS + 16
    member = zlib.decompressobj(gzip)
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                while chunk:
                    if member.eof:
                        member = zlib.decompressobj(gzip)
                    member.decompress(chunk, _CHUNK)
                    chunk = member.unconsumed_tail or member.unused_data
    except zlib.error:
        return False
    return member.eof


def kind_of(path: str) -> str:
    """Return what a file is, by its name."""
    kind, packing = _named(Path(path))
    if kind is None:
        raise _refusal(
            f"the name of `{path}` does not say what it is; it must end in "
            f"{', '.join(KINDS)}, text also with {' or '.join(PACKED)}."
        )
    if kind == "parquet" and packing is not None:
        raise _refusal(
            f"`{path}` is packed twice, for Parquet is packed inside: unpack it."
        )
    return kind


def _named(path: Path) -> tuple[str | None, str | None]:
    """Return what the name of a file says that it is, and how it is packed."""
    packing = PACKED.get(path.suffix.lower())
    bare = path if packing is None else path.with_suffix("")
    return KINDS.get(bare.suffix.lower()), packing
