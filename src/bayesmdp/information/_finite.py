"""Value of information where models are given: an ensemble.

**Few models** that are no sample are taken for all there are. A row tells apart the
models that differ in it, and visits are evidence for models by Bayes' rule; values are
then exact but for the simulated visits. **Many models, or a sample,** are taken for
draws of something continuous: a single draw's row would give its number away, so
conditional means are regressions on ``x = theta.h`` (`_samples`), and ``n`` visits
count as ``n / (n + n0)`` of knowing it, ``n0 = E[Var_theta(h)] / Var(x)``.
"""

from collections.abc import Sequence

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.information._samples import spline_basis, split_gain
from bayesmdp.posterior import Ensemble, stream_key

FEW = 100  # models
_REPLICATES = 400


class ModelStudy:
    """Gains of knowing rows, for decisions with values in every model."""

    def __init__(self, ensemble: Ensemble, h: FloatArray, seed: int) -> None:
        self.ensemble, self.layout, self.h = ensemble, ensemble.layout, h
        self.weights = ensemble.weights
        self.few = not ensemble.sampled and ensemble.n_models <= FEW
        key = stream_key(seed, "information visits").tolist()
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
