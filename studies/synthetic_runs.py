"""Runs behind figures 3 and 4, their relative form and `msbi`: one job a world.

Every method learns from the same data set; all policies are then valued on common
posterior draws that chose none of them, and in three worlds that have been called the
truth:

``truth``
    the value in the world that made the data, exactly;
``rollout``
    the discounted sum of rewards over 1,000 steps in that world, a mean over
    10 roll-outs; at discount 0.999 they see 63 % of what is to come;
``last_draw``
    the value in the last posterior draw. The published scripts change the world in
    place while they evaluate, so this is what they call the truth.

The method of the paper runs as published: 1,000 steps of 256 fresh draws at rate 0.01,
from the nominal policy with half the probability moved off it. So does its rival, the
second-order policy: 1,000 steps of Adam at rate 0.01 from the same start. The paper
does not say the rates; with these the published policies come out. ``second order`` is
the maximum of the same objective. ``better of the two`` is the paper's remedy: nominal
or published gradient, whichever has the larger posterior value on draws of its own.
Multi-sample backward induction has 2,048 draws and 500 iterations, and is found twice
(see ``grid_runs``).
"""

import numpy as np

import bayesmdp as bm
from bayesmdp._typing import FloatArray
from studies.grid_runs import MSBI, ONE_DRAW, induction, plan_for_one_draw
from studies.study import Effort, Job, Record
from studies.synthetic_data import SIZES, believe, datasets, world

OURS, GRADIENT, NOMINAL = "ours", "gradient, published", "nominal"
MLE, MAXIMUM, ADAM = "MLE", "second order", "second order, published"
BETTER, EVEN = "better of the two", "uniform random"
PLACE = "synthetic"  # of jobs that several studies share
N_WORLDS = 250
SOFTNESS, RATE, N_STEPS, BATCH = 0.5, 0.01, 1000, 256
MANY = [2_048, 500]  # draws and iterations of MSBI
N_ROLLOUTS, HORIZON = 10, 1000


def jobs(effort: Effort) -> list[Job]:
    """Return one job a world; ``quick`` has few worlds, sizes and draws."""
    n_worlds = effort.seeds or (4 if effort.quick else N_WORLDS)
    more = (
        {"sizes": [1, 4, 10], "batch": 32, "msbi": [512, 100], "n_draws": 2_000}
        if effort.quick
        else {"sizes": list(SIZES), "batch": BATCH, "msbi": MANY, "n_draws": 10_000}
    )
    return [Job(f"world-{i:04}", {"number": i, **more}, PLACE) for i in range(n_worlds)]


def work(
    number: int, sizes: list[int], batch: int, msbi: list[int], n_draws: int
) -> list[Record]:
    """Learn from the data sets of one world, by every method, and judge."""
    truth, data = world(number), datasets(number)
    known = bm.Ensemble([truth.dynamics], truth.task)
    best = _at_start(truth, bm.policies.nominal(known))
    records = []
    for size in sizes:
        belief = believe(data[size], truth.task)
        policies = chosen(belief, number, batch, msbi)
        found = _judged(policies, belief, truth, number, n_draws)
        two = {name: policies[name] for name in (NOMINAL, GRADIENT)}
        # Chosen on other draws than those that judge: luck is not counted.
        table = bm.compare(two, belief.draws(2_000, seed=2 * number + 1))
        found[BETTER] = found[table.rows[0].name]
        same = {"world": number, "visits": size, "best": best}
        same |= {"batch": batch, "n_draws": n_draws}
        records += [same | {"method": name} | x for name, x in found.items()]
    return records


