"""Memory: read from the environment, estimated, and refused before work begins.

What a sweep takes is measured by `tracemalloc`, which sees the arrays of NumPy and of
compiled kernels alike.
"""

import re
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sweeps import nominal_of
from test_solver import two_wards

import bayesmdp as bm
from bayesmdp import _resources, engine
from bayesmdp.engine import _cpu
from bayesmdp.errors import ArgumentError, TooLargeError

Array = NDArray[np.float64]


def sparse_posterior(n: int, n_actions: int = 2, n_next: int = 5) -> bm.Posterior:
    rng = np.random.default_rng(n)
    state = np.repeat(np.arange(n), n_actions * n_next)
    action = np.tile(np.repeat(np.arange(n_actions), n_next), n)
    next_state = rng.integers(n, size=state.size)
    task = bm.Task(n, n_actions, rng.normal(size=n), discount=0.95)
    counts = bm.Counts.from_arrays(
        state, action, next_state, n_states=n, n_actions=n_actions
    )
    return bm.fit(counts, task, prior=bm.SparsePrior())


POSTERIORS: dict[int, bm.Posterior] = {}


def posterior_of(n: int) -> bm.Posterior:
    if n not in POSTERIORS:
        POSTERIORS[n] = sparse_posterior(n)
    return POSTERIORS[n]


# ------------------------------------------------------------ how much there is


@pytest.mark.parametrize(
    ("said", "n_bytes"),
    [
        ("8GB", 8 * 10**9),
        ("8gb", 8 * 10**9),
        ("500 MB", 500 * 10**6),
        ("1e9", 10**9),
        ("1.5T", 1_500_000_000_000),
        (" 64k ", 64_000),
        ("123456", 123_456),
        ("10 B", 10),
    ],
)
def test_the_environment_says_how_much_memory_there_is(
    monkeypatch: pytest.MonkeyPatch, said: str, n_bytes: int
) -> None:
    monkeypatch.setenv("BAYESMDP_MEMORY", said)
    assert _resources.available_bytes() == n_bytes


@pytest.mark.parametrize(
    "said", ["lots", "GB", "8 apples", "8PB", "1e9e9", "nan", "inf", "1e400", "-5GB"]
)
def test_a_size_that_is_none_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("BAYESMDP_MEMORY", said)
    with pytest.raises(ArgumentError, match=f"BAYESMDP_MEMORY.*8GB.*{said}"):
        bm.evaluate([0] * 80, posterior_of(80).draws(4))


@pytest.mark.parametrize("said", [None, "", "  "])
def test_without_a_word_the_system_is_asked(
    monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    if said is None:
        monkeypatch.delenv("BAYESMDP_MEMORY", raising=False)
    else:
        monkeypatch.setenv("BAYESMDP_MEMORY", said)
    assert 10**7 < _resources.available_bytes() <= 2**62


def test_the_system_is_not_asked_for_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BAYESMDP_MEMORY", raising=False)
    monkeypatch.setattr(_resources, "_of_system", lambda: 7)
    little = _resources._LITTLE
    assert _resources.available_bytes(little) == little
    assert _resources.available_bytes(little + 1) <= 7
    assert _resources.available_bytes() <= 7
    monkeypatch.setenv("BAYESMDP_MEMORY", "1k")  # who says so is heeded
    assert _resources.available_bytes(little) == 1000


@pytest.mark.parametrize(
    ("limit", "used", "left"),
    [("1000000", "400000", 600_300), ("1000", "4000", 0), ("max", "5", 2**62)],
)
def test_a_container_has_what_its_limit_leaves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str, used: str, left: int
) -> None:
    monkeypatch.delenv("BAYESMDP_MEMORY", raising=False)
    monkeypatch.setattr(_resources, "_CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text(limit + "\n")
    (tmp_path / "memory.current").write_text(used + "\n")
    (tmp_path / "memory.stat").write_text("anon 7\ninactive_file 300\nfile 900\n")
    assert _resources._of_container() == left
    assert _resources.available_bytes() <= left


@pytest.mark.parametrize(
    ("line", "groups", "names"),
    [
        ("0::/slurm/job_7", "slurm/job_7", _resources._SECOND),
        ("4:cpu,memory:/slurm/job_7", "memory/slurm/job_7", _resources._FIRST),
    ],
    ids=["second version", "first version"],
)
@pytest.mark.parametrize("depth", [0, 1])
def test_the_smallest_limit_around_a_job_counts(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    line: str,
    groups: str,
    names: tuple[str, str, str],
    depth: int,
) -> None:
    """The job's own group, or the one around it, as batch systems set them."""
    monkeypatch.setattr(_resources, "_CGROUP", tmp_path)
    monkeypatch.setattr(_resources, "_PROCESS", tmp_path)
    (tmp_path / "cgroup").write_text(f"9:name=systemd:/\n{line}\n")
    assert _resources._of_container() == 2**62
    inner = tmp_path / groups
    inner.mkdir(parents=True)
    limit, used, cached = names
    group = inner.parents[depth - 1] if depth else inner
    (group / limit).write_text("9000\n")
    (group / used).write_text("4000\n")
    (group / "memory.stat").write_text(f"{cached} 300\n")
    assert _resources._of_container() == 5300


def test_a_limit_of_addresses_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    assert _resources._of_process() > 0
    limits = (10**15, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    assert 0.99 * 10**15 < _resources._of_process() < 10**15
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1, 1))
    assert _resources._of_process() == 0


