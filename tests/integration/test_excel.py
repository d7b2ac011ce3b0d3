"""A policy goes to an Excel sheet, and comes back as the same policy."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayesmdp as bm

pytestmark = pytest.mark.integration


def test_a_policy_survives_a_sheet(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    labels = {"state_labels": ["ward", "icu", "home"], "action_labels": ["no", "7"]}
    task = bm.Task(3, 2, reward=[0, 0, 1], discount=0.9, terminal="home", **labels)
    counts = bm.Counts.from_arrays([0, 1, 1], [0, 1, 1], [1, 1, 2])
    policy = np.array([[0.25, 0.75], [0.0, 1.0], [0.0, 0.0]])
    path = tmp_path / "policy.xlsx"
    bm.policy_table(policy, task, counts).to_excel(path, index=False)
    found = pd.read_excel(path, dtype={"action": str})
    assert found.columns.tolist() == ["state", "action", "probability", "visits"]
    assert found["visits"].tolist() == [1, 0, 2]
    wide = found.pivot(index="state", columns="action", values="probability").fillna(0)
    wide.loc["home"] = 0.0
    again = wide.loc[labels["state_labels"], labels["action_labels"]]
    posterior = bm.fit(counts, task)
    assert (bm.restrict(again, posterior) == policy).all()


def test_a_label_is_text_and_no_formula(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    task = bm.Task(2, 1, [0, 1], discount=0.9, state_labels=["=1+1", "home"])
    path = tmp_path / "policy.xlsx"
    bm.policy_table([0, 0], task).to_excel(excel_writer=path, index=False)
    cell = openpyxl.load_workbook(path).active["A2"]
    assert (cell.value, cell.data_type) == ("=1+1", "s")
