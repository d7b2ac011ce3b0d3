"""What a report is made from, checked once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.criticism import Sensitivity
from bayesmdp.data import Findings
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import Comparison, ComparisonRow, Evaluation
from bayesmdp.model import Task
from bayesmdp.optimisation import Optimisation
from bayesmdp.posterior import Belief, Ensemble, check_belief
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
    sensitivity: Sensitivity | None

    def __post_init__(self) -> None:
        """Refuse records of other kinds, and of another task."""
        check_belief(self.posterior)
        _checks.of_type("comparison", self.comparison, Comparison, ArgumentError)
        for name, kind in (
            ("optimisation", Optimisation),
            ("findings", Findings),
            ("evidence", EvidenceCurve),
            ("sensitivity", Sensitivity),
        ):
            given = getattr(self, name)
            if given is not None:
                _checks.of_type(name, given, kind, ArgumentError)
        wanted = self.posterior.available.shape
        policies = {f"comparison[{n!r}]": e.policy for n, e in self.evaluations.items()}
        if self.optimisation is not None:
            policies["optimisation"] = self.optimisation.policy
        if self.sensitivity is not None:
            policies["sensitivity"] = self.sensitivity.policy
        for name, policy in policies.items():
            if policy.shape != wanted:
                raise ArgumentError(
                    f"`{name}` is about {policy.shape[0]} states and "
                    f"{policy.shape[1]} actions, `posterior` about {wanted[0]} and "
                    f"{wanted[1]}; give records of one analysis."
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
        best, live = self.optimisation.policy, self.task.live
        return tuple(
            name
            for name, e in self.comparison.evaluations.items()
            if np.array_equal(e.policy[live], best[live])
        )

    @cached_property
    def recommended(self) -> str:
        """The optimised policy; the best one where none of them is it.

        The optimised one was chosen on other draws, so nothing in the comparison
        flatters it.
        """
        return self.optimised[-1] if self.optimised else self.rows[0].name

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
        return draw_weights(self.best, self.posterior)

    @cached_property
    def visits(self) -> IntArray | None:
        """How often each pair was logged, ``[S, A]``; None without counts."""
        if isinstance(self.posterior, Ensemble):
            return None
        task = self.task
        return self.posterior.counts.pair_totals(task.n_states, task.n_actions)

    @cached_property
    def shown(self) -> IntArray:
        """States the page knows: all, or those the recommended policy meets most."""
        n = self.task.n_states
        if n <= MAX_SHOWN:
            return np.arange(n)
        met = np.nan_to_num(self.best.occupancy)
        most = np.argsort(-met, kind="stable")[:MAX_SHOWN]
        return np.sort(most)


def draw_weights(evaluation: Evaluation, belief: Belief | None) -> FloatArray:
    """Probability of each draw, ``[D]``; only models of an ensemble differ in it."""
    if evaluation.exact and isinstance(belief, Ensemble):
        return belief.weights
    n = evaluation.start_values.size
    return np.full(n, 1.0 / n)
