"""Policies side by side: every column by hand, and the error of a difference.

The error rate of the one statistical family stands at its test.
"""

import importlib.util
import json
import re
import warnings
from typing import Any

import numpy as np
import pytest
import reference
from numpy.typing import NDArray

import bayesmdp as bm

Array = NDArray[np.float64]

S, A = 4, 3


def made(seed: int = 0, most: int = 6, **changes: Any) -> tuple[bm.Posterior, Array]:
    rng = np.random.default_rng(seed)
    counts = bm.Counts.from_dense(rng.integers(0, most, size=(S, A, S)))
    reward = rng.normal(size=(S, A))
    return bm.fit(
        counts,
        bm.Task(S, A, reward, discount=0.9, **changes),
        prior=bm.SymmetricPrior(),
    ), reward


POSTERIOR, REWARD = made()
SOFT = np.random.default_rng(1).dirichlet(np.ones(A), size=S)
POLICIES = {
    "behaviour": bm.policies.behaviour(POSTERIOR),
    "nominal": bm.policies.nominal(POSTERIOR),
    "mle": bm.policies.mle(POSTERIOR),
    "soft choice": SOFT,
}


def row(table: bm.Comparison, name: str) -> Any:
    (found,) = [one for one in table.rows if one.name == name]
    return found


def start_values(policy: Array, draws: bm.Draws) -> Array:
    return bm.evaluate(policy, draws, control=False).start_values


def controls(policy: Array, draws: bm.Draws) -> Array:
    """Both control variates of every draw less their means, ``[2, D]``, theory.md."""
    at = reference.setting(POSTERIOR.task, REWARD)
    nominal = reference.expand(policy, reference.dense_alpha(POSTERIOR), at)
    X, V, d = nominal.inverse, nominal.value, nominal.occupancy
    T_bar = np.einsum("sa,sat->st", policy, nominal.theta)
    b_bar = np.einsum("sa,sat,sat->s", policy, nominal.theta, at.r)
    found = np.empty((2, draws.n_draws))
    for i in range(draws.n_draws):
        theta = draws.dynamics(i).to_dense()
        Delta = np.einsum("sa,sat->st", policy, theta) - T_bar
        b = np.einsum("sa,sat,sat->s", policy, theta, at.r)
        u = b - b_bar + at.g * Delta @ V
        found[:, i] = d @ u, at.g * d @ Delta @ X @ u - at.g * d @ nominal.k
    return found


def by_hand(name: str, other: str, draws: bm.Draws) -> tuple[float, float]:
    """Difference and its paired error, freed of the controls of both."""
    ours, theirs = POLICIES[name], POLICIES[other]
    gap = start_values(ours, draws) - start_values(theirs, draws)
    explained = np.concatenate([controls(ours, draws), controls(theirs, draws)])
    return reference.controlled(gap, explained, np.array([1.0, 1.0, -1.0, -1.0]))[:2]


@pytest.mark.parametrize("n_draws", [10, 15, 16, 50, 400])
def test_a_difference_is_paired_and_freed_of_both_controls(n_draws: int) -> None:
    draws = POSTERIOR.draws(n_draws, seed=3)
    table = bm.compare(POLICIES, draws, reference="mle")
    for name in ("behaviour", "nominal", "soft choice"):
        value, error = by_hand(name, "mle", draws)
        found = row(table, name)
        np.testing.assert_allclose(found.difference, value, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.difference_mcse, error, rtol=1e-6)
    assert row(table, "mle").difference == row(table, "mle").difference_mcse == 0


def test_rows_stand_best_first() -> None:
    draws = POSTERIOR.draws(500, seed=0)
    for reference_name in POLICIES:
        table = bm.compare(POLICIES, draws, reference=reference_name)
        gains = [one.difference for one in table.rows]
        assert gains == sorted(gains, reverse=True)
        assert table.reference == reference_name
        assert sorted(one.name for one in table.rows) == sorted(POLICIES)
    assert table.rows[0].name == "nominal"
    assert bm.compare(POLICIES, POSTERIOR.draws(10)).reference == "behaviour"  # first


