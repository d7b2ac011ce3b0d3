"""Draws of the hierarchical prior against every set of possible next states.

Statistical checks have a fixed seed and say their error rate; 5 standard errors are
6e-7 a comparison as far as means of that many draws are normal.
"""

import dataclasses
import pickle
import tracemalloc
from itertools import chain, combinations
from math import comb, exp, lgamma
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sweeps import nominal_of

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.errors import BeliefError
from bayesmdp.evaluation import _measure
from bayesmdp.optimisation._search import default_starts
from bayesmdp.optimisation._settings import effort_of
from bayesmdp.posterior import sampling

Array = NDArray[np.float64]
Z = 5.0
S = 5  # states, all live, one action
REWARD = np.array([1.0, -1.0, 2.0, 0.5, 0.0])
TASK = bm.Task(S, 1, REWARD, discount=0.9, start=0)
NOT_FOUR = np.ones((S, S), dtype=bool)
NOT_FOUR[:, 4] = False


class Case(NamedTuple):
    """A prior, visits of the row of state 0, and what the enumeration is told."""

    prior: Any
    n: list[int]
    a: float = 1.0
    decay: float = 0.9
    support: tuple[int, ...] = (0, 1, 2, 3, 4)
    imagined: dict[int, float] = {}  # noqa: RUF012
    lump: int | None = None


def sets(a: float = 1.0, decay: float = 0.9, **more: Any) -> bm.RandomSupportPrior:
    return bm.RandomSupportPrior(a, decay, **more)


CASES = {
    "one visit": Case(sets(), [0, 1, 0, 0, 0]),
    "two states": Case(sets(0.3, 0.6), [0, 3, 0, 1, 0], 0.3, 0.6),
    "never visited": Case(sets(0.7, 0.8), [0, 0, 0, 0, 0], 0.7, 0.8),
    "all seen": Case(sets(0.5), [1, 2, 1, 4, 1], 0.5),
    "any size": Case(sets(2.5, 1.0), [2, 0, 0, 0, 1], 2.5, 1.0),
    "tiny": Case(sets(0.002, 0.9), [0, 1, 0, 0, 0], 0.002),
    "a support": Case(sets(support=NOT_FOUR), [0, 2, 0, 0, 0], support=(0, 1, 2, 3)),
    "lumped": Case(sets(fallback=4), [0, 2, 1, 0, 0], lump=4),
    "lumped on a seen state": Case(sets(0.4, fallback=1), [0, 2, 1, 0, 0], 0.4, lump=1),
    "lumped outside the support": Case(
        sets(support=NOT_FOUR, fallback=4),
        [0, 2, 0, 0, 0],
        support=(0, 1, 2, 3),
        lump=4,
    ),
    "fallback": Case(
        bm.FallbackPrior(sets(0.5, 0.7), 4, 1.5),
        [0, 2, 0, 0, 0],
        0.5,
        0.7,
        imagined={4: 1.5},
    ),
    "fallback seen": Case(
        bm.FallbackPrior(sets(), 1, 2.0), [0, 2, 0, 1, 0], imagined={1: 2.0}
    ),
    "fallback never visited": Case(
        bm.FallbackPrior(sets(), 4, 0.3), [0, 0, 0, 0, 0], imagined={4: 0.3}
    ),
    "fallback outside the support": Case(
        bm.FallbackPrior(sets(0.5, support=NOT_FOUR), 4, 1.2),
        [0, 1, 0, 0, 1],
        0.5,
        support=(0, 1, 2, 3),
        imagined={4: 1.2},
    ),
    "two fallbacks": Case(
        bm.FallbackPrior(bm.FallbackPrior(sets(), 4, 0.5), 0, 2.0),
        [0, 1, 0, 0, 0],
        imagined={4: 0.5, 0: 2.0},
    ),
    "fallback over lumped": Case(
        bm.FallbackPrior(sets(0.5, fallback=3), 4, 1.5),
        [0, 2, 0, 0, 0],
        0.5,
        imagined={4: 1.5},
        lump=3,
    ),
}
every_case = pytest.mark.parametrize("name", CASES)


