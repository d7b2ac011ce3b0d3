"""The symmetric prior under which the data are most probable.

Bayesian model selection as in the paper (appendix, "Bayesian model selection"; 0.072 on
its clinical data): one concentration for all pairs, chosen to maximise the marginal
likelihood of the available pairs (type II maximum likelihood, empirical Bayes). One
number chosen from thousands of counts costs little honesty, but some: its
uncertainty is not in the posterior, and the evidence at its maximum a little too good.
`evidence_curve` shows how sharp the maximum is.

**Evidence** is the probability of counts, the dynamics integrated out. A pair with
``K`` possible next states, each with concentration ``a``, and counts ``n[t]`` (``N`` in
all) contributes ::

    lgamma(K a) - lgamma(K a + N) + sum_t (lgamma(a + n[t]) - lgamma(a))

Counts repeat: thousands of pairs share a few hundred values. So entries are grouped by
``n`` and rows by ``(K, N)`` once, and each evaluation costs a few hundred logarithms.
The best concentration is searched on its logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Record, Sheet
from bayesmdp._typing import ArrayLike, FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.errors import ArgumentError, CountsError, PriorError
from bayesmdp.model import Data, Rows, Task, align, availability
from bayesmdp.priors._contract import (
    Support,
    check_rows,
    checked_concentration,
    checked_support,
    counted,
    locate,
    support_lengths,
    support_rows,
)
from bayesmdp.priors._symmetric import SymmetricPrior

_STIRLING = 100.0  # from here the series below is right to 1e-13


def log_rising(x: ArrayLike, n: ArrayLike) -> FloatArray:
    """Logarithm of a rising factorial, ``Gamma(x + n) / Gamma(x)``.

    The difference of two log-gammas loses all digits where ``x`` is large; there the
    difference of Stirling's series is taken term by term.

    Parameters
    ----------
    x
        Above 0.
    n
        0 or more; need not be whole.

    Examples
    --------
    >>> from bayesmdp.priors import log_rising
    >>> float(log_rising(2.0, 3).round(6))  # log(2 * 3 * 4)
    3.178054
    """
    from scipy.special import gammaln

    x, n = np.asarray(x, dtype=np.float64), np.asarray(n, dtype=np.float64)
    small = gammaln(x + n) - gammaln(x)
    safe = np.maximum(x, _STIRLING)
    end = safe + n
    large = (safe - 0.5) * np.log1p(n / safe) + n * np.log(end) - n
    large += (1 / end - 1 / safe) / 12 - (1 / end**3 - 1 / safe**3) / 360
    return np.asarray(np.where(x < _STIRLING, small, large))


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of a symmetric prior's pairs, grouped."""

    count: IntArray  # [U], different counts of a next state
    n_entries: IntArray  # [U], how often each occurs
    length: IntArray  # [V], possible next states of a pair
    visits: IntArray  # [V], its visits, above 0
    n_rows: IntArray  # [V], how many pairs have both

    @classmethod
    def of(cls, length: IntArray, row: IntArray, count: IntArray) -> Tally:
        """Group counts ``[K]`` at given rows, of pairs with ``length`` [R]."""
        visits = np.zeros(length.size, dtype=np.int64)
        np.add.at(visits, row, count)
        seen = visits > 0
        sizes, n_rows = np.unique(
            np.stack([length[seen], visits[seen]]), axis=1, return_counts=True
        )
        values, n_entries = np.unique(count, return_counts=True)
        return cls(values, n_entries, sizes[0], sizes[1], n_rows)

    def log_evidence(self, concentration: float) -> float:
        """Log probability of the counts under a symmetric concentration."""
        inner = self.n_entries @ log_rising(concentration, self.count)
        outer = self.n_rows @ log_rising(self.length * concentration, self.visits)
        return float(inner - outer)

    def curvature(self, concentration: float) -> float:
        """Second derivative by the logarithm of the concentration, at a maximum."""
        from scipy.special import polygamma

        a, whole = concentration, self.length * concentration
        inner = self.n_entries @ (polygamma(1, a + self.count) - polygamma(1, a))
        outer = polygamma(1, whole + self.visits) - polygamma(1, whole)
        return float(a**2 * (inner - (self.n_rows * self.length**2) @ outer))


LOW, HIGH = 1e-6, 1e6
_STEPS_PER_DECADE = 4
_NOISE = 1e-10  # relative; what differs by less is rounding


