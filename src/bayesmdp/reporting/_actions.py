"""Values of single actions, without draws: what doing something else once would bring.

``Q[s, a]`` is the return of taking ``a`` in ``s`` and following the policy afterwards.
Around the mean model ``theta_bar``, with ``X = (I - g T_bar)^-1``, ``h[r, t]`` the
reward of row ``r = (s, a)`` and next state ``t`` plus ``g V_bar[t]``, and ``alpha0``
the row's concentration::

    w[r]    = Var_{t ~ theta_bar[r]}(h[r, t]) / (alpha0[r] + 1)
    u[r, s] = g sum_t theta_bar[r, t] X[t, s]
    q[s]    = sum_a pi[s, a]^2 w[s, a]

A row moves ``Q[r]`` by itself, and through the values of later states. To first order a
combination ``m`` of the actions of one state ``s``, ``sum_a m[a] Q[s, a]``, has with
``c = sum_a m[a] u[(s, a)]`` the epistemic variance ::

    sum_x c[x]^2 q[x] + 2 c[s] sum_a m[a] pi[s, a] w[s, a] + sum_a m[a]^2 w[s, a]

``m`` is one action, or the difference of two decisions. All sds of a state are then
scaled by one factor, which gives the policy's own value there the sd of the draws. The
posterior mean is ::

    sum_t theta_bar[r, t] (reward + g E V[t])
        + g pi[r] Cov_{t ~ theta_bar[r]}(X[t, s], h[r, t]) / (alpha0[r] + 1)

with ``E V`` from draws. The variance of one return after the action is that over next
states of ``reward + g E V[t]`` plus ``g^2`` times the mean of their total variances,
as if the row did not matter later; what is not epistemic of it is aleatoric.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.evaluation import Evaluation, tie
from bayesmdp.model import Dynamics
from bayesmdp.posterior import Belief, Ensemble, Posterior, has_dirichlet_rows

MAX_STATES = 2_000  # live ones: the inverse is dense
_BLOCK = 2_000_000  # entries of a dense block of rows


@dataclass(frozen=True, eq=False)
class ActionValues:
    """What single actions are worth; rows as in the belief's mean model."""

    value: FloatArray  # [R], posterior mean
    epistemic_sd: FloatArray | None  # [R]; None: not offered for this belief
    aleatoric_sd: FloatArray | None  # [R]
    chance: FloatArray | None  # [R], of being better than the policy's own decision
    gain: FloatArray  # [S], of the policy's decision over the reference's
    gain_sd: FloatArray | None  # [S], epistemic
    state_sd: FloatArray | None  # [S], first order, of the policy's value


def action_values(
    belief: Belief, evaluation: Evaluation, reference: FloatArray
) -> ActionValues:
    """Find values of all actions under a policy ``evaluation`` is about."""
    mean, task = belief.mean(), belief.task
    rows = mean.rows
    policy = evaluation.policy.ravel()[rows.pair]  # [R]
    change = policy - reference.ravel()[rows.pair]
    paid = _paid(belief, mean)
    after = np.where(task.is_terminal, 0.0, evaluation.value)
    worth = paid + task.discount * after[rows.next_state]
    value = rows.row_sums(mean.probability * worth)

    def gains(of_action: FloatArray) -> FloatArray:
        weighted = change * of_action
        return np.bincount(rows.state, weighted, task.n_states).astype(np.float64)

    if not has_dirichlet_rows(belief) or task.live.size > MAX_STATES:
        return ActionValues(value, None, None, None, gains(value), None, None)
    first = _FirstOrder(belief, mean, policy, paid)
    value = value + first.shift
    variance, against, gain, of_state = first.variances(change)
    same = tie(evaluation.value)
    scale = _scale(np.sqrt(of_state), evaluation.epistemic_sd, same)  # [S]
    variance, against = (x * scale[rows.state] ** 2 for x in (variance, against))
    spread = rows.row_sums(mean.probability * worth**2) - (value - first.shift) ** 2
    later = np.where(task.is_terminal, 0.0, evaluation.total_sd**2)
    spread += task.discount**2 * rows.row_sums(
        mean.probability * later[rows.next_state]
    )
    own = np.bincount(rows.state, policy * value, task.n_states)[rows.state]
    return ActionValues(
        value=value,
        epistemic_sd=np.sqrt(variance),
        aleatoric_sd=np.sqrt(np.maximum(spread - variance, 0.0)),
        chance=chance_above(value - own, np.sqrt(against), same),
        gain=gains(value),
        gain_sd=scale * np.sqrt(gain),
        state_sd=np.sqrt(of_state),
    )


def _scale(first_order: FloatArray, drawn: FloatArray, same: float) -> FloatArray:
    """Factor from first-order sds to those of draws, ``[S]``; 1 without either."""
    known = (first_order > same) & (drawn > same)
    return np.where(known, drawn, 1.0) / np.where(known, first_order, 1.0)


