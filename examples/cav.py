"""
Heart transplants: a chain without decisions
============================================

Heart transplant patients whose coronary arteries close: a chain without decisions.

R's ``cav`` (package msm; Sharples et al., Transplantation 76 (2003), 679-682) has 2846
yearly angiograms of 622 patients of Papworth Hospital: no, mild or severe disease, and
death at its time. A step is a year. The risk of death is highest in the year after the
operation, which three states do not know: predicted survival is then too low. The time
since the operation, in four periods, is therefore part of the state, which brings
five-year survival into the Kaplan-Meier interval
(``tests/integration/test_follow_up_examples.py``; figures in ``docs/follow_up.md``).
The cuts were chosen after looking at three other sets. `bm.check` still finds misfit:
periods are carried forward with the visits, and lag.

Run with ``python examples/cav.py``, which asks R for the data, or with ``python
examples/cav.py cav.csv``, written by
``Rscript -e 'write.csv(msm::cav, "cav.csv", row.names=FALSE)'``.
"""

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import matplotlib.pyplot as plt

import bayesmdp as bm

CODE = 'write.csv(msm::cav, "cav.csv", row.names=FALSE)'
STATES = """
    select PTNUM as patient, years, case when state = 4 then 'dead' else
        ['none', 'mild', 'severe'][state] || case when years < 1 then ', year 1'
        when years < 3 then ', years 2-3' when years < 6 then ', years 4-6'
        else ', later' end end as state
    from read_csv('{}')
"""


def read(path: str | Path) -> bm.Transitions:
    """Put visits on a grid of years."""
    visits = duckdb.sql(STATES.format(path))
    return bm.read_transitions(visits, time="years", every=1)


def believe(log: bm.Transitions) -> bm.Posterior:
    """Learn how states follow each other."""
    task = bm.Task.from_data(
        log,
        discount=0.97,
        reward="alive",
        terminal="dead",
        start="logged",
        reward_unit="life-years",
    )
    return bm.fit(log, task)


def main(path: str | Path) -> bm.Evaluation:
    """Evaluate what is observed, hold it against the log and draw survival.

    There is nothing to decide, so that there are no policies to compare in a report.
    """
    log = read(path)
    print(*log.notes, sep="\n")
    posterior = believe(log)
    policy = bm.policies.behaviour(posterior)
    draws = posterior.draws(2000, seed=0)
    evaluation = bm.evaluate(policy, draws)
    print(evaluation.summary())
    print(bm.check(posterior, log).summary())
    fig, ax = plt.subplots(layout="constrained")
    bm.plots.survival(policy, draws, log=log, ax=ax)
    ax.set_title("Survival as predicted, and by Kaplan and Meier")
    fig.savefig("cav.png")
    return evaluation


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with contextlib.chdir(tempfile.mkdtemp()):
            subprocess.run(["Rscript", "-e", CODE], check=True)
            main("cav.csv")
