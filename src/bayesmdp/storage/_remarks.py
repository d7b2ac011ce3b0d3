"""What a reader of a run must know of its data and its task."""

import warnings

from bayesmdp.data import Findings
from bayesmdp.errors import BayesmdpWarning
from bayesmdp.model import Task


def warn_of(findings: Findings, task: Task) -> None:
    """Warn of what `validate` finds in a log, and of a task that pays nothing.

    Parameters
    ----------
    findings
        From `bayesmdp.validate`; notes among them are not warned of.
    task
        What the log is fitted with.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> log = bm.Transitions.from_arrays([0, 1, 1], [0, 0, 1], [1, 0, 0])
    >>> bm.storage.warn_of(bm.validate(log), bm.Task(2, 2, [0, 1], discount=0.9))
    """
    wrong = (*findings.errors, *findings.warnings)
    said = []
    if wrong:
        codes = ", ".join(dict.fromkeys(x.code for x in wrong))
        said.append(
            f"`bayesmdp validate` finds {len(wrong)} things to fix in these data "
            f"({codes})"
        )
    if not task.pays:
        said.append(
            "every reward is 0, so that all policies are alike; say in the task file "
            "what pays"
        )
    for sentence in said:
        warnings.warn(sentence, BayesmdpWarning, stacklevel=2)
