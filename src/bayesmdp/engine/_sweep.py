"""One sweep over draws, for whoever needs it: the narrow waist of the package.

`sweep` runs ranges of draws on an executor and joins them in a fixed tree
(`engine._backend`), so that the result depends neither on the number of threads
nor on how the draws were split. What is done with a range is a backend's business;
nothing grows with draws times model size.

What a sweep will take is looked at before it is begun (`Footprint`).

Who does the work is the caller's thread, threads, or an executor of the caller's
(`workers`). A task comes back with its number, so that an executor that mixes answers
up, or makes them up, is found out. ``BAYESMDP_TIMEOUT`` limits the wait for one task of
an executor.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
)
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from bayesmdp import _checks
from bayesmdp._resources import available_bytes, gigabytes
from bayesmdp._typing import FloatArray
from bayesmdp.engine import _backend as channels
from bayesmdp.engine import _solve as solving
from bayesmdp.engine._backend import (
    BLOCK,
    MAX_INVERSE,
    Backend,
    Joiner,
    Nominal,
    Sums,
    backend_of,
    blank,
)
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import CONTROL, CONTROL_STATES, GRADIENT, KEEP
from bayesmdp.errors import ArgumentError, ExecutorError, TooLargeError

_R = TypeVar("_R")
_LONGEST = 1e9  # seconds; waits of 300 years and more overflow
_DENSE_IS_SLOW = 10_000  # live states
_TASK_SECONDS = 1.0  # roughly, so that Ctrl-C is heard
_LEAST_SECONDS = 1e-3  # less than that, and handing over takes longer than it saves
_LITTLE_BYTES = 150_000  # sums that are no reason for smaller tasks
_LEAST_ALONE = 0.05  # of one worker: making a task ready again saves nothing
_TASK_BYTES = 64_000_000  # sums a task may hold before they are joined
_NO_CONTROLS = "no control variates (control=False in `evaluate`)"


@dataclass(frozen=True)
class Pool:
    """An executor, how many workers it has, and what computes there."""

    executor: Executor
    n_workers: int
    backend: Backend

    @property
    def in_flight(self) -> int:
        """Tasks to keep at work or waiting."""
        return 2 * self.n_workers

    @property
    def local(self) -> bool:
        """Whether tasks share the memory of this process."""
        return isinstance(self.executor, ThreadPoolExecutor)

    @property
    def threads(self) -> int:
        """Threads of this process at work; others have a memory of their own."""
        return self.n_workers if self.local else 1


class Threads(ThreadPoolExecutor):
    """Threads of this process, which answer for certain."""


@contextmanager
def workers(
    threads: int | None, executor: Executor | None, device: str | None = None
) -> Iterator[Pool]:
    """Open an executor for one or several sweeps."""
    n, backend = _checks.thread_count(threads), backend_of(device)
    if executor is not None:
        _checks.of_type("executor", executor, Executor, ArgumentError)
        try:
            yield Pool(executor, n, backend)
        except BrokenExecutor as broken:
            raise ExecutorError(
                "`executor` lost a worker and cannot go on; make a new one and call "
                "again. Workers die for lack of memory, or at once where a script that "
                'starts processes has no `if __name__ == "__main__":`.'
            ) from broken
        return
    pool = Threads(n)
    try:
        yield Pool(pool, n, backend)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def results(
    pool: Pool, call: Callable[..., _R], jobs: Iterable[tuple[Any, ...]]
) -> AbstractContextManager[Iterator[_R]]:
    """Open what ``call(*job)`` returns for each job, in the order of jobs.

    Few are at work or waiting at a time, and leaving calls off what has not begun.
    """
    return closing(_results(pool, call, jobs))


def _results(
    pool: Pool, call: Callable[..., _R], jobs: Iterable[tuple[Any, ...]]
) -> Generator[_R, None, None]:
    executor, ours = pool.executor, isinstance(pool.executor, Threads)
    if ours and pool.n_workers == 1:  # the caller's thread: nothing is handed over
        for job in jobs:
            yield call(*job)
        return
    limit = None if ours else _time_limit()
    waiting = enumerate(jobs)
    pending: deque[tuple[int, Future[tuple[int, _R]]]] = deque()
    try:
        while True:
            for number, job in islice(waiting, pool.in_flight - len(pending)):
                pending.append((number, _submitted(executor, number, call, job)))
            if not pending:
                return
            number, future = pending.popleft()
            yield _answer(future, number, limit)
    finally:
        for _, future in pending:
            future.cancel()


def _numbered(number: int, call: Callable[..., _R], *job: Any) -> tuple[int, _R]:
    """Do a task and say which it was; runs wherever the executor does."""
    return number, call(*job)


def _submitted(
    executor: Executor, number: int, call: Callable[..., _R], job: tuple[Any, ...]
) -> Future[tuple[int, _R]]:
    """Hand a job over; say it in a sentence where nobody takes it."""
    try:
        future = executor.submit(_numbered, number, call, *job)
    except NotImplementedError as problem:
        raise ExecutorError(
            f"`executor` takes no tasks: {type(executor).__name__} has no `submit`."
        ) from problem
    except RuntimeError as problem:
        if isinstance(problem, BrokenExecutor) or "shutdown" not in str(problem):
            raise
        raise ExecutorError(
            "`executor` is shut down already: call within its `with` block, or make a "
            "new one."
        ) from problem
    if not isinstance(future, Future):
        raise ExecutorError(
            "`executor` must return a Future from `submit`; got "
            f"{type(future).__name__}."
        )
    return future


def _answer(future: Future[tuple[int, _R]], number: int, limit: float | None) -> _R:
    """Wait for a task; say it in a sentence where the answer is none, or another's."""
    try:
        answer: Any = future.result(limit)
    except CancelledError as problem:
        raise ExecutorError(
            f"`executor` cancelled task {number}: call again with one that does all it "
            "is given."
        ) from problem
    except TimeoutError as problem:
        if future.done():  # what the task itself raised
            raise
        future.cancel()
        raise ExecutorError(
            f"`executor` did not answer within {limit:g} seconds for task {number}: "
            "look after its workers, or allow more with BAYESMDP_TIMEOUT."
        ) from problem
    whole = isinstance(answer, tuple) and len(answer) == 2
    if not (whole and type(answer[0]) is int and answer[0] == number):
        raise ExecutorError(
            f"`executor` gave something else for task {number} than the task returned "
            f"(of type {type(answer).__name__}): an executor must hand back just that."
        )
    value: _R = answer[1]
    return value


