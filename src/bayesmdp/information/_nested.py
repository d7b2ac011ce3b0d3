"""Nested Monte Carlo for the rows of a state, with rank-one updates.

In draw ``k`` of everything else, a policy's chain has ``X = (I - g T)^-1``, ``V = X
b``, ``d = X' rho``. Other rows in state ``s`` change one row of ``T``: with ``q = sum_a
pi[s,a] theta'[s,a].(r + g V)`` and ``y = g sum_a pi[s,a] theta'[s,a].X[:,s]``
(Sherman and Morrison) ::

    J' = J + d[s] (q - V[s]) / (X[s,s] - y)

so that ``f[j](theta'[s])``, the mean over ``K`` draws of the rest, costs two products
for as many rows as one likes. A sum of rewards of different discounts has a chain, and
an update, for each of them.

**Row known** (EVPPI): ``theta'`` from the belief. Where rows are independent, the
others stay those of draw ``k``. **After n visits** (EVSI): for Dirichlet rows, visits
are simulated and the row's mean given them put in place of the row; ``f`` is so nearly
linear in one row that what its curvature leaves is a constant, and means are restored.
**Rows that depend on each other**: all rows of the state are drawn together, and
conditional means of ``f`` given what the pair shows, its ``theta.h`` or the average
``h`` of ``n`` simulated visits, are cubic polynomials of that number (of all actions'
numbers, linear, for a state); half of the draws decides, the other half values.

**Errors** hold three parts: draws of rows (``m``), draws of the rest (``k``), and the
levels of the policies, all at the decisions that were taken (their own change is of
second order). A gain of regression that comes out below 0 is 0, which no gain is below.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayesmdp import _checks
from bayesmdp._jit import jit
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.engine import Pool, Problem, invert, results
from bayesmdp.information._samples import split_gain
from bayesmdp.posterior import Belief


@jit
def products(
    theta: FloatArray, other: FloatArray, ends: IntArray, out: FloatArray
) -> None:
    """Fill ``out`` [A, M, K] with ``theta[m].other[k]`` over the entries of an action.

    ``theta`` [M, E] and ``other`` [K, E] hold actions one after the other, as ``ends``
    [A + 1] says.
    """
    for a in range(ends.size - 1):
        for m in range(theta.shape[0]):
            for k in range(other.shape[0]):
                total = 0.0
                for e in range(ends[a], ends[a + 1]):
                    total += theta[m, e] * other[k, e]
                out[a, m, k] = total


@jit
def updated(
    q: FloatArray,
    y: FloatArray,
    own_q: FloatArray,
    own_y: FloatArray,
    chance: FloatArray,
    known: BoolArray,
    value: FloatArray,
    length: FloatArray,
    visits: FloatArray,
    out: FloatArray,
) -> None:
    """Fill ``out`` [M, K]: change of the start value where rows of a state change.

    ``q`` and ``y`` [A, M, K] are of new rows, ``own`` ones [A, K] of those that a draw
    has, which stay where an action is not ``known`` [A].
    """
    n_draws = value.size
    over, under = np.empty(n_draws), np.empty(n_draws)
    for k in range(n_draws):
        over[k], under[k] = -value[k], length[k]
        for a in range(chance.size):
            if not known[a]:
                over[k] += chance[a] * own_q[a, k]
                under[k] -= chance[a] * own_y[a, k]
    for m in range(out.shape[0]):
        for k in range(n_draws):
            top, bottom = over[k], under[k]
            for a in range(chance.size):
                if known[a]:
                    top += chance[a] * q[a, m, k]
                    bottom -= chance[a] * y[a, m, k]
            out[m, k] = visits[k] * top / bottom


N_REST = 48  # draws of the rest
# A decision that no draw has shown may still be changed by one in so many of them over
# three, by about the spread of the gains: what the draws cannot show, the error holds.
_UNSEEN = 3.0
_N_ROWS, _N_JOINT = 512, 2000  # draws of the rows; where they depend on each other


#: ``q`` and ``y`` of new rows, [A', M, K], and of those that a draw has, [A', K].
Responses = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Rest:
    """Draws of everything, solved for some policies; what updates of states read.

    A policy stands here once for each reward of a sum: C columns.
    """

    states: IntArray  # [I], live states in sweep order
    rows: dict[int, IntArray]  # of each of them
    value: FloatArray  # [K, C, S], 0 where an episode has ended
    column: FloatArray  # [K, C, I, S], X[:, s]
    visits: FloatArray  # [K, C, I], d[s]
    theta: dict[int, FloatArray]  # [K, E'] of the rows of each state


def solve_rest(
    problem: Problem, states: Sequence[int], rows: dict[int, IntArray], pool: Pool
) -> Rest:
    """Solve ``N_REST`` draws for the policies of a problem with every row."""
    at = np.asarray(states, dtype=np.int64)
    jobs = ((problem, at, rows, draw) for draw in range(N_REST))
    with results(pool, _solve, jobs) as found:
        parts = list(found)
    good = [p for p in parts if all(np.isfinite(x).all() for x in p[:3])]
    value, column, visits, theta = zip(*good, strict=True)
    return Rest(
        at,
        rows,
        np.stack(value),
        np.stack(column),
        np.stack(visits),
        {s: np.stack([t[i] for t in theta]) for i, s in enumerate(states)},
    )


def _solve(
    problem: Problem, states: IntArray, rows_of: dict[int, IntArray], draw: int
) -> tuple[FloatArray, FloatArray, FloatArray, list[FloatArray]]:
    """Sample one draw and invert the chain of every policy."""
    rows, stream, n = problem.rows, problem.stream, problem.n_live
    assert stream is not None
    theta = np.empty((1, rows.target.size))
    stream.fill(np.array([draw]), np.ones(rows.source.size, dtype=np.bool_), theta)
    discounts, n_states = problem.discounts, rows.start.size
    n_columns = len(problem.policies) * discounts.size
    value = np.zeros((n_columns, n_states))
    column = np.zeros((n_columns, states.size, n_states))
    visits = np.zeros((n_columns, states.size))
    transposed = np.empty((n, n))
    paid = [rows.row_sums(theta[0] * reward) for reward in problem.reward]
    for c in range(n_columns):
        p, k = divmod(c, discounts.size)
        policy = problem.policies[p]
        invert(theta[0], policy, rows.layout, float(discounts[k]), transposed)
        value[c, :n] = np.bincount(rows.source, policy * paid[k], n) @ transposed
        column[c, :, :n] = transposed[states]
        visits[c] = transposed[states] @ rows.start[:n]
    entries = [theta[0, entries_of(rows.indptr, rows_of[int(s)])] for s in states]
    return value, column, visits, entries


def entries_of(indptr: IntArray, row: IntArray) -> slice:
    """Entries of rows that stand one after the other."""
    return slice(int(indptr[row[0]]), int(indptr[row[-1] + 1]))


@dataclass(frozen=True, eq=False)
class Options:
    """What can be chosen: a policy of `Rest` each, and what it does in the state."""

    policy: IntArray  # [O], of Rest
    chance: FloatArray  # [O, A'], of the state's actions
    level: FloatArray | None  # [O], expected values; None: from the same draws
    error: Callable[[FloatArray], FloatArray]  # of levels, at shares [O]

    def touched(self, action: int) -> "Options":
        """Those that use an action, and the best of the others."""
        assert self.level is not None
        uses = self.chance[:, action] > 0
        if not uses.all():
            uses[np.where(uses, -np.inf, self.level).argmax()] = True
        kept, whole = np.flatnonzero(uses), self.level.size

        def error(share: FloatArray) -> FloatArray:
            out = np.zeros(whole)
            out[kept] = share
            return self.error(out)

        return Options(self.policy[kept], self.chance[kept], self.level[kept], error)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What information about a state and its pairs is worth, and errors."""

    pair: FloatArray  # [2, 1 + N, A'], values and errors; first: row known
    state: FloatArray  # [2, 1 + N]


