"""Tests of the Markov assumption: on counts, and on the scale of the decision.

**Order 1 against order 2**: does the step before help to predict the next state? Rows
of a log that have a row before them, in *contexts* ``c`` = (state before, action
before, state, action), which refine *pairs* ``x`` = (state, action). With ``n`` the
counts of next states ``t`` ::

    E[c,t] = n[c] n[x,t] / n[x]
    G^2 = 2 sum n[c,t] log(n[c,t] / E[c,t]),    X^2 = sum (n[c,t] - E[c,t])^2 / E[c,t]
    df  = sum over pairs of (contexts - 1) (next states - 1)

**p value.** Next states are permuted within the rows of each pair, contexts stay: p =
(1 + #{G^2 permuted >= G^2}) / (B + 1). In sequential data a next state also decides
the next context, so that this is not exact; by simulation it keeps its level
(docs/markov_tests.md), also where tables are far too sparse for chi-square.

**Evidence.** With independent Dirichlet rows of concentration ``a`` on each next state
that was observed after the pair, order 1 has one row per pair, order 2 one per context.
The log Bayes factor is the difference of their log evidences on the same rows: above 0
it favours order 1. The two ask different things: a p value, whether the counts would
surprise under order 1; the Bayes factor, which of both predicts them better. With many
contexts a true but small dependence on history costs more parameters than it is worth.

**Residuals.** With ``V`` the value of the behaviour policy and ``y_t = r_t + g
V(s_{t+1})``, the residual ``y_t - Q(s_t, a_t)`` has mean 0 given all that came before,
if the state is Markov and rows do not change. So no feature ``h_t`` of the past may
explain it ::

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

Their **p values** come from posterior predictive replicates of the log, not from
permutations, which are not exact here: a next state decides which rows, with which
past, come later. In logs of few visits per pair and quick returns T is biased under
permutation, and in few long episodes it varies more (docs/markov_tests.md has
false-alarm rates of both). z hardly depends on the unknown rows, so that replicates
made from their posterior do it justice. Actions may depend on history: z is given the
action.

Their **effects** are in units of value: the regression of residuals on h, per sd of h
within pairs, times the mean number of (discounted) steps per episode: what a value is
off for an episode that differs by one sd all the time. Of several actions, it is that
of the one with the largest absolute z.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._checks import read_only
from bayesmdp._sheet import Record, Sheet
from bayesmdp._typing import ArrayLike, BoolArray, FloatArray, IntArray, Seed
from bayesmdp.data import Transitions
from bayesmdp.errors import ArgumentError, CountsError

_PURPOSE = int.from_bytes(b"order", "little")


@dataclass(frozen=True, repr=False)
class MarkovOrder(Record):
    """Order 1 against order 2; made by `bayesmdp.diagnostics.markov_order`."""

    g2: float
    x2: float
    df: int
    p_value: float  # of G^2, by permutation
    log_bayes_factor: float  # above 0 favours order 1
    concentration: float  # of a next state
    n_rows: int  # that have a row before them
    n_contexts: int
    n_permutations: int
    seed: int

    @property
    def g2_p_value(self) -> float:
        """Chi-square p value of G^2: of large tables alone."""
        return self._tail(self.g2)

    @property
    def x2_p_value(self) -> float:
        """Chi-square p value of X^2: of large tables alone."""
        return self._tail(self.x2)

    def _tail(self, statistic: float) -> float:
        from scipy.special import chdtrc

        return float(chdtrc(self.df, statistic)) if self.df else 1.0

    def _sheet(self, shown: int = 10) -> Sheet:
        title = (
            f"Order 1 against order 2 on {_checks.many(self.n_rows, 'transition')} in "
            f"{_checks.many(self.n_contexts, 'context')}"
        )
        order = 1 if self.log_bayes_factor >= 0 else 2
        lines = [
            f"G^2 {self.g2:.3f}, X^2 {self.x2:.3f}, "
            f"{_checks.many(self.df, 'degree')} of freedom; "
            f"chi-square p {self.g2_p_value:.3g} and {self.x2_p_value:.3g}",
            f"permutation p {self.p_value:.3g}: would these counts surprise under "
            "order 1?",
            f"log Bayes factor {abs(self.log_bayes_factor):.2f} for order {order} "
            f"(Dirichlet {self.concentration:g}): which predicts them better?",
        ]
        return Sheet(title, lines, indent="  ")

    def __repr__(self) -> str:
        return (
            f"MarkovOrder(G^2={self.g2:.4g}, df={self.df}, p_value={self.p_value:.3g}, "
            f"log_bayes_factor={self.log_bayes_factor:.3g})"
        )


def markov_order(
    data: Transitions | Sequence[Any] | ArrayLike,
    *,
    concentration: float = 0.5,
    n_permutations: int = 999,
    seed: Seed = 0,
) -> MarkovOrder:
    """Test whether the step before the last one helps to predict the next state.

    Parameters
    ----------
    data
        A log with an ``episode`` column, or one sequence of states, names or numbers.
    concentration
        Of the Dirichlet rows behind the Bayes factor, on each next state that was
        observed after a pair; 1/2 is Jeffreys' choice.
    n_permutations
        Of next states within the rows of each pair.
    seed
        Of the permutations.

    Returns
    -------
    MarkovOrder

    Examples
    --------
    >>> import bayesmdp as bm
    >>> found = bm.diagnostics.markov_order(list("abaaaabababaabbba"))
    >>> round(found.g2, 6), found.df, round(found.g2_p_value, 6)
    (0.599161, 2, 0.741129)
    """
    if isinstance(data, Transitions):
        rows = _rows_of_log(data)
    else:
        rows = _rows_of_sequence(data)
    return order_of(
        *rows, concentration=concentration, n_permutations=n_permutations, seed=seed
    )


def _rows_of_log(log: Transitions) -> tuple[IntArray, IntArray, IntArray]:
    found = list(log.episodes())
    if not found:
        raise CountsError("`data` holds no transitions: there is nothing to look at.")
    columns = (
        np.concatenate([getattr(x, name) for x in found])
        for name in ("state", "action", "next_state", "follows")
    )
    state, action, next_state, follows = columns
    return rows_with_history(state * (action.max() + 1) + action, next_state, follows)


def _rows_of_sequence(data: Any) -> tuple[IntArray, IntArray, IntArray]:
    sequence = _checks.any_array("data", data, ArgumentError)
    if sequence.ndim != 1 or sequence.dtype.kind not in "iufbUS":
        raise ArgumentError(
            "`data` must be a log, or one sequence of states; got an array of shape "
            f"{sequence.shape} and dtype {sequence.dtype}."
        )
    state = _ranks(sequence)
    follows = np.arange(max(state.size - 1, 0)) > 0
    return rows_with_history(state[:-1], state[1:], follows)


def rows_with_history(
    pair: IntArray, next_state: IntArray, follows: BoolArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Pair, pair before and next state of rows that follow another one."""
    at = np.flatnonzero(follows)
    return pair[at], pair[at - 1], next_state[at]


