"""
Bus engines: when to replace
============================

Harold Zurcher decides every month whether the engine of a bus is replaced (Rust 1987).
Keeping it costs more with every mile, replacing costs a lot at once. Rust's estimates
serve as the truth. From the log of a small fleet the best rule is learnt twice: row by
row, as if every mileage had an engine of its own, and with what is known of engines,
that mileage rises alike everywhere. Costs are rewards with a minus.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesmdp as bm

# %%
# The engine
# ----------
# Mileage in bins of 5,000 miles, which rises by 0, 1 or 2 bins per month. Probabilities
# and costs are those of groups 1 to 4 in table IX of Rust (1987): replacement 9.7558,
# maintenance 0.0026275 per bin and month, in units of the noise of decisions. His
# discount of 0.9999 is 0.999 here.

BINS, KEEP, REPLACE = 90, 0, 1
COST, MAINTENANCE = 9.7558, 0.0026275


def dynamics(rises: np.ndarray) -> bm.Dynamics:
    """Lay out the months, given the probabilities of rising by 0, 1 and 2 bins."""
    theta = np.zeros((BINS, 2, BINS))
    for at in range(BINS):
        for rise, probability in enumerate(rises):
            theta[at, KEEP, min(at + rise, BINS - 1)] += probability
            theta[at, REPLACE, rise] += probability
    return bm.Dynamics.from_dense(theta)


costs = np.zeros((BINS, 2))
costs[:, KEEP] = -MAINTENANCE * np.arange(BINS)
costs[:, REPLACE] = -COST
task = bm.Task(
    BINS, 2, reward=costs, discount=0.999, start=0, action_labels=["keep", "replace"]
)
truth = bm.MDP(dynamics(np.array([0.3489, 0.6394, 0.0117])), task)


def said(name: str, belief: bm.posterior.Belief) -> np.ndarray:
    """Print what a belief predicts of its own best rule, and what is true of it."""
    policy = bm.policies.nominal(belief)
    found = bm.evaluate(policy, belief)
    low, high = found.interval()
    first = int(np.argmax(policy[:, REPLACE] > 0.5))
    print(f"{name}: replace from bin {first} on, predicted {low:.1f} to {high:.1f}, ")
    print(f"    true {truth.value(policy)[0]:.1f}")
    return bm.action_values(policy, belief).probability_best[:, REPLACE]


said("truth known", bm.Ensemble([truth.dynamics], task))

# %%
# A fleet
# -------
# Twenty buses for ten years. Engines are replaced with a probability of 2 % per month
# from 250,000 miles (bin 50) on.

rule = np.zeros((BINS, 2))
rule[:, REPLACE] = 0.02 * (np.arange(BINS) >= 50)
rule[:, KEEP] = 1 - rule[:, REPLACE]
log = truth.simulate(rule, 20, seed=0, max_steps=120)
print(log)

# %%
# Row by row
# ----------
# One knows which bins can follow; how likely each is, every row learns for itself. High
# mileages were hardly seen, and there the prior answers.

support = truth.dynamics.to_dense() > 0
rows = np.nonzero(support)
apart = bm.fit(log, task, prior=bm.SymmetricPrior(1 / 3, support=rows))
by_rows = said("row by row", apart)

# %%
# Together
# --------
# The same months, counted by how far mileage rose: three numbers, of which the counts
# leave little open. Each draw of them is a model, and models are an ``Ensemble``.

counts = log.counts().to_dense()
before, action, after = np.nonzero(counts)
rise = np.minimum(after - np.where(action == REPLACE, 0, before), 2)
seen = np.bincount(rise, counts[before, action, after], minlength=3)
draws = np.random.default_rng(0).dirichlet(1 + seen, 300)
together = bm.Ensemble([dynamics(x) for x in draws], task)
by_fleet = said("together", together)

# %%
# How sure is the rule?
# ---------------------
# Probability, over what each belief leaves open, that replacing is best.

fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.plot(by_rows, label="row by row")
ax.plot(by_fleet, "--", label="together")
ax.set_xlabel("mileage, bins of 5,000")
ax.set_ylabel("probability that replacing is best")
ax.legend()
ax.set_title("When replacing is best, by two beliefs")
