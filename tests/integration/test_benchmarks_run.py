"""Tables of ``python -m benchmarks`` that compute: a quick part, and the ablation."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import bayesmdp
from benchmarks.__main__ import main

pytestmark = pytest.mark.integration  # for their time


def bench(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.stdout, result.stderr


def test_a_quick_part_gives_a_record_with_checked_values(tmp_path: Path) -> None:
    out = tmp_path / "deeper" / "record.json"
    code, printed, said = bench("gamma", "--quick", "--json", "--out", str(out))
    assert code == 0, said
    record = json.loads(printed)
    assert record == json.loads(out.read_text())
    assert record["rows"]
    for row in record["rows"]:
        assert row["part"] == "gamma"
        assert row["correct"] is True
        assert row["check"]
        assert row["rival"]
        assert row["met"] in (True, False)
    assert record["made_with"]["processor"]
    assert (record["whole"], record["failed"]) == (False, [])
    assert "gamma: " in said  # progress, and where it was stored
    assert str(out) in said


def test_stages_of_a_search_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every switch does something else than the whole search; its row stands there."""
    from benchmarks import ablation, efforts

    posterior = ablation.after(7103, 8, 3, 60)
    group = "one", [posterior], bayesmdp.CVaR(0.1)
    monkeypatch.setattr(ablation, "groups", lambda: iter([group]))
    (found,) = ablation.run()
    assert set(found["seconds"]) == {x.name for x in ablation.STAGES}
    assert found["lost"][ablation.WHOLE] == [0.0, 0.0]
    assert found["lost"]["without ascent"][0] > 0
    names = {
        x.name: ablation.searched(posterior, x, group[2])[1]
        for x in ablation.STAGES
        if x.name in ("without ascent", "with an MLE start")
    }
    assert names["without ascent"].steps == 0
    assert len(names["with an MLE start"].starts) == 3
    cell = {"seconds": {"quick": 1.0, "normal": 1.0, "thorough": 1.0}, "problem": "x"}
    cell["gains"] = {level: [0.1, 0.01] for level in cell["seconds"]}
    page = efforts.efforts_page(
        {"made_with": {}, "problems": [cell], "ablation": [found]}
    )
    assert "\n## What each stage is worth\n" in page
    assert all(f"| {x.name} | " in page for x in ablation.STAGES)
