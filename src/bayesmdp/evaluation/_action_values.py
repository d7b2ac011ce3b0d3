"""Values of single actions: take an action once, follow the policy afterwards.

In a draw, with the policy's value ``V`` and return variance ``var``::

    Q[s, a]   = sum_t theta[s, a, t] (r[s, a, t] + g V[t])
    var[s, a] = sum_t theta[s, a, t] ((r[s, a, t] + g V[t] - Q[s, a])^2 + g^2 var[t])

Over draws, the variance of ``Q`` is epistemic and the mean of ``var`` aleatoric. Every
row of every pair is sampled, so that rows which depend on each other do so here too.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._resources import available_bytes, gigabytes, progress_bar
from bayesmdp._sheet import Record, Sheet, Table, rounded, significant
from bayesmdp._typing import FloatArray, IntArray, PolicyLike, Seed
from bayesmdp.errors import (
    ArgumentError,
    BayesmdpWarning,
    EndlessError,
    TooLargeError,
)
from bayesmdp.evaluation._errors import least_size, tie
from bayesmdp.evaluation._evaluate import as_draws, sweep_policies
from bayesmdp.model import Task, as_policy
from bayesmdp.posterior import Belief, Draws

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from bayesmdp.engine import Problem, SweepRows


@dataclass(frozen=True, eq=False, repr=False)
class ActionValues(Record):
    """Expected values of single actions, followed by a policy.

    Made by `bayesmdp.action_values`.

    Pairs that are not available are NaN. ``probability_best`` is the probability over
    the belief that no other action of the state is better; actions that tie share it.
    ``probability_better`` compares with the policy's own decision in the state, ties
    count for neither. ``gain`` is what deciding once as the policy does brings over
    deciding as the reference does, both followed by the policy.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> casino = bm.worlds.casino()
    >>> bm.action_values([1, 0, 0], casino.draws()).value[0].round(4).tolist()
    [3.455, -1.0]
    """

    value: FloatArray  # [S, A], mean over draws
    value_mcse: FloatArray  # [S, A], Monte Carlo error
    epistemic_sd: FloatArray  # [S, A]
    aleatoric_sd: FloatArray  # [S, A]
    probability_best: FloatArray  # [S, A]
    probability_better: FloatArray  # [S, A], than the policy's own decision
    gain: FloatArray  # [S], of the policy's decision over the reference's
    gain_sd: FloatArray  # [S], epistemic
    gain_probability: FloatArray  # [S], that it is above 0
    values: FloatArray | None  # [D, S, A], where asked for; NaN where not solved
    n_draws: int
    policy: FloatArray  # [S, A]
    task: Task = field(repr=False)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Give a row per available pair, with all that the record has of it."""
        of_pairs = [
            (x.name, table)
            for x in fields(self)
            if np.shape(table := getattr(self, x.name)) == self.value.shape
            and x.name != "policy"
        ]
        for s, a in np.argwhere(np.isfinite(self.value)).tolist():
            state, action = self.task.state_name(s), self.task.action_name(a)
            numbers = {name: float(table[s, a]) for name, table in of_pairs}
            yield {"state": state, "action": action, **numbers}

    def _sheet(self, shown: int = 10) -> Sheet:
        rows, live = [], self.task.live
        for s in live[:shown].tolist():
            a = int(np.nanargmax(self.probability_best[s]))
            rows.append(
                [
                    f"state {self.task.state_name(s)}",
                    self.task.action_name(a),
                    rounded(self.value[s, a], self.value_mcse[s, a]),
                    significant(self.epistemic_sd[s, a]),
                    significant(self.aleatoric_sd[s, a]),
                    f"{self.probability_best[s, a]:.3g}",
                ]
            )
        header = ["", "action", "value", "epistemic sd", "aleatoric sd", "best"]
        more = [f"(the first {shown} of {live.size} states)"] * (shown < live.size)
        of = _checks.many(self.n_draws, "draw")
        return Sheet(f"Values of actions over {of}", [Table(header, rows), *more])

    def __repr__(self) -> str:
        pairs = _checks.many(int(np.isfinite(self.value).sum()), "pair")
        return f"ActionValues({pairs}, {_checks.many(self.n_draws, 'draw')})"


