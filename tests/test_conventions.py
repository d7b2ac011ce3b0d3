"""What users bring: dataframes, beliefs, arrays, names of actions; and what they get.

Each form is compared with the one the package works with inside.
"""

import inspect
import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import bayesmdp as bm
from bayesmdp.errors import (
    ArgumentError,
    BeliefError,
    CountsError,
    DynamicsError,
    PolicyError,
)

STATES = ["ward", "icu", "home", "death"]  # not in sorted order, as the log numbers
ACTIONS = ["wait", "treat"]
PRIOR = bm.SymmetricPrior()


def known(states: Any = STATES, actions: Any = ACTIONS) -> bm.Task:
    return bm.Task(
        4,
        2,
        reward=[0, 0, 1, 0],
        discount=0.95,
        terminal=[2, 3],
        start=0,
        state_labels=states,
        action_labels=actions,
    )


def rows(n: int = 60, seed: int = 0) -> dict[str, list[Any]]:
    """Episodes of two steps: from the ward to the icu, and out of it."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 2, (2, n))
    end = np.where(rng.random(n) < 0.4 + 0.3 * second, 2, 3)
    steps = [(i, 0, 0, first[i], 1) for i in range(n)]
    steps += [(i, 1, 1, second[i], end[i]) for i in range(n)]
    episode, step, state, action, next_state = zip(*sorted(steps), strict=True)
    return {
        "episode": list(episode),
        "step": list(step),
        "state": [STATES[i] for i in state],
        "action": [ACTIONS[i] for i in action],
        "next_state": [STATES[i] for i in next_state],
    }


FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_a_dataframe_is_taken_as_its_log_is(make: Any) -> None:
    frame, task = make(rows()), known()
    log = bm.read_transitions(frame)
    posterior = bm.fit(frame, task, prior=PRIOR)
    assert posterior.counts == bm.fit(log, task, prior=PRIOR).counts
    icu, treat = task.state("icu"), task.action("treat")
    cured = sum(
        (s, a, t) == ("icu", "treat", "home")
        for s, a, t in zip(*list(rows().values())[2:], strict=True)
    )
    assert posterior.counts.to_dense()[icu, treat, task.state("home")] == cured > 0


def test_every_check_takes_a_dataframe() -> None:
    frame, task = pd.DataFrame(rows()), known()
    log = bm.read_transitions(frame)
    posterior = bm.fit(frame, task, prior=PRIOR)
    few: dict[str, Any] = {"n_permutations": 5}
    for call in (
        lambda data: bm.check(posterior, data, n_draws=20).gap,
        lambda data: bm.negative_control(data, task, PRIOR, **few).null_gains.tolist(),
        lambda data: bm.cross_fit(data, task, PRIOR).gain,
        lambda data: bm.off_policy([1, 1, 0, 0], data, task, n_groups=0).estimates,
        lambda data: bm.compare_priors({"flat": PRIOR}, data, task)["flat"].log_density,
        lambda data: (
            bm.Task.from_data(
                data, discount=1, reward=[0, 1, 0, 0], terminal=["home", "death"]
            ).terminal
        ),
    ):
        assert np.array_equal(call(frame), call(log))


def test_numbers_are_names_where_the_labels_of_the_task_are_codes() -> None:
    codes = {"state": [7, 8, 7], "action": [1, 2, 1], "next_state": [8, 9, 8]}
    task = known(["7", "8", "9", "10"], ["1", "2"])
    counts = bm.fit(pd.DataFrame(codes), task, prior=PRIOR).counts
    assert counts.to_dense()[0, 0, 1] == 2
    ids = {"state": [0, 1, 0], "action": [0, 1, 0], "next_state": [1, 2, 1]}
    for labels in (None, ["0", "1", "2", "3"], STATES):
        known_to = known(labels, None)
        assert bm.fit(pd.DataFrame(ids), known_to, prior=PRIOR).counts == counts


def test_a_dataframe_that_does_not_fit_is_refused_as_its_log_is() -> None:
    frame = pd.DataFrame(rows()).replace("icu", "ICU")
    with pytest.raises(CountsError, match=r"state 'ICU' \(did you mean 'icu'\?\)"):
        bm.fit(frame, known(), prior=PRIOR)
    with pytest.raises(ArgumentError, match=r"`read_transitions` reads files.*got str"):
        bm.fit("ward.csv", known())  # type: ignore[call-overload]
    counts = bm.Counts.from_arrays([0], [0], [1])
    with pytest.raises(ArgumentError, match="`log` must be of type Transitions"):
        bm.cross_fit(counts, known())  # type: ignore[arg-type]


def test_a_belief_stands_for_its_draws() -> None:
    posterior = bm.fit(pd.DataFrame(rows()), known(), prior=PRIOR)
    policy, other = [1, 1, 0, 0], [0, 0, 0, 0]
    both = {"treat": policy, "wait": other}
    for given, draws in (
        ({}, posterior.draws(1000, 0)),
        ({"n_draws": 50}, posterior.draws(50, 0)),
        ({"n_draws": 50, "seed": 3}, posterior.draws(50, 3)),
    ):
        options: dict[str, Any] = given
        one = bm.evaluate(policy, posterior, **options)
        assert np.array_equal(one.start_values, bm.evaluate(policy, draws).start_values)
        pair = bm.compare(both, posterior, **options)
        assert pair.to_dict() == bm.compare(both, draws).to_dict()
        q = bm.action_values(policy, posterior, **options)
        assert q.n_draws == draws.n_draws
        assert np.array_equal(
            q.value, bm.action_values(policy, draws).value, equal_nan=True
        )


def test_an_ensemble_stands_for_all_its_models() -> None:
    casino = bm.worlds.casino()
    assert bm.evaluate([1, 0, 0], casino).exact
    assert not bm.evaluate([1, 0, 0], casino, n_draws=20, seed=1).exact


def random_models(n: int = 3) -> np.ndarray:
    """Dynamics [M, S, A, S] of four states and two actions; some rows have zeros."""
    models = np.random.default_rng(5).dirichlet(np.ones(4), (n, 4, 2))
    models[:, 1, 0] = [0, 0, 1, 0]
    return models


MATRICES: dict[str, Any] = {
    "sparse, per action": lambda x: [sparse.csr_matrix(x[:, a]) for a in range(2)],
    "sparse arrays": lambda x: [sparse.csc_array(x[:, a]) for a in range(2)],
    "sparse, of pairs": lambda x: sparse.coo_matrix(x.reshape(8, 4)),
    "dense, per action": lambda x: [x[:, a] for a in range(2)],
    "dense, of pairs": lambda x: x.reshape(8, 4),
    "lists, of pairs": lambda x: x.reshape(8, 4).tolist(),
    "one array per action": lambda x: x.swapaxes(0, 1),
}


@pytest.mark.parametrize("make", MATRICES.values(), ids=MATRICES)
def test_matrices_are_read_as_the_dense_array_is(make: Any) -> None:
    (dense,) = random_models(1)
    found = bm.Dynamics.from_matrices(make(dense))
    assert np.array_equal(found.to_dense(), dense)
    assert found.available.all()


def test_an_ensemble_and_a_world_take_arrays_and_sparse_matrices() -> None:
    models, task = random_models(), known()
    policy = [1, 1, 0, 0]
    made = [bm.Dynamics.from_dense(x) for x in models]
    expected = bm.evaluate(policy, bm.Ensemble(made, task)).value
    pairs = [sparse.csr_matrix(x.reshape(8, 4)) for x in models]
    per_action = [[sparse.csr_matrix(x[:, a]) for a in range(2)] for x in models]
    for given in (models, list(models), pairs, per_action):
        assert np.array_equal(
            bm.evaluate(policy, bm.Ensemble(given, task)).value, expected
        )
    true = bm.MDP(made[0], task).value(policy)
    for one in (models[0], pairs[0], per_action[0]):
        assert np.array_equal(bm.MDP(one, task).value(policy), true)


def test_models_that_are_none_are_refused() -> None:
    models = random_models()
    with pytest.raises(BeliefError, match="must be a list of Dynamics; got csr_matrix"):
        bm.Ensemble(sparse.csr_matrix(np.eye(4)), known())
    with pytest.raises(BeliefError, match=r"model 0: `array` must have 3 axes"):
        bm.Ensemble(models[0], known())
    models[2, 0, 0] = 0.5
    with pytest.raises(BeliefError, match=r"model 2: .*state 0, action 0 sums to 2"):
        bm.Ensemble(models, known())
    for wrong in (np.eye(4)[:3], [np.eye(4), np.eye(3)], [np.ones((2, 4))]):
        with pytest.raises(DynamicsError, match=r"one \[S, S\] per action"):
            bm.Dynamics.from_matrices(wrong)
    for wrong in ("x", [], [["a", "b"]], 3, None):
        with pytest.raises(DynamicsError, match=r"`matrices` must hold numbers"):
            bm.Dynamics.from_matrices(wrong)


POLICIES: dict[str, Any] = {
    "a list": ["wait", "treat", None, None],
    "an array": np.array(["wait", "treat", "", ""]),
    "a tuple that names actions at the end, too": ("wait", "treat", "wait", "x"),
    "a dict": {"icu": "treat", "ward": "wait"},
    "a dict with numbers": {1: 1, 0: "wait", "home": "wait"},
    "a pandas Series": pd.Series(
        {"death": "", "icu": "treat", "home": "", "ward": "wait"}
    ),
    "a polars Series": pl.Series(["wait", "treat", "", ""]),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_actions_may_be_named(policy: Any) -> None:
    posterior = bm.fit(pd.DataFrame(rows()), known(), prior=PRIOR)
    draws = posterior.draws(20)
    numbers = bm.evaluate([0, 1, 0, 0], draws)
    assert np.array_equal(bm.evaluate(policy, draws).value, numbers.value)
    pair = bm.compare({"named": policy, "numbers": [0, 1, 0, 0]}, draws)
    assert {row.difference for row in pair.rows} == {0.0}
    assert np.array_equal(bm.restrict(policy, posterior), numbers.policy)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (["wait", "tret", "", ""], r"of state icu.*'tret'.*did you mean 'treat'\?"),
        ({"ward": "Wait", "icu": "tret"}, r"of state ward.*'Wait'.*'wait'\?"),
        ({"ward": "wait", "ICU": "wait"}, r"'ICU' is not .*did you mean 'icu'\?"),
        ({"ward": "wait"}, "no action for state icu: give one for every state that"),
        ({"ward": "wait", 0: "wait", "icu": "wait"}, "names state ward twice"),
        (["wait", None, "", ""], "of state icu.*must be a whole number; got None"),
        (["wait", "treat"], "must hold numbers"),
    ],
)
def test_names_that_the_task_does_not_have_are_refused(policy: Any, said: str) -> None:
    posterior = bm.fit(pd.DataFrame(rows()), known(), prior=PRIOR)
    with pytest.raises(PolicyError, match=f"`policy.*{said}"):
        bm.evaluate(policy, posterior)


def test_names_need_labels() -> None:
    posterior = bm.fit(bm.Counts.from_arrays([0], [0], [1]), known(None, None))
    with pytest.raises(PolicyError, match="'wait' is a label, but the task has none"):
        bm.evaluate(["wait"] * 4, posterior)


def test_a_policy_is_a_table_of_what_it_does() -> None:
    data, task = pd.DataFrame(rows()), known()
    even = np.full((4, 2), 0.5)
    table = bm.policy_table(even, task, data)
    assert list(table) == ["state", "action", "probability", "visits"]
    assert len(table) == 4
    logged = data.groupby(["state", "action"]).size()
    for row in table.itertuples():
        assert row.probability == 0.5
        assert row.visits == logged[row.state, row.action]
    named = bm.policy_table({"ward": "wait", "icu": "treat"}, task)
    assert named.to_dict("list") == {
        "state": ["ward", "icu"],
        "action": ["wait", "treat"],
        "probability": [1.0, 1.0],
    }
    with pytest.raises(ArgumentError, match=r"comes after `data`: fit\(data, task\)"):
        bm.fit(task, data)  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match="`task` must be of type Task"):
        bm.policy_table(even, data)  # type: ignore[arg-type]


ROOMS = (bm.data, bm.model, bm.priors, bm.posterior, bm.evaluation, bm.optimisation)
SHOWN = [
    x
    for room in (*ROOMS, bm.diagnostics, bm.storage)
    for x in map(vars(room).get, room.__all__)
    if inspect.isclass(x) and hasattr(x, "summary")
]


@pytest.mark.parametrize("record", SHOWN, ids=lambda x: x.__name__)
def test_what_has_a_summary_shows_it_in_a_notebook(record: type) -> None:
    assert hasattr(record, "_repr_html_")


def singles() -> list[Any]:
    """Records of one of everything."""
    task = bm.Task(2, 1, reward=[-0.0, 0], discount=0.5, terminal=1)
    log = bm.Transitions.from_arrays([0], [0], [1])
    posterior = bm.fit(log, task, prior=PRIOR, min_count=1)
    one = bm.Ensemble([posterior.mean()], task)
    both = {"a": [0, 0], "b": [0, 0]}
    control = bm.negative_control(
        pd.DataFrame(rows()), known(), PRIOR, permute="state", n_permutations=1
    )
    return [
        task,
        log,
        bm.validate(log),
        posterior,
        bm.fit(log, task, prior=bm.MixturePrior([PRIOR, bm.SymmetricPrior(0.5)])),
        bm.fit(log, task),
        one,
        one.draws(),
        bm.evaluate([0, 0], one),
        bm.compare(both, one),
        bm.action_values([0, 0], one),
        bm.compare_priors({"flat": PRIOR}, log, task, n_folds=0),
        bm.prior_sensitivity([0, 0], log, task, {"flat": PRIOR}, n_draws=2),
        bm.priors.evidence_curve(log, task, grid=[1.0]),
        control,
    ]


def test_one_is_singular_and_zero_has_no_minus() -> None:
    for record in singles():
        shown = [repr(record), str(record)]
        if hasattr(record, "summary"):
            shown += [record.summary(), record._repr_html_()]
        for text in shown:
            assert not re.search(r"\b1 (?:\w+ )?(?!is|was|has)[a-z]+s\b", text), text
            assert not re.search(r"(?<![\w.])-0(\.0*)?(?![\w.])", text), text
        assert len(repr(record)) < 120


def test_a_rounded_zero_has_no_minus() -> None:
    task = bm.Task(3, 2, reward=[0, 1, -1], discount=1, terminal=[1, 2], start=0)
    coin = bm.Counts.from_arrays([0] * 4, [0, 0, 1, 1], [1, 2, 1, 2], [500] * 4)
    posterior = bm.fit(coin, task, prior=bm.SymmetricPrior(support=SUPPORT))
    found = [
        bm.compare({"a": [0, 0, 0], "b": [1, 0, 0]}, posterior, n_draws=50, seed=seed)
        for seed in range(20)
    ]
    assert any(-5e-3 < x.rows[-1].value < 0 for x in found)
    texts = [x.summary() for x in found]
    texts += [e.summary() for x in found for e in x.evaluations.values()]
    assert not [x for x in texts if re.search(r"-0\.0*(?!\d)", x)]


SUPPORT = np.zeros((3, 2, 3), dtype=bool)
SUPPORT[0, :, 1:] = True
