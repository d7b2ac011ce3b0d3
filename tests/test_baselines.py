"""The policies others use, against their definitions in dense NumPy.

``golden/fig2_seed0.json`` and ``golden/synthetic_run0.json`` hold policies of the
authors' scripts and say how they were made. Statistical tests state their error rates.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp.engine import Problem, workers
from bayesmdp.engine.multisample import MultiSample, _Held, multi_sample_induction
from bayesmdp.engine.planning import plan, second_order_objective

Array = NDArray[np.float64]

GOLDEN = Path(__file__).parent / "golden"


def fig2() -> list[Any]:
    """Grid of the paper, seven data sets: posterior and golden policies."""
    world = bm.worlds.gridworld(0.25)
    prior = bm.SymmetricPrior(1.0, support=world.support)
    found = []
    for data in json.loads((GOLDEN / "fig2_seed0.json").read_text())["datasets"]:
        columns = np.array(data["counts"]).T
        counts = bm.Counts.from_arrays(*columns, n_states=25, n_actions=4)
        posterior = bm.fit(counts, world.task, prior=prior)
        found.append(pytest.param(posterior, data, id=f"grid-{data['n']}"))
    return found


def synthetic() -> list[Any]:
    """Ten synthetic problems: posterior and golden policies."""
    found = []
    for data in json.loads((GOLDEN / "synthetic_run0.json").read_text())["problems"]:
        task = bm.Task(5, 5, data["reward"], discount=0.999)
        posterior = bm.fit(
            bm.Counts.from_dense(data["counts"]), task, prior=bm.SymmetricPrior()
        )
        found.append(pytest.param(posterior, data, id=f"synthetic-{data['visits']}"))
    return found


GOLDEN_CASES = [*fig2(), *synthetic()]


def setting_of(posterior: bm.Posterior) -> reference.Setting:
    """Any task in dense arrays, by asking for the reward of every transition."""
    task = posterior.task
    shape = (task.n_states, task.n_actions, task.n_states)
    r = task.transition_reward(*np.indices(shape))
    terminal = np.array(task.terminal_value)
    return reference.Setting(
        r, task.discount, np.array(task.start), np.array(task.is_terminal), terminal
    )


def rows_of(policy: Array) -> Array:
    """Golden policies are float32: rows that sum to 1 again."""
    array = np.array(policy)
    return array / array.sum(axis=1, keepdims=True)


def seen_model(posterior: bm.Posterior) -> Array:
    """Frequencies ``[S, A, S]``; even over the support where nothing was observed."""
    task, alpha = posterior.task, reference.dense_alpha(posterior)
    counts = np.zeros_like(alpha)
    of = posterior.counts
    np.add.at(counts, (of.state, of.action, of.next_state), of.count)
    counts[task.terminal] = 0.0
    possible = (alpha > 0).astype(np.float64)
    filled = np.where(counts.sum(axis=2, keepdims=True) > 0, counts, possible)
    total = filled.sum(axis=2, keepdims=True)
    return np.divide(filled, total, np.zeros_like(filled), where=total > 0)


def random_posterior(
    seed: int, terminal: list[int] | None = None, form: int = 3, most: int = 5
) -> bm.Posterior:
    """Four states, three actions, some pairs dropped."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, most, size=(4, 3, 4))
    counts[terminal or []] = 0
    counts[0, 1] = 0
    reward = rng.normal(size=(4, 3, 4)[:form])
    task = bm.Task(4, 3, reward, discount=0.95, terminal=terminal or [])
    prior = bm.SymmetricPrior(0.7)
    return bm.fit(bm.Counts.from_dense(counts), task, prior=prior, min_count=1)


# behaviour


def test_behaviour_is_what_was_done_how_often() -> None:
    task = bm.Task(4, 3, np.zeros(4), discount=0.9, terminal=[3])
    counts = bm.Counts.from_arrays(
        [0, 0, 0, 1, 1], [0, 0, 2, 1, 1], [1, 2, 0, 3, 0], [2, 1, 1, 4, 1]
    )
    policy = bm.policies.behaviour(bm.fit(counts, task, prior=bm.SymmetricPrior()))
    expected = [[0.75, 0, 0.25], [0, 1, 0], [1 / 3, 1 / 3, 1 / 3], [0, 0, 0]]
    np.testing.assert_allclose(policy, expected, rtol=1e-15)
    assert not policy.flags.writeable


