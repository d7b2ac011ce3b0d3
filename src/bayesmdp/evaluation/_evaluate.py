"""Algorithm 1 of the paper: value, epistemic and aleatoric uncertainty of a policy.

Every draw of the dynamics gives the mean and the variance of the return in closed form
(engine/_kernel.py). Over draws, the law of total variance decomposes the variance::

    Var(return) = Var_draws(V)  +  mean_draws(return variance)
                  epistemic        aleatoric

From the start distribution ``rho``, epistemic is ``Var(rho.V)``; a random start is
chance, not ignorance, so it counts as aleatoric:
``mean(rho.var + sum_s rho[s] (V[s] - rho.V)^2)``.

**Several rewards** are evaluated on the same draws. With ``J_i`` the start value of
reward ``i`` in a draw, and ``G_i`` its return::

    epistemic covariance   Cov_draws(J_i, J_j)
    aleatoric covariance   mean_draws Cov(G_i, G_j | draw)

Their diagonals are the squares of ``start_epistemic_sd`` and ``start_aleatoric_sd``,
and their sum is the covariance of two returns of one patient.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._resources import progress_bar
from bayesmdp._typing import FloatArray, PolicyLike, Seed
from bayesmdp.errors import ArgumentError, BayesmdpWarning
from bayesmdp.evaluation._errors import TOTAL, mean_and_mcse
from bayesmdp.evaluation._evaluation import Evaluation, in_costs
from bayesmdp.model import Task, as_policy
from bayesmdp.posterior import Belief, Draws

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from bayesmdp.engine import Ending, Nominal, Pool, Problem, Sums
    from bayesmdp.evaluation._measure import Measured

_N_DRAWS = 1000  # of a posterior, where nobody says how many
_FIRST_STAGE = 256  # draws before a tolerance is looked at
_FLOOR = 1.1  # times the error of finite chains: more draws bring no more
_SHOWS_REDUCTION = 50  # draws from which on a ratio of variances means something
_ROUNDING = 1e-13  # an sd of this share of the value is rounding


def evaluate(
    policy: PolicyLike,
    draws: Draws | Belief,
    *,
    reward: Chosen | None = None,
    n_draws: int | None = None,
    seed: Seed | None = None,
    tolerance: float | None = None,
    control: bool = True,
    solver: str = "auto",
    threads: int | None = None,
    executor: Executor | None = None,
    device: str | None = None,
    keep_values: bool = False,
    progress: bool | None = None,
) -> Evaluation:
    """Value of a policy with epistemic and aleatoric uncertainty.

    Parameters
    ----------
    policy
        ``[S, A]`` probabilities or ``[S]`` actions, on available pairs. Actions may be
        named by their labels: a list with one per state, or a dict ``{state: action}``,
        which need not hold terminal states.
    draws
        From ``posterior.draws(n, seed)``; the same draws make policies comparable. Or a
        posterior or an ensemble, from which they are then taken.
    reward
        Which of several rewards: a name, or weights by name such as ``{"qaly": 50_000,
        "cost": -1}`` for net benefit. Where not given, all of them, on the same draws
        (``rewards`` of the result).
    n_draws, seed
        Which draws to take from a posterior: 1,000 with seed 0 where not given. Of an
        ensemble every model, exactly, where ``n_draws`` is not given.
    tolerance
        Stop as soon as ``start_value_mcse`` is at most this; ``n_draws`` of the result
        says how many draws that took. All draws where not given.
    control
        Whether to use control variates: errors of values shrink, often tenfold and
        more, at little cost. Above 2,000 states, and for a mixture of priors, they act
        on ``start_value`` alone.
    solver
        ``auto``, ``dense`` (elimination) or ``iterative``; ``auto`` takes what costs
        less, which may also be elimination within a band. ``solver`` of the result
        says which it was, ``n_retried`` how many draws iterations left to elimination.
    threads
        Default: ``BAYESMDP_THREADS``, else every core; with ``executor``, how many
        workers that has. Results do not depend on it.
    executor
        Anything that implements `concurrent.futures.Executor`; runs the parts of the
        sweep in place of a thread pool of our own (docs/clusters.md).
    device
        What computes: ``cpu``, ``cuda`` (a GPU; needs CuPy, ``pip install
        'bayesmdp[cuda]'``), or ``auto``, a GPU where there is one and it is faster.
        ``device`` of the result says which it was. Default ``BAYESMDP_DEVICE``, else
        ``cpu``. A GPU samples the same draws, up to rounding, and iterates until values
        are right to 1e-10 of the largest value of all states (1e-8 where rounding
        allows no more); the CPU eliminates in small chains.
    keep_values
        Whether to keep the value of every draw and state, ``values`` [D, S]; not with
        averages, which are the same in all states.
    progress
        Whether to show a bar; by default on a terminal, after a second.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> prior = bm.SymmetricPrior(support=world.support)
    >>> posterior = bm.fit(world.sample(1000, seed=0), world.task, prior=prior)
    >>> policy = np.where(np.arange(25) % 5 == 4, 2, 1)  # right, then down
    >>> evaluation = bm.evaluate(policy, posterior.draws(2000, seed=0))
    >>> truth = world.task.start @ world.value(policy)
    >>> bool(abs(evaluation.start_value - truth) < 3 * evaluation.start_epistemic_sd)
    True
    >>> again = bm.evaluate(policy, posterior, n_draws=2000)
    >>> again.start_value == evaluation.start_value
    True
    >>> reward = {"cost": [5, 1], "qaly": [1, 0.5]}
    >>> task = bm.Task(2, 1, reward, discount=0.97, horizon=10, cycle="half")
    >>> counts = bm.Counts.from_arrays([0, 0, 1], [0, 0, 0], [1, 0, 0])
    >>> both = bm.evaluate([0, 0], bm.fit(counts, task, prior=bm.SymmetricPrior()))
    >>> both.rewards["qaly"].start_values.shape, both.rewards["cost"].task.discount
    ((1000,), 0.97)
    """
    from bayesmdp import engine

    for name, flag in (("control", control), ("keep_values", keep_values)):
        _checks.of_type(name, flag, bool, ArgumentError)
    draws = with_reward(as_draws(draws, n_draws, seed), reward)
    task = draws.belief.task
    if tolerance is not None:
        tolerance = _checks.real(
            "tolerance", tolerance, ArgumentError, 0, open_low=True
        )
    probabilities = as_policy(policy, draws.belief)
    with engine.workers(threads, executor, device) as pool:
        swept = sweep_policies(
            probabilities[None],
            draws,
            pool,
            tolerance=tolerance,
            control=control,
            solver=solver,
            progress=progress,
            keep=keep_values or draws.belief.task.criterion == "average",
        )
    each = evaluations_of(swept, 0, tolerance)
    result = joint(swept, each) if len(each) > 1 else each[0]
    for note in result.notes:
        warnings.warn(note, BayesmdpWarning, stacklevel=2)
    return in_costs(result) if task.is_cost else result


def as_draws(
    draws: Draws | Belief, n_draws: int | None = None, seed: Seed | None = None
) -> Draws:
    """Return draws as they are, and take them from a belief."""
    if isinstance(draws, Belief):
        n = _N_DRAWS if n_draws is None and draws.n_models is None else n_draws
        return draws.draws(n, 0 if seed is None else seed)
    if not isinstance(draws, Draws):
        raise ArgumentError(
            "`draws` must be a posterior or an ensemble, or come from "
            f"`posterior.draws(n, seed)`; got {type(draws).__name__}."
        )
    if n_draws is not None or seed is not None:
        name = "seed" if n_draws is None else "n_draws"
        raise ArgumentError(
            f"`{name}` cannot be given with draws, which have their own: give a "
            "posterior, or `posterior.draws(n_draws, seed)` alone."
        )
    return draws


@dataclass(frozen=True, eq=False)
class Swept:
    """A sweep of policies over draws, with all that is needed to read it."""

    draws: Draws
    policies: FloatArray  # [P, S, A]
    problem: Problem
    nominal: Nominal
    sums: Sums
    endings: tuple[Ending, ...]  # [P], at discount 1; else none


def sweep_policies(
    policies: FloatArray,
    draws: Draws,
    pool: Pool,
    *,
    tolerance: float | None = None,
    control: bool = True,
    solver: str = "auto",
    progress: bool | None = False,
    values_only: bool = False,
    keep: bool = False,
) -> Swept:
    """Sweep checked policies ``[P, S, A]``; a tolerance looks at the first.

    With ``keep``, values and variances of every draw and state are kept.
    """
    from bayesmdp import engine
    from bayesmdp.evaluation._measure import measure

    problem = engine.Problem.of_draws(draws, policies)
    endings: tuple[Ending, ...] = ()
    if problem.must_end:
        endings = engine.check_ending(problem, draws.belief)
    more = not values_only
    cross = more and problem.n_columns > 1
    want = engine.Want(variance=more, occupancy=more, values=keep, cross=cross)
    n_draws, weights = draws.n_draws, draws.weights
    chain = draws.belief.chain_noise
    if draws.exact:
        tolerance = None
    with progress_bar("evaluating", n_draws, progress) as show:
        nominal = engine.nominal(
            problem,
            pool,
            # the mean of a finite set of models may have rewards of its own
            control=control and draws.belief.n_models is None,
            solver=solver,
            want=want,
            n_draws=n_draws,
        )
        n = n_draws if tolerance is None else min(_FIRST_STAGE, n_draws)
        sums = None
        while True:
            sums = engine.sweep(
                problem,
                nominal,
                n,
                want=want,
                pool=pool,
                weights=weights[:n],
                after=sums,
                progress=show,
            )
            if tolerance is None or n == n_draws:
                break
            found = measure(problem, nominal, sums, False, chain=chain)[0]
            error = float(found.start.value_mcse)
            if error <= tolerance or error <= _FLOOR * _floor(found, chain):
                break
            n = _next_stage(n, error / tolerance, n_draws, engine.BLOCK)
    return Swept(draws, policies, problem, nominal, sums, endings)


def evaluations_of(
    swept: Swept, policy: int, tolerance: float | None = None
) -> list[Evaluation]:
    """Put the records of a policy together, one for each of its columns."""
    from bayesmdp.evaluation._measure import measure

    belief, exact = swept.draws.belief, swept.draws.exact
    sums = swept.problem, swept.nominal, swept.sums
    found = measure(*sums, exact, policy, belief.chain_noise)
    p = swept.problem.columns(policy).start
    return [_record(swept, p + k, x, tolerance) for k, x in enumerate(found)]


def _record(
    swept: Swept, p: int, measured: Measured, tolerance: float | None
) -> Evaluation:
    """Put the record of column ``p`` together: a policy, or one of its rewards."""
    draws = swept.draws
    n, task = swept.sums.n_draws, draws.belief.task
    policy, k = divmod(p, swept.problem.n_columns)
    if swept.problem.n_columns > 1:
        task = task.parts[task.reward_names[swept.problem.order[k]]]
    floor = _floor(measured, draws.belief.chain_noise)
    notes = _remarks(measured, tolerance, n, floor, task.criterion == "average")
    if any(swept.nominal.few_digits[p : p + 1]):
        notes.append(
            "Iterations are right to 1e-10, or somewhat less, of the largest value and "
            "variance of all states; the start's value or variance is over 10,000 "
            "times smaller, and has fewer digits. Leave out states that the start "
            "never reaches, or take solver='dense'."
        )
    if swept.endings:
        ending = swept.endings[policy]
        notes = ending.notes + notes
        if not ending.visits_exist:
            for array in (measured.occupancy, measured.occupancy_mcse):
                array[draws.belief.task.live] = np.nan
    fields = _estimates(measured, task)
    reduction = 1.0
    spread = fields["start_epistemic_sd"]
    matters = spread > _ROUNDING * max(abs(fields["start_value"]), 1e-300)
    controlled = measured.control is not None and n >= _SHOWS_REDUCTION
    if controlled and matters and fields["start_value_mcse"] > 0:
        error = fields["start_value_mcse"] ** 2 - floor**2  # what draws add
        reduction = float(spread**2 / n / max(error, 1e-300))
    return Evaluation(
        **fields,
        occupancy=_checks.sealed(measured.occupancy),
        occupancy_mcse=_checks.sealed(measured.occupancy_mcse),
        start_values=_checks.sealed(measured.start_values),
        **_kept(swept, p),
        weights=_checks.sealed(swept.sums.weights / n) if draws.exact else None,
        n_draws=n,
        exact=draws.exact,
        n_endless=measured.n_endless,
        n_unsolved=measured.n_unsolved,
        n_retried=measured.n_retried,
        solver=swept.nominal.solver.name,
        device=swept.nominal.device,
        variance_reduction=reduction,
        prior_share=share_of_visits(
            measured.occupancy, swept.policies[policy], draws, fewer_than=1
        ),
        notes=tuple(notes),
        seed=draws.seed,
        policy=_checks.frozen(swept.policies[policy]),
        task=task,
    )


def _estimates(measured: Measured, task: Task) -> dict[str, Any]:
    """Estimates of states and of the start, as fields of the record."""
    found: dict[str, Any] = {}
    for name, value in vars(measured.states).items():
        found[name] = _checks.sealed(value)
    for name, value in vars(measured.start).items():
        found[f"start_{name}"] = float(value)
    if task.criterion == "average":  # an asymptotic sd is that of no outcome
        for name in TOTAL:
            found[name] = _checks.sealed(np.full(task.n_states, np.nan))
            found[f"start_{name}"] = np.nan
    return found


def _kept(swept: Swept, p: int) -> dict[str, Any]:
    """Values of every draw and state, ``[D, S]``, or moments of biases, if kept."""
    kept = swept.sums.kept[p, 0]
    if not kept.size:
        return {}
    problem, k = swept.problem, p % swept.problem.n_columns
    ended = swept.sums.ended[p] | (swept.sums.weights == 0)
    values: FloatArray = np.empty_like(kept)
    values[:, problem.rows.order] = kept
    if problem.task.criterion == "average":
        from bayesmdp.evaluation._measure import Size, estimates_of_values

        draws, weights = swept.draws, swept.sums.weights[ended]
        size = Size(weights.size, weights, draws.exact, draws.belief.chain_noise)
        found = estimates_of_values(np.ascontiguousarray(values[ended].T), size)
        return {
            "bias": _checks.sealed(found.value),
            "bias_mcse": _checks.sealed(found.value_mcse),
            "bias_sd": _checks.sealed(found.epistemic_sd),
            "bias_sd_mcse": _checks.sealed(found.epistemic_sd_mcse),
        }
    final = problem.ends_of(np.arange(len(kept)))
    final = problem.ends_of(None) if final is None else final
    assert final is not None
    values += final[:, k]
    values[~ended] = np.nan
    return {"values": _checks.sealed(values)}


def _floor(measured: Measured, chain: float) -> float:
    """Error that no number of draws goes below: that of finite chains."""
    return float(measured.start.epistemic_sd * np.sqrt(chain))


def _next_stage(n: int, ratio: float, limit: int, block: int) -> int:
    """Draws that should bring the error down by ``ratio``, at most four times more."""
    wanted = n * min(1.05 * ratio**2, 4.0)
    return min(limit, max(n + block, -(-int(wanted) // block) * block))


def _remarks(
    measured: Measured, tolerance: float | None, n: int, floor: float, average: bool
) -> list[str]:
    """Say what a reader must know before believing the numbers."""
    notes, error = list[str](), float(measured.start.value_mcse)
    if measured.n_endless:
        kind, so = "episodes", ", so values are conditional on ending"
        kind, so = ("returns to a state", "") if average else (kind, so)
        left_out = f"of {n} draws have {kind} too long to resolve; they are left out"
        notes.append(f"{measured.n_endless} {left_out}{so}.")
    if measured.n_unsolved:
        notes.append(
            f"{measured.n_unsolved} of {n} draws converge too slowly, and are too "
            "large to be solved directly; they are left out. Use a smaller discount."
        )
    if tolerance is not None and error > tolerance and floor > 0.9 * tolerance:
        notes.append(
            f"`tolerance` {tolerance:g} cannot be reached: the belief's Markov chains "
            f"are finite, which leaves an error of {floor:.2g} whatever the draws."
        )
    elif tolerance is not None and error > tolerance:
        notes.append(
            f"`tolerance` {tolerance:g} was not reached: the error of the start value "
            f"is {error:.2g} after all {n} draws; give more draws."
        )
    return notes


def share_of_visits(
    occupancy: FloatArray, policy: FloatArray, draws: Draws, *, fewer_than: int
) -> float:
    """Share of discounted visits on pairs with few observations; NaN without counts."""
    belief = draws.belief
    if belief.counts is None:
        return float("nan")
    task = belief.task
    visits = (occupancy[:, None] * policy)[task.live]
    seen = belief.counts.pair_totals(task.n_states, task.n_actions)[task.live]
    total = float(visits.sum())  # 0 where episodes end before anything counts
    return min(float(visits[seen < fewer_than].sum()) / total, 1.0) if total else 0.0


#: A reward by its name, or weights by name: net benefit.
Chosen = str | Mapping[str, float]


def with_reward(draws: Draws, reward: Chosen | None) -> Draws:
    """Return the same draws with one of the task's rewards, or a sum of them."""
    if reward is None:
        return draws
    return replace(draws, belief=draws.belief.with_reward(reward))


