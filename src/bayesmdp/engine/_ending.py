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
``f(C)`` around given states is a maximum flow. Few states need one: the state of ``C``
nearest to the end has its entries that lead nearer among the exits, so ``C`` with small
exits holds a state whose such entries are few.

Rewards on termination alone are bounded, and so is the value; only the number of visits
may then have no mean.

Where it is in doubt which next states are possible, an unseen exit may be missing
altogether, with positive probability: it counts as a way to the end, and its
concentration as 0. A set whose exits are all of this kind holds some draws for ever,
and is refused whatever the rewards are.
"""

from dataclasses import dataclass, replace

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray, IndexArray, IntArray
from bayesmdp.engine._problem import Problem
from bayesmdp.errors import EndlessError

_UNIT = 10**6  # scipy's maximum flow counts in whole numbers
_TWO = 2.0 + 1 / _UNIT  # sums of concentrations are rounded
_CAP = 3.0  # exits beyond this concentration are all the same to us
_UNCUT = 2**30  # capacity of what must stay inside
_WHO = "this policy reaches no terminal state; choose another policy there"
_TRIES = 200  # cuts looked at around one state
_MOST_BOUNDED = 10**7  # entries of the table that bounds exits


@dataclass(frozen=True, eq=False)
class _Graph:
    """Edges of one policy's chain: positions in sweep order, and concentrations."""

    n_live: int
    row: IntArray  # [K], row of the problem
    tail: IntArray  # [K]
    head: IndexArray  # [K]
    concentration: FloatArray  # [K]
    reward: FloatArray  # [K]


@dataclass(frozen=True)
class Ending:
    """What discount 1 costs; nothing, for smaller discounts."""

    warning: str | None = None  # the variance over the posterior is infinite
    visits_exist: bool = True  # the mean number of visits is finite

    @property
    def notes(self) -> list[str]:
        """What users must know."""
        said = [self.warning] if self.warning else []
        if not self.visits_exist:
            said.append(
                "The posterior mean of `occupancy` is infinite in some states: it is "
                "NaN in all but the terminal ones. Values are not affected."
            )
        return said


def check_ending(problem: Problem) -> tuple[Ending, ...]:
    """Refuse policies that do not end or have no mean; say what else to expect."""
    if problem.task.discount < 1.0:
        return tuple(Ending() for _ in problem.policies)
    return tuple(_check_policy(problem, policy) for policy in problem.policies)


def _check_policy(problem: Problem, policy: FloatArray) -> Ending:
    """Check one policy ``[R]``, in every model or component that can be drawn."""
    if problem.alpha.size:
        sure = problem.sets.shape if problem.sets.shape.size else problem.alpha
        found = [
            _check_component(problem, policy, problem.alpha[c], sure[c])
            for c in np.flatnonzero(problem.shares > 0)
        ]
        warnings = [ending.warning for ending in found if ending.warning]
        exist = all(ending.visits_exist for ending in found)
        return Ending(warnings[0] if warnings else None, exist)
    for theta in problem.table[np.unique(problem.member)]:
        _checked_distance(problem, _graph(problem, policy, theta), _WHO)
    return Ending()


def _check_component(
    problem: Problem, policy: FloatArray, alpha: FloatArray, sure: FloatArray
) -> Ending:
    """Check a policy ``[R]`` with rows ``[E]``; ``sure`` is 0 where in doubt."""
    graph = _graph(problem, policy, alpha, sure)
    return _check_cycles(problem, graph, _checked_distance(problem, graph, _WHO))


def _checked_distance(problem: Problem, graph: _Graph, who: str) -> IntArray:
    """Count steps from each state to the end; refuse where there is no way."""
    distance = _distance_to_end(graph)
    stuck = distance[: graph.n_live] < 0
    if stuck.any():
        raise EndlessError(
            f"With discount 1 every episode must end, but from state "
            f"{_name(problem, int(np.argmax(stuck)))} {who}, or use a discount below 1."
        )
    return distance


def nearest_rows(problem: Problem) -> IntArray:
    """Return rows ``[N]`` that may lead nearer to the end: a policy that ends."""
    graph = _graph(problem, np.ones(problem.source.size), problem.theta_bar)
    who = "no action ever leads to a terminal state; add one with FallbackPrior"
    distance = _checked_distance(problem, graph, who)
    row = np.repeat(np.arange(problem.source.size), np.diff(problem.indptr))
    row = row[problem.theta_bar > 0]
    nearer = distance[graph.head] < distance[graph.tail]
    choice = np.empty(problem.n_live, dtype=np.int64)
    choice[graph.tail[nearer][::-1]] = row[nearer][::-1]  # the first such row stays
    return choice


