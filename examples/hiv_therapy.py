"""
HIV therapy: is a second drug for two years worth its price?
============================================================

A model that health economists teach with, as a decision process. Health is A, B, C
(worse and worse) or death; counts of yearly changes under one drug (zidovudine) are
known, and a second drug (lamivudine), given for two years, multiplies every risk of
getting worse by 0.509. Rows and prices change after two cycles of twenty, so there are
two beliefs, one after the other (`BeliefsByCycle`). Costs and life years are rewards
of one task, both counted at the end of each year: costs discounted by 6 %, life years
not.

First the published figures, with frequencies as probabilities. Then what is uncertain:
a Dirichlet posterior of the counts, and the relative risk, of which a 95 % interval was
published. A draw has one set of yearly changes and one relative risk for all its years,
so draws are made by a function, and both beliefs meet the same ones.

Counts, costs and relative risk: Chancellor et al., Modelling the cost effectiveness of
lamivudine / zidovudine combination therapy in HIV infection, PharmacoEconomics 12
(1997), 54-66. Conventions and figures: Briggs, Claxton and Sculpher, Decision Modelling
for Health Economic Evaluation, Oxford University Press (2006), chapters 2 and 4.

Run with ``python examples/hiv_therapy.py``.
"""

import numpy as np

import bayesmdp as bm

HEALTH = ("A", "B", "C", "death")
DEAD = len(HEALTH) - 1
YEARS = 20
TREATED_YEARS = 2
COUNTS = np.array(  # [from health, to health or death], patient years
    [[1251, 350, 116, 17], [0, 731, 512, 15], [0, 0, 1312, 437]]
)
RELATIVE_RISK = 0.509  # of getting worse, with both drugs
RISK = bm.economics.lognormal_from_interval(0.365, 0.710)
CARE = np.array([1701 + 1055, 1774 + 1278, 6948 + 2059])  # medical, community; a year
ZIDOVUDINE, LAMIVUDINE = 2278.0, 2086.5  # pounds a year
ONE_DRUG, TWO_DRUGS = 0, 1
THERAPIES = {"one drug": np.full(4, ONE_DRUG), "two drugs": np.full(4, TWO_DRUGS)}


def dynamics(yearly: np.ndarray, ratio: float) -> np.ndarray:
    """Probabilities of a year ``[4, 2, 4]``; ``ratio``: of risks with two drugs."""
    found = np.zeros((4, 2, 4))
    found[:DEAD] = yearly[:, None]
    worse = np.triu(yearly, k=1) * ratio
    found[:DEAD, TWO_DRUGS] = worse
    alive = np.arange(DEAD)
    found[alive, TWO_DRUGS, alive] = 1 - worse.sum(axis=1)
    found[DEAD, :, DEAD] = 1
    return found


def rewards(second: float) -> dict[str, np.ndarray]:
    """Pounds and years of life of a year ``[4, 2]``; ``second``: of the second drug."""
    cost, life = np.zeros((4, 2)), np.zeros((4, 2))
    cost[:DEAD] = CARE[:, None] + ZIDOVUDINE
    cost[:DEAD, TWO_DRUGS] += second
    life[:DEAD] = 1
    return {"cost": cost, "life years": life}


def task(second: float) -> bm.Task:
    """Say what a year costs and brings: twenty of them, counted at their ends."""
    return bm.Task(
        4,
        2,
        reward=rewards(second),
        discount={"cost": 1 / 1.06, "life years": 1},
        horizon=YEARS,
        cycle="end",
        start="A",
        terminal="death",
        state_labels=HEALTH,
        action_labels=list(THERAPIES),
    )


def published() -> bm.posterior.BeliefsByCycle:
    """Frequencies as probabilities: the second drug for two years, then without."""
    yearly = COUNTS / COUNTS.sum(axis=1, keepdims=True)
    treated = bm.Ensemble([dynamics(yearly, RELATIVE_RISK)], task(LAMIVUDINE))
    later = bm.Ensemble([dynamics(yearly, 1.0)], task(0.0))
    return bm.posterior.BeliefsByCycle([treated, later], until=[TREATED_YEARS])


def parameters(rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Draw yearly changes from their posterior under a flat prior, and the ratio."""
    yearly = np.zeros((DEAD, 4))
    for health in range(DEAD):
        yearly[health, health:] = rng.dirichlet(COUNTS[health, health:] + 1)
    return yearly, float(RISK.rvs(random_state=rng))


def uncertain(n: int = 1000, seed: int = 0) -> bm.posterior.BeliefsByCycle:
    """Draws of both periods: the same seed gives both the same parameters."""

    def treated(rng: np.random.Generator) -> tuple[np.ndarray, None]:
        return dynamics(*parameters(rng)), None

    def later(rng: np.random.Generator) -> tuple[np.ndarray, None]:
        yearly, _ = parameters(rng)
        return dynamics(yearly, 1.0), None

    first = bm.Ensemble.from_function(treated, n, seed, task=task(LAMIVUDINE))
    then = bm.Ensemble.from_function(later, n, seed, task=task(0.0))
    return bm.posterior.BeliefsByCycle([first, then], until=[TREATED_YEARS])


def main() -> bm.economics.CostEffectiveness:
    """Print the published figures, and what is uncertain about them."""
    found = bm.cost_effectiveness(
        THERAPIES, published(), effect="life years", thresholds=[0]
    )
    print("With frequencies as probabilities")
    print(f"{'':<10} {'costs':>12} {'life years':>12}")
    for row in found.table:
        print(f"{row.name:<10} {row.cost:>12.2f} {row.effect:>12.4f}")
    print(f"two drugs cost {found.table[1].icer:.2f} for each year of life gained\n")

    belief = uncertain()
    print(f"With {COUNTS.sum()} patient years and an uncertain relative risk")
    header = ("mean", "epistemic sd", "aleatoric sd")
    print(f"{'':<22} " + " ".join(f"{x:>12}" for x in header))
    for name, policy in THERAPIES.items():
        for what, e in (bm.evaluate(policy, belief).rewards or {}).items():
            row = (e.start_value, e.start_epistemic_sd, e.start_aleatoric_sd)
            cells = " ".join(f"{x:>12.{0 if what == 'cost' else 2}f}" for x in row)
            print(f"{what + ', ' + name:<22} {cells}")
    print()
    thresholds = np.arange(0, 16_001, 2_000)
    analysed = bm.cost_effectiveness(
        THERAPIES, belief, effect="life years", thresholds=thresholds
    )
    print(analysed)
    return analysed


if __name__ == "__main__":
    analysed = main()

# %%
# Acceptability
# -------------
# Probability of being the better buy by what a year of life may cost.

if __name__ == "__main__":
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    bm.plots.ceac(analysed, ax=ax)
    ax.set_title("Probability that each therapy is the better buy")
