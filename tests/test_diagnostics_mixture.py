"""Mixtures of priors on trial, against plain loops, and their own simulations."""

import json
import math
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from scipy import stats

import bayesmdp as bm
from bayesmdp.diagnostics import _heldout
from bayesmdp.diagnostics import _simulated_data as truths
from bayesmdp.errors import ArgumentError, BeliefError, PriorError

Triplet = tuple[int, int, int]
FOLDS, SEED = 4, 3


def small() -> tuple[bm.MDP, bm.Transitions]:
    """Four states, the last terminal, and 25 short episodes of random actions."""
    dense = np.random.default_rng(2).dirichlet(np.full(4, 0.6), size=(4, 3))
    known = bm.Task(4, 3, reward=[0, 1, 0.5, 2], discount=0.9, terminal=[3])
    world = bm.MDP(bm.Dynamics.from_dense(dense), known)
    return world, world.simulate(np.tile([0.6, 0.3, 0.1], (4, 1)), 25, seed=0)


WORLD, DATA = small()
TASK = WORLD.task
C = (0.5, 1.5)  # concentrations that these data cannot tell apart
MIXED = bm.MixturePrior([bm.SymmetricPrior(c) for c in C])
LEANING = bm.MixturePrior(MIXED.priors, weights=[0.9, 0.1])
SEEN = bm.MixturePrior(
    [bm.SparsePrior(0.5, fallback=1), bm.SparsePrior(2.0, fallback=2)],
    posterior_weights=[0.3, 0.7],
)


def listed(counts: bm.Counts) -> list[Triplet]:
    columns = (counts.state, counts.action, counts.next_state)
    triplets = zip(*(x.tolist() for x in columns), strict=True)
    return [t for t, n in zip(triplets, counts.count, strict=True) for _ in range(n)]


# ---------------------------------------------------------------- held out


def evidence(seen: list[Triplet], concentration: float) -> float:
    """Probability of a sequence, one transition after another."""
    so_far: Counter[Triplet] = Counter()
    visits: Counter[tuple[int, int]] = Counter()
    p = 1.0
    for s, a, t in seen:
        p *= (so_far[s, a, t] + concentration) / (visits[s, a] + 4 * concentration)
        so_far[s, a, t] += 1
        visits[s, a] += 1
    return p


def brute(weights: tuple[float, float], min_count: int) -> list[tuple[float, float]]:
    """Density and mass of new next states, of each held-out transition."""
    folds = [listed(x) for x in DATA.counts_by_fold(FOLDS, seed=SEED)]
    visits = Counter((s, a) for fold in folds for s, a, _ in fold)
    found = []
    for k, held in enumerate(folds):
        others = [x for j, fold in enumerate(folds) if j != k for x in fold]
        others = [(s, a, t) for s, a, t in others if visits[s, a] >= min_count]
        n = Counter(others)
        after = [w * evidence(others, c) for w, c in zip(weights, C, strict=True)]
        after = [x / sum(after) for x in after]
        assert min(after) > 1e-3  # else nothing is mixed
        for s, a, t in held:
            if visits[s, a] < min_count:
                continue
            total = sum(n[s, a, u] for u in range(4))
            new = sum(n[s, a, u] == 0 for u in range(4))
            parts = [
                ((n[s, a, t] + c) / (total + 4 * c), new * c / (total + 4 * c))
                for c in C
            ]
            found.append(tuple(after @ np.array(parts)))
    return found


@pytest.mark.parametrize("min_count", [1, 9])
@pytest.mark.parametrize(
    ("prior", "weights"), [(MIXED, (0.5, 0.5)), (LEANING, (0.9, 0.1))]
)
@pytest.mark.parametrize("entries", [2_000_000, 9])
def test_a_mixture_foretells_as_a_loop_over_transitions(
    prior: bm.MixturePrior,
    weights: tuple[float, float],
    min_count: int,
    entries: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_heldout, "_ENTRIES", entries)  # also a few rows at a time
    found = bm.compare_priors(
        {"mixed": prior}, DATA, TASK, min_count=min_count, n_folds=FOLDS, seed=SEED
    )
    wanted = brute(weights, min_count)
    assert found.n_held_out == len(wanted)
    row = found["mixed"]
    density = np.mean([math.log(p) for p, _ in wanted])
    assert row.log_density == pytest.approx(density, abs=1e-12)
    assert row.new_mass == pytest.approx(np.mean([new for _, new in wanted]))
    assert row.zero_share == 0


