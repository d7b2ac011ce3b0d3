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
    of = {row["policy"]: row for row in told["promises"]}
    # The search is judged on draws of its own, and must not lose to where it began.
    nominal, ours = (of[name] for name in ("nominal", "optimised"))
    assert ours["promise"] >= nominal["promise"] - 0.002
    # Frequencies promise more than they keep; a careful prior promises less.
    assert of["mle"]["promise"] - of["mle"]["delivery"] > 0.05
    assert nominal["promise"] < nominal["delivery"]
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["summary"]["recommended"] == "optimised"
    assert data["prior"]["sensitivity"]["rows"]
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")
