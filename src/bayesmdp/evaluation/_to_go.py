"""Values of a policy by the number of cycles that are left.

With ``h`` of ``T`` cycles to go, at time ``t = T - h``, ::

    value[h, s] = mean over draws of  E[sum_(u >= t) w_u g^(u - t) r(s_u) | s_t = s]

with the weights ``w`` of the task's ``cycle``: that of time 0 counts with all cycles to
go only, that of the end with none. ``value[T]`` is ``evaluate(...).value``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Record, Sheet, Table, rounded
from bayesmdp._typing import FloatArray, PolicyLike, Seed
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation._errors import Size, from_moments
from bayesmdp.evaluation._evaluate import Chosen, as_draws, with_reward
from bayesmdp.model import Task, as_policy
from bayesmdp.posterior import Belief, Draws

_LEAST = 1e-200  # discount of the last cycle, below which digits are lost
_COLUMNS = 5  # states in the table
_NUMBERS = ("value", "value_mcse", "epistemic_sd", "epistemic_sd_mcse")


@dataclass(frozen=True, eq=False, repr=False)
class ValuesToGo(Record):
    """Values by cycles to go; made by `values_to_go`.

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> task = bm.Task(2, 1, [1, 0], discount=1, horizon=3)
    >>> world = bm.Ensemble(np.array([[[[0.5, 0.5]], [[0.0, 1.0]]]]), task)
    >>> bm.evaluation.values_to_go([0, 0], world).value[:, 0].tolist()
    [0.0, 1.0, 1.5, 1.75]
    """

    value: FloatArray  # [T + 1, S], with 0 .. T cycles to go
    value_mcse: FloatArray  # [T + 1, S]
    epistemic_sd: FloatArray  # [T + 1, S]
    epistemic_sd_mcse: FloatArray  # [T + 1, S]
    n_draws: int
    policy: FloatArray  # [S, A]
    task: Task = field(repr=False)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Give a row per number of cycles and state."""
        for h in range(self.value.shape[0]):
            for s in range(self.task.n_states):
                numbers = {x: float(getattr(self, x)[h, s]) for x in _NUMBERS}
                yield {"to_go": h, "state": self.task.state_name(s), **numbers}

    def _sheet(self, shown: int = 10) -> Sheet:
        live = self.task.live[:_COLUMNS].tolist()
        left = np.linspace(0, len(self.value) - 1, min(shown, len(self.value)))
        rows = [
            [str(h), *(rounded(self.value[h, s], self.value_mcse[h, s]) for s in live)]
            for h in dict.fromkeys(left.round().astype(int).tolist()[::-1])
        ]
        header = ["cycles to go", *(f"state {self.task.state_name(s)}" for s in live)]
        title = (
            "Values of a policy by cycles to go over "
            f"{_checks.many(self.n_draws, 'draw')}, discount {self.task.discount:g}"
        )
        return Sheet(title, [Table(header, rows)])

    def __repr__(self) -> str:
        said = _checks.sizes(cycle=len(self.value) - 1, draw=self.n_draws)
        return f"ValuesToGo({said})"


def values_to_go(
    policy: PolicyLike,
    draws: Draws | Belief,
    *,
    reward: Chosen | None = None,
    n_draws: int | None = None,
    seed: Seed | None = None,
) -> ValuesToGo:
    """Value of a policy in every state, by the number of cycles that are left.

    For tasks with a horizon. Memory does not grow with draws.

    Parameters
    ----------
    policy
        ``[S, A]`` probabilities or ``[S]`` actions.
    draws
        From ``posterior.draws(n, seed)``; or a posterior or an ensemble.
    reward
        Which of several rewards, or weights of those of one discount.
    n_draws, seed
        Of draws from a posterior, as in `bayesmdp.evaluate`.

    Returns
    -------
    ValuesToGo

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(2, 1, [1, 0], discount=0.9, horizon=20, cycle="half")
    >>> counts = bm.Counts.from_arrays([0] * 9, [0] * 9, [0] * 8 + [1])
    >>> posterior = bm.fit(counts, task, prior=bm.SymmetricPrior())
    >>> found = bm.evaluation.values_to_go([0, 0], posterior, n_draws=500)
    >>> found.value.shape, bool((found.value[19, 0] > found.value[5, 0]))
    ((21, 2), True)
    """
    from bayesmdp import engine
    from bayesmdp.engine.horizons import mean_values_by_time, sum_over_draws

    draws = with_reward(as_draws(draws, n_draws, seed), reward)
    belief, task = draws.belief, draws.belief.task
    task.one_reward("values_to_go", "reward")
    task.no_cost("values_to_go")
    if task.horizon is None:
        raise ArgumentError(
            "`values_to_go` needs a task with a `horizon`: without one, values do not "
            "change with time."
        )
    fade = task.discount ** np.arange(task.horizon + 1.0)
    if fade[-1] < _LEAST:
        raise ArgumentError(
            f"`discount` {task.discount:g} leaves {fade[-1]:.0e} of the last of "
            f"{task.horizon} cycles, too little to be resolved: take a shorter "
            "`horizon`, after which nothing counts."
        )
    probabilities = as_policy(policy, belief)
    problem = engine.Problem.of_draws(draws, probabilities[None])
    around, weights = mean_values_by_time(problem), draws.weights
    total = np.zeros((4, *around.shape))
    for first in range(0, draws.n_draws, engine.BLOCK):
        some = np.arange(first, min(first + engine.BLOCK, draws.n_draws))
        total += sum_over_draws(problem, some, weights[some], around)
    off, square, cube, fourth = total / weights.sum()
    size = Size(draws.n_draws, weights, draws.exact, belief.chain_noise)
    m2, nothing = np.maximum(square - off**2, 0.0), np.zeros_like(off)
    m4 = fourth - 4 * off * cube + 6 * off**2 * square - 3 * off**4
    found = from_moments(size, around + off, m2, m2, m4, nothing, nothing, nothing)

    def by_steps(values: FloatArray) -> FloatArray:
        out = np.empty_like(values)
        out[:, problem.rows.order] = (values / fade[:, None])[::-1]
        return _checks.sealed(out)

    return ValuesToGo(
        **{name: by_steps(getattr(found, name)) for name in _NUMBERS},
        n_draws=draws.n_draws,
        policy=_checks.frozen(probabilities),
        task=task,
    )