def test_no_container_is_no_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_resources, "_CGROUP", tmp_path / "nowhere")
    assert _resources._of_container() == 2**62


@pytest.mark.parametrize(
    ("n_bytes", "written"),
    [
        (50e6, "50 MB"),
        (8e9, "8 GB"),
        (1234e6, "1.23 GB"),
        (2e12, "2 TB"),
        (5e3, "5 kB"),
    ],
)
def test_sizes_are_written_for_people(n_bytes: float, written: str) -> None:
    assert _resources.gigabytes(n_bytes) == written


# ------------------------------------------------------------ refused before it begins


@contextmanager
def nothing_solved(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if a model is solved or inverted within."""

    def refuse(*_: object) -> None:
        raise RuntimeError("work began before memory was looked at")

    with monkeypatch.context() as patch:
        for kernel in ("solve_draw", "sweep_policy", "invert"):
            patch.setattr(_cpu, kernel, refuse)
        yield


@contextmanager
def measured() -> Iterator[Callable[[], int]]:
    """Measure the largest number of bytes held within, beyond what was there."""
    peak = 0
    tracemalloc.start()
    try:
        yield lambda: peak
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()


def evaluated(n: int, **options: object) -> bm.Evaluation:
    draws = posterior_of(n).draws(16)
    return bm.evaluate([0] * n, draws, **options)  # type: ignore[arg-type]


def compared(n: int, **options: object) -> bm.Comparison:
    policies = {name: [0] * n for name in "abcde"}
    draws = posterior_of(n).draws(16)
    return bm.compare(policies, draws, **options)  # type: ignore[arg-type]


LARGE: dict[str, tuple[str, Callable[[], object], str]] = {
    "too many threads": (
        "50MB",
        lambda: evaluated(20_000, threads=16),
        r"threads=\d+ would fit",
    ),
    "a matrix too large": (
        "50MB",
        lambda: evaluated(2600, solver="dense"),
        "solver='iterative'",
    ),
    "a matrix too large beside the rest": (
        "50MB",
        lambda: evaluated(2495, solver="dense", threads=1),
        "solver='iterative'",
    ),
    "a matrix for each of two threads": (
        "50MB",
        lambda: evaluated(2100, solver="dense", threads=2),
        "threads=1 would fit",
    ),
    "too many policies": (
        "40MB",
        lambda: compared(20_000, threads=1),
        "one at a time",
    ),
    "too many states": (
        "5MB",
        lambda: evaluated(20_000, threads=1),
        r"about \d+ states of this shape would fit",
    ),
    "too many states, whatever the number of policies": (
        "2MB",
        lambda: compared(20_000, threads=1),
        r"about \d+ states of this shape would fit",
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_does_not_fit_is_refused_before_anything_is_solved(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    limit, call, remedy = LARGE[name]
    posterior_of(20_000)
    monkeypatch.setenv("BAYESMDP_MEMORY", limit)
    with nothing_solved(monkeypatch), pytest.raises(TooLargeError, match=remedy):
        call()


def test_the_refusal_says_what_is_needed_and_what_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BAYESMDP_MEMORY", "50MB")
    with pytest.raises(TooLargeError) as caught:
        evaluated(20_000, threads=16)
    said = str(caught.value)
    assert "20000 states" in said
    assert "16 threads" in said
    assert "50 MB are free" in said
    assert "BAYESMDP_MEMORY" in said


def test_what_is_said_to_fit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESMDP_MEMORY", "50MB")
    with pytest.raises(TooLargeError) as caught:
        evaluated(20_000, threads=16)
    found = re.search(r"threads=(\d+)", str(caught.value))
    assert found is not None
    fit = int(found[1])
    assert 1 <= fit < 16
    plain = {"control": False, "solver": "iterative"}
    assert evaluated(20_000, threads=fit, **plain).n_draws == 16
    with pytest.raises(TooLargeError):
        evaluated(20_000, threads=fit + 1)
    # well above the 1 MB that a batch of sampled rows may take whatever the size
    monkeypatch.setenv("BAYESMDP_MEMORY", "10MB")
    with pytest.raises(TooLargeError) as caught:
        evaluated(20_000, threads=1)
    found = re.search(r"about (\d+) states", str(caught.value))
    assert found is not None
    n = int(0.9 * int(found[1]))
    assert evaluated(n, threads=1, **plain).n_draws == 16


def followed(remedy: str, asked: dict[str, object]) -> dict[str, object]:
    """Do what a refusal proposes."""
    if found := re.search(r"about (\d+) draws", remedy):
        asked = asked | {"n_draws": int(found[1])}
    if found := re.search(r"threads=(\d+)", remedy):
        asked = asked | {"threads": int(found[1])}
    if "control=False" in remedy:
        asked = asked | {"control": False}
    if found := re.search(r"solver='(\w+)'", remedy):
        asked = asked | {"solver": found[1], "threads": 1, "control": False}
    return asked


@pytest.mark.parametrize("solver", ["dense", "iterative"])
@pytest.mark.parametrize("threads", [1, 2])
def test_remedies_can_be_followed(
    monkeypatch: pytest.MonkeyPatch, threads: int, solver: str
) -> None:
    """Over limits from too little for anything to enough for all."""
    posterior = posterior_of(120)
    tried = 0
    for limit in np.geomspace(5e5, 4e6, 10):
        monkeypatch.setenv("BAYESMDP_MEMORY", str(int(limit)))
        asked = {"n_draws": 2048, "threads": threads, "solver": solver}
        for attempt in range(2):
            options = dict(asked)
            draws = posterior.draws(int(options.pop("n_draws")))
            try:
                bm.evaluate([0] * 120, draws, **options)
                break
            except TooLargeError as problem:
                remedy = str(problem)
                assert attempt == 0, remedy
            if "states of this shape" in remedy or "needs far less" in remedy:
                break
            asked = followed(remedy.split("free: ")[1], asked)
            tried += 1
    assert tried >= 3


def test_memory_is_looked_at_again_where_auto_eliminates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Iterations would fit, and are what auto takes first."""

    def chosen(dear: float, threads: int) -> str:
        draws = two_wards(150, dear).draws(16)
        problem = engine.Problem.of_draws(draws, np.ones((1, 300, 1)))
        return nominal_of(problem, control=False, threads=threads).solver.name

    monkeypatch.setenv("BAYESMDP_MEMORY", "11MB")
    assert chosen(1.0, threads=8) == "iterative"
    with pytest.raises(TooLargeError, match=r"threads=\d would fit") as caught:
        chosen(1e6, threads=8)
    found = re.search(r"threads=(\d)", str(caught.value))
    assert found is not None
    assert chosen(1e6, threads=int(found[1])) in ("dense", "banded")


@pytest.mark.parametrize("n_draws", [10**12, 10**15])
def test_too_many_draws_are_refused_before_they_are_counted_out(n_draws: int) -> None:
    with pytest.raises(TooLargeError, match=rf"`n_draws` {n_draws} .*would fit"):
        bm.evaluate([0] * 300, posterior_of(300).draws(n_draws))


def test_what_control_variates_take_is_counted_or_done_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five inverses of 3 MB do not fit into 10 MB, and must not be tried."""
    posterior_of(600)
    monkeypatch.setenv("BAYESMDP_MEMORY", "10MB")
    refused = False
    with measured() as taken:
        try:
            compared(600, threads=1, solver="dense")
        except TooLargeError:
            refused = True
    assert refused or taken() < 15e6


# ------------------------------------------------------------ the estimate


def problem_of(
    n: int, n_policies: int, gradient: bool
) -> tuple[engine.Problem, engine.Want]:
    rng = np.random.default_rng(0)
    policies = np.eye(2)[rng.integers(2, size=(n_policies, n))]
    draws = posterior_of(n).draws(2)
    problem = engine.Problem.of_draws(draws, policies, every_row=gradient)
    return problem, engine.Want(variance=True, occupancy=True, gradient=gradient)


MEASURED = {
    "iterations": (8_000, 1, "iterative", False, 32, 1),
    "iterations on two threads": (6_000, 1, "iterative", False, 64, 2),
    "many draws, which wait to be joined": (80, 8, "iterative", False, 2048, 2),
    "several policies": (3_000, 4, "iterative", False, 32, 1),
    "gradients": (5_000, 1, "iterative", True, 32, 1),
    "elimination": (700, 1, "dense", False, 16, 1),
    "elimination on two threads": (700, 1, "dense", False, 32, 2),
}


@pytest.mark.parametrize("name", MEASURED)
def test_the_estimate_is_within_a_factor_three_of_what_is_taken(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The estimate is what a refusal says that the same sweep needs."""
    n, n_policies, solver, gradient, n_draws, threads = MEASURED[name]
    problem, want = problem_of(n, n_policies, gradient)
    nominal = nominal_of(problem, control=True, solver=solver, want=want)
    with engine.workers(threads, None) as pool:
        engine.sweep(problem, nominal, 2, want=want, pool=pool)  # compiled, loaded
        with measured() as taken:
            engine.sweep(problem, nominal, n_draws, want=want, pool=pool)
        monkeypatch.setenv("BAYESMDP_MEMORY", "1k")
        with pytest.raises(TooLargeError) as caught:
            engine.sweep(problem, nominal, n_draws, want=want, pool=pool)
    said = re.search(r"needs about ([\d.]+ .B)", str(caught.value))
    assert said is not None
    estimate = _resources._parsed(said[1])
    assert taken() / 3 < estimate < 3 * taken()


def test_kernels_are_seen_by_what_measures() -> None:
    """Else the tests above would compare with nothing."""
    problem, want = problem_of(1_000, 1, gradient=False)
    with measured() as taken:
        nominal_of(problem, control=False, solver="dense", want=want)
    assert 8e6 < taken() < 16e6
