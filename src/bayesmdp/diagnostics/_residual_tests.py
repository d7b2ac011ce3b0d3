"""Tests of the Markov assumption on the scale of the decision.

With ``V`` the value of the behaviour policy and ``y_t = r_t + g V(s_{t+1})``, the
residual ``y_t - Q(s_t, a_t)`` has mean 0 given all that came before, if the state is
Markov and rows do not change. So no feature ``h_t`` of the past may explain it ::

    T = sum_t (y_t - y[x]) (h_t - h[x])
    z = T / sqrt(sum_x SS_y[x] SS_h[x] / (n[x] - 1))

with means and sums of squares within the rows of each pair ``x``: ``Q`` cancels. The
denominator is the sd of T if next states were permuted within pairs. Of several
features, one for each action, the statistic is the sum of squares of their z. Features:

* ``previous value``, V(s_{t-1}), and ``previous action``: order of the chain;
* ``past actions``, the share of each action among all earlier steps of the episode:
  what those who treat know of a patient and the state does not say;
* ``step``, log(1 + t): homogeneity within episodes, and hidden differences between
  patients, of whom the strongest stay longest;
* ``episode order``: homogeneity over calendar time, where ids of episodes rise with it.

**p values** come from posterior predictive replicates of the log, not from
permutations, which are not exact here: a next state decides which rows, with which
past, come later. In logs of few visits per pair and quick returns T is biased under
permutation, and in few long episodes it varies more (docs/markov_tests.md has
false-alarm rates of both). z hardly depends on the unknown rows, so that replicates
made from their posterior do it justice. Actions may depend on history: z is given the
action.

**Effects** are in units of value: the regression of residuals on h, per sd of h within
pairs, times the mean number of (discounted) steps per episode: what a value is off for
an episode that differs by one sd all the time. Of several actions, it is that of the
one with the largest absolute z.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray, IntArray

VALUE, ACTION, ACTIONS = "previous value", "previous action", "past actions"
STEP, ORDER = "step", "episode order"
_NOTHING = 1e-7  # a spread that is rounding, beside the size of what spreads
_FEW = 20  # episodes, below which their order has too few places


class ScoredRows(NamedTuple):
    """Rows of whole episodes, with what their next states are worth."""

    row: IntArray  # [N], number of the pair
    action: IntArray  # [N]
    follows: BoolArray  # [N], has a row before it
    step: IntArray  # [N]
    episode: IntArray  # [N]
    value: FloatArray  # [N], V of the state
    worth: FloatArray  # [N], y


@dataclass(frozen=True)
class Tested:
    """A statistic, and the effect in units of value."""

    statistic: float  # z, or a sum of squares
    two_sided: bool
    effect: float
    effect_se: float  # under no effect, before replicates correct it
    n_rows: int


def residual_tests(
    rows: ScoredRows, n_actions: int, n_pairs: int, discount: float
) -> dict[str, Tested]:
    """Test every feature; those that vary nowhere within a pair are left out."""
    at = np.flatnonzero(rows.follows)
    found: dict[str, Tested | None] = {}
    if at.size:
        later = _Within(rows, at, n_pairs, discount)
        found[VALUE] = later.test(rows.value[at - 1])
        if n_actions > 1:
            found[ACTION] = later.test_each(
                (rows.action[at - 1] == a).astype(np.float64) for a in range(n_actions)
            )
            found[ACTIONS] = later.test_each(
                _past_share(rows, a)[at] for a in range(n_actions)
            )
    every = _Within(rows, np.arange(rows.row.size), n_pairs, discount)
    found[STEP] = every.test(np.log1p(rows.step))
    if rows.episode[-1] + 1 >= _FEW:
        found[ORDER] = every.test(rows.episode.astype(np.float64))
    return {name: x for name, x in found.items() if x is not None}


def _past_share(rows: ScoredRows, action: int) -> FloatArray:
    """Share of an action among earlier rows of the episode; 0 in the first."""
    taken = rows.action == action
    before = np.cumsum(taken) - taken
    first = before[np.searchsorted(rows.episode, np.arange(rows.episode[-1] + 1))]
    return np.asarray((before - first[rows.episode]) / np.maximum(rows.step, 1))


class _Within:
    """Residuals of some rows, centred within pairs."""

    def __init__(
        self, rows: ScoredRows, at: IntArray, n_pairs: int, discount: float
    ) -> None:
        self.row, self.n_pairs, self.n = rows.row[at], n_pairs, at.size
        self.visits = np.maximum(np.bincount(self.row, minlength=n_pairs), 1)
        worth = rows.worth[at]
        self.y = worth - (self._sums(worth) / self.visits)[self.row]
        self.variance = self._sums(self.y**2) / np.maximum(self.visits - 1, 1)  # of y
        steps = float((discount ** rows.step[at]).sum())
        self.steps = steps / (rows.episode[-1] + 1)  # of an episode

    def _sums(self, values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(self.row, values, self.n_pairs), dtype=float)

    def test(self, h: FloatArray) -> Tested | None:
        """Test one feature ``[N]``; None where it or y varies within no pair."""
        squares = self._sums(h * h) - self._sums(h) ** 2 / self.visits
        squares = np.maximum(squares, 0.0)
        total = float(squares.sum())
        noise = float(np.sqrt(self.variance @ squares))
        least = _NOTHING * np.abs(self.y).max() * np.sqrt(h @ h)
        if not noise > least:
            return None
        t = float(self.y @ h)
        per_sd = self.steps / float(np.sqrt(total * self.n))
        return Tested(t / noise, True, t * per_sd, noise * per_sd, self.n)

    def test_each(self, features: Iterable[FloatArray]) -> Tested | None:
        """Test several features together."""
        found = [x for h in features if (x := self.test(h)) is not None]
        if not found:
            return None
        most = max(found, key=lambda x: abs(x.statistic))
        squares = sum(x.statistic**2 for x in found)
        return replace(most, statistic=squares, two_sided=False)
