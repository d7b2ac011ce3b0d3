"""Quick runs of the studies about speed, from end to end."""

import json
from pathlib import Path

import pytest

from studies import Effort, find_study, run_study

pytestmark = [pytest.mark.integration, pytest.mark.timed]


@pytest.mark.parametrize("name", ["bounds", "casino", "scaling"])
def test_a_quick_run_ends_with_a_verdict(name: str, tmp_path: Path) -> None:
    outcome = run_study(find_study(name), Effort(quick=True), tmp_path)
    assert "confirmed" in outcome.summary.splitlines()[-1]
    assert outcome.skipped == ()
    assert (outcome.directory / f"{name}.png").stat().st_size > 10_000
    lines = (outcome.directory / "records.jsonl").read_text().splitlines()
    assert all(json.loads(line) for line in lines)


def test_exact_moments_are_a_hundred_times_sooner_where_episodes_do_not_end(
    tmp_path: Path,
) -> None:
    """To an error of 0.001 at discount 0.999; 400 and more where it was measured."""
    from studies import bounds

    params = {"world": "synthetic", "size": 250, "discount": 0.999}
    records = bounds.STUDY.work(**params, seed=0, quick=True)
    for method in ("exact, as published", "exact, control variates"):
        assert bounds.ratios([records], method)[0] > 100