def chance_above(mean: FloatArray, sd: FloatArray, same: float) -> FloatArray:
    """Probability that a normal number is above 0; NaN where it is a tie for sure."""
    from scipy.special import ndtr

    moves = sd > same
    sure = np.where(np.abs(mean) > same, np.heaviside(mean, 0.0), np.nan)
    return np.where(moves, ndtr(mean / np.where(moves, sd, 1.0)), sure)


def _paid(belief: Belief, mean: Dynamics) -> FloatArray:
    """Mean reward of each entry, ``[E]``."""
    if isinstance(belief, Ensemble):
        return belief.mean_reward
    rows = mean.rows
    length = np.diff(rows.indptr)
    return belief.task.transition_reward(
        rows.state, rows.action, rows.next_state, length
    )


class _FirstOrder:
    """The expansion around the mean model; see the module."""

    def __init__(
        self, belief: Posterior, mean: Dynamics, policy: FloatArray, paid: FloatArray
    ) -> None:
        from scipy import sparse

        task, rows = belief.task, mean.rows
        self.discount, self.live, self.policy, self.rows = (
            task.discount,
            task.live,
            policy,
            rows,
        )
        n_rows = rows.pair.size
        matrix = sparse.csr_array(
            (mean.probability, rows.next_state, rows.indptr), (n_rows, task.n_states)
        )
        self.matrix = matrix[:, task.live].tocsr()  # theta_bar, [R, N]
        self.at = np.full(task.n_states, -1)
        self.at[task.live] = np.arange(task.live.size)
        where = self.at[rows.state]
        choose = sparse.csr_array(
            (policy, (where, np.arange(n_rows))), (task.live.size, n_rows)
        )
        chain: Any = choose @ self.matrix
        identity = np.eye(task.live.size)
        self.inverse = np.linalg.solve(
            identity - task.discount * chain.toarray(), identity
        )
        nominal = np.zeros(task.n_states)
        reward = rows.row_sums(mean.probability * paid)
        decided = np.bincount(where, policy * reward, task.live.size)
        nominal[task.live] = self.inverse @ decided
        h = paid + task.discount * nominal[rows.next_state]
        row = rows.row_of_entry
        h = h - rows.row_sums(mean.probability * h)[row]
        weight = 1.0 / (rows.row_sums(belief.alpha) + 1.0)
        self.w = weight * rows.row_sums(mean.probability * h**2)
        self.q = np.bincount(where, policy**2 * self.w, task.live.size)
        inside = self.at[rows.next_state] >= 0
        to_state = np.zeros(h.size)
        to_state[inside] = self.inverse[
            self.at[rows.next_state[inside]], where[row[inside]]
        ]
        covariance = rows.row_sums(mean.probability * h * to_state)
        self.shift = task.discount * policy * weight * covariance

    def variances(
        self, change: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Variances of actions, of actions minus decisions, of changes, of values."""
        n_rows = self.rows.pair.size
        alone, against = np.zeros(n_rows), np.zeros(n_rows)
        changes, values = (np.zeros(self.rows.n_states) for _ in range(2))
        for state, part, reach in self._by_state():
            own, w = self.policy[part], self.w[part]
            here = int(self.at[state])
            unit = np.eye(w.size)
            mixes = np.concatenate([unit, unit - own, change[part][None], own[None]])
            c = mixes @ reach
            found = c**2 @ self.q + mixes**2 @ w
            found += 2 * c[:, here] * (mixes @ (own * w))
            found = np.maximum(found, 0.0)
            alone[part], against[part] = found[: w.size], found[w.size : -2]
            changes[state], values[state] = found[-2:]
        return alone, against, changes, values

    def _by_state(self) -> Iterator[tuple[int, slice, FloatArray]]:
        """Rows of one state after the other, with their reach ``u``."""
        first = np.searchsorted(self.rows.state, self.live)
        last = np.searchsorted(self.rows.state, self.live, side="right")
        many = max(1, _BLOCK // max(self.live.size, 1))
        dense = self.matrix.nnz > 0.05 * self.matrix.shape[0] * self.matrix.shape[1]
        begin = end = 0
        reach: FloatArray = np.empty((0, 0))
        for i, state in enumerate(self.live.tolist()):
            if last[i] > end:
                begin = int(first[i])
                fits = int(np.searchsorted(last, begin + many)) - 1
                end = int(last[max(fits, i)])
                block: Any = self.matrix[begin:end]
                reach = self.discount * (
                    (block.toarray() if dense else block) @ self.inverse
                )
            part = slice(int(first[i]), int(last[i]))
            yield state, part, reach[part.start - begin : part.stop - begin]


def sd_check(values: ActionValues, evaluation: Evaluation) -> dict[str, float] | None:
    """Compare first-order sds of states with those of draws, before they are scaled."""
    if values.state_sd is None:
        return None
    live, drawn = evaluation.task.live, evaluation.epistemic_sd
    some = live[drawn[live] > tie(evaluation.value)]
    if not some.size:
        return None
    off = np.abs(values.state_sd[some] / drawn[some] - 1.0)
    return {
        "median": round(float(np.median(off)), 4),
        "nine_tenths": round(float(np.quantile(off, 0.9)), 4),
    }
