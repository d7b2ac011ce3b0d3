"""Policies from the cheapest to the dearest, and what each further unit costs.

Means over draws of the cost ``c[p]`` and of the effect ``e[p]`` of policy ``p``. A
policy is **dominated** where another one costs no more and has no less effect (of two
that are equal, the later one). Among the others, in order of cost, effects rise too,
and the incremental cost-effectiveness ratio to the one before is ::

    ICER[p] = (c[p] - c[q]) / (e[p] - e[q])

Where a ratio is larger than the next one, the policy is **extendedly dominated**: some
mixture of its neighbours costs less for the same effect. It is left out, and ratios are
taken again, until they rise: what remains is the lower convex hull of the plane. Means
that differ by rounding alone are equal. The
error of a ratio ``R`` is that of the mean of ``(dc - R de) / mean(de)`` over draws (the
delta method), where ``dc`` and ``de`` are the paired increments.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.evaluation import interval_of, mean_and_mcse, tie


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
    rows = []
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
            )
        )
    return tuple(rows)


_INCREMENTAL = tuple(
    x
    for name in ("incremental_cost", "incremental_effect", "icer")
    for x in (name, f"{name}_mcse")
)


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
