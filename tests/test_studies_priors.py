"""The study of priors: what is told of records, against numbers made by hand."""

from typing import Any

from studies import priors


def records(best: str) -> list[dict[str, Any]]:
    """Four cohorts; one prior delivers most in the first two, and least in the rest."""
    return [
        {
            "size": 2000,
            "cohort": cohort,
            "prior": name,
            "chosen_promise": 0.9,
            "chosen_delivers": (0.85 if cohort < 2 else 0.5) if name == best else 0.8,
            "chosen_covered": name == best,
            "clinicians_covered": True,
            "survival": 0.7,
        }
        for name in priors.priors()
        for cohort in (3, 1, 0, 2)
    ]


def test_the_best_is_scored_on_cohorts_that_did_not_choose_it() -> None:
    told = priors._tell(records("evidence"))
    assert "**2,000 patients, 4 cohorts**" in told
    assert "Of the first half of the cohorts (2), **evidence** delivers most" in told
    assert "On the others, evidence delivers 0.5000 ± 0.0000" in told
    assert (
        "There evidence minus sparse, death, cohort by cohort: -0.3000 ± 0.0000" in told
    )
    line = next(x for x in told.splitlines() if x.startswith("| evidence |"))
    # 0.675 is the mean of 0.85, 0.85, 0.5 and 0.5, with an error of 0.35 / sqrt(12).
    assert "| 0.9000 ± 0.0000 | 0.6750 ± 0.1010 | 0.2250 ± 0.1010 |" in line
    assert line.endswith("| 4 of 4 | 4 of 4 |")


def test_every_kind_of_prior_is_on_trial() -> None:
    said = " ".join(map(repr, priors.priors().values()))
    kinds = "Symmetric Sparse Scaled Evidence RandomSupport Fallback"
    for kind in [*kinds.split(), "Mixture"]:
        assert f"{kind}Prior(" in said
