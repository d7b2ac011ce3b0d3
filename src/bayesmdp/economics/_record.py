"""The record of a cost-effectiveness analysis, and how it is shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Sheet, Shown, Table
from bayesmdp._typing import FloatArray
from bayesmdp.economics._incremental import CostEffectivenessRow
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import between, plain, rounded

if TYPE_CHECKING:
    import pandas as pd

_FRAMES = ("table", "curves", "evpi", "plane")
_CURVES = ("ceac", "ceac_mcse", "expected_loss", "expected_loss_mcse")
_SHOWN = 8  # thresholds of a summary


@dataclass(frozen=True, eq=False, repr=False)
class CostEffectiveness(Shown):
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

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, for JSON; without the draws.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> ce = bm.economics.from_samples([[1, 2], [1, 4]], [[0, 1], [0, 2]])
        >>> sorted(ce.to_dict())[:3]
        ['best', 'cost', 'curves']
        """
        return {
            "cost": self.cost,
            "effect": self.effect,
            "n_draws": self.n_draws,
            "n_left_out": self.n_left_out,
            "table": [
                {name: plain(x) for name, x in row.flat.items()} for row in self.table
            ],
            "thresholds": self.thresholds.tolist(),
            "best": list(self.best),
            "frontier": self.frontier.tolist(),
            "evpi": self.evpi.tolist(),
            "evpi_mcse": self.evpi_mcse.tolist(),
            "curves": [
                {"name": name, **{x: getattr(self, x)[name].tolist() for x in _CURVES}}
                for name in self.names
            ],
        }

    def to_pandas(self, what: str = "table") -> "pd.DataFrame":
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
        if what not in _FRAMES:
            raise ArgumentError(
                f"`what` must be one of {', '.join(_FRAMES)}; got {what!r:.40}."
            )
        try:
            import pandas as pd
        except ImportError:
            raise ArgumentError(
                "`to_pandas` needs pandas, which is not installed; `to_dict` does not."
            ) from None
        return pd.DataFrame(getattr(self, f"_{what}_columns")())

    def _table_columns(self) -> dict[str, list[Any]]:
        rows = [row.flat for row in self.table]
        names = {"name": "policy", "cost": "c", "effect": "e"}
        return {names.get(x, x): [row[x] for row in rows] for x in rows[0]}

    def _curves_columns(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "policy": np.repeat(self.names, self.thresholds.size),
            "k": np.tile(self.thresholds, len(self.names)),
        }
        return found | {
            x: np.concatenate([getattr(self, x)[name] for name in self.names])
            for x in _CURVES
        }

    def _evpi_columns(self) -> dict[str, Any]:
        return {
            "k": self.thresholds,
            "best": self.best,
            "ceaf": self.frontier,
            "evpi": self.evpi,
            "evpi_mcse": self.evpi_mcse,
        }

    def _plane_columns(self) -> dict[str, Any]:
        n = len(self.names)
        c, e = np.concatenate(list(self.plane.values()), axis=1)
        return {
            "policy": np.repeat(self.names, self.n_draws),
            "draw": np.tile(np.arange(self.n_draws), n),
            "c": c,
            "e": e,
            "weight": np.tile(self.weights, n),
        }

    def summary(self) -> str:
        """Return the incremental table, and curves at a few thresholds.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> ce = bm.economics.from_samples([[1, 2], [1, 4]], [[0, 1], [0, 2]])
        >>> print(ce.summary())
        Cost-effectiveness of 2 policies over 2 draws...
        """
        return self._sheet().text()

    def _sheet(self) -> Sheet:
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
        some = np.linspace(0, self.thresholds.size - 1, _SHOWN).round().astype(int)
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


def _ratio(row: CostEffectivenessRow) -> str:
    """Write a ratio, or why there is none."""
    if row.dominated:
        return "dominated"
    if row.extendedly_dominated:
        return "extendedly dominated"
    if row.icer is None or row.icer_mcse is None:
        return ""
    return rounded(row.icer, row.icer_mcse)
