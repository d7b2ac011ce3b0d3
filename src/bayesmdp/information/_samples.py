"""Value of information from draws alone: values of decisions, and parameters.

For ensembles and analyses from elsewhere, where nothing is known but a table of values
``y[i, d]`` (net benefits, say) of decisions ``d`` in draws ``i``, and parameters ``x``
of the same draws.

**Perfect information** is worth ``E[max_d y] - max_d E[y]`` (EVPI). **About some
parameters** (EVPPI): ``E[max_d E(y[d] | x)] - max_d E[y[d]]``, with conditional means
by regression on splines of ``x`` (Strong, Oakley and Brennan 2014). **A study of size
n** (EVSI): if the data are worth ``n0`` observations before, the mean of what will be
known varies by ``n / (n + n0)`` of the variance; fitted values are drawn towards their
mean by the root of that (Jalal and Alarid-Escudero 2018).

The maximum over noisy fits is too large on average. So one half of the draws decides
and the other half values the decisions, in turns (`split_gain`): regression can then
miss what is to be gained, not make it up. Errors are those of the mean over draws.

**An ensemble.** Models are given. **Few models** that are no sample are taken for all
there are. A row tells apart the models that differ in it, and visits are evidence for
models by Bayes' rule; values are then exact but for the simulated visits. **Many
models, or a sample,** are taken for draws of something continuous: a single draw's row
would give its number away, so conditional means are regressions on ``x = theta.h``, and
``n`` visits count as ``n / (n + n0)`` of knowing it, ``n0 = E[Var_theta(h)] / Var(x)``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import ArrayLike, FloatArray, IntArray
from bayesmdp.errors import ArgumentError, BayesmdpWarning
from bayesmdp.evaluation import plain_mcse
from bayesmdp.posterior import Ensemble

_KNOTS, _FEWER = 6, 4  # of a spline in one parameter, or in one of several
_LEAST, _USUAL = 10, 50  # draws for each coefficient: at the least, and for errors
_MANY = 24  # different numbers, from which on knots are quantiles


@dataclass(frozen=True)
class Estimate:
    """A number and its Monte Carlo error."""

    value: float
    mcse: float


def evpi(values: ArrayLike) -> Estimate:
    """Value of perfect information, from values of decisions in draws.

    Parameters
    ----------
    values
        ``[D, P]``: of every draw and decision.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.information.evpi([[0, 1], [0, -1]]).value
    0.5
    """
    y = _values(values)
    gain = y.max(axis=1) - y[:, int(y.mean(axis=0).argmax())]
    return _mean(gain)


def evppi(values: ArrayLike, parameters: ArrayLike) -> Estimate:
    """Value of knowing some parameters, by regression; needs scikit-learn.

    Parameters
    ----------
    values
        ``[D, P]``: of every draw and decision.
    parameters
        ``[D]`` or ``[D, Q]``: to be known, of the same draws. Two are taken jointly;
        of more, effects are added up.

    Notes
    -----
    A spline of one parameter has 8 coefficients, of two jointly 36, of four 21. Half
    the draws fit them: with few draws for each, decisions are often chosen wrongly, so
    that the value is far too low and its error too small. Fewer than 10 draws for each
    are refused, fewer than 50 warned of.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> p = np.random.default_rng(0).normal([1, 0], [1, 2], (20_000, 2))
    >>> found = bm.information.evppi(np.c_[0 * p[:, 0], p[:, 0] - p[:, 1]], p[:, 1])
    >>> abs(found.value - 0.3955931) < 3 * found.mcse
    True
    """
    y, x = _read(values, parameters)
    return _regressed(y, spline_basis(x, np.ones(x.shape[1])))


def evsi(values: ArrayLike, parameters: ArrayLike, n: float, n0: ArrayLike) -> Estimate:
    """Value of a study of ``n`` observations about some parameters.

    Parameters
    ----------
    values, parameters
        As in `evppi`, and as many draws.
    n
        Size of the study.
    n0
        Observations that what is known already is worth: the variance of one
        observation over that of its mean. One number, or one for each parameter.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> p = np.random.default_rng(0).normal([1, 0], [1, 2], (20_000, 2))
    >>> y = np.c_[0 * p[:, 0], p[:, 0] - p[:, 1]]
    >>> found = bm.information.evsi(y, p[:, 0], n=10, n0=1)
    >>> abs(found.value - 0.0723251) < 3 * found.mcse
    True
    """
    y, x = _read(values, parameters)
    n = _checks.real("n", n, ArgumentError, 0)
    before = np.asarray(n0, dtype=np.float64)
    if before.ndim > 1 or not (before >= 0).all() or before.size not in (1, len(x.T)):
        raise ArgumentError(
            "`n0` must be a number, 0 or more, or one for each parameter; got "
            f"{n0!r:.40}."
        )
    share = np.broadcast_to(n / np.maximum(n + before, 1e-300), x.shape[1:])
    return _regressed(y, spline_basis(x, np.sqrt(share)))


def spline_basis(x: FloatArray, factor: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bases to fit on and to predict with, ``[D, B]``, of parameters ``[D, Q]``.

    The second is drawn towards its mean by the ``factor`` [Q] of its parameters.
    """
    sklearn = _checks.extra("sklearn.preprocessing", "clinical", "regression on draws")
    made, pull = [np.ones((len(x), 1))], [np.ones(1)]
    for q in range(x.shape[1]):
        n = np.unique(x[:, q]).size
        if n < 2:
            continue
        way = sklearn.SplineTransformer(
            n_knots=min(_KNOTS if x.shape[1] == 1 else _FEWER, n),
            degree=min(3, n - 1),
            knots="quantile" if n >= _MANY else "uniform",
            extrapolation="linear",
            include_bias=False,
        )
        made.append(way.fit_transform(x[:, q : q + 1]))
        pull.append(np.full(made[-1].shape[1], factor[q]))
    if len(made) == 3:  # two parameters: jointly
        made.append((made[1][:, :, None] * made[2][:, None, :]).reshape(len(x), -1))
        pull.append(np.full(made[-1].shape[1], factor[0] * factor[1]))
    fitted, shrink = np.hstack(made), np.concatenate(pull)
    mean = fitted.mean(axis=0)
    return fitted, mean + shrink * (fitted - mean)


