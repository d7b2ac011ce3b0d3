"""The record of a cost-effectiveness analysis, and its incremental table.

Policies from the cheapest to the dearest, and what each further unit costs.

Means over draws of the cost ``c[p]`` and of the effect ``e[p]`` of policy ``p``. A
policy is **dominated** where another one costs no more and has no less effect (of two
that are equal, the later one). Among the others, in order of cost, effects rise too,
and the incremental cost-effectiveness ratio to the one before is ::

    ICER[p] = (c[p] - c[q]) / (e[p] - e[q])

Where a ratio is larger than the next one, the policy is **extendedly dominated**: some
mixture of its neighbours costs less for the same effect. It is left out, and ratios are
taken again, until they rise: what remains is the lower convex hull of the plane. Means
that differ by rounding alone are equal. The error of a ratio ``R`` is that of the mean
of ``(dc - R de) / mean(de)`` over draws (the delta method), where ``dc`` and ``de`` are
the paired increments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Record, Sheet, Table, Tabular, exact
from bayesmdp._typing import FloatArray
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import between, interval_of, mean_and_mcse, rounded, tie
from bayesmdp.model import Task

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


@dataclass(frozen=True)
class CostEffectivenessRow:
    """One policy of a cost-effectiveness analysis."""

    name: str
    cost: float
    cost_mcse: float
    cost_interval: tuple[float, float]  # 95 % over draws
    effect: float
    effect_mcse: float
    effect_interval: tuple[float, float]  # 95 % over draws
    incremental_cost: float | None  # to the policy before it that is not dominated
    incremental_cost_mcse: float | None  # paired
    incremental_effect: float | None
    incremental_effect_mcse: float | None
    icer: float | None  # None for the cheapest, and where dominated
    icer_mcse: float | None
    dominated: bool
    extendedly_dominated: bool
    same_as: str | None = None  # an earlier policy, equal in every draw


def incremental_table(
    names: tuple[str, ...],
    cost: FloatArray,  # [P, D]
    effect: FloatArray,  # [P, D]
    weights: FloatArray,  # [D]
    *,
    exact: bool,
    chain: float,
) -> tuple[CostEffectivenessRow, ...]:
    """Return one row per policy, the cheapest first."""
    how: dict[str, Any] = {"exact": exact, "chain": chain}
    c, c_error = mean_and_mcse(cost, weights, **how)
    e, e_error = mean_and_mcse(effect, weights, **how)
    dominated = [_is_dominated(p, c, e) for p in range(c.size)]
    order = sorted(range(c.size), key=lambda p: (c[p], -e[p], p))
    hull = _hull([p for p in order if not dominated[p]], c, e)
    before = dict(zip(hull[1:], hull[:-1], strict=True))
    rows, both = [], np.stack([cost, effect])
    for p in order:
        more: dict[str, float | None] = dict.fromkeys(_INCREMENTAL)
        if (q := before.get(p)) is not None:
            dc, de = float(c[p] - c[q]), float(e[p] - e[q])
            ratio, steps = dc / de, (cost[p] - cost[q], effect[p] - effect[q])
            off = np.stack([*steps, (steps[0] - ratio * steps[1]) / de])
            errors = mean_and_mcse(off, weights, **how)[1].tolist()
            found = dc, errors[0], de, errors[1], ratio, errors[2]
            more = dict(zip(_INCREMENTAL, found, strict=True))
        rows.append(
            CostEffectivenessRow(
                name=names[p],
                cost=float(c[p]),
                cost_mcse=float(c_error[p]),
                cost_interval=interval_of(cost[p], weights),
                effect=float(e[p]),
                effect_mcse=float(e_error[p]),
                effect_interval=interval_of(effect[p], weights),
                **more,
                dominated=dominated[p],
                extendedly_dominated=not dominated[p] and p not in hull,
                same_as=next(
                    (names[q] for q in range(p) if _are_equal(p, q, both)), None
                ),
            )
        )
    return tuple(rows)


_INCREMENTAL = tuple(
    x
    for name in ("incremental_cost", "incremental_effect", "icer")
    for x in (name, f"{name}_mcse")
)


def _are_equal(p: int, q: int, both: FloatArray) -> bool:
    """Whether two policies have the same costs and effects ``[2, P, D]``."""
    most = np.abs(both).max(axis=(1, 2))
    apart = np.abs(both[:, p] - both[:, q]).max(axis=1)
    return all(x <= tie(y) for x, y in zip(apart, most, strict=True))


def _is_dominated(p: int, c: FloatArray, e: FloatArray) -> bool:
    saved, gained = (
        np.where(np.abs(x) <= tie(np.abs(of).max()), 0.0, x)
        for x, of in ((c[p] - c, c), (e - e[p], e))
    )
    no_worse, equal = (saved >= 0) & (gained >= 0), (saved == 0) & (gained == 0)
    earlier = np.arange(c.size) < p
    return bool((no_worse & (~equal | earlier)).any())


def _hull(rising: list[int], c: FloatArray, e: FloatArray) -> list[int]:
    """Leave out policies until ratios rise; those on a straight line stay."""
    kept: list[int] = []
    for p in rising:
        while len(kept) > 1:
            a, b = kept[-2:]
            if (c[b] - c[a]) * (e[p] - e[b]) <= (c[p] - c[b]) * (e[b] - e[a]):
                break
            kept.pop()
        kept.append(p)
    return kept


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

    _left_out = ("plane", "weights", "policies", "task")

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
    per: str = "patient"  # or step: what costs and effects are of
    units: tuple[str | None, str | None] = (None, None)  # of cost and effect
    policies: Mapping[str, FloatArray] | None = None  # [S, A]; None: of other programs
    task: Task | None = None  # of the belief; None likewise

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
        cost, effect = (
            f"{name} ({unit})" if unit else name
            for name, unit in zip((self.cost, self.effect), self.units, strict=True)
        )
        costs, effects, ratios = (
            exact([(getattr(x, name), getattr(x, f"{name}_mcse")) for x in self.table])
            for name in ("cost", "effect", "icer")
        )
        header = ["", cost, "95 % interval", effect, "95 % interval", "ICER"]
        rows = [
            [
                row.name,
                rounded(row.cost, row.cost_mcse, costs),
                between(*row.cost_interval, costs),
                rounded(row.effect, row.effect_mcse, effects),
                between(*row.effect_interval, effects),
                _ratio(row, ratios),
            ]
            for row in self.table
        ]
        step = -(-(self.thresholds.size - 1) // max(shown, 1)) or 1  # evenly, from 0
        curves = [
            [
                f"{self.thresholds[k]:,.6g}",
                self.best[k],
                f"{100 * self.frontier[k]:.0f} %",
                rounded(float(self.evpi[k]), float(self.evpi_mcse[k])),
            ]
            for k in range(0, self.thresholds.size, step)
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
            "is the largest, shared where others are as large; EVPI: value of perfect "
            f"information for a choice among these policies, per {self.per}",
        ]
        if len(curves) < self.thresholds.size:
            said = f"({len(curves)} of {self.thresholds.size} thresholds)"
            body.insert(-1, said)
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


def _ratio(row: CostEffectivenessRow, column: Sequence[float]) -> str:
    """Write a ratio, or why there is none."""
    if row.same_as is not None:
        return f"same as {row.same_as}"
    if row.dominated:
        return "dominated"
    if row.extendedly_dominated:
        return "extendedly dominated"
    if row.icer is None or row.icer_mcse is None:
        return ""
    return rounded(row.icer, row.icer_mcse, column)
