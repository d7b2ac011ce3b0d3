"""`improve`: a policy that is better than a baseline also where the model is a bad one.

With ``D[k] = J[k](pi) - J[k](b)`` the improvement over the baseline in draw ``k``, the
policy makes the mean over the worst part of the draws large, ``CVaR(tail)`` of ``D``.
The baseline itself has 0, so that nothing is changed where no change is likely to help.
Pairs that were never observed keep the probability that the baseline gives them: what
happens there the data cannot say.

**One bad visit.** What is rarely done is often worse than the rest, and priors that
treat pairs alike do not know that: they overestimate pairs with few, lucky visits. So
half of the draws of the search are of another belief, that of the data and one bad
visit of each pair, to the worst of the states that are entered now and then::

    theta[s, a] ~ Dirichlet(n[s, a, t] + 1 where n[s, a, t] > 0 or t is the worst)

which hardly matters for pairs with many visits. The worst quarter of all draws holds at
most the worst half of either belief's: where its mean is above 0, so is that of the
worst half of the posterior's own draws. Where the mean over their worst quarter is
below 0 all the same, the posterior alone is searched. What is told of the policy is
told by the posterior alone. Ensembles, beliefs by cycle, and tasks with averages are
searched as they are. `docs/safe_improvement.md` has what else was tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Record, Sheet, Table
from bayesmdp._typing import BoolArray, FloatArray, PolicyLike, Seed
from bayesmdp.errors import EndlessError
from bayesmdp.evaluation import (
    ActionValues,
    Chosen,
    Comparison,
    action_values,
    compare,
    evaluate,
    one_reward,
    rounded,
    significant,
)
from bayesmdp.model import Rewards, as_policy
from bayesmdp.optimisation._objectives import CVaR
from bayesmdp.optimisation._optimise import find_policy
from bayesmdp.optimisation._result import Optimisation, Outcome
from bayesmdp.optimisation._settings import Held, what_was_done, worst
from bayesmdp.posterior import (
    Belief,
    Draws,
    Fitted,
    check_belief,
    half_under,
)
from bayesmdp.priors import SparsePrior

if TYPE_CHECKING:
    from concurrent.futures import Executor

_SAME = 1e-6  # probabilities closer than this are no change
_SHOWN = 10
_FEW = 256  # draws that say which state is the worst
_CUT_SHORT = {
    Outcome.STEPS: "all its steps were taken; {} thorough takes the most",
    Outcome.TIME: "its time was up, so give it more time",
    Outcome.INTERRUPTED: "it was interrupted",
}


@dataclass(frozen=True)
class Change:
    """What is done otherwise in one state.

    ``gain`` is that of deciding once as the policy does rather than as the baseline,
    both followed by the policy, over draws.
    """

    _derived = ("why",)

    state: int
    state_name: str
    from_action: str  # whose probability falls most
    to_action: str  # whose probability rises most
    from_probability: tuple[float, float]  # before, after
    to_probability: tuple[float, float]
    values: tuple[float, float]  # of the two actions, followed by the policy
    visits: tuple[int, int] | None  # of the two actions in the data
    gain: float
    gain_sd: float  # epistemic
    probability_better: float  # these three are NaN with a horizon, and with averages
    share: float  # of the policy's visits that are in this state

    @property
    def why(self) -> str:
        """Return the reason, in words."""
        better = f"better in {100 * self.probability_better:.3g} % of draws"
        if self.visits is None:
            return better
        return f"{_checks.many(self.visits[1], 'visit')}; {better}"


@dataclass(frozen=True, eq=False, repr=False)
class Improvement(Record):
    """A policy that improves on a baseline, by how much, and where it departs from it.

    Made by `bayesmdp.improve`. Values are on draws of the posterior that the policy was
    not found on.
    """

    _left_out = ("policy", "baseline", "comparison")
    _table_of = "changes"

    policy: FloatArray  # [S, A]
    baseline: FloatArray  # [S, A]
    tail: float
    probability_better: float  # than the baseline, over draws
    improvement: float  # mean over draws
    improvement_mcse: float
    improvement_interval: tuple[float, float]  # 95 % over draws
    tail_improvement: float  # mean over the worst draws
    tail_improvement_mcse: float
    changes: tuple[Change, ...]  # those that matter most first
    optimisation: Optimisation
    comparison: Comparison

    @property
    def unfinished(self) -> str:
        """Why the search ended before it converged; empty where it did converge."""
        if self.optimisation.converged:
            return ""
        why = _CUT_SHORT[self.optimisation.outcome].format(_checks.argument("effort"))
        return f"The search ended before it converged: {why}."

    def _sheet(self, shown: int = _SHOWN) -> Sheet:
        unfinished = [self.unfinished] if self.unfinished else []
        if not self.changes:
            return Sheet(
                "No change: nothing was found that improves on the baseline in "
                f"{worst(self.tail)} of draws",
                unfinished,
            )
        low, high = self.improvement_interval
        mean = rounded(self.improvement, self.improvement_mcse)
        if self.optimisation.evaluation.task.criterion == "average":
            mean += " per step"
        tail = rounded(self.tail_improvement, self.tail_improvement_mcse)
        rows = [
            [
                x.state_name,
                x.from_action,
                x.to_action,
                f"{x.to_probability[0]:.2f} -> {x.to_probability[1]:.2f}",
                "" if x.visits is None else f"{x.visits[1]:,}",
                # neither with a horizon nor with averages
                rounded(x.gain, x.gain_sd) if np.isfinite(x.gain) else "",
                f"{100 * x.probability_better:.3g} %" if np.isfinite(x.gain) else "",
            ]
            for x in self.changes[:shown]
        ]
        header = ["state", "less of", "more of", "its probability", "its visits"]
        header += ["gain ± sd", "better"]
        known = [i for i in range(len(header)) if not rows or any(x[i] for x in rows)]
        header, rows = [header[i] for i in known], [[x[i] for i in known] for x in rows]
        left = len(self.changes) - len(rows)
        after = [f"({_checks.many(left, 'more state')} changed)"] * (left > 0)
        if self.tail_improvement < 0:
            after.append("On draws that did not choose it, the tail is below 0.")
        after += unfinished
        likely = f"{significant(low)} to {significant(high)}"
        return Sheet(
            f"Improvement over the baseline {mean} (95 % {likely}), "
            f"better with probability {100 * self.probability_better:.3g} %",
            [
                f"mean over {worst(self.tail)} of draws: {tail}",
                Table(header, rows),
                *after,
            ],
        )

    def __repr__(self) -> str:
        return (
            f"Improvement({self.improvement:.4g}, in {worst(self.tail)} of draws "
            f"{self.tail_improvement:.4g}, {_checks.many(len(self.changes), 'change')})"
        )


def improve(
    posterior: Belief,
    baseline: PolicyLike | None = None,
    tail: float = 0.25,
    *,
    reward: Chosen | None = None,
    seed: Seed = 0,
    effort: str = "normal",
    max_seconds: float | None = None,
    solver: str = "auto",
    threads: int | None = None,
    executor: Executor | None = None,
    device: str | None = None,
    progress: bool | None = None,
) -> Improvement:
    """Improve on a baseline, safely.

    The mean improvement over the worst draws is maximised. Half of the draws are from
    the posterior; in the others each pair has one more visit, to the worst state. Pairs
    that were never observed keep the baseline's probability (an ensemble has no
    visits). Where nothing gains more than noise, the baseline is returned.

    Parameters
    ----------
    posterior
        What is believed.
    baseline
        The policy to improve on; where not given, what was done in the data, among
        the pairs that ``min_count`` left.
    tail
        Probability of the draws that count: 0.25 is the worst quarter. Smaller values
        are more cautious, and need more draws.
    reward
        Which of several rewards, by name, or weights by name: net benefit.
    seed, effort, max_seconds, solver, threads, executor, device, progress
        As in `bayesmdp.optimise`.

    Returns
    -------
    Improvement

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.synthetic(0, 3, 2)
    >>> posterior = bm.fit(world.sample(300, seed=0), world.task)
    >>> better = bm.improve(posterior, seed=0)
    >>> better.improvement > better.tail_improvement > 0
    True
    """
    check_belief(posterior)
    posterior = one_reward(posterior, reward, "improve")
    posterior.task.no_cost("improve")
    if baseline is not None:
        base = as_policy(baseline, posterior, "baseline")
    else:
        base = what_was_done(posterior)
    how: dict[str, Any] = {"threads": threads, "executor": executor, "device": device}
    how |= {"progress": progress, "solver": solver}
    number = _checks.seed_integer(seed)
    objective = CVaR(tail, of="improvement", baseline=base)

    def search(belief: Belief, most: float | None) -> tuple[Optimisation, Draws]:
        return find_policy(
            belief,
            objective,
            None,
            None,
            number,
            None,
            effort=effort,
            max_seconds=most,
            held=_never_observed(posterior, base),
            judge=posterior,
            **how,
        )

    searched = _with_bad_visits(posterior, base, number, how)
    found, draws = search(searched, max_seconds)
    done = searched is posterior or found.interrupted
    if not done and not _survives(found.policy, base, objective, draws, how):
        left = None if max_seconds is None else max(max_seconds - found.seconds, 0.0)
        found, draws = search(posterior, left)
    both = {"baseline": base, "improved": found.policy}
    table = compare(both, draws, reference="baseline", **how)
    (row,) = (x for x in table.rows if x.name == "improved")
    return Improvement(
        policy=found.policy,
        baseline=_checks.frozen(base),
        tail=float(tail),
        probability_better=row.probability_better or 0.0,
        improvement=row.difference,
        improvement_mcse=row.difference_mcse,
        improvement_interval=row.difference_interval or (np.nan, np.nan),
        tail_improvement=found.objective_value,
        tail_improvement_mcse=found.objective_mcse,
        changes=_changes(posterior, found, base, draws, how),
        optimisation=found,
        comparison=table,
    )


def _with_bad_visits(
    posterior: Belief, base: FloatArray, seed: int, how: dict[str, Any]
) -> Belief:
    """Return the belief that is searched: half of it is the data and one bad visit.

    The given one where it has no data of its own, or where the baseline would not end.
    """
    task = posterior.task
    if not isinstance(posterior, Fitted) or task.criterion == "average":
        return posterior
    try:
        bad = _worst_state(posterior, base, seed, how)
        found = half_under(posterior, SparsePrior(fallback=bad))
        if any(part.discount == 1.0 for part in task.parts.values()):
            evaluate(base, Draws(found, _FEW, seed, "worst"), **how)
    except EndlessError:  # a search says so where that is without bad visits, too
        return posterior
    return found


def _survives(
    policy: FloatArray,
    base: FloatArray,
    objective: CVaR,
    draws: Draws,
    how: dict[str, Any],
) -> bool:
    """Whether no change is for the worse in the tail of the posterior's own draws.

    On draws that will not judge it; the search chose on some of them, too.
    """
    if np.array_equal(policy, base):
        return True
    apart = replace(draws, purpose="choose")
    both = compare({"baseline": base, "improved": policy}, apart, **how).evaluations
    gap = both["improved"].start_values - both["baseline"].start_values
    known = np.isfinite(gap)
    weights = apart.weights[known]
    return objective.value(gap[known], weights / weights.sum()) >= 0


def _worst_state(
    posterior: Fitted, base: FloatArray, seed: int, how: dict[str, Any]
) -> int:
    """Return the state that under the baseline is furthest below the mean to enter.

    A state that is entered as often as the average one is trusted by half: the belief
    may be far off for states that are rarely entered.
    """
    counts, task = posterior.counts, posterior.task
    value = evaluate(base, Draws(posterior, _FEW, seed, "worst"), **how).value
    entries = np.zeros(task.n_states)
    np.add.at(entries, counts.next_state, counts.count)
    if not task.of_states:
        value = np.where(task.is_terminal, _paid_on_entry(posterior, entries), value)
    below = value - entries @ value / entries.sum()
    trusted = below * entries / (entries + entries.mean())
    return int(np.where(entries > 0, trusted, np.inf).argmin())


def _paid_on_entry(posterior: Fitted, entries: FloatArray) -> FloatArray:
    """Mean reward of the transitions into each state, ``[S]``, as of being there.

    Where rewards are for transitions, that is what an end is worth: its value is 0.
    """
    counts, task = posterior.counts, posterior.task
    weights: tuple[float, ...] = (1.0,)
    if isinstance(task.reward, Rewards):  # a sum of values
        weights = task.reward.weights or ()
    paid = np.zeros(task.n_states)
    for weight, part in zip(weights, task.parts.values(), strict=True):
        each = part.transition_reward(counts.state, counts.action, counts.next_state)
        total = np.bincount(counts.next_state, counts.count * each, task.n_states)
        paid += weight / (part.discount or 1.0) * total
    return paid / np.maximum(entries, 1)


def _never_observed(posterior: Belief, base: FloatArray) -> Held | None:
    """Hold pairs without visits where they are; an ensemble knows of no visits."""
    counts, task = posterior.counts, posterior.task
    if counts is None:
        return None
    return Held(counts.pair_totals(task.n_states, task.n_actions) == 0, base)


def _changes(
    posterior: Belief,
    found: Optimisation,
    base: FloatArray,
    draws: Draws,
    how: dict[str, Any],
) -> tuple[Change, ...]:
    """List what is done otherwise where, the largest gains by visits first."""
    live = ~posterior.task.is_terminal
    moved = live & (np.abs(found.policy - base).max(axis=1) > _SAME)
    if not moved.any():
        return ()
    values = None
    if posterior.task.is_plain:
        values = action_values(found.policy, draws, reference=base, **how)
    visits = found.evaluation.occupancy
    share = visits / visits[live].sum()
    made = list(_each_change(posterior, found.policy, base, values, share, moved))
    finite = np.isfinite(share).all()  # without discount, visits may have no mean
    if values is None:  # with a horizon, or averages: what is gained there is not known
        return tuple(sorted(made, key=lambda x: -x.share))
    return tuple(sorted(made, key=lambda x: -x.gain * (x.share if finite else 1.0)))


def _each_change(
    posterior: Belief,
    policy: FloatArray,
    base: FloatArray,
    values: ActionValues | None,
    share: FloatArray,
    moved: BoolArray,
) -> Iterator[Change]:
    task, counts = posterior.task, posterior.counts
    made = None if counts is None else counts.pair_totals(task.n_states, task.n_actions)
    for state in np.flatnonzero(moved).tolist():
        step = policy[state] - base[state]
        down, up = int(step.argmin()), int(step.argmax())
        yield Change(
            state=state,
            state_name=task.state_name(state),
            from_action=task.action_name(down),
            to_action=task.action_name(up),
            from_probability=(float(base[state, down]), float(policy[state, down])),
            to_probability=(float(base[state, up]), float(policy[state, up])),
            values=(np.nan, np.nan)
            if values is None
            else (float(values.value[state, down]), float(values.value[state, up])),
            visits=None
            if made is None
            else (int(made[state, down]), int(made[state, up])),
            gain=np.nan if values is None else float(values.gain[state]),
            gain_sd=np.nan if values is None else float(values.gain_sd[state]),
            probability_better=np.nan
            if values is None
            else float(values.gain_probability[state]),
            share=float(share[state]),
        )
