"""Policies judged on common fresh draws, and means of their differences over data sets.

Differences within a data set are paired and use control variates (`bm.compare`). Over
data sets, which are independent, a mean comes with its standard error; that error holds
the Monte Carlo error too. A mean is *ahead* or *behind* where it is further from zero
than three standard errors: with a dozen sizes and several rivals, two would often be
passed by luck. Luck passes three about once in 240 comparisons of 50 series, 67 of 10,
and 10 of 3 (by Student's t).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import bayesmdp as bm
from bayesmdp._typing import ArrayLike, FloatArray
from studies.means import ROUNDING, mean_and_error, said
from studies.study import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SURE = 3.0  # standard errors
_JUDGE = 1_000_003  # seed of draws that no policy was chosen on


def judged(
    policies: Mapping[str, ArrayLike],
    belief: bm.Posterior,
    n_draws: int,
    references: Iterable[str],
) -> list[Record]:
    """Value of each policy, and what it has more than each reference, with errors."""
    draws = belief.draws(n_draws, seed=_JUDGE)
    records: dict[str, Record] = {name: {"method": name} for name in policies}
    for reference in references:
        for row in bm.compare(policies, draws, reference=reference).rows:
            records[row.name] |= {
                "value": row.value,
                "value_mcse": row.value_mcse,
                f"minus_{reference}": row.difference,
                f"minus_{reference}_mcse": row.difference_mcse,
            }
    return list(records.values())


def columns(records: list[Record], method: str, key: str) -> dict[Any, FloatArray]:
    """Return a number of one method, for all data sets of each size."""
    rows = [x for x in records if x["method"] == method and key in x]
    found: dict[Any, list[float]] = {}
    for row in rows:
        found.setdefault(row["size"], []).append(row[key])
    return {size: np.array(found[size]) for size in sorted(found)}


def lead(records: list[Record], method: str, other: str) -> dict[Any, FloatArray]:
    """Return what a method has more than another, by size."""
    return {n: -x for n, x in columns(records, other, f"minus_{method}").items()}


def steps_said(records: list[Record]) -> str:
    """Write how many steps the gradient policies took."""
    steps = sorted({x["gradient_steps"] for x in records if "gradient_steps" in x})
    return f"{' or '.join(f'{n:,}' for n in steps)} steps"


def sign(values: ArrayLike) -> int:
    """Return 1 where a mean is surely above zero, -1 surely below, 0 otherwise.

    A single value, whose error nobody knows, is sure of nothing.
    """
    mean, error = mean_and_error(values)
    far = ROUNDING + _SURE * error
    return int(mean > far) - int(mean < -far)


def signs(found: Mapping[Any, ArrayLike]) -> dict[int, list[Any]]:
    """Return the sizes at which a mean is surely above, below, neither."""
    out: dict[int, list[Any]] = {1: [], 0: [], -1: []}
    for size, values in found.items():
        out[sign(values)].append(size)
    return out


def sizes_said(sizes: Sequence[int]) -> str:
    """Write a list of sizes."""
    return ", ".join(f"{x:,}" for x in sizes) if sizes else "none"


def table(columns_of: Mapping[str, Mapping[Any, ArrayLike]]) -> str:
    """Markdown: one line a size, one column a difference."""
    sizes = sorted({size for found in columns_of.values() for size in found})
    lines = [
        f"| transitions | {' | '.join(columns_of)} |",
        "|---" * (1 + len(columns_of)) + "|",
    ]
    for size in sizes:
        cells = [said(x[size]) if size in x else "" for x in columns_of.values()]
        lines.append(f"| {size:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def band(
    axis: "Axes",
    found: Mapping[Any, ArrayLike],
    label: str,
    colour: str,
    *,
    shade: bool = False,
    marker: str = "o",
    linestyle: str = "-",
) -> None:
    """Draw means over data sets, their errors as bars, the middle 68 % as a shade."""
    x = np.array(list(found), dtype=np.float64)
    mean, error = np.array([mean_and_error(v) for v in found.values()]).T
    error = np.nan_to_num(error)
    axis.errorbar(
        x,
        mean,
        error,
        label=label,
        color=colour,
        marker=marker,
        markersize=3.5,
        linestyle=linestyle,
        linewidth=1.3,
        capsize=2,
    )
    if shade:
        # As far as one standard deviation of a normal; never below what was found.
        low, high = np.array(
            [np.quantile(np.asarray(v), [0.16, 0.84]) for v in found.values()]
        ).T
        axis.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
