"""The compiled loop over draws: sample, assemble, factorise once, solve, reduce.

For one draw of the rows ``theta[s, a, t]`` and one policy ``pi`` (axes as in
`bayesmdp._typing`)::

    T[s, t] = sum_a pi[s, a] theta[s, a, t]
    b[s]    = sum_a pi[s, a] sum_t theta[s, a, t] r[s, a, t]
    V       = (I - g T)^-1 b                                            value
    (I - g^2 T) var = sum_a pi sum_t theta (r + g V[t])^2 - V^2         Sobel 1982
    d       = (I - g T')^-1 rho                                         occupancy
    Q[s, a] = sum_t theta[s, a, t] (r[s, a, t] + g V[t])
    grad    = d[s] (Q[s, a] - V[s])                                     gradient

The variance is solved for itself, not as second moment minus square, which cancels
where ``|V| ~ 1 / (1 - g)``, and its right-hand side is summed as squares of deviations.
``grad`` differs from ``dJ/dpi = d Q`` by a constant in each state, which rows that sum
to 1 cannot feel.

States stand in sweep order, live ones first, so that a vector of values continues with
zeros and no loop needs to ask where an episode ends.
"""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BitArray, BoolArray, FloatArray, IntArray, StatusArray
from bayesmdp.engine._chain import Chain, build_chain
from bayesmdp.engine._dense import copy_to
from bayesmdp.engine._layout import Layout, Models, References
from bayesmdp.engine._reduce import add_gradient, add_mean_gradient, reduce_draw
from bayesmdp.engine._solve import (
    GRADIENT,
    LEFT_OUT,
    OCCUPANCY,
    SOLVED,
    UNSOLVED,
    Band,
    Dense,
    Krylov,
    Solution,
    Space,
    add_arrivals,
    solve_directly,
    solve_iteratively,
)
from bayesmdp.posterior import SetTable
from bayesmdp.posterior.sampling import (
    dirichlet_row,
    open_stream,
    possible_row,
    set_row,
)


@jit
def model_of(member: IntArray, draw: int) -> int:
    """Which given model or component a draw is; 0 where there is one."""
    return member[draw] if member.size > 0 else 0


@jit
def own_row(table: FloatArray, member: IntArray, draw: int) -> FloatArray:
    """Row of a draw in a table ``[M, ...]``, or the only one."""
    return table[model_of(member, draw) if table.shape[0] > 1 else 0]


@jit
def sample_component(
    models: Models,
    groups: SetTable,
    rows: Layout,
    used: BoolArray,
    draw: int,
    stream: BitArray,
    theta: FloatArray,
) -> None:
    """Fill ``theta`` [E] for one draw of a mixture, as its component would.

    Rows of a component are Dirichlet, perhaps with impossible next states, or live on
    random sets.
    """
    c = model_of(models.member, draw)
    alpha = models.alpha[c]
    for row in range(rows.source.size):
        if used[row]:
            state, action = models.row_id[row, 0], models.row_id[row, 1]
            open_stream(stream, models.key, draw, state, action)
            first, last = rows.indptr[row], rows.indptr[row + 1]
            group = groups.group[c, row] if groups.group.shape[0] > 0 else -1
            if group < 0:
                possible_row(alpha[first:last], stream, theta[first:last])
                continue
            low, high = groups.start[group], groups.start[group + 1]
            set_row(
                alpha[first:last],
                groups.shape[c, first:last],
                groups.concentration[c],
                groups.cumulative[low:high],
                groups.lump[c, row],
                stream,
                theta[first:last],
            )


@jit
def sample(
    models: Models,
    groups: SetTable | None,
    rows: Layout,
    used: BoolArray,
    draw: int,
    stream: BitArray,
    theta: FloatArray,
) -> None:
    """Fill ``theta`` [E] for one draw: rows ``used`` [R] sampled, or from the table."""
    if groups is not None:
        sample_component(models, groups, rows, used, draw, stream, theta)
        return
    if models.table.shape[0] > 0:
        copy_to(theta, models.table[model_of(models.member, draw)])
        return
    alpha = models.alpha[0]
    for row in range(rows.source.size):
        if used[row]:
            state, action = models.row_id[row, 0], models.row_id[row, 1]
            open_stream(stream, models.key, draw, state, action)
            first, last = rows.indptr[row], rows.indptr[row + 1]
            dirichlet_row(alpha[first:last], stream, theta[first:last])


@jit
def iterate_draw(
    krylov: Krylov,
    chain: Chain,
    space: Space,
    want: int,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    g: float,
    start: FloatArray,
    nominal: References,
    p: int,
    out: Solution,
) -> int:
    """Fill ``out`` by iterations from the nominal model; return products.

    Their number is negative where it failed.
    """
    copy_to(out.value, nominal.reference[0, p])
    copy_to(out.variance, nominal.reference[1, p])
    copy_to(out.occupancy, nominal.reference[2, p])
    return solve_iteratively(
        krylov,
        chain,
        space,
        want,
        theta,
        pi,
        rows,
        reward,
        g,
        start,
        nominal.length[0, p],
        nominal.length[1, p],
        out,
    )


@jit
def _has(status: StatusArray, i: int, wanted: int) -> bool:
    """Whether a draw has a status for some policy."""
    found = False
    for p in range(status.shape[0]):
        found = found or status[p, i] == wanted
    return found


@jit
def _has_unused(policies: FloatArray) -> bool:
    found = False
    for pi in policies:
        for row in range(pi.size):
            found = found or not pi[row] > 0.0
    return found


