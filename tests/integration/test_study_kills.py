"""Studies that are killed many times end with the same bytes."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import toy_study
from test_study import results

from bayesmdp.errors import ExecutorError
from bayesmdp.paper import Effort, run_study

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("names", [["coins"], ["luck", "tosses"]], ids=len)
def test_a_killed_run_goes_on_to_the_same_bytes(
    tmp_path: Path, names: list[str]
) -> None:
    """Alone, and with two studies that share their jobs and take turns."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    studies = {x.name: x for x in (toy_study.STUDY, toy_study.TOSSES, toy_study.LUCK)}
    for name in names:
        run_study(studies[name], Effort(), whole)
    jobs = broken / (names[0] if len(names) == 1 else toy_study.PLACE) / "jobs"
    killed = 0
    for attempt in range(20):
        if jobs.is_dir():  # as of a kill in the middle of a write
            (jobs / f".bayesmdp-{attempt}").write_text("{")
        name = names[attempt % len(names)]
        process = subprocess.Popen(
            [sys.executable, toy_study.__file__, str(broken), "1", name],
            start_new_session=True,
        )
        before = len(list(jobs.glob("*.jsonl")))
        while process.poll() is None:
            if len(list(jobs.glob("*.jsonl"))) > before + attempt % 3:
                os.killpg(process.pid, signal.SIGKILL)
                killed += 1
                break
            time.sleep(0.002)
        process.wait()
        if process.returncode == 0:
            break
    for name in names:
        run_study(studies[name], Effort(), broken, resume=True)
    assert killed >= 5
    assert results(broken) == results(whole)


def test_a_process_that_is_lost_leaves_what_was_done_and_a_remedy(
    tmp_path: Path,
) -> None:
    doomed = replace(toy_study.STUDY, work=toy_study.dies)
    with pytest.raises(ExecutorError, match="`--resume` and fewer `--jobs`"):
        run_study(doomed, Effort(quick=True), tmp_path, n_jobs=2)
    whole = run_study(toy_study.STUDY, Effort(quick=True), tmp_path / "whole").directory
    rest = run_study(
        toy_study.STUDY, Effort(quick=True), tmp_path, resume=True
    ).directory
    assert results(rest) == results(whole)
