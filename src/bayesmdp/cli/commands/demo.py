"""``bayesmdp demo``: the two doubts, with little data and with much."""

from typing import TYPE_CHECKING

import click

from bayesmdp.cli._options import (
    output_options,
    seed_option,
    show,
    threads_option,
    wants_progress,
)

if TYPE_CHECKING:
    from bayesmdp import Evaluation

_SIZES = (100, 10_000)
_N_DRAWS = 10_000


@click.command()
@seed_option
@threads_option
@output_options
def command(seed: int, threads: int | None, as_json: bool, quiet: bool) -> None:
    """Evaluate one policy of the paper's gridworld on little and on much data.

    Example: bayesmdp demo --seed 1
    """
    import numpy as np

    import bayesmdp as bm

    world = bm.worlds.gridworld(p_rand=0.25)
    column = np.arange(world.task.n_states) % 5
    policy = np.where(column == 4, 2, np.where(column == 3, 1, 0))
    policy[:3] = 1  # climb, go right along the top, come down on the goal's side
    prior = bm.SymmetricPrior(support=world.support)
    results = {}
    for n in _SIZES:
        posterior = bm.fit(world.sample(n, seed), world.task, prior=prior)
        draws = posterior.draws(_N_DRAWS, seed)
        results[n] = bm.evaluate(
            policy, draws, threads=threads, progress=wants_progress(quiet)
        )
    truth = float(world.task.start @ world.value(policy))
    record: dict[str, object] = {str(n): _numbers(results[n]) for n in _SIZES}
    tables = [
        f"After {n} random transitions\n{results[n].summary(5)}\n" for n in _SIZES
    ]
    said = [
        "A windy grid: climb, walk right along the top, come down on the goal.\n"
        "The wind pushes down a quarter of the time; the bottom row is a cliff.\n",
        *tables,
        _what_changed(results[_SIZES[0]], results[_SIZES[1]], truth),
    ]
    record["true_start_value"] = truth
    show("\n".join(said), record, as_json=as_json, quiet=quiet)


def _numbers(evaluation: "Evaluation") -> dict[str, float]:
    names = [
        f"start_{quantity}{suffix}"
        for quantity in ("value", "epistemic_sd", "aleatoric_sd", "total_sd")
        for suffix in ("", "_error")
    ]
    return {name: getattr(evaluation, name) for name in names}


def _what_changed(little: "Evaluation", much: "Evaluation", truth: float) -> str:
    return (
        "What changed: with 100 times the data the epistemic sd went from "
        f"{little.start_epistemic_sd:.3f} to {much.start_epistemic_sd:.3f}, because "
        "more data show where the wind blows;\nthe aleatoric sd went from "
        f"{little.start_aleatoric_sd:.3f} to {much.start_aleatoric_sd:.3f} and stays, "
        "because knowing the wind does not stop it.\n"
        f"The value came to {much.start_value:.3f}; in the true grid it is {truth:.3f}."
    )