class StateStudy:
    """Draws of the rows of one state, put into draws of the rest."""

    def __init__(
        self,
        belief: Belief,
        problem: Problem,
        rest: Rest,
        index: int,
        h: FloatArray,
        n_visits: Sequence[int],
        seed: int,
    ) -> None:
        self.problem, self.rest, self.index = problem, rest, index
        self.state = int(rest.states[index])
        self.row = rest.rows[self.state]
        rows = problem.rows
        self.part = entries_of(rows.indptr, self.row)
        self.ends = rows.indptr[np.r_[self.row, self.row[-1] + 1]] - self.part.start
        self.h, self.n_visits = h[self.part], n_visits
        kept = belief.stream(_N_JOINT, seed, "information rows")
        stream = kept.of_rows(rows.row[self.row])
        self.total = None if rows.total is None else rows.total[self.row]
        self.independent = stream.independent and self.total is not None
        n = _N_ROWS if self.independent else _N_JOINT
        self.theta = np.empty((n, self.h.size))
        every = np.ones(self.row.size, dtype=np.bool_)
        stream.fill(np.arange(n), every, self.theta)
        key = [*_checks.stream_key(seed, "information visits").tolist(), self.state]
        self.rng = np.random.default_rng(key)

    def actions(self, values: FloatArray) -> list[FloatArray]:
        """Entries ``[..., E']`` by action."""
        return np.split(values, self.ends[1:-1], axis=-1)

    def visit(self, n: int, theta: FloatArray) -> IntArray:
        """Simulate ``n`` visits to rows ``[M, L]``: how often each next state came."""
        safe = theta / np.maximum(theta.sum(axis=1, keepdims=True), 1e-300)
        safe[:, -1] = np.maximum(1.0 - safe[:, :-1].sum(axis=1), 0.0)
        return self.rng.multinomial(n, safe)

    def shared(self, n: int) -> list[int]:
        """Visits to a state, shared evenly over its actions."""
        each, more = divmod(n, self.row.size)
        return [each + (a < more) for a in range(self.row.size)]

    def after(self, visits: Sequence[int]) -> FloatArray:
        """Mean of each Dirichlet row given simulated visits to it, ``[M, E']``."""
        assert self.total is not None
        by, mean = self.actions, self.problem.rows.mean[self.part]
        each = zip(visits, by(mean), self.total, by(self.theta), strict=True)
        made = [
            (bar * total + self.visit(n, theta)) / (total + n)
            for n, bar, total, theta in each
        ]
        return np.hstack(made)

    def shown(self, visits: Sequence[int] | None) -> FloatArray:
        """Show pairs: their ``theta.h``, or the mean ``h`` of visits, ``[M, A']``."""
        out = []
        for a, (theta, h) in enumerate(
            zip(self.actions(self.theta), self.actions(self.h), strict=True)
        ):
            if visits is None:
                out.append(theta @ h)
            else:
                out.append(self.visit(visits[a], theta) @ h / max(visits[a], 1))
        return np.stack(out, axis=1)

    def responses(self, c: int, theta: FloatArray) -> Responses:
        """``q`` and ``y`` of rows ``theta`` [M, E'], ``[A', M, K]``, and of the rest.

        The latter, ``[A', K]``, are those of the rows that each draw has itself.
        """
        problem, target = self.problem, self.problem.rows.target[self.part]
        reward = c % problem.discounts.size
        g, paid = problem.discounts[reward], problem.reward[reward, self.part]
        ahead = paid + g * self.rest.value[:, c][:, target]
        column = g * self.rest.column[:, c, self.index][:, target]
        own = self.rest.theta[self.state]
        mine = [
            np.add.reduceat(own * x, self.ends[:-1], axis=1).T.copy()
            for x in (ahead, column)
        ]
        made = []
        for other in (ahead, column):
            out = np.empty((self.row.size, len(theta), len(own)))
            products(theta, np.ascontiguousarray(other), self.ends, out)
            made.append(out)
        return made[0], made[1], mine[0], mine[1]

    def gains(self, options: Options) -> Outcome:
        """Value of knowing rows and of visits, for pairs and for the state."""
        options = self._levelled(options)
        pair = np.zeros((2, 1 + len(self.n_visits), self.row.size))
        state = np.zeros((2, 1 + len(self.n_visits)))
        found = self._separate if self.independent else self._joint
        for i, n in enumerate([None, *self.n_visits]):
            pair[:, i], state[:, i] = found(options, n)
        return Outcome(pair, state)

    def _levelled(self, options: Options) -> Options:
        """Take levels that are not given from the draws themselves."""
        if options.level is not None:
            return options
        values = self._values(options, self._all_responses(options, self.theta), None)
        of_rows, of_rest = values.mean(axis=2), values.mean(axis=1)
        squared = np.atleast_2d(np.cov(of_rows)) / of_rows.shape[1]
        squared += np.atleast_2d(np.cov(of_rest)) / of_rest.shape[1]

        def error(share: FloatArray) -> FloatArray:
            return np.asarray(np.sqrt(np.maximum(share @ squared @ share, 0.0)))

        return replace(options, level=values.mean(axis=(1, 2)), error=error)

    def _separate(
        self, options: Options, n: int | None
    ) -> tuple[FloatArray, FloatArray]:
        """Independent Dirichlet rows: values and errors of pairs, and of the state."""
        theta = self.theta if n is None else self.after([n] * self.row.size)
        made = self._all_responses(options, theta)
        pairs = []
        for a in range(self.row.size):
            some = options.touched(a)
            pairs.append(_gain(self._values(some, made, a), some))
        if n is not None:
            made = self._all_responses(options, self.after(self.shared(n)))
        whole = _gain(self._values(options, made, None), options)
        return np.array(pairs).T, np.array(whole)

    def _joint(self, options: Options, n: int | None) -> tuple[FloatArray, FloatArray]:
        """Rows that depend on each other: conditional means by regression."""
        if self._f is None or self._f[0] is not options:
            made = self._all_responses(options, self.theta)
            self._f = options, self._values(options, made, None)
        values = self._f[1]
        shown = self.shown(None if n is None else [n] * self.row.size)
        pairs = [_regressed(values, _cubic(z), options) for z in shown.T]
        if n is None:
            return np.array(pairs).T, np.array(_gain(values, options))
        shown = self.shown(self.shared(n))
        linear = np.column_stack([np.ones(len(shown)), _scaled(shown)])
        return np.array(pairs).T, np.array(_regressed(values, linear, options))

    _f: tuple[Options, FloatArray] | None = None

    def _all_responses(
        self, options: Options, theta: FloatArray
    ) -> dict[int, Responses]:
        m = self.problem.discounts.size
        each = {p * m + k for p in options.policy.tolist() for k in range(m)}
        return {c: self.responses(c, theta) for c in each}

    def _values(
        self, options: Options, made: dict[int, Responses], action: int | None
    ) -> FloatArray:
        """Start values of options ``[O, M, K]`` with one row replaced, or all."""
        known = np.ones(self.row.size, dtype=np.bool_)
        if action is not None:
            known[:] = np.arange(known.size) == action
        n_rows = next(iter(made.values()))[0].shape[1]
        out = np.zeros((options.policy.size, n_rows, len(self.rest.value)))
        rest, change = self.rest, np.empty(out.shape[1:])
        weights = self.problem.weights or (1.0,)
        for i, policy in enumerate(options.policy.tolist()):
            chance = np.ascontiguousarray(options.chance[i])
            if not chance[known].any():  # nothing changes
                continue
            for k, weight in enumerate(weights):
                c = policy * len(weights) + k
                updated(
                    *made[c],
                    chance,
                    known,
                    np.ascontiguousarray(rest.value[:, c, self.state]),
                    np.ascontiguousarray(rest.column[:, c, self.index, self.state]),
                    np.ascontiguousarray(rest.visits[:, c, self.index]),
                    change,
                )
                out[i] += weight * change
        return out


