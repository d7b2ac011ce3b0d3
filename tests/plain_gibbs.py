"""A plain sampler of the hierarchical belief, to test the package's against.

Nothing is summed out that need not be, and nothing is shared with the package:
strengths, hyperparameters, tables and rows are drawn one after the other, with NumPy.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Array = NDArray[np.float64]


def sample(
    n: Array, base: Array, n_sweeps: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Rows ``[D, S, A, T]`` and whether actions do nothing ``[D, S]``.

    For visits ``n`` [S, A, T] and a base measure ``[T]``; a fifth of the sweeps is
    left out.
    """
    n_states, n_actions, n_next = n.shape
    log_c = np.linspace(0.0, np.log(100 * n.sum(axis=2).max()), 30)
    c_grid, k_grid = np.exp(log_c), np.geomspace(1e-4, 1e7, 250)
    where = np.linspace(0.0, log_c[-1], 80)[:, None, None]
    scale = np.exp(np.linspace(np.log(0.3), np.log(6.0), 40))[None, :, None]
    slabs = np.exp(-0.5 * ((log_c - where) / scale) ** 2) + 0.03
    slabs = (slabs / slabs.sum(axis=2, keepdims=True)).reshape(-1, 30)
    log_k = np.log(k_grid)
    middle = np.linspace(np.log(0.1), np.log(1e4), 80)[:, None, None]
    width = np.exp(np.linspace(np.log(0.3), np.log(3.0), 40))[None, :, None]
    of_k = -0.5 * ((log_k - middle) / width) ** 2 - np.log(width)  # not cut to the grid
    of_k = of_k.reshape(-1, log_k.size)
    w, slab, k_prior = 0.5, np.full(30, 1 / 30), np.zeros(log_k.size)
    k = np.empty(n_states)
    mu = np.maximum(rng.dirichlet(np.ones(n_next), n_states), 1e-300)
    rows, none = [], []
    for sweep in range(n_sweeps):
        strength = np.full(n_states, np.inf)
        place = np.full(n_states, -1)
        for s in range(n_states):
            alpha = c_grid[:, None, None] * mu[s]
            fit = (gammaln(alpha + n[s]) - gammaln(alpha)).sum(axis=(1, 2))
            total = n[s].sum(axis=1)
            fit += (gammaln(c_grid)[:, None] - gammaln(c_grid[:, None] + total)).sum(1)
            log = np.append(np.log((1 - w) * slab) + fit, np.log(w))
            log[-1] += (n[s] * np.log(mu[s])).sum()
            p = np.exp(log - log.max())
            i = rng.choice(31, p=p / p.sum())
            if i < 30:
                strength[s], place[s] = c_grid[i], i
        far = place < 0
        w = rng.beta(1 + far.sum(), 1 + (~far).sum())
        log = np.log(slabs[:, place[~far]]).sum(axis=1)
        p = np.exp(log - log.max())
        slab = slabs[rng.choice(p.size, p=p / p.sum())]
        m = np.zeros((n_states, n_next))
        for s, a, t in np.argwhere(n > 0):
            x, visits = strength[s] * mu[s, t], int(n[s, a, t])
            seat = np.arange(visits)
            chance = x / (x + seat) if np.isfinite(x) else np.ones(visits)
            m[s, t] += (rng.random(visits) < chance).sum()
        alpha = k_grid[:, None] * base
        at = np.empty(n_states, dtype=int)
        for s in range(n_states):
            log = (gammaln(alpha + m[s]) - gammaln(alpha)).sum(axis=1)
            log += gammaln(k_grid) - gammaln(k_grid + m[s].sum()) + k_prior
            p = np.exp(log - log.max())
            at[s] = rng.choice(p.size, p=p / p.sum())
            k[s] = k_grid[at[s]]
        log = of_k[:, at].sum(axis=1)
        p = np.exp(log - log.max())
        k_prior = of_k[rng.choice(p.size, p=p / p.sum())]
        mu = np.array([rng.dirichlet(k[s] * base + m[s]) for s in range(n_states)])
        mu = np.maximum(mu, 1e-300)
        if sweep >= n_sweeps // 5:
            theta = np.empty(n.shape)
            for s in range(n_states):
                for a in range(n_actions):
                    theta[s, a] = mu[s]
                    if not far[s]:
                        theta[s, a] = rng.dirichlet(strength[s] * mu[s] + n[s, a])
            rows.append(theta)
            none.append(far)
    return np.array(rows), np.array(none, dtype=np.float64)
