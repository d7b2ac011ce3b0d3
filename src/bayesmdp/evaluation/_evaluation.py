"""The record of an evaluation, how it is shown, and its draws as ArviZ takes them.

ArviZ before 1.0 has a class of its own, `InferenceData`; from 1.0 on it takes the
`DataTree` of xarray. Both hold one data set, ``posterior``, with axes chain and draw.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Record, Sheet, Table, as_plain, between, rounded
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation._errors import ESTIMATED, Estimates
from bayesmdp.model import Task

#: Values ``[D, ...]`` by name, each with the name and labels of its second axis.
Variables = Mapping[str, tuple[FloatArray, Mapping[str, Sequence[str]]]]


def inference_data(variables: Variables, weights: FloatArray | None, n: Any) -> Any:
    """Hand values over draws to ArviZ; ``n`` chains, one after the other."""
    if weights is not None and not np.allclose(weights, weights[0]):
        raise ArgumentError(
            "`to_inference_data` takes draws that count alike, and models of this "
            "ensemble have different weights: repeat models by weight, or use `values`."
        )
    n = _checks.integer("chains", n, 1, ArgumentError)
    known = np.all(
        [np.isfinite(x).reshape(x.shape[0], -1).all(1) for x, _ in variables.values()],
        axis=0,
    )
    if n > 1 and (known.size % n or not known.all()):
        raise ArgumentError(
            f"`chains` must divide the {known.size} draws, none of them left out for "
            f"not ending; got {n} and {int(known.sum())} draws with a value."
        )
    try:
        with warnings.catch_warnings():  # ArviZ 0.23 announces 1.0 once a day
            warnings.simplefilter("ignore", FutureWarning)
            import arviz
        import xarray
    except ImportError:
        raise ArgumentError(
            "`to_inference_data` needs ArviZ, which is not installed: "
            '`pip install "bayesmdp[arviz]"`.'
        ) from None
    coordinates = {
        d: list(x) for _, axes in variables.values() for d, x in axes.items()
    }
    data = {
        name: (("chain", "draw", *axes), x[known].reshape(n, -1, *x.shape[1:]))
        for name, (x, axes) in variables.items()
    }
    found = xarray.Dataset(
        data,
        {"chain": np.arange(n), "draw": np.arange(known.sum() // n), **coordinates},
        {"inference_library": "bayesmdp"},
    )
    if hasattr(arviz, "InferenceData"):  # before 1.0
        return arviz.InferenceData(posterior=found)
    return xarray.DataTree.from_dict({"posterior": found})


_FEW = 30  # draws below which their spread says little about itself
_QUANTITIES = ("value", "epistemic_sd", "aleatoric_sd", "total_sd")
_BIAS = ("bias", "bias_mcse", "bias_sd", "bias_sd_mcse")
_OVER_STEPS = "aleatoric sd: the mean over n steps has this over sqrt(n), for large n"
_COVARIANCES = tuple(
    f"start_{kind}_covariance{what}"
    for kind in ("epistemic", "aleatoric")
    for what in ("", "_mcse")
)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Record, Estimates):
    """Value of a policy and its uncertainty; made by `bayesmdp.evaluate`.

    ``*_mcse`` are Monte Carlo standard errors: what more draws would remove.
    ``epistemic_sd`` is what more data would remove, ``aleatoric_sd`` is chance, which
    no data remove. With ``criterion="average"`` values are averages per step, and
    ``aleatoric_sd`` is the root of the variance of a sum of steps over their number, of
    which the mean of n steps has 1 / sqrt(n) (docs/rewards.md); ``total_sd`` is then
    NaN, because no single outcome has the sum of both variances. ``occupancy`` counts
    discounted visits from the start distribution, or shares of time; a terminal state
    is visited once, on arrival.

    With several rewards the plain fields, and ``interval()``, are those of the first
    reward of the task; ``rewards[name]`` is the `Evaluation` of each. Data frames have
    rows for all of them, and draws for ArviZ an axis ``reward``.

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(500, seed=0), world.task)
    >>> evaluation = bm.evaluate(np.full((25, 4), 0.25), posterior.draws(200, seed=0))
    >>> evaluation.value.shape, evaluation.n_draws
    ((25,), 200)
    """

    # first the fields of `Estimates`, [S] each
    occupancy: FloatArray  # [S]
    occupancy_mcse: FloatArray  # [S]
    start_value: float
    start_value_mcse: float
    start_epistemic_sd: float
    start_epistemic_sd_mcse: float
    start_aleatoric_sd: float
    start_aleatoric_sd_mcse: float
    start_total_sd: float
    start_total_sd_mcse: float
    start_values: FloatArray  # [D], raw; NaN where a draw does not end
    n_draws: int
    exact: bool  # every model of an ensemble: no error, unless models are a sample
    n_endless: int  # draws left out because their episodes do not end
    n_unsolved: int  # draws left out because they converge too slowly
    n_retried: int  # draws that elimination solved where iterations had failed
    solver: str  # dense, banded or iterative (some draws retried: `n_retried`)
    variance_reduction: float  # of the start value, by control variates
    prior_share: float  # of discounted visits on pairs without an observation
    notes: tuple[str, ...]  # what was warned about
    seed: int
    policy: FloatArray  # [S, A]
    task: Task = field(repr=False)
    values: FloatArray | None = None  # [D, S], where asked for
    weights: FloatArray | None = None  # [D], of an ensemble's models; None: all equal
    #: Of several rewards each, on the same draws; the fields above are of the first.
    rewards: Mapping[str, Evaluation] | None = None
    start_epistemic_covariance: FloatArray | None = None  # [K, K] of rewards, of values
    start_epistemic_covariance_mcse: FloatArray | None = None  # [K, K]
    start_aleatoric_covariance: FloatArray | None = None  # [K, K], of returns
    start_aleatoric_covariance_mcse: FloatArray | None = None  # [K, K]
    bias: FloatArray | None = None  # [S], with averages: what a start there adds
    bias_mcse: FloatArray | None = None  # [S]
    bias_sd: FloatArray | None = None  # [S], epistemic
    bias_sd_mcse: FloatArray | None = None  # [S]
    device: str = "cpu"  # what computed

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Equal-tailed posterior interval of the start value.

        Its ends are quantiles of ``start_values``, weighted where models of an ensemble
        have weights; draws that were left out (``n_endless``, ``n_unsolved``) do not
        count. It holds epistemic uncertainty alone: single outcomes vary by
        ``start_aleatoric_sd`` besides. Start values of roll-outs hold their noise, and
        so does the interval.

        Parameters
        ----------
        level
            Posterior probability inside the interval.

        Returns
        -------
        tuple
            Lower and upper limit.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> task = bm.Task(3, 1, reward=[0, 1, 0], discount=1, terminal=[1, 2], start=0)
        >>> ways = bm.Counts.from_arrays([0] * 10, [0] * 10, [1] * 6 + [2] * 4)
        >>> support = ([0, 0], [0, 0], [1, 2])
        >>> posterior = bm.fit(ways, task, prior=bm.SymmetricPrior(support=support))
        >>> low, high = bm.evaluate([0, 0, 0], posterior.draws(20_000)).interval()
        >>> round(low, 2), round(high, 2)  # of Beta(7, 5): 0.308 and 0.833
        (0.31, 0.83)
        """
        level = _checks.real("level", level, ArgumentError, 0, 1, open_low=True)
        values = self.start_values
        weights = np.ones(values.size) if self.weights is None else self.weights
        known = np.isfinite(values) & (weights > 0)
        return interval_of(values[known], weights[known], level)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, for JSON; what is not finite is None."""
        names = [f"start_{x}" for x in ESTIMATED]
        names += ["n_draws", "exact", "n_endless", "n_unsolved", "n_retried", "solver"]
        names += ["device", "variance_reduction", "prior_share", "seed", "notes"]
        of_states = [*ESTIMATED, "occupancy", "occupancy_mcse"]
        of_states += _BIAS if self.bias is not None else ()
        columns = {name: as_plain(getattr(self, name)) for name in of_states}
        return {
            **{name: as_plain(getattr(self, name)) for name in names},
            "interval": list(self.interval()),
            **self._said_rewards(),
            **({"is_cost": True} if self.task.is_cost else {}),
            "states": [
                {
                    "state": self.task.state_name(s),
                    **{name: column[s] for name, column in columns.items()},
                }
                for s in range(self.task.n_states)
            ],
        }

    def _said_rewards(self) -> dict[str, Any]:
        """Several rewards, where there are some."""
        if self.rewards is None:
            return {}
        return {
            "rewards": {name: one.to_dict() for name, one in self.rewards.items()},
            **{name: as_plain(getattr(self, name)) for name in _COVARIANCES},
        }

    def _rows(self) -> list[dict[str, Any]]:
        if self.rewards is not None:
            of = self.rewards.items()
            return [{"reward": name, **row} for name, x in of for row in x._rows()]
        found: list[dict[str, Any]] = self.to_dict()["states"]
        return found

    def to_inference_data(self, chains: int = 1) -> Any:
        """Return the draws of the value for ArviZ; needs the extra ``arviz``.

        Parameters
        ----------
        chains
            How many chains the draws came from, one after the other: for an ensemble
            whose models are MCMC draws. Draws of a posterior are one chain.

        Returns
        -------
        InferenceData
            From ArviZ 1.0 on a ``DataTree``. ``posterior`` holds ``start_value``, and
            ``value`` of every state where `bayesmdp.evaluate` was asked to
            ``keep_values``; several rewards have an axis ``reward``. Draws that do not
            end are left out.

        Examples
        --------
        >>> import numpy as np, bayesmdp as bm
        >>> world = bm.worlds.gridworld()
        >>> posterior = bm.fit(world.sample(500, seed=0), world.task)
        >>> found = bm.evaluate(np.full((25, 4), 0.25), posterior, n_draws=200)
        >>> dict(found.to_inference_data().posterior.sizes)
        {'chain': 1, 'draw': 200}
        """
        each = self.rewards or {}

        def of_all(name: str) -> FloatArray:
            if not each:
                return np.asarray(getattr(self, name))
            return np.stack([getattr(x, name) for x in each.values()], axis=1)

        axes = {"reward": list(each)} if each else {}
        variables: dict[str, Any] = {"start_value": (of_all("start_values"), axes)}
        if self.values is not None:
            names = [self.task.state_name(s) for s in range(self.task.n_states)]
            variables["value"] = (of_all("values"), {**axes, "state": names})
        return inference_data(variables, self.weights, chains)

    @property
    def _noisy(self) -> bool:
        """Whether there are Monte Carlo errors: of draws, or of models as a sample."""
        of = ESTIMATED[1:6:2]  # not of the total sd, which averages lack
        each = (self, *(self.rewards or {}).values())
        return not self.exact or any(getattr(x, f"start_{e}") for x in each for e in of)

    @property
    def drawn(self) -> str:
        """What was drawn, in words."""
        if self.exact:
            how = "sampled" if self._noisy else "exactly"
            return f"{_checks.many(self.n_draws, 'model')}, {how}"
        return f"{_checks.many(self.n_draws, 'draw')} (seed {self.seed})"

    def _sheet(self, shown: int = 10) -> Sheet:
        header = ["", "value", "epistemic sd", "aleatoric sd", "total sd"]
        if self.rewards is not None:
            return self._sheet_of_rewards(header)
        average = self.task.criterion == "average"
        told = _QUANTITIES[:3] if average else _QUANTITIES
        header = header[: 1 + len(told)]
        start = [
            rounded(getattr(self, f"start_{q}"), getattr(self, f"start_{q}_mcse"))
            for q in told
        ]
        rows = [["from the start", *start]]
        live = self.task.live
        order = live[np.argsort(-self.occupancy[live], kind="stable")][:shown]
        if self.bias is not None:
            return self._sheet_of_average(Table(header, rows), order)
        for state in order:
            cells = [
                rounded(getattr(self, q)[state], getattr(self, f"{q}_mcse")[state])
                for q in told
            ]
            rows.append([f"state {self.task.state_name(int(state))}", *cells])
        lines = [*self._remarks(), *([_OVER_STEPS] if average else [])]
        if live.size > order.size and shown:
            said = f"(the {order.size} most visited of {live.size} states)"
            lines.insert(0, said)
        unit = f" in {self.task.reward_unit}" if self.task.reward_unit else ""
        what = "Cost" if self.task.is_cost else "Value"
        header[1] = what.lower()
        title = f"{what} of a policy{unit} over {self.drawn}, {self.task.said_time}"
        return Sheet(title, [Table(header, rows), *lines])

    def _sheet_of_average(self, start: Table, order: IntArray) -> Sheet:
        """Average per step, and how much better it is to start in a state."""
        columns = [getattr(self, name) for name in _BIAS]
        header = ["", "share of time", "bias", "epistemic sd"]
        rows = [
            [
                f"state {self.task.state_name(int(s))}",
                rounded(self.occupancy[s], self.occupancy_mcse[s]),
                rounded(columns[0][s], columns[1][s]),
                rounded(columns[2][s], columns[3][s]),
            ]
            for s in order
        ]
        unit = f" in {self.task.reward_unit}" if self.task.reward_unit else ""
        title = f"Average per step of a policy{unit} over {self.drawn}"
        lines = [*self._remarks(), _OVER_STEPS]
        return Sheet(title, [start, Table(header, rows), *lines])

    def _sheet_of_rewards(self, header: list[str]) -> Sheet:
        """Every reward from the start, and how they go together."""
        assert self.rewards is not None
        average = self.task.criterion == "average"
        shown = _QUANTITIES[:3] if average else _QUANTITIES
        rows = [
            [
                f"{name} ({one.task.reward_unit})" if one.task.reward_unit else name,
                *(
                    rounded(getattr(one, f"start_{q}"), getattr(one, f"start_{q}_mcse"))
                    for q in shown
                ),
            ]
            for name, one in self.rewards.items()
        ]
        lines = [
            f"95 % interval of {name} {self._when}: {between(*one.interval())}"
            for name, one in self.rewards.items()
        ]
        if self._noisy:
            lines.append("± Monte Carlo error")
        over, of = self.start_epistemic_covariance, self.start_aleatoric_covariance
        lines += [
            f"correlation of {a} and {b}: {_correlated(over, i, j)} over draws, "
            f"{_correlated(of, i, j)} of returns"
            for i, a in enumerate(self.rewards)
            for j, b in enumerate(self.rewards)
            if i < j
        ]
        lines += self._made()
        title = f"Values of a policy over {self.drawn}, {self.task.said_time}"
        if average:
            title = f"Averages per step of a policy over {self.drawn}"
            lines.append(_OVER_STEPS)
        return Sheet(title, [Table(header[: 1 + len(shown)], rows), *lines])

    def _remarks(self) -> list[str]:
        """Sentences below the table."""
        what = "cost" if self.task.is_cost else "value"
        lines = [
            f"95 % interval of the {what} {self._when}: {between(*self.interval())}"
        ]
        if self.variance_reduction > 1.0:
            lines.append(
                "± Monte Carlo error; control variates cut the variance of the start "
                f"value by {min(self.variance_reduction, 1e9):.3g}"
            )
        elif self._noisy:
            lines.append("± Monte Carlo error")
        if self.n_draws < _FEW and not self.exact:
            lines.append("few draws: the errors themselves are rough")
        if self.prior_share > 0.005:
            lines.append(
                f"{self.prior_share:.0%} of the visits are on pairs never observed, "
                "where values rest on the prior alone"
            )
        if self.n_retried:
            lines.append(
                f"{self.n_retried} of {self.n_draws} draws did not converge by "
                "iterations and were solved by elimination"
            )
        return lines + self._made()

    @property
    def _when(self) -> str:
        """What start values are, in words."""
        return "per step" if self.task.criterion == "average" else "from the start"

    def _made(self) -> list[str]:
        """Say what computed, where that was no CPU, and what was warned about."""
        lines = [] if self.device == "cpu" else [f"computed by device {self.device}"]
        return lines + [f"note: {note}" for note in self.notes]

    def __repr__(self) -> str:
        if self.rewards is not None:
            each = [
                f"{name}: {rounded(x.start_value, x.start_value_mcse)}"
                for name, x in self.rewards.items()
            ]
            draws = _checks.many(self.n_draws, "draw")
            return f"Evaluation(start_value={{{', '.join(each)}}}, {draws})"
        value = rounded(self.start_value, self.start_value_mcse)
        return (
            f"Evaluation(start_value={value}, "
            f"epistemic_sd={self.start_epistemic_sd:.3g}, "
            f"aleatoric_sd={self.start_aleatoric_sd:.3g}, "
            f"{_checks.many(self.n_draws, 'draw')})"
        )


def in_costs(found: Evaluation) -> Evaluation:
    """Return the evaluation of minus a cost in costs.

    What has no sign stays: standard deviations, errors, visits.
    """
    names = ("value", "start_values", "values", "bias")
    turned: dict[str, Any] = {
        name: _checks.sealed(0.0 - x)
        for name in names
        if (x := getattr(found, name)) is not None
    }
    return replace(found, start_value=0.0 - found.start_value, **turned)


def _correlated(covariance: FloatArray | None, i: int, j: int) -> str:
    """Write a correlation of two rewards."""
    if covariance is None:
        return "?"
    size = math.sqrt(covariance[i, i] * covariance[j, j])
    return f"{round(covariance[i, j] / size, 2) + 0.0:.2f}" if size > 0 else "0"


def interval_of(
    values: FloatArray, weights: FloatArray, level: float = 0.95
) -> tuple[float, float]:
    """Equal-tailed interval: as much weight below it as above."""
    tail = (1 - level) / 2
    return quantile(values, weights, tail), quantile(values, weights, 1 - tail)


def quantile(values: FloatArray, weights: FloatArray, level: float) -> float:
    """Smallest value that at least ``level`` of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weights[order])
    at = np.searchsorted(mass, level * mass[-1] * (1 - 1e-12))
    return float(values[order][min(int(at), values.size - 1)])