def split_gain(
    y: FloatArray,
    basis: tuple[FloatArray, FloatArray],
    level: FloatArray | None = None,
    half: IntArray | None = None,
) -> FloatArray:
    """Gain of each draw ``[D]`` when the other half of them decides.

    ``y`` [D, P] are values. Half the draws fit, predict and choose, also what would be
    chosen without more data; the others say what both are worth, as fitted to *their*
    values. What residuals do to that fit is added, which leaves the mean as it is and
    makes its error right. With ``level`` [P], means of decisions are known. ``half``
    [D] says on which side, 0 or 1, a draw is; where not given, they take turns.
    """
    fit_on, predict_with = basis
    gain, side = np.empty(len(y)), np.arange(len(y)) % 2 if half is None else half
    for turn in (0, 1):
        mine, others = side == turn, side != turn
        mean = predict_with[mine].mean(axis=0)
        slopes = _slopes(fit_on[others], y[others])
        centre = mean @ slopes if level is None else level
        best = int(centre.argmax())
        offset = 0.0 if level is None else level - mean @ slopes
        chosen = (predict_with[mine] @ slopes + offset).argmax(axis=1)
        slopes = _slopes(fit_on[mine], y[mine])
        offset = 0.0 if level is None else level - mean @ slopes
        worth = predict_with[mine] @ slopes + offset
        picked = np.take_along_axis(worth, chosen[:, None], axis=1)[:, 0]
        weight = np.zeros_like(worth)
        np.put_along_axis(weight, chosen[:, None], 1.0, axis=1)
        weight[:, best] -= 1.0
        pulled = predict_with[mine] if level is None else predict_with[mine] - mean
        pull = _slopes(fit_on[mine].T @ fit_on[mine], pulled.T @ weight)
        left = y[mine] - fit_on[mine] @ slopes
        gain[mine] = picked - worth[:, best] + ((fit_on[mine] @ pull) * left).sum(1)
    return gain


def _slopes(x: FloatArray, y: FloatArray) -> FloatArray:
    """Coefficients of a regression, ``[B, P]``."""
    return np.asarray(np.linalg.lstsq(x, y, rcond=1e-10)[0])


def _values(values: ArrayLike) -> FloatArray:
    y = _checks.float_array("values", values, ("draw", "decision"), ArgumentError)
    if y.shape[0] < 2 or y.shape[1] < 1:
        raise ArgumentError(
            f"`values` must have 2 draws and a decision, or more; got shape {y.shape}."
        )
    return y


def _read(values: ArrayLike, parameters: ArrayLike) -> tuple[FloatArray, FloatArray]:
    y = _values(values)
    given = np.asarray(parameters)
    table = given[:, None] if given.ndim == 1 else given
    axes = ("draw", "parameter")
    x = _checks.float_array("parameters", table, axes, ArgumentError)
    if len(x) != len(y):
        raise ArgumentError(
            f"`parameters` must have a row for each of {len(y)} draws; got {len(x)}."
        )
    return y, x


def _regressed(y: FloatArray, basis: tuple[FloatArray, FloatArray]) -> Estimate:
    """Return the mean gain, where there are draws enough for a regression."""
    n, k = basis[0].shape
    many = _checks.many(k, "coefficient")
    if n < _LEAST * k:
        raise ArgumentError(
            f"`values` must have {_LEAST * k} draws or more for a regression with "
            f"{many}; got {n}: give more draws, or fewer `parameters`."
        )
    if n < _USUAL * k:
        warnings.warn(
            f"{n} draws are few for a regression with {many}: the value is "
            "likely too low, by more than its Monte Carlo error says; give "
            f"{_USUAL * k} draws or more, or fewer `parameters`.",
            BayesmdpWarning,
            stacklevel=3,
        )
    return _mean(split_gain(y, basis))


