"""Arrays of MDP toolboxes as worlds.

The forest is their example (``mdptoolbox.example.forest``), with the values that the
toolboxes print; other reward forms are held against each other and against a solve.
"""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import bayesmdp as bm
from bayesmdp.errors import DynamicsError, TaskError
from bayesmdp.worlds import from_mdptoolbox

# Wait: a fire (0.1) brings the forest back to its youngest state, else it grows older.
# Cut: back to the youngest. Waiting pays 4 in the oldest state, cutting 1 and 2.
FOREST = np.array(
    [
        [[0.1, 0.9, 0.0], [0.1, 0.0, 0.9], [0.1, 0.0, 0.9]],
        [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]],
    ]
)
PAY = np.array([[0.0, 0.0], [0.0, 1.0], [4.0, 2.0]])


def best(world: bm.MDP) -> np.ndarray:
    return world.value(bm.policies.nominal(bm.Ensemble([world.dynamics], world.task)))


@pytest.mark.parametrize(
    ("discount", "values"),
    [(0.9, [26.244, 29.484, 33.484]), (0.96, [74.6496, 78.1056, 82.1056])],
)
def test_the_forest_has_the_published_values(
    discount: float, values: list[float]
) -> None:
    world = from_mdptoolbox(FOREST, PAY, discount=discount)
    assert np.allclose(best(world), values, rtol=1e-9)


def objects(matrices: list[Any]) -> np.ndarray:
    """Return an array of matrices, as the Python toolbox makes for sparse models."""
    array = np.empty(len(matrices), dtype=object)
    array[:] = matrices
    return array


