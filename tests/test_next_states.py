"""Values of single actions and next states, against draws taken one by one."""

from typing import Any

import numpy as np
import pytest
from bayesmdp.reporting._actions import (
    ActionValues,
    action_values,
    chance_above,
    sd_check,
)

import bayesmdp as bm
from bayesmdp.reporting import _explorer
from bayesmdp.reporting._next_states import SHOWN, _matched, _squares, next_states

N_DRAWS = 600


@pytest.fixture(scope="module")
def posterior() -> bm.Posterior:
    world = bm.worlds.gridworld(width=4, height=4, discount=0.95)
    prior = bm.SymmetricPrior(support=world.support)
    return bm.fit(world.sample(2000, seed=0), world.task, prior=prior)


@pytest.fixture(scope="module")
def policy(posterior: bm.Posterior) -> Any:
    """A policy that is not the best, and mixes in some states."""
    mixed = 0.7 * bm.policies.nominal(posterior) + 0.3 * 0.25
    mixed[::2] = bm.policies.nominal(posterior)[::2]
    return mixed / np.maximum(mixed.sum(axis=1, keepdims=True), 1e-9)


@pytest.fixture(scope="module")
def found(posterior: bm.Posterior, policy: Any) -> ActionValues:
    evaluation = bm.evaluate(policy, posterior.draws(4000, seed=2))
    return action_values(posterior, evaluation, bm.policies.behaviour(posterior))


@pytest.fixture(scope="module")
def drawn(posterior: bm.Posterior, policy: Any) -> tuple[Any, Any]:
    """Q and the variance of the return after each action, of every draw, densely."""
    task = posterior.task
    draws = posterior.draws(N_DRAWS, seed=5)
    live = ~task.is_terminal
    reward = np.zeros((task.n_states, task.n_actions, task.n_states))
    state, action, after = (x.ravel() for x in np.indices(reward.shape))
    reward[:] = task.transition_reward(state, action, after).reshape(reward.shape)
    values, variances = [], []
    g = task.discount
    for i in range(N_DRAWS):
        theta = draws.dynamics(i).to_dense()
        theta[~live] = 0.0
        chain = np.einsum("sa,sat->st", policy, theta)
        paid = np.einsum("sa,sat,sat->s", policy, theta, reward)
        v = np.linalg.solve(np.eye(task.n_states) - g * chain, paid * live)
        worth = reward + g * v * live
        second = np.einsum("sa,sat,sat->s", policy, theta, worth**2) - v**2
        r = np.linalg.solve(np.eye(task.n_states) - g**2 * chain, second * live)
        q = np.einsum("sat,sat->sa", theta, worth)
        values.append(q)
        variances.append(np.einsum("sat,sat->sa", theta, worth**2 + g**2 * r) - q**2)
    return np.array(values), np.array(variances)


def rows(posterior: bm.Posterior, table: Any) -> Any:
    return table.reshape(*table.shape[:-2], -1)[..., posterior.mean().rows.pair]


def test_values_of_actions_are_those_of_draws(
    posterior: bm.Posterior, found: ActionValues, drawn: tuple[Any, Any]
) -> None:
    """Three standard errors over 48 pairs, fixed seeds; first-order sds within 15 %."""
    q = rows(posterior, drawn[0])
    error = q.std(axis=0) / np.sqrt(N_DRAWS)
    assert np.all(np.abs(found.value - q.mean(axis=0)) < 4 * error + 1e-4)
    assert found.epistemic_sd is not None
    assert found.epistemic_sd == pytest.approx(q.std(axis=0), rel=0.15)
    assert np.median(np.abs(found.epistemic_sd / q.std(axis=0) - 1)) < 0.04


def test_aleatoric_sds_of_actions_are_those_of_draws(
    posterior: bm.Posterior, found: ActionValues, drawn: tuple[Any, Any]
) -> None:
    wanted = np.sqrt(rows(posterior, drawn[1]).mean(axis=0))
    assert found.aleatoric_sd == pytest.approx(wanted, rel=0.03)


def test_chances_and_gains_are_those_of_draws(
    posterior: bm.Posterior, policy: Any, found: ActionValues, drawn: tuple[Any, Any]
) -> None:
    q = rows(posterior, drawn[0])
    own = rows(posterior, np.repeat((policy * drawn[0]).sum(2)[..., None], 4, axis=2))
    better = (q > own).mean(axis=0)
    known = np.isfinite(found.chance)
    assert np.all(np.abs(found.chance[known] - better[known]) < 0.09)
    change = ((policy - bm.policies.behaviour(posterior)) * drawn[0]).sum(axis=2)
    live = posterior.task.live
    error = change.std(axis=0)[live] / np.sqrt(N_DRAWS)
    off = np.abs(found.gain[live] - change.mean(axis=0)[live])
    assert np.all(off < 4 * error + 1e-4)
    assert found.gain_sd is not None
    assert found.gain_sd[live] == pytest.approx(change.std(axis=0)[live], rel=0.15)


