"""Bayesian model averaging: weights by hand, draws by component, laws of totals.

Statistical checks say their error rate; ``z`` below is 5 standard errors, 6e-7 a
comparison as far as means of that many draws are normal.
"""

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from numpy.typing import NDArray
from scipy import stats

import bayesmdp as bm
from bayesmdp.errors import EndlessError

Array = NDArray[np.float64]
Z = 5.0
S, A = 5, 3
REWARD = np.array([0.3, -0.2, 1.0, 0.0, -1.0])
TASK = bm.Task(S, A, REWARD, discount=0.9, start=[0.4, 0.3, 0.2, 0.1, 0], terminal=[4])
MASK = np.ones((S, A, S), dtype=bool)
MASK[0, 0, 3] = MASK[1, :, 0] = MASK[2, 2, 1:4] = False
# They differ in support and in how much they trust few visits.
WIDE, NARROW = bm.SymmetricPrior(0.4), bm.SymmetricPrior(2.0, MASK)
CAREFUL = bm.FallbackPrior(bm.ScaledPrior(1.0, MASK), 4, 1.5)


def log(n: int = 25, seed: int = 0) -> bm.Counts:
    """Pairs at random, next states that every support allows; one pair in five not."""
    rng = np.random.default_rng(seed)
    theta = rng.dirichlet(np.full(S, 0.7), size=(S, A)) * MASK
    theta /= theta.sum(axis=2, keepdims=True)
    state, action = rng.integers(4, size=n), rng.integers(A, size=n)
    next_state = [rng.choice(S, p=row) for row in theta[state, action]]
    return bm.Counts.from_arrays(state, action, next_state, n_states=S, n_actions=A)


COUNTS = log()
GIVEN = [0.5, 0.3, 0.2]
MIXTURE = bm.fit(
    COUNTS,
    TASK,
    prior=bm.MixturePrior([WIDE, NARROW, CAREFUL], posterior_weights=GIVEN),
)
rng = np.random.default_rng(7)
POLICY = rng.dirichlet(np.ones(A), size=S)
CHOICE = np.eye(A)[[0, 1, 2, 0, 0]]


def mixed(*priors: Any, data: bm.Counts = COUNTS, **more: Any) -> bm.MixturePosterior:
    return bm.fit(data, TASK, prior=bm.MixturePrior(priors, **more))


# ------------------------------------------------------------------ weights


def test_weights_are_those_found_by_hand() -> None:
    """Twice to the same of two states: 1/3 under a = 1, 3/8 under a = 1/2."""
    task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
    counts = bm.Counts.from_arrays([0, 0], [0, 0], [1, 1])
    priors = [bm.SymmetricPrior(1.0), bm.SymmetricPrior(0.5)]
    prior = bm.MixturePrior(priors, weights=[0.2, 0.8])
    posterior = bm.fit(counts, task, prior=prior)
    total = 0.2 / 3 + 0.8 * 3 / 8
    expected = [0.2 / 3 / total, 0.8 * 3 / 8 / total]
    assert posterior.weights == pytest.approx(expected, rel=1e-13)
    assert posterior.log_evidence() == pytest.approx(np.log(total), rel=1e-13)
    even = bm.fit(counts, task, prior=bm.MixturePrior(priors))
    assert even.weights == pytest.approx([8 / 17, 9 / 17], rel=1e-13)


@pytest.mark.parametrize("weights", [None, [0.7, 0.1, 0.2]])
def test_evidence_is_the_product_of_predictions(weights: Any) -> None:
    """Predict each transition from those before it by the mean of the mixture."""
    priors = [WIDE, NARROW, bm.RandomSupportPrior()]
    prior = bm.MixturePrior(priors, weights=weights)
    order = np.random.default_rng(1).permutation(COUNTS.total)
    triplets = np.repeat(
        np.stack([COUNTS.state, COUNTS.action, COUNTS.next_state]), COUNTS.count, axis=1
    )[:, order]
    shares = np.full(3, 1 / 3) if weights is None else np.array(weights)
    seen, total = np.zeros((S, A, S), dtype=np.int64), 0.0
    for s, a, t in triplets.T:
        ahead = [predicted(p, seen, s, a)[t] for p in priors]
        if seen.any():  # nothing can be fitted to no data
            before = bm.fit(bm.Counts.from_dense(seen), TASK, prior=prior)
            assert before.weights == pytest.approx(shares, rel=1e-9)
            mean = before.mean().to_dense()[s, a, t]
            assert mean == pytest.approx(shares @ ahead, rel=1e-12)
        total += np.log(shares @ ahead)
        shares = shares * ahead / (shares @ ahead)
        seen[s, a, t] += 1
    posterior = bm.fit(COUNTS, TASK, prior=prior)
    assert posterior.log_evidence() == pytest.approx(total, abs=1e-9)
    assert posterior.weights == pytest.approx(shares, rel=1e-9)


