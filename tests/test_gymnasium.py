"""Gymnasium's tables as worlds, and logs of its environments.

Values are held against value iteration on ``env.unwrapped.P`` itself, written here, and
against figures computed elsewhere for gymnasium 1.4.
"""

import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from scipy import stats

import bayesmdp as bm
from bayesmdp.data import collect
from bayesmdp.errors import (
    ArgumentError,
    CountsError,
    DynamicsError,
    PolicyError,
    TaskError,
)
from bayesmdp.worlds import from_gymnasium

DISCOUNT = 0.99
# Optimal value from the start.
PUBLISHED = {
    "FrozenLake-v1": 0.5420259,
    "FrozenLake8x8-v1": 0.4146404,
    "CliffWalkingSlippery-v1": -46.35267,
    "Taxi-v4": 6.3274643,
}


class TableEnv(gymnasium.Env[int, int]):
    """An environment that does what its table says."""

    def __init__(self, table: Any, n_actions: int = 1, first: int = 0) -> None:
        self.P = table
        self.first = first
        self.observation_space = Discrete(len(table), start=first)
        self.action_space = Discrete(n_actions, start=first)
        self.starts = [0]
        self.s = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.s = int(self.np_random.choice(self.starts))
        return self.s + self.first, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        outcomes = self.P[self.s][action - self.first]
        which = self.np_random.choice(len(outcomes), p=[x[0] for x in outcomes])
        _, self.s, reward, terminated = outcomes[which]
        return self.s + self.first, reward, terminated, False, {}


# A round trip: the start is also where the episode ends; on the way, a detour.
ROUND_TRIP = {
    0: {0: [(1.0, 1, 0.0, False)]},
    1: {0: [(0.5, 0, 4.0, True), (0.25, 2, 0.0, False), (0.25, 1, -1.0, True)]},
    2: {0: [(1.0, 1, -2.0, False)]},
}


def iterated(table: Any, policy: np.ndarray | None = None) -> np.ndarray:
    """Value of every state of a table, by value iteration: optimal, or a policy's."""
    rows = [
        (s, a, *outcome)
        for s in range(len(table))
        for a in range(len(table[s]))
        for outcome in table[s][a]
    ]
    s, a, p, t, r, ends = (np.array(column) for column in zip(*rows, strict=True))
    shape = (len(table), len(table[0]))
    value = np.zeros(shape[0])
    for _ in range(5000):
        gain = p * (r + DISCOUNT * ~ends.astype(bool) * value[t])
        q = np.bincount(s * shape[1] + a, gain).reshape(shape)
        new = q.max(axis=1) if policy is None else (policy * q).sum(axis=1)
        if np.abs(new - value).max() < 1e-12:
            break
        value = new
    return value


