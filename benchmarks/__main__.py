"""Run the benchmarks, print tables, keep the numbers: ``python -m benchmarks``.

One of them alone: ``python -m benchmarks optimise``.
"""

import json
import sys
from pathlib import Path

from benchmarks import gamma, grid, kernels, optimise, tables

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"


ALL = {
    "kernels": kernels.run,
    "gamma": gamma.run,
    "grid": grid.run,
    "optimise": optimise.run,
}


def main() -> int:
    """Run all; the exit code is 1 where a value is wrong, whatever the times."""
    names = sys.argv[1:] or list(ALL)
    right = [_run(name) for name in names]
    return 0 if all(right) else 1


def _run(name: str) -> bool:
    """Run one, keep and print what it found; whether every value is right."""
    record = ALL[name]()
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(record, indent=2) + "\n"
    (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")
    if name == "optimise":
        page = tables.optimisation_tables(record)
        (DOCS / "optimisation_tables.md").write_text(page, encoding="utf-8")
    print(record["problem"])
    print(", ".join(f"{what} {of}" for what, of in record["made_with"].items()))
    header = ["", "measured", "target", "", "value checked", ""]
    table = [header, *(_cells(row) for row in record["rows"])]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    return all(row["correct"] for row in record["rows"])


def _cells(row: dict[str, object]) -> list[str]:
    """Write one row of the table."""
    return [
        str(row["what"]),
        f"{row['measured']:.3g} {row['unit']}".strip(),
        f"{row['sense']} {row['target']:g}",
        "met" if row["met"] else "missed",
        str(row["check"]),
        "correct" if row["correct"] else "WRONG",
    ]


if __name__ == "__main__":
    sys.exit(main())