def predicted(prior: bm.priors.Prior, seen: NDArray[np.int64], s: int, a: int) -> Array:
    """Prediction of one prior for a pair after some counts."""
    pair = np.array([s * A + a])
    rows, alpha = prior.concentrations(pair, bm.Counts.from_dense(seen), TASK)
    out = np.zeros(S)
    out[rows.next_state] = alpha + seen[s, a, rows.next_state]
    return out / out.sum()


@pytest.mark.parametrize("true", [0, 1, 2])
def test_much_data_picks_the_prior_that_made_them(true: int) -> None:
    """60 rows of each prior are told apart by factors of 1e6 and more."""
    rng = np.random.default_rng(true)
    concentrations = (0.1, 1.0, 10.0)
    theta = rng.dirichlet(np.full(6, concentrations[true]), size=(6, 10))
    counts = np.array([rng.multinomial(100, row) for row in theta.reshape(-1, 6)])
    task = bm.Task(6, 10, np.arange(6.0), discount=0.9)
    prior = bm.MixturePrior([bm.SymmetricPrior(a) for a in concentrations])
    data = bm.Counts.from_dense(counts.reshape(6, 10, 6))
    posterior = bm.fit(data, task, prior=prior)
    assert posterior.weights[true] > 1 - 1e-6
    best = posterior.components[true]
    mean = posterior.mean().to_dense()
    assert mean == pytest.approx(best.mean().to_dense(), abs=1e-6)


def test_weights_no_draw_would_meet_are_zero() -> None:
    posterior = mixed(WIDE, NARROW, weights=[1 - 1e-60, 1e-60])
    assert posterior.weights.tolist() == [1.0, 0.0]
    assert not posterior.draws(100).members.any()
    assert mixed(WIDE, NARROW, weights=[0, 1]).weights.tolist() == [0.0, 1.0]


def test_evidence_uses_the_pairs_that_are_kept() -> None:
    prior = bm.MixturePrior([WIDE, NARROW])
    posterior = bm.fit(COUNTS, TASK, prior=prior, min_count=2)
    evidence = [
        bm.fit(COUNTS, TASK, prior=p, min_count=2).log_evidence()
        for p in (WIDE, NARROW)
    ]
    odds = np.exp(evidence[1] - evidence[0])
    assert posterior.weights[1] / posterior.weights[0] == pytest.approx(odds)
    assert posterior.min_count == 2
    assert np.array_equal(posterior.available, posterior.components[1].available)


# ------------------------------------------------------------------ rows and draws


def test_rows_are_what_some_component_allows_and_zero_is_impossible() -> None:
    allowed = np.zeros((3, S * A, S), dtype=bool)
    for own, component in zip(allowed, MIXTURE.components, strict=True):
        at = component.layout
        own[at.pair[at.row_of_entry], at.next_state] = component.alpha > 0
    wide, rows = np.zeros((S * A, S), dtype=bool), MIXTURE.rows().layout
    wide[rows.pair[rows.row_of_entry], rows.next_state] = True
    assert np.array_equal(wide, allowed.any(axis=0))
    assert (wide & ~allowed).any()  # something that one prior allows and another not
    draws = MIXTURE.draws(30, seed=5)
    for i, c in enumerate(draws.members):
        theta = draws.dynamics(i).to_dense().reshape(S * A, S)
        assert not theta[~allowed[c]].any()


def test_the_mean_is_the_weighted_mean_of_means() -> None:
    means = [c.mean().to_dense() for c in MIXTURE.components]
    expected = np.tensordot(GIVEN, means, axes=1)
    assert MIXTURE.mean().to_dense() == pytest.approx(expected, abs=1e-15)