def enumerated(case: Case) -> tuple[float, list[tuple[float, Array]]]:
    """Evidence, and for every set its probability and its Dirichlet shapes ``[S]``.

    Shapes before the data are ``a`` on the set and the pseudo-counts; outside the
    support these are a concentration of every set, inside they reweight sets.
    """
    length, n = len(case.support), np.array(case.n, dtype=float)
    outside = {t: w for t, w in case.imagined.items() if t not in case.support}
    inside = {t: w for t, w in case.imagined.items() if t in case.support}
    total = sum(case.decay**k for k in range(1, length + 1))
    every = chain.from_iterable(
        combinations(case.support, k) for k in range(1, length + 1)
    )
    before, found = 0.0, []
    for chosen in every:
        base = np.zeros(S)
        base[list(chosen)] = case.a
        for t, w in outside.items():
            base[t] = w
        first, after = base.copy(), base + n
        for t, w in inside.items():
            first[t] += w
            after[t] += w
        weight = case.decay ** len(chosen) / total / comb(length, len(chosen))
        if (first[base == 0] > 0).any():
            continue
        before += weight * exp(log_moment(base, first))
        if (after[base == 0] > 0).any():
            continue
        found.append((weight * exp(log_moment(base, after)), lumped(case, after)))
    whole = sum(weight for weight, _ in found)
    return whole / before, [(weight / whole, shape) for weight, shape in found]


def log_moment(base: Array, after: Array) -> float:
    """Log of the mean of a product of powers of a Dirichlet variate."""
    out = lgamma(base.sum()) - lgamma(after.sum())
    return out + sum(
        lgamma(y) - lgamma(x) for x, y in zip(base, after, strict=True) if x > 0
    )


def lumped(case: Case, shape: Array) -> Array:
    if case.lump is None:
        return shape
    known = [t for t in range(S) if case.n[t] or t in case.imagined]
    out = np.where(np.isin(np.arange(S), known), shape, 0.0)
    out[case.lump] += shape.sum() - out.sum()
    return out


def fitted(prior: Any, n: list[int], task: bm.Task = TASK) -> Any:
    """Visits of state 0, and one elsewhere: nothing can be fitted to no data."""
    counts = np.zeros((S, 1, S), dtype=np.int64)
    counts[0, 0], counts[1, 0, 0] = n, 1
    return bm.fit(bm.Counts.from_dense(counts), task, prior=prior)


def table_of(draws: bm.Draws) -> Array:
    """Every entry of every draw, ``[D, E]``, by the sampler of sweeps."""
    policies = np.ones((1, S, draws.belief.task.n_actions))
    problem = engine.Problem.of_draws(draws, policies)
    table = np.empty((draws.n_draws, problem.rows.target.size))
    assert problem.stream is not None
    problem.stream.fill(np.arange(draws.n_draws), problem.used, table)
    return table


def first_row(posterior: Any, n_draws: int, seed: int = 0) -> Array:
    """Draws of the row of state 0, ``[D, S]``."""
    rows, table = posterior.layout, table_of(posterior.draws(n_draws, seed=seed))
    out = np.zeros((n_draws, S))
    out[:, rows.next_state[: rows.indptr[1]]] = table[:, : rows.indptr[1]]
    return out


# ------------------------------------------------------------------ the distribution


@every_case
def test_means_and_evidence_equal_enumeration(name: str) -> None:
    case = CASES[name]
    evidence, found = enumerated(case)
    posterior = fitted(case.prior, case.n)
    wanted = sum(p * shape / shape.sum() for p, shape in found)
    mean = posterior.mean().to_dense()[0, 0]
    assert mean == pytest.approx(wanted, abs=1e-12)
    if case.lump is None:
        other, _ = enumerated(case._replace(n=[1, 0, 0, 0, 0]))  # of state 1
        assert posterior.log_evidence() == pytest.approx(np.log(evidence * other))
    else:
        assert posterior.prior.looks_at_data


