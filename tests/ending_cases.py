"""Random small tasks at discount 1, and what every set of their states says of them.

A trap is a set of states that the policy's chain can circle in: it is strongly
connected, and every row in use has an entry inside. The oracle looks at each of the
``2^N - 1`` sets of live states; bits of an integer say which states one holds.
"""

import math
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import bayesmdp as bm

Array = NDArray[np.float64]
CONCENTRATIONS = (0.1, 0.2, 0.25, 1 / 3, 0.4, 0.5, 0.7, 1.0)
KINDS = ("fallback", "sets", "sets with fallback", "mixture")


class Row(NamedTuple):
    """A row that the policy uses; concentrations are 0 where an entry may be missing"""

    state: int
    heads: list[int]
    alpha: list[float]
    rewarded: list[bool]


@dataclass(frozen=True)
class Case:
    """A belief and a policy, and the rows in use of each component."""

    belief: bm.Posterior | bm.posterior.MixturePosterior
    policy: Array  # [S, A]
    n_live: int
    components: list[list[Row]]


class Outcome(NamedTuple):
    """What is said of a case."""

    value: str  # sound, warned (no variance), refused (no mean), closed (draws no end)
    visits: bool = True  # whether their number has a mean


# ------------------------------------------------------------ random cases


def random_case(rng: np.random.Generator, kind: str = "plain") -> Case:
    """Sparse rows, few visits and small concentrations, so that thresholds are near.

    Every chain can end, from every state.
    """
    n_live, n_actions = int(rng.integers(1, 7)), int(rng.integers(1, 3))
    shape = (n_live + 1, n_actions, n_live + 1)
    reward = _random_reward(rng, shape)
    policy = _random_policy(rng, shape)
    while True:
        possible, counts = _random_rows(rng, shape)
        priors, alphas = zip(*_random_priors(rng, kind, possible, counts), strict=True)
        components = [_rows(policy, alpha, reward) for alpha in alphas]
        if all(_ends(rows, n_live) for rows in components):
            break
    prior = priors[0]
    if len(priors) > 1:
        prior = bm.MixturePrior(priors, posterior_weights=[0.5, 0.5])
    task = bm.Task(shape[0], n_actions, reward, discount=1.0, terminal=[n_live])
    belief = bm.fit(bm.Counts.from_dense(counts), task, prior=prior)
    return Case(belief, policy, n_live, components)


