"""Off-policy estimates: against loops, by hand, and problems with known values."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp._typing import FloatArray
from bayesmdp.evaluation import OffPolicy
from studies import off_policy_problems as problems

NAMES = ("IS", "WIS", "PDIS", "PDWIS", "DR", "WDR")


def plain(
    log: bm.Transitions, task: bm.Task, pi: FloatArray, b: FloatArray | None = None
) -> dict[str, float]:
    """Estimate with loops over episodes and steps, ratios padded with 1."""
    e = bm.model.logged_episodes(log, task)
    counts = e.counts().to_dense()
    visits = counts.sum(axis=2)
    if b is None:
        b = visits / np.maximum(visits.sum(axis=1, keepdims=True), 1)
    pi = np.where(b > 0, pi, 0.0)
    for s in range(task.n_states):
        pi[s] = pi[s] / pi[s].sum() if pi[s].any() else b[s]
    episodes = [
        range(first, stop)
        for first, stop in zip(e.start[:-1], e.start[1:], strict=True)
    ]
    n, horizon, g = len(episodes), max(map(len, episodes)), task.discount
    p = counts / np.maximum(visits, 1)[:, :, None]
    reward = np.zeros_like(p)
    reward[e.state, e.action, e.next_state] = e.reward
    value = np.zeros((horizon + 1, task.n_states))
    q = np.zeros((horizon, task.n_states, task.n_actions))
    for t in reversed(range(horizon)):
        q[t] = (p * (reward + g * value[t + 1])).sum(axis=2)
        value[t] = (pi * q[t]).sum(axis=1)
    w = np.ones((n, horizon + 1))  # w[:, t + 1] is after step t
    r, left, ahead = np.zeros((3, n, horizon))
    for i, rows in enumerate(episodes):
        for t in range(horizon):
            ratio = 1.0
            if t < len(rows):
                s, a = e.state[rows[t]], e.action[rows[t]]
                ratio = pi[s, a] / b[s, a]
                r[i, t] = e.reward[rows[t]]
                left[i, t] = r[i, t] - q[t, s, a]
                ahead[i, t] = value[t, s]
            w[i, t + 1] = w[i, t] * ratio
    returns = [sum(g**t * r[i, t] for t in range(horizon)) for i in range(n)]
    found = dict.fromkeys(NAMES, 0.0)
    for i in range(n):
        found["IS"] += w[i, -1] * returns[i] / n
        found["WIS"] += w[i, -1] * returns[i] / w[:, -1].sum()
        for t in range(horizon):
            found["PDIS"] += g**t * w[i, t + 1] * r[i, t] / n
            found["PDWIS"] += g**t * w[i, t + 1] * r[i, t] / w[:, t + 1].sum()
            found["DR"] += g**t * (w[i, t + 1] * left[i, t] + w[i, t] * ahead[i, t]) / n
            found["WDR"] += g**t * w[i, t + 1] * left[i, t] / w[:, t + 1].sum()
            found["WDR"] += g**t * w[i, t] * ahead[i, t] / w[:, t].sum()
    return found


@pytest.mark.parametrize("known", [False, True], ids=["frequencies", "known"])
@pytest.mark.parametrize(
    "problem",
    [problems.model_win, problems.model_fail, problems.graph, problems.gridworld],
    ids=lambda x: x.__name__,
)
def test_estimates_are_those_of_the_formulas(
    problem: "problems.Maker", known: bool
) -> None:
    made = problem()
    log = made.log(3, n_episodes=60)
    b = made.behaviour[: made.task.n_states] if known else None
    found = bm.off_policy(made.judged, log, made.task, behaviour=b, n_groups=0)
    wanted = plain(log, made.task, made.judged, b)
    assert found.estimates == pytest.approx(wanted, rel=1e-11)


@pytest.mark.filterwarnings("ignore:The effective sample size")
def test_formulas_hold_for_ragged_open_episodes_and_actions_never_logged() -> None:
    """Episodes of different length that stop anywhere, in states of few visits."""
    world = bm.worlds.synthetic(1, n_states=20)
    rng = np.random.default_rng(0)
    b, pi = rng.dirichlet(np.full(5, 0.5), (2, 20))
    b[3], pi[3] = np.eye(5)[:2]  # nothing left
    parts = [
        bm.model.logged_episodes(
            world.simulate(b, 12, seed=i, max_steps=i + 1), world.task
        )
        for i in range(6)
    ]
    log = bm.Transitions.from_arrays(
        *(
            np.concatenate([getattr(x, name) for x in parts])
            for name in ("state", "action", "next_state")
        ),
        episode=np.concatenate([x.episode + 100 * i for i, x in enumerate(parts)]),
    )
    found = bm.off_policy(pi, log, world.task, n_groups=0)
    assert found.estimates == pytest.approx(plain(log, world.task, pi), rel=1e-11)
    assert found.n_open == found.n_episodes == 72
    logged = log.counts().pair_totals(20, 5) > 0
    visits = log.counts().pair_totals(20, 5).sum(axis=1)
    lost = (visits @ np.where(logged, 0, pi).sum(axis=1)) / visits.sum()
    assert found.unlogged == pytest.approx(lost, rel=1e-12)
    assert 0.01 < lost < 0.99


TASK = bm.Task(3, 2, reward=[[1, 0], [0, 4], [0, 0]], discount=0.5, terminal=2)
# three episodes: 0 -a0-> 1 -a1-> end, 0 -a1-> end, 0 -a0-> end
LOG = bm.Transitions.from_arrays(
    [0, 1, 0, 0], [0, 1, 1, 0], [1, 2, 2, 2], episode=[0, 0, 1, 2], n_actions=2
)


@pytest.mark.filterwarnings("ignore:The effective sample size")
def test_three_episodes_by_hand() -> None:
    """b(a0|0) = 2/3; pi(a0|0) = 1/3: ratios 1/2 and 2, and 1 in state 1.

    Weights at the end 1/2, 2, 1/2; returns 1 + 4/2 = 3, 0, 1.
    """
    pi = np.array([[1 / 3, 2 / 3], [0, 1], [0, 0]])
    found = bm.off_policy(pi, LOG, TASK)
    assert found.estimates["IS"] == pytest.approx((0.5 * 3 + 0.5 * 1) / 3)
    assert found.estimates["WIS"] == pytest.approx(2 / 3)
    # step 0 pays 1 to weights 1/2 and 1/2; step 1 pays 4 to weight 1/2
    assert found.estimates["PDIS"] == pytest.approx((1 + 0.5 * 2) / 3)
    assert found.estimates["PDWIS"] == pytest.approx(1 / 3 + 0.5 * 2 / 3)
    size = 3**2 / (0.25 + 4 + 0.25)  # at every step
    assert found.effective_sample_size == pytest.approx(dict.fromkeys(NAMES, size))
    assert found.observed_value == pytest.approx(4 / 3)
    assert found.observed_se == pytest.approx(np.std([3, 0, 1], ddof=1) / math.sqrt(3))
    assert set(found.intervals.values()) == {None}
    assert "below 10" in found.notes[0]


def test_effective_sizes_are_those_of_the_steps_that_pay() -> None:
    """Where the first step pays all, later weights do not matter to PDIS."""
    made = problems.graph()
    pay = np.zeros((9, 2))
    pay[0] = 1, 2
    log = made.log(0)
    sizes = []
    for task in (made.task, replace_reward(made.task, pay)):
        found = bm.off_policy(made.judged, log, task, n_groups=0)
        sizes.append(found.effective_sample_size)
    e = bm.model.logged_episodes(log, made.task)
    first = e.action[e.start[:-1]]
    ratio = made.judged[0] / np.bincount(first) * first.size
    w = ratio[first]
    assert sizes[1]["PDIS"] == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert sizes[1]["IS"] == sizes[0]["IS"] < sizes[0]["PDWIS"] < sizes[1]["PDWIS"]


def replace_reward(task: bm.Task, reward: FloatArray) -> bm.Task:
    return bm.Task(
        task.n_states,
        task.n_actions,
        reward,
        discount=task.discount,
        start=task.start,
        terminal=task.terminal,
    )


def test_the_behaviour_itself_has_the_mean_return() -> None:
    """With logged frequencies every ratio is 1: exactly so without a model."""
    made = problems.model_win()
    log = made.log(5)
    visits = log.counts().pair_totals(4, 2).astype(float)
    visits[3] = 1
    b = visits / visits.sum(axis=1, keepdims=True)
    found = bm.off_policy(b, log, made.task)
    for name in NAMES[:4]:
        assert found.estimates[name] == pytest.approx(found.observed_value, rel=1e-12)
        assert found.effective_sample_size[name] == pytest.approx(200)
        assert found.intervals[name][0] < found.observed_value
    for name in NAMES[4:]:
        error = abs(found.estimates[name] - found.observed_value)
        assert error < 2 * found.observed_se


def test_order_of_rows_and_scale_of_rewards() -> None:
    made = problems.graph()
    log = made.log(2)
    found = bm.off_policy(made.judged, log, made.task)
    (batch,) = log.episodes()
    mixed = np.random.default_rng(0).permutation(batch.state.size)
    turned = bm.Transitions.from_arrays(
        batch.state[mixed],
        batch.action[mixed],
        batch.next_state[mixed],
        episode=batch.episode[mixed],
        step=batch.step[mixed],
    )
    again = bm.off_policy(made.judged, turned, made.task)
    assert again.estimates == pytest.approx(found.estimates, rel=1e-12)
    dense = np.zeros((9, 2, 9))
    rows = made.world.dynamics.rows
    s, a = rows.state[rows.row_of_entry], rows.action[rows.row_of_entry]
    pay = made.task.transition_reward(s, a, rows.next_state)
    dense[s, a, rows.next_state] = 10 * pay
    larger = bm.off_policy(made.judged, log, replace_reward(made.task, dense))
    for name in NAMES:
        assert larger.estimates[name] == pytest.approx(10 * found.estimates[name])
        assert larger.intervals[name] == pytest.approx(
            tuple(10 * x for x in found.intervals[name])
        )


@pytest.mark.filterwarnings("ignore:The effective sample size")
@pytest.mark.parametrize(
    ("problem", "value"),
    [
        # a cycle pays (1 - 2 p) 0.2 at its second step, and goes on with 0.8
        (problems.model_win, 0.99 * 0.4 * 0.2 / (1 - 0.99**2 * 0.8)),
        (problems.model_fail, 0.99**2 * (2 * 0.3 - 1)),
        (problems.graph, 0.3 * (1 - 0.99**4) / 0.01),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_without_bias_where_the_behaviour_is_known(
    problem: "problems.Maker", value: float
) -> None:
    """Mean of 200 logs of 100 episodes; false alarm of one of 9 below 1e-3 (z < 4)."""
    made = problem()
    assert made.value == pytest.approx(value)
    b = made.behaviour[: made.task.n_states]
    logs = [made.log(seed, n_episodes=100) for seed in range(200)]
    found = [
        bm.off_policy(made.judged, log, made.task, behaviour=b, n_groups=0).estimates
        for log in logs
    ]
    for name in ("IS", "PDIS", "DR"):  # DR but for the model's share of each episode
        x = np.array([estimates[name] for estimates in found])
        z = (x.mean() - value) / (x.std(ddof=1) / math.sqrt(x.size))
        assert abs(z) < 4, name
        assert x.std() > 0.01


def test_a_model_is_biased_where_states_look_alike_and_weights_are_not() -> None:
    """ModelFail, 20,000 episodes: the posterior is sure of another value."""
    made = problems.model_fail()
    log = made.log(0, n_episodes=20_000)
    found = bm.off_policy(made.judged, log, made.task)
    for name in NAMES:
        low, high = found.intervals[name]
        assert low - 0.01 < made.value < high + 0.01  # 95 %, with room to spare
        assert high - low < 0.05
    posterior = bm.fit(log, made.task, prior=bm.SymmetricPrior())
    believed = bm.evaluate(made.judged, posterior.draws(200))
    gap = believed.start_value - made.value
    assert gap > 10 * believed.start_epistemic_sd > 0


def test_intervals_are_those_of_the_jackknife() -> None:
    """As many groups as episodes: leave out each episode in turn."""
    made = problems.model_fail()
    log = made.log(1, n_episodes=30)
    found = bm.off_policy(made.judged, log, made.task)
    assert found.n_groups == 30
    e = bm.model.logged_episodes(log, made.task)
    without = []
    for out in range(30):
        kept = e.episode != out
        some = bm.Transitions.from_arrays(
            e.state[kept], e.action[kept], e.next_state[kept], episode=e.episode[kept]
        )
        without.append(list(plain(some, made.task, made.judged).values()))
    se = np.std(without, axis=0) * math.sqrt(29)
    for i, name in enumerate(NAMES):
        low, high = found.intervals[name]
        assert (high - low) / 2 == pytest.approx(2.045230 * se[i], rel=1e-6)  # t, 29
        assert (high + low) / 2 == pytest.approx(found.estimates[name])


def test_a_policy_that_is_chosen_on_the_log_is_judged_on_other_episodes() -> None:
    """With no effect at all, the same log flatters its choice; 40 logs, z of 3."""
    made = problems.no_effect()

    def choose(counts: bm.Counts, task: bm.Task) -> FloatArray:
        return bm.policies.mle(bm.fit(counts, task, prior=bm.SymmetricPrior()))

    same, fair = [], []
    for seed in range(40):
        log = made.log(seed)
        chosen = choose(log.counts(), made.task)
        same.append(bm.off_policy(chosen, log, made.task, n_groups=0).estimates)
        fair.append(bm.off_policy(choose, log, made.task, n_groups=0).estimates)
    for name in ("WIS", "WDR"):
        flattered, honest = (np.array([x[name] for x in y]) for y in (same, fair))
        assert flattered.mean() - 0.5 > 3 * flattered.std() / math.sqrt(40) > 0
        assert abs(honest.mean() - 0.5) < 3 * honest.std() / math.sqrt(40)
        assert flattered.mean() > 0.6


def test_folds_are_averaged() -> None:
    """A function that returns one policy: folds see it on their own episodes."""
    made = problems.graph()
    log = made.log(0, n_episodes=90)
    seen = []

    def same(counts: bm.Counts, task: bm.Task) -> FloatArray:
        seen.append(counts.total)
        return made.judged

    found = bm.off_policy(same, log, made.task, n_folds=3, seed=4)
    assert seen == [240, 240, 240]  # four rows of 60 episodes
    assert found.n_folds == 3
    whole = bm.off_policy(made.judged, log, made.task)
    assert found.observed_value == whole.observed_value
    assert found.estimates["WIS"] == pytest.approx(whole.estimates["WIS"], abs=0.3)
    size = found.effective_sample_size["WIS"]
    assert size == pytest.approx(whole.effective_sample_size["WIS"], rel=0.2)
    other = bm.off_policy(same, log, made.task, n_folds=3, seed=5)
    assert other.estimates != found.estimates


def test_what_has_no_weight_left_has_no_value() -> None:
    """The policy leaves one episode at its first step, the other at its second."""
    log = bm.Transitions.from_arrays(
        [0, 1, 0, 1], [0, 1, 1, 0], [1, 2, 1, 2], episode=[0, 0, 1, 1], n_actions=2
    )
    with pytest.warns(bm.BayesmdpWarning) as told:
        found = bm.off_policy([0, 0, 0], log, TASK)
    assert found.estimates["IS"] == 0
    assert found.estimates["PDIS"] == pytest.approx(1)
    assert math.isnan(found.estimates["WIS"])
    assert math.isnan(found.estimates["PDWIS"])
    assert found.effective_sample_size["IS"] == 0
    assert found.unlogged == 0
    said = [str(x.message) for x in told]
    assert said == list(found.notes)
    assert said[0].startswith("WIS, PDWIS, WDR cannot be estimated")
    assert found.to_dict()["estimates"]["WIS"] is None
    assert "none" in found.summary()


@pytest.mark.filterwarnings("ignore:Every episode keeps one action")
def test_weights_that_overflow_leave_one_episode() -> None:
    """Two thousand steps that the behaviour takes once in two: 2^2000."""
    n = 2000
    state, step = np.zeros(2 * n, dtype=int), np.tile(np.arange(n), 2)
    action = np.concatenate([np.zeros(n, dtype=int), np.ones(n, dtype=int)])
    log = bm.Transitions.from_arrays(
        state, action, state, episode=np.repeat([0, 1], n), step=step, n_states=1
    )
    task = bm.Task(1, 2, reward=[[1.0, 0.0]], discount=0.9)
    with pytest.warns(bm.BayesmdpWarning, match="effective sample size"):
        found = bm.off_policy([[1.0, 0.0]], log, task)
    assert found.estimates["WIS"] == pytest.approx(10)
    assert found.notes[0].startswith("2 of 2 episodes did not reach a terminal state")
    assert found.effective_sample_size["WIS"] == pytest.approx(1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("policy", "log", "options", "said"),
    [
        ([0, 0, 0], bm.Transitions.from_arrays([0], [0], [1]), {}, "no `episode` col"),
        (
            [0, 0, 0],
            bm.Transitions.from_arrays([0, 1], [0, 1], [1, 2], episode=[1, 1]),
            {},
            "one episode only.*more episodes",
        ),
        (
            [0, 0, 0],
            bm.Transitions.from_arrays([0, 0], [1, 1], [2, 2], episode=[1, 2]),
            {},
            "one action only, 1:.*actions differ",
        ),
        (
            [1, 0, 0],
            bm.Transitions.from_arrays([0, 1], [0, 1], [2, 2], episode=[0, 1]),
            {},
            "do not overlap.*bm.evaluate",
        ),
        ([0, 2, 0], LOG, {}, "must hold actions in 0..1: state 1 has 2"),
        (lambda counts, task: [0, 2, 0], LOG, {}, "each fold needs two"),
        ([0, 0, 0], LOG, {"behaviour": [0, 0, 0]}, "`behaviour` gives probability 0"),
        ([0, 0, 0], LOG, {"n_groups": 1}, "`n_groups` must be at least 2, or 0"),
        ([0, 0, 0], LOG, {"name": 3}, "`name`"),
        (lambda counts, task: [0] * 3, LOG, {"n_folds": 1}, "`n_folds` must be at"),
    ],
)
def test_refusals_name_the_remedy(
    policy: object, log: bm.Transitions, options: dict[str, object], said: str
) -> None:
    with pytest.raises(bm.BayesmdpError, match=said):
        bm.off_policy(policy, log, TASK, **options)  # type: ignore[arg-type]


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    made = problems.graph()
    found = bm.off_policy(made.judged, made.log(0), made.task, name="more up")
    belief = bm.fit(made.log(0), made.task)
    path = bm.storage.save(belief, tmp_path / "run")
    none = replace(found, estimates=dict.fromkeys(NAMES, math.nan))
    for name, kept in (("found", found), ("none", none)):
        bm.storage.save_result(path, name, kept)
        again = bm.storage.load_result(path, name, OffPolicy)
        assert again.to_dict() == kept.to_dict()
        assert again.summary() == kept.summary() == str(kept)
    assert math.isnan(again.estimates["IS"])
    lines = found.summary().splitlines()
    assert lines[0] == "Off-policy estimates of more up from 200 episodes"
    assert [x.split()[0] for x in lines[2:9]] == ["logged", *NAMES]
    assert "more up" in found._repr_html_()
    assert "effective episodes)" in repr(found)


@pytest.mark.filterwarnings("ignore")
def test_rows_that_are_missing_are_said() -> None:
    log = bm.Transitions.from_arrays(
        [0, 1, 0, 0], [0, 1, 1, 0], [0, 2, 2, 2], episode=[0, 0, 1, 2], n_actions=2
    )
    found = bm.off_policy(np.full((3, 2), 0.5), log, TASK)
    assert any(x.startswith("1 of 4 rows do not begin where") for x in found.notes)


def test_arms_that_are_kept_have_no_intervals() -> None:
    """Weights assume that states decide about actions; here patients do."""
    rng = np.random.default_rng(0)
    rows = [
        (e, t, 0, e % 2, int(t == 2 and rng.random() < 0.5) or (2 if t == 2 else 0))
        for e in range(60)
        for t in range(3)
    ]
    episode, step, state, arm, after = np.transpose(rows)
    log = bm.Transitions.from_arrays(state, arm, after, episode=episode, step=step)
    task = bm.Task(3, 2, reward=[0, 1, 0], discount=0.9, terminal=[1, 2])
    with pytest.warns(bm.BayesmdpWarning, match="keeps one action"):
        found = bm.off_policy([[1, 0], [1, 0], [1, 0]], log, task)
    assert set(found.intervals.values()) == {None}
