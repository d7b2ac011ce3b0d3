"""One log that many tests read: 100,000 rows of treated patients, by simulation."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import bayesmdp as bm
from bayesmdp.data import RewardStatistics

N_ROWS = 100_000
TRIPLET = ("state", "action", "next_state")
FOLDS = ((5, 11),)  # how many, and the seed


@dataclass(frozen=True)
class Answers:
    """What arrays say of the log, and so must every other source."""

    counts: bm.Counts
    rewards: RewardStatistics
    folds: list[list[bm.Counts]]
    derived: bm.Counts  # without the column of next states
    last: int  # rows whose next state is then not known


def sepsis_log() -> pd.DataFrame:
    """Cut a cohort of ICU-Sepsis to size; in no order, so that nothing leans on one.

    Rewards are whole eighths that vary within a triplet: sums are exact in any order.
    """
    world = bm.worlds.icu_sepsis()
    cohort = world.simulate(world.expert, 12_000, seed=4)
    columns = cohort.table.columns  # type: ignore[attr-defined]
    table = pd.DataFrame(
        {name: columns[name][:N_ROWS] for name in ("episode", "step", *TRIPLET)}
    )
    table["reward"] = columns["reward"][:N_ROWS] + (table["step"] % 4) / 8
    assert len(table) == N_ROWS
    return table.sample(frac=1, random_state=5).reset_index(drop=True)


def answers(table: pd.DataFrame) -> Answers:
    """Ask arrays; derive next states by sorting, as nothing in the package does."""
    arrays = bm.Transitions.from_arrays(
        *(table[name] for name in TRIPLET),
        reward=table["reward"],
        episode=table["episode"],
    )
    ordered = table.sort_values(["episode", "step"])
    following = ordered.groupby("episode")["state"].shift(-1)
    known = following.notna()
    derived = bm.Counts.from_arrays(
        ordered["state"][known], ordered["action"][known], following[known]
    )
    folds = [arrays.counts_by_fold(n, seed=seed) for n, seed in FOLDS]
    return Answers(
        arrays.counts(),
        arrays.reward_statistics(),
        folds,
        derived,
        int((~known).sum()),
    )


def assert_same_counts(found: bm.Transitions, wanted: Answers) -> None:
    """Compare counts."""
    assert found.n_rows == N_ROWS
    assert found.counts() == wanted.counts
    assert found.counts().n_states == wanted.counts.n_states


def assert_same_log(found: bm.Transitions, wanted: Answers) -> None:
    """Compare counts, rewards and folds."""
    assert_same_counts(found, wanted)
    rewards = found.reward_statistics()
    for name in (*TRIPLET, "count", "mean"):
        assert np.array_equal(getattr(rewards, name), getattr(wanted.rewards, name))
    assert rewards.sd == pytest.approx(wanted.rewards.sd, rel=1e-12, abs=1e-12)
    assert np.array_equal(rewards.sd == 0, wanted.rewards.sd == 0)
    for (n_folds, seed), folds in zip(FOLDS, wanted.folds, strict=True):
        assert found.counts_by_fold(n_folds, seed=seed) == folds


def assert_same_derived(source: object, wanted: Answers) -> None:
    """Read a table without next states, and compare the counts."""
    with pytest.warns(bm.BayesmdpWarning, match="last rows without a next state"):
        found = bm.read_transitions(source)
    assert found.counts() == wanted.derived
    assert found.n_rows == N_ROWS - wanted.last