def action_values(
    policy: PolicyLike,
    draws: Draws | Belief,
    *,
    n_draws: int | None = None,
    seed: Seed | None = None,
    reference: PolicyLike | None = None,
    keep_values: bool = False,
    solver: str = "auto",
    threads: int | None = None,
    executor: Executor | None = None,
    device: str | None = None,
    progress: bool | None = None,
) -> ActionValues:
    """Value of every available action, with epistemic and aleatoric uncertainty.

    Parameters
    ----------
    policy
        Policy followed after the action, ``[S, A]`` or ``[S]``.
    draws
        From ``posterior.draws(n, seed)``; a few hundred give sds to within some per
        cent. Or a posterior or an ensemble.
    n_draws, seed
        Of draws from a posterior, as in `bayesmdp.evaluate`.
    reference
        Policy whose decisions ``gain`` compares with; the uniform random policy where
        not given.
    keep_values
        Whether to keep the value of every draw, ``[D, S, A]``.
    solver, threads, executor, device, progress
        As in `bayesmdp.evaluate`.

    Returns
    -------
    ActionValues

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> prior = bm.SymmetricPrior(support=world.support)
    >>> posterior = bm.fit(world.sample(1000, seed=0), world.task, prior=prior)
    >>> q = bm.action_values(bm.policies.nominal(posterior), posterior.draws(200))
    >>> q.value.shape, int(q.probability_best[19].argmax())  # above the goal: down
    ((25, 4), 2)
    """
    from bayesmdp import engine

    _checks.of_type("keep_values", keep_values, bool, ArgumentError)
    draws = as_draws(draws, n_draws, seed)
    belief = draws.belief
    belief.task.plain("action_values")
    followed = as_policy(policy, belief)
    if reference is None:
        usable = belief.available & ~belief.task.is_terminal[:, None]
        compared = usable / np.maximum(usable.sum(axis=1, keepdims=True), 1)
    else:
        compared = as_policy(reference, belief, "reference")
    problem = engine.Problem.of_belief(belief).with_stream(draws.stream)
    _check_memory(problem, draws, keep_values)
    with (
        engine.workers(threads, executor, device) as pool,
        progress_bar("valuing actions", draws.n_draws, progress) as show,
    ):
        swept = sweep_policies(
            followed[None], draws, pool, control=False, solver=solver, keep=True
        )
        for note in [x for each in swept.endings for x in each.notes]:
            warnings.warn(note, BayesmdpWarning, stacklevel=2)
        ended = swept.sums.ended[0]
        if not ended.any():
            raise EndlessError("No draw of this policy ends or can be solved for.")
        number = np.flatnonzero(ended)
        value, variance = swept.sums.kept[0]
        decisions = problem.rows.of_rows(np.stack([followed, compared]))
        least = least_size(swept.nominal.iterates, swept.nominal.reference[0])
        around = _around(problem, value[number], swept.sums.weights[number])
        given = problem, decisions, around, least, keep_values
        jobs = (
            (*given, at, value[at], variance[at], weight)
            for at in np.split(
                number, np.arange(engine.BLOCK, number.size, engine.BLOCK)
            )
            for weight in (swept.sums.weights[at],)
        )
        parts, done = [], 0
        with engine.results(pool, _block, jobs) as found:
            for part in found:
                parts.append(part)
                done += engine.BLOCK
                show(min(done, draws.n_draws))
    weights = swept.sums.weights
    return _combine(parts, problem, decisions, around, draws, weights, number, followed)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Weighted sums over a block of draws."""

    of_rows: FloatArray  # [5, R]: Q, Q^2, var, best, better; Q less a reference
    of_states: FloatArray  # [3, N]: gain, gain^2, gain above 0
    values: FloatArray  # [n, R] or [0, R]


def _around(problem: Problem, values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Q of the mean model and mean value, ``[R]``, which sums are taken around.

    Squares of deviations from it lose no digits, as squares of values would.
    """
    rows = problem.rows
    mean = weights @ values / weights.sum()
    ahead = rows.reward + problem.task.discount * mean[rows.target]
    return rows.row_sums(rows.mean * ahead)


