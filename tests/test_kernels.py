"""Kernels that do not count references to arrays: nothing is lost, nothing freed."""

import importlib
import pkgutil
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.runtime import _nrt_python, rtsys

import bayesmdp as bm

NUMBERS = type(None), int, float, bool


def _kernels() -> dict[str, Dispatcher]:
    """All kernels of the engine by their full name."""
    package = importlib.import_module("bayesmdp.engine")
    found = {}
    for each in pkgutil.iter_modules(package.__path__, "bayesmdp.engine."):
        for name, value in vars(importlib.import_module(each.name)).items():
            if isinstance(value, Dispatcher):
                found[f"{each.name}.{name}"] = value
    return found


def _returns_numbers(kernel: Dispatcher) -> bool:
    """Whether a kernel returns nothing, a number, or some numbers."""
    hint = get_type_hints(kernel.py_func)["return"]
    return all(kind in NUMBERS for kind in (get_args(hint) or (hint,)))


def _uncounted(kernel: Any) -> bool:
    return kernel.targetoptions.get("_nrt") is False


UNCOUNTED = {name: x for name, x in _kernels().items() if _uncounted(x)}


def test_the_loop_over_draws_counts_no_references() -> None:
    for loop in ("_kernel.sweep_policy", "_stages.sweep_stages"):
        assert f"bayesmdp.engine.{loop}" in UNCOUNTED


@pytest.mark.parametrize("name", UNCOUNTED)
def test_what_is_not_counted_is_never_handed_on(name: str) -> None:
    """Neither the kernel nor what it calls returns arrays."""
    kernel = UNCOUNTED[name]
    function = kernel.py_func
    called = (function.__globals__.get(x) for x in function.__code__.co_names)
    for each in (kernel, *(x for x in called if isinstance(x, Dispatcher))):
        assert _returns_numbers(each), each


@pytest.mark.parametrize("solver", ["dense", "iterative"])
@pytest.mark.parametrize("more", [{}, {"cycle": "half"}, {"horizon": 5}], ids=str)
def test_evaluations_leave_no_memory_behind(more: dict, solver: str) -> None:
    """What kernels allocated is freed, of one reward and of two."""
    rng = np.random.default_rng(0)
    counts = bm.Counts.from_dense(rng.poisson(2.0, size=(4, 2, 4)))
    paid = {name: rng.normal(size=(4, 2)) for name in ("cost", "qaly")}
    for reward in (paid["cost"], paid):
        task = bm.Task(4, 2, reward, discount=0.9, **more)
        posterior = bm.fit(counts, task, prior=bm.SymmetricPrior())
        held = []
        _nrt_python.memsys_enable_stats()
        try:
            for _ in range(3):
                bm.evaluate([0, 1, 0, 1], posterior, n_draws=50, solver=solver)
                stats = rtsys.get_allocation_stats()
                held.append((stats.alloc - stats.free, stats.mi_alloc - stats.mi_free))
        finally:
            _nrt_python.memsys_disable_stats()
        assert held[1] == held[2]
