"""Discount 1: which sets of states have no mean or variance, by looking at all sets."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import scipy.sparse.csgraph
from ending_cases import KINDS, expected, outcome, random_case

import bayesmdp as bm
from bayesmdp.errors import EndlessError

Edges = list[tuple[int, int, int]]  # (state, next_state, count)


def fitted(edges: Edges, concentration: float, pays: Any, n_ends: int = 1) -> Any:
    """Fit a one-action task whose last states are terminal.

    The reward is -1 in states, or on transitions, that pay.
    """
    state, next_state, count = np.array(edges).T
    n_states, action = int(next_state.max()) + 1, np.zeros_like(state)
    reward = np.zeros((n_states, 1, n_states))
    for where in pays:
        at, to = where if isinstance(where, tuple) else (where, slice(None))
        reward[at, 0, to] = -1.0
    ends = list(range(n_states - n_ends, n_states))
    task = bm.Task(n_states, 1, reward, discount=1, start=0, terminal=ends)
    entries = [x[count > 0] for x in (state, action, next_state, count)]
    counts = bm.Counts.from_arrays(*entries, n_states=n_states, n_actions=1)
    prior = bm.SymmetricPrior(concentration, support=(state, action, next_state))
    return bm.fit(counts, task, prior=prior)


def evaluated(posterior: bm.Posterior, n_draws: int = 16, **more: Any) -> bm.Evaluation:
    policy = np.zeros(posterior.task.n_states, dtype=np.int64)
    return bm.evaluate(policy, posterior.draws(n_draws, seed=1), **more)


@pytest.mark.parametrize("kind", ["plain", *KINDS])
def test_what_is_said_is_what_all_sets_of_states_say(kind: str) -> None:
    rng = np.random.default_rng(11)
    cases = [random_case(rng, kind) for _ in range(300 if kind == "plain" else 40)]
    found = Counter((expected(case), outcome(case)) for case in cases)
    assert all(wanted == said for wanted, said in found)
    assert len({wanted.value for wanted, _ in found}) > 1


def test_a_state_that_always_leaves_hides_no_trap() -> None:
    """P(leave 0) is Beta(0.8, 3.4); {0, 1, 2, 3} has exits of 0.4, and is no trap."""
    edges = [(0, 0, 3), (0, 1, 0), (0, 2, 0), (1, 3, 0), (2, 3, 0), (3, 4, 0)]
    with pytest.raises(EndlessError, match=r"state\(s\) 0 has .* concentration 0\.8,"):
        evaluated(fitted(edges, 0.4, pays=range(4)))


def test_a_paid_cycle_is_judged_by_its_own_exits() -> None:
    """0 and 1 go round until 2, an unpaid self-loop with an exit of 0.4.

    P(1 to 2) is Beta(6.4, 3.4), and the value -2 over it.
    """
    edges = [(0, 1, 1), (1, 0, 3), (1, 2, 6), (2, 2, 1), (2, 3, 0)]
    posterior = fitted(edges, 0.4, pays=[0, 1])
    with pytest.warns(bm.BayesmdpWarning, match="`occupancy` is infinite") as record:
        found = evaluated(posterior, 100_000)
    assert len(record) == 1
    a, b = 3.4, 6.4
    mean = -2 * (a + b - 1) / (b - 1)
    square = 4 * (a + b - 1) * (a + b - 2) / ((b - 1) * (b - 2))
    error = np.sqrt((square - mean**2) / 100_000)
    assert abs(found.start_value - mean) < 5 * error  # of 10^6 seeds, one fails
    with pytest.raises(EndlessError, match=r"state\(s\) 2 has"):
        evaluated(fitted(edges, 0.4, pays=[0, 1, 2]))


# The smallest cut around a paid transition holds more, or less, than its trap.
HIDDEN: dict[str, tuple[list[Edges], float, Any, int, str]] = {
    "without an unpaid loop, from which there is no cheap way back": (
        [
            [(0, 1, 5), (1, 2, 5), (2, 0, 5), (0, 3, 0), (1, 3, 0), (2, 3, 0)],
            [(3, 3, 5), (3, 4, 0), (3, 5, 0)],
            [(4, 0, 1), (4, 5, 0), (4, 6, 0), (4, 7, 0)],
        ],
        0.3,
        [(0, 1)],
        3,
        "0, 1, 2 has exits of concentration 0.9",
    ),
    "with the second of two ways back from an unpaid cycle": (
        [
            [(0, 1, 3), (1, 2, 3), (2, 1, 3), (2, 5, 0), (1, 3, 0), (1, 4, 0)],
            [(3, 0, 9), (3, 5, 0), (3, 6, 0), (3, 7, 0), (3, 8, 0)],
            [(4, 0, 3), (4, 5, 0), (4, 6, 0)],
        ],
        0.2,
        [(0, 1)],
        4,
        "0, 1, 2, 4 has exits of concentration 0.8",
    ),
    "with a state whose own reward is on the way out": (
        [
            [(0, 1, 0), (0, 2, 1), (2, 3, 3), (2, 4, 0), (3, 0, 3)],
            [(1, 0, 9), (1, 4, 0), (1, 5, 0), (1, 6, 0)],
        ],
        0.3,
        [(0, 1), (3, 0)],
        3,
        "0, 2, 3 has exits of concentration 0.6",
    ),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_trap_is_found_behind_other_sets(name: str) -> None:
    parts, concentration, pays, n_ends, said = HIDDEN[name]
    edges = [edge for part in parts for edge in part]
    with pytest.raises(EndlessError, match=rf"state\(s\) {said},"):
        evaluated(fitted(edges, concentration, pays, n_ends))


def test_exits_of_all_actions_in_use_count_together() -> None:
    task = bm.Task(2, 2, [1.0, 0.0], discount=1, terminal=[1])
    counts = bm.Counts.from_arrays([0, 0], [0, 1], [0, 0], [3, 3], n_states=2)
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior(0.6))
    for action in (0, 1):
        with pytest.raises(EndlessError, match=r"concentration 0\.6, .* above 1"):
            bm.evaluate([action, 0], posterior.draws(16))
    with pytest.warns(bm.BayesmdpWarning, match=r"concentration 1\.2, .* above 2"):
        bm.evaluate([[0.1, 0.9], [1, 0]], posterior.draws(16))


def test_what_takes_too_long_to_decide_is_refused() -> None:
    """State 0 needs all of 60 others, each of these one of three out of 30.

    Each of the 30 adds exits of 0.08: a smallest hitting set is asked for.
    """
    rng = np.random.default_rng(0)
    needs = [(0, 1 + i, 3) for i in range(60)]
    one_of = [(1 + i, 61 + j, 0) for i in range(60) for j in rng.permutation(30)[:3]]
    back = [(61 + j, 0, 3) for j in range(30)]
    out = [(61 + j, 91 + k, 0) for j in range(30) for k in range(40)]
    posterior = fitted([*needs, *one_of, *back, *out], 0.002, pays=[0], n_ends=40)
    with pytest.raises(
        EndlessError, match=r"may be infinite: whether .* too long to d"
    ):
        evaluated(posterior)


def test_rows_over_all_states_need_no_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_flow(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(scipy.sparse.csgraph, "maximum_flow", no_flow)
    n = 100
    state = np.arange(n - 1)
    task = bm.Task(n, 1, np.ones((n, 1)), discount=1.0, terminal=[n - 1])
    counts = bm.Counts.from_arrays(state, 0 * state, (state + 1) % (n - 1))
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior(0.05))
    assert evaluated(posterior, 64).notes == ()
    narrow = fitted([(0, 0, 3), (0, 1, 0)], 0.5, pays=[0])
    with pytest.raises(AssertionError):  # others do
        evaluated(narrow)
