"""A real study, killed at random moments, ends as one that was left alone.

The command runs in processes of its own, two workers below it, and all of them get
SIGKILL at a moment drawn at random from the length of a run: while Python starts, in
the middle of a job or of a write, after the last one.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_study import results

pytestmark = pytest.mark.integration

KILLS = 20
JOBS = 2 * 8  # two sizes of cohort, eight cohorts


def begin(out: Path, *options: str) -> "subprocess.Popen[bytes]":
    asked = [sys.executable, "-m", "bayesmdp", "reproduce", "evidence", "--quick"]
    return subprocess.Popen(
        [*asked, "--seeds", "8", "--out", str(out), *options],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def finish(out: Path, *options: str) -> float:
    """Run to the end; return the seconds it took."""
    began = time.monotonic()
    assert begin(out, *options).wait() == 0
    return time.monotonic() - began


def test_twenty_kills_leave_no_trace(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    takes = finish(whole, "--jobs", "1")
    moments = random.Random(0)
    killed, rounds, amid = 0, 0, 0
    while killed < KILLS:
        broken = tmp_path / f"broken-{rounds}"
        rounds += 1
        while killed < KILLS:
            process = begin(broken, "--jobs", "2", "--resume")
            try:
                status = process.wait(moments.uniform(0, takes))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                killed += 1
                amid += 0 < len(list(broken.glob("*/jobs/*.jsonl"))) < JOBS
            else:
                assert status == 0
                break
        finish(broken, "--jobs", "2", "--resume")
        assert results(broken) == results(whole)
    assert amid > 0
