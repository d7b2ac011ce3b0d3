"""Roll-outs of other processes are those of this one, to the bit."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import bayesmdp as bm

pytestmark = pytest.mark.integration


def test_processes_walk_as_threads_do() -> None:
    world = bm.worlds.gridworld()
    draws = bm.fit(
        world.sample(200, seed=0), world.task, prior=bm.SymmetricPrior()
    ).draws(60, seed=0)
    policy = np.full((25, 4), 0.25)
    here = bm.evaluation.rollout_evaluate(policy, draws, 3, 500, threads=1)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        there = bm.evaluation.rollout_evaluate(
            policy, draws, 3, 500, executor=pool, threads=2
        )
    assert np.array_equal(here.start_values, there.start_values)
    assert np.array_equal(here.total_sd, there.total_sd)
    assert here.notes == there.notes
