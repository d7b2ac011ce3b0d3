"""Figures 3 and 4 end to end, in short; and the published gradient, at full length."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_studies import JOBS, results

import bayesmdp as bm
from studies import Effort, find_study, run_study, synthetic_data
from studies import synthetic_runs as runs

pytestmark = pytest.mark.integration
GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "synthetic_run0.json").read_text()
)["problems"]


def test_a_quick_run_serves_all_three_and_can_be_completed(tmp_path: Path) -> None:
    effort = Effort(quick=True, seeds=2)
    one, two = tmp_path / "one", tmp_path / "two"
    seconds = set()
    for name in ("fig3", "fig4", "relative"):
        done = run_study(find_study(name), effort, one)
        seconds.add(done.seconds)
        assert "**Verdict:**" in done.summary
        assert done.skipped == ()
    assert len(seconds) == 1  # nothing was done twice
    shutil.copytree(one, two)
    jobs = two / "synthetic" / JOBS
    lines = jobs.read_bytes().splitlines(keepends=True)
    jobs.write_bytes(b"".join(x for x in lines if b"world-0001" not in x))
    run_study(find_study("fig4"), effort, two, resume=True)
    assert results(one) == results(two)
    assert (one / "fig3" / "fig3.png").stat().st_size > 10_000


def test_the_published_gradient_policy_comes_out() -> None:
    """Draws differ, but this data set decides every row."""
    problem: dict[str, Any] = GOLDEN[5]
    task = bm.Task(5, 5, problem["reward"], discount=0.999)
    belief = synthetic_data.believe(bm.Counts.from_dense(problem["counts"]), task)
    method = bm.StochasticGradient(
        runs.RATE, runs.BATCH, runs.N_STEPS, softness=runs.SOFTNESS
    )
    found = bm.optimise(belief, method=method, seed=0).policy
    golden = np.array(problem["gradient"])
    assert found == pytest.approx(golden, abs=0.002)
    # Another rate leaves another softness.
    other = bm.StochasticGradient(0.003, 16, runs.N_STEPS, softness=runs.SOFTNESS)
    off = np.abs(bm.optimise(belief, method=other, seed=0).policy - golden)
    assert off.max() > 0.003
