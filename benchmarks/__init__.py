"""Speed beside correctness: every time stands next to the value it produced."""

import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bayesmdp import __version__


def made_with() -> dict[str, str]:
    """Versions and kind of machine, for every record."""
    packages = ("numpy", "scipy", "numba")
    return {
        "python": platform.python_version(),
        "bayesmdp": __version__,
        **{name: version(name) for name in packages},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": str(os.cpu_count()),
    }


def processor() -> str:
    """Name of the processor, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
    return named[0] if named else platform.processor() or "unknown"


@dataclass(frozen=True)
class Row:
    """One claim: what was measured, against what, and whether the value is right."""

    what: str
    measured: float
    unit: str
    sense: str  # "<=" or ">="
    target: float | None  # None: for information
    check: str
    correct: bool
    rival: str = ""  # what another way took in the same run

    def as_record(self) -> dict[str, Any]:
        """Plain fields, with the verdict; no verdict without a target."""
        met = None
        if self.target is not None:
            short = self.target - self.measured
            met = bool(short <= 0 if self.sense == ">=" else short >= 0)
        return {**asdict(self), "met": met}


def milliseconds(seconds: float) -> str:
    """Write seconds as milliseconds to three digits, never with an exponent."""
    ms = 1e3 * seconds
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.3g}"


def cells(row: dict[str, Any]) -> list[str]:
    """Write a row's measurement, target and verdict."""
    target = row["target"]
    return [
        str(row["what"]),
        f"{row['measured']:.3g} {row['unit']}".strip(),
        "" if target is None else f"{row['sense']} {target:g}",
        {None: "", True: "met", False: "missed"}[row["met"]],
    ]


def text_table(record: dict[str, Any]) -> str:
    """Write a record's rows as a table for the terminal."""
    table = [["", "measured", "target", "", "value checked", "", "rivals"]]
    for row in record["rows"]:
        right = "correct" if row["correct"] else "WRONG"
        table.append([*cells(row), row["check"], right, row.get("rival", "")])
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    if not widths[-1] > len("rivals"):
        table = [line[:-1] for line in table]
        widths.pop()
    made = ", ".join(f"{what} {of}" for what, of in record["made_with"].items())
    lines = [record["problem"], made]
    for line in table:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)
