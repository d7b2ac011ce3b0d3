"""Values of single actions, and of every draw, against a plain loop over draws."""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
import reference
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, PolicyError, TooLargeError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """Draws, policies, and the rewards of each draw's model."""

    draws: bm.Draws
    policy: Array  # [S, A]
    reference: Array  # [S, A]
    rewards: list[Array]  # [D], or one for all

    def solved(self) -> list[reference.Solved]:
        """Each draw by NumPy."""
        task = self.draws.belief.task
        found = []
        for i in range(self.draws.n_draws):
            given = self.rewards[i if len(self.rewards) > 1 else 0]
            theta = self.draws.dynamics(i).to_dense()
            at = reference.setting(task, given)
            found.append(reference.solve(theta, self.policy, at))
        return found


def random_policies(rng: np.random.Generator, available: NDArray[np.bool_]) -> Any:
    """Two: the first decides for one action in every other state."""
    weight = rng.exponential(size=(2, *available.shape)) * available
    weight[0, ::2] *= weight[0, ::2] == weight[0, ::2].max(axis=1, keepdims=True)
    total = weight.sum(axis=2, keepdims=True)
    return np.divide(weight, total, np.zeros_like(weight), where=total > 0)


def of_belief(belief: Any, reward: Array, n_draws: int = 50) -> Case:
    rng = np.random.default_rng(2)
    policy, other = random_policies(rng, belief.available)
    return Case(belief.draws(n_draws, seed=4), policy, other, [reward])


def fitted(
    form: int,
    prior: Any = bm.SymmetricPrior(),  # noqa: B008
    discount: float = 0.9,
    **more: Any,
) -> Case:
    """Five states, the last one an end, three actions."""
    rng = np.random.default_rng(form)
    reward = rng.normal(size=(5, 3, 5)[:form])
    task = bm.Task(5, 3, reward, discount=discount, terminal=[4])
    counts = rng.poisson(1.0, size=(5, 3, 5))
    counts[4] = 0
    counts[:4, 0, 4] += 1  # every state is known to end
    data = bm.Counts.from_dense(counts)
    return of_belief(bm.fit(data, task, prior=prior, **more), reward)


def ensemble(exact: bool) -> Case:
    """Three models of different weights and rewards, also at the end."""
    rng = np.random.default_rng(7)
    task = bm.Task(5, 3, np.zeros(5), discount=0.8, terminal=[4])
    models = rng.dirichlet(np.full(5, 0.5), size=(3, 5, 3))
    rewards = list(rng.normal(size=(3, 5)))
    belief = bm.Ensemble(
        [bm.Dynamics.from_dense(x) for x in models],
        task,
        rewards=rewards,
        weights=[0.2, 0.5, 0.3],
    )
    policy, other = random_policies(rng, belief.available)
    draws = belief.draws() if exact else belief.draws(40, seed=1)
    members = range(3) if exact else draws.members
    return Case(draws, policy, other, [rewards[m] for m in members])


MIXTURE = bm.MixturePrior(
    [bm.SymmetricPrior(0.4), bm.FallbackPrior(bm.ScaledPrior(1.0), 4, 1.5)],
    posterior_weights=[0.5, 0.5],
)
CASES: dict[str, Callable[[], Case]] = {
    "[S]": lambda: fitted(1),
    "[S, A]": lambda: fitted(2),
    "[S, A, S]": lambda: fitted(3),
    "few pairs": lambda: fitted(3, min_count=5),
    "discount 0": lambda: fitted(3, discount=0.0),
    "discount 1": lambda: fitted(2, bm.SymmetricPrior(2.0), discount=1.0),
    "actions without effect": lambda: fitted(1, bm.HierarchicalPrior()),
    "mixture": lambda: fitted(3, MIXTURE),
    "random supports": lambda: fitted(2, bm.RandomSupportPrior(0.7)),
    "models": lambda: ensemble(exact=True),
    "drawn models": lambda: ensemble(exact=False),
}
every_case = pytest.mark.parametrize("name", CASES)


