"""Off-policy estimators: returns of logged episodes, reweighted to another policy.

Each of n episodes has rows ``(s_t, a_t, r_t)``, t = 0..T-1, and return ``G = sum_t g^t
r_t``. With the behaviour policy ``b`` and ``x_t = pi(a_t|s_t) / b(a_t|s_t)``, its
weight after step t is ``w_t = x_0 .. x_t``, ``w_{-1} = 1``; an episode that is over
keeps its last weight. ``W_t`` is the sum of ``w_t`` over episodes, ``W_{-1} = n``::

    IS     mean of w_{T-1} G                  WIS    sum of w_{T-1} G / W_{T-1}
    PDIS   mean of sum_t g^t w_t r_t          PDWIS  sum_t g^t (sum of w_t r_t) / W_t
    DR     mean of sum_t g^t (w_t (r_t - Q_t(s_t, a_t)) + w_{t-1} V_t(s_t))
    WDR    sum_t g^t (sum of w_t (r_t - Q_t)) / W_t + (sum of w_{t-1} V_t) / W_{t-1}

(Precup, Sutton and Singh 2000; Jiang and Li 2016; Thomas and Brunskill 2016.) ``b`` are
the logged frequencies of actions in each state, unless it is known. Where ``b(a|s) =
0`` there is no weight, and no episode that tells what follows: ``pi`` is the policy
without such pairs, each state divided by what is left, and ``b`` where nothing is left.
Otherwise weights would not sum to 1, and what is lost would count as a return of 0.

``Q_t`` and ``V_t`` are those of ``pi`` in the maximum-likelihood model of the same log,
with as many steps to go as the longest episode has: ``V_H = 0``, ``Q_t(s, a)`` the mean
of ``r + g V_{t+1}`` over the logged rows of the pair, ``V_t(s) = sum_a pi(a|s) Q_t(s,
a)``. (Fitted Q evaluation with one parameter per pair is the same thing.) ``w_t Q_t``
and ``w_{t-1} V_t`` have the same mean, whether or not the model is right.

Effective sample sizes are ``n_t = (sum of w_t)^2 / sum of w_t^2``: of IS and WIS at the
end; of the others ``1 / n_t`` is averaged over steps, by the discounted absolute
rewards that were logged at each, for variances go with ``1 / n_t``.

Standard errors are by the jackknife over G groups of episodes: with ``e_k`` the
estimate without group k, behaviour and model made again, ``se^2 = (G - 1) / G sum_k
(e_k - mean)^2``. A bootstrap would be the obvious choice, and fails where pairs have
few visits, as in clinical logs: an episode is a good part of the frequencies that
weight it, a resample that draws it once has halved what the others add, and the product
over its steps explodes. (`docs/off_policy.md` has both.)

What is left out is said by how often each episode counts, ``times [E]``: sums over
episodes become weighted sums, and so do the counts of behaviour and model.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.model import LoggedEpisodes

ESTIMATORS = ("IS", "WIS", "PDIS", "PDWIS", "DR", "WDR")
_BY_EPISODE = ("IS", "WIS")
_MOST = 1e150  # a weight; beyond, one episode is all there is, and squares overflow


@dataclass(frozen=True, eq=False)
class Steps:
    """Rows by step, within a step the longest episode first; N rows, H steps.

    Pairs P and states are those that were logged; the number of states stands for all
    others, where nothing is known to follow.
    """

    discount: float
    order: IntArray  # [E], episodes, the longest first
    last: IntArray  # [E], row in which each ends
    begin: IntArray  # [H + 1], first row of each step
    episode: IntArray  # [N], place in `order`
    reward: FloatArray  # [N]
    faded: FloatArray  # [N], g^t
    returns: FloatArray  # [E], in that order
    row: IntArray  # [N], distinct transition (pair, next state)
    pair: IntArray  # [K], of each transition, rising
    next_state: IntArray  # [K]
    paid: FloatArray  # [K], reward of each transition
    state: IntArray  # [P], of each pair, rising
    policy: FloatArray  # [P]
    behaviour: FloatArray | None  # [P], where it is known

    @classmethod
    def of(
        cls, log: LoggedEpisodes, policy: FloatArray, behaviour: FloatArray | None
    ) -> "Steps":
        """Put rows in order, and number what was logged."""
        length = np.diff(log.start)
        order = np.argsort(-length, kind="stable")
        at = np.arange(log.n_rows) - log.start[log.episode]
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        rows = np.lexsort((rank[log.episode], at))
        begin = np.concatenate([[0], np.cumsum(np.bincount(at))])
        task = log.task
        key = log.state * task.n_actions + log.action
        triplet, first, row = np.unique(
            key * task.n_states + log.next_state, return_index=True, return_inverse=True
        )
        pairs, pair = np.unique(triplet // task.n_states, return_inverse=True)
        states, state = np.unique(pairs // task.n_actions, return_inverse=True)
        number = np.full(task.n_states, states.size)
        number[states] = np.arange(states.size)
        return cls(
            discount=task.discount,
            order=order,
            last=begin[length[order] - 1] + np.arange(order.size),
            begin=begin,
            episode=rank[log.episode[rows]],
            reward=log.reward[rows],
            faded=np.power(float(task.discount), log.step[rows]).astype(np.float64),
            returns=log.returns[order],
            row=row[rows],
            pair=pair,
            next_state=number[triplet % task.n_states],
            paid=log.reward[first],
            state=state,
            policy=policy.ravel()[pairs],
            behaviour=None if behaviour is None else behaviour.ravel()[pairs],
        )

    def estimates(self, times: FloatArray) -> FloatArray:
        """Every estimator where each episode counts so many ``times`` [E]; NaN if none.

        An estimator that divides by its weights has no value where all of these are 0.
        """
        times = times[self.order]
        n, count = times.sum(), times[self.episode]
        logged = _sums(self.row, count, self.pair.size)
        visits = _sums(self.pair, logged)
        rates = self._rates(visits)
        policy = self._restricted(rates)
        before, weight = self._weights(policy, rates)
        q, v = self._model(logged, visits, policy)
        end = times * weight[self.last]
        total = self._totals(count * weight, end)
        earned = self._by_step(count * self.faded * weight * self.reward)
        left = self._by_step(count * self.faded * weight * (self.reward - q))
        ahead = self._by_step(count * self.faded * before * v)
        with np.errstate(invalid="ignore"):  # 0 / 0: nothing to divide by
            return np.array(
                [
                    end @ self.returns / n,
                    end @ self.returns / end.sum(),
                    earned.sum() / n,
                    (earned / total).sum(),
                    (left + ahead).sum() / n,
                    (left / total + ahead / np.append(n, total[:-1])).sum(),
                ]
            )

    def effective_sizes(self) -> FloatArray:
        """Effective sample size of every estimator."""
        rates = self._rates(_sums(self.pair[self.row], np.ones_like(self.reward)))
        _, weight = self._weights(self._restricted(rates), rates)
        weight = weight / max(weight.max(), 1e-300)
        end = weight[self.last]
        first, second = self._totals(weight, end), self._totals(weight**2, end**2)
        with np.errstate(invalid="ignore", divide="ignore"):
            inverse = np.where(first > 0, second / first**2, np.inf)
            at_end = end.sum() ** 2 / (end**2).sum() if end.any() else 0.0
        share = self._by_step(self.faded * np.abs(self.reward))
        paid = share > 0
        by_step = share.sum() / (share[paid] @ inverse[paid]) if paid.any() else at_end
        return np.array(
            [at_end if name in _BY_EPISODE else by_step for name in ESTIMATORS]
        )

    def standard_errors(
        self, n_groups: int, rng: np.random.Generator, done: Callable[[], None]
    ) -> FloatArray:
        """Jackknife error of every estimator; ``done`` is called after each group."""
        group = rng.permutation(self.order.size) % max(n_groups, 1)
        without = []
        for k in range(n_groups):
            without.append(self.estimates((group != k).astype(np.float64)))
            done()
        if not without:
            return np.full(len(ESTIMATORS), np.nan)
        return np.asarray(np.std(without, axis=0) * np.sqrt(n_groups - 1.0))

    def _rates(self, visits: FloatArray) -> FloatArray:
        """Behaviour policy ``[P]``, from visits ``[P]`` where it is not known."""
        if self.behaviour is not None:
            return self.behaviour
        of_all = _sums(self.state, visits)[self.state]
        return np.divide(visits, of_all, out=np.zeros_like(visits), where=visits > 0)

    def _restricted(self, rates: FloatArray) -> FloatArray:
        """Policy ``[P]`` where the behaviour has ``rates`` [P]."""
        if self.behaviour is not None:  # restricted before, also to pairs not logged
            return self.policy
        kept = np.where(rates > 0, self.policy, 0.0)
        left = _sums(self.state, kept)[self.state]
        return np.where(left > 0, kept / np.where(left > 0, left, 1.0), rates)

    def _weights(
        self, policy: FloatArray, rates: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Weights before and after each row, from two policies ``[P]``."""
        ratio = np.zeros_like(policy)
        np.divide(policy, rates, out=ratio, where=rates > 0)
        after = ratio[self.pair][self.row]
        before = np.ones_like(after)
        for t in range(1, self.begin.size - 1):
            here = slice(self.begin[t], self.begin[t + 1])
            there = self.begin[t - 1]
            before[here] = after[there : there + here.stop - here.start]
            after[here] *= before[here]
            np.minimum(after[here], _MOST, out=after[here])
        return before, after

    def _model(
        self, logged: FloatArray, visits: FloatArray, policy: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``Q_t`` and ``V_t`` of each row, from counts ``[K]``."""
        from scipy.sparse import csr_array

        p = np.zeros_like(self.paid)
        np.divide(logged, visits[self.pair], out=p, where=logged > 0)
        start = np.searchsorted(self.pair, np.arange(self.state.size + 1))
        of_state = np.searchsorted(self.state, np.arange(self.state[-1] + 1))
        value = np.zeros(of_state.size + 1)
        lead = csr_array(
            (p, self.next_state, start), shape=(self.state.size, value.size)
        )
        reward = _sums(self.pair, p * self.paid)
        pair = self.pair[self.row]
        state = self.state[pair]
        q, v = np.empty_like(self.reward), np.empty_like(self.reward)
        for t in range(self.begin.size - 2, -1, -1):
            here = slice(self.begin[t], self.begin[t + 1])
            found = reward + self.discount * (lead @ value)
            value[:-1] = np.add.reduceat(policy * found, of_state)
            q[here], v[here] = found[pair[here]], value[state[here]]
        return q, v

    def _by_step(self, x: FloatArray) -> FloatArray:
        sums: FloatArray = np.add.reduceat(x, self.begin[:-1])
        return sums

    def _totals(self, x: FloatArray, end: FloatArray) -> FloatArray:
        """Sum over rows of each step, and over ends of episodes that are over."""
        step = np.searchsorted(self.begin, self.last, side="right") - 1
        over = np.cumsum(_sums(step, end))
        return np.asarray(self._by_step(x) + np.append(0.0, over[:-1]))


def _sums(index: IntArray, values: FloatArray, n: int = 0) -> FloatArray:
    """Sum values with the same index."""
    return np.asarray(np.bincount(index, weights=values, minlength=n), dtype=np.float64)
