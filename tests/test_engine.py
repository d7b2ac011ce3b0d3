"""The sweep: the same bits however the work is split, and nothing kept that grows."""

import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import numpy as np
import pytest
from numpy.typing import NDArray
from sweeps import nominal_of

import bayesmdp as bm
from bayesmdp import engine

Array = NDArray[np.float64]
WANT = engine.Want(variance=True, occupancy=True, gradient=True)


def grid_posterior() -> bm.Posterior:
    world = bm.worlds.gridworld()
    prior = bm.SymmetricPrior(support=world.support)
    return bm.fit(world.sample(300, seed=1), world.task, prior=prior)


def random_policies(n: int, n_states: int = 25, n_actions: int = 4) -> Array:
    rng = np.random.default_rng(3)
    return rng.dirichlet(np.ones(n_actions), size=(n, n_states))


POSTERIOR = grid_posterior()
POLICY = random_policies(1)[0]
N_DRAWS = 1003  # 62 whole blocks and a part


def assert_same_bits(one: object, other: object) -> None:
    """Compare every field of two records of the same type."""
    assert type(one) is type(other)
    for field in fields(one):  # type: ignore[arg-type]
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), field.name
        elif field.name == "nodes":
            for name in ("state", "row"):
                assert np.array_equal(getattr(one, name), getattr(other, name)), name
        elif isinstance(a, int | float | tuple):
            assert a == b, field.name


def swept(
    policies: Array,
    n_draws: int = N_DRAWS,
    after: engine.Sums | None = None,
    threads: int = 2,
) -> engine.Sums:
    """Sweep all rows of the grid, with everything wanted."""
    draws = POSTERIOR.draws(n_draws, seed=5)
    problem = engine.Problem.of_draws(draws, policies, every_row=True)
    nominal = nominal_of(problem, control=True)
    with engine.workers(threads, None) as pool:
        return engine.sweep(
            problem, nominal, n_draws, want=WANT, pool=pool, after=after
        )


# ------------------------------------------------------------ the same bits


@pytest.fixture(scope="module")
def on_one_thread() -> bm.Evaluation:
    return bm.evaluate(POLICY, POSTERIOR.draws(N_DRAWS, seed=5), threads=1)


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_results_do_not_depend_on_the_number_of_threads(
    on_one_thread: bm.Evaluation, threads: int
) -> None:
    draws = POSTERIOR.draws(N_DRAWS, seed=5)
    assert_same_bits(on_one_thread, bm.evaluate(POLICY, draws, threads=threads))


def test_another_seed_is_told_apart(on_one_thread: bm.Evaluation) -> None:
    other = bm.evaluate(POLICY, POSTERIOR.draws(N_DRAWS, seed=6))
    with pytest.raises(AssertionError, match="value"):
        assert_same_bits(on_one_thread, other)


def test_results_do_not_depend_on_the_executor(on_one_thread: bm.Evaluation) -> None:
    """`tests/integration/test_executor.py` has processes, too."""
    draws = POSTERIOR.draws(N_DRAWS, seed=5)
    with ThreadPoolExecutor(3) as executor:
        evaluation = bm.evaluate(POLICY, draws, executor=executor, threads=2)
        assert executor.submit(max, 1, 2).result() == 2  # it is the caller's to close
    assert_same_bits(on_one_thread, evaluation)


@pytest.mark.parametrize("n_blocks", [1, 3, 8, 31])
def test_a_sweep_that_goes_on_equals_one_in_one_go(n_blocks: int) -> None:
    policies = random_policies(2)
    first = swept(policies, n_blocks * engine.BLOCK)
    assert_same_bits(swept(policies), swept(policies, after=first, threads=3))


def test_a_sweep_in_many_stages_equals_one_in_one_go() -> None:
    policies = random_policies(1)
    sums = None
    for n_draws in (engine.BLOCK, 2 * engine.BLOCK, 20 * engine.BLOCK, N_DRAWS):
        sums = swept(policies, n_draws, after=sums)
    assert_same_bits(swept(policies), sums)


def test_a_tolerance_stops_at_what_fewer_draws_would_have_given() -> None:
    draws = POSTERIOR.draws(20_000, seed=5)
    stopped = bm.evaluate(POLICY, draws, tolerance=1e-4)
    assert 256 <= stopped.n_draws < 20_000
    assert stopped.start_value_mcse <= 1e-4
    fewer = POSTERIOR.draws(stopped.n_draws, seed=5)
    assert_same_bits(stopped, bm.evaluate(POLICY, fewer))


def test_policies_swept_together_give_what_each_gives_alone() -> None:
    policies = random_policies(3)
    policies[1] = np.eye(4)[np.arange(25) % 4]  # a deterministic one among them
    together = swept(policies)
    for p in range(3):
        alone = swept(policies[p : p + 1])
        for name in ("state", "row", "start", "ended"):
            both = getattr(together, name)[p : p + 1]
            assert np.array_equal(both, getattr(alone, name)), name


def test_rows_a_policy_does_not_use_do_not_change_its_result() -> None:
    policy = np.eye(4)[np.arange(25) % 4][None]
    draws = POSTERIOR.draws(500, seed=5)
    sums = []
    for every_row in (False, True):
        problem = engine.Problem.of_draws(draws, policy, every_row=every_row)
        nominal = nominal_of(problem, control=True)
        with engine.workers(2, None) as pool:
            want = engine.Want(variance=True)
            sums.append(engine.sweep(problem, nominal, 500, want=want, pool=pool))
    assert np.array_equal(sums[0].state, sums[1].state)
    assert np.array_equal(sums[0].start, sums[1].start)


