"""The record of a check, and how it is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Record, Sheet, Table, number, percent, significant, table
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.diagnostics._markov_tests import MarkovOrder
from bayesmdp.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEVEL = 0.05  # of tests, after Holm
_PREDICTIVE = 0.01  # of survival and prevalence, and of each tail of `actions`
_SHOWN = 5  # states and steps that fit worst
_ONE_ACTION = (
    "The log holds one action only, so that it leaves nothing to choose: what others "
    "would do is said by the prior alone."
)
_FOUND = {
    "previous value": "Next states depend on the state before the present one",
    "previous action": "Next states depend on the action before the present one",
    "past actions": "Next states depend on the actions an episode has had",
    "step": "Next states depend on how long an episode has lasted",
    "episode order": "Next states change with the order of episodes",
    "second order": "Next states depend on the step before the present one",
}


@dataclass(frozen=True)
class CheckTest:
    """A test of the Markov assumption; an effect that has no value scale is NaN."""

    name: str
    statistic: float
    p_value: float
    p_holm: float  # for all tests together
    effect: float  # in units of value
    effect_se: float
    n_rows: int
    method: str


@dataclass(frozen=True, eq=False)
class Survival:
    """Share of episodes not ended by a step: observed, and posterior predictive."""

    step: IntArray  # [T]
    observed: FloatArray  # [T], Kaplan-Meier where episodes are censored
    predicted: FloatArray  # [T], mean
    low: FloatArray  # [T], of the 95 % band of each step
    high: FloatArray  # [T]
    outside: float  # share of all steps
    p_value: float


@dataclass(frozen=True)
class Ending:
    """Share of episodes that end in a state: observed, and posterior predictive."""

    state: str
    observed: float
    predicted: float
    low: float
    high: float


@dataclass(frozen=True)
class ActionVariance:
    """Share of the variance of one-step values within states that is between actions.

    Observed, and posterior predictive.
    """

    observed: float  # noise of the visits included
    predicted: float
    low: float
    high: float
    p_value: float  # two-sided


@dataclass(frozen=True, eq=False)
class Prevalence:
    """Share of each state among episodes still observed at some steps."""

    step: IntArray  # [G]
    state: tuple[str, ...]  # [J], the most visited
    observed: FloatArray  # [G, J]
    predicted: FloatArray  # [G, J]
    predicted_sd: FloatArray  # [G, J], over replicates
    told: BoolArray  # [G, J], cells that the statistic looks at
    statistic: float
    p_value: float

    @property
    def z(self) -> FloatArray:
        """Distance of observed and predicted in sds, 0 where it is not told."""
        apart = np.where(self.told, self.observed - self.predicted, 0.0)
        return np.asarray(apart / np.where(self.predicted_sd > 0, self.predicted_sd, 1))

    def worst(self, n: int = _SHOWN) -> list[tuple[int, int]]:
        """Places of the largest distances, in the grid and among states."""
        z = np.abs(self.z)
        order = np.argsort(-z, axis=None, kind="stable")[:n]
        g, j = np.unravel_index(order, z.shape)
        return [(int(a), int(b)) for a, b in zip(g, j, strict=True) if z[a, b] > 0]


@dataclass(frozen=True, eq=False, repr=False)
class Check(Record):
    """Observed beside predicted; made by `bayesmdp.check`.

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> log = world.simulate(np.full((25, 4), 0.25), 100, seed=0)
    >>> prior = bm.SymmetricPrior(support=world.support)
    >>> found = bm.check(bm.fit(log, world.task, prior=prior), log, n_draws=100)
    >>> print(", ".join(x.name for x in found.tests))
    previous value, previous action, past actions, step, episode order, second order
    """

    _derived = ("problems",)
    _table_of = "tests"

    observed_value: float  # mean return of logged episodes
    observed_se: float  # over episodes
    predicted_value: float  # of the behaviour policy, from the logged starts
    predicted_value_mcse: float
    predicted_interval: tuple[float, float]  # 95 %
    gap: float  # (predicted - observed) / se; NaN if all returns are equal
    n_episodes: int
    n_censored: int  # episodes that did not end in a terminal state
    model_share: float  # of observed returns, in size: what completes censored episodes
    tests: tuple[CheckTest, ...]
    survival: Survival | None  # None for a task without terminal states
    endings: tuple[Ending, ...]
    prevalence: Prevalence
    actions: ActionVariance | None  # None where no state has two actions that differ
    order: MarkovOrder | None  # None where no row has another one before it
    n_rows: int
    n_draws: int
    n_actions: int  # that occur in the log
    reward: str | Mapping[str, float] | None  # which of several, `Task.with_reward`
    seed: int
    notes: tuple[str, ...] = field(default=())

    @property
    def problems(self) -> tuple[str, ...]:
        """Sentences about what was found; empty where nothing was."""
        found = []
        if self.n_actions == 1:  # not refused: all else below makes sense without
            found.append(_ONE_ACTION)
        if abs(self.gap) > _t_quantile(self.n_episodes - 1):
            found.append(
                "The predicted value of the behaviour policy, "
                f"{significant(self.predicted_value, 4)}, is {abs(self.gap):.1f} "
                f"standard errors {'above' if self.gap > 0 else 'below'} the observed "
                f"one, {significant(self.observed_value, 4)}."
            )
        for what, part in (
            ("The share of episodes that have not ended", self.survival),
            ("Prevalence of states", self.prevalence),
        ):
            if part is not None and part.p_value < _PREDICTIVE:
                found.append(
                    f"{what} by step is not as predicted (posterior predictive p "
                    f"{part.p_value:.2g})."
                )
        if self.actions is not None and self.actions.p_value < 2 * _PREDICTIVE:
            more = self.actions.observed > self.actions.predicted
            found.append(
                f"Actions of a state differ {'more' if more else 'less'} than "
                f"predicted (posterior predictive p {self.actions.p_value:.2g}): "
                "predicted gains may be off; compare other priors."
            )
        for x in self.tests:
            if x.p_holm < _LEVEL:
                effect = ""
                if math.isfinite(x.effect):
                    effect = f"; effect on value {significant(abs(x.effect), 2)} per sd"
                found.append(f"{_FOUND[x.name]} (p {x.p_holm:.2g} by Holm{effect}).")
        return tuple(found)

    def plot(self, axes: Any = None) -> Figure:
        """Draw it; see `bayesmdp.diagnostics.plot_check`."""
        return plot_check(self, axes)

    def _sheet(self, shown: int = 10) -> Sheet:
        title = (
            f"Check of {_checks.many(self.n_episodes, 'episode')} with "
            f"{_checks.many(self.n_rows, 'transition')} against a posterior"
        )
        body: list[Table | str] = [self._compared()]
        if self.n_censored:
            body.append(
                f"{self.n_censored} of {self.n_episodes} episodes are censored: their "
                "returns are completed by the predicted value of their last state, "
                f"{percent(self.model_share)} of the observed value"
            )
        if self.survival is None:
            body.append("no terminal states: endings and time to end are left out")
        else:
            body.append(
                f"time to end: {percent(self.survival.outside)} of steps outside the "
                f"95 % band, posterior predictive p {self.survival.p_value:.3g}"
            )
        body.append(
            f"prevalence of states by step: posterior predictive p "
            f"{self.prevalence.p_value:.3g}"
        )
        worst = self._worst()
        body += [worst] if worst.rows else []
        body += ["", self._tests() if self.tests else "no history to test"]
        if self.order is not None:
            body.append(
                f"log Bayes factor {self.order.log_bayes_factor:.4g} for order 1 over "
                f"order 2 (Dirichlet {self.order.concentration:g})"
            )
        body += [f"note: {x}" for x in self.notes]
        body += ["", *(f"problem: {x}" for x in self.problems)]
        if not self.problems:
            body.append("no problem detected")
        return Sheet(title, body)

    def _compared(self) -> Table:
        low, high = self.predicted_interval
        names = ["value of the behaviour policy"]
        cells = [
            [
                number(self.observed_value, self.observed_se),
                number(self.predicted_value, self.predicted_value_mcse),
                f"{significant(low, 4)} to {significant(high, 4)}",
                f"gap {round(self.gap, 2) + 0.0:+.2f} se"
                if math.isfinite(self.gap)
                else "",
            ]
        ]
        for x in self.endings:
            names.append(f"end in {x.state}")
            band = f"{percent(x.low)} to {percent(x.high)}"
            cells.append([percent(x.observed), percent(x.predicted), band, ""])
        if (of := self.actions) is not None:
            names.append("variance between actions")
            band = f"{percent(of.low)} to {percent(of.high)}"
            said = f"p {of.p_value:.2g}"
            cells.append([percent(of.observed), percent(of.predicted), band, said])
        header = ("observed", "posterior predictive", "95 % interval", "")
        return table(names, header, cells)

    def _worst(self) -> Table:
        found = self.prevalence
        names, cells = [], []
        for g, j in found.worst():
            names.append(f"state {found.state[j]} at step {found.step[g]}")
            shares = found.observed[g, j], found.predicted[g, j]
            cells.append(
                [*map(percent, shares), f"{round(found.z[g, j], 1) + 0.0:+.1f}"]
            )
        header = ("observed", "posterior predictive", "z")
        return table(names, header, cells)

    def _tests(self) -> Table:
        cells = [
            [
                f"{x.statistic:.3g}",
                f"{x.p_value:.3g}",
                f"{x.p_holm:.3g}",
                number(x.effect, x.effect_se),
                x.method,
            ]
            for x in self.tests
        ]
        header = ("statistic", "p", "Holm p", "effect on value", "p by")
        return table([x.name for x in self.tests], header, cells)

    def __repr__(self) -> str:
        return (
            f"Check(observed_value={self.observed_value:.4g}, "
            f"predicted_value={self.predicted_value:.4g}, gap={self.gap:.2g}, "
            f"{_checks.many(len(self.problems), 'problem')})"
        )


def _t_quantile(df: int) -> float:
    """Return what Student's t exceeds in either direction with 5 %."""
    from scipy.special import stdtrit

    return float(stdtrit(df, 1 - _LEVEL / 2))


