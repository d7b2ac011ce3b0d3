"""The report's explorer: next states with intervals, and what is said of actions."""

import numpy as np
import pytest
from scipy import stats

import bayesmdp as bm
from bayesmdp.reporting import _explorer
from bayesmdp.reporting._explorer import SHOWN, next_states


@pytest.fixture(scope="module")
def posterior() -> bm.Posterior:
    world = bm.worlds.gridworld(width=4, height=4, discount=0.95)
    prior = bm.SymmetricPrior(support=world.support)
    return bm.fit(world.sample(2000, seed=0), world.task, prior=prior)


# ------------------------------------------------------------------ next states


def test_intervals_of_next_states_hold_what_they_say(posterior: bm.Posterior) -> None:
    """Ends of 90 % intervals against draws: share below, five standard errors."""
    every = np.arange(posterior.layout.pair.size)
    found = next_states(posterior, every, every[:0])
    draws = posterior.draws(800, seed=1)
    theta = np.array([draws.dynamics(i).probability for i in range(800)])
    assert found.length.tolist() == np.diff(posterior.layout.indptr).tolist()
    first = found.length[0]
    order = [
        posterior.layout.next_state.tolist().index(s) for s in found.next_state[:first]
    ]
    below = (theta[:, order] < found.low[:first]).mean(axis=0)
    above = (theta[:, order] > found.high[:first]).mean(axis=0)
    assert np.abs(np.r_[below, above] - 0.05).max() < 5 * np.sqrt(0.05 * 0.95 / 800)
    assert found.count is not None
    assert found.count.sum() == posterior.counts.total


def test_intervals_of_a_mixture_and_of_an_ensemble() -> None:
    task = bm.Task(3, 1, reward=[0, 1, 0], discount=0.9, terminal=[1, 2])
    counts = bm.Counts.from_arrays([0, 0], [0, 0], [1, 2], [30, 10])
    one = bm.fit(counts, task, prior=bm.SymmetricPrior(1.0))
    both = bm.fit(
        counts,
        task,
        prior=bm.MixturePrior([bm.SymmetricPrior(1.0), bm.SymmetricPrior(1.0)]),
    )
    alone, mixed = (next_states(x, np.arange(1), np.arange(0)) for x in (one, both))
    assert mixed.low == pytest.approx(alone.low)
    assert mixed.high == pytest.approx(alone.high)
    models = [
        bm.Dynamics.from_dense([[[0, p, 1 - p]], [[0, 1, 0]], [[0, 0, 1]]])
        for p in np.linspace(0.01, 0.99, 99)
    ]
    found = next_states(bm.Ensemble(models, task), np.arange(0), np.arange(1))
    assert found.low.tolist() == pytest.approx([0.03, 0.03])
    assert found.high.tolist() == pytest.approx([0.97, 0.97])
    assert found.count is None


def test_moments_of_rows_on_random_sets_are_those_of_draws() -> None:
    """Mean squares over 2,000 draws, five standard errors, fixed seed."""
    task = bm.Task(6, 1, reward=[0] * 5 + [1], discount=0.9, terminal=[5])
    counts = bm.Counts.from_arrays([0, 0, 0, 1], [0] * 4, [1, 2, 5, 3], [5, 2, 1, 3])
    sets = bm.RandomSupportPrior(0.7)
    for prior in (
        sets,
        bm.RandomSupportPrior(1.0, 0.8, fallback=5),
        bm.MixturePrior([sets, bm.SymmetricPrior(1.0)]),
    ):
        posterior = bm.fit(counts, task, prior=prior)
        draws = posterior.draws(2000, seed=0)
        square = [draws.dynamics(i).probability ** 2 for i in range(2000)]
        found = posterior.mean_squares()
        error = np.std(square, axis=0) / np.sqrt(2000)
        assert np.all(np.abs(found - np.mean(square, axis=0)) < 5 * error + 1e-9)
        every = np.arange(posterior.mean().rows.pair.size)
        ends = next_states(posterior, every, every[:0])
        assert np.all(ends.low <= ends.probability)
        assert np.all(ends.probability <= ends.high)


