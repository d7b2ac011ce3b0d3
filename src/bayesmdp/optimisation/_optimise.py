"""`optimise`: find the policy that is best given what is known, and judge it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from bayesmdp import _checks
from bayesmdp._resources import announce, progress_bar
from bayesmdp._typing import ArrayLike, FloatArray, Seed
from bayesmdp.errors import ArgumentError, BayesmdpWarning, EndlessError
from bayesmdp.evaluation import Chosen, one_reward
from bayesmdp.model import as_policy
from bayesmdp.optimisation._result import Optimisation, Outcome, optimisation_in_costs
from bayesmdp.optimisation._settings import (
    Effort,
    Held,
    Method,
    MirrorAscent,
    Objective,
    PosteriorMean,
    StochasticGradient,
    effective_draws,
    effort_of,
    objective_name,
)
from bayesmdp.posterior import Belief, Draws, check_belief

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from bayesmdp.optimisation._oracle import Oracle
    from bayesmdp.optimisation._search import Search

_FEW_MODELS = 8  # up to which the best policy of each is a start


def optimise(
    posterior: Belief,
    objective: Objective | None = None,
    method: Method | None = None,
    starts: Iterable[str] | Mapping[str, ArrayLike] | None = None,
    seed: Seed = 0,
    resume: Optimisation | None = None,
    *,
    reward: Chosen | None = None,
    effort: str = "normal",
    max_seconds: float | None = None,
    solver: str = "auto",
    threads: int | None = None,
    executor: Executor | None = None,
    device: str | None = None,
    progress: bool | None = None,
) -> Optimisation:
    """Find the policy with the largest posterior mean value or other objective.

    Ctrl-C returns the best so far, with a status that says so; a second one raises.

    Parameters
    ----------
    posterior
        What is believed.
    objective
        What to maximise, ``PosteriorMean()`` by default; `CVaR`, `Quantile`, `MeanSd`,
        `SoftRobust`, `Entropic` and `EVaR` give more weight to bad draws.
    method
        ``MirrorAscent()``, the default, or ``StochasticGradient(...)``, which runs as
        published: from the nominal policy, its last policy returned as it is.
    starts
        Names out of nominal, mle, second_order, msbi, uniform, random_1, random_2, or
        policies by name; where not given, those of the first three that suit the
        belief, with ``effort="thorough"`` or an ensemble all, and for up to 8 models
        without a horizon also the best policy of each. At discount 1 those that do not
        end or have no mean are left out, and named in ``status``.
    seed
        Of the draws for ascent, choice and evaluation, which are separate from each
        other and from ``posterior.draws``.
    resume
        Continue from the policy of an earlier result, on the largest sample: the ascent
        takes draws it has not used, choice and evaluation use those of the seed again.
    reward
        Which of several rewards to maximise, by name, or weights by name: net benefit
        ``{"qaly": 50_000, "cost": -1}``.
    effort
        ``"quick"``, ``"normal"`` or ``"thorough"``: how many starts, draws and steps.
        An ensemble of up to 1,000 models is swept exactly from every start.
    max_seconds
        Make no more starts and stop the ascent after this time; choice, evaluation and
        the bound take additional time.
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
    check_belief(posterior)
    posterior = one_reward(posterior, reward, "optimise")
    task = posterior.task
    if task.is_cost:
        if isinstance(objective, Objective) and objective.cost_title is None:
            task.no_cost(f"objective={objective!r:.60}")
        posterior = posterior.with_task(task.as_reward)
    found, _ = find_policy(
        posterior,
        objective,
        method,
        starts,
        seed,
        resume,
        effort=effort,
        max_seconds=max_seconds,
        solver=solver,
        threads=threads,
        executor=executor,
        device=device,
        progress=progress,
    )
    if not task.is_cost:
        return found
    title = objective.cost_title if objective is not None else None
    return optimisation_in_costs(found, task, title or "")


