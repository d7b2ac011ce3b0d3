"""What is noise: Monte Carlo errors of all estimators, and differences that are none.

**Means** of ``n`` draws: ``sd / sqrt(n)``, with weights the weighted one. Differences
of policies are means of differences, draw by draw.

**The four quantities** of an evaluation. With central moments ``m2``, ``m4`` of a value
``V`` and a return variance ``R`` over draws::

    value          mean V                      error  sd(V) / sqrt(D), or with controls
    epistemic_sd   sqrt(D m2 / (D - 1))        error  sd sqrt((kurtosis - 1) / (4 D))
    aleatoric_sd   sqrt(mean R)                error  sd(R) / sqrt(D) / (2 sd)
    total_sd       sqrt(epistemic^2            error  sd((V - m)^2 + R) / sqrt(D)
                        + aleatoric^2)                / (2 sd)

**Means with control variates** ``c`` of mean 0. With ``f`` the value less the controls
at their expected coefficients (which are unbiased), ``x`` a row of 1 and the controls
over their root mean squares, ``a = (x x' + diag(0, l, l))^-1 x f'``: a regression that
stays where it is expected where the draws do not tell, with the weight of ``l`` draws.
The residuals of a regression are too small exactly where it matters: with small
concentrations a few draws lie far out, the regression follows them, and the rest look
alike. With the leverage ``h[i] = x[:, i]' (x x' + ..)^-1 x[:, i]`` of a draw (its pull
on its own fit) and ``w[i]`` its weight in the mean, the error is that of Cribari-Neto
(2004, HC4), in place of that of plain residuals ``e``::

    error^2 = sum_i w[i]^2 e[i]^2 / (1 - h[i])^min(4, h[i] / mean(h))

Where that is more than twice the error without controls, they are left out; the factor
2 stays, since the draws themselves were asked. `docs/performance.md` has what these
errors cover.

**Roll-outs**, where every draw is known by a few returns only. With ``m[d]`` the mean
and ``v[d]`` the unbiased variance of ``n`` returns from a state in draw ``d``::

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

**Finite chains and samples.** Where draws come from Markov chains, or models are
themselves a sample (`Ensemble.from_function`), the mean over all of them is off, too,
by a share ``chain`` of the variance over draws (`Belief.chain_noise`): a squared error
has that variance of its summand, without controls, times ``chain``, on top. It is all
there is where every model is swept once (``exact``).

**Anything else**, such as an objective that is no mean: a bootstrap over draws.

**Ties.** Policies that do the same where it matters have values that differ by
rounding, and by what iterations leave. Such a difference is no difference: it is
exactly 0, in the mean and in every draw, and a draw without a difference counts for
neither policy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray
from bayesmdp.errors import TooLargeError

_FEW = 30  # draws that cannot show their kurtosis: at least a normal's
_ENOUGH = 16  # draws, below which coefficients are not estimated
_PULL = 0.1  # draws that stand for the expected coefficients
_MOST = 2.0  # times the error without controls; beyond, they are left out
_ROUNDING = 1e-13  # share of a value below which its variation is rounding
_RESAMPLES = 200
_TIE = 1e-9  # share of a value; iterations are right to 1e-10 of the largest


@dataclass(frozen=True, eq=False)
class Estimates:
    """Four quantities and their errors, for any number of states."""

    value: FloatArray
    value_mcse: FloatArray
    epistemic_sd: FloatArray
    epistemic_sd_mcse: FloatArray
    aleatoric_sd: FloatArray
    aleatoric_sd_mcse: FloatArray
    total_sd: FloatArray
    total_sd_mcse: FloatArray

    def __post_init__(self) -> None:
        """Refuse estimates that overflowed, also those of the start.

        A total sd may be NaN throughout, where no outcome has it.
        """
        given = vars(self)
        for name in ESTIMATED:
            found, start = given[name], given.get(f"start_{name}", 0.0)
            if np.vdot(found, found) < np.inf and abs(start) < np.inf:
                continue  # as good as always, and looked at in no time
            both = np.append(getattr(self, name), getattr(self, f"start_{name}", []))
            unknown = name in TOTAL and np.isnan(both).all()
            if not (unknown or np.isfinite(both).all()):
                raise TooLargeError(
                    f"`{name}` of this policy is not finite: its values are too large; "
                    "use a smaller discount, or give rewards in larger units."
                )


ESTIMATED = tuple(x.name for x in fields(Estimates))
TOTAL = ESTIMATED[6:]


@dataclass(frozen=True, eq=False)
class Size:
    """How many draws stand behind an estimate, and what they weigh together."""

    n: int
    weights: FloatArray  # [n]
    exact: bool  # every model there is: population moments, no error but ``chain``
    chain: float = 0.0  # noise of finite chains and samples, see above

    @cached_property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    def mean(self, values: FloatArray) -> FloatArray:
        """Weighted mean over draws, the last axis."""
        return np.asarray(values @ self.weights / self.total)


def mean_and_mcse(
    values: FloatArray, weights: FloatArray, *, exact: bool = False, chain: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Weighted mean over draws, the last axis, and its error.

    Where ``exact``, that of the chain alone.
    """
    share = weights / weights.sum()
    mean = np.asarray(values @ share)
    variance = (values - mean[..., None]) ** 2 @ share
    noise = chain + (0.0 if exact else 1 / max(weights.size - 1, 1))
    return mean, np.asarray(np.sqrt(variance * noise))


