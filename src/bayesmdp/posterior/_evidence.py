"""Log evidence of Dirichlet rows.

For a pair with prior concentrations ``p[t]`` (sum ``p0``) and counts ``n[t]`` (sum
``n0``), the probability of the observed sequence of next states is ::

    lgamma(p0) - lgamma(p0 + n0) + sum_t (lgamma(p[t] + n[t]) - lgamma(p[t]))

summed over pairs. Only entries with counts contribute to the inner sum.
"""

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.errors import PriorError
from bayesmdp.model import Rows, Task
from bayesmdp.priors import (
    OnSets,
    OwnEvidence,
    Prior,
    log_rising,
    rows_of,
    without_fallbacks,
)


def evidence_of(prior: Prior, pair: IntArray, counts: Counts, task: Task) -> float:
    """Log probability of the counts of sorted pairs ``[R]`` under a prior."""
    base, imagined = without_fallbacks(prior)
    if isinstance(base, OnSets):
        return base.log_evidence(pair, counts, task, imagined)
    if isinstance(prior, OwnEvidence):
        found = prior.log_evidence(pair, counts, task)
        return _checks.real("log_evidence", found, PriorError, -np.inf)
    rows, before = rows_of(prior, pair, counts, task)
    row, entry = rows.find(counts.state, counts.action, counts.next_state)
    seen = entry >= 0
    return log_evidence(rows, before, row[seen], entry[seen], counts.count[seen])


def log_evidence(
    rows: Rows, before: FloatArray, row: IntArray, entry: IntArray, count: IntArray
) -> float:
    """Log probability of counts ``[K]`` at given rows and entries.

    ``before`` holds the prior concentrations ``[E]``.
    """
    inner = log_rising(before[entry], count)
    visits = np.bincount(row, count, minlength=rows.pair.size)
    outer = log_rising(rows.row_sums(before), visits)
    return float(inner.sum() - outer[visits > 0].sum())
