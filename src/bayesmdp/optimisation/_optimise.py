"""The search for the policy of the largest posterior value.

The objective is not concave: ascent from one start can end in a worse basin than from
another. So several starts climb a little, the best of them, by paired differences on
draws of their own, climb to the end, and what comes out is snapped, tried against its
neighbours and compared with every start once more. The result is never below the best
start by that comparison. Its value is then found on draws that chose nothing.
"""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._progress import Show, progress_bar
from bayesmdp._typing import ArrayLike, FloatArray, Seed
from bayesmdp.errors import ArgumentError
from bayesmdp.optimisation._methods import Method, MirrorAscent, StochasticGradient
from bayesmdp.optimisation._objectives import PosteriorMean
from bayesmdp.optimisation._result import Optimisation, Step
from bayesmdp.posterior import Ensemble, Posterior

if TYPE_CHECKING:
    from bayesmdp.optimisation._field import Field
    from bayesmdp.optimisation._race import Race

_SHORT = 15  # steps every start climbs
_FINALISTS = 2
_JUDGE_DRAWS = 10_000


def optimise(
    posterior: Posterior | Ensemble,
    objective: PosteriorMean | None = None,
    method: Method | None = None,
    starts: Iterable[str] | Mapping[str, ArrayLike] | None = None,
    seed: Seed = 0,
    resume: Optimisation | None = None,
    *,
    threads: int | None = None,
    executor: Executor | None = None,
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
        policies by name; all that suit the belief where not given.
    seed
        Of the draws it learns, chooses and judges on, which are kept apart from each
        other and from ``posterior.draws``.
    resume
        Go on from an earlier result, with draws it has not used.
    threads, executor, progress
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
    from bayesmdp.optimisation._field import Field
    from bayesmdp.optimisation._starts import make_starts

    method = MirrorAscent() if method is None else method
    _check(posterior, objective, method, resume)
    number = _checks.seed_integer(seed)
    began = time.perf_counter()
    if resume is not None:
        starts = {"resumed": resume.policy}
    elif starts is None and isinstance(method, StochasticGradient):
        starts = ["nominal"]
    with (
        engine.workers(threads, executor) as pool,
        progress_bar("optimising", method.n_steps, progress) as show,
    ):
        used = 0 if resume is None else resume.draws_used
        field = Field(posterior, number, pool, used)
        search = Search(field, make_starts(posterior, starts, number), show)
        try:
            if isinstance(method, MirrorAscent):
                search.run(method)
            else:
                search.run_published(method)
        except KeyboardInterrupt:
            search.interrupted = True
        name, policy = search.choose()
        return _judged(field, search, name, policy, began)


def _check(
    posterior: object, objective: object, method: object, resume: object
) -> None:
    if not isinstance(posterior, Posterior | Ensemble):
        raise ArgumentError(
            "`posterior` must be a Posterior or an Ensemble; got "
            f"{type(posterior).__name__}."
        )
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
        self, field: "Field", starts: dict[str, FloatArray], show: Show | None
    ) -> None:
        self.field, self.starts, self.show = field, starts, show
        self.found: dict[str, FloatArray] = {}
        self.history: list[Step] = []
        self.converged = False
        self.interrupted = False
        self.as_published = False

    def watch(self, step: Step) -> None:
        """Keep a step, and show it."""
        self.history.append(step)
        if self.show is not None:
            self.show(step.step, f"value {step.value:.4g}, to gain {step.gap:.1e}")

    def run(self, method: MirrorAscent) -> None:
        """Race the starts, finish the best, polish the winner."""
        from bayesmdp.optimisation._ascend import mirror_ascent, mirror_state
        from bayesmdp.optimisation._polish import polish, snapped
        from bayesmdp.optimisation._race import Race

        field, race = self.field, Race(self.field, "race")
        scale = _scale(field, self.starts)
        tolerance = (1e-9 if field.exact else method.tolerance) * scale
        states = {}
        for name, policy in self.starts.items():
            states[name] = mirror_state(policy, field, method)
            short = min(_SHORT, method.n_steps)
            mirror_ascent(
                name, states[name], field, method, short, tolerance, self.watch
            )
            self.found[name] = field.policy(states[name].policy)
        for name in _finalists(race, self.found):
            state = states[name]
            state.converged = False
            mirror_ascent(
                name, state, field, method, method.n_steps, tolerance, self.watch
            )
            self.converged = state.converged or self.converged
            self.found[name] = field.policy(state.policy)
            if state.mean is not None:
                self.found[f"{name}, averaged"] = field.policy(state.mean)
            self.found[f"{name}, snapped"] = snapped(self.found[name])
        for name, policy in self.starts.items():
            self.found.setdefault(f"{name}, as it was", policy)
        names = list(self.found)
        best = names[race.best([self.found[n] for n in names])]
        polished = polish(self.found[best], field, race)
        if polished is not self.found[best]:
            self.found[f"{best}, polished"] = polished

    def run_published(self, method: StochasticGradient) -> None:
        """Run Algorithm 2 from every start given, and leave the result as it is."""
        from bayesmdp.optimisation._ascend import stochastic_gradient

        self.as_published = True
        for name, policy in self.starts.items():
            self.found[name] = stochastic_gradient(
                name, policy, self.field, method, self.watch
            )

    def choose(self) -> tuple[str, FloatArray]:
        """Best candidate, by paired differences on draws that chose none of them."""
        from bayesmdp.optimisation._race import Race

        candidates = dict(self.found)
        if not self.as_published or not candidates:
            candidates |= {f"{n}, as it was": p for n, p in self.starts.items()}
        names = list(candidates)
        at = Race(self.field, "choose").best([candidates[n] for n in names])
        return names[at], candidates[names[at]]

    def status(self, chosen: str) -> str:
        """Say how it ended."""
        if self.interrupted:
            return "interrupted; this is the best policy met so far"
        if self.as_published:
            return "all steps of the published algorithm taken"
        if chosen.endswith("as it was"):
            return "ascent found nothing better than this start, which is returned"
        if self.converged:
            return "converged: no change gains more than the tolerance or the noise"
        return (
            "all steps taken before the gap fell below the tolerance; `resume` goes "
            "on, or give the method more steps"
        )


