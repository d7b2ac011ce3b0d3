"""`next_trial`: a policy to gather data under, and what can be expected of it.

**The design.** In every state, an *exploring* row gives each action a probability in
proportion to what the visits that the trial brings to the state would be worth if made
with that action: the gain of deciding the state again (`_moments`). Exploring is mixed
into a policy that is likely to be better than the baseline, with as large a share as
leaves the probability of being no worse than the baseline at ``safe``. Such policies
are that of `improve`, and *steady* ones, which go from the baseline to the best action
in each state by a share in proportion to ``mean(gain) / (visits Var(gain))``: gains of
states are nearly independent, and these shares make the mean of their sum largest for
its sd. Neither need be safe, and mixing any direction into the baseline itself hardly
changes the *probability* of being worse; the baseline alone is always safe. A design
must be safe by a Monte Carlo error on draws that did not propose it; its probability is
then reported from draws that chose nothing, and so may fall just below ``safe``.

**What it brings.** Draws of the posterior are taken for the truth, one after the other:
patients are treated by the design, the belief is updated with its strengths held, the
best policy of its mean is followed from then on, and valued in that truth. The same is
done with further patients treated as before, and with the uniform random policy.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._resources import progress_bar
from bayesmdp._sheet import Record, Sheet, Table
from bayesmdp._typing import FloatArray, PolicyLike, Seed
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import (
    Chosen,
    between,
    one_reward,
    plain_mcse,
    rounded,
    share_mcse,
)
from bayesmdp.model import Task, as_policy
from bayesmdp.posterior import Belief, Draws, check_belief

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from bayesmdp.engine import Pool
    from bayesmdp.evaluation import Swept
    from bayesmdp.information._moments import Moments

SIZES = (100, 500, 2000)
_SHARES = (0.75, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.02, 0.0)
_CAPS = (0.5, 0.8, 0.95, 1.0)  # share of states that steady changes leave below 1
_N_CHOOSE, _FEWER, _SMALL = 1000, 256, 100
_DESIGNS = ("trial", "more of the same", "uniform")


@dataclass(frozen=True)
class TrialOutcome:
    """What is expected after so many patients of a design, over draws as truths."""

    design: str  # "trial", "more of the same" or "uniform"
    n_patients: int
    expected_value: float  # of the policy chosen afterwards
    expected_value_mcse: float
    gain: float  # over the policy that would be chosen now, in the same truth
    gain_mcse: float
    gain_interval: tuple[float, float]  # 80 % over truths


@dataclass(frozen=True, eq=False, repr=False)
class TrialPlan(Record):
    """A policy to gather data under; made by `bayesmdp.next_trial`.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(300, seed=0), world.task)
    >>> plan = bm.next_trial(posterior, 50, sizes=(50,), n_truths=4)
    >>> plan.to_dict()["n_patients"], len(plan.to_pandas())
    (50, 3)
    """

    policy: FloatArray  # [S, A]
    baseline: FloatArray  # [S, A]
    explored: float  # share of exploring in it
    anchor: str  # into which policy exploring is mixed, or "exploring only"
    n_patients: int
    safe: float
    margin: float
    probability_no_worse: float  # than the baseline less the margin
    probability_no_worse_mcse: float
    difference: float  # of its value to the baseline's, while data are gathered
    difference_mcse: float
    expected_value: float  # of the policy chosen after the trial
    expected_value_mcse: float
    value_now: float  # of the policy that would be chosen without it
    outcomes: tuple[TrialOutcome, ...]
    n_truths: int
    seconds: float
    task: Task = field(repr=False)

    _table_of = "outcomes"
    _left_out = ("policy", "baseline")

    def _sheet(self, shown: int = 10) -> Sheet:
        no_worse = rounded(self.probability_no_worse, self.probability_no_worse_mcse)
        less = f" less {self.margin:g}" if self.margin else ""
        title = (
            f"A trial of {_checks.many(self.n_patients, 'patient')}: no worse than the "
            f"baseline{less} with probability {no_worse}"
        )
        while_ = rounded(self.difference, self.difference_mcse)
        mixed = f"{100 * self.explored:.3g} % exploring, mixed into {self.anchor}"
        if np.allclose(self.policy, self.baseline):
            mixed = "the baseline itself: nothing else is that safe"
        lines: list[Any] = [
            self.anchor if self.explored == 1 else mixed,
            f"value while gathering, less the baseline's: {while_}",
        ]
        rows = [
            [
                f"{x.design}, {x.n_patients:,}",
                rounded(x.expected_value, x.expected_value_mcse),
                rounded(x.gain, x.gain_mcse),
                between(*x.gain_interval),
            ]
            for x in self.outcomes
        ]
        header = ["", "value afterwards", "gain over deciding now", "80 % of truths"]
        lines.append(Table(header, rows))
        return Sheet(title, lines, indent="  ")

    def __repr__(self) -> str:
        return (
            f"TrialPlan({_checks.many(self.n_patients, 'patient')}, "
            f"probability_no_worse={self.probability_no_worse:.3g}, "
            f"expected_value={self.expected_value:.4g})"
        )


def next_trial(
    posterior: Belief,
    n_patients: int = 500,
    safe: float = 0.95,
    *,
    baseline: PolicyLike | None = None,
    margin: float = 0.0,
    reward: Chosen | None = None,
    sizes: tuple[int, ...] = SIZES,
    n_truths: int = 24,
    max_steps: int = 1000,
    effort: str = "quick",
    seed: Seed = 0,
    threads: int | None = None,
    executor: Executor | None = None,
    device: str | None = None,
    progress: bool | None = None,
) -> TrialPlan:
    """Plan how to treat the next patients, to learn as much as possible safely.

    Parameters
    ----------
    posterior
        From `bayesmdp.fit`, under one prior. Its available pairs are those that the
        trial may use: with a ``min_count`` of 1 or 0 also those with few visits.
    n_patients
        How many patients (episodes) the trial has.
    safe
        Least posterior probability that the trial's policy is no worse than the
        baseline. Where nothing else is that safe, the baseline is returned. The
        probability reported is from draws that were not used for the choice: it can be
        slightly below ``safe`` by chance.
    baseline
        Where not given, what was done in the data.
    margin
        Margin of non-inferiority, in the unit of the value.
    reward
        Which of several rewards counts, as in `bayesmdp.value_of_information`.
    sizes
        Further numbers of patients for which expectations are computed.
    n_truths
        Number of draws that serve as true models in simulated trials.
    max_steps
        When to stop an episode that has not ended.
    effort
        Of the search for an improvement, as in `bayesmdp.improve`.
    seed
        Of all draws.
    threads, executor, device, progress
        As in `bayesmdp.evaluate`.

    Returns
    -------
    TrialPlan

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(300, seed=0), world.task)
    >>> plan = bm.next_trial(posterior, 50, sizes=(50,), n_truths=4, effort="quick")
    >>> plan.policy.shape, plan.probability_no_worse >= 0.95
    ((25, 4), True)
    """
    from bayesmdp import engine
    from bayesmdp import policies as baselines
    from bayesmdp.information._gather import Ground, simulate_trials
    from bayesmdp.information._moments import moments_of
    from bayesmdp.information._value import visits_per_episode

    began = time.perf_counter()
    check_belief(posterior)
    posterior = one_reward(posterior, reward, "next_trial", plain=True)
    patients = _checks.integer("n_patients", n_patients, 1, ArgumentError)
    safe = _checks.real("safe", safe, ArgumentError, 0, 1)
    margin = _checks.real("margin", margin, ArgumentError, 0)
    steps = _checks.integer("max_steps", max_steps, 1, ArgumentError)
    truths = _checks.integer("n_truths", n_truths, 2, ArgumentError)
    number = _checks.seed_integer(seed)
    asked = {_checks.integer("sizes", n, 1, ArgumentError) for n in sizes}
    posterior.mean_after(np.zeros(posterior.rows().mean.size))  # or refused
    if baseline is None:
        base = baselines.behaviour(posterior)
    else:
        base = as_policy(baseline, posterior, "baseline")
    how: dict[str, Any] = {"threads": threads, "executor": executor, "device": device}
    with (
        engine.workers(threads, executor, device) as pool,
        progress_bar("planning a trial", truths + 2, progress) as show,
    ):
        every = engine.Problem.of_belief(posterior)
        now = baselines.nominal(posterior)
        table = np.stack([now, base])
        moments = moments_of(posterior, every, table, 0, number, pool)
        visits = patients * visits_per_episode(every, base).sum(axis=1)
        explore = _exploring(moments, visits, now)
        found = _improved(posterior, base, number, effort, how)
        same = np.allclose(found, base)  # nothing was found to improve
        anchors = [("the baseline" if same else "an improved policy", found)]
        anchors += [("steady changes", x) for x in _steady(moments, now, base)]
        show(1)
        design = _design(posterior, base, explore, anchors, safe, margin, number, pool)
        show(2)
        many = tuple(sorted(asked | {patients}))
        even = baselines.uniform(posterior)
        designs = np.stack([design.policy, base, even])
        ground = Ground(posterior, every, designs, now[None], many, steps, number)
        after, known = simulate_trials(
            ground, truths, pool, lambda done: show(2 + done)
        )
    outcomes = _outcomes(after, known[:, 0], many)
    own = next(
        x for x in outcomes if x.design == _DESIGNS[0] and x.n_patients == patients
    )
    return TrialPlan(
        policy=_checks.sealed(design.policy),
        baseline=_checks.frozen(base),
        explored=design.share,
        anchor=design.anchor,
        n_patients=patients,
        safe=safe,
        margin=margin,
        probability_no_worse=design.probability,
        probability_no_worse_mcse=design.probability_mcse,
        difference=design.difference,
        difference_mcse=design.difference_mcse,
        expected_value=own.expected_value,
        expected_value_mcse=own.expected_value_mcse,
        value_now=float(known[:, 0].mean()),
        outcomes=outcomes,
        n_truths=truths,
        seconds=time.perf_counter() - began,
        task=posterior.task,
    )


def _improved(
    posterior: Belief, base: FloatArray, seed: int, effort: str, how: dict[str, Any]
) -> FloatArray:
    """Return a policy that is likely to be better than the baseline, or that itself."""
    from bayesmdp.optimisation import improve

    found = improve(posterior, base, seed=seed, effort=effort, progress=False, **how)
    return found.policy


def _exploring(moments: Moments, visits: FloatArray, now: FloatArray) -> FloatArray:
    """Return actions in proportion to what their visits would be worth, ``[S, A]``."""
    worth = moments.switch_pair_gains(np.maximum(visits, 1e-3)[:, None])
    total = worth.sum(axis=1, keepdims=True)
    return np.where(total > 0, worth / np.where(total > 0, total, 1.0), now)


def _steady(moments: Moments, now: FloatArray, base: FloatArray) -> list[FloatArray]:
    """Return policies between the baseline and the best actions, surest gains first."""
    change = now - base
    gain = (change * moments.mean).sum(axis=1)
    variance = np.einsum("si,sij,sj->s", change, moments.covariance, change)
    visits = moments.weight[1].sum(axis=1)
    ratio, known = np.zeros(gain.size), visits * variance > 0
    np.divide(np.maximum(gain, 0.0), visits * variance, ratio, where=known)
    if not ratio.any():
        return []
    made = []
    for cap in _CAPS:
        share = np.minimum(ratio / np.quantile(ratio[ratio > 0], cap), 1.0)
        made.append(base + share[:, None] * change)
    return made


@dataclass(frozen=True, eq=False)
class _Design:
    policy: FloatArray  # [S, A]
    share: float
    anchor: str
    probability: float
    probability_mcse: float
    difference: float
    difference_mcse: float


def _design(
    posterior: Belief,
    base: FloatArray,
    explore: FloatArray,
    anchors: list[tuple[str, FloatArray]],
    safe: float,
    margin: float,
    seed: int,
    pool: Pool,
) -> _Design:
    """Mix in as much exploring as is safe; draws that report it chose nothing."""
    from bayesmdp.evaluation.paired import differences, sweep_paired

    names, policies = [("exploring only", 1.0)], [base, explore]
    for anchor, policy in anchors:
        for share in _SHARES:
            names.append((anchor, share))
            policies.append((1 - share) * policy + share * explore)
    table = np.stack(policies)
    n = _N_CHOOSE if posterior.task.live.size <= _SMALL else _FEWER

    def sweep(kept: list[int], purpose: str) -> Swept:
        return sweep_paired(table[kept], Draws(posterior, n, seed, purpose), pool=pool)

    proposed, _ = _no_worse(sweep([*range(len(table))], "trial choose"), margin)
    kept = [0, *(np.flatnonzero(proposed[1:] >= safe) + 1).tolist()]
    judged = sweep(kept, "trial judge")
    probability, error = _no_worse(judged, margin)
    mean, _ = differences(judged, 0)
    fine = [i for i in range(1, len(kept)) if probability[i] - error[i] >= safe]
    # the largest share, then the best mean; the baseline is safe in any case
    best = max(fine, key=lambda i: (names[kept[i] - 1][1], mean[i]), default=0)
    anchor, share = names[kept[best] - 1] if best else ("the baseline", 0.0)
    fresh = sweep([0, kept[best]], "trial report")
    probability, probability_mcse = _no_worse(fresh, margin)
    mean, error = differences(fresh, 0)
    return _Design(
        policy=table[kept[best]],
        share=share,
        anchor=anchor,
        probability=float(probability[1]),
        probability_mcse=float(probability_mcse[1]),
        difference=float(mean[1]),
        difference_mcse=float(error[1]),
    )


def _no_worse(swept: Swept, margin: float) -> tuple[FloatArray, FloatArray]:
    """Probability of being no worse than the first policy, and its error, ``[P]``."""
    from bayesmdp.evaluation.paired import paired

    gap, weights = paired(swept, 0)
    p = np.clip(1.0 - (gap < -margin) @ weights, 0.0, 1.0)  # exactly 1 if none is
    noise = 1 / gap.shape[1] + swept.draws.belief.chain_noise
    return p, share_mcse(p, noise)


def _outcomes(
    after: FloatArray, now: FloatArray, sizes: tuple[int, ...]
) -> tuple[TrialOutcome, ...]:
    """Summarise values after trials ``[D, G, N]`` and without ``[D]``."""
    from bayesmdp.information._gather import spread

    found = []
    for g, design in enumerate(_DESIGNS):
        for i, n in enumerate(sizes):
            value, gain = after[:, g, i], after[:, g, i] - now
            gain[np.isclose(value, now, rtol=1e-13, atol=0)] = 0.0  # one policy
            found.append(
                TrialOutcome(
                    design,
                    n,
                    float(value.mean()),
                    float(plain_mcse(value)),
                    float(gain.mean()),
                    float(plain_mcse(gain)),
                    spread(gain),
                )
            )
    return tuple(found)
