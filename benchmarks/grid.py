"""The paper's gridworld: our sweep against the obvious NumPy loop, in one run.

The belief is that after 1,000 transitions of the 25-state grid with wind 0.25, the
policy is uniform, and both sides compute the mean and the variance of the return for
every draw. The loop samples each row with NumPy, assembles the chain and solves twice;
its time for 10,000 draws is extrapolated from 1,000.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp import engine
from benchmarks import Row, made_with

N_DRAWS, N_LOOP, THREADS, REPEATS = 10_000, 1_000, 2, 20
UNIFORM = np.full((25, 4), 0.25)


def grid_posterior() -> bm.Posterior:
    """Posterior after 1,000 transitions, next states among the neighbours."""
    world = bm.worlds.gridworld(p_rand=0.25)
    prior = bm.SymmetricPrior(support=world.support)
    return bm.fit(world.sample(1_000, seed=0), world.task, prior=prior)


def numpy_loop(posterior: bm.Posterior, n_draws: int) -> NDArray[np.float64]:
    """Start value and return variance of each draw, ``[D, 2]``, the obvious way."""
    task, rows, g = posterior.task, posterior.layout, posterior.task.discount
    rng, identity = np.random.default_rng(0), np.eye(task.n_states)
    pairs = []
    for i, (s, a) in enumerate(zip(rows.state, rows.action, strict=True)):
        e = slice(rows.indptr[i], rows.indptr[i + 1])
        t, alpha = rows.next_state[e], posterior.alpha[e]
        r = task.transition_reward(np.full(t.size, s), np.full(t.size, a), t)
        pairs.append((s, t, r, alpha, UNIFORM[s, a]))
    out = np.empty((n_draws, 2))
    for draw in range(n_draws):
        T, b, c = np.zeros_like(identity), *np.zeros((2, task.n_states))
        theta = [rng.dirichlet(alpha) for _, _, _, alpha, _ in pairs]
        for (s, t, r, _, pi), p in zip(pairs, theta, strict=True):
            T[s, t] += pi * p
            b[s] += pi * (p @ r)
        V = np.linalg.solve(identity - g * T, b)
        for (s, t, r, _, pi), p in zip(pairs, theta, strict=True):
            c[s] += pi * (p @ (r + g * V[t]) ** 2)
        variance = np.linalg.solve(identity - g**2 * T, c - V**2)
        mean = task.start @ V
        out[draw] = mean, task.start @ (variance + (V - mean) ** 2)
    return out


def best(work: Callable[[], Any], repeats: int = REPEATS) -> tuple[float, Any]:
    """Least time of several runs, and the last result."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - began)
    return min(seconds), result


def against_the_loop(posterior: bm.Posterior) -> list[Row]:
    """Ratios of speed: draw by draw, and at equal Monte Carlo error."""
    draws = posterior.draws(N_DRAWS, seed=0)
    loop_seconds, loop = best(lambda: numpy_loop(posterior, N_LOOP), 4)
    loop_seconds *= N_DRAWS / N_LOOP
    rows = []
    for control, target in ((False, 30.0), (True, 300.0)):
        seconds, ours = best(
            lambda control=control: bm.evaluate(
                UNIFORM, draws, control=control, threads=THREADS
            )
        )
        (value, square), raw = loop.mean(axis=0), loop.std(axis=0) / N_LOOP**0.5
        sd = np.sqrt(square)
        error = np.hypot(raw[0], ours.start_value_mcse)
        sd_error = np.hypot(raw[1] / (2 * sd), ours.start_aleatoric_sd_mcse)
        gap = (ours.start_value - value) / error
        sd_gap = (ours.start_aleatoric_sd - sd) / sd_error
        gain = ours.variance_reduction
        what = "at equal Monte Carlo error" if control else "draw for draw"
        rows.append(
            Row(
                f"NumPy loop / ours, {what}",
                loop_seconds * gain / seconds,
                "x",
                ">=",
                target,
                f"value {ours.start_value:.6f} (loop {value:.4f}, {gap:+.1f} "
                f"errors), aleatoric sd {sd_gap:+.1f} errors, variance cut {gain:.3g}",
                bool(max(abs(gap), abs(sd_gap)) < 5),
            )
        )
    return rows


def with_gradient(posterior: bm.Posterior) -> Row:
    """Microseconds a draw for value, variance and gradient."""
    want = engine.Want(variance=True, gradient=True)
    draws = posterior.draws(N_DRAWS, seed=0)
    problem = engine.Problem.of_draws(draws, UNIFORM[None], every_row=True)
    with engine.workers(THREADS, None) as pool:
        nominal = engine.nominal(problem, pool, control=False)
        seconds, sums = best(
            lambda: engine.sweep(problem, nominal, N_DRAWS, want=want, pool=pool)
        )
    slope = np.zeros((25, 4))
    slope[problem.rows.row_id[:, 0], problem.rows.row_id[:, 1]] = (
        sums.row[0, 0] / N_DRAWS
    )
    step = np.zeros((25, 4))
    step[0, :2] = 1e-4, -1e-4
    ahead, behind = (
        bm.evaluate(UNIFORM + d, draws, control=False).start_value
        for d in (step, -step)
    )
    difference = (ahead - behind) / 2e-4
    gradient = slope[0, 0] - slope[0, 1]
    return Row(
        "value, variance and gradient",
        1e6 * seconds / N_DRAWS,
        "us a draw",
        "<=",
        15.0,
        f"slope {gradient:.8f}, by central differences {difference:.8f}",
        bool(abs(gradient / difference - 1) < 1e-5),
    )


def new_process(script: str) -> str:
    """Run a script in a new process; return what it prints."""
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def run() -> dict[str, Any]:
    """Measure everything; a record ready for JSON."""
    posterior = grid_posterior()
    rows = [
        *against_the_loop(posterior),
        with_gradient(posterior),
    ]
    return {
        "problem": f"{posterior!r}, uniform policy, {N_DRAWS} draws, {THREADS} threads",
        "made_with": made_with(),
        "rows": [row.as_record() for row in rows],
    }