@every_case
def test_moments_of_draws_equal_enumeration(name: str) -> None:
    """Mean, square and zeros of each entry, and products of two: 5 errors each."""
    case, n = CASES[name], 20_000
    _, found = enumerated(case)
    theta = first_row(fitted(case.prior, case.n), n)
    np.testing.assert_allclose(theta.sum(axis=1), 1.0, rtol=1e-12)
    zero = np.clip(sum(p * (shape == 0) for p, shape in found), 0, 1)
    off = np.abs((theta == 0).mean(axis=0) - zero)
    if case.a > 0.01:  # smaller variates may be 0 for lack of digits
        assert (off <= Z * np.sqrt(zero * (1 - zero) / n) + 1e-15).all()
    mean = sum(p * shape / shape.sum() for p, shape in found)
    second = sum(p * moments(shape) for p, shape in found)
    assert_near(theta, mean)
    assert_near(theta**2, np.diag(second))
    if case.a > 0.01:  # products of tiny variates are too rarely above 0
        for i in range(S):
            assert_near(theta * theta[:, [i]], second[i])


def moments(shape: Array) -> Array:
    total = shape.sum()
    return (np.outer(shape, shape) + np.diag(shape)) / (total * (total + 1))


def assert_near(x: Array, wanted: Array) -> None:
    error = x.std(axis=0) / np.sqrt(len(x))
    assert (np.abs(x.mean(axis=0) - wanted) <= Z * error + 1e-12).all()


@pytest.mark.parametrize("name", [x for x in CASES if x != "tiny"])
def test_sets_come_as_often_as_they_are_likely(name: str) -> None:
    """Chi-squared over all patterns of zeros; fails once in 1e4 runs a case."""
    case, n = CASES[name], 20_000
    code = 2 ** np.arange(S)
    chance = np.zeros(2**S)
    for p, shape in enumerated(case)[1]:
        chance[(shape > 0) @ code] += p
    theta = first_row(fitted(case.prior, case.n), n, seed=1)
    found = np.bincount((theta > 0) @ code, minlength=2**S)
    assert not found[chance == 0].any()
    wanted, found = n * chance[chance > 0], found[chance > 0]
    often = wanted > 5
    rest = [found[~often].sum(), wanted[~often].sum()]
    if rest[1] > 0:
        found = np.append(found[often], rest[0])
        wanted = np.append(wanted[often], rest[1])
    if found.size > 1:
        assert stats.chisquare(found, wanted).pvalue > 1e-4


@pytest.mark.parametrize("name", [x for x in CASES if x != "tiny"])
def test_entries_are_mixtures_of_betas(name: str) -> None:
    """Kolmogorov's test of each entry where it is above 0; error rate 1e-4 each."""
    case = CASES[name]
    _, found = enumerated(case)
    theta = first_row(fitted(case.prior, case.n), 4000, seed=2)
    for t in range(S):
        inner = [(p, x[t], x.sum() - x[t]) for p, x in found if 0 < x[t] < x.sum()]
        some = theta[(theta[:, t] > 0) & (theta[:, t] < 1), t]
        if not inner:
            assert some.size == 0
            continue
        p, a, b = np.array(inner).T

        def cdf(x: Array, p: Array = p, a: Array = a, b: Array = b) -> Array:
            return np.asarray(stats.beta.cdf(x[:, None], a, b) @ p / p.sum())

        assert stats.kstest(some, cdf).pvalue > 1e-4


def test_one_dirichlet_in_place_of_the_mixture_would_be_noticed() -> None:
    """The tests above can fail: rows with the same mean have other squares."""
    posterior = fitted(sets(), CASES["one visit"].n)
    plain = dataclasses.replace(posterior, sets=None)
    assert plain.mean().to_dense() == pytest.approx(posterior.mean().to_dense())
    theta = first_row(plain, 20_000)
    second = sum(p * moments(shape) for p, shape in enumerated(CASES["one visit"])[1])
    assert_near(theta, plain.mean().to_dense()[0, 0])
    with pytest.raises(AssertionError):
        assert_near(theta * theta[:, [1]], second[1])


