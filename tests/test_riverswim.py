"""RiverSwim over 100 models: published values of others, and ours in the tail.

Values of WSU, MVP, CADP and of planning for each model are those of the published
table, recomputed to four digits; ours, found on the training models, are judged on the
test models.
"""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import bayesmdp as bm
from studies import horizon_policies as others

DATA = Path(__file__).parent / "data" / "riverswim"


def read(name: str) -> others.Models:
    with gzip.open(DATA / name, "rt") as file:
        rows = np.array(list(csv.reader(file))[1:], dtype=float)
    state, action, to, model = rows[:, :4].astype(int).T
    theta, reward = np.zeros((2, model.max() + 1, 20, 2, 20))
    theta[model, state, action, to], reward[model, state, action, to] = rows[:, 4:].T
    start = np.zeros(20)
    with (DATA / "initial.csv").open() as file:
        for at, share in list(csv.reader(file))[1:]:
            start[int(at)] = float(share)
    return others.Models(theta, (theta * reward).sum(axis=3), start, 0.9)


@pytest.fixture(scope="module")
def training() -> others.Models:
    return read("training.csv.gz")


@pytest.fixture(scope="module")
def test_models() -> others.Models:
    return read("test.csv.gz")


@pytest.mark.parametrize(
    ("horizon", "wsu", "mvp", "cadp", "known"),
    [
        (50, 203.6191, 201.8650, 204.7445, 210.6003),
        (100, 206.1104, 204.0082, 207.2724, 213.2689),
        (150, 206.1246, 204.0194, 207.2856, 213.2828),
    ],
)
def test_published_values(
    training: others.Models,
    test_models: others.Models,
    horizon: int,
    wsu: float,
    mvp: float,
    cadp: float,
    known: float,
) -> None:
    found = [
        test_models.returns(make(training, horizon)).mean()
        for make in (others.wsu, others.mvp, others.cadp)
    ]
    assert found == pytest.approx([wsu, mvp, cadp], abs=5e-5)
    best = others.clairvoyant(test_models, horizon).mean()
    assert best == pytest.approx(known, abs=5e-5)


def ensemble(models: others.Models) -> bm.Ensemble:
    task = bm.Task(
        20,
        2,
        reward=models.reward.mean(axis=0),
        discount=models.discount,
        start=models.start,
    )
    return bm.Ensemble(models.theta, task, list(models.reward))


def judged(policy: NDArray[np.float64], models: others.Models) -> tuple[float, float]:
    """Mean over models, and mean over the worst tenth."""
    values = np.sort(bm.evaluate(policy, ensemble(models)).start_values)
    return float(values.mean()), float(values[: values.size // 10].mean())


def test_the_tail_is_bought_with_the_mean(
    training: others.Models, test_models: others.Models
) -> None:
    """Policies for tails of the training models, on the test models."""
    belief = ensemble(training)
    nominal = judged(bm.policies.nominal(belief), test_models)
    assert nominal == pytest.approx((204.02, 51.0), abs=0.05)
    found = bm.optimise(belief, bm.CVaR(0.1)).policy
    cautious = judged(found, test_models)
    assert cautious == pytest.approx((142.9, 65.3), abs=0.1)
    quarter = judged(bm.optimise(belief, bm.CVaR(0.25)).policy, test_models)
    assert quarter == pytest.approx((168.6, 64.8), abs=0.1)
    percentile = others.percentile(training, 0.1)  # where all were found, ours leads
    assert judged(percentile, training)[1] < judged(found, training)[1]
