"""What a GPU must compute as the CPU does, case by case, for a device of any name.

`integration/test_gpu_on_cpu.py` runs them on kernels compiled for the CPU,
`gpu/test_cuda.py` on a GPU.

Tolerances. Draws are sampled by the same operations in the same order; what may differ
is the last digit of a logarithm or a power: 1e-12, relative. Solutions of iterations
are right to 1e-10 of the largest value of all states (`engine/_krylov.py`), and the
CPU's, of so few states, are found by elimination: 1e-9 of the largest. A standard
deviation is the root of a sum of squares around the nominal value, and Monte Carlo
errors are differences of such sums: 1e-6 of the largest, or 1e-9 of the largest value
where that is all but certain.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from gpu_beliefs import (
    BELIEFS,
    CHOICE,
    N_MODELS,
    STOCHASTIC,
    WORLD,
    A,
    Array,
    S,
    belief_of,
    ensemble,
    mixture,
    several,
    undiscounted,
)

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.engine._gpu import GPU
from bayesmdp.engine._gpu_sampling import sampled
from bayesmdp.errors import BackendError
from bayesmdp.evaluation._errors import ESTIMATED
from bayesmdp.posterior import Belief

N_DRAWS = 70  # four whole blocks of 16, and a part of one
VALUES, SPREADS, DRAWS = 1e-9, 1e-6, 1e-12


def gpu(device: str) -> GPU:
    found = engine.backend_of(device)
    assert isinstance(found, GPU)
    return found


def close(
    ours: Any, theirs: Any, share: float, name: str, floor: float = 1e-300
) -> None:
    """Equal up to a share of the largest."""
    off = max(share * np.nanmax(np.abs(theirs), initial=0.0), floor)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=off, err_msg=name)


def assert_same(ours: bm.Evaluation, theirs: bm.Evaluation) -> None:
    """Compare all numbers of two evaluations."""
    assert ours.n_draws == theirs.n_draws
    assert (ours.n_endless, ours.n_unsolved) == (theirs.n_endless, theirs.n_unsolved)
    for name in ("value", "occupancy", "start_value", "start_values", "values", "bias"):
        if (expected := getattr(theirs, name)) is not None:
            close(getattr(ours, name), expected, VALUES, name)
    floor = VALUES * float(np.abs(theirs.value).max())
    for name in ESTIMATED:
        if name != "value":
            close(getattr(ours, name), getattr(theirs, name), SPREADS, name, floor)
            name = f"start_{name}"
            close(getattr(ours, name), getattr(theirs, name), SPREADS, name, floor)
    for kind in ("epistemic", "aleatoric"):
        for error in ("", "_mcse"):
            name = f"start_{kind}_covariance{error}"
            if (expected := getattr(theirs, name)) is not None:
                close(getattr(ours, name), expected, SPREADS, name)
    for name, one in (theirs.rewards or {}).items():
        assert ours.rewards is not None
        if one is not theirs and name != next(iter(theirs.rewards or {})):
            assert_same(ours.rewards[name], one)


def evaluated(
    device: str, belief: Belief, policy: Any = STOCHASTIC, **how: Any
) -> bm.Evaluation:
    """Evaluate on a device and on the CPU; both must agree."""
    n = None if belief.n_models else N_DRAWS
    ours = bm.evaluate(policy, belief, n_draws=n, device=device, **how)
    theirs = bm.evaluate(policy, belief, n_draws=n, **how)
    assert (ours.device, ours.solver, theirs.device) == (device, "iterative", "cpu")
    assert_same(ours, theirs)
    return ours


def draws_case(name: str) -> Callable[[str], None]:
    def case(device: str) -> None:
        belief = belief_of(BELIEFS[name])
        draws = belief.draws() if belief.n_models else belief.draws(37, seed=3)
        problem = engine.Problem.of_draws(draws, np.stack([CHOICE]), every_row=True)
        assert problem.stream is not None
        numbers = np.arange(5, 32) if belief.n_models is None else np.arange(N_MODELS)
        used = problem.used if problem.stream.independent else problem.used | True
        n_entries = problem.rows.target.size
        expected = np.zeros((numbers.size, n_entries))
        problem.stream.fill(numbers, used, expected)
        on = gpu(device).device
        rows = sampled(on, problem.stream, numbers, used, n_entries)
        found = on.get(on.by_draw(rows, numbers.size))
        read = np.repeat(used, np.diff(problem.rows.indptr))
        np.testing.assert_allclose(
            found[:, read], expected[:, read], rtol=DRAWS, atol=1e-300
        )

    return case


def values_case(name: str) -> Callable[[str], None]:
    def case(device: str) -> None:
        belief = belief_of(BELIEFS[name])
        evaluated(device, belief)
        evaluated(device, belief, CHOICE)

    return case


def several_rewards(device: str) -> None:
    found = evaluated(device, belief_of(several))
    assert found.rewards is not None
    assert found.rewards["c"].device == device
    assert "a" in str(found)


def net_benefit(device: str) -> None:
    evaluated(device, belief_of(several), reward={"a": 2.0, "b": -1.0})


def discount_1(device: str) -> None:
    evaluated(device, belief_of(undiscounted))


def kept_values(device: str) -> None:
    found = evaluated(device, belief_of(BELIEFS["hierarchical"]), keep_values=True)
    assert found.values is not None
    assert found.values.shape == (N_DRAWS, S)
    several_kept = evaluated(device, belief_of(several), keep_values=True)
    assert several_kept.values is not None


def controls_of_every_state(device: str) -> None:
    found = evaluated(device, belief_of(BELIEFS["concentration 0.3"]))
    assert found.variance_reduction > 2


def controls_of_the_start(device: str) -> None:
    """Of shared rows: a mixture has the first variate alone."""
    found = evaluated(device, belief_of(mixture))
    assert found.variance_reduction > 1
    evaluated(device, belief_of(mixture), control=False)


def compared(device: str) -> None:
    draws = belief_of(BELIEFS["hierarchical"]).draws(N_DRAWS, seed=1)
    policies = {"a": STOCHASTIC, "b": CHOICE}
    ours = bm.compare(policies, draws, device=device)
    theirs = bm.compare(policies, draws)
    for one, other in zip(ours.rows, theirs.rows, strict=True):
        assert one.difference == pytest.approx(other.difference, rel=1e-7, abs=1e-12)
        assert one.difference_mcse == pytest.approx(other.difference_mcse, rel=1e-5)
    assert {x.device for x in ours.evaluations.values()} == {device}


def slopes_of(belief: Belief, policy: Array, device: str) -> Any:
    draws = belief.draws() if belief.n_models else belief.draws(N_DRAWS, seed=8)
    problem = engine.Problem.of_draws(draws, policy[None], every_row=True)
    with engine.workers(1, None, device) as pool:
        rows = problem.policies[0]
        return engine.slopes(problem, rows, draws.n_draws, pool=pool)


def gradients(device: str) -> None:
    """Also of rows without probability, whose mean stands in for their draws."""
    for make in (BELIEFS["concentration 0.3"], BELIEFS["hierarchical"], mixture):
        for policy in (STOCHASTIC, CHOICE):
            ours = slopes_of(belief_of(make), policy, device)
            theirs = slopes_of(belief_of(make), policy, "cpu")
            assert ours.value == pytest.approx(theirs.value, rel=1e-8)
            close(ours.slope, theirs.slope, VALUES * 10, "slope")
            assert ours.gap == pytest.approx(theirs.gap, rel=1e-6)


def swept(
    draws: bm.Draws, policy: Array, want: engine.Want, device: str
) -> engine.Sums:
    """Return sums over draws for a policy."""
    problem = engine.Problem.of_draws(draws, policy[None], every_row=want.gradient)
    with engine.workers(1, None, device) as pool:
        around = engine.nominal(problem, pool, control=False, want=want)
        return engine.sweep(problem, around, draws.n_draws, want=want, pool=pool)


def same_slopes(draws: bm.Draws, policy: Array, device: str) -> None:
    """Compare sums of slopes and their squares, of every reward."""
    want = engine.Want(gradient=True)
    found = [swept(draws, policy, want, name).row for name in (device, "cpu")]
    for ours, theirs in zip(*found, strict=True):  # of a reward
        close(ours[0], theirs[0], SPREADS, "slope")
        close(ours[1], theirs[1], SPREADS, "square")


def gradients_of_several_rewards(device: str) -> None:
    """Of rows without probability, too."""
    same_slopes(belief_of(several).draws(N_DRAWS, seed=8), CHOICE, device)


def optimised(device: str) -> None:
    belief = belief_of(BELIEFS["concentration 0.3"])
    how: Any = {"seed": 2, "effort": "quick", "starts": ["nominal"]}
    how["method"] = bm.MirrorAscent(n_steps=6)
    ours, theirs = bm.optimise(belief, device=device, **how), bm.optimise(belief, **how)
    assert ours.evaluation.device == device
    np.testing.assert_allclose(ours.policy, theirs.policy, atol=1e-6)
    assert ours.start_value == pytest.approx(theirs.start_value, rel=1e-8)


def cvar_of_an_ensemble(device: str) -> None:
    belief = belief_of(ensemble)
    how: Any = {"seed": 1, "effort": "quick", "starts": ["nominal"]}
    how["method"] = bm.MirrorAscent(n_steps=6)
    objective = bm.CVaR(0.8)
    ours = bm.optimise(belief, objective, device=device, **how)
    theirs = bm.optimise(belief, objective, **how)
    np.testing.assert_allclose(ours.policy, theirs.policy, atol=1e-6)
    assert ours.objective_value == pytest.approx(theirs.objective_value, rel=1e-8)


def regret(device: str) -> None:
    """What knowing the model would gain is the CPU's; weights of draws follow it."""
    belief = belief_of(BELIEFS["few next states"])
    how: Any = {"seed": 1, "effort": "quick", "starts": ["nominal"]}
    how["method"] = bm.MirrorAscent(n_steps=6)
    objective = bm.CVaR(0.5, of="regret")
    ours = bm.optimise(belief, objective, device=device, **how)
    theirs = bm.optimise(belief, objective, **how)
    np.testing.assert_allclose(ours.policy, theirs.policy, atol=1e-6)
    assert ours.objective_value == pytest.approx(theirs.objective_value, rel=1e-6)


