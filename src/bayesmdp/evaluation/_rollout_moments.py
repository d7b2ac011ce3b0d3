"""The law of total variance, where every draw is known by a few roll-outs only.

With ``m[d]`` the mean and ``v[d]`` the unbiased variance of ``n`` returns from a state
in draw ``d``::

    value        mean m
    aleatoric^2  mean v
    epistemic^2  Var(m) - mean v / n
    total^2      epistemic^2 + aleatoric^2

``Var(m)`` over draws (ddof 1) alone would be too large: means of ``n`` returns differ
between draws by chance too, by ``aleatoric^2 / n`` on average. What is left may come
out below 0, and is then 0. From the start distribution ``rho``, whose states are left
separately, ::

    m  =  rho.m             which varies by chance by  sum_s rho[s]^2 v[s] / n
    v  =  rho.v + sum_s rho[s] (m[s] - rho.m)^2 - sum_s rho[s] (1 - rho[s]) v[s] / n

where the last sum again takes off what chance adds. Draws are independent and bring
their own roll-outs, so the spread over draws of a summand, over ``sqrt(D)``, is the
error of its mean, and holds both sources of noise. The error of a root is that of its
square over twice the root, and at most the root of the square's error.
"""

from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import FloatArray

_FEW = 30  # draws that cannot show their kurtosis: at least a normal's


@dataclass(frozen=True, eq=False)
class Estimates:
    """Four quantities and their errors, for any number of states ``[K]``."""

    value: FloatArray
    value_error: FloatArray
    epistemic_sd: FloatArray
    epistemic_sd_error: FloatArray
    aleatoric_sd: FloatArray
    aleatoric_sd_error: FloatArray
    total_sd: FloatArray
    total_sd_error: FloatArray


def of_states(m: FloatArray, v: FloatArray, n: int) -> Estimates:
    """Estimates of states from means and variances ``[D, S]`` of ``n`` roll-outs."""
    return _estimates(m, v, v / n)


def of_start(m: FloatArray, v: FloatArray, n: int, rho: FloatArray) -> Estimates:
    """Estimates from the start distribution, ``[1]``."""
    start = from_start(m, rho)[:, None]
    chance = from_start((m - start) ** 2, rho) + from_start(v, rho)
    chance -= from_start(v, rho * (1 - rho)) / n
    noise = from_start(v, rho**2) / n
    return _estimates(start, chance[:, None], noise[:, None])


def from_start(x: FloatArray, rho: FloatArray) -> FloatArray:
    """Sum states ``[D, S]`` by weights ``[S]``, without the threads of BLAS."""
    return np.asarray(np.einsum("ds,s->d", x, rho))


def _estimates(m: FloatArray, v: FloatArray, noise: FloatArray) -> Estimates:
    """Estimates from means, variances, and the means' variance by chance ``[D, K]``."""
    n = m.shape[0]
    between = m.var(axis=0, ddof=1)
    aleatoric = np.maximum(v.mean(axis=0), 0.0)
    epistemic = np.maximum(between - noise.mean(axis=0), 0.0)
    squares = (m - m.mean(axis=0)) ** 2 - noise
    least = 2.0 * between**2 if n < _FEW else np.zeros_like(between)

    def error(summand: FloatArray, least: FloatArray) -> FloatArray:
        spread = np.maximum(summand.var(axis=0, ddof=1), least)
        return np.asarray(np.sqrt(spread / n))

    return Estimates(
        value=m.mean(axis=0),
        value_error=np.sqrt(between / n),
        epistemic_sd=np.sqrt(epistemic),
        epistemic_sd_error=_of_root(error(squares, least), epistemic),
        aleatoric_sd=np.sqrt(aleatoric),
        aleatoric_sd_error=_of_root(error(v, 0.0 * least), aleatoric),
        total_sd=np.sqrt(epistemic + aleatoric),
        total_sd_error=_of_root(error(squares + v, least), epistemic + aleatoric),
    )


def _of_root(error: FloatArray, square: FloatArray) -> FloatArray:
    """Error of a root from that of its square, also where the square is 0."""
    over = np.maximum(2.0 * np.sqrt(square), np.sqrt(error))
    return np.where(over > 0, error / np.where(over > 0, over, 1.0), 0.0)