@jit
def _weights_of(
    member: IntArray, component: int, begin: int, weights: FloatArray, own: FloatArray
) -> bool:
    """Fill ``own`` with the weights [B] of a component's draws; whether there are."""
    found = False
    for k in range(weights.size):
        own[k] = 0.0
        if weights[k] != 0.0 and model_of(member, begin + k) == component:
            own[k] = weights[k]
            found = True
    return found


@jit
def sweep_blocks(  # noqa: C901 - one loop, so that a draw is sampled once for all
    first: int,
    stop: int,
    block: int,
    want: int,
    g: float,
    dense: Dense | None,
    band: Band | None,
    krylov: Krylov | None,
    groups: SetTable | None,
    rows: Layout,
    models: Models,
    used: BoolArray,
    policies: FloatArray,
    start: FloatArray,
    weights: FloatArray,
    nominal: References,
    theta: FloatArray,
    space: Space,
    state_sums: FloatArray,
    row_sums: FloatArray,
    start_draws: FloatArray,
    status: StatusArray,
    products: IntArray,
) -> None:
    """Sweep draws ``first..stop-1`` in blocks.

    Parameters
    ----------
    first, stop, block
        Range of draws; ``first`` is a multiple of ``block``.
    want
        Bits of VARIANCE, OCCUPANCY, GRADIENT, CONTROL, CONTROL_STATES.
    g, dense, band, krylov
        Discount, and how to solve.
    groups
        Sets of next states and components of mixtures, where there are such.
    rows, models
        Where rows lead, and how a draw gets them.
    used
        [R] whether any policy uses a row; only those are sampled.
    policies
        [P, R] probability of each row's action.
    start
        [S].
    weights
        [stop - first], one a draw.
    nominal
        What is known of the nominal model.
    theta, space
        [E], the nominal rows at first; work space.
    state_sums, row_sums
        [B, P, C, S], [B, P, 2, R]: one set a block, to which is added.
    start_draws
        [P, 4, stop - first]: results of each draw.
    status
        [P, stop - first]: what became of each; only those left out so far are looked
        at, so that a second call can try another method where the first failed.
    products
        [P, stop - first]: products of iterations.
    """
    n_policies, n_states, n = policies.shape[0], start.size, nominal.n_live
    stream = np.empty(4, dtype=np.uint64)
    if krylov is not None:
        adjoint = want & (OCCUPANCY | GRADIENT) != 0
        chains = [build_chain(policies[p], rows, n, adjoint) for p in range(n_policies)]
    out = Solution(np.zeros(n_states), np.zeros(n_states), np.zeros(n_states))
    work = np.zeros((3, n_states))
    # Values and visits of a block, for the gradient of rows that are not used.
    sampled = models.table.shape[0] == 0
    held = sampled and row_sums.shape[3] > 0 and _has_unused(policies)
    width = n_states if held else 0
    block_values = np.zeros((n_policies, width, block))
    block_visits = np.zeros((n_policies, width, block))
    block_weights = np.zeros((n_policies, block))
    own_weights = np.zeros(block)
    for draw in range(first, stop):
        i = draw - first
        w = weights[i]
        if w != 0.0 and _has(status, i, LEFT_OUT):
            sample(models, groups, rows, used, draw, stream, theta)
            reward = own_row(models.rewards, models.member, draw)
            terminal_value = own_row(models.terminal_values, models.member, draw)
            for p in range(n_policies):
                if status[p, i] != LEFT_OUT:
                    continue
                pi = policies[p]
                if krylov is not None:
                    more = iterate_draw(
                        krylov,
                        chains[p],
                        space,
                        want,
                        theta,
                        pi,
                        rows,
                        reward,
                        g,
                        start,
                        nominal,
                        p,
                        out,
                    )
                    status[p, i] = SOLVED if more > 0 else UNSOLVED
                    products[p, i] += abs(more)
                if dense is not None or band is not None:
                    status[p, i] = solve_directly(
                        dense, band, space, want, theta, pi, rows, reward, g, start, out
                    )
                if status[p, i] != SOLVED:
                    continue
                if want & (OCCUPANCY | GRADIENT):
                    add_arrivals(theta, pi, rows, g, start, n, out.occupancy)
                reduce_draw(
                    w,
                    want,
                    theta,
                    pi,
                    rows,
                    reward,
                    terminal_value,
                    g,
                    start,
                    nominal,
                    p,
                    out,
                    work,
                    state_sums[i // block, p],
                    start_draws[p, :, i],
                )
                if want & GRADIENT:
                    add_gradient(
                        w,
                        theta,
                        pi,
                        not sampled,
                        rows,
                        reward,
                        g,
                        out,
                        row_sums[i // block, p],
                    )
                if held:
                    block_weights[p, i % block] = w
                    for s in range(n_states):
                        block_values[p, s, i % block] = out.value[s]
                        block_visits[p, s, i % block] = out.occupancy[s]
        if held and (i % block == block - 1 or draw == stop - 1):
            for p in range(n_policies):
                for c in range(models.mean.shape[0]):
                    begin = draw - i % block
                    if not _weights_of(
                        models.member, c, begin, block_weights[p], own_weights
                    ):
                        continue
                    add_mean_gradient(
                        own_weights,
                        models.mean[c],
                        policies[p],
                        rows,
                        models.rewards[0],
                        g,
                        block_values[p],
                        block_visits[p],
                        row_sums[i // block, p],
                    )
            block_weights[:] = 0.0
