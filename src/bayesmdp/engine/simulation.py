"""Simulation of known models, apart so that only who simulates compiles it."""

from bayesmdp.engine._simulate import run_episodes, sample_pairs

__all__ = ["run_episodes", "sample_pairs"]
