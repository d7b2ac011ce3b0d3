"""The unit of rewards, from the task to tables and the report."""

from pathlib import Path
from typing import Any

import pytest

import bayesmdp as bm
from bayesmdp.errors import TaskError

LOG = bm.Transitions.from_arrays(
    [0, 0, 1, 0, 1, 0], [0, 1, 0, 1, 1, 0], [1, 0, 2, 2, 2, 1], episode=range(6)
)


def task(**more: Any) -> bm.Task:
    return bm.Task(3, 2, reward="alive", discount=0.9, terminal=2, **more)


def test_tables_and_the_report_say_the_unit(tmp_path: Path) -> None:
    posterior = bm.fit(LOG, task(reward_unit=" life-years "))
    assert posterior.task.reward_unit == "life-years"
    policies = {"logged": bm.policies.behaviour(posterior), "first": [0, 0, 0]}
    table = bm.compare(policies, posterior.draws(100, seed=0), reference="logged")
    assert "value, life-years" in table.summary().splitlines()[1]
    told = table.evaluations["first"].summary().splitlines()[0]
    assert told.startswith("Value of a policy in life-years over 100 draws")
    assert ", in life-years" in posterior.task.summary()
    page = bm.report(posterior, table).save(tmp_path / "page.html").read_text()
    assert " life-years (Monte Carlo error 0.03); given the data, it lies" in page
    bm.storage.save(posterior, tmp_path / "run")
    kept = bm.storage.load(tmp_path / "run").posterior.task
    assert kept.reward_unit == "life-years"


def test_without_a_unit_nothing_is_said(tmp_path: Path) -> None:
    posterior = bm.fit(LOG, task())
    told = bm.evaluate([0, 0, 0], posterior, n_draws=100).summary()
    assert told.startswith("Value of a policy over 100 draws")
    bm.storage.save(posterior, tmp_path / "run")
    assert bm.storage.load(tmp_path / "run").posterior.task.reward_unit is None


@pytest.mark.parametrize("start", ["uniform", "logged"])
def test_a_task_file_says_the_unit(start: str, tmp_path: Path) -> None:
    path = tmp_path / "task.toml"
    path.write_text(
        f'discount = 0.9\nterminal = [2]\nstart = "{start}"\nn_states = 3\n'
        'n_actions = 2\nreward_unit = "QALYs"\nreward = "alive"\n'
    )
    log = bm.Transitions.from_arrays(
        [0, 1], [0, 1], [1, 2], episode=[0, 0], step=[0, 1]
    )
    assert bm.storage.read_task(path, log).reward_unit == "QALYs"


@pytest.mark.parametrize("unit", ["", " ", 3, "a\nb"])
def test_what_is_no_unit_is_refused(unit: Any) -> None:
    with pytest.raises(TaskError, match="`reward_unit` must be one line of text"):
        task(reward_unit=unit)
