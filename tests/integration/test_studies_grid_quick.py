"""Quick runs of the gridworld studies, from start to pictures."""

from pathlib import Path

import pytest
from test_studies import JOBS, keys_in

from studies import Effort, find_study, run_study

pytestmark = pytest.mark.integration


def test_quick_runs_end_in_a_verdict_and_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("fig1", "fig2", "msbi", "resampling"):
        outcome = run_study(find_study(name), Effort(quick=True), tmp_path)
        assert "**Verdict:**" in outcome.summary
        assert (outcome.directory / f"{name}.png").stat().st_size > 10_000
    for place, n in {"grid": 4, "synthetic": 4}.items():
        assert len(keys_in(tmp_path / place / JOBS)) == n
