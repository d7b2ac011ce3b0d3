"""From simulated patients to states and actions, where the right answer is known."""

import sys
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import patients as patients_module
import polars as pl
import pyarrow as pa
import pytest
from bad_input import INF
from patients import CHOICES, FEATURES, N_LATENT, made, simulated
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import bayesmdp as bm
from bayesmdp.data import Discretisation, _cohort
from bayesmdp.errors import ArgumentError, CountsError


@pytest.fixture(scope="module")
def patients() -> pd.DataFrame:
    return simulated()


@pytest.fixture(scope="module")
def clinic(patients: pd.DataFrame) -> Discretisation:
    return made(patients)


# What is found is what was put in -----------------------------------------------------


def test_clusters_are_the_states_of_health(
    patients: pd.DataFrame, clinic: Discretisation
) -> None:
    assert adjusted_rand_score(patients["health"], clinic.state) == 1
    assert clinic.n_states == N_LATENT + 2
    # Centres in the table's units: medians of log-normal lactate, means of the rest.
    health = patients.groupby(clinic.state)["health"].first()
    lactate = clinic.profiles[:, FEATURES.index("lactate")]
    assert lactate == pytest.approx(np.exp(2 * (health // 3)), rel=0.05)
    pressure = clinic.profiles[:, FEATURES.index("pressure")]
    assert pressure == pytest.approx(60 + 20 * (health % 3), abs=0.5)
    assert max(clinic.unexplained) < 0.02


def test_cuts_are_quartiles_of_what_training_stays_were_given(
    patients: pd.DataFrame, clinic: Discretisation
) -> None:
    fitted = patients[patients["icustayid"].isin(clinic.train_stays)]
    assert len(clinic.train_stays) == 240
    for d, name in enumerate(("fluid", "vasopressor")):
        given = fitted.loc[fitted[name] > 0, name].to_numpy()
        wanted = np.quantile(given, [0.25, 0.5, 0.75])
        assert clinic.dose_edges[d].tolist() == wanted.tolist()
        levels = fitted[name].groupby(clinic.action[fitted.index] // (5, 1)[d] % 5)
        assert clinic.dose_medians[d] == pytest.approx(levels.median())
        sizes = levels.size()[1:]
        assert sizes.max() - sizes.min() <= 1
        assert clinic.dose_medians[d, 0] == 0


def by_pandas(table: pd.DataFrame, clinic: Discretisation) -> dict[str, Any]:
    """Redo the recipe by other means, from the training stays alone."""
    fitted = table["icustayid"].isin(clinic.train_stays)
    z = table[FEATURES].astype(float)
    z["lactate"] = np.log(0.1 + z["lactate"])
    normal = ["pressure", "lactate", "age"]
    z[normal] = (z[normal] - z.loc[fitted, normal].mean()) / z.loc[fitted, normal].std()
    z["ventilated"] -= 0.5
    means = z[fitted].groupby(table.loc[fitted, "health"]).mean()
    centres, _ = kmeans2(z[fitted].to_numpy(), means.to_numpy(), minit="matrix")
    # Clusters have no order of their own: number them as the result does.
    centres = centres[cdist(clinic.centres, centres).argmin(axis=1)]
    work = table[["icustayid", "bloc", "died"]].copy()
    work["state"] = cdist(z, centres).argmin(axis=1)
    work["action"] = 0
    for name in ("fluid", "vasopressor"):
        given = table.loc[fitted & (table[name] > 0), name]
        cuts = [-1, 0, *given.quantile([0.25, 0.5, 0.75]), np.inf]
        level = pd.cut(table[name], cuts, labels=False)
        work["action"] = 5 * work["action"] + level
    work = work.sort_values(["icustayid", "bloc"])
    work["next_state"] = work.groupby("icustayid")["state"].shift(-1)
    ends = work["died"].map({1: N_LATENT, 0: N_LATENT + 1})
    work["next_state"] = work["next_state"].fillna(ends).astype(int)
    fitted = fitted[work.index]
    parts = {"train": work[fitted], "test": work[~fitted], "transitions": work}
    counts = {
        name: bm.Counts.from_arrays(part.state, part.action, part.next_state)
        for name, part in parts.items()
    }
    return {"centres": centres, **counts}


def test_counts_are_those_of_the_recipe_in_pandas(
    patients: pd.DataFrame, clinic: Discretisation
) -> None:
    wanted = by_pandas(patients, clinic)
    assert clinic.centres == pytest.approx(wanted["centres"], rel=1e-9)
    for name in ("train", "test", "transitions"):
        log = getattr(clinic, name)
        assert log.counts() == wanted[name]
        assert log.counts().n_states == N_LATENT + 2
        assert log.counts().n_actions == 25
    assert clinic.train.counts() + clinic.test.counts() == clinic.transitions.counts()


def test_the_same_states_read_as_an_ai_clinician_table_count_alike(
    patients: pd.DataFrame, clinic: Discretisation
) -> None:
    table = patients[["icustayid", "bloc", "died"]].copy()
    table["state"] = clinic.state + 1
    table["action"] = clinic.action + 1
    log = bm.data.read_ai_clinician(
        table, outcome="died", n_states=N_LATENT, n_actions=25
    )
    assert log.counts() == clinic.transitions.counts()
    ends = log.notes[1].rsplit("names. ")[1]
    died = patients.groupby("icustayid")["died"].first().sum()
    assert f"({died} stays)" in ends
    assert clinic.transitions.notes == (
        f"{died} stays end in 'death', {300 - died} stays end in 'survival'; 0 rows "
        "were dropped before gaps in the steps.",
    )


def test_held_out_stays_are_not_looked_at(
    patients: pd.DataFrame, clinic: Discretisation
) -> None:
    held_out = patients["icustayid"].isin(clinic.test_stays)
    learnt = ("centres", "dose_edges", "offset", "scale", "dose_medians")
    for rows, same in ((held_out, True), (~held_out, False)):
        changed = patients.copy()
        columns = ["pressure", "lactate", "age", "fluid", "vasopressor"]
        changed.loc[rows, columns] *= 3.0
        other = made(changed)
        assert other.train_stays.tolist() == clinic.train_stays.tolist()
        for name in learnt:
            equal = np.array_equal(getattr(other, name), getattr(clinic, name))
            assert equal is same
        assert (other.train.counts() == clinic.train.counts()) is same


def test_a_seed_gives_one_result(
    patients: pd.DataFrame, clinic: Discretisation
) -> None:
    again, other = made(patients), made(patients, seed=1)
    assert np.array_equal(again.centres, clinic.centres)
    assert np.array_equal(again.state, clinic.state)
    assert again.train_stays.tolist() == clinic.train_stays.tolist()
    assert other.train_stays.tolist() != clinic.train_stays.tolist()
    assert not np.array_equal(other.centres, clinic.centres)
    by_generator = made(patients, seed=np.random.default_rng(5))
    assert made(patients, seed=by_generator.seed).dose_edges == pytest.approx(
        by_generator.dose_edges, rel=0
    )


def test_columns_may_be_named_by_any_list(
    patients: pd.DataFrame, clinic: Discretisation
) -> None:
    found = made(
        patients, features=pd.Index(FEATURES), doses=np.array(CHOICES["doses"])
    )
    assert found.layout == clinic.layout
    assert np.array_equal(found.centres, clinic.centres)


ENGINES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "polars": lambda table: pl.DataFrame(dict(table.items())),
    "polars lazy": lambda table: pl.LazyFrame(dict(table.items())),
    "pyarrow": lambda table: pa.table(dict(table.items())),
    "DuckDB": duckdb.from_df,
    "pandas nullable": lambda table: table.convert_dtypes(),
    "pandas flags": lambda table: table.astype({"died": bool, "ventilated": bool}),
    "text stays": lambda table: table.assign(
        icustayid="p" + table["icustayid"].astype(str)
    ),
    "categories": lambda table: table.assign(
        icustayid=("p" + table["icustayid"].astype(str)).astype("category")
    ),
}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_every_engine_gives_the_same(
    patients: pd.DataFrame, clinic: Discretisation, engine: Any
) -> None:
    found = made(engine(patients))
    assert np.array_equal(found.centres, clinic.centres)
    assert found.train.counts() == clinic.train.counts()
    assert found.transitions.counts() == clinic.transitions.counts()


# What was learnt serves other patients ------------------------------------------------


def test_new_patients_get_states_and_actions(
    patients: pd.DataFrame, clinic: Discretisation
) -> None:
    assert clinic.assign(patients).tolist() == clinic.state.tolist()
    assert clinic.dose(patients).tolist() == clinic.action.tolist()
    array = patients[FEATURES].to_numpy(dtype=float)
    assert clinic.assign(array).tolist() == clinic.state.tolist()
    assert clinic.dose(patients[["fluid", "vasopressor"]].to_numpy()).tolist() == (
        clinic.action.tolist()
    )
    assert clinic.apply(patients).counts() == clinic.transitions.counts()
    assert clinic.assign(array[:0]).tolist() == []
    others = simulated(n_stays=50, seed=9)
    log = clinic.apply(pl.LazyFrame(dict(others.items())))
    assert log.state_labels == clinic.transitions.state_labels
    assert log.n_rows == len(others)
    health = patients.groupby(clinic.state)["health"].first()
    assert health[clinic.assign(others)].tolist() == others["health"].tolist()


def test_actions_count_fluid_first(clinic: Discretisation) -> None:
    low, high = 1e-6, 1e6
    edge = clinic.dose_edges
    doses = [[0, 0], [0, high], [high, 0], [high, high], [low, low]]
    doses += [edge[:, 1].tolist(), np.nextafter(edge[:, 1], INF).tolist()]
    actions = clinic.dose(doses)
    assert actions.tolist() == [0, 4, 20, 24, 6, 12, 18]
    labels = clinic.transitions.action_labels
    assert labels is not None
    assert labels[4] == "fluid 0, vasopressor 4"
    assert labels[20] == "fluid 4, vasopressor 0"


def test_one_drug_or_three_and_other_numbers_of_levels(patients: pd.DataFrame) -> None:
    one = made(patients, doses=["fluid"], n_bins=2)
    assert one.n_actions == 2
    assert one.action.tolist() == (patients["fluid"] > 0).astype(int).tolist()
    assert one.dose_edges.shape == (1, 0)
    three = made(patients, doses=["fluid", "vasopressor", "age"], n_bins=3)
    assert three.n_actions == 27
    assert three.dose_edges[2].tolist() == [
        np.median(patients["age"][patients["icustayid"].isin(three.train_stays)])
    ]


def test_weights_stretch_a_feature(
    patients: pd.DataFrame, clinic: Discretisation
) -> None:
    weighty = made(patients, weights={"age": 2, "ventilated": 0.5})
    assert weighty.scale / clinic.scale == pytest.approx([1, 1, 2, 0.5])
    assert weighty.offset == pytest.approx(clinic.offset, rel=1e-12)


def test_patients_with_several_stays_are_kept_together(patients: pd.DataFrame) -> None:
    found = made(patients, patient="subject")
    subject = patients.groupby("icustayid")["subject"].first()
    fitted, held_out = (
        set(subject[stays]) for stays in (found.train_stays, found.test_stays)
    )
    assert len(fitted) == 120
    assert len(held_out) == 30
    assert not fitted & held_out


def test_nothing_need_be_held_out(patients: pd.DataFrame) -> None:
    found = made(patients, train=1)
    assert found.test is None
    assert found.train.counts() == found.transitions.counts()
    assert np.isnan(found.unexplained[1])
    assert ", - elsewhere" in found.summary()


def test_the_size_of_the_publication() -> None:
    table = simulated(n_stays=250, seed=3)
    found = made(table, n_states=750, n_starts=1)
    assert (found.n_states, found.n_actions) == (752, 25)
    log = found.train
    assert log.state_labels is not None
    assert log.state_labels[750:] == ("death", "survival")
    task = bm.Task(
        752,
        25,
        reward=np.arange(752) == 751,
        discount=0.99,
        terminal=["death", "survival"],
        state_labels=log.state_labels,
        action_labels=log.action_labels,
    )
    prior = bm.SparsePrior(fallback="death")
    assert bm.fit(log, task, prior=prior).counts.total == log.n_rows


# What is said -------------------------------------------------------------------------


def test_gaps_are_dropped_and_told(patients: pd.DataFrame) -> None:
    bloc = patients["bloc"]
    last = bloc == patients.groupby("icustayid")["bloc"].transform("max")
    gappy = patients[(bloc != 2) | last]
    dropped = int((patients.groupby("icustayid")["bloc"].max() > 2).sum())
    said = f"{dropped} of {len(gappy)} rows of the pandas table were dropped"
    with pytest.warns(bm.BayesmdpWarning, match=said) as warned:
        found = made(gappy)
    assert warned[0].filename == patients_module.__file__  # where `made` calls
    assert found.notes[0] in found.summary()
    assert found.transitions.n_rows == len(gappy) - dropped
    with pytest.warns(bm.BayesmdpWarning, match=said):
        assert found.apply(gappy).counts() == found.transitions.counts()


def test_doses_that_are_all_alike_are_told(patients: pd.DataFrame) -> None:
    usual = patients.assign(fluid=500 * (patients["fluid"] > 0))
    with pytest.warns(bm.BayesmdpWarning, match="got level [234] of `fluid`") as warned:
        found = made(usual)
    assert len(warned) == 3
    assert set(found.action // 5) == {0, 1}


def test_a_clustering_that_was_stopped_is_told(
    patients: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cohort, "MOST_ITERATIONS", 2)
    with pytest.warns(bm.BayesmdpWarning, match="k-means was stopped after 2 iter"):
        made(patients, n_states=200, n_starts=1)


def test_clusters_are_as_tight_as_scikit_learn_finds_them(
    patients: pd.DataFrame,
) -> None:
    whole = made(patients, n_states=40)
    fitted = patients[patients["icustayid"].isin(whole.train_stays)]
    raw = fitted[FEATURES].assign(lactate=np.log(fitted["lactate"] + 0.1)).to_numpy()
    z = (raw - whole.offset) / whole.scale
    best = min(
        KMeans(40, n_init=1, random_state=seed).fit(z).inertia_ for seed in range(5)
    )
    total = ((z - z.mean(axis=0)) ** 2).sum()
    assert whole.unexplained[0] == pytest.approx(best / total, rel=0.1)


def test_the_summary_says_what_was_made(clinic: Discretisation) -> None:
    first, states, _, actions, fluid, _ = clinic.summary().splitlines()
    assert "of 300 stays, 240 of them fitted (seed 0)" in first
    assert "6 clusters of 4 features (1 as logarithms, 1 binary)" in states
    assert actions == "actions: 25, of which 25 were observed"
    assert f"cut at {clinic.dose_edges[0, 0]:.4g}," in fluid


def test_the_record_is_frozen_and_its_arrays_are_read_only(
    clinic: Discretisation,
) -> None:
    with pytest.raises(AttributeError):
        clinic.seed = 3  # type: ignore[misc]
    for name in ("centres", "offset", "scale", "dose_edges", "state", "action"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(clinic, name)[0] = 1


def test_without_scikit_learn_the_remedy_is_named(
    patients: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ArgumentError, match=r'pip install "bayesmdp\[clinical\]"'):
        made(patients)


def test_censored_stays_lose_their_last_row(patients: pd.DataFrame) -> None:
    cut = (patients["icustayid"] % 3 == 0).astype(int)
    plain = made(patients).transitions
    found = made(patients.assign(lost=cut), censored="lost")
    n = patients.loc[cut == 1, "icustayid"].nunique()
    assert found.transitions.n_rows == plain.n_rows - n
    assert f"{n} are censored, and their last row" in found.transitions.notes[0]
    ends = found.transitions.endings().terminated.sum()
    assert ends == plain.endings().terminated.sum() - n
    with pytest.raises(CountsError, match="must be 1 where only the follow-up ended"):
        made(patients.assign(lost=2 * cut), censored="lost")
    with pytest.raises(ArgumentError, match="`censored` must name a column"):
        made(patients, censored=1)


def test_arms_may_be_text(patients: pd.DataFrame) -> None:
    arm = np.where(patients["icustayid"] % 2, "DPCA", "placebo")
    trial = patients.assign(arm=arm)
    found = made(trial, doses=["arm"])
    assert found.transitions.action_labels == ("DPCA", "placebo")
    assert found.action.tolist() == (arm == "placebo").astype(int).tolist()
    assert "  arm: DPCA, placebo" in found.summary()
    for table in (pl.DataFrame(dict(trial.items())), trial.astype({"arm": "category"})):
        assert np.array_equal(made(table, doses=["arm"]).action, found.action)
    both = made(trial, doses=["fluid", "arm"])
    assert both.n_actions == 10
    assert both.transitions.action_labels[3] == "fluid 1, arm placebo"
    assert (both.action % 2 == found.action).all()
    assert (both.action // 2 == made(patients, doses=["fluid"]).action).all()
    log = found.apply(trial)
    assert log.action_labels == found.transitions.action_labels
    with pytest.raises(
        CountsError, match=r"'DPAC' \(did you mean 'DPCA'\?\), which was"
    ):
        found.dose(pd.DataFrame({"arm": ["DPAC"]}))
    with pytest.raises(
        CountsError, match="`arm` of the pandas table has no value in 1"
    ):
        made(trial.assign(arm=trial["arm"].where(trial.index != 3)), doses=["arm"])
