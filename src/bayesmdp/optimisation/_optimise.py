"""The search for the policy of the largest posterior value.

The objective is not concave: ascent from one start can end in a worse basin than from
another. So several starts climb a little; the best of them, by paired differences on
draws of the race's own, climbs to the end on fresh draws; the best policy so far is
refined on a sample that all steps share, snapped, tried against its neighbours, and
compared with every start once more. A start that is ahead in that comparison is
returned. The value is then found on draws that chose nothing.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._progress import Show, progress_bar
from bayesmdp._typing import ArrayLike, FloatArray, Seed
from bayesmdp.errors import ArgumentError, EndlessError
from bayesmdp.optimisation._methods import Method, MirrorAscent, StochasticGradient
from bayesmdp.optimisation._objectives import PosteriorMean
from bayesmdp.optimisation._result import Optimisation, Step
from bayesmdp.posterior import Belief, check_belief

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from bayesmdp.optimisation._oracle import Field

_CHOOSE_DRAWS, _JUDGE_DRAWS = 3072, 10_000


def optimise(
    posterior: Belief,
    objective: PosteriorMean | None = None,
    method: Method | None = None,
    starts: Iterable[str] | Mapping[str, ArrayLike] | None = None,
    seed: Seed = 0,
    resume: Optimisation | None = None,
    *,
    solver: str = "auto",
    threads: int | None = None,
    executor: "Executor | None" = None,
    device: str | None = None,
    progress: bool | None = None,
) -> Optimisation:
    """Find the policy that is best given what is known.

    Ctrl-C returns the best so far, with a status that says so; a second one raises.

    Parameters
    ----------
    posterior
        What is believed.
    objective
        ``PosteriorMean()``, the default.
    method
        ``MirrorAscent()``, the default, or ``StochasticGradient(...)``, which runs as
        published: from the nominal policy, its last policy returned as it is.
    starts
        Names out of nominal, mle, second_order, msbi, uniform, random_1, random_2, or
        policies by name; all that suit the belief where not given. At discount 1 those
        that do not end or have no mean are left out, and named in ``status``.
    seed
        Of the draws it learns, chooses and judges on, which are kept apart from each
        other and from ``posterior.draws``.
    resume
        Go on from an earlier result: the ascent takes draws it has not used, races and
        judgement meet those of the seed again.
    solver, threads, executor, device, progress
        As in `bayesmdp.evaluate`.

    Returns
    -------
    Optimisation

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.synthetic(0)
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
    >>> result = bm.optimise(posterior, seed=0)
    >>> result.upper_bound > result.start_value
    True
    """
    from bayesmdp import engine
    from bayesmdp.optimisation._oracle import Field
    from bayesmdp.optimisation._starts import make_starts

    method = MirrorAscent() if method is None else method
    _check(posterior, objective, method, resume, solver)
    number = _checks.seed_integer(seed)
    began = time.perf_counter()
    if resume is not None:
        if starts is not None:
            raise ArgumentError("Give `starts` or `resume`, not both.")
        starts = {"resumed": resume.policy}
    elif starts is None and isinstance(method, StochasticGradient):
        starts = ["nominal"]
    with (
        engine.workers(threads, executor, device) as pool,
        progress_bar("optimising", method.n_steps, progress) as show,
    ):
        used = 0 if resume is None else resume.draws_used
        field = Field(posterior, number, pool, used, solver)
        named, cut = make_starts(posterior, starts, number, (threads, executor))
        search = Search(field, *_that_end(field, named), show)
        search.offset = 0 if resume is None else resume.steps
        try:
            if cut:
                raise KeyboardInterrupt
            if isinstance(method, MirrorAscent):
                search.run(method)
            else:
                search.run_published(method)
        except KeyboardInterrupt:
            search.interrupted = True
        try:
            return _judged(field, search, began)
        except KeyboardInterrupt:
            if search.interrupted:  # the second one
                raise
            search.interrupted = True
            return _judged(field, search, began)


def _check(
    posterior: object, objective: object, method: object, resume: object, solver: str
) -> None:
    from bayesmdp.engine import check_solver

    check_belief(posterior)
    check_solver(solver)
    if not isinstance(objective, PosteriorMean | None):
        raise ArgumentError(
            f"`objective` must be PosteriorMean(); got {objective!r:.60}."
        )
    if not isinstance(method, MirrorAscent | StochasticGradient):
        raise ArgumentError(
            "`method` must be MirrorAscent(...) or StochasticGradient(...); got "
            f"{method!r:.60}."
        )
    if not isinstance(resume, Optimisation | None):
        raise ArgumentError(
            f"`resume` must be an earlier Optimisation; got {type(resume).__name__}."
        )


class Search:
    """Candidates met so far, and how they came about."""

    def __init__(
        self,
        field: "Field",
        starts: dict[str, FloatArray],
        left_out: list[str],
        show: Show | None,
    ) -> None:
        self.field, self.starts, self.show = field, starts, show
        self.left_out = left_out  # starts that do not end or have no mean
        self.found: dict[str, FloatArray] = {}
        self.history: list[Step] = []
        self.converged = False
        self.interrupted = False
        self.as_published = False
        self.latest: dict[str, FloatArray] = {}  # where each ascent stands, [R]
        self.offset = 0  # steps of the result that is resumed

    def watch(self, step: Step, rows: FloatArray) -> None:
        """Keep a step and where it led, and show it."""
        self.history.append(step)
        self.latest[step.start] = rows
        if self.show is not None:
            self.show(step.step, f"value {step.value:.4g}, to gain {step.gap:.1e}")

    def run(self, method: MirrorAscent) -> None:
        """Race the starts, finish the best, polish the winner."""
        from bayesmdp.optimisation._ascend import (
            mirror_ascent,
            mirror_state,
            refine,
            settings_of,
        )
        from bayesmdp.optimisation._polish import polish, snapped
        from bayesmdp.optimisation._selection import Race

        field, race = self.field, Race(self.field, "race")
        scale = _scale(field, self.starts)
        tolerance = (1e-9 if field.exact else method.tolerance) * scale
        short = settings_of(method, field, tolerance, short=True)
        full = settings_of(method, field, tolerance, short=False)
        states = {}
        for name, policy in self.starts.items():
            states[name] = mirror_state(policy, field, method)
            mirror_ascent(name, states[name], field, short, self.watch)
            self.found[name] = field.policy(field.sparse(states[name].policy))
        name = list(states)[race.best(list(self.found.values()))]
        states[name] = replace(
            states[name], converged=False, drowned=0, halvings=0, mean=None
        )
        mirror_ascent(name, states[name], field, full, self.watch)
        self.converged = states[name].converged
        self.found = {name: field.policy(field.sparse(states[name].policy))}
        mean = states[name].mean
        if mean is not None:
            self.found[f"{name}, averaged"] = field.policy(field.sparse(mean))
        everyone = {f"{n}, as it was": p for n, p in self.starts.items()} | self.found
        name = list(everyone)[race.best(list(everyone.values()))]
        origin = name.split(",")[0]
        state = refine(
            f"{origin}, refined", everyone[name], field, tolerance, self.watch
        )
        self.converged = state.converged or self.converged
        refined = field.policy(field.sparse(state.policy))
        decided = polish(snapped(refined), field, race)
        self.found = {
            f"{origin}, polished": decided,
            f"{origin}, refined and snapped": snapped(refined),
            f"{origin}, refined": refined,
        } | self.found

    def run_published(self, method: StochasticGradient) -> None:
        """Run Algorithm 2 from every start given, and leave the result as it is."""
        from bayesmdp.optimisation._ascend import stochastic_gradient

        self.as_published = True
        for name, policy in self.starts.items():
            self.found[name] = stochastic_gradient(
                name, policy, self.field, method, self.watch, self.offset
            )

    def choose(self) -> tuple[str, FloatArray]:
        """Best candidate, by paired differences on draws that chose none of them."""
        from bayesmdp.optimisation._polish import snapped
        from bayesmdp.optimisation._selection import Race

        preferred = 0
        if self.interrupted:
            stood = {n: self.field.policy(rows) for n, rows in self.latest.items()}
            self.found = stood | self.found if not self.as_published else stood
        if self.as_published and self.found:
            candidates = self.found
        else:
            decided = {f"{n}, snapped": snapped(p) for n, p in self.starts.items()}
            candidates = self.found | decided
            preferred = len(candidates)
            candidates |= {f"{n}, as it was": p for n, p in self.starts.items()}
            candidates, preferred = _distinct(candidates, preferred)
        names = list(candidates)
        race = Race(self.field, "choose", _CHOOSE_DRAWS)
        at = race.best([candidates[n] for n in names], preferred)
        chosen = self._where_unreached(candidates[names[at]])
        for name, start in self.starts.items():
            if np.array_equal(chosen, start):
                return f"{name}, as it was", chosen
        return names[at], chosen

    def _where_unreached(self, policy: FloatArray) -> FloatArray:
        """States that no draw reaches keep the first start's choice."""
        if self.as_published:
            return policy
        unreached = ~self.field.reached(policy)
        out = policy.copy()
        out[unreached] = next(iter(self.starts.values()))[unreached]
        return out

    def status(self, chosen: str) -> str:
        """Say how it ended."""
        if self.interrupted:
            return "interrupted; this is the best policy met so far"
        if self.as_published:
            return "all steps of the published algorithm taken"
        if chosen.endswith("as it was"):
            said = "ascent found nothing better than this start, which is returned"
            more = "; it took all its steps: `resume` goes on, or give it more"
            return said if self.converged else said + more
        if self.converged:
            return "converged: no change gains more than the tolerance or the noise"
        return (
            "all steps taken before the gap fell below the tolerance; `resume` goes "
            "on, or give the method more steps"
        )


