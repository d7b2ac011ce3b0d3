"""What a report is made from, checked once; what its draws say of differences.

Numbers as JSON holds them: rounded to what they know, with their errors.

A quantity is ``{"value": x, "mcse": e}``; ``e`` is a Monte Carlo standard error, 0
where there is none. What is not finite is None.
"""

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np

from bayesmdp import _checks, policies
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data import Findings
from bayesmdp.diagnostics import Check, CrossFit, NegativeControl, PriorSensitivity
from bayesmdp.economics import CostEffectiveness
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import (
    Comparison,
    ComparisonRow,
    Evaluation,
    OffPolicy,
    gaps,
    least_size,
    probability,
    quantile,
    rounded,
    share_mcse,
)
from bayesmdp.information import Information
from bayesmdp.model import Task, difference
from bayesmdp.optimisation import Optimisation, PosteriorMean
from bayesmdp.posterior import Belief, Ensemble, Fitted, check_belief
from bayesmdp.priors import EvidenceCurve

VALUE_DIGITS, ERROR_DIGITS = 5, 2


def plain(value: float, digits: int = 12) -> float | None:
    """Return a float with so many significant digits; None if it is not finite."""
    number = float(value)
    return float(f"{number:.{digits}g}") if math.isfinite(number) else None


def quantity(value: float, error: float = 0.0) -> dict[str, float | None]:
    """Return a number with its error."""
    return {"value": plain(value), "mcse": plain(error, 4)}


def column(values: FloatArray, digits: int = VALUE_DIGITS) -> list[float | None]:
    """Return many numbers, short."""
    return [plain(x, digits) for x in values.tolist()]


def whole(values: IntArray | BoolArray) -> list[int]:
    """Return whole numbers, and truth as 0 and 1."""
    return [int(x) for x in values.tolist()]


def share(hits: float, n: float) -> dict[str, float | None]:
    """Return the probability of an event met in a share ``hits`` of ``n`` draws.

    With no draw on one side the error is that of the first that might come: 1 / n.
    """
    error = float(share_mcse(hits, 1 / n)) if n else math.nan
    return quantity(hits, max(error, 1.0 / n) if n and math.isfinite(n) else 0.0)


def in_percent(part: float) -> str:
    """Write a share in per cent, with two digits; three would be 100."""
    said = 100 * part
    return f"{said:.0f} %" if said >= 10 or said == 0 else f"{said:.2g} %"


def interval(
    values: FloatArray,
    weights: FloatArray,
    *,
    exact: bool,
    chain: float = 0.0,
    level: float = 0.95,
) -> dict[str, Any]:
    """Return a central interval of draws ``[D]``; errors by order statistics.

    ``chain`` is the belief's `chain_noise`, all there is where every model is swept.
    """
    found: dict[str, Any] = {"level": level}
    noise = chain + (0.0 if exact else 1 / values.size)
    for name, at in (("low", (1 - level) / 2), ("high", (1 + level) / 2)):
        step = float(share_mcse(at, noise))
        below = quantile(values, weights, max(at - step, 0.0))
        above = quantile(values, weights, min(at + step, 1.0))
        found[name] = quantity(quantile(values, weights, at), (above - below) / 2)
    return found


#: Probability from which on something is said to be better.
SURE = 0.95


def chance(x: dict[str, float | None]) -> str:
    """Write a probability from draws: never 0 or 100 % because no draw said else."""
    value, error = x["value"], x["mcse"] or 0.0
    if value is None:
        return "not known"
    if error and value > 1 - 2 * error:
        return f"above {_floor(100 * (1 - 3 * error))} %"
    if error and value < 2 * error:
        return f"below {min(300 * error, 100):.3g} %"
    if not error:
        return f"{100 * value:.4g} %"
    return f"{rounded(100 * value, 100 * error)} %"


def _floor(per_cent: float) -> str:
    return f"{math.floor(100 * max(per_cent, 0.0)) / 100:g}"


MAX_SHOWN = 5_000  # states a page can hold


