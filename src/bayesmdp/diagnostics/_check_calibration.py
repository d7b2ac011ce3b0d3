"""Do credible intervals cover as often as they say? Simulate, fit, compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from bayesmdp import _checks
from bayesmdp._labelled import in_order
from bayesmdp._resources import progress_bar
from bayesmdp._typing import ArrayLike, FloatArray, IntArray, PolicyLike, Seed
from bayesmdp.diagnostics._advice import check_prior, unwarned
from bayesmdp.diagnostics._calibration import Calibration, p_value
from bayesmdp.diagnostics._simulated_data import (
    Choose,
    Episodes,
    Outcome,
    Pairs,
    Source,
    Study,
    outcomes,
    source_of,
)
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import plain_mcse, share_mcse
from bayesmdp.model import Task, as_policy, check_start
from bayesmdp.policies import nominal
from bayesmdp.priors import AnyPrior
from bayesmdp.worlds import MDP

if TYPE_CHECKING:
    from concurrent.futures import Executor

_A_TASK = 16  # datasets an executor gets at once


def check_calibration(
    task: Task,
    prior: AnyPrior,
    *,
    truth: AnyPrior | MDP | None = None,
    n_visits: int | ArrayLike | Episodes = 10,
    policy: PolicyLike | None = None,
    choose: Choose | Literal["nominal"] | None = "nominal",
    min_count: int = 0,
    n_datasets: int = 2000,
    n_draws: int = 199,
    levels: Sequence[float] = (0.5, 0.8, 0.9, 0.95),
    error_rate: float = 0.01,
    seed: Seed = 0,
    threads: int | None = None,
    executor: Executor | None = None,
    progress: bool | None = None,
) -> Calibration:
    """Check a prior's credible intervals on simulated data with known truths.

    For each dataset a true model is drawn, data are simulated from it and fitted with
    ``prior``, and the truth is ranked among draws of the posterior. The quantities
    ranked are the value and the aleatoric variance from the start, of a fixed policy
    and of one chosen from the posterior.

    With ``truth`` None this is simulation-based calibration (Talts et al. 2018): ranks
    are uniform if everything from the prior to the draws is correct. This also holds
    for the chosen policy: under a well-specified prior, predicted and true values agree
    in expectation. The optimiser's curse is what a misspecified prior does to a choice;
    ``truth`` shows it.

    Parameters
    ----------
    task
        The known part.
    prior
        What is fitted; also a mixture.
    truth
        Where true models come from: the prior itself where not given, which must then
        generate data (symmetric, scaled, random-support, a fallback over one of these,
        or a mixture of all of these, weighted before the data); another such prior;
        or a world, whose model is the truth every time.
    n_visits
        Visits to every pair in each dataset, or how many to each, ``[S, A]``; or
        `Episodes` of a behaviour.
    policy
        The fixed policy, ``[S, A]`` or ``[S]``; the uniform random policy where not
        given.
    choose
        How a policy is chosen from a posterior: a function, or ``"nominal"`` for
        `policies.nominal`; None to leave it out.
    min_count
        As for `bayesmdp.fit`.
    n_datasets
        How many, at least 10.
    n_draws
        Draws of each posterior. Intervals end at draws, so ``(n_draws + 1)
        (1 - level) / 2`` must be whole for every level; they then cover exactly their
        level, without Monte Carlo error.
    levels
        Of the central intervals, in (0, 1).
    error_rate
        Probability that a calibrated belief fails, in (0, 0.5].
    seed
        Dataset ``i`` is a function of the seed and ``i`` alone.
    threads, executor
        As for `bayesmdp.evaluate`; datasets are distributed among workers. Much of the
        work is done in Python, so processes help where threads do not.
    progress
        Whether to show a bar; by default on a terminal, after a second.

    Returns
    -------
    Calibration

    References
    ----------
    Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference
    algorithms with simulation-based calibration. Modrák et al. (2023), Simulation-based
    calibration checking for Bayesian computation, Bayesian Analysis.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.worlds.synthetic(0, 3, 2, discount=0.9).task
    >>> bm.check_calibration(task, bm.SymmetricPrior(1.0), n_datasets=200).passed
    True
    >>> sure = bm.SymmetricPrior(0.01)  # hardly a prior
    >>> found = bm.check_calibration(task, sure, truth=bm.SymmetricPrior(1.0),
    ...                              n_visits=3, n_datasets=200)
    >>> found.passed, bool(found.bias[2] > 3 * found.bias_mcse[2])
    (False, True)
    """
    _checks.of_type("task", task, Task, ArgumentError)
    check_start(task)
    task.plain("check_calibration", "task")
    check_prior(prior, "prior")
    n = _checks.integer("n_datasets", n_datasets, 10, ArgumentError)
    n_draws = _checks.integer("n_draws", n_draws, 2, ArgumentError)
    shares, tails = _levels(levels, n_draws)
    rate = _checks.real("error_rate", error_rate, ArgumentError, 0, 0.5, open_low=True)
    if choose == "nominal":
        choose = nominal
    if choose is not None and not callable(choose):
        raise ArgumentError(
            "`choose` must be a function from a posterior to a policy, such as "
            f"`policies.nominal`, or None; got {choose!r:.80}."
        )
    source = source_of(prior if truth is None else truth, task, "truth")
    pairs = Pairs(task, source.rows.available)
    even = np.full((task.n_states, task.n_actions), 1 / task.n_actions)
    study = Study(
        task=task,
        prior=prior,
        source=source,
        visits=_visits(n_visits, source, pairs),
        policy=as_policy(even if policy is None else policy, pairs),
        choose=choose,
        min_count=_checks.integer("min_count", min_count, 0, ArgumentError),
        n_draws=n_draws,
        seed=_checks.seed_integer(seed),
    )
    with unwarned():
        found = _run(study, n, threads, executor, progress)
    said = "the prior" if truth is None else str(truth)
    known = isinstance(truth, MDP)
    return _calibration(study, found, shares, tails, rate, "a world" if known else said)


def _levels(levels: object, n_draws: int) -> tuple[FloatArray, IntArray]:
    """Check levels, and count the ranks in each tail."""
    checked = _checks.float_array("levels", levels, ("level",), ArgumentError)
    if checked.size == 0:
        raise ArgumentError("`levels` holds no level; give some in (0, 1).")
    for level in checked:
        if not 0 < level < 1:
            raise ArgumentError(f"`levels` must be in (0, 1); got {level:g}.")
        tail = (n_draws + 1) * (1 - level) / 2
        if abs(tail - round(tail)) > 1e-9 * n_draws or round(tail) < 1:
            raise ArgumentError(
                f"`n_draws` {n_draws} has no draws at the ends of a {level:g} interval:"
                f" (n_draws + 1) (1 - level) / 2 must be whole, and is {tail:g}; take "
                "199 draws, or other levels."
            )
    return checked, np.rint((n_draws + 1) * (1 - checked) / 2).astype(np.int64)


def _visits(value: object, source: Source, pairs: Pairs) -> IntArray | Episodes:
    """Check the design: visits of the source's rows ``[R]``, or episodes."""
    if isinstance(value, Episodes):
        policy = as_policy(value.policy, pairs, "n_visits.policy")
        return Episodes(policy, value.n_episodes, value.max_steps)
    task, rows = pairs.task, source.rows
    live = ~task.is_terminal[rows.state]
    if np.ndim(value) == 0:  # type: ignore[arg-type]
        return live * _checks.integer("n_visits", value, 1, ArgumentError)
    value = in_order("n_visits", value, ("state", "action"), ArgumentError, task)
    array = _checks.any_array("n_visits", value, ArgumentError)
    if array.shape != (task.n_states, task.n_actions):
        raise ArgumentError(
            f"`n_visits` must be a whole number, Episodes, or of shape "
            f"{(task.n_states, task.n_actions)} (state, action); got {array.shape}."
        )
    whole = _checks.whole_numbers("n_visits", array, ArgumentError)
    if (whole < 0).any():
        where = _checks.first_true(whole < 0)
        at = _checks.place(where, ("state", "action"))
        raise ArgumentError(f"`n_visits` must be 0 or more: {at} is {whole[where]}.")
    lacking = (whole > 0) & ~pairs.available & ~task.is_terminal[:, None]
    if lacking.any():
        pair = task.pair_name(*_checks.first_true(lacking))
        raise ArgumentError(f"`n_visits` asks for {pair}, which `truth` does not have.")
    of_rows = whole[rows.state, rows.action] * live
    if of_rows.sum() == 0:
        raise ArgumentError("`n_visits` is 0 for every pair; there would be no data.")
    return of_rows


