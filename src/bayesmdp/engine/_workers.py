"""Who does the work: the caller's thread, threads, or an executor of the caller's."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
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


class Inline(ThreadPoolExecutor):
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
    pool = ThreadPoolExecutor(n) if n > 1 else Inline()
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
    waiting = iter(jobs)
    pending: deque[Future[_R]] = deque()
    try:
        while True:
            for job in islice(waiting, most - len(pending)):
                pending.append(submitted(executor, call, job))
            if not pending:
                return
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def submitted(
    executor: Executor, call: Callable[..., _R], job: tuple[Any, ...]
) -> Future[_R]:
    """Hand a job over; say it in a sentence where nobody takes it any more."""
    try:
        return executor.submit(call, *job)
    except RuntimeError as problem:
        if isinstance(problem, BrokenExecutor) or "shutdown" not in str(problem):
            raise
        raise ExecutorError(
            "`executor` is shut down already: call within its `with` block, or make a "
            "new one."
        ) from problem