def test_two_equal_priors_are_one() -> None:
    """Mean, draws and evaluations to the bit; the evidence up to rounding."""
    one, two = bm.fit(COUNTS, TASK, prior=WIDE), mixed(WIDE, bm.SymmetricPrior(0.4))
    assert two.weights.tolist() == [0.5, 0.5]
    assert np.array_equal(two.mean().probability, one.mean().probability)
    assert two.log_evidence() == pytest.approx(one.log_evidence(), rel=1e-14)
    for i in range(5):
        theta, same = (x.draws(9, seed=4).dynamics(i) for x in (one, two))
        assert np.array_equal(theta.probability, same.probability)
    a, b = (bm.evaluate(POLICY, x.draws(500), control=False) for x in (one, two))
    assert np.array_equal(a.start_values, b.start_values)
    assert np.array_equal(a.value, b.value)
    assert a.prior_share == b.prior_share


def test_a_draw_is_the_same_draw_of_its_component() -> None:
    draws = MIXTURE.draws(300, seed=5)
    own = [c.draws(300, seed=5) for c in MIXTURE.components]
    for i in range(20):
        wanted = own[draws.members[i]].dynamics(i).to_dense()
        assert np.array_equal(draws.dynamics(i).to_dense(), wanted)
    found = bm.evaluate(POLICY, draws, control=False).start_values
    each = [bm.evaluate(POLICY, d, control=False).start_values for d in own]
    wanted = np.choose(draws.members, each)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert np.bincount(draws.members, minlength=3).min() > 20


def test_members_are_pure_functions_of_seed_purpose_and_number() -> None:
    few, many = MIXTURE.draws(50, seed=3), MIXTURE.draws(500, seed=3)
    assert np.array_equal(few.members, many.members[:50])
    assert not np.array_equal(MIXTURE.draws(50, seed=4).members, few.members)
    other = bm.Draws(MIXTURE, 50, 3, "optimise")
    assert not np.array_equal(other.members, few.members)


def test_components_are_drawn_as_often_as_they_weigh() -> None:
    """Chi-squared over three components and five seeds; fails once in 1e5 runs."""
    for seed in range(5):
        members = MIXTURE.draws(20_000, seed=seed).members
        found = np.bincount(members, minlength=3)
        assert stats.chisquare(found, 20_000 * np.array(GIVEN)).pvalue > 2e-6


def test_rows_given_the_component_are_its_dirichlet_rows() -> None:
    """Means and variances of all entries; 5 errors each, 1e-4 for all of them.

    A component chosen by the words that also make row (0, 0) would show here.
    """
    draws = MIXTURE.draws(6000, seed=11)
    theta = np.stack([draws.dynamics(i).probability for i in range(6000)])
    for c, component in enumerate(MIXTURE.components):
        own = theta[draws.members == c]
        rows, alpha = draws.dynamics(0).rows, np.zeros(theta.shape[1])
        at = component.layout
        _, entry = rows.find(
            at.state[at.row_of_entry], at.action[at.row_of_entry], at.next_state
        )
        alpha[entry] = component.alpha
        total = rows.row_sums(alpha)[rows.row_of_entry]
        mean = alpha / total
        variance = mean * (1 - mean) / (total + 1)
        off = np.abs(own.mean(axis=0) - mean)
        assert (off <= Z * np.sqrt(variance / len(own)) + 1e-15).all()
        square = (own - mean) ** 2
        error = square.std(axis=0) / np.sqrt(len(own))
        assert (np.abs(square.mean(axis=0) - variance) <= Z * error + 1e-12).all()
        assert not own[:, alpha == 0].any()


# ------------------------------------------------------------------ evaluation


@pytest.mark.parametrize("solver", ["dense", "iterative"])
def test_laws_of_total_expectation_and_variance(solver: str) -> None:
    """Against the components, each on draws of its own; 5 errors, 1e-5 for all."""
    n = 6000
    found = bm.evaluate(POLICY, MIXTURE.draws(n, seed=1), solver=solver)
    parts = [
        bm.evaluate(POLICY, c.draws(n, seed=20 + i), solver=solver)
        for i, c in enumerate(MIXTURE.components)
    ]
    w = np.array(GIVEN)

    def mean(name: str) -> Any:
        return np.tensordot(w, [getattr(p, name) for p in parts], axes=1)

    def error(name: str) -> Any:
        squares = [getattr(p, name) ** 2 for p in parts]
        return np.sqrt(np.tensordot(w**2, squares, axes=1) + getattr(found, name) ** 2)

    assert (np.abs(found.value - mean("value")) <= Z * error("value_mcse")).all()
    assert abs(found.start_value - mean("start_value")) < Z * error("start_value_mcse")
    spread = w @ [(p.start_value - mean("start_value")) ** 2 for p in parts]
    variance = w @ [p.start_epistemic_sd**2 for p in parts] + spread
    off = abs(found.start_epistemic_sd - np.sqrt(variance))
    assert off < Z * error("start_epistemic_sd_mcse")
    assert spread > 0.01 * variance  # the components matter
    aleatoric = np.sqrt(w @ [p.start_aleatoric_sd**2 for p in parts])
    off = abs(found.start_aleatoric_sd - aleatoric)
    assert off < Z * error("start_aleatoric_sd_mcse")