def test_every_unseen_state_may_be_taken_at_once() -> None:
    """The last of those left is taken for sure, whatever the uniform number."""
    shape, alpha, theta = np.zeros(716), np.ones(716), np.empty(716)
    stream = np.array([1, 2, 3, 4], dtype=np.uint64)
    for wanted in (1, 2, 715, 716):
        cumulative = np.where(np.arange(717) < wanted, 0.0, 1.0)
        for _ in range(50):
            sampling.set_row(alpha, shape, 1.0, cumulative, -1, stream, theta)
            assert (theta > 0).sum() == wanted


# ------------------------------------------------------------------ one draw, any way

COUNTS = bm.worlds.synthetic(1, S, 2, discount=0.9).sample(12, seed=3)
WIDE = bm.worlds.synthetic(1, S, 2, discount=0.9).task
HERE = np.full((S, S), True)
HERE[:, 0] = False
BELIEFS = {
    "sets": sets(),
    "lumped": sets(fallback=3),
    "fallback": bm.FallbackPrior(sets(), 2),
    "mixture": bm.MixturePrior(
        [sets(), bm.ScaledPrior(2.0), bm.FallbackPrior(sets(0.5, 0.6), 2)],
        posterior_weights=[0.4, 0.3, 0.3],
    ),
    "mixture of supports": bm.MixturePrior(
        [sets(fallback=0), bm.SparsePrior(fallback=4), sets()],
        posterior_weights=[0.4, 0.3, 0.3],
    ),
}
every_belief = pytest.mark.parametrize("name", BELIEFS)
POLICY = np.random.default_rng(0).dirichlet(np.ones(2), size=S)


def belief_of(name: str) -> Any:
    return bm.fit(COUNTS, WIDE, prior=BELIEFS[name])


@every_belief
def test_sweeps_and_single_draws_have_the_same_rows_to_the_bit(name: str) -> None:
    draws = belief_of(name).draws(40, seed=5)
    table = table_of(draws)
    for i in range(40):
        assert np.array_equal(draws.dynamics(i).probability, table[i])
    assert (table == 0).any()


@pytest.mark.parametrize("name", ["mixture", "mixture of supports"])
def test_a_draw_is_the_same_draw_of_its_component(name: str) -> None:
    belief = belief_of(name)
    draws = belief.draws(60, seed=5)
    assert np.unique(draws.members).size == 3
    for i in range(60):
        own = belief.components[draws.members[i]].draws(60, seed=5).dynamics(i)
        assert np.array_equal(draws.dynamics(i).to_dense(), own.to_dense())


@pytest.mark.usefixtures("many_tasks")
@every_belief
@pytest.mark.parametrize("policy", [POLICY, [0, 1, 0, 1, 0]], ids=["all", "some"])
def test_values_are_those_of_the_draws(name: str, policy: Any) -> None:
    draws = belief_of(name).draws(60, seed=1)
    found = bm.evaluate(policy, draws, control=False, threads=1)
    pi = policy if policy is POLICY else np.eye(2)[policy]
    for i in range(60):
        theta = draws.dynamics(i).to_dense()
        chain = np.einsum("sa,sat->st", pi, theta)
        value = np.linalg.solve(np.eye(S) - 0.9 * chain, WIDE.reward)
        assert found.start_values[i] == pytest.approx(WIDE.start @ value, rel=1e-10)
    again = bm.evaluate(policy, draws, control=False, threads=3)
    assert np.array_equal(again.value, found.value)


@every_belief
def test_the_first_control_variate_alone_is_used(name: str) -> None:
    """Two independent estimates, one without; 5 standard errors."""
    belief = belief_of(name)
    plain = bm.evaluate(POLICY, belief.draws(8000, seed=1), control=False)
    better = bm.evaluate(POLICY, belief.draws(2000, seed=2))
    error = np.hypot(plain.start_value_mcse, better.start_value_mcse)
    assert abs(plain.start_value - better.start_value) < Z * error
    problem = engine.Problem.of_draws(belief.draws(2), POLICY[None])
    assert problem.rows.total is None
    nominal = nominal_of(problem, control=True)
    assert not nominal.every_state
    assert not _measure.control_mean(problem, nominal, 0).any()