def test_first_order_sds_of_states_are_those_of_the_instant_answer(
    posterior: bm.Posterior, policy: Any, found: ActionValues
) -> None:
    quick = bm.evaluate_analytic(policy, posterior)
    assert found.state_sd == pytest.approx(quick.epistemic_sd, rel=1e-9)
    check = sd_check(found, bm.evaluate(policy, posterior.draws(2000)))
    assert check is not None
    assert 0 < check["median"] < check["nine_tenths"] < 0.2


def test_without_independent_rows_only_means_are_offered() -> None:
    casino = bm.worlds.casino()
    evaluation = bm.evaluate([1, 0, 0], casino.draws())
    found = action_values(casino, evaluation, evaluation.policy)
    assert found.epistemic_sd is None
    assert found.chance is None
    play, leave = found.value[:2]
    assert leave == pytest.approx(evaluation.value[0])
    # 3.95 is won on average, then half of the models are back at the casino, and leave.
    assert play == pytest.approx(3.95 + 0.99 * 0.5 * evaluation.value[0])


def test_intervals_of_next_states_hold_what_they_say(posterior: bm.Posterior) -> None:
    """Ends of 90 % intervals against draws: share below, five standard errors."""
    every = np.arange(posterior.rows.pair.size)
    found = next_states(posterior, every, every[:0])
    draws = posterior.draws(800, seed=1)
    theta = np.array([draws.dynamics(i).probability for i in range(800)])
    assert found.length.tolist() == np.diff(posterior.rows.indptr).tolist()
    first = found.length[0]
    order = [
        posterior.rows.next_state.tolist().index(s) for s in found.next_state[:first]
    ]
    below = (theta[:, order] < found.low[:first]).mean(axis=0)
    above = (theta[:, order] > found.high[:first]).mean(axis=0)
    assert np.abs(np.r_[below, above] - 0.05).max() < 5 * np.sqrt(0.05 * 0.95 / 800)
    assert found.count is not None
    assert found.count.sum() == posterior.counts.total


def test_intervals_of_a_mixture_and_of_an_ensemble() -> None:
    task = bm.Task(3, 1, reward=[0, 1, 0], discount=0.9, terminal=[1, 2])
    counts = bm.Counts.from_arrays([0, 0], [0, 0], [1, 2], [30, 10])
    one = bm.fit(counts, task, prior=bm.SymmetricPrior(1.0))
    both = bm.fit(
        counts,
        task,
        prior=bm.MixturePrior([bm.SymmetricPrior(1.0), bm.SymmetricPrior(1.0)]),
    )
    alone, mixed = (next_states(x, np.arange(1), np.arange(0)) for x in (one, both))
    assert mixed.low == pytest.approx(alone.low)
    assert mixed.high == pytest.approx(alone.high)
    models = [
        bm.Dynamics.from_dense([[[0, p, 1 - p]], [[0, 1, 0]], [[0, 0, 1]]])
        for p in np.linspace(0.01, 0.99, 99)
    ]
    found = next_states(bm.Ensemble(models, task), np.arange(0), np.arange(1))
    assert found.low.tolist() == pytest.approx([0.05, 0.05])
    assert found.high.tolist() == pytest.approx([0.95, 0.95])
    assert found.count is None


def test_moments_of_rows_on_random_sets_are_those_of_draws() -> None:
    """Mean squares over 2,000 draws, five standard errors, fixed seed."""
    task = bm.Task(6, 1, reward=[0] * 5 + [1], discount=0.9, terminal=[5])
    counts = bm.Counts.from_arrays([0, 0, 0, 1], [0] * 4, [1, 2, 5, 3], [5, 2, 1, 3])
    sets = bm.HierarchicalSparsePrior(0.7)
    for prior in (
        sets,
        bm.HierarchicalSparsePrior(1.0, 0.8, fallback=5),
        bm.MixturePrior([sets, bm.SymmetricPrior(1.0)]),
    ):
        posterior = bm.fit(counts, task, prior=prior)
        draws = posterior.draws(2000, seed=0)
        square = [draws.dynamics(i).probability ** 2 for i in range(2000)]
        mean, total = _matched(posterior, np.arange(posterior.rows.next_state.size))
        found = mean * (1 - mean) / (total + 1) + mean**2
        error = np.std(square, axis=0) / np.sqrt(2000)
        assert np.all(np.abs(found - np.mean(square, axis=0)) < 5 * error + 1e-9)
        every = np.arange(posterior.rows.pair.size)
        ends = next_states(posterior, every, every[:0])
        assert np.all(ends.low <= ends.probability)
        assert np.all(ends.probability <= ends.high)


