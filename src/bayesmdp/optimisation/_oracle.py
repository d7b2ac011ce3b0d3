"""Gradients of an objective at policies, on fresh draws of a belief.

**Held pairs** keep the probability that they have under a given policy; a search then
moves the shares that the other actions of a state have of the rest. Rows ``[R]`` that a
search knows are these shares, and `full` makes the policy of them.

**Comparisons** of policies are on draws none of them was found on, by paired
differences of the objective: for the mean with control variates, for other objectives
with errors by a bootstrap over draws.

**The hindsight bound**: ``max_pi f(V) <= f(max_pi V)`` for an objective ``f`` that does
not fall where values rise: no policy beats what each draw's own best value gives. The
difference to a given policy is taken draw by draw, which is far less noisy than the two
apart.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray
from bayesmdp.engine import (
    BLOCK,
    Pool,
    Problem,
    Slopes,
    channels,
    check_ending,
    draw_values,
    slopes,
)
from bayesmdp.engine.planning import hindsight_values, plan
from bayesmdp.errors import ArgumentError, EndlessError
from bayesmdp.evaluation import bootstrap_mcse, gaps, mean_and_mcse
from bayesmdp.evaluation.paired import differences, start_values, sweep_paired
from bayesmdp.model import as_policy
from bayesmdp.optimisation._settings import (
    Held,
    Objective,
    effective_draws,
    objective_value,
    what_was_done,
)
from bayesmdp.posterior import Belief, Draws

_FEW_MODELS = 1000  # up to so many models of an ensemble are swept exactly
_KEPT_BYTES = 2**27  # rows of draws met again: sampling costs more than solving
_LITTLE = 0.01  # probability, relative to a state's largest, of little use


class Oracle:
    """Values, gradients and draws of one belief for one search."""

    def __init__(
        self,
        belief: Belief,
        objective: Objective,
        seed: int,
        pool: Pool,
        used: int = 0,
        solver: str = "auto",
        held: Held | None = None,
    ) -> None:
        self.belief, self.objective, self.seed = belief, objective, seed
        self.pool, self.solver = pool, solver
        self.n_models = belief.n_models or 0
        self.exact = 0 < self.n_models <= _FEW_MODELS
        stream = belief.stream(None if self.exact else 1, seed, "optimise")
        self.problem = Problem.of_belief(belief).with_stream(stream)
        self._stream = self.problem.stream
        self.used = used  # draws, of the stream that gradients take theirs from
        self._held = None if held is None else self._of_rows(held)
        self.baseline = self._checked_baseline()
        self._references: dict[tuple[str, int, int], FloatArray] = {}
        self._last: tuple[FloatArray, int, int, Slopes] | None = None

    def of(self, belief: Belief) -> "Oracle":
        """Return that of another belief about the same task, with draws of its own."""
        return Oracle(belief, self.objective, self.seed, self.pool, solver=self.solver)

    def _of_rows(self, held: Held) -> tuple[BoolArray, FloatArray]:
        """Which rows are held, and at which probability, both ``[R]``."""
        of_rows = self.problem.rows.of_rows
        mask = of_rows(held.pairs.astype(np.float64)) > 0
        return mask, np.where(mask, of_rows(held.policy), 0.0)

    def _checked_baseline(self) -> FloatArray | None:
        """Return the policy that improvements are over, ``[S, A]``."""
        if self.objective.of != "improvement":
            return None
        given = self.objective.baseline
        if given is None:
            return what_was_done(self.belief)
        policy = as_policy(given, self.belief, "baseline")
        if fault := self._fault(policy):
            if self.problem.task.criterion == "average":
                raise ArgumentError(f"`baseline`: {fault}")
            raise ArgumentError(
                "`baseline` need not end, or has no mean, with discount 1: give one "
                "that ends, or use a discount below 1."
            )
        return policy

    def looked_at(self, values: FloatArray, draws: Draws) -> FloatArray:
        """Values ``[..., D]`` of draws as the objective sees them; ties are 0."""
        if self.objective.of == "value":
            return values
        problem = self.problem.with_stream(draws.stream)
        weights = draws.weights if draws.exact else None
        of = draws.purpose, problem, draws.n_draws, 0, weights
        return gaps(values, self._reference(*of))

    def _reference(
        self,
        purpose: str,
        problem: Problem,
        n_draws: int,
        first: int,
        weights: FloatArray | None,
    ) -> FloatArray:
        key = purpose, n_draws, first
        if key not in self._references:
            if self.objective.of == "regret":
                warm = plan(self.problem).choice
                found = hindsight_values(problem, n_draws, warm, self.pool, first)
            else:
                assert self.baseline is not None
                found, _ = draw_values(
                    problem,
                    self.rows(self.baseline),
                    n_draws,
                    pool=self.pool,
                    first=first,
                    weights=weights,
                    solver=self.solver,
                )
            self._references[key] = found
        return self._references[key]

    def affordable(self, budget: float, most: int, least: int = 64) -> int:
        """Draws within a budget of operations, in whole blocks.

        In units of dense elimination, whose operations are the fastest, for policies
        that use few actions in each state.
        """
        rows = self.problem.rows
        entries = rows.target.size * self.problem.n_live / max(rows.source.size, 1)
        work = min(self.problem.n_live**3 / 3, 200.0 * entries) + 20.0 * entries
        if self.problem.stages is not None:
            work = (10.0 * self.problem.stages.phase.size + 20.0) * entries
        n = int(np.clip(budget / work, min(least, most), most))
        return max(n // BLOCK, 1) * BLOCK

    def take(self, n_draws: int) -> int:
        """Reserve fresh draws for gradients; return the number of the first."""
        assert self._stream is not None
        # what steps shared before, none will ask for again
        kept = self._stream.keeping(_KEPT_BYTES)
        self.problem = replace(self.problem, stream=kept)
        first = self.used
        self.used += -(-n_draws // BLOCK) * BLOCK
        return first

    def slopes(self, policy: FloatArray, n_draws: int, first: int) -> Slopes:
        """Gradient of policy rows ``[R]`` on draws from ``first``.

        Where the objective is not linear, a first pass over the same draws finds the
        weight of each. What was asked last is known: steps may move nothing but
        probabilities of little use (`tried`).
        """
        if self._last is not None:
            rows, *of, found = self._last
            if of == [n_draws, first] and np.array_equal(rows, policy):
                return found
        found = self._slopes(policy, n_draws, first)
        self._last = policy, n_draws, first, found
        return found

    def _slopes(self, policy: FloatArray, n_draws: int, first: int) -> Slopes:
        how: Any = {"pool": self.pool, "solver": self.solver}
        weights = None
        if self.exact:
            n_draws, first = self.n_models, 0
            assert self.problem.stream is not None
            weights = self.problem.stream.weights(n_draws)
        how |= {"first": first, "weights": weights}
        if self._held is not None:
            how["held"], policy = self._held[0], self.full(policy)
        if self.objective.linear:
            return slopes(self.problem, policy, n_draws, exact=self.exact, **how)
        asked = {name: x for name, x in how.items() if name != "held"}
        values, visits = draw_values(self.problem, policy, n_draws, **asked)
        if self.objective.of != "value":
            of = "optimise", self.problem, n_draws, first, weights
            values = gaps(values, self._reference(*of))
        probability = np.ones(n_draws) if weights is None else weights
        how["weights"], value = weighted(self.objective, values, probability)
        how |= {"total": float(n_draws), "exact": self.exact}
        found = slopes(self.problem, policy, n_draws, **how)
        return replace(found, value=value, visits=visits)

    def draws(self, purpose: str, n_draws: int) -> Draws:
        """Draws kept apart from those of the ascent: to choose on, or to judge on."""
        if self.exact:
            return self.belief.draws()
        return Draws(self.belief, n_draws, self.seed, purpose, room=_KEPT_BYTES)

    def tried(self, rows: FloatArray) -> FloatArray:
        """Policy rows ``[R]`` to take a gradient at, without those of little use.

        A row without probability stands for its mean, which is right where weights of
        draws do not depend on it: those of improvements depend on what the baseline
        does, and those of regrets on everything.
        """
        if self.objective.of == "regret":
            return rows
        kept = self.sparse(rows)
        if self.baseline is None:
            return kept
        return np.where(self.rows(self.baseline) > 0, np.maximum(rows, kept), kept)

    def sparse(self, rows: FloatArray) -> FloatArray:
        """Policy rows ``[R]`` without those of little use.

        Where rows are independent, the gradient knows rows without probability by their
        mean, so they cost no draw: the ascent moves among policies of few actions per
        state, and an action comes back as soon as its slope has raised it again.
        """
        problem = self.problem
        if problem.must_end or problem.task.criterion == "average":
            return rows  # what is of little use may be the only end
        if self._held is not None:
            rows = np.where(self._held[0], 0.0, rows)
        top = np.zeros(problem.n_live)
        np.maximum.at(top, problem.rows.source, rows)
        kept = np.where(rows >= _LITTLE * top[problem.rows.source], rows, 0.0)
        total = np.bincount(problem.rows.source, kept, minlength=problem.n_live)
        return np.asarray(kept / np.maximum(total, 1e-300)[problem.rows.source])

    def reached(self, policy: FloatArray) -> BoolArray:
        """States a policy may reach from the start, ``[S]``."""
        rows = self.problem.rows
        row = rows.row_of_entry
        ever = (rows.mean.reshape(-1, rows.target.size) > 0).any(axis=0)
        used = (self.rows(policy)[row] > 0) & ever
        tail, head = rows.source[row[used]], rows.target[used]
        reached = rows.start > 0
        while True:
            new = np.zeros_like(reached)
            new[head[reached[tail]]] = True
            if not (new & ~reached).any():
                break
            reached = reached | new
        out = np.empty_like(reached)
        out[rows.order] = reached
        return out

    def ends(self, policy: FloatArray) -> bool:
        """Whether a policy ends and has a mean; always, for discounts below 1."""
        return self._fault(policy) is None

    def _fault(self, policy: FloatArray) -> EndlessError | None:
        """Say why a policy does not end or has no mean, or no single average."""
        average = self.problem.task.criterion == "average"
        if self.problem.must_end or average:
            try:
                rows = self.rows(policy)[None]
                check_ending(self.problem.with_policies(rows), self.belief)
            except EndlessError as fault:
                return fault
        return None

    def rows(self, policy: FloatArray) -> FloatArray:
        """Policy ``[S, A]`` as probabilities of rows, ``[R]``."""
        return self.problem.rows.of_rows(policy)

    def full(self, rows: FloatArray) -> FloatArray:
        """Rows ``[R]`` with held ones at their probability, others scaled to the rest.

        Where others have no probability at all, they share the rest alike.
        """
        if self._held is None:
            return rows
        held, kept = self._held
        source, n = self.problem.rows.source, self.problem.n_live
        free = np.where(held, 0.0, rows)
        empty = np.bincount(source, free, minlength=n)[source] == 0
        free = np.where(empty & ~held, 1.0, free)
        total = np.bincount(source, free, minlength=n)[source]
        rest = 1.0 - np.bincount(source, kept, minlength=n)[source]
        share = np.divide(free, total, np.zeros_like(free), where=total > 0)
        return np.asarray(kept + rest * share)

    def keep(self, policy: FloatArray) -> FloatArray:
        """Policy ``[S, A]`` with held pairs at their probability."""
        if self._held is None:
            return policy
        return self.problem.rows.as_policy(self.full(self.rows(policy)))

    def free(self, policy: FloatArray) -> FloatArray:
        """Shares ``[S, A]`` of what held pairs leave; the policy where none is held."""
        if self._held is None:
            return policy
        rows = np.where(self._held[0], 0.0, self.rows(policy))
        shares = self.problem.rows.as_policy(rows)
        total = shares.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(shares, total, shares, where=total > 0))

    def policy(self, rows: FloatArray) -> FloatArray:
        """Rows ``[R]`` as a policy ``[S, A]``, less those of little use."""
        out = self.problem.rows.as_policy(self.full(self.sparse(rows)))
        total = out.sum(axis=1, keepdims=True)
        np.divide(out, total, out, where=total > 0)
        return out


def weighted(
    objective: Objective, values: FloatArray, probability: FloatArray
) -> tuple[FloatArray, float]:
    """Weights of draws ``[D]``, 1 on average for the mean, and the objective.

    Draws without a value or without probability have the weight 0.
    """
    known = np.isfinite(values) & (probability > 0)
    share = probability[known] / probability[known].sum()
    found = np.asarray(objective.weights(values[known], share))
    if found.shape != share.shape or not np.isfinite(found).all():
        raise ArgumentError(
            f"`objective` must give finite weights, one for each of {share.size} draws;"
            f" {type(objective).__name__}.weights gives {found!r:.60}."
        )
    weights = np.zeros_like(values)
    weights[known] = values.size * found
    return weights, objective_value(objective, values[known], share)


class Selection:
    """Compares policies on one sample."""

    def __init__(self, oracle: Oracle, purpose: str, n_draws: int) -> None:
        self._oracle = oracle
        self._draws = oracle.draws(purpose, n_draws)

    def differences(self, policies: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Objective of each policy minus that of the first, and the errors.

        The first must end; another that does not has minus infinity.
        """
        return self._differences(policies, errors=True)

    def _differences(
        self, policies: list[FloatArray], *, errors: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return errors of 0 where a bootstrap is not worth its time."""
        oracle = self._oracle
        ends = np.array([oracle.ends(policy) for policy in policies])
        difference, error = np.full(len(policies), -np.inf), np.zeros(len(policies))
        kept = np.stack([p for p, good in zip(policies, ends, strict=True) if good])
        swept = sweep_paired(kept, self._draws, pool=oracle.pool, solver=oracle.solver)
        if oracle.objective.linear:
            difference[ends], error[ends] = differences(swept, 0)
            return difference, error
        every = swept.sums.ended.all(axis=0) & (swept.sums.weights > 0)
        values = swept.sums.start[:, channels.START_VALUE]
        values = oracle.looked_at(values, self._draws)
        every &= np.isfinite(values).all(axis=0)
        values = values[:, every]
        weights = swept.sums.weights[every]
        given = oracle.objective, values[0], weights, self._draws
        found = [objective_difference(row, *given, error=errors) for row in values]
        difference[ends], error[ends] = np.array(found).T
        return difference, error

    def order(self, policies: list[FloatArray]) -> list[int]:
        """Return indices, that of the best policy first; earlier ones win ties."""
        if len(policies) == 1:
            return [0]
        difference, _ = self._differences(policies, errors=False)
        return [int(i) for i in np.argsort(-difference, kind="stable")]


def objective_difference(
    values: FloatArray,
    objective: Objective,
    others: FloatArray,
    weights: FloatArray,
    draws: Draws,
    *,
    error: bool = True,
) -> tuple[float, float]:
    """Objective of values ``[D]`` minus that of others on the same draws, and error."""
    if np.array_equal(values, others):
        return 0.0, 0.0

    def gap(probability: FloatArray) -> float:
        value = objective_value(objective, values, probability)
        return value - objective_value(objective, others, probability)

    found = gap(weights / weights.sum())
    if not error:
        return found, 0.0
    chain = draws.belief.chain_noise
    return found, bootstrap_mcse(gap, weights, exact=draws.exact, chain=chain)


def objective_estimate(
    objective: Objective, values: FloatArray, weights: FloatArray, draws: Draws
) -> tuple[float, float]:
    """Objective of values ``[D]`` and its Monte Carlo error; NaN if too few tell it."""

    def value(probability: FloatArray) -> float:
        return objective_value(objective, values, probability)

    share, chain = weights / weights.sum(), draws.belief.chain_noise
    if draws.exact and not chain:
        return value(share), 0.0
    if effective_draws(objective, values, share) < objective.few:
        return value(share), np.nan
    error = objective.mcse(values, share)
    if error is None:
        error = bootstrap_mcse(value, weights, exact=draws.exact, chain=chain)
    else:
        error *= np.sqrt((not draws.exact) + chain * values.size)
    return value(share), error


def hindsight_bound(
    oracle: Oracle, policy: FloatArray, n_draws: int
) -> tuple[float, float]:
    """Return what perfect information adds to a policy's objective, and the error.

    Not a number where the objective has no such bound, or a draw's own best policy was
    not found.
    """
    if not oracle.objective.monotone:
        return np.nan, np.nan
    draws = oracle.draws("bound", n_draws)
    problem = oracle.problem.with_stream(draws.stream)
    warm = plan(oracle.problem).choice
    best = hindsight_values(problem, draws.n_draws, warm, oracle.pool)
    values = start_values(policy, draws, pool=oracle.pool, solver=oracle.solver)
    best, values = (oracle.looked_at(x, draws) for x in (best, values))
    solved = np.isfinite(values) & (draws.weights > 0)
    best, values, weights = best[solved], values[solved], draws.weights[solved]
    if np.isnan(best).any():
        return np.nan, np.nan
    if not oracle.objective.linear:
        return objective_difference(best, oracle.objective, values, weights, draws)
    chain = oracle.belief.chain_noise
    mean, error = mean_and_mcse(best - values, weights, exact=oracle.exact, chain=chain)
    return float(mean), float(error)
