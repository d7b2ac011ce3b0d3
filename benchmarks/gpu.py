"""A GPU beside two CPU threads: the same draws, the same values, in one run.

Times are of whole sweeps, sampling, copies and Python included, and the best of
several; the CPU's are of fewer draws and scaled, or of fewer repeats. A block of draws
is one thread's: sizes of the CPU are several blocks, or its row says that one thread
worked. Where there is no GPU there is nothing to measure, and a sentence says so.
"""

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.engine import BLOCK, Want
from benchmarks import Row, made_with
from benchmarks.clinical import CONCENTRATION, MIN_COUNT, cohort, sparse, uniform
from benchmarks.tables import table

_REPEATS = 7
_ACCURATE = 1e-9  # of the largest value
_SAME_DRAW = 1e-12  # relative


def _best(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    seconds, found = np.inf, None
    for _ in range(repeats):
        began = time.perf_counter()
        found = work()
        seconds = min(seconds, time.perf_counter() - began)
    return seconds, found


def _swept(
    posterior: Any, policy: Any, want: Want, n: int, n_cpu: int
) -> dict[str, Any]:
    """Sweep on both, and compare what is told of the draws that both have."""
    draws = posterior.draws(n, seed=1)
    problem = engine.Problem.of_draws(draws, policy[None], every_row=want.gradient)
    out: dict[str, Any] = {"draws": n, "entries": int(problem.rows.target.size)}
    out["cpu_draws"] = n_cpu
    found = {}
    for device, size, repeats in (("cuda", n, _REPEATS), ("cpu", n_cpu, 2)):
        with engine.workers(2, None, device) as pool:
            around = engine.nominal(problem, pool, control=False, want=want)
            go = {"want": want, "pool": pool}
            engine.sweep(problem, around, min(size, 64), **go)
            seconds, sums = _best(
                lambda a=around, s=size, g=go: engine.sweep(problem, a, s, **g), repeats
            )
        out[device] = seconds * n / size
        found[device] = sums
    gpu, cpu = found["cuda"].start[:, :, :n_cpu], found["cpu"].start[:, :, :n_cpu]
    size = np.abs(cpu).max(axis=(0, 2), keepdims=True)
    size[:, 1:2] = np.maximum(size[:, 1:2], 1e-3 * size[:, :1] ** 2)  # of a variance
    out["gap"] = float((np.abs(gpu - cpu) / np.maximum(size, 1e-300)).max())
    out["retried"] = int(found["cuda"].retried.sum())
    with engine.workers(1, None, "cuda") as pool:
        around = engine.nominal(problem, pool, control=False, want=want)
        again = engine.sweep(problem, around, n, want=want, pool=pool)
    same = np.array_equal(again.start, found["cuda"].start)
    out["same_bits"] = bool(same and np.array_equal(again.row, found["cuda"].row))
    return out


def _draws_gap(posterior: Any) -> float:
    """Largest relative difference of an entry of a draw, and the CPU's."""
    from bayesmdp.engine._gpu_device import first_device
    from bayesmdp.engine._gpu_sampling import sampled

    stream, rows = posterior.draws(64, seed=2).stream, posterior.rows().layout
    numbers, every = np.arange(64), np.ones(rows.pair.size, dtype=np.bool_)
    ours = np.empty((64, rows.next_state.size))
    stream.fill(numbers, every, ours)
    device = first_device()
    found = sampled(device, stream, numbers, every, ours.shape[1])
    theirs = device.get(device.by_draw(found, numbers.size))
    return float((np.abs(theirs - ours) / np.maximum(ours, 1e-290)).max())


def _searched(posterior: Any) -> dict[str, Any]:
    """Search on both; the second time, since kernels are compiled on the first."""
    out: dict[str, Any] = {}
    bm.optimise(posterior, seed=0, effort="quick", device="cuda")
    for device in ("cuda", "cpu"):
        seconds, found = _best(
            lambda d=device: bm.optimise(posterior, seed=0, threads=2, device=d), 2
        )
        out[device] = seconds
        out[f"{device}_value"] = found.start_value
        out["error"] = found.start_value_mcse
    return out


def _row(
    name: str, found: dict[str, Any], unit: str, target: float | None, **more: Any
) -> Row:
    scale = {"ms": 1e3, "s": 1.0}[unit]
    ratio = found["cpu"] / found["cuda"]
    right = found["gap"] <= _ACCURATE and found["same_bits"]
    same = "the same bits again" if found["same_bits"] else "OTHER BITS"
    left = f"{found['retried']} draws left to the CPU"
    check = f"largest difference {found['gap']:.0e}; {same}; {left}"
    threads = "two CPU threads" if found["cpu_draws"] > BLOCK else "one CPU thread"
    rival = f"{threads} {scale * found['cpu']:,.0f} {unit}, {ratio:,.1f} times"
    measured = scale * found["cuda"]
    return Row(name, measured, unit, "<=", target, check, right, rival)


def _draws_row(name: str, gap: float) -> Row:
    what = f"largest relative difference of a probability, {name}"
    check = "beside the CPU's draws"
    return Row(what, gap, "", "<=", _SAME_DRAW, check, gap <= _SAME_DRAW)


def run() -> dict[str, Any]:
    """Measure all sizes."""
    from bayesmdp.engine._gpu_device import first_device

    device = first_device()
    counts, task = cohort()
    posterior = sparse(counts, task)
    nominal, even = bm.policies.nominal(posterior), uniform(posterior)
    hierarchical = bm.fit(counts, task, min_count=MIN_COUNT)
    best = bm.policies.nominal(hierarchical)
    wide = bm.fit(counts, task, prior=bm.SymmetricPrior(CONCENTRATION))
    world = bm.worlds.gridworld()
    grid = bm.fit(world.sample(1000, seed=0), world.task, prior=bm.SymmetricPrior())
    variance, gradient = Want(variance=True), Want(gradient=True)
    rows, found_by = [], []
    for name, given, target in (
        ("512 clinical gradients", (posterior, even, gradient, 512, 64), 2.5),
        ("10,000 clinical draws", (posterior, nominal, variance, 10_000, 256), 15.0),
        ("512 gradients, hierarchical", (hierarchical, even, gradient, 512, 32), None),
        (
            "10,000 draws, hierarchical",
            (hierarchical, best, variance, 10_000, 128),
            None,
        ),
        ("512 draws, full support", (wide, nominal, variance, 512, 64), None),
        (
            "100,000 draws, 25 states",
            (grid, np.full((25, 4), 0.25), variance, 100_000, 10_000),
            None,
        ),
    ):
        found = _swept(*given)
        found_by.append({"name": name, **found})
        rows.append(_row(name, found, "ms", target))
    rows.append(_large())
    searched = _searched(posterior)
    off = abs(searched["cuda_value"] - searched["cpu_value"])
    said = f"value {searched['cuda_value']:.6f}, the CPU's {searched['cpu_value']:.6f}"
    rival = f"two CPU threads {searched['cpu']:.2f} s"
    good = off <= 3 * searched["error"]
    rows.append(
        Row("optimise, 716 states", searched["cuda"], "s", "<=", 1.0, said, good, rival)
    )
    uneven = bm.SparsePrior(CONCENTRATION, fallback="death")  # no shape is whole
    shapes = bm.fit(counts, task, prior=uneven, min_count=MIN_COUNT)
    for name, belief in (("sparse", shapes), ("hierarchical", hierarchical)):
        rows.append(_draws_row(name, _draws_gap(belief)))
    made = made_with() | {"gpu": device.name, "cuda": _versions(device)}
    return {
        "problem": "a GPU beside two CPU threads of the same machine",
        "made_with": made,
        "rows": [row.as_record() for row in rows],
        "load": os.getloadavg()[0],
        "table": found_by,
        "date": time.strftime("%Y-%m-%d"),
    }


def _large() -> Row:
    """Evaluate a chain of a million states that lead to few others, two draws."""
    n, rng = 1_000_000, np.random.default_rng(0)
    state = np.repeat(np.arange(n), 3)
    after = np.minimum(state + rng.integers(-2, 8, state.size), n - 1)
    after[state == n - 1] = n - 1
    counts = bm.Counts.from_arrays(state, np.zeros_like(state), np.maximum(after, 0))
    task = bm.Task(n, 1, rng.random(n), discount=0.9, start=0)
    posterior = bm.fit(counts, task, prior=bm.SparsePrior())
    found = _swept(posterior, np.ones((n, 1)), Want(variance=True), 2, 2)
    return _row("a million states, two draws", found, "ms", None)


def _versions(device: Any) -> str:
    runtime = device.xp.cuda.runtime
    versions = runtime.runtimeGetVersion(), runtime.driverGetVersion()
    cuda, driver = (f"{x // 1000}.{x % 1000 // 10}" for x in versions)
    return f"{cuda}, driver for {driver}, CuPy {device.xp.__version__}"


def _said(x: float) -> str:
    return f"{x:,.0f}" if x >= 1000 else f"{x:.3g}"


def gpu_table(record: dict[str, Any]) -> str:
    """Write the record for ``docs/gpu.md``."""
    made = record["made_with"]
    lines = [
        [
            row["what"],
            f"{_said(row['measured'])} {row['unit']}".strip(),
            "" if row["target"] is None else f"{row['target']:g}",
            row["rival"],
            row["check"] if row["correct"] else f"WRONG: {row['check']}",
        ]
        for row in record["rows"]
    ]
    said = (
        f"{record['date']}, {made['gpu']}, CUDA {made['cuda']}; CPU "
        f"{made['processor']}, numba {made['numba']}; load {record['load']:.1f}."
    )
    head = ["", "GPU", "aimed at", "CPU", "checked"]
    return "\n".join([said, "", *table(head, lines)])
