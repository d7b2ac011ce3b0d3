"""ICU-Sepsis: its facts, its exact returns, and cohorts simulated from it.

Exact returns: Choudhary, Gupta and Thomas 2024 (package icu-sepsis 2.0.1), by exact
linear solves. Statistical tests state their error rate; seeds are fixed.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp.cli.commands import info
from bayesmdp.engine import Problem
from bayesmdp.engine.planning import Plan, plan
from bayesmdp.errors import ArgumentError, DynamicsError, TaskError
from bayesmdp.worlds import SepsisMDP, _sepsis

DEATH, SURVIVAL, END = 713, 714, 715
UNIFORM = np.full((716, 25), 1 / 25)
RETURNS = {
    ("uniform", 1.0): 0.7800709,
    ("uniform", 0.999): 0.7734593,
    ("expert", 1.0): 0.7818449,
    ("expert", 0.999): 0.7753875,
    ("optimal", 1.0): 0.8751417,
    ("optimal", 0.999): 0.8663050,
}
COHORT = 18_000


@pytest.fixture(scope="module")
def worlds() -> dict[float, SepsisMDP]:
    return {g: bm.worlds.icu_sepsis(discount=g) for g in (0.999, 1.0)}


@pytest.fixture(scope="module")
def world(worlds: dict[float, SepsisMDP]) -> SepsisMDP:
    return worlds[0.999]


@pytest.fixture(scope="module")
def cohort(world: SepsisMDP) -> bm.Transitions:
    return world.simulate(world.expert, COHORT, seed=0)


@pytest.fixture(scope="module")
def posterior(world: SepsisMDP, cohort: bm.Transitions) -> bm.Posterior:
    prior = bm.SparsePrior(fallback="death")
    return bm.fit(cohort, world.task, prior=prior, min_count=5)


def columns(log: bm.Transitions) -> dict[str, NDArray[Any]]:
    return dict(log.table.columns)  # type: ignore[attr-defined]


def published(name: str) -> NDArray[np.float64]:
    """Read an array of the package's own file."""
    found = find_spec("icu_sepsis")
    assert found is not None
    assert found.origin is not None
    path = Path(found.origin).parent / "envs" / "assets" / "dynamics.npz"
    with np.load(path) as file:
        return np.array(file[name])


def planned(world: bm.MDP) -> Plan:
    return plan(Problem.of_dynamics(world.dynamics, world.task))


def from_start(world: bm.MDP, policy: NDArray[np.float64]) -> float:
    return float(world.task.start @ world.value(policy))


def mean_stay(world: bm.MDP, policy: NDArray[np.float64]) -> float:
    """Exact number of steps: with discount 1, the value where every step pays 1."""
    start, terminal = world.task.start, world.task.terminal
    every_step = np.ones((716, 25))
    task = bm.Task(716, 25, every_step, discount=1, start=start, terminal=terminal)
    return from_start(bm.MDP(world.dynamics, task), policy)


# Facts


def test_sizes_terminal_states_and_labels(world: SepsisMDP) -> None:
    task = world.task
    assert (task.n_states, task.n_actions, task.discount) == (716, 25, 0.999)
    assert task.terminal.tolist() == [DEATH, SURVIVAL, END]
    assert [task.state(x) for x in ("0", "712", "death", "survival", "end")] == [
        *(0, 712),
        *(DEATH, SURVIVAL, END),
    ]
    assert task.action("fluid 3, vasopressor 1") == 5 * 3 + 1
    assert task.action_name(24) == "fluid 4, vasopressor 4"
    assert world.available.all()


def test_dynamics_are_the_published_ones_without_their_zeros(
    world: SepsisMDP,
) -> None:
    assert world.dynamics.probability.size == 1_528_600
    assert (world.dynamics.probability > 0).all()
    assert np.array_equal(world.dynamics.to_dense(), published("tx_mat"))
    assert world.dynamics.probability.base is None  # the dense array is let go
    assert world.dynamics.next_state.base is None


def test_start_expert_and_severity_are_the_published_ones(world: SepsisMDP) -> None:
    live = world.task.live
    np.testing.assert_allclose(world.task.start, published("d_0"), atol=1e-15)
    np.testing.assert_allclose(world.expert, published("expert_policy"), atol=1e-15)
    np.testing.assert_allclose(world.expert[live].sum(axis=1), 1.0, atol=1e-12)
    assert (world.expert[world.task.terminal] == 0).all()
    assert np.array_equal(world.sofa, published("sofa_scores"))
    for array in (world.expert, world.sofa, world.dynamics.probability):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_reward_is_the_published_one_wherever_a_patient_lives(
    world: SepsisMDP,
) -> None:
    reward = published("r_mat")[: world.task.live.size]
    state, action, next_state = np.nonzero(reward)
    assert set(next_state.tolist()) == {SURVIVAL}
    assert state.size == world.task.live.size * 25
    assert (world.task.transition_reward(state, action, next_state) == 1).all()
    elsewhere = np.full(state.size, DEATH)
    assert (world.task.transition_reward(state, action, elsewhere) == 0).all()