def test_what_is_sure_is_better_or_worse() -> None:
    mean, sd = np.array([1.0, -1.0, 0.0, 1.0]), np.array([0.0, 0.0, 0.0, 1.0])
    wanted = [1.0, 0.0, np.nan, 0.8413]
    found = chance_above(mean, sd, 1e-9)
    assert found == pytest.approx(wanted, abs=1e-4, nan_ok=True)


@pytest.mark.parametrize("scale", [1e-13, 1e9])
def test_chances_do_not_depend_on_the_unit_of_rewards(scale: float) -> None:
    """Nor does what counts as a tie: two actions that do the same."""
    rng = np.random.default_rng(0)
    counts = bm.Counts.from_dense(rng.integers(1, 5, size=(4, 3, 4)))
    reward = rng.normal(size=(4, 3))
    found = []
    for unit in (1.0, scale):
        task = bm.Task(4, 3, unit * reward, discount=0.9)
        posterior = bm.fit(counts, task)
        policies = {"first": [0] * 4, "nominal": bm.policies.nominal(posterior)}
        table = bm.compare(policies, posterior.draws(100, seed=0))
        explorer = bm.report(posterior, table).data["explorer"]
        assert set(explorer["verdict"]) <= {"same", "thin", "unclear", "recommend"}
        found.append((explorer["chance"], explorer["gain_chance"]))
    assert found[0] == found[1]
    assert sum(x is None for x in found[0][0]) == 4  # the policy's own actions


def test_the_page_has_room_for_so_many_next_states(
    posterior: bm.Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bayesmdp.reporting import _next_states

    monkeypatch.setattr(_next_states, "MAX_ENTRIES", 9)
    lengths = np.diff(posterior.rows.indptr)
    found = next_states(posterior, np.array([7]), np.array([3, 5]))
    assert lengths[[7, 3, 5]].tolist() == [4, 3, 4]
    assert found.length[[7, 3, 5]].tolist() == [4, 2, 2]
    assert found.next_state.size == 8
    mean = posterior.mean()
    part = slice(*posterior.rows.indptr[3:5])
    top = np.argsort(-mean.probability[part])[:2]
    assert found.next_state[:2].tolist() == mean.rows.next_state[part][top].tolist()
    assert SHOWN == 20


def test_many_states_have_no_first_order(
    posterior: bm.Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bayesmdp.reporting import _actions

    monkeypatch.setattr(_actions, "MAX_STATES", 5)
    monkeypatch.setattr(_explorer, "MAX_STATES", 5)
    policies = {"a": bm.policies.mle(posterior), "b": bm.policies.nominal(posterior)}
    table = bm.compare(policies, posterior.draws(50))
    explorer = bm.report(posterior, table).data["explorer"]
    assert explorer["epistemic_sd"] is None
    assert "offered up to 5 states" in explorer["how"]


ROW = bm.Counts.from_arrays([0, 0], [0, 0], [1, 2], [6, 2], n_states=6)
SIX = bm.Task(6, 1, reward=np.arange(6.0), discount=0.9, terminal=[4, 5])
DOUBTED = {
    "sets": bm.HierarchicalSparsePrior(0.7, 0.8),
    "lumped": bm.HierarchicalSparsePrior(fallback=1),
    "fallback": bm.FallbackPrior(bm.HierarchicalSparsePrior(), 4, 1.5),
    "mixture": bm.MixturePrior(
        [bm.HierarchicalSparsePrior(fallback=5), bm.ScaledPrior(2.0)],
        posterior_weights=[0.6, 0.4],
    ),
}


@pytest.mark.parametrize("name", DOUBTED)
def test_doubt_about_next_states_is_in_their_intervals(name: str) -> None:
    """Mean and variance of draws against the Beta's; five standard errors."""
    belief = bm.fit(ROW, SIX, prior=DOUBTED[name])
    n, end = 4_000, belief.rows.indptr[2]  # a visited pair, and one that is not
    draws = belief.draws(n, seed=3)
    theta = np.array([draws.dynamics(i).probability[:end] for i in range(n)])
    square, error = (theta**2).mean(axis=0), (theta**2).std(axis=0) / np.sqrt(n)
    assert (np.abs(square - _squares(belief)[:end]) <= 5 * error + 1e-12).all()
    mean, total = _matched(belief, np.arange(end))
    variance = mean * (1 - mean) / (total + 1)
    assert variance == pytest.approx(_squares(belief)[:end] - mean**2, abs=1e-12)


def test_doubt_about_next_states_leaves_means_of_actions() -> None:
    belief = bm.fit(ROW, SIX, prior=DOUBTED["sets"])
    evaluation = bm.evaluate(np.zeros(6, dtype=int), belief.draws(50))
    found = action_values(belief, evaluation, evaluation.policy)
    assert found.epistemic_sd is None
    assert np.isfinite(found.value).all()
