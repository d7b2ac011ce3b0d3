"""What others give is checked where it enters: priors of their own, rough models."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.errors import DynamicsError, PolicyError, PriorError, StorageError
from bayesmdp.model import Rows

LABELS = ["ward", "icu", "home"]
TASK = bm.Task(
    3, 2, [0, 0, 1], discount=0.9, terminal=[2], state_labels=LABELS,
    action_labels=["wait", "treat"],
)  # fmt: skip
COUNTS = bm.Counts.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [1, 2, 2, 0], [3, 1, 2, 2])


class Mine:
    """A prior as a user may write it: every next state, some of it changed."""

    looks_at_data = False

    def __init__(
        self, change: Callable[[dict[str, Any]], Any] = lambda _: None
    ) -> None:
        self.change = change

    def concentrations(self, pair: Any, counts: bm.Counts, task: bm.Task) -> Any:
        said: dict[str, Any] = {
            "n_states": 3,
            "n_actions": 2,
            "pair": np.array(pair),
            "indptr": 3 * np.arange(pair.size + 1),
            "next_state": np.tile(np.arange(3), pair.size),
        }
        given = {"rows": said, "alpha": np.full(3 * pair.size, 0.5)}
        answer = self.change(given)
        return (Rows(**said), given["alpha"]) if answer is None else answer


def alpha(entry: int, value: float) -> Callable[[dict[str, Any]], None]:
    def change(given: dict[str, Any]) -> None:
        given["alpha"][entry] = value

    return change


def rows(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def change(given: dict[str, Any]) -> None:
        given["rows"] |= changes

    return change


def swapped(given: dict[str, Any]) -> None:
    given["rows"]["next_state"][[3, 4]] = given["rows"]["next_state"][[4, 3]]


def short(given: dict[str, Any]) -> None:
    given["alpha"] = given["alpha"][:-1]


def text(given: dict[str, Any]) -> None:
    given["alpha"] = ["x"] * given["alpha"].size


BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "negative": (alpha(4, -1.0), "state ward, action treat, next state icu has -1"),
    "zero": (alpha(0, 0.0), r"\[1e-300, 1e\+100\]: .*ward has 0; leave out"),
    "not a number": (alpha(4, np.nan), r"concentrations\[1\]` .*entry 4 is nan"),
    "infinite": (alpha(4, np.inf), "entry 4 is inf"),
    "enormous": (alpha(4, 1e101), r"next state icu has 1e\+101"),
    "one short": (short, r"must have shape \(12,\) \(entry\); got \(11,\)"),
    "text": (text, "must hold numbers"),
    "unsorted": (swapped, "rising order.*ward, action treat, 0 comes after 1"),
    "twice": (rows(next_state=np.zeros(12, int)), "ward, action wait, 0 comes after 0"),
    "beyond": (rows(next_state=np.tile([0, 1, 3], 4)), "`next_state` must be in 0..2"),
    "half": (rows(next_state=np.tile([0, 1, 1.5], 4)), "whole numbers: entry 2 is 1.5"),
    "pairs": (rows(pair=np.arange(4) + 1), "for each of the 4 pairs"),
    "fewer": (rows(pair=np.arange(3)), "for each of the 4 pairs"),
    "sizes": (rows(n_states=4), "of 3 states and 2 actions"),
    "ends": (
        rows(indptr=[0, 3, 6, 9, 11]),
        "rises from 0 to the number of entries, 12",
    ),
    "falling": (rows(indptr=[0, 6, 3, 9, 12]), "rises from 0"),
    "few ends": (rows(indptr=[0, 6, 12]), "rises from 0"),
    "nothing": (
        lambda _: 3,
        "must return Rows and an array of concentrations; got int",
    ),
    "arrays": (
        lambda _: (np.ones(3), np.ones(3)),
        r"must be of type Rows; got ndarray",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_prior_s_answer_is_checked(name: str) -> None:
    change, said = BAD[name]
    prior = Mine(change)
    others = bm.SymmetricPrior(1.0)
    for call in (
        lambda: bm.fit(COUNTS, TASK, prior=prior),
        lambda: bm.fit(COUNTS, TASK, prior=bm.FallbackPrior(prior, "home")),
        lambda: bm.fit(COUNTS, TASK, prior=bm.MixturePrior([others, prior])),
        lambda: bm.check_calibration(TASK, others, truth=prior, n_datasets=100),
    ):
        with pytest.raises(PriorError, match=said) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_a_sound_prior_of_one_s_own_is_taken() -> None:
    mine, ours = Mine(), bm.SymmetricPrior(0.5)
    for one, other in (
        (mine, ours),
        (bm.FallbackPrior(mine, 2), bm.FallbackPrior(ours, 2)),
    ):
        found, wanted = (bm.fit(COUNTS, TASK, prior=x) for x in (one, other))
        assert np.array_equal(found.alpha, wanted.alpha)
        assert found.log_evidence() == wanted.log_evidence()


class WithEvidence(Mine):
    """Says what the probability of the data is."""

    def log_evidence(self, *_: Any) -> Any:
        return np.nan


def test_an_evidence_of_one_s_own_is_checked() -> None:
    posterior = bm.fit(COUNTS, TASK, prior=WithEvidence())
    with pytest.raises(PriorError, match="`log_evidence` must be finite; got nan"):
        posterior.log_evidence()


THIRDS = np.full((3, 1, 3), 1 / 3)
MODELS: dict[str, Callable[[Any], bm.Dynamics]] = {
    "dense": bm.Dynamics.from_dense,
    "columns": lambda x: bm.Dynamics.from_arrays(
        *np.nonzero(x), x[np.nonzero(x)], n_states=3, n_actions=1
    ),
    "toolbox": lambda x: (
        bm.worlds.from_mdptoolbox(
            x.transpose(1, 0, 2), [0, 0, 1], discount=0.9
        ).dynamics
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_models_of_low_precision_are_taken_and_said(name: str, kind: type) -> None:
    rough = THIRDS.astype(kind)
    assert abs(float(rough[0, 0].astype(float).sum()) - 1) > 1e-8
    with pytest.warns(
        bm.BayesmdpWarning, match=r"low precision: 3 of 3 sums .* off 1 by"
    ):
        found = MODELS[name](rough)
    assert np.abs(found.to_dense().sum(axis=2) - 1).max() < 1e-15
    assert found.probability == pytest.approx(1 / 3, rel=1e-15)
    rough[1, 0, 1] *= 1.05 if kind is np.float16 else 1.001
    with pytest.raises(DynamicsError, match=r"rows must sum to 1.* sums to 1.0[01]"):
        MODELS[name](rough)
    exact = np.array([[[0.5, 0.25, 0.25]]] * 3, kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert MODELS[name](exact).probability.tolist() == [0.5, 0.25, 0.25] * 3


def test_sums_that_look_like_1_are_written_out() -> None:
    off = THIRDS.copy()
    off[0, 0, 0] += 1e-7  # in double precision this is no rounding
    with pytest.raises(DynamicsError, match=r"state 0, action 0 sums to 1\.0000001\."):
        bm.Dynamics.from_dense(off)


def test_other_probabilities_of_low_precision() -> None:
    thirds = np.full(3, 1 / 3, np.float32)
    with pytest.warns(bm.BayesmdpWarning, match="`start` is of low precision"):
        task = bm.Task(3, 1, [0, 0, 1], discount=0.9, start=thirds)
    assert task.start.sum() == pytest.approx(1, abs=1e-15)
    model = bm.Dynamics.from_dense(np.full((3, 1, 3), [0.5, 0.25, 0.25]))
    with pytest.warns(bm.BayesmdpWarning, match="`weights` is of low precision"):
        belief = bm.Ensemble([model] * 3, task, weights=thirds)
    assert belief.weights.sum() == pytest.approx(1, abs=1e-15)


def test_a_policy_is_written_as_csv_or_not_at_all(tmp_path: Path) -> None:
    posterior = bm.fit(COUNTS, TASK, prior=bm.SymmetricPrior())
    for name in ("best.xlsx", "best.npy", "best", "best.csv.gz"):
        with pytest.raises(
            StorageError, match=rf"{name}` must end in \.csv: name it so"
        ):
            bm.storage.write_policy([0, 0, 0], posterior, tmp_path / name)
    assert not list(tmp_path.iterdir())
    assert bm.storage.write_policy([0, 0, 0], posterior, tmp_path / "B.CSV").exists()


def test_a_task_is_no_belief(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    task: Any = TASK
    bm.storage.write_policy(
        [0, 0, 0], bm.fit(COUNTS, TASK, prior=bm.SymmetricPrior()), path
    )
    for call in (
        lambda: bm.storage.write_policy([0, 0, 0], task, path),
        lambda: bm.storage.read_policy(path, task),
    ):
        with pytest.raises(PolicyError, match="as a posterior does; got Task"):
            call()
