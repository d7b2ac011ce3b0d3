"""The study of false claims: its logs, its limits, and what is told of records."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from studies import no_effect
from studies.effect_logs import DISCOUNT, EFFECT, NO_EFFECT, Design, sample
from studies.means import percent

Records = list[dict[str, Any]]
NAMED = {design.name: design for design in NO_EFFECT + EFFECT}


@pytest.mark.parametrize("design", NO_EFFECT, ids=lambda x: x.name)
def test_with_no_effect_every_policy_has_the_same_value(design: Design) -> None:
    log = sample(design, 1)
    rng = np.random.default_rng(0)
    free = rng.dirichlet(np.ones(design.n_actions), log.behaviour.shape[0])
    task = log.world.task
    values = [log.world.value(x) for x in (log.behaviour, free)]
    assert np.ptp(values[0][: design.n_states]) > 0.001
    assert np.allclose(*values, atol=1e-12)
    assert task.is_terminal.sum() == (2 if design.ending else 0)


@pytest.mark.parametrize(
    ("name", "shift"),
    [
        ("one step, 0.05 in all states", 0.05),
        ("one step, 0.1 in all states", 0.1),
        ("one step, 0.2 in one state of 30", 0.2 / 30),
    ],
)
def test_an_effect_has_its_size(name: str, shift: float) -> None:
    """The best of three normal effects is better than their mean by 0.846 sd.

    Over 100 logs; a gain varies by 0.65 sd in a state: 4 errors where one has effects.
    """
    gains = []
    for seed in range(100):
        log = sample(NAMED[name], seed)
        best = log.world.dynamics.to_dense()[..., -2].argmax(axis=1)
        start = log.world.task.start
        values = [start @ log.world.value(x) for x in (best, log.behaviour)]
        gains.append((values[0] - values[1]) / DISCOUNT / shift)  # one step on
    assert np.mean(gains) == pytest.approx(0.846, abs=4 * 0.65 / 10)
    assert np.mean(gains) == pytest.approx(0.846, abs=4 * np.std(gains) / 10)


@pytest.mark.parametrize("name", ["rare actions", "100,000 transitions"])
def test_logs_have_the_frequencies_of_their_model(name: str) -> None:
    """Pooled over 20 logs; error rate about 1e-4 by Bonferroni."""
    logs = [sample(NAMED[name], seed) for seed in range(20)]
    z = []
    for log in logs:
        n = log.counts.pair_totals(*log.behaviour.shape)
        p = log.world.dynamics.to_dense()[..., -2]
        live = (n > 0) & ~log.world.task.is_terminal[:, None]
        hits = log.counts.to_dense()[..., -2]
        z.append((hits - n * p)[live].sum() / np.sqrt((n * p * (1 - p))[live].sum()))
    assert abs(np.sum(z) / np.sqrt(20)) < 4
    assert 0.3 < np.std(z) < 2
    share = logs[0].counts.pair_totals(*logs[0].behaviour.shape).sum(axis=0)
    assert np.allclose(share / share.sum(), NAMED[name].behaviour, atol=0.03)


def test_a_fixed_arm_is_kept_and_a_log_is_a_function_of_its_seed() -> None:
    alone = Design("one", 5, 4, 0.05, episodes=1, keeps=True)
    kept = [np.unique(sample(alone, seed).counts.action) for seed in range(20)]
    assert {x.size for x in kept} == {1}
    assert len({int(x[0]) for x in kept}) > 1
    first, again, other = (sample(NO_EFFECT[1], seed) for seed in (3, 3, 4))
    assert first.counts == again.counts
    assert first.counts != other.counts


def test_limits_are_those_of_the_binomial() -> None:
    assert no_effect.limits(0, 200) == (0.0, pytest.approx(1 - 0.05 ** (1 / 200)))
    assert no_effect.limits(200, 200) == (pytest.approx(0.05 ** (1 / 200)), 1.0)
    low, high = no_effect.limits(10, 200)
    assert stats.binom.sf(9, 200, low) == pytest.approx(0.05)
    assert stats.binom.cdf(10, 200, high) == pytest.approx(0.05)


def records(false: int, gap: float, n: int = 40) -> Records:
    """Two arms of a coin: so many false claims, and errors of so many sd."""
    of = [(x, 0.0) for x in NO_EFFECT] + [(x, 0.05) for x in EFFECT]
    return [
        {
            "design": design.name,
            "seed": seed,
            "prior": prior,
            "transitions": 100,
            "better": 0.95 if seed < false or prior != no_effect.HIERARCHICAL else 0.9,
            "gain": true + 0.01 * gap * (-1) ** seed,
            "gain_sd": 0.01,
            "true_gain": true,
            "value": 0.5,
            "value_sd": 0.1,
            "true_value": 0.4,
        }
        for design, true in of
        for prior in no_effect.PRIORS
        for seed in range(n)
    ]


def test_tables_and_verdict_follow_the_records() -> None:
    told = no_effect._tell(records(1, 1.0))
    line = next(x for x in told.splitlines() if x.startswith("| rare actions"))
    # 1 of 40: the lower limit is 1 - 0.95^(1/40)
    assert "| 2 % (0.1 to 11.3) | 100 % (92.8 to 100.0) |" in line
    assert (
        "| 0.2 of ends, 300 episodes | hierarchical | 2 % (0.1 to 11.3) | 0.0500 |"
        in told
    )
    assert "| 1.00 | 1.00 | 1.00 |" in told
    assert told.endswith("designs (1.00 to 1.00): confirmed.")
    assert "in 6 of 6 designs" in told
    assert no_effect._tell(records(8, 1.0)).endswith(": not confirmed.")
    assert "with a caveat" in no_effect._tell(records(1, 2.0))
    sure = [x | {"gain_sd": 0.0} for x in records(1, 1.0)]
    assert "none (40 with sd 0) | inf |" in no_effect._tell(sure)


def test_a_job_learns_with_every_prior() -> None:
    effort = no_effect.Effort(seeds=25)
    jobs = [x for x in no_effect._jobs(effort) if x.key.startswith("00-")]
    assert [x.params["seeds"] for x in jobs] == [
        [30_000, 30_010],
        [30_010, 30_020],
        [30_020, 30_025],
    ]
    quick = no_effect._jobs(no_effect.Effort(quick=True))
    assert {tuple(x.params["seeds"]) for x in quick} == {(0, 3)}
    found = no_effect._work("2 states, 2 actions, one step", [5, 7], 50)
    assert [(x["seed"], x["prior"]) for x in found] == [
        (seed, prior) for seed in (5, 6) for prior in no_effect.PRIORS
    ]
    for x in found:
        assert x["true_gain"] == pytest.approx(0.0, abs=1e-12)
        assert x["gain"] > -0.01
        assert 0 <= x["better"] <= 1
        assert abs(x["value"] - x["true_value"]) < 6 * x["value_sd"]
    by = {prior: found[i]["gain"] for i, prior in enumerate(no_effect.PRIORS)}
    assert by[no_effect.HIERARCHICAL] < 0.5 * by[no_effect.SYMMETRIC]


def test_a_small_share_is_not_told_as_none() -> None:
    said = {0.0: "0 %", 0.0045: "0.4 %", 1 / 200: "0.5 %", 0.0002: "0.02 %"}
    said |= {-0.004: "-0.4 %", 0.0096: "1 %", 0.013: "1 %", 0.126: "13 %", 1.0: "100 %"}
    assert {x: percent(x) for x in said} == said
