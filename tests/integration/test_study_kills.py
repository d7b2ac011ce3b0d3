"""Studies that are killed many times end with the same bytes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toy_study
from test_study import results

from bayesmdp.paper import Effort, run_study

pytestmark = pytest.mark.integration


def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    whole = run_study(toy_study.STUDY, Effort(), tmp_path / "whole").directory
    broken = tmp_path / "broken" / "coins"
    killed = 0
    for attempt in range(20):
        if broken.is_dir():  # as of a kill in the middle of a write
            (broken / "jobs" / f".fresh-{attempt}-coin-00.jsonl").write_text("{")
        process = subprocess.Popen(
            [sys.executable, toy_study.__file__, str(tmp_path / "broken"), "1"],
            start_new_session=True,
        )
        before = len(list(broken.glob("jobs/*.jsonl")))
        while process.poll() is None:
            if len(list(broken.glob("jobs/*.jsonl"))) > before + attempt % 3:
                os.killpg(process.pid, signal.SIGKILL)
                killed += 1
                break
            time.sleep(0.002)
        process.wait()
        if process.returncode == 0:
            break
    else:
        run_study(toy_study.STUDY, Effort(), tmp_path / "broken", resume=True)
    assert killed >= 5
    assert results(broken) == results(whole)
