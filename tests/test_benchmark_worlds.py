"""Worlds of the literature on safe and robust decisions, against other ways."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import bayesmdp as bm


def test_the_best_machine_policy_is_that_of_all_1024() -> None:
    world = bm.worlds.machine_replacement()
    theta, every = world.dynamics.to_dense(), np.arange(10)
    cost = np.zeros(10)
    cost[[7, 8, 9]] = 20, 2, 10
    values = {
        choice: np.linalg.solve(np.eye(10) - 0.8 * theta[every, choice], -cost)[0]
        for choice in product((0, 1), repeat=10)
    }
    best = max(values, key=values.__getitem__)
    assert values[best] == pytest.approx(-1.4133, abs=5e-5)
    assert best == (0, 0, 0, 0, 0, 1, 1, 1, 0, 1)
    known = bm.Ensemble([world.dynamics], world.task)
    found = bm.policies.nominal(known)
    assert world.value(found)[0] == pytest.approx(values[best])
    # leaving it alone: eight states of 1.25 steps each, then 20 for ever
    worn = (0.8 * 0.8 / (1 - 0.8 * 0.2)) ** 7
    alone = world.value(np.zeros(10, dtype=int))[0]
    assert alone == pytest.approx(-20 * worn / (1 - 0.8))


def test_random_mdps_have_the_goal_that_is_farthest() -> None:
    world = bm.worlds.random_mdp(3, 12, 3, 4)
    theta = world.dynamics.to_dense()
    live = np.arange(12) != world.task.terminal[0]
    assert ((theta[live] > 0).sum(axis=2) == 4).all()
    assert theta.sum(axis=2) == pytest.approx(np.ones((12, 3)))
    values = {}
    for goal in range(1, 12):
        v = np.zeros(12)
        for _ in range(600):  # value iteration, arriving pays 1 and ends
            after = np.where(np.arange(12) == goal, 1.0, 0.95 * v)
            v = np.where(np.arange(12) == goal, 0.0, (theta @ after).max(axis=1))
        values[goal] = v[0]
    # the goal's own rows are not used by any policy before it is reached
    assert int(world.task.terminal[0]) == min(values, key=values.__getitem__)
    best = bm.policies.nominal(bm.Ensemble([world.dynamics], world.task))
    assert world.value(best)[0] == pytest.approx(min(values.values()))


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
def test_the_baseline_is_so_far_on_the_way(ratio: float) -> None:
    world = bm.worlds.random_mdp(5)
    known = bm.Ensemble([world.dynamics], world.task)
    low, base, high = (
        world.value(policy)[0]
        for policy in (
            bm.policies.uniform(known),
            bm.worlds.random_mdp_baseline(world, ratio),
            bm.policies.nominal(known),
        )
    )
    assert ratio - 0.02 < (base - low) / (high - low) <= ratio


def test_riverswim_has_the_models_of_its_file(tmp_path: Path) -> None:
    river = bm.worlds.riverswim()
    assert river.n_models == 100
    left = bm.evaluate(np.zeros(20, dtype=int), river)
    assert left.start_values == pytest.approx(np.full(100, 50.0))  # 5 / (1 - 0.9)
    found = bm.optimise(river, seed=0)
    assert found.start_value == pytest.approx(202.8513, abs=5e-4)
    assert found.upper_bound == pytest.approx(210.1570, abs=5e-4)
    with pytest.raises(bm.BayesmdpError, match="`path`"):
        bm.worlds.riverswim(tmp_path / "no.csv.gz")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: bm.worlds.machine_replacement(discount=1), "`discount`"),
        (lambda: bm.worlds.random_mdp(0, 1), "`n_states` must be at least 2"),
        (lambda: bm.worlds.random_mdp(0, 3, 2, 4), "`n_next` must be at most"),
        (lambda: bm.worlds.random_mdp(0, discount=1), "`discount`"),
        (lambda: bm.worlds.random_mdp_baseline(None), "`world`"),  # type: ignore[arg-type]
        (
            lambda: bm.worlds.random_mdp_baseline(bm.worlds.random_mdp(0, 9), 1.0),
            "`ratio`",
        ),
    ],
    ids=range(6),
)
def test_bad_settings_are_refused(make, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(bm.BayesmdpError) as caught:
        make()
    assert said in str(caught.value)
