"""Test beds: decision processes whose dynamics are known."""

from bayesmdp.worlds._from_papers import (
    casino,
    gridworld,
    machine_replacement,
    riverswim,
    wet_chicken,
    wet_chicken_baseline,
)
from bayesmdp.worlds._mdp import MDP
from bayesmdp.worlds._mdptoolbox import from_mdptoolbox
from bayesmdp.worlds._outcomes import from_craam, from_gymnasium
from bayesmdp.worlds._random import random_mdp, random_mdp_baseline, synthetic
from bayesmdp.worlds._sepsis import SepsisMDP, icu_sepsis

__all__ = [
    "MDP",
    "SepsisMDP",
    "casino",
    "from_craam",
    "from_gymnasium",
    "from_mdptoolbox",
    "gridworld",
    "icu_sepsis",
    "machine_replacement",
    "random_mdp",
    "random_mdp_baseline",
    "riverswim",
    "synthetic",
    "wet_chicken",
    "wet_chicken_baseline",
]
