"""
RiverSwim: what a better mean costs in the worst draws
======================================================

A swimmer can rest at the left for a small pay, or swim against the current to a large
one at the right (Strehl and Littman 2008). How strong the current is, place by place,
is uncertain: Su and Petrik (2023) give 100 models of a river of 20 places, equally
likely. Policies that are best on average over them are compared with policies that are
best in the worst part of them.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesmdp as bm

river = bm.worlds.riverswim()
print(river)

# %%
# The frontier
# ------------
# Each policy is found for a tail: 0.1 is the worst tenth of models, 1 the mean over
# all. Every model is evaluated, so that nothing here has a Monte Carlo error. The best
# policy of the mean model has a mean of 200.92; the last row has more.

front = bm.risk_frontier(river, (0.1, 0.25, 0.5, 0.75, 1.0), seed=0)
print(front.summary())
fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
bm.plots.frontier(front, ax=ax)
ax.set_title("Mean and tail mean of policies for several tails")

# %%
# What they do
# ------------
# Probability of swimming to the right in each place: the smaller the tail that a policy
# is made for, the nearer to the right one must be to go on.

fig, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
swims = np.stack([policy[:, 1] for policy in front.policies])
ax.imshow(swims, cmap="Blues", vmin=0, vmax=1.2, aspect="auto")
ax.set_yticks(range(len(front.tails)), [f"tail {x:g}" for x in front.tails])
ax.set_xticks(range(0, 20, 5))
ax.set_xlabel("place, from left to right")
ax.set_title("Where policies swim to the right (dark)")

# %%
# What happens
# ------------
# Values in all models, sorted. The policy for the mean does much better in most and
# worse in the few where the current is strong.

fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for tail, policy in list(zip(front.tails, front.policies, strict=True))[::2]:
    values = np.sort(bm.evaluate(policy, river).start_values)
    ax.plot(values, label=f"tail {tail:g}")
    print(f"tail {tail:g}: {values[0]:.1f} in the worst model, {values[-1]:.1f} best")
ax.set_xlabel("models, from the worst to the best")
ax.set_ylabel("value")
ax.set_title("Value of three policies in each of 100 models")
ax.legend()

# %%
# :doc:`/risk` judges such policies on 700 models that they were not made for, and
# :doc:`/objectives` says which objective to take when.
