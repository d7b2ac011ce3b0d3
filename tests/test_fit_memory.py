"""`fit` refuses what will not fit before it takes memory, and says what would."""

import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.errors import StorageError, TooLargeError

S, A = 300, 2
END = S - 1
UNITS = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


def task(n_states: int = S, n_actions: int = A) -> bm.Task:
    reward = np.zeros(n_states)
    reward[-1] = 1.0
    return bm.Task(n_states, n_actions, reward, discount=0.9, terminal=[n_states - 1])


def counts(n_states: int = S, n_actions: int = A) -> bm.Counts:
    """Each state was visited, but not with every action."""
    state = np.arange(n_states - 1)
    return bm.Counts.from_arrays(
        np.r_[state, state], np.r_[0 * state, 0 * state],
        np.r_[state + 1, np.full(state.size, n_states - 1)],
        np.r_[np.full(state.size, 3), np.full(state.size, 2)],
        n_states=n_states, n_actions=n_actions,
    )  # fmt: skip


def taken(work: Callable[[], Any]) -> int:
    """Most bytes that were held at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def used(prior: Any, **sizes: int) -> bm.Posterior | bm.posterior.MixturePosterior:
    """Fit, and ask for what everyone asks for."""
    posterior = bm.fit(counts(**sizes), task(**sizes), prior=prior)
    posterior.mean()
    posterior.summary()
    return posterior


def said(prior: Any, monkeypatch: pytest.MonkeyPatch, limit: str) -> str:
    monkeypatch.setenv("BAYESMDP_MEMORY", limit)
    with pytest.raises(TooLargeError) as caught:
        used(prior)
    return str(caught.value)


def size_in(text: str) -> float:
    """Size that a message says will be needed."""
    found = re.search(r"takes? ([0-9.e+]+) (kB|MB|GB|TB) of memory", text)
    assert found, text
    return float(found[1]) * UNITS[found[2]]


ALL = np.ones((S, A, S), dtype=bool)
NARROW = ALL.copy()
NARROW[:, :, 7] = False
NARROW[6, :, 7] = True  # what was logged
PRIORS: dict[str, Any] = {
    "symmetric": bm.SymmetricPrior(),
    "scaled": bm.ScaledPrior(),
    "fallback": bm.FallbackPrior(bm.SymmetricPrior(), END),
    "hierarchical": bm.RandomSupportPrior(),
    "mask": bm.SymmetricPrior(support=ALL),
    "columns": bm.SymmetricPrior(support=tuple(np.nonzero(ALL))),
    "fallback of a mask": bm.FallbackPrior(bm.SymmetricPrior(support=NARROW), 7),
    "hierarchical of a mask": bm.FallbackPrior(
        bm.RandomSupportPrior(support=NARROW), 7
    ),
}


@pytest.mark.parametrize("name", PRIORS)
def test_what_is_said_to_be_needed_is_what_is_taken(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prior = PRIORS[name]
    used(prior)  # what is imported on the way is not counted
    peak = taken(lambda: used(prior))
    needed = size_in(said(prior, monkeypatch, "4MB"))
    assert 0.5 * needed < peak < 1.05 * needed
    monkeypatch.setenv("BAYESMDP_MEMORY", f"{needed * 1.01:.0f}")
    used(prior)


@pytest.mark.parametrize(
    ("n_states", "limit"), [(20_000, "23GB"), (5_000, "1.3GB"), (5_000, "2GB")]
)
def test_nothing_is_taken_before_the_refusal(
    n_states: int, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAYESMDP_MEMORY", limit)
    data, known = counts(n_states), task(n_states)

    def fit() -> None:
        with pytest.raises(TooLargeError, match=r"are free: use SparsePrior with"):
            bm.fit(data, known, prior=bm.SymmetricPrior())

    assert taken(fit) < 20e6


def test_what_would_fit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    text = said(bm.SymmetricPrior(), monkeypatch, "4MB")
    found = re.search(r"without, about (\d+) states would fit", text)
    assert found, text
    n = int(found[1])
    assert 100 < n < S
    used(bm.SymmetricPrior(), n_states=n)
    with pytest.raises(TooLargeError):
        used(bm.SymmetricPrior(), n_states=n + 2)
    used(bm.SparsePrior(fallback=END))
    chain = (np.arange(S) - np.arange(S)[:, None]) % S <= 1
    chain[:, END] = True
    used(bm.SymmetricPrior(support=chain))


def test_a_support_that_is_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    text = said(bm.SymmetricPrior(support=ALL), monkeypatch, "4MB")
    found = re.search(r"or allow about (\d+)\.", text)
    assert found, text
    narrow = np.zeros((S, A, S), dtype=bool)
    narrow[:, :, END] = True
    state = np.arange(S - 1)
    narrow[state, :, state + 1] = True
    left = int(found[1]) - int(narrow.sum())
    narrow.flat[np.flatnonzero(~narrow)[:left]] = True
    used(bm.SymmetricPrior(support=narrow))


def test_pairs_alone_may_be_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESMDP_MEMORY", "50MB")
    prior = bm.SparsePrior(fallback=END)

    def fit(n_actions: int, min_count: int = 0) -> None:
        bm.fit(
            counts(n_actions=n_actions), task(n_actions=n_actions),
            prior=prior, min_count=min_count,
        )  # fmt: skip

    def refused() -> None:
        with pytest.raises(
            TooLargeError, match=r"30000000 pairs .*about 3125000 would"
        ):
            fit(10**5)

    assert taken(refused) < 10**6
    with pytest.raises(TooLargeError, match=r"598000 available .*larger `min_count`"):
        fit(2000)
    fit(2000, min_count=1)
    fit(1600)


def test_components_of_a_mixture_fit_together_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = size_in(said(bm.SymmetricPrior(), monkeypatch, "1MB"))
    monkeypatch.setenv("BAYESMDP_MEMORY", f"{1.5 * alone:.0f}")
    used(bm.SymmetricPrior())
    wide = bm.MixturePrior([bm.SymmetricPrior(1), bm.SymmetricPrior(2)])
    with pytest.raises(TooLargeError, match=r"`priors\[1\]`: 2 components.* fit one"):
        used(wide)
    narrow = bm.MixturePrior(
        [bm.SparsePrior(c, END) for c in (1, 2)], posterior_weights=[0.5, 0.5]
    )
    used(narrow)
    monkeypatch.delenv("BAYESMDP_MEMORY")
    assert taken(lambda: used(wide)) < 2 * alone


def test_a_run_that_does_not_fit_is_told_on_load(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bm.storage.save(used(bm.SymmetricPrior()), tmp_path / "run")
    monkeypatch.setenv("BAYESMDP_MEMORY", "4MB")
    with pytest.raises(StorageError, match="cannot be fitted again: Every next state"):
        bm.storage.load(path)


@pytest.mark.parametrize(
    "prior", [bm.SymmetricPrior(0.5), bm.RandomSupportPrior()], ids=lambda x: str(x)
)
def test_means_and_rewards_of_long_rows_are_made_where_they_are_used(
    prior: bm.SymmetricPrior | bm.RandomSupportPrior, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One action of eight: the same bits, and not two more arrays of all entries."""
    n, policy = {"n_states": 100, "n_actions": 8}, np.zeros(100, dtype=int)
    whole = bm.fit(counts(**n), task(**n), prior=prior)
    assert isinstance(whole, bm.Posterior)
    wanted = bm.evaluate(policy, whole.draws(4))
    monkeypatch.setattr("bayesmdp.posterior._posterior._LARGE", 0)
    part = bm.fit(counts(**n), task(**n), prior=prior)
    assert isinstance(part, bm.Posterior)
    found = bm.evaluate(policy, part.draws(4))
    assert np.array_equal(found.value, wanted.value)
    assert np.array_equal(found.start_values, wanted.start_values)
    pairs = np.zeros((100, 8), dtype=bool)
    pairs[:, 0] = True
    took = taken(lambda: part.used_rows(pairs))
    assert took < 8 * part.alpha.size  # not one array of all entries
    (row, some), every = part.used_rows(pairs), part.rows().take(row_of(part))
    assert np.array_equal(row, row_of(part))
    for name in ("mean", "reward"):
        assert np.array_equal(getattr(some, name), getattr(every, name))
    assert (some.total is None) == (every.total is None)


def row_of(posterior: bm.Posterior) -> np.ndarray:
    return np.flatnonzero(posterior.layout.pair % 8 == 0)
