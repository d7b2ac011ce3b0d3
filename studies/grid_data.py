"""Data sets of section 5.1: twelve nested sizes in each of fifty series.

Pairs of the windy grid are tried at random. A series is a seed; its smaller data sets
are the beginnings of its larger ones. The prior is the paper's: 1 for each of the four
neighbours.
"""

from functools import lru_cache

import bayesmdp as bm

SIZES = (25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 15_000, 20_000, 25_000)
N_SERIES = 50
P_RAND = 0.25  # where the paper compares policies


@lru_cache(maxsize=3)
def world(p_rand: float = P_RAND) -> bm.MDP:
    """Return the paper's grid with some wind."""
    return bm.worlds.gridworld(p_rand)


def believe(data: bm.Transitions | bm.Counts, p_rand: float = P_RAND) -> bm.Posterior:
    """Learn from data of the grid with the prior of the paper."""
    of = world(p_rand)
    prior = bm.SymmetricPrior(1.0, support=of.support)
    return bm.fit(data, of.task, prior=prior)


def learnt(series: int, size: int, p_rand: float = P_RAND) -> bm.Posterior:
    """Learn from one data set of one series."""
    return believe(world(p_rand).sample(size, seed=series), p_rand)