def _time_limit() -> float | None:
    """Read how many seconds a task of an executor may take, if that is limited."""
    said = os.environ.get("BAYESMDP_TIMEOUT", "").strip()
    try:
        seconds = float(said) if said else None
    except ValueError:
        seconds = -1.0
    if seconds is not None and not 0 < seconds <= _LONGEST:
        raise ArgumentError(
            f"`BAYESMDP_TIMEOUT` must be a number of seconds above 0; got {said!r:.40}."
        )
    return seconds


@dataclass(frozen=True)
class Footprint:
    """A sweep that is planned: what it computes, on how many draws and threads."""

    backend: Backend
    problem: Problem
    solver: Any  # of the backend
    bits: int
    n_draws: int
    threads: int
    inverses: int = 0  # bytes of those that are still to be formed

    @property
    def bytes_per_block(self) -> int:
        """What the sums of one block of draws take."""
        n_policies, n_rows = self.problem.policies.shape
        n_policies *= self.problem.n_columns
        slopes = 2 * n_rows if self.bits & GRADIENT else 0
        n_states = self.problem.rows.start.size
        n_sums = channels.n_channels(self.bits) * n_states + slopes
        return int(8 * n_policies * n_sums)

    def blocks_per_task(self, in_flight: int) -> int:
        """Blocks of a task: several tasks for each worker, none too large."""
        blocks = -(-self.n_draws // BLOCK)
        seconds = BLOCK * self.backend.seconds_per_draw(self.problem, self.solver)
        most = min(_TASK_BYTES // self.bytes_per_block, _TASK_SECONDS / seconds)
        # One worker has nobody to share with.
        alone = in_flight <= 2
        least = _LEAST_SECONDS / seconds
        if alone:
            little = _LITTLE_BYTES * self.problem.n_columns / self.bytes_per_block
            least = max(least, min(_LEAST_ALONE / seconds, little))
        share = min(blocks if alone else blocks // (2 * in_flight), 16)
        return int(max(min(max(share, least), most, blocks), 1))

    @property
    def n_bytes(self) -> int:
        """What all threads, the joined sums and the results of draws take together."""
        # a task at work and one that waits to be joined
        blocks = 2 * self.blocks_per_task(2 * self.threads)
        each = self.backend.bytes_per_thread(self.problem, self.solver, self.bits)
        each += blocks * self.bytes_per_block
        # results of one draw, twice while they are put together
        n_kept = 2 * self.problem.rows.start.size if self.bits & KEEP else 0
        each_draw = 8 * (channels.N_START + n_kept) + 9
        n_policies = len(self.problem.policies) * self.problem.n_columns
        per_draw = 2 * n_policies * each_draw + 16
        joined = 4 * self.bytes_per_block
        return int(
            self.inverses + self.threads * each + joined + self.n_draws * per_draw
        )

    def check(self) -> None:
        """Refuse a sweep that does not fit, and say what would."""
        needed = self.n_bytes
        if needed <= (there := available_bytes(needed)):
            return
        problem = self.problem
        counts = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        raise TooLargeError(
            f"This sweep needs about {gigabytes(needed)} of memory ({problem.n_live} "
            f"states, {problem.rows.target.size} entries, {counts}), and "
            f"{gigabytes(there)} are free: {self._remedy(there)}. `BAYESMDP_MEMORY` "
            "sets another limit."
        )

    def _most(self, there: int) -> int:
        """Draws that fit, in whole blocks."""
        low, high = 0, self.n_draws // BLOCK
        while low < high:
            half = (low + high + 1) // 2
            if replace(self, n_draws=half * BLOCK).n_bytes <= there:
                low = half
            else:
                high = half - 1
        return low * BLOCK

    def _remedy(self, there: int) -> str:
        """Find the nearest thing that fits, tried in turn."""
        if fewer := self._most(there):
            return f"about {fewer} draws would fit"
        lighter = self.backend.lighter(self.solver)
        large = self.problem.n_live > _DENSE_IS_SLOW
        if lighter and large and replace(self, solver=lighter).n_bytes <= there:
            return "solver='iterative' takes far less, and is far faster"
        for on in range(self.threads - 1, 0, -1):
            if replace(self, threads=on).n_bytes <= there:
                return f"threads={on} would fit"
        return self._plain_remedy(there)

    def _plain_remedy(self, there: int) -> str:
        """Find what fits on one thread without control variates."""
        bits = self.bits & ~(CONTROL | CONTROL_STATES)
        plain = replace(self, bits=bits, threads=1, inverses=0)
        how = "threads=1" + (f" and {_NO_CONTROLS}" if bits != self.bits else "")
        if bits != self.bits and plain.n_bytes <= there:
            return f"{how} would fit"
        lighter = self.backend.lighter(self.solver)
        if lighter and replace(plain, solver=lighter).n_bytes <= there:
            return f"solver='iterative' with {how} would fit"
        problem = self.problem
        n_policies = len(problem.policies)
        alone = problem.with_policies(problem.policies[:1])
        if n_policies > 1 and replace(plain, problem=alone).n_bytes <= there:
            return f"the {n_policies} policies would fit one at a time, with {how}"
        if fewer := plain._most(there):
            return f"about {fewer} draws with {how} would fit"
        share = there / replace(plain, n_draws=BLOCK).n_bytes
        if lighter:  # a matrix grows with the square
            share = share**0.5
        return (
            f"about {int(share * problem.n_live)} states of this shape would fit, or a "
            "policy and a prior with fewer next states"
        )


@dataclass(frozen=True)
class Want:
    """What a sweep computes beside the value."""

    variance: bool = False
    occupancy: bool = False
    gradient: bool = False
    values: bool = False  # and variances, of every draw and state
    cross: bool = False  # covariances of the returns of several rewards

    def bits(self, control: bool = False, every_state: bool = False) -> int:
        """Return the flags as the kernel reads them."""
        return (
            solving.VARIANCE * self.variance
            + solving.OCCUPANCY * self.occupancy
            + solving.GRADIENT * self.gradient
            + solving.KEEP * self.values
            + solving.CROSS * self.cross
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
    """Sweep ``n_draws`` draws of a problem, from number ``first`` on.

    They have ``weights`` [D], or all 1. Those of an earlier result ``after``, whole
    blocks, are among them and not computed again. ``progress`` is called with the
    number of draws done.
    """
    done = 0 if after is None else after.n_draws
    w = np.ones(n_draws) if weights is None else weights
    if done % BLOCK or first % BLOCK or w.size != n_draws:
        raise AssertionError("a sweep goes on at the end of a whole block")
    bits = want.bits(nominal.controls, nominal.every_state)
    left = n_draws - done
    planned = Footprint(pool.backend, problem, nominal.solver, bits, left, pool.threads)
    if pool.backend.behind(nominal.solver).one_at_a_time and pool.local:
        pool = replace(pool, n_workers=1)
    blocks = planned.blocks_per_task(pool.in_flight)
    if pool.local:
        planned.check()
        if blocks * BLOCK >= left and after is None:  # one task: nothing to join
            part = pool.backend.sweep(problem, nominal, bits, first, w)
            if progress is not None:
                progress(n_draws)
            return part
    total = Joiner()
    if after is not None:
        total.add(after)
    size = blocks * BLOCK
    jobs = (
        (problem, nominal, bits, first + begin, w[begin : begin + size])
        for begin in range(done, n_draws, size)
    )
    with results(pool, pool.backend.sweep, jobs) as parts:
        for part in parts:
            total.add(part)
            if progress is not None:
                progress(total.n_draws)
    return total.sums()


_EVERYTHING = Want(variance=True, occupancy=True)
_SMALL_SHARE = 1e-4  # of the largest; six digits are right then
_MOST = 1e70  # a value whose fourth power can be summed, also where draws are larger


def solve_known(
    problem: Problem, backend: Backend, want: Want = _EVERYTHING, solver: Any = None
) -> FloatArray:
    """Value, return variance and occupancy of the mean model, ``[3, P, S]``.

    In sweep order, terminal values not added; zeros for what is not wanted. Values
    whose powers cannot be summed are refused.
    """
    if solver is None:
        solver = backend.solver_for(problem, "auto", adjoint=want.adjoint)
    out = backend.solve_mean(problem, solver, want.bits())
    if not np.abs(out[0]).max(initial=0.0) <= _MOST:
        raise TooLargeError(
            f"Values of this policy are above {_MOST:g} in size, too large for their "
            "fourth moments: episodes are too long for rewards of this size; use a "
            "smaller discount, or give rewards in larger units."
        )
    return out


def nominal(
    problem: Problem,
    pool: Pool,
    *,
    control: bool,
    solver: str = "auto",
    want: Want = _EVERYTHING,
    n_draws: int = BLOCK,
) -> Nominal:
    """Solve the nominal model; with ``control``, form its inverse up to some size.

    Memory is looked at before, for a sweep of ``n_draws``.
    """
    backend = pool.backend
    adjoint = want.adjoint or control
    chosen = backend.solver_for(problem, solver, adjoint=adjoint)
    want = replace(want, occupancy=adjoint)
    # the mean of the second control variate needs independent Dirichlet rows
    fits = control and problem.rows.total is not None and problem.n_live <= MAX_INVERSE
    fits = fits and problem.stages is None and problem.task.criterion == "discounted"
    fits = fits and not problem.mixes_discounts
    # the inverse of every policy, and one while it is made
    n_inverses = len(problem.policies) * problem.n_columns + 1
    inverses = 8 * problem.n_live**2 * n_inverses if fits else 0
    bits = want.bits(control, fits)
    planned = Footprint(backend, problem, chosen, bits, n_draws, pool.threads, inverses)
    planned.check()
    reference = solve_known(problem, backend, want, chosen)
    few = lacks_digits(problem, reference)
    exact = backend.exact(problem, chosen) if any(few) and solver == "auto" else None
    if exact is not None:
        chosen = exact
        replace(planned, solver=chosen).check()
        reference = solve_known(problem, backend, want, chosen)
    iterates = backend.iterates(chosen)
    inverse = blank(problem, chosen).inverse
    if fits:
        inverse = backend.inverses(problem, chosen)
    known = few if iterates else ()
    how = chosen, control, known, iterates, backend.behind(chosen).name
    return Nominal(reference, inverse, *how)


def lacks_digits(problem: Problem, reference: FloatArray) -> tuple[bool, ...]:
    """Whether iterations leave few digits of the start's value or variance, ``[P]``.

    Their errors are small beside the largest value of all states, and the largest
    variance. Where those from the start are far smaller (rewards of another size that
    the start hardly sees, or an end far away), less is right of them.
    """
    weight = problem.rows.start[: problem.n_live]
    size = np.abs(reference[:2, :, : problem.n_live])  # [value and variance, P, N]
    few = (size @ weight < _SMALL_SHARE * size.max(axis=2)).any(axis=0)
    return tuple((few & weight.any()).tolist())
