"""Curves of follow-up, against matrix powers and formulas written out."""

import math

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.errors import ArgumentError

TASK = bm.Task(3, 1, reward="alive", discount=1, terminal=2)
#: Six episodes in state 0 that last 1 to 4 steps; the second and fifth are censored.
LENGTHS = {1: 2, 2: 2, 3: 1, 4: 3, 5: 3, 6: 4}
CENSORED = (2, 5)


def log_of(lengths: dict[int, int]) -> bm.Transitions:
    rows = [
        (e, t, 2 if t == n - 1 and e not in CENSORED else 0)
        for e, n in lengths.items()
        for t in range(n)
    ]
    episode, step, after = zip(*rows, strict=True)
    zeros = [0] * len(rows)
    return bm.Transitions.from_arrays(zeros, zeros, after, episode=episode, step=step)


def test_kaplan_meier_and_greenwood_are_those_of_the_formula() -> None:
    """At risk 6, 5, 3, 1; ended 1, 1, 1, 1."""
    found = bm.diagnostics.kaplan_meier(log_of(LENGTHS), TASK)
    assert found.at_risk.tolist() == [6, 5, 3, 1]
    wanted = [1, 5 / 6, 5 / 6 * 4 / 5, 5 / 6 * 4 / 5 * 2 / 3, 0]
    np.testing.assert_allclose(found.survival, wanted, atol=1e-12)
    terms = [1 / (6 * 5), 1 / (5 * 4), 1 / (3 * 2)]
    for t in (1, 2, 3):
        width = 1.959963984540054 * math.sqrt(sum(terms[:t])) / -math.log(wanted[t])
        assert found.low[t] == pytest.approx(wanted[t] ** math.exp(width))
        assert found.high[t] == pytest.approx(wanted[t] ** math.exp(-width))
    assert found.start.tolist() == [1, 0, 0]


def test_shares_are_those_of_matrix_powers() -> None:
    world = bm.worlds.gridworld()
    posterior = bm.fit(world.sample(300, seed=0), world.task)
    draws = posterior.draws(3, seed=1)
    policy = bm.policies.behaviour(posterior)
    shares = bm.diagnostics.state_shares(policy, draws, 6)
    for d in range(3):
        dense = draws.dynamics(d).to_dense()
        matrix = np.einsum("sa,sat->st", policy, dense)
        for end in world.task.terminal:
            matrix[end] = np.eye(25)[end]
        for t in range(7):
            at = world.task.start @ np.linalg.matrix_power(matrix, t)
            np.testing.assert_allclose(shares[d, t], at, atol=1e-12)


def test_curves_show_what_was_computed() -> None:
    log = log_of(LENGTHS)
    posterior = bm.fit(log, TASK)
    policy = bm.policies.behaviour(posterior)
    draws = posterior.draws(200, seed=0)
    ax = bm.plots.survival(policy, draws, log=log)
    model, observed = ax.lines[:2]
    shares = bm.diagnostics.state_shares(policy, draws, 4, start=[1, 0, 0])
    wanted = shares[:, :, :2].sum(axis=2).mean(axis=0)
    np.testing.assert_allclose(model.get_ydata(), wanted)
    km = bm.diagnostics.kaplan_meier(log, TASK)
    np.testing.assert_allclose(observed.get_ydata(), km.survival)
    ax = bm.plots.prevalence(policy, draws, log=log, states=2)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), 1 - wanted)


def test_what_cannot_be_drawn_is_refused() -> None:
    log = log_of(LENGTHS)
    posterior = bm.fit(log, TASK)
    policy = bm.policies.behaviour(posterior)
    with pytest.raises(ArgumentError, match="Give `n_steps`, or a `log`"):
        bm.plots.survival(policy, posterior)
    with pytest.raises(ArgumentError, match="`start` must"):
        bm.diagnostics.state_shares(policy, posterior, 3, start=[1, 1])
    endless = bm.Task(3, 1, reward=[1, 1, 0], discount=0.9)
    with pytest.raises(ArgumentError, match="no terminal states"):
        bm.diagnostics.kaplan_meier(log, endless)
