"""Priors side by side, against plain loops over transitions."""

import json
import math
import pickle
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from bad_input import task

import bayesmdp as bm
from bayesmdp.diagnostics import PriorComparison, PriorRow, _heldout

Triplet = tuple[int, int, int]
FOLDS, SEED = 4, 3


def small() -> tuple[bm.MDP, bm.Transitions]:
    """Five states, the last terminal, and forty short episodes of random actions."""
    dense = np.random.default_rng(2).dirichlet(np.full(5, 0.5), size=(5, 3))
    known = bm.Task(5, 3, reward=[0, 1, 0.5, 0, 2], discount=0.9, terminal=[4])
    world = bm.MDP(bm.Dynamics.from_dense(dense), known)
    return world, world.simulate(np.tile([0.6, 0.3, 0.1], (5, 1)), 40, seed=0)


WORLD, DATA = small()
TASK = WORLD.task
SUPPORT = np.ones((5, 5), dtype=bool)


def listed(counts: bm.Counts) -> list[Triplet]:
    columns = (counts.state, counts.action, counts.next_state)
    triplets = zip(*(x.tolist() for x in columns), strict=True)
    return [t for t, n in zip(triplets, counts.count, strict=True) for _ in range(n)]


# what each prior says of a next state before the data, in words of one line
BEFORE: dict[str, tuple[Any, Callable[[set[int], int], float]]] = {
    "flat": (bm.SymmetricPrior(1.0), lambda seen, t: 1.0),
    "small": (bm.SymmetricPrior(0.1, SUPPORT), lambda seen, t: 0.1),
    "scaled": (bm.ScaledPrior(2.0), lambda seen, t: 0.4),
    "seen": (bm.SparsePrior(0.5), lambda seen, t: 0.5 if t in seen else 0),
    "careful": (
        bm.SparsePrior(0.5, fallback=3),
        lambda seen, t: 0.5 if t in seen or t == 3 else 0,
    ),
    "wary": (
        bm.FallbackPrior(bm.SparsePrior(0.5), fallback=3, weight=2.0),
        lambda seen, t: (0.5 if t in seen else 0) + (2.0 if t == 3 else 0),
    ),
}


def brute(name: str, min_count: int) -> list[tuple[int, float, float, bool]]:
    """Fold, density, mass of new next states, and whether new: of each transition."""
    before = BEFORE[name][1]
    folds = [listed(x) for x in DATA.counts_by_fold(FOLDS, seed=SEED)]
    visits = Counter((s, a) for fold in folds for s, a, _ in fold)
    found = []
    for k, held in enumerate(folds):
        n = Counter(x for j, fold in enumerate(folds) if j != k for x in fold)
        for s, a, t in held:
            if visits[s, a] < min_count:
                continue
            seen = {u for u in range(5) if n[s, a, u]}
            alpha = [n[s, a, u] + before(seen, u) for u in range(5)]
            total = sum(alpha)
            new = sum(alpha[u] for u in range(5) if u not in seen)
            found.append(
                (
                    k,
                    *(x / total if total else 0 for x in (alpha[t], new)),
                    t not in seen,
                )
            )
    return found


def mean_error(values: list[tuple[int, float]]) -> tuple[float, float]:
    """Mean of (fold, value), and the larger of its errors over values and folds."""
    n = len(values)
    mean = sum(x for _, x in values) / n
    each = sum((x - mean) ** 2 for _, x in values) / n / (n - 1)
    sums = [sum(x - mean for f, x in values if f == k) for k in range(FOLDS)]
    folds = FOLDS / (FOLDS - 1) * sum(x**2 for x in sums) / n**2
    return mean, math.sqrt(max(each, folds))


