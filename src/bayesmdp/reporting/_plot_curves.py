"""A cohort under a policy over time; uncertainties against the size of the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, Name, PolicyLike
from bayesmdp.diagnostics import kaplan_meier, state_shares
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import Evaluation, as_draws
from bayesmdp.model import Log
from bayesmdp.posterior import Belief, Draws
from bayesmdp.reporting._plot_states import (
    BLUE,
    COLOURS,
    GREEN,
    INK,
    LINES,
    ORANGE,
    PURPLE,
    axes_for,
    finished,
    label_of,
    states_given,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_N_DRAWS = 1000
_MOST = 4  # states that are drawn unasked


def survival(
    policy: PolicyLike,
    draws: Draws | Belief,
    n_steps: int | None = None,
    *,
    log: Log | None = None,
    level: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
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
    draws, level = _checked(draws, level)
    task = draws.belief.task
    shares, observed = _shares(policy, draws, n_steps, log, level)
    alive = shares[:, :, ~task.is_terminal].sum(axis=2)
    ax = axes_for(ax, "plots.survival", (4.6, 3.2))
    _band(ax, alive, draws, level, BLUE, "-", "policy")
    if observed is not None:
        seen = slice(0, shares.shape[1])
        step = np.arange(observed.survival[seen].size)
        ax.step(
            step, observed.survival[seen], where="post", color=INK, label="Kaplan-Meier"
        )
        for limit in (observed.low, observed.high):
            ax.step(step, limit[seen], where="post", color=INK, linewidth=0.7, ls=":")
    ax.set_ylim(0, 1.02)
    return finished(ax, "step", "share not ended", legend=True)


def prevalence(
    policy: PolicyLike,
    draws: Draws | Belief,
    n_steps: int | None = None,
    *,
    states: Name | Sequence[Name] | None = None,
    log: Log | None = None,
    level: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
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
    draws, level = _checked(draws, level)
    task = draws.belief.task
    shares, _ = _shares(policy, draws, n_steps, log, level)
    if states is None:
        most = np.argsort(-shares.mean(axis=(0, 1)), kind="stable")[:_MOST]
        chosen = np.sort(most)
    else:
        chosen = states_given("states", states, task)
    ax = axes_for(ax, "plots.prevalence", (4.6, 3.2))
    for i, state in enumerate(chosen):
        look = COLOURS[i % _MOST], LINES[i % _MOST]
        _band(ax, shares[:, :, state], draws, level, *look, label_of(task, int(state)))
    ax.set_ylim(0, 1.02)
    return finished(ax, "step", "share of the cohort", legend=True)


def _checked(draws: Draws | Belief, level: float) -> tuple[Draws, float]:
    draws = as_draws(draws, _N_DRAWS if isinstance(draws, Belief) else None)
    return draws, _checks.real("level", level, ArgumentError, 0, 1, open_low=True)


def _shares(
    policy: PolicyLike, draws: Draws, n_steps: int | None, log: Log | None, level: float
) -> tuple[FloatArray, Any]:
    """Shares of states ``[D, T + 1, S]``, and Kaplan-Meier where there is a log."""
    task = draws.belief.task
    observed = None if log is None else kaplan_meier(log, task, level=level)
    if n_steps is not None:
        steps = _checks.integer("n_steps", n_steps, 1, ArgumentError)
    elif observed is not None:
        steps = int(observed.survival.size - 1)
    else:
        raise ArgumentError("Give `n_steps`, or a `log` whose length says how many.")
    start = None if observed is None else observed.start
    return state_shares(policy, draws, steps, start=start), observed


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


_LOOKS = {  # of a quantity: colour, marker
    "epistemic_sd": (BLUE, "o"),
    "aleatoric_sd": (ORANGE, "s"),
    "total_sd": (PURPLE, "D"),
    "value": (GREEN, "^"),
}


def sweep(
    evaluations: Mapping[int, Evaluation],
    *,
    quantities: str | Sequence[str] = ("epistemic_sd", "aleatoric_sd"),
    states: Name | Iterable[Name] | None = None,
    every_state: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw how uncertainties or values change with the size of the data.

    Bars are two Monte Carlo standard errors; around a value, the band is one epistemic
    sd to either side. Sizes are drawn to a logarithmic scale.

    Parameters
    ----------
    evaluations
        An evaluation for each number of transitions, all of the same states.
    quantities
        One or more of ``epistemic_sd``, ``aleatoric_sd``, ``total_sd``, ``value``.
    states
        States to draw, by index or label; from the start where not given.
    every_state
        Whether to draw all states behind, faintly.
    ax
        Axes to draw on.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> found = {}
    >>> for n in (100, 1000):
    ...     posterior = bm.fit(world.sample(n, seed=0), world.task)
    ...     found[n] = bm.evaluate(np.ones(25, dtype=int), posterior.draws(200))
    >>> ax = bm.plots.sweep(found, states=[7])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['epistemic sd, state 7', 'aleatoric sd, state 7']
    """
    sizes, found = _by_size(evaluations)
    wanted = _quantities(quantities)
    task = found[0].task
    bold: list[int | None] = [None]
    if states is not None:
        bold = [int(s) for s in states_given("states", states, task)]
    ax = axes_for(ax, "plots.sweep", (4.8, 3.6))
    for quantity in wanted:
        colour, marker = _LOOKS[quantity]
        if every_state:
            faint = np.array([getattr(e, quantity)[task.live] for e in found])
            alpha = float(np.clip(6 / task.live.size, 0.03, 0.3))
            ax.plot(sizes, faint, color=colour, linewidth=0.7, alpha=alpha, zorder=1)
        for number, state in enumerate(bold):
            height, error = _history(found, quantity, state)
            of = "from the start" if state is None else f"state {label_of(task, state)}"
            ax.errorbar(
                sizes,
                height,
                2 * error,
                color=colour,
                marker=marker,
                markersize=4.5,
                linestyle=LINES[number % len(LINES)],
                linewidth=1.8,
                capsize=2,
                label=f"{_words(quantity)}, {of}",
            )
            if quantity == "value":
                sd = _history(found, "epistemic_sd", state)[0]
                ax.fill_between(
                    sizes, height - sd, height + sd, color=colour, alpha=0.15, lw=0
                )
    _size_axis(ax, sizes)
    several = "value and sd" if "value" in wanted else "sd"
    ax.set_ylabel(several if len(wanted) > 1 else _words(wanted[0]))
    if "value" not in wanted:
        ax.set_ylim(bottom=0.0)
    if bold:  # above the axes, since lines run everywhere inside
        ax.legend(
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=len(wanted),
            frameon=False,
            fontsize="small",
        )
    return ax


