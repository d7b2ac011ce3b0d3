"""One process with several threads against as many processes with one thread each.

Both sweep the same clinical draws for value and variance. Processes first get ready,
then are told to start together. What two processes reach is all that the machine can
give to two threads: they share its memory and its clock, and nothing else.
"""

import hashlib
import sys
import time
from contextlib import suppress
from typing import Any

from benchmarks import worker

PATIENCE = 3.0  # seconds that one measurement should take, at least


def measure(threads: int, n_draws: int) -> dict[str, Any]:
    """Sweep ``n_draws`` draws when told to; say how long it took and what came out."""
    import bayesmdp as bm
    from bayesmdp import engine
    from benchmarks.clinical import cohort, sparse

    posterior = sparse(*cohort())
    policy = bm.policies.nominal(posterior)
    want = engine.Want(variance=True)
    problem = engine.Problem.of_draws(posterior.draws(2, seed=1), policy[None])
    with engine.workers(threads, None) as pool:
        nominal = engine.nominal(problem, pool, control=False, want=want)
        engine.sweep(problem, nominal, 64, want=want, pool=pool)
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.perf_counter()
        sums = engine.sweep(problem, nominal, n_draws, want=want, pool=pool)
        seconds = time.perf_counter() - began
    digest = hashlib.sha256(sums.state.tobytes() + sums.start.tobytes())
    return {"draws_a_second": n_draws / seconds, "bits": digest.hexdigest()}


def together(processes: int, threads: int, n_draws: int) -> list[dict[str, Any]]:
    """Run processes side by side, begun at the same time."""
    started = [
        worker.start("threads", threads=threads, n_draws=n_draws)
        for _ in range(processes)
    ]
    for process in started:
        if process.stdout is not None:
            process.stdout.readline()
    for process in started:
        if process.stdin is not None:
            with suppress(BrokenPipeError):  # it failed: `finish` says why
                process.stdin.write("go\n")
                process.stdin.flush()
    return [worker.finish(process) for process in started]


def compare(threads: int, rounds: int, seconds: float = PATIENCE) -> dict[str, Any]:
    """Draws a second of one thread, of several, and of as many processes."""
    (first,) = together(1, 1, 512)  # also compiles, and says how many draws it takes
    n_draws = int(seconds * first["draws_a_second"])
    n_draws = max(16 * (n_draws // 16), 512)
    alone, joint, apart = [], [], []
    for _ in range(rounds):
        alone += together(1, 1, n_draws)
        joint += together(1, threads, n_draws * threads)
        apart.append(together(threads, 1, n_draws))
    rates = {
        "one_thread": max(found["draws_a_second"] for found in alone),
        "threads": max(found["draws_a_second"] for found in joint),
        "processes": max(sum(p["draws_a_second"] for p in side) for side in apart),
    }
    bits = {found["bits"] for found in together(1, threads, n_draws)}
    return {
        **rates,
        "n_threads": threads,
        "draws": n_draws,
        "efficiency": rates["threads"] / rates["processes"],
        "speed_up": rates["threads"] / rates["one_thread"],
        "same_bits": bits == {found["bits"] for found in alone},
    }
