"""The record of what information is worth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Record, Sheet, Table, as_plain
from bayesmdp._typing import BoolArray, FloatArray
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import rounded, significant
from bayesmdp.model import Task

_SHOWN = 5


@dataclass(frozen=True, eq=False, repr=False)
class Information(Record):
    """What more knowledge is worth per patient, from the start; and where.

    Made by `bayesmdp.value_of_information`. All values are gains of expected value by
    deciding with more knowledge, among the policies ``names``: of the model (``evpi``),
    of one row (``evppi``), of ``n_visits`` more visits (``evsi``), to a pair or to a
    state whose actions share the visits evenly. ``evpi_bound`` is the gain of knowing
    the model for *any* policy; none reaches it.

    Names with ``switch`` are about another decision: to keep the best policy, or to
    take another action in the one state that was learnt about. ``patients_evsi`` is the
    gain of such a switch after ``n_patients`` more patients are treated as before.

    Pairs that policies may not use are 0. Values of states that are not ``confirmed``
    are first-order approximations: their errors hold those of the policies' values
    only, and those of switches are NaN. ``patients_evsi`` always is one.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> info = bm.value_of_information(bm.worlds.casino())
    >>> print(info.summary())
    Knowing the model is worth 2.61... per episode when choosing among ... policies
    ...
    >>> info.to_pandas().columns.tolist()[:4]
    ['state', 'action', 'n', 'value']
    """

    names: tuple[str, ...]  # [P], of the policies
    policies: FloatArray  # [P, S, A]
    values: FloatArray  # [P], expected, less that of the best
    values_mcse: FloatArray  # [P]
    best: str
    evpi: float
    evpi_mcse: float
    evpi_bound: float
    evpi_bound_mcse: float
    n_visits: tuple[int, ...]  # [N]
    evppi: FloatArray  # [S, A]
    evppi_mcse: FloatArray  # [S, A]
    evsi: FloatArray  # [N, S, A]
    evsi_mcse: FloatArray  # [N, S, A]
    state_evppi: FloatArray  # [S]
    state_evppi_mcse: FloatArray  # [S]
    state_evsi: FloatArray  # [N, S]
    state_evsi_mcse: FloatArray  # [N, S]
    switch_evppi: FloatArray  # [S, A]
    switch_evppi_mcse: FloatArray  # [S, A]
    switch_evsi: FloatArray  # [N, S, A]
    switch_evsi_mcse: FloatArray  # [N, S, A]
    n_patients: int
    patients_evsi: FloatArray  # [S]
    patients_visits: FloatArray  # [S, A], that so many patients bring
    prior_visits: FloatArray  # [S, A], n0: visits that the belief is worth
    available: BoolArray  # [S, A], that policies may use
    confirmed: BoolArray  # [S], by nested Monte Carlo, or in every model
    approximation: float  # median ratio of approximate to confirmed switch values
    seconds: float
    task: Task = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, for JSON; what is not finite is None.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> info = bm.value_of_information(bm.worlds.casino())
        >>> round(info.to_dict()["evpi"], 4)
        2.6123
        """
        names = ["best", "evpi", "evpi_mcse", "evpi_bound", "evpi_bound_mcse"]
        names += ["n_patients", "approximation", "seconds"]
        found = {name: as_plain(getattr(self, name)) for name in names}
        found["n_policies"] = len(self.names)
        found["n_visits"] = list(self.n_visits)
        found["n_confirmed"] = int(self.confirmed.sum())
        found["states"] = as_plain(self.ranked_states(_SHOWN))
        found["pairs"] = as_plain(self.ranked_pairs(_SHOWN))
        return found

    def ranked_states(self, n: int = 10) -> list[dict[str, Any]]:
        """States where ``n_patients`` more patients teach most, best first.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> info = bm.value_of_information(bm.worlds.casino())
        >>> info.ranked_states(1)[0]["state"]
        'casino'
        """
        order = np.argsort(-self.patients_evsi, kind="stable")[:n]
        made = []
        for s in order[self.patients_evsi[order] > 0].tolist():
            value = self.switch_evsi[-1, s]
            a = int(value.argmax())
            made.append(
                {
                    "state": self.task.state_name(s),
                    "patients_evsi": float(self.patients_evsi[s]),
                    "visits": float(self.patients_visits[s].sum()),
                    "action": self.task.action_name(a),
                    "switch_evsi": float(value[a]),
                    "switch_evsi_mcse": float(self.switch_evsi_mcse[-1, s, a]),
                    "confirmed": bool(self.confirmed[s]),
                }
            )
        return made

    def ranked_pairs(self, n: int = 10) -> list[dict[str, Any]]:
        """Pairs whose rows are most worth knowing, among the policies, best first.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> info = bm.value_of_information(bm.worlds.casino())
        >>> info.ranked_pairs(1)[0]["action"]
        'play'
        """
        order = np.argsort(-self.evppi, axis=None, kind="stable")[:n]
        made = []
        for at in order.tolist():
            s, a = divmod(at, self.task.n_actions)
            if self.evppi[s, a] > 0:
                made.append(
                    {
                        "state": self.task.state_name(s),
                        "action": self.task.action_name(a),
                        "evppi": float(self.evppi[s, a]),
                        "evppi_mcse": float(self.evppi_mcse[s, a]),
                        "evsi": self.evsi[:, s, a].tolist(),
                        "evsi_mcse": self.evsi_mcse[:, s, a].tolist(),
                        "confirmed": bool(self.confirmed[s]),
                    }
                )
        return made

    def enbs(self, population: float, cost: float, setup: float = 0.0) -> FloatArray:
        """Return the expected net benefit of sampling a pair, ``[N, S, A]``.

        ``population * evsi - setup - n * cost``, in the unit of the rewards.

        Parameters
        ----------
        population
            Patients whom the decision concerns; `bayesmdp.information.population` says
            how many.
        cost
            Of one visit.
        setup
            Of the study, whatever its size.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> info = bm.value_of_information(bm.worlds.casino(), n_visits=(1, 10))
        >>> info.enbs(100, cost=1.0)[:, 0, 0].round(1).tolist()
        [260.2, 251.2]
        """
        people = _checks.real("population", population, ArgumentError, 0)
        each = _checks.real("cost", cost, ArgumentError, 0)
        once = _checks.real("setup", setup, ArgumentError, 0)
        n = np.array(self.n_visits, dtype=np.float64)[:, None, None]
        return np.asarray(people * self.evsi - once - each * n)

    def ranked_studies(
        self, population: float, cost: float, setup: float = 0.0, n: int = 10
    ) -> list[dict[str, Any]]:
        """Pairs whose study, of its best size, has the largest `enbs`, best first.

        Errors are NaN where a value is first-order.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> info = bm.value_of_information(bm.worlds.casino(), n_visits=(1, 10))
        >>> best = info.ranked_studies(100, cost=1.0)[0]
        >>> best["action"], best["n_visits"], round(best["enbs"], 1)
        ('play', 1, 260.2)
        """
        benefit = self.enbs(population, cost, setup)
        size = benefit.argmax(axis=0)
        largest = np.where(self.available, benefit.max(axis=0), -np.inf)
        made = []
        for at in np.argsort(-largest, axis=None, kind="stable")[:n].tolist():
            s, a = divmod(at, self.task.n_actions)
            if largest[s, a] > -np.inf:
                i = int(size[s, a])
                error = self.evsi_mcse[i, s, a] if self.confirmed[s] else math.nan
                made.append(
                    {
                        "state": self.task.state_name(s),
                        "action": self.task.action_name(a),
                        "n_visits": self.n_visits[i],
                        "evsi": float(self.evsi[i, s, a]),
                        "evsi_mcse": float(error),
                        "enbs": float(largest[s, a]),
                        "enbs_mcse": float(population * error),
                    }
                )
        return made

    def _rows(self) -> Iterator[dict[str, Any]]:
        """One for each pair and size of study; infinite where the row is known."""
        known = (math.inf, self.evppi, self.evppi_mcse, self.switch_evppi)
        visited = zip(
            self.n_visits, self.evsi, self.evsi_mcse, self.switch_evsi, strict=True
        )
        for n, value, error, switch in [known, *visited]:
            for s, a in np.argwhere(self.available).tolist():
                yield {
                    "state": self.task.state_name(s),
                    "action": self.task.action_name(a),
                    "n": float(n),
                    "value": float(value[s, a]),
                    "mcse": float(error[s, a]),
                    "switch_value": float(switch[s, a]),
                    "confirmed": bool(self.confirmed[s]),
                }

    def _sheet(self, shown: int = _SHOWN) -> Sheet:
        among = _checks.many(len(self.names), "policy")
        title = (
            f"Knowing the model is worth {rounded(self.evpi, self.evpi_mcse)} per "
            f"episode when choosing among {among}"
        )
        bound = rounded(self.evpi_bound, self.evpi_bound_mcse)
        lines: list[Any] = [f"at most {bound} over all policies; best now: {self.best}"]
        rows = [
            [
                f"state {x['state']}",
                significant(x["patients_evsi"], 2),
                f"{x['visits']:,.0f}" if x["visits"] >= 100 else f"{x['visits']:.3g}",
                x["action"],
                rounded(x["switch_evsi"], x["switch_evsi_mcse"])
                if x["confirmed"]
                else f"{significant(x['switch_evsi'], 2)}, first-order",
            ]
            for x in self.ranked_states(shown)
        ]
        if rows:
            head = ["", f"{self.n_patients} more", "visits", "try"]
            head += [f"{self.n_visits[-1]} visits to it"]
            lines += [Table(head, rows)]
        else:
            lines += ["No state is known in which more data would change a decision."]
        return Sheet(title, lines, indent="  ")

    def __repr__(self) -> str:
        return (
            f"Information(evpi={self.evpi:.4g}, evpi_bound={self.evpi_bound:.4g}, "
            f"{_checks.many(len(self.names), 'policy')})"
        )


def population(incidence: float, years: float, rate: float = 0.0) -> float:
    """Patients whom a decision concerns, discounted to today.

    Parameters
    ----------
    incidence
        Patients a year.
    years
        How long the decision stands.
    rate
        Discount rate a year, continuous: ``incidence (1 - exp(-rate years)) / rate``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> round(bm.information.population(1000, years=10, rate=0.035))
    8437
    """
    each = _checks.real("incidence", incidence, ArgumentError, 0)
    until = _checks.real("years", years, ArgumentError, 0)
    rate = _checks.real("rate", rate, ArgumentError, 0)
    return each * (until if rate == 0 else -math.expm1(-rate * until) / rate)