def improved(device: str) -> None:
    """Pairs that were not observed are held at the baseline's probability."""
    log = WORLD.sample(100, seed=1)
    prior = bm.SymmetricPrior(0.5, support=WORLD.support)
    belief, baseline = bm.fit(log, WORLD.task, prior=prior), np.full((S, A), 1 / A)
    ours = bm.improve(belief, baseline, effort="quick", device=device)
    theirs = bm.improve(belief, baseline, effort="quick")
    np.testing.assert_allclose(ours.policy, theirs.policy, atol=1e-6)
    held = np.ones((S, A), dtype=np.bool_)
    held[log.counts().state, log.counts().action] = False
    held[WORLD.task.terminal] = False
    assert held.any()
    assert (ours.policy[held] == 1 / A).all()
    assert (ours.policy != baseline).any()


N_LONG = 200


def a_long_row(device: str) -> None:
    """More next states than a warp adds up together (ROOM in `chain.cu`)."""
    world = bm.worlds.synthetic(1, N_LONG, 2, discount=0.9)
    log, prior = world.sample(30 * N_LONG, seed=0), bm.SymmetricPrior(0.05)
    draws = bm.fit(log, world.task, prior=prior).draws(20, seed=1)
    policy = np.random.default_rng(4).dirichlet(np.ones(2), N_LONG)
    how: Any = {"control": False, "keep_values": True}
    ours = bm.evaluate(policy, draws, device=device, **how)
    assert_same(ours, bm.evaluate(policy, draws, **how))
    same_slopes(draws, policy, device)