def brute(case: Case) -> dict[str, Array]:
    """Every field over the draws, from ``Q`` and variances of each."""
    draws, task = case.draws, case.draws.belief.task
    solved, g = case.solved(), task.discount
    share = draws.weights / draws.weights.sum()
    unbias = 1.0 if draws.exact else draws.n_draws / (draws.n_draws - 1)
    usable = draws.belief.available & ~task.is_terminal[:, None]
    q = np.where(usable, np.array([x.q for x in solved]), np.nan)
    chance = []
    for i, one in enumerate(solved):
        at = reference.setting(task, case.rewards[i if len(case.rewards) > 1 else 0])
        theta, r = draws.dynamics(i).to_dense(), at.r
        off = r + g * (one.value - at.terminal_value) - one.q[:, :, None]
        ahead = off**2 + g**2 * one.variance
        chance.append(np.einsum("sat,sat->sa", theta, ahead))
    live = ~task.is_terminal
    best = np.zeros_like(q)
    top = np.nanmax(q[:, live], axis=2, keepdims=True)
    best[:, live] = q[:, live] > top - 1e-9  # actions without effect tie, and share
    best[:, live] /= best[:, live].sum(axis=2, keepdims=True)
    own, other = (
        np.where(usable & (pi > 0), pi * q, 0.0).sum(axis=2)
        for pi in (case.policy, case.reference)
    )
    gain = own - other

    def mean(x: Array) -> Array:
        return np.tensordot(share, x, axes=1)

    def sd(x: Array) -> Array:
        return np.sqrt(unbias * mean((x - mean(x)) ** 2))

    noise = 0.0 if draws.exact else 1 / draws.n_draws + draws.belief.chain_noise
    found = {
        "value": mean(q),
        "epistemic_sd": sd(q),
        "aleatoric_sd": np.sqrt(mean(np.array(chance))),
        "probability_best": mean(best),
        "probability_better": mean(q > own[:, :, None] + 1e-9),
        "value_mcse": sd(q) * np.sqrt(noise),
    }
    found = {key: np.where(usable, x, np.nan) for key, x in found.items()}
    found |= {"gain": mean(gain), "gain_sd": sd(gain)}
    return found | {"gain_probability": mean(gain > 1e-9), "values": q}


@every_case
def test_values_of_actions_equal_a_loop_over_draws(name: str) -> None:
    case = CASES[name]()
    found = bm.action_values(
        case.policy, case.draws, reference=case.reference, keep_values=True
    )
    wanted = brute(case)
    for key, expected in wanted.items():
        np.testing.assert_allclose(
            getattr(found, key), expected, rtol=1e-9, atol=1e-9, err_msg=key
        )
    assert found.n_draws == case.draws.n_draws
    assert np.nanmin(wanted["aleatoric_sd"]) > 0
    assert (wanted["gain_sd"] > 0).sum() >= 3  # states in which the policies differ


def test_the_loop_would_notice_another_draw() -> None:
    case = CASES["[S, A]"]()
    other = bm.action_values(case.policy, case.draws.belief.draws(50, seed=5))
    assert np.nanmax(np.abs(other.value - brute(case)["value"])) > 1e-3


def test_the_policys_own_decision_is_worth_its_value() -> None:
    case = CASES["[S, A, S]"]()
    found = bm.action_values(case.policy, case.draws)
    value = bm.evaluate(case.policy, case.draws, control=False).value
    own = np.nansum(case.policy * found.value, axis=1)
    np.testing.assert_allclose(own[:4], value[:4], rtol=1e-10)
    assert not found.gain[4]


def test_gains_are_over_the_uniform_random_policy_where_no_other_is_given() -> None:
    case = CASES["few pairs"]()
    uniform = bm.policies.uniform(case.draws.belief)
    assert len(set(case.draws.belief.available.sum(axis=1)[:4])) > 1
    found = bm.action_values(case.policy, case.draws)
    same = bm.action_values(case.policy, case.draws, reference=uniform)
    np.testing.assert_array_equal(found.gain, same.gain)
    assert found.values is None


@every_case
def test_results_do_not_depend_on_threads(name: str) -> None:
    case = CASES[name]()
    one, three = (
        bm.action_values(case.policy, case.draws, keep_values=True, threads=threads)
        for threads in (1, 3)
    )
    for field in fields(one):
        if field.name != "task":
            a, b = getattr(one, field.name), getattr(three, field.name)
            np.testing.assert_array_equal(a, b)


# ------------------------------------------------------------------ ties


