"""One sweep over draws, for whoever needs it: the narrow waist of the package.

`sweep` runs the compiled loop over ranges of draws on an executor and joins them in a
fixed tree (`bayesmdp.engine._join`), so that the result depends neither on the number
of threads nor on how the draws were split.
Work space is one model a thread; nothing grows with draws times model size. Another
device is another ``_run``.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray, StatusArray
from bayesmdp.engine import _reduce as channels
from bayesmdp.engine import _solve as solving
from bayesmdp.engine._choose import Solver, choose, direct, quick_direct
from bayesmdp.engine._footprint import blocks_a_task, check_memory
from bayesmdp.engine._join import BLOCK, Joiner, Sums
from bayesmdp.engine._kernel import sweep_blocks
from bayesmdp.engine._nominal import (
    MAX_INVERSE,
    Nominal,
    blank,
    inverses,
    lacks_digits,
)
from bayesmdp.engine._problem import Problem, read_only, writable
from bayesmdp.engine._workers import Inline, Pool, results
from bayesmdp.errors import ConvergenceError, EndlessError, TooLargeError


@dataclass(frozen=True)
class Want:
    """What a sweep computes beside the value."""

    variance: bool = False
    occupancy: bool = False
    gradient: bool = False

    def bits(self, control: bool = False, every_state: bool = False) -> int:
        """Return the flags as the kernel reads them."""
        return (
            solving.VARIANCE * self.variance
            + solving.OCCUPANCY * self.occupancy
            + solving.GRADIENT * self.gradient
            + solving.CONTROL * control
            + solving.CONTROL_STATES * (control and every_state)
        )

    @property
    def adjoint(self) -> bool:
        """Whether visits are solved for."""
        return self.occupancy or self.gradient


Progress = Callable[[int], None]


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
    w = np.ones(n_draws) if weights is None else weights
    _check_range(problem, done, first, n_draws, w)
    bits = want.bits(nominal.controls, nominal.every_state)
    executor, in_flight = pool
    method = nominal.solver.method
    blocks = blocks_a_task(problem, method, bits, n_draws - done, in_flight)
    if isinstance(executor, ThreadPoolExecutor):  # others have a memory of their own
        check_memory(problem, method, bits, n_draws - done, in_flight // 2)
        pool = (Inline(), 2) if blocks * BLOCK >= n_draws - done else pool
    total = Joiner()
    if after is not None:
        total.add(after)
    jobs = (
        (problem, nominal, bits, first + begin, w[begin:stop])
        for begin, stop in _ranges(done, n_draws, blocks)
    )
    with results(pool, _run, jobs) as parts:
        for part in parts:
            total.add(part)
            if progress is not None:
                progress(total.n_draws)
    return total.sums()


def _check_range(
    problem: Problem, done: int, first: int, n_draws: int, weights: FloatArray
) -> None:
    if done % BLOCK or first % BLOCK:
        raise AssertionError("a sweep goes on at the end of a whole block")
    if weights.size != n_draws or 0 < problem.member.size < first + n_draws:
        raise AssertionError("a sweep needs a weight and a model for every draw")


def _ranges(first: int, stop: int, blocks: int) -> Iterator[tuple[int, int]]:
    """Split draws into tasks of so many blocks."""
    for begin in range(first, stop, blocks * BLOCK):
        yield begin, min(begin + blocks * BLOCK, stop)


def _run(
    problem: Problem, nominal: Nominal, bits: int, first: int, weights: FloatArray
) -> Sums:
    """Sweep one range on the CPU; what iterations do not solve, elimination may."""
    n = weights.size
    n_blocks = -(-n // BLOCK)
    n_policies, n_rows = problem.policies.shape
    n_slopes = n_rows if bits & solving.GRADIENT else 0
    n_channels = channels.n_channels(bits)
    state = np.zeros((n_blocks, n_policies, n_channels, problem.start.size))
    row = np.zeros((n_blocks, n_policies, 2, n_slopes))
    start = np.zeros((n_policies, channels.N_START, n))
    status = np.zeros((n_policies, n), dtype=np.int8)
    products = np.zeros((n_policies, n), dtype=np.int64)

    def sweep_with(method: solving.Method) -> None:
        sweep_blocks(
            first,
            first + n,
            BLOCK,
            bits,
            problem.task.discount,
            method.dense,
            method.band,
            method.krylov,
            problem.groups,
            problem.layout,
            problem.models,
            read_only(problem.used),
            read_only(problem.policies),
            writable(problem.start),
            read_only(weights),
            nominal.references(problem.n_live),
            nominal.theta_bar.copy(),
            solving.make_space(
                method, problem.n_live, problem.start.size, problem.target.size
            ),
            state,
            row,
            start,
            status,
            products,
        )

    sweep_with(nominal.solver.method)
    failed = status == solving.UNSOLVED
    if failed.any():
        _retry(problem, failed, status, sweep_with)
    total = Joiner()
    total.add_blocks(first // BLOCK, state, row)
    return Sums(total.nodes, start, status, products, weights)


def _retry(
    problem: Problem,
    failed: BoolArray,
    status: StatusArray,
    sweep_with: Callable[[solving.Method], None],
) -> None:
    """Try elimination on draws that iterations did not solve, where it is in reach."""
    method = direct(problem)
    if method is None:
        return
    status[failed] = solving.LEFT_OUT
    sweep_with(method)
    status[failed & (status == solving.SOLVED)] = solving.RETRIED


_EVERYTHING = Want(variance=True, occupancy=True)
_MOST = 1e70  # a value whose fourth power can be summed, also where draws are larger


def solve_known(
    problem: Problem, solver: Solver | None = None, want: Want = _EVERYTHING
) -> FloatArray:
    """Value, return variance and occupancy of the nominal model, ``[3, P, S]``.

    In sweep order, terminal values not added; zeros for what is not wanted.
    """
    solver = choose(problem, adjoint=want.adjoint) if solver is None else solver
    bits = want.bits()
    known = problem.nominal()
    part = _run(known, blank(known, solver), bits, 0, np.ones(1))
    if part.unsolved.any():
        raise ConvergenceError(
            f"The chain of {problem.n_live} states converges too slowly to be solved "
            "by iterations, and is too large to be solved directly; use a smaller "
            "discount."
        )
    if not part.ended.all():
        raise EndlessError(
            "Episodes of this policy are too long to resolve; use a smaller discount."
        )
    out = np.zeros((3, *part.state.shape[::2]))
    for i, channel in enumerate((channels.V, channels.R, channels.D)):
        if channel < part.state.shape[1]:
            out[i] = part.state[:, channel]
    if not np.abs(out[0]).max(initial=0.0) <= _MOST:
        raise TooLargeError(
            f"Values of this policy are above {_MOST:g} in size, too large for their "
            "fourth moments: episodes are too long for rewards of this size; use a "
            "smaller discount, or give rewards in larger units."
        )
    return out


def nominal(
    problem: Problem,
    *,
    control: bool,
    solver: str = "auto",
    want: Want = _EVERYTHING,
    n_draws: int = BLOCK,
    threads: int = 1,
) -> Nominal:
    """Solve the nominal model; with ``control``, form its inverse up to some size.

    Memory is looked at before, for a sweep of ``n_draws`` on ``threads``.
    """
    adjoint = want.adjoint or control
    chosen = choose(problem, solver, adjoint=adjoint)
    want = replace(want, occupancy=adjoint)
    # the mean of the second control variate needs independent Dirichlet rows
    fits = control and problem.dirichlet and problem.n_live <= MAX_INVERSE
    bits = want.bits(control, fits)
    check_memory(problem, chosen.method, bits, n_draws, threads, to_invert=fits)
    reference = solve_known(problem, chosen, want)
    few: tuple[bool, ...] = ()
    if chosen.name == "iterative" and any(few := lacks_digits(problem, reference)):
        exact = quick_direct(problem) if solver == "auto" else None
        if exact is not None:
            chosen, few = exact, ()
            check_memory(problem, exact.method, bits, n_draws, threads, to_invert=fits)
            reference = solve_known(problem, chosen, want)
    inverse = inverses(problem) if fits else blank(problem, chosen).inverse
    return Nominal(reference, problem.theta_bar, inverse, chosen, control, few)


@dataclass(frozen=True, eq=False)
class Slopes:
    """Gradient of one policy's start value, averaged over draws."""

    value: float  # mean start value
    slope: FloatArray  # [R], mean of d (Q - V)
    noise: FloatArray  # [R], variance of that mean
    visits: FloatArray  # [N], mean occupancy


