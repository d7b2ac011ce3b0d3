"""The search for the best policy of a belief.

The objective is not concave: ascent from one start can end in a worse basin than from
another. So the starts are compared, by paired differences on a sample of their own, and
the best few climb on a small sample. The best of those goes on, on larger ones. All
steps of a stage share their draws: noise between draws is then no noise between steps.
A stage is over where what any change can gain is within noise, and the next, on fresh
draws, can tell more. What was found is compared with every start on further draws.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from bayesmdp._progress import Show
from bayesmdp._typing import FloatArray
from bayesmdp.engine import Slopes
from bayesmdp.engine.ascent import AscentState, climb, soften
from bayesmdp.optimisation._effort import Effort
from bayesmdp.optimisation._methods import MirrorAscent
from bayesmdp.optimisation._oracle import Oracle
from bayesmdp.optimisation._result import Candidate, Outcome, Stage, Step
from bayesmdp.optimisation._selection import Selection

_SOFTNESS, _SOFTNESS_LATER = 0.1, 0.01
_EXACT_STEPS, _EXACT_TOLERANCE = 200, 1e-9
_NEARLY = 0.9  # probability from which an action is taken for certain


@dataclass(eq=False)
class Search:
    """Where a search stands; also after it was interrupted."""

    oracle: Oracle
    effort: Effort
    until: float | None  # time of `time.perf_counter` at which to stop
    show: Show | None
    starts: dict[str, FloatArray] = field(default_factory=dict)  # [S, A]
    left_out: tuple[str, ...] = ()  # starts that do not end or have no mean
    found: list[Candidate] = field(default_factory=list)
    history: list[Step] = field(default_factory=list)
    outcome: Outcome = Outcome.STEPS
    published: bool = False  # what is found is returned as it is
    _ahead: list[str] = field(default_factory=list)  # the best starts
    _tolerance: float = 0.0  # gain at which to stop
    _latest: tuple[str, FloatArray] | None = None  # rows of the last step

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return self.until is not None and time.perf_counter() > self.until

    def interrupt(self) -> None:
        """Leave it at what there is."""
        self.outcome = Outcome.INTERRUPTED
        if self._latest is not None:
            name, rows = self._latest
            self._found(name, Stage.CLIMBED, rows)

    def _found(self, name: str, stage: Stage, rows: FloatArray) -> Candidate:
        found = Candidate(name, stage, self.oracle.policy(rows))
        self.found.append(found)
        return found

    def watch(self, step: Step, rows: FloatArray) -> bool:
        """Keep a step and where it led, and show it; False where time is over."""
        self.history.append(step)
        self._latest = step.start, rows
        if self.show is not None:
            note = f"value {step.value:.4g}, Frank-Wolfe gap {step.gap:.1e}"
            self.show(len(self.history), note)
        return not self.late

    def climb(self, method: MirrorAscent) -> None:
        """Climb from the best starts, and on from the best policy found."""
        oracle, effort = self.oracle, self.effort
        stages = ((0, _EXACT_STEPS),) if oracle.exact else effort.stages
        names, policies = list(self.starts), list(self.starts.values())
        select = Selection(oracle, "select", self._draws(effort.select))
        tolerance = effort.tolerance if method.tolerance is None else method.tolerance
        tolerance = _EXACT_TOLERANCE if oracle.exact else tolerance
        self._tolerance = tolerance * _scale(oracle, policies[0])
        order = _distinct(policies, select.order(policies))
        self._ahead = [names[at] for at in order[: effort.n_climbs]]
        order = order if oracle.exact else order[: effort.n_climbs]
        done = False
        for at in order:
            rows = soften_rows(oracle, policies[at], _SOFTNESS)
            rows, done = self._stage(names[at], rows, *stages[0], method.n_steps)
            self._found(names[at], Stage.CLIMBED, rows)
            if self.late:
                done &= at == order[-1]  # others were to climb
                break
        best = self.found[select.order([c.policy for c in self.found])[0]]
        for n_draws, most in stages[1:]:
            if self.late:
                done = False  # little to gain on the smaller sample alone
                break
            rows = soften_rows(oracle, best.policy, _SOFTNESS_LATER)
            rows, done = self._stage(best.start, rows, n_draws, most, method.n_steps)
            best = Candidate(best.start, Stage.CLIMBED, oracle.policy(rows))
        self.found = [Candidate(best.start, Stage.SNAPPED, snapped(best.policy)), best]
        self.outcome = Outcome.CONVERGED if done else Outcome.STEPS
        if self.late and not done:
            self.outcome = Outcome.TIME

    def _draws(self, most: int) -> int:
        return self.oracle.affordable(self.effort.budget, most)

    def _stage(
        self, name: str, rows: FloatArray, n_draws: int, most: int, n_steps: int
    ) -> tuple[FloatArray, bool]:
        """Climb on one sample; where that led, and whether little is left to gain."""
        oracle = self.oracle
        n = self._draws(n_draws)
        first = 0 if oracle.exact else oracle.take(n)

        def slopes(now: FloatArray) -> Slopes:
            return oracle.slopes(oracle.sparse(now), n, first)

        def after_step(state: AscentState, at: Slopes) -> bool:
            before = sum(step.start == name for step in self.history)
            step = Step(name, before + 1, at.value, max(at.gap, 0.0), n)
            return self.watch(step, state.policy)

        taken = sum(step.start == name for step in self.history)
        most = min(most, max(n_steps - taken, 0))
        state = AscentState(rows)
        source, n_live = oracle.problem.rows.source, oracle.problem.n_live
        done = climb(state, slopes, source, n_live, most, self._tolerance, after_step)
        return state.policy, done

    def choose(self) -> Candidate:
        """Best policy by paired differences on draws that found none of them."""
        starts = [Candidate(n, Stage.START, p) for n, p in self.starts.items()]
        candidates = (
            self.found if self.published and self.found else starts + self.found
        )
        kept = _distinct([c.policy for c in candidates], range(len(candidates)))
        candidates = [candidates[i] for i in kept]
        draws = self._draws(self.effort.choose)
        choose = Selection(self.oracle, "choose", draws)
        chosen = candidates[choose.order([c.policy for c in candidates])[0]]
        if self.published:
            return chosen
        if chosen.stage is Stage.CLIMBED:
            chosen = self._decided(choose, chosen)
        unreached = ~self.oracle.reached(chosen.policy)
        policy = chosen.policy.copy()
        policy[unreached] = starts[0].policy[unreached]
        same = [c for c in starts if np.array_equal(c.policy, policy)]
        return same[0] if same else Candidate(chosen.start, chosen.stage, policy)

    def _decided(self, choose: Selection, chosen: Candidate) -> Candidate:
        """Take the policy with its nearly certain actions certain, if it is as good."""
        certain = snapped(chosen.policy)
        if not self.oracle.ends(certain):
            return chosen
        difference, error = choose.differences([chosen.policy, certain])
        if difference[1] < -error[1]:
            return chosen
        return Candidate(chosen.start, Stage.SNAPPED, certain)


def soften_rows(oracle: Oracle, policy: FloatArray, softness: float) -> FloatArray:
    """Rows ``[R]`` of a policy mixed with the uniform random one."""
    rows = oracle.problem.rows
    return soften(oracle.rows(policy), rows.source, oracle.problem.n_live, softness)


def snapped(policy: FloatArray) -> FloatArray:
    """Make rows deterministic that nearly are."""
    out = policy.copy()
    nearly = np.flatnonzero(policy.max(axis=1) >= _NEARLY)
    out[nearly] = 0.0
    out[nearly, policy[nearly].argmax(axis=1)] = 1.0
    return out


def _distinct(policies: list[FloatArray], order: Iterable[int]) -> list[int]:
    """Leave out of an order policies that stand there already."""
    kept: list[int] = []
    for i in order:
        if not any(np.array_equal(policies[i], policies[j]) for j in kept):
            kept.append(i)
    return kept


def _scale(oracle: Oracle, policy: FloatArray) -> float:
    """Epistemic standard deviation of the first start's value: the unit of gains."""
    from bayesmdp.evaluation.paired import start_spread

    draws = oracle.draws("scale", oracle.affordable(2e9, 256, 32))
    return start_spread(policy, draws, pool=oracle.pool, solver=oracle.solver)