def test_a_row_holds_the_evaluation_of_its_policy() -> None:
    draws = POSTERIOR.draws(300, seed=1)
    table = bm.compare(POLICIES, draws)
    for name, policy in POLICIES.items():
        alone, found = bm.evaluate(policy, draws), row(table, name)
        for column in ("value", "value_mcse", "epistemic_sd", "aleatoric_sd"):
            wanted = getattr(alone, f"start_{column}")
            np.testing.assert_allclose(getattr(found, column), wanted, rtol=1e-9)
        np.testing.assert_allclose(table.evaluations[name].value, alone.value)


def test_the_error_of_a_difference_covers_the_truth_as_often_as_it_should() -> None:
    """100 seeds of 200 draws against 50,000 draws, 1.96 errors, two policies.

    A coverage of 95 % gives 86 or fewer of 100 with probability 4.6e-4, and all 100
    with 5.9e-3: with two policies, a false alarm in 1.3 %; the seeds are fixed. The
    reference's own error is a sixteenth of those it judges, which takes 0.05 % off a
    coverage.
    """
    names = ("nominal", "mle")
    policies = {name: POLICIES[name] for name in ("behaviour", *names)}
    truth = bm.compare(policies, POSTERIOR.draws(50_000, seed=10**6))
    covered = dict.fromkeys(names, 0)
    for seed in range(100):
        table = bm.compare(policies, POSTERIOR.draws(200, seed=seed))
        for name in names:
            found = row(table, name)
            off = abs(found.difference - row(truth, name).difference)
            covered[name] += off <= 1.96 * found.difference_mcse
    for name in names:
        assert 87 <= covered[name] <= 99


def test_a_paired_error_is_far_below_an_unpaired_one() -> None:
    draws = POSTERIOR.draws(400, seed=2)
    found = row(bm.compare(POLICIES, draws, reference="mle"), "nominal")
    values = [start_values(POLICIES[name], draws) for name in ("nominal", "mle")]
    unpaired = np.hypot(*[v.std(ddof=1) for v in values]) / 20
    paired = (values[0] - values[1]).std(ddof=1) / 20
    assert found.difference_mcse < paired / 3
    assert found.difference_mcse < unpaired / 10


def test_probability_better_counts_draws() -> None:
    draws = POSTERIOR.draws(250, seed=4)
    table = bm.compare(POLICIES, draws, reference="mle")
    base = start_values(POLICIES["mle"], draws)
    for name in ("behaviour", "nominal", "soft choice"):
        gap = start_values(POLICIES[name], draws) - base
        assert row(table, name).probability_better == pytest.approx((gap > 0).mean())
        assert row(table, name).probability_tied == 0
    assert row(table, "mle").probability_better is None
    assert row(table, "mle").probability_tied is None
    assert 0.4 < row(table, "nominal").probability_better < 0.999


def test_a_policy_is_tied_with_its_twin_and_not_better() -> None:
    twins = {"one": SOFT, "other": SOFT.copy()}
    found = row(bm.compare(twins, POSTERIOR.draws(100)), "other")
    assert (found.probability_better, found.probability_tied) == (0, 1)
    assert (found.difference, found.difference_mcse) == (0, 0)