def _around(problem: Problem, solver: str) -> Nominal:
    """Return what iterations start from; elimination starts from nothing."""
    chosen = choose(problem, solver)
    if chosen.name != "iterative":
        return blank(problem, chosen)
    reference = solve_known(problem, chosen, Want(occupancy=True))
    return replace(blank(problem, chosen), reference=reference)


def slopes(
    problem: Problem,
    policy: FloatArray,
    n_draws: int,
    *,
    pool: Pool,
    first: int = 0,
    weights: FloatArray | None = None,
    solver: str = "auto",
) -> Slopes:
    """Gradient of a policy ``[R]`` on draws of a problem that holds every row.

    With ``weights`` the draws are all there are, and the noise is 0.
    """
    one = problem.with_policies(policy[None])
    want = Want(gradient=True)
    around = _around(one, solver)
    sums = sweep(
        one, around, n_draws, want=want, pool=pool, first=first, weights=weights
    )
    ended = sums.ended[0]
    total = sums.weights[ended].sum()
    if total == 0:
        raise EndlessError("No draw of this policy ends or can be solved for.")
    mean = sums.row[0, 0] / total
    visits = around.reference[2, 0] + sums.state[0, channels.D] / total
    spread = np.maximum(sums.row[0, 1] / total - mean**2, 0.0)
    exact = weights is not None
    return Slopes(
        value=float(sums.start[0, 0, ended] @ sums.weights[ended] / total),
        slope=mean,
        noise=np.zeros_like(mean) if exact else spread / max(int(ended.sum()) - 1, 1),
        visits=visits[: problem.n_live],
    )