EVERY = {
    "mixed": MIXED,
    "given": SEEN,
    "chosen": bm.MixturePrior([bm.EvidencePrior(), bm.ScaledPrior(2.0)]),
    "sets": bm.MixturePrior([bm.RandomSupportPrior(), bm.ScaledPrior(2.0)]),
    "wary": bm.MixturePrior([bm.FallbackPrior(bm.ScaledPrior(), 2), bm.ScaledPrior()]),
    "ruled out": bm.MixturePrior(MIXED.priors, weights=[0, 1]),
}


def test_the_density_is_that_of_the_mean_model_fitted_to_the_other_folds() -> None:
    with ThreadPoolExecutor(2) as executor:
        found = bm.compare_priors(
            EVERY, DATA, TASK, n_folds=FOLDS, seed=SEED, executor=executor
        )
    folds = DATA.counts_by_fold(FOLDS, seed=SEED)
    zeros = set()
    for name, prior in EVERY.items():
        density = []
        for k, held in enumerate(folds):
            others = [fold for j, fold in enumerate(folds) if j != k]
            training = others[0] + others[1] + others[2]
            parts = [
                bm.fit(training, TASK, prior=x).mean().to_dense() for x in prior.priors
            ]
            weights = bm.fit(training, TASK, prior=prior).weights
            mean = np.tensordot(weights, parts, 1)
            density += [mean[triplet] for triplet in listed(held)]
        given = [math.log(p) for p in density if p]
        row = found[name]
        assert row.rest_log_density == pytest.approx(np.mean(given), abs=1e-12)
        assert row.zero_share == pytest.approx(np.mean([p == 0 for p in density]))
        zeros.add(row.zero_share > 0)
    assert zeros == {True, False}


def expected(
    posterior: bm.Posterior | bm.posterior.MixturePosterior, policy: np.ndarray
) -> float:
    """Value from the start in the mean model, of a mixture in each component's."""
    mixed = isinstance(posterior, bm.posterior.MixturePosterior)
    parts = posterior.components if mixed else (posterior,)
    weights = posterior.weights if mixed else [1.0]
    values = [bm.MDP(x.mean(), TASK).value(policy) @ TASK.start for x in parts]
    return float(np.dot(weights, values))


@pytest.mark.parametrize("min_count", [0, 9])
def test_beliefs_from_all_data_are_those_of_fit(min_count: int) -> None:
    found = bm.compare_priors(EVERY, DATA, TASK, min_count=min_count, n_folds=0)
    seen = Counter(listed(DATA.counts()))
    for p, (name, prior) in enumerate(EVERY.items()):
        posterior = bm.fit(DATA, TASK, prior=prior, min_count=min_count)
        policy = bm.policies.nominal(posterior)
        row = found[name]
        assert (found.policies[p] == policy).all()
        assert row.predicted_value == pytest.approx(expected(posterior, policy))
        known = None if name == "given" else posterior.log_evidence()
        assert row.log_evidence == known
        dense = posterior.mean().to_dense()
        unseen = [
            sum(dense[s, a, t] for t in range(4) if not seen[s, a, t])
            for (s, a, _), n in seen.items()
            if posterior.available[s, a]
            for _ in range(n)
        ]
        assert row.unseen_mass == pytest.approx(np.mean(unseen))
    chosen = bm.priors.tuned(
        bm.EvidencePrior(), posterior.rows().layout.pair, posterior.counts, TASK
    )
    assert str(chosen) in found["chosen"].prior  # with the number it chose
    json.dumps(found.to_dict())


def test_a_component_alone_and_a_mixture_sure_of_it_say_the_same() -> None:
    sure = bm.MixturePrior(MIXED.priors, posterior_weights=[1, 0])
    priors = {"alone": MIXED.priors[0], "sure": sure}
    found = bm.compare_priors(priors, DATA, TASK, n_folds=FOLDS)
    alone, mixed = found.rows
    for name in ("log_density", "log_density_error", "new_mass", "unseen_mass"):
        assert getattr(mixed, name) == pytest.approx(getattr(alone, name), abs=1e-12)
    assert found.agreement.min() == 1


# ---------------------------------------------------------------- sensitivity


