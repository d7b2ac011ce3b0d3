"""The paper, redone, and what it left open: one file a study.

A study is looked up by name and imported only when it is run.
"""

from importlib import import_module

from bayesmdp._checks import did_you_mean
from bayesmdp.errors import ArgumentError
from bayesmdp.paper._all import PAGE, Part, run_all
from bayesmdp.paper._story import Promise, Story, tell_story
from bayesmdp.paper._study import (
    Effort,
    Job,
    Outcome,
    Study,
    holds_run,
    run_study,
    without_times,
)

#: Name of each study, and the file that holds it, in the order of the page of `all`.
STUDIES: dict[str, str] = {
    "fig1": "_fig1",
    "fig2": "_fig2",
    "fig3": "_fig3",
    "fig4": "_fig4",
    "fig5": "_fig5",
    "casino": "_casino",
    "scaling": "_scaling",
    "ensemble": "_ensemble",
    "msbi": "_msbi",
    "relative": "_relative",
    "uncertainty": "_uncertainty",
    "evidence": "_evidence",
    "bounds": "_bounds",
    "resampling": "_resampling",
    "priors": "_priors",
}

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
    study: Study = import_module(f"bayesmdp.paper.{STUDIES[name]}").STUDY
    return study


__all__ = [
    "FIGURES",
    "PAGE",
    "STUDIES",
    "Effort",
    "Job",
    "Outcome",
    "Part",
    "Promise",
    "Story",
    "Study",
    "find_study",
    "holds_run",
    "run_all",
    "run_study",
    "tell_story",
    "without_times",
]