@pytest.mark.parametrize("n_draws", [10, 39, 40, 41, 280])
def test_intervals_leave_a_fortieth_of_the_draws_on_either_side(n_draws: int) -> None:
    draws = POSTERIOR.draws(n_draws, seed=5)
    table = bm.compare(POLICIES, draws, reference="mle")
    base = start_values(POLICIES["mle"], draws)
    below = -(-n_draws // 40) - 1  # draws under the lower limit
    upper = -(-39 * n_draws // 40) - 1
    for name, policy in POLICIES.items():
        found, values = row(table, name), start_values(policy, draws)
        wanted = np.sort(values)[[below, upper]]
        assert found.interval == pytest.approx(wanted, rel=1e-12)
        assert found.interval == table.evaluations[name].interval()
        wanted = np.sort(values - base)[[below, upper]]
        gap = None if name == "mle" else pytest.approx(wanted, rel=1e-9)
        assert found.difference_interval == gap


@pytest.mark.parametrize("level", [0.05, 0.5, 0.9, 0.95, 1])
def test_an_interval_is_a_pair_of_quantiles(level: float) -> None:
    """Of draws, and of an exact ensemble's models by their weights."""
    ends = [(1 - level) / 2, (1 + level) / 2]
    found = bm.evaluate(SOFT, POSTERIOR.draws(333, seed=2))
    wanted = np.quantile(found.start_values, ends, method="inverted_cdf")
    assert found.interval(level) == tuple(wanted)
    belief, models, weights = ensemble()
    exact = bm.evaluate(SOFT, belief.draws())
    at = reference.setting(belief.task, REWARD)
    values = [at.rho @ reference.solve(m, SOFT, at).value for m in models]
    wanted = np.quantile(values, ends, weights=weights, method="inverted_cdf")
    assert exact.interval(level) == pytest.approx(wanted, rel=1e-12)
    even = np.quantile(values, ends, method="inverted_cdf")
    assert level != 0.95 or not np.allclose(wanted, even)  # weights matter


def test_a_model_without_weight_is_in_no_interval() -> None:
    _, models, _ = ensemble()
    dynamics = [bm.Dynamics.from_dense(m) for m in models]
    for out in range(5):
        weights = np.where(np.arange(5) == out, 0.0, 0.25)
        belief = bm.Ensemble(dynamics, POSTERIOR.task, weights=weights)
        rest = bm.Ensemble(dynamics[:out] + dynamics[out + 1 :], POSTERIOR.task)
        found, wanted = (bm.compare(POLICIES, x.draws()) for x in (belief, rest))
        for one in wanted.rows:
            other = row(found, one.name)
            assert other.interval == pytest.approx(one.interval)
            assert other.difference_interval == pytest.approx(one.difference_interval)


@pytest.mark.parametrize("level", [0, -0.1, 1.1, 95, float("nan"), "0.9"])
def test_a_level_that_is_no_probability_is_refused(level: Any) -> None:
    found = bm.evaluate(SOFT, POSTERIOR.draws(20))
    with pytest.raises(bm.errors.ArgumentError, match=r"`level` must be .* \(0, 1\]"):
        found.interval(level)


@pytest.mark.parametrize("min_count", [1, 5, 9, 1000])
@pytest.mark.parametrize("terminal", [[], [3]], ids=["endless", "terminal"])
def test_support_is_the_share_of_visits_on_rarely_seen_pairs(
    min_count: int, terminal: list[int]
) -> None:
    counts = np.random.default_rng(6).integers(0, 4, size=(S, A, S))
    counts[terminal] = 0
    task = bm.Task(S, A, np.ones(S), discount=0.9, terminal=terminal)
    posterior = bm.fit(bm.Counts.from_dense(counts), task, prior=bm.SymmetricPrior())
    draws = posterior.draws(60, seed=0)
    table = bm.compare({"soft": SOFT, "first": [0] * S}, draws, min_count=min_count)
    seen = counts.sum(axis=2)
    for name, policy in (("soft", SOFT), ("first", np.eye(A)[[0] * S])):
        visits = bm.evaluate(policy, draws).occupancy[:, None] * policy
        visits[terminal] = 0.0
        wanted = visits[seen < min_count].sum() / visits.sum()
        assert row(table, name).low_support == pytest.approx(wanted, rel=1e-9)
    assert table.min_count == min_count


def ensemble() -> tuple[bm.Ensemble, list[Array], Array]:
    rng = np.random.default_rng(7)
    models = [rng.dirichlet(np.ones(S), size=(S, A)) for _ in range(5)]
    weights = np.array([0.02, 0.3, 0.29, 0.01, 0.38])
    belief = bm.Ensemble(
        [bm.Dynamics.from_dense(m) for m in models], POSTERIOR.task, weights=weights
    )
    return belief, models, weights


def weighted_ends(values: Array, weights: Array) -> Array:
    return np.quantile(values, [0.025, 0.975], weights=weights, method="inverted_cdf")


def test_a_comparison_over_an_ensemble_is_exact() -> None:
    belief, models, weights = ensemble()
    table = bm.compare(POLICIES, belief.draws(), reference="mle")
    at = reference.setting(belief.task, REWARD)
    values = {
        name: np.array([at.rho @ reference.solve(m, pi, at).value for m in models])
        for name, pi in POLICIES.items()
    }
    moved = 0
    for name, found in values.items():
        one, gap = row(table, name), found - values["mle"]
        assert one.difference == pytest.approx(weights @ gap, abs=1e-12)
        assert one.value == pytest.approx(weights @ found, rel=1e-12)
        assert one.difference_mcse == one.value_mcse == 0
        assert one.low_support is None
        wanted = weighted_ends(found, weights)
        assert one.interval == pytest.approx(wanted, rel=1e-12)
        if name != "mle":
            wanted = weighted_ends(gap, weights)
            assert one.difference_interval == pytest.approx(wanted, rel=1e-9)
            moved += one.difference_interval != pytest.approx((gap.min(), gap.max()))
            better = weights @ (gap > 0)
            assert one.probability_better == pytest.approx(better, rel=1e-12)
    assert moved  # without weights, intervals of five models hold them all


def test_random_models_of_an_ensemble_are_paired_without_controls() -> None:
    belief, _, _ = ensemble()
    draws = belief.draws(300, seed=0)
    found = row(bm.compare(POLICIES, draws, reference="mle"), "soft choice")
    gap = start_values(SOFT, draws) - start_values(POLICIES["mle"], draws)
    assert found.difference == pytest.approx(gap.mean(), rel=1e-10)
    error = gap.std(ddof=1) / np.sqrt(300)
    assert found.difference_mcse == pytest.approx(error, rel=1e-10)


@pytest.mark.usefixtures("many_tasks")
def test_a_comparison_does_not_depend_on_threads() -> None:
    first, second = (
        bm.compare(POLICIES, POSTERIOR.draws(700), threads=threads).to_dict()
        for threads in (1, 2)
    )
    assert first == second


def test_the_dict_is_plain_and_survives_json() -> None:
    belief, _, _ = ensemble()
    for draws in (POSTERIOR.draws(60), belief.draws()):
        table = bm.compare(POLICIES, draws, reference="nominal", min_count=7)
        found = table.to_dict()
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        assert found["reference"] == "nominal"
        assert found["min_count"] == 7
        assert [one["name"] for one in found["rows"]] == [r.name for r in table.rows]
        assert set(found["rows"][0]) >= {
            "value",
            "difference",
            "difference_mcse",
            "probability_better",
            "epistemic_sd",
            "aleatoric_sd",
            "interval",
            "difference_interval",
            "low_support",
        }
        for one, kept in zip(found["rows"], table.rows, strict=True):
            assert one["interval"] == list(kept.interval)
            gap = kept.difference_interval
            assert one["difference_interval"] == (None if gap is None else list(gap))


def test_a_data_frame_has_a_row_a_policy_or_pandas_is_asked_for() -> None:
    table = bm.compare(POLICIES, POSTERIOR.draws(60))
    if importlib.util.find_spec("pandas") is None:
        with pytest.raises(bm.errors.ArgumentError, match=r"needs pandas.*`to_dict`"):
            table.to_pandas()
        return
    frame = table.to_pandas()
    assert list(frame.index) == [one.name for one in table.rows]
    assert list(frame["value"]) == [one.value for one in table.rows]
    ends = frame[["interval_low", "interval_high"]].to_numpy()
    assert ends.tolist() == [list(one.interval) for one in table.rows]
    gaps = frame[["difference_interval_low", "difference_interval_high"]]
    assert gaps.loc["mle"].tolist() == list(row(table, "mle").difference_interval)
    assert gaps.loc["behaviour"].isna().all()  # the reference


def cells(line: str) -> list[re.Match[str]]:
    """Runs of words a single space apart."""
    return list(re.finditer(r"\S+(?: \S+)*", line))


def test_the_printed_table_names_every_policy_in_straight_columns() -> None:
    table = bm.compare(POLICIES, POSTERIOR.draws(200), reference="mle", min_count=3)
    _, header, *lines, _ = str(table).splitlines()
    edges = {cell.end() for cell in cells(header)}
    assert "minus mle" in header
    assert "95 % interval" in header
    assert "95 % of difference" in header
    assert "under 3 visits" in header
    assert table.summary() == str(table)
    assert [cells(line)[0].group() for line in lines] == [r.name for r in table.rows]
    for line in lines:
        name, *numbers = cells(line)
        assert name.start() == 0
        assert {cell.end() for cell in numbers} <= edges
        blank = 3 if name.group() == "mle" else 0
        assert len(numbers) == len(edges) - blank


def test_numbers_are_printed_to_the_precision_of_their_errors() -> None:
    table = bm.compare(POLICIES, POSTERIOR.draws(200), reference="mle")
    found = row(table, "nominal")
    (line,) = [x for x in str(table).splitlines() if x.startswith("nominal")]
    assert bm.evaluation.rounded(found.value, found.value_mcse) in line
    assert bm.evaluation.rounded(found.difference, found.difference_mcse) in line
    for low, high in (found.interval, found.difference_interval):
        ends = re.findall(r"(-?[\d.]+) to (-?[\d.]+)", line)
        step = (high - low) / 50
        assert any(
            abs(float(a) - low) <= step / 2 and abs(float(b) - high) <= step / 2
            for a, b in ends
        )


def test_a_comparison_warns_of_what_an_evaluation_warns_of() -> None:
    """Without discount, exits of concentration 1.5: the variance is infinite."""
    task = bm.Task(2, 2, [[1.0, 1.0], [0, 0]], discount=1, terminal=[1])
    counts = bm.Counts.from_arrays([0], [0], [0])
    draws = bm.fit(counts, task, prior=bm.SymmetricPrior(1.5)).draws(50)
    with pytest.warns(bm.BayesmdpWarning, match="variance over the posterior"):
        bm.evaluate([0, 0], draws)
    with pytest.warns(bm.BayesmdpWarning, match="variance over the posterior"):
        bm.compare({"one": [0, 0], "two": [1, 0]}, draws)


def test_draws_that_do_not_end_count_for_neither_side() -> None:
    """Action 0 ends with 1, action 1 with 2, in every draw that ends at all."""
    reward = [[[0.0, 1.0], [0.0, 2.0]], [[0.0, 0.0], [0.0, 0.0]]]
    task = bm.Task(2, 2, reward, discount=1, terminal=[1])
    counts = bm.Counts.from_arrays([0], [0], [0])
    draws = bm.fit(counts, task, prior=bm.SymmetricPrior(0.01)).draws(500)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        assert bm.evaluate([0, 0], draws).n_endless > 10
    assert any("too long to resolve" in str(w.message) for w in record)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bm.BayesmdpWarning)
        found = bm.compare({"one": [0, 0], "two": [1, 0]}, draws).rows[0]
    assert (found.name, found.interval) == ("two", pytest.approx((2.0, 2.0)))
    assert found.difference_interval == pytest.approx((1.0, 1.0))
    assert found.difference == pytest.approx(1.0)
    assert found.probability_better == pytest.approx(1.0)


def test_what_is_the_machine_s_rounding_is_no_difference() -> None:
    """Two policies that do the same where it matters differ by nothing at all."""
    task = bm.Task(2, 2, reward=[0, 0.41085], discount=0.9, terminal=[1])
    counts = bm.Counts.from_arrays([0, 0], [0, 1], [1, 1], n_states=2, n_actions=2)
    support = ([0, 0], [0, 1], [1, 1])
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior(support=support))
    table = bm.compare({"a": [0, 0], "b": [1, 1]}, posterior.draws(50))
    assert [row.difference for row in table.rows] == [0, 0]
    assert "e-1" not in str(table)