def chosen(
    belief: bm.Posterior, seed: int, batch: int, msbi: list[int]
) -> dict[str, FloatArray]:
    """Return the policy of each method."""
    n_states, n_actions = belief.task.n_states, belief.task.n_actions
    method = bm.StochasticGradient(RATE, batch, N_STEPS, softness=SOFTNESS)
    return {
        OURS: bm.optimise(belief, seed=seed).policy,
        MLE: bm.policies.mle(belief),
        NOMINAL: bm.policies.nominal(belief),
        MAXIMUM: bm.policies.second_order(belief),
        GRADIENT: bm.optimise(belief, method=method, seed=seed).policy,
        ADAM: published_second_order(belief),
        MSBI: induction(belief, msbi[0], msbi[1], seed),
        ONE_DRAW: plan_for_one_draw(belief),
        EVEN: np.full((n_states, n_actions), 1 / n_actions),
    }


def published_second_order(belief: bm.Posterior) -> FloatArray:
    """Climb the second-order objective as published: Adam on softmax logits."""
    from bayesmdp.engine import Problem
    from bayesmdp.engine.planning import second_order_objective

    problem = Problem.of_belief(belief)
    start = bm.policies.nominal(belief)
    n_actions = start.shape[1]
    logits = np.log(
        np.where(start > 0.5, 1 - SOFTNESS, SOFTNESS / (n_actions - 1))
    )  # [S, A]
    first, second = np.zeros_like(logits), np.zeros_like(logits)
    policy = softmax(logits)
    for step in range(1, N_STEPS + 1):
        policy = softmax(logits)  # the last step's is not used, as published
        found = second_order_objective(problem, policy.ravel())
        ahead = found.gradient.reshape(policy.shape)
        slope = policy * (ahead - (policy * ahead).sum(axis=1, keepdims=True))
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        size = np.sqrt(second / (1 - 0.999**step)) + 1e-8
        logits = logits + RATE * first / (1 - 0.9**step) / size
    return policy


def softmax(logits: FloatArray) -> FloatArray:
    """Return probabilities, row by row."""
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    found: FloatArray = weight / weight.sum(axis=1, keepdims=True)
    return found


def _judged(
    policies: dict[str, FloatArray],
    belief: bm.Posterior,
    truth: bm.MDP,
    seed: int,
    n_draws: int,
) -> dict[str, Record]:
    """Return what is found of each policy, by its name."""
    draws = belief.draws(n_draws, seed=2 * seed)
    table = bm.compare(policies, draws, reference=OURS)
    rows = {row.name: row for row in table.rows}
    last = bm.MDP(draws.dynamics(n_draws - 1), truth.task)
    walked = rollouts(truth, np.stack(list(policies.values())), seed)
    return {
        name: {
            "posterior": rows[name].value,
            "posterior_mcse": rows[name].value_mcse,
            "minus_ours": rows[name].difference,
            "minus_ours_mcse": rows[name].difference_mcse,
            "truth": _at_start(truth, policy),
            "rollout": float(walked[p]),
            "last_draw": _at_start(last, policy),
            "is_nominal": bool(np.array_equal(policy, policies[NOMINAL])),
        }
        for p, (name, policy) in enumerate(policies.items())
    }


def _at_start(world: bm.MDP, policy: FloatArray) -> float:
    return float(world.task.start @ world.value(policy))


def rollouts(world: bm.MDP, policies: FloatArray, seed: int) -> FloatArray:
    """Mean discounted return of roll-outs of each policy ``[P, S, A]``, ``[P]``.

    Policies share their random numbers, and so their start.
    """
    task, theta = world.task, world.dynamics.to_dense()
    chain = np.cumsum(np.einsum("psa,sat->pst", policies, theta), axis=2)[..., :-1]
    rng = np.random.default_rng([seed, HORIZON])
    state = rng.choice(task.n_states, size=N_ROLLOUTS, p=task.start)
    states = np.tile(state, (len(policies), 1))  # [P, roll-out]
    which = np.arange(len(policies))[:, None]
    reward = np.asarray(task.reward, dtype=np.float64)
    total = np.zeros(states.shape)
    for step in range(HORIZON):
        total += task.discount**step * reward[states]
        luck = rng.random((N_ROLLOUTS, 1))
        states = (luck > chain[which, states]).sum(axis=2)
    mean: FloatArray = total.mean(axis=1)
    return mean
