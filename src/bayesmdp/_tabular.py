"""Records as data frames: the table of a record, for pandas and polars.

A record says its rows once, as plain dicts; neither package is needed for anything
else. An interval becomes two columns.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from bayesmdp.errors import ArgumentError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class Tabular:
    """Gives the rows of a record as a data frame."""

    _index: ClassVar[str] = ""  # column that names the rows of a pandas frame

    def _rows(self) -> Iterable[dict[str, Any]]:
        raise NotImplementedError

    def to_pandas(self) -> "pd.DataFrame":
        """Return the record's table as a data frame; needs pandas.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> bm.evaluate([1, 0, 0], bm.worlds.casino()).to_pandas()["value"].tolist()
        [-1.0, 10.0, 0.0]
        """
        try:
            import pandas as pd
        except ImportError:
            raise _missing("to_pandas", "pandas") from None
        frame = pd.DataFrame([_flat(row) for row in self._rows()])
        return frame.set_index(self._index) if self._index else frame

    def to_polars(self) -> "pl.DataFrame":
        """Return the record's table as a data frame; needs polars.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> bm.evaluate([1, 0, 0], bm.worlds.casino()).to_polars()["value"].to_list()
        [-1.0, 10.0, 0.0]
        """
        try:
            import polars as pl
        except ImportError:
            raise _missing("to_polars", "polars") from None
        return pl.DataFrame(
            [_flat(row) for row in self._rows()], infer_schema_length=None
        )


def _missing(method: str, package: str) -> ArgumentError:
    return ArgumentError(
        f"`{method}` needs {package}, which is not installed; `to_dict` does not."
    )


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Make two columns of what is an interval, or missing where others have one."""
    found: dict[str, Any] = {}
    for name, x in row.items():
        if name.endswith("interval"):
            found[f"{name}_low"], found[f"{name}_high"] = x or (None, None)
        else:
            found[name] = x
    return found
