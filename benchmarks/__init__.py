"""Speed beside correctness: every time stands next to the value it produced."""

import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any


def made_with() -> dict[str, str]:
    """Versions and kind of machine, for every record."""
    packages = ("bayesmdp", "numpy", "scipy", "numba")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
    }


@dataclass(frozen=True)
class Row:
    """One claim: what was measured, against what, and whether the value is right."""

    what: str
    measured: float
    unit: str
    sense: str  # "<=" or ">="
    target: float
    check: str
    correct: bool

    def as_record(self) -> dict[str, Any]:
        """Plain fields, with the verdict."""
        above = self.measured >= self.target
        return {**asdict(self), "met": bool(above == (self.sense == ">="))}
