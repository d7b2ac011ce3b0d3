"""The record of a cost-effectiveness analysis, and how it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Record, Sheet, Table, Tabular
from bayesmdp._typing import FloatArray
from bayesmdp.economics._incremental import CostEffectivenessRow
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import between, rounded

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_CURVES = ("ceac", "ceac_mcse", "expected_loss", "expected_loss_mcse")


@dataclass(frozen=True, eq=False, repr=False)
class CostEffectiveness(Record):
    """Costs beside effects of policies on the same draws.

    Made by `bayesmdp.cost_effectiveness`, or from draws of other programs by
    `bayesmdp.economics.from_samples`. Everything is computed from ``plane``; the
    module of that function says how. ``*_mcse`` are Monte Carlo standard errors.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> ce = bm.economics.from_samples(
    ...     cost={"care": [10, 12], "drug": [30, 28]},
    ...     effect={"care": [1, 1], "drug": [3, 1.5]}, thresholds=[0, 20])
    >>> ce.ceac["drug"].tolist(), ce.evpi.tolist(), ce.table[1].icer
    ([0.0, 0.5], [0.0, 3.0], 14.4)
    """

    _left_out = ("plane", "weights")

    table: tuple[CostEffectivenessRow, ...]  # the cheapest first
    thresholds: FloatArray  # [K], rising
    ceac: Mapping[str, FloatArray]  # [K] by policy
    ceac_mcse: Mapping[str, FloatArray]  # [K] by policy
    best: tuple[str, ...]  # [K]
    frontier: FloatArray  # [K], ceac of the best
    expected_loss: Mapping[str, FloatArray]  # [K] by policy
    expected_loss_mcse: Mapping[str, FloatArray]  # [K] by policy
    evpi: FloatArray  # [K]
    evpi_mcse: FloatArray  # [K]
    plane: Mapping[str, FloatArray]  # [2, D] by policy: costs, effects
    weights: FloatArray  # [D], probability of each draw
    cost: str  # names of both rewards
    effect: str
    n_draws: int
    n_left_out: int  # draws in which some policy does not end or was not solved

    @property
    def names(self) -> tuple[str, ...]:
        """Policies, in the order they were given."""
        return tuple(self.plane)

    def to_pandas(self, what: str = "table") -> pd.DataFrame:
        """Return a data frame: costs are ``c``, effects ``e``, thresholds ``k``.

        Parameters
        ----------
        what
            ``"table"``: one row per policy; ``"curves"``: per policy and threshold;
            ``"evpi"``: per threshold; ``"plane"``: per policy and draw, which other
            programs read (`heormodel.as_outcomes`; pivoted, BCEA and voi).

        Examples
        --------
        >>> import bayesmdp as bm
        >>> ce = bm.economics.from_samples([[1, 2], [1, 4]], [[0, 1], [0, 2]])
        >>> ce.to_pandas("plane").columns.tolist()
        ['policy', 'draw', 'c', 'e', 'weight']
        """
        return _Frame(self._frame(what)).to_pandas()

    def to_polars(self, what: str = "table") -> pl.DataFrame:
        """Return the same as a data frame of polars.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> ce = bm.economics.from_samples([[1, 2], [1, 4]], [[0, 1], [0, 2]])
        >>> ce.to_polars("evpi").columns
        ['k', 'best', 'ceaf', 'evpi', 'evpi_mcse']
        """
        return _Frame(self._frame(what)).to_polars()

    def _rows(self) -> list[dict[str, Any]]:
        return self._frame("table")

    def _frame(self, what: object) -> list[dict[str, Any]]:
        """Rows of one of the frames."""
        k, names = self.thresholds.tolist(), self.names
        if what == "table":
            called = {"name": "policy", "cost": "c", "effect": "e"}
            rows = [asdict(row) for row in self.table]
            return [{called.get(x, x): row[x] for x in row} for row in rows]
        if what == "evpi":
            head = ("k", "best", "ceaf", "evpi", "evpi_mcse")
            of = self.frontier, self.evpi, self.evpi_mcse
            columns = [k, self.best, *(x.tolist() for x in of)]
            return _as_rows(head, columns)
        found = []
        for name in names:
            if what == "curves":
                of_name = [getattr(self, x)[name].tolist() for x in _CURVES]
                found += _as_rows(
                    ("policy", "k", *_CURVES), [[name] * len(k), k, *of_name]
                )
            elif what == "plane":
                many = [name] * self.n_draws, range(self.n_draws)
                columns = [*many, *self.plane[name].tolist(), self.weights.tolist()]
                found += _as_rows(("policy", "draw", "c", "e", "weight"), columns)
            else:
                raise ArgumentError(
                    "`what` must be one of table, curves, evpi, plane; got "
                    f"{what!r:.40}."
                )
        return found

    def _sheet(self, shown: int = 10) -> Sheet:
        header = ["", self.cost, "95 % interval", self.effect, "95 % interval", "ICER"]
        rows = [
            [
                row.name,
                rounded(row.cost, row.cost_mcse),
                between(*row.cost_interval),
                rounded(row.effect, row.effect_mcse),
                between(*row.effect_interval),
                _ratio(row),
            ]
            for row in self.table
        ]
        some = np.linspace(0, self.thresholds.size - 1, shown).round().astype(int)
        curves = [
            [
                f"{self.thresholds[k]:,.6g}",
                self.best[k],
                f"{100 * self.frontier[k]:.0f} %",
                rounded(float(self.evpi[k]), float(self.evpi_mcse[k])),
            ]
            for k in dict.fromkeys(some.tolist())
        ]
        title = (
            f"Cost-effectiveness of {_checks.many(len(self.names), 'policy')} over "
            f"{_checks.many(self.n_draws, 'draw')}"
        )
        body: list[Table | str] = [
            Table(header, rows),
            "ICER: cost of one more unit of effect than the policy above that is not "
            "dominated",
            "",
            Table(["threshold", "best policy", "probability", "EVPI"], curves),
            "best policy: largest mean net benefit; probability: that its net benefit "
            "is the largest; EVPI: value of perfect information for a choice among "
            "these policies, per patient",
        ]
        if self.n_left_out:
            body.append(f"{_checks.many(self.n_left_out, 'draw')} left out: no value")
        return Sheet(title, body)

    def __repr__(self) -> str:
        said = _checks.sizes(
            policy=len(self.names), draw=self.n_draws, threshold=self.thresholds.size
        )
        return f"CostEffectiveness({said})"


@dataclass(frozen=True)
class _Frame(Tabular):
    """Rows that a frame is made of."""

    rows: list[dict[str, Any]]

    def _rows(self) -> list[dict[str, Any]]:
        return self.rows


def _as_rows(
    head: Sequence[str], columns: Sequence[Sequence[Any]]
) -> list[dict[str, Any]]:
    return [dict(zip(head, row, strict=True)) for row in zip(*columns, strict=True)]


def _ratio(row: CostEffectivenessRow) -> str:
    """Write a ratio, or why there is none."""
    if row.dominated:
        return "dominated"
    if row.extendedly_dominated:
        return "extendedly dominated"
    if row.icer is None or row.icer_mcse is None:
        return ""
    return rounded(row.icer, row.icer_mcse)