@dataclass(frozen=True)
class Peak:
    """Where a function of the concentration is largest."""

    at: float
    value: float
    place: str  # "inside", "low", "high", or "flat"

    def needs_inside(self, who: str, remedy: str) -> float:
        """Return where it is; refuse an end or a plain."""
        if self.place == "flat":
            said = "the data say nothing about it, as when no pair was visited twice"
        elif self.place == "low":
            said = (
                f"the evidence keeps rising towards 0 (below {LOW:g}), as when every "
                "pair always led to the same next state"
            )
        elif self.place == "high":
            said = (
                f"the evidence keeps rising (above {HIGH:g}), as when every pair leads "
                "to all next states alike"
            )
        else:
            return self.at
        raise PriorError(f"{who} finds no best concentration: {said}; {remedy}.")


def find_peak(f: Callable[[float], float]) -> Peak:
    """Maximise ``f`` over concentrations: a coarse grid, then Brent's method."""
    from scipy.optimize import minimize_scalar

    n = int(np.log10(HIGH / LOW) * _STEPS_PER_DECADE) + 1
    x = np.linspace(np.log(LOW), np.log(HIGH), n)
    y = np.array([f(float(c)) for c in np.exp(x)])
    i, noise = int(np.argmax(y)), _NOISE * (1 + np.abs(y).max())
    if y.max() - y.min() <= noise:
        return Peak(float(np.exp(x[i])), float(y[i]), "flat")
    found = minimize_scalar(
        lambda u: -f(float(np.exp(u))),
        bounds=(x[max(i - 1, 0)], x[min(i + 1, n - 1)]),
        method="bounded",
        options={"xatol": 1e-9},
    )
    best = -float(found.fun)
    for end, place, at in ((0, "low", LOW), (-1, "high", HIGH)):
        if best - y[end] <= noise:
            return Peak(at, float(y[end]), place)
    return Peak(float(np.exp(found.x)), best, "inside")


def rounded(concentration: float) -> float:
    """Six digits: more than data can tell, and the same on every machine."""
    return float(f"{concentration:.6g}")