def _gain(values: FloatArray, options: Options) -> tuple[float, float]:
    """Take the expected maximum of options' values ``[O, M, K]``, less the level."""
    assert options.level is not None
    level, n_rows = options.level, values.shape[1]
    off = values - values.mean(axis=1, keepdims=True)
    centred = off.mean(axis=2) + level[:, None]
    best, pick = int(level.argmax()), centred.argmax(axis=0)
    gain = centred[pick, np.arange(n_rows)] - centred[best]
    share = np.bincount(pick, minlength=level.size) / n_rows
    share[best] -= 1.0
    of_rest = (off[pick, np.arange(n_rows)] - off[best]).mean(axis=0)
    squared = gain.var() / n_rows + of_rest.var() / max(of_rest.size - 1, 1)
    squared += (_UNSEEN / n_rows * (centred - centred[best]).std(axis=1).max()) ** 2
    return float(gain.mean()), float(np.sqrt(squared + options.error(share) ** 2))


def _regressed(
    values: FloatArray, basis: FloatArray, options: Options
) -> tuple[float, float]:
    """Return the same for what is known of values through a basis ``[M, B]``."""
    assert options.level is not None
    level, best = options.level, int(options.level.argmax())
    y = values.mean(axis=2).T
    y = y - y.mean(axis=0) + level
    gain = split_gain(y, (basis, basis), level)
    fitted = basis @ np.linalg.lstsq(basis, y, rcond=1e-10)[0]
    pick, m = fitted.argmax(axis=1), np.arange(len(y))
    share = np.bincount(pick, minlength=level.size) / len(y)
    share[best] -= 1.0
    off_k = values - values.mean(axis=1, keepdims=True)
    of_rest = (off_k[pick, m] - off_k[best]).mean(axis=0)
    squared = gain.var() / len(y) + options.error(share) ** 2
    squared += of_rest.var() / max(of_rest.size - 1, 1)
    off = (fitted - fitted[:, [best]]).std(axis=0).max()
    squared += (_UNSEEN / len(y) * off) ** 2
    return max(float(gain.mean()), 0.0), float(np.sqrt(squared))


def _scaled(z: FloatArray) -> FloatArray:
    """Numbers ``[M, ...]`` less their mean, over their sd."""
    spread = z.std(axis=0)
    return np.asarray((z - z.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def _cubic(z: FloatArray) -> FloatArray:
    """Powers 0 to 3 of a number ``[M]``, scaled."""
    z = np.clip(_scaled(z), -6.0, 6.0)
    return np.stack([np.ones_like(z), z, z**2, z**3], axis=1)
