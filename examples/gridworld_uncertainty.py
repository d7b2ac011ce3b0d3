"""
Two kinds of uncertainty (figure 1 of the paper)
================================================

A windy grid with a cliff. With more data the *epistemic* sd, what we do not know, goes
to nought; the *aleatoric* sd, the wind's, stays. One policy is judged from more and
more transitions, under three winds.
"""

import warnings

import matplotlib.pyplot as plt

import bayesmdp as bm
from bayesmdp.evaluation import rounded

# %%
# One policy, three winds, seven sizes
# ------------------------------------
# The policy is the best one of the true grid with wind 0.25; larger data sets contain
# the smaller ones. The prior knows which squares are neighbours, and nothing else; it
# dominates the smallest data sets, of which ``fit`` warns.

warnings.simplefilter("ignore", bm.errors.PriorWarning)
SIZES = (25, 50, 100, 250, 1000, 5000, 25_000)
grid = bm.worlds.gridworld(0.25)
policy = bm.policies.nominal(bm.Ensemble([grid.dynamics], grid.task))
found: dict[float, dict[int, bm.Evaluation]] = {}
for wind in (0.0, 0.25, 0.5):
    world = bm.worlds.gridworld(wind)
    prior = bm.SymmetricPrior(support=world.support)
    found[wind] = {}
    for n in SIZES:
        posterior = bm.fit(world.sample(n, seed=0), world.task, prior=prior)
        found[wind][n] = bm.evaluate(policy, posterior.draws(500, seed=0))

# %%
# What is left
# ------------
# After 25,000 transitions, from the start; ± is the Monte Carlo error.

for wind, evaluations in found.items():
    last = evaluations[SIZES[-1]]
    epistemic = rounded(last.start_epistemic_sd, last.start_epistemic_sd_mcse)
    aleatoric = rounded(last.start_aleatoric_sd, last.start_aleatoric_sd_mcse)
    print(f"wind {wind:4}: epistemic sd {epistemic}, aleatoric sd {aleatoric}")

# %%
# The picture
# -----------
# Both standard deviations of the return from the start.

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for number, (wind, evaluations) in enumerate(found.items()):
    for quantity, line in (("epistemic", "o-"), ("aleatoric", "s--")):
        sds = [getattr(x, f"start_{quantity}_sd") for x in evaluations.values()]
        label = f"{quantity}, wind {wind}"
        ax.plot(SIZES, sds, line, color=f"C{number}", label=label)
ax.set_xscale("log")
ax.set_xlabel("number of transitions")
ax.set_ylabel("sd of the return")
ax.set_title("Epistemic sd goes to 0 with data, aleatoric sd does not")
ax.legend(ncols=3, fontsize="small")

# %%
# Where the uncertainty is
# ------------------------
# States of the grid with wind 0.25 after 250 transitions: right is chance, up is what
# data would remove.

fig, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
bm.plots.scatter(found[0.25][250], label=[19], ax=ax)
ax.set_title("States by both kinds of uncertainty")

# %%
# The whole study, with the paper's 12 sizes and verdicts, is in :doc:`/studies`.
