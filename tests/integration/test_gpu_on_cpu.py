"""Kernels of a GPU compiled for the CPU: they compute what the CPU computes.

Tolerances stand in `gpu_cases`. What cannot be seen here is whether threads get in each
other's way: `make test-gpu` runs the same cases on a GPU.
"""

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from threading import get_ident
from typing import Any
from weakref import ref

import gpu_cases
import numpy as np
import pytest
from gpu_beliefs import BELIEFS, CHOICE, STOCHASTIC, belief_of
from gpu_cases import N_DRAWS, assert_same
from host_device import COMPILER, HostDevice, HostGPU

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.engine import _auto, _backend
from bayesmdp.engine._gpu_sampling import sampled
from bayesmdp.engine._gpu_solve import _STATIC
from bayesmdp.errors import BackendError, TooLargeError

pytestmark = pytest.mark.integration  # needs a C++ compiler

if COMPILER is None:
    pytest.skip("no C++ compiler (c++, g++ or clang++)", allow_module_level=True)

EVERYTHING = ("value", "epistemic_sd", "aleatoric_sd", "total_sd", "occupancy")
EVERYTHING += ("value_mcse", "total_sd_mcse", "start_values")


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the stand-in known to one test."""
    monkeypatch.setattr(_backend, "_BACKENDS", dict(_backend._BACKENDS))
    engine.register(HOST)


HOST = HostGPU()


@pytest.mark.parametrize("case", gpu_cases.CASES)
def test_a_gpu_computes_what_the_cpu_does(case: str) -> None:
    gpu_cases.CASES[case]("host")


def draws(name: str = "concentration 0.3") -> bm.Draws:
    found: bm.Draws = belief_of(BELIEFS[name]).draws(N_DRAWS, seed=6)
    return found


def same_bits(one: bm.Evaluation, other: bm.Evaluation) -> None:
    for name in EVERYTHING:
        assert (getattr(one, name) == getattr(other, name)).all(), name


# --- Memory


def device_of(gpu: HostGPU) -> HostDevice:
    found: Any = gpu.device
    assert isinstance(found, HostDevice)
    return found


def test_little_memory_means_several_parts_and_the_same_bits() -> None:
    few = HostGPU("few", free=700_000)
    engine.register(few)
    whole = bm.evaluate(CHOICE, draws(), device="host", keep_values=True)
    parts = bm.evaluate(CHOICE, draws(), device="few", keep_values=True)
    assert device_of(few).launched.count("sample_dirichlet") > 1  # once per part
    same_bits(whole, parts)
    assert whole.values is not None
    assert parts.values is not None
    assert (whole.values == parts.values).all()


def test_too_little_memory_is_refused_with_what_would_help() -> None:
    engine.register(HostGPU("tiny", free=50_000))
    with pytest.raises(
        TooLargeError, match=r"`device='tiny'` needs .*take device='cpu'"
    ):
        bm.evaluate(CHOICE, draws(), device="tiny")


@pytest.mark.parametrize("name", ["hierarchical", "concentration 0.3"])
def test_rows_of_draws_met_again_are_kept_once(name: str) -> None:
    """However many policies of a search use other rows."""
    problem = engine.Problem.of_draws(draws(name), CHOICE[None], every_row=True)
    assert problem.stream is not None
    kept, device = problem.stream.keeping(2**30), device_of(HostGPU())
    numbers, n_entries = np.arange(32), problem.rows.target.size
    length, alive = np.diff(problem.rows.indptr), []
    for used in (problem.used, ~problem.used, problem.used | True, problem.used):
        found = sampled(device, kept, numbers, used, n_entries)
        assert sampled(device, kept, numbers, used, n_entries) is found
        fresh = sampled(device, problem.stream, numbers, used, n_entries)
        of_used = np.repeat(used, length)
        assert (found[:, of_used] == fresh[:, of_used]).all()
        alive.append(ref(found))
        del found
        assert len({id(x()) for x in alive if x() is not None}) == 1


SMALL = bm.worlds.synthetic(0, 6, 2, discount=0.9)
FEW_STATES = bm.fit(SMALL.sample(200, seed=0), SMALL.task, prior=bm.SymmetricPrior())
VARIANTS = {  # bytes of shared memory; what of a block's work stays there
    "everything": (200_000, True, (True, 1, 1)),
    "values and single vectors": (_STATIC + 1000, True, (True, 0, 1)),
    "vectors": (200_000, False, (False, 1, 1)),
    "nothing": (_STATIC + 100, False, (False, 0, 0)),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_does_not_fit_into_shared_memory_is_streamed(variant: str) -> None:
    n_bytes, small, expected = VARIANTS[variant]
    gpu = HostGPU("variant", shared_bytes=n_bytes)
    engine.register(gpu)
    belief = FEW_STATES if small else belief_of(BELIEFS["concentration 0.3"])
    policy = np.full((6, 2), 0.5) if small else STOCHASTIC
    ours = bm.evaluate(policy, belief, n_draws=N_DRAWS, device="variant")
    assert_same(ours, bm.evaluate(policy, belief, n_draws=N_DRAWS))
    found = {
        (x["QUADS"] != 0, x["DOUBLES_SHARED"], x["SINGLES_SHARED"])
        for x in device_of(gpu).constants
        if "QUADS" in x
    }
    assert found == {expected}


# --- Threads and processes


def test_threads_do_not_share_a_gpu(many_tasks: None) -> None:
    gpu = HostGPU("alone")
    engine.register(gpu)
    found = bm.evaluate(CHOICE, draws(), device="alone", threads=2)
    assert device_of(gpu).threads == {get_ident()}
    same_bits(found, bm.evaluate(CHOICE, draws(), device="host", threads=1))


def test_other_processes_have_a_gpu_each(many_tasks: None) -> None:
    """The backend and its solvers are pickled; bits are those of one process."""
    gpu, problem = HostGPU(), engine.Problem.of_draws(draws(), CHOICE[None])
    again = pickle.loads(pickle.dumps(gpu))
    assert (again.name, again.how) == (gpu.name, gpu.how)
    nominal = gpu_cases_nominal(problem)
    assert nominal.device == "host"
    assert pickle.loads(pickle.dumps(nominal)).solver.kept == {}
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as executor:
        found = bm.evaluate(
            CHOICE, draws(), device="host", executor=executor, threads=2
        )
    same_bits(found, bm.evaluate(CHOICE, draws(), device="host"))


def gpu_cases_nominal(problem: engine.Problem) -> engine.Nominal:
    with engine.workers(1, None, "host") as pool:
        found = engine.nominal(problem, pool, control=True)
        engine.sweep(problem, found, 16, want=engine.Want(), pool=pool)
    assert found.solver.kept  # an inverse
    return found


# --- The device that pays


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> HostGPU:
    """A GPU that always pays."""
    monkeypatch.setattr(_auto, "_LEAST_SECONDS", 0.0)
    gpu = HostGPU("cuda")
    engine.register(gpu)
    return gpu


def test_auto_takes_the_gpu_where_it_pays(cuda: HostGPU) -> None:
    for policy in (CHOICE, STOCHASTIC):
        found = bm.evaluate(policy, draws(), device="auto", keep_values=True)
        assert (found.device, found.solver) == ("cuda", "iterative")
        same_bits(found, bm.evaluate(policy, draws(), device="cuda"))
    assert "computed by device cuda" in str(found)
    assert found.to_dict()["device"] == "cuda"
    table = bm.compare({"a": CHOICE, "b": STOCHASTIC}, draws(), device="auto")
    assert {x.device for x in table.evaluations.values()} == {"cuda"}
    belief = belief_of(BELIEFS["concentration 0.3"])
    how: Any = {"effort": "quick", "starts": ["nominal"]}
    how["method"] = bm.MirrorAscent(n_steps=2)
    best = bm.optimise(belief, device="auto", **how)
    assert best.evaluation.device == "cuda"


def test_auto_leaves_small_problems_to_the_cpu() -> None:
    def none_there() -> engine.Backend:
        raise AssertionError("nobody looks for a GPU")

    _backend.register_later("cuda", none_there)
    found = bm.evaluate(np.full((6, 2), 0.5), FEW_STATES, device="auto")
    assert found.device == "cpu"
    assert "computed by" not in str(found)


def test_auto_takes_the_cpu_where_there_is_no_gpu(cuda: HostGPU) -> None:
    def none_there() -> engine.Backend:
        raise BackendError("no GPU")

    _backend.register_later("cuda", none_there)
    found = bm.evaluate(CHOICE, draws(), device="auto")
    assert found.device == "cpu"
    same_bits(found, bm.evaluate(CHOICE, draws(), device="cpu"))


def test_auto_leaves_to_the_cpu_what_a_gpu_cannot_do(
    cuda: HostGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    dense = bm.evaluate(CHOICE, draws(), device="auto", solver="dense")
    assert (dense.device, dense.solver) == ("cpu", "dense")
    task = bm.Task(3, 1, [0, 1, 0], discount=0.9, horizon=3)
    counts = bm.Counts.from_arrays([0, 1, 2], [0] * 3, [1, 2, 0], [5, 5, 5])
    timed = bm.fit(counts, task, prior=bm.SymmetricPrior())
    problem = engine.Problem.of_draws(timed.draws(4), np.ones((1, 3, 1)))
    backend = engine.backend_of("auto")
    chosen = backend.choose(problem, "auto", adjoint=True)
    assert backend.behind(chosen).name == "cpu"
    monkeypatch.setattr(_auto, "_MOST_STATES", 10)
    assert bm.evaluate(CHOICE, draws(), device="auto").device == "cpu"


def test_auto_works_with_the_methods_of_the_device(cuda: HostGPU) -> None:
    problem = engine.Problem.of_draws(draws(), CHOICE[None])
    auto, cpu = engine.backend_of("auto"), engine.CPU()
    chosen = auto.choose(problem, "auto", adjoint=True)
    assert auto.iterates(chosen)
    assert auto.lighter(chosen) is None
    assert auto.behind(chosen) is cuda
    exact = auto.exact(problem, chosen)  # which no GPU has
    assert exact is not None
    assert (auto.behind(exact).name, exact.name) == ("cpu", "dense")
    assert auto.exact(problem, exact) is None
    lighter = auto.lighter(exact)
    assert lighter is not None
    assert lighter.name == "iterative"
    inverse = auto.inverses(problem, chosen)
    assert (inverse == cuda.inverses(problem, chosen.solver)).all()
    np.testing.assert_allclose(inverse, cpu.inverses(problem), rtol=1e-12)
    assert (auto.inverses(problem, exact) == cpu.inverses(problem)).all()
    again = pickle.loads(pickle.dumps(chosen))
    assert (again.name, again.backend.name) == ("iterative", "cuda")


def test_auto_keeps_as_many_digits_as_the_cpu(cuda: HostGPU) -> None:
    """The start sees a reward that is far smaller than others: elimination, no note."""
    task = bm.Task(4, 1, [1e-7, 0, 1, 0], discount=0.9, terminal=[1, 3], start=0)
    counts = bm.Counts.from_arrays([0, 2], [0, 0], [1, 3], [5, 5])
    belief = bm.fit(counts, task, prior=bm.SparsePrior(0.5))
    with pytest.warns(bm.BayesmdpWarning, match="fewer digits"):
        on_gpu = bm.evaluate([0] * 4, belief, n_draws=32, device="cuda")
    found = bm.evaluate([0] * 4, belief, n_draws=32, device="auto")
    assert (on_gpu.device, found.device, found.notes) == ("cuda", "cpu", ())