def test_the_package_is_read_and_not_imported() -> None:
    script = "import sys, bayesmdp as bm; bm.worlds.icu_sepsis(); print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(ran.stdout.split())
    assert "bayesmdp.worlds._sepsis" in loaded
    assert not {"icu_sepsis", "gym", "gymnasium", "pandas", "sklearn"} & loaded


# Exact answers


@pytest.mark.parametrize("discount", [0.999, 1.0])
def test_exact_returns(worlds: dict[float, SepsisMDP], discount: float) -> None:
    world = worlds[discount]
    best = planned(world)
    assert best.converged
    policies = {"uniform": UNIFORM, "expert": world.expert, "optimal": best.policy}
    for name, policy in policies.items():
        assert abs(from_start(world, policy) - RETURNS[name, discount]) < 5.1e-8
    assert abs(world.task.start @ best.value - RETURNS["optimal", discount]) < 5.1e-8


@pytest.mark.parametrize(("name", "length"), [("uniform", 9.45), ("expert", 9.22)])
def test_mean_length_of_stay_is_the_published_one(
    world: SepsisMDP, name: str, length: float
) -> None:
    """The authors simulate and print two decimals; ours is exact."""
    policy = UNIFORM if name == "uniform" else world.expert
    assert abs(mean_stay(world, policy) - length) < 0.02


# Cohorts


def test_a_cohort_stays_as_long_and_survives_as_often_as_it_should(
    worlds: dict[float, SepsisMDP], cohort: bm.Transitions
) -> None:
    """4 standard errors: an error rate of 6.3e-5 for each of the two."""
    assert abs(cohort.n_rows - 166_000) < 4_000
    log = columns(cohort)
    assert not log["truncated"].any()
    assert np.array_equal(log["terminated"], log["next_state"] >= DEATH)
    assert (log["next_state"] != END).all()
    world = worlds[1.0]
    for seen, exact in (
        (np.bincount(log["episode"], log["reward"]), from_start(world, world.expert)),
        (np.bincount(log["episode"]), mean_stay(world, world.expert)),
    ):
        assert seen.size == COHORT
        error = seen.std(ddof=1) / np.sqrt(COHORT)
        assert abs(seen.mean() - exact) < 4 * error
        assert error < exact / 100


def test_the_same_seed_gives_the_same_patients_and_fewer_begin_more(
    world: SepsisMDP, cohort: bm.Transitions
) -> None:
    many = columns(cohort)
    few = columns(world.simulate(world.expert, 500, seed=0))
    again = columns(world.simulate(world.expert, 500, 0))
    other = columns(world.simulate(world.expert, 500, seed=1))
    n = few["state"].size
    for name, column in few.items():
        assert np.array_equal(column, again[name])
        assert np.array_equal(column, many[name][:n])
    assert many["episode"][n] == 500
    assert not np.array_equal(few["state"][:500], other["state"][:500])


def test_a_limit_on_the_stay_truncates(world: SepsisMDP) -> None:
    log = columns(world.simulate(world.expert, 200, seed=0, max_steps=3))
    assert log["step"].max() == 2
    assert log["truncated"].any()


# The clinical posterior


def test_the_clinical_posterior_has_its_size(posterior: bm.Posterior) -> None:
    """Over cohorts: 3,790 pairs (sd 35), 64,100 entries (sd 200); 4 sd and more."""
    assert 3_600 < posterior.available.sum() < 4_000
    assert 63_000 < posterior.alpha.size < 65_500
    death = posterior.layout.next_state == DEATH
    assert death.sum() == posterior.available.sum()  # always possible


def test_the_expert_can_be_judged_where_the_data_allow(
    world: SepsisMDP, posterior: bm.Posterior
) -> None:
    with pytest.warns(bm.BayesmdpWarning, match="`restrict` dropped probability"):
        policy = bm.restrict(world.expert, posterior)
    evaluation = bm.evaluate(policy, posterior.draws(32, seed=0))
    analytic = bm.evaluate_analytic(policy, posterior)
    assert abs(evaluation.start_value - analytic.start_value) < 0.01
    # death as fallback makes it a careful belief
    assert 0.6 < evaluation.start_value < from_start(world, world.expert)
    assert 0.001 < evaluation.start_epistemic_sd < 0.05


