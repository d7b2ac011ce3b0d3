"""`risk_frontier`: what a better mean costs in the worst draws, and the other way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Record, Sheet, Table
from bayesmdp._typing import FloatArray, Seed
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import Chosen, one_reward, rounded
from bayesmdp.optimisation._objectives import CVaR
from bayesmdp.optimisation._optimise import find_policy
from bayesmdp.optimisation._result import Optimisation
from bayesmdp.optimisation._settings import PosteriorMean, effort_of, worst
from bayesmdp.posterior import Belief, check_belief

if TYPE_CHECKING:
    from concurrent.futures import Executor

_TAILS = (0.05, 0.1, 0.25, 0.5, 1.0)
_MORE = 4  # times the draws a search chooses on: a small tail of those says little


@dataclass(frozen=True, eq=False, repr=False)
class RiskFrontier(Record):
    """Policies for several tails, each with its mean and its mean over its own tail.

    Made by `bayesmdp.risk_frontier`. Values are on draws that no policy was found on.
    """

    _left_out = ("policies", "results")

    tails: FloatArray  # [T], tail masses, the smallest first
    mean: FloatArray  # [T], posterior mean of the value from the start
    mean_mcse: FloatArray  # [T]
    tail_mean: FloatArray  # [T], mean over the worst draws of each policy's own tail
    tail_mean_mcse: FloatArray  # [T]
    tail_means: FloatArray  # [T, T], of each policy (row) over each tail (column)
    policies: FloatArray  # [T, S, A]
    results: tuple[Optimisation, ...]  # the search for each tail

    def _rows(self) -> list[dict[str, Any]]:
        found = self.to_dict()
        del found["tail_means"]
        columns = {"tail": found.pop("tails")} | found
        return [
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]

    def _sheet(self, shown: int = 10) -> Sheet:
        rows = [
            [
                "the mean" if tail == 1 else worst(tail),
                rounded(self.mean[i], self.mean_mcse[i]),
                rounded(self.tail_mean[i], self.tail_mean_mcse[i]),
            ]
            for i, tail in enumerate(self.tails.tolist())
        ]
        header = ["found for", "mean", "mean of its tail"]
        return Sheet("Best policies for the worst draws", [Table(header, rows)])

    def __repr__(self) -> str:
        return (
            f"RiskFrontier({_checks.many(self.tails.size, 'tail')}, mean "
            f"{self.mean.min():.4g} to {self.mean.max():.4g})"
        )


def risk_frontier(
    posterior: Belief,
    tails: Sequence[float] = _TAILS,
    *,
    reward: Chosen | None = None,
    seed: Seed = 0,
    effort: str = "normal",
    solver: str = "auto",
    threads: int | None = None,
    executor: Executor | None = None,
    device: str | None = None,
    progress: bool | None = None,
) -> RiskFrontier:
    """Find the best policy for each of several tails, from the worst draws to the mean.

    Each search also starts from the policy of the next larger tail. Where a policy
    found for another tail is better at a tail by more than noise, it is used there.

    Parameters
    ----------
    posterior
        What is believed.
    tails
        Tail masses: 0.1 is the worst tenth of draws, 1 the mean.
    reward
        Which of several rewards, by name, or weights by name: net benefit.
    seed, effort, solver, threads, executor, device, progress
        As in `bayesmdp.optimise`.

    Returns
    -------
    RiskFrontier

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.synthetic(0, 3, 2)
    >>> posterior = bm.fit(world.sample(50, seed=0), world.task)
    >>> front = bm.risk_frontier(posterior, (0.5, 1.0), effort="quick")
    >>> bool(front.tail_mean[0] < front.mean[0])
    True
    """
    check_belief(posterior)
    posterior = one_reward(posterior, reward, "risk_frontier")
    posterior.task.no_cost("risk_frontier")
    wanted = _checked(tails)
    how: dict[str, Any] = {"effort": effort, "solver": solver, "max_seconds": None}
    how |= {"threads": threads, "executor": executor, "device": device}
    from bayesmdp.optimisation._oracle import objective_estimate

    number = _checks.seed_integer(seed)  # the same draws judge all policies
    results: list[Optimisation] = []
    also: dict[str, FloatArray] = {}
    for tail in wanted[::-1]:
        objective = CVaR(tail) if tail < 1 else None
        asked = posterior, objective, None, None, number, None
        found, draws = find_policy(*asked, progress=progress, also=also, **how)
        results.insert(0, found)
        also = {"wider tail": found.policy}
    best = [results[i] for i in _best(posterior, results, wanted, number, how)]
    weights = draws.weights
    values = np.stack([x.evaluation.start_values for x in best])
    known = np.isfinite(values).all(axis=0) & (weights > 0)
    share = weights[known] / weights[known].sum()
    every = [CVaR(tail) for tail in wanted]
    table = [[tail.value(row[known], share) for tail in every] for row in values]
    own = [
        (x.start_value, x.start_value_mcse)
        if tail.tail_mass == 1
        else objective_estimate(tail, row[known], weights[known], draws)
        for x, tail, row in zip(best, every, values, strict=True)
    ]
    tail_mean, tail_mean_mcse = np.array(own).T
    return RiskFrontier(
        tails=_checks.frozen(np.array(wanted)),
        mean=_checks.frozen(np.array([x.start_value for x in best])),
        mean_mcse=_checks.frozen(np.array([x.start_value_mcse for x in best])),
        tail_mean=_checks.frozen(tail_mean),
        tail_mean_mcse=_checks.frozen(tail_mean_mcse),
        tail_means=_checks.frozen(np.array(table)),
        policies=_checks.frozen(np.stack([x.policy for x in best])),
        results=tuple(results),
    )


def _best(
    posterior: Belief,
    results: list[Optimisation],
    tails: list[float],
    seed: int,
    how: dict[str, Any],
) -> list[int]:
    """Return which policy is best for each tail, on draws that judge none of them.

    That of the tail's own search, unless another is better by more than noise.
    """
    from bayesmdp import engine
    from bayesmdp.optimisation._oracle import Oracle, Selection

    chosen, effort = [], effort_of(how["effort"])
    with engine.workers(how["threads"], how["executor"], how["device"]) as pool:
        for own, tail in enumerate(tails):
            objective = CVaR(tail) if tail < 1 else PosteriorMean()
            oracle = Oracle(posterior, objective, seed, pool, 0, how["solver"])
            n_draws = oracle.affordable(effort.budget, _MORE * effort.choose)
            order = [own, *(i for i in range(len(tails)) if i != own)]
            gain, noise = Selection(oracle, "choose", n_draws).differences(
                [results[i].policy for i in order]
            )
            chosen.append(order[int(np.argmax(gain - noise))])
    return chosen


def _checked(tails: Sequence[float]) -> list[float]:
    """Return tails in ascending order, each once."""
    if isinstance(tails, str) or not np.ndim(tails) == 1 or not len(tails):
        raise ArgumentError(
            f"`tails` must be a list of tail masses, such as {_TAILS}; got "
            f"{tails!r:.60}."
        )
    found = [
        _checks.real(f"tails[{i}]", x, ArgumentError, 0, 1, open_low=True)
        for i, x in enumerate(tails)
    ]
    return sorted(set(found))
