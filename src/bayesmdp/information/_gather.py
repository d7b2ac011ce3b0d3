"""A trial in a model that is taken for the truth: gather, learn, decide, value."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import BitArray, FloatArray, IntArray
from bayesmdp.engine import Pool, Problem, Want, results, solve_known
from bayesmdp.engine.planning import plan
from bayesmdp.engine.simulation import run_episodes
from bayesmdp.posterior import Belief

_WAYS = 3  # at most so many designs have walks of their own


@dataclass(frozen=True, eq=False)
class Ground:
    """What every simulated trial starts from."""

    belief: Belief
    every: Problem  # all available rows, of the mean model
    designs: FloatArray  # [G, S, A], policies that patients are treated by
    fixed: FloatArray  # [F, S, A], policies valued without a trial
    sizes: tuple[int, ...]  # [N], patients, rising
    max_steps: int
    seed: int


def simulate_trials(
    ground: Ground, n_truths: int, pool: Pool, show: Callable[[int], None]
) -> tuple[FloatArray, FloatArray]:
    """Return values after trials ``[D, G, N]``, and of fixed policies ``[D, F]``."""
    jobs = ((ground, draw, pool.backend) for draw in range(n_truths))
    after, fixed = [], []
    with results(pool, _one_truth, jobs) as found:
        for part in found:
            after.append(part[0])
            fixed.append(part[1])
            show(len(after))
    return np.stack(after), np.stack(fixed)


def _one_truth(
    ground: Ground, draw: int, backend: Any
) -> tuple[FloatArray, FloatArray]:
    """Take one draw for the truth."""
    belief, rows = ground.belief, ground.every.rows
    layout = belief.rows().layout
    theta = np.empty((1, layout.next_state.size))
    stream = belief.stream(draw + 1, ground.seed, "trial truth")
    stream.fill(np.array([draw]), np.ones(layout.pair.size, dtype=np.bool_), theta)
    chosen = []
    for number, design in enumerate(ground.designs):
        walked = _walk(ground, theta[0], design, _WAYS * draw + number)
        chosen += [_decide(ground, visits) for visits in walked]
    policies = np.concatenate([np.stack(chosen), ground.fixed])
    entries = layout.entries_of(rows.row)
    truth = replace(rows, mean=np.ascontiguousarray(theta[0, entries]))
    known = Problem(truth, rows.of_rows(policies))
    value = solve_known(known, backend, Want())[0] @ rows.start
    n = len(chosen)
    shape = len(ground.designs), len(ground.sizes)
    return value[:n].reshape(shape), value[n:]


def _walk(
    ground: Ground, theta: FloatArray, policy: FloatArray, number: int
) -> list[FloatArray]:
    """Visits of entries ``[E]`` by the first so many patients, for every size."""
    layout, task = ground.belief.rows().layout, ground.belief.task
    row_of_pair = np.full(task.n_states * task.n_actions, -1)
    row_of_pair[layout.pair] = np.arange(layout.pair.size)
    cumulative = np.cumsum(theta)
    first = np.repeat(
        cumulative[layout.indptr[:-1]] - theta[layout.indptr[:-1]],
        np.diff(layout.indptr),
    )
    key: BitArray = _checks.stream_key(ground.seed, f"trial walk {number}")
    arguments: tuple[Any, ...] = (
        key,
        ground.max_steps,
        _checks.sealed(np.cumsum(task.start)),
        _checks.sealed(np.cumsum(policy, axis=1)),
        _checks.sealed(row_of_pair),
        layout.indptr,
        layout.next_state,
        _checks.sealed(cumulative - first),
        task.is_terminal,
    )
    walk: Callable[..., None] = run_episodes
    begin = np.zeros(max(ground.sizes) + 1, dtype=np.int64)
    nothing: IntArray = np.empty(0, dtype=np.int64)
    walk(*arguments, begin, nothing, nothing)
    row, entry = np.empty((2, max(int(begin[-1]), 1)), dtype=np.int64)
    if begin[-1]:
        walk(*arguments, begin, row, entry)
    n = theta.size
    return [
        np.bincount(entry[: begin[size]], minlength=n).astype(np.float64)
        for size in ground.sizes
    ]


def _decide(ground: Ground, visits: FloatArray) -> FloatArray:
    """Return the best policy of the mean model after further visits, ``[S, A]``."""
    rows = ground.every.rows
    mean = ground.belief.mean_after(visits)
    entries = ground.belief.rows().layout.entries_of(rows.row)
    after = replace(rows, mean=np.ascontiguousarray(mean[entries]))
    return plan(replace(ground.every, rows=after)).policy


def spread(values: FloatArray, level: float = 0.8) -> tuple[float, float]:
    """Central interval of values ``[D]``."""
    ends: Sequence[float] = ((1 - level) / 2, (1 + level) / 2)
    low, high = np.quantile(values, ends)
    return float(low), float(high)
