"""Policies for a finite set of models over a finite horizon, as others make them.

Models ``m`` with weights ``p[m]`` have rows ``P[m, s, a, t]`` and expected rewards
``r[m, s, a]``. With ``T`` steps left to go, backwards from ``v = 0``::

    MVP    plan for the mean model
    WSU    a(s) maximises sum_m p[m] q[m, s, a]            (Steimle et al. 2021)
    CADP   a(t, s) maximises sum_m b[m, t, s] q[m, s, a]   (Su and Petrik 2023)

where ``q[m] = r[m] + g P[m] v[m]``, and ``v[m]`` follows the action that is chosen for
all models. ``b[m, t, s]`` is the probability of the model and of being in ``s`` at
``t`` under the policy found last; CADP begins with WSU and repeats until nothing
changes, which never makes the mean return smaller. ``clairvoyant`` plans for each model
by itself.

``percentile`` is value iteration on quantiles over models, one state at a time
(Cousins et al. 2023): ``v(s) = max_a quantile_m (r[m, s, a] + g P[m, s, a] v)``.
"""

from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Models:
    """Models of one decision process."""

    theta: FloatArray  # [M, S, A, S]
    reward: FloatArray  # [M, S, A], expected
    start: FloatArray  # [S]
    discount: float

    def q(self, v: FloatArray) -> FloatArray:
        """Values of actions, ``[M, S, A]``, before values ``[M, S]``."""
        return np.asarray(
            self.reward + self.discount * np.einsum("msat,mt->msa", self.theta, v)
        )

    def returns(self, plan: IntArray) -> FloatArray:
        """Discounted return of a plan ``[T, S]`` in each model, ``[M]``."""
        v = np.zeros(self.reward.shape[:2])
        for choice in plan[::-1]:
            v = _taken(self.q(v), choice)
        return np.asarray(v @ self.start)


def _taken(q: FloatArray, choice: IntArray) -> FloatArray:
    """Values ``[M, S]`` of the actions chosen, ``[S]``."""
    return np.asarray(q[:, np.arange(choice.size), choice])


def mvp(models: Models, horizon: int) -> IntArray:
    """Plan ``[T, S]`` for the mean of the models."""
    mean = Models(
        models.theta.mean(axis=0)[None],
        models.reward.mean(axis=0)[None],
        models.start,
        models.discount,
    )
    return wsu(mean, horizon)


def wsu(models: Models, horizon: int) -> IntArray:
    """Weight-select-update."""
    v, plan = np.zeros(models.reward.shape[:2]), []
    for _ in range(horizon):
        q = models.q(v)
        plan.append(q.mean(axis=0).argmax(axis=1))
        v = _taken(q, plan[-1])
    return np.array(plan[::-1])


def cadp(models: Models, horizon: int, most: int = 1000) -> IntArray:
    """Coordinate ascent: WSU, improved until its mean return stands still."""
    plan = wsu(models, horizon)
    value = models.returns(plan).mean()
    for _ in range(most):
        weights = _visits(models, plan)  # [T, M, S]
        v, better = np.zeros(models.reward.shape[:2]), []
        for t in range(horizon - 1, -1, -1):
            q = models.q(v)
            gain = np.einsum("ms,msa->sa", weights[t], q)
            kept = gain[np.arange(gain.shape[0]), plan[t]]
            ahead = gain.max(axis=1) > kept + 1e-12 * np.abs(kept)
            better.append(np.where(ahead, gain.argmax(axis=1), plan[t]))
            v = _taken(q, better[-1])
        plan = np.array(better[::-1])
        new = models.returns(plan).mean()
        if new <= value * (1 + 1e-12):
            break
        value = new
    return plan


def _visits(models: Models, plan: IntArray) -> FloatArray:
    """Probability of a model and of being in a state at a step, ``[T, M, S]``."""
    n_models, n_states = models.reward.shape[:2]
    d = np.tile(models.start / n_models, (n_models, 1))
    every = np.arange(n_states)
    out = []
    for choice in plan:
        out.append(d)
        d = np.einsum("ms,mst->mt", d, models.theta[:, every, choice])
    return np.array(out)


def clairvoyant(models: Models, horizon: int) -> FloatArray:
    """Best return in each model, known beforehand, ``[M]``."""
    v = np.zeros(models.reward.shape[:2])
    for _ in range(horizon):
        v = models.q(v).max(axis=2)
    return np.asarray(v @ models.start)


def percentile(models: Models, level: float, n_sweeps: int = 500) -> IntArray:
    """Stationary choice ``[S]`` of value iteration on quantiles over models."""
    v = np.zeros(models.start.size)
    for _ in range(n_sweeps):
        q = models.reward + models.discount * np.einsum("msat,t->msa", models.theta, v)
        low = np.quantile(q, level, axis=0, method="inverted_cdf")
        v = low.max(axis=1)
    return np.asarray(low.argmax(axis=1))
