"""A real Dask cluster of several processes gives what one process gives."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_executor import CALLS, PAGE, assert_identical, page_code, page_says, printed

import bayesmdp as bm

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("many_tasks")]
distributed = pytest.importorskip("distributed", reason="Dask is not installed")

WORKERS = 3


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            processes=True,  # each with a nanny that starts another when it dies
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def large() -> tuple[np.ndarray, bm.Draws]:
    """Enough work for several seconds: 150 states, dense rows, many draws."""
    rng = np.random.default_rng(0)
    models = rng.dirichlet(np.full(150, 0.05), size=(150, 4))
    task = bm.Task(150, 4, rng.normal(size=150), discount=0.97)
    world = bm.MDP(bm.Dynamics.from_dense(models), task)
    posterior = bm.fit(world.sample(5000, seed=0), task, prior=bm.SymmetricPrior())
    return bm.policies.nominal(posterior), posterior.draws(6000, seed=0)


class Watched(Executor):
    """Hands tasks on, and says when a number of them are done."""

    def __init__(self, inner: Executor, number: int) -> None:
        self.inner, self.number = inner, number
        self.futures: list[Future[Any]] = []
        self.reached = threading.Event()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = self.inner.submit(fn, *args, **kwargs)
        self.futures.append(future)
        future.add_done_callback(lambda _: self._look())
        return future

    def _look(self) -> None:
        if self.done() >= self.number:
            self.reached.set()

    def done(self) -> int:
        return sum(future.done() for future in self.futures)


class Killer(threading.Thread):
    """Kills a worker that is at work, once some tasks are done."""

    def __init__(self, client: Any, watched: Watched) -> None:
        super().__init__(daemon=True)
        self.client, self.watched = client, watched
        self.address, self.pid = next(iter(client.run(os.getpid).items()))
        self.done_before = 0
        self.lost: tuple[str, ...] = ()  # tasks that the worker had when it died

    def run(self) -> None:
        assert self.watched.reached.wait(60)
        os.kill(self.pid, signal.SIGSTOP)  # what it is working on, it cannot finish
        deadline = time.monotonic() + 20
        while not self.lost and time.monotonic() < deadline:
            time.sleep(0.5)  # what it had finished before arrives meanwhile
            self.lost = self.client.processing().get(self.address, ())
        self.done_before = self.watched.done()
        os.kill(self.pid, signal.SIGKILL)


def test_a_worker_killed_at_work_changes_nothing(client: Any) -> None:
    policy, draws = large()
    watched = Watched(client.get_executor(pure=False), 5)
    killer = Killer(client, watched)
    killer.start()
    found = bm.evaluate(policy, draws, executor=watched, threads=WORKERS)
    killer.join(60)
    assert killer.lost  # it died with work in hand
    assert 5 <= killer.done_before < len(watched.futures)  # some done, some not
    assert killer.address not in client.scheduler_info()["workers"]
    assert all(future.exception() is None for future in watched.futures)
    assert found.n_draws == draws.n_draws
    assert_identical(found, bm.evaluate(policy, draws))
    client.wait_for_workers(WORKERS, timeout=60)  # the nanny has started another
    assert killer.pid not in client.run(os.getpid).values()


@pytest.mark.parametrize("name", CALLS)
def test_every_call_gives_what_one_thread_gives(name: str, client: Any) -> None:
    executor = client.get_executor(pure=False)
    found = CALLS[name](executor=executor, threads=WORKERS)
    assert_identical(found, CALLS[name](threads=1))


def test_dask_may_take_the_tasks_for_pure(client: Any) -> None:
    """Its default: equal tasks are then one, which is right, as they are pure."""
    executor = client.get_executor()
    for _ in range(2):
        found = CALLS["msbi"](executor=executor)
        assert_identical(found, CALLS["msbi"](threads=1))


def test_a_task_larger_than_dask_likes_is_warned_of_as_the_page_says(
    client: Any,
) -> None:
    import dask

    policy, draws = large()
    executor = client.get_executor(pure=False)
    few = bm.Draws(draws.belief, 16, 0)
    name = "distributed.admin.large-graph-warning-threshold"
    assert name in PAGE
    with (
        dask.config.set({name: "10 kB"}),
        pytest.warns(UserWarning, match="Sending large graph"),
    ):
        bm.evaluate(policy, few, executor=executor)
    with dask.config.set({name: "1 GB"}):  # warnings are errors here
        bm.evaluate(policy, few, executor=executor)


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    assert printed([sys.executable], page_code("Dask"), tmp_path) == page_says()
