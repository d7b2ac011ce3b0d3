"""Cohorts of ICU-Sepsis patients, and numbers told with their errors.

The paper's clinical counts (MIMIC-III) are not public. Patients of ICU-Sepsis, a model
estimated from the same records by the same recipe, are treated as clinicians did, and
what is learnt from them can be set beside the truth.
"""

from functools import lru_cache

import numpy as np

import bayesmdp as bm
from bayesmdp._typing import ArrayLike

DEATH = "death"
DISCOUNT = 0.999
MIN_COUNT = 5  # visits an action needs to be considered, as in the paper
PATIENTS = 18_000  # about as many as the paper's records hold


@lru_cache(maxsize=2)
def sepsis(discount: float = DISCOUNT) -> bm.worlds.SepsisWorld:
    """Return the true model, which takes a second to read."""
    return bm.worlds.icu_sepsis(discount=discount)


@lru_cache(maxsize=1)
def cohort(size: int, number: int) -> bm.Transitions:
    """Treat so many patients as clinicians did."""
    world = sepsis()
    return world.simulate(world.expert, size, seed=number)


def mean_and_error(values: ArrayLike) -> tuple[float, float]:
    """Mean over repetitions, and its standard error; NaN for one alone."""
    x = np.asarray(values, dtype=np.float64)
    error = x.std(ddof=1) / np.sqrt(x.size) if x.size > 1 else np.nan
    return float(x.mean()), float(error)


def said(values: ArrayLike, digits: int = 4, unit: str = "") -> str:
    """Mean over repetitions with its standard error, in words."""
    mean, error = mean_and_error(values)
    mean = round(mean, digits) + 0.0  # no minus before a zero
    if np.isnan(error):
        return f"{mean:.{digits}f}{unit}"
    return f"{mean:.{digits}f} ± {error:.{digits}f}{unit}"