@dataclass(frozen=True, eq=False)
class Inputs:
    """Records of an analysis, and which policy the report is about."""

    posterior: Belief
    comparison: Comparison
    optimisation: Optimisation | None
    findings: Findings | None
    evidence: EvidenceCurve | None
    prior_sensitivity: PriorSensitivity | None
    best_predictor: str | None = None  # among the priors of `prior_sensitivity`
    check: Check | None = None
    negative_control: NegativeControl | None = None
    cross_fit: CrossFit | None = None
    off_policy: OffPolicy | None = None
    cost_effectiveness: CostEffectiveness | None = None
    information: Information | None = None

    def __post_init__(self) -> None:
        """Refuse records of other kinds, and of another task."""
        check_belief(self.posterior)
        _checks.of_type("comparison", self.comparison, Comparison, ArgumentError)
        for field in fields(self)[2:]:
            given, (kind, _) = getattr(self, field.name), get_args(field.type)
            if given is not None:
                _checks.of_type(field.name, given, kind, ArgumentError)
        wanted = self.posterior.available.shape
        policies = {f"comparison[{n!r}]": e.policy for n, e in self.evaluations.items()}
        if self.optimisation is not None:
            policies["optimisation"] = self.optimisation.policy
        if self.prior_sensitivity is not None:
            policies["prior_sensitivity"] = self.prior_sensitivity.policy
        for name, policy in policies.items():
            if policy.shape != wanted:
                raise ArgumentError(
                    f"`{name}` is about {policy.shape[0]} states and "
                    f"{policy.shape[1]} actions, `posterior` about {wanted[0]} and "
                    f"{wanted[1]}; give records of one analysis."
                )
        self._check_tasks()
        n = self.best.start_values.size
        if self.best.exact and self.posterior.n_models != n:
            raise ArgumentError(
                f"`comparison` was made on all {n} models of an ensemble, and "
                "`posterior` is not that ensemble: give the one it was made on."
            )

    def _check_tasks(self) -> None:
        """Refuse results that belong to another task of the same size."""
        tasks = {"comparison": self.best.task}
        if self.optimisation is not None:
            tasks["optimisation"] = self.optimisation.evaluation.task
        if self.prior_sensitivity is not None:
            tasks["prior_sensitivity"] = self.prior_sensitivity.task
        if self.information is not None:
            tasks["information"] = self.information.task
        costs, chosen = self.cost_effectiveness, self.task.chosen
        if costs is not None and costs.task is not None and chosen is not None:
            tasks["cost_effectiveness"] = costs.task.with_reward(chosen)
        for name, task in tasks.items():
            if (what := difference(self.task, task)) is not None:
                raise ArgumentError(
                    f"`{name}` is about a task with another `{what}` than that of "
                    "`posterior`; give records of one analysis."
                )
        for name in ("check", "negative_control", "cross_fit", "off_policy"):
            found = getattr(self, name)
            if found is not None and found.reward != self.task.chosen:
                raise ArgumentError(
                    f"`{name}` was made with another `reward` than that of "
                    "`posterior`; give records of one analysis."
                )

    @property
    def task(self) -> Task:
        """The known part."""
        return self.posterior.task

    @property
    def measure(self) -> str:
        """What policies are judged by: the least cost, or the highest value."""
        return "cost" if self.task.is_cost else "value"

    @property
    def knows_actions(self) -> bool:
        """Whether values of single actions, and all checks, are known for the task."""
        return self.task.is_plain and not self.task.is_cost

    @property
    def unknown_for(self) -> str:
        """For which tasks, as this one, values of single actions are not known."""
        if self.task.criterion == "average":
            return "averages per step"
        if self.task.horizon is not None:
            return "tasks with a horizon"
        return "costs" if self.task.is_cost else f"tasks with {self.task.said_time}"

    @property
    def when(self) -> str:
        """What values are, in words."""
        return "per step" if self.task.criterion == "average" else "from the start"

    @property
    def sampled(self) -> bool:
        """Whether the belief is a number of models that are themselves a sample."""
        return self.posterior.n_models is not None and self.posterior.chain_noise > 0

    @property
    def exact(self) -> bool:
        """Whether there is no Monte Carlo error at all."""
        return self.best.exact and not self.sampled

    @property
    def n_effective(self) -> float:
        """Independent draws that would leave a probability the error that it has."""
        own = 0.0 if self.best.exact else 1 / self.best.n_draws
        noise = self.posterior.chain_noise + own
        return 1 / noise if noise else math.inf

    @property
    def drawn(self) -> str:
        """What probabilities are shares of."""
        n, kind = self.best.n_draws, "draw"
        if self.best.exact:
            kind = "sampled model" if self.sampled else "model"
        return f"{n:,} {kind}{'s' if n != 1 else ''}"

    @property
    def own_rewards(self) -> bool:
        """Whether models bring rewards of their own, which are then uncertain too."""
        belief = self.posterior
        return isinstance(belief, Ensemble) and belief.rewards.shape[0] > 1

    def command(self, said: str) -> str:
        """Write a command about the run with the reward that the page is about."""
        chosen = self.task.chosen or ()
        asked = [chosen] if isinstance(chosen, str) else list(chosen)
        if isinstance(chosen, Mapping):
            asked = [f"{name}={weight:.15g}" for name, weight in chosen.items()]
        return f"bayesmdp {said}" + "".join(
            f" --reward {shlex.quote(x)}" for x in asked
        )

    @property
    def evaluations(self) -> dict[str, Evaluation]:
        """Evaluations by policy name, best first."""
        return {r.name: self.comparison.evaluations[r.name] for r in self.rows}

    @property
    def rows(self) -> tuple[ComparisonRow, ...]:
        """Rows of the comparison, best first."""
        return self.comparison.rows

    @cached_property
    def optimised(self) -> tuple[str, ...]:
        """Policies of the comparison that are the optimised one, to the bit."""
        if self.optimisation is None:
            return ()
        return self._named(self.optimisation.policy)

    @property
    def for_tail(self) -> bool:
        """Whether the optimised policy was chosen for something else than the mean."""
        result = self.optimisation
        return result is not None and result.objective != repr(PosteriorMean())

    @cached_property
    def examined(self) -> tuple[str, ...]:
        """Policies of the comparison whose prior sensitivity was asked for."""
        if self.prior_sensitivity is None:
            return ()
        return self._named(self.prior_sensitivity.policy)

    def _named(self, policy: FloatArray) -> tuple[str, ...]:
        """Names of the policies compared that are a given one, to the bit."""
        live = self.task.live
        return tuple(
            name
            for name, e in self.comparison.evaluations.items()
            if np.array_equal(e.policy[live], policy[live])
        )

    @cached_property
    def recommended(self) -> str:
        """The optimised policy; the best one where none of them is it.

        The optimised one was chosen on other draws, so nothing in the comparison
        flatters it.
        """
        return self.optimised[-1] if self.optimised else self.rows[0].name

    @property
    def row(self) -> ComparisonRow:
        """Row of the recommended policy."""
        return next(x for x in self.rows if x.name == self.recommended)

    @property
    def reference(self) -> str:
        """Policy that the others are compared with."""
        return self.comparison.reference

    @property
    def over_behaviour(self) -> bool:
        """Whether gains of the page are over what was done, as those of checks."""
        if not isinstance(self.posterior, Fitted):
            return False
        done = policies.behaviour(self.posterior)
        reference = self.comparison.evaluations[self.reference].policy
        return bool(np.allclose(reference, done, atol=1e-6))

    @property
    def best(self) -> Evaluation:
        """Evaluation of the recommended policy."""
        return self.comparison.evaluations[self.recommended]

    @cached_property
    def weights(self) -> FloatArray:
        """Probability of each draw, ``[D]``."""
        return draw_weights(self.best)

    @cached_property
    def visits(self) -> IntArray | None:
        """How often each pair was logged, ``[S, A]``; None without counts."""
        task, counts = self.task, self.posterior.counts
        if counts is None:
            return None
        return counts.pair_totals(task.n_states, task.n_actions)

    @cached_property
    def shown(self) -> IntArray:
        """States the page knows: all, or those the recommended policy meets most."""
        n = self.task.n_states
        if n <= MAX_SHOWN:
            return np.arange(n)
        met = np.nan_to_num(self.best.occupancy)
        most = np.argsort(-met, kind="stable")[:MAX_SHOWN]
        return np.sort(most)