@pytest.mark.parametrize("min_count", [1, 12])
def test_every_held_out_number_is_that_of_a_loop_over_transitions(
    min_count: int,
) -> None:
    priors = {name: prior for name, (prior, _) in BEFORE.items()}
    found = bm.compare_priors(
        priors, DATA, TASK, min_count=min_count, n_folds=FOLDS, seed=SEED
    )
    scored = {name: brute(name, min_count) for name in BEFORE}
    fewest = min(sum(x[1] == 0 for x in scored[name]) for name in BEFORE)
    assert fewest == 0
    reference = scored[found.best or ""]
    for name, row in zip(BEFORE, found.rows, strict=True):
        own = scored[name]
        zero = mean_error([(f, float(p == 0)) for f, p, *_ in own])
        rest = mean_error([(f, math.log(p)) for f, p, *_ in own if p])
        gaps = [
            (f, math.log(p) - math.log(q))
            for (f, p, *_), (_, q, *_) in zip(own, reference, strict=True)
            if p and q
        ]
        assert (row.zero_share, row.zero_share_error) == pytest.approx(zero)
        assert (row.rest_log_density, row.rest_log_density_error) == pytest.approx(rest)
        assert (row.difference, row.difference_error) == pytest.approx(
            mean_error(gaps), abs=1e-14
        )
        assert row.new_mass == pytest.approx(np.mean([x[2] for x in own]))
        assert row.log_density == (-math.inf if zero[0] else row.rest_log_density)
    assert found.n_held_out == len(reference)
    news = mean_error([(f, float(new)) for f, _, _, new in reference])
    assert (found.new_share, found.new_share_error) == pytest.approx(news)
    assert {row.zero_share > 0 for row in found.rows if row.zero_share is not None} == {
        True,
        False,
    }


def test_the_loop_meets_pairs_that_training_folds_lack() -> None:
    assert any(p == 0 and new == 0 for _, p, new, _ in brute("seen", 1))


EVERY = {
    "symmetric": bm.SymmetricPrior(0.3),
    "scaled": bm.ScaledPrior(),
    "evidence": bm.EvidencePrior(),
    "hierarchical": bm.HierarchicalPrior(),
    "random-support": bm.RandomSupportPrior(),
    "lumped": bm.RandomSupportPrior(fallback=3),
    "sparse": bm.SparsePrior(fallback=3),
    "fallback": bm.FallbackPrior(bm.EvidencePrior(), fallback=3),
}


@pytest.fixture(scope="module")
def compared() -> PriorComparison:
    """Every prior with the default folds: the costly part, for all who look at it."""
    return bm.compare_priors(EVERY, DATA, TASK)


def test_the_density_is_that_of_the_mean_model_fitted_to_the_other_folds() -> None:
    found = bm.compare_priors(EVERY, DATA, TASK, n_folds=FOLDS, seed=SEED)
    folds = DATA.counts_by_fold(FOLDS, seed=SEED)
    for name, prior in EVERY.items():
        density = []
        for k, held in enumerate(folds):
            others = [fold for j, fold in enumerate(folds) if j != k]
            training = others[0] + others[1] + others[2]
            mean = bm.fit(training, TASK, prior=prior).mean().to_dense()
            density += [mean[triplet] for triplet in listed(held)]
        row = found[name]
        given = [math.log(p) for p in density if p]
        assert row.rest_log_density == pytest.approx(np.mean(given), abs=1e-12)
        assert row.zero_share == pytest.approx(np.mean([p == 0 for p in density]))


@pytest.mark.parametrize("min_count", [0, 12])
def test_beliefs_from_all_data_are_those_of_fit(min_count: int) -> None:
    found = bm.compare_priors(EVERY, DATA, TASK, min_count=min_count, n_folds=0)
    for p, (name, prior) in enumerate(EVERY.items()):
        posterior = bm.fit(DATA, TASK, prior=prior, min_count=min_count)
        policy = bm.policies.nominal(posterior)
        believed = bm.MDP(posterior.mean(), TASK)
        row = found[name]
        assert (found.policies[p] == policy).all()
        assert row.predicted_value == pytest.approx(TASK.start @ believed.value(policy))
        if prior.looks_at_data:
            assert row.log_evidence is None
        else:
            assert row.log_evidence == posterior.log_evidence()
        seen = Counter(x for x in listed(DATA.counts()))
        dense = posterior.mean().to_dense()
        unseen = [
            sum(dense[s, a, t] for t in range(5) if not seen[s, a, t])
            for (s, a, _), n in seen.items()
            if posterior.available[s, a]
            for _ in range(n)
        ]
        assert row.unseen_mass == pytest.approx(np.mean(unseen))


