"""
A trial in which the drug does nothing
======================================

240 patients, two arms, yearly visits; the arm changes nothing. The best of many
policies still looks better than what was done, because it was chosen for looking good.
Three questions find that out: how large a gain would be claimed without an effect, what
do patients say who did not choose the policy, and what does another prior say?
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesmdp as bm

# %%
# The trial
# ---------
# Arms are assigned at random; next states are drawn from the same row in both.

rng = np.random.default_rng(5)
yearly = np.array(
    [[0.80, 0.14, 0.04, 0.02], [0.15, 0.60, 0.18, 0.07], [0.02, 0.18, 0.55, 0.25]]
)
rows = []
for patient in range(240):
    state = rng.choice(3, p=[0.3, 0.5, 0.2])
    for year in range(10):
        after = rng.choice(4, p=yearly[state])
        rows.append((patient, year, state, patient % 2, after))
        if after == 3:
            break
        state = after
patient, year, state, arm, after = np.transpose(rows)
log = bm.Transitions.from_arrays(state, arm, after, episode=patient, step=year)
task = bm.Task(
    4,
    2,
    reward=[1, 1, 1, 0],
    discount=0.97,
    terminal=3,
    start=[0.3, 0.5, 0.2, 0],
    state_labels=["well", "ill", "very ill", "dead"],
    action_labels=["placebo", "drug"],
    reward_unit="life-years",
)

# %%
# A claim
# -------
# Independent rows say, before any data, that placebo and drug have nothing in common.

independent = bm.SymmetricPrior()
posterior = bm.fit(log, task, prior=independent)
policies = {
    "logged": bm.policies.behaviour(posterior),
    "best": bm.policies.nominal(posterior),
}
print(bm.compare(policies, posterior.draws(1000)))

# %%
# What would be claimed without an effect?
# ----------------------------------------
# Arms are exchanged among patients that began in the same state; then the analysis is
# repeated, from the fit to the claim. The gain lies in the middle of what chance gives.

control = bm.negative_control(log, task, independent, n_permutations=99)
print(control)
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
bm.diagnostics.plot_negative_control(control, ax=ax)
fig.suptitle("Gains claimed without effect, and the claimed one")

# %%
# What do other patients say?
# ---------------------------
# A policy chosen on one half of the patients is judged by the other half, in turns.

print(bm.cross_fit(log, task, independent))

# %%
# The default prior
# -----------------
# It learns how far actions differ, and "not at all" is one of the possibilities.

default = bm.fit(log, task)
policies["best"] = bm.policies.nominal(default)
print(bm.compare(policies, default.draws(1000)))

# %%
# One trial: :doc:`/no_effect` repeats it on hundreds, and :doc:`/is_it_real` goes
# through the questions step by step.