def plain_mcse(values: FloatArray) -> FloatArray:
    """Error of the mean of independent numbers of equal weight, the last axis."""
    return mean_and_mcse(values, np.ones(values.shape[-1]))[1]


def share_mcse(p: FloatArray | float, noise: float) -> FloatArray:
    """Error of a share: ``noise`` is one over the number of draws, and of chains."""
    return np.asarray(np.sqrt(np.maximum(p * (1.0 - p), 0.0) * noise))


def bootstrap_mcse(
    statistic: Callable[[FloatArray], float],
    weights: FloatArray,
    *,
    exact: bool = False,
    chain: float = 0.0,
) -> float:
    """Error of a function of the draws' probabilities ``[D]``.

    Resamples are the same for the same weights, so that errors are reproducible.
    """
    if exact and not chain:
        return 0.0
    rng = np.random.default_rng(0)
    share = weights / weights.sum()
    counts = rng.multinomial(weights.size, share, size=_RESAMPLES) / weights.size
    spread = np.std([statistic(probability) for probability in counts], ddof=1)
    return float(spread * np.sqrt((not exact) + chain * weights.size))


def from_moments(
    size: Size,
    value: FloatArray,
    value_variance: FloatArray,
    m2: FloatArray,
    m4: FloatArray,
    r: FloatArray,
    r2: FloatArray,
    vvr: FloatArray,
) -> Estimates:
    """Put moments over draws together."""
    degrees = max(size.n - 1, 1)
    unbias = 1.0 if size.exact else size.n / degrees
    noise = 0.0 if size.exact else 1.0 / degrees
    chain = size.chain
    noise_of_squares = chain + (0.0 if size.exact else 1.0 / size.n)
    if size.n < _FEW:  # few draws cannot show their kurtosis: at least a normal's
        m4 = np.maximum(m4, 3.0 * m2**2)
    epistemic = np.sqrt(m2 * unbias)
    aleatoric = np.sqrt(np.maximum(r, 0.0))
    total = np.sqrt(epistemic**2 + aleatoric**2)
    square = np.maximum(m4 - m2**2, 0.0)
    return Estimates(
        value=value,
        value_mcse=np.sqrt(value_variance * noise + m2 * chain),
        epistemic_sd=epistemic,
        epistemic_sd_mcse=_half(np.sqrt(square * noise_of_squares), epistemic),
        aleatoric_sd=aleatoric,
        aleatoric_sd_mcse=_half(np.sqrt(r2 * (noise + chain)), aleatoric),
        total_sd=total,
        total_sd_mcse=_half(
            np.sqrt(np.maximum(square + r2 + 2 * vvr, 0.0) * noise_of_squares), total
        ),
    )


def _half(error: FloatArray, sd: FloatArray) -> FloatArray:
    """Error of a root from that of its square."""
    safe = np.where(sd > 0, sd, 1.0)
    return np.where(sd > 0, error / (2 * safe), 0.0)


