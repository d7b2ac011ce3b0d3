"""Cost-effectiveness from joint draws, against closed forms and enumeration."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import bayesmdp as bm
from bayesmdp.economics import from_samples
from bayesmdp.errors import ArgumentError


@pytest.fixture(scope="module")
def toy() -> bm.economics.CostEffectiveness:
    """Effect N(1, 1) and cost N(0, 2) beside a policy of neither, on a grid."""
    x, y = (z.ravel() for z in np.meshgrid(*[np.linspace(-7, 7, 401)] * 2))
    weights = norm.pdf(x) * norm.pdf(y)
    return from_samples(
        {"old": 0 * x, "new": 2 * y},
        {"old": 0 * x, "new": 1 + x},
        thresholds=[1, 2, 3],
        weights=weights / weights.sum(),
    )


def test_evpi_is_that_of_normal_net_benefits(
    toy: bm.economics.CostEffectiveness,
) -> None:
    """With net benefit N(m, s), it is ``s phi(m / s) - m Phi(-m / s)``."""
    assert toy.evpi == pytest.approx([0.4798107, 0.3992825, 0.4094635], abs=5e-5)
    m, s = toy.thresholds, np.sqrt(toy.thresholds**2 + 4)
    expected = s * norm.pdf(m / s) - m * norm.cdf(-m / s)
    assert toy.evpi == pytest.approx(expected, abs=5e-5)
    assert toy.expected_loss["old"] == pytest.approx(expected + m, abs=5e-5)


def test_acceptability_is_that_of_normal_net_benefits(
    toy: bm.economics.CostEffectiveness,
) -> None:
    m, s = toy.thresholds, np.sqrt(toy.thresholds**2 + 4)
    assert toy.ceac["new"] == pytest.approx(norm.cdf(m / s), abs=1e-3)
    assert toy.ceac["new"] + toy.ceac["old"] == pytest.approx(1)
    assert toy.best == ("new",) * 3
    assert np.array_equal(toy.frontier, toy.ceac["new"])


@pytest.fixture(scope="module")
def several() -> bm.economics.CostEffectiveness:
    rng = np.random.default_rng(3)
    cost = rng.normal([10, 14, 12, 30, 31], 3, (400, 5))
    effect = rng.normal([1, 1.2, 0.9, 2.5, 2.4], 0.4, (400, 5))
    return from_samples(cost, effect, list("abcde"), [0, 5, 10, 20, 40])


def test_curves_are_counts_of_draws(several: bm.economics.CostEffectiveness) -> None:
    cost, effect = (
        np.array([several.plane[x][i] for x in several.names]) for i in (0, 1)
    )
    for k, threshold in enumerate(several.thresholds):
        benefit = threshold * effect - cost
        wins = np.bincount(benefit.argmax(axis=0), minlength=5) / 400
        loss = (benefit.max(axis=0) - benefit).mean(axis=1)
        best = int(benefit.mean(axis=1).argmax())
        for p, name in enumerate(several.names):
            assert several.ceac[name][k] == pytest.approx(wins[p])
            assert several.expected_loss[name][k] == pytest.approx(loss[p])
        assert several.best[k] == several.names[best]
        assert several.frontier[k] == several.ceac[several.names[best]][k]
        evpi = benefit.max(axis=0).mean() - benefit.mean(axis=1).max()
        assert several.evpi[k] == pytest.approx(evpi)
        assert several.evpi[k] == min(x[k] for x in several.expected_loss.values())


def test_the_best_policy_need_not_be_the_most_probable_one() -> None:
    """A rare large gain: best in the mean, and in one draw of four."""
    effect = [[0, 10], [0, -1], [0, -1], [0, -1]]
    ce = from_samples(np.zeros((4, 2)), effect, ["old", "new"], [1])
    assert ce.best == ("new",)
    assert ce.frontier.tolist() == ce.ceac["new"].tolist() == [0.25]
    assert ce.evpi.tolist() == ce.expected_loss["new"].tolist() == [0.75]


def test_ties_are_shared() -> None:
    ce = from_samples([[1, 1, 2], [1, 1, 0]], [[1, 1, 1]] * 2, thresholds=[10])
    assert [float(ce.ceac[x][0]) for x in "012"] == [0.25, 0.25, 0.5]


@pytest.mark.parametrize("seed", range(30))
def test_a_policy_has_a_ratio_if_it_is_best_at_some_threshold(seed: int) -> None:
    """What is best at some threshold of 0 or more is not dominated, and no other is."""
    rng = np.random.default_rng(seed)
    c, e = rng.normal(size=(2, 6))
    ce = from_samples(np.stack([c, c]), np.stack([e, e]), thresholds=[0])
    crossings = [
        (c[i] - c[j]) / (e[i] - e[j]) for i, j in itertools.combinations(range(6), 2)
    ]
    cuts = np.sort([0.0, *(x for x in crossings if x > 0)])
    between = np.append((cuts[1:] + cuts[:-1]) / 2, cuts[-1] + 1)
    best = {int((k * e - c).argmax()) for k in between}
    kept = [row for row in ce.table if not (row.dominated or row.extendedly_dominated)]
    assert {int(row.name) for row in kept} == best
    for row in ce.table:
        p = int(row.name)
        others = (c <= c[p]) & (e >= e[p])
        assert row.dominated == (others.sum() > 1)
        assert not (row.dominated and row.extendedly_dominated)
    ratios = [row.icer for row in kept[1:]]
    assert kept[0].icer is None
    assert ratios == sorted(ratios)
    for before, row in itertools.pairwise(kept):
        dc, de = row.cost - before.cost, row.effect - before.effect
        assert row.icer == pytest.approx(dc / de)
        assert (row.incremental_cost, row.incremental_effect) == (dc, de)
        assert row.incremental_cost_mcse == row.incremental_effect_mcse == 0


def test_increments_have_paired_errors() -> None:
    rng = np.random.default_rng(2)
    c = rng.normal([10, 20], [3, 4], size=(50, 2))
    e = rng.normal([1, 2], 0.2, size=(50, 2))
    row = from_samples(c, e, thresholds=[0]).table[1]
    for found, off in (
        (row.incremental_cost_mcse, c[:, 1] - c[:, 0]),
        (row.incremental_effect_mcse, e[:, 1] - e[:, 0]),
    ):
        assert found == pytest.approx(off.std(ddof=1) / np.sqrt(50))


def test_equal_and_nearly_equal_policies_have_no_ratio() -> None:
    c, e = [10, 10, 20, 30], [1, 1, 1 + 1e-14, 2]
    table = from_samples([c, c], [e, e], thresholds=[0]).table
    assert [row.dominated for row in table] == [False, True, True, False]
    assert [row.same_as for row in table] == [None, "0", None, None]
    assert table[3].icer == 20


def test_errors_are_the_spread_over_repeated_samples() -> None:
    """Over 300 samples of 400 draws; a standard deviation is then known to 4 %."""
    found, said = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        shared = rng.normal(size=400)
        cost = np.column_stack(
            [100 + 5 * shared, 130 + 5 * shared + rng.normal(0, 4, 400)]
        )
        effect = np.column_stack([5 + shared, 6 + shared + rng.normal(0, 0.3, 400)])
        ce = from_samples(cost, effect, ["a", "b"], [25, 33])
        row = ce.table[1]
        found.append([row.icer, row.cost, row.effect, *ce.evpi, *ce.ceac["b"]])
        said.append([row.icer_mcse, row.cost_mcse, row.effect_mcse])
        said[-1] += [*ce.evpi_mcse, *ce.ceac_mcse["b"]]
    ratio = np.mean(said, axis=0) / np.std(found, axis=0)
    assert ratio == pytest.approx(1, abs=0.15)


def test_weights_count() -> None:
    rng = np.random.default_rng(0)
    cost, effect = rng.normal(10, 2, (3, 2)), rng.normal(2, 1, (3, 2))
    heavy = from_samples(cost, effect, thresholds=[5], weights=[0.5, 0.25, 0.25])
    twice = [0, 0, 1, 2]
    plain = from_samples(cost[twice], effect[twice], thresholds=[5])
    assert heavy.evpi == pytest.approx(plain.evpi)
    assert heavy.ceac["1"] == pytest.approx(plain.ceac["1"])
    assert heavy.table[0].cost == pytest.approx(plain.table[0].cost)


def test_frames_and_json_hold_the_record(
    several: bm.economics.CostEffectiveness,
) -> None:
    plane = several.to_pandas("plane")
    wide = plane.pivot(index="draw", columns="policy", values="c")
    assert np.array_equal(wide["b"], several.plane["b"][0])
    again = from_samples(
        wide,
        plane.pivot(index="draw", columns="policy", values="e"),
        thresholds=several.thresholds,
    )
    assert np.array_equal(again.evpi, several.evpi)
    assert again.table == several.table
    curves = several.to_pandas("curves")
    at = (curves["policy"] == "d") & (curves["k"] == 20)
    assert curves.loc[at, "ceac"].item() == several.ceac["d"][3]
    assert several.to_pandas("evpi")["evpi"].tolist() == several.evpi.tolist()
    table = several.to_pandas()
    assert table["c"].is_monotonic_increasing
    assert {"policy", "c", "e", "icer", "dominated"} <= {*table.columns}
    assert several.to_polars("curves")["k"].to_list() == curves["k"].tolist()
    with pytest.raises(ArgumentError, match="`what` must be one of table"):
        several.to_pandas("plan")
    record = json.loads(json.dumps(several.to_dict(), allow_nan=False))
    assert record["table"][0]["name"] == several.table[0].name
    assert record["expected_loss"]["c"] == several.expected_loss["c"].tolist()
    assert "plane" not in record


def test_it_shows_its_table(several: bm.economics.CostEffectiveness) -> None:
    said = several.summary()
    assert "dominated" in said
    assert "EVPI" in said
    assert "<table" in several._repr_html_()
    assert "(3 of 5 thresholds)" in several.summary(3)
    assert "thresholds)" not in said
    many = from_samples(TWO, TWO).summary()
    shown = re.findall(r"^([\d,]+) ", many.partition("threshold")[2], re.M)
    assert [int(x.replace(",", "")) for x in shown] == list(range(0, 100_001, 10_000))
    assert repr(several) == "CostEffectiveness(5 policies, 400 draws, 5 thresholds)"


def test_exact_numbers_of_a_column_have_as_many_decimals() -> None:
    """In the text and on the page; the two ratios are 72987.6 and 125764."""
    names, qaly = ("care", "b", "both"), (20.5, 21.5, 22.5)
    reward = {"cost": [[99580.4, 172568, 298332]], "qaly": [qaly]}
    task = bm.Task(1, 3, reward, discount=0, action_labels=names)
    known = bm.Ensemble([np.ones((1, 3, 1))], task)
    ce = bm.cost_effectiveness({x: [i] for i, x in enumerate(names)}, known)
    lines = [re.split("  +", line) for line in ce.summary().splitlines()[2:5]]
    assert [x[1:] for x in lines] == [
        ["99580", "99580 to 99580", "20.5", "20.5 to 20.5"],
        ["172568", "172568 to 172568", "21.5", "21.5 to 21.5", "72988"],
        ["298332", "298332 to 298332", "22.5", "22.5 to 22.5", "125764"],
    ]
    belief = known.with_reward("qaly")
    table = bm.compare({x: [i] for i, x in enumerate(names)}, belief.draws())
    page = bm.report(belief, table, cost_effectiveness=ce).html()
    for said in (">99580<br>", ">298332 to 298332<", ">72988<", ">125764<"):
        assert said in page


def test_only_exact_numbers_have_the_decimals_of_exact_ones() -> None:
    """Care pays 500 and ends; under the other it is not known when it ends."""
    paid = {"cost": [[500, 1234.5678], [700, 0]], "qaly": [[1, 1], [0.7, 0]]}
    reward = {name: [*values, [0, 0]] for name, values in paid.items()}
    task = bm.Task(3, 2, reward, discount=0.9, start=0, terminal=[2])
    seen = [(0, 0, 2), (0, 1, 2), (0, 1, 1), (0, 1, 1), (1, 0, 2), (1, 1, 2)]
    counts = bm.Counts.from_arrays(*zip(*seen, strict=True))
    belief = bm.fit(counts, task, prior=bm.SparsePrior())
    ce = bm.cost_effectiveness({"care": [0] * 3, "b": [1, 0, 0]}, belief, n_draws=50)
    care, other = (re.split("  +", line) for line in ce.summary().splitlines()[2:4])
    assert care == ["care", "500", "500 to 500", "1", "1 to 1"]
    assert all("±" in other[i] for i in (1, 3))
    table = bm.compare({"care": [0] * 3, "b": [1, 0, 0]}, belief.with_reward("qaly"))
    page = bm.report(belief.with_reward("qaly"), table, cost_effectiveness=ce).html()
    assert ">500<br>" in page
    assert ">500 to 500<" in page


def test_a_number_far_below_others_of_its_column_is_not_0() -> None:
    reward = {"cost": [[0.4, 125764.25, 0]], "qaly": [[1, 2, 0]]}
    task = bm.Task(1, 3, reward, discount=0)
    known = bm.Ensemble([np.ones((1, 3, 1))], task)
    ce = bm.cost_effectiveness({"a": [0], "b": [1], "none": [2]}, known)
    lines = [re.split("  +", line) for line in ce.summary().splitlines()[2:5]]
    assert [x[1:3] for x in lines] == [
        ["0", "0 to 0"],
        ["0.4", "0.4 to 0.4"],
        ["125764", "125764 to 125764"],
    ]


def test_polars_frames_are_read() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1.0, 2.0], "b": [2.0, 3.0]})
    assert from_samples(frame, frame).names == ("a", "b")


@pytest.mark.parametrize("kind", ["float", "uint8", "Int64", "category", object])
def test_frames_are_paired_whatever_the_type_of_equal_indexes(kind: str) -> None:
    typed = FRAME.set_axis(pd.Index([0, 1]).astype(kind))
    assert from_samples(FRAME, typed).names == ("a", "b")


@pytest.mark.parametrize(
    "index",
    [[0.0, np.nan], ["a", None], ["a", np.nan], [pd.NaT, pd.Timestamp(0)], [1, pd.NA]],
)
def test_frames_whose_equal_indexes_lack_values_are_paired(index: list[object]) -> None:
    cost, effect = (FRAME.set_axis(pd.Index(index)) for _ in range(2))
    assert from_samples(cost, effect).names == ("a", "b")
    assert from_samples(cost, dict(effect.items())).names == ("a", "b")
    with pytest.raises(ArgumentError, match="the same index in the same order"):
        from_samples(cost, effect.iloc[::-1])


TWO = [[1.0, 2.0], [2.0, 3.0]]
FRAME = pd.DataFrame(TWO, columns=["a", "b"])
SHUFFLED = FRAME.iloc[::-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"thresholds": [100, -1]},
            "`thresholds` must be 0 or more; got -1.",
        ),
        ({"thresholds": []}, "`thresholds` is empty"),
        (
            {"thresholds": "9"},
            r"`thresholds` must be a number in \[0, inf\); got '9'\.",
        ),
        ({"effect": [[1.0], [2.0]]}, "must have the same draws and policies"),
        ({"effect": [[1.0, np.nan], [0, 0]]}, "`effect` must be finite: draw 0, pol"),
        ({"cost": [[1.0], [2.0]], "effect": [[1.0], [2.0]]}, "two policies"),
        ({"cost": [[1.0, 2.0]], "effect": [[1.0, 2.0]]}, "two draws"),
        ({"names": ["a"]}, "`names` must have one entry per policy, 2; got 1"),
        ({"names": ["a", "a"]}, "`names` must differ; 'a' is repeated"),
        ({"names": [1, 2]}, "`names` must have text as names, such as 'drug'; got 1"),
        ({"weights": [0.5, 0.6]}, "`weights` must sum to 1"),
        (
            {"cost": {"a": [1, 2], "b": [1, 2]}, "effect": {"b": [1, 2], "a": [1, 2]}},
            "the same columns in the same order",
        ),
        ({"effect": SHUFFLED}, "the same index in the same order"),
        ({"cost": SHUFFLED, "effect": dict(FRAME)}, "the same index in the same order"),
        ({"thresholds": True}, "`thresholds` must hold numbers; got True"),
        ({"thresholds": [True]}, "`thresholds` must hold numbers; got .True"),
        ({"thresholds": [1, 1e308]}, "`thresholds` must be at most 1e.50; got 1e.308"),
    ],
)
def test_what_cannot_be_analysed_is_refused(
    arguments: dict[str, object], said: str
) -> None:
    with pytest.raises(ArgumentError, match=said):
        from_samples(**{"cost": FRAME, "effect": TWO, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [{2, 1}, (x for x in (2, 1)), np.array([2, 1])])
def test_thresholds_are_what_can_be_listed(given: Any) -> None:
    assert from_samples(TWO, TWO, thresholds=given).thresholds.tolist() == [1, 2]
    assert from_samples(TWO, TWO, thresholds=np.array(3)).thresholds.tolist() == [3]


def test_distributions_have_the_moments_they_were_given() -> None:
    cost = bm.economics.gamma_from_mean_sd(2000, 150)
    utility = bm.economics.beta_from_mean_sd(0.75, 0.1)
    ratio = bm.economics.lognormal_from_interval(0.365, 0.71, level=0.9)
    assert (cost.mean(), cost.std()) == pytest.approx((2000, 150))
    assert (utility.mean(), utility.std()) == pytest.approx((0.75, 0.1))
    assert ratio.ppf([0.05, 0.95]) == pytest.approx([0.365, 0.71])
    with pytest.raises(ArgumentError, match="`sd` must be below"):
        bm.economics.beta_from_mean_sd(0.9, 0.3)
    with pytest.raises(ArgumentError, match="`mean` must be below 1"):
        bm.economics.beta_from_mean_sd(1, 0.1)
    with pytest.raises(ArgumentError, match="`high` must be in"):
        bm.economics.lognormal_from_interval(0.7, 0.4)
    with pytest.raises(ArgumentError, match="`mean` must be in"):
        bm.economics.gamma_from_mean_sd(0, 1)
    with pytest.raises(ArgumentError, match="`level` must be below 1"):
        bm.economics.lognormal_from_interval(0.4, 0.7, level=1)


def test_the_report_has_a_section(several: bm.economics.CostEffectiveness) -> None:
    casino = bm.worlds.casino()
    table = bm.compare({"play": [0, 0, 0], "leave": [1, 0, 0]}, casino.draws())
    page = bm.report(casino, table, cost_effectiveness=several)
    section = page.data["economics"]
    assert [x["name"] for x in section["rows"]] == [x.name for x in several.table]
    assert section["evpi"] == pytest.approx(several.evpi.tolist(), rel=1e-4)
    assert section["ceac"]["d"] == pytest.approx(several.ceac["d"].tolist(), rel=1e-4)
    html = page.html()
    assert '<section id="economics">' in html
    assert 'id="plot-ceac"' in html
    assert "dominated" in html
    without = bm.report(casino, table)
    assert without.data["economics"] is None
    assert '<section id="economics">' not in without.html()
    with pytest.raises(ArgumentError, match="`cost_effectiveness` must be of type"):
        bm.report(casino, table, cost_effectiveness=7)  # type: ignore[arg-type]


def test_pictures_hold_the_numbers(several: bm.economics.CostEffectiveness) -> None:
    pytest.importorskip("matplotlib")
    ax = bm.plots.ceac(several)
    assert np.array_equal(ax.lines[0].get_ydata(), several.frontier)
    assert np.array_equal(ax.lines[4].get_ydata(), several.ceac["d"])
    lost = bm.plots.expected_loss(several).lines
    assert np.array_equal(lost[2].get_ydata(), several.expected_loss["b"])
    assert np.array_equal(bm.plots.evpi(several).lines[0].get_ydata(), several.evpi)
    plane = bm.plots.ce_plane(several, reference="b", threshold=20)
    points = np.asarray(plane.collections[2].get_offsets())  # c: after a and its mean
    assert np.array_equal(points.T[::-1], several.plane["c"] - several.plane["b"])
    for wrong, said in (
        (lambda: bm.plots.ceac(7), "`ce` must be of type"),
        (lambda: bm.plots.ce_plane(several, reference="x"), "not among"),
        (lambda: bm.plots.ce_plane(several, threshold=-1), "`threshold`"),
    ):
        with pytest.raises(ArgumentError, match=said):
            wrong()


def test_it_is_kept_with_a_run(
    several: bm.economics.CostEffectiveness, tmp_path: Path
) -> None:
    world = bm.worlds.synthetic(0)
    posterior = bm.fit(world.sample(20, seed=0), world.task)
    run = bm.storage.save(posterior, tmp_path / "run")
    bm.storage.save_result(run, "costs", several)
    again = bm.storage.load_result(run, "costs", bm.economics.CostEffectiveness)
    assert again.to_dict() == several.to_dict()
    assert again.table == several.table
    assert all(np.array_equal(again.plane[x], several.plane[x]) for x in several.names)


def test_uneven_weights_are_worth_fewer_draws() -> None:
    """Draws that count unevenly leave larger errors, as fewer draws would."""
    rng = np.random.default_rng(0)
    cost, effect = rng.normal(size=(2, 400, 2))
    uneven = np.repeat([1.5, 0.5], 200) / 400
    found = from_samples(cost, effect, thresholds=[1], weights=uneven)
    mean = uneven @ cost[:, 0]
    error = np.sqrt(uneven**2 @ (cost[:, 0] - mean) ** 2)
    assert found.table[0].cost_mcse == pytest.approx(error, rel=0.1)
    even = from_samples(cost, effect, thresholds=[1])
    ratio = found.table[0].cost_mcse / even.table[0].cost_mcse
    assert ratio == pytest.approx(np.sqrt(400 * uneven @ uneven), rel=0.1)


BOTH = {"cost": [[1.0, 4.0], [2.0, 5.0]], "qaly": [[1.0, 2.0], [0.5, 1.0]]}
ROWS = np.array([[[0.9, 0.1], [0.5, 0.5]], [[0.2, 0.8], [0.6, 0.4]]])
POLICIES = {"care": [0, 0], "drug": [1, 1]}


def test_averages_are_per_step() -> None:
    unit = {"cost": "EUR"}
    task = bm.Task(2, 2, BOTH, criterion="average", reward_unit=unit)
    belief = bm.Ensemble([ROWS], task)
    ce = bm.cost_effectiveness(POLICIES, belief)
    assert "these policies, per step" in ce.summary()
    assert "cost (EUR)" in ce.summary()
    assert ce.to_dict()["per"] == "step"
    for row in ce.table:
        found = bm.evaluate(POLICIES[row.name], belief).rewards
        assert found is not None
        assert (row.cost, row.effect) == (
            pytest.approx(found["cost"].start_value),
            pytest.approx(found["qaly"].start_value),
        )


def test_policies_and_rewards_are_named() -> None:
    task = bm.Task(2, 2, BOTH, discount={"cost": 0.9, "qaly": 1}, horizon=4)
    belief = bm.Ensemble([ROWS], task)
    with pytest.raises(ArgumentError, match=r"`policies` must have text as names.*1"):
        bm.cost_effectiveness({1: [0, 0], 2: [1, 1]}, belief)  # type: ignore[dict-item]
    for choice in ("qaly", {"qaly": 2, "cost": -1}):
        with pytest.raises(ArgumentError, match="give the posterior of all rewards"):
            bm.cost_effectiveness(POLICIES, belief.with_reward(choice))
    lone = bm.Ensemble([ROWS], bm.Task(2, 2, [1, 0], discount=0.9))
    with pytest.raises(ArgumentError, match=r"one unnamed reward; name rewards"):
        bm.cost_effectiveness(POLICIES, lone)