def _graph(
    problem: Problem,
    policy: FloatArray,
    weight: FloatArray,
    sure: FloatArray | None = None,
) -> _Graph:
    """Entries under a policy where ``weight`` [E], a concentration, is above 0.

    ``sure`` [E] is the concentration where some of them may be missing from a draw.
    """
    row = np.repeat(np.arange(policy.size), np.diff(problem.indptr))
    used = (policy[row] > 0) & (weight > 0)
    return _Graph(
        problem.n_live,
        row[used],
        problem.source[row[used]],
        problem.target[used],
        weight[used] if sure is None else sure[used],
        np.abs(problem.rewards[:, used]).max(axis=0),
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


def _check_cycles(problem: Problem, graph: _Graph, distance: IntArray) -> Ending:
    """Refuse an infinite mean; note an infinite variance or number of visits."""
    ending = Ending()
    nearer = distance[graph.head] < distance[graph.tail]
    leaving = np.bincount(
        graph.tail[nearer], graph.concentration[nearer], minlength=graph.n_live
    )
    suspects = np.flatnonzero(leaving[: graph.n_live] <= _TWO)
    if suspects.size == 0 or _least_exits(graph) > _TWO:
        return ending
    for state in suspects:
        exits, inside = _smallest_trap(graph, [int(state)])
        if exits <= 1.0 and _may_be_closed(graph, inside):
            raise EndlessError(
                f"With discount 1 every episode must end, but in some draws none does "
                f"from state(s) {_names(problem, inside)}: under this prior it may be "
                "that no next state outside is possible; add one with FallbackPrior, "
                "or use a discount below 1."
            )
        if exits <= 1.0:
            ending = replace(ending, visits_exist=False)
        if exits <= 2.0:
            exits, inside = _smallest_paid_trap(graph, exits, inside)
        if exits > 2.0:
            continue
        cycle = f"the cycle through state(s) {_names(problem, inside)}"
        what = f"{cycle} has exits of concentration"
        if exits <= 1.0:
            raise EndlessError(
                f"With discount 1 and rewards along the way the posterior mean is "
                f"infinite: {what} {exits:g}, which must be above 1; raise the prior's "
                "concentration, or use a discount below 1."
            )
        warning = (
            f"With discount 1 the variance over the posterior is infinite: {what} "
            f"{exits:g}, which must be above 2; standard deviations and errors are not "
            "to be believed."
        )
        ending = replace(ending, warning=warning)
    return ending


def _least_exits(graph: _Graph) -> float:
    """Bound from below the exits of every set of live states, without a flow.

    Of ``k`` states, none has more than its row's ``k`` largest entries inside. So the
    exits are at least what the others of its entries sum to, for the ``k`` states
    where that is least. Rows that may lead to many states have exits far above what
    matters, and each of their flows would take long.
    """
    n = graph.n_live
    live = graph.head < n
    rows, first, row = np.unique(graph.row, return_index=True, return_inverse=True)
    total = np.bincount(row, graph.concentration)
    inner, inside = row[live], graph.concentration[live]
    order = np.lexsort((-inside, inner))
    inner, inside = inner[order], inside[order]
    begin = np.searchsorted(inner, np.arange(rows.size))
    place = np.arange(inner.size) - begin[inner]
    width = int(place.max(initial=-1)) + 1
    if width == 0:
        return np.inf
    if rows.size * width > _MOST_BOUNDED:
        return 0.0
    kept = np.zeros((rows.size, width))
    kept[inner, place] = inside
    np.cumsum(kept, axis=1, out=kept)
    np.subtract(total[:, None], kept, out=kept)  # what leaves
    of_state = np.zeros((n, width))
    np.add.at(of_state, graph.tail[first], kept)
    of_state.sort(axis=0)
    np.cumsum(of_state, axis=0, out=of_state)
    k = np.arange(min(width, n))
    return float(of_state[k, k].min())


def _may_be_closed(graph: _Graph, inside: BoolArray) -> bool:
    """Whether no exit of a trap ``[N]`` is possible for sure."""
    leaves = inside[graph.tail] & (graph.head >= graph.n_live)
    live = graph.head < graph.n_live
    leaves[live] = inside[graph.tail[live]] & ~inside[graph.head[live]]
    return not (graph.concentration[leaves] > 0).any()


def _smallest_paid_trap(
    graph: _Graph, exits: float, inside: BoolArray
) -> tuple[float, BoolArray]:
    """Return the smallest trap with a paid cycle; a first trap is looked at first."""
    best = (np.inf, inside)
    for edge in np.flatnonzero((graph.head < graph.n_live) & (graph.reward != 0)):
        ends = [int(graph.tail[edge]), int(graph.head[edge])]
        if inside[ends].all():
            cycle = _cycle(graph, inside, ends)
            if cycle.any():
                return exits, cycle
    for edge in np.flatnonzero((graph.head < graph.n_live) & (graph.reward != 0)):
        ends = [int(graph.tail[edge]), int(graph.head[edge])]
        found, around = _smallest_trap(graph, ends)
        if found < best[0]:
            cycle = _cycle(graph, around, ends)
            best = (found, cycle) if cycle.any() else best
    return best


def _smallest_trap(graph: _Graph, states: list[int]) -> tuple[float, BoolArray]:
    """Return the least total exit of a trap that holds given states, and it, ``[N]``.

    Every row of a trap has an entry that stays inside, for else its exits sum to 1 and
    cannot all vanish. Where the smallest cut leaves a row without one, each of its next
    states is tried as another member, best cuts first.
    """
    first = tuple(sorted(set(states)))
    queue = [(*_cut(graph, first), first)]
    seen = {first}
    for _ in range(_TRIES):
        if not queue:
            break
        queue.sort(key=lambda item: item[0])
        exits, inside, forced = queue.pop(0)
        if exits > 2.0:
            break
        leaves = _leaving_row(graph, inside)
        if leaves is None:
            return exits, inside
        state, next_states = leaves
        for more in next_states:
            wider = tuple(sorted({*forced, state, int(more)}))
            if wider not in seen:
                seen.add(wider)
                queue.append((*_cut(graph, wider), wider))
    return np.inf, np.zeros(graph.n_live, dtype=np.bool_)


def _leaving_row(graph: _Graph, inside: BoolArray) -> tuple[int, IntArray] | None:
    """State and live next states of a row that always leaves a set, if there is one."""
    member = inside[graph.tail]
    live = graph.head < graph.n_live
    stays = np.zeros(graph.row.size, dtype=np.bool_)
    stays[live] = inside[graph.head[live]]
    staying = np.unique(graph.row[member & stays])
    open_rows = np.setdiff1d(graph.row[member], staying)
    if open_rows.size == 0:
        return None
    entries = graph.row == open_rows[0]
    return int(graph.tail[entries][0]), np.unique(graph.head[entries & live])


def _cut(graph: _Graph, states: tuple[int, ...]) -> tuple[float, BoolArray]:
    """Return the least total exit of a set that holds given states, and it, ``[N]``."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    n = graph.n_live
    end, source = n, n + 1
    capacity = np.round(np.minimum(graph.concentration, _CAP) * _UNIT)
    tails = np.concatenate([graph.tail, np.full(len(states), source)])
    heads = np.concatenate([np.minimum(graph.head, end), states])
    capacity = np.concatenate([capacity, np.full(len(states), _UNCUT)])
    network = coo_array((capacity, (tails, heads)), shape=(n + 2, n + 2)).tocsr()
    network.data = np.minimum(network.data, _UNCUT).astype(np.int32)
    flow = maximum_flow(network, source, end)
    rest = network - flow.flow
    rest.eliminate_zeros()
    reached = breadth_first_order(rest, source, return_predecessors=False)
    inside = np.zeros(n + 2, dtype=np.bool_)
    inside[reached] = True
    return flow.flow_value / _UNIT, inside[:n]


def _cycle(graph: _Graph, inside: BoolArray, ends: list[int]) -> BoolArray:
    """States of a set, ``[N]``, on cycles through an edge; none where it has none."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = graph.n_live
    live = graph.head < n
    tail, head = graph.tail[live], graph.head[live]
    kept = inside[tail] & inside[head]
    circle = coo_array(
        (np.ones(int(kept.sum())), (tail[kept], head[kept])), shape=(n, n)
    )
    _, label = connected_components(circle.tocsr(), directed=True, connection="strong")
    same = label[ends[0]] == label[ends[1]]
    return np.asarray((label == label[ends[0]]) & inside & same)


def _names(problem: Problem, inside: BoolArray) -> str:
    return ", ".join(_name(problem, int(i)) for i in np.flatnonzero(inside)[:5])


def _name(problem: Problem, position: int) -> str:
    return problem.task.state_name(int(problem.order[position]))