def _by_size(evaluations: object) -> tuple[list[int], list[Evaluation]]:
    """Return sizes of the data in rising order, and the evaluation of each."""
    if not isinstance(evaluations, Mapping) or not evaluations:
        raise ArgumentError(
            "`evaluations` must map numbers of transitions to evaluations."
        )
    found: dict[int, Evaluation] = {}
    for key, each in evaluations.items():
        size = _checks.integer("evaluations", key, 1, ArgumentError)
        _checks.of_type(f"evaluations[{size}]", each, Evaluation, ArgumentError)
        found[size] = each
    sizes = sorted(found)
    n_states = found[sizes[0]].value.size
    for size in sizes:
        if found[size].value.size != n_states:
            raise ArgumentError(
                f"`evaluations` must be of the same states: that of {size} transitions "
                f"has {found[size].value.size}, that of {sizes[0]} has {n_states}."
            )
    return sizes, [found[size] for size in sizes]


def _quantities(given: object) -> list[str]:
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, Sequence) or not listed:
        raise ArgumentError(f"`quantities` must name some of {', '.join(_LOOKS)}.")
    for name in listed:
        if name not in _LOOKS:
            hint = _checks.did_you_mean(name, _LOOKS)
            raise ArgumentError(
                f"`quantities` {name!r:.80} is not one of {', '.join(_LOOKS)}{hint}."
            )
    return list(listed)


def _history(
    found: list[Evaluation], quantity: str, state: int | None
) -> tuple[FloatArray, FloatArray]:
    """Return a quantity by size of the data, and its error."""
    if state is None:
        pairs = [
            (getattr(e, f"start_{quantity}"), getattr(e, f"start_{quantity}_mcse"))
            for e in found
        ]
    else:
        pairs = [
            (getattr(e, quantity)[state], getattr(e, f"{quantity}_mcse")[state])
            for e in found
        ]
    height, error = np.array(pairs, dtype=np.float64).T
    return height, error


def _size_axis(ax: Any, sizes: list[int]) -> None:
    ax.set_xscale("log")
    ax.set_xlabel("number of transitions")
    if len(sizes) <= 7:
        ax.minorticks_off()
        ax.set_xticks(sizes, [f"{n:,}" for n in sizes])


def _words(quantity: str) -> str:
    return quantity.replace("_", " ")
