"""How far actions differ in a log and its replicates, against a loop and truths."""

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp._typing import FloatArray

LIVE = 6  # states; then a good end and a bad one


def logged(differ: float, seed: int) -> tuple[bm.Transitions, bm.Task]:
    """300 episodes; ends are good with a chance that actions shift by ``differ``."""
    rng = np.random.default_rng(seed)
    theta = np.zeros((LIVE + 2, 3, LIVE + 2))
    theta[:LIVE, :, :LIVE] = 0.8 * rng.dirichlet(np.full(LIVE, 0.5), LIVE)[:, None]
    good = 0.5 + differ * rng.choice([-1, 0, 1], (LIVE, 3))
    theta[:LIVE, :, LIVE], theta[:LIVE, :, LIVE + 1] = 0.2 * good, 0.2 * (1 - good)
    theta[[LIVE, LIVE + 1], :, [LIVE, LIVE + 1]] = 1.0
    start = [1 / LIVE] * LIVE + [0, 0]
    ends = [LIVE, LIVE + 1]
    reward = np.eye(LIVE + 2)[LIVE]
    task = bm.Task(LIVE + 2, 3, reward, discount=0.95, start=start, terminal=ends)
    world = bm.MDP(bm.Dynamics.from_dense(theta), task)
    return world.simulate(np.full((LIVE + 2, 3), 1 / 3), 300, seed=seed), task


def checked(prior: bm.SymmetricPrior, differ: float, seed: int) -> bm.diagnostics.Check:
    log, task = logged(differ, seed)
    posterior = bm.fit(log, task, prior=prior)
    return bm.check(posterior, log, n_draws=200, n_permutations=1, seed=seed)


def test_the_share_is_that_of_a_loop() -> None:
    log, task = logged(0.2, 0)
    posterior = bm.fit(log, task, prior=bm.SymmetricPrior(0.5))
    found = bm.check(posterior, log, n_draws=50, n_permutations=1).actions
    policy, draws = bm.policies.behaviour(posterior), posterior.draws(50, seed=0)
    models = [bm.MDP(draws.dynamics(i), task) for i in range(50)]
    value: FloatArray = np.mean([x.value(policy) for x in models], axis=0)
    (batch,) = log.episodes()
    paid = task.transition_reward(batch.state, batch.action, batch.next_state)
    worth = paid + 0.95 * np.where(task.is_terminal, 0, value)[batch.next_state]
    total = whole = 0.0
    for s in range(LIVE):
        here = worth[batch.state == s]
        whole += float(((here - here.mean()) ** 2).sum())
        for a in range(3):
            of_pair = worth[(batch.state == s) & (batch.action == a)]
            total += of_pair.size * (of_pair.mean() - here.mean()) ** 2
    assert found is not None
    assert found.observed == pytest.approx(total / whole)
    assert found.low < found.predicted < found.high


def test_independent_rows_predict_more_than_noise_gives() -> None:
    """Of 5 logs without an effect, most raise an alarm; an honest belief's would not.

    Alarms have a level of 2 % at most, so that two of five come by chance in 0.4 %.
    """
    found = [checked(bm.SymmetricPrior(1.0), 0.0, seed) for seed in range(5)]
    less = [any("differ less" in x for x in check.problems) for check in found]
    assert sum(less) >= 2
    assert all(x.actions and x.actions.observed < x.actions.predicted for x in found)


def test_effects_that_are_shrunk_away_are_missed_in_replicates() -> None:
    """A prior of 300 patients a row, whatever the action, hides a large effect."""
    found = checked(bm.SymmetricPrior(40.0), 0.4, 1)
    assert any("differ more" in x for x in found.problems)
    fair = checked(bm.SymmetricPrior(0.5), 0.4, 1)
    assert not any("Actions" in x for x in fair.problems)


def test_one_action_explains_nothing() -> None:
    task = bm.Task(3, 1, reward=[0, 1, 0], discount=0.9, terminal=[1, 2])
    log = bm.Transitions.from_arrays([0] * 6, [0] * 6, [1, 2] * 3, episode=range(6))
    posterior = bm.fit(log, task, prior=bm.SymmetricPrior())
    assert bm.check(posterior, log, n_draws=20, n_permutations=1).actions is None
