"""Clinical studies from jobs to pictures, on a handful of patients."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from studies import Effort, Job, Study, find_study, run_study

pytestmark = pytest.mark.integration


def small(study: Study) -> Study:
    """Return a study of the same jobs, with few patients and draws."""

    def jobs(effort: Effort) -> Sequence[Job]:
        return [
            replace(job, params={**job.params, "size": 100, "n_draws": 4})
            for job in study.jobs(effort)
        ]

    return replace(study, jobs=jobs)


@pytest.mark.parametrize("name", ["fig5", "uncertainty"])
def test_a_small_run_ends_in_a_verdict_and_a_picture(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    outcome = run_study(small(find_study(name)), Effort(quick=True), tmp_path)
    assert outcome.summary.splitlines()[-1].startswith("**Verdict:**")
    assert "1 cohort of 100 patients" in outcome.summary
    for kind in ("png", "svg"):
        assert (outcome.directory / f"{name}.{kind}").stat().st_size > 10_000


def test_a_small_run_of_beliefs_is_told_and_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    study = small(find_study("beliefs"))
    outcome = run_study(study, Effort(quick=True), tmp_path)
    assert outcome.verdicts
    assert "**100 patients**, cohorts 100 to 101 (held-out: 1 of them)" in (
        outcome.summary
    )
    records = [
        json.loads(x)
        for x in (outcome.directory / "records.jsonl").read_text().splitlines()
    ]
    for record in records:
        assert record["chosen_low"] <= record["chosen_predicted"] + 0.1
        # Learnt from the same patients: near their mean return without a prior.
        if record["prior"] == "maximum likelihood":
            gap = record["behaviour_predicted"] - record["observed"]
            assert abs(gap) < 4 * record["observed_error"]
    for kind in ("png", "svg"):
        assert (outcome.directory / f"beliefs.{kind}").stat().st_size > 10_000