def one_reward(
    belief: Belief, reward: Chosen | None, what: str, *, plain: bool = False
) -> Belief:
    """Return a belief about one reward; refuse several where none is chosen.

    With ``plain``, refuse first what no choice of a reward helps.
    """
    if reward is not None:
        belief = belief.with_reward(reward)
    if plain:
        belief.task.plain(what, "reward")
    elif belief.task.reward_names:
        belief.task.one_reward(what, "reward")
    return belief


def joint(swept: Swept, evaluations: list[Evaluation]) -> Evaluation:
    """Put the evaluations of a policy's rewards together, ``[K]`` as swept."""
    task, order = swept.draws.belief.task, swept.problem.order
    names = task.reward_names
    by_place = dict(zip(order, evaluations, strict=True))
    each = {name: by_place[k] for k, name in enumerate(names)}
    first = each[names[0]]
    values = np.stack([each[name].start_values for name in names])
    weights, returns = swept.sums.weights, swept.sums.cross[0]
    ended = np.isfinite(values).all(axis=0) & (weights > 0)
    if not ended.all():
        values, returns, weights = values[:, ended], returns[:, ended], weights[ended]
    weights = weights / weights.sum()
    belief = swept.draws.belief
    how: dict[str, Any] = {"exact": swept.draws.exact, "chain": belief.chain_noise}
    off = values - (values @ weights)[:, None]
    epistemic, over = mean_and_mcse(off[:, None] * off, weights, **how)
    if not swept.draws.exact:
        epistemic *= weights.size / max(weights.size - 1, 1)
    sds = np.array([each[name].start_aleatoric_sd for name in names])
    errors = np.array([each[name].start_aleatoric_sd_mcse for name in names])
    aleatoric, of = np.diag(sds**2), np.diag(2 * sds * errors)
    cross, error = mean_and_mcse(returns, weights, **how)
    for pair, (low, high) in enumerate(combinations(order, 2)):
        aleatoric[low, high] = aleatoric[high, low] = cross[pair]
        of[low, high] = of[high, low] = error[pair]
    return replace(
        first,
        task=task,
        rewards=each,
        start_epistemic_covariance=_checks.sealed(epistemic),
        start_epistemic_covariance_mcse=_checks.sealed(over),
        start_aleatoric_covariance=_checks.sealed(aleatoric),
        start_aleatoric_covariance_mcse=_checks.sealed(of),
        notes=tuple(dict.fromkeys(x for e in each.values() for x in e.notes)),
    )
