"""Pictures hold the numbers of the records, and those of the report."""

import sys
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, BayesmdpError

mpl = pytest.importorskip("matplotlib")
figures = pytest.importorskip("matplotlib.figure")

DOLLARS = r"$\frac$"  # a formula that cannot be drawn, were it one


def believed(n: int) -> bm.Posterior:
    world = bm.worlds.gridworld()
    prior = bm.SymmetricPrior(support=world.support)
    labels = [f"cell {s}" for s in range(24)] + [DOLLARS]
    task = world.task.with_labels(state_labels=labels)
    return bm.fit(world.sample(n, seed=0), task, prior=prior)


@pytest.fixture(scope="module")
def posterior() -> bm.Posterior:
    return believed(300)


@pytest.fixture(scope="module")
def table(posterior: bm.Posterior) -> bm.Comparison:
    policies = {
        "logged": bm.policies.behaviour(posterior),
        DOLLARS: np.full((25, 4), 0.25),
        "nominal": bm.policies.nominal(posterior),
    }
    return bm.compare(policies, posterior.draws(301, seed=1), reference="logged")


@pytest.fixture(scope="module")
def shown(posterior: bm.Posterior, table: bm.Comparison) -> dict[str, Any]:
    """What the report says of the same records."""
    return bm.report(posterior, table).data


@pytest.fixture(scope="module")
def by_size() -> dict[int, bm.Evaluation]:
    policy = np.ones(25, dtype=int)
    sizes = (1000, 100, 300)  # in no order
    return {n: bm.evaluate(policy, believed(n).draws(100)) for n in sizes}


def followed() -> tuple[np.ndarray, bm.Draws]:
    """A policy and draws of a belief."""
    return np.ones(25, dtype=int), believed(300).draws(20)


@pytest.fixture(scope="module")
def draw(
    table: bm.Comparison, by_size: dict[int, bm.Evaluation]
) -> dict[str, Callable[..., Any]]:
    """Every picture, as a function of the axes."""
    evaluation = table.evaluations["nominal"]
    return {
        "intervals": lambda **x: bm.plots.intervals(table, **x),
        "differences": lambda **x: bm.plots.intervals(table, difference=True, **x),
        "scatter": lambda **x: bm.plots.scatter(evaluation, label=["cell 7"], **x),
        "diagonal": lambda **x: bm.plots.diagonal(table, y=DOLLARS, **x),
        "sweep": lambda **x: bm.plots.sweep(by_size, states=["cell 7", 3], **x),
        "survival": lambda **x: bm.plots.survival(*followed(), 9, **x),
        "prevalence": lambda **x: bm.plots.prevalence(*followed(), 9, **x),
    }


NAMES = ["intervals", "differences", "scatter", "diagonal", "sweep"]
NAMES += ["survival", "prevalence"]


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_labelled_and_changes_nothing_else(
    name: str, draw: dict[str, Callable[..., Any]]
) -> None:
    before = dict(mpl.rcParams)
    mine = figures.Figure().subplots(1, 2)
    assert draw[name](ax=mine[0]) is mine[0]
    assert not mine[1].has_data()
    ax = draw[name]()
    assert ax.figure.canvas.manager is None  # no window holds on to it
    assert ax.get_xlabel()
    assert ax.get_ylabel() or [x.get_text() for x in ax.get_yticklabels()]
    ax.figure.savefig(BytesIO(), format="svg")  # names with dollars are no formulas
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("difference", [False, True])
def test_intervals_are_quantiles_of_draws_and_those_of_the_report(
    difference: bool, table: bm.Comparison, shown: dict[str, Any]
) -> None:
    ax = bm.plots.intervals(table, difference=difference)
    level = shown["policies"]["rows"][0]["interval"]["level"]
    reported = bm.plots.intervals(table, difference=difference, level=level)
    reference = table.evaluations["logged"].start_values
    rows = [r for r in table.rows if not (difference and r.name == "logged")]
    drawn = ax.lines[: 2 * len(rows)]
    for place, (row, bar, dot) in enumerate(
        zip(rows, drawn[::2], drawn[1::2], strict=True)
    ):
        values = table.evaluations[row.name].start_values
        values = values - reference if difference else values
        wanted = np.quantile(values, [0.025, 0.975], method="inverted_cdf")
        assert bar.get_xdata() == pytest.approx(wanted)
        said = shown["policies"]["rows"][table.rows.index(row)]
        said = said["difference_interval" if difference else "interval"]
        ends = list(reported.lines[2 * place].get_xdata())
        assert ends == [said[x]["value"] for x in ("low", "high")]
        assert dot.get_xdata() == [row.difference if difference else row.value]
        assert list(bar.get_ydata()) == [place, place]
    labels = [x.get_text().replace("\\", "") for x in ax.get_yticklabels()]
    assert labels == [row.name.replace("\\", "") for row in rows]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the best is on top


def test_models_of_an_ensemble_count_by_their_weights() -> None:
    casino = bm.worlds.casino()
    heavy = bm.Ensemble(
        [casino.draws().dynamics(i) for i in (0, 1)], casino.task, weights=[0.98, 0.02]
    )
    table = bm.compare({"play": [0, 0, 0], "leave": [1, 0, 0]}, heavy.draws())
    play = [row.name for row in table.rows].index("play")
    ends = bm.plots.intervals(table).lines[2 * play].get_xdata()
    assert ends[0] == ends[1] == table.evaluations["play"].start_values[0]
    three = bm.Ensemble([casino.draws().dynamics(0)] * 3, casino.task)
    with pytest.raises(ArgumentError, match="not that ensemble"):
        bm.report(three, table)