def test_behaviour_leaves_out_what_is_not_available() -> None:
    task = bm.Task(3, 3, np.zeros(3), discount=0.9)
    counts = bm.Counts.from_arrays(
        [0, 0, 0, 1, 1], [0, 1, 2, 1, 2], [1, 2, 0, 2, 0], [6, 3, 2, 2, 1]
    )
    posterior = bm.fit(counts, task, min_count=3, prior=bm.SymmetricPrior())
    policy = bm.policies.behaviour(posterior)
    # state 1 keeps its most visited action; state 2, never observed, keeps them all
    expected = [[2 / 3, 1 / 3, 0], [0, 1, 0], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(policy, expected, rtol=1e-15)
    bm.evaluate(policy, posterior.draws(2))


def test_behaviour_of_a_long_log_is_the_policy_that_made_it() -> None:
    """Five states of 3,000 visits each or more, at 5 errors: fails below 2e-5."""
    world = bm.worlds.synthetic(0)
    made_by = np.random.default_rng(0).dirichlet(np.ones(5), size=5)
    log = world.simulate(made_by, 200, seed=0, max_steps=200)
    posterior = bm.fit(log, world.task, prior=bm.SymmetricPrior())
    found = bm.policies.behaviour(posterior)
    visits = posterior.counts.pair_totals(5, 5).sum(axis=1, keepdims=True)
    error = np.sqrt(made_by * (1 - made_by) / visits)
    assert visits.min() > 3000
    assert (np.abs(found - made_by) < 5 * error).all()


# mle and nominal


@pytest.mark.parametrize("form", [1, 2, 3])
@pytest.mark.parametrize("terminal", [[], [2]], ids=["endless", "terminal"])
def test_mle_is_best_for_frequencies_and_nominal_for_the_mean(
    form: int, terminal: list[int]
) -> None:
    for seed in range(5):
        posterior = random_posterior(seed, terminal, form)
        at, available = setting_of(posterior), posterior.available
        mean = posterior.mean().to_dense()
        for policy, model in (
            (bm.policies.mle(posterior), seen_model(posterior)),
            (bm.policies.nominal(posterior), mean),
        ):
            best = np.full(4, -np.inf)
            for choice in np.ndindex(3, 3, 3, 3):
                one = np.eye(3)[list(choice)]
                if not ((one > 0) & ~available)[at.live].any():
                    best = np.maximum(best, reference.solve(model, one, at).value)
            found = reference.solve(model, policy, at).value
            np.testing.assert_allclose(found, best, rtol=1e-10, atol=1e-10)


def test_mle_takes_what_was_never_seen_as_even_over_its_support() -> None:
    """Action 1 was never tried: even over {0, 2} it is worth half of certainty."""
    support = np.ones((3, 2, 3), dtype=bool)
    support[0, 1] = [True, False, True]
    prior = bm.SymmetricPrior(1.0, support=support)
    for lucky, chosen in ((2, 1), (4, 0)):
        counts = bm.Counts.from_arrays([0, 0], [0, 0], [2, 1], [lucky, 5 - lucky])
        reward = np.zeros((3, 2, 3))
        reward[0, :, 2] = 1.0
        task = bm.Task(3, 2, reward, discount=0.0, terminal=[1, 2], start=0)
        policy = bm.policies.mle(bm.fit(counts, task, prior=prior))
        assert policy[0].tolist() == np.eye(2)[chosen].tolist()


def test_mle_and_nominal_part_where_little_was_seen() -> None:
    """One lucky visit beats nine of ten for frequencies, not for the mean."""
    reward = np.zeros((3, 2, 3))
    reward[0, :, 2] = 1.0
    task = bm.Task(3, 2, reward, discount=0.0, terminal=[1, 2], start=0)
    counts = bm.Counts.from_arrays([0, 0, 0], [0, 0, 1], [2, 1, 2], [9, 1, 1])
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior())
    assert bm.policies.mle(posterior)[0].tolist() == [0.0, 1.0]
    assert bm.policies.nominal(posterior)[0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("posterior", "golden"), GOLDEN_CASES)
def test_mle_and_nominal_are_worth_what_the_golden_ones_are(
    posterior: bm.Posterior, golden: dict[str, Any]
) -> None:
    at, A = setting_of(posterior), posterior.task.n_actions
    mean = posterior.mean().to_dense()
    for name, model in (("mle", seen_model(posterior)), ("nominal", mean)):
        ours = getattr(bm.policies, name)(posterior)
        theirs = np.eye(A)[golden[name]]
        found = reference.solve(model, ours, at).value
        wanted = reference.solve(model, theirs, at).value
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9 * scale)


