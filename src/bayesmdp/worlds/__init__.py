"""Test beds: decision processes whose dynamics are known."""

from bayesmdp.worlds._casino import casino
from bayesmdp.worlds._craam import from_craam
from bayesmdp.worlds._gridworld import gridworld
from bayesmdp.worlds._gymnasium import from_gymnasium
from bayesmdp.worlds._mdptoolbox import from_mdptoolbox
from bayesmdp.worlds._sepsis import SepsisWorld, icu_sepsis
from bayesmdp.worlds._synthetic import synthetic
from bayesmdp.worlds._world import World

__all__ = [
    "SepsisWorld",
    "World",
    "casino",
    "from_craam",
    "from_gymnasium",
    "from_mdptoolbox",
    "gridworld",
    "icu_sepsis",
    "synthetic",
]