def _run(
    study: Study,
    n: int,
    threads: int | None,
    executor: Executor | None,
    progress: bool | None,
) -> list[Outcome]:
    """Simulate all datasets, on all workers; in order."""
    from bayesmdp.engine import results, workers

    every = list(range(n))
    parts = ((study, every[first : first + _A_TASK]) for first in every[::_A_TASK])
    found: list[Outcome] = []
    with (
        workers(threads, executor) as pool,
        progress_bar("calibrating", n, progress) as show,
        results(pool, outcomes, parts) as parts_found,
    ):
        for part in parts_found:
            found += part
            show(len(found))
    return found


def _calibration(
    study: Study,
    found: list[Outcome],
    levels: FloatArray,
    tails: IntArray,
    error_rate: float,
    truth: str,
) -> Calibration:
    """Put the record together."""
    stacked = Outcome(*(np.stack(column) for column in zip(*found, strict=True)))
    n, n_draws = len(found), study.n_draws
    k = tails[:, None, None]
    inside = (stacked.below + stacked.ties >= k) & (stacked.below <= n_draws - k)
    covered = inside.mean(axis=1)
    gap = stacked.predicted - stacked.truth
    uniform = np.full(len(study.quantities), np.nan)
    if truth != "a world":
        uniform[:] = [p_value(ranks, n_draws + 1) for ranks in stacked.rank.T]
    return Calibration(
        prior=str(study.prior),
        truth=truth,
        quantities=study.quantities,
        ranks=_checks.sealed(stacked.rank),
        truths=_checks.sealed(stacked.truth),
        predicted=_checks.sealed(stacked.predicted),
        p_values=_checks.sealed(uniform),
        levels=levels,
        covered=_checks.sealed(covered),
        covered_mcse=_checks.sealed(share_mcse(covered, 1 / n)),
        short=_short(study.quantities, inside.sum(axis=1), n, levels, error_rate),
        bias=_checks.sealed(gap.mean(axis=0)),
        bias_mcse=_checks.sealed(plain_mcse(gap.T)),
        n_draws=n_draws,
        error_rate=error_rate,
        seed=study.seed,
    )


def _short(
    quantities: tuple[str, ...],
    inside: IntArray,
    n: int,
    levels: FloatArray,
    error_rate: float,
) -> tuple[str, ...]:
    """Values for which too few datasets ``[levels, quantities]`` are covered."""
    from scipy.stats import binom

    values = [q for q, name in enumerate(quantities) if name.endswith("value")]
    limit = error_rate / (levels.size * len(values))
    low = np.asarray(binom.cdf(inside, n, levels[:, None]) < limit)
    return tuple(quantities[q] for q in values if low[:, q].any())
