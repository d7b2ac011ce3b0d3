"""The costly step of the demonstration, made quick."""

from typing import Any

import pytest

import bayesmdp as bm
from bayesmdp.optimisation import Outcome, Stage


def make_quick(patch: pytest.MonkeyPatch) -> None:
    """Have the demonstration search nothing, and exchange actions twice."""
    patch.setattr(bm, "optimise", quick_search)
    patch.setattr("bayesmdp.cli.commands.demo._PERMUTATIONS", 2)


def quick_search(
    posterior: Any, objective: Any = None, **asked: Any
) -> bm.Optimisation:
    """Return the nominal policy, judged on a few draws."""
    policy = bm.policies.nominal(posterior)
    judged = bm.evaluate(policy, posterior.draws(16, seed=7))
    return bm.Optimisation(
        policy=policy,
        evaluation=judged,
        objective="PosteriorMean()",
        objective_value=judged.start_value,
        objective_mcse=judged.start_value_mcse,
        gap=1.0 - judged.start_value,
        gap_mcse=0.0,
        chosen_start="nominal",
        chosen_stage=Stage.START,
        starts={"nominal": policy},
        bounded=True,
        left_out=(),
        steps_before=0,
        history=(),
        outcome=Outcome.CONVERGED,
        draws_used=16,
        seconds=0.0,
        seed=asked["seed"],
    )
