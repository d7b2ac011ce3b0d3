"""Sums of rewards of different discounts: by iterations, and all policies enumerated.

Here because their kernels take long to compile, and hardly anybody needs them.
"""

from itertools import product

import numpy as np
import pytest
from mixed_sums import CASES, ensemble_of, every_policy

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.engine.planning import hindsight_values, plan

pytestmark = pytest.mark.integration


def test_iterations_and_bands_agree_with_elimination() -> None:
    """A walk of 90 states; chains of three products of discounts, and of two."""
    n = 90
    model = np.zeros((n, 2, n))
    at = np.arange(n)
    for a, up in enumerate((0.3, 0.6)):
        model[at, a, np.minimum(at + 1, n - 1)] += up
        model[at, a, np.maximum(at - 1, 0)] += 1.0 - up
    rng = np.random.default_rng(1)
    paid = {name: rng.normal(size=(n, 2)) for name in "abc"}
    discount = {"a": 0.9, "b": 0.8, "c": 0.9}
    about = bm.Task(n, 2, paid, discount=discount, start=0, terminal=[n - 1])
    model[-1] = 0.0
    counts = bm.Counts.from_dense(np.rint(20 * model).astype(int))
    posterior = bm.fit(counts, about, prior=bm.SparsePrior())
    policy = rng.dirichlet([1, 1], size=n)
    weights = {"a": 1.0, "b": -2.0, "c": 0.5}
    found = {
        solver: bm.evaluate(
            policy, posterior, reward=weights, n_draws=40, solver=solver
        )
        for solver in ("dense", "iterative")
    }
    one, other = found.values()
    assert other.solver == "iterative"
    for name in ("start_values", "value", "aleatoric_sd", "occupancy"):
        np.testing.assert_allclose(
            getattr(other, name), getattr(one, name), rtol=1e-7, atol=1e-9
        )
    both = bm.evaluate(policy, posterior, n_draws=40)
    assert both.rewards is not None
    apart = sum(weights[x] * both.rewards[x].start_values for x in weights)
    np.testing.assert_allclose(one.start_values, apart)


def test_of_120_models_and_ensembles_few_have_a_better_deterministic_policy() -> None:
    """The figures of docs/limits.md: all policies are enumerated."""
    plans = searches = 0
    for g, seed in product(CASES.values(), range(40)):
        one, four = ensemble_of(g, seed, 1), ensemble_of(g, seed, 4)
        found = (
            bm.evaluate(bm.policies.nominal(one), one).start_value,
            bm.optimise(four, effort="quick").start_value,
        )
        missed = []
        for ensemble, value in zip((one, four), found, strict=True):
            each = [bm.evaluate(x, ensemble).start_value for x in every_policy()]
            missed.append(value < max(each) - 1e-6 * abs(max(each)))
        plans, searches = plans + missed[0], searches + missed[1]
    assert (plans, searches) == (2, 0)


@pytest.mark.parametrize("cycle", ["start", "half"])
@pytest.mark.parametrize("g", [(0.9, 0.97), (0.94, 1.0)], ids=str)
def test_the_bound_is_that_of_decisions_that_change_with_time(
    g: tuple[float, float], cycle: str
) -> None:
    """As a horizon of 2,000 has it: no state lives so long."""
    bounds = []
    for more in ({}, {"horizon": 2000}):
        ensemble = ensemble_of(g, 3, cycle=cycle, **more)
        problem = engine.Problem.of_belief(ensemble)
        problem = problem.with_stream(ensemble.draws().stream)
        warm = plan(problem).choice
        with engine.workers(1, None) as pool:
            bounds.append(hindsight_values(problem, 3, warm, pool))
        for policy in every_policy():
            values = bm.evaluate(policy, ensemble).start_values
            assert (values <= bounds[-1] + 1e-9).all()
    np.testing.assert_allclose(bounds[0], bounds[1], rtol=1e-6)
