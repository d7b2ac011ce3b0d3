"""What a GPU must compute as the CPU does, case by case, for a device of any name.

`test_gpu.py` runs them on kernels compiled for the CPU, `gpu/test_cuda.py` on a GPU.

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
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.engine._gpu import GPU
from bayesmdp.engine._gpu_sampling import sampled
from bayesmdp.errors import BackendError
from bayesmdp.evaluation._errors import ESTIMATED
from bayesmdp.posterior import Belief

Array = NDArray[np.float64]

N_DRAWS = 70  # four whole blocks of 16, and a part of one
N_MODELS = 40
VALUES, SPREADS, DRAWS = 1e-9, 1e-6, 1e-12

WORLD = bm.worlds.gridworld(discount=0.95)
LOG = WORLD.sample(900, seed=1)
S, A = WORLD.task.n_states, WORLD.task.n_actions
RNG = np.random.default_rng(5)
STOCHASTIC = RNG.dirichlet(np.ones(A), S)
CHOICE = np.eye(A)[RNG.integers(A, size=S)]  # most rows are not used


def fit(prior: Any, task: bm.Task = WORLD.task) -> Any:
    return bm.fit(LOG, task, prior=prior)


def faint() -> Any:
    """Rows without a visit, all of whose variates underflow in some draws."""
    return bm.fit(WORLD.sample(40, seed=1), WORLD.task, prior=bm.SymmetricPrior(1e-4))


def large() -> Any:
    """Shapes below 1 and far above, none of them whole."""
    some = np.random.default_rng(2).integers(-200, 400, size=(S, A, S)).clip(0)
    some[WORLD.task.terminal] = 0
    at = np.nonzero(some)
    counts = bm.Counts.from_arrays(*at, some[at])
    return bm.fit(counts, WORLD.task, prior=bm.SymmetricPrior(0.3))


def mixture() -> Any:
    parts = [
        bm.SymmetricPrior(0.5, support=WORLD.support),
        bm.ScaledPrior(2.0),
        bm.SparsePrior(fallback=S - 1),
    ]
    return fit(bm.MixturePrior(parts, posterior_weights=[0.5, 0.3, 0.2]))


def ensemble() -> bm.Ensemble:
    """Forty models with weights, and rewards of their own."""
    draws = fit(bm.SymmetricPrior(0.3)).draws(N_MODELS, seed=4)
    models = [draws.dynamics(i) for i in range(N_MODELS)]
    rng = np.random.default_rng(7)
    rewards = [rng.normal(size=S) for _ in models]
    weights = rng.dirichlet(np.full(N_MODELS, 5.0))
    return bm.Ensemble(models, WORLD.task, weights=weights, rewards=rewards)


def several() -> Any:
    """Two rewards of one discount, and one of another."""
    reward = np.random.default_rng(3).normal(size=(3, S))
    task = bm.Task(
        S,
        A,
        {"a": reward[0], "b": reward[1], "c": reward[2]},
        discount={"a": 0.95, "b": 0.95, "c": 0.8},
        terminal=WORLD.task.terminal,
        start=WORLD.task.start,
    )
    return fit(bm.SymmetricPrior(0.3), task)


def starts_at_an_end() -> Any:
    """Some episodes begin where they end, and are paid there."""
    start = np.linspace(0.0, 1.0, S)
    reward = np.random.default_rng(9).normal(size=S)
    start, terminal = start / start.sum(), WORLD.task.terminal
    task = bm.Task(S, A, reward, discount=0.9, terminal=terminal, start=start)
    return fit(bm.SymmetricPrior(0.3), task)


def undiscounted() -> Any:
    task = bm.Task(
        S,
        A,
        np.ones(S),
        discount=1.0,
        terminal=WORLD.task.terminal,
        start=WORLD.task.start,
    )
    return fit(bm.SymmetricPrior(0.5), task)


BELIEFS: dict[str, Callable[[], Belief]] = {
    "faint rows": faint,
    "concentration 0.02": lambda: fit(bm.SymmetricPrior(0.02)),
    "starts at an end": starts_at_an_end,
    "concentration 0.3": lambda: fit(bm.SymmetricPrior(0.3)),
    "whole shapes": lambda: fit(bm.SymmetricPrior(1.0)),
    "large shapes": large,
    "few next states": lambda: fit(bm.SymmetricPrior(0.5, support=WORLD.support)),
    "random supports": lambda: fit(bm.RandomSupportPrior()),
    "hierarchical": lambda: fit(None),
    "mixture": mixture,
    "ensemble": ensemble,
}
_MADE: dict[Any, Belief] = {}


def belief_of(make: Callable[[], Belief]) -> Any:
    """Return a belief that several cases share."""
    if make not in _MADE:
        _MADE[make] = make()
    return _MADE[make]


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
        found = on.get(sampled(on, problem.stream, numbers, used, n_entries))
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


def gradients_of_several_rewards(device: str) -> None:
    """Sums of slopes and their squares, of every reward."""
    draws = belief_of(several).draws(N_DRAWS, seed=8)
    problem = engine.Problem.of_draws(draws, CHOICE[None], every_row=True)
    want, found = engine.Want(gradient=True), []
    for name in (device, "cpu"):
        with engine.workers(1, None, name) as pool:
            around = engine.nominal(problem, pool, control=False, want=want)
            sums = engine.sweep(problem, around, N_DRAWS, want=want, pool=pool)
        found.append(sums.row)
    for ours, theirs in zip(*found, strict=True):  # of a reward
        close(ours[0], theirs[0], SPREADS, "slope")
        close(ours[1], theirs[1], SPREADS, "square")


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


def one_action(
    tail: Any, head: Any, count: Any, discount: float, n: int
) -> tuple[bm.Posterior, Array]:
    counts = bm.Counts.from_arrays(tail, np.zeros_like(tail), head, count)
    reward = np.random.default_rng(0).normal(size=n)
    task = bm.Task(n, 1, reward, discount=discount)
    posterior = bm.fit(counts, task, prior=bm.SparsePrior())
    assert isinstance(posterior, bm.Posterior)
    return posterior, np.ones((n, 1))


N_RING = 300


def ring() -> tuple[bm.Posterior, Array]:
    """Each state to the next in a shuffled order, seldom one further."""
    order = np.random.default_rng(N_RING).permutation(N_RING)
    head = np.concatenate([np.roll(order, -1), np.roll(order, -2)])
    count = np.repeat([10**6, 1], N_RING)
    return one_action(np.tile(order, 2), head, count, 0.99999, N_RING)


def slow_chain(device: str) -> None:
    """Iterations fail in every draw, and the CPU eliminates."""
    posterior, policy = ring()
    draws = posterior.draws(20, seed=1)
    ours = bm.evaluate(policy, draws, device=device, keep_values=True)
    theirs = bm.evaluate(policy, draws, solver="dense", keep_values=True)
    assert (ours.n_retried, ours.n_unsolved, ours.n_endless) == (20, 0, 0)
    assert_same(ours, theirs)


def some_slow_chains(device: str) -> None:
    """The CPU adds the draws that failed, and no other, to sums of the device."""
    posterior, policy = ring()
    slow, models = posterior.mean(), []
    for k in (3, 5):
        tail = np.repeat(np.arange(N_RING), k)
        head = np.random.default_rng(k).integers(N_RING, size=tail.size)
        count = np.ones(tail.size, dtype=np.int64)
        models.append(one_action(tail, head, count, 0.99999, N_RING)[0].mean())
    models = [models[0], slow, models[1], slow]
    weights = [0.4, 0.2, 0.3, 0.1]
    belief = bm.Ensemble(models, posterior.task, weights=weights)
    ours = bm.evaluate(policy, belief, device=device)
    theirs = bm.evaluate(policy, belief, solver="dense")
    assert (ours.n_retried, ours.n_unsolved, ours.n_endless) == (2, 0, 0)
    assert_same(ours, theirs)


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
    "the same bits": same_bits,
    "a slow chain": slow_chain,
    "some slow chains": some_slow_chains,
    **{f"refused: {name}": refusal(name) for name in REFUSED},
}
