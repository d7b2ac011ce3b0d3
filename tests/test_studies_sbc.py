"""The study of ranks: truths of the chains' own model, ranks, and what is told."""

from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from studies import sbc


def test_truths_have_the_moments_of_the_model() -> None:
    """Error rate about 1e-4 for each bound (4 standard errors)."""
    rng = np.random.default_rng(0)
    theta = np.array([sbc.truth("base known", 20, rng) for _ in range(1000)])
    assert np.allclose(theta.sum(axis=-1), 1)
    none = np.ptp(theta, axis=2).max(axis=-1) == 0  # [truths, states]
    shares = none.mean(axis=1)  # Binomial(4, w) / 4 with w uniform: 0, .. 4 alike
    assert abs(shares.mean() - 0.5) < 4 * np.sqrt(1 / 8 / 1000)
    alike = np.bincount((4 * shares).astype(int), minlength=5) / 1000
    assert np.abs(alike - 0.2).max() < 4 * np.sqrt(0.16 / 1000)
    mean = theta.mean(axis=(0, 1, 2))
    assert np.abs(mean - 0.25).max() < 4 * np.sqrt(0.1875 / 4000)
    # Cov of two actions is Var(mu): in no-effect states Var(theta), E[1 / (k + 1)]
    k = np.exp(np.linspace(np.log(0.1), np.log(1e4), 100_001))
    expected = 0.1875 * np.mean(1 / (k + 1))
    both = ((theta[:, :, 0, 0] - 0.25) * (theta[:, :, 1, 0] - 0.25)).mean(axis=1)
    assert abs(both.mean() - expected) < 4 * both.std() / np.sqrt(1000)


def test_chains_look_at_the_strengths_that_truths_have() -> None:
    rng = np.random.default_rng(1)
    visits = np.full((4, 3), 20)
    for _ in range(3):
        data = rng.multinomial(visits, sbc.truth("base known", 20, rng))
        belief = bm.fit(
            bm.Counts.from_dense(data),
            sbc.task(),
            prior=bm.HierarchicalPrior("uniform"),
        )
        c = belief.chains.strength
        found = np.log(c[np.isfinite(c)])
        grid = sbc.log_strengths(20)
        assert np.abs(found[:, None] - grid).min(axis=1).max() < 1e-9
        location, log_scale = belief.chains.hyper[:, 3:].T
        assert (np.abs(location - np.log(10**1.5)) <= np.log(10**2.5) + 1e-9).all()
        assert (np.abs(log_scale - np.log(0.9) / 2) <= np.log(10) / 2 + 1e-9).all()
        z = (np.log(belief.chains.k) - location[:, None]) / np.exp(log_scale)[:, None]
        assert 0.3 < z.std() < 1.5


def test_ranks_ties_and_coverage_by_hand() -> None:
    rng = np.random.default_rng(0)
    values = np.array([0.0, 1.0, 1.0 + 1e-12, 2.0])
    ranks = [sbc._rank(values, 1.0, rng)["rank"] for _ in range(100)]
    assert set(ranks) == {1, 2, 3}  # after 0, before 2, anywhere among its equals
    assert sbc._rank(values, 1.5, rng) | {"mean": 0, "sd": 0} == {
        "rank": 3,
        "ties": 0,
        "mean": 0,
        "sd": 0,
        "true": 1.5,
    }
    every = np.arange(200)
    assert sbc.covered(every).sum() == 180
    assert sbc.covered(every)[[9, 10, 189, 190]].tolist() == [0, 1, 1, 0]
    assert sbc.uniformity(every) == 1
    assert sbc.uniformity(np.repeat(np.arange(100), 2)) < 1e-20


def records(rank: Any) -> list[dict[str, Any]]:
    return [
        {
            "case": case,
            "seed": seed,
            "quantity": quantity,
            "rank": int(rank(seed)),
            "ties": 0,
            "mean": 1.0,
            "sd": 0.5,
            "true": 0.5,
        }
        for case in sbc.CASES
        for quantity in sbc.QUANTITIES
        for seed in range(400)
    ]


def test_the_verdict_follows_the_ranks() -> None:
    told = sbc._tell(records(lambda seed: seed % 200))
    assert "| base known | nominal | 90.0 ± 1.5 % | 1.000 | +0.5000 ± 0.0000 |" in told
    assert told.endswith("cover 90.0 % and 90.0 % and 90.0 % and 90.0 %: confirmed.")
    wide = records(lambda seed: seed % 200)
    for x in wide:
        if x["case"] == "marginal base" and 40 <= x["rank"] < 80:
            x["rank"] = 0
    assert ": confirmed with a caveat, for the uncertainty" in sbc._tell(wide)
    narrow = sbc._tell(records(lambda seed: 50 + seed % 100))
    assert narrow.endswith(
        "cover 100.0 % and 100.0 % and 100.0 % and 100.0 %: not confirmed."
    )


def test_a_job_ranks_three_quantities() -> None:
    found = sbc._work("marginal base", [3, 5])
    assert [(x["seed"], x["quantity"]) for x in found] == [
        (seed, quantity) for seed in (3, 4) for quantity in sbc.QUANTITIES
    ]
    for x in found:
        assert 0 <= x["rank"] <= 199
        assert x["sd"] >= 0
    for fixed, chosen, gain in (found[:3], found[3:]):
        for key in ("mean", "true"):
            assert gain[key] == pytest.approx(chosen[key] - fixed[key])
