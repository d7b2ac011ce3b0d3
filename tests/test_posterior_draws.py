"""Draws of Dirichlet rows: pure functions of seed, purpose, number and pair."""

import pickle
from typing import Any

import numpy as np
import pytest
from test_posterior import TASK, count

import bayesmdp as bm

BASE = bm.fit(
    count([(0, 0, 1), (0, 1, 2), (1, 0, 3)], [4, 2, 1]), TASK, prior=bm.SymmetricPrior()
)


def row_of(draws: bm.Draws, draw: int, state: int, action: int) -> list[float]:
    return draws.dynamics(draw).row(state, action)[1].tolist()


def test_a_row_does_not_change_when_other_pairs_get_data() -> None:
    more = BASE.update(count([(0, 0, 2), (1, 1, 1)], [7, 3]))
    for i in range(5):
        for pair in ((0, 1), (1, 0)):
            before, after = (row_of(p.draws(5, seed=3), i, *pair) for p in (BASE, more))
            assert before == after
        for pair in ((0, 0), (1, 1)):
            before, after = (row_of(p.draws(5, seed=3), i, *pair) for p in (BASE, more))
            assert before != after


def test_a_row_does_not_change_when_other_pairs_become_unavailable() -> None:
    fewer = bm.fit(BASE.counts, TASK, min_count=3, prior=bm.SymmetricPrior())
    assert fewer.layout.pair.size < BASE.layout.pair.size
    for i in range(5):
        one, two = (row_of(p.draws(5, seed=3), i, 0, 0) for p in (BASE, fewer))
        assert one == two


def test_a_draw_does_not_change_with_their_number() -> None:
    few, many = BASE.draws(5, seed=3), BASE.draws(5000, seed=3)
    for i in range(5):
        assert np.array_equal(few.dynamics(i).probability, many.dynamics(i).probability)


def test_a_draw_does_not_depend_on_the_draws_before_it() -> None:
    draws = BASE.draws(5, seed=3)
    forwards = [draws.dynamics(i).probability for i in range(5)]
    backwards = [draws.dynamics(i).probability for i in reversed(range(5))]
    assert all(map(np.array_equal, forwards, reversed(backwards)))


def test_draws_seeds_actions_and_purposes_differ() -> None:
    draws = BASE.draws(5, seed=3)
    rows = {
        tuple(row_of(draws, 0, 1, 1)),
        tuple(row_of(draws, 1, 1, 1)),
        tuple(row_of(BASE.draws(5, seed=4), 0, 1, 1)),
        tuple(row_of(bm.Draws(BASE, 5, 3, "learn"), 0, 1, 1)),
    }
    assert len(rows) == 4
    flat = bm.fit(
        count([(0, 0, 1)]), TASK, prior=bm.SymmetricPrior()
    )  # equal parameters in three pairs
    others = {tuple(row_of(flat.draws(2), 0, *x)) for x in ((0, 1), (1, 0), (1, 1))}
    assert len(others) == 3


@pytest.mark.parametrize("seed", [0, 2**63, 2**64 - 1])
def test_every_seed_below_2_to_the_64_is_taken(seed: int) -> None:
    assert BASE.draws(2, seed=seed).seed == seed


def test_a_generator_is_a_seed_and_moves_on() -> None:
    one, two = np.random.default_rng(5), np.random.default_rng(5)
    assert BASE.draws(2, seed=one).seed == BASE.draws(2, seed=two).seed
    assert BASE.draws(2, seed=one).seed != BASE.draws(2, seed=5).seed


@pytest.mark.parametrize("concentration", [1e-4, 1e-8, 1e-300])
def test_a_tiny_concentration_gives_proper_rows(concentration: float) -> None:
    prior = bm.SymmetricPrior(concentration)
    posterior = bm.fit(count([(0, 0, 1)]), TASK, prior=prior)
    draws = posterior.draws(200, seed=0)
    for i in range(200):
        dense = draws.dynamics(i).to_dense()[:2]
        assert np.isfinite(dense).all()
        assert (dense >= 0).all()
        assert dense.sum(axis=2) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("concentration", [1.0, 0.3])
def test_draws_scatter_around_the_mean_as_a_dirichlet_does(
    concentration: float,
) -> None:
    # Each of the 16 standardised means is normal within rounding; beyond 5 with
    # probability 6e-7, any of them 1e-5. The variances have a relative error of at most
    # 6 percent at 4000 draws; 0.3 is five of it, which adds less than 1e-5.
    n = 4000
    prior = bm.SymmetricPrior(concentration)
    posterior = bm.fit(BASE.counts, TASK, prior=prior)
    draws = posterior.draws(n, seed=0)
    theta = np.array([draws.dynamics(i).probability for i in range(n)])
    mean, rows = posterior.mean().probability, posterior.layout
    total = rows.row_sums(posterior.alpha)[rows.row_of_entry]
    variance = mean * (1 - mean) / (total + 1)
    z = (theta.mean(axis=0) - mean) / np.sqrt(variance / n)
    assert np.abs(z).max() < 5
    assert theta.var(axis=0) == pytest.approx(variance, rel=0.3)


@pytest.mark.parametrize("prior", [None, bm.SymmetricPrior(0.5)], ids=["shared", "own"])
def test_rows_that_are_kept_are_those_of_the_draws(prior: Any) -> None:
    """Also after they were kept, with rows left out, and without any room."""
    world = bm.worlds.synthetic(0, 4, 3)
    belief = bm.fit(world.sample(50, seed=0), world.task, prior=prior)
    plain = belief.draws(8, seed=1).stream
    size = belief.rows().layout.next_state.size
    kept, full = plain.keeping(10**6), plain.keeping(0)
    draws = np.arange(2, 7)
    every = np.ones(12, dtype=np.bool_)
    for used in (every, np.arange(12) != 4, every):
        wanted, first, again, none = np.zeros((4, 5, size))
        plain.fill(draws, used, wanted)
        for stream, out in ((kept, first), (kept, again), (full, none)):
            stream.fill(draws, used, out)
            assert np.array_equal(out, wanted)
    some, row = np.arange(3, 9), kept.of_rows(np.arange(3, 9))
    assert kept.of_rows(some) is row  # so that it is kept between problems
    used = np.ones(some.size, dtype=np.bool_)
    width = belief.rows().layout.take(some).next_state.size
    wanted, found, one = (
        np.zeros((5, width)),
        np.zeros((5, width)),
        np.zeros((1, width)),
    )
    plain.of_rows(some).fill(draws, used, wanted)
    row.fill(draws, used, found)
    row.fill(draws[3:4], used, one)  # of those kept, in any number
    assert np.array_equal(found, wanted)
    assert np.array_equal(one[0], wanted[3])
    assert kept.independent == plain.independent
    assert len(pickle.dumps(kept)) < len(pickle.dumps(plain)) + 200
