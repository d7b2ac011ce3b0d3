"""The clinical belief: 18,000 simulated patients, under a conservative prior.

Pairs seen five times or more, next states that were seen or death; or, as the other
extreme, every pair and every next state with the same small concentration. Functions
here run in processes of their own (`benchmarks.worker`) and return plain numbers;
`benchmarks.scale` makes rows of them.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp import engine
from benchmarks.grid import UNIFORM, best
from benchmarks.solves import Solves
from benchmarks.sweeps import Swept, largest_gap, timed_sweep
from benchmarks.worker import Peaks, peak_bytes

Array = NDArray[np.float64]
N_PATIENTS, MIN_COUNT, CONCENTRATION = 18_000, 5, 0.072


def cohort() -> tuple[bm.Counts, bm.Task]:
    """Simulate a cohort treated as clinicians do; its counts, and the task."""
    world = bm.worlds.icu_sepsis()
    log = world.simulate(world.expert, N_PATIENTS, seed=0)
    return log.counts(), world.task


def sparse(counts: bm.Counts, task: bm.Task) -> bm.Posterior:
    """Only what was seen, or death."""
    prior = bm.SparsePrior(fallback="death")
    return bm.fit(counts, task, prior=prior, min_count=MIN_COUNT)


def uniform(posterior: bm.Posterior) -> Array:
    """Return the uniform random policy over available pairs, ``[S, A]``."""
    available = posterior.available.astype(np.float64)
    return available / np.maximum(available.sum(axis=1, keepdims=True), 1.0)


def _numbers(
    swept: Swept, dense: Swept, draws: bm.Draws, policy: Array
) -> dict[str, Any]:
    """Collect times of a draw by both solvers, and how far it is off."""
    return {
        "seconds": swept.seconds,
        "dense_seconds": dense.seconds,
        "solver": swept.nominal.solver.name,
        "products": swept.products,
        "gap": largest_gap(swept, draws, policy, 4),
        "entries": int(swept.problem.rows.target.size),
        "live_states": swept.problem.n_live,
    }


def timings(n_draws: int, repeats: int) -> dict[str, Any]:
    """Value with gradient, value with variance, and the solves alone."""
    posterior = sparse(*cohort())
    draws = posterior.draws(n_draws, seed=1)
    few = posterior.draws(16, seed=1)  # elimination takes its time
    out: dict[str, Any] = {"pairs": int(posterior.layout.pair.size)}
    for name, policy, want in (
        ("gradient", uniform(posterior), engine.Want(gradient=True)),
        ("variance", bm.policies.nominal(posterior), engine.Want(variance=True)),
    ):
        swept = timed_sweep(draws, policy, want, repeats=repeats)
        dense = timed_sweep(few, policy, want, repeats=2, solver="dense")
        out[name] = _numbers(swept, dense, draws, policy)
        out[name]["sampling_seconds"] = sampling(swept.problem, draws, repeats)
        if name == "gradient":
            out["solves"] = solves(swept, draws, repeats)
    return out


def sampling(problem: engine.Problem, draws: bm.Draws, repeats: int) -> float:
    """Seconds to sample the rows of a draw."""
    theta = np.empty((8, problem.rows.target.size))
    stream = draws.stream.of_rows(problem.rows.row)
    every = np.ones(problem.rows.source.size, dtype=np.bool_)

    def once() -> None:
        stream.fill(np.arange(8), every, theta)

    once()
    return best(once, repeats)[0] / 8


def solves(swept: Swept, draws: bm.Draws, repeats: int) -> dict[str, Any]:
    """Seconds of the two solves of a draw, three ways; the best time of each draw."""
    pair = Solves(swept.problem, swept.nominal, adjoint=True)
    n_draws, n = 8, swept.problem.n_live
    ways = {"ours": pair.ours, "lapack": pair.by_lapack, "dense": pair.eliminated}
    seconds = {name: np.full(n_draws, np.inf) for name in ways}
    gap = 0.0
    for draw in range(n_draws):
        theta = draws.dynamics(draw).probability
        found = {}
        for _ in range(repeats + 1):
            for name, way in ways.items():
                took, solutions = way(theta)
                seconds[name][draw] = min(took, seconds[name][draw])
                found[name] = solutions[:, :n]
        size = np.abs(found["lapack"]).max(axis=1)
        for name in ("ours", "dense"):
            off = np.abs(found[name] - found["lapack"]).max(axis=1)
            gap = max(gap, float((off / size).max()))
    return {
        **{f"{name}_seconds": float(took.mean()) for name, took in seconds.items()},
        "chain_entries": int(pair.chain.column.size),
        "gap": gap,
    }


def full_support(n_draws: int, repeats: int) -> dict[str, Any]:
    """Every next state possible after every pair: value and variance of a draw."""
    peaks = Peaks()
    counts, task = cohort()
    policy = bm.policies.nominal(sparse(counts, task))
    peaks.mark("cohort")
    prior = bm.SymmetricPrior(CONCENTRATION)
    posterior = bm.fit(counts, task, prior=prior)
    peaks.mark("fit")
    draws = posterior.draws(n_draws, seed=1)
    want = engine.Want(variance=True)
    swept = timed_sweep(draws, policy, want, repeats=repeats)
    peaks.mark("sweep")  # before the rival and the check, which need more
    dense = timed_sweep(draws, policy, want, repeats=1, solver="dense")
    return {
        **_numbers(swept, dense, draws, policy),
        "sampling_seconds": sampling(swept.problem, draws, repeats),
        "belief_entries": int(posterior.alpha.size),
        "peak_bytes": peaks.most,
        "peaks": peaks.steps,
    }


def hierarchical(n_draws: int, repeats: int) -> dict[str, Any]:
    """Fit the default belief; value and variance of a draw; the grid with it."""
    counts, task = cohort()
    _on_the_grid(None, 16, 1)  # kernels are loaded
    began = time.perf_counter()
    posterior = bm.fit(counts, task, min_count=MIN_COUNT)
    seconds = time.perf_counter() - began
    draws, policy = posterior.draws(n_draws, seed=1), bm.policies.nominal(posterior)
    want = engine.Want(variance=True)
    swept = timed_sweep(draws, policy, want, repeats=repeats)
    few = posterior.draws(16, seed=1)
    dense = timed_sweep(few, policy, want, repeats=2, solver="dense")
    return {
        **_numbers(swept, dense, draws, policy),
        "fit_seconds": seconds,
        "sampling_seconds": sampling(swept.problem, draws, repeats),
        "grid": {
            name: _on_the_grid(prior, 80 * n_draws, repeats)
            for name, prior in (("ours", None), ("symmetric", bm.SymmetricPrior()))
        },
    }


def _on_the_grid(prior: bm.SymmetricPrior | None, n_draws: int, repeats: int) -> float:
    """Seconds to evaluate the uniform policy after 1,000 transitions, a draw."""
    world = bm.worlds.gridworld(p_rand=0.25)
    posterior = bm.fit(world.sample(1_000, seed=0), world.task, prior=prior)
    draws = posterior.draws(n_draws, seed=0)
    work = best(lambda: bm.evaluate(UNIFORM, draws, threads=1), repeats)
    return work[0] / n_draws


def optimise(threads: int, quick: bool) -> dict[str, Any]:
    """Search for the best policy, and compare it with nominal on fresh draws."""
    posterior = sparse(*cohort())
    options: dict[str, Any] = {}
    if quick:
        method = bm.MirrorAscent(n_steps=2, tolerance=10.0)
        options = {"method": method, "starts": ["nominal"], "effort": "quick"}
    began = time.perf_counter()
    result = bm.optimise(posterior, seed=0, threads=threads, **options)
    seconds = time.perf_counter() - began
    peak = peak_bytes()
    policies = {"ours": result.policy, "nominal": bm.policies.nominal(posterior)}
    table = bm.compare(
        policies, posterior.draws(512, seed=1), reference="nominal", threads=threads
    )
    (ours,) = (row for row in table.rows if row.name == "ours")
    return {
        "seconds": seconds,
        "peak_bytes": peak,
        "value": result.start_value,
        "upper_bound": result.upper_bound,
        "minus_nominal": ours.difference,
        "minus_nominal_mcse": ours.difference_mcse,
        "starts": list(result.starts),
        "chosen_start": result.chosen_start,
        "status": result.status,
        "steps": result.steps,
    }


def sampler(n_draws: int, repeats: int) -> dict[str, Any]:
    """Sample all rows of the sparse belief, with ours and with NumPy's gammas."""
    posterior = sparse(*cohort())
    rows, alpha = posterior.layout, posterior.alpha
    stream, rng = posterior.draws(n_draws, seed=2).stream, np.random.default_rng(0)
    every = np.ones(rows.pair.size, dtype=np.bool_)
    first, length = rows.indptr[:-1], np.diff(rows.indptr)
    theta, mean = np.empty(alpha.size), np.zeros((2, alpha.size))

    def ours(draw: int) -> None:
        stream.fill(np.array([draw]), every, theta[None])

    def numpys(draw: int) -> None:
        rng.standard_gamma(alpha, out=theta)
        theta[:] /= np.repeat(np.add.reduceat(theta, first), length)

    out: dict[str, Any] = {"gammas": int(alpha.size)}
    total = np.repeat(np.add.reduceat(alpha, first), length)
    expected = alpha / total
    spread = expected * (1 - expected) / (total + 1)
    random = spread > 0  # a row of one next state is certain
    for i, (name, way) in enumerate((("ours", ours), ("numpy", numpys))):
        way(0)
        seconds = np.inf
        for _ in range(repeats):
            mean[i] = 0.0
            took = 0.0
            for draw in range(n_draws):
                began = time.perf_counter()
                way(draw)
                took += time.perf_counter() - began
                mean[i] += theta / n_draws
            seconds = min(seconds, took / n_draws)
        z = (mean[i] - expected)[random] * np.sqrt(n_draws / spread[random])
        out[name] = {"seconds": seconds, "square_of_z": float((z**2).mean())}
    out["ratio"] = out["numpy"]["seconds"] / out["ours"]["seconds"]
    return out
