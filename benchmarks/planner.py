"""The planner on the ICU-Sepsis model itself, against QuantEcon's, in one run.

QuantEcon gets its sparse form, pairs of states and actions, with terminal states that
stay where they are, and solves by modified policy iteration: to its default accuracy,
and to ours. Building either problem is not part of the time, but is told.
"""

from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack

import bayesmdp as bm
from bayesmdp.engine import Problem
from bayesmdp.engine.planning import plan
from benchmarks.grid import best

ACCURACIES = {"default": None, "1e-8": 1e-8}


def measure(repeats: int) -> dict[str, Any]:
    """Seconds of the plan, of building its problem, and of the rival."""
    world = bm.worlds.icu_sepsis()
    dynamics, task = world.dynamics, world.task
    problem = Problem.of_dynamics(dynamics, task)
    plan(problem)
    building, problem = best(lambda: Problem.of_dynamics(dynamics, task), repeats)
    seconds, found = best(lambda: plan(problem), repeats)
    out: dict[str, Any] = {
        "seconds": seconds,
        "building_seconds": building,
        "entries": int(problem.rows.target.size),
        "status": found.status,
        "converged": found.converged,
        "residual": residual(world, found.value),
    }
    if find_spec("quantecon") is None:
        return out | {"skipped": "quantecon is not installed (`make bench` does it)"}
    return out | {"rival": against(world, found.value, repeats)}


def residual(world: bm.MDP, value: np.ndarray) -> float:
    """Most that any action predicts beyond the value, or falls short of it."""
    rows, task = world.dynamics.rows, world.task
    _, paid, ahead = _pairs(world)
    q = paid + task.discount * (ahead @ value)
    most = np.full(task.n_states, -np.inf)
    np.maximum.at(most, rows.state, q)
    return float(np.abs(most - value)[task.live].max())


def _pairs(world: bm.MDP) -> tuple[np.ndarray, np.ndarray, csr_matrix]:
    """Row numbers of live pairs, rewards of all rows, and their matrix."""
    model, task, rows = world.dynamics, world.task, world.dynamics.rows
    row = rows.row_of_entry
    reward = task.transition_reward(rows.state[row], rows.action[row], rows.next_state)
    shape = rows.pair.size, task.n_states
    ahead = csr_matrix((model.probability, rows.next_state, rows.indptr), shape=shape)
    live = np.flatnonzero(~task.is_terminal[rows.state])
    return live, rows.row_sums(model.probability * reward), ahead


def against(world: bm.MDP, value: np.ndarray, repeats: int) -> dict[str, Any]:
    """Seconds of QuantEcon's modified policy iteration, and how far off it ends."""
    from quantecon.markov import DiscreteDP

    task, rows = world.task, world.dynamics.rows
    live, paid, ahead = _pairs(world)
    stay = csr_matrix(np.eye(task.n_states)[task.terminal])
    arguments = (
        np.concatenate([paid[live], np.zeros(task.terminal.size)]),
        csr_matrix(vstack([ahead[live], stay])),
        task.discount,
        np.concatenate([rows.state[live], task.terminal]),
        np.concatenate([rows.action[live], np.zeros_like(task.terminal)]),
    )
    building, process = best(lambda: DiscreteDP(*arguments), repeats)
    out: dict[str, Any] = {"building_seconds": building}
    for name, epsilon in ACCURACIES.items():
        options = {} if epsilon is None else {"epsilon": epsilon}
        process.solve(method="mpi", **options)

        def solve(options: dict[str, float] = options) -> Any:
            return process.solve(method="mpi", **options)

        seconds, found = best(solve, repeats)
        off = float(np.abs(found.v - value)[task.live].max())
        out[name] = {"seconds": seconds, "gap": off, "iterations": found.num_iter}
    return out
