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
* ``past actions``, how often each action was taken in all earlier steps of the episode
  beyond its share in the log, over the root of their number: what those who treat know
  of a patient and the state does not say;
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

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bayesmdp._checks import read_only
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
    rows: ScoredRows, policy: FloatArray, discount: float
) -> dict[str, Tested]:
    """Test every feature; those that vary nowhere within a pair are left out.

    ``policy`` [X, A] are probabilities in the state of each pair.
    """
    n_pairs, n_actions = policy.shape
    found: dict[str, Tested | None] = {}
    follows = np.flatnonzero(rows.follows)
    if follows.size:
        some = _Within(rows, follows, n_pairs, discount)
        found[VALUE] = some.test(rows.value[follows - 1])
        found[ACTION] = some.test_kinds(rows.action[follows - 1], n_actions)
        found[ACTIONS] = some.test_past(rows, follows, policy)
    every = _Within(rows, np.arange(rows.row.size), n_pairs, discount)
    found[STEP] = every.test(np.log1p(rows.step))
    if rows.episode[-1] + 1 >= _FEW:
        found[ORDER] = every.test(rows.episode.astype(np.float64))
    return {name: x for name, x in found.items() if x is not None}


class _Within:
    """Residuals of some rows, centred within pairs; F features are tested together."""

    def __init__(
        self, rows: ScoredRows, at: IntArray, n_pairs: int, discount: float
    ) -> None:
        self.row, self.n_pairs, self.n = rows.row[at], n_pairs, at.size
        self.visits = np.maximum(np.bincount(self.row, minlength=n_pairs), 1)
        worth = rows.worth[at]
        self.y = worth - (self._sums(worth) / self.visits)[self.row]
        self.variance = self._sums(self.y**2) / np.maximum(self.visits - 1, 1)  # of y
        self.least = _NOTHING * float(np.abs(worth).max())  # an sd of y that is none
        steps = float((discount ** rows.step[at]).sum())
        self.steps = steps / (rows.episode[-1] + 1)  # of an episode

    def _sums(self, values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(self.row, values, self.n_pairs), dtype=float)

    def test(self, h: FloatArray) -> Tested | None:
        """Test one feature ``[N]``."""
        first, second = self._sums(h)[:, None], self._sums(h * h)[:, None]
        found = self._tested(np.array([(self.y * h).sum()]), first, second)
        return found[0] if found else None

    def test_kinds(self, kind: IntArray, n_kinds: int) -> Tested | None:
        """Test in which of several kinds a row is, ``[N]``."""
        cell = self.row * np.int64(n_kinds) + kind
        count = np.bincount(cell, minlength=self.n_pairs * n_kinds)
        table = count.reshape(self.n_pairs, n_kinds).astype(np.float64)
        product = np.asarray(np.bincount(kind, self.y, n_kinds), dtype=float)
        return _together(self._tested(product, table, table))

    def test_past(
        self, rows: ScoredRows, at: IntArray, policy: FloatArray
    ) -> Tested | None:
        """Test the surplus of each action in earlier steps, of the rows ``at``."""
        from bayesmdp.engine.resampling import add_past_surplus  # numba

        y = np.zeros(rows.row.size)
        y[at] = self.y
        first, second = np.zeros((2, *policy.shape))
        product = np.zeros(policy.shape[1])
        add_past_surplus(
            read_only(rows.row),
            read_only(rows.action),
            read_only(rows.episode),
            read_only(rows.follows),
            read_only(policy),
            read_only(y),
            first,
            second,
            product,
        )
        return _together(self._tested(product, first, second))

    def _tested(
        self, product: FloatArray, first: FloatArray, second: FloatArray
    ) -> list[Tested]:
        """Test features by their products with y ``[F]`` and sums by pair ``[X, F]``.

        Those that vary within no pair, or where y does not, are left out.
        """
        squares = np.maximum(second - first**2 / self.visits[:, None], 0.0)
        total = squares.sum(axis=0)
        # no matrix products: threads of a BLAS cost more than they bring here
        noise = np.sqrt((self.variance[:, None] * squares).sum(axis=0))
        varies = total > _NOTHING**1.5 * second.sum(axis=0)
        varies &= noise > self.least * np.sqrt(total)
        per_sd = self.steps / np.sqrt(np.where(varies, total, 1.0) * self.n)
        return [
            Tested(t / sd, True, t * unit, sd * unit, self.n)
            for t, sd, unit in zip(
                product[varies].tolist(),
                noise[varies].tolist(),
                per_sd[varies].tolist(),
                strict=True,
            )
        ]


def _together(found: list[Tested]) -> Tested | None:
    """Put features into one test; those of a single kind say nothing."""
    if len(found) < 2:
        return None
    most = max(found, key=lambda x: abs(x.statistic))
    squares = sum(x.statistic**2 for x in found)
    return replace(most, statistic=squares, two_sided=False)
