"""What a report is made from, checked once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.data import Findings
from bayesmdp.diagnostics import Check, CrossFit, NegativeControl, PriorSensitivity
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import Comparison, ComparisonRow, Evaluation, OffPolicy
from bayesmdp.information import Information
from bayesmdp.model import Task
from bayesmdp.optimisation import Optimisation
from bayesmdp.posterior import Belief, check_belief
from bayesmdp.priors import EvidenceCurve

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
    information: Information | None = None

    def __post_init__(self) -> None:
        """Refuse records of other kinds, and of another task."""
        check_belief(self.posterior)
        _checks.of_type("comparison", self.comparison, Comparison, ArgumentError)
        for name, kind in (
            ("optimisation", Optimisation),
            ("findings", Findings),
            ("evidence", EvidenceCurve),
            ("prior_sensitivity", PriorSensitivity),
            ("best_predictor", str),
            ("check", Check),
            ("negative_control", NegativeControl),
            ("cross_fit", CrossFit),
            ("off_policy", OffPolicy),
            ("information", Information),
        ):
            given = getattr(self, name)
            if given is not None:
                _checks.of_type(name, given, kind, ArgumentError)
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
        draw_weights(self.best, self.posterior, "posterior")

    def _check_tasks(self) -> None:
        """Refuse results that belong to another task of the same size."""
        tasks = {"comparison": self.best.task}
        if self.optimisation is not None:
            tasks["optimisation"] = self.optimisation.evaluation.task
        if self.prior_sensitivity is not None:
            tasks["prior_sensitivity"] = self.prior_sensitivity.task
        if self.information is not None:
            tasks["information"] = self.information.task
        for name, task in tasks.items():
            for what in ("discount", "terminal", "start", "state_labels"):
                mine, other = (getattr(x, what) for x in (self.task, task))
                if not np.array_equal(mine, other):
                    raise ArgumentError(
                        f"`{name}` is about a task with another `{what}` than that of "
                        "`posterior`; give records of one analysis."
                    )

    @property
    def task(self) -> Task:
        """The known part."""
        return self.posterior.task

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
        """Whom the others are compared with."""
        return self.comparison.reference

    @property
    def best(self) -> Evaluation:
        """Evaluation of the recommended policy."""
        return self.comparison.evaluations[self.recommended]

    @cached_property
    def weights(self) -> FloatArray:
        """Probability of each draw, ``[D]``."""
        return draw_weights(self.best, self.posterior, "posterior")

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


def draw_weights(
    evaluation: Evaluation, belief: Belief | None, name: str
) -> FloatArray:
    """Probability of each draw, ``[D]``; only models of an ensemble differ in it."""
    n = evaluation.start_values.size
    if not evaluation.exact:
        return np.full(n, 1.0 / n)
    if belief is None or belief.n_models is None:
        raise ArgumentError(
            f"`{name}` must be the ensemble that was compared on: its models have "
            "weights, which a comparison does not hold."
        )
    if belief.n_models != n:
        raise ArgumentError(
            f"`{name}` has {belief.n_models} models, `comparison` was made on {n}; "
            "give the ensemble it was made on."
        )
    return belief.draws().weights / n