def same_bits(device: str) -> None:
    """Again, and in other parts; so that a result can be had again."""
    belief = belief_of(BELIEFS["hierarchical"])
    draws = belief.draws(N_DRAWS, seed=6)
    one = bm.evaluate(STOCHASTIC, draws, device=device)
    two = bm.evaluate(STOCHASTIC, draws, device=device)
    more = belief.draws(N_DRAWS + 40, seed=6)
    beside = bm.evaluate(STOCHASTIC, more, device=device)
    for name in (*ESTIMATED, "occupancy", "start_values"):
        assert (getattr(one, name) == getattr(two, name)).all(), name
    assert (beside.start_values[:N_DRAWS] == one.start_values).all()


N_RING = 300
SLOW = 0.99999


def one_action(*steps: Any) -> tuple[bm.Posterior, Array]:
    counts = bm.Counts.from_arrays(steps[0], np.zeros_like(steps[0]), *steps[1:])
    reward = np.random.default_rng(0).normal(size=N_RING)
    task = bm.Task(N_RING, 1, reward, discount=SLOW)
    posterior = bm.fit(counts, task, prior=bm.SparsePrior())
    assert isinstance(posterior, bm.Posterior)
    return posterior, np.ones((N_RING, 1))


def round_steps() -> tuple[Any, Any, Any]:
    """Each state to the next in a shuffled order, seldom one further."""
    order = np.random.default_rng(N_RING).permutation(N_RING)
    head = np.concatenate([np.roll(order, -1), np.roll(order, -2)])
    return np.tile(order, 2), head, np.repeat([10**6, 1], N_RING)