N = 10  # states of `crossing`: the first, eight to choose in, the end


def crossing(scale: float = 1.0, extra: float = 0.0) -> bm.Posterior:
    """A random step, then a choice between two actions that do the same.

    In the last step the second action pays ``extra`` more.
    """
    inner = np.arange(1, N - 1)
    reward = scale * np.repeat(np.random.default_rng(0).normal(size=(N, 1)), 2, axis=1)
    reward[inner, 1] += extra
    task = bm.Task(N, 2, reward, discount=0.97, terminal=[N - 1])
    both = np.repeat([0, 1], inner.size)
    counts = bm.Counts.from_arrays(
        np.concatenate([0 * both, inner, inner]),
        np.concatenate([both, both]),
        np.concatenate([inner, inner, 0 * both + N - 1]),
        n_states=N,
        n_actions=2,
    )
    return bm.fit(counts, task, prior=bm.SparsePrior())


MIXED = np.random.default_rng(1).dirichlet(np.ones(2), size=N)
MIXED[[0, -1]] = 1, 0
ALIKE = {"first": np.array([[1.0, 0]] * N), "mixed": MIXED}


@pytest.mark.parametrize("scale", [3e-12, 1.0, 1e9])
def test_ties_are_ties_in_the_mean_and_in_every_draw(scale: float) -> None:
    """Values differ by rounding in some draws: a tie is not better, nor worse."""
    draws = crossing(scale).draws(200, seed=0)
    values = [start_values(policy, draws) for policy in ALIKE.values()]
    assert 0 < np.abs(values[0] - values[1]).max() < 1e-14 * scale
    for name, other in (("first", "mixed"), ("mixed", "first")):
        found = row(bm.compare(ALIKE, draws, reference=other), name)
        assert (found.difference, found.difference_mcse) == (0, 0)
        assert (found.probability_better, found.probability_tied) == (0, 1)


