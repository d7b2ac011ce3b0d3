"""Where a run is, and the head of it."""

import os
from pathlib import Path
from typing import Any

from bayesmdp import _checks
from bayesmdp._io import worded
from bayesmdp.data import Findings
from bayesmdp.errors import BayesmdpError, StorageError
from bayesmdp.storage._files import read_head

FORMAT = "bayesmdp run"
SCHEMA = 1  # raised when an older bayesmdp could no longer read what this one writes
HEAD = "config.json"


def check_target(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Say before a long job whether `save` would refuse the directory.

    Parameters
    ----------
    path
        Where the run shall be.
    overwrite
        Whether a run that is there may be replaced.

    Examples
    --------
    >>> import tempfile, bayesmdp as bm
    >>> bm.storage.check_target(tempfile.mkdtemp())
    """
    directory = as_path(path)
    with worded(directory, "written"):
        if not directory.exists():
            if not directory.parent.is_dir():
                raise StorageError(
                    f"`{directory}` cannot be written: there is no directory "
                    f"`{directory.parent}`; make it first."
                )
            return
        if not directory.is_dir():
            raise StorageError(
                f"`{directory}` is a file; a run is a directory: name another."
            )
        names = {x.name for x in directory.iterdir() if x.name[0] != "."}
        if HEAD in names:
            _check_replaceable(directory, overwrite)
        elif names:
            raise StorageError(
                f"`{directory}` holds other files, such as `{min(names)}`: name a new "
                "or an empty directory."
            )


def _check_replaceable(directory: Path, overwrite: bool) -> None:
    if not overwrite:
        raise StorageError(
            f"`{directory}` holds a run already: name another directory, or say that "
            "it may be replaced (overwrite=True, --overwrite)."
        )
    try:
        read_head(directory / HEAD, FORMAT, SCHEMA)
    except StorageError as problem:
        raise StorageError(
            f"`{directory}` is not replaced, since it may be no run of this bayesmdp; "
            f"name another directory, or delete it yourself: {problem}"
        ) from problem


def as_path(path: str | os.PathLike[str]) -> Path:
    """Check what should be a path."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise StorageError(f"`path` must be the path of a directory; got {path!r:.80}.")
    return Path(path)


def read_config(directory: Path) -> dict[str, Any]:
    """Read and check the head of a run."""
    with worded(directory, "read"):
        if not directory.exists():
            raise StorageError(f"There is no directory `{directory}`.")
        if not (directory / HEAD).exists():
            raise StorageError(
                f"`{directory}` is not a run: it has no `{HEAD}`; name a directory "
                "that `storage.save` or `bayesmdp fit` wrote."
            )
    config = read_head(directory / HEAD, FORMAT, SCHEMA)
    for name, kind in (_FIELDS | _MORE).items():
        there = name in config
        if name in _FIELDS if not there else not _checks.fits(config[name], kind):
            said = f"{config[name]!r:.40}" if there else "missing"
            raise StorageError(
                f"`{directory / HEAD}` is not a run's: {name!r} is {said}."
            )
    if config.get("findings") is not None:
        try:
            Findings.from_dict(config["findings"])
        except BayesmdpError as problem:
            raise StorageError(
                f"`{directory / HEAD}` is not a run's: in 'findings', {problem}"
            ) from problem
    return config


#: What every config must have, and what it may have; the rest of it is for people.
_FIELDS: dict[str, Any] = {
    "versions": dict[str, str],
    "seed": int | None,
    "source": object,
    "columns": dict[str, str] | None,
    "notes": list[str],
    "min_count": int,
    "prior": dict[str, Any],
    "alpha_sha256": str,
}
_MORE: dict[str, Any] = {"warnings": list[str], "findings": dict[str, Any] | None}
