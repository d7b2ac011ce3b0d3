"""
Sick-Sicker: a better policy than the published strategies
==========================================================

The model that decision scientists teach with. A cohort of healthy 25-year-olds may
become Sick, recover, become Sicker for good, and die, in 75 yearly cycles. Treatment A
improves the quality of life while Sick, treatment B slows progression to Sicker. Both
are given, and paid for, in Sick and in Sicker alike, since the strategies compared (no
treatment, A, B, both) do not tell these states apart. A policy may: Sick and Sicker are
states, and what to give is an action in each.

First the published table, with every input at its base value: costs and QALYs, both
discounted by 3 % a year, with the tutorial's weights of cycles (`cycle="darth"`). Then
the policy of the largest net benefit at 100,000 a QALY, found by `optimise`: both
treatments while Sick, and none once Sicker, where neither works. Last, all five under
the uncertainty of the inputs, drawn as the tutorial draws them.

Inputs and figures: Alarid-Escudero, Krijkamp, Enns, Yang, Hunink, Pechlivanoglou and
Jalal, An Introductory Tutorial on Cohort State-Transition Models in R Using a
Cost-Effectiveness Analysis Example, Medical Decision Making 43 (2023), 3-20.

Run with ``python examples/sick_sicker.py``.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

import bayesmdp as bm

HEALTHY, SICK, SICKER, DEAD = range(4)
NEITHER, A, B, BOTH = range(4)
CYCLES = 75  # years, from age 25 to 100
DISCOUNT = 1 / 1.03
THRESHOLD = 100_000  # per QALY

BASE: dict[str, float] = {
    # rates per year, and ratios of rates
    "r_healthy_sick": 0.15,
    "r_sick_healthy": 0.5,
    "r_sick_sicker": 0.105,
    "r_healthy_dead": 0.002,
    "hr_sick_dead": 3.0,
    "hr_sicker_dead": 10.0,
    "hr_sick_sicker_b": 0.6,  # under treatment B
    # costs per year
    "c_healthy": 2_000,
    "c_sick": 4_000,
    "c_sicker": 15_000,
    "c_a": 12_000,
    "c_b": 13_000,
    # utilities
    "u_healthy": 1.0,
    "u_sick": 0.75,
    "u_sicker": 0.5,
    "u_sick_a": 0.95,  # under treatment A
}
DISTRIBUTIONS: dict[str, Any] = {
    "r_healthy_sick": stats.gamma(30, scale=1 / 200),
    "r_sick_healthy": stats.gamma(60, scale=1 / 120),
    "r_sick_sicker": stats.gamma(84, scale=1 / 800),
    "r_healthy_dead": stats.gamma(20, scale=1 / 10_000),
    "hr_sick_dead": stats.lognorm(0.01, scale=3),
    "hr_sicker_dead": stats.lognorm(0.02, scale=10),
    "hr_sick_sicker_b": stats.lognorm(0.02, scale=0.6),
    "c_healthy": stats.gamma(100, scale=20),
    "c_sick": stats.gamma(177.8, scale=22.5),
    "c_sicker": stats.gamma(225, scale=66.7),
    "c_a": stats.gamma(73.5, scale=163.3),
    "c_b": stats.gamma(86.2, scale=150.8),
    "u_healthy": stats.beta(200, 3),
    "u_sick": stats.beta(130, 45),
    "u_sicker": stats.beta(230, 230),
    "u_sick_a": stats.beta(300, 15),
}


def dynamics(x: Mapping[str, float]) -> np.ndarray:
    """Probabilities of a year ``[4, 4, 4]`` from rates; the living move after death."""
    rate = {"sick": x["r_healthy_dead"] * x["hr_sick_dead"]}
    rate["sicker"] = x["r_healthy_dead"] * x["hr_sicker_dead"]
    dies = {name: -np.expm1(-r) for name, r in rate.items()}
    dies["healthy"] = -np.expm1(-x["r_healthy_dead"])
    falls_ill = -np.expm1(-x["r_healthy_sick"])
    recovers = -np.expm1(-x["r_sick_healthy"])
    found = np.zeros((4, 4, 4))
    found[HEALTHY, :, SICK] = (1 - dies["healthy"]) * falls_ill
    found[HEALTHY, :, HEALTHY] = (1 - dies["healthy"]) * (1 - falls_ill)
    found[HEALTHY, :, DEAD] = dies["healthy"]
    for action in (NEITHER, A, B, BOTH):
        ratio = x["hr_sick_sicker_b"] if action in (B, BOTH) else 1.0
        worsens = -np.expm1(-x["r_sick_sicker"] * ratio)
        stays = 1 - recovers - worsens
        alive = np.array([recovers, stays, worsens]) * (1 - dies["sick"])
        found[SICK, action] = [*alive, dies["sick"]]
    found[SICKER, :, SICKER] = 1 - dies["sicker"]
    found[SICKER, :, DEAD] = dies["sicker"]
    found[DEAD, :, DEAD] = 1
    return found


def rewards(x: Mapping[str, float]) -> dict[str, np.ndarray]:
    """Costs and QALYs of a year in a state under an action, ``[4, 4]`` each."""
    cost, qaly = np.zeros((4, 4)), np.zeros((4, 4))
    cost[HEALTHY], qaly[HEALTHY] = x["c_healthy"], x["u_healthy"]
    given = np.array([0, x["c_a"], x["c_b"], x["c_a"] + x["c_b"]])
    cost[SICK], qaly[SICK] = x["c_sick"] + given, x["u_sick"]
    qaly[SICK, [A, BOTH]] = x["u_sick_a"]
    cost[SICKER], qaly[SICKER] = x["c_sicker"] + given, x["u_sicker"]
    return {"cost": cost, "qaly": qaly}


TASK = bm.Task(
    4,
    4,
    reward=rewards(BASE),
    discount=DISCOUNT,
    horizon=CYCLES,
    cycle="darth",
    start="Healthy",
    terminal="Dead",
    state_labels=["Healthy", "Sick", "Sicker", "Dead"],
    action_labels=["neither", "A", "B", "both"],
)
STRATEGIES = {
    "standard of care": np.full(4, NEITHER),
    "A": np.full(4, A),
    "B": np.full(4, B),
    "AB": np.full(4, BOTH),
}
NET_BENEFIT = {"qaly": float(THRESHOLD), "cost": -1.0}


def base() -> bm.Ensemble:
    """One model, of the base inputs."""
    return bm.Ensemble([dynamics(BASE)], TASK)


def draw(rng: np.random.Generator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """One draw of all inputs: its dynamics and rewards."""
    x = {name: d.rvs(random_state=rng) for name, d in DISTRIBUTIONS.items()}
    return dynamics(x), rewards(x)


def main() -> bm.economics.CostEffectiveness:
    """Print the published table, the better policy, and both under uncertainty."""
    at_base = bm.cost_effectiveness(STRATEGIES, base(), thresholds=[THRESHOLD])
    print("Published strategies, base inputs")
    print(f"{'':<18}{'cost':>10}{'QALYs':>9}{'ICER':>10}")
    for row in at_base.table:
        icer = "" if row.icer is None else f"{row.icer:,.0f}"
        icer = "dominated" if row.dominated else icer
        print(f"{row.name:<18}{row.cost:>10,.0f}{row.effect:>9.3f}{icer:>10}")

    found = bm.optimise(base(), reward=NET_BENEFIT)
    print(f"\nBest policy at {THRESHOLD:,} a QALY")
    for state in (SICK, SICKER):
        action = TASK.action_name(int(found.policy[state].argmax()))
        print(f"  while {TASK.state_name(state)}: {action}")
    best = max(THRESHOLD * row.effect - row.cost for row in at_base.table)
    print(f"  net benefit {found.start_value:,.0f}: {found.start_value - best:+,.0f}")

    belief = bm.Ensemble.from_function(draw, 1000, seed=1, task=TASK)
    every = {**STRATEGIES, "by state": found.policy}
    thresholds = np.arange(0, 200_001, 10_000)
    print()
    analysed = bm.cost_effectiveness(every, belief, thresholds=thresholds)
    print(analysed.summary())
    return analysed


if __name__ == "__main__":
    analysed = main()

# %%
# Acceptability
# -------------
# Probability of being the best buy at each threshold, over the 1,000 draws.

if __name__ == "__main__":
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
    bm.plots.ceac(analysed, ax=ax)
    ax.set_title("Probability that each strategy is the best buy")
