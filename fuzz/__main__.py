"""``python -m fuzz``: the campaign; ``python -m fuzz readers 7``: one input of it."""

import argparse
import sys
import time
from pathlib import Path

from fuzz.campaign import BAD, TARGETS, campaign, judged, table


def main() -> int:
    """Run; the exit code is 1 where an outcome is bad, or inputs are left over."""
    said = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    said.add_argument("target", nargs="?", choices=list(TARGETS))
    said.add_argument("seed", nargs="?", type=int)
    said.add_argument("--inputs", type=int, default=10_000)
    said.add_argument("--first", type=int, default=0, help="seed of the first input")
    said.add_argument("--jobs", type=int, help="processes; default every core")
    said.add_argument("--minutes", type=float, default=10.0)
    said.add_argument("--show", type=int, default=10, help="offenders of each kind")
    said.add_argument("--keep", type=Path, help="folder for the files of one input")
    asked = said.parse_args()
    if (asked.target is None) != (asked.seed is None):
        said.error("name a target and a seed, or neither")
    if asked.target is not None:
        return _one(asked.target, asked.seed, asked.keep)
    began = time.monotonic()
    found = campaign(
        asked.inputs, first=asked.first, jobs=asked.jobs, minutes=asked.minutes
    )
    print(f"\n{table(found)}")
    print(f"{len(found)} inputs in {time.monotonic() - began:.0f} seconds")
    for kind in BAD:
        for verdict in [x for x in found if x.kind == kind][: asked.show]:
            print(f"\n{verdict.text()}")
    bad = any(x.kind in BAD for x in found)
    if len(found) < asked.inputs:
        print(f"Only {len(found)} of {asked.inputs} inputs were judged.")
    return int(bad or len(found) < asked.inputs)


def _one(target: str, seed: int, keep: Path | None) -> int:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    verdict = judged(target, seed, keep)
    print(verdict.text())
    return int(verdict.kind in BAD)


if __name__ == "__main__":
    sys.exit(main())
