"""Discount 1: whether every episode ends, and whether its mean exists.

Without a discount, a policy's chain must lead from every live state to a terminal one.
Where the dynamics are uncertain that is not enough: a set of states that the chain can
circle in, a trap, may hold it for so long that means do not exist. `_traps` has the
proof, and finds them. With ``f(C)`` the total concentration of a trap's exits:

- the mean of the value exists if ``f(C) > 1`` for every trap with rewards inside, its
  variance if ``f(C) > 2``;
- the mean number of visits exists if ``f(C) > 1`` for every trap.

Rewards on termination alone, or on the way out of traps, are bounded, and so is the
value. Any reward other than 0 between two states of a trap counts: also those that
cancel on each of its cycles, with which the value would be bounded.

Where it is uncertain which next states are possible, one without visits may be missing
altogether, with positive probability: it counts as a way to the end, and its
concentration as 0. A trap whose exits are all of this kind holds some draws for ever,
and is refused whatever the rewards are. (A row without visits has at least one next
state in its support. Where all of them are exits and only a fallback outside the
support stays inside, this takes the exits for smaller than they are.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._traps import Chain, Trap, find_trap
from bayesmdp.errors import EndlessError
from bayesmdp.posterior import Belief, Exits

_WHO = "this policy reaches no terminal state; choose another policy there"


@dataclass(frozen=True)
class Ending:
    """What discount 1 costs; nothing, for smaller discounts."""

    warning: str | None = None  # the variance over the posterior is infinite
    on_visits: str | None = None  # their mean is infinite, or may be

    @property
    def visits_exist(self) -> bool:
        """Whether the mean number of visits is finite."""
        return self.on_visits is None

    @property
    def notes(self) -> list[str]:
        """What users must know."""
        return [said for said in (self.warning, self.on_visits) if said]


def check_ending(problem: Problem, belief: Belief | None = None) -> tuple[Ending, ...]:
    """Refuse policies that do not end or have no mean; say what else to expect.

    Without a belief it is the mean model of the problem that must end.
    """
    if not problem.must_end:
        assert problem.anchors is not None  # refuses several closed classes
        return tuple(Ending() for _ in problem.policies)
    known = np.where(problem.rows.mean > 0, np.inf, 0.0)
    exits = [Exits(problem.rows.mean, known)]
    if belief is not None:
        entries = belief.rows().layout.entries_of(problem.rows.row)
        exits = [Exits(x.alpha[entries], x.sure[entries]) for x in belief.exits()]
    return tuple(_check_policy(problem, policy, exits) for policy in problem.policies)


def _check_policy(
    problem: Problem, policy: FloatArray, exits: Sequence[Exits]
) -> Ending:
    """Check one policy ``[R]``, in every model or component that can be drawn."""
    found = [_check_component(problem, policy, x.alpha, x.sure) for x in exits]
    return Ending(
        next((ending.warning for ending in found if ending.warning), None),
        next((ending.on_visits for ending in found if ending.on_visits), None),
    )


def _check_component(
    problem: Problem, policy: FloatArray, alpha: FloatArray, sure: FloatArray
) -> Ending:
    """Check a policy ``[R]`` with rows ``[E]``; ``sure`` is 0 where uncertain."""
    chain = _chain(problem, policy, alpha, sure)
    _checked_distance(problem, chain, _WHO)
    if (chain.concentration == 0).any():
        _refuse_closed(problem, find_trap(chain, 0.0, paid=False))
    visits = find_trap(chain, 1.0, paid=False)
    if visits is not None:
        _refuse_infinite(problem, find_trap(chain, 1.0, paid=True))
    slow = find_trap(chain, 2.0, paid=True)
    return Ending(_on_variance(problem, slow), _on_visits(visits))


def _refuse_closed(problem: Problem, trap: Trap | None) -> None:
    """Refuse a trap that some draws never leave."""
    if trap is not None:
        raise EndlessError(
            f"With discount 1 every episode must end, but in some draws none does "
            f"from state(s) {_names(problem, trap)}: under this prior it may be "
            "that no next state outside is possible; add one with FallbackPrior, "
            "or use a discount below 1."
        )


def _refuse_infinite(problem: Problem, trap: Trap | None) -> None:
    """Refuse a trap with rewards and exits up to 1."""
    if trap is None:
        return
    if np.isnan(trap.exits):
        raise EndlessError(
            "With discount 1 the posterior mean may be infinite: whether some cycle "
            f"among state(s) {_names(problem, trap)} has exits of concentration 1 or "
            "less takes too long to decide; raise the prior's concentration, or use a "
            "discount below 1."
        )
    raise EndlessError(
        f"With discount 1 and rewards along the way the posterior mean is infinite: "
        f"{_exits(problem, trap)}, which must be above 1; raise the prior's "
        "concentration, or use a discount below 1."
    )


def _on_variance(problem: Problem, trap: Trap | None) -> str | None:
    """Say what a trap with rewards and exits up to 2 does to standard deviations."""
    if trap is None:
        return None
    if np.isnan(trap.exits):
        return (
            "With discount 1 the variance over the posterior may be infinite: whether "
            f"some cycle among state(s) {_names(problem, trap)} has exits of "
            "concentration 2 or less takes too long to decide; do not rely on standard "
            "deviations and errors."
        )
    return (
        f"With discount 1 the variance over the posterior is infinite: "
        f"{_exits(problem, trap)}, which must be above 2; standard deviations and "
        "errors are not to be believed."
    )


def _on_visits(trap: Trap | None) -> str | None:
    """Say what a trap with exits up to 1 does to occupancies."""
    if trap is None:
        return None
    known = "may be" if np.isnan(trap.exits) else "is"
    return (
        f"The posterior mean of `occupancy` {known} infinite in some states: it is NaN "
        "in all but the terminal ones. Values are not affected."
    )


def _checked_distance(problem: Problem, chain: Chain, who: str) -> IntArray:
    """Count steps from each state to the end; refuse where there is no way."""
    distance = _distance_to_end(chain)
    stuck = distance < 0
    if stuck.any():
        raise EndlessError(
            f"With discount 1 every episode must end, but from state "
            f"{_name(problem, int(np.argmax(stuck)))} {who}, or use a discount below 1."
        )
    return distance


def nearest_rows(problem: Problem, who: str) -> IntArray:
    """Return rows ``[N]`` that may lead nearer to the end: a policy that ends.

    ``who`` says of a state, when it is refused, that it has none, and the remedy.
    """
    every = np.ones(problem.rows.source.size)
    chain = _chain(problem, every, problem.rows.mean, problem.rows.mean)
    distance = _checked_distance(problem, chain, who)
    row = np.repeat(np.arange(problem.rows.source.size), np.diff(problem.rows.indptr))
    row = row[problem.rows.mean > 0]
    nearer = distance[chain.head] < distance[chain.tail]
    choice = np.empty(problem.n_live, dtype=np.int64)
    choice[chain.tail[nearer][::-1]] = row[nearer][::-1]  # the first such row stays
    return choice


def _chain(
    problem: Problem, policy: FloatArray, weight: FloatArray, sure: FloatArray
) -> Chain:
    """Entries under a policy ``[R]`` where ``weight`` [E] is above 0.

    ``sure`` [E] is their concentration, 0 where one may be missing from a draw.
    """
    row = np.repeat(np.arange(policy.size), np.diff(problem.rows.indptr))
    used = (policy[row] > 0) & (weight > 0)
    return Chain(
        np.arange(problem.n_live),
        np.cumsum(np.diff(row[used], prepend=-1) > 0) - 1,
        problem.rows.source[row[used]],
        np.minimum(problem.rows.target[used], problem.n_live).astype(np.int64),
        sure[used],
        (problem.reward[problem.discounts == 1][:, used] != 0).any(axis=0),
    )


def _distance_to_end(chain: Chain) -> IntArray:
    """Count steps from each state to the end, ``[N + 1]``; -1 where there is no way."""
    distance = np.full(chain.n + 1, -1)
    distance[chain.n] = step = 0
    while True:
        reached = (distance[chain.head] == step) & (distance[chain.tail] < 0)
        if not reached.any():
            return distance
        step += 1
        distance[chain.tail[reached]] = step


def _exits(problem: Problem, trap: Trap) -> str:
    where = f"the cycle through state(s) {_names(problem, trap)}"
    return f"{where} has exits of concentration {trap.exits:g}"


def _names(problem: Problem, trap: Trap) -> str:
    return ", ".join(_name(problem, int(i)) for i in trap.state[:5])


def _name(problem: Problem, position: int) -> str:
    return problem.task.state_name(int(problem.rows.order[position]))