def from_rollouts(m: FloatArray, v: FloatArray, noise: FloatArray) -> Estimates:
    """Estimates from means, variances, and the means' variance by chance ``[D, K]``.

    Draws are independent and bring their own roll-outs, so the spread over draws of a
    summand, over ``sqrt(D)``, is the error of its mean, with both sources of noise.
    """
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
        value_mcse=np.sqrt(between / n),
        epistemic_sd=np.sqrt(epistemic),
        epistemic_sd_mcse=_of_root(error(squares, least), epistemic),
        aleatoric_sd=np.sqrt(aleatoric),
        aleatoric_sd_mcse=_of_root(error(v, 0.0 * least), aleatoric),
        total_sd=np.sqrt(epistemic + aleatoric),
        total_sd_mcse=_of_root(error(squares + v, least), epistemic + aleatoric),
    )


def _of_root(error: FloatArray, square: FloatArray) -> FloatArray:
    """Error of a root from that of its square, also where the square is 0."""
    over = np.maximum(2.0 * np.sqrt(square), np.sqrt(error))
    return np.where(over > 0, error / np.where(over > 0, over, 1.0), 0.0)


def fit_coefficients(
    values: FloatArray, controls: FloatArray, expected: FloatArray
) -> tuple[FloatArray, float]:
    """Coefficients ``[K]`` of controls ``[K, D]`` of mean 0, and their inflation.

    ``expected`` are the coefficients where the draws do not tell.
    """
    tiny, spread = _ROUNDING * float(np.abs(values).max()), _spread(values)
    if spread <= tiny:
        return expected, 1.0
    coefficients, inflation = expected, 1.0
    if values.size >= _ENOUGH:
        coefficients, inflation = _regress(values, controls, expected, tiny)
    residuals = values - coefficients @ controls
    if inflation * _spread(residuals) > _MOST * spread:
        return np.zeros_like(expected), _MOST
    return coefficients, inflation


def _spread(values: FloatArray) -> float:
    """Return the standard deviation of ``[D]``, with fewer calls than NumPy's."""
    off = values - values.mean()
    return float(np.sqrt(off @ off / values.size))


def _regress(
    values: FloatArray, controls: FloatArray, expected: FloatArray, tiny: float
) -> tuple[FloatArray, float]:
    """Return coefficients and inflation by the formulae above."""
    n = values.size
    scale = np.sqrt((controls**2).mean(axis=1))
    scale[scale <= tiny] = np.inf  # no control at all
    x = np.ones((scale.size + 1, n))
    np.divide(controls, scale[:, None], out=x[1:])
    gram = x @ x.T
    gram.flat[scale.size + 2 :: scale.size + 2] += _PULL  # the diagonal but the first
    inverse = np.linalg.inv(gram)
    free = values - expected @ controls
    free = free - free.mean()
    found = inverse @ (x @ free)
    residuals = free - found @ x
    leverage = np.einsum("kd,kd->d", x, inverse @ x)
    power = np.minimum(4.0, leverage / leverage.mean())
    influence = inverse[0] @ x * residuals / (1.0 - leverage) ** (power / 2)
    plain = residuals @ residuals / (n * (n - 1))
    inflation = np.sqrt(influence @ influence / plain) if plain > 0 else 1.0
    return expected + found[1:] / scale, float(inflation)


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


def tie(size: FloatArray) -> FloatArray:
    """Difference up to which values of a size are equal."""
    return np.asarray(_TIE * size)


def gaps(values: FloatArray, reference: FloatArray, least: float = 0.0) -> FloatArray:
    """Values less those of a reference over draws, ``[..., D]``; ties are exactly 0.

    Sizes are those of the draw, but at least the median over draws (a value may happen
    to be 0), and at least ``least``.
    """
    size = np.maximum(np.abs(values), np.abs(reference))
    if size.shape[-1]:
        size = np.maximum(size, np.median(size, axis=-1, keepdims=True))
    found = values - reference
    return np.where(np.abs(found) <= _TIE * np.maximum(size, least), 0.0, found)


def least_size(iterates: bool, values: FloatArray) -> float:
    """Return the size to which a solver is right: iterations look at all states."""
    return float(np.abs(values).max()) if iterates else 0.0


def probability(event: BoolArray, weights: FloatArray) -> float:
    """Weight of the draws ``[D]`` with an event: in [0, 1], and 1 where all have it."""
    total = float(weights.sum())
    return min(float(weights[event].sum()) / total, 1.0) if total > 0 else np.nan
