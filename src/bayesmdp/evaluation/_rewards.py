"""Several rewards of one policy on the same draws.

With ``J_i`` the start value of reward ``i`` in a draw, and ``G_i`` its return::

    epistemic covariance   Cov_draws(J_i, J_j)
    aleatoric covariance   mean_draws Cov(G_i, G_j | draw)

Their diagonals are the squares of ``start_epistemic_sd`` and ``start_aleatoric_sd``,
and their sum is the covariance of two returns of one patient.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp.evaluation._errors import mean_and_mcse
from bayesmdp.evaluation._evaluation import Evaluation
from bayesmdp.posterior import Belief, Draws

if TYPE_CHECKING:
    from bayesmdp.evaluation._evaluate import Swept

#: A reward by its name, or weights by name: net benefit.
Chosen = str | Mapping[str, float]


def with_reward(draws: Draws, reward: Chosen | None) -> Draws:
    """Return the same draws with one of the task's rewards, or a sum of them."""
    if reward is None:
        return draws
    return replace(draws, belief=draws.belief.with_reward(reward))


def one_reward(belief: Belief, reward: Chosen | None, what: str) -> Belief:
    """Return a belief about one reward; refuse several where none is chosen."""
    if reward is not None:
        return belief.with_reward(reward)
    if belief.task.reward_names:
        belief.task.one_reward(what)
    return belief


def joint(swept: "Swept", evaluations: list[Evaluation]) -> Evaluation:
    """Put the evaluations of a policy's rewards together, ``[K]`` as swept."""
    task, order = swept.draws.belief.task, swept.problem.order
    names = task.reward_names
    by_place = dict(zip(order, evaluations, strict=True))
    each = {
        name: replace(by_place[k], task=task.parts[name])
        for k, name in enumerate(names)
    }
    first = each[names[0]]
    size = len(names)
    place = np.argsort(order)  # of each reward among the columns
    values = np.stack([each[name].start_values for name in names])
    ended = np.isfinite(values).all(axis=0) & (swept.sums.weights > 0)
    weights = swept.sums.weights[ended] / swept.sums.weights[ended].sum()
    belief = swept.draws.belief
    how: dict[str, Any] = {"exact": swept.draws.exact, "chain": belief.chain_noise}
    off = values[:, ended] - (values[:, ended] @ weights)[:, None]
    epistemic, over = mean_and_mcse(off[:, None] * off, weights, **how)
    if not swept.draws.exact:
        epistemic *= weights.size / max(weights.size - 1, 1)
    sds = np.array([each[name].start_aleatoric_sd for name in names])
    errors = np.array([each[name].start_aleatoric_sd_mcse for name in names])
    aleatoric, of = np.diag(sds**2), np.diag(2 * sds * errors)
    pair = np.zeros((size, size), dtype=np.int64)
    pair[np.triu_indices(size, 1)] = np.arange(size * (size - 1) // 2)
    cross, error = mean_and_mcse(swept.sums.cross[0][:, ended], weights, **how)
    for i in range(size):
        for j in range(i):
            low, high = sorted((place[i], place[j]))
            aleatoric[i, j] = aleatoric[j, i] = cross[pair[low, high]]
            of[i, j] = of[j, i] = error[pair[low, high]]
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
