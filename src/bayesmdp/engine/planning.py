"""Planning for one known model: the best deterministic policy, and its value."""

import warnings
from dataclasses import dataclass

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._ending import nearest_rows
from bayesmdp.engine._planner import FAILED, methods, plan_models
from bayesmdp.engine._problem import Problem, read_only, writable
from bayesmdp.errors import BayesmdpWarning
from bayesmdp.model import Dynamics, Task
from bayesmdp.posterior import Belief, Ensemble

__all__ = ["Plan", "every_row", "plan", "problem_of", "warn_unfinished"]

_WHO = "no action ever leads to a terminal state; add one with FallbackPrior"


@dataclass(frozen=True, eq=False)
class Plan:
    """The best policy of a known model."""

    policy: FloatArray  # [S, A]
    value: FloatArray  # [S]
    iterations: int
    converged: bool
    status: str  # a message
    choice: IntArray  # [N], row of the problem each live state takes


def every_row(belief: Belief) -> Problem:
    """Problem with every available row of a belief and no policy yet."""
    draws = belief.draws() if isinstance(belief, Ensemble) else belief.draws(2)
    return Problem.of_draws(draws, _no_policy(belief.task), every_row=True)


def problem_of(dynamics: Dynamics, task: Task) -> Problem:
    """Problem with every row of a known model and no policy yet."""
    return Problem.of_dynamics(dynamics, task, _no_policy(task), every_row=True)


def _no_policy(task: Task) -> FloatArray:
    return np.zeros((1, task.n_states, task.n_actions))


def plan(problem: Problem, who: str = _WHO) -> Plan:
    """Plan for the mean model of a problem that holds every available row.

    ``who`` says of a state, where discount 1 is refused, that no policy ends from it.
    """
    task = problem.task
    if task.discount == 1.0:
        choice = nearest_rows(problem, who)
    else:  # the first row of each live state; rows are sorted by state
        choice = np.searchsorted(problem.source, np.arange(problem.n_live))
    value = np.zeros(task.n_states)
    found = np.array([FAILED])
    for method in methods(problem.n_live):
        plan_models(
            method.dense,
            method.krylov,
            0,
            task.discount,
            problem.layout,
            writable(problem.theta_bar)[None],
            read_only(problem.reward_bar[None]),
            writable(problem.terminal_bar[None]),
            read_only(np.empty(0, dtype=np.int64)),
            writable(problem.start),
            True,
            choice[None],
            value[None],
            found,
            np.empty(1),
        )
        if found[0] != FAILED:
            break
    iterations = int(found[0])
    converged = iterations > 0
    failed = iterations == FAILED
    if failed:  # nobody knows the value of what is returned
        iterations, value = 0, np.full(task.n_states, np.nan)
    policy = np.zeros((task.n_states, task.n_actions))
    policy[problem.row_id[choice, 0], problem.row_id[choice, 1]] = 1.0
    in_order = np.empty(task.n_states)
    in_order[problem.order] = value + problem.terminal_bar
    if converged:
        status = f"optimal after {iterations} exact evaluations"
    elif failed:
        status = (
            "stopped before the optimum: the value of a policy converges too slowly to "
            "be solved for; the policy returned is the best met so far"
        )
    else:
        status = (
            "stopped before the optimum: a better policy would never end, or the limit "
            "of iterations was reached; the policy returned is the best that ends"
        )
    return Plan(
        _checks.sealed(policy),
        _checks.sealed(in_order),
        abs(iterations),
        converged,
        status,
        choice,
    )


def warn_unfinished(what: str, result: Plan) -> None:
    """Say aloud where a plan is not optimal."""
    if not result.converged:
        warnings.warn(f"`{what}`: {result.status}.", BayesmdpWarning, stacklevel=3)
