"""A study small enough to be killed many times; run as a module, or imported."""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from studies import Effort, Job, Study, run_study

PLACE = "coins-jobs"  # of the two that share their jobs


def jobs(effort: Effort) -> list[Job]:
    n = 6 if effort.quick else 40
    return [Job(f"coin-{i:02}", {"seed": i}) for i in range(n)]


def work(seed: int) -> list[dict[str, float]]:
    time.sleep(0.01)
    heads = np.random.default_rng(seed).integers(0, 2, 1000)
    return [
        {"seed": seed, "n": n, "share": float(heads[:n].mean())} for n in (10, 1000)
    ]


def dies(seed: int) -> list[dict[str, float]]:
    os._exit(1)  # as a process that the system ends for its memory


def tell(records: list[dict[str, float]]) -> str:
    shares = [x["share"] for x in records if x["n"] == 1000]
    return f"heads: {np.mean(shares):.4f} over {len(shares)} coins"


def tell_luck(records: list[dict[str, float]]) -> str:
    return f"luckiest: {max(x['share'] for x in records):.4f}"


def shared(effort: Effort) -> list[Job]:
    return [replace(job, place=PLACE) for job in jobs(effort)]


STUDY = Study("coins", "Coins", jobs, work, tell)
TOSSES = Study("tosses", "Tosses", shared, work, tell)
LUCK = Study("luck", "Luck", shared, work, tell_luck)


if __name__ == "__main__":
    study = {x.name: x for x in (STUDY, TOSSES, LUCK)}[sys.argv[3]]
    run_study(study, Effort(), Path(sys.argv[1]), n_jobs=int(sys.argv[2]), resume=True)
