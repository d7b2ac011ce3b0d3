"""Discount 1: whether every episode ends, and whether its mean exists.

Without a discount, a policy's chain must lead from every live state to a terminal one.
Where the dynamics are uncertain that is not enough. Let ``C`` be a set of live states
that the chain can circle in, and ``f(C)`` the sum of the Dirichlet concentrations of
all entries that leave it, over the rows the policy uses. All exits of ``C`` together
are below ``x`` with probability of order ``x^f(C)``, and the time spent in ``C`` is
then of order ``1 / x``. With rewards along the way its mean is finite for ``f(C) > 1``
only, its variance for ``f(C) > 2`` (for a self-loop: ``E[1/(1 - theta)]``, ``theta``
Beta).

``f`` is the capacity of a cut between ``C`` and the terminal states, so the smallest
``f(C)`` around a rewarded transition is a maximum flow. A cheap bound comes first: the
state of ``C`` nearest to the end has its entries that lead nearer among the exits.

Rewards on termination alone are bounded, and need no such check.
"""

from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.engine._problem import Problem
from bayesmdp.errors import EndlessError

_UNIT = 10**6  # scipy's maximum flow counts in whole numbers
_CAP = 3.0  # exits beyond this concentration are all the same to us


@dataclass(frozen=True, eq=False)
class _Graph:
    """Edges of one policy's chain: positions in sweep order, and concentrations."""

    n_live: int
    tail: IntArray  # [K]
    head: IntArray  # [K]
    concentration: FloatArray  # [K]
    reward: FloatArray  # [K]


def check_ending(problem: Problem) -> str | None:
    """Refuse what does not end; return a warning where the variance is infinite.

    Does nothing for discounts below 1.
    """
    if problem.task.discount < 1.0:
        return None
    warning = None
    for policy in problem.policies:
        graph = _graph(problem, policy)
        distance = _distance_to_end(graph)
        if (distance[: graph.n_live] < 0).any():
            at = int(np.argmax(distance[: graph.n_live] < 0))
            raise EndlessError(
                f"With discount 1 every episode must end, but from state "
                f"{_name(problem, at)} this policy reaches no terminal state; choose "
                "another policy there, or a discount below 1."
            )
        if problem.alpha.size:
            warning = _check_mean(problem, graph, distance) or warning
    return warning


def _graph(problem: Problem, policy: FloatArray) -> _Graph:
    """Entries with positive probability under a policy."""
    row = np.repeat(np.arange(policy.size), np.diff(problem.indptr))
    used = (policy[row] > 0) & (problem.theta_bar > 0)
    alpha = problem.alpha if problem.alpha.size else problem.theta_bar
    return _Graph(
        problem.n_live,
        problem.source[row[used]],
        problem.target[used],
        alpha[used],
        problem.rewards[0, used],
    )


def _distance_to_end(graph: _Graph) -> IntArray:
    """Count steps from each state to the nearest end, -1 where there is no way."""
    n_states = int(max(graph.head.max(initial=0), graph.n_live - 1)) + 1
    distance = np.full(n_states, -1)
    distance[graph.n_live :] = 0
    step = 0
    while True:
        reached = (distance[graph.head] == step) & (distance[graph.tail] < 0)
        if not reached.any():
            return distance
        step += 1
        distance[graph.tail[reached]] = step


def _check_mean(problem: Problem, graph: _Graph, distance: IntArray) -> str | None:
    """Refuse an infinite mean, return a warning for an infinite variance."""
    inner = graph.head < graph.n_live
    rewarded = inner & (graph.reward != 0)
    if not rewarded.any():
        return None
    nearer = distance[graph.head] < distance[graph.tail]
    leaving = np.bincount(
        graph.tail[nearer], graph.concentration[nearer], minlength=graph.n_live
    )
    if leaving[: graph.n_live].min() > 2.0:
        return None
    warning = None
    for edge in np.flatnonzero(rewarded):
        exits, trap = _smallest_exit(
            graph, int(graph.tail[edge]), int(graph.head[edge])
        )
        if exits > 2.0 or not trap.any():
            continue
        states = ", ".join(_name(problem, int(i)) for i in np.flatnonzero(trap)[:5])
        what = (
            f"the cycle through state(s) {states} has exits of concentration {exits:g}"
        )
        if exits <= 1.0:
            raise EndlessError(
                f"With discount 1 and rewards along the way the posterior mean is "
                f"infinite: {what}, which must be above 1; raise the prior's "
                "concentration, or use a discount below 1."
            )
        warning = (
            f"With discount 1 the variance over the posterior is infinite: {what}, "
            "which must be above 2; standard deviations and errors are not to be "
            "believed."
        )
    return warning


def _smallest_exit(graph: _Graph, tail: int, head: int) -> tuple[float, BoolArray]:
    """Least total exit of a set that holds an edge, and the cycle in it, ``[N]``.

    The cycle is empty where the set found holds none through the edge.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import (
        breadth_first_order,
        connected_components,
        maximum_flow,
    )

    n = graph.n_live
    end, source = n, n + 1
    capacity = np.round(np.minimum(graph.concentration, _CAP) * _UNIT).astype(np.int32)
    heads = np.minimum(graph.head, end)
    tails = np.concatenate([graph.tail, [source, source]])
    heads = np.concatenate([heads, [tail, head]])
    big = np.int32(2**30)
    capacity = np.concatenate([capacity, [big, big]])
    network = coo_array((capacity, (tails, heads)), shape=(n + 2, n + 2)).tocsr()
    network.data = np.minimum(network.data, big)
    flow = maximum_flow(network, source, end)
    rest = network - flow.flow
    rest.eliminate_zeros()
    reached = breadth_first_order(rest, source, return_predecessors=False)
    inside = np.zeros(n + 2, dtype=np.bool_)
    inside[reached] = True
    kept = inside[graph.tail] & inside[np.minimum(graph.head, end)]
    circle = coo_array(
        (np.ones(int(kept.sum())), (graph.tail[kept], graph.head[kept])), shape=(n, n)
    )
    _, label = connected_components(circle.tocsr(), directed=True, connection="strong")
    trap = (label == label[tail]) & inside[:n]
    if label[tail] != label[head]:
        trap[:] = False
    return flow.flow_value / _UNIT, trap


def _name(problem: Problem, position: int) -> str:
    return problem.task.state_name(int(problem.order[position]))