def test_a_draw_of_weight_zero_is_left_out_and_weights_scale_sums() -> None:
    draws = POSTERIOR.draws(64, seed=5)
    problem = engine.Problem.of_draws(draws, POLICY[None])
    nominal = nominal_of(problem, control=False)
    weights = np.full(64, 2.0)
    weights[32:] = 0.0
    want = engine.Want(variance=True)
    with engine.workers(2, None) as pool:
        half = engine.sweep(problem, nominal, 32, want=want, pool=pool)
        doubled = engine.sweep(
            problem, nominal, 64, want=want, pool=pool, weights=weights
        )
    assert np.array_equal(doubled.state, 2.0 * half.state)
    assert np.array_equal(doubled.ended[0], weights > 0)


# ------------------------------------------------------------ threads, progress


def test_the_environment_says_how_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESMDP_THREADS", "3")
    with engine.workers(None, None) as pool:
        assert pool.in_flight == 6
    with engine.workers(1, None) as pool:  # the argument goes first
        assert pool.in_flight == 2
    before, seen = threading.active_count(), []
    draws = POSTERIOR.draws(2000, seed=0)
    problem = engine.Problem.of_draws(draws, POLICY[None])
    nominal = nominal_of(problem, control=False)
    with engine.workers(None, None) as pool:
        engine.sweep(
            problem,
            nominal,
            2000,
            want=WANT,
            pool=pool,
            progress=lambda done: seen.append(threading.active_count() - before),
        )
    assert 1 <= max(seen) <= 3


@pytest.mark.parametrize("said", ["0", "two", "-1", "1.5"])
def test_an_impossible_number_of_threads_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("BAYESMDP_THREADS", said)
    with pytest.raises(bm.BayesmdpError, match="BAYESMDP_THREADS"):
        bm.evaluate(POLICY, POSTERIOR.draws(32))


def test_one_thread_is_the_callers() -> None:
    def fails(problem: type[BaseException]) -> None:
        raise problem

    here, jobs = threading.get_ident(), [()] * 3
    with engine.workers(1, None) as pool:
        with engine.results(pool, threading.get_ident, jobs) as found:
            assert list(found) == [here] * 3
        for problem in (ValueError, KeyboardInterrupt):
            with (
                engine.results(pool, fails, [(problem,)]) as none,
                pytest.raises(problem),
            ):
                next(none)
    with (
        engine.workers(2, None) as pool,
        engine.results(pool, threading.get_ident, jobs) as found,
    ):
        assert here not in set(found)


def test_progress_grows_and_reaches_the_number_of_draws() -> None:
    draws = POSTERIOR.draws(N_DRAWS, seed=5)
    problem = engine.Problem.of_draws(draws, POLICY[None])
    nominal = nominal_of(problem, control=False)
    seen: list[int] = []
    with engine.workers(2, None) as pool:
        half = 16 * engine.BLOCK
        first = engine.sweep(
            problem, nominal, half, want=WANT, pool=pool, progress=seen.append
        )
        assert seen[-1] == half
        engine.sweep(
            problem,
            nominal,
            N_DRAWS,
            want=WANT,
            pool=pool,
            after=first,
            progress=seen.append,
        )
    assert seen[-1] == N_DRAWS
    assert (np.diff(seen) > 0).all()
    assert len(seen) >= 4


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
def test_an_interruption_stops_the_sweep_and_its_threads(
    interruption: type[BaseException],
) -> None:
    n_draws = 1_000_000  # a minute or two, in tasks of some 50 ms
    problem = engine.Problem.of_draws(POSTERIOR.draws(n_draws), random_policies(20))
    nominal = nominal_of(problem, control=False)
    before = threading.active_count()
    raised_at: list[float] = []

    def interrupt(done: int) -> None:
        raised_at.append(time.monotonic())
        raise interruption

    with (
        pytest.raises(interruption),
        engine.workers(2, None) as pool,
    ):
        engine.sweep(
            problem, nominal, n_draws, want=WANT, pool=pool, progress=interrupt
        )
    assert time.monotonic() - raised_at[0] < 1.0
    assert len(raised_at) == 1
    assert threading.active_count() == before


def threads_of(n_draws: int) -> int:
    """Count the threads that a sweep of so many draws starts where two may be."""
    problem = engine.Problem.of_draws(POSTERIOR.draws(n_draws), POLICY[None])
    nominal = nominal_of(problem, control=False)
    before = threading.active_count()
    with engine.workers(2, None) as pool:
        engine.sweep(problem, nominal, n_draws, want=engine.Want(), pool=pool)
        return threading.active_count() - before


def test_what_takes_less_than_a_millisecond_is_not_handed_over() -> None:
    assert threads_of(16) == 0
    assert threads_of(5_000) == 2


# ------------------------------------------------------------ memory

MEMORY = textwrap.dedent("""
    import resource, sys
    import numpy as np
    import bayesmdp as bm

    def peak():
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    s = np.arange(60)
    support = (s[None, :] - s[:, None]) % 60 < 8
    task = bm.Task(60, 1, reward=s / 60, discount=0.9)
    counts = bm.Counts.from_arrays(s, 0 * s, (s + 1) % 60)
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior(support=support))
    peaks = []
    for n_draws in (2_000, 20_000):
        bm.evaluate(0 * s, posterior.draws(n_draws), threads=2)
        peaks.append(peak())
    print(*peaks)
""")


def test_memory_grows_with_draws_only_by_a_few_numbers_a_draw() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True
    )
    few, many = (int(word) for word in ran.stdout.split())
    kept = 18_000 * 60 * 8 * 8  # bytes of rows alone, were they kept: 69 MB
    assert many - few < 18_000 * 1000 < kept / 3