def far_steps(k: int) -> tuple[Any, Any, Any]:
    """Each state to ``k`` others, wherever they are."""
    tail = np.repeat(np.arange(N_RING), k)
    head = np.random.default_rng(k).integers(N_RING, size=tail.size)
    return tail, head, np.ones(tail.size, dtype=np.int64)


def ring() -> tuple[bm.Posterior, Array]:
    """Return a belief whose chains iterations do not solve."""
    return one_action(*round_steps())


def slow_chain(device: str) -> None:
    """Iterations fail in every draw, and the CPU eliminates."""
    posterior, policy = ring()
    draws = posterior.draws(20, seed=1)
    ours = bm.evaluate(policy, draws, device=device, keep_values=True)
    theirs = bm.evaluate(policy, draws, solver="dense", keep_values=True)
    assert (ours.n_retried, ours.n_unsolved, ours.n_endless) == (20, 0, 0)
    assert_same(ours, theirs)


def mixed(task: bm.Task) -> bm.Ensemble:
    """Four models, the second and the fourth of which iterations do not solve."""
    slow = ring()[0].mean()
    fast = [one_action(*far_steps(k))[0].mean() for k in (3, 5)]
    models = [fast[0], slow, fast[1], slow]
    return bm.Ensemble(models, task, weights=[0.4, 0.2, 0.3, 0.1])


def some_slow_chains(device: str) -> None:
    """The CPU adds the draws that failed, and no other, to sums of the device."""
    posterior, policy = ring()
    belief = mixed(posterior.task)
    ours = bm.evaluate(policy, belief, device=device)
    theirs = bm.evaluate(policy, belief, solver="dense")
    assert (ours.n_retried, ours.n_unsolved, ours.n_endless) == (2, 0, 0)
    assert_same(ours, theirs)


def some_slow_chains_of_two_rewards(device: str) -> None:
    """Covariances of returns are added, too; values are kept."""
    reward = np.random.default_rng(1).normal(size=(2, N_RING))
    named = {"a": reward[0], "b": reward[1]}
    belief = mixed(bm.Task(N_RING, 1, named, discount=SLOW))
    policy = np.ones((N_RING, 1))
    ours = bm.evaluate(policy, belief, device=device, keep_values=True)
    theirs = bm.evaluate(policy, belief, solver="dense", keep_values=True)
    assert (ours.n_retried, ours.n_unsolved, ours.n_endless) == (2, 0, 0)
    assert theirs.start_aleatoric_covariance is not None
    assert_same(ours, theirs)
    want = engine.Want(variance=True, cross=True)  # those of slow chains are small
    one, other = (swept(belief.draws(), policy, want, x) for x in (device, "cpu"))
    np.testing.assert_allclose(one.cross, other.cross, rtol=SPREADS)