def quietly(env: Any, **options: Any) -> bm.MDP:
    """Read a world of which it is known that rewards vary."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bm.BayesmdpWarning)
        return from_gymnasium(env, discount=DISCOUNT, **options)


def best(world: bm.MDP) -> np.ndarray:
    return world.value(bm.policies.nominal(bm.Ensemble([world.dynamics], world.task)))


@pytest.mark.parametrize("name", PUBLISHED)
def test_optimal_values_are_those_of_the_table_and_those_published(name: str) -> None:
    table = gymnasium.make(name).unwrapped.P
    world = quietly(name)
    value, reference = best(world), iterated(table)
    start = world.task.start
    assert start @ value == pytest.approx(PUBLISHED[name], rel=1e-6)
    assert start @ reference == pytest.approx(PUBLISHED[name], rel=1e-6)
    assert world.task.n_states == len(table)  # nothing had to be added


@pytest.mark.parametrize("name", [*PUBLISHED, "CliffWalking-v1"])
def test_values_of_any_policy_are_those_of_the_table_wherever_one_can_be(
    name: str,
) -> None:
    table = gymnasium.make(name).unwrapped.P
    world = quietly(name)
    rng = np.random.default_rng(0)
    policy = rng.dirichlet(np.ones(world.task.n_actions), size=world.task.n_states)
    live = reachable(table, world.task.start > 0)
    assert not (live & world.task.is_terminal).any()
    got, reference = world.value(policy), iterated(table, policy)
    assert np.allclose(got[live], reference[live], rtol=1e-8, atol=1e-8)
    assert (got[world.task.terminal] == 0).all()


def reachable(table: Any, mask: np.ndarray) -> np.ndarray:
    """Walk through the table from some states, as long as nothing ends."""
    todo, seen = list(np.flatnonzero(mask)), set(np.flatnonzero(mask).tolist())
    while todo:
        state = todo.pop()
        for action in table[state]:
            for p, t, _, ends in table[state][action]:
                if p > 0 and not ends and int(t) not in seen:
                    seen.add(int(t))
                    todo.append(int(t))
    return np.isin(np.arange(len(table)), list(seen))


def test_terminal_states_are_those_in_which_episodes_end() -> None:
    assert quietly("CliffWalkingSlippery-v1").task.terminal.tolist() == [47]
    taxi = from_gymnasium("Taxi-v4", discount=DISCOUNT)
    assert taxi.task.terminal.tolist() == [0, 85, 410, 475]
    assert np.count_nonzero(taxi.task.start) == 300


def test_a_state_that_ends_episodes_and_is_left_too_makes_an_end_of_its_own() -> None:
    with pytest.warns(bm.BayesmdpWarning, match="rewards vary in 1 .*state 1, act"):
        world = from_gymnasium(TableEnv(ROUND_TRIP), discount=DISCOUNT)
    assert world.task.state_labels == ("0", "1", "2", "end")
    assert world.task.terminal.tolist() == [3]
    assert world.task.start.tolist() == [1.0, 0.0, 0.0, 0.0]
    next_state, p = world.dynamics.row(1, 0)
    assert (next_state.tolist(), p.tolist()) == ([2, 3], [0.25, 0.75])
    value = world.value([0, 0, 0, 0])
    assert np.allclose(value[:3], iterated(ROUND_TRIP))
    # By hand: the mean of 4 and -1, two to one; the detour costs 2 and returns.
    mean = (0.5 * 4 - 0.25) / (1 - 0.25 * DISCOUNT**2)
    detour = 0.25 * DISCOUNT * -2 / (1 - 0.25 * DISCOUNT**2)
    assert value[1] == pytest.approx(mean + detour)


def test_every_state_of_taxi_has_its_tables_value_where_all_are_starts() -> None:
    world = from_gymnasium("Taxi-v4", discount=DISCOUNT, start="uniform")
    assert world.task.n_states == 501
    assert world.task.state("end") == 500
    table = gymnasium.make("Taxi-v4").unwrapped.P
    assert np.allclose(best(world)[:500], iterated(table))
    assert np.count_nonzero(world.task.start) == 496


def test_absorbing_states_may_say_that_they_go_on() -> None:
    table = [
        [[(0.5, 1, 1.0, True), (0.5, 0, 0.0, False)]],
        [[(1.0, 1, 0.0, False)]],  # nobody is there to take this step
    ]
    world = from_gymnasium(TableEnv(table), discount=0.5)
    assert world.task.terminal.tolist() == [1]
    assert world.value([0, 0]).tolist() == pytest.approx([0.5 / 0.75, 0.0])


def test_lists_will_do_and_outcomes_without_probability_do_not_count() -> None:
    table = [
        [[(1.0, 0, 1.0, False)], [(0.0, 1, 9.0, True), (1.0, 0, 0.0, False)]],
        [[(1.0, 0, 0.0, False)], []],
    ]
    world = from_gymnasium(TableEnv(table, 2), discount=0.5)
    assert world.task.terminal.size == 0
    assert world.available.tolist() == [[True, True], [True, False]]
    assert world.value([0, 0]).tolist() == [2.0, 1.0]


def test_the_mean_of_varied_rewards_is_said_aloud() -> None:
    with pytest.warns(bm.BayesmdpWarning, match="3 transitions .* state 36, action 0"):
        from_gymnasium("CliffWalkingSlippery-v1", discount=DISCOUNT)


def test_the_start_can_be_given_found_by_resets_or_read() -> None:
    env = gymnasium.make("FrozenLake-v1")
    assert from_gymnasium(env, discount=1, start=3).task.start[3] == 1
    even = np.full(16, 1 / 16)
    assert from_gymnasium(env, discount=0.5, start=even).task.start[5] == 1 / 16
    uniform = from_gymnasium(env, discount=0.5, start="uniform").task
    assert uniform.start[0] == 1 / 11
    assert uniform.terminal.size == 5
    loop = TableEnv({s: {0: [(1.0, s, 0.0, False)]} for s in range(3)})
    assert from_gymnasium(loop, discount=0.5).task.start.tolist() == [1, 0, 0]
    loop.starts = [0, 2]
    with pytest.warns(bm.BayesmdpWarning, match="1000 resets, which led to 2 states"):
        start = from_gymnasium(loop, discount=0.5).task.start
    assert start.sum() == 1
    assert abs(start[2] - 0.5) < 0.08  # five standard errors


def test_logs_follow_the_table() -> None:
    """Chi-square over all pairs seen; with this seed fixed, error rate 0.001."""
    log = collect("FrozenLake-v1", "uniform", 2000, seed=1)
    world = from_gymnasium("FrozenLake-v1", discount=DISCOUNT)
    expected, seen = world.dynamics.to_dense(), log.counts().to_dense()
    visits = seen.sum(axis=2, keepdims=True)
    assert seen[expected == 0].sum() == 0
    mask = (expected > 0) & (visits > 50)
    wanted = (expected * visits)[mask]
    chi = ((seen[mask] - wanted) ** 2 / wanted).sum()
    free = mask.sum() - (mask.any(axis=2)).sum()
    assert free > 50
    assert stats.chi2.sf(chi, free) > 0.001
    actions = visits.sum(axis=0).ravel()
    assert stats.chisquare(actions).pvalue > 0.001
    assert bm.fit(log, world.task, prior=bm.SymmetricPrior()).counts.total == log.n_rows


def columns(log: bm.Transitions) -> dict[str, np.ndarray]:
    return log.table.columns  # type: ignore[attr-defined]


def test_fewer_episodes_are_the_beginning_of_more() -> None:
    few, many, other = (
        columns(collect("Taxi-v4", None, n, seed, max_steps=20))
        for n, seed in ((3, 5), (6, 5), (3, 6))
    )
    for name, column in few.items():
        assert np.array_equal(column, many[name][: column.size])
    assert not np.array_equal(few["state"], other["state"])
    assert np.unique(many["state"][many["step"] == 0]).size > 3


def test_a_policy_is_followed_and_ends_are_told_from_cuts() -> None:
    right = np.full(48, 1)
    right[36] = 0
    right[35] = 2
    rows = columns(collect("CliffWalking-v1", right, 2, max_steps=13))
    assert rows["next_state"][:13].tolist() == [*range(24, 36), 47]
    assert np.flatnonzero(rows["terminated"]).tolist() == [12, 25]
    assert not rows["truncated"].any()  # it ended just before it would be cut off
    assert rows["reward"].tolist() == [-1.0] * 26
    cut = columns(collect("CliffWalking-v1", right, 1, max_steps=5))
    assert cut["truncated"].tolist() == [False] * 4 + [True]
    assert not cut["terminated"].any()
    limit = columns(collect("Taxi-v4", np.zeros(500, dtype=int), 1))
    assert limit["step"].size == 200  # the environment's own limit
    assert limit["truncated"][-1]
    assert columns(collect("CliffWalking-v1", np.zeros(48, int), 1))["step"][-1] == 999


def test_probabilities_of_actions_are_kept() -> None:
    """Binomial, error rate 0.001; action 2 has no probability and is never taken."""
    loop = TableEnv({0: {a: [(1.0, 0, 0.0, False)] for a in range(4)}}, 4)
    rows = columns(collect(loop, [[0.2, 0.8, 0.0, 0.0]], 2, seed=3))
    n = np.bincount(rows["action"], minlength=4)
    assert n[2:].sum() == 0
    assert stats.binomtest(int(n[0]), int(n.sum()), 0.2).pvalue > 0.001


def test_ids_are_counted_from_0_wherever_spaces_start() -> None:
    table = {
        0: {0: [(1.0, 1, 1.0, False)], 1: [(1.0, 2, 2.0, True)]},
        1: {0: [(1.0, 2, 1.0, True)], 1: [(1.0, 0, 0.0, False)]},
        2: {0: [], 1: []},
    }
    here, there = (
        columns(collect(TableEnv(table, 2, first), None, 20)) for first in (0, 7)
    )
    for name, column in here.items():
        assert np.array_equal(column, there[name])


def test_ends_get_a_state_of_their_own_where_they_need_one() -> None:
    env = TableEnv(ROUND_TRIP)
    world = quietly(env)
    with pytest.warns(bm.BayesmdpWarning, match="from 2 of the .* state 0.*add_"):
        collect(env, None, 30)
    log = collect(env, world.available.astype(float), 4000, seed=2, add_end=True)
    assert (columns(log)["next_state"][columns(log)["terminated"]] == 3).all()
    posterior = bm.fit(log, world.task, prior=bm.SparsePrior(1e-9))
    learnt = bm.MDP(posterior.mean(), world.task).value([0, 0, 0, 0])
    assert np.allclose(learnt, world.value([0, 0, 0, 0]), atol=0.1)


def test_progress_is_shown_to_people_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    collect("FrozenLake-v1", None, 3)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("bayesmdp._resources._PATIENCE", 0.0)
    collect("FrozenLake-v1", None, 3)
    out, err = capsys.readouterr()
    assert not out
    assert "collect" in err


def test_wrappers_count_when_run_and_are_looked_through_as_worlds() -> None:
    env = gymnasium.wrappers.TransformReward(
        gymnasium.make("FrozenLake-v1"), lambda reward: reward - 1
    )
    assert set(columns(collect(env, None, 5))["reward"].tolist()) <= {-1.0, 0.0}
    world = from_gymnasium(env, discount=DISCOUNT)
    assert world.task.start @ best(world) == pytest.approx(0.5420259, rel=1e-6)


def one(outcome: Any) -> TableEnv:
    """Return an environment of two states whose first step has this outcome."""
    return TableEnv({0: {0: [outcome]}, 1: {0: [(1.0, 1, 0.0, False)]}})


def without(env: TableEnv, **changes: Any) -> TableEnv:
    for name, value in changes.items():
        setattr(env, name, value)
    return env


LOOP = (1.0, 0, 0.0, False)
BAD_WORLDS: dict[str, tuple[Any, dict[str, Any], type, str]] = {
    "unknown": ("Lake-v1", {}, ArgumentError, "`env` 'Lake-v1' cannot be made"),
    "old": ("FrozenLake-v99", {}, ArgumentError, r"provides .*`v1`"),
    "malformed": ("", {}, ArgumentError, "Malformed"),
    "elsewhere": ("nowhere:X-v0", {}, ArgumentError, "No module named 'nowhere'"),
    "number": (3, {}, ArgumentError, "got int"),
    "no table": ("CartPole-v1", {}, ArgumentError, "CartPoleEnv has no table `P`"),
    "P of text": (without(one(LOOP), P="x"), {}, ArgumentError, "no table"),
    "row": (without(one(LOOP), P=[3, 4]), {}, DynamicsError, r"P\[0\]` must be a dict"),
    "pair": (one(LOOP), {}, DynamicsError, r"P\[0\]\[0\]` must be a dict .* int"),
    "box": (
        without(one(LOOP), observation_space=Box(0, 1)),
        {},
        ArgumentError,
        "observation_space` must be Discrete; got Box",
    ),
    "actions": (
        without(one(LOOP), action_space=Box(0, 1)),
        {},
        ArgumentError,
        "action_space` must be Discrete",
    ),
    "offset": (TableEnv({0: {0: [LOOP]}}, 1, 1), {}, ArgumentError, "from 0 .*start=1"),
    "triple": (one((1.0, 0, 0.0)), {}, DynamicsError, "state 0, action 0 has"),
    "words": (one((1.0, "a", 0.0, False)), {}, DynamicsError, "must hold outcomes"),
    "sum": (one((0.9, 0, 0.0, False)), {}, DynamicsError, "action 0 sums to 0.9"),
    "negative": (
        one((-1.0, 0, 0.0, False)),
        {},
        DynamicsError,
        "of 0 or more: state 0",
    ),
    "far": (one((1.0, 9, 0.0, False)), {}, DynamicsError, "in 0..1: state 0, action 0"),
    "half": (one((1.0, 0.5, 0.0, False)), {}, DynamicsError, "next states in 0..1"),
    "NaN": (one((1.0, 0, np.nan, False)), {}, DynamicsError, "finite .*state 0"),
    "flag": (one((1.0, 0, 0.0, 2)), {}, DynamicsError, "True or False"),
    "many actions": (
        TableEnv({0: {0: [LOOP], 1: [LOOP]}}, 1),
        {},
        DynamicsError,
        "actions in 0..0: state 0, action 1",
    ),
    "no actions": (TableEnv({0: {0: []}}), {}, DynamicsError, "no action for state 0"),
    "start": (one(LOOP), {"start": 2}, TaskError, "`start` must be in 0..1"),
    "start word": (one(LOOP), {"start": "home"}, TaskError, "'uniform'.* 'home'"),
    "start shape": (one(LOOP), {"start": [1.0]}, TaskError, "`start` must have shape"),
    "start sum": (one(LOOP), {"start": [0.5, 0.4]}, TaskError, "the sum is 0.9"),
    "discount": (one(LOOP), {"discount": 2}, TaskError, "`discount`"),
}
BAD_WORLDS["pair"] = (without(one(LOOP), P={0: {0: 5}}), *BAD_WORLDS["pair"][1:])


@pytest.mark.parametrize("name", BAD_WORLDS)
def test_bad_tables_are_refused(name: str) -> None:
    env, options, error, said = BAD_WORLDS[name]
    with pytest.raises(error, match=said) as caught:
        from_gymnasium(env, **{"discount": 0.9, **options})
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)


class Strange(TableEnv):
    """Shows and pays what it likes."""

    def __init__(self, shows: Any, pays: Any) -> None:
        TableEnv.__init__(self, {0: {0: [LOOP]}, 1: {0: [LOOP]}})
        self.shows, self.pays = shows, pays

    def step(self, action: int) -> tuple[Any, Any, bool, bool, dict]:
        return self.shows, self.pays, True, False, {}


LAKE = "FrozenLake-v1"
BAD_RUNS: dict[str, tuple[Any, Any, dict[str, Any], type, str]] = {
    "tuple": ("Blackjack-v1", None, {}, ArgumentError, "must be Discrete; got Tuple"),
    "vector": (
        gymnasium.vector.SyncVectorEnv([lambda: TableEnv(ROUND_TRIP)]),
        None,
        {},
        ArgumentError,
        "single Gymnasium .* SyncVectorEnv",
    ),
    "episodes": (LAKE, None, {"n_episodes": 0}, ArgumentError, "`n_episodes`"),
    "steps": (LAKE, None, {"max_steps": 0}, ArgumentError, "`max_steps`"),
    "end": (LAKE, None, {"add_end": 16}, ArgumentError, "`add_end` must be True"),
    "seed": (LAKE, None, {"seed": -1}, ArgumentError, "`seed`"),
    "policy name": (LAKE, "greedy", {}, PolicyError, "`policy` must hold numbers"),
    "policy shape": (LAKE, [0, 1], {}, PolicyError, "`policy` must have"),
    "policy sums": (LAKE, np.full((16, 4), 0.3), {}, PolicyError, "0 sums to 1.2"),
    "policy sign": (LAKE, np.eye(16, 4) * -1, {}, PolicyError, "state 0, action 0 has"),
    "policy action": (LAKE, [4] * 16, {}, PolicyError, "state 0 has 4"),
    "policy gap": (LAKE, np.zeros((16, 4)), {}, PolicyError, "no action for state 0"),
    "observation": (Strange(2, 0.0), None, {}, CountsError, r"in 0\.\.1.*met 2"),
    "fraction": (Strange(0.5, 0.0), None, {}, CountsError, "episode 0 met 0.5"),
    "reward": (Strange(0, "much"), None, {}, CountsError, "episode 0 was paid 'much'"),
    "NaN": (Strange(1, np.nan), None, {}, CountsError, "`reward` must be finite"),
}


@pytest.mark.parametrize("name", BAD_RUNS)
def test_bad_runs_are_refused(name: str) -> None:
    env, policy, options, error, said = BAD_RUNS[name]
    with pytest.raises(error, match=said) as caught:
        collect(env, policy, **{"n_episodes": 1, **options})
    assert type(caught.value) is error


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    for call in (
        lambda: from_gymnasium(LAKE, discount=0.9),
        lambda: collect(LAKE, 0, 1),
    ):
        with pytest.raises(ArgumentError, match=r'pip install "bayesmdp\[gym\]"'):
            call()
