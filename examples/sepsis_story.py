"""
Sepsis: a gain that is there, and one that is not
=================================================

Six thousand patients are simulated from ICU-Sepsis, a published model of the treatment
of sepsis (Choudhary, Gupta and Thomas 2024), and treated as clinicians did. From their
log a better policy is looked for in two ways. Because the patients come from a model,
the value that each predicts can be set beside the true one, which no analysis of real
patients can do. This judges methods; it says nothing about treatments.
"""

import matplotlib.pyplot as plt

import bayesmdp as bm

# %%
# The log
# -------
# A state is one of 713 groups of similar measurements, an action a pair of doses.
# Surviving pays 1, so that a value is nearly the probability of survival. Only pairs of
# state and action that were observed five times or more may be used by a policy.

world = bm.worlds.icu_sepsis()
log = world.simulate(world.expert, 6000, seed=0)
posterior = bm.fit(log, world.task, min_count=5)
print(posterior.summary())

# %%
# Frequencies as probabilities
# ----------------------------
# The usual first step takes observed frequencies for the truth (a prior that weighs
# nothing), and plans in that model. The plan looks very good in the model that it was
# made for: the maximum over many noisy actions was taken for an effect.

nothing = bm.SparsePrior(1e-9, fallback="death")
frequencies = bm.fit(log, world.task, prior=nothing, min_count=5)
plug_in = bm.policies.mle(frequencies)
by_itself = bm.MDP(frequencies.mean(), world.task)


def from_start(model: bm.MDP, policy) -> float:
    """Exact value of a policy in a model, from where patients are admitted."""
    return float(world.task.start @ model.value(policy))


print(f"plug-in policy: predicted {from_start(by_itself, plug_in):.3f}", end=", ")
print(f"true {from_start(world, plug_in):.3f}")

# %%
# The posterior
# -------------
# The default prior lets the actions of a state share what their state does, and learns
# from the data how far they differ. Policies are compared on the same draws, which
# played no part in choosing them.

policies = {
    "clinicians": bm.policies.behaviour(posterior),
    "plug-in": plug_in,
    "nominal": bm.policies.nominal(posterior),
}
table = bm.compare(policies, posterior.draws(500, seed=1))
print(table)

# %%
# Predicted and true
# ------------------
# What the posterior predicts of each policy, with 95 % intervals, beside the true value
# in the model that the patients came from.

fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
bm.plots.intervals(table, ax=ax)
truth = {name: from_start(world, policy) for name, policy in policies.items()}
rows = [text.get_text() for text in ax.get_yticklabels()]
ax.plot([truth[x] for x in rows], ax.get_yticks(), "kx", label="true value")
at = ax.get_yticks()[rows.index("plug-in")]
ax.plot(from_start(by_itself, plug_in), at, "r+", label="by frequencies")
ax.legend(loc="lower right")
ax.set_title("Predicted values with intervals, and true values")
for name, value in truth.items():
    found = table.evaluations[name]
    low, high = found.interval()
    print(f"{name:10} predicted {low:.3f} to {high:.3f}, true {value:.3f}")

# %%
# One cohort tells a story, not a law: :doc:`/beliefs` repeats it on many, and
# ``bayesmdp demo`` tells it with 18,000 patients and writes the report.
