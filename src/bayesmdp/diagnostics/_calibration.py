"""What simulated datasets say about a prior's intervals: whether ranks are uniform.

The test is exact, by their empirical distribution at many points. Ranks ``r`` of ``n``
datasets lie in ``0..L``. At a point ``z = c / (L + 1)`` the number of ranks below ``c``
is Binomial(n, z) if they are uniform. The statistic is the smallest two-sided tail
probability ``g`` over the points; its distribution follows from the numbers at
successive points being a Markov chain::

    X(z') - X(z) | X(z) ~ Binomial(n - X(z), (z' - z) / (1 - z))

so the chance that every count stays inside its own interval is a product of small
matrices. The intervals of the ``g`` whose chance is ``1 - error rate`` are a band for
the whole curve: it leaves the band anywhere with that probability (Säilynoja, Bürkner
and Vehtari 2022, Graphical test for discrete uniformity, Statistics and Computing 32).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Record, Sheet, Table, as_plain, rounded
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEADLINE = 0.95  # the level that sentences speak of, if it is among them
_FAINT = 1e-9  # p-values below are not told apart: they are 1 minus a sum


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Record):
    """Ranks and coverage over simulated datasets. Made by `check_calibration`.

    Where the truth is drawn from a prior, ``passed`` says that ranks of all quantities
    can be uniform. With a known model they need not be: ``p_values`` are NaN, and
    ``passed`` says that no interval of a value covers clearly less than its level.
    Either is wrong for a calibrated belief with a probability of at most
    ``error_rate``, over all quantities together (Bonferroni).
    """

    prior: str
    truth: str  # "the prior", another prior, or "a world"
    quantities: tuple[str, ...]  # [quantities]
    ranks: IntArray  # [datasets, quantities], in 0..n_draws
    truths: FloatArray  # [datasets, quantities]
    predicted: FloatArray  # [datasets, quantities], posterior means
    p_values: FloatArray  # [quantities], of uniform ranks; NaN for a world
    levels: FloatArray  # [levels]
    covered: FloatArray  # [levels, quantities], share of datasets
    covered_mcse: FloatArray  # [levels, quantities], binomial
    short: tuple[str, ...]  # values whose intervals cover clearly less than they say
    bias: FloatArray  # [quantities], mean of predicted minus true value
    bias_mcse: FloatArray  # [quantities], over datasets
    n_draws: int
    error_rate: float
    seed: int

    @property
    def n_datasets(self) -> int:
        """Number of simulated datasets."""
        return int(self.ranks.shape[0])

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against the intervals, at the stated error rate."""
        return not self._failed

    @property
    def _failed(self) -> tuple[str, ...]:
        if np.isnan(self.p_values).all():
            return self.short
        limit = self.error_rate / len(self.quantities)
        low = self.p_values < limit
        return tuple(q for q, bad in zip(self.quantities, low, strict=True) if bad)

    @property
    def verdict(self) -> str:
        """One sentence for people."""
        rate = f"error rate {self.error_rate:g}"
        known = np.isnan(self.p_values).all()
        if self.passed and known:
            return (
                f"No shortfall: intervals of values cover at least what they say in "
                f"{self.n_datasets} datasets of this world ({rate})."
            )
        if self.passed:
            return (
                f"Calibrated: in {self.n_datasets} datasets the ranks of "
                f"{len(self.quantities)} quantities can be uniform (smallest p "
                f"{_told(self.p_values.min())}, {rate} for all together)."
            )
        worst = self._worst()
        what = (
            "its intervals cover too little"
            if known
            else f"ranks are not uniform (p {_told(self.p_values[worst])})"
        )
        return (
            f"Not calibrated ({rate}): for the {self.quantities[worst]} {what}; "
            f"{self._said(worst)}."
        )

    def _worst(self) -> int:
        """Quantity that failed most clearly, a value before a variance."""
        failed = [self.quantities.index(q) for q in self._failed]
        values = [q for q in failed if self.quantities[q].endswith("value")]
        share = np.abs(self.covered - self.levels[:, None]).max(axis=0)
        return max(values or failed, key=lambda q: float(share[q]))

    def _said(self, q: int) -> str:
        """Coverage and bias of a quantity in words."""
        at = int(np.argmin(np.abs(self.levels - _HEADLINE)))
        more = "more" if self.bias[q] >= 0 else "less"
        gap = rounded(abs(self.bias[q]), self.bias_mcse[q])
        return (
            f"{100 * self.levels[at]:.3g} % intervals cover "
            f"{100 * self.covered[at, q]:.1f} %, and its predicted value is "
            f"{gap} {more} than the true one"
        )

    @cached_property
    def curves(self) -> dict[str, FloatArray]:
        """Share of ranks below each of about 40 points, with a band for whole curves.

        ``point`` [points] and ``share`` [points, quantities]; uniform ranks leave
        ``low`` to ``high`` [points] anywhere, for any quantity, with probability
        ``error_rate``.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
        >>> found = bm.check_calibration(task, bm.SymmetricPrior(), n_datasets=100)
        >>> found.curves["share"].shape
        (39, 4)
        """
        n_ranks, n = self.n_draws + 1, self.n_datasets
        at = points(n_ranks)
        low, high = band(n, n_ranks, self.error_rate / len(self.quantities))
        share = np.stack([counts_below(x, at) for x in self.ranks.T], axis=1)
        parts = {"point": at / n_ranks, "share": share / n}
        parts |= {"low": low / n, "high": high / n}
        return {name: _checks.sealed(x) for name, x in parts.items()}

    def _simulated(self) -> tuple[str, str]:
        return (
            f"Calibration of {self.prior}, truth from {self.truth}",
            f"{_checks.many(self.n_datasets, 'dataset')}, "
            f"{_checks.many(self.n_draws, 'draw')} each (seed {self.seed})",
        )

    def _cells(self) -> list[list[str]]:
        """Name, coverage at each level, bias and p-value of each quantity."""
        return [
            [
                name,
                *map(rounded, self.covered[:, q], self.covered_mcse[:, q]),
                rounded(self.bias[q], self.bias_mcse[q]),
                "" if np.isnan(self.p_values[q]) else _told(self.p_values[q]),
            ]
            for q, name in enumerate(self.quantities)
        ]

    def _sheet(self, shown: int = 10) -> Sheet:
        title, simulated = self._simulated()
        covered = [f"{level:.3g} covered" for level in self.levels]
        table = Table(["", *covered, "predicted - true", "p"], self._cells())
        return Sheet(title, [table, simulated, self.verdict])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, without what every dataset gave."""
        names = ["prior", "truth", "n_datasets", "n_draws", "seed", "error_rate"]
        names += ["levels", "passed", "verdict"]
        found = {name: as_plain(getattr(self, name)) for name in names}
        return found | {"quantities": self._rows()}

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "p_value": None if np.isnan(p) else float(p),
                "covered": self.covered[:, q].tolist(),
                "covered_mcse": self.covered_mcse[:, q].tolist(),
                "bias": float(self.bias[q]),
                "bias_mcse": float(self.bias_mcse[q]),
            }
            for q, (name, p) in enumerate(
                zip(self.quantities, self.p_values, strict=True)
            )
        ]

    def __repr__(self) -> str:
        said = "passed" if self.passed else "failed"
        return f"Calibration({_checks.many(self.n_datasets, 'dataset')}, {said})"


def _told(p: float) -> str:
    """Write a p-value."""
    return f"{p:.2g}" if p >= _FAINT else f"< {_FAINT:g}"


_POINTS = 40  # the ends of central 95 % intervals are among them
_STRICT = 1 + 1e-9  # tails that are equal but for rounding are equal


def points(n_ranks: int) -> IntArray:
    """Where the curve is looked at: whole ``c`` in ``1..n_ranks - 1``."""
    even = np.arange(1, _POINTS) * n_ranks / _POINTS
    return np.unique(np.clip(np.rint(even).astype(np.int64), 1, n_ranks - 1))


def counts_below(ranks: IntArray, at: IntArray) -> IntArray:
    """Count ranks ``[n]`` below each point."""
    return np.searchsorted(np.sort(ranks), at)


def p_value(ranks: IntArray, n_ranks: int) -> float:
    """Chance of ranks ``[n]`` at least this far from uniform on ``0..n_ranks - 1``."""
    from scipy.stats import binom

    at = points(n_ranks)
    z, n = at / n_ranks, ranks.size
    below = counts_below(ranks, at)
    tails = np.minimum(binom.cdf(below, n, z), binom.sf(below - 1, n, z))
    low, high = _intervals(float(tails.min()), n, z)
    return float(np.clip(1 - chance_inside(low, high, n, z), 0.0, 1.0))


def band(n: int, n_ranks: int, error_rate: float) -> tuple[IntArray, IntArray]:
    """Lowest and highest counts at the points; all hold with ``1 - error_rate``."""
    z = points(n_ranks) / n_ranks
    left, right = error_rate / (4 * z.size), error_rate  # too wide, too narrow
    for _ in range(12):  # to a thousandth of the tail
        middle = float(np.sqrt(left * right))
        if 1 - chance_inside(*_intervals(middle, n, z), n, z) > error_rate:
            right = middle
        else:
            left = middle
    return _intervals(left, n, z)


def _intervals(tail: float, n: int, z: FloatArray) -> tuple[IntArray, IntArray]:
    """Return counts at each point both of whose tails are above ``tail``."""
    from scipy.stats import binom

    count = np.arange(n + 1)[:, None]
    lower = np.asarray(binom.cdf(count, n, z)) > tail * _STRICT
    upper = np.asarray(binom.sf(count - 1, n, z)) > tail * _STRICT
    return np.argmax(lower, axis=0), n - np.argmax(upper[::-1], axis=0)


def chance_inside(low: IntArray, high: IntArray, n: int, z: FloatArray) -> float:
    """Chance that counts of ``n`` uniform ranks are in ``low..high`` at all points."""
    from scipy.special import gammaln

    log_factorial = gammaln(np.arange(n + 1) + 1.0)
    chance, before, at = np.ones(1), np.zeros(1, dtype=np.int64), 0.0
    for first, last, point in zip(low, high, z, strict=True):
        if last < first:  # nothing is inside
            return 0.0
        after = np.arange(first, last + 1)
        share = (point - at) / (1 - at)
        more = after - before[:, None]
        possible = more >= 0
        more = np.maximum(more, 0)
        log_p = log_factorial[n - before][:, None] - log_factorial[more]
        log_p = log_p - log_factorial[n - after] + more * np.log(share)
        log_p = log_p + (n - after) * np.log1p(-share)
        chance = chance @ np.where(possible, np.exp(np.where(possible, log_p, 0)), 0)
        before, at = after, point
    return float(chance.sum())


_BLUE, _GREY = "#1f77b4", "0.88"


def plot_calibration(calibration: Calibration, axes: Any = None) -> Figure:
    """Draw the curve of ranks against its band, and coverage against levels.

    Above, for each quantity, the share of ranks below a point minus that point: inside
    the band if calibrated; a hump is predictions above the truth, a dip predictions
    below it, an S that rises first intervals that are too narrow. Below, shares of
    datasets covered, with two standard errors, against the nominal level.

    Parameters
    ----------
    calibration
        From `check_calibration`.
    axes
        Axes of shape (2, number of quantities) to draw on; a new figure where not
        given.

    Returns
    -------
    Figure
        Of matplotlib, with the extra ``plots``: ``figure.savefig("ranks.png")``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
    >>> found = bm.check_calibration(task, bm.SymmetricPrior(), n_datasets=100,
    ...                              choose=None)
    >>> bm.diagnostics.plot_calibration(found).axes[0].get_title()
    'value'
    """
    _checks.of_type("calibration", calibration, Calibration, ArgumentError)
    n = len(calibration.quantities)
    grid = _new_axes(n) if axes is None else np.asarray(axes)
    if grid.shape != (2, n):
        raise ArgumentError(
            f"`axes` must have shape {(2, n)} (row, quantity); got {grid.shape}."
        )
    for q, name in enumerate(calibration.quantities):
        _draw_ranks(grid[0, q], calibration, q)
        _draw_coverage(grid[1, q], calibration, q)
        grid[0, q].set_title(name)
    grid[0, 0].set_ylabel("share below - rank")
    grid[1, 0].set_ylabel("covered - level")
    figure: Figure = grid[0, 0].figure
    return figure


def _new_axes(n: int) -> Any:
    """Axes of a figure of its own, which no window holds on to."""
    figures = _checks.extra("matplotlib.figure", "plots", "plot_calibration")
    figure = figures.Figure(figsize=(2.9 * n, 5.0), layout="constrained")
    return figure.subplots(2, n, squeeze=False, sharex="row", sharey="row")


def _draw_ranks(ax: Any, calibration: Calibration, q: int) -> None:
    curves = calibration.curves
    at = np.concatenate([[0.0], curves["point"], [1.0]])
    low, high, share = (
        np.concatenate([[0.0], curve - curves["point"], [0.0]])
        for curve in (curves["low"], curves["high"], curves["share"][:, q])
    )
    if not np.isnan(calibration.p_values[q]):
        ax.fill_between(at, low, high, color=_GREY)
    ax.plot(at, share, color=_BLUE)
    ax.axhline(0.0, color="0.5", linewidth=0.8)
    ax.set_xlabel("rank of the truth")


def _draw_coverage(ax: Any, calibration: Calibration, q: int) -> None:
    gap = calibration.covered[:, q] - calibration.levels
    error = 2 * calibration.covered_mcse[:, q]
    ax.errorbar(calibration.levels, gap, error, fmt="o", color=_BLUE, capsize=3)
    ax.axhline(0.0, color="0.5", linewidth=0.8)
    ax.set_xlabel("level")
