"""
HIV therapy: is a second drug worth its price?
==============================================

Ask of HIV therapy whether a second drug in the first two years is worth its price.

A model that health economists teach with, as a decision process. Health is A, B, C
(worse and worse) or death; counts of yearly changes under one drug (zidovudine) are
known, and a second drug (lamivudine), given for two years, multiplies every risk of
getting worse by 0.509. Since time matters, a state is (year, health): 20 years of three
states of health, and death. Costs and life years are two tasks on one world; both are
counted at the end of each year, costs discounted by 6 %, life years not. States know
their year, so the discount stands in the rewards, and both can be added up.

First the published figures, with frequencies as probabilities. Then what the counts
leave open: a Dirichlet posterior on the yearly changes, of which every draw is laid out
over the years. A posterior over (year, health) would learn each year from data of its
own and believe the years independent; here they share their rows, as they do in truth,
so the draws form an `Ensemble`. The 0.509 is taken as known, which it is not:
uncertainty about it comes on top.

Counts and costs: Chancellor et al., Modelling the cost effectiveness of lamivudine /
zidovudine combination therapy in HIV infection, PharmacoEconomics 12 (1997), 54-66.
Conventions and figures: Briggs, Claxton and Sculpher, Decision Modelling for Health
Economic Evaluation, Oxford University Press (2006), chapter 2.

Run with ``python examples/hiv_therapy.py``.
"""

from dataclasses import dataclass

import numpy as np

import bayesmdp as bm

HEALTH = ("A", "B", "C")
DEAD = len(HEALTH)
YEARS = 20
COUNTS = np.array(  # [from health, to health or death], patient years
    [[1251, 350, 116, 17], [0, 731, 512, 15], [0, 0, 1312, 437]]
)
RELATIVE_RISK = 0.509  # of getting worse, with both drugs
TREATED_YEARS = 2
CARE = np.array([1701 + 1055, 1774 + 1278, 6948 + 2059])  # medical, community; a year
ZIDOVUDINE, LAMIVUDINE = 2278.0, 2086.5  # pounds a year
COST_DISCOUNT = 0.06
ONE_DRUG, TWO_DRUGS = 0, 1

N_STATES = (YEARS + 1) * DEAD + 1
LABELS = [f"year {y}, {h}" for y in range(YEARS + 1) for h in HEALTH] + ["death"]


@dataclass(frozen=True)
class Layout:
    """Every possible transition of the process; axis E runs over them."""

    year: np.ndarray  # [E]
    action: np.ndarray  # [E]
    health: np.ndarray  # [E]
    next_health: np.ndarray  # [E], death included

    @property
    def state(self) -> np.ndarray:
        """State each transition starts from."""
        return self.year * DEAD + self.health

    @property
    def next_state(self) -> np.ndarray:
        """State each transition leads to; death has no year."""
        alive = (self.year + 1) * DEAD + self.next_health
        return np.where(self.next_health == DEAD, N_STATES - 1, alive)


def layout() -> Layout:
    """Lay out the years: nobody gets better, two drugs are for the first years."""
    found = [
        (year, action, health, then)
        for year in range(YEARS)
        for action in (ONE_DRUG, TWO_DRUGS)
        if action == ONE_DRUG or year < TREATED_YEARS
        for health in range(DEAD)
        for then in range(health, DEAD + 1)
    ]
    return Layout(*np.array(found).T)


WAYS = layout()


def over_the_years(yearly: np.ndarray) -> bm.Dynamics:
    """Lay one table of yearly changes ``[3, 4]`` out over (year, health)."""
    treated = np.triu(yearly, k=1) * RELATIVE_RISK
    treated[np.arange(DEAD), np.arange(DEAD)] = 1 - treated.sum(axis=1)
    tables = np.stack([yearly, treated])
    return bm.Dynamics.from_arrays(
        WAYS.state,
        WAYS.action,
        WAYS.next_state,
        tables[WAYS.action, WAYS.health, WAYS.next_health],
        n_states=N_STATES,
        n_actions=2,
    )


def costs() -> np.ndarray:
    """Pounds of each transition ``[E]``, paid by the living at the end of the year."""
    care = np.append(CARE + ZIDOVUDINE, 0.0)[WAYS.next_health]
    second = LAMIVUDINE * (WAYS.action == TWO_DRUGS) * (WAYS.next_health < DEAD)
    return (care + second) / (1 + COST_DISCOUNT) ** (WAYS.year + 1)


def life_years() -> np.ndarray:
    """Years of life of each transition ``[E]``: one where it ends alive."""
    return (WAYS.next_health < DEAD).astype(float)


