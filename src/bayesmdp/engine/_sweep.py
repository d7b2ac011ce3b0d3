"""One sweep over draws, for whoever needs it: the narrow waist of the package.

`sweep` runs the compiled loop over ranges of draws on an executor and joins the blocks
in order, so that the result depends neither on the number of threads nor on how the
draws were split.
Work space is one model a thread; nothing grows with draws times model size. Another
solver or device is another ``_run``.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import BoolArray, FloatArray
from bayesmdp.engine import _kernel as kernel
from bayesmdp.engine._nominal import MAX_INVERSE, Nominal, blank, inverses
from bayesmdp.engine._problem import Problem, read_only
from bayesmdp.errors import ArgumentError, EndlessError

BLOCK = 16  # draws reduced together; part of the definition of a result


@dataclass(frozen=True)
class Want:
    """What a sweep computes beside the value."""

    variance: bool = False
    occupancy: bool = False
    gradient: bool = False

    def bits(self, control: bool) -> int:
        """Return the flags as the kernel reads them."""
        return (
            kernel.VARIANCE * self.variance
            + kernel.OCCUPANCY * self.occupancy
            + kernel.GRADIENT * self.gradient
            + kernel.CONTROL * control
        )


@dataclass(frozen=True, eq=False)
class Sums:
    """Joined results of a range of draws."""

    state: FloatArray  # [P, 17, S], channels as in the kernel
    row: FloatArray  # [P, 2, R], gradient and its square; or [P, 2, 0]
    start: FloatArray  # [P, 4, D]
    ended: BoolArray  # [P, D]
    weights: FloatArray  # [D]

    @property
    def n_draws(self) -> int:
        """Number of draws."""
        return int(self.weights.size)


Progress = Callable[[int], None]
Pool = tuple[Executor, int]  # and how many tasks to keep in flight


@contextmanager
def workers(threads: int | None, executor: Executor | None) -> Iterator[Pool]:
    """Open an executor for one or several sweeps, with how many tasks to keep busy."""
    n = _checks.thread_count(threads)
    if executor is not None:
        _checks.of_type("executor", executor, Executor, ArgumentError)
        yield executor, 2 * n
        return
    pool = ThreadPoolExecutor(n)
    try:
        yield pool, 2 * n
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def sweep(
    problem: Problem,
    nominal: Nominal,
    n_draws: int,
    *,
    want: Want,
    pool: Pool,
    first: int = 0,
    weights: FloatArray | None = None,
    after: Sums | None = None,
    progress: Progress | None = None,
) -> Sums:
    """Sweep ``n_draws`` draws of a problem.

    Parameters
    ----------
    problem
        Arrays of the belief and the policies.
    nominal
        Reference model.
    n_draws
        How many, those of ``after`` included.
    want
        What to compute beside the value.
    pool
        Executor and tasks in flight, from `workers`.
    first
        Number of the first draw.
    weights
        One a draw, ``[D]``; 1 where not given.
    after
        Earlier result to go on from; its draws, a multiple of the block, are not
        computed again.
    progress
        Called with the number of draws done.
    """
    done = 0 if after is None else after.n_draws
    if done % BLOCK:
        raise AssertionError("a sweep goes on at the end of a whole block")
    w = np.ones(n_draws) if weights is None else weights
    if w.size != n_draws or (
        problem.table.shape[0] and first + n_draws > problem.member.size
    ):
        raise AssertionError("a sweep needs a weight and a model for every draw")
    bits = want.bits(nominal.controls)
    executor, in_flight = pool
    total = _Total(after)
    pending: deque[Future[_Part]] = deque()
    ranges = _ranges(done, n_draws, in_flight)
    try:
        while True:
            for begin, stop in islice(ranges, in_flight - len(pending)):
                job = (problem, nominal, bits, first + begin, w[begin:stop])
                pending.append(executor.submit(_run, *job))
            if not pending:
                return total.sums(w)
            total.add(pending.popleft().result())
            if progress is not None:
                progress(total.n_draws)
    finally:
        for future in pending:
            future.cancel()


class _Total:
    """Joins parts in the order of the draws."""

    def __init__(self, after: Sums | None) -> None:
        self.state: FloatArray | float = 0.0 if after is None else after.state
        self.row: FloatArray | float = 0.0 if after is None else after.row
        self.start = [] if after is None else [after.start]
        self.ended = [] if after is None else [after.ended]

    @property
    def n_draws(self) -> int:
        """Draws joined so far."""
        return sum(part.shape[1] for part in self.ended)

    def add(self, part: "_Part") -> None:
        """Add the blocks of the next part, one after the other."""
        for block_state, block_row in zip(part.state, part.row, strict=True):
            self.state = self.state + block_state
            self.row = self.row + block_row
        self.start.append(part.start)
        self.ended.append(part.ended)

    def sums(self, weights: FloatArray) -> Sums:
        """Return everything joined."""
        return Sums(
            state=np.asarray(self.state),
            row=np.asarray(self.row),
            start=np.concatenate(self.start, axis=2),
            ended=np.concatenate(self.ended, axis=1),
            weights=weights,
        )


@dataclass(frozen=True, eq=False)
class _Part:
    """Results of one task, blocks apart."""

    state: FloatArray  # [B, P, 17, S]
    row: FloatArray  # [B, P, 2, R]
    start: FloatArray  # [P, 4, D]
    ended: BoolArray  # [P, D]


def _ranges(first: int, stop: int, in_flight: int) -> Iterator[tuple[int, int]]:
    """Split draws into tasks of whole blocks: several a worker, none too small."""
    blocks = -(-(stop - first) // BLOCK)
    size = BLOCK * min(max(blocks // (2 * in_flight), 1), 16)
    for begin in range(first, stop, size):
        yield begin, min(begin + size, stop)


def _run(
    problem: Problem, nominal: Nominal, bits: int, first: int, weights: FloatArray
) -> _Part:
    """Sweep one range on the CPU with the dense solver."""
    n = weights.size
    n_blocks = -(-n // BLOCK)
    n_policies, n_rows = problem.policies.shape
    n_slopes = n_rows if bits & kernel.GRADIENT else 0
    part = _Part(
        state=np.zeros((n_blocks, n_policies, kernel.N_CHANNELS, problem.start.size)),
        row=np.zeros((n_blocks, n_policies, 2, n_slopes)),
        start=np.zeros((n_policies, kernel.N_START, n)),
        ended=np.zeros((n_policies, n), dtype=np.bool_),
    )
    kernel.sweep_blocks(
        first,
        first + n,
        BLOCK,
        bits,
        problem.task.discount,
        problem.n_live,
        problem.layout,
        problem.models,
        read_only(problem.policies),
        read_only(problem.start),
        read_only(weights),
        read_only(nominal.reference),
        read_only(nominal.theta_bar),
        read_only(nominal.inverse),
        part.state,
        part.row,
        part.start,
        part.ended,
    )
    return part


def solve_known(problem: Problem) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Value, return variance and occupancy of the nominal model, each ``[P, S]``.

    In sweep order, terminal values not added.
    """
    bits = Want(variance=True, occupancy=True).bits(control=False)
    part = _run(problem.nominal(), blank(problem), bits, 0, np.ones(1))
    if not part.ended.all():
        raise EndlessError(
            "Episodes of this policy are too long to resolve; use a smaller discount."
        )
    state = part.state[0]
    return state[:, kernel.V], state[:, kernel.R], state[:, kernel.D]