KINDS = {
    "list": list(FOREST),
    "nested": FOREST.tolist(),
    "csr": [sparse.csr_matrix(x) for x in FOREST],
    "csc arrays": tuple(sparse.csc_array(x) for x in FOREST),
    "mixed": [sparse.coo_array(FOREST[0]), FOREST[1]],
    "objects": objects([sparse.lil_matrix(x) for x in FOREST]),
    "dense objects": objects(list(FOREST)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_of_a_model_is_the_same_model(kind: str) -> None:
    world = from_mdptoolbox(KINDS[kind], PAY, discount=0.9)
    assert np.array_equal(world.dynamics.to_dense(), FOREST.transpose(1, 0, 2))
    assert world.task.start.tolist() == [1 / 3] * 3


def test_every_form_of_a_reward_means_what_it_means_there() -> None:
    """Against the toolbox's rule: R[s, a] is the mean of R[a, s, t] over t."""
    rng = np.random.default_rng(0)
    model = rng.dirichlet(np.ones(4), size=(3, 4))
    model[rng.random(model.shape) < 0.3] = 0
    model /= model.sum(axis=2, keepdims=True)
    pays = rng.standard_normal((3, 4, 4)) * (rng.random((3, 4, 4)) < 0.7)
    policy = rng.dirichlet(np.ones(3), size=4)
    chain = np.einsum("sa,ast->st", policy, model)

    def solved(mean: np.ndarray) -> np.ndarray:
        gain = (policy * mean).sum(axis=1)
        return np.linalg.solve(np.eye(4) - 0.8 * chain, gain)

    mean = (model * pays).sum(axis=2).T
    sparse_pays = [sparse.csr_array(x) for x in pays]
    for reward in (pays, list(pays), sparse_pays, objects(sparse_pays), mean):
        world = from_mdptoolbox(model, reward, discount=0.8)
        assert np.allclose(world.value(policy), solved(mean))
    state = rng.standard_normal(4)
    for reward in (state, state.tolist()):
        world = from_mdptoolbox(model, reward, discount=0.8)
        assert np.allclose(world.value(policy), solved(np.tile(state[:, None], 3)))
    one = sparse.csr_array(mean)
    assert np.allclose(
        from_mdptoolbox(model, one, discount=0.8).value(policy), solved(mean)
    )


def test_nothing_paid_is_a_reward_too() -> None:
    nothing = [sparse.csr_array((3, 3))] * 2
    assert best(from_mdptoolbox(FOREST, nothing, discount=0.9)).tolist() == [0, 0, 0]


def test_four_states_and_as_many_rewards_as_actions_are_not_misread() -> None:
    ring = np.roll(np.eye(4), 1, axis=1)
    pays = sparse.coo_array(([1.0, 2.0], ([0, 2], [1, 3])), shape=(4, 4))
    world = from_mdptoolbox([ring, ring], [pays, 0 * pays], discount=0.5)
    first = (1 + 0.25 * 2) / (1 - 0.5**4)
    assert world.value([0, 0, 0, 0])[0] == pytest.approx(first)
    world = from_mdptoolbox(
        [ring, ring], [pays, sparse.csr_array((4, 4))], discount=0.5
    )
    assert world.value([0, 0, 0, 0])[0] == pytest.approx(first)


def test_entries_given_twice_add_up() -> None:
    twice = sparse.coo_array(([0.5, 0.5, 1.0], ([0, 0, 1], [1, 1, 1])), shape=(2, 2))
    world = from_mdptoolbox([twice], [twice], discount=0.5)
    assert world.dynamics.row(0, 0)[1].tolist() == [1.0]
    assert world.value([0, 0]).tolist() == [2.0, 2.0]


def test_an_absorbing_state_that_pays_nothing_may_be_terminal_or_not() -> None:
    chain, pays = [[[0.5, 0.5], [0.0, 1.0]]], [[1.0], [0.0]]
    live = from_mdptoolbox(chain, pays, discount=0.9)
    ended = from_mdptoolbox(
        chain,
        pays,
        discount=0.9,
        terminal="off",
        start="on",
        state_labels=["on", "off"],
        action_labels=["wait"],
    )
    assert np.allclose(live.value([0, 0]), [1 / 0.55, 0])
    assert np.array_equal(live.value([0, 0]), ended.value([0, 0]))
    assert ended.task.action("wait") == 0
    for_ever = from_mdptoolbox(chain, pays, discount=1, terminal=[1])
    assert for_ever.value([0, 0]).tolist() == [2.0, 0.0]


def spoilt(value: float, *where: int) -> np.ndarray:
    model = FOREST.copy()
    model[where] = value
    return model


BAD: dict[str, tuple[Any, Any, type, str]] = {
    "sum": (spoilt(0.2, 0, 1, 0), PAY, DynamicsError, "state 1, action 0 sums to 1.1"),
    "no row": (spoilt(0.0, 1, 2, 0), PAY, DynamicsError, "state 2, action 1 sums to 0"),
    "sparse sum": (
        [sparse.csr_array(spoilt(0.5, 1, 2, 0)[a]) for a in range(2)],
        PAY,
        DynamicsError,
        "state 2, action 1 sums to 0.5",
    ),
    "sign": (
        spoilt(-0.1, 0, 1, 0),
        PAY,
        DynamicsError,
        "negative: state 1, action 0, next state 0 has -0.1",
    ),
    "NaN": (spoilt(np.nan, 1, 1, 1), PAY, DynamicsError, "of action 1` must be finite"),
    "axes": (FOREST[0], PAY, DynamicsError, r"\[A, S, S\].*got \(3, 3\)"),
    "four axes": (FOREST[None], PAY, DynamicsError, r"got \(1, 2, 3, 3\)"),
    "(S, A, S)": (
        FOREST.transpose(1, 0, 2),
        PAY,
        DynamicsError,
        r"one \[S, S\] per action.*got \(2, 3\)",
    ),
    "none": ([], PAY, DynamicsError, "one for each action"),
    "None": (None, PAY, DynamicsError, "got NoneType"),
    "text": ("forest", PAY, DynamicsError, "got str"),
    "ragged": ([FOREST[0], [[1.0]]], PAY, DynamicsError, r"\(3, 3\) and \(1, 1\)"),
    "sizes": (
        [sparse.eye_array(3), sparse.eye_array(2)],
        PAY,
        DynamicsError,
        r"got \(3, 3\) and \(2, 2\)",
    ),
    "words": (
        objects([FOREST[0], [["a", "b"], ["c", "d"]]]),
        PAY,
        DynamicsError,
        "`transitions of action 1` must hold numbers",
    ),
    "reward size": (FOREST, [1.0, 2.0], TaskError, r"3 states.*got shape \(2,\)"),
    "reward turned": (FOREST, PAY.T, TaskError, r"got shape \(2, 3\)"),
    "reward actions": (FOREST, FOREST[:1], TaskError, r"got shape \(1, 3, 3\)"),
    "reward NaN": (FOREST, PAY * np.nan, TaskError, "`reward` must be finite: state 0"),
    "reward number": (FOREST, 3.0, TaskError, r"got shape \(\)"),
    "reward text": (FOREST, ["a", "b", "c"], TaskError, "`reward` must hold numbers"),
    "reward inf": (
        FOREST,
        spoilt(np.inf, 0, 0, 0),
        TaskError,
        "`reward of action 0` must be",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arrays_are_refused(name: str) -> None:
    transitions, reward, error, said = BAD[name]
    with pytest.raises(error, match=said) as caught:
        from_mdptoolbox(transitions, reward, discount=0.9)
    assert type(caught.value) is error