def test_every_number_is_that_of_a_plain_loop_over_draws() -> None:
    draws = MIXTURE.draws(200, seed=2)
    found = bm.evaluate(POLICY, draws, control=False)
    wanted = reference.evaluate(POLICY, draws, REWARD)
    for name in ("value", "epistemic_sd", "aleatoric_sd", "total_sd"):
        np.testing.assert_allclose(getattr(found, name), wanted[name], atol=1e-10)


def test_the_first_control_variate_holds_for_mixtures() -> None:
    """It is linear in the rows, so its mean is 0; fails once in 1e6 runs."""
    raw = bm.evaluate(POLICY, MIXTURE.draws(20_000, seed=6), control=False)
    less = bm.evaluate(POLICY, MIXTURE.draws(2000, seed=7))
    assert less.variance_reduction > 2
    off = abs(less.start_value - raw.start_value)
    assert off < Z * np.hypot(less.start_value_mcse, raw.start_value_mcse)


def test_visits_of_unseen_pairs_are_counted() -> None:
    share = bm.evaluate(POLICY, MIXTURE.draws(64)).prior_share
    parts = [bm.evaluate(POLICY, c.draws(64)).prior_share for c in MIXTURE.components]
    assert 0 < min(parts) - 0.05 < share < max(parts) + 0.05


@pytest.mark.usefixtures("many_tasks")
@pytest.mark.parametrize("threads", [2, 5])
def test_results_do_not_depend_on_threads(threads: int) -> None:
    draws = MIXTURE.draws(700, seed=1)
    one = bm.evaluate(POLICY, draws, threads=1)
    many = bm.evaluate(POLICY, draws, threads=threads)
    assert np.array_equal(one.start_values, many.start_values)
    assert np.array_equal(one.value, many.value)


# ------------------------------------------------------------------ policies


def test_baselines_know_the_mean_and_the_counts() -> None:
    nominal = bm.policies.nominal(MIXTURE)
    known = bm.Ensemble([MIXTURE.mean()], TASK)
    assert np.array_equal(nominal, bm.policies.nominal(known))
    alone = MIXTURE.components[0]
    for name in ("behaviour", "mle"):  # the widest component has the rows of all
        policy = getattr(bm.policies, name)
        assert np.array_equal(policy(MIXTURE), policy(alone))
    assert bm.policies.msbi(MIXTURE, 256).sum() == 4
    assert bm.restrict(POLICY, MIXTURE)[:4] == pytest.approx(POLICY[:4])


