"""An instant answer without draws, from the moments of the Dirichlet rows.

To first order ``Cov(V) ~ X diag(q) X'``, and from the start
``Var(rho.V) ~ sum_s d_bar[s]^2 q[s]``, whose term of each pair says how much of the
variance it causes; to second order ``E[V] ~ V_bar + g X k`` (evaluation/_measure.py).
Good where rows have seen some data; `evaluate` with a few hundred draws tells.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Record, Sheet
from bayesmdp._typing import FloatArray, PolicyLike
from bayesmdp.errors import BayesmdpWarning, TooLargeError
from bayesmdp.model import Task, as_policy
from bayesmdp.posterior import Belief, check_belief, dirichlet_total


@dataclass(frozen=True, eq=False, repr=False)
class AnalyticEvaluation(Record):
    """Approximate value and epistemic uncertainty of a policy, without draws."""

    value: FloatArray  # [S], second order
    nominal_value: FloatArray  # [S], of the posterior-mean model
    epistemic_sd: FloatArray  # [S], first order
    start_value: float
    start_nominal_value: float
    start_epistemic_sd: float
    variance_share: FloatArray  # [S, A], share of the start's epistemic variance
    task: Task

    def _sheet(self, shown: int = 5) -> Sheet:
        title = (
            f"Value from the start about {self.start_value:.4g} (nominal "
            f"{self.start_nominal_value:.4g}), epistemic sd about "
            f"{self.start_epistemic_sd:.2g}; no draws used"
        )
        lines = []
        order = np.argsort(-self.variance_share, axis=None, kind="stable")[:shown]
        for index in order:
            state, action = (
                int(i) for i in np.unravel_index(index, self.variance_share.shape)
            )
            share = self.variance_share[state, action]
            if share > 0:
                pair = self.task.pair_name(state, action)
                lines.append(f"{share:6.1%} of the variance: {pair}")
        return Sheet(title, lines, indent="  ")

    def __repr__(self) -> str:
        return (
            f"AnalyticEvaluation(start_value={self.start_value:.4g}, "
            f"start_epistemic_sd={self.start_epistemic_sd:.3g})"
        )


def evaluate_analytic(policy: PolicyLike, posterior: Belief) -> AnalyticEvaluation:
    """Approximate a policy's value and epistemic uncertainty in closed form.

    Parameters
    ----------
    policy
        ``[S, A]`` or ``[S]``, on available pairs.
    posterior
        From `bayesmdp.fit`.

    Returns
    -------
    AnalyticEvaluation

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> data, prior = world.sample(5000, seed=0), bm.SymmetricPrior()
    >>> posterior = bm.fit(data, world.task, prior=prior)
    >>> quick = bm.evaluate_analytic(np.full((25, 4), 0.25), posterior)
    >>> slow = bm.evaluate(np.full((25, 4), 0.25), posterior.draws(2000))
    >>> bool(abs(quick.start_epistemic_sd / slow.start_epistemic_sd - 1) < 0.1)
    True
    """
    from bayesmdp import engine
    from bayesmdp.evaluation._measure import expand

    check_belief(posterior)
    posterior.task.plain("evaluate_analytic")
    dirichlet_total("evaluate_analytic", posterior)
    probabilities = as_policy(policy, posterior)
    problem = engine.Problem.of_belief(posterior, probabilities[None])
    if problem.n_live > engine.MAX_INVERSE:
        gigabytes = 8e-9 * problem.n_live**2
        raise TooLargeError(
            f"`evaluate_analytic` inverts a matrix of {problem.n_live} states "
            f"({gigabytes:.1f} GB); it is offered up to {engine.MAX_INVERSE}. Use "
            "`evaluate` with draws."
        )
    (ending,) = engine.check_ending(problem, posterior)
    if ending.warning:
        warnings.warn(ending.warning, BayesmdpWarning, stacklevel=2)
    with engine.workers(1, None) as pool:
        nominal = engine.nominal(problem, pool, control=True)
    expansion = expand(problem, nominal)
    n, task, rows = problem.n_live, posterior.task, problem.rows
    transposed = nominal.inverse[0]
    shift = task.discount * (expansion.k @ transposed)
    variance = expansion.q @ transposed**2
    terms = nominal.reference[2, 0, rows.source] ** 2 * expansion.spread
    value, second, sd = (np.zeros(task.n_states) for _ in range(3))
    value[rows.order] = nominal.reference[0, 0] + rows.terminal_value
    second[rows.order[:n]] = shift
    sd[rows.order[:n]] = np.sqrt(variance)
    variance_share = np.zeros((task.n_states, task.n_actions))
    variance_share[rows.row_id[:, 0], rows.row_id[:, 1]] = terms / (terms.sum() or 1.0)
    return AnalyticEvaluation(
        value=_checks.sealed(value + second),
        nominal_value=_checks.sealed(value),
        epistemic_sd=_checks.sealed(sd),
        start_value=float(task.start @ (value + second)),
        start_nominal_value=float(task.start @ value),
        start_epistemic_sd=float(np.sqrt(terms.sum())),
        variance_share=_checks.sealed(variance_share),
        task=task,
    )