def test_what_is_more_than_rounding_is_a_difference() -> None:
    draws = crossing(extra=1e-6).draws(200, seed=0)  # one part in a million
    found = row(bm.compare(ALIKE, draws), "mixed")
    assert (found.probability_better, found.probability_tied) == (1, 0)
    assert found.difference > 10 * found.difference_mcse


@pytest.mark.parametrize("n_draws", [3, 10, 49, 100, 1000, 3000])
def test_a_probability_is_at_most_one(n_draws: int) -> None:
    """The sum of the weights of all draws may be above 1 by rounding."""
    draws = crossing(extra=1.0).draws(n_draws)
    second = [0] + [1] * (N - 2) + [0]
    table = bm.compare({"first": [0] * N, "second": second}, draws)
    assert table.rows[0].name == "second"
    assert table.rows[0].probability_better == 1.0
    share = bm.report(draws.belief, table).data["policies"]["rows"][0]
    assert share["probability_best"]["value"] == 1.0


def test_what_iterations_leave_is_no_difference() -> None:
    """They are right to 1e-10 of the largest value, far out of reach; so tied."""
    rng = np.random.default_rng(0)
    state = np.repeat(np.arange(150), 6)  # two actions with three next states each
    action = np.tile([0, 0, 0, 1, 1, 1], 150)
    target = np.concatenate([rng.choice(75, 3, replace=False) for _ in range(300)])
    counts = bm.Counts.from_arrays(state, action, target + 75 * (state >= 75))
    reward = rng.normal(size=(150, 2))
    reward[75:] *= 1e4
    task = bm.Task(150, 2, reward, discount=0.99, start=np.eye(150)[0])
    draws = bm.fit(counts, task, prior=bm.SparsePrior()).draws(50, seed=0)
    policies = {"first": np.zeros(150, int), "far": 1 * (np.arange(150) >= 75)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bm.BayesmdpWarning)  # few digits, it says
        table = bm.compare(policies, draws, solver="iterative")
    values = [e.start_values for e in table.evaluations.values()]
    assert np.abs(values[0] - values[1]).max() > 1e-8 * np.abs(values[0]).max()
    found = row(table, "far")
    assert (found.difference, found.difference_mcse) == (0, 0)
    assert (found.probability_better, found.probability_tied) == (0, 1)
