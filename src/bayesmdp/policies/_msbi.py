"""Multi-sample backward induction (Dimitrakakis 2011), each draw a different one."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, Seed
from bayesmdp.errors import ArgumentError, BayesmdpWarning
from bayesmdp.posterior import Belief, Draws, check_belief

if TYPE_CHECKING:
    from concurrent.futures import Executor


def msbi(
    posterior: Belief,
    n_draws: int = 2048,
    max_iterations: int = 500,
    seed: Seed = 0,
    *,
    memory_limit: int = 256_000_000,
    threads: int | None = None,
    executor: Executor | None = None,
) -> FloatArray:
    """Policy by backward induction on many draws at once, from the nominal policy.

    Keeps the best policy it settled on or met last, by exact value on its draws.
    Those draws are its own:
    ``posterior.draws`` with the same seed gives others.

    Parameters
    ----------
    posterior
        A posterior, or an ensemble, whose models are drawn by their weights.
    n_draws
        How many draws, at least 2; fewer, with a warning, where they do not fit.
    max_iterations
        When to stop.
    seed
        Which draws.
    memory_limit
        Bytes the draws may take, in each process that works on them.
    threads, executor
        As in `bayesmdp.evaluate`.

    Returns
    -------
    Array
        Deterministic policy ``[S, A]``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.synthetic(0)
    >>> posterior = bm.fit(world.sample(200, seed=0), world.task)
    >>> bm.policies.msbi(posterior, n_draws=256).shape
    (5, 5)
    """
    from bayesmdp.engine import Problem
    from bayesmdp.engine.multisample import multi_sample_induction
    from bayesmdp.engine.planning import plan

    check_belief(posterior)
    posterior.task.plain("msbi")
    n_draws = _checks.integer("n_draws", n_draws, 2, ArgumentError)
    max_iterations = _checks.integer("max_iterations", max_iterations, 1, ArgumentError)
    problem = Problem.of_belief(posterior)
    memory_limit = _checks.integer("memory_limit", memory_limit, 1, ArgumentError)
    rows = problem.rows
    size = rows.target.size + rows.source.size + rows.start.size
    fits = max(2, memory_limit // (8 * size))
    if n_draws > fits:
        warnings.warn(
            f"`msbi` uses {fits} of {n_draws} draws: more would take over "
            f"{memory_limit / 1e6:.0f} MB; raise `memory_limit` to use them.",
            BayesmdpWarning,
            stacklevel=2,
        )
        n_draws = fits
    draws = Draws(posterior, n_draws, _checks.seed_integer(seed), "msbi")
    result = multi_sample_induction(
        problem.with_stream(draws.stream),
        plan(problem).choice,
        n_draws,
        max_iterations,
        threads,
        executor,
    )
    if not result.converged and result.iterations >= max_iterations:
        warnings.warn(
            f"`msbi` {result.status}; the best policy met is returned.",
            BayesmdpWarning,
            stacklevel=2,
        )
    policy = np.zeros((posterior.task.n_states, posterior.task.n_actions))
    chosen = rows.row_id[result.choice]
    policy[chosen[:, 0], chosen[:, 1]] = 1.0
    return _checks.sealed(policy)
