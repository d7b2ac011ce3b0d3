"""Published answers, from models written down as the textbooks do."""

from itertools import product

import numpy as np
import pytest

import bayesmdp as bm


def puterman(discount: float) -> bm.MDP:
    """Puterman (1994), example 3.1: two states; the second has a single action."""
    dynamics = bm.Dynamics.from_dense(
        [[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]]]
    )
    task = bm.Task(2, 2, reward=[[5, 10], [-1, 0]], discount=discount)
    return bm.MDP(dynamics, task)


def forest(discount: float) -> bm.MDP:
    """Forest management as in pymdptoolbox: S = 3, r1 = 4, r2 = 2, fire 0.1."""
    wait = [[0.1, 0.9, 0.0], [0.1, 0.0, 0.9], [0.1, 0.0, 0.9]]
    cut = [[1.0, 0.0, 0.0]] * 3
    dynamics = bm.Dynamics.from_dense(np.stack([wait, cut], axis=1))
    task = bm.Task(3, 2, reward=[[0, 0], [0, 1], [4, 2]], discount=discount)
    return bm.MDP(dynamics, task)


def sutton_barto() -> bm.MDP:
    """Sutton and Barto, example 4.1: -1 a move, until one of two corners."""
    row, column = np.divmod(np.arange(16), 4)
    moves = [(-1, 0), (0, 1), (1, 0), (0, -1)]
    dense = np.zeros((16, 4, 16))
    for action, (down, right) in enumerate(moves):
        to = 4 * np.clip(row + down, 0, 3) + np.clip(column + right, 0, 3)
        dense[np.arange(16), action, to] = 1.0
    task = bm.Task(16, 4, reward=np.full((16, 4), -1), discount=1, terminal=[0, 15])
    return bm.MDP(bm.Dynamics.from_dense(dense), task)


@pytest.mark.parametrize("b", [0.0, 0.5, 0.9, 0.95, 0.999])
def test_puterman_example_has_the_values_of_the_book(b: float) -> None:
    book = [(5 - 5.5 * b) / ((1 - 0.5 * b) * (1 - b)), -1 / (1 - b)]
    np.testing.assert_allclose(puterman(b).value([0, 0]), book, rtol=1e-12)
    other = [10 - b / (1 - b), -1 / (1 - b)]
    np.testing.assert_allclose(puterman(b).value([1, 0]), other, rtol=1e-12)


@pytest.mark.parametrize(
    ("discount", "published"),
    [(0.9, [26.244, 29.484, 33.484]), (0.96, [74.6496, 78.1056, 82.1056])],
)
def test_waiting_in_the_forest_has_its_published_value_and_is_optimal(
    discount: float, published: list[float]
) -> None:
    world = forest(discount)
    waiting = world.value([0, 0, 0])
    np.testing.assert_allclose(waiting, published, rtol=1e-12)
    for policy in product(range(2), repeat=3):
        assert (world.value(list(policy)) <= waiting + 1e-12).all()


def test_random_walk_on_the_four_by_four_grid_has_the_values_of_the_book() -> None:
    book = [0, -14, -20, -22, -14, -18, -20, -20, -20, -20, -18, -14, -22, -20, -14, 0]
    value = sutton_barto().value(np.full((16, 4), 0.25))
    np.testing.assert_allclose(value, book, rtol=1e-12)
    assert (value[[0, 15]] == 0).all()
