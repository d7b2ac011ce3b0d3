"""Test beds: decision processes whose dynamics are known."""

from bayesmdp.worlds._casino import casino
from bayesmdp.worlds._gridworld import gridworld
from bayesmdp.worlds._sepsis import SepsisWorld, icu_sepsis
from bayesmdp.worlds._synthetic import synthetic
from bayesmdp.worlds._world import World

__all__ = ["SepsisWorld", "World", "casino", "gridworld", "icu_sepsis", "synthetic"]
