"""Simulated patients in intensive care whose states of health are known."""

from typing import Any

import numpy as np
import pandas as pd

from bayesmdp.data import Discretisation, discretise

N_LATENT = 6
FEATURES = ["pressure", "lactate", "ventilated", "age"]


def simulated(n_stays: int = 300, seed: int = 0) -> pd.DataFrame:
    """Patients who walk between six states of health that features give away."""
    rng = np.random.default_rng(seed)
    rows = []
    for stay in range(n_stays):
        health = int(rng.integers(N_LATENT))
        for bloc in range(1, int(rng.integers(3, 12))):
            fluid, vasopressor = rng.gamma(2, 100), rng.gamma(1, 0.2)
            rows.append(
                {
                    "icustayid": 1000 + stay,
                    "subject": stay // 2,
                    "bloc": bloc,
                    "health": health,
                    "pressure": rng.normal(60 + 20 * (health % 3), 1),
                    "lactate": np.exp(rng.normal(2 * (health // 3), 0.1)),
                    "ventilated": health % 2,
                    "age": rng.normal(60 + 20 * (health % 2), 1),
                    "fluid": fluid * (rng.random() > 0.3),
                    "vasopressor": vasopressor * (rng.random() > 0.7),
                }
            )
            health = int(np.clip(health + rng.integers(-1, 2), 0, N_LATENT - 1))
        for row in rows[-bloc:]:
            row["died"] = int(health < 2)
    table = pd.DataFrame(rows)
    return table.sample(frac=1, random_state=seed).reset_index(drop=True)


CHOICES: dict[str, Any] = {
    "features": FEATURES,
    "doses": ("fluid", "vasopressor"),
    "outcome": "died",
    "n_states": N_LATENT,
    "log": ["lactate"],
    "binary": ["ventilated"],
    "n_starts": 2,
}


def made(table: Any, **changes: Any) -> Discretisation:
    return discretise(table, **(CHOICES | changes))
