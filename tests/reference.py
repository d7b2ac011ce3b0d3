"""A slow, obvious version of the maths in dense NumPy: what tests compare with.

Nothing here calls the package's engine. Symbols as in the package: ``theta[s, a, t]``,
``pi[s, a]``, ``r[s, a, t]``, ``g``, ``rho[s]``.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

import bayesmdp as bm

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """A task in dense arrays."""

    r: Array  # [S, A, S], as a transition reward
    g: float
    rho: Array  # [S]
    ends: NDArray[np.bool_]  # [S]
    terminal_value: Array  # [S]

    @property
    def live(self) -> NDArray[np.int64]:
        return np.flatnonzero(~self.ends)


@dataclass(frozen=True)
class Solved:
    """One policy in one model."""

    value: Array  # [S]
    variance: Array  # [S]
    occupancy: Array  # [S]
    q: Array  # [S, A]


def setting(task: bm.Task, reward: ArrayLike) -> Setting:
    """Write a task in dense arrays; ``reward`` is what the task was made with."""
    given = np.asarray(reward, dtype=np.float64)
    ends = np.zeros(task.n_states, dtype=np.bool_)
    ends[task.terminal] = True
    shape = (task.n_states, task.n_actions, task.n_states)
    terminal_value = np.zeros(task.n_states)
    if given.ndim == 1:
        terminal_value = np.where(ends, given, 0.0)
        r = given[:, None, None] + task.discount * terminal_value[None, None, :]
    elif given.ndim == 2:
        r = given[:, :, None]
    else:
        r = given
    dense = np.array(np.broadcast_to(r, shape))
    return Setting(dense, task.discount, np.array(task.start), ends, terminal_value)


def solve(theta: Array, pi: Array, at: Setting) -> Solved:
    """Value, return variance (Sobel 1982), occupancy and action values."""
    live, g = at.live, at.g
    n_states = at.rho.size
    T = np.einsum("sa,sat->st", pi, theta)
    inner = T[np.ix_(live, live)]
    eye = np.eye(live.size)
    b = np.einsum("sa,sat,sat->s", pi, theta, at.r)
    V = np.zeros(n_states)
    V[live] = np.linalg.solve(eye - g * inner, b[live])
    h = at.r + g * V
    right = np.einsum("sa,sat,sat->s", pi, theta, h**2) - V**2
    variance = np.zeros(n_states)
    variance[live] = np.linalg.solve(eye - g**2 * inner, right[live])
    d = np.zeros(n_states)
    d[live] = np.linalg.solve((eye - g * inner).T, at.rho[live])
    d[at.ends] = at.rho[at.ends] + g * (d[live] @ T[np.ix_(live, at.ends)])
    q = np.einsum("sat,sat->sa", theta, h)
    return Solved(V + at.terminal_value, variance, d, q)


def errors_of(values: Array, variances: Array) -> dict[str, Array]:
    """Estimates and Monte Carlo errors over the first axis, draws.

    The error of a root is that of its square over twice the root; that of a variance
    comes from the spread of squared deviations, so that the error of a standard
    deviation is ``sd sqrt((kurtosis - 1) / (4 D))`` with ``kurtosis = m4 / m2^2`` (up
    to the factor D / (D - 1) between the two variances). Fewer than 30 draws cannot
    show their kurtosis: it is then at least that of a normal distribution, 3.
    """
    n = values.shape[0]
    deviation = values - values.mean(axis=0)
    epistemic = values.std(axis=0, ddof=1)
    aleatoric = np.sqrt(variances.mean(axis=0))
    total = np.sqrt(epistemic**2 + aleatoric**2)
    m2, m4 = (deviation**2).mean(axis=0), (deviation**4).mean(axis=0)
    if n < 30:
        m4 = np.maximum(m4, 3 * m2**2)
    joint = (deviation**2 * (variances - variances.mean(axis=0))).mean(axis=0)
    square = m4 - m2**2
    both = np.maximum(square + variances.var(axis=0) + 2 * joint, 0.0)
    return {
        "value": values.mean(axis=0),
        "value_mcse": epistemic / np.sqrt(n),
        "epistemic_sd": epistemic,
        "epistemic_sd_mcse": _half(np.sqrt(square / n), epistemic),
        "aleatoric_sd": aleatoric,
        "aleatoric_sd_mcse": _half(
            variances.std(axis=0, ddof=1) / np.sqrt(n), aleatoric
        ),
        "total_sd": total,
        "total_sd_mcse": _half(np.sqrt(both / n), total),
    }


def _half(error: Array, sd: Array) -> Array:
    return np.where(sd > 0, error / (2 * np.where(sd > 0, sd, 1.0)), 0.0)


def evaluate(policy: Array, draws: bm.Draws, reward: ArrayLike) -> dict[str, Array]:
    """Every number of an evaluation without control variates, draw by draw."""
    at = setting(draws.belief.task, reward)
    solved = [
        solve(draws.dynamics(i).to_dense(), policy, at) for i in range(draws.n_draws)
    ]
    values = np.array([one.value for one in solved])
    variances = np.array([one.variance for one in solved])
    occupancy = np.array([one.occupancy for one in solved])
    found = errors_of(values, variances)
    starts = values @ at.rho
    chance = (variances + (values - starts[:, None]) ** 2) @ at.rho
    found |= {f"start_{key}": x for key, x in errors_of(starts, chance).items()}
    found["start_values"] = starts
    found["occupancy"] = occupancy.mean(axis=0)
    spread = occupancy.std(axis=0, ddof=1)
    found["occupancy_mcse"] = spread / np.sqrt(draws.n_draws)
    return found


def controlled(
    values: Array, controls: Array, expected: Array
) -> tuple[float, float, Array]:
    """Mean of values ``[D]`` freed of controls ``[K, D]`` of mean 0, error, slopes.

    From 16 draws on, least squares with one line more for each control, which says
    with a weight of 0.1 draws that its slope is the expected one; the error is HC4
    (Cribari-Neto 2004) by the hat matrix. An error above twice the plain one: no
    controls, and twice the plain error.
    """
    n = values.size
    slopes, inflation = expected, 1.0
    if n >= 16:
        size = np.sqrt((controls**2).mean(axis=1))
        design = np.column_stack([np.ones(n), (controls / size[:, None]).T])
        pull = np.sqrt(0.1) * np.eye(design.shape[1])[1:]
        lines = np.vstack([design, pull])
        known = np.concatenate([values, pull[:, 1:] @ (expected * size)])
        slopes = np.linalg.lstsq(lines, known, rcond=None)[0][1:] / size
        hat = design @ np.linalg.pinv(lines)[:, :n]
        weight = np.linalg.pinv(lines)[0, :n]
        left = values - slopes @ controls
        left = left - left.mean()
        leverage = np.diag(hat)
        power = np.minimum(4, leverage / leverage.mean())
        error = np.sqrt(np.sum(weight**2 * left**2 / (1 - leverage) ** power))
        inflation = error / (left.std(ddof=1) / np.sqrt(n))
    left = values - slopes @ controls
    if inflation * left.std() > 2 * values.std():
        slopes, inflation, left = 0 * slopes, 2.0, values
    return left.mean(), inflation * left.std(ddof=1) / np.sqrt(n), slopes


@dataclass(frozen=True)
class Expanded:
    """The nominal model and its second moments."""

    theta: Array  # [S, A, S]
    inverse: Array  # [S, S], zero in rows and columns of terminal states
    value: Array  # [S]
    occupancy: Array  # [S]
    spread: Array  # [S, A], the terms of q
    k: Array  # [S]


def expand(policy: Array, alpha: Array, at: Setting) -> Expanded:
    """Expand around the nominal model, from Dirichlet parameters ``[S, A, S]``."""
    n_states, n_actions = policy.shape
    total = alpha.sum(axis=2)
    theta = alpha / np.where(total > 0, total, 1.0)[:, :, None]
    nominal = solve(theta, policy, at)
    V = nominal.value - at.terminal_value
    T = np.einsum("sa,sat->st", policy, theta)
    X = np.zeros((n_states, n_states))
    inside = np.ix_(at.live, at.live)
    X[inside] = np.linalg.inv(np.eye(at.live.size) - at.g * T[inside])
    spread, k = np.zeros((n_states, n_actions)), np.zeros(n_states)
    for s in at.live:
        for a in range(n_actions):
            p, h = theta[s, a], at.r[s, a] + at.g * V
            w0 = policy[s, a] ** 2 / (total[s, a] + 1.0)
            centred = h - p @ h
            spread[s, a] = w0 * (p @ centred**2)
            k[s] += w0 * (p @ (centred * (X[:, s] - p @ X[:, s])))
    return Expanded(theta, X, nominal.value, nominal.occupancy, spread, k)


def dense_alpha(posterior: bm.Posterior) -> Array:
    """Dirichlet parameters as ``[S, A, S]``, zero where impossible."""
    rows = posterior.layout
    dense = np.zeros((rows.n_states, rows.n_actions, rows.n_states))
    row = np.repeat(np.arange(rows.pair.size), np.diff(rows.indptr))
    dense[rows.state[row], rows.action[row], rows.next_state] = posterior.alpha
    return dense