def order_of(
    pair: IntArray,
    before: IntArray,
    next_state: IntArray,
    *,
    concentration: float = 0.5,
    n_permutations: int = 999,
    seed: Seed = 0,
) -> MarkovOrder:
    """Test rows ``[N]`` by their pair, the pair before and the next state."""
    a = _checks.real("concentration", concentration, ArgumentError, 0, open_low=True)
    n = _checks.integer("n_permutations", n_permutations, 1, ArgumentError)
    number = _checks.seed_integer(seed)
    if pair.size == 0:
        raise CountsError(
            "No row has another one before it in its episode, so that there is no "
            "history to look at: give episodes of two steps or more."
        )
    order = np.lexsort((before, pair))
    pair = _ranks(pair[order])
    context = _ranks(pair * (before.max() + 1) + before[order])
    cell = _ranks(pair * (next_state.max() + 1) + next_state[order])
    of_pair, of_context, of_cell = map(np.bincount, (pair, context, cell))
    _, at, count = np.unique(
        context * np.int64(of_cell.size) + cell, return_index=True, return_counts=True
    )
    expected = of_context[context[at]] * of_cell[cell[at]] / of_pair[pair[at]]
    g2 = 2.0 * max(float(count @ np.log(count / expected)), 0.0)
    x2 = max(float((count**2 / expected).sum() - pair.size), 0.0)
    pair_of_context = pair[np.unique(context, return_index=True)[1]]
    pair_of_cell = pair[np.unique(cell, return_index=True)[1]]
    width = np.bincount(pair_of_cell)  # next states of each pair
    df = int((np.bincount(pair_of_context) - 1) @ (width - 1))
    evidence = _log_evidence(of_pair, width, of_cell, a)
    evidence -= _log_evidence(of_context, width[pair_of_context], count, a)
    first = np.searchsorted(pair_of_cell, pair)  # so that next states count from 0
    observed = float(count @ np.log(count))
    sums = _permuted_sums(pair, context, cell - first, n, number)
    tolerance = 1e-9 * max(observed, 1.0)
    return MarkovOrder(
        g2=g2,
        x2=x2,
        df=df,
        p_value=float(1 + (sums >= observed - tolerance).sum()) / (n + 1),
        log_bayes_factor=evidence,
        concentration=a,
        n_rows=pair.size,
        n_contexts=of_context.size,
        n_permutations=n,
        seed=number,
    )


def _ranks(values: NDArray[Any]) -> IntArray:
    """Return the rank of each value among the distinct ones, from 0."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _log_evidence(total: IntArray, width: IntArray, count: IntArray, a: float) -> float:
    """Of rows with so many visits and possible next states, and counts of cells."""
    from scipy.special import gammaln

    rows = gammaln(width * a) - gammaln(width * a + total)
    return float(rows.sum() + (gammaln(a + count) - gammaln(a)).sum())


def _permuted_sums(
    pair: IntArray, context: IntArray, successor: IntArray, n: int, seed: int
) -> FloatArray:
    """Return sums of ``n log n`` over cells, of permuted next states, ``[B]``."""
    from bayesmdp.engine.simulation import permute_within  # numba

    number = np.arange(np.bincount(context).max() + 1, dtype=np.float64)
    n_log_n = number * np.log(np.maximum(number, 1.0))
    sums = np.empty(n)
    permute_within(
        read_only(np.array([seed, _PURPOSE], dtype=np.uint64)),
        read_only(np.searchsorted(pair, np.arange(pair[-1] + 2))),
        read_only(context),
        read_only(successor),
        read_only(n_log_n),
        sums,
    )
    return sums


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
        from bayesmdp.engine.simulation import add_past_surplus  # numba

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