def test_the_page_has_room_for_so_many_next_states(
    posterior: bm.Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bayesmdp.reporting import _explorer as _next_states

    monkeypatch.setattr(_next_states, "MAX_ENTRIES", 9)
    lengths = np.diff(posterior.layout.indptr)
    found = next_states(posterior, np.array([7]), np.array([3, 5]))
    assert lengths[[7, 3, 5]].tolist() == [4, 3, 4]
    assert found.length[[7, 3, 5]].tolist() == [4, 2, 2]
    assert found.next_state.size == 8
    mean = posterior.mean()
    part = slice(*posterior.layout.indptr[3:5])
    top = np.argsort(-mean.probability[part])[:2]
    assert found.next_state[:2].tolist() == mean.rows.next_state[part][top].tolist()
    assert SHOWN == 20


ROW = bm.Counts.from_arrays([0, 0], [0, 0], [1, 2], [6, 2], n_states=6)
SIX = bm.Task(6, 1, reward=np.arange(6.0), discount=0.9, terminal=[4, 5])
UNCERTAIN = {
    "sets": bm.RandomSupportPrior(0.7, 0.8),
    "lumped": bm.RandomSupportPrior(fallback=1),
    "fallback": bm.FallbackPrior(bm.RandomSupportPrior(), 4, 1.5),
    "mixture": bm.MixturePrior(
        [bm.RandomSupportPrior(fallback=5), bm.ScaledPrior(2.0)],
        posterior_weights=[0.6, 0.4],
    ),
}


@pytest.mark.parametrize("name", UNCERTAIN)
def test_uncertainty_about_next_states_is_in_their_intervals(name: str) -> None:
    """Mean squares are those of draws, five standard errors; Betas of these moments."""
    belief = bm.fit(ROW, SIX, prior=UNCERTAIN[name])
    n, end = (
        4_000,
        belief.rows().layout.indptr[2],
    )  # a visited pair, and one that is not
    draws = belief.draws(n, seed=3)
    theta = np.array([draws.dynamics(i).probability[:end] for i in range(n)])
    square, error = (theta**2).mean(axis=0), (theta**2).std(axis=0) / np.sqrt(n)
    squares = belief.mean_squares()[:end]
    assert (np.abs(square - squares) <= 5 * error + 1e-12).all()
    mean = belief.mean().probability[:end]
    low, high = belief.intervals(np.arange(end), 0.9)
    between = (mean > 0) & (mean < 1)
    variance = (squares - mean**2)[between]
    total = mean[between] * (1 - mean[between]) / variance - 1
    a, b = mean[between] * total, (1 - mean[between]) * total
    for found, level in ((low, 0.05), (high, 0.95)):
        assert found[between] == pytest.approx(stats.beta.ppf(level, a, b), abs=1e-9)
    assert (low[~between] == mean[~between]).all()


# ------------------------------------------------------------------ actions


@pytest.mark.parametrize("n_draws", [300, 1500])
def test_the_explorer_shows_the_values_of_actions(
    posterior: bm.Posterior, n_draws: int
) -> None:
    """Those of the comparison's first draws, a thousand at most."""
    policies = {"mle": bm.policies.mle(posterior), "late": [3] * 16}
    table = bm.compare(policies, posterior.draws(n_draws, seed=3), reference="late")
    shown = bm.report(posterior, table).data["explorer"]
    best = table.evaluations[shown["policy"]].policy
    other = table.evaluations["late"].policy
    draws = posterior.draws(min(n_draws, 1000), seed=3)
    values = bm.action_values(best, draws, reference=other)
    live = posterior.task.live
    assert len(shown["action"]) == 4 * live.size
    for name, wanted in {
        "value": values.value,
        "epistemic_sd": values.epistemic_sd,
        "aleatoric_sd": values.aleatoric_sd,
        "chance": values.probability_better,
    }.items():
        # three digits are shown, or six
        assert shown[name] == pytest.approx(wanted[live].ravel(), rel=6e-3), name
    order = [s for s in range(16) if shown["verdict"][s] != "end"]
    for name in ("gain", "gain_sd"):
        found = np.array(shown[name])[order]
        assert found == pytest.approx(getattr(values, name)[live], rel=6e-3), name
    assert f"over {min(n_draws, 1000):,} draws of every row" in shown["how"]


def test_a_large_model_has_its_actions_valued_on_fewer_draws(
    posterior: bm.Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = posterior.layout.next_state.size
    monkeypatch.setattr(_explorer, "_MOST_SAMPLED", 150 * entries)
    policies = {"mle": bm.policies.mle(posterior), "late": [3] * 16}
    table = bm.compare(policies, posterior.draws(500))
    how = bm.report(posterior, table).data["explorer"]["how"]
    assert "over 150 draws of every row" in how


def test_the_explorer_goes_through_every_model_of_an_ensemble() -> None:
    casino = bm.worlds.casino()
    table = bm.compare({"leave": [1, 0, 0], "play": [0, 0, 0]}, casino.draws())
    shown = bm.report(casino, table).data["explorer"]
    assert "over 2 models of every row" in shown["how"]
    play, leave = shown["value"][:2]
    value = table.evaluations["leave"].value[0]
    assert leave == pytest.approx(value)
    # 3.95 is won on average, then half of the models are back at the casino, and leave.
    assert play == pytest.approx(3.95 + 0.99 * 0.5 * value)


@pytest.mark.parametrize("scale", [1e-13, 1e9])
def test_chances_do_not_depend_on_the_unit_of_rewards(scale: float) -> None:
    """Nor does what counts as a tie: the policy's own action is not better."""
    rng = np.random.default_rng(0)
    counts = bm.Counts.from_dense(rng.integers(1, 5, size=(4, 3, 4)))
    reward = rng.normal(size=(4, 3))
    found = []
    for unit in (1.0, scale):
        task = bm.Task(4, 3, unit * reward, discount=0.9)
        posterior = bm.fit(counts, task, prior=bm.SymmetricPrior())
        policies = {"first": [0] * 4, "nominal": bm.policies.nominal(posterior)}
        table = bm.compare(policies, posterior.draws(100, seed=0))
        explorer = bm.report(posterior, table).data["explorer"]
        assert set(explorer["verdict"]) <= {"same", "thin", "unclear", "recommend"}
        found.append((explorer["chance"], explorer["gain_chance"]))
        own = explorer["plays"][explorer["policy"]]["pair"]
        assert [explorer["chance"][pair] for pair in own] == [0] * 4
    assert found[0] == found[1]
