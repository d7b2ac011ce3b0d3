"""Cohorts of ICU-Sepsis patients.

The paper's clinical counts (MIMIC-III) are not public. Patients of ICU-Sepsis, a model
estimated from the same records by the same recipe, are treated as clinicians did, and
what is learnt from them can be set beside the truth.
"""

from functools import lru_cache

import bayesmdp as bm

DEATH = "death"
DISCOUNT = 0.999
MIN_COUNT = 5  # visits an action needs to be considered, as in the paper
PATIENTS = 18_000  # about as many as the paper's records hold


@lru_cache(maxsize=2)
def sepsis(discount: float = DISCOUNT) -> bm.worlds.SepsisMDP:
    """Return the true model, which takes a second to read."""
    return bm.worlds.icu_sepsis(discount=discount)


@lru_cache(maxsize=1)
def cohort(size: int, number: int) -> bm.Transitions:
    """Treat so many patients as clinicians did."""
    world = sepsis()
    return world.simulate(world.expert, size, seed=number)