def _that_end(
    field: "Field", starts: "dict[str, FloatArray | EndlessError]"
) -> tuple[dict[str, FloatArray], list[str]]:
    """Keep starts that end and have a mean, name the others; refuse where none does."""
    made = {n: p for n, p in starts.items() if not isinstance(p, EndlessError)}
    kept = {name: policy for name, policy in made.items() if field.ends(policy)}
    if not kept:
        first = next(iter(starts.values()))
        if isinstance(first, EndlessError):
            raise first
        raise EndlessError(
            f"With discount 1 none of the starts ({', '.join(starts)}) ends and has a "
            "mean; give a policy that does in `starts`, or use a discount below 1."
        )
    return kept, [name for name in starts if name not in kept]


def _distinct(
    candidates: dict[str, FloatArray], preferred: int
) -> tuple[dict[str, FloatArray], int]:
    """Leave out policies that stand there already; count the preferred ones left."""
    kept: dict[str, FloatArray] = {}
    left = preferred
    for i, (name, policy) in enumerate(candidates.items()):
        if any(np.array_equal(policy, other) for other in kept.values()):
            left -= i < preferred
        else:
            kept[name] = policy
    return kept, left


def _scale(field: "Field", starts: dict[str, FloatArray]) -> float:
    """Epistemic standard deviation of the first start's value: the unit of gains."""
    from bayesmdp.evaluation.paired import start_spread

    policy = next(iter(starts.values()))
    draws = field.draws("scale", field.affordable(2e9, 32, 256))
    return start_spread(policy, draws, pool=field.pool, solver=field.solver)


