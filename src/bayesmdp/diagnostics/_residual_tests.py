"""Tests of the Markov assumption on the scale of the decision.

With ``V`` the value of the behaviour policy and ``y_t = r_t + g V(s_{t+1})``, the
residual ``y_t - Q(s_t, a_t)`` has mean 0 given all that came before, if the state is
Markov and rows do not change. So no feature ``h_t`` of the past may explain it ::

    T = sum_t (y_t - y[x]) (h_t - h[x])
    z = T / sqrt(sum_x SS_y[x] SS_h[x] / (n[x] - 1))

with means and sums of squares within the rows of each pair ``x``: ``Q`` cancels. The
denominator is the variance of T if next states were permuted within pairs. For
indicators of several actions, T is a vector, and the statistic ``T' C^+ T`` with the
same covariance C. Features:

* ``previous value``, V(s_{t-1}): order of the chain; ``previous action``: its
  indicators;
* ``step``, log(1 + t): homogeneity within episodes, and hidden differences between
  patients, of whom the strongest stay longest;
* ``episode order``: homogeneity over calendar time, where ids of episodes rise with it.

**p values** come from posterior predictive replicates of the log, not from
permutations, which are not exact here: a next state decides which rows, with which
past, come later. In logs of few visits per pair and quick returns T is biased
under permutation, and in few long episodes it varies more (docs/markov_tests.md has
false-alarm rates of both). z hardly depends on the unknown rows, so that replicates
made from their posterior do it justice. Actions may depend on history: z is given the
action.

**Effects** are in units of value: the regression of residuals on h, per sd of h within
pairs, times the mean number of (discounted) steps per episode: what a value is off for
an episode that differs by one sd all the time. For several indicators, the root mean
square of what they explain beyond chance.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray, IntArray

VALUE, ACTION = "previous value", "previous action"
STEP, ORDER = "step", "episode order"
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

    statistic: float  # z, or a quadratic form
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
        found[VALUE] = later.linear(rows.value[at - 1])
        if n_actions > 1:
            found[ACTION] = later.indicators(rows.action[at - 1], n_actions)
    every = _Within(rows, np.arange(rows.row.size), n_pairs, discount)
    found[STEP] = every.linear(np.log1p(rows.step))
    if rows.episode[-1] + 1 >= _FEW:
        found[ORDER] = every.linear(rows.episode.astype(np.float64))
    return {name: x for name, x in found.items() if x is not None}


class _Within:
    """Residuals of some rows, centred within pairs."""

    def __init__(
        self, rows: ScoredRows, at: IntArray, n_pairs: int, discount: float
    ) -> None:
        self.row, self.n_pairs = rows.row[at], n_pairs
        self.visits = np.bincount(self.row, minlength=n_pairs)
        self.y = self._centred(rows.worth[at])
        spread = self._sums(self.y**2)
        self.variance = spread / np.maximum(self.visits - 1, 1)  # [X], of y
        self.n = at.size
        weight = float((discount ** rows.step[at]).sum())
        self.steps = weight / (rows.episode[-1] + 1)  # of an episode

    def _sums(self, values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(self.row, values, self.n_pairs), dtype=float)

    def _centred(self, values: FloatArray) -> FloatArray:
        mean = self._sums(values) / np.maximum(self.visits, 1)
        return np.asarray(values - mean[self.row])

    def linear(self, h: FloatArray) -> Tested | None:
        """Test one feature ``[N]``."""
        h = self._centred(h)
        squares = self._sums(h**2)
        noise = float(np.sqrt(self.variance @ squares))
        total = squares.sum()
        if not noise > 1e-12 * np.abs(self.y).max() * np.sqrt(total):
            return None
        t = float(self.y @ h)
        per_sd = self.steps / float(np.sqrt(total * self.n))
        return Tested(t / noise, True, t * per_sd, noise * per_sd, self.n)

    def indicators(self, kind: IntArray, n_kinds: int) -> Tested | None:
        """Test in which of several kinds a row is, ``[N]``."""
        t = np.bincount(kind, self.y, n_kinds)
        cell = self.row * np.int64(n_kinds) + kind
        table = np.bincount(cell, minlength=self.n_pairs * n_kinds)
        table = table.reshape(self.n_pairs, n_kinds).astype(np.float64)
        share = table / np.maximum(self.visits, 1)[:, None]
        weighted = table * self.variance[:, None]
        squares, noise = (  # no matrix product: threads of a BLAS cost more than this
            np.diag(x.sum(axis=0)) - np.einsum("xa,xb->ab", x, share)
            for x in (table, weighted)
        )
        if not np.trace(noise) > 1e-12 * np.abs(self.y).max() ** 2 * np.trace(squares):
            return None
        inverse = np.linalg.pinv(squares, rcond=1e-9, hermitian=True)
        statistic = float(t @ np.linalg.pinv(noise, rcond=1e-9, hermitian=True) @ t)
        chance = float(np.trace(inverse @ noise))
        rank = max(int(np.linalg.matrix_rank(squares, rtol=1e-9, hermitian=True)), 1)
        explained = max(float(t @ inverse @ t) - chance, 0.0)
        per_step = self.steps / np.sqrt(self.n)
        return Tested(
            statistic,
            False,
            float(np.sqrt(explained)) * per_step,
            float(np.sqrt(chance / rank)) * per_step,
            self.n,
        )
