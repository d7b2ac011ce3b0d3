"""The search for the best policy of a belief.

The objective is not concave: ascent from one start can end in a worse basin than from
another. So the starts are compared, by paired differences on a sample of their own, and
the best few climb on a small sample. The best of those goes on, on larger ones. All
steps of a stage share their draws: noise between draws is then no noise between steps.
A stage is over where what any change can gain is within noise, and the next, on fresh
draws, can tell more. What was found is compared with every start on further draws.

On an ensemble that is swept exactly every start climbs the same hills. Where a climb
comes to a policy that an earlier one met on its way to a top, each probability to
`_SAME`, it is given up, for its end is known.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bayesmdp import _checks, policies
from bayesmdp._resources import Show
from bayesmdp._typing import ArrayLike, FloatArray, IntArray
from bayesmdp.engine import MAX_INVERSE, Problem, Slopes
from bayesmdp.engine.ascent import AscentState, climb, soften
from bayesmdp.engine.planning import plan, warn_unfinished
from bayesmdp.errors import ArgumentError, BayesmdpWarning, EndlessError
from bayesmdp.evaluation.paired import moments, start_values
from bayesmdp.model import as_policy
from bayesmdp.optimisation._oracle import Oracle, Selection
from bayesmdp.optimisation._result import Candidate, Outcome, Stage, Step
from bayesmdp.optimisation._settings import Effort, MirrorAscent, StochasticGradient
from bayesmdp.posterior import Belief

if TYPE_CHECKING:
    from concurrent.futures import Executor

_SOFTNESS, _SOFTNESS_LATER = 0.1, 0.01
_MSBI_DRAWS = 512
_EXACT_STEPS, _EXACT_TOLERANCE = 200, 1e-6
_ROUNDING = 1e-11  # share of a value that is no gain
_SAME = 0.02  # probabilities to which two climbs are at the same policy
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
    resumed: bool = False  # the start is what an earlier search found
    chosen: Candidate | None = None
    _tolerance: float = 0.0  # gain at which to stop
    _latest: tuple[str, FloatArray] | None = None  # rows of the last step
    _met: set[bytes] = field(default_factory=set)  # policies on ways to tops

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return self.until is not None and time.perf_counter() > self.until

    def interrupt(self) -> None:
        """Leave it at what there is."""
        self.outcome = Outcome.INTERRUPTED
        if self._latest is not None:
            name, rows = self._latest
            self._found(name, rows)

    def _found(self, name: str, rows: FloatArray) -> None:
        policy = self.oracle.policy(rows)
        self.found.append(Candidate(name, Stage.CLIMBED, policy))

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
        if self.late:
            self.outcome = Outcome.TIME
            return
        oracle, effort = self.oracle, self.effort
        stages = ((0, _EXACT_STEPS),) if oracle.exact else effort.stages
        softness = _SOFTNESS
        if self.resumed and not oracle.exact:  # the smaller samples told what they can
            stages, softness = stages[-1:], _SOFTNESS_LATER
        names, policies = list(self.starts), list(self.starts.values())
        select = Selection(oracle, "select", self._draws(effort.select))
        tolerance = method.tolerance
        if tolerance is None:
            tolerance = _EXACT_TOLERANCE if oracle.exact else effort.tolerance
        other = [p for name, p in self.starts.items() if name != "baseline"]
        self._tolerance = _gain(oracle, (other or policies)[0], tolerance)
        order = _distinct(policies, select.order(policies))
        order = order[: effort.n_exact_climbs if oracle.exact else effort.n_climbs]
        done: list[bool] = []
        for at in order:
            rows = soften_rows(oracle, policies[at], softness)
            rows, over, met = self._stage(names[at], rows, *stages[0], method.n_steps)
            if not met:
                self._found(names[at], rows)
                done.append(over)
            if self.late:
                break
        first = select.order([found.policy for found in self.found])[0]
        best, over = self.found[first], done[first] and at == order[-1]
        for n_draws, most in stages[1:]:
            if self.late:
                over = False  # little to gain on the smaller sample alone
                break
            rows = soften_rows(oracle, best.policy, _SOFTNESS_LATER)
            rows, over, _ = self._stage(best.start, rows, n_draws, most, method.n_steps)
            best = Candidate(best.start, Stage.CLIMBED, oracle.policy(rows))
        self.found = [best]
        self.outcome = Outcome.CONVERGED if over else Outcome.STEPS
        if self.late and not over:
            self.outcome = Outcome.TIME

    def publish(self, method: StochasticGradient, offset: int) -> None:
        """Run algorithm 2 of the paper from every start, and keep its last policies.

        ``offset`` is where the schedule of the rate begins.
        """
        self.published = True
        for name, policy in self.starts.items():
            last = self._published_steps(name, policy, method, offset)
            self.found.append(Candidate(name, Stage.CLIMBED, last))
            if self.late:
                self.outcome = Outcome.TIME
                return
        self.outcome = Outcome.PUBLISHED

    def _published_steps(
        self, name: str, policy: FloatArray, method: StochasticGradient, offset: int
    ) -> FloatArray:
        """Take its steps from a policy; return the last one.

        A policy that gives every action some probability is taken as it is, others are
        softened as published.
        """
        oracle = self.oracle
        source, n = oracle.problem.rows.source, oracle.problem.n_live
        rows = oracle.rows(policy)
        others = np.maximum(np.bincount(source, minlength=n)[source] - 1, 1)
        if not (rows > 0).all():
            rows = (1 - method.softness) * rows + method.softness * (1 - rows) / others
        logits, first, every = np.log(rows), 0, method.resample_every
        for step in range(method.n_steps):
            pi = _softmax(logits, source, n)
            if step == 0 or (every and step % every == 0):
                first = oracle.take(method.batch)
            found = oracle.slopes(pi, method.batch, first)
            logits = logits + method.rate(offset + step) * pi * found.slope
            taken = Step(name, step + 1, found.value, max(found.gap, 0.0), method.batch)
            if not self.watch(taken, pi):
                break
        return oracle.problem.rows.as_policy(_softmax(logits, source, n))

    def _draws(self, most: int) -> int:
        return self.oracle.affordable(self.effort.budget, most)

    def _stage(
        self, name: str, rows: FloatArray, n_draws: int, most: int, n_steps: int
    ) -> tuple[FloatArray, bool, bool]:
        """Climb on one sample; where that led, and whether little is left to gain.

        And whether it was given up, where an earlier climb had been.
        """
        oracle = self.oracle
        n = oracle.n_models if oracle.exact else self._draws(n_draws)
        first = 0 if oracle.exact else oracle.take(n)
        own: set[bytes] = set()

        def slopes(now: FloatArray) -> Slopes:
            tried = oracle.tried(now)
            if oracle.exact:  # other samples are other hills
                own.add(np.round(tried / _SAME).astype(np.int8).tobytes())
            return oracle.slopes(tried, n, first)

        taken = sum(step.start == name for step in self.history)

        def after_step(state: AscentState, at: Slopes) -> bool:
            step = Step(name, taken + state.step, at.value, max(at.gap, 0.0), n)
            return self.watch(step, state.policy) and own.isdisjoint(self._met)

        most = min(most, max(n_steps - taken, 0))
        state = AscentState(rows)
        source, n_live = oracle.problem.rows.source, oracle.problem.n_live
        done = climb(state, slopes, source, n_live, most, self._tolerance, after_step)
        met = not (done or own.isdisjoint(self._met))
        if done or met:
            self._met |= own
        return state.policy, done, met

    def choose(self) -> Candidate:
        """Return the best policy, by paired differences on draws that found none."""
        self.chosen = self.chosen or self._choose()
        return self.chosen

    def _choose(self) -> Candidate:
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
        base = self.oracle.baseline
        if base is None or not np.array_equal(chosen.policy, base):
            chosen = self._rounded(choose, chosen)  # starts too: some ascended
        if base is not None:  # what is done is left for more than noise
            gain, noise = choose.differences([base, chosen.policy])
            if gain[1] <= noise[1]:
                chosen = Candidate("baseline", Stage.START, base)
        unreached = ~self.oracle.reached(chosen.policy)
        policy = chosen.policy.copy()
        policy[unreached] = starts[0].policy[unreached]
        same = [c for c in starts if np.array_equal(c.policy, policy)]
        return same[0] if same else Candidate(chosen.start, chosen.stage, policy)

    def _rounded(self, choose: Selection, chosen: Candidate) -> Candidate:
        """Make nearly certain actions certain, unless that is surely worse."""
        certain = self.oracle.keep(rounded(self.oracle.free(chosen.policy)))
        if np.array_equal(certain, chosen.policy) or not self.oracle.ends(certain):
            return chosen
        difference, error = choose.differences([chosen.policy, certain])
        if difference[1] < -2 * error[1]:
            return chosen
        return Candidate(chosen.start, Stage.ROUNDED, certain)


def _softmax(logits: FloatArray, source: IntArray, n: int) -> FloatArray:
    top = np.full(n, -np.inf)
    np.maximum.at(top, source, logits)
    weight = np.exp(logits - top[source])
    return np.asarray(weight / np.bincount(source, weight, minlength=n)[source])


def soften_rows(oracle: Oracle, policy: FloatArray, softness: float) -> FloatArray:
    """Rows ``[R]`` of a policy mixed with the uniform random one."""
    rows = oracle.problem.rows
    return soften(oracle.rows(policy), rows.source, oracle.problem.n_live, softness)


def rounded(policy: FloatArray) -> FloatArray:
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


def _gain(oracle: Oracle, policy: FloatArray, tolerance: float) -> float:
    """Gain at which to stop: so many epistemic sds of a value, but above rounding.

    Of what the objective looks at, where that is not the value itself.
    """
    draws = oracle.draws("scale", oracle.affordable(2e9, 256))
    values = start_values(policy, draws, pool=oracle.pool, solver=oracle.solver)
    mean, sd = moments(values, draws)
    if oracle.objective.of != "value":
        sd = float(np.nanstd(oracle.looked_at(values, draws)))
    return max(tolerance * sd, _ROUNDING * abs(mean))


Workers = tuple[int | None, "Executor | None"]  # threads, executor
Maker = Callable[[Belief, int, Workers], FloatArray]


def _random(number: int) -> "Maker":
    def start(belief: Belief, seed: int, workers: Workers) -> FloatArray:
        rng = np.random.default_rng([seed % 2**63, number])
        weight = rng.exponential(size=belief.available.shape) ** 3
        weight = np.where(belief.available, weight, 0.0)
        total = weight.sum(axis=1, keepdims=True)
        np.divide(weight, total, weight, where=total > 0)
        return weight

    return start


def _msbi(belief: Belief, seed: int, workers: Workers) -> FloatArray:
    with warnings.catch_warnings():  # a start need not be finished
        warnings.simplefilter("ignore", BayesmdpWarning)
        threads, executor = workers
        return policies.msbi(
            belief, _MSBI_DRAWS, 100, seed, threads=threads, executor=executor
        )


def _nominal(belief: Belief, seed: int, workers: Workers) -> FloatArray:
    """Best policy of the mean; near it where a first reward counts less."""
    found = plan(Problem.of_belief(belief))
    warn_unfinished("nominal", found)
    return found.policy


_MAKERS: dict[str, Maker] = {
    "nominal": _nominal,
    "mle": lambda belief, *_: policies.mle(belief),
    "second_order": lambda belief, *_: policies.second_order(belief),
    "msbi": _msbi,
    "uniform": lambda belief, *_: policies.uniform(belief),
    "random_1": _random(1),
    "random_2": _random(2),
}
_NEEDS_COUNTS, _NEEDS_ROWS = {"mle"}, {"second_order"}


def make_starts(
    belief: Belief,
    starts: Iterable[str] | Mapping[str, ArrayLike],
    seed: int,
    workers: Workers = (None, None),
) -> Iterator[tuple[str, FloatArray | EndlessError]]:
    """Make the policies to start from, ``[S, A]`` each, by name; or why there is none.

    One after the other, so that what was made survives Ctrl-C.
    """
    if isinstance(starts, Mapping):
        if not starts:
            raise ArgumentError("`starts` holds no policy.")
        for name, policy in starts.items():
            yield name, as_policy(policy, belief, f"starts[{name!r}]")
        return
    for name in _checked_names(starts):
        try:
            yield name, _MAKERS[name](belief, seed, workers)
        except EndlessError as error:
            yield name, error


def default_starts(belief: Belief, effort: Effort) -> list[str]:
    """Names of the starts that suit a belief."""
    names = list(effort.starts if belief.n_models is None else _MAKERS)
    if belief.counts is None:
        names = [name for name in names if name not in _NEEDS_COUNTS]
    if belief.rows().total is None:
        names = [name for name in names if name not in _NEEDS_ROWS]
    if belief.task.live.size > effort.second_order:
        names = [name for name in names if name != "second_order"]
    if belief.task.live.size > MAX_INVERSE:  # the others take long, or do not fit
        names = [name for name in names if name in {"nominal", "mle"}]
    if belief.task.horizon is None and belief.task.cycle != "start":
        names = [name for name in names if name != "mle"]  # it may have no answer
    if not belief.task.is_plain:  # others know nothing of horizons and averages
        names = [x for x in names if x not in {"second_order", "msbi"}]
    elif belief.task.discount == 1.0:  # others may be stuck in cycles
        names = [name for name in names if name in {"nominal", "mle"}] + ["uniform"]
    return names


def _checked_names(starts: Iterable[str]) -> list[str]:
    if not isinstance(starts, Iterable):
        raise ArgumentError(
            "`starts` must hold names, or map names to policies; got "
            f"{type(starts).__name__}."
        )
    names = [starts] if isinstance(starts, str) else list(starts)
    for name in names:
        if not isinstance(name, str) or name not in _MAKERS:
            hint = _checks.did_you_mean(str(name), _MAKERS)
            raise ArgumentError(
                f"`starts` has {name!r:.60}{hint}, which is none of: "
                f"{', '.join(_MAKERS)}{_checks.argument('own starts')}."
            )
    if not names:
        raise ArgumentError("`starts` holds no name.")
    return names
