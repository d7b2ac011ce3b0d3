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

States stand in sweep order, live ones first, so that a vector of values continues with
zeros and no loop needs to ask where an episode ends.
"""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IntArray, StatusArray
from bayesmdp.engine._chain import Chain
from bayesmdp.engine._dense import copy_to
from bayesmdp.engine._layout import Held, Layout, References
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
    g: float,
    start: FloatArray,
    nominal: References,
    out: Solution,
) -> tuple[int, int]:
    """Fill ``out``; return what became of the draw, and products of iterations."""
    status, products = UNSOLVED, 0
    if krylov is not None and chain is not None:
        copy_to(out.value, nominal.reference[0])
        copy_to(out.variance, nominal.reference[1])
        copy_to(out.occupancy, nominal.reference[2])
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
        add_arrivals(theta, pi, rows, g, start, nominal.n_live, out.occupancy)
    return status, abs(products)


@jit
def sweep_policy(
    begin: int,
    block: int,
    want: int,
    g: float,
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
) -> None:
    """Sweep some draws of a range, those from number ``begin`` of it on.

    Parameters
    ----------
    begin, block
        Number of the first draw within its range of W, and draws of a block.
    want
        Bits of VARIANCE, OCCUPANCY, GRADIENT, CONTROL, CONTROL_STATES.
    g, dense, band, krylov, chain
        Discount, and how to solve.
    rows, theta
        Where rows lead; [n, E] their probabilities in each draw.
    reward, terminal_value
        [1, E], [1, S], or of each draw [n, E], [n, S].
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
        [B, C, S], [B, 2, R]: one set for each block of the range, to which is added.
    start_draws
        [4, W]: results of each draw.
    status
        [W]: what became of each; only those left out so far are looked at, so that a
        second call can try another method where the first failed.
    products
        [W]: products of iterations.
    kept
        [2, W, S]: value and return variance of each draw; or [2, 0, S].
    """
    n_states = start.size
    out = Solution(np.zeros(n_states), np.zeros(n_states), np.zeros(n_states))
    work = np.zeros((3, n_states))
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
                if kept.shape[1] > 0:
                    copy_to(kept[0, i], out.value)
                    copy_to(kept[1, i], out.variance)
                reduce_draw(
                    weights[i],
                    want,
                    theta[d],
                    pi,
                    rows,
                    paid,
                    final,
                    g,
                    start,
                    nominal,
                    out,
                    work,
                    state_sums[i // block],
                    start_draws[:, i],
                )
                if want & GRADIENT:
                    add_gradient(
                        weights[i],
                        theta[d],
                        pi,
                        every_row,
                        rows,
                        paid,
                        g,
                        out,
                        row_sums[i // block],
                    )
                if holds:
                    held.weights[i % block] = weights[i]
                    for s in range(n_states):
                        held.values[s, i % block] = out.value[s]
                        held.visits[s, i % block] = out.occupancy[s]
        if holds and (i % block == block - 1 or i == weights.size - 1):
            add_mean_gradient(
                nominal.theta_bar, pi, rows, reward[0], g, held, row_sums[i // block]
            )
            held.weights[:] = 0.0
