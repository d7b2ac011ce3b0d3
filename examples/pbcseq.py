"""
Follow-up with censoring: a trial in liver disease
==================================================

From the visits of a trial to a report: D-penicillamine against placebo.

R's ``pbcseq`` (package survival; the Mayo Clinic trial in primary biliary cirrhosis,
Murtaugh et al., Hepatology 20 (1994), 126-134) has 1945 visits of 312 patients at
irregular days. A state is the histologic stage; death and transplantation end the
process; a step is a year. Every patient keeps an arm, so two policies are compared that
each keep one. Life-years here are years without a transplantation.

Run with ``python examples/pbcseq.py``, which asks R for the data, or with ``python
examples/pbcseq.py pbcseq.csv``, written by
``Rscript -e 'write.csv(survival::pbcseq, "pbcseq.csv", row.names=FALSE)'``.
"""

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import bayesmdp as bm

CODE = 'write.csv(survival::pbcseq, "pbcseq.csv", row.names=FALSE)'


def read(path: str | Path) -> bm.Transitions:
    """Put visits on a grid of years."""
    roles = {"state": "stage", "action": "trt", "outcome": "status"}
    return bm.read_transitions(
        path,
        columns={**roles, "end_time": "futime"},
        outcome={2: "death", 1: "transplant", 0: "censored"},
        time="day",
        every=365.25,
    )


def believe(log: bm.Transitions) -> bm.Posterior:
    """Learn how stages follow each other in each arm."""
    task = bm.Task.from_data(
        log,
        discount=0.97,
        reward="alive",
        terminal=["death", "transplant"],
        start="logged",
        reward_unit="life-years",
    )
    return bm.fit(log, task)


def main(path: str | Path) -> bm.Comparison:
    """Compare arms, draw survival and write the report."""
    log = read(path)
    print(*log.notes, sep="\n")
    posterior = believe(log)
    arms = {"D-penicillamine": 1, "placebo": 0}
    policies = {x: bm.policies.constant(posterior, str(arms[x])) for x in arms}
    policies["logged"] = bm.policies.behaviour(posterior)
    draws = posterior.draws(2000, seed=0)
    table = bm.compare(policies, draws, reference="placebo")
    print(table.summary())
    fig, ax = plt.subplots(layout="constrained")
    bm.plots.survival(policies["logged"], draws, log=log, ax=ax)
    ax.set_title("Survival as predicted, and by Kaplan and Meier")
    fig.savefig("pbcseq.png")
    bm.report(posterior, table, findings=bm.validate(log)).save("pbcseq.html")
    return table


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with contextlib.chdir(tempfile.mkdtemp()):
            subprocess.run(["Rscript", "-e", CODE], check=True)
            main("pbcseq.csv")
