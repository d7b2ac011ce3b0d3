"""Safe policy improvement, as others do it, each written from its formulas.

With ``n[s, a, t]`` observed transitions, ``N[s, a]`` visits, rewards ``r[s, a, t]``
that are known, and ``b`` the baseline. All but the last plan in the model of relative
frequencies, in which a pair that was never visited ends with nothing::

    SPIBB    pi[s, a] = b[s, a] where N[s, a] < m, the rest on the best other action
                                                   (Laroche et al. 2019, Pi_b-SPIBB)
    Soft     sum_a e[s, a] max(pi[s, a] - b[s, a], 0) <= x,  e = sqrt(2 log(2 S A) / N)
                  (Lower-Approx-Soft-SPIBB, Scholl et al. 2022; greedily, action by
                  action, from the worst on)
    RaMDP    rewards less k / sqrt(N[s, a])        (Petrik et al. 2016)
    DPRL     acts only in decision points, where some action has m visits or more and
             an observed return at least that of the state, and by one of those
             actions; between decision points what was observed is taken as it was
                                                   (Sharma et al. 2025)

Policies are iterated until values stand still.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import bayesmdp as bm
from bayesmdp._typing import BoolArray, FloatArray, IntArray

_SAME = 1e-9  # values that stand still
_MOST = 1000  # rounds
Improve = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Log:
    """What a method is given: a log, its task, and the policy that made it."""

    transitions: bm.Transitions
    task: bm.Task
    baseline: FloatArray  # [S, A]

    @cached_property
    def counts(self) -> FloatArray:
        """Return observed transitions, ``[S, A, S]``."""
        found = self.transitions.counts()
        out = np.zeros((self.task.n_states, self.task.n_actions, self.task.n_states))
        out[found.state, found.action, found.next_state] = found.count
        return out

    @cached_property
    def visits(self) -> FloatArray:
        """Return visits of pairs, ``[S, A]``."""
        return np.asarray(self.counts.sum(axis=2))

    @cached_property
    def theta(self) -> FloatArray:
        """Relative frequencies; 0 for a pair without visits, ``[S, A, S]``."""
        return self.counts / np.maximum(self.visits, 1.0)[:, :, None]

    @cached_property
    def reward(self) -> FloatArray:
        """Return the mean observed reward of pairs, ``[S, A]``."""
        s, a, t = np.nonzero(self.counts)
        pays = np.zeros_like(self.counts)
        pays[s, a, t] = self.task.transition_reward(s, a, t)
        return np.asarray((self.theta * pays).sum(axis=2))

    def q(self, policy: FloatArray, reward: FloatArray) -> FloatArray:
        """Values of pairs under a policy, ``[S, A]``."""
        g, n = self.task.discount, self.task.n_states
        chain = np.einsum("sa,sat->st", policy, self.theta)
        v = np.linalg.solve(np.eye(n) - g * chain, (policy * reward).sum(axis=1))
        return np.asarray(reward + g * self.theta @ v)

    def iterate(self, improve: Improve, reward: FloatArray | None = None) -> FloatArray:
        """Evaluate and improve in turn, from the baseline on."""
        reward = self.reward if reward is None else reward
        policy, before = self.baseline, np.full(self.visits.shape, np.inf)
        for _ in range(_MOST):
            q = self.q(policy, reward)
            if np.abs(q - before).max() <= _SAME * max(np.abs(q).max(), 1.0):
                break
            policy, before = improve(q, policy), q
        return policy


def spibb(log: Log, least: int) -> FloatArray:
    """Keep the baseline's probability of pairs with fewer than ``least`` visits."""
    free = log.visits >= least
    kept = np.where(free, 0.0, log.baseline)
    rest = 1.0 - kept.sum(axis=1)

    def improve(q: FloatArray, policy: FloatArray) -> FloatArray:
        out = kept.copy()
        some = np.flatnonzero(free.any(axis=1))
        best = np.where(free, q, -np.inf).argmax(axis=1)
        out[some, best[some]] += rest[some]
        return out

    return log.iterate(improve)


def soft_spibb(log: Log, budget: float) -> FloatArray:
    """Move probability to actions as far as their errors leave room."""
    size = 2.0 * np.log(2.0 * log.visits.size)
    error = np.full(log.visits.shape, np.inf)
    np.divide(size, log.visits, error, where=log.visits > 0)
    error = np.sqrt(error)

    def improve(q: FloatArray, policy: FloatArray) -> FloatArray:
        out = np.array(
            [greedy(*x, budget) for x in zip(log.baseline, q, error, strict=True)]
        )
        worse = (out * q).sum(axis=1) < (policy * q).sum(axis=1)
        return np.where(worse[:, None], policy, out)

    return log.iterate(improve)


