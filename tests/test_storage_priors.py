"""Priors come back the same from a run, and nothing else comes back as one."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp import priors
from bayesmdp.errors import StorageError

COUNTS = bm.Counts.from_arrays([0, 1], [0, 0], [1, 2])
TASK = bm.Task(3, 1, reward=[0, 0, 1], discount=0.5, terminal=[2])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    posterior = bm.fit(COUNTS, TASK, prior=bm.SymmetricPrior())
    return bm.storage.save(posterior, tmp_path_factory.mktemp("run"))


def trip(run: Path, prior: Any) -> Any:
    """Into a file and back."""
    bm.storage.save_result(run, "prior", {"it": prior}, overwrite=True)
    return bm.storage.load_result(run, "prior")["it"]


def same(x: Any, y: Any) -> bool:
    """Equal in type and value, arrays to the bit."""
    if type(x) is not type(y):
        return False
    if isinstance(x, np.ndarray):
        alike = x.dtype == y.dtype and x.shape == y.shape
        return alike and x.tobytes() == y.tobytes() and not y.flags.writeable
    if dataclasses.is_dataclass(x):
        names = [f.name for f in dataclasses.fields(x)]
        return all(same(getattr(x, n), getattr(y, n)) for n in names)
    if isinstance(x, list | tuple):
        return len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, dict):
        return list(x) == list(y) and all(same(x[k], y[k]) for k in x)
    return bool(x == y or (x != x and y != y))


MASK = np.random.default_rng(0).random((7, 3, 7)) < 0.3
TRIPLETS = (np.array([0, 1]), np.array([0, 0]), np.array([1, 1]))


@pytest.mark.parametrize(
    "prior",
    [
        bm.SymmetricPrior(),
        bm.SymmetricPrior(0.1 + 0.2),
        bm.SymmetricPrior(5e-300, support=MASK),
        bm.SymmetricPrior(2, support=MASK[:, 0]),
        bm.SymmetricPrior(2, support=TRIPLETS),
        bm.SymmetricPrior(2, support=tuple(np.zeros((3, 0), dtype=np.int64))),
        bm.HierarchicalPrior(),
        bm.HierarchicalPrior("uniform", MASK[:, 0], "Tod"),
        bm.SparsePrior(),
        bm.SparsePrior(0.5, 3),
        bm.SparsePrior(0.5, "Tod \N{SKULL} \ud800"),
        bm.MixturePrior([bm.SymmetricPrior(0.1, MASK), bm.ScaledPrior()]),
        bm.MixturePrior([bm.SparsePrior(), bm.EvidencePrior()], None, [0.1, 0.9]),
    ],
)
def test_every_prior_comes_back_the_same(run: Path, prior: Any) -> None:
    assert same(prior, trip(run, prior))


def test_a_posterior_has_its_prior_again(tmp_path: Path) -> None:
    inside = bm.FallbackPrior(bm.SymmetricPrior(0.5, COUNTS_SUPPORT), 2, 0.25)
    prior = bm.MixturePrior([inside, bm.SparsePrior(1, 2)], None, [0.25, 0.75])
    posterior = bm.fit(COUNTS, TASK, prior=prior)
    again = bm.storage.load(bm.storage.save(posterior, tmp_path / "run")).posterior
    assert same(again.prior, prior)
    one, two = (x.draws(9).dynamics(5).probability for x in (posterior, again))
    assert np.array_equal(one, two)


COUNTS_SUPPORT = (np.array([0, 1]), np.array([0, 0]), np.array([1, 2]))


def test_every_prior_of_the_room_is_known(run: Path) -> None:
    found = [getattr(priors, name) for name in priors.__all__]
    listed = [x for x in found if isinstance(x, type) and x.__name__.endswith("Prior")]
    made = [x for x in listed if dataclasses.is_dataclass(x)]
    assert len(made) == 8
    needed: dict[str, tuple[Any, ...]] = {
        "FallbackPrior": (bm.SparsePrior(), 1),
        "MixturePrior": ([bm.SparsePrior(), bm.ScaledPrior()],),
    }
    for kind in made:
        prior = kind(*needed.get(kind.__name__, ()))
        assert same(prior, trip(run, prior))


def test_a_clinical_support_takes_little_room(run: Path) -> None:
    rng = np.random.default_rng(0)
    mask = rng.random((752, 25, 752)) < 0.005  # as sparse as the clinical problem
    assert same(bm.SymmetricPrior(support=mask), trip(run, bm.SymmetricPrior(1, mask)))
    file = run / "results" / "prior.json"
    assert file.stat().st_size < mask.sum() * 16  # less than triplets would


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (bm.SparsePrior(1, object()), "`result.it.fallback` is of type object"),  # type: ignore[arg-type]
        (
            bm.SymmetricPrior(support=np.array([None, {}], dtype=object)),
            "`result.it.support` must hold numbers, text or True and False",
        ),
        (bm.SparsePrior(1, {(1, 2): 3}), "must have text as keys"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_kept_is_refused(run: Path, prior: Any, said: str) -> None:
    with pytest.raises(StorageError) as caught:
        trip(run, prior)
    assert said in str(caught.value)
