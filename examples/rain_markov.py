"""
Rain, and whether yesterday matters
===================================

Daily rain on Alofi (Niue) in three classes, 1,096 days (Avery and Henderson 1999). Does
tomorrow's rain depend on today's alone, or on yesterday's too? A p value and a Bayes
factor are asked, and they disagree. Both are right, because they answer different
questions.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesmdp as bm

# %%
# Three days in a row
# -------------------
# Counts of (before, now, next), from the series ``rain`` of the R package markovchain
# (MIT). Each triple enters as an episode of two steps.

COUNTS = np.array(
    [
        [[247, 86, 29], [70, 32, 24], [13, 16, 31]],
        [[86, 27, 23], [29, 35, 26], [17, 17, 34]],
        [[29, 13, 8], [37, 23, 18], [20, 45, 59]],
    ]
)
CLASSES = ("dry", "some rain", "much rain")
triples = np.repeat(np.argwhere(COUNTS >= 0), COUNTS.ravel(), axis=0)
before, now, after = triples.T
log = bm.Transitions.from_arrays(
    np.stack([before, now], 1).ravel(),
    np.zeros(2 * before.size, dtype=int),
    np.stack([now, after], 1).ravel(),
    episode=np.repeat(np.arange(before.size), 2),
    step=np.tile([0, 1], before.size),
)

# %%
# Two answers
# -----------
# The p value says that these counts would surprise if today were all that matters. The
# Bayes factor says which of both chains predicts them better, with the parameters that
# the longer memory has to learn.

for concentration in (1.0, 0.5, 1 / 3):
    found = bm.diagnostics.markov_order(log, concentration=concentration, seed=1)
    print(f"Dirichlet {concentration:.2f}: log Bayes factor", end=" ")
    print(f"{found.log_bayes_factor:+.2f} for order 1 over order 2")
print(found.summary())

# %%
# What yesterday changes
# ----------------------
# Probability of much rain tomorrow, by today and by yesterday, with 95 % intervals (an
# even prior on the three classes). Yesterday shifts it, but not by much; a difference
# that is real and small.

rng = np.random.default_rng(0)
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
for i, was in enumerate(CLASSES):
    draws = rng.beta(1 + COUNTS[i, :, 2], 2 + COUNTS[i, :, :2].sum(1), (4000, 3))
    low, middle, high = np.quantile(draws, [0.025, 0.5, 0.975], axis=0)
    at = np.arange(3) + 0.18 * (i - 1)
    marker = "os^"[i]
    ax.errorbar(at, middle, [middle - low, high - middle], fmt=marker, label=was)
ax.set_xticks(range(3), CLASSES)
ax.set_xlabel("today")
ax.set_ylabel("probability of much rain tomorrow")
ax.legend(title="yesterday")
ax.set_title("Probability of much rain by the two days before")

# %%
# With a log of decisions ``bm.check`` asks the same, and on the scale of values:
# :doc:`/markov_tests`.
