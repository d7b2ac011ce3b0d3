"""What simulated datasets say about a prior's intervals."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Sheet, Table
from bayesmdp._tabular import Tabular
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.diagnostics._uniformity import band, counts_below, points
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import rounded

_HEADLINE = 0.95  # the level that sentences speak of, if it is among them
_FAINT = 1e-9  # p-values below are not told apart: they are 1 minus a sum


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Tabular):
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

    def histogram(self, bins: int = 20) -> IntArray:
        """Count ranks in bins of equal width, ``[bins, quantities]``.

        Parameters
        ----------
        bins
            How many; must divide ``n_draws + 1``.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
        >>> found = bm.check_calibration(task, bm.SymmetricPrior(), n_datasets=100)
        >>> found.histogram(4).sum(axis=0).tolist()
        [100, 100, 100, 100]
        """
        bins = _checks.integer("bins", bins, 1, ArgumentError)
        n_ranks = self.n_draws + 1
        if n_ranks % bins:
            raise ArgumentError(
                f"`bins` must divide n_draws + 1 = {n_ranks}; got {bins}."
            )
        of = self.ranks // (n_ranks // bins)
        return np.stack([np.bincount(x, minlength=bins) for x in of.T], axis=1)

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

    def summary(self) -> str:
        """Say what was simulated, what came out, and the verdict.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
        >>> found = bm.check_calibration(task, bm.SymmetricPrior(), n_datasets=100)
        >>> print(found.summary().splitlines()[0])
        Calibration of SymmetricPrior(concentration=1.0), truth from the prior
        """
        title, simulated = self._simulated()
        lines = [simulated]
        for name, *covered, predicted, p in self._cells():
            shares = ", ".join(
                f"{level:.3g}: {x}"
                for level, x in zip(self.levels, covered, strict=True)
            )
            said = f"; p {p}" if p else ""
            lines.append(
                f"{name}: covered {shares}; predicted - true {predicted}{said}"
            )
        return Sheet(title, [*lines, self.verdict], indent="  ").text()

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

    def _repr_html_(self) -> str:
        title, simulated = self._simulated()
        covered = [f"{level:.3g} covered" for level in self.levels]
        table = Table(["", *covered, "predicted - true", "p"], self._cells())
        return Sheet(title, [table, simulated, self.verdict]).html()

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and lists, without what every dataset gave.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
        >>> found = bm.check_calibration(task, bm.SymmetricPrior(), n_datasets=100)
        >>> found.to_dict()["quantities"][0]["name"]
        'value'
        """
        return {
            "prior": self.prior,
            "truth": self.truth,
            "n_datasets": self.n_datasets,
            "n_draws": self.n_draws,
            "seed": self.seed,
            "error_rate": self.error_rate,
            "levels": self.levels.tolist(),
            "quantities": self._rows(),
            "passed": self.passed,
            "verdict": self.verdict,
        }

    def __repr__(self) -> str:
        said = "passed" if self.passed else "failed"
        return f"Calibration({_checks.many(self.n_datasets, 'dataset')}, {said})"


def _told(p: float) -> str:
    """Write a p-value."""
    return f"{p:.2g}" if p >= _FAINT else f"< {_FAINT:g}"
