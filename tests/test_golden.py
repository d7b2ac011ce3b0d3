"""Numbers of the paper's own scripts; ``golden/fig1_p25.json`` says how they came.

Both runs have 10,000 draws of the same posterior, theirs and ours independent, so each
difference is compared with the two Monte Carlo errors together: for values, theirs is
``epistemic_sd / sqrt(10000)`` and ours is reduced by control variates; standard
deviations have the same raw error in both.

Error rate: 12 data sets x 20 live states x 3 quantities = 720 comparisons at 5 standard
errors, two-sided 5.7e-7 each under normality. They are heavily correlated; by the union
bound the family fails with probability below 4.2e-4.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bayesmdp as bm

GOLDEN = json.loads((Path(__file__).parent / "golden" / "fig1_p25.json").read_text())
QUANTITIES = ("value", "epistemic_sd", "aleatoric_sd")
N_DRAWS = 10_000


def evaluated(dataset: dict[str, Any]) -> bm.Evaluation:
    world = bm.worlds.gridworld(0.25)
    counts = bm.Counts.from_arrays(
        *np.array(dataset["counts"]).T, n_states=25, n_actions=4
    )
    prior = bm.SymmetricPrior(1.0, support=world.support)
    posterior = bm.fit(counts, world.task, prior=prior)
    return bm.evaluate(np.array(dataset["policy"]), posterior.draws(N_DRAWS, seed=0))


def deviations(dataset: dict[str, Any], ours: bm.Evaluation) -> NDArray[np.float64]:
    """Differences in standard errors, [quantity, live state]."""
    theirs = np.array([dataset[name] for name in QUANTITIES])
    found = np.array([getattr(ours, name) for name in QUANTITIES])
    error = np.array([getattr(ours, f"{name}_mcse") for name in QUANTITIES])
    their_error = error.copy()
    their_error[0] = theirs[1] / np.sqrt(N_DRAWS)
    live = slice(0, 20)
    return (found - theirs)[:, live] / np.hypot(error, their_error)[:, live]


def test_the_golden_file_holds_twelve_data_sets_of_the_sizes_it_says() -> None:
    datasets = GOLDEN["datasets"]
    assert len({dataset["n"] for dataset in datasets}) == 12
    for dataset in datasets:
        assert sum(row[3] for row in dataset["counts"]) == dataset["n"]


@pytest.mark.parametrize("dataset", GOLDEN["datasets"], ids=lambda d: str(d["n"]))
def test_evaluation_agrees_with_the_scripts_of_the_paper(
    dataset: dict[str, Any],
) -> None:
    ours = evaluated(dataset)
    assert np.abs(deviations(dataset, ours)).max() < 5
    for name in QUANTITIES:
        terminal = getattr(ours, name)[20:]
        assert terminal.tolist() == dataset[name][20:] == [0.0] * 5


@pytest.mark.parametrize("name", QUANTITIES)
def test_a_perturbed_golden_number_is_noticed(name: str) -> None:
    dataset = GOLDEN["datasets"][0]
    ours = evaluated(dataset)
    wrong = dataset | {name: [1.1 * x for x in dataset[name]]}
    assert np.abs(deviations(wrong, ours)).max() > 5
