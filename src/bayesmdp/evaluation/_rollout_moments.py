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

where the last sum again takes off what chance adds. The error of a root is that of its
square over twice the root, and at most the root of the square's error.
"""

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.evaluation._errors import Estimates, from_rollouts


def of_states(m: FloatArray, v: FloatArray, n: int) -> Estimates:
    """Estimates of states from means and variances ``[D, S]`` of ``n`` roll-outs."""
    return from_rollouts(m, v, v / n)


def of_start(m: FloatArray, v: FloatArray, n: int, rho: FloatArray) -> Estimates:
    """Estimates from the start distribution, ``[1]``."""
    start = from_start(m, rho)[:, None]
    chance = from_start((m - start) ** 2, rho) + from_start(v, rho)
    chance -= from_start(v, rho * (1 - rho)) / n
    noise = from_start(v, rho**2) / n
    return from_rollouts(start, chance[:, None], noise[:, None])


def from_start(x: FloatArray, rho: FloatArray) -> FloatArray:
    """Sum states ``[D, S]`` by weights ``[S]``, without the threads of BLAS."""
    return np.asarray(np.einsum("ds,s->d", x, rho))
