"""Value of information by plain nested Monte Carlo, solved model by model in NumPy."""

import numpy as np
from scipy.special import gammaln

import bayesmdp as bm
from bayesmdp._typing import FloatArray, IntArray


def models(belief: bm.Posterior, n: int, seed: int) -> FloatArray:
    """Draw models, ``[n, S, A, S]``."""
    layout, task = belief.rows().layout, belief.task
    theta = np.empty((n, layout.next_state.size))
    used = np.ones(layout.pair.size, dtype=np.bool_)
    belief.stream(n, seed, "oracle").fill(np.arange(n), used, theta)
    full = np.zeros((n, task.n_states, task.n_actions, task.n_states))
    row = layout.row_of_entry
    full[:, layout.state[row], layout.action[row], layout.next_state] = theta
    return full


def start_values(
    belief: bm.Posterior, full: FloatArray, policies: FloatArray
) -> FloatArray:
    """Value of policies ``[P, S, A]`` in models, ``[P, n]``."""
    if isinstance(belief.task.reward, bm.model.Rewards):  # a sum of values
        parts = zip(
            belief.task.parts.values(), belief.task.reward.weights or (), strict=True
        )
        each = (w * start_values(belief.with_task(x), full, policies) for x, w in parts)
        return np.asarray(sum(each))
    layout, task, rows = belief.rows().layout, belief.task, belief.rows()
    reward, at = np.zeros(full.shape[1:]), layout.row_of_entry
    reward[layout.state[at], layout.action[at], layout.next_state] = rows.reward
    live, out = task.live, []
    for policy in policies:
        chain = np.einsum("sa,dsat->dst", policy, full)[:, live][:, :, live]
        paid = np.einsum("sa,dsat,sat->ds", policy, full, reward)[:, live]
        matrix = np.eye(live.size) - task.discount * chain
        out.append(np.linalg.solve(matrix, paid[..., None])[..., 0] @ task.start[live])
    return np.stack(out)


def nested(
    belief: bm.Posterior,
    policies: FloatArray,
    pair: tuple[int, int],
    n_visits: int | None,
    n_outer: int,
    n_inner: int,
    seed: int,
) -> tuple[float, float]:
    """Gain of knowing a Dirichlet row, or of visits to it, and its error."""
    rng, layout = np.random.default_rng(seed), belief.layout
    s, a = pair
    row = int(np.flatnonzero((layout.state == s) & (layout.action == a))[0])
    part = slice(layout.indptr[row], layout.indptr[row + 1])
    alpha, target = belief.alpha[part], layout.next_state[part]
    full = models(belief, n_inner, seed)
    means = []
    for _ in range(n_outer):
        phi = rng.dirichlet(alpha)
        full[:, s, a] = 0.0
        if n_visits is None:
            full[:, s, a, target] = phi
        else:
            after = alpha + rng.multinomial(n_visits, phi)
            full[:, s, a, target] = rng.dirichlet(after, n_inner)
        means.append(start_values(belief, full, policies).mean(axis=1))
    return _gain(np.array(means))


def reweighted(
    belief: bm.Posterior,
    policies: FloatArray,
    pair: tuple[int, int],
    n_visits: int,
    n_outer: int,
    n_inner: int,
    seed: int,
) -> tuple[float, float]:
    """Gain of visits to any row: draws weighed by how likely they make the visits."""
    rng, (s, a) = np.random.default_rng(seed), pair
    full = models(belief, n_inner + n_outer, seed)
    values = start_values(belief, full[:n_inner], policies)
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(full[:n_inner, s, a]), -1e200)
    means = []
    for truth in full[n_inner:, s, a]:
        seen: IntArray = rng.multinomial(n_visits, truth / truth.sum())
        score = logs @ seen
        weight = np.exp(score - score.max())
        means.append(values @ weight / weight.sum())
    return _gain(np.array(means))


def shared(
    belief: bm.posterior.HierarchicalPosterior,
    policies: FloatArray,
    pair: tuple[int, int],
    n_outer: int,
    n_inner: int,
    seed: int,
) -> tuple[float, float]:
    """Gain of knowing a row whose state shares its latent row with other actions.

    States ``(m, c, k)`` of the chains and latent rows ``mu`` are drawn here, by NumPy;
    one is weighed by the density that it gives to the row ``phi``: Dirichlet with ``c
    mu + n``, or with ``k g + m`` where ``c`` is infinite, and ``mu`` then is ``phi``.
    """
    rng, (s, a) = np.random.default_rng(seed), pair
    layout, cells, chains = belief.rows().layout, belief.cells, belief.chains
    part = slice(cells.start[s], cells.start[s + 1])
    to = cells.next_state[part]
    at = rng.integers(len(chains.k), size=n_inner)
    base = chains.k[at, s, None] * cells.base[part] + chains.tables[at, part]
    c, mu = chains.strength[at, s], np.stack([rng.dirichlet(x) for x in base])
    same = np.isinf(c)
    rows = np.flatnonzero(layout.state == s)
    shapes = {}
    full = models(belief, n_inner, seed)
    full[:, s] = 0.0
    for row in rows.tolist():
        visits = belief.count[layout.indptr[row] : layout.indptr[row + 1]]
        shapes[int(layout.action[row])] = np.where(
            same[:, None], base, np.where(same, 1.0, c)[:, None] * mu + visits
        )
    for b, shape in shapes.items():
        drawn = np.stack([rng.dirichlet(np.maximum(x, 1e-12)) for x in shape])
        full[:, s, b, to] = np.where(same[:, None], mu, drawn)
    truths = full[rng.choice(n_inner, n_outer, replace=False), s, a][:, to]
    means = []
    for phi in truths:
        score = dirichlet_log_density(phi, shapes[a])
        weight = np.exp(score - score.max())
        kept = rng.choice(n_inner, 400, p=weight / weight.sum())
        given = full[kept]
        given[:, s, a, to] = phi
        given[np.ix_(same[kept], [s], list(shapes), to)] = phi
        means.append(start_values(belief, given, policies).mean(axis=1))
    return _gain(np.array(means))


def dirichlet_log_density(phi: FloatArray, shape: FloatArray) -> FloatArray:
    """Of one row under each of many shapes ``[n, L]``."""
    norm = gammaln(shape.sum(axis=1)) - gammaln(shape).sum(axis=1)
    return np.asarray(norm + (shape - 1) @ np.log(np.maximum(phi, 1e-300)))


def _gain(means: FloatArray) -> tuple[float, float]:
    gain = means.max(axis=1) - means[:, means.mean(axis=0).argmax()]
    return float(gain.mean()), float(gain.std() / np.sqrt(len(gain)))


def deterministic(n_states: int) -> FloatArray:
    """All policies of two actions."""
    bits = (np.arange(2**n_states)[:, None] >> np.arange(n_states)) & 1
    return np.eye(2)[bits]


def agree(found: tuple[float, float], oracle: tuple[float, float]) -> bool:
    """Whether two estimates differ by less than 3.5 of their errors (and 1 %)."""
    error = np.hypot(found[1], oracle[1])
    return abs(found[0] - oracle[0]) < 3.5 * error + 0.01 * oracle[0]
