"""Order 1 against 2: published answers, and all permutations of a small log."""

from itertools import permutations

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.diagnostics import MarkovOrder, markov_order
from bayesmdp.errors import ArgumentError, CountsError

# The example of `verifyMarkovProperty` of the R package markovchain (MIT).
EXAMPLE = list("abaaaabababaabbba")
# Triples (before, now, next) of 1,096 days of rain on Alofi in three classes: Avery and
# Henderson (1999), Applied Statistics 48, 53-61; counted from the series `rain` of
# markovchain (MIT, Spedicato and others), whose documentation has X^2, df and p.
RAIN = [
    [[247, 86, 29], [70, 32, 24], [13, 16, 31]],
    [[86, 27, 23], [29, 35, 26], [17, 17, 34]],
    [[29, 13, 8], [37, 23, 18], [20, 45, 59]],
]


def rain() -> bm.Transitions:
    """Each triple is an episode of two transitions: the first has no history."""
    triples = [
        (i, j, k)
        for i in range(3)
        for j in range(3)
        for k in range(3)
        for _ in range(RAIN[i][j][k])
    ]
    before, now, after = np.array(triples).T
    return bm.Transitions.from_arrays(
        np.stack([before, now], 1).ravel(),
        np.zeros(2 * before.size, dtype=int),
        np.stack([now, after], 1).ravel(),
        episode=np.repeat(np.arange(before.size), 2),
        step=np.tile([0, 1], before.size),
    )


def test_the_example_of_markovchain() -> None:
    found = markov_order(EXAMPLE)
    assert found.g2 == pytest.approx(0.599161, abs=5e-7)
    assert (found.df, found.n_rows, found.n_contexts) == (2, 15, 4)
    assert found.g2_p_value == pytest.approx(0.741129, abs=5e-7)
    assert found.x2 == pytest.approx(0.630, abs=5e-4)


@pytest.mark.parametrize(
    ("concentration", "wanted"), [(1.0, 7.03), (0.5, 11.19), (1 / 3, 14.21)]
)
def test_the_rain_of_alofi(concentration: float, wanted: float) -> None:
    """The p value rejects order 1, and the evidence favours it by 1,000 to 1."""
    found = markov_order(rain(), concentration=concentration, seed=1)
    assert found.x2 == pytest.approx(26.095752, abs=5e-7)
    assert found.g2 == pytest.approx(25.837020, abs=5e-7)
    assert (found.df, found.n_rows) == (12, 1094)
    assert found.x2_p_value == pytest.approx(0.01040395, abs=5e-9)
    assert found.g2_p_value == pytest.approx(0.011318, abs=5e-7)
    assert found.log_bayes_factor == pytest.approx(wanted, abs=0.005)
    # 0.0145 by another program; 999 permutations, 4 standard errors
    assert abs(found.p_value - 0.0145) < 4 * np.sqrt(0.0145 / 999)


def g2(before: list[int], now: list[int], after: list[int]) -> float:
    """By the formula, cell by cell."""
    rows, total = list(zip(before, now, after, strict=True)), 0.0
    for i, j, k in set(rows):
        o = rows.count((i, j, k))
        c = sum(r[:2] == (i, j) for r in rows)
        x = now.count(j)
        t = sum(r[1:] == (j, k) for r in rows)
        total += 2 * o * np.log(o * x / (c * t))
    return float(total)


def test_p_values_are_those_of_all_permutations() -> None:
    """Every order of next states within states, against 20,000 random ones."""
    sequence = [0, 0, 1, 1, 0, 0, 1, 1, 0, 2, 0, 0, 1, 0]
    before, now, after = sequence[:-2], sequence[1:-1], sequence[2:]
    observed = g2(before, now, after)
    places = {j: [i for i, x in enumerate(now) if x == j] for j in set(now)}
    assert {j: len(x) for j, x in places.items()} == {0: 6, 1: 5, 2: 1}
    hits = n = 0
    for first in set(permutations([after[i] for i in places[0]])):
        for second in set(permutations([after[i] for i in places[1]])):
            made = list(after)
            for j, order in ((0, first), (1, second)):
                for i, x in zip(places[j], order, strict=True):
                    made[i] = x
            hits += g2(before, now, made) >= observed - 1e-9
            n += 1
    found = markov_order(sequence, n_permutations=20_000, seed=3)
    assert found.g2 == pytest.approx(observed)
    share = hits / n
    assert 0.05 < share < 0.95
    assert abs(found.p_value - share) < 4.5 * np.sqrt(share * (1 - share) / 20_000)


def test_actions_and_episodes_make_contexts() -> None:
    """Next states that repeat the action before: order 2, however states go."""
    rng = np.random.default_rng(0)
    n, length = 60, 5
    action = rng.integers(0, 2, (n, length))
    state = np.zeros((n, length + 1), dtype=int)
    for t in range(1, length + 1):
        state[:, t] = action[:, t - 2] if t > 1 else rng.integers(0, 2, n)
    episode = np.repeat(np.arange(n), length)
    log = bm.Transitions.from_arrays(
        state[:, :-1].ravel(), action.ravel(), state[:, 1:].ravel(), episode=episode
    )
    found = markov_order(log)
    assert found.n_rows == n * (length - 1)
    assert found.p_value == 1 / 1000
    assert found.log_bayes_factor < -20
    assert "for order 2" in found.summary()
    assert "order 2" in found._repr_html_()
    shuffled = bm.Transitions.from_arrays(
        state[:, :-1].ravel(),
        action.ravel(),
        rng.integers(0, 2, episode.size),
        episode=np.arange(episode.size) // 2,
    )
    assert markov_order(shuffled).p_value > 0.01


def test_records_say_what_they_are() -> None:
    found = markov_order(EXAMPLE, seed=5)
    assert MarkovOrder(**found.to_dict()) == found
    assert repr(found) == (
        "MarkovOrder(G^2=0.5992, df=2, p_value=1, log_bayes_factor=0.916)"
    )


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        ([[0, 1], [1, 0]], ArgumentError, "one sequence of states"),
        ([0, 1], CountsError, "two steps or more"),
        ([], CountsError, "two steps or more"),
        (
            bm.Transitions.from_arrays([0, 1], [0, 0], [1, 0], episode=[0, 1]),
            CountsError,
            "two steps or more",
        ),
        (
            bm.Transitions.from_arrays([0, 1], [0, 0], [1, 0]),
            CountsError,
            "`episode` column",
        ),
    ],
)
def test_refusals(data: object, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        markov_order(data)  # type: ignore[arg-type]