def task(paid: np.ndarray) -> bm.Task:
    """Return a task that pays so much for each transition ``[E]``."""
    return bm.Task(
        N_STATES,
        2,
        reward=(WAYS.state, WAYS.action, WAYS.next_state, paid),
        discount=1,
        start="year 0, A",
        terminal=[*LABELS[YEARS * DEAD :]],
        state_labels=LABELS,
        action_labels=["one drug", "two drugs"],
    )


THERAPIES = {
    "one drug": np.full(N_STATES, ONE_DRUG),
    "two drugs": np.where(
        np.arange(N_STATES) < TREATED_YEARS * DEAD, TWO_DRUGS, ONE_DRUG
    ),
}
TASKS = {"costs": task(costs()), "life years": task(life_years())}


def published() -> dict[str, dict[str, float]]:
    """Costs and life years of both therapies, with frequencies as probabilities."""
    dynamics = over_the_years(COUNTS / COUNTS.sum(axis=1, keepdims=True))
    return {
        what: {
            name: float(bm.MDP(dynamics, known).value(policy) @ known.start)
            for name, policy in THERAPIES.items()
        }
        for what, known in TASKS.items()
    }


def posterior_models(n_draws: int = 1000, seed: int = 0) -> list[bm.Dynamics]:
    """Draw tables of yearly changes, and lay each out over the years."""
    possible = np.triu(np.ones((DEAD + 1, DEAD + 1), dtype=bool))
    health = bm.Task(
        DEAD + 1,
        1,
        reward=np.zeros(DEAD + 1),
        discount=1,
        terminal="death",
        state_labels=[*HEALTH, "death"],
    )
    seen = np.zeros((DEAD + 1, 1, DEAD + 1), dtype=int)
    seen[:DEAD, 0] = COUNTS
    prior = bm.SymmetricPrior(1.0, support=possible)
    posterior = bm.fit(bm.Counts.from_dense(seen), health, prior=prior)
    draws = posterior.draws(n_draws, seed=seed)
    return [
        over_the_years(draws.dynamics(i).to_dense()[:DEAD, 0]) for i in range(n_draws)
    ]


def evaluations(models: list[bm.Dynamics]) -> dict[str, dict[str, bm.Evaluation]]:
    """Judge both therapies by costs and by life years, over the models."""
    return {
        what: {
            name: bm.evaluate(policy, bm.Ensemble(models, known).draws())
            for name, policy in THERAPIES.items()
        }
        for what, known in TASKS.items()
    }


def probability_worth_it(models: list[bm.Dynamics], threshold: float) -> float:
    """Tell how likely two drugs are worth it, at so many pounds a year of life."""
    benefit = task(threshold * life_years() - costs())
    table = bm.compare(
        THERAPIES, bm.Ensemble(models, benefit).draws(), reference="one drug"
    )
    (row,) = (row for row in table.rows if row.name == "two drugs")
    return float(row.probability_better or 0.0)


def main() -> None:
    """Print the published figures, and what the counts leave open."""
    found = published()
    print("With frequencies as probabilities")
    print(f"{'':<10} {'costs':>12} {'life years':>12}")
    for name in THERAPIES:
        cost, life = found["costs"][name], found["life years"][name]
        print(f"{name:<10} {cost:>12.2f} {life:>12.4f}")
    more = {what: x["two drugs"] - x["one drug"] for what, x in found.items()}
    ratio = more["costs"] / more["life years"]
    print(f"two drugs cost {ratio:.2f} for each year of life gained\n")

    models = posterior_models()
    print(f"With {COUNTS.sum()} patient years and {len(models)} posterior draws")
    header = ("mean", "epistemic sd", "aleatoric sd")
    print(f"{'':<22} " + " ".join(f"{x:>12}" for x in header))
    for what, judged in evaluations(models).items():
        for name, e in judged.items():
            row = (e.start_value, e.start_epistemic_sd, e.start_aleatoric_sd)
            cells = " ".join(f"{x:>12.{0 if what == 'costs' else 2}f}" for x in row)
            print(f"{what + ', ' + name:<22} {cells}")
    for threshold in (6000, 6200, 6300, 6500):
        p = probability_worth_it(models, threshold)
        print(f"two drugs are worth it at {threshold} a life year: {p:.1%}")


if __name__ == "__main__":
    main()

# %%
# Acceptability
# -------------
# Probability that two drugs are worth it by what a year of life may cost, over 300
# draws of the yearly changes.

if __name__ == "__main__":
    import matplotlib.pyplot as plt

    thresholds = range(6000, 6601, 50)
    few = posterior_models(300)
    fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    ax.plot(thresholds, [probability_worth_it(few, x) for x in thresholds], "o-")
    ax.set_xlabel("pounds for a year of life")
    ax.set_ylabel("probability")
    ax.set_title("Probability that two drugs are worth their price")
