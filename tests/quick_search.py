"""The costly steps of the demonstration, made quick."""

from typing import Any

import pytest

import bayesmdp as bm

_sensitivity = bm.sensitivity


def make_quick(patch: pytest.MonkeyPatch) -> None:
    """Have the demonstration search nothing, and try priors of few possibilities."""
    patch.setattr(bm, "optimise", quick_search)
    patch.setattr(bm, "sensitivity", _on_sparse_priors)


def _on_sparse_priors(
    policy: Any, counts: Any, task: Any, priors: Any, **asked: Any
) -> Any:
    sparse = {"as fitted": priors["as fitted"], "less": bm.SparsePrior(0.1, "death")}
    return _sensitivity(policy, counts, task, sparse, **asked)


def quick_search(posterior: bm.Posterior, **asked: Any) -> bm.Optimisation:
    """Return the nominal policy, judged on a few draws."""
    policy = bm.policies.nominal(posterior)
    judged = bm.evaluate(policy, posterior.draws(16, seed=7))
    return bm.Optimisation(
        policy=policy,
        evaluation=judged,
        start_value=judged.start_value,
        start_value_error=judged.start_value_error,
        upper_bound=1.0,
        upper_bound_error=0.0,
        gap=1.0 - judged.start_value,
        gap_error=0.0,
        chosen_start="nominal, as it was",
        starts={"nominal": policy},
        history=(),
        converged=True,
        status="ascent found nothing better than this start, which is returned",
        steps=asked["method"].n_steps,
        draws_used=16,
        seconds=0.0,
        seed=asked["seed"],
    )