@pytest.mark.parametrize("scale", [1e-13, 1.0, 1e9])
def test_actions_that_do_the_same_are_tied(scale: float) -> None:
    """Actions 0 and 1 of state 0 lead to state 1 for certain; action 2 pays less.

    A policy that mixes the first two is worth the same up to rounding.
    """
    support = np.zeros((3, 3, 3), dtype=bool)
    support[0, :, 1] = support[1, :, 1:] = support[2] = True
    reward = np.array([[1.0, 1.0, 0.3], [0.1, 0.1, 0.1], [0, 0, 0]]) * scale
    task = bm.Task(3, 3, reward, discount=0.9, terminal=[2])
    posterior = bm.fit(
        bm.Counts.from_arrays([0, 1, 1], [0, 0, 0], [1, 1, 2]),
        task,
        prior=bm.SymmetricPrior(support=support),
    )
    policy = np.array([[0.1, 0.9, 0], [1, 0, 0], [0, 0, 0]])
    other = np.array([[0.7, 0.3, 0], [1, 0, 0], [0, 0, 0]])
    found = bm.action_values(policy, posterior.draws(60), reference=other)
    np.testing.assert_allclose(found.probability_best[0], [0.5, 0.5, 0])
    assert found.probability_better[0].tolist() == [0, 0, 0]
    assert found.gain_probability[0] == 0
    back = bm.action_values(other, posterior.draws(60), reference=policy)
    assert back.gain_probability[0] == 0
    worse = bm.action_values([2, 0, 0], posterior.draws(60), reference=policy)
    assert worse.probability_better[0].tolist() == [1, 1, 0]
    assert worse.gain_probability[0] == 0
    better = bm.action_values(policy, posterior.draws(60), reference=[2, 0, 0])
    assert better.gain_probability[0] == 1


@pytest.mark.parametrize("scale", [1e-13, 1e9])
def test_probabilities_do_not_depend_on_the_unit_of_rewards(scale: float) -> None:
    rng = np.random.default_rng(0)
    counts = bm.Counts.from_dense(rng.integers(1, 5, size=(4, 3, 4)))
    reward, found = rng.normal(size=(4, 3)), []
    for unit in (1.0, scale):
        task = bm.Task(4, 3, unit * reward, discount=0.9)
        draws = bm.fit(counts, task, prior=bm.SymmetricPrior()).draws(100, seed=0)
        found.append(bm.action_values([0] * 4, draws))
    for name in ("probability_best", "probability_better", "gain_probability"):
        np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))
    np.testing.assert_allclose(found[1].value, scale * found[0].value, rtol=1e-9)


# ------------------------------------------------------------------ values of draws


@every_case
@pytest.mark.parametrize("control", [False, True])
def test_an_evaluation_keeps_the_value_of_every_draw_and_state(
    name: str, control: bool
) -> None:
    case = CASES[name]()
    found = bm.evaluate(case.policy, case.draws, control=control, keep_values=True)
    assert found.values is not None
    wanted = np.array([one.value for one in case.solved()])
    np.testing.assert_allclose(found.values, wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        found.values @ found.task.start, found.start_values, rtol=1e-9, atol=1e-9
    )
    assert not found.values.flags.writeable
    plain = bm.evaluate(case.policy, case.draws, control=control)
    assert plain.values is None
    np.testing.assert_array_equal(plain.value, found.value)  # keeping changes nothing


# ------------------------------------------------------------------ refusals


def test_what_does_not_fit_is_refused_with_a_number_that_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = CASES["[S, A]"]()
    belief, how = case.draws.belief, {"keep_values": True, "threads": 1}
    monkeypatch.setenv("BAYESMDP_MEMORY", "4MB")
    with pytest.raises(TooLargeError, match="draws would fit") as caught:
        bm.action_values(case.policy, belief.draws(10**6), **how)
    found = re.search(r"about (\d+) draws", str(caught.value))
    assert found is not None
    fewer = int(found[1])
    assert 1000 < fewer < 10**6
    bm.action_values(case.policy, belief.draws(fewer), **how)


def test_a_bad_call_is_named() -> None:
    case = CASES["[S, A]"]()
    with pytest.raises(PolicyError, match="`reference`"):
        bm.action_values(case.policy, case.draws, reference=[0, 1])
    with pytest.raises(PolicyError, match="`policy`"):
        bm.action_values([0, 1], case.draws)
    with pytest.raises(ArgumentError, match="`device` must be one of cpu"):
        bm.action_values(case.policy, case.draws, device="gpu?")
    with pytest.raises(bm.BayesmdpError, match="`draws`"):
        bm.action_values(case.policy, 3)  # type: ignore[arg-type]


def test_identical_models_leave_no_uncertainty() -> None:
    """Squares of values of a million would leave rounding in its place."""
    world = bm.worlds.synthetic(2)
    task = bm.Task(5, 5, np.full(5, -1000.0) + world.task.reward, discount=0.999)
    same = bm.Ensemble([world.dynamics] * 7, task)
    found = bm.action_values(bm.policies.nominal(same), same.draws())
    assert found.epistemic_sd.max() < 1e-6
    assert found.gain_sd.max() < 1e-6