def test_frequencies_overestimate_and_a_pessimistic_prior_finds_a_better_policy(
    world: SepsisMDP, cohort: bm.Transitions, posterior: bm.Posterior
) -> None:
    """Over cohorts, sd 0.003 at most: 0.943 and 0.788; 0.805 and 0.820."""
    plain = bm.fit(cohort, world.task, prior=bm.SparsePrior(1e-9), min_count=5)
    predicted, true = [], []
    for belief in (plain, posterior):
        policy = bm.policies.nominal(belief)
        predicted.append(from_start(bm.MDP(belief.mean(), world.task), policy))
        true.append(from_start(world, policy))
    assert abs(predicted[0] - 0.943) < 0.015
    assert abs(true[0] - 0.788) < 0.015
    assert abs(predicted[1] - 0.805) < 0.01
    assert abs(true[1] - 0.820) < 0.01
    assert true[1] > true[0] + 0.01
    # a prior of next to nothing is the plug-in solution
    assert abs(from_start(world, bm.policies.mle(posterior)) - true[0]) < 0.005


# What is said where it cannot work


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleSpec | None], None]:
    def put(found: ModuleSpec | None) -> None:
        monkeypatch.setattr(_sepsis, "find_spec", lambda name: found)

    return put


@pytest.fixture
def data_file(tmp_path: Path, spec: Callable[[ModuleSpec | None], None]) -> Path:
    """Path where a package without data seems to be installed."""
    found = ModuleSpec("icu_sepsis", None, is_package=True)
    found.submodule_search_locations = [str(tmp_path)]
    spec(found)
    path = tmp_path / "envs" / "assets" / "dynamics.npz"
    path.parent.mkdir(parents=True)
    return path


MISSING = (
    "`icu_sepsis` needs the data of the package icu-sepsis, which is not installed; "
    "`pip install --no-deps icu-sepsis==2.0.1` gets it, without the many packages it "
    "depends on."
)


def said(error: type[bm.BayesmdpError] = DynamicsError, **options: float) -> str:
    with pytest.raises(error) as caught:
        bm.worlds.icu_sepsis(**options)
    return str(caught.value)


def test_a_missing_package_is_named_with_its_remedy(
    spec: Callable[[ModuleSpec | None], None],
) -> None:
    spec(None)
    assert said() == MISSING


def test_a_package_without_the_file_is_as_good_as_none(data_file: Path) -> None:
    assert said() == MISSING


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut off"])
def test_a_damaged_file_is_named(data_file: Path, content: bytes) -> None:
    data_file.write_bytes(content)
    assert said() == (
        f"`icu_sepsis` cannot read {data_file}, which may be damaged; `pip install "
        "--no-deps icu-sepsis==2.0.1 --force-reinstall` fixes it."
    )


def test_a_file_of_another_shape_is_refused(data_file: Path) -> None:
    remedy = "`pip install --no-deps icu-sepsis==2.0.1` installs the version it knows."
    expects = "`icu_sepsis` expects `tx_mat` in its data to be float64 of"
    np.savez(data_file, tx_mat=np.ones((3, 2, 3)))
    assert said() == f"{expects} (716, 25, 716); got float64 of (3, 2, 3); {remedy}"
    np.savez(data_file, d_0=np.ones(716))
    assert said() == f"{expects} (716, 25, 716); got nothing; {remedy}"


def test_rows_that_do_not_sum_to_one_are_not_repaired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrays = {name: published(name) for name in _sepsis._SHAPES}
    arrays["tx_mat"][3, 7] *= 1 + 1e-6
    monkeypatch.setattr(_sepsis, "_read", lambda path: arrays)
    assert "rows must sum to 1: state 3, action 7 sums to 1" in said()


def test_arguments_are_checked_by_name(world: SepsisMDP) -> None:
    assert "`discount` must be in [0, 1]" in said(TaskError, discount=1.5)
    with pytest.raises(ArgumentError, match=r"`n_episodes` must be at least 1; got 0"):
        world.simulate(world.expert, 0)


def test_info_says_whether_the_data_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(package: str) -> str:
        if package == "icu-sepsis":
            raise PackageNotFoundError(package)
        return version(package)

    assert json.loads(reported("--json"))["icu-sepsis"] == version("icu-sepsis")
    monkeypatch.setattr(info, "version", without)
    assert json.loads(reported("--json"))["icu-sepsis"] is None
    assert "icu-sepsis not installed" in " ".join(reported().split())


def reported(*options: str) -> str:
    return CliRunner().invoke(info.command, options).output