def test_sensitivity_of_a_mixture_is_its_evaluation() -> None:
    policy = np.full((4, 3), 1 / 3)
    priors = {"low": MIXED.priors[0], "mixed": MIXED, "given": SEEN}
    found = bm.prior_sensitivity(policy, DATA, TASK, priors, n_draws=200, seed=5)
    for p, prior in enumerate(priors.values()):
        posterior = bm.fit(DATA, TASK, prior=prior)
        wanted = bm.evaluate(policy, posterior.draws(200, seed=5))
        for name in ("value", "epistemic_sd", "aleatoric_sd"):
            assert (getattr(found, name)[p] == getattr(wanted, name)).all()
        best = bm.policies.nominal(posterior)
        assert found.predicted_value[p] == pytest.approx(expected(posterior, best))
        chosen = found.recommended[p, :3]
        assert ((best[:3].argmax(axis=1) == chosen) | ~found.flips[:3]).all()


def test_what_is_at_stake_is_measured_in_the_mean_of_the_mixture() -> None:
    """One choice: 14 of 20 go well, or 1 of 1; priors disagree."""
    task = bm.Task(3, 2, reward=[0, 1, 0], discount=0.9, start=0, terminal=[1, 2])
    tried = bm.Counts.from_arrays([0, 0, 0], [0, 0, 1], [1, 2, 1], [14, 6, 1])
    flat = bm.SymmetricPrior()
    mixed = bm.MixturePrior(
        [bm.SymmetricPrior(0.01), flat], posterior_weights=[0.5, 0.5]
    )
    found = bm.prior_sensitivity([0, 0, 0], tried, task, {"flat": flat, "mixed": mixed})
    q = {}
    for c in (0.01, 1.0):
        # q[a] = (chance to go well + chance to stay * best of both) * discount
        chance = np.array([[14 + c, c], [1 + c, c]])
        chance /= np.array([[20 + 3 * c], [1 + 3 * c]])
        q[c] = chance
    half = {"flat": q[1.0], "mixed": (q[0.01] + q[1.0]) / 2}
    stakes = []
    for chance in half.values():
        best = 0.0
        for _ in range(2000):
            values = 0.9 * (chance[:, 0] + chance[:, 1] * best)
            best = values.max()
        stakes.append(np.ptp(values))
    assert found.recommended[:, 0].tolist() == [0, 1]
    assert found.stake[0] == pytest.approx(max(stakes))


# ---------------------------------------------------------------- calibration

ROUND = bm.worlds.synthetic(0, 3, 2, discount=0.8).task
TWO = bm.MixturePrior([bm.SymmetricPrior(0.1), bm.SymmetricPrior(3.0)])
UNEVEN = bm.MixturePrior(TWO.priors, weights=[0.2, 0.8])
FEW: dict[str, Any] = {"n_draws": 99, "levels": (0.5, 0.8, 0.9)}


def test_true_models_come_from_a_component_by_its_weight() -> None:
    """Entries of one row against a mixture of two beta laws; error rate 1e-3."""
    source = truths.source_of(UNEVEN, ROUND, "truth")
    rng = np.random.default_rng(0)
    entry = np.array([source.draw(rng).probability[0] for _ in range(1500)])
    low, high = (stats.beta(c, 2 * c) for c in (0.1, 3.0))
    found = stats.kstest(entry, lambda x: 0.2 * low.cdf(x) + 0.8 * high.cdf(x))
    assert found.pvalue > 1e-3
    assert stats.kstest(entry, high.cdf).pvalue < 1e-9  # the test can fail


def test_all_rows_of_a_true_model_share_the_component() -> None:
    prior = bm.MixturePrior([bm.SymmetricPrior(0.001), bm.SymmetricPrior(1e6)])
    source = truths.source_of(prior, ROUND, "truth")
    rng = np.random.default_rng(1)
    largest = [
        source.draw(rng).probability.reshape(-1, 3).max(axis=1) for _ in range(200)
    ]
    kinds = {frozenset(np.round(x, 1).tolist()) for x in largest if x.min() < 0.4}
    assert kinds == {frozenset([0.3])}  # none of them certain
    assert 60 < sum(x.min() < 0.4 for x in largest) < 140  # 100 +- 7


@pytest.mark.parametrize("component", [0, 1])
def test_who_is_sure_of_a_component_is_not_calibrated(component: int) -> None:
    sure = bm.MixturePrior(TWO.priors, posterior_weights=np.eye(2)[component].tolist())
    found = bm.check_calibration(
        ROUND, sure, truth=TWO, n_visits=2, n_datasets=300, choose=None, **FEW
    )
    assert not found.passed
    assert found.truth == str(TWO)


