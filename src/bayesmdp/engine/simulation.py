"""Simulation, apart so that only who simulates compiles it."""

from bayesmdp.engine._simulate import run_episodes, sample_pairs
from bayesmdp.engine._walks import Ground, roll_out

__all__ = ["Ground", "roll_out", "run_episodes", "sample_pairs"]
