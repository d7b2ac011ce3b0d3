"""Test beds: decision processes whose dynamics are known."""

from bayesmdp.worlds._casino import casino
from bayesmdp.worlds._craam import from_craam
from bayesmdp.worlds._gridworld import gridworld
from bayesmdp.worlds._gymnasium import from_gymnasium
from bayesmdp.worlds._machine import machine_replacement
from bayesmdp.worlds._mdp import MDP
from bayesmdp.worlds._mdptoolbox import from_mdptoolbox
from bayesmdp.worlds._random_mdp import random_mdp, random_mdp_baseline
from bayesmdp.worlds._riverswim import riverswim
from bayesmdp.worlds._sepsis import SepsisMDP, icu_sepsis
from bayesmdp.worlds._synthetic import synthetic
from bayesmdp.worlds._wet_chicken import wet_chicken, wet_chicken_baseline

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
