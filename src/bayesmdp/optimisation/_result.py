"""The record of an optimisation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from bayesmdp._checks import argument, many
from bayesmdp._sheet import Record, Sheet, as_plain
from bayesmdp._typing import FloatArray
from bayesmdp.evaluation import Evaluation, in_costs, rounded, significant
from bayesmdp.model import Task
from bayesmdp.optimisation._settings import PosteriorMean


class Stage(StrEnum):
    """What was done to a start."""

    START = "start"  # nothing
    CLIMBED = "climbed"
    ROUNDED = "rounded"  # climbed, and what was nearly certain made certain


class Outcome(StrEnum):
    """How a search ended."""

    CONVERGED = "converged"
    STEPS = "steps"
    TIME = "time"
    INTERRUPTED = "interrupted"
    PUBLISHED = "published"


_SAID = {
    Outcome.CONVERGED: "converged: no change gains more than the tolerance or the "
    "noise",
    Outcome.STEPS: "all steps taken before the Frank-Wolfe gap fell below the "
    "tolerance and the noise; {resume} continues, or use more {effort}",
    Outcome.TIME: "stopped at the time limit; this is the best policy so far, and "
    "{resume} continues",
    Outcome.INTERRUPTED: "interrupted; this is the best policy found so far",
    Outcome.PUBLISHED: "all steps of the published algorithm taken",
}
_FULL = {Outcome.CONVERGED, Outcome.STEPS}  # nothing cut the search short


@dataclass(frozen=True, eq=False)
class Candidate:
    """A policy that may be returned, and where it comes from."""

    start: str
    stage: Stage
    policy: FloatArray  # [S, A]


@dataclass(frozen=True)
class Step:
    """One step of an ascent, for people to look at."""

    start: str  # which start it came from
    step: int
    value: float  # objective, on that step's own draws
    gap: float  # Frank-Wolfe gap: first-order bound on what is left to gain
    n_draws: int


@dataclass(frozen=True, eq=False, repr=False)
class Optimisation(Record):
    """A policy, its value on draws that were not used to find it, and how it was found.

    ``upper_bound`` is the objective of each draw's own best value: no policy that does
    not know the model can exceed it. ``gap`` is the difference between bound and
    objective; it includes both what a better policy could gain and the value of perfect
    information, so it does not go to 0 at the optimum. Both are NaN for objectives
    without such a bound, and without discount where some draw's best policy would never
    end.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> result = bm.optimise(bm.worlds.casino(), seed=0)
    >>> result.policy[0].round(4).tolist(), round(result.start_value, 4)
    ([0.6907, 0.3093], 1.3377)
    """

    _table_of = "history"

    policy: FloatArray  # [S, A]
    evaluation: Evaluation  # on fresh draws
    objective: str
    objective_value: float  # on the same fresh draws
    objective_mcse: float  # its Monte Carlo error
    gap: float
    gap_mcse: float  # of the paired difference; far below that of the bound
    chosen_start: str
    chosen_stage: Stage
    starts: dict[str, FloatArray]
    bounded: bool  # whether the objective has an upper bound
    left_out: tuple[str, ...]  # starts that do not end or have no mean
    steps_before: int  # of the results that it resumes
    history: tuple[Step, ...]
    outcome: Outcome
    draws_used: int  # of the optimiser's own stream; `resume` goes on after them
    seconds: float
    seed: int
    objective_title: str = ""  # what it is in words; empty for the mean
    objective_of: str = "value"  # or "improvement", "regret"

    @property
    def start_value(self) -> float:
        """Posterior mean of the value from the start distribution."""
        return self.evaluation.start_value

    @property
    def start_value_mcse(self) -> float:
        """Monte Carlo error of it."""
        return self.evaluation.start_value_mcse

    @property
    def upper_bound(self) -> float:
        """Most that any policy could reach; of a cost, the least."""
        return self.objective_value + (-self.gap if self._is_cost else self.gap)

    @property
    def _is_cost(self) -> bool:
        return self.evaluation.task.is_cost

    @property
    def upper_bound_mcse(self) -> float:
        """Monte Carlo error of it; 0 for a regret, which cannot be above 0."""
        if self.objective_of == "regret":
            return 0.0
        return float(np.hypot(self.gap_mcse, self.objective_mcse))

    @property
    def steps(self) -> int:
        """Steps of every ascent together."""
        return len(self.history)

    @property
    def converged(self) -> bool:
        """Whether what is left to gain is within tolerance or noise."""
        return self.outcome is Outcome.CONVERGED

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it: the best policy so far, and `resume` continues."""
        return self.outcome is Outcome.INTERRUPTED

    @property
    def status(self) -> str:
        """How it ended, in a sentence."""
        resume, effort = argument("resume"), argument("effort")
        said = _SAID[self.outcome].format(resume=resume, effort=effort)
        if self.chosen_stage is Stage.START and self.outcome in _FULL:
            said = "ascent found nothing better than this start, which is returned"
            if self.outcome is Outcome.STEPS:
                said += f"; it took all its steps: {resume} continues"
        if self.left_out:
            said += "; starts that do not end or have no mean were left out: "
            said += ", ".join(self.left_out)
        if math.isnan(self.gap) and self.bounded:
            said += "; no upper bound: the best policy of some draw was not found"
        if not self.bounded:
            said += "; the objective has no upper bound"
        return said

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, for JSON; what is not finite is None."""
        names = ["start_value", "start_value_mcse", "upper_bound", "upper_bound_mcse"]
        names += ["objective", "objective_value", "objective_mcse", "gap", "gap_mcse"]
        names += ["chosen_start", "chosen_stage", "outcome", "converged", "interrupted"]
        names += ["status", "steps", "draws_used", "seconds", "seed"]
        found = {name: as_plain(getattr(self, name)) for name in names}
        return found | {"evaluation": self.evaluation.to_dict()}

    def _sheet(self, shown: int = 10) -> Sheet:
        said = _told(self.objective_value, self.objective_mcse, " (error unknown)")
        most = ""  # the status says why there is no bound; that of a regret is 0
        if math.isfinite(self.upper_bound) and self.objective_of != "regret":
            bound = _told(self.upper_bound, self.upper_bound_mcse)
            most = f", at {'least' if self._is_cost else 'most'} {bound} with perfect"
            most += " information"
        mean = rounded(self.start_value, self.start_value_mcse)
        what, when = "cost" if self._is_cost else "value", "from the start"
        if self.evaluation.task.criterion == "average":
            when = "per step"
        title, more = f"Expected {what} {mean} {when}{most}", []
        if self.objective != repr(PosteriorMean()):
            own = f"{self.objective} of the {what} {when}"
            title = f"{self.objective_title or own}: {said}{most}"
            more = [f"expected {what} {mean} {when}"]
        return Sheet(
            title,
            [
                *more,
                f"found from {self.chosen_start!r} ({self.chosen_stage}) in "
                f"{many(self.steps, 'step')}, "
                f"{self.seconds:.2f} s: {self.status}",
            ],
            indent="  ",
        )

    def _repr_html_(self) -> str:
        return self._sheet().html() + self.evaluation._repr_html_()

    def __repr__(self) -> str:
        return (
            f"Optimisation({self.objective}: {self.objective_value:.6g}, "
            f"upper_bound={self.upper_bound:.4g}, converged={self.converged})"
        )


def _told(value: float, error: float, unknown: str = "") -> str:
    """Write a number to its precision; to three digits where that is not known."""
    if math.isnan(error):
        return f"{significant(value)}{unknown}"
    return rounded(value, error)


def optimisation_in_costs(
    found: Optimisation, task: Task, objective_title: str
) -> Optimisation:
    """Return the result of minus a task's cost in costs; ``gap`` stays above 0."""
    return replace(
        found,
        evaluation=in_costs(replace(found.evaluation, task=task)),
        objective_value=-found.objective_value,
        objective_title=objective_title,
        history=tuple(replace(step, value=-step.value) for step in found.history),
    )
