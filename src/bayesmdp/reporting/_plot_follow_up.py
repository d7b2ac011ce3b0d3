"""A cohort under a policy over time: who is left, and in which states."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, Name, PolicyLike
from bayesmdp.diagnostics import kaplan_meier, state_shares
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import as_draws
from bayesmdp.model import Log
from bayesmdp.posterior import Belief, Draws
from bayesmdp.reporting._plot_axes import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    axes_for,
    label_of,
    states_given,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_N_DRAWS = 1000
_LINES = ("-", "--", "-.", ":")
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE)


def survival(
    policy: PolicyLike,
    draws: Draws | Belief,
    n_steps: int | None = None,
    *,
    log: "Log | None" = None,
    level: float = 0.95,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the share that has not reached a terminal state, beside Kaplan-Meier.

    The band holds what the data leave open about the share (epistemic uncertainty). It
    is that of ``policy``: beside the curve of the log it says how well the model fits
    only where the policy is that of the log, `bayesmdp.policies.behaviour`.

    Parameters
    ----------
    policy
        ``[S, A]`` or ``[S]``.
    draws
        ``posterior.draws(n, seed)``, or a posterior.
    n_steps
        Steps to show; those of the log where not given.
    log
        Its Kaplan-Meier estimate is drawn, with its interval, and the cohort starts as
        its episodes do; without it, as the task says.
    level
        Probability inside band and interval.
    ax
        Axes to draw on.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> log = world.simulate(np.full((25, 4), 0.25), 100, seed=0)
    >>> posterior = bm.fit(log, world.task)
    >>> policy = bm.policies.behaviour(posterior)
    >>> bm.plots.survival(policy, posterior.draws(50), 20, log=log).get_ylabel()
    'share not ended'
    """
    draws = as_draws(draws, _N_DRAWS if isinstance(draws, Belief) else None)
    level = _checks.real("level", level, ArgumentError, 0, 1, open_low=True)
    task = draws.belief.task
    observed = None if log is None else kaplan_meier(log, task, level=level)
    n_steps = _steps(n_steps, observed)
    start = None if observed is None else observed.start
    shares = state_shares(policy, draws, n_steps, start=start)
    alive = shares[:, :, ~task.is_terminal].sum(axis=2)
    ax = axes_for(ax, "plots.survival", (4.6, 3.2))
    _band(ax, alive, draws, level, BLUE, "-", "policy")
    if observed is not None:
        seen = slice(0, n_steps + 1)
        step = np.arange(observed.survival[seen].size)
        ax.step(
            step, observed.survival[seen], where="post", color=INK, label="Kaplan-Meier"
        )
        for limit in (observed.low, observed.high):
            ax.step(step, limit[seen], where="post", color=INK, linewidth=0.7, ls=":")
    ax.set_ylim(0, 1.02)
    ax.set_xlabel("step")
    ax.set_ylabel("share not ended")
    ax.legend(frameon=False)
    return ax


def prevalence(
    policy: PolicyLike,
    draws: Draws | Belief,
    n_steps: int | None = None,
    *,
    states: Name | Sequence[Name] | None = None,
    log: "Log | None" = None,
    level: float = 0.95,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the share of a cohort in some states, terminal ones included.

    Parameters
    ----------
    policy, draws, n_steps, level, ax
        As in `survival`.
    states
        Which; those with the largest shares where not given, four at most.
    log
        Its episodes say where the cohort starts; without it, the task.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(500, seed=0), world.task)
    >>> policy = bm.policies.behaviour(posterior)
    >>> draws = posterior.draws(50)
    >>> bm.plots.prevalence(policy, draws, 20, states=[0, 24]).get_ylabel()
    'share of the cohort'
    """
    draws = as_draws(draws, _N_DRAWS if isinstance(draws, Belief) else None)
    level = _checks.real("level", level, ArgumentError, 0, 1, open_low=True)
    task = draws.belief.task
    observed = None if log is None else kaplan_meier(log, task, level=level)
    n_steps = _steps(n_steps, observed)
    start = None if observed is None else observed.start
    shares = state_shares(policy, draws, n_steps, start=start)
    if states is None:
        most = np.argsort(-shares.mean(axis=(0, 1)), kind="stable")[: len(_COLOURS)]
        chosen = np.sort(most)
    else:
        chosen = states_given("states", states, task)
    ax = axes_for(ax, "plots.prevalence", (4.6, 3.2))
    for i, state in enumerate(chosen):
        look = _COLOURS[i % len(_COLOURS)], _LINES[i % len(_LINES)]
        _band(ax, shares[:, :, state], draws, level, *look, label_of(task, int(state)))
    ax.set_ylim(0, 1.02)
    ax.set_xlabel("step")
    ax.set_ylabel("share of the cohort")
    ax.legend(frameon=False)
    return ax


def _steps(n_steps: int | None, observed: Any) -> int:
    """Return how many steps to show."""
    if n_steps is not None:
        return _checks.integer("n_steps", n_steps, 1, ArgumentError)
    if observed is None:
        raise ArgumentError("Give `n_steps`, or a `log` whose length says how many.")
    return int(observed.survival.size - 1)


def _band(
    ax: Any,
    curves: FloatArray,
    draws: Draws,
    level: float,
    colour: str,
    line: str,
    label: str,
) -> None:
    """Draw the mean of curves ``[D, T + 1]``, and a band that holds most draws."""
    weights = draws.weights
    outside = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(
        curves, outside, axis=0, weights=weights, method="inverted_cdf"
    )
    step = np.arange(curves.shape[1])
    ax.fill_between(step, low, high, color=colour, alpha=0.2, linewidth=0)
    mean = np.average(curves, axis=0, weights=weights)
    ax.plot(step, mean, color=colour, linestyle=line, label=label)