def _mean(gain: FloatArray) -> Estimate:
    return Estimate(float(gain.mean()), float(plain_mcse(gain)))


FEW = 100  # models
_REPLICATES = 400


class ModelStudy:
    """Gains of knowing rows, for decisions with values in every model."""

    def __init__(self, ensemble: Ensemble, h: FloatArray, seed: int) -> None:
        self.ensemble, self.layout, self.h = ensemble, ensemble.layout, h
        self.weights = ensemble.weights
        self.few = not ensemble.sampled and ensemble.n_models <= FEW
        key = _checks.stream_key(seed, "information visits").tolist()
        self.rng = np.random.default_rng(key)

    def gain(
        self, row: Sequence[int], gaps: FloatArray, n: int | None
    ) -> tuple[float, float]:
        """Gain and error of knowing rows, or of ``n`` visits shared evenly by them.

        ``gaps`` [P, M] are values of decisions, less those of the best.
        """
        if not self.few:
            return self._regressed(row, gaps, n)
        if n is None:
            return self._told_apart(row, gaps), 0.0
        return self._visited(row, gaps, n)

    def _rows(self, row: Sequence[int]) -> list[FloatArray]:
        indptr = self.layout.indptr
        return [self.ensemble.table[:, indptr[i] : indptr[i + 1]] for i in row]

    def _told_apart(self, row: Sequence[int], gaps: FloatArray) -> float:
        table = np.hstack(self._rows(row)).round(12)
        _, group = np.unique(table, axis=0, return_inverse=True)
        sums = np.zeros((group.max() + 1, len(gaps)))
        np.add.at(sums, group.ravel(), (gaps * self.weights).T)
        best = float((gaps @ self.weights).max())
        return max(float(sums.max(axis=1).sum()) - best, 0.0)

    def _visited(
        self, row: Sequence[int], gaps: FloatArray, n: int
    ) -> tuple[float, float]:
        each, more = divmod(n, len(row))
        best = int((gaps @ self.weights).argmax())
        gain, squared = 0.0, 0.0
        with np.errstate(divide="ignore"):
            prior = np.log(self.weights)
        for model in np.flatnonzero(self.weights):
            log_like = np.tile(prior, (_REPLICATES, 1))
            for at, table in enumerate(self._rows(row)):
                p = table[model] / table[model].sum()
                seen = self.rng.multinomial(each + (at < more), p, _REPLICATES)
                with np.errstate(divide="ignore"):
                    logs = np.maximum(np.log(table), -1e250)
                log_like += seen @ logs.T
            log_like -= log_like.max(axis=1, keepdims=True)
            after = np.exp(log_like)
            after /= after.sum(axis=1, keepdims=True)
            expected = after @ gaps.T
            found = expected.max(axis=1) - expected[:, best]
            gain += self.weights[model] * found.mean()
            squared += self.weights[model] ** 2 * found.var() / _REPLICATES
        return gain, float(np.sqrt(squared))

    def _regressed(
        self, row: Sequence[int], gaps: FloatArray, n: int | None
    ) -> tuple[float, float]:
        indptr = self.layout.indptr
        taken = _even_draws(self.weights)
        models, copy_of = np.unique(taken, return_inverse=True)
        if models.size < 2:
            return 0.0, 0.0
        # all copies of a model on one side, or what decides would value itself
        half = np.random.default_rng(1).permutation(models.size)[copy_of] % 2
        x, pull = [], []
        for i, table in zip(row, self._rows(row), strict=True):
            h = self.h[indptr[i] : indptr[i + 1]]
            value, square = table[taken] @ h, table[taken] @ h**2
            x.append(value)
            noise, spread = float((square - value**2).mean()), float(value.var())
            share = 1.0
            if n is not None:
                each = n / len(row)
                share = each * spread / max(each * spread + noise, 1e-300)
            pull.append(np.sqrt(share))
        basis = spline_basis(np.stack(x, axis=1), np.array(pull))
        found = split_gain(np.ascontiguousarray(gaps[:, taken].T), basis, half=half)
        error = found.std() * np.sqrt(self.weights @ self.weights)
        return float(found.mean()), float(error)


def _even_draws(weights: FloatArray) -> FloatArray:
    """Models as often as their weights say: systematic, in mixed order."""
    if np.ptp(weights) == 0:
        number = np.arange(weights.size)
    else:
        n = 4 * weights.size
        ends = np.cumsum(weights)
        number = np.searchsorted(ends, (np.arange(n) + 0.5) / n * ends[-1])
    return np.random.default_rng(0).permutation(number)
