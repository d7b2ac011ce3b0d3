"""Rewards of any size the moments can hold; beyond that a refusal, never inf or NaN."""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_input import case, check
from click.testing import CliRunner

import bayesmdp as bm
from bayesmdp.cli import main
from bayesmdp.errors import BeliefError, TaskError, TooLargeError

BIG, SMALL = 1e155, 1e-155
COUNTS = bm.Counts.from_arrays([0, 0, 1], [0, 1, 1], [1, 2, 2], [3, 2, 4])
DENSE = np.zeros((3, 2, 3))


def task(reward: Any, discount: float = 0.9) -> bm.Task:
    return bm.Task(3, 2, reward, discount=discount, terminal=[2])


def ensemble(size: float) -> bm.Ensemble:
    model = bm.fit(COUNTS, task([0, 0, 1]), prior=bm.SymmetricPrior()).mean()
    return bm.Ensemble([model] * 2, task([0, 0, 1]), rewards=[[0, 0, 1], [0, 0, size]])


@pytest.mark.parametrize(
    ("error", "call", "said"),
    [
        case(
            "by state", TaskError, lambda: task([0, BIG, -BIG]),
            "`reward` must be at most 1e+50 in size", "state 1 has 1e+155; give",
        ),
        case(
            "by pair", TaskError, lambda: task([[0, 0], [0, 0], [0, -BIG]]),
            "1e+50", "state 2, action 1 has -1e+155",
        ),
        case(
            "by transition", TaskError, lambda: task(DENSE + 1.1e50),
            "1e+50", "state 0, action 0, next_state 0 has 1.1e+50",
        ),
        case(
            "columns", TaskError, lambda: task(([0, 1], [0, 0], [1, 2], [1, BIG])),
            "1e+50", "row 1 has 1e+155",
        ),
        case(
            "of a model", BeliefError, lambda: ensemble(BIG),
            "1e+50", "state 2 has 1e+155",
        ),
        case(
            "vanishing", TaskError, lambda: task([0, SMALL, -2 * SMALL]),
            "must reach 1e-50 in size", "largest is 2e-155", "smaller units",
        ),
        case(
            "logged", TaskError,
            lambda: bm.Task.from_data(
                bm.Transitions.from_arrays([0], [0], [1], reward=[BIG]), discount=0.9
            ),
            "1e+50", "1e+155",
        ),
    ],
)  # fmt: skip
def test_rewards_whose_moments_overflow_or_vanish_are_refused(
    error: type[bm.BayesmdpError], call: Callable[[], object], said: tuple[str, ...]
) -> None:
    check(error, call, said)


@pytest.mark.parametrize("power", [166, -166])  # 2**166 is 9.4e49
def test_values_scale_with_rewards_to_the_bit_up_to_the_bound(power: int) -> None:
    size = 2.0**power
    policy = np.full((3, 2), 0.5)

    def evaluated(reward: list[float], discount: float) -> bm.Evaluation:
        posterior = bm.fit(COUNTS, task(reward, discount), prior=bm.SymmetricPrior())
        return bm.evaluate(policy, posterior.draws(300))

    for discount in (0.9, 1 - 2.0**-53):
        one = evaluated([0.25, -0.5, 1.0], discount)
        other = evaluated([0.25 * size, -0.5 * size, size], discount)
        for name in ("value", "epistemic_sd", "aleatoric_sd", "total_sd"):
            for part in (name, f"{name}_mcse", f"start_{name}", f"start_{name}_mcse"):
                found = np.asarray(getattr(one, part))
                assert np.isfinite(found).all()
                assert (found > 0).any()
                assert (getattr(other, part) == size * found).all(), part


def long(weight: float) -> bm.Posterior:
    """Episodes of about ``weight`` steps, each of which pays 1e50."""
    paid = bm.Task(3, 1, [1e50, 1e50, 0], discount=1, terminal=[2])
    counts = bm.Counts.from_arrays([0, 1], [0, 0], [1, 2], [5, 5])
    ends = bm.FallbackPrior(bm.SparsePrior(1.0), 2, 5.0)
    return bm.fit(counts, paid, prior=bm.FallbackPrior(ends, 0, weight))


@pytest.mark.parametrize(
    "work",
    [
        lambda p: bm.evaluate([0, 0, 0], p.draws(100)),
        lambda p: bm.compare({"a": [0, 0, 0], "b": [0, 0, 0]}, p.draws(100)),
        lambda p: bm.optimise(p, method=bm.MirrorAscent(n_steps=1), starts=["uniform"]),
    ],
    ids=["evaluate", "compare", "optimise"],
)
def test_long_episodes_of_large_rewards_are_refused(
    work: Callable[[bm.Posterior], object],
) -> None:
    work(long(1e10))
    with pytest.raises(TooLargeError, match=r"above 1e\+70 in size.* smaller discount"):
        work(long(1e30))


def test_the_command_line_refuses_them_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("s,a,sp\nward,wait,home\nward,treat,death\n")
    text = 'discount = 0.9\nterminal = ["home", "death"]\n[reward]\nstate.home = 1e155'
    Path("task.toml").write_text(text)
    run = ["fit", "log.csv", "--task", "task.toml", "-o", "run"]
    result = CliRunner().invoke(main, run)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "`task.toml`: `reward` must be at most 1e+50 in size" in result.stderr
    assert not Path("run").exists()


def test_no_record_holds_what_is_not_finite() -> None:
    good = bm.evaluate(
        [0, 0, 0], bm.fit(COUNTS, task([0, 0, 1]), prior=bm.SymmetricPrior()).draws(100)
    )
    for field in fields(bm.Evaluation):
        value = getattr(good, field.name)
        if isinstance(value, float) and field.name.startswith("start_"):
            for bad in (math.inf, math.nan):
                with pytest.raises(TooLargeError, match="is not finite"):
                    replace(good, **{field.name: bad})


def test_a_page_tells_what_is_not_known_from_what_is_nothing() -> None:
    casino = bm.worlds.casino()
    table = bm.compare({"play": [0, 0, 0], "leave": [1, 0, 0]}, casino.draws())
    known = bm.report(casino, table)
    assert known.data["summary"]["total_sd"]["value"] == 0
    none, unknown = "There is none: every outcome is the same", "It is not known."
    assert none in known.html()
    assert unknown not in known.html()
    data = deepcopy(known.data)
    data["summary"]["total_sd"]["value"] = None
    data["policies"]["rows"][0]["probability_best"]["value"] = None
    page = bm.Report(data).html()
    assert none not in page
    assert unknown in page
    assert ">not known</td>" in page


def test_sentences_write_large_and_small_numbers_short() -> None:
    for size in (1e40, 1e-40):
        posterior = bm.fit(COUNTS, task([0, 0, size]), prior=bm.SymmetricPrior())
        policies = {"a": [0, 1, 0], "b": [1, 1, 0]}
        table = bm.compare(policies, posterior.draws(100))
        said = bm.report(posterior, table).data["summary"]["sentences"]
        assert "000000" not in said["value"]
        assert f"{table.rows[0].value:.6g}" in said["value"]
