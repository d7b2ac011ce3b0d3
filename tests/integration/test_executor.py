"""Every call that sweeps draws runs on any executor, with the same bits as a result."""

import inspect
import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import (
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from dataclasses import fields, is_dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.engine import Problem, multisample, workers
from bayesmdp.engine.planning import plan
from bayesmdp.errors import ArgumentError

# For its time; and so that there is something to share.
pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("many_tasks")]

PAGE = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text()
WORLD = bm.worlds.gridworld()
POSTERIOR = bm.fit(WORLD.sample(300, seed=0), WORLD.task, prior=bm.SymmetricPrior())
SMALL = bm.worlds.synthetic(0)
BRIEF = bm.MirrorAscent(n_steps=20)
BELIEF = bm.fit(SMALL.sample(20, seed=0), SMALL.task, prior=bm.SymmetricPrior())


@cache
def nominal() -> np.ndarray:
    """Not at import: it compiles."""
    return bm.policies.nominal(POSTERIOR)


def ensemble() -> bm.Ensemble:
    """More models than a part of `msbi` has draws; each with its own reward."""
    draws = BELIEF.draws(90, seed=3)
    rewards = np.random.default_rng(3).normal(size=(90, 5))
    models = [draws.dynamics(i) for i in range(90)]
    weights = (np.arange(90) + 1) / 4095
    return bm.Ensemble(models, SMALL.task, rewards, weights)


def mixture() -> bm.posterior.MixturePosterior:
    """Two priors that the data cannot tell apart."""
    priors = [bm.SymmetricPrior(1.0), bm.ScaledPrior(1.0)]
    mixed = bm.MixturePrior(priors, posterior_weights=[0.4, 0.6])
    return bm.fit(SMALL.sample(20, seed=0), SMALL.task, prior=mixed)


CALLS: dict[str, Callable[..., Any]] = {
    "evaluate": lambda **how: bm.evaluate(nominal(), POSTERIOR.draws(1000), **how),
    "evaluate to a tolerance": lambda **how: bm.evaluate(
        nominal(), POSTERIOR.draws(4000), tolerance=0.002, control=False, **how
    ),
    "evaluate an ensemble": lambda **how: bm.evaluate(
        bm.policies.nominal(BELIEF), ensemble().draws(), **how
    ),
    "evaluate a mixture": lambda **how: bm.evaluate(
        bm.policies.nominal(BELIEF), mixture().draws(1000), **how
    ),
    "compare": lambda **how: bm.compare(
        {"nominal": nominal(), "logged": bm.policies.behaviour(POSTERIOR)},
        POSTERIOR.draws(500),
        **how,
    ),
    "msbi": lambda **how: bm.policies.msbi(POSTERIOR, 300, **how),
    "msbi of an ensemble": lambda **how: bm.policies.msbi(ensemble(), 300, **how),
    "msbi of a mixture": lambda **how: bm.policies.msbi(mixture(), 300, **how),
    "optimise": lambda **how: bm.optimise(BELIEF, method=BRIEF, **how),
    "optimise for an ensemble": lambda **how: bm.optimise(
        ensemble(), method=BRIEF, **how
    ),
    "optimise for a mixture": lambda **how: bm.optimise(mixture(), method=BRIEF, **how),
    "check_calibration": lambda **how: bm.check_calibration(
        WORLD.task, bm.ScaledPrior(), n_datasets=40, **how
    ),
}


def travelled(what: Any) -> Any:
    return pickle.loads(pickle.dumps(what))


class Backwards(Executor):
    """Runs what waits, the last first, once a result is asked for.

    Tasks and results travel as bytes, as they do between machines, and are read and
    written once more on the way, as Dask's scheduler does.
    """

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], bytes]] = []
        self.seen: set[str] = set()
        self.most = 0  # that waited at once

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = _Asked(self)
        self.seen.add(args[1].__module__)  # after its number
        self.waiting.append((future, pickle.dumps((fn, args, kwargs))))
        self.most = max(self.most, len(self.waiting))
        return future

    def run(self) -> None:
        while self.waiting:
            future, parcel = self.waiting.pop()
            if future.set_running_or_notify_cancel():
                fn, args, kwargs = travelled(pickle.loads(parcel))
                future.set_result(travelled(fn(*args, **kwargs)))


class _Asked(Future[Any]):
    def __init__(self, executor: Backwards) -> None:
        super().__init__()
        self._executor = executor

    def result(self, timeout: float | None = None) -> Any:
        self._executor.run()
        return super().result(timeout)


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


