"""
The next trial: where 500 more patients are worth most
======================================================

A hospital has a log of patients with pneumonia. Steroids may help some of them, and
were given mostly to the sickest. Which patients should the next 500 teach us about, how
should they be treated so that they fare no worse, and what would later patients gain?
The patients are simulated, so that the answer can be compared with the truth.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesmdp as bm

# %%
# Patients
# --------
# A state is an age group and the help needed to breathe; a step is a day. Each day a
# patient gets better, stays the same or gets worse; from the first step up one goes
# home, from the last one down one dies. Steroids help those on a mask or a ventilator,
# do little for those on oxygen, and harm those who need nothing. That is the truth,
# which the hospital does not know.

ages = ["under 65", "65 and over"]
needs = ["nothing", "oxygen", "mask", "ventilator"]
states = [f"{age}, {need}" for age in ages for need in needs] + ["home", "death"]
HOME, DEATH = 8, 9
worse = {"usual": [0.06, 0.12, 0.24, 0.24], "steroid": [0.12, 0.11, 0.13, 0.12]}
theta = np.zeros((10, 2, 10))
for at in range(8):
    old, need = divmod(at, 4)
    down = HOME if need == 0 else at - 1
    up = DEATH if need == 3 else at + 1
    for action, chances in enumerate(worse.values()):
        p = chances[need] * (1.6 if old else 1.0)
        theta[at, action, [down, at, up]] = 0.26, 0.74 - p, p
theta[HOME, :, HOME] = theta[DEATH, :, DEATH] = 1.0
task = bm.Task(
    10,
    2,
    reward=np.eye(10)[HOME],
    discount=1.0,
    start=[0.1, 0.2, 0.15, 0.05, 0.1, 0.2, 0.15, 0.05, 0, 0],
    terminal=["home", "death"],
    state_labels=states,
    action_labels=list(worse),
    reward_unit="patients who go home",
)
truth = bm.MDP(bm.Dynamics.from_dense(theta), task)

# %%
# What was logged
# ---------------
# 400 patients. Steroids were given to one in five on a ventilator, and to one in
# twenty-five of the others.

given = np.array([0.2 if s < 8 and s % 4 == 3 else 0.04 for s in range(10)])
clinicians = np.stack([1 - given, given], axis=1)
log = truth.simulate(clinicians, 400, seed=1)
posterior = bm.fit(log, task)
print(posterior.summary())

# %%
# Where the next 500 patients are worth most
# ------------------------------------------
# Suppose 500 more patients are treated as before, and the decision for one kind of
# patient is taken again with what they showed. A bar is what 1,000 later patients would
# gain by that, expected over everything that the log leaves open. What nobody is likely
# to change a decision by is worth nothing, however uncertain it is.

info = bm.value_of_information(posterior, n_visits=(50, 500), n_patients=500, seed=0)
print(info.summary(8))
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
bm.plots.information(info, n_states=8, ax=ax)

# %%
# The same by age and need, as a map. Each cell has how many more of 1,000 later
# patients go home.

gain = 1000 * info.patients_evsi[:8].reshape(2, 4)
fig, ax = plt.subplots(figsize=(7, 2.4), layout="constrained")
ax.imshow(gain, cmap="Blues", vmin=0, vmax=1.4 * gain.max())
for (row, column), value in np.ndenumerate(gain):
    dark = value > 0.9 * gain.max()
    ax.text(
        column,
        row,
        f"+{value:.1f}" if value >= 0.05 else "0",
        ha="center",
        va="center",
        color="white" if dark else "black",
    )
ax.set_xticks(range(4), needs)
ax.set_yticks(range(2), ages)
ax.set_xlabel("help needed to breathe")
ax.set_title("More patients home in 1,000, after 500 more are treated as before")

# %%
# How to treat the 500
# --------------------
# `bayesmdp.next_trial` looks for a policy that shows more, with a posterior probability
# of at least 95 % that its patients fare no worse than under what was done. Trials are
# then simulated on draws of the model: treat, learn, decide.

plan = bm.next_trial(posterior, 500, safe=0.95, sizes=(100, 500, 2000), seed=0)
print(plan.summary())

# %%
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
for place, design in enumerate(dict.fromkeys(x.design for x in plan.outcomes)):
    rows = [x for x in plan.outcomes if x.design == design]
    size = np.array([x.n_patients for x in rows]) * 1.06 ** (place - 1)
    found = 1000 * np.array([x.gain for x in rows])
    error = 1000 * np.array([x.gain_mcse for x in rows])
    ax.errorbar(size, found, 2 * error, marker="o", capsize=3, label=design)
ax.axhline(0, color="grey", linewidth=1)
ax.set_xscale("log")
ax.set_xticks([100, 500, 2000], ["100", "500", "2,000"], minor=False)
ax.minorticks_off()
ax.set_xlabel("patients in the trial")
ax.set_ylabel("more home in 1,000, later")
ax.set_title("Gain over deciding now, with two Monte Carlo errors")
ax.legend()

# %%
# The trial's policy, and the truth
# ---------------------------------
# How often each kind of patient gets steroids in the trial, beside the true effect of a
# steroid on the first day, which no log would tell.

effect = theta @ truth.value(clinicians)  # all that pays is to get home
print(f"{'':26}{'logged':>7} {'trial':>6} {'true gain by a steroid':>24}")
for s, name in enumerate(states[:8]):
    true = 1000 * (effect[s, 1] - effect[s, 0])
    print(f"{name:26}{given[s]:7.2f} {plan.policy[s, 1]:6.2f} {true:+18.0f} in 1,000")
now, then = (task.start @ truth.value(x) for x in (clinicians, plan.policy))
print(f"home, as logged: {now:.3f}; in the trial: {then:.3f}")

# %%
# :doc:`/information` says how this is computed and what it leaves out; most of all, the
# value of information is conditional on the prior.
