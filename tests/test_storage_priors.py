"""Priors as dicts: every prior comes back the same, and nothing else comes back."""

import dataclasses
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesmdp as bm
from bayesmdp import priors
from bayesmdp.errors import PriorError
from bayesmdp.priors import prior_from_dict, prior_to_dict


def trip(prior: Any) -> Any:
    """Through JSON and back."""
    return prior_from_dict(json.loads(json.dumps(prior_to_dict(prior))))


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
def test_every_prior_comes_back_the_same(prior: Any) -> None:
    assert same(prior, trip(prior))


def test_a_clinical_support_takes_little_room() -> None:
    rng = np.random.default_rng(0)
    mask = rng.random((752, 25, 752)) < 0.005  # as sparse as the clinical problem
    text = json.dumps(prior_to_dict(bm.SymmetricPrior(support=mask)))
    assert len(text) < mask.sum() * 16  # less than triplets of whole numbers would
    assert same(bm.SymmetricPrior(support=mask), prior_from_dict(json.loads(text)))


@dataclass(frozen=True, eq=False)
class Wrapped:
    """Stands in for priors to come: priors and much else inside."""

    base: Any = None
    parts: Any = ()
    derived: int = dataclasses.field(default=0, init=False)

    looks_at_data = False

    def concentrations(self, pair: Any, counts: Any, task: Any) -> Any:
        """Never asked."""


@pytest.fixture
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priors, "Wrapped", Wrapped, raising=False)
    monkeypatch.setattr(priors, "__all__", [*priors.__all__, "Wrapped"])


PARTS = [
    [bm.SparsePrior(1, 2), Wrapped(bm.SymmetricPrior(support=MASK), (1.5, None))],
    {"icu": 3, 4: [True, "x", {}]},
    (float("inf"), -float("inf"), float("nan"), -0.0),
    np.array(["icu", "ward"]),
    np.array([], dtype=np.float32),
    np.arange(6, dtype=">u2").reshape(2, 3).astype("=u2"),
    np.zeros((0, 3), dtype=bool),
    np.array(True),
]


@pytest.mark.usefixtures("_known")
@pytest.mark.parametrize("parts", PARTS)
def test_a_prior_that_the_room_lists_needs_nothing_more(parts: Any) -> None:
    prior = Wrapped(bm.SparsePrior(0.1, "death"), parts)
    assert same(prior, trip(prior))


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (Wrapped(), "type Wrapped, which cannot be saved (known are "),
        ("SparsePrior", "must be a prior; got 'SparsePrior'"),
        (None, "must be a prior"),
        (bm.SparsePrior(1, object()), "`prior.fallback` is of type object"),  # type: ignore[arg-type]
        (
            bm.SymmetricPrior(support=np.array([None, {}], dtype=object)),
            "`prior.support` holds an array of object",
        ),
        (bm.SparsePrior(1, {(1, 2): 3}), "has a key that cannot be saved"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_described_is_refused(prior: Any, said: str) -> None:
    with pytest.raises(PriorError, match="`prior") as caught:
        prior_to_dict(prior)
    assert said in str(caught.value)


GOOD = prior_to_dict(bm.SymmetricPrior(support=MASK))["support"]["array"]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (None, "must be a dict with a 'kind'"),
        ({}, "must be a dict with a 'kind'"),
        ({"kind": "SparcePrior"}, "did you mean 'SparsePrior'?"),
        ({"kind": ["x"]}, "unknown kind"),
        ({"kind": "Prior"}, "unknown kind"),
        ({"kind": "prior_to_dict"}, "unknown kind"),
        ({"kind": "SparsePrior", "weight": 1}, "has no field 'weight'"),
        ({"kind": "SparsePrior", "concentration": -1}, "`concentration` must be in"),
        ({"kind": "SymmetricPrior", "support": {}}, "`prior.support` is none of"),
        ({"kind": "SymmetricPrior", "support": {"array": 3}}, "not an array"),
        ({"kind": "SymmetricPrior", "support": {"array": {}}}, "not an array"),
    ]
    + [
        (
            {"kind": "SymmetricPrior", "support": {"array": GOOD | change}},
            "not an array",
        )
        for change in (
            {"dtype": "O"},
            {"dtype": "|V3"},
            {"dtype": "nonsense,("},
            {"shape": [7, 3, 8]},
            {"shape": [2**70]},
            {"shape": [-1]},
            {"shape": "abc"},
            {"zlib": "!"},
            {"zlib": GOOD["zlib"][:-8]},
            {"zlib": ""},
        )
    ],
)
def test_what_is_no_description_is_refused(record: Any, said: str) -> None:
    with pytest.raises(PriorError) as caught:
        prior_from_dict(record)
    assert said in str(caught.value)


def test_priors_inside_priors_have_an_end() -> None:
    record: Any = {"kind": "SparsePrior"}
    for _ in range(400):
        record = {"kind": "SparsePrior", "fallback": record}
    with pytest.raises(PriorError, match="nested more than"):
        prior_from_dict(record)
    deep: Any = None
    for _ in range(400):
        deep = [deep]
    with pytest.raises(PriorError, match="nested more than"):
        prior_to_dict(bm.SparsePrior(1, deep))


words = st.sampled_from(
    [
        "kind",
        "array",
        "tuple",
        "mapping",
        "number",
        "dtype",
        "shape",
        "zlib",
        "fallback",
        "SparsePrior",
        "SymmetricPrior",
        "concentration",
        "support",
        "<i8",
        "|b1",
        "x",
    ]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words | st.text(),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(words, x, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(anything)
def test_any_record_gives_a_prior_or_a_sentence(record: Any) -> None:
    with suppress(bm.BayesmdpError):
        prior_from_dict(record)


@pytest.mark.parametrize("inside", [False, True])
def test_a_prior_that_is_gone_is_refused_with_its_successor(inside: bool) -> None:
    gone: dict[str, Any] = {"kind": "PooledPrior", "concentration": "evidence"}
    record = {"kind": "FallbackPrior", "base": gone, "fallback": 1} if inside else gone
    with pytest.raises(PriorError, match="no PooledPrior any more") as told:
        prior_from_dict(record)
    assert "HierarchicalPrior()" in str(told.value)
    assert str(told.value).count(". ") == 0