def test_the_best_policy_of_a_mixture() -> None:
    """Not beaten by any deterministic policy on common draws, nor above the bound.

    The 81 are compared with two errors to spare for the luck of the best of them.
    """
    result = bm.optimise(MIXTURE, seed=1)
    assert result.converged
    assert result.start_value <= result.upper_bound
    draws = MIXTURE.draws(2000, seed=2)
    ours = bm.evaluate(result.policy, draws, control=False).start_values
    for index in range(A**4):
        actions = [index // A**k % A for k in range(4)] + [0]
        other = bm.evaluate(actions, draws, control=False).start_values
        gap = other - ours
        assert gap.mean() <= 2 * gap.std() / np.sqrt(gap.size) + 1e-3
    table = bm.compare(
        {"ours": result.policy, "logged": bm.policies.behaviour(MIXTURE)},
        draws,
        reference="logged",
    )
    assert "ours" in str(table)


def test_given_weights_let_any_prior_take_part() -> None:
    priors = [bm.SparsePrior(1.0, fallback=4), bm.ScaledPrior(2.0), WIDE]
    posterior = mixed(*priors, posterior_weights=[0.25, 0.25, 0.5])
    assert posterior.weights.tolist() == [0.25, 0.25, 0.5]
    assert "weighted as given" in posterior.summary()
    assert "evidence" not in posterior.summary()
    more = posterior.update(log(10, seed=3))
    assert more.weights.tolist() == [0.25, 0.25, 0.5]
    assert more.counts.total == COUNTS.total + 10
    found = bm.evaluate(POLICY, posterior.draws(2000, seed=0))
    alone = [bm.fit(COUNTS, TASK, prior=prior) for prior in priors]
    parts = [bm.evaluate(POLICY, p.draws(2000, seed=1)) for p in alone]
    expected = np.dot([0.25, 0.25, 0.5], [p.start_value for p in parts])
    assert found.start_value == pytest.approx(expected, abs=Z * 0.015)


def test_the_summary_names_components_with_their_weights() -> None:
    lines = mixed(WIDE, bm.EvidencePrior()).summary().splitlines()
    assert lines[1].strip() == "prior: a mixture of 2, weighted by evidence"
    assert lines[2].endswith("  SymmetricPrior(concentration=0.4)")
    assert "EvidencePrior(), which chose SymmetricPrior(" in lines[3]


def test_the_prior_is_plain_frozen_and_written_as_it_is_made() -> None:
    prior: Any = bm.MixturePrior([WIDE, bm.ScaledPrior()], weights=np.array([0.3, 0.7]))
    assert repr(prior.priors[1]) == repr(bm.ScaledPrior())
    assert isinstance(prior.priors, tuple)
    assert prior.weights == (0.3, 0.7)
    again = eval(repr(prior), vars(bm))
    assert repr(again) == repr(prior)
    fields = {f.name: getattr(prior, f.name) for f in dataclasses.fields(prior)}
    assert repr(bm.MixturePrior(**fields)) == repr(prior)
    for name in fields:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(prior, name, None)
    copy = pickle.loads(pickle.dumps(MIXTURE))
    for one, other in zip(copy.parameters(), MIXTURE.parameters(), strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(copy.draws(20).members, MIXTURE.draws(20).members)


@pytest.mark.parametrize("min_count", [0, 2])
def test_a_mixture_comes_back_from_a_run_directory(
    tmp_path: Path, min_count: int
) -> None:
    prior = bm.MixturePrior([WIDE, NARROW], weights=[0.1, 0.9])
    posterior = bm.fit(COUNTS, TASK, prior=prior, min_count=min_count)
    again = bm.storage.load(bm.storage.save(posterior, tmp_path / "run")).posterior
    assert isinstance(again, bm.MixturePosterior)
    assert np.array_equal(again.weights, posterior.weights)
    for one, other in zip(again.parameters(), posterior.parameters(), strict=True):
        assert np.array_equal(one, other)


# ------------------------------------------------------------------ discount 1


def looped(*concentrations: float, **more: Any) -> bm.MixturePosterior:
    """A state that pays 1 a step and is left with the given prior concentrations."""
    task = bm.Task(2, 1, [1.0, 0.0], discount=1.0, start=0, terminal=[1])
    counts = bm.Counts.from_arrays([0], [0], [0])
    priors = [bm.SymmetricPrior(c) for c in concentrations]
    return bm.fit(counts, task, prior=bm.MixturePrior(priors, **more))


def test_without_discount_the_worst_component_decides() -> None:
    with pytest.raises(EndlessError, match=r"exits of concentration 0\.5"):
        bm.evaluate([0, 0], looped(3.0, 0.5).draws(10))
    with pytest.warns(bm.BayesmdpWarning, match=r"exits of concentration 1\.5"):
        bm.evaluate([0, 0], looped(3.0, 1.5).draws(10))
    fine = looped(3.0, 4.0, posterior_weights=[0.5, 0.5])
    found = bm.evaluate([0, 0], fine.draws(20_000))
    exact = [(2 * c + 1 - 1) / (c - 1) for c in (3.0, 4.0)]
    assert abs(found.start_value - np.mean(exact)) < Z * found.start_value_mcse
    ruled_out = looped(3.0, 0.5, weights=[1, 0])
    assert np.isfinite(bm.evaluate([0, 0], ruled_out.draws(10)).start_value)
