"""The study of controls: its logs, and what is told of records."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bayesmdp.model import logged_episodes
from studies import controls
from studies.effect_logs import sample

Records = list[dict[str, Any]]


@pytest.mark.parametrize("case", controls.CASES, ids=lambda x: f"{x.name}, {x.permute}")
def test_episodes_keep_their_arm_where_arms_are_exchanged(case: controls.Case) -> None:
    log = sample(case.design, 1)
    assert log.episodes is not None
    found = logged_episodes(log.episodes, log.world.task)
    assert found.counts() == log.counts
    arm = found.action[found.start[:-1]]
    assert np.array_equal(found.action, arm[found.episode]) == case.design.keeps
    assert found.follows[found.step > 0].all()


def test_frail_episodes_differ_whatever_the_action() -> None:
    """One state: its frail episodes end well otherwise, and get the first action."""
    design = replace(controls._TREATED, episodes=4000, n_states=1)
    log = sample(design, 3)
    share = log.counts.pair_totals(3, 2)[0]
    assert 0.65 < share[0] / share.sum() < 0.75  # (1/2 + 0.2 / 2 + 0.8) / 2
    plain = sample(replace(design, frailty=0.0, confounded=False), 3)
    assert plain.counts.pair_totals(3, 2)[0, 0] / plain.counts.total < 0.55
    good = log.counts.to_dense()[0, :, 1] / share  # by action
    assert abs(good[0] - good[1]) > 0.002  # confounded: no effect of the action


def records(p: np.ndarray, better: float) -> Records:
    """As many p values for every case, and one claim for every fold."""
    made: Records = [
        {"part": "control", "number": number, "prior": prior, "seed": seed}
        | {"p": 0.025 if not case.null else float(x), "permutations": 39}
        | {"null_claims": 0.5}
        for number, case in enumerate(controls.CASES)
        for prior in controls._CONTROLLED
        for seed, x in enumerate(p)
    ]
    return made + [
        {"part": "cross", "number": number, "prior": prior, "seed": seed}
        | {"better": better if seed < 20 else 0.4}
        for number in range(len(controls.FOLDED))
        for prior in controls.PRIORS
        for seed in range(40)
    ]


def test_verdicts_follow_the_records() -> None:
    even = np.arange(1, 41) / 40
    told = controls._tell(records(even, 0.5))
    assert told.endswith(": confirmed.")
    assert "| hierarchical | 40 | 5 % (" in told
    assert controls._tell(records(np.ceil(40 * even**3) / 40, 0.5)).endswith(
        ": not confirmed."
    )
    assert controls._tell(records(even, 0.96)).endswith(": not confirmed.")


def test_uniformity_is_that_of_multiples() -> None:
    rng = np.random.default_rng(0)
    rows = [
        [{"p": x / 40, "permutations": 39} for x in rng.integers(1, 41, 200)]
        for _ in range(400)
    ]
    small = np.mean([controls.uniformity(x) < 0.05 for x in rows])
    assert abs(small - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 400)  # error rate 1e-4


def test_jobs_have_seeds_that_judge_and_records_of_every_prior() -> None:
    every = controls._jobs(controls.Effort(seeds=7))
    assert {x.params["seeds"][0] for x in every} == {30_000, 30_005}
    quick = controls._jobs(controls.Effort(quick=True))
    assert {x.params["seeds"][0] for x in quick} == {0}
    found = controls._work("cross", 0, [3, 5], chains=4)
    assert [x["prior"] for x in found] == [*controls.PRIORS, *controls.PRIORS[1:]]
