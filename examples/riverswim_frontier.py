"""
RiverSwim: what a better mean costs in the worst draws
======================================================

A swimmer can rest on the left bank for a small pay, or swim against the current to a
large one on the right (Strehl and Littman 2008). From a short log, in which the right
bank was hardly seen, it is uncertain how strong the current is. Policies that are best
on average over what the data leave open are compared with policies that are best in the
worst part of it.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesmdp as bm

# %%
# The river
# ---------
# Six places. Going left always works; going right moves forward with probability 0.35,
# stays with 0.6 and is carried back with 0.05. The pay on the left is 0.1 here, so that
# resting is worth something (it is 0.005 in the literature).

N, LEFT, RIGHT = 6, 0, 1
theta = np.zeros((N, 2, N))
for at in range(N):
    theta[at, LEFT, max(at - 1, 0)] = 1.0
    for step, probability in ((-1, 0.05), (0, 0.6), (1, 0.35)):
        theta[at, RIGHT, min(max(at + step, 0), N - 1)] += probability
pays = np.zeros((N, 2))
pays[0, LEFT], pays[N - 1, RIGHT] = 0.1, 1.0
task = bm.Task(
    N, 2, reward=pays, discount=0.95, start=0, action_labels=["left", "right"]
)
neighbours = np.abs(np.subtract.outer(np.arange(N), np.arange(N))) <= 1
river = bm.MDP(bm.Dynamics.from_dense(theta), task, support=neighbours)

# %%
# A short log
# -----------
# 60 single steps from random places; one knows that a step leads to a neighbour.

posterior = bm.fit(
    river.sample(60, seed=3), task, prior=bm.SymmetricPrior(0.5, support=neighbours)
)
print(posterior.summary())

# %%
# The frontier
# ------------
# Each policy is found for a tail: 0.05 is the worst twentieth of draws, 1 the mean over
# all. The values are on draws that chose none of them.

front = bm.risk_frontier(posterior, (0.05, 0.1, 0.25, 0.5, 1.0), seed=0)
print(front.summary())
fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
bm.plots.frontier(front, ax=ax)
ax.set_title("Mean and tail mean of policies for several tails")

# %%
# What they do
# ------------
# Probability of swimming to the right in each place, and the true value, which is known
# here because the river is.

for tail, policy in zip(front.tails, front.policies, strict=True):
    swims = " ".join(f"{x:.2f}" for x in policy[:, RIGHT])
    print(f"tail {tail:<4}  right {swims}  true {task.start @ river.value(policy):.3f}")

# %%
# A larger benchmark, 100 models of a river of 20 places with published values, is in
# ``tests/test_riverswim.py``; :doc:`/objectives` says which objective to take when.