def _block(
    problem: Problem,
    decisions: FloatArray,
    around: FloatArray,
    least: float,
    keep: bool,
    draws: IntArray,
    value: FloatArray,
    variance: FloatArray,
    weights: FloatArray,
) -> _Sums:
    """Sample every row of some draws, and sum what their actions are worth."""
    rows, stream, g = problem.rows, problem.stream, problem.task.discount
    assert stream is not None
    n_rows, n = rows.source.size, problem.n_live
    theta = np.empty((1, rows.target.size))
    every = np.ones(n_rows, dtype=np.bool_)
    moments = np.zeros((draws.size, 2, n_rows))  # Q and variance in each draw
    row = rows.row_of_entry
    for i, draw in enumerate(draws):  # one by one: entries of a model may be many
        if weights[i] == 0:
            continue
        stream.fill(np.array([draw]), every, theta)
        own = stream.rewards(np.array([draw]))
        paid = (rows.reward if own is None else own[0]) + g * value[i, rows.target]
        q = rows.row_sums(theta[0] * paid)
        spread = (paid - q[row]) ** 2 + g**2 * variance[i, rows.target]
        moments[i] = q, rows.row_sums(theta[0] * spread)
    q, noise = moments.swapaxes(0, 1)  # [n, R]
    first = np.searchsorted(rows.source, np.arange(n))  # rows stand in order of states
    highest = np.maximum.reduceat(q, first, axis=1)  # [n, N]
    same = tie(np.maximum(np.maximum.reduceat(np.abs(q), first, axis=1), least))
    best = q >= (highest - same)[:, rows.source]
    ways = np.add.reduceat(best.astype(np.float64), first, axis=1)[:, rows.source]
    decided = np.add.reduceat(decisions[:, None] * q, first, axis=2)  # [2, n, N]
    gain = decided[0] - decided[1]
    better = q > (decided[0] + same)[:, rows.source]
    off, extra = q - around, gain - _gain(rows, decisions, around)
    return _Sums(
        np.stack([weights @ x for x in (off, off**2, noise, best / ways, better)]),
        np.stack([weights @ x for x in (extra, extra**2, gain > same)]),
        q if keep else q[:0],
    )


def _gain(rows: SweepRows, decisions: FloatArray, q: FloatArray) -> FloatArray:
    """Return what the first decisions ``[2, R]`` bring over the second, ``[N]``."""
    paid = (decisions[0] - decisions[1]) * q
    return np.bincount(rows.source, paid, minlength=rows.n_live).astype(np.float64)


def _combine(
    parts: list[_Sums],
    problem: Problem,
    decisions: FloatArray,
    around: FloatArray,
    draws: Draws,
    weights: FloatArray,
    solved: IntArray,
    policy: FloatArray,
) -> ActionValues:
    """Turn sums over the draws ``solved`` [n] into estimates."""
    rows, task = problem.rows, problem.task
    total, n = weights[solved].sum(), int((weights[solved] > 0).sum())
    unbias = 1.0 if draws.exact else n / max(n - 1, 1)
    off, square, variance, best, better = sum(p.of_rows for p in parts) / total
    extra, gain_square, above = sum(p.of_states for p in parts) / total
    epistemic = np.maximum(square - off**2, 0.0) * unbias
    q, gain = around + off, _gain(rows, decisions, around) + extra
    values = None
    if parts[0].values.size:
        values = np.full((draws.n_draws, q.size), np.nan)
        values[solved] = np.concatenate([p.values for p in parts])

    def table(x: FloatArray) -> FloatArray:
        out = np.full((*x.shape[:-1], task.n_states, task.n_actions), np.nan)
        out[..., rows.row_id[:, 0], rows.row_id[:, 1]] = x
        return _checks.sealed(out)

    def column(x: FloatArray) -> FloatArray:
        out = np.zeros(task.n_states)
        out[rows.order[: problem.n_live]] = x
        return _checks.sealed(out)

    noise = draws.belief.chain_noise + (0.0 if draws.exact else 1 / n)
    error = np.sqrt(epistemic * noise)
    gain_variance = np.maximum(gain_square - extra**2, 0.0) * unbias
    return ActionValues(
        value=table(q),
        value_mcse=table(error),
        epistemic_sd=table(np.sqrt(epistemic)),
        aleatoric_sd=table(np.sqrt(np.maximum(variance, 0.0))),
        probability_best=table(np.clip(best, 0.0, 1.0)),
        probability_better=table(np.clip(better, 0.0, 1.0)),
        gain=column(gain),
        gain_sd=column(np.sqrt(gain_variance)),
        gain_probability=column(np.clip(above, 0.0, 1.0)),
        values=None if values is None else table(values),
        n_draws=n,
        policy=_checks.frozen(policy),
        task=task,
    )


def _check_memory(problem: Problem, draws: Draws, keep_values: bool) -> None:
    """Refuse what cannot be held, and say what would fit."""
    task = problem.task
    per_draw = 32 * task.n_states  # value and variance, twice while they are joined
    if keep_values:
        per_draw += 16 * task.n_states * task.n_actions
    needed = per_draw * draws.n_draws + 64 * problem.rows.target.size
    if needed > (there := available_bytes(needed)):
        fits = max(int((there - 64 * problem.rows.target.size) // per_draw), 0)
        raise TooLargeError(
            f"Action values of {draws.n_draws} draws need {gigabytes(needed)}, and "
            f"{gigabytes(there)} are free: about {fits} draws would fit."
        )
