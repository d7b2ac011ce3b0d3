"""What a belief predicts of its log, against loops, exact chains and known truths."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import bayesmdp as bm
from bayesmdp._typing import FloatArray
from bayesmdp.cli import main
from bayesmdp.diagnostics import Check
from bayesmdp.errors import ArgumentError, BeliefError, CountsError

N = 4  # live states; 4 is the good end, 5 the bad one


def world(seed: int = 0, discount: float = 0.95) -> bm.MDP:
    """Four states, two actions, ends with 0.15."""
    rng = np.random.default_rng(seed)
    theta = np.zeros((N + 2, 2, N + 2))
    theta[:N, :, :N] = 0.85 * rng.dirichlet(np.ones(N), (N, 2))
    good = rng.uniform(0.2, 0.8, (N, 2))
    theta[:N, :, N], theta[:N, :, N + 1] = 0.15 * good, 0.15 * (1 - good)
    theta[[N, N + 1], :, [N, N + 1]] = 1.0
    task = bm.Task(
        N + 2,
        2,
        reward=[0.0, 0.1, 0.0, 0.0, 1.0, 0.0],
        discount=discount,
        start=[0.4, 0.3, 0.2, 0.1, 0, 0],
        terminal=[N, N + 1],
    )
    return bm.MDP(bm.Dynamics.from_dense(theta), task)


POLICY = np.array([[0.3, 0.7], [0.5, 0.5], [0.8, 0.2], [0.6, 0.4], [1, 0], [1, 0]])
PRIOR = bm.SymmetricPrior(0.2)


def logged(n: int, seed: int = 1, **how: Any) -> bm.Transitions:
    return world().simulate(POLICY, n, seed=seed, **how)


@pytest.fixture(scope="module")
def log() -> bm.Transitions:
    return logged(300)


@pytest.fixture(scope="module")
def posterior(log: bm.Transitions) -> bm.Posterior:
    return bm.fit(log, world().task, prior=PRIOR)


@pytest.fixture(scope="module")
def found(posterior: bm.Posterior, log: bm.Transitions) -> Check:
    return bm.check(posterior, log, n_draws=200, n_permutations=99, seed=2)


def rows_of(log: bm.Transitions) -> list[list[tuple[int, int, int]]]:
    """Episodes as lists of (state, action, next state)."""
    (batch,) = log.episodes()
    every = list(
        zip(
            batch.state.tolist(),
            batch.action.tolist(),
            batch.next_state.tolist(),
            strict=True,
        )
    )
    cuts = batch.start.tolist()
    return [every[a:b] for a, b in pairwise(cuts)]


def values_of(posterior: bm.Posterior, n: int, seed: int) -> FloatArray:
    """Value of the behaviour in each draw and state, one model at a time."""
    policy, draws = bm.policies.behaviour(posterior), posterior.draws(n, seed=seed)
    models = (bm.MDP(draws.dynamics(i), posterior.task) for i in range(n))
    return np.array([x.value(policy) for x in models])


def test_observed_and_predicted_values(
    found: Check, posterior: bm.Posterior, log: bm.Transitions
) -> None:
    """Against loops over rows, and over the models of the draws."""
    task, episodes = world().task, rows_of(log)
    returns = [
        sum(
            task.discount**t * float(task.transition_reward(*map(np.array, row)))
            for t, row in enumerate(rows)
        )
        for rows in episodes
    ]
    assert found.observed_value == pytest.approx(np.mean(returns))
    assert found.observed_se == pytest.approx(np.std(returns, ddof=1) / math.sqrt(300))
    start = np.bincount([x[0][0] for x in episodes], minlength=6) / 300
    values = values_of(posterior, 200, 2) @ start
    assert found.predicted_value == pytest.approx(values.mean())
    assert found.predicted_interval == pytest.approx(
        np.quantile(values, [0.025, 0.975])
    )
    assert found.predicted_value_mcse == pytest.approx(
        values.std(ddof=1) / math.sqrt(200)
    )
    assert found.gap == pytest.approx(
        (values.mean() - np.mean(returns)) / found.observed_se
    )
    assert (found.n_episodes, found.n_censored, found.problems) == (300, 0, ())


def brute(
    y: Sequence[float], h: Sequence[float], pair: Sequence[tuple[int, int]]
) -> tuple[float, float]:
    """T and its variance over permutations within pairs, pair by pair."""
    t = v = 0.0
    for x in set(pair):
        at = [i for i, p in enumerate(pair) if p == x]
        if len(at) > 1:
            a = np.array([y[i] for i in at])
            b = np.array([h[i] for i in at])
            a, b = a - a.mean(), b - b.mean()
            t += float(a @ b)
            v += float(a @ a * (b @ b)) / (len(at) - 1)
    return t, v


def test_statistics_and_effects_are_those_of_their_formulas(
    found: Check, posterior: bm.Posterior, log: bm.Transitions
) -> None:
    task = world().task
    value = values_of(posterior, 200, 2).mean(axis=0)
    after = np.where(task.is_terminal, 0, value)
    y, pair, step, order, past = [], [], [], [], []
    for e, rows in enumerate(rows_of(log)):
        for t, (s, a, n) in enumerate(rows):
            reward = float(task.transition_reward(*map(np.array, (s, a, n))))
            y.append(reward + task.discount * after[n])
            pair.append((s, a))
            step.append(math.log1p(t))
            order.append(float(e))
            past.append(rows[t - 1] if t else None)
    later = [i for i, x in enumerate(past) if x is not None]
    tests = {x.name: x for x in found.tests}
    for name, h, at in (
        ("previous value", [value[x[0]] if x else 0.0 for x in past], later),
        ("step", step, range(len(y))),
        ("episode order", order, range(len(y))),
    ):
        ys, hs, ps = ([x[i] for i in at] for x in (y, h, pair))
        t, v = brute(ys, hs, ps)
        assert tests[name].statistic == pytest.approx(t / math.sqrt(v)), name
        assert tests[name].n_rows == len(ys)
        mean = {
            x: np.mean([b for b, q in zip(hs, ps, strict=True) if q == x]) for x in ps
        }
        squares = sum((b - mean[q]) ** 2 for b, q in zip(hs, ps, strict=True))
        steps = sum(task.discount ** (math.exp(step[i]) - 1) for i in at) / 300
        slope = t / squares * math.sqrt(squares / len(ys))
        assert tests[name].effect == pytest.approx(slope * steps), name
    # with two actions both have the same z, but for the sign
    policy = bm.policies.behaviour(posterior)
    surplus = [
        sum(a - policy[s, 1] for s, a, _ in rows[:t]) / math.sqrt(max(t, 1))
        for rows in rows_of(log)
        for t in range(len(rows))
    ]
    for name, h in (
        ("previous action", [float(x[1]) if x else 0.0 for x in past]),
        ("past actions", surplus),
    ):
        t, v = brute(*([x[i] for i in later] for x in (y, h, pair)))
        assert tests[name].statistic == pytest.approx(2 * t**2 / v), name
    order_test = bm.diagnostics.markov_order(log, n_permutations=99, seed=2)
    assert tests["second order"].p_value == order_test.p_value
    assert found.order == order_test


def test_holm_holds_for_all_tests_together(found: Check) -> None:
    p = sorted(x.p_value for x in found.tests)
    wanted, least = [], 0.0
    for i, x in enumerate(p):
        least = max(least, min((len(p) - i) * x, 1.0))
        wanted.append(least)
    assert sorted(x.p_holm for x in found.tests) == pytest.approx(wanted)


def exact(n_steps: int) -> tuple[FloatArray, FloatArray]:
    """Shares of live states ``[T, S]`` and of both ends under the behaviour."""
    model = world()
    chain = np.einsum("sa,sat->st", POLICY, model.dynamics.to_dense())
    at, shares = model.task.start, []
    for _ in range(n_steps):
        shares.append(at[:N])
        at = at @ chain
    return np.array(shares), at[N:]


@pytest.mark.parametrize("max_steps", [1000, 6])
def test_replicates_follow_the_chain_also_where_episodes_are_censored(
    max_steps: int,
) -> None:
    """With 8,000 episodes the posterior is the truth; errors below five sds."""
    log = logged(8000, max_steps=max_steps)
    posterior = bm.fit(log, world().task, prior=PRIOR)
    found = bm.check(posterior, log, n_draws=30, n_permutations=1)
    survival = found.survival
    assert survival is not None
    shares, ends = exact(int(survival.step[-1]) + 1)
    assert np.allclose(
        survival.predicted, shares.sum(axis=1)[survival.step], atol=0.025
    )
    assert np.allclose(survival.observed, survival.predicted, atol=0.025)
    assert (survival.low <= survival.predicted + 1e-12).all()
    assert (survival.high >= survival.predicted - 1e-12).all()
    steps = found.prevalence.step
    alive = shares[steps] / shares[steps].sum(axis=1, keepdims=True)
    reached = steps < 8
    assert np.allclose(found.prevalence.predicted[reached], alive[reached], atol=0.03)
    assert np.allclose(found.prevalence.observed[reached], alive[reached], atol=0.03)
    if max_steps == 1000:
        assert [x.predicted for x in found.endings] == pytest.approx(ends, abs=0.02)
        assert [x.observed for x in found.endings] == pytest.approx(ends, abs=0.02)
    assert found.problems == ()


def test_bands_hold_the_noise_of_as_many_episodes_and_the_posterior(
    found: Check,
) -> None:
    """Each has at most the variance of a share of 300; 200 draws tell sds to 8 %."""
    survival = found.survival
    assert survival is not None
    p = survival.predicted
    at = (p > 0.08) & (p < 0.9)
    sd = (survival.high - survival.low)[at] / (2 * 1.96)
    ratio = sd / np.sqrt(p[at] * (1 - p[at]) / 300)
    assert at.sum() > 5
    assert ratio.min() > 0.85
    assert ratio.max() < 1.3 * math.sqrt(2)


def test_survival_is_kaplan_meier_and_returns_are_completed() -> None:
    """Three episodes by hand: ends at 1, is censored at 1, ends at 2."""
    log = bm.Transitions.from_arrays(
        [0, 0, 0, 0],
        [0, 1, 0, 1],
        [1, 0, 0, 1],
        episode=[0, 1, 2, 2],
        step=[0, 0, 0, 1],
    )
    task = bm.Task(2, 2, reward=[1, 5], discount=0.5, terminal=1)
    posterior = bm.fit(log, task, prior=bm.SymmetricPrior())
    found = bm.check(posterior, log, n_draws=50, n_permutations=9)
    assert found.survival is not None
    assert found.survival.observed == pytest.approx([1, 2 / 3, 0])
    assert found.endings[0].observed == pytest.approx(1.0)
    value = values_of(posterior, 50, 0).mean(axis=0)
    # 1 + 0.5 * 5; 1 + 0.5 V(0); 1 + 0.5 + 0.25 * 5
    returns = [3.5, 1 + 0.5 * value[0], 2.75]
    assert found.observed_value == pytest.approx(np.mean(returns))
    assert found.n_censored == 1
    assert found.model_share == pytest.approx(0.5 * value[0] / sum(returns))
    assert "1 of 3 episodes are censored" in found.summary()


def test_a_continuing_task_has_no_endings() -> None:
    task = bm.Task(3, 2, reward=[1, 0, 2], discount=0.8)
    rng = np.random.default_rng(0)
    model = bm.MDP(bm.Dynamics.from_dense(rng.dirichlet(np.ones(3), (3, 2))), task)
    log = model.simulate(np.full((3, 2), 0.5), 30, seed=0, max_steps=20)
    found = bm.check(bm.fit(log, task), log, n_draws=50, n_permutations=9)
    assert (found.survival, found.endings, found.n_censored) == (None, (), 30)
    assert "no terminal states: endings and time to end are left out" in found.summary()
    assert found.prevalence.predicted.sum(axis=1) == pytest.approx(np.ones(8))


@pytest.mark.parametrize("prior", [PRIOR, bm.HierarchicalPrior()])
def test_the_behaviour_is_not_restricted(prior: Any, log: bm.Transitions) -> None:
    """A third action, taken twice, is part of the behaviour whatever min_count is."""
    (batch,) = log.episodes()
    columns = ("state", "action", "next_state", "episode")
    both = [
        np.concatenate([getattr(batch, x), y])
        for x, y in zip(
            columns, ([0, 1], [2, 2], [4, 5], [10_000, 10_001]), strict=True
        )
    ]
    whole = bm.Transitions.from_arrays(*both[:3], episode=both[3])
    task = bm.Task(6, 3, world().task.reward, discount=0.95, terminal=[4, 5])
    how = {"n_draws": 60, "n_permutations": 9}
    free, few = (
        bm.check(bm.fit(whole, task, prior=prior, min_count=n), whole, **how)
        for n in (1, 20)
    )
    assert few.predicted_value == pytest.approx(free.predicted_value)
    assert [x.p_value for x in few.tests] == [x.p_value for x in free.tests]


def frail(n: int, strength: float, seed: int) -> bm.Transitions:
    """Two states; half of the patients, unknown which, end badly more often."""
    rng = np.random.default_rng(seed)
    rows = []
    for e in range(n):
        bad = 0.15 * (1 + strength * (1 if e % 2 else -1))
        s = int(rng.integers(0, 2))
        while s < 2:
            u = rng.random()
            after = 3 if u < bad else 2 if u < bad + 0.1 else int(rng.integers(0, 2))
            rows.append((e * 7919 % n, s, int(rng.integers(0, 2)), after))
            s = after
    episode, state, action, after_ = map(np.array, zip(*rows, strict=True))
    order = np.argsort(episode, kind="stable")
    return bm.Transitions.from_arrays(
        *(x[order] for x in (state, action, after_)), episode=episode[order]
    )


def test_hidden_frailty_is_found_and_its_absence_is_not() -> None:
    """Two fixed seeds; the study has rates."""
    task = bm.Task(4, 2, [0, 0, 1, 0], discount=1, terminal=[2, 3])
    found = {}
    for strength in (0.0, 0.9):
        log = frail(1500, strength, seed=4)
        posterior = bm.fit(log, task, prior=PRIOR)
        found[strength] = bm.check(posterior, log, n_draws=200, n_permutations=99)
    assert found[0.0].problems == ()
    assert "no problem detected" in found[0.0].summary()
    said = " ".join(found[0.9].problems)
    assert "depend on how long an episode has lasted (p " in said
    assert "not ended by step is not as predicted" in said
    assert "problem: Next states" in found[0.9].summary()
    step = next(x for x in found[0.9].tests if x.name == "step")
    assert step.effect > 4 * step.effect_se > 0


def test_a_prior_that_is_wrong_leaves_a_gap() -> None:
    """All that is not observed ends badly, with much weight."""
    log = logged(200)
    prior = bm.FallbackPrior(PRIOR, N + 1, 30.0)
    posterior = bm.fit(log, world().task, prior=prior)
    found = bm.check(posterior, log, n_draws=100, n_permutations=9)
    assert found.gap < -2
    assert "standard errors below the observed one" in found.problems[0]


def test_records_come_back_and_hold_no_rows(
    posterior: bm.Posterior, found: Check, tmp_path: Path
) -> None:
    path = bm.storage.save(posterior, tmp_path / "run")

    def trip(check: Check) -> Check:
        bm.storage.save_result(path, "check", check, overwrite=True)
        again: Check = bm.storage.load_result(path, "check", Check)
        return again

    json.dumps(found.to_dict(), allow_nan=False)
    again = trip(found)
    assert again.to_dict() == found.to_dict()
    assert again.summary() == found.summary()
    assert again._repr_html_() == found._repr_html_()
    assert repr(again) == repr(found)
    hollow = replace(found, gap=math.nan, order=None, survival=None, notes=("a note",))
    again = trip(hollow)
    assert again.summary() == hollow.summary()
    assert "note: a note" in hollow.summary()


def test_results_are_a_function_of_the_seed(
    posterior: bm.Posterior, log: bm.Transitions, found: Check
) -> None:
    how = {"n_draws": 200, "n_permutations": 99}
    again = bm.check(posterior, log, seed=2, threads=1, **how)  # type: ignore[arg-type]
    assert again.to_dict() == found.to_dict()
    other = bm.check(posterior, log, seed=3, **how)  # type: ignore[arg-type]
    assert other.prevalence.p_value != found.prevalence.p_value


def test_refusals(posterior: bm.Posterior, log: bm.Transitions) -> None:
    with pytest.raises(ArgumentError, match="give the same log to `fit` and to"):
        bm.check(posterior, logged(299))
    task = bm.Task(2, 1, [0, 1], discount=0.9, terminal=1)
    once = bm.Transitions.from_arrays([0, 0], [0, 0], [0, 1], episode=[0, 0])
    with pytest.raises(ArgumentError, match="only one episode"):
        bm.check(bm.fit(once, task), once)
    loose = bm.Transitions.from_arrays([0, 0], [0, 0], [0, 1])
    with pytest.raises(CountsError, match="`episode` column"):
        bm.check(bm.fit(loose, task), loose)
    with pytest.raises(BeliefError, match="needs logged counts"):
        bm.check(bm.worlds.casino(), log)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="n_draws"):
        bm.check(posterior, log, n_draws=1)


def test_one_action_leaves_its_test_out() -> None:
    task = bm.Task(3, 1, [0, 0, 1], discount=0.9, terminal=2)
    rows = np.array([[0.5, 0.4, 0.1], [0.3, 0.5, 0.2], [0, 0, 1.0]])[:, None]
    model = bm.MDP(bm.Dynamics.from_dense(rows), task)
    log = model.simulate([0, 0, 0], 50, seed=0)
    found = bm.check(bm.fit(log, task), log, n_draws=50, n_permutations=9)
    names = [x.name for x in found.tests]
    assert names == ["previous value", "step", "episode order", "second order"]
    assert found.problems[0].startswith("The log holds one action only")
    assert "problem: The log holds one action only" in found.summary()


def test_the_picture_shows_the_record(found: Check) -> None:
    pytest.importorskip("matplotlib")
    figure = found.plot()
    left, right = figure.axes
    assert found.survival is not None
    curves = {x.get_label(): x.get_ydata() for x in left.lines}
    assert np.array_equal(curves["observed"], found.survival.observed)
    assert np.array_equal(
        curves["posterior predictive, mean"], found.survival.predicted
    )
    labels = [x.get_label() for x in right.lines if x.get_label() in "0123"]
    assert sorted(labels) == ["0", "1", "2", "3"]
    with pytest.raises(ArgumentError, match="two axes"):
        found.plot(left)
    hollow = replace(found, survival=None).plot()
    assert hollow.axes[0].texts[0].get_text() == "no terminal states"


LOG = """patient,step,state,action,next_state
1,0,ward,wait,icu
1,1,icu,treat,ward
1,2,ward,treat,home
2,0,ward,wait,ward
2,1,ward,treat,icu
2,2,icu,wait,death
3,0,icu,treat,home
4,0,ward,treat,home
5,0,ward,wait,home
"""
SWAPPED = LOG.replace("3,0,icu", "5,1,icu")  # the same transitions
TASK = 'discount = 0.9\nterminal = ["home", "death"]\n[reward]\nstate = { home = 1 }\n'


def test_the_command_says_what_the_library_says_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ward.csv").write_text(LOG)
    Path("other.csv").write_text(LOG + "6,0,ward,wait,home\n")
    Path("swapped.csv").write_text(SWAPPED)
    Path("task.toml").write_text(TASK)

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, list(arguments))

    fitted = run("fit", "ward.csv", "--task", "task.toml", "-o", "ward")
    assert fitted.exit_code in (0, 1)
    few = ("--draws", "30", "--permutations", "19", "--seed", "3")
    told = run("check", "ward", "ward.csv", *few)
    assert (told.exit_code, told.stderr) == (0, "")
    loaded = bm.storage.load("ward").posterior
    wanted = bm.check(
        loaded, bm.read_transitions("ward.csv"), n_draws=30, n_permutations=19, seed=3
    )
    assert told.stdout == wanted.summary() + "\n"
    assert bm.storage.load_result("ward", "check").to_dict() == wanted.to_dict()
    assert f"check: {wanted!r}" in run("info", "ward").stdout
    record = json.loads(run("check", "ward", "ward.csv", *few, "--json").stdout)
    assert (record.pop("schema_version"), record.pop("run")) == (1, "ward")
    assert record == wanted.to_dict()
    for file, said in (
        ("other.csv", "does not hold the transitions that `ward` was"),
        ("swapped.csv", "holds the transitions that `ward` was fitted from, but"),
    ):
        refused = run("check", "ward", file, *few)
        assert refused.exit_code == 2
        assert said in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
    assert run("check", "ward", "ward.csv", *few, "--quiet").output == ""
