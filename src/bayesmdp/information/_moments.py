"""How far the value of each pair is unknown, and what visits tell about it.

With ``h[s,a,t] = r[s,a,t] + g V[t]`` of a policy in the mean model, ``x[s,a] =
theta[s,a].h[s,a]`` is what a pair is worth when that policy follows. Over the belief
``x[s, :]`` has mean ``m`` and covariance ``C`` [A, A], and one visit to the pair shows
it with the noise ``tau^2 = E[Var_theta(h)]``. So ``n[a]`` visits to each action change
the expected ``x`` by a vector of covariance ::

    C (C + diag(tau^2 / n))^-1 C         on the actions that are visited

For one action that is ``C[:, a] C[a, :] / (C[a, a] + tau^2 / n)``: it is as if ``n0 =
tau^2 / C[a, a]`` visits had been made before, and for Dirichlet rows ``n0`` is the sum
of their parameters, exactly. A belief that joins the actions of a state has
covariances between them, so that a visit tells about the others too.

**Decisions.** To first order policy ``j`` gains ``d[j,s] pi[j,s] . (x[s] - m)`` from
what becomes known in state ``s``, with discounted visits ``d`` of the mean model. For
a pair these are lines in one normal variable (below); for a state, planes in ``A``
of them, whose expected maximum is taken over fixed normal points.

**Sums of rewards of different discounts** have values ``V_k`` and visits ``d_k`` of
each. With ``h[s,a,t] = sum_k w_k (d_k[s] / d_0[s]) (r_k + g_k V_k[t])`` and the visits
``d_0`` lines are those of the best policy, and nearly those of the others.

**Lines**: expected maxima of straight lines in a standard normal, exactly.

With lines ``a[j] + b[j] Z`` the largest at ``z`` is one of the upper envelope, which is
found by going through the lines in order of slope. On the stretch ``(z0, z1)`` of line
``j`` it contributes ::

    a[j] (Phi(z1) - Phi(z0)) + b[j] (phi(z0) - phi(z1))

What learning is worth is that less the largest ``a[j]``: the knowledge gradient
(Frazier, Powell and Dayanik 2009). The gain is summed at the breakpoints of the
envelope, where nothing cancels: with slopes rising, ``u`` the distance of a breakpoint
from 0 and ``f(u) = phi(u) - u Phi(-u)``, ::

    E[max] - max_j a[j] = sum over breakpoints of (b[j+1] - b[j]) f(|z|)
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.engine import Pool, Problem, Want, nominal
from bayesmdp.posterior import Belief

_NORMAL = 1.0 / math.sqrt(2.0 * math.pi)


@jit
def _below(z: float) -> float:
    """Probability that a standard normal is below ``z``."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@jit
def line_gains(
    a: FloatArray, b: FloatArray, gain: FloatArray, share: FloatArray
) -> None:
    """Fill gains [Q] of lines ``a`` [Q or 1, P], ``b`` [Q, P].

    ``share`` [Q, P] is the probability that a line is the largest.
    """
    n_lines = b.shape[1]
    kept, at = np.empty(n_lines, dtype=np.int64), np.empty(n_lines + 1)
    for q in range(b.shape[0]):
        level, slope = a[q if a.shape[0] > 1 else 0], b[q]
        order = np.argsort(level, kind="mergesort")
        order = order[np.argsort(slope[order], kind="mergesort")]
        n = 0  # lines of the envelope, and where each takes over from the one before
        for j in order:
            if n > 0 and slope[j] == slope[kept[n - 1]]:
                n -= 1  # the one before is nowhere above
            while n > 0:
                last = kept[n - 1]
                z = (level[last] - level[j]) / (slope[j] - slope[last])
                if n == 1 or z > at[n - 1]:
                    at[n] = z
                    break
                n -= 1
            kept[n] = j
            n += 1
        gain[q], share[q] = 0.0, 0.0
        for i in range(n):
            low = _below(at[i]) if i > 0 else 0.0
            high = _below(at[i + 1]) if i + 1 < n else 1.0
            share[q, kept[i]] = high - low
            u = abs(at[i])
            if i > 0 and u < 38.0:  # beyond, less than the smallest number
                f = _NORMAL * math.exp(-0.5 * u * u) - u * _below(-u)
                gain[q] += (slope[kept[i]] - slope[kept[i - 1]]) * max(f, 0.0)


_N_DRAWS = 400  # where a belief does not know its covariance
_N_POINTS = 512
_HELD = 4_000_000  # numbers at once
_NEVER = -1e30  # level of what cannot be chosen


