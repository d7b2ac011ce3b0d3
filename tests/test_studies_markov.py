"""The study of Markov tests: its logs, its shift of value, and what is told."""

from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.model import logged_episodes
from studies import markov_tests
from studies.history_logs import (
    NULL,
    PATIENTS,
    SHIFTS,
    Design,
    frail_log,
    frailty_of,
    markov_log,
    shift,
)


@pytest.mark.parametrize("design", NULL, ids=lambda x: x.name)
def test_logs_are_as_their_design_says(design: Design) -> None:
    log, task = markov_log(design, 3)
    again, _ = markov_log(design, 3)
    other, _ = markov_log(design, 4)
    assert log.counts() == again.counts() != other.counts()
    found = logged_episodes(log, task)
    length = np.diff(found.start)
    assert (found.n_episodes, task.n_actions) == (design.episodes, design.n_actions)
    assert length.max() <= design.longest
    assert found.follows.sum() == found.n_rows - design.episodes
    if design.ending:
        ended = task.is_terminal[found.next_state].mean()
        # four standard errors of a share
        error = np.sqrt(design.ending / found.n_rows)
        assert abs(ended - design.ending) < 4 * error
    kept = (found.action[1:] == found.action[:-1])[found.follows[1:]].mean()
    wanted = design.keep + (1 - design.keep) / design.n_actions
    assert abs(kept - wanted) < 4 * np.sqrt(0.25 / found.n_rows)


def test_frailty_shifts_the_value_of_the_chosen_policy_by_so_much() -> None:
    """The aggregated model predicts the behaviour right, and the choice wrong."""
    assert shift(0.0) == pytest.approx(0.0, abs=1e-6)
    for wanted in SHIFTS:
        assert abs(shift(frailty_of(wanted))) == pytest.approx(wanted, rel=1e-3)
    log, task = frail_log(20_000, frailty_of(SHIFTS[0]), 1)
    belief = bm.fit(log, task, prior=bm.ScaledPrior(1.0))
    found = logged_episodes(log, task)
    predicted = bm.MDP(belief.mean(), task).value(bm.policies.behaviour(belief))
    gap = float(predicted[found.first_state].mean() - found.returns.mean())
    assert abs(gap) < 4 * found.returns.std() / np.sqrt(20_000)


def records(n: int, false: int, power: int) -> list[dict[str, Any]]:
    """So many alarms of every test where there is nothing, and of Holm where not."""

    def record(kind: dict[str, Any], alarm: bool) -> dict[str, Any]:
        p = 0.01 if alarm else 0.6
        return kind | {
            "rows": 100,
            "gap": 3.0 if alarm else 0.5,
            "p": dict.fromkeys(markov_tests.TESTS, p),
            "permuted": dict.fromkeys(("previous value", "step", "episode order"), 0.2),
            "holm": p,
            "effect": dict.fromkeys(markov_tests.TESTS[:-1], 0.02),
            "prevalence": 0.5,
            "survival": None,
            "problems": int(alarm),
        }

    found = [record({"design": x.name}, i < false) for x in NULL for i in range(n)]
    kinds = [{"shift": s, "patients": p} for s in SHIFTS for p in PATIENTS]
    return found + [record(x, i < power) for x in kinds for i in range(10)]


def test_tables_and_verdict_follow_the_records() -> None:
    told = markov_tests._tell(records(100, 5, 9))
    assert "| short episodes | 100 | 5.0 | 5.0 | 5.0 |" in told
    assert "| *all* | | 5.0 |" in told
    assert "| 0.0 | - | 5.0 |" in told  # kept before `actions` was
    newer = markov_tests._tell([x | {"actions": 0.04} for x in records(100, 5, 9)])
    assert "| 0.0 | 100.0 | 5.0 |" in newer
    assert "| 0.01 | " in told
    assert "is found in 90 % of logs of 5,000 patients: confirmed." in told
    assert "5.0 to 5.0 % by test and design (42 of 42 within 3.6 and 6.4)" in told
    assert markov_tests._tell(records(100, 15, 9)).endswith(": not confirmed.")
    weak = markov_tests._tell(records(100, 5, 7))
    assert weak.endswith("confirmed with a caveat, for that is below 80 %.")
    pytest.importorskip("matplotlib")
    (figure,) = markov_tests._plot(records(20, 1, 9)).values()
    assert [x.get_title() for x in figure.axes] == ["Markov logs", "Hidden frailty"]


def test_a_job_checks_its_logs() -> None:
    quick = markov_tests._jobs(markov_tests.Effort(quick=True))
    assert quick[0].params == {"kind": {"design": NULL[0].name}, "seeds": [0, 10]}
    full = markov_tests._jobs(markov_tests.Effort())
    assert len(full) == len(NULL) * 100 + len(SHIFTS) * len(PATIENTS) * 10
    assert full[0].params["seeds"] == [20_000, 20_010]
    (found,) = markov_tests._work({"design": NULL[0].name}, [5, 6])
    assert set(found["p"]) == set(markov_tests.TESTS)
    assert 0 < found["actions"] <= 1
    assert found["holm"] >= min(found["p"].values())
