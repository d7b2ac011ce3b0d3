"""From rows to counts: a large Parquet log against DuckDB, arrays against NumPy.

The log is like that of ICU-Sepsis: 716 states, 25 actions, about half a million
distinct transitions, written in four files by DuckDB from hashes of the row number,
so that every run has the same rows. Ours and DuckDB's own ``GROUP BY`` take turns, each
time in a new process, after one of each that only warms the cache of files. DuckDB is
asked in two ways: as most people would, and with ``union_by_name``, with which it looks
at the statistics of all files first and is often faster. What they count is compared by
a digest of all triplets and their counts.
"""

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import bayesmdp as bm
from benchmarks.grid import best
from benchmarks.worker import peak_bytes

N_STATES, N_ACTIONS = 716, 25
N_FILES = 4
TRIPLET = ("state", "action", "next_state")


def make(folder: str, n_rows: int) -> dict[str, Any]:
    """Write the log: episodes of ten steps, few actions often, next states nearby."""
    import duckdb

    began = time.perf_counter()
    connection = duckdb.connect()
    for part in range(N_FILES):
        low, high = (n_rows * (part + i) // N_FILES for i in (0, 1))
        # Hashes of numbers far apart: independent uniform numbers of a row.
        u = [f"hash(i + {10**12 * k})" for k in range(6)]
        state = f"{u[0]} % {N_STATES}"
        rows = f"""
            select
                (i // 10)::int as episode,
                (i % 10)::smallint as step,
                ({state})::smallint as state,
                ({u[1]} % 25 * ({u[2]} % 25 + 1) // {N_ACTIONS})::tinyint as action,
                (({state} * 31 + {u[3]} % 32 * ({u[4]} % 32) // 32) % {N_STATES})
                    ::smallint as next_state,
                ({u[5]} % 97 = 0)::int::double as reward
            from range({low}, {high}) r(i)
        """
        path = Path(folder) / f"part{part}.parquet"
        connection.execute(f"copy ({rows}) to '{path}'")
    return {
        "seconds": time.perf_counter() - began,
        "bytes": sum(path.stat().st_size for path in Path(folder).iterdir()),
    }


def ours(folder: str, threads: int) -> dict[str, Any]:
    """Read and count as users do; imports of engines are part of the time."""
    os.environ["BAYESMDP_THREADS"] = str(threads)
    began, worked = time.perf_counter(), time.process_time()
    log = bm.read_transitions(f"{folder}/*.parquet")
    counts = log.counts()
    seconds = time.perf_counter() - began
    worked = time.process_time() - worked
    peak = peak_bytes()
    began = time.perf_counter()
    log.reward_statistics()
    return {
        "seconds": seconds,
        "processor_seconds": worked,
        "peak_bytes": peak,
        "reward_seconds": time.perf_counter() - began,
        "n_rows": log.n_rows,
        "distinct": int(counts.count.size),
        "digest": digest(*(getattr(counts, name) for name in (*TRIPLET, "count"))),
    }


def rival(folder: str, threads: int, by_name: bool) -> dict[str, Any]:
    """Ask DuckDB itself, and nothing else."""
    import duckdb

    began, worked = time.perf_counter(), time.process_time()
    connection = duckdb.connect()
    connection.execute(f"set threads = {threads}")
    groups = connection.sql(
        f"select {', '.join(TRIPLET)}, count(*) as count "
        f"from read_parquet('{folder}/*.parquet', union_by_name={by_name}) group by all"
    ).fetchnumpy()
    seconds = time.perf_counter() - began
    worked = time.process_time() - worked
    order = np.lexsort(tuple(groups[name] for name in reversed(TRIPLET)))
    columns = (np.asarray(groups[name])[order] for name in (*TRIPLET, "count"))
    return {
        "by_name": by_name,
        "seconds": seconds,
        "processor_seconds": worked,
        "peak_bytes": peak_bytes(),
        "digest": digest(*columns),
    }


def digest(*columns: np.ndarray) -> str:
    """Fingerprint of whole numbers, whatever their type."""
    found = hashlib.sha256()
    for column in columns:
        found.update(np.ascontiguousarray(column, dtype=np.int64).tobytes())
    return found.hexdigest()


def arrays(n_rows: int, repeats: int) -> dict[str, Any]:
    """Count columns in memory, and the distinct ones among packed keys by NumPy."""
    rng = np.random.default_rng(0)
    state = rng.integers(0, N_STATES, n_rows)
    action = rng.integers(0, N_ACTIONS, n_rows) * rng.integers(1, 26, n_rows) // 25
    near = rng.integers(0, 32, n_rows) * rng.integers(0, 32, n_rows) // 32
    next_state = (31 * state + near) % N_STATES

    def count() -> bm.Counts:
        return bm.Transitions.from_arrays(state, action, next_state).counts()

    def unique() -> tuple[np.ndarray, np.ndarray]:
        key = (state * N_ACTIONS + action) * N_STATES + next_state
        return np.unique(key, return_counts=True)

    seconds = theirs = float("inf")
    for _ in range(repeats):  # in turns: what else runs slows down both
        took, found = best(count, 1)
        seconds = min(seconds, took)
        took, (key, total) = best(unique, 1)
        theirs = min(theirs, took)
    pair, t = np.divmod(key, N_STATES)
    wanted = digest(*np.divmod(pair, N_ACTIONS), t, total)
    same = digest(*(getattr(found, x) for x in (*TRIPLET, "count"))) == wanted
    return {
        "n_rows": n_rows,
        "distinct": int(key.size),
        "seconds": seconds,
        "unique_seconds": theirs,
        "same": same,
    }
