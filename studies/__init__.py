"""The paper, redone, and what it left open: one file for each study.

A study is looked up by name and imported only when it is run: ``python -m studies``.
"""

from importlib import import_module

from bayesmdp._checks import did_you_mean
from bayesmdp.errors import ArgumentError
from studies.study import (
    Effort,
    Job,
    Outcome,
    Study,
    holds_run,
    run_study,
    without_times,
)

#: Names of the studies, and of their files, in the order of the page of `all`.
STUDIES: tuple[str, ...] = (
    "fig1",
    "fig2",
    "fig3",
    "fig4",
    "fig5",
    "casino",
    "scaling",
    "ensemble",
    "msbi",
    "relative",
    "uncertainty",
    "evidence",
    "bounds",
    "resampling",
    "beliefs",
    "no_effect",
    "controls",
    "sbc",
    "markov_tests",
    "next_trial",
    "off_policy",
    "safe",
    "risk",
)

#: Figures of the paper whose study has another name.
FIGURES: dict[str, str] = {
    "fig6": "casino",
    "fig7": "scaling",
    "fig8": "ensemble",
    "fig9": "msbi",
    "fig10": "relative",
    "fig11": "relative",
    "fig12": "uncertainty",
    "fig13": "evidence",
}


def find_study(name: str) -> Study:
    """Return a study by its name, or by the figure it redoes."""
    name = FIGURES.get(name, name)
    if name not in STUDIES:
        hint = did_you_mean(name, [*STUDIES, "all"])
        raise ArgumentError(
            f"There is no study {name!r}{hint}; there are "
            f"{', '.join(STUDIES)}, and all."
        )
    study: Study = import_module(f"studies.{name}").STUDY
    return study


__all__ = [
    "FIGURES",
    "STUDIES",
    "Effort",
    "Job",
    "Outcome",
    "Study",
    "find_study",
    "holds_run",
    "run_study",
    "without_times",
]
