"""Runs on the windy grid behind figure 2 and the first panel of `msbi`.

For each data set: MLE, nominal, second order (the maximum of Delage and Mannor's
objective; the published policies of that name are far below it) and ours
(`bm.optimise`). What takes far longer than these is found for the first ten series
only, unless everything is asked for:

``gradient``
    Algorithm 2 as published: 10,000 steps on 128 fresh draws at rate 10, from the
    nominal policy with a tenth of the probability moved off it;
``better of the two``
    the paper's remedy for where nominal is ahead of gradient: one or the other, chosen
    on draws of its own;
``MSBI``
    multi-sample backward induction with 32,768 different draws, 2,000 iterations;
``MSBI, one draw``
    the same as the authors' scripts have it. They use one posterior draw for all
    samples, which makes it a plan for that draw.
"""

import warnings

import bayesmdp as bm
from bayesmdp._typing import FloatArray
from bayesmdp.errors import BayesmdpWarning
from studies import grid_data
from studies.paired import judged
from studies.study import Effort, Job, Record

MLE, NOMINAL, SECOND = "MLE", "nominal", "second order"
GRADIENT, BETTER, OURS = "gradient", "better of the two", "ours"
MSBI, ONE_DRAW = "MSBI", "MSBI, one draw"
PLACE = "grid"  # of jobs that studies share
RATE, BATCH, N_STEPS, SOFTNESS = 10.0, 128, 10_000, 0.1
N_COSTLY = 10  # series with the costly methods
_CHOOSE, _SINGLE = 1_000_004, 1_000_005  # seeds of draws that judge nothing
_PAPER = {"n_steps": N_STEPS, "msbi": [32_768, 2_000], "n_draws": 10_000}
_QUICK = {"n_steps": 100, "msbi": [512, 50], "n_draws": 1_000}


def jobs(effort: Effort) -> list[Job]:
    """Return one job a data set."""
    n_series = effort.seeds or (2 if effort.quick else grid_data.N_SERIES)
    n_costly = n_series if effort.full else min(n_series, N_COSTLY)
    sizes = (25, 5_000) if effort.quick else grid_data.SIZES
    return [
        Job(
            f"grid-{series:02}-{size:05}",
            {
                "series": series,
                "size": size,
                "costly": series < n_costly,
                **(_QUICK if effort.quick else _PAPER),
            },
            PLACE,
        )
        for series in range(n_series)
        for size in sizes
    ]


def work(
    series: int, size: int, costly: bool, n_steps: int, msbi: list[int], n_draws: int
) -> list[Record]:
    """Find and judge the policies of one data set."""
    belief = grid_data.learnt(series, size)
    policies = {
        MLE: bm.policies.mle(belief),
        NOMINAL: bm.policies.nominal(belief),
        SECOND: bm.policies.second_order(belief),
        OURS: bm.optimise(belief, seed=series).policy,
    }
    references = [OURS]
    about = {"problem": "grid", "number": series, "size": size}
    if costly:
        policies[GRADIENT] = gradient(belief, n_steps, series)
        two = {name: policies[name] for name in (GRADIENT, NOMINAL)}
        chosen = bm.compare(two, belief.draws(n_draws, seed=_CHOOSE)).rows[0].name
        policies[BETTER] = policies[chosen]
        policies[MSBI] = induction(belief, msbi[0], msbi[1], series)
        policies[ONE_DRAW] = plan_for_one_draw(belief)
        references += [GRADIENT, NOMINAL]
        about |= {"gradient_steps": n_steps, "msbi_draws": msbi[0]}
    return [about | x for x in judged(policies, belief, n_draws, references)]


def gradient(belief: bm.Posterior, n_steps: int, seed: int) -> FloatArray:
    """Return the policy of Algorithm 2 as published."""
    method = bm.StochasticGradient(RATE, BATCH, n_steps, softness=SOFTNESS)
    return bm.optimise(belief, method=method, seed=seed).policy


def induction(
    belief: bm.Posterior, n_draws: int, max_iterations: int, seed: int
) -> FloatArray:
    """Return the policy of MSBI; to stop at the last iteration is part of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesmdpWarning)
        return bm.policies.msbi(belief, n_draws, max_iterations, seed)


def plan_for_one_draw(belief: bm.Posterior) -> FloatArray:
    """Return the policy of MSBI where all samples are one draw: the best for it."""
    draw = belief.draws(2, seed=_SINGLE).dynamics(0)
    return bm.policies.nominal(bm.Ensemble([draw], belief.task))
