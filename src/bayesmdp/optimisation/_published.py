"""Algorithm 2 of the paper at work."""

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.optimisation._result import Candidate, Outcome, Stage, Step
from bayesmdp.optimisation._search import Search
from bayesmdp.optimisation._settings import StochasticGradient


def run_published(search: Search, method: StochasticGradient, offset: int) -> None:
    """Run it from every start, and leave the last policy as it is.

    ``offset`` is where the schedule of the rate begins.
    """
    search.published = True
    for name, policy in search.starts.items():
        rows = _climb(search, name, policy, method, offset)
        search.found.append(Candidate(name, Stage.CLIMBED, rows))
        if search.late:
            search.outcome = Outcome.TIME
            return
    search.outcome = Outcome.PUBLISHED


def _climb(
    search: Search,
    name: str,
    policy: FloatArray,
    method: StochasticGradient,
    offset: int,
) -> FloatArray:
    """Climb from a policy; return the last one.

    A policy that gives every action some probability is taken as it is, others are
    softened as published.
    """
    oracle = search.oracle
    source, n = oracle.problem.rows.source, oracle.problem.n_live
    rows = oracle.rows(policy)
    others = np.maximum(np.bincount(source, minlength=n)[source] - 1, 1)
    if not (rows > 0).all():
        rows = (1 - method.softness) * rows + method.softness * (1 - rows) / others
    logits, first = np.log(rows), 0
    for step in range(method.n_steps):
        pi = _softmax(logits, source, n)
        every = method.resample_every
        if step == 0 or (every and step % every == 0):
            first = oracle.take(method.batch)
        found = oracle.slopes(pi, method.batch, first)
        logits = logits + method.rate(offset + step) * pi * found.slope
        taken = Step(name, step + 1, found.value, max(found.gap, 0.0), method.batch)
        if not search.watch(taken, pi):
            break
    return oracle.problem.rows.as_policy(_softmax(logits, source, n))


def _softmax(logits: FloatArray, source: IntArray, n: int) -> FloatArray:
    top = np.full(n, -np.inf)
    np.maximum.at(top, source, logits)
    weight = np.exp(logits - top[source])
    return np.asarray(weight / np.bincount(source, weight, minlength=n)[source])
