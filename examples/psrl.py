"""
PSRL: learn while acting, in a dozen lines
==========================================

Posterior sampling for reinforcement learning follows in each episode the optimal policy
of one draw from the posterior (Strens 2000; Osband, Russo and Van Roy 2013): what is
not known yet is tried because some draws think well of it. RiverSwim (Strehl and
Littman 2008) rewards swimming against the current for a long time; DeepSea (Osband et
al. 2019) rewards one path of ``size`` right turns, which random actions find once in
``2**size`` episodes. Rewards are known, and where the actions of a state lead together;
which action leads where is not. Regret is the value of the optimal policy less that of
the policy followed, from the start, summed over episodes. Beside PSRL stands the policy
of the posterior mean, which may stop looking.
"""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import bayesmdp as bm

Array = NDArray[np.float64]
Policy = Callable[[bm.Posterior, int], Array]


def riverswim(n: int = 6, discount: float = 0.95) -> bm.MDP:
    """Swim left (certain, tiny reward) or right (against the current, large reward)."""
    rows, reward = np.zeros((n, 2, n)), np.zeros((n, 2))
    for s in range(n):
        rows[s, 0, max(s - 1, 0)] = 1.0
        left, stay, right = (0.0, 0.4, 0.6) if s == 0 else (0.05, 0.6, 0.35)
        if s == n - 1:
            left, stay, right = 0.4, 0.6, 0.0
        rows[s, 1, max(s - 1, 0)] += left
        rows[s, 1, s] += stay
        rows[s, 1, min(s + 1, n - 1)] += right
    reward[0, 0], reward[n - 1, 1] = 0.005, 1.0
    task = bm.Task(n, 2, reward, discount=discount, start=0)
    return bm.MDP(bm.Dynamics.from_dense(rows), task)


def deep_sea(size: int = 10) -> bm.MDP:
    """Go down a grid, left for nothing or right at a cost; the last corner pays 1."""
    end = size * size
    rows, reward = np.zeros((end + 1, 2, end + 1)), np.zeros((end + 1, 2))
    for depth in range(size):
        for column in range(size):
            s = depth * size + column
            for action, step in enumerate((-1, 1)):
                to = (depth + 1) * size + min(max(column + step, 0), size - 1)
                rows[s, action, end if depth == size - 1 else to] = 1.0
            reward[s, 1] = -0.01 / size
    reward[end - 1, 1] += 1.0
    rows[end, :, end] = 1.0
    task = bm.Task(end + 1, 2, reward, discount=1.0, start=0, terminal=[end])
    return bm.MDP(bm.Dynamics.from_dense(rows), task)


def best_of_one_draw(posterior: bm.Posterior, episode: int) -> Array:
    """PSRL: plan for one draw."""
    model = posterior.draws(2, seed=episode).dynamics(0)
    return bm.policies.nominal(bm.Ensemble([model], posterior.task))


def best_of_the_mean(posterior: bm.Posterior, _: int) -> Array:
    """Plan for the mean of the posterior."""
    return bm.policies.nominal(posterior)


def regret(
    world: bm.MDP, choose: Policy, n_episodes: int, max_steps: int, seed: int
) -> Array:
    """Cumulative regret of learning while acting, ``[n_episodes]``."""
    task, start = world.task, world.task.start
    best = start @ world.value(bm.policies.nominal(_known(world)))
    prior = bm.SymmetricPrior(0.5, support=world.support)  # of some action
    even = np.full((task.n_states, 2), 0.5)
    counts = world.simulate(even, 1, seed=seed, max_steps=max_steps).counts()
    lost = []
    for episode in range(n_episodes):
        posterior = bm.fit(counts, task, prior=prior)
        policy = choose(posterior, seed * n_episodes + episode)
        lost.append(best - start @ world.value(policy))
        walk = seed * n_episodes + episode
        log = world.simulate(policy, 1, seed=walk, max_steps=max_steps)
        counts = counts + log.counts()
    return np.cumsum(lost)


def main(n_seeds: int = 5, n_episodes: int = 300) -> dict[str, dict[str, Array]]:
    """Print and draw mean regret over seeds."""
    warnings.simplefilter("ignore", bm.BayesmdpWarning)  # the prior weighs at first
    worlds = {"RiverSwim": (riverswim(), 50), "DeepSea": (deep_sea(), 10)}
    ways = {"PSRL": best_of_one_draw, "posterior mean": best_of_the_mean}
    found = {
        name: {
            way: np.mean(
                [regret(world, f, n_episodes, steps, x) for x in range(n_seeds)], axis=0
            )
            for way, f in ways.items()
        }
        for name, (world, steps) in worlds.items()
    }
    for name, curves in found.items():
        for way, curve in curves.items():
            half = curve[len(curve) // 2]
            print(
                f"{name}, {way}: regret {half:.2f} after {len(curve) // 2} episodes, "
                f"{curve[-1]:.2f} after {len(curve)}"
            )
    return found


def draw(found: dict[str, dict[str, Array]]) -> None:
    """Draw regret curves."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.2), layout="constrained")
    for ax, (name, curves) in zip(axes, found.items(), strict=True):
        for (way, curve), style in zip(curves.items(), ("-", "--"), strict=True):
            ax.plot(np.arange(1, len(curve) + 1), curve, style, label=way)
        ax.set(title=name, xlabel="episode", ylabel="cumulative regret")
        ax.legend(frameon=False)
    figure.suptitle("Regret of PSRL and of the posterior mean")


def _known(world: bm.MDP) -> bm.Ensemble:
    return bm.Ensemble([world.dynamics], world.task)


if __name__ == "__main__":
    draw(main())