@every_belief
def test_a_problem_travels_to_other_processes(name: str) -> None:
    problem = engine.Problem.of_draws(belief_of(name).draws(32, seed=1), POLICY[None])
    nominal = nominal_of(problem, control=False)
    there = pickle.loads(pickle.dumps((problem, nominal)))
    cpu = engine.backend_of("cpu")
    one = cpu.sweep(problem, nominal, 0, 0, np.ones(32))
    two = cpu.sweep(*there, 0, 0, np.ones(32))
    assert np.array_equal(one.start, two.start)


@every_belief
def test_runs_and_updates_give_the_same_draws(name: str, tmp_path: Path) -> None:
    belief = belief_of(name)
    wanted = belief.draws(3, seed=9).dynamics(2).probability
    again = bm.storage.load(bm.storage.save(belief, tmp_path / "run")).posterior
    counts = belief.counts
    first = dataclasses.replace(counts, count=np.ones_like(counts.count))
    extra = counts.count > 1
    rest = bm.Counts.from_arrays(
        counts.state[extra],
        counts.action[extra],
        counts.next_state[extra],
        counts.count[extra] - 1,
    )
    updated = bm.fit(first, WIDE, prior=BELIEFS[name]).update(rest)
    pickled = pickle.loads(pickle.dumps(belief))
    for other in (again, updated, pickled):
        assert np.array_equal(other.draws(3, seed=9).dynamics(2).probability, wanted)


KNOWN = {  # made by the version before there were random sets
    "symmetric": (bm.SymmetricPrior(0.4), 0.46557623395696324),
    "mixture": (
        bm.MixturePrior(
            [bm.SymmetricPrior(0.4), bm.FallbackPrior(bm.SymmetricPrior(2.0, HERE), 3)],
            posterior_weights=[0.5, 0.5],
        ),
        3.7560308987761997,
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_draws_of_other_priors_are_what_they_were(name: str) -> None:
    prior, wanted = KNOWN[name]
    counts = np.ones((S, 2, S), dtype=np.int64)
    counts[:, :, 0] = 0
    belief = bm.fit(bm.Counts.from_dense(counts), WIDE, prior=prior)
    draws = belief.draws(10, seed=4)
    weight = 1 / np.arange(1.0, belief.rows().layout.next_state.size + 1)
    found = [float(draws.dynamics(i).probability @ weight) for i in range(10)]
    swept = bm.evaluate(POLICY, draws, control=False).start_values
    assert found @ swept == pytest.approx(wanted, rel=1e-12)


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("name", ["sets", "lumped", "fallback"])
def test_what_needs_dirichlet_rows_says_so(name: str) -> None:
    belief = belief_of(name)
    with pytest.raises(BeliefError, match="`evaluate_analytic` needs independent"):
        bm.evaluate_analytic(POLICY, belief)
    with pytest.raises(
        BeliefError, match=r"`second_order`.* does not have; .* another prior"
    ):
        bm.policies.second_order(belief)
    effort = effort_of("normal")
    assert "second_order" not in default_starts(belief, effort)
    assert "second_order" in default_starts(
        bm.fit(COUNTS, WIDE, prior=bm.SymmetricPrior()), effort
    )


# ------------------------------------------------------------------ memory


def test_what_fitting_takes_is_counted() -> None:
    """56 bytes an entry are looked for; the peak is below, and not by far."""
    n = 300
    rng = np.random.default_rng(0)
    counts = bm.Counts.from_arrays(
        np.repeat(np.arange(n), 10),
        np.zeros(10 * n, dtype=int),
        rng.integers(n, size=10 * n),
        rng.integers(1, 50, 10 * n),
        n_states=n,
        n_actions=1,
    )
    task = bm.Task(n, 1, np.zeros(n), discount=0.9)
    bm.fit(counts, task, prior=sets())
    tracemalloc.start()
    belief = bm.fit(counts, task, prior=sets())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 30 < peak / belief.alpha.size < 56