def nominal(problem: Problem, *, control: bool) -> Nominal:
    """Solve the nominal model; with ``control``, form its inverse where it fits."""
    reference = np.stack(solve_known(problem))
    control = control and problem.n_live <= MAX_INVERSE
    inverse = inverses(problem) if control else blank(problem).inverse
    return Nominal(reference, problem.theta_bar, inverse)


@dataclass(frozen=True, eq=False)
class Slopes:
    """Gradient of one policy's start value, averaged over draws."""

    value: float  # mean start value
    slope: FloatArray  # [R], mean of d (Q - V)
    noise: FloatArray  # [R], variance of that mean
    visits: FloatArray  # [N], mean occupancy


def slopes(
    problem: Problem,
    policy: FloatArray,
    n_draws: int,
    *,
    pool: Pool,
    first: int = 0,
    weights: FloatArray | None = None,
) -> Slopes:
    """Gradient of a policy ``[R]`` on draws of a problem that holds every row.

    With ``weights`` the draws are all there are, and the noise is 0.
    """
    one = replace(problem, policies=policy[None])
    want = Want(gradient=True)
    sums = sweep(
        one, blank(one), n_draws, want=want, pool=pool, first=first, weights=weights
    )
    ended = sums.ended[0]
    total = sums.weights[ended].sum()
    mean = sums.row[0, 0] / total
    spread = np.maximum(sums.row[0, 1] / total - mean**2, 0.0)
    exact = weights is not None
    return Slopes(
        value=float(sums.start[0, 0, ended] @ sums.weights[ended] / total),
        slope=mean,
        noise=np.zeros_like(mean) if exact else spread / max(int(ended.sum()) - 1, 1),
        visits=sums.state[0, kernel.D, : problem.n_live] / total,
    )