def _random_rows(
    rng: np.random.Generator, shape: tuple[int, int, int]
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    possible = rng.random(shape) < rng.choice([0.3, 0.5, 0.8])
    possible[:, :, -1] = rng.random(shape[:2]) < rng.choice([0.2, 0.5, 0.9])
    empty = ~possible.any(axis=2)
    possible[empty, rng.integers(0, shape[2], int(empty.sum()))] = True
    observed = possible & (rng.random(shape) < rng.choice([0.1, 0.4]))
    counts = observed * rng.integers(1, 4, shape)
    counts[0, 0, possible[0, 0].argmax()] += 1  # there must be data
    counts[-1] = 0
    return possible, counts


def _random_policy(rng: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    policy = rng.dirichlet(np.ones(shape[1]), size=shape[0])
    decided = rng.random(shape[0]) < rng.choice([0.3, 1.0])
    policy[decided] = np.eye(shape[1])[rng.integers(0, shape[1], int(decided.sum()))]
    return policy


def _random_reward(rng: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    """Pay every step, in some states, on some transitions, or at the end alone."""
    reward = np.full(shape, -1.0)
    kind = rng.integers(4)
    if kind == 1:
        reward *= (rng.random(shape[0]) < 0.4)[:, None, None]
    elif kind == 2:
        reward *= rng.random(shape) < 0.25
    elif kind == 3:
        reward[:, :, :-1] = 0.0
    reward[-1] = 0.0
    return reward


def _random_priors(
    rng: np.random.Generator,
    kind: str,
    possible: NDArray[np.bool_],
    counts: NDArray[np.int64],
) -> list[tuple[bm.priors.Prior, Array]]:
    """Priors, and concentrations after the data: NaN where nothing is possible."""
    if kind == "mixture":
        kinds = rng.choice(["plain", *KINDS[:3]], 2)
        return [_random_priors(rng, k, possible, counts)[0] for k in kinds]
    concentration = float(rng.choice(CONCENTRATIONS))
    alpha = np.where(possible, concentration + counts, np.nan)
    prior: bm.priors.Prior = bm.SymmetricPrior(concentration, support=possible)
    at = len(possible) - 1  # the end
    if kind.startswith("sets"):
        alpha = np.where(possible & (counts == 0), 0.0, alpha)
        prior = bm.RandomSupportPrior(concentration, support=possible)
    elif kind == "fallback":
        at = int(rng.integers(len(possible)))
    if kind.endswith("fallback"):
        weight = float(rng.choice(CONCENTRATIONS))
        prior = bm.FallbackPrior(prior, at, weight)
        own = np.where(possible[:, :, at], concentration, 0.0)
        alpha[:, :, at] = own + counts[:, :, at] + weight
    return [(prior, alpha)]


def _rows(policy: Array, alpha: Array, reward: Array) -> list[Row]:
    rows = []
    for state, action in np.argwhere(policy[:-1] > 0).tolist():
        heads = np.flatnonzero(~np.isnan(alpha[state, action]))
        paid = reward[state, action, heads] != 0
        found = alpha[state, action, heads]
        rows.append(Row(state, heads.tolist(), found.tolist(), paid.tolist()))
    return rows


# ------------------------------------------------------------ every set of states


def expected(case: Case) -> Outcome:
    """Look at every set of states in every component; the first refusal counts."""
    found = [least_exits(rows, case.n_live) for rows in case.components]
    for least, least_paid in found:
        if least == 0:
            return Outcome("closed")
        if least_paid <= 1:
            return Outcome("refused")
    value = "warned" if min(paid for _, paid in found) <= 2 else "sound"
    return Outcome(value, min(least for least, _ in found) > 1)


def least_exits(rows: list[Row], n_live: int) -> tuple[float, float]:
    """Exits of the tightest trap, and of the tightest one with rewards inside.

    Infinite where they are above 2.
    """
    forward, backward = _steps(rows, n_live)
    least = least_paid = math.inf
    for inside in range(1, 1 << n_live):
        exits, paid, always_leaves = [], False, False
        for state, heads, alpha, rewarded in rows:
            if inside >> state & 1:
                stays = [inside >> head & 1 for head in heads]
                always_leaves |= not any(stays)
                exits += [a for a, stay in zip(alpha, stays, strict=True) if not stay]
                paid |= any(p for p, stay in zip(rewarded, stays, strict=True) if stay)
        total = round(math.fsum(exits), 9)
        if always_leaves or total > 2:
            continue
        first = inside & -inside
        if (
            _reached(forward, first, inside) & _reached(backward, first, inside)
            < inside
        ):
            continue
        least = min(least, total)
        least_paid = min(least_paid, total) if paid else least_paid
    return least, least_paid


def _steps(rows: list[Row], n_live: int) -> tuple[list[int], list[int]]:
    """Next and previous states of each, as bits."""
    forward, backward = [0] * (n_live + 1), [0] * (n_live + 1)
    for row in rows:
        for head in row.heads:
            forward[row.state] |= 1 << head
            backward[head] |= 1 << row.state
    return forward, backward


def _reached(step: list[int], found: int, within: int) -> int:
    """States that can be reached from some without leaving a set."""
    new = found
    while new:
        state = new.bit_length() - 1
        more = step[state] & within & ~found
        found |= more
        new = (new ^ 1 << state) | more
    return found


def _ends(rows: list[Row], n_live: int) -> bool:
    everything = (1 << n_live + 1) - 1
    return _reached(_steps(rows, n_live)[1], 1 << n_live, everything) == everything


# ------------------------------------------------------------ what the package says


def outcome(case: Case) -> Outcome:
    """What `bayesmdp.evaluate` says."""
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        try:
            draws = case.belief.draws(2)
            found = bm.evaluate(case.policy, draws, control=False, threads=1)
        except bm.errors.EndlessError as error:
            words = {"mean is infinite": "refused", "in some draws none": "closed"}
            return Outcome(next((x for w, x in words.items() if w in str(error)), "?"))
    said = " ".join(str(w.message) for w in record)
    infinite = "variance over the posterior is infinite" in said
    visits = not np.isnan(found.occupancy[: case.n_live]).any()
    return Outcome("warned" if infinite else "sound", visits)