def _finalists(race: "Race", found: dict[str, FloatArray]) -> list[str]:
    """Names of the best policies; equal ones count once."""
    names = list(found)
    if len(names) == 1:
        return names
    difference, error = race.differences([found[name] for name in names])
    chosen: list[int] = []
    for at in np.argsort(-difference, kind="stable"):
        same = [abs(difference[at] - difference[c]) <= 0.1 * error[at] for c in chosen]
        if not any(same):
            chosen.append(int(at))
        if len(chosen) == _FINALISTS:
            break
    return [names[at] for at in chosen]


def _scale(field: "Field", starts: dict[str, FloatArray]) -> float:
    """Epistemic standard deviation of the first start's value: the unit of gains."""
    from bayesmdp.evaluation.paired import start_spread

    policy = next(iter(starts.values()))
    draws = field.draws("scale", field.affordable(2e9, 32, 256))
    return start_spread(policy, draws, pool=field.pool)


def _judged(
    field: "Field", search: Search, name: str, policy: FloatArray, began: float
) -> Optimisation:
    """Evaluate the chosen policy on fresh draws, and bound what any could be worth."""
    from bayesmdp.evaluation import evaluate
    from bayesmdp.optimisation._bound import hindsight_bound

    draws = field.draws("judge", field.affordable(6e10, 256, _JUDGE_DRAWS))
    evaluation = evaluate(policy, draws, executor=field.pool[0], progress=False)
    gap, gap_error = hindsight_bound(field, policy)
    result: dict[str, Any] = {
        "policy": evaluation.policy,
        "evaluation": evaluation,
        "start_value": evaluation.start_value,
        "start_value_error": evaluation.start_value_error,
        "upper_bound": evaluation.start_value + gap,
        "upper_bound_error": float(np.hypot(gap_error, evaluation.start_value_error)),
        "gap": gap,
        "chosen_start": name,
        "starts": {n: _checks.frozen(p) for n, p in search.starts.items()},
        "history": tuple(search.history),
        "converged": search.converged and not search.interrupted,
        "status": search.status(name),
        "steps": len(search.history),
        "draws_used": field.used,
        "seconds": time.perf_counter() - began,
        "seed": field.seed,
    }
    return Optimisation(**result)