_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
_MOST = 4  # states whose prevalence is drawn


def plot_check(check: Check, axes: Any = None) -> Figure:
    """Draw observed and posterior predictive survival, and prevalence of states.

    Left, the share of episodes that have not ended by each step: a line for the
    observed one, a dashed line and a 95 % band for posterior predictive replicates.
    Then the share of each of the most prevalent states among episodes still observed,
    with bars of two sds over replicates.

    Parameters
    ----------
    check
        From `bayesmdp.check`.
    axes
        Two axes to draw on; a new figure where not given.

    Returns
    -------
    Figure
        Of matplotlib, with the extra ``plots``: ``figure.savefig("check.png")``.

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> log = world.simulate(np.full((25, 4), 0.25), 20, seed=0)
    >>> found = bm.check(bm.fit(log, world.task), log, n_draws=20)
    >>> [ax.get_title() for ax in found.plot().axes]
    ['Time to end', 'Prevalence']
    """
    _checks.of_type("check", check, Check, ArgumentError)
    if axes is None:
        figures = _checks.extra("matplotlib.figure", "plots", "plot_check")
        made = figures.Figure(figsize=(10.0, 4.0), layout="constrained")
        axes = made.subplots(1, 2)
    pair = np.asarray(axes).ravel()
    if pair.size != 2:
        raise ArgumentError(f"`axes` must be two axes; got {pair.size}.")
    _draw_survival(pair[0], check)
    _draw_prevalence(pair[1], check)
    figure: Figure = pair[0].figure
    return figure