def test_the_scatter_shows_live_states_as_the_report_does(
    table: bm.Comparison, shown: dict[str, Any]
) -> None:
    evaluation = table.evaluations["nominal"]
    live = evaluation.task.live
    ax = bm.plots.scatter(evaluation, label=["cell 7", 0])
    x, y = np.asarray(ax.collections[0].get_offsets()).T
    assert x == pytest.approx(evaluation.aleatoric_sd[live], rel=1e-4)
    assert y == pytest.approx(evaluation.epistemic_sd[live], rel=1e-4)
    colour = np.asarray(ax.collections[0].get_array())
    assert colour == pytest.approx(evaluation.value[live], rel=1e-4)
    said = shown["states"]["policies"]["nominal"]
    assert list(y) == [said["epistemic_sd"][s] for s in live]
    assert [x.get_text() for x in ax.texts] == ["cell 7", "cell 0"]
    assert ax.texts[1].xy == (x[0], y[0])


def test_above_the_diagonal_the_policy_upwards_is_better(
    table: bm.Comparison, shown: dict[str, Any]
) -> None:
    ax = bm.plots.diagonal(table, label=0)
    dots, line = ax.lines[:2]
    x, y = dots.get_data()
    live = table.evaluations["logged"].task.live
    for name, found in (("logged", x), ("nominal", y)):
        wanted = table.evaluations[name].value[live]
        assert found == pytest.approx(wanted, rel=1e-4)
        said = shown["states"]["policies"][name]["value"]
        assert list(found) == [said[s] for s in live]
    assert list(line.get_xdata()) == list(line.get_ydata())
    assert ax.get_xlim() == ax.get_ylim()
    assert ax.get_ylabel() == "value under nominal"
    assert ax.texts[0].xy == (x[0], y[0])
    turned = bm.plots.diagonal(table, "nominal", "logged").lines[0]
    assert np.array_equal(turned.get_data(), (y, x))


@pytest.mark.parametrize("state", [None, "cell 7"])
def test_a_sweep_runs_over_sizes_in_order(
    state: str | None, by_size: dict[int, bm.Evaluation]
) -> None:
    names = ("epistemic_sd", "value")
    ax = bm.plots.sweep(by_size, quantities=names, states=state, every_state=False)
    assert len(ax.containers) == 2
    for name, (line, _, (bars,)) in zip(names, ax.containers, strict=True):
        found = [by_size[n] for n in (100, 300, 1000)]
        wanted, error = (
            [getattr(e, f"start_{x}") for e in found]
            if state is None
            else [getattr(e, x)[7] for e in found]
            for x in (name, f"{name}_mcse")
        )
        assert list(line.get_xdata()) == [100, 300, 1000]
        assert line.get_ydata() == pytest.approx(wanted)
        length = [np.ptp(ends[:, 1]) for ends in bars.get_segments()]
        assert length == pytest.approx(4 * np.array(error))
    assert ax.get_xscale() == "log"


def test_a_sweep_shows_every_live_state_behind(
    by_size: dict[int, bm.Evaluation],
) -> None:
    ax = bm.plots.sweep(by_size, quantities="value")
    faint = [x for x in ax.lines if x.get_alpha() is not None]
    wanted = np.array([by_size[n].value[:20] for n in (100, 300, 1000)])
    assert np.array_equal([x.get_ydata() for x in faint], wanted.T)
    assert bm.plots.sweep(by_size, states=[]).get_legend() is None


@pytest.mark.parametrize("name", NAMES)
def test_without_matplotlib_it_says_what_to_install(
    name: str,
    draw: dict[str, Callable[..., Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ArgumentError, match=r'pip install "bayesmdp\[plots\]"'):
        draw[name]()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda t, e: bm.plots.intervals(e), "`comparison` must be of type"),
        (lambda t, e: bm.plots.intervals(t, level=0), "`level` must be in"),
        (lambda t, e: bm.plots.intervals(t, ax=7), "`ax` must be of type Axes"),
        (lambda t, e: bm.plots.scatter(t), "`evaluation` must be of type"),
        (lambda t, e: bm.plots.scatter(e, label="cel 7"), "`label` .*cell 7"),
        (lambda t, e: bm.plots.scatter(e, label=[25]), "`label`.*25"),
        (lambda t, e: bm.plots.scatter(e, label=1.5), "`label`.*1.5"),
        (lambda t, e: bm.plots.diagonal(t, "nominel"), "did you mean 'nominal'"),
        (lambda t, e: bm.plots.diagonal(t, y=3), "`y` 3 is not among the policies"),
        (lambda t, e: bm.plots.sweep(e), "must map numbers of transitions"),
        (lambda t, e: bm.plots.sweep({}), "map numbers of transitions"),
        (lambda t, e: bm.plots.sweep({0: e}), "`evaluations` must be at least 1"),
        (lambda t, e: bm.plots.sweep({5: t}), "evaluations\\[5\\]` must be of type"),
        (lambda t, e: bm.plots.sweep({5: e}, quantities=()), "must name some of"),
        (lambda t, e: bm.plots.sweep({5: e}, quantities="values"), "mean 'value'"),
        (lambda t, e: bm.plots.sweep({5: e}, states="x"), "`states`"),
        (lambda t, e: bm.plots.sweep({5: e, 9: other()}), "5 has 25"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(
    call: Callable[..., Any], said: str, table: bm.Comparison
) -> None:
    with pytest.raises(BayesmdpError, match=said):
        call(table, table.evaluations["nominal"])


def other() -> bm.Evaluation:
    return bm.evaluate([0, 0, 0], bm.worlds.casino().draws())
