"""Whether chains have converged, and how many independent draws they are worth.

R-hat and effective sample sizes as in Vehtari, Gelman, Simpson, Carpenter and Buerkner
(2021): chains are split in halves and rank-normalised; R-hat is the larger of that of
the values and of their distances to the median.
"""

from dataclasses import dataclass

import numpy as np

from bayesmdp._checks import many
from bayesmdp._sheet import Sheet, Shown
from bayesmdp._typing import FloatArray

# Above, chains disagree. Some hundred states of slow chains have up to 1.1 by chance.
_RHAT = 1.2
_ESS = 30.0  # below, there are too few effective states


@dataclass(frozen=True, repr=False)
class Diagnostics(Shown):
    """R-hat and effective sample size of each quantity, by name."""

    rhat: dict[str, float]
    ess: dict[str, float]
    n_chains: int
    n_kept: int  # states of all chains

    @property
    def problems(self) -> list[str]:
        """Say what has not converged, one sentence each."""
        far = {name: x for name, x in self.rhat.items() if x > _RHAT}
        few = {name: x for name, x in self.ess.items() if x < _ESS and name not in far}
        said = [
            f"The chains disagree about {name} (R-hat {x:.2f}, should be below "
            f"{_RHAT}): results may depend on where they began."
            for name, x in far.items()
        ]
        return said + [
            f"The chains move slowly in {name}: {self.n_kept} states are as good as "
            f"{x:.0f} independent ones."
            for name, x in few.items()
        ]

    def _sheet(self, shown: int = 10) -> Sheet:
        worst = max(self.rhat, key=lambda name: self.rhat[name])
        least = min(self.ess, key=lambda name: self.ess[name])
        return Sheet(
            f"{many(self.n_chains, 'chain')}, {many(self.n_kept, 'state')}: R-hat at "
            f"most {self.rhat[worst]:.2f} ({worst}), effective sample size at least "
            f"{self.ess[least]:.0f} ({least})",
            [],
        )

    def __repr__(self) -> str:
        return f"Diagnostics({self.summary()})"


def diagnose(quantities: dict[str, FloatArray]) -> Diagnostics:
    """Diagnose quantities, each ``[C, M]``: chains and their states."""
    n_chains, n_kept = next(iter(quantities.values())).shape
    return Diagnostics(
        {name: rhat(x) for name, x in quantities.items()},
        {name: ess(x) for name, x in quantities.items()},
        n_chains,
        n_chains * n_kept,
    )


def rhat(x: FloatArray) -> float:
    """R-hat of chains ``[C, M]``; 1 where nothing varies."""
    halves = _halves(x)
    if _constant(halves):
        return 1.0
    folded = np.abs(halves - np.median(halves))
    return max(_plain_rhat(_normalised(halves)), _plain_rhat(_normalised(folded)))


def ess(x: FloatArray) -> float:
    """Effective sample size for the mean of chains ``[C, M]``."""
    halves = _halves(x)
    n = halves.shape[1]
    if _constant(halves):
        return float(halves.size)
    within = halves.var(axis=1, ddof=1).mean()
    between = n * halves.mean(axis=1).var(ddof=1)
    total = within * (n - 1) / n + between / n
    off = halves - halves.mean(axis=1, keepdims=True)
    f = np.fft.rfft(off, 2 * n, axis=1)
    covariance = np.fft.irfft(f * f.conj(), axis=1)[:, :n] / n
    rho = 1 - (within - covariance.mean(axis=0) * n / (n - 1)) / total
    rho[0] = 1.0
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    end = np.flatnonzero(pairs <= 0)
    pairs = np.minimum.accumulate(pairs[: end[0]] if end.size else pairs)
    tau = max(2 * pairs.sum() - 1, 1 / np.log10(halves.size))
    return float(halves.size / tau)


def _constant(x: FloatArray) -> bool:
    """Whether values differ by rounding alone."""
    return bool(np.ptp(x) <= 1e-9 * np.abs(x).max())


def _halves(x: FloatArray) -> FloatArray:
    n = x.shape[1] // 2
    return np.concatenate([x[:, :n], x[:, -n:]])


def _normalised(x: FloatArray) -> FloatArray:
    """Return normal scores of ranks."""
    from scipy.special import ndtri

    _, place, number = np.unique(x, return_inverse=True, return_counts=True)
    rank = (np.cumsum(number) - (number - 1) / 2)[place].reshape(x.shape)
    return np.asarray(ndtri((rank - 0.375) / (x.size + 0.25)))


def _plain_rhat(x: FloatArray) -> float:
    n = x.shape[1]
    within = x.var(axis=1, ddof=1).mean()
    if within == 0:
        return float("inf") if np.ptp(x) > 0 else 1.0
    between = x.mean(axis=1).var(ddof=1)
    return float(np.sqrt((n - 1) / n + between / within))
