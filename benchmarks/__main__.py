"""Run the benchmarks, print tables, keep the numbers: ``python -m benchmarks``.

One of them alone: ``python -m benchmarks optimise``. ``calibration`` is not about speed
and takes an hour: it runs only when it is named.
"""

import json
import sys
from pathlib import Path

from benchmarks import (
    calibration,
    gamma,
    grid,
    kernels,
    optimise,
    scale,
    tables,
    text_table,
)

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"


ALL = {
    "kernels": kernels.run,
    "gamma": gamma.run,
    "grid": grid.run,
    "optimise": optimise.run,
    "scale": scale.run,
}
NAMED = {"calibration": calibration.run}


def main() -> int:
    """Run all; the exit code is 1 where a value is wrong, whatever the times."""
    names = sys.argv[1:] or list(ALL)
    right = [_run(name) for name in names]
    return 0 if all(right) else 1


def _run(name: str) -> bool:
    """Run one, keep and print what it found; whether every value is right."""
    record = (ALL | NAMED)[name]()
    RESULTS.mkdir(exist_ok=True)
    if name == "scale":
        scale.store(record, None)
        print(text_table(record))
        return scale.right(record)
    text = json.dumps(record, indent=2) + "\n"
    (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")
    if name == "optimise":
        page = tables.optimisation_tables(record)
        (DOCS / "optimisation_tables.md").write_text(page, encoding="utf-8")
    if name == "calibration":
        page = calibration.calibration_page(record)
        (DOCS / "monte_carlo_errors.md").write_text(page, encoding="utf-8")
    print(text_table(record))
    return all(row["correct"] for row in record["rows"])


if __name__ == "__main__":
    sys.exit(main())
