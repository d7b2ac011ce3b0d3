"""
The casino: why the best policy may be random
=============================================

Being in the casino costs 1 per step, leaving ends the evening, and playing either
always wins 10 or never does; nobody knows which (paper, appendix B). A policy without
memory cannot learn which casino it is in, and the best it can do is to gamble: play
with some probability each time. Two models of equal weight are an ``Ensemble``, and
everything is exact.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesmdp as bm

# %%
# Value of each probability of playing
# ------------------------------------

casino = bm.worlds.casino()
plays = np.linspace(0, 1, 201)
values = []
for play in plays:
    policy = np.array([[play, 1 - play], [0.5, 0.5], [0.5, 0.5]])
    values.append(bm.evaluate(policy, casino).start_value)
values = np.array(values)
print(f"never playing {values[0]:.2f}, always playing {values[-1]:.2f}")

# %%
# What the search finds
# ---------------------
# Gradient ascent on both models at once, which planning in the mean model cannot do.

found = bm.optimise(casino, seed=0)
print(f"play with probability {found.policy[0, 0]:.4f}: {found.start_value:.4f}")
nominal = bm.policies.nominal(casino)
print(f"planned in the mean model: {bm.evaluate(nominal, casino).start_value:.4f}")
print(f"no policy exceeds {found.upper_bound:.4f}, that of knowing the casino")

# %%
# The picture
# -----------

fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.plot(plays, values)
ax.plot(found.policy[0, 0], found.start_value, "ko", label="found by optimise")
ax.set_ylim(-6, 2)
ax.set_xlabel("probability of playing")
ax.set_ylabel("expected value")
ax.legend(loc="lower center")
ax.set_title("Value by probability of playing: best at 0.69")

# %%
# The paper prints 1 for never playing; by its own formula it is -1 (errata, at the end
# of :doc:`/studies`).
