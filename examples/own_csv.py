"""
Your own table, from CSV to report
==================================

A table of visits: one row per patient and step, with a state, what was done, and how
the stay ended. The script writes a small one first, so that it runs as it is; with
your own, begin at the second step.
"""

# %%
# A file
# ------
# Any columns will do. Here a stay on a ward has no column for the next state: it is the
# state of the same patient one step later, and at the end the outcome. A stay without
# outcome is censored.

import csv
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import bayesmdp as bm

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(7)
moves = {  # next: better, same, worse; then home or death at either end
    "observe": [0.30, 0.45, 0.25],
    "treat": [0.38, 0.42, 0.20],
}
ladder = ["home", "mild", "moderate", "severe", "death"]
with (folder / "ward.csv").open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["patient", "day", "condition", "care", "end"])
    for patient in range(400):
        at = int(rng.integers(1, 4))
        for day in range(30):
            care = "treat" if rng.random() < 0.2 + 0.2 * (at == 3) else "observe"
            after = at + int(rng.choice([-1, 0, 1], p=moves[care]))
            over = after in (0, 4)
            end = ladder[after] if over else ""
            writer.writerow([patient, day, ladder[at], care, end])
            if over:
                break
            at = after

# %%
# Look at it first
# ----------------
# ``validate`` reads the table as ``read_transitions`` would, and says what is odd.

columns = {"step": "day", "state": "condition", "action": "care", "outcome": "end"}
found = bm.validate(folder / "ward.csv", columns=columns)
print(found.summary().replace(f"{folder}/", ""))

# %%
# Read it, and say what pays
# --------------------------
# Going home pays 1. With a discount of 0.99 per day, a value is a little less than the
# probability of going home.

log = bm.read_transitions(folder / "ward.csv", columns=columns)
task = bm.Task.from_data(
    log,
    discount=0.99,
    reward=[float(x == "home") for x in log.state_labels],
    terminal=["home", "death"],
    start="logged",
)
posterior = bm.fit(log, task)
print(posterior.summary())

# %%
# Compare
# -------
# What was done, two simple rules, and the best policy given what is known. ``better``
# is the probability, over the posterior, of a higher value than what was done.

best = bm.optimise(posterior, seed=0)
policies = {
    "as logged": bm.policies.behaviour(posterior),
    "always observe": bm.policies.constant(posterior, "observe"),
    "always treat": bm.policies.constant(posterior, "treat"),
    "best": best.policy,
}
table = bm.compare(policies, posterior.draws(2000, seed=1))
print(table)
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
bm.plots.intervals(table, ax=ax)
ax.set_title("Values of four policies with 95 % intervals")

# %%
# Is it real?
# -----------
# Two checks that do not take the belief's word for it: does it fit this log, and what
# would be claimed if the care did nothing?

checked = bm.check(posterior, log, n_draws=200)
control = bm.negative_control(log, task, n_permutations=39)
print(checked.problems or "check: no problem detected")
print(control)

# %%
# The report
# ----------
# One file that needs no network, to show to others.

page = bm.report(
    posterior,
    table,
    optimisation=best,
    findings=bm.validate(log, task),
    check=checked,
    negative_control=control,
)
print(page.save(folder / "ward.html").name, page)

# %%
# The same from the command line
# ------------------------------
# Columns that are called ``episode`` or ``patient``, ``step``, ``state``, ``action`` or
# ``outcome`` are found by themselves; others are named. After the second command, say
# in ``task.toml`` what pays.
#
# .. code-block:: sh
#
#     names="--columns step=day --columns state=condition"
#     names="$names --columns action=care --columns outcome=end"
#     bayesmdp validate ward.csv $names
#     bayesmdp fit ward.csv $names --init task.toml
#     bayesmdp fit ward.csv $names --task task.toml -o ward
#     bayesmdp optimise ward
#     bayesmdp compare ward behaviour optimised always:treat
#     bayesmdp report ward -o ward.html