def greedy(
    base: FloatArray, q: FloatArray, error: FloatArray, budget: float
) -> FloatArray:
    """Return one row: what bad actions have goes where it gains most per error."""
    row = base.copy()
    for low in np.argsort(q, kind="stable"):
        gain = (q - q[low]) / error
        for high in np.argsort(-gain, kind="stable"):
            if gain[high] <= 0 or row[low] <= 0:
                break
            moved = min(row[low], budget / error[high])
            row[low] -= moved
            row[high] += moved
            budget = max(budget - moved * error[high], 0.0)
    return row


def ramdp(log: Log, weight: float) -> FloatArray:
    """Plan with rewards less ``weight`` over the root of visits.

    A pair without visits is worth the worst there is for ever; states without any
    visit keep the baseline.
    """
    seen = log.visits > 0
    some = np.asarray(seen.any(axis=1))
    observed = log.counts > 0
    s, a, t = np.nonzero(observed)
    worst = min(float(log.task.transition_reward(s, a, t).min()), 0.0)
    reward = log.reward - weight / np.sqrt(np.maximum(log.visits, 1.0))
    reward = np.where(seen, reward, worst / (1.0 - log.task.discount))

    def improve(q: FloatArray, policy: FloatArray) -> FloatArray:
        out = np.zeros_like(policy)
        out[np.arange(len(q)), np.where(seen, q, -np.inf).argmax(axis=1)] = 1.0
        return np.where(some[:, None], out, log.baseline)

    return log.iterate(improve, reward)


def dprl(log: Log, least: int) -> FloatArray:
    """Choose at decision points, follow the baseline elsewhere."""
    steps = _Steps.of(log)
    returns = steps.returns(log.task.discount)
    of_pair = _means(steps.pair, returns, log.visits.size).reshape(log.visits.shape)
    of_state = _means(steps.state, returns, log.task.n_states)
    good = of_pair >= of_state[:, None]
    choice: BoolArray = np.asarray(good & (log.visits >= least))
    point: BoolArray = np.asarray(choice.any(axis=1))
    paid, factor, to = steps.until(point, log.task.discount)
    whole: BoolArray = np.asarray(choice.ravel()[steps.pair] & (to >= 0))
    pair, value = steps.pair[whole], np.zeros(log.task.n_states)
    best = np.zeros(log.task.n_states, dtype=np.int64)
    for _ in range(_MOST):
        q = paid[whole] + factor[whole] * value[to[whole]]
        mean = _means(pair, q, choice.size).reshape(choice.shape)
        known = choice & np.isfinite(mean)
        best = np.where(known, mean, -np.inf).argmax(axis=1)
        new = np.where(
            known.any(axis=1), np.nanmax(np.where(known, mean, -np.inf), 1), 0
        )
        change, value = np.abs(new - value).max(), new
        if change <= _SAME * max(np.abs(new).max(), 1.0):
            break
    out = log.baseline.copy()
    out[point] = 0.0
    out[point, best[point]] = 1.0
    return out


def _means(key: IntArray, values: FloatArray, n: int) -> FloatArray:
    """Mean of values by key, ``[n]``; not a number where there is none."""
    total, number = np.bincount(key, values, n), np.bincount(key, minlength=n)
    return np.asarray(np.divide(total, number, np.full(n, np.nan), where=number > 0))


@dataclass(frozen=True, eq=False)
class _Steps:
    """Steps of a log in their order."""

    state: IntArray  # [T]
    pair: IntArray  # [T]
    to: IntArray  # [T]
    reward: FloatArray  # [T]
    ends: BoolArray  # [T], terminal, so that nothing follows
    last: BoolArray  # [T], of its episode

    @classmethod
    def of(cls, log: Log) -> "_Steps":
        parts = list(log.transitions.episodes())
        state, action, to = (
            np.concatenate([getattr(x, name) for x in parts])
            for name in ("state", "action", "next_state")
        )
        last = np.zeros(state.size, dtype=np.bool_)
        last[np.cumsum(np.concatenate([np.diff(x.start) for x in parts])) - 1] = True
        return cls(
            state,
            state * log.task.n_actions + action,
            to,
            log.task.transition_reward(state, action, to),
            log.task.is_terminal[to],
            last,
        )

    def returns(self, discount: float) -> FloatArray:
        """Discounted return from each step to the end of its episode, ``[T]``."""
        return self.until(np.zeros(0, dtype=bool), discount)[0]

    def until(
        self, point: BoolArray, discount: float
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        """Reward up to the next decision point, the discount there, and which it is.

        Without such a point the discount is 0; the point is -1 where the log breaks off
        before, and any state where the episode ends.
        """
        n = self.state.size
        paid, factor, to = self.reward.copy(), np.full(n, discount), self.to.copy()
        for i in range(n - 1, -1, -1):
            if self.ends[i]:
                factor[i] = 0.0
            elif point.size and point[self.to[i]]:
                pass
            elif self.last[i]:
                factor[i], to[i] = 0.0, -1
            else:
                paid[i] += discount * paid[i + 1]
                factor[i], to[i] = discount * factor[i + 1], to[i + 1]
        return paid, factor, to