def test_a_mixture_is_ranked_the_same_by_processes_of_any_number() -> None:
    brief: dict[str, Any] = {**FEW, "n_datasets": 20, "n_visits": 2}
    whole = bm.check_calibration(ROUND, TWO, **brief)
    with ThreadPoolExecutor(2) as executor:
        shared = bm.check_calibration(ROUND, TWO, executor=executor, **brief)
    assert (shared.ranks == whole.ranks).all()
    assert (shared.truths == whole.truths).all()
    source = truths.source_of(TWO, ROUND, "truth")
    again = pickle.loads(pickle.dumps(source))
    first, second = (x.draw(np.random.default_rng(3)) for x in (source, again))
    assert (first.probability == second.probability).all()


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("prior", "says"),
    [
        (SEEN, "A mixture with `posterior_weights` generates no data"),
        (EVERY["chosen"], r"^`priors\[0\]`: EvidencePrior generates no data"),
        (
            bm.MixturePrior([bm.ScaledPrior(), bm.SparsePrior()]),
            r"^`priors\[1\]`: SparsePrior generates no data",
        ),
        (
            bm.MixturePrior([bm.ScaledPrior(), bm.FallbackPrior(bm.ScaledPrior(), 9)]),
            r"^`priors\[1\]`: `fallback`",
        ),
    ],
)
def test_mixtures_that_generate_nothing_are_refused(
    prior: bm.MixturePrior, says: str
) -> None:
    with pytest.raises(bm.errors.BayesmdpError, match=says):
        bm.check_calibration(ROUND, prior, n_datasets=10)


def test_a_mixture_without_evidence_is_refused_by_name() -> None:
    prior = bm.MixturePrior([bm.ScaledPrior(), bm.SparsePrior()])
    says = r"^`priors\['both'\]`: `priors\[1\]`, a SparsePrior, looks at the data"
    with pytest.raises(PriorError, match=says):
        bm.compare_priors({"both": prior}, DATA, TASK)
    with pytest.raises(PriorError, match=says):
        bm.prior_sensitivity([0] * 4, DATA, TASK, {"both": prior})


def test_a_fold_that_a_component_cannot_learn_from_is_named() -> None:
    """What always led to one next state has no best concentration."""
    stays = [0] * 8
    log = bm.Transitions.from_arrays(
        [*stays, 0], [*stays, 0], [*stays, 1], episode=[*stays, 1]
    )
    task = bm.Task(3, 1, reward=[0, 1, 0], discount=0.9, terminal=[1, 2])
    prior = bm.MixturePrior([bm.ScaledPrior(), bm.EvidencePrior()])
    says = r"^`priors\['both'\]` without fold \d: `priors\[1\]`: "
    with pytest.raises(PriorError, match=says):
        bm.compare_priors({"both": prior}, log, task, n_folds=2)


def test_a_choice_that_needs_one_prior_says_so() -> None:
    with pytest.raises(BeliefError, match="independent Dirichlet rows"):
        bm.check_calibration(ROUND, TWO, choose=bm.policies.second_order, n_datasets=10)
    with pytest.raises(ArgumentError, match=r"`priors\['a'\]` must be a prior"):
        bm.compare_priors({"a": bm.MixturePrior}, DATA, TASK)  # type: ignore[dict-item]


def test_the_promise_of_a_mixture_is_the_average_of_its_components() -> None:
    """The value in the average of models is not the average of values."""
    world = bm.worlds.synthetic(3, 4, 2, discount=0.95)
    log = world.simulate(np.full((4, 2), 0.5), 40, seed=0, max_steps=5)
    parts = [bm.SymmetricPrior(0.01), bm.SymmetricPrior(20.0)]
    prior = bm.MixturePrior(parts, posterior_weights=[0.5, 0.5])
    (row,) = bm.compare_priors({"half": prior}, log, world.task, n_folds=0).rows
    posterior = bm.fit(log, world.task, prior=prior)
    policy = bm.policies.nominal(posterior)
    judged = bm.evaluate(policy, posterior.draws(20_000, seed=1))
    mean = bm.MDP(posterior.mean(), world.task)
    gap = abs(world.task.start @ mean.value(policy) - judged.start_value)
    assert abs(row.predicted_value - judged.start_value) < gap / 2


def test_a_given_support_is_told() -> None:
    world = bm.worlds.gridworld()
    prior = bm.FallbackPrior(bm.SymmetricPrior(support=world.support), 20)
    data = world.sample(50, seed=0)
    assert ", on a given support" in bm.fit(data, world.task, prior=prior).summary()
    told = bm.fit(data, world.task, prior=bm.SymmetricPrior()).summary()
    assert "support" not in told.splitlines()[1]