def _draw_survival(ax: Any, check: Check) -> None:
    ax.set(title="Time to end", xlabel="step", ylabel="share not ended")
    found = check.survival
    if found is None:
        ax.text(0.5, 0.5, "no terminal states", ha="center", transform=ax.transAxes)
        return
    how = {"step": "post"}
    band = {"color": "0.88", "label": "posterior predictive, 95 %"}
    line = {"color": "0.45", "label": "posterior predictive, mean"}
    ax.fill_between(found.step, found.low, found.high, **how, **band)
    ax.step(found.step, found.predicted, "--", where="post", **line)
    ax.step(found.step, found.observed, where="post", color="#1f77b4", label="observed")
    ax.set_ylim(0, 1.02)
    ax.legend(frameon=False)


def _draw_prevalence(ax: Any, check: Check) -> None:
    found = check.prevalence
    most = np.argsort(-found.predicted.mean(axis=0), kind="stable")[:_MOST]
    nudge = 0.03 * max(float(np.ptp(found.step)), 1.0)
    for i, j in enumerate(most):
        colour = _COLOURS[i]
        at = found.step + nudge * (i / _MOST - 0.5)
        name = found.state[j].replace("$", r"\$")
        ax.plot(found.step, found.observed[:, j], color=colour, label=name)
        ax.errorbar(
            at,
            found.predicted[:, j],
            2 * found.predicted_sd[:, j],
            color=colour,
            fmt="o",
            markersize=3.5,
            linewidth=0.9,
            capsize=2,
        )
    ax.set(title="Prevalence", xlabel="step", ylabel="share of those still observed")
    ax.set_ylim(bottom=0)
    key = "state (lines observed,\npoints posterior predictive)"
    ax.legend(frameon=False, title=key, fontsize="small", title_fontsize="small")