@dataclass(frozen=True, eq=False)
class Moments:
    """What is unknown in each state, and what decisions make of it.

    Options are the policies that can be chosen: the same everywhere, or, for switches,
    one for each action of the state, with the policy to be left as the last.
    """

    mean: FloatArray  # [S, A]
    covariance: FloatArray  # [S, A, A]
    noise: FloatArray  # [S, A], tau^2
    usable: BoolArray  # [S, A]
    h: FloatArray  # [E], of the problem's rows
    weight: FloatArray  # [P, S, A], d pi of each policy
    visits: FloatArray  # [S], discounted, of the best policy
    best: FloatArray  # [S, A], that policy

    def observed(self, n: float | FloatArray) -> FloatArray:
        """Variance of what ``n`` visits to a pair would show, ``[S, A]``.

        The same for all, or of each state ``[S, 1]``.
        """
        own = np.einsum("saa->sa", self.covariance)
        return np.asarray(own + self.noise / n)

    def pair_slopes(self, n: float | FloatArray) -> FloatArray:
        """Change of each ``x`` by one sd of what visits tell, ``[S, A, A]``.

        Of action ``i`` when action ``j`` is visited.
        """
        seen = np.sqrt(np.maximum(self.observed(n), 0.0))[:, None, :]
        out = np.zeros_like(self.covariance)
        np.divide(self.covariance, seen, out, where=seen > 0)
        return out

    def state_slopes(self, n: float | FloatArray) -> FloatArray:
        """Root of the covariance that visits bring, ``[S, A, A]``.

        ``n`` in all, shared evenly, or to each action ``[S, A]``.
        """
        known = self.covariance
        if np.isfinite(np.asarray(n)).all():
            ways = np.maximum(self.usable.sum(axis=1), 1)[:, None]
            visits = (
                np.broadcast_to(n / ways, self.noise.shape) if np.ndim(n) == 0 else n
            )
            top = max(float(self.covariance.max(initial=0.0)), 1e-300)
            noise = np.full(self.noise.shape, 1e12 * top)  # as good as none
            told = self.usable & (visits > 1e-9)
            np.divide(self.noise, visits, noise, where=told)
            eye = np.eye(self.usable.shape[1])
            total = self.covariance + np.maximum(noise, 1e-300)[:, :, None] * eye
            scale = np.sqrt(np.einsum("saa->sa", total))
            scaled = total / scale[:, :, None] / scale[:, None]
            left = self.covariance / scale[:, :, None]
            known = left.transpose(0, 2, 1) @ np.linalg.solve(
                scaled + 1e-13 * eye, left
            )
        size, axis = np.linalg.eigh(known)
        return np.asarray(axis * np.sqrt(np.maximum(size, 0.0))[:, None])

    @cached_property
    def switch_levels(self) -> FloatArray:
        """Gain of taking an action in one state, ``[S, A + 1]``; last: as before."""
        now = (self.best * self.mean).sum(axis=1, keepdims=True)
        gain = self.visits[:, None] * (self.mean - now)
        gain = np.where(self.usable, gain, _NEVER)
        return np.concatenate([gain, np.zeros_like(now)], axis=1)

    def pair_gains(self, level: FloatArray, n: float) -> tuple[FloatArray, FloatArray]:
        """Gain from ``n`` visits to each pair ``[S, A]``; shares ``[S, A, P]``."""
        n_states, n_actions = self.usable.shape
        slopes = self.pair_slopes(n)
        lines = np.einsum("psi,sij->sjp", self.weight, slopes, optimize=True)
        gain = np.empty(n_states * n_actions)
        share = np.empty((gain.size, len(level)))
        line_gains(
            level[None], np.ascontiguousarray(lines.reshape(gain.size, -1)), gain, share
        )
        where = self.usable
        shares = share.reshape(n_states, n_actions, -1)
        return np.where(where, gain.reshape(where.shape), 0.0), shares

    def _switch_weights(self, slopes: FloatArray) -> FloatArray:
        """Slopes ``[S, A, J]`` of ``x`` as those of switches, ``[S, A + 1, J]``."""
        now = self.best[:, None] @ slopes
        both = np.concatenate([slopes, now], axis=1)
        return np.asarray(self.visits[:, None, None] * both)

    def switch_pair_gains(self, n: float | FloatArray) -> FloatArray:
        """Gain from visits where one state may be decided again, ``[S, A]``."""
        lines = self._switch_weights(self.pair_slopes(n))  # [S, A + 1, J]
        lines[:, :-1] *= self.usable[:, :, None]
        n_states, n_actions = self.usable.shape
        gain = np.empty(n_states * n_actions)
        share = np.empty((gain.size, n_actions + 1))
        line_gains(
            np.repeat(self.switch_levels, n_actions, axis=0),
            np.ascontiguousarray(lines.transpose(0, 2, 1).reshape(gain.size, -1)),
            gain,
            share,
        )
        return np.where(self.usable, gain.reshape(self.usable.shape), 0.0)

    def state_gains(self, level: FloatArray, n: float) -> FloatArray:
        """Gain from ``n`` visits to each state, ``[S]``."""
        slopes = self.state_slopes(n)
        return self._planes(
            lambda s: level[None],
            lambda s: np.einsum("psi,sij->spj", self.weight[:, s], slopes[s]),
            len(level),
        )

    def switch_state_gains(self, n: float | FloatArray) -> FloatArray:
        """Return the same where that state may be decided again, ``[S]``."""
        slopes = self._switch_weights(self.state_slopes(n))
        return self._planes(
            lambda s: self.switch_levels[s], lambda s: slopes[s], slopes.shape[1]
        )

    def _planes(self, level, slope, n_options: int) -> FloatArray:  # type: ignore[no-untyped-def]
        """Take expected maxima over normal points, less the largest level, ``[S]``."""
        n_states, n_actions = self.usable.shape
        points = normal_points(_N_POINTS, n_actions)
        out = np.zeros(n_states)
        many = max(_HELD // (_N_POINTS * n_options), 1)
        for begin in range(0, n_states, many):
            s = slice(begin, min(begin + many, n_states))
            own = level(s)
            at = np.einsum("qj,spj->sqp", points, slope(s), optimize=True)
            out[s] = (at + own[:, None]).max(axis=2).mean(axis=1) - own.max(axis=1)
        return np.where(self.usable.any(axis=1), np.maximum(out, 0.0), 0.0)


def normal_points(n: int, dimension: int) -> FloatArray:
    """Return fixed standard normal points ``[n, dimension]``, symmetric around 0."""
    from scipy.special import ndtri
    from scipy.stats.qmc import Sobol

    half = Sobol(min(dimension, 21_201), seed=np.random.default_rng(0)).random(n // 2)
    points = ndtri(np.clip(half, 1e-12, 1 - 1e-12))
    return np.concatenate([points, -points])


def moments_of(
    belief: Belief,
    every: Problem,
    policies: FloatArray,
    best: int,
    seed: int,
    pool: Pool,
) -> Moments:
    """Put together what is unknown where, for ``policies`` [P, S, A].

    ``every`` holds every available row; its mean model is solved for them.
    """
    rows, task = every.rows, every.task
    problem = every.with_policies(rows.of_rows(policies)).apart
    found = nominal(problem, pool, control=False, want=Want(occupancy=True)).reference
    values, _, visits = found.reshape(3, len(policies), problem.n_columns, -1)
    h = _worth(every, values[best], visits[best])
    visits = visits[:, 0]
    shape = task.n_states, task.n_actions
    usable = np.zeros(shape, dtype=np.bool_)
    usable[rows.row_id[:, 0], rows.row_id[:, 1]] = True
    mean, square = np.zeros(shape), np.zeros(shape)
    at = rows.row_id[:, 0], rows.row_id[:, 1]
    mean[at] = rows.row_sums(rows.mean * h)
    square[at] = rows.row_sums(rows.mean * (h - mean[at][rows.row_of_entry]) ** 2)
    covariance = _covariance(belief, problem, h, seed)
    covariance = np.where(usable[:, :, None] & usable[:, None], covariance, 0.0)
    noise = np.maximum(square - np.einsum("saa->sa", covariance), 0.0)
    in_order = np.zeros((len(policies), task.n_states))
    in_order[:, rows.order[: rows.n_live]] = visits[:, : rows.n_live]
    return Moments(
        mean=mean,
        covariance=covariance,
        noise=noise,
        usable=usable,
        h=h,
        weight=in_order[:, :, None] * policies,
        visits=in_order[best],
        best=policies[best],
    )


def _worth(every: Problem, value: FloatArray, visits: FloatArray) -> FloatArray:
    """Return ``h`` [E] of the best policy, from values and visits ``[K, S]``."""
    rows = every.rows
    h = every.reward + every.discounts[:, None] * value[:, rows.target]
    if every.weights is None:
        return np.asarray(h[0])
    share = np.ones_like(visits)
    np.divide(visits, visits[0], share, where=visits[0] > 0)
    own = np.array(every.weights)[:, None] * share[:, rows.source[rows.row_of_entry]]
    return np.asarray((own * h).sum(axis=0))


def _covariance(
    belief: Belief, problem: Problem, h: FloatArray, seed: int
) -> FloatArray:
    """Covariance of ``x`` between actions of a state, ``[S, A, A]``."""
    layout, task, rows = belief.rows().layout, belief.task, problem.rows
    every = np.zeros(layout.next_state.size)
    every[layout.entries_of(rows.row)] = h
    found = belief.state_covariance(every)
    if found is not None:
        return found
    stream = belief.stream(_N_DRAWS, seed, "information moments").of_rows(rows.row)
    x = np.zeros((_N_DRAWS, rows.source.size))
    theta, used = np.empty((1, h.size)), np.ones(rows.source.size, dtype=np.bool_)
    for draw in range(_N_DRAWS):
        stream.fill(np.array([draw]), used, theta)
        x[draw] = rows.row_sums(theta[0] * h)
    x -= x.mean(axis=0)
    found = np.zeros((task.n_states, task.n_actions, task.n_actions))
    for _, row in rows_of_states(rows.source):
        s, at = rows.row_id[row[0], 0], rows.row_id[row, 1]
        found[s, at[:, None], at] = x[:, row].T @ x[:, row] / (_N_DRAWS - 1)
    return found


def rows_of_states(source: IntArray) -> list[tuple[int, IntArray]]:
    """Live states and their rows, in order."""
    first = np.flatnonzero(np.r_[True, np.diff(source) != 0])
    parts = np.split(np.arange(source.size), first[1:])
    return [(int(source[part[0]]), part) for part in parts]
