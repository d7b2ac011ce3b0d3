"""The constants of rivals: grids, judged on logs that no table holds.

``python -m studies.safe_constants`` prints, for each domain of `studies.safe`, mean and
worst tenth of every constant over all sizes from the second on; seeds 0 to 59.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from bayesmdp._typing import FloatArray
from studies import safe, safe_rivals

_SEEDS = 60
GRIDS = {
    "spibb": (1, 2, 3, 5, 7, 10, 20),
    "soft": (0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
    "ramdp": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    "dprl": (1, 2, 3, 5, 10, 20, 50),
}
_SMALLER = {"ramdp": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)}  # where values are at most 1
_MAKE: dict[str, Callable[[safe_rivals.Log, Any], FloatArray]] = {
    "spibb": safe_rivals.spibb,
    "soft": safe_rivals.soft_spibb,
    "ramdp": safe_rivals.ramdp,
    "dprl": safe_rivals.dprl,
}


def main() -> None:
    """Print the table."""
    for domain in safe.DOMAINS:
        grids = GRIDS if domain.chicken else GRIDS | _SMALLER
        found: dict[tuple[str, float], list[list[float]]] = {}
        for size in domain.sizes[1:]:
            for seed in range(_SEEDS):
                world, log = safe.sample(domain, seed, size)
                for name, grid in grids.items():
                    for constant in grid:
                        policy = _MAKE[name](log, constant)
                        value = float(world.task.start @ world.value(policy))
                        base = float(world.task.start @ world.value(log.baseline))
                        rows = found.setdefault((name, constant), [])
                        if len(rows) < len(domain.sizes[1:]) and seed == 0:
                            rows.append([])
                        rows[-1].append(value - base)
        sys.stdout.write(f"{domain.name}\n")
        for (name, constant), rows in found.items():
            values = np.array(rows)
            tail = safe.worst_tenth(values).mean()
            said = f"mean {values.mean():8.4f}, worst tenth {tail:8.4f}"
            said += f", sum {values.mean() + tail:8.4f}"
            sys.stdout.write(f"  {name:6} {constant:6g}  {said}\n")


if __name__ == "__main__":
    main()
