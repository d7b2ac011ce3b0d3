"""The public surface as a surface: names, docstrings, examples."""

import inspect
import re
from pathlib import Path

import pytest

import bayesmdp as bm

ROOMS = (bm.data, bm.model, bm.priors, bm.posterior, bm.worlds, bm.evaluation)
ROOMS += (bm.policies, bm.optimisation, bm.diagnostics, bm.economics, bm.storage)
ROOMS += (bm.reporting, bm.plots)
ROOT = Path(__file__).parents[1]
CONTRACT = [
    "Counts",
    "Dynamics",
    "EvidencePrior",
    "FallbackPrior",
    "RandomSupportPrior",
    "MixturePrior",
    "HierarchicalPrior",
    "ScaledPrior",
    "SparsePrior",
    "SymmetricPrior",
    "Task",
    "MDP",
    "check",
    "check_calibration",
    "compare_priors",
    "cost_effectiveness",
    "CVaR",
    "evaluate",
    "improve",
    "risk_frontier",
    "evaluate_analytic",
    "fit",
    "off_policy",
    "report",
    "restrict",
    "prior_sensitivity",
    "worlds",
]
EVERYDAY = [
    name
    for name in bm.__all__
    if not inspect.ismodule(getattr(bm, name)) and name != "__version__"
]


def test_the_everyday_names_are_few_sorted_and_include_the_contract() -> None:
    # as ruff sorts them: names in capitals first
    assert bm.__all__ == sorted(bm.__all__, key=lambda x: (not x.isupper(), x))
    assert len(bm.__all__) <= 60
    assert set(CONTRACT) <= set(bm.__all__)


@pytest.mark.parametrize("name", EVERYDAY)
def test_every_public_name_has_a_docstring_with_an_example(name: str) -> None:
    item = getattr(bm, name)
    text = inspect.getdoc(item) or ""
    assert text
    if not issubclass(item, Exception) if inspect.isclass(item) else True:
        methods = [
            inspect.getdoc(member) or ""
            for _, member in inspect.getmembers(item, callable)
        ]
        assert ">>>" in "\n".join([text, *methods])


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_every_room_lists_what_it_offers(room: object) -> None:
    names = room.__all__  # type: ignore[attr-defined]
    assert names == sorted(names)
    assert all(hasattr(room, name) for name in names)


def signatures(item: object) -> list[str]:
    """What `help` shows of a name: of a class, of its methods, too."""
    found = [item]
    if inspect.isclass(item):
        found += [getattr(item, name) for name in vars(item) if name[0] != "_"]
    return [str(inspect.signature(x)) for x in found if callable(x)]


def test_signatures_can_be_read() -> None:
    """An array is an ``ArrayLike``, not the ten types that NumPy makes of it.

    A file that fails lacks ``from __future__ import annotations``.
    """
    items = [getattr(bm, name) for name in EVERYDAY]
    items += [getattr(room, name) for room in ROOMS for name in room.__all__]
    kinds = [x for x in items if callable(x) and not hasattr(x, "_fields")]
    kinds = [x for x in kinds if x not in (bm.BayesmdpError, bm.BayesmdpWarning)]
    assert len(kinds) > 100
    shown = {x.__name__: " ".join(signatures(x)) for x in kinds}
    bad = re.compile(r"numpy|_typing| at 0x|bayesmdp\.")
    assert {name: said for name, said in shown.items() if bad.search(said)} == {}


def docstrings(item: object) -> str:
    """What is said of a name, of its methods and of its fields."""
    found = [inspect.getdoc(item) or ""]
    if inspect.isclass(item):
        found += map(str, vars(item).get("__annotations__", {}).values())
        found += [inspect.getdoc(x) or "" for n, x in vars(item).items() if n[0] != "_"]
    return "\n".join(found)


def test_a_name_is_public_because_users_need_it() -> None:
    paths = [ROOT / "README.md", *(ROOT / "examples").glob("*.py")]
    pages = [path.read_text() for path in (*paths, *(ROOT / "docs").rglob("*.md"))]
    names = {(room, name) for room in ROOMS for name in room.__all__}
    told: set[object] = set()
    text = "\n".join(pages)
    while True:  # a name is told of by a page, or by what is said of one that is
        more = {x for x in names - told if re.search(rf"\b{x[1]}\b", text)}
        if not more:
            break
        told |= more
        text = "\n".join(docstrings(getattr(room, name)) for room, name in more)
    assert {f"{room.__name__}.{name}" for room, name in names - told} == set()


def test_records_are_frozen_and_their_arrays_read_only() -> None:
    world = bm.worlds.gridworld()
    posterior = bm.fit(world.sample(50, seed=0), world.task, prior=bm.SymmetricPrior())
    evaluation = bm.evaluate([0] * 25, posterior.draws(50))
    for record in (world.task, posterior, evaluation, posterior.counts):
        with pytest.raises(AttributeError):
            record.task = None  # type: ignore[misc,union-attr]
    for array in (posterior.alpha, evaluation.value, world.task.start, world.support):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