def test_agreement_is_the_share_of_logged_visits_with_a_common_action() -> None:
    priors = {"seen": bm.SparsePrior(0.01, 3), "flat": bm.SymmetricPrior(20)}
    found = bm.compare_priors(priors, DATA, TASK, n_folds=0)
    first, second = (
        bm.policies.nominal(bm.fit(DATA, TASK, prior=x)) for x in priors.values()
    )
    visited = [s for s, _, _ in listed(DATA.counts())]
    same = np.mean([(first[s] == second[s]).all() for s in visited])
    assert 0 < same < 1
    assert found.agreement == pytest.approx(np.array([[1, same], [same, 1]]))


def test_what_is_possible_foretells_better_than_anything_is() -> None:
    world = bm.worlds.gridworld()
    log = world.simulate(np.full((25, 4), 0.25), 60, seed=0)
    priors = {
        "any": bm.SymmetricPrior(),
        "true": bm.SymmetricPrior(support=world.support),
    }
    found = bm.compare_priors(priors, log, world.task)
    gap, error = found["any"].difference, found["any"].difference_error
    assert found.best == "true"
    assert gap is not None
    assert error is not None
    assert gap < -10 * error < 0
    assert found.summary().splitlines()[3].startswith("true *")


def test_the_concentration_that_made_the_world_foretells_better() -> None:
    """Rows of 12 states from Dirichlet(0.1); the wrong prior loses by many errors."""
    rng = np.random.default_rng(0)
    dense = rng.dirichlet(np.full(12, 0.1), size=(12, 2))
    known = bm.Task(12, 2, reward=np.arange(12), discount=0.9, terminal=[11])
    dense[:, :, 11] += 0.02
    dense /= dense.sum(axis=2, keepdims=True)
    world = bm.MDP(bm.Dynamics.from_dense(dense), known)
    log = world.simulate(np.full((12, 2), 0.5), 60, seed=1)
    priors = {"right": bm.SymmetricPrior(0.1), "wrong": bm.SymmetricPrior(5.0)}
    found = bm.compare_priors(priors, log, known)
    wrong = found["wrong"]
    assert found.best == "right"
    assert wrong.difference is not None
    assert wrong.difference_error is not None
    assert wrong.difference < -5 * wrong.difference_error
    assert (found["right"].log_evidence or 0) > (wrong.log_evidence or 0)


def test_identical_priors_have_identical_rows_and_no_difference() -> None:
    prior = bm.SparsePrior(fallback=3)
    found = bm.compare_priors({"a": prior, "b": prior}, DATA, TASK)
    first, second = (asdict(row) | {"name": ""} for row in found.rows)
    assert [repr(x) for x in first.values()] == [repr(x) for x in second.values()]
    assert (first["difference"], first["difference_error"]) == (0, 0)
    assert found.agreement.tolist() == [[1, 1], [1, 1]]
    assert found.best == "a"


def rows_of(found: PriorComparison) -> dict[str, str]:
    return {row.name: repr(row) for row in found.rows}


def test_the_order_of_priors_does_not_matter(compared: PriorComparison) -> None:
    backwards = dict(reversed(EVERY.items()))
    found = compared
    other = bm.compare_priors(backwards, DATA, TASK)
    assert rows_of(found) == rows_of(other)
    assert other.names == tuple(backwards)
    assert (found.agreement == other.agreement[::-1, ::-1]).all()
    assert found.best == other.best


