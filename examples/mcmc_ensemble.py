"""
Models from MCMC, with ArviZ in and out
=======================================

A belief need not come from ``bm.fit``. Here a model of recovery with one parameter for
the severity of patients and one for the effect of a drug is fitted by a few lines of
Metropolis sampling; any sampler that gives ArviZ's format would do. Each draw becomes a
model, the models an ``Ensemble``, and draws of values go back to ArviZ, which looks at
convergence where it matters: of the value.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import bayesmdp as bm

with warnings.catch_warnings():  # ArviZ 0.23 announces 1.0 once a day
    warnings.simplefilter("ignore", FutureWarning)
    import arviz as az

# %%
# Counts, and a logistic model
# ----------------------------
# Severities 0 to 4; each day a patient gets better or worse by one. The probability of
# getting better is ``logit(p) = a - b * severity + c * drug``, with normal priors.

SEVERITY = np.arange(5)
BETTER = np.array([[61, 30], [48, 29], [40, 27], [22, 20], [9, 11]])  # no drug, drug
DAYS = np.array([[90, 40], [80, 42], [80, 45], [60, 41], [40, 32]])


def p_better(a: float, b: float, c: float) -> np.ndarray:
    """Probability of getting better, [severity, drug]."""
    return 1 / (1 + np.exp(-(a - b * SEVERITY[:, None] + c * np.arange(2))))


def log_posterior(at: np.ndarray) -> float:
    """Of (a, b, c), but for a constant."""
    p = p_better(*at)
    likelihood = BETTER * np.log(p) + (DAYS - BETTER) * np.log1p(-p)
    return float(likelihood.sum() - (at**2).sum() / 8)


# %%
# Four chains
# -----------

chains = np.empty((4, 500, 3))
for number in range(4):
    rng = np.random.default_rng(number)
    at = rng.normal(0, 1, 3)
    density = log_posterior(at)
    for step in range(-2000, 5000):
        move = at + rng.normal(0, 0.12, 3)
        new = log_posterior(move)
        if np.log(rng.random()) < new - density:
            at, density = move, new
        if step >= 0 and step % 10 == 0:
            chains[number, step // 10] = at
names = {"a": chains[..., 0], "b": chains[..., 1], "c": chains[..., 2]}
print(az.summary(az.convert_to_inference_data(names)))

# %%
# Each draw is a model
# --------------------
# Two states beyond the ladder: home, which pays 1, and intensive care.


def model(at: np.ndarray) -> np.ndarray:
    """Probabilities [state, action, next state]."""
    p = p_better(*at)
    theta = np.zeros((7, 2, 7))
    for s in SEVERITY:
        theta[s, :, s - 1 if s else 5] += p[s]
        theta[s, :, s + 1 if s < 4 else 6] += 1 - p[s]
    theta[5:, :, 5:] = np.eye(2)[:, None, :]
    return theta


task = bm.Task(
    7,
    2,
    reward=[0.0] * 5 + [1.0, 0.0],
    discount=0.99,
    terminal=["home", "intensive care"],
    start=[0.2] * 5 + [0, 0],
    state_labels=[f"severity {s}" for s in SEVERITY] + ["home", "intensive care"],
    action_labels=["no drug", "drug"],
)
belief = bm.Ensemble([model(x) for x in chains.reshape(-1, 3)], task)
policies = {
    "no drug": bm.policies.constant(belief, "no drug"),
    "drug": bm.policies.constant(belief, "drug"),
}
table = bm.compare(policies, belief)
print(table)

# %%
# Draws of values, back in ArviZ
# ------------------------------
# ``chains=4`` tells that the models came from four chains, one after the other: R-hat
# and effective sample sizes are then those of the values.

data = table.to_inference_data(chains=4)
columns = ["mean", "sd", "mcse_mean", "ess_bulk", "r_hat"]
print(az.summary(data, var_names=["start_value", "difference"])[columns])
(ax,) = az.plot_forest(data, var_names=["start_value"], combined=False, figsize=(7, 3))
ax.set_title("Value of both policies, by chain")
plt.tight_layout()