def held_against(posterior: Belief, findings: Findings | None) -> Findings | None:
    """Leave out what `validate` asks of a log alone and the task has answered.

    A log does not say which states are terminal; where the task names all that were
    entered and never left, there is nothing to ask.
    """
    counts, task = posterior.counts, posterior.task
    if findings is None or counts is None or not isinstance(findings, Findings):
        return findings
    entered, left = (
        np.bincount(x, counts.count, task.n_states) > 0
        for x in (counts.next_state, counts.state)
    )
    if (entered & ~left & ~task.is_terminal).any():
        return findings
    asked = "never-left-states", "note"  # a warning is of a log that says its ends
    kept = tuple(x for x in findings if (x.code, x.severity) != asked)
    return replace(findings, findings=kept)


def draw_weights(evaluation: Evaluation) -> FloatArray:
    """Probability of each draw, ``[D]``; only models of an ensemble differ in it."""
    n = evaluation.start_values.size
    return np.full(n, 1 / n) if evaluation.weights is None else evaluation.weights


_POINTS = 121


def start_values(inputs: Inputs) -> tuple[dict[str, FloatArray], FloatArray]:
    """Return start values of each policy on draws that all solved, and weights."""
    return common_values(inputs.evaluations, inputs.weights)


def common_values(
    evaluations: Mapping[str, Evaluation], weights: FloatArray
) -> tuple[dict[str, FloatArray], FloatArray]:
    """Return start values on draws that all solved, and weights that sum to 1."""
    table = {n: e.start_values for n, e in evaluations.items()}
    solved = np.all([np.isfinite(v) for v in table.values()], axis=0)
    solved &= weights > 0
    weights = weights[solved]
    return {n: v[solved] for n, v in table.items()}, weights / weights.sum()