@dataclass(frozen=True, eq=False)
class EvidencePrior:
    """Symmetric Dirichlet whose concentration maximises the evidence.

    The concentration is found between 1e-6 and 1e6, to six digits, from the pairs that
    `fit` keeps; so the rows of a pair depend on the data of the others, and on
    ``min_count``. Where the evidence has no maximum inside (for example, if every pair
    always led to the same next state), the data do not determine it, and an error is
    raised.

    Parameters
    ----------
    support
        Which next states are possible, as for `SymmetricPrior`.

    References
    ----------
    MacKay and Peto (1995), A hierarchical Dirichlet language model, Natural Language
    Engineering 1.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(500, seed=0), world.task,
    ...                    prior=bm.EvidencePrior())
    >>> print(posterior.summary().splitlines()[1].strip())
    prior: EvidencePrior(), which chose SymmetricPrior(concentration=0.0...)
    """

    support: Support = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Copy the support."""
        object.__setattr__(self, "support", checked_support(self.support))

    @property
    def looks_at_data(self) -> bool:
        """Not in the sense that spoils evidence: the support is fixed in advance."""
        return False

    def tuned(self, pair: IntArray, counts: Counts, task: Task) -> SymmetricPrior:
        """Return the symmetric prior that is chosen for sorted pairs ``[R]``."""
        row, _, count = counted(pair, counts, task)
        tally = Tally.of(support_lengths(self.support, pair, task), row, count)
        peak = find_peak(tally.log_evidence)
        best = peak.needs_inside(
            "EvidencePrior", "give a number, as in SymmetricPrior(0.1)"
        )
        return SymmetricPrior(rounded(best), self.support)

    def concentrations(
        self, pair: IntArray, counts: Counts, task: Task
    ) -> tuple[Rows, FloatArray]:
        """Dirichlet parameters before the data, for sorted pairs ``[R]``."""
        chosen = self.tuned(pair, counts, task)
        return chosen.concentrations(pair, counts, task)


_QUANTILE = 1.959963984540054  # of the normal distribution, for 95 %


@dataclass(frozen=True, eq=False, repr=False)
class EvidenceCurve(Record):
    """Log evidence against the concentration. Made by `priors.evidence_curve`."""

    grid: FloatArray  # [G], concentrations
    log_evidence: FloatArray  # [G]
    best: float | None  # the maximum, not only of the grid; None without one inside
    best_log_evidence: float | None
    interval: tuple[float, float] | None  # 95 %, by the curvature at the maximum
    place: str  # of the maximum: "inside"; "low", "high" (at an end), or "flat"
    n_pairs: int  # visited pairs the evidence is of
    n_transitions: int

    def _sheet(self, shown: int = 10) -> Sheet:
        title = (
            "Evidence of a symmetric prior from "
            f"{_checks.many(self.n_transitions, 'transition')} of "
            f"{_checks.many(self.n_pairs, 'pair')}"
        )
        lines = []
        if self.best is None or self.interval is None:
            said = {
                "flat": "the data say nothing about it",
                "low": f"the evidence rises towards 0 (below {LOW:g})",
                "high": f"the evidence rises without end (above {HIGH:g})",
            }
            lines.append(f"no best concentration: {said[self.place]}")
        else:
            low, high = self.interval
            lines.append(
                f"best concentration {self.best:.4g} (95 % interval {low:.4g} to "
                f"{high:.4g}), log evidence {self.best_log_evidence:.4f}"
            )
        places = np.unique(np.linspace(0, self.grid.size - 1, 5).round().astype(int))
        lines += [f"{self.grid[i]:.4g}: {self.log_evidence[i]:.4f}" for i in places]
        return Sheet(title, lines, indent="  ")

    def __repr__(self) -> str:
        best = "None" if self.best is None else f"{self.best:.4g}"
        grid = _checks.many(self.grid.size, "concentration")
        return f"EvidenceCurve({grid}, best={best})"


def evidence_curve(
    data: Data,
    task: Task,
    grid: ArrayLike | None = None,
    *,
    support: Support = None,
    min_count: int = 0,
) -> EvidenceCurve:
    """Compute the evidence of symmetric concentrations, and the best of them.

    Parameters
    ----------
    data
        Transitions, or counts of them.
    task
        The known part.
    grid
        Concentrations above 0; 100 from 1e-4 to 100 where not given. The maximum is
        searched between 1e-6 and 1e6, whatever the grid.
    support
        Which next states are possible, as for `SymmetricPrior`.
    min_count
        As for `bayesmdp.fit`: the evidence is of the pairs it would keep.

    Returns
    -------
    EvidenceCurve
        With ``interval``, ``best * exp(-+ 1.96 / sqrt(-h))``, where ``h`` is the second
        derivative by the logarithm of the concentration at the maximum.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> data = world.sample(500, seed=0)
    >>> curve = bm.priors.evidence_curve(data, world.task, grid=[0.01, 0.1, 1])
    >>> low, high = curve.interval
    >>> bool(low < curve.best < high), int(curve.log_evidence.argmax())
    (True, 0)
    """
    _checks.of_type("task", task, Task, ArgumentError)
    min_count = _checks.integer("min_count", min_count, 0, ArgumentError)
    points = _grid(grid)
    counts, task = align(data, task)
    if counts.total == 0:
        raise CountsError("`data` holds no transitions: there is no evidence.")
    visits = counts.pair_totals(task.n_states, task.n_actions)
    pair = np.flatnonzero(availability(visits, task, min_count).available)
    row, _, count = counted(pair, counts, task)
    tally = Tally.of(_lengths(support, pair, counts, task), row, count)
    peak = find_peak(tally.log_evidence)
    inside = peak.place == "inside"
    return EvidenceCurve(
        grid=points,
        log_evidence=_checks.sealed(np.array([*map(tally.log_evidence, points)])),
        best=peak.at if inside else None,
        best_log_evidence=peak.value if inside else None,
        interval=_interval(tally, peak.at) if inside else None,
        place=peak.place,
        n_pairs=int(tally.n_rows.sum()),
        n_transitions=int(count.sum()),
    )


def _grid(grid: ArrayLike | None) -> FloatArray:
    """Check concentrations ``[G]``."""
    if grid is None:
        return _checks.sealed(np.geomspace(1e-4, 100.0, 100))
    points = _checks.float_array("grid", grid, ("point",), PriorError)
    if points.size == 0:
        raise PriorError("`grid` holds no concentration; give some above 0, or None.")
    if (points <= 0).any():
        i = int(np.argmax(points <= 0))
        raise PriorError(f"`grid` must be above 0: point {i} is {points[i]:g}.")
    for end in (points.min(), points.max()):
        checked_concentration(end, "grid")
    return points


def _lengths(support: Support, pair: IntArray, counts: Counts, task: Task) -> IntArray:
    """Possible next states of each pair ``[R]``, the observed ones among them."""
    support = checked_support(support)
    if support is None:  # rows of every state need not be made
        return support_lengths(support, pair, task)
    rows = support_rows(support, pair, task)
    check_rows(rows, task, counts, widen=True, add=False)
    locate(rows, counts, task)
    return np.diff(rows.indptr)


def _interval(tally: Tally, best: float) -> tuple[float, float]:
    spread = math.exp(_QUANTILE / math.sqrt(-tally.curvature(best)))
    return best / spread, best * spread
