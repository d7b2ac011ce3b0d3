"""The demonstration as it is, with nothing left out but patients and draws."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration


def test_the_demonstration_on_fewer_patients(tmp_path: Path) -> None:
    asked = ["demo", "--patients", "2000", "--draws", "50", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "bayesmdp", *asked, "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    of = {(row["policy"], row["model"]): row for row in told["predictions"]}
    plug_in, logged = of["mle", "frequencies"], of["behaviour", "posterior"]
    # Frequencies overestimate their own policy; the posterior is closer to its value.
    excess = plug_in["predicted_value"] - plug_in["true_value"]
    assert excess > 0.05
    by_us = of["mle", "posterior"]
    assert abs(by_us["predicted_value"] - by_us["true_value"]) < excess
    # What was done is predicted as it was observed, and as it is.
    assert abs(logged["predicted_value"] - told["observed_return"]) < 0.03
    assert abs(logged["predicted_value"] - logged["true_value"]) < 0.03
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["summary"]["recommended"] == "optimised"
    assert data["prior"]["sensitivity"]["rows"]
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")