def find_policy(
    posterior: Belief,
    objective: Objective | None,
    method: Method | None,
    starts: Iterable[str] | Mapping[str, ArrayLike] | None,
    seed: Seed,
    resume: Optimisation | None,
    *,
    effort: str,
    max_seconds: float | None,
    solver: str,
    threads: int | None,
    executor: Executor | None,
    device: str | None,
    progress: bool | None,
    held: Held | None = None,
    also: Mapping[str, FloatArray] | None = None,
    judge: Belief | None = None,
) -> tuple[Optimisation, Draws]:
    """Search as `optimise` does, with pairs that are held, and more starts.

    Returns what was found, and the draws that it was judged on: those of ``judge``,
    where another belief than the one that is searched says how good it is.
    """
    from bayesmdp import engine
    from bayesmdp.optimisation._oracle import Oracle
    from bayesmdp.optimisation._search import Search, default_starts, make_starts

    began = time.perf_counter()
    objective = PosteriorMean() if objective is None else objective
    method = MirrorAscent() if method is None else method
    _check(posterior, objective, method, resume, solver)
    level, number = effort_of(effort), _checks.seed_integer(seed)
    until = None
    if max_seconds is not None:
        until = began + _checks.real("max_seconds", max_seconds, ArgumentError, 0)
    if resume is not None:
        if starts is not None:
            raise ArgumentError("Give `starts` or `resume`, not both.")
        starts = {"resumed": as_policy(resume.policy, posterior, "resume")}
    elif starts is None and isinstance(method, StochasticGradient):
        starts = ["nominal"]
    with (
        engine.workers(threads, executor, device) as pool,
        progress_bar("optimising", _most_steps(method, level), progress) as show,
    ):
        used = 0 if resume is None else resume.draws_used
        oracle = Oracle(posterior, objective, number, pool, used, solver, held)
        search = Search(oracle, level, until, show, resumed=resume is not None)
        taken = 0 if resume is None else resume.steps_before + resume.steps
        try:
            wanted = default_starts(posterior, level) if starts is None else starts
            made = make_starts(posterior, wanted, number, (threads, executor))
            models = _best_of_models(oracle, method) if starts is None else ()
            made = chain(_more_starts(oracle, method, also), made, models)
            _keep_those_that_end(search, made, given=starts is not None)
            if isinstance(method, MirrorAscent):
                search.climb(method)
            else:
                search.publish(method, taken)
        except KeyboardInterrupt:
            if not search.starts:
                raise
            announce("interrupted; judging the best policy so far (again: give up)")
            search.interrupt()
        try:
            return _judged(search, judge, began, taken)
        except KeyboardInterrupt:
            if search.outcome is Outcome.INTERRUPTED:  # the second one
                raise
            search.interrupt()
            return _judged(search, judge, began, taken)


def _more_starts(
    oracle: Oracle, method: Method, also: Mapping[str, FloatArray] | None
) -> list[tuple[str, FloatArray]]:
    """Return the baseline first, so that states not reached keep its choice."""
    made = list((also or {}).items())
    if oracle.baseline is not None and isinstance(method, MirrorAscent):
        made.insert(0, ("baseline", oracle.baseline))
    return made


def _best_of_models(oracle: Oracle, method: Method) -> Iterator[tuple[str, FloatArray]]:
    """Find what is best in each of few models: tops that other starts may miss.

    Of 40 ensembles of 4 models, 4 states and 3 actions, all enumerated, two were missed
    without these starts, by up to 6 %. Of a sum of rewards with different discounts it
    is what is best at first.
    """
    from bayesmdp.engine.planning import hindsight_choices, plan

    n, problem = oracle.n_models, oracle.problem
    if not (1 < n <= _FEW_MODELS and isinstance(method, MirrorAscent)):
        return
    if problem.stages is not None:  # what is best there may change with time
        return
    stream = oracle.draws("select", n).stream
    warm = plan(problem).choice
    _, choices = hindsight_choices(problem.with_stream(stream), n, warm, oracle.pool)
    for k, choice in enumerate(choices):
        rows = np.zeros(problem.rows.source.size)
        rows[choice] = 1.0
        yield f"best of model {k}", problem.rows.as_policy(rows)