def one_slow_policy_of_two(device: str) -> None:
    """Its draws are the CPU's, those of the other policy the device's."""
    parts = round_steps(), far_steps(5)
    tail, head, count = (np.concatenate(x) for x in zip(*parts, strict=True))
    action = np.repeat([0, 1], [len(x[0]) for x in parts])
    reward = np.random.default_rng(0).normal(size=N_RING)
    task = bm.Task(N_RING, 2, reward, discount=0.999)
    counts = bm.Counts.from_arrays(tail, action, head, count)
    draws = bm.fit(counts, task, prior=bm.SparsePrior()).draws(20, seed=1)
    policies = {"slow": np.zeros(N_RING, int), "fast": np.ones(N_RING, int)}
    for order in (("slow", "fast"), ("fast", "slow")):
        named = {name: policies[name] for name in order}
        ours = bm.compare(named, draws, device=device).evaluations
        theirs = bm.compare(named, draws, solver="dense").evaluations
        assert {name: x.n_retried for name, x in ours.items()} == {
            "slow": 20,
            "fast": 0,
        }
        for name, one in ours.items():
            assert_same(one, theirs[name])
    same_slopes(draws, np.tile([1.0, 0.0], (N_RING, 1)), device)


@dataclass(frozen=True)
class Refusal:
    """What a device does not do, and how it is called."""

    task: dict[str, Any]
    how: dict[str, Any]
    said: str


REFUSED = {
    "horizon": Refusal({"horizon": 4}, {}, "a task with a horizon"),
    "average": Refusal(
        {"criterion": "average", "terminal": []}, {}, "averages per step"
    ),
    "dense": Refusal({}, {"solver": "dense"}, "`solver='dense'`"),
    "half": Refusal({"cycle": "half"}, {}, "`cycle='half'`"),
}


def refusal(name: str) -> Callable[[str], None]:
    def case(device: str) -> None:
        wanted = REFUSED[name]
        given: dict[str, Any] = {"discount": 0.9, "terminal": [3]} | wanted.task
        if "criterion" in given:
            given.pop("discount")
        task = bm.Task(4, 2, [0.0, 1.0, 2.0, 0.0], **given)
        counts = bm.Counts.from_arrays([0, 1, 2], [0, 1, 0], [1, 2, 3], [5, 5, 5])
        belief = bm.fit(counts, task, prior=bm.SymmetricPrior())
        with pytest.raises(BackendError) as caught:
            bm.evaluate([0, 0, 0, 0], belief, device=device, **wanted.how)
        said = str(caught.value)
        assert f"`device='{device}'` cannot compute with {wanted.said}" in said
        assert "take device='cpu'" in said

    return case


CASES: dict[str, Callable[[str], None]] = {
    **{f"draws of {name}": draws_case(name) for name in BELIEFS},
    **{
        f"values of {name}": values_case(name)
        for name in BELIEFS
        if name != "faint rows"  # draws are alike up to rounding: sds have no error
    },
    "several rewards": several_rewards,
    "net benefit": net_benefit,
    "discount 1": discount_1,
    "kept values": kept_values,
    "controls of every state": controls_of_every_state,
    "controls of the start": controls_of_the_start,
    "a comparison": compared,
    "gradients": gradients,
    "gradients of several rewards": gradients_of_several_rewards,
    "an optimisation": optimised,
    "cvar of an ensemble": cvar_of_an_ensemble,
    "regret": regret,
    "an improvement": improved,
    "a long row": a_long_row,
    "the same bits": same_bits,
    "a slow chain": slow_chain,
    "some slow chains": some_slow_chains,
    "some slow chains of two rewards": some_slow_chains_of_two_rewards,
    "one slow policy of two": one_slow_policy_of_two,
    **{f"refused: {name}": refusal(name) for name in REFUSED},
}
