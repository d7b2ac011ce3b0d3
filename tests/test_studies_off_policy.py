"""The study of off-policy estimates: its jobs, and what is told of records."""

from typing import Any

import pytest

from studies import off_policy
from studies.study import Effort

Records = list[dict[str, Any]]


def records(held: int, believed: float, n: int = 20) -> Records:
    """Every estimator at 0.4, with intervals that hold 0.5 in so many of n logs."""
    found: Records = []
    for problem in off_policy._MAKERS:
        for seed in range(n):
            ends = [0.3, 0.6] if seed < held else [0.3, 0.45]
            found.append(
                {
                    "problem": problem,
                    "name": problem.upper(),
                    "episodes": 2000,
                    "seed": seed,
                    "true": 0.5,
                    "estimates": dict.fromkeys(off_policy.NAMES, 0.4),
                    "intervals": dict.fromkeys(off_policy.NAMES, ends),
                    "effective_sample_size": dict.fromkeys(off_policy.NAMES, 12.3),
                    "bootstrap": dict.fromkeys(off_policy.NAMES, (0.1, 0.2)),
                    "posterior": [believed, believed - 0.1, believed + 0.1],
                }
            )
    chosen = {"problem": off_policy.CHOSEN, "true": 0.5}
    chosen |= {"same": [0.6, 0.55, 0.65], "fair": [0.5, 0.4, 0.6]}
    return found + [chosen | {"seed": seed} for seed in range(n)]


def test_tables_and_verdict_follow_the_records() -> None:
    told = off_policy._tell(records(19, 0.9))
    # 19 of 20: beta(19, 2) and beta(20, 1), 5 % and 95 %
    line = "| GRAPH, 2,000, 0.5000 | IS | 0.4000 ± 0.0000 | 0.0000 | 12 | 95 % (78 to"
    assert line in told
    assert "| 0 % (0 to 14) |" in told
    assert "| the same log | 0.6000 ± 0.0000 | 0 % (0 to 14) |" in told
    assert told.endswith("misses the true value in 100 % of logs: confirmed.")
    assert ": 30 of 30 do" in told
    assert off_policy._tell(records(14, 0.9)).endswith(": not confirmed.")
    assert off_policy._tell(records(19, 0.5)).endswith(": not confirmed.")
    some = records(19, 0.9)
    for x in some[:20]:
        x["intervals"] = x["intervals"] | {"IS": [0.3, 0.4], "PDIS": None}
    told = off_policy._tell(some)
    assert told.endswith("confirmed with a caveat, for others hold it too seldom.")
    assert ": 28 of 29 do" in told


def test_jobs_are_lots_of_ten_logs() -> None:
    jobs = off_policy._jobs(Effort(seeds=25))
    of_one = [x.params for x in jobs if x.params["problem"] == "graph"]
    assert [x["seeds"][1] for x in of_one] == [10_010, 10_020, 10_025]
    assert {x["others"] for x in of_one} == {10_020}
    assert len(jobs) == 3 * 6


def test_a_job_judges_its_logs() -> None:
    (found, plain) = off_policy._work("model_fail", [3, 5], 4)
    assert found["true"] == pytest.approx(-0.39204)
    assert found["posterior"][1] > 0
    low, high = found["bootstrap"]["WIS"]
    assert low < found["estimates"]["WIS"] < high
    assert "bootstrap" not in plain
    (chosen,) = off_policy._work(off_policy.CHOSEN, [0, 1], 0)
    assert chosen["same"][0] > chosen["fair"][0]
