"""Executors that do not do what they were asked to: a sentence each, and no waiting."""

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from bad_input import check

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, ExecutorError

pytestmark = pytest.mark.usefixtures("many_tasks")

WORLD = bm.worlds.synthetic(0)
POSTERIOR = bm.fit(WORLD.sample(50, seed=0), WORLD.task, prior=bm.SymmetricPrior())
CALLS: dict[str, Callable[[Executor], object]] = {
    "evaluate": lambda executor: bm.evaluate(
        np.zeros(5, dtype=int), POSTERIOR.draws(64), executor=executor
    ),
    "msbi": lambda executor: bm.policies.msbi(POSTERIOR, 70, executor=executor),
    "check_calibration": lambda executor: bm.check_calibration(
        WORLD.task, bm.ScaledPrior(), n_datasets=20, executor=executor
    ),
}


class Odd(Executor):
    """Does with every task what it was made for."""

    def __init__(self, does: Callable[..., Any]) -> None:
        self.does = does

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self.does(fn, *args, **kwargs)


def answered(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def cancelled(*_: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.cancel()
    return future


class Swapping(Executor):
    """Gives each task the answer of the one before."""

    def __init__(self) -> None:
        self.last: Any = None

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        now = fn(*args, **kwargs)
        answer, self.last = self.last or now, now
        return answered(answer)


ODD: dict[str, tuple[Callable[[], Executor], tuple[str, ...]]] = {
    "nothing": (lambda: Odd(lambda *_: None), ("must return a Future", "NoneType")),
    "None": (lambda: Odd(lambda *_: answered(None)), ("task 0", "type NoneType")),
    "a number": (lambda: Odd(lambda *_: answered(42)), ("task 0", "type int")),
    "a pair": (lambda: Odd(lambda *_: answered(("a", 1))), ("task 0", "type tuple")),
    "another's": (Swapping, ("task 1", "hand back just that")),
    "cancels": (lambda: Odd(cancelled), ("cancelled task 0",)),
    "abstract": (Executor, ("takes no tasks: Executor has no `submit`",)),
}


@pytest.mark.parametrize("how", ODD)
@pytest.mark.parametrize("name", CALLS)
def test_an_odd_executor_gets_a_sentence(name: str, how: str) -> None:
    make, said = ODD[how]
    check(ExecutorError, lambda: CALLS[name](make()), ("`executor`", *said))


@pytest.mark.parametrize("name", CALLS)
def test_an_executor_that_never_answers_is_left_after_the_time_limit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAYESMDP_TIMEOUT", "0.05")
    futures: list[Future[Any]] = []

    def wait(*_: Any) -> Future[Any]:
        futures.append(Future())
        return futures[-1]

    said = ("did not answer within 0.05 seconds for task 0", "BAYESMDP_TIMEOUT")
    check(ExecutorError, lambda: CALLS[name](Odd(wait)), said)
    assert len(futures) > 1 or name != "msbi"  # 70 draws are two parts
    assert all(future.cancelled() for future in futures)


def test_a_time_limit_changes_nothing_for_one_that_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = bm.evaluate([0] * 5, POSTERIOR.draws(64)).start_value
    monkeypatch.setenv("BAYESMDP_TIMEOUT", "60")
    with ThreadPoolExecutor(2) as pool:
        found = bm.evaluate([0] * 5, POSTERIOR.draws(64), executor=pool)
    assert found.start_value == wanted


def test_a_time_out_of_the_task_itself_is_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BAYESMDP_TIMEOUT", "60")
    future: Future[Any] = Future()
    future.set_exception(TimeoutError("the disk"))
    with pytest.raises(TimeoutError, match="the disk"):
        CALLS["evaluate"](Odd(lambda *_: future))


@pytest.mark.parametrize("said", ["soon", "0", "-1", "nan", "inf"])
def test_a_time_limit_is_a_number(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESMDP_TIMEOUT", said)
    call = CALLS["evaluate"]
    executor = Odd(lambda *_: answered(None))
    check(ArgumentError, lambda: call(executor), ("BAYESMDP_TIMEOUT", repr(said)))
