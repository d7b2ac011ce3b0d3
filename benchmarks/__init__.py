"""Speed beside correctness: every time stands next to the value it produced."""

from dataclasses import asdict, dataclass
from typing import Any


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
