"""The compiled loop over draws of one policy: assemble, factorise once, solve, reduce.

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

Several rewards share the draw: those of one discount share the factorised chain, too.
Covariances of their returns solve ``(I - g_i g_j T) C_ij = sum_a pi sum_t theta
(r_i + g_i V_i[t] - V_i[s]) (r_j + g_j V_j[t] - V_j[s])``.

States stand in sweep order, live ones first, so that a vector of values continues with
zeros and no loop needs to ask where an episode ends.
"""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IntArray, StatusArray
from bayesmdp.engine._bellman import add_arrivals
from bayesmdp.engine._chain import Chain, Held, Layout, References
from bayesmdp.engine._dense import copy_to
from bayesmdp.engine._reduce import (
    add_cross,
    add_gradient,
    add_mean_gradient,
    control_draw,
    reduce_draw,
    take_off_first,
)
from bayesmdp.engine._solve import (
    CONTROL,
    CROSS,
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
    run_of,
    solve_directly,
    solve_iteratively,
)


@jit
def solve_draw(
    dense: Dense | None,
    band: Band | None,
    krylov: Krylov | None,
    chain: Chain | None,
    space: Space,
    want: int,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    g: FloatArray,
    start: FloatArray,
    nominal: References,
    out: Solution,
) -> tuple[int, int]:
    """Fill ``out``; return what became of the draw, and products of iterations."""
    status, products = UNSOLVED, 0
    if krylov is not None and chain is not None:
        for k in range(g.size):
            copy_to(out.value[k], nominal.reference[0, k])
            copy_to(out.variance[k], nominal.reference[1, k])
            copy_to(out.occupancy[k], nominal.reference[2, k])
        out.variance[g.size :] = 0.0
        products = solve_iteratively(
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
            nominal.length[0],
            nominal.length[1],
            out,
        )
        status = SOLVED if products > 0 else UNSOLVED
    if dense is not None or band is not None:
        status = solve_directly(
            dense, band, space, want, theta, pi, rows, reward, g, start, out
        )
    if status == SOLVED and want & (OCCUPANCY | GRADIENT):
        first = 0
        while first < g.size:
            visits, last = out.occupancy[first], run_of(g, first)
            add_arrivals(theta, pi, rows, g[first], start, nominal.n_live, visits)
            for k in range(first + 1, last):
                copy_to(out.occupancy[k], visits)
            first = last
    return status, abs(products)


@jit
def sweep_policy(  # noqa: C901 - one loop over draws
    begin: int,
    block: int,
    want: int,
    g: FloatArray,
    lost: float,
    dense: Dense | None,
    band: Band | None,
    krylov: Krylov | None,
    chain: Chain | None,
    rows: Layout,
    theta: FloatArray,
    reward: FloatArray,
    terminal_value: FloatArray,
    pi: FloatArray,
    start: FloatArray,
    weights: FloatArray,
    nominal: References,
    every_row: bool,
    space: Space,
    held: Held,
    state_sums: FloatArray,
    row_sums: FloatArray,
    start_draws: FloatArray,
    status: StatusArray,
    products: IntArray,
    kept: FloatArray,
    cross: FloatArray,
) -> None:
    """Sweep some draws of a range, those from number ``begin`` of it on.

    Parameters
    ----------
    begin, block
        Number of the first draw within its range of W, and draws of a block.
    want
        Bits of VARIANCE, OCCUPANCY, GRADIENT, CONTROL, CONTROL_STATES, KEEP, CROSS.
    g, lost
        Discounts [K]; by how much the first point of time counts less than 1.
    dense, band, krylov, chain
        How to solve.
    rows, theta
        Where rows lead; [n, E] their probabilities in each draw.
    reward, terminal_value
        [1, K, E], [1, K, S], or of each draw [n, K, E], [n, K, S].
    pi
        [R] probability of each row's action.
    start, weights
        [S]; [W], one for each draw.
    nominal
        What is known of the nominal model.
    every_row
        Whether ``theta`` holds every row, so that gradients need no means.
    space, held
        Work space; values and visits of a block.
    state_sums, row_sums
        [K, B, C, S], [K, B, 2, R]: a set for each block, to which is added.
    start_draws
        [K, 4, W]: results of each draw.
    status
        [W]: what became of each; only those left out so far are looked at, so that a
        second call can try another method where the first failed.
    products
        [W]: products of iterations.
    kept
        [K, 2, W, S]: value and return variance of each draw; or [K, 2, 0, S].
    cross
        [X, W]: covariances of returns of pairs of rewards; or [0, W].
    """
    n_states, n_rewards = start.size, g.size
    out = Solution(
        np.zeros((n_rewards, n_states)),
        np.zeros((n_rewards + cross.shape[0], n_states)),
        np.zeros((n_rewards, n_states)),
    )
    work = np.zeros((3, n_rewards, n_states))
    covariance = out.variance[n_rewards:]
    own = np.zeros((n_rewards, pi.size if lost != 0.0 else 0))
    less = np.zeros_like(own)
    plain = np.zeros((n_rewards, n_states))  # values, before the first point is lost
    holds = held.values.shape[0] > 0
    for d in range(theta.shape[0]):
        i = begin + d
        if weights[i] != 0.0 and status[i] == LEFT_OUT:
            paid = reward[d if reward.shape[0] > 1 else 0]
            final = terminal_value[d if terminal_value.shape[0] > 1 else 0]
            status[i], more = solve_draw(
                dense,
                band,
                krylov,
                chain,
                space,
                want,
                theta[d],
                pi,
                rows,
                paid,
                g,
                start,
                nominal,
                out,
            )
            products[i] += more
            if status[i] == SOLVED:
                values, ends = out.value, final
                if lost != 0.0:
                    plain[:] = out.value
                    values, ends = plain, (1.0 - lost) * final
                    take_off_first(
                        lost,
                        theta[d],
                        pi,
                        rows,
                        paid,
                        final,
                        g,
                        start,
                        out.value,
                        out.variance,
                        covariance,
                        own,
                        less,
                    )
                if want & CROSS:
                    add_cross(start, out.value, ends, covariance, cross[:, i])
                for k in range(n_rewards):
                    if kept.shape[2] > 0:
                        copy_to(kept[k, 0, i], out.value[k])
                        copy_to(kept[k, 1, i], out.variance[k])
                    reduce_draw(
                        weights[i],
                        want,
                        start,
                        out.value[k],
                        out.variance[k],
                        out.occupancy[k],
                        ends[k],
                        nominal.reference[:, k],
                        state_sums[k, i // block],
                        start_draws[k, :, i],
                    )
                    if want & GRADIENT:
                        add_gradient(
                            weights[i],
                            theta[d],
                            pi,
                            every_row,
                            rows,
                            paid[k],
                            g[k],
                            values[k],
                            out.occupancy[k],
                            less[k],
                            row_sums[k, i // block],
                        )
                if want & CONTROL:
                    control_draw(
                        weights[i],
                        want,
                        theta[d],
                        pi,
                        rows,
                        paid,
                        g,
                        start,
                        nominal,
                        out.value,
                        work,
                        i,
                        block,
                        state_sums,
                        start_draws,
                    )
                if holds:
                    held.weights[i % block] = weights[i]
                    for s in range(n_states):
                        held.values[s, i % block] = out.value[0, s]
                        held.visits[s, i % block] = out.occupancy[0, s]
        if holds and (i % block == block - 1 or i == weights.size - 1):
            add_mean_gradient(
                nominal.theta_bar,
                pi,
                rows,
                reward[0, 0],
                g[0],
                held,
                row_sums[0, i // block],
            )
            held.weights[:] = 0.0
