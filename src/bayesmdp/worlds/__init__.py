"""Test beds: decision processes whose dynamics are known."""

from bayesmdp.worlds._casino import casino
from bayesmdp.worlds._craam import from_craam
from bayesmdp.worlds._gridworld import gridworld
from bayesmdp.worlds._gymnasium import from_gymnasium
from bayesmdp.worlds._mdp import MDP
from bayesmdp.worlds._mdptoolbox import from_mdptoolbox
from bayesmdp.worlds._sepsis import SepsisMDP, icu_sepsis
from bayesmdp.worlds._synthetic import synthetic

__all__ = [
    "MDP",
    "SepsisMDP",
    "casino",
    "from_craam",
    "from_gymnasium",
    "from_mdptoolbox",
    "gridworld",
    "icu_sepsis",
    "synthetic",
]
