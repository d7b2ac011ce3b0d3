"""90 inputs of the campaign that `make fuzz` runs; and the campaign can fail."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import bayesmdp as bm

sys.path.insert(0, str(Path(__file__).parents[2]))
campaign = pytest.importorskip("fuzz.campaign")

pytestmark = pytest.mark.integration  # for its time

INPUTS = campaign.inputs(90)
PARTS = [INPUTS[i::3] for i in range(3)]
seen: Counter[tuple[str, str]] = Counter()


@pytest.mark.parametrize("part", PARTS, ids=range(3))
def test_inputs_give_results_or_sentences(part: list[tuple[str, int]]) -> None:
    for target, seed in part:
        verdict = campaign.judged(target, seed)
        assert verdict.kind in ("result", "refused"), verdict.text()
        seen[target, verdict.kind] += 1


def test_both_outcomes_are_met_in_every_target() -> None:
    if sum(seen.values()) < len(INPUTS):
        pytest.skip("not all inputs were judged in this process")
    for target in campaign.TARGETS:
        assert seen[target, "result"] >= 0.2 * sum(x == target for x, _ in INPUTS)
        assert seen[target, "refused"]


def test_an_input_is_the_same_every_time() -> None:
    first, again = (campaign.judged("readers", 7) for _ in range(2))
    assert first == again
    assert first.notes != campaign.judged("readers", 8).notes


def judged_until_bad(target: str, kind: str) -> bool:
    return any(campaign.judged(target, seed).kind == kind for seed in range(60))


def test_a_foreign_exception_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bm.storage, "read_task", lambda *_: [][0])
    verdict = campaign.judged("tasks", 0)
    assert verdict.kind == "foreign"
    assert "IndexError" in verdict.text()
    assert "python -m fuzz tasks 0" in verdict.text()


def test_other_counts_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = bm.Counts.from_arrays

    def one_more(state: object, action: object, next_state: object, count=None, **how):  # type: ignore[no-untyped-def]
        if count is not None and len(count):
            count = count + (np.arange(len(count)) == 0)
        return right(state, action, next_state, count, **how)

    monkeypatch.setattr(bm.Counts, "from_arrays", one_more)
    assert judged_until_bad("readers", "difference")


def test_another_policy_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = bm.storage.read_policy
    monkeypatch.setattr(bm.storage, "read_policy", lambda *x: right(*x)[:, ::-1])
    assert judged_until_bad("policies", "difference")


def test_other_numbers_of_a_damaged_run_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fuzz import runs

    right = runs._run
    for name in runs.PRIORS:
        runs.numbers(name)  # as they are
    changed = lambda path: right(path) | {"n": -1}  # noqa: E731
    monkeypatch.setattr(runs, "_run", changed)
    assert judged_until_bad("runs", "difference")


def test_a_traceback_of_a_command_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(bm, "validate", fail)
    assert judged_until_bad("commands", "difference")
