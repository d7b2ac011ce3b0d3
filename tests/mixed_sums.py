"""Ensembles whose rewards have different discounts, and all policies of them."""

from itertools import product
from typing import Any

import numpy as np
from all_paths import END, START, A, Array, S

import bayesmdp as bm

BENEFIT = {"qaly": 3.0, "cost": -1.0}
CASES = {"below 1": (0.9, 0.97), "with 1": (0.94, 1.0), "none": (0.0, 0.9)}
CYCLES = {"start": 1.0, "half": 0.5, "end": 0.0}


def ensemble_of(
    g: tuple[float, float], seed: int = 0, n_models: int = 3, **more: Any
) -> bm.Ensemble:
    """Return models of 3 live states, 2 actions; the sum of both rewards."""
    rng = np.random.default_rng(seed)
    models = rng.dirichlet(np.full(S, 0.7), size=(n_models, S, A))
    paid = {name: rng.normal(size=(S, A)) for name in ("cost", "qaly")}
    discount = dict(zip(paid, g, strict=True))
    about = bm.Task(S, A, paid, discount=discount, start=START, terminal=[END], **more)
    return bm.Ensemble(models, about).with_reward(BENEFIT)  # type: ignore[return-value]


def every_policy() -> list[Array]:
    choices = product(range(A), repeat=END)
    return [np.eye(A)[[*choice, 0]] for choice in choices]