# second order


def objective(policy: Array, posterior: bm.Posterior) -> float:
    """``F = rho.V + g d.k`` of theory.md, without the value of starting at the end."""
    at = setting_of(posterior)
    expanded = reference.expand(policy, reference.dense_alpha(posterior), at)
    live = at.rho * ~at.ends
    nominal = live @ (expanded.value - at.terminal_value)
    return float(nominal + at.g * (expanded.inverse.T @ live) @ expanded.k)


def gradient(policy: Array, posterior: bm.Posterior) -> Array:
    """``dF/dpi`` of theory.md in its own symbols, dense."""
    at, alpha = setting_of(posterior), reference.dense_alpha(posterior)
    expanded = reference.expand(policy, alpha, at)
    theta, X, k, g = expanded.theta, expanded.inverse, expanded.k, at.g
    V = expanded.value - at.terminal_value
    d = X.T @ (at.rho * ~at.ends)
    h = at.r + g * V
    Q = np.einsum("sat,sat->sa", theta, h)
    column = X.T[:, None, :] - np.einsum("sat,ts->sa", theta, X)[:, :, None]
    C = np.einsum("sat,sat,sat->sa", theta, column, h)
    narrow = 1.0 / (alpha.sum(axis=2) + 1.0)
    w0 = policy**2 * narrow
    w = g**2 * np.einsum("s,sa,sat,sat->t", d, w0, theta, column)
    E = g * np.einsum("s,sa,sat,sat->ts", d, w0, theta, h - Q[:, :, None])
    return np.asarray(
        d[:, None] * Q
        + g**2 * d[:, None] * (theta @ (X @ k))
        + 2 * g * d[:, None] * policy * narrow * C
        + (X.T @ w)[:, None] * Q
        + g * np.einsum("sat,ts->sa", theta, X @ E.T @ X)
    )


def soft_policy(posterior: bm.Posterior, seed: int) -> Array:
    weight = np.random.default_rng(seed).exponential(size=posterior.available.shape)
    weight = np.where(posterior.available, weight, 0.0)
    total = weight.sum(axis=1, keepdims=True)
    return np.divide(weight, total, np.zeros_like(weight), where=total > 0)


