"""Large sparse models: 10 actions, 5 next states each, discount 0.99, one policy.

Next states are random, so that nothing about their order helps; counts are 1 to 5, the
policy takes a random action in each state. Runs in processes of its own
(`benchmarks.worker`), one for each size, from building the counts to the values.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import bicgstab, gmres, spsolve

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp._resources import available_bytes
from benchmarks.grid import best
from benchmarks.solves import Solves
from benchmarks.sweeps import Chain, Swept, chain_of, timed_sweep
from benchmarks.worker import Peaks

Array = NDArray[np.float64]
N_ACTIONS, N_NEXT, DISCOUNT = 10, 5, 0.99
TOLERANCE = 1e-10  # of the rivals: that of our own iterations
BYTES_A_STATE = 8_000  # at most, to see beforehand whether a size fits


def random_counts(n_states: int, seed: int) -> bm.Counts:
    """Count 5 next states after every pair; a few of them coincide."""
    rng = np.random.default_rng(seed)
    shape = n_states, N_ACTIONS, N_NEXT
    # The smallest types that hold the ids, as a careful reader of a log would take.
    state = np.repeat(np.arange(n_states, dtype=np.int32), N_ACTIONS * N_NEXT)
    action = np.tile(np.repeat(np.arange(N_ACTIONS, dtype=np.int8), N_NEXT), n_states)
    return bm.Counts.from_arrays(
        state,
        action,
        rng.integers(n_states, size=shape, dtype=np.int32).ravel(),
        rng.integers(1, 6, size=shape, dtype=np.int8).ravel(),
        n_states=n_states,
        n_actions=N_ACTIONS,
    )


def random_policy(n_states: int, seed: int) -> Array:
    """One action a state, ``[S, A]``."""
    rng = np.random.default_rng(seed)
    policy = np.zeros((n_states, N_ACTIONS))
    policy[np.arange(n_states), rng.integers(N_ACTIONS, size=n_states)] = 1.0
    return policy


def one_size(n_states: int, n_draws: int, repeats: int, direct: bool) -> dict[str, Any]:
    """Seconds a draw and peak memory, and those of rivals, ``direct`` ones if asked."""
    needed, there = BYTES_A_STATE * n_states, available_bytes()
    if needed > there:
        said = f"{n_states} states: {needed / 1e9:.3g} GB needed"
        return {"skipped": f"{said}, {there / 1e9:.3g} GB free"}
    peaks, began = Peaks(), time.perf_counter()
    counts = random_counts(n_states, 0)
    peaks.mark("counts")
    reward = np.random.default_rng(1).random((n_states, N_ACTIONS))
    task = bm.Task(n_states, N_ACTIONS, reward, discount=DISCOUNT)
    posterior = bm.fit(counts, task, prior=bm.SparsePrior())
    peaks.mark("fit")
    building = time.perf_counter() - began
    draws, policy = posterior.draws(n_draws, seed=0), random_policy(n_states, 2)
    swept = timed_sweep(draws, policy, engine.Want(), repeats=repeats)
    peaks.mark("sweep")
    out = {
        "states": n_states,
        "draws": n_draws,
        "seconds": swept.seconds,
        "building_seconds": building,
        "entries": int(swept.problem.rows.target.size),
        "belief_entries": int(posterior.alpha.size),
        "products": swept.products,
        "solver": swept.nominal.solver.name,
        "peak_bytes": peaks.most,
        "peaks": peaks.steps,
    }
    chain = chain_of(draws.dynamics(0), task, policy)
    value = swept.nominal.reference[0, 0] + swept.first(1).state[0, 0]
    out["bound"] = error_bound(chain, value)
    out["rivals"] = against(swept, chain, value, repeats, direct)
    return out


def error_bound(chain: Chain, value: Array) -> float:
    """Most that values can be off by, relative to the largest, from the residual."""
    reward = chain.weight @ chain.expected(chain.reward)
    residual = value - reward - DISCOUNT * (chain.transition @ value)
    return float(np.abs(residual).max() / (1 - DISCOUNT) / np.abs(value).max())


def against(
    swept: Swept, chain: Chain, value: Array, repeats: int, direct: bool
) -> dict[str, Any]:
    """Seconds of scipy's solvers on the matrix of the first draw, and of our own."""
    n = value.size
    reward = chain.weight @ chain.expected(chain.reward)
    matrix = (eye_array(n) - DISCOUNT * chain.transition).tocsr()
    ours = Solves(swept.problem, swept.nominal, adjoint=False)
    theta = chain.probability.data
    ours.ours(theta)
    out: dict[str, Any] = {
        "ours": {"seconds": min(ours.ours(theta)[0] for _ in range(repeats))}
    }

    def measure(name: str, work: Any, times: int) -> None:
        seconds, found = best(work, times)
        bound = error_bound(chain, found)
        gap = float(np.abs(found - value).max() / np.abs(value).max())
        out[name] = {"seconds": seconds, "gap": gap, "bound": bound}

    options = {"rtol": TOLERANCE, "atol": 0.0}
    measure("bicgstab", lambda: bicgstab(matrix, reward, **options)[0], repeats)
    measure("gmres", lambda: gmres(matrix, reward, **options)[0], repeats)
    if direct:
        columns = matrix.tocsc()
        measure("spsolve", lambda: spsolve(columns, reward), 1)
    return out


def dense(sizes: list[int], repeats: int) -> dict[str, Any]:
    """Seconds of dense LU and one solution, chains of the same shape."""
    rng, points = np.random.default_rng(0), []
    for n in sizes:
        to = rng.integers(n, size=n * N_NEXT)
        p = rng.dirichlet(np.ones(N_NEXT), n).ravel()
        start = np.arange(0, n * N_NEXT + 1, N_NEXT)
        T = csr_array((p, to, start), shape=(n, n)).toarray()
        matrix, seconds = np.asfortranarray(np.eye(n) - DISCOUNT * T), np.inf
        for _ in range(repeats):
            copy = matrix.copy(order="F")
            began = time.perf_counter()
            lu = lu_factor(copy, overwrite_a=True, check_finite=False)
            found = lu_solve(lu, np.ones(n), check_finite=False)
            seconds = min(seconds, time.perf_counter() - began)
        off = float(np.abs(found * (1 - DISCOUNT) - 1).max())  # reward 1: 1 / (1 - g)
        points.append({"states": n, "seconds": seconds, "gap": off})
    return {"points": points}
