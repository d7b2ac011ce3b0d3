"""Planning for a known model: the best deterministic policy, and its value.

For the mean of the draws (`plan`), or for each draw as if it were known
(`hindsight_values`): what no policy can beat.

Beside them Delage and Mannor's (2010) second-order objective and its gradient. With
nominal ``X``, ``V``, ``Q``, ``d``, ``h = r + g V``, ``w0 = pi^2 / (alpha0 + 1)``,
``C[s,a] = Cov_{t ~ theta_bar[s,a]}(X[t,s], h[s,a,t])`` and ``k[s] = sum_a w0 C``::

    F = rho.V + g d.k

    w[t]   = g^2 sum_{s,a} d[s] w0[s,a] theta_bar[s,a,t] (X[t,s] - E X[.,s])
    E[t,s] = g d[s] sum_a w0[s,a] theta_bar[s,a,t] (h[s,a,t] - E h)

    dF/dpi[s,a] = d[s] Q[s,a] + g^2 d[s] (theta_bar[s,a].(X k))
                + 2 g d[s] pi[s,a] / (alpha0[s,a] + 1) C[s,a] + (X' w)[s] Q[s,a]
                + g sum_t theta_bar[s,a,t] (X E' X)[t,s]

for any reward, without a tensor of size S^4.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np

from bayesmdp import _checks
from bayesmdp._checks import read_only, writable
from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._backend import BLOCK
from bayesmdp.engine._chain import Layout
from bayesmdp.engine._cpu import CPU
from bayesmdp.engine._dense import dot
from bayesmdp.engine._ending import nearest_rows
from bayesmdp.engine._kernel import Method
from bayesmdp.engine._plan_mixed import best_by_time, plan_sum, with_one_discount
from bayesmdp.engine._planner import FAILED, plan_model
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import Dense, Krylov
from bayesmdp.engine._sweep import Pool, results
from bayesmdp.engine.averages import best_averages, improve_average
from bayesmdp.engine.horizons import best_start_values, improve_stationary
from bayesmdp.errors import BayesmdpWarning

__all__ = [
    "Plan",
    "SecondOrder",
    "first_reward_differs",
    "hindsight_choices",
    "hindsight_values",
    "plan",
    "second_order_objective",
    "warn_unfinished",
]

_SMALL = 128  # live states up to which policies are evaluated by elimination
_LARGE = 4000  # and beyond which it is out of reach
_WHO = "no action ever leads to a terminal state; add one with FallbackPrior"


def methods(n_live: int) -> tuple[Method, ...]:
    """How to evaluate policies, each way tried where the one before it fails."""
    if n_live <= _SMALL:
        return (Method(),)
    iterations = Method(krylov=Krylov(False))
    return (iterations, Method()) if n_live <= _LARGE else (iterations,)


@dataclass(frozen=True, eq=False)
class Plan:
    """The best policy of a known model."""

    policy: FloatArray  # [S, A]
    value: FloatArray  # [S]
    iterations: int
    converged: bool
    status: str  # a message
    choice: IntArray  # [N], row of the problem each live state takes


def plan(problem: Problem, who: str = _WHO) -> Plan:
    """Plan for the mean model of a problem that holds every available row.

    ``who`` says of a state, where discount 1 is refused, that no policy ends from it.
    """
    task = problem.task
    if problem.stages is not None:
        return _stationary(problem, *improve_stationary(problem))
    if task.criterion == "average":
        return _plan_average(problem)
    if problem.mixes_discounts:
        starts = [plan(one, who).choice for one in with_one_discount(problem)]
        return _stationary(problem, *plan_sum(problem, starts))
    if task.discount == 1.0:
        choice = nearest_rows(problem, who)
    else:  # the first row of each live state; rows are sorted by state
        choice = np.searchsorted(problem.rows.source, np.arange(problem.n_live))
    rows = problem.rows
    model = rows.mean[None], rows.reward[None], rows.terminal_value[None]
    _, values, choices, found = _planned(problem, *model, choice, cold=True)
    value, iterations = values[0], int(found[0])
    if iterations == FAILED:  # nobody knows the value of what is returned
        iterations, value = 0, np.full(task.n_states, np.nan)
        status = (
            "stopped before the optimum: the value of a policy converges too slowly to "
            "be solved for; the policy returned is the best met so far"
        )
    elif iterations > 0:
        status = f"optimal after {_checks.many(iterations, 'exact evaluation')}"
    else:
        status = (
            "stopped before the optimum: a better policy would never end, or the limit "
            "of iterations was reached; the policy returned is the best that ends"
        )
    return _plan(problem, choices[0], value + rows.terminal_value, iterations, status)


def _plan(
    problem: Problem, choice: IntArray, value: FloatArray, steps: int, status: str
) -> Plan:
    """Put a plan together: values ``[S]`` in sweep order, steps above 0 if optimal."""
    in_order = np.empty(problem.task.n_states)
    in_order[problem.rows.order] = value
    policy = problem.rows.of_choice(choice)
    return Plan(policy, _checks.sealed(in_order), abs(steps), steps > 0, status, choice)


def _stationary(
    problem: Problem, choice: IntArray, value: FloatArray, steps: int
) -> Plan:
    """Put together what is found where the best policy would change with time."""
    status = "no change in a single state betters this stationary policy"
    if steps < 0:
        status = "stopped before the optimum: the limit of changes was reached"
    value = value + problem.of_columns(problem.terminal_value)[0]
    return _plan(problem, choice, value, steps, status)


_NEARLY = 0.999  # discount of the policy that improvement of averages begins with


def _plan_average(problem: Problem) -> Plan:
    """Plan for the average per step."""
    task, rows = problem.task, problem.rows
    faded = task.with_discount(_NEARLY)
    near = plan(Problem(replace(rows, task=faded), problem.policies))
    choice, gain, _, steps = improve_average(problem, near.choice)
    status = f"optimal after {_checks.many(abs(steps), 'exact evaluation')}"
    if steps < 0:
        status = "stopped before the optimum: the limit of iterations was reached"
    return _plan(problem, choice, np.full(task.n_states, gain), steps, status)


def warn_unfinished(what: str, result: Plan) -> None:
    """Say aloud where a plan is not optimal."""
    if not result.converged:
        warnings.warn(f"`{what}`: {result.status}.", BayesmdpWarning, stacklevel=3)


def first_reward_differs(problem: Problem) -> bool:
    """Whether actions differ in a first reward that counts less than others.

    `plan` counts it whole: where it is the same for all actions, that changes nothing.
    """
    if not problem.lost or problem.mixes_discounts:  # whose plan counts it as it is
        return False
    rows = problem.rows
    final = rows.terminal_value[rows.target]
    paid = rows.row_sums(rows.mean * (rows.reward - problem.task.discount * final))
    at = np.searchsorted(rows.source, np.arange(problem.n_live))
    least, most = np.minimum.reduceat(paid, at), np.maximum.reduceat(paid, at)
    size = np.maximum(np.abs(least), np.abs(most))
    begins = rows.start[: problem.n_live] > 0
    return bool((begins & (most - least > _SAME * size)).any())


_SAME = 1e-12  # difference of rewards, relative to them, that is rounding
_HELD = 1 << 20  # entries of draws that are held at once


def hindsight_values(
    problem: Problem, n_draws: int, warm: IntArray, pool: Pool, first: int = 0
) -> FloatArray:
    """Optimal start values of ``n_draws`` draws from ``first`` on, ``[D]``.

    With a horizon, or a first reward that counts less, of decisions that may change
    with time. Of a sum of rewards of different discounts, a bound on those.

    ``problem`` holds every row; planning starts from the rows ``warm`` [N].
    """
    return hindsight_choices(problem, n_draws, warm, pool, first)[0]


def hindsight_choices(
    problem: Problem, n_draws: int, warm: IntArray, pool: Pool, first: int = 0
) -> tuple[FloatArray, IntArray]:
    """Return the same, and the row that each live state takes then, ``[D, N]``."""
    jobs = (
        (problem, warm, first + at, min(BLOCK, n_draws - at))
        for at in range(0, n_draws, BLOCK)
    )
    with results(pool, _run, jobs) as parts:
        values, choices = zip(*parts, strict=True)
    return np.concatenate(values), np.concatenate(choices)


def _run(
    problem: Problem, warm: IntArray, first: int, n: int
) -> tuple[FloatArray, IntArray]:
    """Plan for a range of draws; not a number where that fails."""
    most = max(_HELD // max(problem.rows.target.size, 1), 1)
    found = [
        _best_values(problem, warm, np.arange(begin, min(begin + most, first + n)))
        for begin in range(first, first + n, most)
    ]
    values, choices = zip(*found, strict=True)
    return np.concatenate(values), np.concatenate(choices)


def _best_values(
    problem: Problem, warm: IntArray, draws: IntArray
) -> tuple[FloatArray, IntArray]:
    """Sample draws, and plan for each from the rows ``warm`` [N]."""
    if problem.stages is not None:
        return best_start_values(problem, draws)
    if problem.task.criterion == "average":
        return best_averages(problem, draws, warm)
    if problem.mixes_discounts:
        return _best_sums(problem, draws, warm)
    rows, stream, n = problem.rows, problem.stream, draws.size
    assert stream is not None
    table = np.empty((n, rows.target.size))
    stream.fill(draws, np.ones(rows.source.size, dtype=np.bool_), table)
    reward, final = stream.rewards(draws), stream.terminal_values(draws)
    reward = rows.reward[None] if reward is None else reward
    final = rows.terminal_value[None] if final is None else final[:, rows.order]
    out, values, choices, steps = _planned(problem, table, reward, final, warm)
    if problem.lost:
        out = _less_of_first(problem, table, reward, final, values)
    out[steps <= 0] = np.nan  # a better policy would never end, or none was solved for
    return out, choices


def _best_sums(
    problem: Problem, draws: IntArray, warm: IntArray
) -> tuple[FloatArray, IntArray]:
    """Bound a sum of rewards of different discounts in each draw."""
    rows, stream = problem.rows, problem.stream
    assert stream is not None
    table = np.empty((draws.size, rows.target.size))
    stream.fill(draws, np.ones(rows.source.size, dtype=np.bool_), table)
    paid, ends = stream.rewards(draws), stream.terminal_values(draws)
    reward = problem.reward[None] if paid is None else problem.in_order(paid)
    final = problem.terminal_value[None]
    if ends is not None:
        final = problem.in_order(ends)[..., rows.order]
    alone, failed = [], np.zeros(draws.size, dtype=np.bool_)
    parts = zip((rows, *problem.more), problem.weights or (), strict=True)
    for k, (own, weight) in enumerate(parts):
        given = weight * reward[:, k], weight * final[:, k]
        found = _planned(Problem(own, problem.policies), table, *given, warm)
        failed |= found[3] <= 0
        alone.append(found[1])
    out, choices = best_by_time(problem, table, reward, final, np.stack(alone))
    out[failed], choices[failed] = np.nan, warm
    return out, choices


def _planned(
    problem: Problem,
    table: FloatArray,
    reward: FloatArray,
    final: FloatArray,
    warm: IntArray,
    *,
    cold: bool = False,
) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
    """Plan for models ``[D, E]`` from rows ``warm`` [N], as `plan_models` takes them.

    Each way is tried where the one before it fails. Returns start values ``[D]``,
    values ``[D, S]``, rows ``[D, N]`` and iterations ``[D]``.
    """
    rows, n = problem.rows, len(table)
    start, steps = np.empty(n), np.full(n, FAILED)
    values, choices = np.empty((n, rows.start.size)), np.tile(warm, (n, 1))
    for method in methods(problem.n_live):
        at = np.flatnonzero(steps == FAILED)
        if not at.size:
            break
        some = (x if len(x) in (1, at.size) else x[at] for x in (table, reward, final))
        models, paid, ends = some
        found, iterations = np.empty(at.size), np.empty(at.size, dtype=np.int64)
        value, choice = np.empty((at.size, rows.start.size)), choices[at]
        plan_models(
            method.dense,
            method.krylov,
            problem.task.discount,
            rows.layout,
            writable(models),
            read_only(paid),
            writable(ends),
            writable(rows.start),
            cold,
            choice,
            value,
            iterations,
            found,
        )
        start[at], values[at], choices[at], steps[at] = found, value, choice, iterations
    return start, values, choices, steps


def _less_of_first(
    problem: Problem,
    table: FloatArray,
    reward: FloatArray,
    final: FloatArray,
    value: FloatArray,
) -> FloatArray:
    """Best start values ``[D]`` where the first reward counts ``lost`` less.

    The first action is the best one given that, those that follow have ``value``.
    """
    rows, lost, g = problem.rows, problem.lost, problem.task.discount
    n = problem.n_live
    own = reward - g * final[:, rows.target]
    then = value.copy()
    then[:, n:] = 0.0  # on arrival, rewards hold what a terminal state pays
    gain = table * (reward - lost * own + g * then[:, rows.target])  # [D, E]
    each = np.add.reduceat(gain, rows.indptr[:-1], axis=1)  # [D, R]
    at = np.searchsorted(rows.source, np.arange(n))
    top = np.maximum.reduceat(each, at, axis=1)  # [D, N]
    ends = (1.0 - lost) * (final @ rows.start)
    return np.asarray(top @ rows.start[:n] + ends)


@jit
def plan_models(
    dense: Dense | None,
    krylov: Krylov | None,
    g: float,
    rows: Layout,
    table: FloatArray,
    rewards: FloatArray,
    terminal_values: FloatArray,
    start: FloatArray,
    cold: bool,
    choice: IntArray,
    value: FloatArray,
    iterations: IntArray,
    out: FloatArray,
) -> None:
    """Plan for each of the models ``table`` [D, E].

    Rewards are [1, E] or [D, E], values of terminal states [1, S] or [D, S]. Planning
    starts from the rows ``choice`` [D, N] and leaves those it ends with; ``value`` is
    [D, S], ``iterations`` [D] are as of `plan_model`, and ``out`` [D] gets the start
    values.
    """
    for i in range(out.size):
        reward = rewards[i if rewards.shape[0] > 1 else 0]
        iterations[i] = plan_model(
            dense, krylov, table[i], rows, reward, g, choice[i], value[i], cold
        )
        ends = terminal_values[i if terminal_values.shape[0] > 1 else 0]
        out[i] = dot(start, value[i]) + dot(start, ends)


@dataclass(frozen=True, eq=False)
class SecondOrder:
    """Objective of a policy, its gradient, and the nominal occupancy."""

    value: float
    gradient: FloatArray  # [R]
    visits: FloatArray  # [N]


def second_order_objective(problem: Problem, policy: FloatArray) -> SecondOrder:
    """Evaluate policy rows ``[R]`` of a problem with every row."""
    n, g, rows = problem.n_live, problem.task.discount, problem.rows
    theta, source, target = rows.mean, rows.source, rows.target
    row, over_row = rows.row_of_entry, rows.row_sums
    live = target < n
    safe = np.where(live, target, 0)
    assert rows.total is not None

    def ahead(values: FloatArray) -> FloatArray:
        return over_row(theta * np.where(live, values[safe], 0.0))

    def by_state(values: FloatArray) -> FloatArray:
        return np.bincount(source, values, minlength=n).astype(np.float64)

    X = CPU().inverses(problem.with_policies(policy[None]))[0].T
    paid = over_row(theta * rows.reward)
    V = X @ by_state(policy * paid)
    d = X.T @ rows.start[:n]
    Q = paid + g * ahead(V)
    h = rows.reward + g * np.where(live, V[safe], 0.0)
    column = np.where(live, X[safe, source[row]], 0.0)
    narrow = 1.0 / (rows.total + 1.0)
    w0 = policy**2 * narrow
    mean_column = over_row(theta * column)
    C = over_row(theta * (column - mean_column[row]) * h)
    k = by_state(w0 * C)
    flow = (d[source] * w0)[row] * theta
    w = g**2 * np.bincount(
        safe[live], (flow * (column - mean_column[row]))[live], minlength=n
    )
    E = np.zeros((n, n))
    np.add.at(E, (safe[live], source[row][live]), g * (flow * (h - Q[row]))[live])
    around = X @ E.T @ X
    gradient = (
        d[source] * Q
        + g**2 * d[source] * ahead(X @ k)
        + 2 * g * d[source] * policy * narrow * C
        + (X.T @ w)[source] * Q
        + g * over_row(theta * np.where(live, around[safe, source[row]], 0.0))
    )
    value = float(rows.start[:n] @ V + g * d @ k)
    return SecondOrder(value, gradient, d)
