"""
Wet Chicken: improve on what is done, safely
============================================

A canoe on a river that ends in a waterfall: the nearer to the edge, the better the pay,
but who falls starts again. The benchmark of the literature on safe improvement (Hans
and Udluft 2009; Scholl et al. 2022). From a small log of a heuristic policy, one asks
for a policy that is better than the heuristic *also where the model is a bad one*.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesmdp as bm

# %%
# Logs of 25 trips
# ----------------
# The baseline is a heuristic that chooses at random one time in ten. Exact values are
# known, so every policy can be judged.

world = bm.worlds.wet_chicken()
baseline = bm.worlds.wet_chicken_baseline(0.1)


def true_value(policy) -> float:
    """Exact value from the start."""
    return float(world.task.start @ world.value(policy))


best = bm.policies.nominal(bm.Ensemble([world.dynamics], world.task))
print(f"baseline {true_value(baseline):.2f}, best policy {true_value(best):.2f}")

# %%
# One log
# -------
# ``improve`` makes the improvement large in the worst quarter of draws; in half of them
# every pair had one more visit, to the worst state. It departs from the baseline only
# where the evidence suffices: pairs that were never observed keep their probability.


def logged(seed: int) -> bm.Posterior:
    """Fit 25 trips of 20 steps each."""
    log = world.simulate(baseline, 25, seed=seed, max_steps=20)
    return bm.fit(log, world.task)


posterior = logged(seed=0)
better = bm.improve(posterior, baseline, seed=0)
print(better.summary(5))
print(f"true improvement {true_value(better.policy) - true_value(baseline):+.2f}")

# %%
# Twelve logs
# -----------
# The plug-in policy plans with frequencies, a nominal one with the posterior mean,
# under a flat prior or the default one. What counts for safety is not the average but
# the bad logs, to the left of the line.

gains: dict[str, list[float]] = {}
for seed in range(1, 13):
    posterior = logged(seed)
    flat = bm.fit(posterior.counts, world.task, prior=bm.SymmetricPrior(0.1))
    found = {
        "plug-in": bm.policies.mle(posterior),
        "nominal, flat prior": bm.policies.nominal(flat),
        "nominal": bm.policies.nominal(posterior),
        "improve": bm.improve(posterior, baseline, seed=0, effort="quick").policy,
    }
    for name, policy in found.items():
        gains.setdefault(name, []).append(true_value(policy) - true_value(baseline))

for name, values in gains.items():
    mean, error = np.mean(values), np.std(values, ddof=1) / len(values) ** 0.5
    worse = sum(x < 0 for x in values)
    print(f"{name:20} {mean:+.1f} ± {error:.1f}, worst {min(values):+.1f},", end=" ")
    print(f"worse than the baseline in {worse} of {len(values)} logs")

fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
for row, values in enumerate(gains.values()):
    ax.plot(values, np.full(len(values), row), "o", alpha=0.6)
    ax.plot(np.mean(values), row, "k|", markersize=20)
ax.axvline(0, color="black", linewidth=1)
ax.set_yticks(range(len(gains)), list(gains))
ax.set_ylim(-0.5, len(gains) - 0.5)
ax.set_xlabel("true improvement over the baseline (each dot is a log; bar: mean)")
ax.set_title("Improvement over the baseline in twelve logs")

# %%
# Frequencies believe in moves that were hardly ever made, and have the worst log. The
# default prior is cautious by itself: in these logs planning with its mean does as well
# as ``improve``, whose caution does not rest on the prior alone: pairs that were never
# observed are left as they are under any prior.
# Twelve logs tell a worst case badly; :doc:`/objectives` says what ``improve`` does and
# which other objectives there are.