def gaps_to(
    reference: str,
    values: Mapping[str, FloatArray],
    evaluations: Mapping[str, Evaluation],
) -> dict[str, FloatArray]:
    """Start values less those of one policy in each draw; ties are exactly 0."""
    least = _least(evaluations)
    return {n: gaps(v, values[reference], least) for n, v in values.items()}


def _least(evaluations: Mapping[str, Evaluation]) -> float:
    # a record has the name of its solver alone
    found = [least_size(e.solver == "iterative", e.value) for e in evaluations.values()]
    return max(found)


def best_shares(
    values: Mapping[str, FloatArray],
    weights: FloatArray,
    evaluations: Mapping[str, Evaluation],
    n: float,
) -> dict[str, dict[str, float | None]]:
    """Probability that each policy is the best of all; ties are divided.

    ``n`` is the number of independent draws that its error is that of.
    """
    table = np.stack(list(values.values()))  # [P, D]
    if next(iter(evaluations.values())).task.is_cost:
        table = -table
    top = gaps(table, table.max(axis=0), _least(evaluations)) == 0
    hits = np.minimum((top / top.sum(axis=0)) @ weights, 1.0)
    return {name: share(float(h), n) for name, h in zip(values, hits, strict=True)}


def acceptability(
    found: dict[str, FloatArray], weights: FloatArray, reference: str, *, cost: bool
) -> dict[str, object]:
    """Probability that each policy beats the reference by more than ``x``."""
    sign = -1.0 if cost else 1.0
    found = {name: sign * gap for name, gap in found.items() if name != reference}
    ends = [
        quantile(gap, weights, level) for gap in found.values() for level in (0.001, 1)
    ]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    margin = 0.03 * (high - low) or 1.0
    x = np.unique(np.r_[np.linspace(low - margin, high + margin, _POINTS), 0.0])
    return {
        "x": [plain(point, 6) for point in x],
        "probability": {
            name: [plain(probability(gap > point, weights), 5) for point in x]
            for name, gap in found.items()
        },
        "n_draws": int(weights.size),
    }