def leaves(found: Any, at: str = "result") -> Iterator[tuple[str, Any]]:
    """Every number and array of a result, with its name."""
    if is_dataclass(found) and not isinstance(found, type | bm.Task):
        for field in fields(found):
            if field.name != "seconds":
                yield from leaves(getattr(found, field.name), f"{at}.{field.name}")
    elif isinstance(found, dict):
        for key, value in found.items():
            yield from leaves(value, f"{at}[{key!r}]")
    elif isinstance(found, tuple | list):
        yield f"len({at})", len(found)
        for i, value in enumerate(found):
            yield from leaves(value, f"{at}[{i}]")
    elif not isinstance(found, bm.Task):
        yield at, found


def assert_identical(found: Any, wanted: Any) -> None:
    ours, theirs = dict(leaves(found)), dict(leaves(wanted))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        if isinstance(value, float | np.ndarray):
            assert np.array_equal(ours[name], value, equal_nan=True), name
        else:
            assert ours[name] == value, name


@pytest.fixture(scope="module")
def in_one_process() -> dict[str, Any]:
    return {}


@pytest.fixture
def wanted(name: str, in_one_process: dict[str, Any]) -> Any:
    if name not in in_one_process:
        in_one_process[name] = CALLS[name](threads=1)
    return in_one_process[name]


@pytest.mark.parametrize("name", CALLS)
def test_two_processes_give_what_one_thread_gives(
    name: str, wanted: Any, processes: Executor
) -> None:
    assert_identical(CALLS[name](executor=processes, threads=2), wanted)


@pytest.mark.parametrize("name", CALLS)
def test_the_order_of_the_work_does_not_matter(name: str, wanted: Any) -> None:
    executor = Backwards()
    assert_identical(CALLS[name](executor=executor, threads=3), wanted)
    assert executor.most > 1  # there was an order to change
    assert not executor.waiting


@pytest.mark.parametrize("name", ["evaluate", "msbi", "check_calibration"])
def test_an_executor_that_is_shut_down_is_refused_in_a_sentence(name: str) -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(bm.errors.ExecutorError, match="`executor` is shut down"):
        CALLS[name](executor=executor)


def test_the_comparison_of_results_can_fail(processes: Executor) -> None:
    draws = POSTERIOR.draws(1000, seed=1)
    other = bm.evaluate(nominal(), draws, executor=processes)
    with pytest.raises(AssertionError):
        assert_identical(other, CALLS["evaluate"]())


def test_all_parts_of_an_optimisation_run_on_the_executor() -> None:
    executor = Backwards()
    bm.optimise(BELIEF, starts=["nominal", "msbi"], executor=executor)
    rooms = {name.removeprefix("bayesmdp.engine.") for name in executor.seen}
    assert {"planning", "multisample"} < rooms


def test_every_public_call_with_threads_takes_an_executor() -> None:
    places = [bm, bm.policies, bm.worlds]
    calls = {
        f"{place.__name__}.{name}": inspect.signature(getattr(place, name)).parameters
        for place in places
        for name in place.__all__
        if inspect.isfunction(getattr(place, name))
    }
    sweeping = {name for name, known in calls.items() if "threads" in known}
    fitting = {"bayesmdp.negative_control", "bayesmdp.cross_fit"}  # most of their time
    sweeping -= fitting
    assert len(sweeping) >= 4
    for name in sweeping:
        assert calls[name]["executor"].kind is inspect.Parameter.KEYWORD_ONLY
        assert calls[name]["executor"].default is None


@pytest.mark.parametrize(
    "belief", [BELIEF, ensemble(), mixture()], ids=["rows", "models", "mixture"]
)
def test_values_of_every_draw_of_msbi_come_back(belief: Any) -> None:
    """A policy is a coarse thing to compare: here are the numbers behind it."""
    draws = bm.Draws(belief, 300, 0, "msbi")
    problem = Problem.of_belief(belief).with_stream(draws.stream)
    with workers(1, None) as pool:
        elsewhere = replace(pool, executor=Backwards())
        here, there = (
            multisample._Held(problem, 300, one) for one in (pool, elsewhere)
        )
        choice = plan(problem).choice
        for held in (here, there):
            held.settle(choice)
            held.step(np.unique(problem.rows.source, return_index=True)[1])
    assert np.unique(here.values, axis=0).shape[0] > 64  # more than a part
    assert np.array_equal(here.values, there.values)
    assert np.array_equal(here.q, there.q)