def _check(
    posterior: object, objective: object, method: object, resume: object, solver: str
) -> None:
    from bayesmdp.engine import check_solver

    check_belief(posterior)
    check_solver(solver)
    if not isinstance(objective, Objective):
        raise ArgumentError(
            "`objective` must be PosteriorMean(), CVaR(0.1) or another that derives "
            f"from bayesmdp.optimisation.Objective; got {objective!r:.60}."
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


def _most_steps(method: Method, level: Effort) -> int:
    """Count the steps that a search may take, for the progress bar."""
    if isinstance(method, StochasticGradient):
        return method.n_steps
    first, *later = (min(most, method.n_steps) for _, most in level.stages)
    return level.n_climbs * first + sum(later)


def _keep_those_that_end(
    search: Search,
    made: Iterable[tuple[str, FloatArray | EndlessError]],
    *,
    given: bool,
) -> None:
    """Keep starts that end and have a mean, name the others; refuse where none does.

    Where the nominal policy does not exist, none does, and its sentence says why.
    """
    problem: EndlessError | None = None
    for name, policy in made:
        if isinstance(policy, EndlessError):
            problem = policy if given or name == "nominal" else problem
            search.left_out = (*search.left_out, name)
        elif not search.oracle.ends(policy):
            search.left_out = (*search.left_out, name)
        else:
            search.starts[name] = search.oracle.keep(policy)
        if search.late and search.starts:  # the others take their time
            return
    if not search.starts:
        if problem is not None and (not given or len(search.left_out) == 1):
            raise problem
        left = ", ".join(search.left_out)
        if search.oracle.problem.task.criterion == "average":
            raise EndlessError(
                f"None of the starts ({left}) has one closed class of states, so that "
                "none has an average; give a policy that does in `starts`."
            )
        raise EndlessError(
            f"With discount 1 none of the starts ({left}) ends and has a mean; give a "
            "policy that does in `starts`, or use a discount below 1."
        )


def _judged(
    search: Search, judge: Belief | None, began: float, taken: int
) -> tuple[Optimisation, Draws]:
    """Choose, evaluate on fresh draws, and bound what any policy could reach."""
    from bayesmdp.evaluation import evaluate
    from bayesmdp.optimisation._oracle import hindsight_bound, objective_estimate

    oracle = search.oracle if judge is None else search.oracle.of(judge)
    effort, objective = search.effort, oracle.objective
    chosen = search.choose()
    draws = oracle.draws("judge", oracle.affordable(effort.budget, effort.judge, 256))
    evaluation = evaluate(
        chosen.policy,
        draws,
        solver=oracle.solver,
        executor=oracle.pool.executor,
        threads=oracle.pool.n_workers,
        device=oracle.pool.backend.name,
        progress=False,
    )
    value, error = evaluation.start_value, evaluation.start_value_mcse
    if not objective.linear:
        looked_at = oracle.looked_at(evaluation.start_values, draws)
        known = np.isfinite(looked_at) & (draws.weights > 0)
        value, error = objective_estimate(
            objective, looked_at[known], draws.weights[known], draws
        )
        _warn_of_few(objective, looked_at[known], draws.weights[known], error)
    if objective.of == "regret":  # of knowing the model it is 0
        gap, gap_mcse = -value, error
    else:
        n_bound = oracle.affordable(effort.budget, effort.bound)
        gap, gap_mcse = hindsight_bound(oracle, chosen.policy, n_bound)
    found = Optimisation(
        policy=evaluation.policy,
        evaluation=evaluation,
        objective=objective_name(objective),
        objective_title=objective.title,
        objective_of=objective.of,
        objective_value=value,
        objective_mcse=error,
        gap=gap,
        gap_mcse=gap_mcse,
        chosen_start=chosen.start,
        chosen_stage=chosen.stage,
        starts={name: _checks.frozen(p) for name, p in search.starts.items()},
        bounded=objective.monotone,
        left_out=search.left_out,
        steps_before=taken,
        history=tuple(search.history),
        outcome=search.outcome,
        draws_used=search.oracle.used,
        seconds=time.perf_counter() - began,
        seed=oracle.seed,
    )
    return found, draws


def _warn_of_few(
    objective: Objective, values: FloatArray, weights: FloatArray, error: float
) -> None:
    """Warn where few draws stand behind an objective."""
    n_draws = effective_draws(objective, values, weights / weights.sum())
    if n_draws < objective.few:
        unknown = ", and its Monte Carlo error is not known" * bool(np.isnan(error))
        warnings.warn(
            f"{objective_name(objective)} rests on {n_draws:.3g} of {values.size} "
            f"draws or models, and on others it is likely to be worse{unknown}: take a "
            f"{objective.milder}, or more of them ({_checks.argument('thorough')}).",
            BayesmdpWarning,
            stacklevel=2,
        )
