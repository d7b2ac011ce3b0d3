"""Who does the work: the caller's thread, threads, or an executor of the caller's.

A task comes back with its number, so that an executor that mixes answers up, or makes
them up, is found out. ``BAYESMDP_TIMEOUT`` limits the wait for one task of an executor.
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
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from bayesmdp import _checks
from bayesmdp.engine._backend import Backend, backend_of
from bayesmdp.errors import ArgumentError, ExecutorError


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


_R = TypeVar("_R")
_LONGEST = 1e9  # seconds; waits of 300 years and more overflow


class Threads(ThreadPoolExecutor):
    """Threads of this process, which answer for certain."""


class Inline(Threads):
    """One thread, the caller's: handing small tasks over takes longer than they do."""

    def __init__(self) -> None:
        super().__init__(1)

    def submit(self, fn: Callable[..., _R], /, *args: Any, **kwargs: Any) -> Future[_R]:
        """Do it at once."""
        future: Future[_R] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as problem:
            future.set_exception(problem)
        return future


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
    pool = Threads(n) if n > 1 else Inline()
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
    executor = pool.executor
    inline = isinstance(executor, Inline)  # what waits is done there
    most = 1 if inline else pool.in_flight
    limit = None if isinstance(executor, Threads) else _time_limit()
    waiting = enumerate(jobs)
    pending: deque[tuple[int, Future[tuple[int, _R]]]] = deque()
    try:
        while True:
            for number, job in islice(waiting, most - len(pending)):
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
