"""A real study, killed at random moments, ends as one that was left alone.

The command runs in a process of its own, with and without workers below it, and all of
them get SIGKILL: first as soon as something is kept, then at moments drawn at random
from the first half of a run: while Python starts, in the middle of a job or of a write.
A run that gets through makes place for a new one.
"""

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from test_studies import JOBS, jobs_in, results

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
KILLS = 10  # in each of two lanes, which run side by side
RUNS = 4 * KILLS  # at most: some get through
N_JOBS = 2 * 4  # two sizes of cohort, four cohorts


def begin(out: Path, *options: str) -> "subprocess.Popen[bytes]":
    asked = [sys.executable, "-m", "studies", "evidence", "--quick"]
    return subprocess.Popen(
        [*asked, "--seeds", "4", "--out", str(out), *options],
        start_new_session=True,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def kept(out: Path) -> int:
    """Count the jobs that are done; the first line of a file is its header."""
    return sum(max(len(jobs_in(x)) - 1, 0) for x in out.glob(f"*/{JOBS}"))


def survives(process: "subprocess.Popen[bytes]", out: Path, moment: float) -> bool:
    """Kill a run after ``moment`` seconds and something kept, unless it is over."""
    end = time.monotonic() + moment
    while process.poll() is None:
        if time.monotonic() >= end and (moment > 0 or kept(out) > 0):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return False
        time.sleep(0.005)
    assert process.returncode == 0
    return True


def lane(where: Path, whole: Path, takes: float, jobs: str) -> int:
    """Kill runs, finish them, compare; return how many kills left a part."""
    moments = random.Random(jobs)
    options = ("--jobs", jobs, "--resume")
    amid, kills, out, moment = 0, 0, where / "0", 0.0
    for number in range(1, RUNS + 1):
        if survives(begin(out, *options), out, moment):
            assert results(out) == results(whole)
            out = where / str(number)
        else:
            amid += 0 < kept(out) < N_JOBS
            kills += 1
        if kills == KILLS:
            break
        moment = moments.uniform(0.01, takes / 2)  # later, and most get through
    assert kills == KILLS
    assert begin(out, *options).wait() == 0
    assert results(out) == results(whole)
    return amid


def test_twenty_kills_leave_no_trace(tmp_path: Path) -> None:
    whole, began = tmp_path / "whole", time.monotonic()
    assert begin(whole, "--jobs", "3").wait() == 0
    takes = time.monotonic() - began
    with ThreadPoolExecutor(2) as pool:
        lanes = [
            pool.submit(lane, tmp_path / jobs, whole, takes, jobs) for jobs in "12"
        ]
    assert all(x.result() > 0 for x in lanes)


def running(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(),
    reason="needs a /proc that lists children",
)
def test_processes_end_with_a_parent_that_alone_is_killed(tmp_path: Path) -> None:
    process = begin(tmp_path, "--jobs", "2")
    while kept(tmp_path) == 0:
        assert process.poll() is None
        time.sleep(0.01)
    mine = f"/proc/{process.pid}/task/{process.pid}/children"
    children = Path(mine).read_text().split()
    assert len(children) >= 2
    process.kill()
    process.wait()
    end = time.monotonic() + 30
    while any(map(running, children)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(running, children))
    assert not (tmp_path / "evidence" / "records.jsonl").exists()