class Pickling(Executor):
    """Does the work at once, after sending it through pickle as a cluster would."""

    def submit(self, f: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        call, arguments = pickle.loads(pickle.dumps((f, args)))
        done: Future[Any] = Future()
        try:
            done.set_result(pickle.loads(pickle.dumps(call(*arguments, **kwargs))))
        except bm.BayesmdpError as problem:
            done.set_exception(problem)
        return done


def test_workers_and_parts_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(**how: Any) -> dict[str, str]:
        return rows_of(bm.compare_priors(EVERY, DATA, TASK, n_folds=2, **how))

    found = rows(threads=1)
    assert rows(threads=3) == found
    assert rows(executor=Pickling()) == found
    monkeypatch.setattr(_heldout, "_ENTRIES", 12)  # two rows of five at once
    assert rows() == found


def test_another_seed_deals_other_folds() -> None:
    priors = {"flat": bm.SymmetricPrior()}
    one, two = (bm.compare_priors(priors, DATA, TASK, seed=s).rows[0] for s in (0, 1))
    assert one.log_density != two.log_density
    assert one.log_evidence == two.log_evidence


def test_names_in_another_order_are_found() -> None:
    """The log numbers its states by name, the task in its own order."""
    names = [f"s{i}" for i in range(5)]
    order = np.array([2, 0, 4, 1, 3])  # the log's number of each state
    columns = DATA.table.columns  # type: ignore[attr-defined]
    moved = {x: order[columns[x]] for x in ("state", "next_state")}
    log = bm.Transitions.from_arrays(
        **moved, action=columns["action"], episode=columns["episode"]
    )
    log = replace(log, state_labels=tuple(names[i] for i in np.argsort(order)))
    named = TASK.with_labels(state_labels=names)
    careful = {**EVERY, "sparse": bm.SparsePrior(fallback="s3")}
    found = bm.compare_priors(careful, log, named, min_count=5, n_folds=2)
    plain = bm.compare_priors(EVERY, DATA, TASK, min_count=5, n_folds=2)
    for row, wanted in zip(found.rows, plain.rows, strict=True):
        assert row.log_density == pytest.approx(wanted.log_density)
        assert row.zero_share == pytest.approx(wanted.zero_share)
        assert row.predicted_value == pytest.approx(wanted.predicted_value)
    assert (found.policies == plain.policies).all()
    assert found.task.state_labels == tuple(names)


def test_a_frame_of_names_gives_what_its_numbers_give(
    compared: PriorComparison,
) -> None:
    pd = pytest.importorskip("pandas")
    columns = DATA.table.columns  # type: ignore[attr-defined]
    names = np.array(["a", "b", "c", "d", "end"])
    frame = pd.DataFrame(
        {
            "state": names[columns["state"]],
            "action": columns["action"],
            "next_state": names[columns["next_state"]],
            "episode": columns["episode"],
        }
    )
    log = bm.read_transitions(frame)
    found = bm.compare_priors(EVERY, log, TASK.with_labels(state_labels=list(names)))
    assert rows_of(found) == rows_of(compared)


def test_errors_are_as_large_as_logs_differ() -> None:
    """Over 50 logs; a spread of 50 is off by 10 %, so that 0.65 to 1.5 is 3 sds."""
    prior = {"half": bm.SymmetricPrior(0.5), "three": bm.SymmetricPrior(3.0)}
    even = np.full((5, 3), 1 / 3)
    logs = (WORLD.simulate(even, 60, seed=1000 + i) for i in range(50))
    found = [bm.compare_priors(prior, log, TASK, threads=1) for log in logs]
    density = np.array([[row.log_density for row in x.rows] for x in found])
    gap = density[:, 1] - density[:, 0]
    gap_error = np.mean(
        [max(row.difference_error or 0 for row in x.rows) for x in found]
    )
    error = np.mean([x.rows[0].log_density_error for x in found])
    assert 0.65 < error / density[:, 0].std() < 1.5
    assert 0.65 < gap_error / gap.std() < 1.5


@pytest.mark.filterwarnings("ignore:`task` has no")
def test_a_task_without_names_takes_the_log_s() -> None:
    log = replace(DATA, state_labels=tuple("abcde"))
    found = bm.compare_priors({"flat": bm.SymmetricPrior()}, log, TASK)
    assert found.task.state_labels == tuple("abcde")


def test_counts_will_do_without_folds(compared: PriorComparison) -> None:
    found = bm.compare_priors(EVERY, DATA.counts(), TASK, n_folds=0)
    assert found.best is None
    for row, other in zip(found.rows, compared.rows, strict=True):
        assert row.log_density is row.zero_share is row.difference is None
        assert (row.log_evidence, row.predicted_value) == (
            other.log_evidence,
            other.predicted_value,
        )
    assert "held-out" not in found.summary()


def test_a_plain_dictionary_goes_through_json_and_the_record_is_sealed(
    compared: PriorComparison,
) -> None:
    found = compared
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [row["name"] for row in plain["rows"]] == list(EVERY)
    assert plain["rows"][6]["log_density"] is None  # sparse: -inf
    assert plain["rows"][6]["prior"] == "SparsePrior(concentration=1.0, fallback=3)"
    assert plain["rows"][2]["prior"].startswith("SymmetricPrior(concentration=0.")
    assert np.array(plain["actions"]).shape == (8, 5)
    assert plain["actions"][0][4] == -1
    assert found.policies.shape == (8, 5, 3)
    with pytest.raises(ValueError, match="read-only"):
        found.policies[0] = 0
    assert set(plain["rows"][0]) == set(PriorRow.__dataclass_fields__)
    assert repr(found).startswith("PriorComparison(symmetric, scaled, ")


def test_the_table_marks_the_best_and_gives_errors(compared: PriorComparison) -> None:
    found = compared
    lines = str(found).splitlines()
    assert lines[0] == f"8 priors on {DATA.n_rows} transitions"
    (marked,) = [line for line in lines if line.startswith(f"{found.best} *")]
    assert marked.count("±") == 2
    sparse = next(line for line in lines if line.startswith("sparse"))
    assert "-inf" in sparse
    assert " %" in sparse
    widths = {len(line) for line in lines[1:10]}
    assert len(widths) == 1


def test_padding_after_the_end_is_not_scored() -> None:
    padded = bm.Transitions.from_arrays(
        [0, 2, 1, 2], [0, 1, 1, 0], [2, 2, 2, 2], episode=[0, 0, 1, 1]
    )
    found = bm.compare_priors({"flat": bm.SymmetricPrior()}, padded, task(), n_folds=2)
    assert (found.n_held_out, found.visits.tolist()) == (2, [1, 1, 0])
    assert found.rows[0].log_density == pytest.approx(math.log(1 / 3))


def test_a_hierarchical_prior_gives_mass_to_next_states_new_to_a_state() -> None:
    """Rows of many states have entries for some; the others are not impossible."""
    world = bm.worlds.synthetic(0, n_states=70, n_actions=2, discount=0.9)
    log = world.simulate(np.full((70, 2), 0.5), 8, seed=0, max_steps=20)
    prior = bm.HierarchicalPrior()
    found = bm.compare_priors({"h": prior}, log, world.task, n_folds=2)
    assert found["h"].zero_share == 0
    assert found.new_share is not None
    assert found.new_share > 0.5
    training = log.counts_by_fold(2, seed=0)[0]
    s, a, t = (x.ravel() for x in np.meshgrid([3, 40], [0, 1], range(70)))
    every = bm.Counts.from_arrays(s, a, t, n_states=70, n_actions=2)
    for other in (prior, bm.HierarchicalPrior("uniform")):
        scores = _heldout._score_hierarchical(other, every, training, world.task)
        mass = np.bincount(every.state * 2 + every.action, np.exp(scores.log_density))
        assert mass[mass > 0] == pytest.approx(np.ones(4))
