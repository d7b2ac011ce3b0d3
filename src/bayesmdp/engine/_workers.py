"""Who does the work: the caller's thread, threads, or an executor of the caller's."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import islice
from typing import Any, TypeVar

from bayesmdp import _checks
from bayesmdp.errors import ArgumentError, ExecutorError

Pool = tuple[Executor, int]  # and how many tasks to keep in flight
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
def workers(threads: int | None, executor: Executor | None) -> Iterator[Pool]:
    """Open an executor for one or several sweeps, with how many tasks to keep busy."""
    n = _checks.thread_count(threads)
    if executor is not None:
        _checks.of_type("executor", executor, Executor, ArgumentError)
        try:
            yield executor, 2 * n
        except BrokenExecutor as broken:
            raise ExecutorError(
                "`executor` lost a worker and cannot go on; make a new one and call "
                "again. Workers die for lack of memory, or at once where a script that "
                'starts processes has no `if __name__ == "__main__":`.'
            ) from broken
        return
    pool = ThreadPoolExecutor(n) if n > 1 else Inline()
    try:
        yield pool, 2 * n
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
    executor, in_flight = pool
    most = 1 if isinstance(executor, Inline) else in_flight  # what waits is done there
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
