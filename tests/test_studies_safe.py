"""Studies of safe improvement and of risk: what is told of records, and small runs."""

from typing import Any

import numpy as np
import pytest

from studies import risk, safe
from studies.study import Effort

Records = list[dict[str, Any]]
SIZES = (500, 1000)


def records(ours: float, other: float, n: int = 40, bad: int = 0) -> Records:
    """Values around two levels on the same logs, the first ones below 30."""
    noise = np.random.default_rng(0).normal(size=(3, n))
    found = []
    for domain in safe.DOMAINS:
        for size in SIZES if domain.chicken else (100,):
            for seed in range(n):
                level = {
                    safe.OURS: ours + noise[0, seed],
                    safe.NOMINAL: 33.0,
                    "SPIBB, 3": other + noise[0, seed] + 0.1 * noise[1, seed],
                }
                level[safe.OURS] = 29.0 if seed < bad else level[safe.OURS]
                same = {"domain": domain.name, "size": size, "seed": seed}
                same |= {"baseline": 30.0, "best": 43.0}
                found += [
                    same | {"method": method, "value": value}
                    for method, value in level.items()
                ]
    return found


@pytest.mark.parametrize(
    ("ours", "other", "bad", "word"),
    [
        (36.0, 35.0, 0, "never behind, and ahead in 2 of 2 comparisons"),
        (36.0, 36.0, 0, "confirmed with a caveat"),
        (35.0, 36.0, 0, "behind SPIBB, 3 (0.1, 1,000 steps), SPIBB, 3 (0.5"),
        (36.0, 35.0, 4, "in at most 10.0 % of logs"),
    ],
)
def test_verdicts_follow_records(
    ours: float, other: float, bad: int, word: str
) -> None:
    said = safe._tell(records(ours, other, bad=bad))
    assert word in said
    good = other < ours and not bad
    assert said.endswith(": confirmed.") is good
    assert "40 logs of each size" in said
    assert "safe`: 40 of 500 logs of each size, and 0 of 200 cohorts" in said


def test_a_part_says_how_many_logs_each_domain_has() -> None:
    whole = records(36.0, 35.0)
    last = [x for x in whole if x["domain"] != "Random MDPs" or x["seed"] != 39]
    assert "safe`: 39 to 40 of 500 logs of each size" in safe._tell(last)
    none = [x for x in whole if x["domain"] != "Random MDPs"]
    assert "safe`: 0 to 40 of 500 logs of each size" in safe._tell(none)


def test_the_worst_tenth_is_that_of_sorted_values() -> None:
    values = np.random.default_rng(1).normal(size=(3, 57))
    expected = np.sort(values, axis=1)[:, :5].mean(axis=1)
    assert safe.worst_tenth(values) == pytest.approx(expected)


def test_paired_errors_are_those_of_fresh_logs() -> None:
    """Normal logs that share most of their noise; over 400 repetitions, 15 % off."""
    rng = np.random.default_rng(2)

    def sample() -> tuple[np.ndarray, np.ndarray]:
        shared = rng.normal(size=200)
        return shared + rng.normal(size=200), shared + 0.5 * rng.normal(size=200)

    gaps = []
    for _ in range(400):
        a, b = sample()
        gaps.append((a.mean() - b.mean(), safe.worst_tenth(a) - safe.worst_tenth(b)))
    said = np.mean([safe.paired_errors(*sample()) for _ in range(10)], axis=0)
    assert said == pytest.approx(np.std(gaps, axis=0), rel=0.15)


def test_a_log_is_given_to_every_method() -> None:
    domain = safe.DOMAINS[0]
    rows = safe._log(domain, 3, 300)
    assert [x["method"] for x in rows][:2] == [safe.OURS, safe.NOMINAL]
    assert len(rows) == 6
    assert all(x["best"] == pytest.approx(43.08, abs=1e-4) for x in rows)
    assert all(x["baseline"] == pytest.approx(29.7502, abs=1e-4) for x in rows)
    assert all(x["value"] <= x["best"] for x in rows)
    _, smaller = safe.sample(domain, 3, 200)
    _, larger = safe.sample(domain, 3, 300)
    assert (larger.counts >= smaller.counts).all()


def test_judging_seeds_are_kept_apart() -> None:
    jobs = safe._jobs(Effort())
    assert min(job.params["seed"] for job in jobs) >= safe.JUDGING
    quick = safe._jobs(Effort(quick=True))
    assert max(job.params["seed"] for job in quick) < 100
    domains = [job.params["domain"] for job in jobs]
    assert domains.count(safe.SEPSIS) == 200
    assert all(domains.count(domain.name) == 500 for domain in safe.DOMAINS)


def test_cohorts_are_told() -> None:
    rows = [
        {"domain": safe.SEPSIS, "size": 500, "seed": s, "baseline": 0.77, "changes": 1}
        | {"method": method, "value": 0.77 + gain}
        for s in range(10)
        for method, gain in ((safe.OURS, 0.001), (safe.NOMINAL, -0.002))
    ]
    said = "\n".join(safe._sepsis_said(rows))
    assert "| improve | 0.00100 ± 0.00000 | 0.00100 | 0 % |" in said
    assert "| nominal | -0.00200 ± 0.00000 | -0.00200 | 100 % | 0.00200 |" in said
    assert "on ICU-Sepsis in 0 of 10 cohorts: confirmed" in safe._tell(
        rows + records(36.0, 35.0)
    )
    for x in rows:
        x["value"] -= 0.002
    assert "10 of 10 cohorts: not confirmed" in safe._tell(rows + records(36.0, 35.0))


def test_where_costs_alone_differ_ours_is_the_programme_s() -> None:
    ours, other = risk._work("Machine, costs", "CVaR")
    assert other["method"] == "BROIL"
    for where in ("training: CVaR", "test: mean"):
        assert ours[where] == pytest.approx(other[where], rel=1e-4)
    mean, _ = risk._work("Machine, costs", "mean")
    assert mean["test: mean"] > ours["test: mean"] + 1
    assert mean["test: CVaR"] < ours["test: CVaR"] - 1
