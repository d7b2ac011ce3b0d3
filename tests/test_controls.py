"""Negative control and cross-fitting, against enumeration and plain loops."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from scipy.stats import hypergeom

import bayesmdp as bm
from bayesmdp.cli import main

FLAT = bm.SymmetricPrior()
ENDS = bm.SymmetricPrior(support=np.array([[[0, 1, 1]] * 2] * 3, dtype=bool))
ONE_STEP = bm.Task(3, 2, reward=[0, 1, 0], discount=0.9, terminal=[1, 2])
N, GOOD = 50, (30, 20)  # episodes of each arm, and how many end well


def one_step() -> bm.Transitions:
    """One-step episodes of two arms that begin in the same state."""
    next_state = [1] * 30 + [2] * 20 + [1] * 20 + [2] * 30
    action = [0] * 50 + [1] * 50
    return bm.Transitions.from_arrays(
        [0] * 100, action, next_state, episode=np.arange(100)
    )


def gain_of(good: int) -> float:
    """Posterior mean gain of the better arm over both, if ``good`` of arm 0 do well."""
    mean = [(x + 1) / (N + 2) for x in (good, sum(GOOD) - good)]
    return 0.9 * (max(mean) - sum(mean) / 2)


@pytest.mark.parametrize("permute", ["state", "episode"])
def test_null_gains_are_those_of_fishers_tables(permute: str) -> None:
    """One decision: exchanged labels give hypergeometric counts; error rate 1e-4."""
    found = bm.negative_control(
        one_step(), ONE_STEP, ENDS, permute=permute, n_permutations=299
    )
    assert found.claimed_gain == pytest.approx(gain_of(GOOD[0]), rel=1e-9)
    ways = np.arange(N + 1)
    gains = np.array([gain_of(k) for k in ways])
    k = np.abs(found.null_gains[:, None] - gains).argmin(axis=1)
    assert np.allclose(found.null_gains, gains[k], atol=1e-12)
    chance = hypergeom(2 * N, sum(GOOD), N).pmf(ways)
    p = chance[gains >= gain_of(GOOD[0]) - 1e-12].sum()
    assert abs(found.p_value - p) < 4 * np.sqrt(p * (1 - p) / 300)
    assert found.permute == permute
    assert found.exchangeable == 1.0


def trial() -> tuple[bm.Transitions, bm.Task]:
    """Three episodes of each of two arms, some of several steps, from two starts."""
    paths = {  # first column: arm
        0: (0, [0, 1, 2, 3]),
        1: (0, [0, 2, 4]),
        2: (0, [1, 3]),
        3: (1, [0, 1, 4]),
        4: (1, [0, 4]),
        5: (1, [1, 1, 4]),
    }
    rows = [
        (s, arm, t, e) for e, (arm, path) in paths.items() for s, t in pairwise(path)
    ]
    state, action, next_state, episode = np.array(rows).T
    log = bm.Transitions.from_arrays(state, action, next_state, episode=episode)
    return log, bm.Task(5, 2, [0, 0, 0, 1, 0], discount=0.9, terminal=[3, 4])


def claim(counts: bm.Counts, task: bm.Task, seed: int) -> tuple[float, float | None]:
    posterior = bm.fit(counts, task, prior=FLAT)
    policies = {
        "behaviour": bm.policies.behaviour(posterior),
        "nominal": bm.policies.nominal(posterior),
    }
    table = bm.compare(policies, posterior.draws(200, seed), reference="behaviour")
    row = next(x for x in table.rows if x.name == "nominal")
    return row.difference, row.probability_better


@pytest.mark.filterwarnings("ignore::bayesmdp.errors.PriorWarning")
def test_arms_are_exchanged_among_episodes_with_the_same_start() -> None:
    """Claims are those of all ways to deal arms out within starts, found by fits."""
    log, task = trial()
    found = bm.negative_control(log, task, FLAT, n_permutations=200, seed=3)
    assert found.permute == "episode"
    (rows,) = log.episodes()
    size = {"n_states": 5, "n_actions": 2}
    ways = []
    for first in combinations([0, 1, 3, 4], 2):  # arm 0 among those that begin in 0
        for second in combinations([2, 5], 1):
            arm = np.ones(6, dtype=int)
            arm[[*first, *second]] = 0
            action = arm[rows.episode]
            counts = bm.Counts.from_arrays(rows.state, action, rows.next_state, **size)
            ways.append(claim(counts, task, 3))
    assert len(ways) == 12
    assert (found.claimed_gain, found.claimed_probability) == pytest.approx(
        claim(log.counts(), task, 3), abs=1e-12
    )
    every = np.array(ways)
    null = np.stack([found.null_gains, found.null_probabilities], axis=1)
    near = np.abs(null[:, None] - every).max(axis=2)
    assert near.min(axis=1).max() < 1e-9
    met = {int(x) for row in near for x in np.flatnonzero(row < 1e-9)}
    assert met == set(range(12))  # missed with probability 12 (11/12)^200 < 1e-6


def test_actions_of_a_state_are_exchanged_where_episodes_mix_them() -> None:
    world = bm.worlds.synthetic(0, discount=0.9)
    log = world.simulate(world.available / 5, 60, max_steps=5, seed=0)
    found = bm.negative_control(log, world.task, FLAT, n_permutations=39)
    assert found.permute == "state"
    assert found.p_value == 1 / 40  # actions do differ
    same = bm.negative_control(
        log.counts(), world.task, FLAT, permute="state", n_permutations=39, threads=2
    )
    assert same.to_dict() == found.to_dict()


def test_hierarchical_claims_agree_with_a_fit_of_its_own() -> None:
    """Short chains that begin where others ended claim what long ones do."""
    world = bm.worlds.synthetic(0, discount=0.9)
    log = world.simulate(world.available / 5, 60, max_steps=5, seed=0)
    found = bm.negative_control(log, world.task, n_permutations=5)
    posterior = bm.fit(log, world.task)
    policies = {
        "behaviour": bm.policies.behaviour(posterior),
        "nominal": bm.policies.nominal(posterior),
    }
    draws = posterior.draws(1000, seed=1)
    table = bm.compare(policies, draws, reference="behaviour")
    gain, sd = table.rows[0].difference, table.rows[0].epistemic_sd
    assert found.claimed_gain == pytest.approx(gain, abs=0.25 * sd)
    assert found.null_gains.max() < 0.3 * found.claimed_gain


@pytest.mark.filterwarnings("ignore::bayesmdp.errors.PriorWarning")
def test_a_control_that_was_stopped_goes_on(tmp_path: Path) -> None:
    log, task = trial()
    file = tmp_path / "control.jsonl"
    whole = bm.negative_control(log, task, FLAT, n_permutations=8)
    bm.negative_control(log, task, FLAT, n_permutations=5, resume=file)
    lines = file.read_bytes().splitlines(keepends=True)
    assert len(lines) == 7  # a header, the log itself, 5 permutations
    file.write_bytes(b"".join(lines[:5]) + lines[5][:10])  # killed while writing
    found = bm.negative_control(log, task, FLAT, n_permutations=8, resume=file)
    assert found.to_dict() == whole.to_dict()
    with pytest.raises(bm.BayesmdpError, match="belongs to another call"):
        bm.negative_control(log, task, FLAT, seed=1, resume=file)


SPOILT: dict[str, tuple[Any, str]] = {
    "no header": (lambda x: ["hello", *x[1:]], "belongs to another call"),
    "other header": (lambda x: ['{"kind": 1}', *x[1:]], "belongs to another call"),
    "no job": (lambda x: [*x[:3], "{}", *x[4:]], "line 4 is not a finished job"),
    "cut": (lambda x: [*x[:3], x[3][:20], *x[4:]], "line 4 is not a finished job"),
    "a list": (lambda x: [*x, "[1]"], "line 7 is not a finished job"),
    "nested": (lambda x: [*x, "[" * 100_000], "line 7 is not a finished job"),
    "beyond floats": (
        lambda x: [*x, f'{{"job": 3, "gain": 1{"0" * 400}, "probability": 1}}'],
        "line 7 is not a finished job",
    ),
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_file_of_a_control_is_refused_and_left(
    tmp_path: Path, how: str
) -> None:
    spoil, said = SPOILT[how]
    file = tmp_path / "control.jsonl"
    call = {"permute": "state", "n_permutations": 4, "resume": file}
    bm.negative_control(one_step(), ONE_STEP, FLAT, **call)
    spoilt = "\n".join(spoil(file.read_text().splitlines())) + "\n"
    file.write_text(spoilt)
    with pytest.raises(bm.BayesmdpError, match=f"`resume`.*{said}"):
        bm.negative_control(one_step(), ONE_STEP, FLAT, **call)
    assert file.read_text() == spoilt


@pytest.mark.parametrize(
    ("problem", "kind", "said"),
    [
        (OSError(28, "No space left"), bm.errors.StorageError, "used: No space left."),
        (RuntimeError("of our own"), RuntimeError, "^of our own$"),
        (TypeError("of our own"), TypeError, "^of our own$"),
    ],
)
def test_only_what_the_system_says_of_a_file_is_worded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    problem: Exception,
    kind: type[Exception],
    said: str,
) -> None:
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr("bayesmdp._io._append", fail)
    with pytest.raises(kind, match=said):
        bm.negative_control(one_step(), ONE_STEP, FLAT, resume=tmp_path / "control")


def test_a_file_of_a_control_without_an_end_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(bm.errors.StorageError, match="is not a plain file: name an"):
        bm.negative_control(one_step(), ONE_STEP, FLAT, resume=tmp_path / "pipe")
    with pytest.raises(bm.errors.StorageError, match=r"cannot be used: .*null"):
        bm.negative_control(one_step(), ONE_STEP, FLAT, resume="a\0b")


@pytest.mark.parametrize("kept", [0, 20])
def test_a_file_cut_short_in_its_first_line_begins_again(
    tmp_path: Path, kept: int
) -> None:
    file = tmp_path / "control.jsonl"
    call = {"permute": "state", "n_permutations": 4, "resume": file}
    wanted = bm.negative_control(one_step(), ONE_STEP, FLAT, **call)
    file.write_bytes(file.read_bytes()[:kept])
    found = bm.negative_control(one_step(), ONE_STEP, FLAT, **call)
    assert found.to_dict() == wanted.to_dict()


def test_a_tie_counts_against_the_claim() -> None:
    found = bm.negative_control(one_step(), ONE_STEP, FLAT, n_permutations=19)
    gains = np.array([found.claimed_gain] * 9 + [0.0] * 10)
    assert replace(found, null_gains=gains).p_value == 10 / 20
    assert "of episodes have others to exchange with" in str(found)
    assert "<table" in found._repr_html_()


def test_rewards_of_actions_stay_with_them() -> None:
    """Where actions differ in cost alone, the null gains are the claimed one."""
    task = bm.Task(3, 2, [[0, -1.0], [0, 0], [0, 0]], discount=0.9, terminal=[1, 2])
    found = bm.negative_control(one_step(), task, ENDS, n_permutations=19)
    assert found.claimed_gain == pytest.approx(0.5, abs=1e-9)
    assert np.allclose(found.null_gains, 0.5)
    assert found.p_value == 1.0


NO_EPISODES = bm.Transitions.from_arrays([0, 0], [0, 1], [1, 2])
ONE_ACTION = bm.Transitions.from_arrays([0, 0], [1, 1], [1, 2], episode=[0, 1])
ONE_EPISODE = bm.Transitions.from_arrays([0, 0], [0, 0], [0, 1], episode=[4, 4])
MIXED = bm.Transitions.from_arrays(
    [0, 0, 0], [0, 0, 1], [1, 0, 2], episode=[0, 1, 1], step=[0, 0, 1]
)


@pytest.mark.parametrize(
    ("log", "options", "said"),
    [
        (NO_EPISODES, {}, "does not say which transitions belong to one episode"),
        (NO_EPISODES.counts(), {}, "give an `episode` column, or permute='state'"),
        (ONE_ACTION, {}, "holds one action only"),
        (ONE_ACTION, {"permute": "state"}, "holds one action only"),
        (ONE_EPISODE, {}, "nothing to exchange"),
        (MIXED, {"permute": "episode"}, "episode number 1 has several actions"),
        (MIXED, {"permute": "row"}, "must be 'state', 'episode' or 'auto'; got 'row'"),
        (MIXED, {"n_permutations": 0}, "`n_permutations` must be"),
        ([0], {}, "`log` must be Transitions"),
        (MIXED, {"prior": 1.0}, "`prior` must be a prior"),
    ],
)
def test_what_cannot_be_controlled_is_refused(
    log: bm.Transitions, options: dict[str, object], said: str
) -> None:
    with pytest.raises(bm.BayesmdpError, match=re.escape(said)):
        bm.negative_control(log, ONE_STEP, **options)  # type: ignore[arg-type]


def folds_of(
    log: bm.Transitions, task: bm.Task, prior: object, seed: int
) -> Iterator[tuple[float, np.ndarray, float]]:
    """Gain, its draws and what is not judged, by fits of counts."""
    parts = log.counts_by_fold(2, seed=seed)
    logged = bm.policies.behaviour(bm.fit(log, task, prior=FLAT))
    for part, other in (parts, parts[::-1]):
        chosen = bm.policies.nominal(bm.fit(other, task, prior=prior))  # type: ignore[call-overload]
        judge = bm.fit(part, task, prior=prior)  # type: ignore[call-overload]
        draws = judge.draws(1000, seed)
        table = bm.compare({"b": logged, "c": chosen}, draws, reference="b")
        row = next(x for x in table.rows if x.name == "c")
        ours, theirs = (table.evaluations[x].start_values for x in "cb")
        yield row.difference, ours - theirs, table.evaluations["c"].prior_share


@pytest.mark.parametrize("prior", [FLAT, bm.HierarchicalPrior()], ids=str)
def test_folds_judge_what_the_others_chose(prior: object) -> None:
    world = bm.worlds.synthetic(0, discount=0.9)
    log = world.simulate(world.available / 5, 30, max_steps=4, seed=0)
    found = bm.cross_fit(log, world.task, prior, seed=5)  # type: ignore[arg-type]
    gains, draws, unjudged = zip(*folds_of(log, world.task, prior, 5), strict=True)
    assert found.fold_gains == pytest.approx(np.array(gains), abs=1e-12)
    assert found.gain == pytest.approx(np.mean(gains), abs=1e-12)
    together = np.mean([np.sort(x) for x in draws], axis=0)
    assert found.gain_sd == pytest.approx(together.std(ddof=1))
    assert found.probability_better == pytest.approx((together > 0).mean())
    assert found.unjudged == pytest.approx(np.mean(unjudged))
    sds = [x.std(ddof=1) for x in draws]
    assert np.mean(draws, axis=0).std(ddof=1) < found.gain_sd <= np.mean(sds) + 1e-12
    json.dumps(found.to_dict(), allow_nan=False)


def test_pairs_are_available_by_all_data_and_unjudged_ones_are_told() -> None:
    """Action 1 has 2 visits, one per fold or both in one; it never does worse."""
    next_state = [1, 2] * 10 + [1, 1]
    action = [0] * 20 + [1, 1]
    log = bm.Transitions.from_arrays(
        [0] * 22, action, next_state, episode=np.arange(22)
    )
    seen = {}
    for seed in range(20):
        parts = log.counts_by_fold(2, seed=seed)
        visits = tuple(int(x.count[x.action == 1].sum()) for x in parts)
        seen[visits] = bm.cross_fit(log, ONE_STEP, FLAT, min_count=2, seed=seed)
    assert seen.keys() >= {(1, 1), (0, 2), (2, 0)}
    assert seen[1, 1].fold_unjudged.tolist() == [0.0, 0.0]
    assert seen[0, 2].fold_unjudged[0] == 1.0  # chosen by fold 1, new to fold 0
    assert seen[2, 0].fold_unjudged[1] == 1.0
    few = bm.cross_fit(log, ONE_STEP, FLAT, min_count=3)  # action 1 is out of reach
    assert (few.gain, few.gain_sd, few.probability_better) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("permute", "said"),
    [
        ("auto", "no two episodes that begin in the same state"),
        ("state", "no state in which several actions"),
    ],
)
def test_an_action_for_each_state_leaves_nothing_to_exchange(
    permute: str, said: str
) -> None:
    task = bm.Task(4, 2, reward=[0, 0, 1, 0], discount=0.9, terminal=[2, 3])
    log = bm.Transitions.from_arrays([0, 1], [0, 1], [2, 3], episode=[0, 1])
    with pytest.raises(bm.BayesmdpError, match=said):
        bm.negative_control(log, task, permute=permute)


@pytest.mark.parametrize(
    ("log", "options", "said"),
    [
        (NO_EPISODES, {}, "`episode`"),
        (MIXED, {"n_folds": 3}, "`n_folds` is 3 but there are only 2 episodes"),
        (MIXED, {"n_folds": 1}, "`n_folds` must be"),
        (MIXED.counts(), {}, "`log` must be"),
        (MIXED, {"prior": bm.SparsePrior()}, "Fold 1 of `log`: "),
    ],
)
def test_what_cannot_be_cross_fitted_is_refused(
    log: bm.Transitions, options: dict[str, object], said: str
) -> None:
    with pytest.raises(bm.BayesmdpError, match=re.escape(said)):
        bm.cross_fit(log, ONE_STEP, **options)  # type: ignore[arg-type]


def test_the_picture_shows_the_null_gains_and_the_claim() -> None:
    found = bm.negative_control(one_step(), ONE_STEP, FLAT, n_permutations=30)
    ax = bm.diagnostics.plot_negative_control(found)
    assert sum(bar.get_height() for bar in ax.patches) == 30  # type: ignore[attr-defined]
    assert ax.lines[0].get_xdata()[0] == found.claimed_gain  # type: ignore[index]
    assert f"p = {found.p_value:.2g}" in ax.get_legend().get_texts()[1].get_text()  # type: ignore[union-attr]


TASK = (
    'discount = 0.9\nterminal = ["home", "death"]\n[reward]\nstate = { home = 1.0 }\n'
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    """A run of the command line, and its log."""
    rows = ["patient,step,state,action,next_state"]
    ends = ["home"] * 6 + ["death"] * 4 + ["home"] * 3 + ["death"] * 7
    rows += [
        f"{i},0,ward,{'treat' if i < 10 else 'wait'},{x}" for i, x in enumerate(ends)
    ]
    (tmp_path / "ward.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "task.toml").write_text(TASK)
    files = (str(tmp_path / "ward.csv"), "--task", str(tmp_path / "task.toml"))
    fitted = run("fit", *files, "--prior", "symmetric", "-o", str(tmp_path / "ward"))
    assert fitted.exit_code in (0, 1), fitted.output
    return tmp_path


def test_commands_say_what_the_library_says_and_keep_it(ward: Path) -> None:
    posterior = bm.storage.load(ward / "ward").posterior
    log = bm.read_transitions(str(ward / "ward.csv"))
    given = (log, posterior.task, posterior.prior)
    control = bm.negative_control(*given, n_permutations=20, seed=2)  # type: ignore[arg-type]
    fair = bm.cross_fit(*given, n_folds=3, seed=2)  # type: ignore[arg-type]
    calls = {
        "negative-control": (["--permutations", "20"], control),
        "cross-fit": (["--folds", "3"], fair),
    }
    for name, (options, wanted) in calls.items():
        files = [str(ward / "ward"), str(ward / "ward.csv")]
        call = [name, *files, *options, "--seed", "2"]
        assert run(*call).stdout == wanted.summary() + "\n"
        said = json.loads(run(*call, "--json").stdout)
        assert {x: said[x] for x in wanted.to_dict()} == wanted.to_dict()
        kept = bm.storage.load_result(ward / "ward", name.replace("-", "_"))
        assert kept.to_dict() == wanted.to_dict()
        assert kept.summary() == wanted.summary()
    # other options begin again, and do not mix with permutations that are kept
    again = run("negative-control", *files, "--permutations", "20", "--seed", "3")
    other = bm.negative_control(*given, n_permutations=20, seed=3)  # type: ignore[arg-type]
    assert again.stdout == other.summary() + "\n"


@pytest.mark.parametrize("command", ["negative-control", "cross-fit"])
def test_another_log_is_refused(ward: Path, command: str) -> None:
    text = (ward / "ward.csv").read_text()
    (ward / "other.csv").write_text(text.replace("0,0,ward,treat", "0,0,ward,wait"))
    found = run(command, str(ward / "ward"), str(ward / "other.csv"))
    assert found.exit_code == 2
    assert "does not hold the transitions" in found.stderr