def _judged(field: "Field", search: Search, began: float) -> Optimisation:
    """Choose, evaluate on fresh draws, and bound what any policy could be worth."""
    from bayesmdp.evaluation import evaluate
    from bayesmdp.optimisation._bound import hindsight_bound

    name, policy = search.choose()
    draws = field.draws("judge", field.affordable(2e10, 256, _JUDGE_DRAWS))
    evaluation = evaluate(
        policy,
        draws,
        solver=field.solver,
        executor=field.pool.executor,
        threads=field.pool.n_workers,
        device=field.pool.backend.name,
        progress=False,
    )
    gap, gap_error = hindsight_bound(field, policy)
    status = search.status(name)
    if search.left_out:
        said = "; starts that do not end or have no mean were left out: "
        status += said + ", ".join(search.left_out)
    if np.isnan(gap):
        status += "; no upper bound, for some draw's own best policy was not found"
    result: dict[str, Any] = {
        "policy": evaluation.policy,
        "evaluation": evaluation,
        "start_value": evaluation.start_value,
        "start_value_error": evaluation.start_value_error,
        "upper_bound": evaluation.start_value + gap,
        "upper_bound_error": float(np.hypot(gap_error, evaluation.start_value_error)),
        "gap": gap,
        "gap_error": gap_error,
        "chosen_start": name,
        "starts": {n: _checks.frozen(p) for n, p in search.starts.items()},
        "history": tuple(search.history),
        "converged": search.converged and not search.interrupted,
        "status": status,
        "steps": len(search.history),
        "draws_used": field.used,
        "seconds": time.perf_counter() - began,
        "seed": field.seed,
    }
    return Optimisation(**result)
