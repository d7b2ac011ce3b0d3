"""Negative control and cross-fitting without effect, at fixed seeds."""

import numpy as np
import pytest

import bayesmdp as bm
from studies.controls import CASES, FOLDED, uniformity
from studies.effect_logs import sample

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore::bayesmdp.errors.PriorWarning"),
]


@pytest.mark.parametrize("case", [x for x in CASES if x.null], ids=lambda x: x.name)
def test_p_values_are_uniform_without_effect(case: object) -> None:
    """60 logs; chi square at 1e-3."""
    found = []
    for seed in range(60):
        log = sample(case.design, 500 + seed)  # type: ignore[attr-defined]
        control = bm.negative_control(
            log.episodes,  # type: ignore[arg-type]
            log.world.task,
            bm.SymmetricPrior(),
            permute=case.permute,  # type: ignore[attr-defined]
            n_permutations=19,
            seed=seed,
        )
        found.append({"p": control.p_value, "permutations": 19})
    assert uniformity(found) > 1e-3


def test_an_effect_has_small_p_values_and_frailty_misleads_within_states() -> None:
    """Hierarchical prior, 4 logs each; p is at most 1/10 in most of them."""
    for case in (CASES[4], CASES[5]):
        p = []
        for seed in range(4):
            log = sample(case.design, 500 + seed)
            assert log.episodes is not None
            control = bm.negative_control(
                log.episodes,
                log.world.task,
                permute=case.permute,
                n_permutations=19,
                seed=seed,
            )
            p.append(control.p_value)
        assert np.median(p) <= 0.1


@pytest.mark.parametrize("prior", ["flat", "sparse"])
def test_cross_fitting_claims_nothing_without_effect(prior: str) -> None:
    """100 logs; at 5 % more than 13 claims have a probability below 1e-3."""
    claims = 0
    for seed in range(100):
        log = sample(FOLDED[0], 500 + seed)
        task = log.world.task
        chosen = bm.SymmetricPrior() if prior == "flat" else bm.SparsePrior(fallback=7)
        assert log.episodes is not None
        found = bm.cross_fit(log.episodes, task, chosen, seed=seed)
        claims += found.probability_better >= 0.95
    assert claims <= 13