def test_a_process_keeps_the_draws_of_the_last_msbi_only() -> None:
    executor = Backwards()
    kept = []
    for seed in (0, 1):
        bm.policies.msbi(POSTERIOR, 130, seed=seed, executor=executor)
        kept.append({call for call, _ in multisample._kept})
        assert sorted(first for _, first in multisample._kept) == [0, 64, 128]
    assert [len(calls) for calls in kept] == [1, 1]
    assert kept[0] != kept[1]


BAD_CALLS: dict[str, Callable[[Any], object]] = {
    "evaluate": lambda bad: bm.evaluate(nominal(), POSTERIOR.draws(16), executor=bad),
    "compare": lambda bad: bm.compare(
        {"a": nominal(), "b": nominal()}, POSTERIOR.draws(16), executor=bad
    ),
    "msbi": lambda bad: bm.policies.msbi(POSTERIOR, 16, executor=bad),
    "optimise": lambda bad: bm.optimise(BELIEF, executor=bad),
}


@pytest.mark.parametrize("bad", [4, "dask", ProcessPoolExecutor])
@pytest.mark.parametrize("name", BAD_CALLS)
def test_what_is_no_executor_is_refused_by_name(name: str, bad: object) -> None:
    with pytest.raises(ArgumentError, match="`executor`"):
        BAD_CALLS[name](bad)


class Mishap(Executor):
    """Hands tasks on, and lets something happen before a certain one."""

    def __init__(self, inner: Executor, at: int, happens: Callable[[], object]) -> None:
        self.inner, self.at, self.happens = inner, at, happens
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if len(self.futures) == self.at:
            self.at = -1  # once
            self.happens()
        self.futures.append(self.inner.submit(fn, *args, **kwargs))
        return self.futures[-1]


@pytest.mark.parametrize("name", ["evaluate", "msbi"])
def test_a_process_that_dies_ends_the_call_with_an_error(name: str) -> None:
    """A process pool does not do lost work again; nothing may hang or be guessed."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        executor = Mishap(pool, 3, lambda: pool.submit(os._exit, 1))
        with pytest.raises(bm.BayesmdpError, match="lost a worker"):
            CALLS[name](executor=executor, threads=2)
    assert all(future.done() for future in executor.futures)


def test_ctrl_c_while_starts_are_made_leaves_it_at_those_that_are() -> None:
    with ThreadPoolExecutor(1) as pool:
        executor = Mishap(pool, 3, lambda: signal.raise_signal(signal.SIGINT))
        result = bm.optimise(BELIEF, executor=executor)
    assert result.status.startswith("interrupted")
    assert list(result.starts) == ["nominal", "second_order"]  # msbi is next
    assert result.steps == 0


class Failing(Backwards):
    """The first task that waits fails."""

    def run(self) -> None:
        if self.waiting:
            future, _ = self.waiting[0]
            if future.set_running_or_notify_cancel():
                future.set_exception(OSError("no space left"))
            del self.waiting[0]


@pytest.mark.parametrize("name", ["evaluate", "msbi"])
def test_what_a_task_raises_is_raised_and_the_rest_is_called_off(name: str) -> None:
    executor = Failing()
    with pytest.raises(OSError, match="no space left"):
        CALLS[name](executor=executor)
    assert executor.waiting
    assert all(future.cancelled() for future, _ in executor.waiting)


def page_code(heading: str) -> str:
    """The Python code under a heading of docs/clusters.md."""
    section = re.search(rf"^## {heading}$(.*?)(^## |\Z)", PAGE, re.M | re.S)
    assert section is not None
    (code,) = re.findall(r"```python\n(.*?)```", section.group(1), re.S)
    return str(code)


def printed(command: list[str], code: str, folder: Path) -> str:
    """What code prints as a script of its own."""
    script = folder / "job.py"
    script.write_text(code)
    found = subprocess.run(
        [*command, str(script)], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def page_says() -> str:
    """What every example of the page prints."""
    posterior = bm.fit(WORLD.sample(1000, seed=0), WORLD.task)
    policy = bm.policies.nominal(posterior)
    return f"{bm.evaluate(policy, posterior.draws(5000, seed=0))!s}\n"


@pytest.mark.parametrize("heading", ["When it pays", "Processes"])
def test_the_code_of_the_page_runs(heading: str, tmp_path: Path) -> None:
    assert printed([sys.executable], page_code(heading), tmp_path) == page_says()