@pytest.mark.parametrize("form", [1, 2, 3])
@pytest.mark.parametrize("terminal", [[], [1]], ids=["endless", "terminal"])
def test_second_order_objective_and_gradient_are_those_of_the_theory(
    form: int, terminal: list[int]
) -> None:
    posterior = random_posterior(10, terminal, form)
    policy = soft_policy(posterior, 1)
    problem = Problem.of_belief(posterior)
    state, action = problem.rows.row_id.T
    found = second_order_objective(problem, policy[state, action])
    np.testing.assert_allclose(found.value, objective(policy, posterior), rtol=1e-11)
    wanted = gradient(policy, posterior)[state, action]
    np.testing.assert_allclose(found.gradient, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", [1, 2, 3])
@pytest.mark.parametrize("terminal", [[], [1]], ids=["endless", "terminal"])
def test_second_order_gradient_is_that_of_central_differences(
    form: int, terminal: list[int]
) -> None:
    """Step 1e-5: its square, 1e-10, and rounding over it, 1e-11, are both below 1e-6.

    One entry at a time leaves the simplex, where ``F`` is smooth all the same.
    """
    posterior = random_posterior(11, terminal, form)
    policy = soft_policy(posterior, 2)
    problem = Problem.of_belief(posterior)
    rows = policy[tuple(problem.rows.row_id.T)]
    found = second_order_objective(problem, rows).gradient
    for row, pair in enumerate(problem.rows.row_id):
        step = np.zeros_like(policy)
        step[tuple(pair)] = 1e-5
        up, down = (objective(policy + x, posterior) for x in (step, -step))
        slope = (up - down) / 2e-5
        np.testing.assert_allclose(found[row], slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("posterior", "golden"), GOLDEN_CASES)
def test_second_order_climbs_at_least_as_high_as_the_golden_one(
    posterior: bm.Posterior, golden: dict[str, Any]
) -> None:
    ours = objective(bm.policies.second_order(posterior), posterior)
    theirs = objective(rows_of(golden["second_order"]), posterior)
    assert ours >= theirs


@pytest.mark.parametrize(("posterior", "golden"), GOLDEN_CASES[::4])
def test_second_order_is_not_below_where_it_began(
    posterior: bm.Posterior, golden: dict[str, Any]
) -> None:
    nominal = bm.policies.nominal(posterior)
    softened = 0.9 * nominal + 0.1 / posterior.task.n_actions
    softened[posterior.task.terminal] = 0.0
    ours = objective(bm.policies.second_order(posterior), posterior)
    assert ours > objective(softened, posterior)
    # it ends in the interior, a tolerance below the nominal vertex at most
    vertex = objective(nominal, posterior)
    assert ours > vertex - 1e-5 * abs(vertex) * posterior.task.n_states


def test_second_order_objective_agrees_with_draws_of_a_narrow_posterior() -> None:
    """Third-order terms are 1e-5 here; 4 errors fail with probability 6.3e-5."""
    rng = np.random.default_rng(12)
    counts = 300 + rng.integers(0, 300, size=(4, 3, 4))
    reward = rng.normal(size=(4, 3))
    task = bm.Task(4, 3, reward, discount=0.95)
    posterior = bm.fit(bm.Counts.from_dense(counts), task, prior=bm.SymmetricPrior())
    policy = bm.policies.second_order(posterior)
    evaluation = bm.evaluate(policy, posterior.draws(4000, seed=0), control=False)
    found, error = objective(policy, posterior), evaluation.start_value_mcse
    assert abs(found - evaluation.start_value) < 4 * error + 1e-5
    assert error < 0.01 * abs(found)
    best = bm.policies.nominal(posterior)
    assert (np.abs(policy - best) < 0.05).all()


# multi-sample backward induction


def held(posterior: bm.Posterior, n_draws: int, seed: int = 0) -> Array:
    """The draws it learns from, ``[D, S, A, S]``."""
    draws = bm.Draws(posterior, n_draws, seed, "msbi")
    return np.array([draws.dynamics(i).to_dense() for i in range(n_draws)])


def values_on(models: Array, policy: Array, at: reference.Setting) -> Array:
    return np.array([reference.solve(m, policy, at).value for m in models])


def mean_start(models: Array, policy: Array, at: reference.Setting) -> float:
    return float((values_on(models, policy, at) @ at.rho).mean())


def induced(models: Array, first: Array, at: reference.Setting) -> Array:
    """Plain multi-sample backward induction, and the best policy it met."""
    A = first.shape[1]
    V = values_on(models, first, at) - at.terminal_value
    paid = np.einsum("dsat,sat->dsa", models, at.r)
    met = {tuple(first.argmax(axis=1)): first}
    barred = np.where(models[0].sum(axis=2) > 0, 0.0, -np.inf)
    for _ in range(1500):
        Q = paid + at.g * np.einsum("dsat,dt->dsa", models, V)
        choice = (Q.mean(axis=0) + barred).argmax(axis=1)
        choice[at.ends] = 0
        policy = np.eye(A)[choice] * ~at.ends[:, None]
        met.setdefault(tuple(choice), policy)
        V = np.einsum("dsa,sa->ds", Q, policy)
    return max(met.values(), key=lambda pi: mean_start(models, pi, at))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("terminal", [[], [2]], ids=["endless", "terminal"])
def test_msbi_is_plain_multi_sample_backward_induction(
    seed: int, terminal: list[int]
) -> None:
    posterior = random_posterior(20 + seed, terminal, form=1, most=2)
    at, models = setting_of(posterior), held(posterior, 24, seed)
    found = bm.policies.msbi(posterior, 24, seed=seed)
    wanted = induced(models, bm.policies.nominal(posterior), at)
    worth = mean_start(models, found, at)
    np.testing.assert_allclose(worth, mean_start(models, wanted, at), rtol=1e-10)
    np.testing.assert_array_equal(found, wanted)


def test_msbi_learns_from_many_draws_and_not_from_one() -> None:
    """With one draw for all it would be that draw's own best policy."""
    posterior = random_posterior(30, form=1, most=2)
    at, models = setting_of(posterior), held(posterior, 200)
    found = mean_start(models, bm.policies.msbi(posterior, 200), at)
    task = posterior.task
    draws = bm.Draws(posterior, 200, 0, "msbi")
    best_of_one = []
    for i in range(10):
        alone = bm.Ensemble([draws.dynamics(i)], task)
        single = bm.policies.nominal(alone)
        best_of_one.append(mean_start(models, single, at))
    assert max(best_of_one) <= found + 1e-12
    assert np.mean(best_of_one) < found - 0.1


def test_msbi_holds_as_many_different_draws_as_it_says() -> None:
    """Also where threads fill them in parts of some blocks each."""
    posterior = random_posterior(32)
    draws = bm.Draws(posterior, 600, 0, "msbi")
    problem = Problem.of_belief(posterior).with_stream(draws.stream)
    with workers(2, None) as pool:
        held = _Held(problem, 600, pool)
        table = np.concatenate([part.tables()[0] for part in held._parts])
    wanted = [draws.dynamics(i).probability for i in range(600)]
    np.testing.assert_array_equal(table, wanted)
    assert np.unique(table, axis=0).shape[0] == 600


@pytest.mark.parametrize("seed", range(8))
def test_msbi_is_never_worse_than_nominal_on_its_own_draws(seed: int) -> None:
    world = bm.worlds.synthetic(seed)
    posterior = bm.fit(
        world.sample(10, seed=seed), world.task, prior=bm.SymmetricPrior()
    )
    at, models = setting_of(posterior), held(posterior, 64, seed)
    found = mean_start(models, bm.policies.msbi(posterior, 64, seed=seed), at)
    first = mean_start(models, bm.policies.nominal(posterior), at)
    assert found >= first - 1e-9 * abs(first)


def test_msbi_says_how_many_draws_its_memory_holds() -> None:
    posterior = random_posterior(31)
    said = re.escape("`msbi` uses ") + r"(\d+) of 500 draws: .* `memory_limit`"
    with pytest.warns(bm.BayesmdpWarning, match=said) as caught:
        policy = bm.policies.msbi(posterior, 500, memory_limit=20_000)
    match = re.search(said, str(caught[0].message))
    assert match is not None
    used = int(match.group(1))
    assert 2 <= used < 500
    assert used * 8 * posterior.alpha.size <= 20_000
    np.testing.assert_array_equal(policy, bm.policies.msbi(posterior, used))


def test_msbi_does_not_depend_on_threads_and_does_on_the_seed() -> None:
    world = bm.worlds.synthetic(3)
    posterior = bm.fit(world.sample(5, seed=3), world.task, prior=bm.SymmetricPrior())
    found = [bm.policies.msbi(posterior, 600, threads=threads) for threads in (1, 2, 3)]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    others = [bm.policies.msbi(posterior, 4, seed=seed) for seed in range(10)]
    assert len({policy.tobytes() for policy in others}) > 1


def circling(max_iterations: int) -> tuple[bm.Posterior, MultiSample]:
    """A problem on which it comes back to policies it has left."""
    world = bm.worlds.synthetic(2)
    posterior = bm.fit(world.sample(5, seed=2), world.task, prior=bm.SymmetricPrior())
    problem = Problem.of_belief(posterior)
    held = problem.with_stream(bm.Draws(posterior, 16, 0, "msbi").stream)
    return posterior, multi_sample_induction(
        held, plan(problem).choice, 16, max_iterations, 1
    )


def test_msbi_that_goes_in_circles_ends_with_the_best_it_met() -> None:
    posterior, found = circling(500)
    assert "circles" in found.status
    assert not found.converged
    assert found.iterations < 100
    problem, at = Problem.of_belief(posterior), setting_of(posterior)
    policy = np.zeros((5, 5))
    policy[tuple(problem.rows.row_id[found.choice].T)] = 1.0
    np.testing.assert_array_equal(policy, bm.policies.msbi(posterior, 16))
    models = held(posterior, 16)
    first = mean_start(models, bm.policies.nominal(posterior), at)
    assert mean_start(models, policy, at) > first


def test_msbi_cut_short_says_so() -> None:
    posterior, found = circling(3)
    assert found.iterations == 3
    said = "`msbi` stopped after 3 iterations"
    with pytest.warns(bm.BayesmdpWarning, match=said):
        bm.policies.msbi(posterior, 16, 3)


def test_msbi_without_discount_returns_a_policy_that_ends() -> None:
    """Action 0 of state 0 circles for 1 a step; action 1 ends for -10."""
    support = np.zeros((2, 2, 2), dtype=bool)
    support[0, 0, 0] = support[0, 1, 1] = True
    support[1] = True
    task = bm.Task(2, 2, [[1.0, -10.0], [0, 0]], discount=1, terminal=[1])
    counts = bm.Counts.from_arrays([0, 0], [0, 1], [0, 1])
    prior = bm.SymmetricPrior(1.0, support=support)
    posterior = bm.fit(counts, task, prior=prior)
    assert bm.policies.msbi(posterior, 8)[0].tolist() == [0.0, 1.0]
