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

`Method` says how the chains of a draw are solved, and what that takes.
"""

from typing import NamedTuple

import numpy as np

from bayesmdp._checks import read_only, writable
from bayesmdp._jit import jit, jit_uncounted
from bayesmdp._typing import FloatArray
from bayesmdp.engine._backend import BLOCK, Nominal
from bayesmdp.engine._bellman import add_arrivals
from bayesmdp.engine._chain import Chain, Held, Layout, References, Results, Setting
from bayesmdp.engine._dense import assemble, copy_to, factorise, solve
from bayesmdp.engine._krylov import N_VECTORS
from bayesmdp.engine._lanes import N_LANES, WIDEST
from bayesmdp.engine._reduce import (
    add_cross,
    add_gradient,
    add_mean_gradient,
    control_draw,
    reduce_draw,
    take_off_first,
)
from bayesmdp.engine._rows import Problem
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

# Rough nanoseconds: an operation of elimination, an entry and a state of a product, an
# element of a factorised matrix, filled and used.
ELIMINATION, ENTRY, STATE, SUBSTITUTION = 0.05, 0.4, 3.0, 2.0
_NONE = np.empty(0)


class Method(NamedTuple):
    """How to solve: within a band, by iterations, or by dense elimination if neither.

    Kernels take the three ways apart, two of which are None: numba drops what follows
    ``is not None`` where it is, so that each compiles for one way only.
    """

    band: Band | None = None
    krylov: Krylov | None = None
    length: FloatArray | None = None  # [2, P, S], of iterations: weights of bounds

    @property
    def dense(self) -> Dense | None:
        """Dense elimination, where that is the way."""
        return Dense() if self.band is None and self.krylov is None else None

    @property
    def name(self) -> str:
        """What the method is called."""
        if self.krylov is not None:
            return "iterative"
        return "dense" if self.band is None else "banded"

    def columns(self, n: int) -> int:
        """Columns of the matrix of ``n`` live states that elimination fills."""
        return n if self.band is None else 2 * self.band.width + 1

    def cost(self, n: int) -> float:
        """Return rough nanoseconds of one elimination."""
        if self.band is None:
            return ELIMINATION * 2 / 3 * n**3 + SUBSTITUTION * n**2
        width = self.band.width
        return 2 * n * (ELIMINATION * width**2 + SUBSTITUTION * (2 * width + 1))

    def space(self, n: int, n_states: int, entries: int, n_rewards: int = 1) -> Space:
        """Allocate for ``n`` live states and rows of so many entries.

        NumPy asks for large pages, numba does not; vectors of a million states are read
        a tenth faster with them. What is not touched takes no memory.
        """
        height, columns, n_vectors, lanes = n, self.columns(n), 1, None
        if self.krylov is not None:
            height, columns, n_vectors = 0, 0, N_VECTORS
            if n_rewards > 1:
                lanes = np.zeros((N_LANES, WIDEST * n_states))
        else:
            entries = 0
        return Space(
            np.empty((height, columns)),
            np.empty(n),
            np.zeros((n_vectors, n_states)),
            np.empty(entries),
            np.empty(entries),
            np.empty(n),
            np.empty(n),
            np.zeros((n_rewards * (n_rewards + 1) // 2, n_states)),
            np.ones(n_states),
            lanes,
        )


class Draw(NamedTuple):
    """Room of one thread for what is found of a draw."""

    found: Solution  # [K, S], variances [K + X, S]
    #: [K, S], values before the first point of time is lost, and at the end after it.
    plain: FloatArray
    ends: FloatArray
    own: FloatArray  # [K, R], rewards of rows; or [K, 0]
    less: FloatArray  # [K, R], what the gradient loses; or [K, 0]
    control: FloatArray  # [3, K, S]


def room(n_rewards: int, n_pairs: int, n_states: int, n_rows: int) -> Draw:
    """Allocate for so many rewards, pairs of them, and rows that lose something."""
    shape = n_rewards, n_states
    variance = np.zeros((n_rewards + n_pairs, n_states))
    return Draw(
        Solution(np.zeros(shape), variance, np.zeros(shape)),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros((n_rewards, n_rows)),
        np.zeros((n_rewards, n_rows)),
        np.zeros((3, *shape)),
    )


def setting(
    problem: Problem,
    p: int,
    want: int,
    nominal: Nominal | None = None,
    weights: FloatArray = _NONE,
    length: FloatArray | None = None,
) -> Setting:
    """Return what kernels read of policy ``p``; zeros for what is not known."""
    n_states, m = problem.rows.start.size, problem.n_columns
    reference, inverse = np.zeros((3, m, n_states)), np.empty((m, 0, 0))
    if nominal is not None:
        at = problem.columns(p)
        reference, inverse = nominal.reference[:, at], nominal.inverse[at]
    about = References(
        problem.n_live,
        writable(reference),
        np.zeros((2, n_states)) if length is None else writable(length[:, p]),
        read_only(problem.rows.mean),
        read_only(inverse),
    )
    return Setting(
        want,
        problem.rows.layout,
        read_only(problem.policies[p]),
        writable(problem.rows.start),
        read_only(weights),
        about,
    )


@jit_uncounted
def solve_draw(
    dense: Dense | None,
    band: Band | None,
    krylov: Krylov | None,
    chain: Chain | None,
    space: Space,
    given: Setting,
    theta: FloatArray,
    reward: FloatArray,
    g: FloatArray,
    out: Solution,
) -> tuple[int, int]:
    """Fill ``out``; return what became of the draw, and products of iterations."""
    want, pi, rows, start = given.want, given.pi, given.rows, given.start
    nominal, status, products = given.nominal, UNSOLVED, 0
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


@jit_uncounted
def sweep_policy(  # noqa: C901 - one loop over draws
    begin: int,
    given: Setting,
    g: FloatArray,
    lost: float,
    dense: Dense | None,
    band: Band | None,
    krylov: Krylov | None,
    chain: Chain | None,
    theta: FloatArray,
    reward: FloatArray,
    terminal_value: FloatArray,
    every_row: bool,
    space: Space,
    draw: Draw,
    held: Held,
    results: Results,
) -> None:
    """Sweep some draws of a range, those from number ``begin`` of it on.

    Parameters
    ----------
    begin, given
        Number of the first draw within its range; what is the same in all.
    g, lost
        Discounts [K]; by how much the first point of time counts less than 1.
    dense, band, krylov, chain
        How to solve.
    theta, reward, terminal_value
        Of each draw: probabilities [n, E]; [1, K, E], [1, K, S], or of each [n, K, E],
        [n, K, S].
    every_row
        Whether ``theta`` holds every row, so that gradients need no means.
    space, draw, held
        Work space; what is found of a draw; values and visits of a block.
    results
        To be filled.
    """
    want, weights, status = given.want, given.weights, results.status
    n_states, n_rewards = given.start.size, g.size
    out, plain, after, own, less, work = draw
    holds = held.values.shape[0] > 0
    for d in range(theta.shape[0]):
        i = begin + d
        if weights[i] != 0.0 and status[i] == LEFT_OUT:
            paid = reward[d if reward.shape[0] > 1 else 0]
            final = terminal_value[d if terminal_value.shape[0] > 1 else 0]
            status[i], more = solve_draw(
                dense, band, krylov, chain, space, given, theta[d], paid, g, out
            )
            results.products[i] += more
            if status[i] == SOLVED:
                values, ends = out.value, final
                if lost != 0.0:
                    values, ends = plain, after
                    for k in range(n_rewards):
                        copy_to(plain[k], out.value[k])
                        for s in range(n_states):
                            after[k, s] = (1.0 - lost) * final[k, s]
                    take_off_first(
                        lost, given, theta[d], paid, final, g, out, own, less
                    )
                reduce_draw(i, given, out, ends, results)
                if want & GRADIENT:
                    for k in range(n_rewards):
                        add_gradient(
                            i,
                            k,
                            given,
                            theta[d],
                            every_row,
                            paid[k],
                            g[k],
                            values[k],
                            out.occupancy[k],
                            less[k],
                            results,
                        )
                if want & CROSS:
                    pairs = out.variance[n_rewards:]
                    add_cross(i, given.start, out.value, ends, pairs, results)
                if want & CONTROL:
                    control_draw(i, given, theta[d], paid, g, out.value, work, results)
                if holds:
                    held.weights[i % BLOCK] = weights[i]
                    for s in range(n_states):
                        held.values[s, i % BLOCK] = out.value[0, s]
                        held.visits[s, i % BLOCK] = out.occupancy[0, s]
        if holds and (i % BLOCK == BLOCK - 1 or i == weights.size - 1):
            sums = results.row[0, i // BLOCK]
            add_mean_gradient(given, reward[0, 0], g[0], held, sums)
            held.weights[:] = 0.0


@jit_uncounted
def _dot_four(
    row: FloatArray, x: FloatArray, first: int, stop: int
) -> tuple[float, float, float, float]:
    """Return `dot` of a row with four others between two places, each to the bit."""
    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
    b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0
    c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
    d0, d1, d2, d3 = 0.0, 0.0, 0.0, 0.0
    whole = stop - (stop - first) % 4
    xa, xb, xc, xd = x[0], x[1], x[2], x[3]
    for i in range(first, whole, 4):
        r0, r1, r2, r3 = row[i], row[i + 1], row[i + 2], row[i + 3]
        a0 += r0 * xa[i]
        a1 += r1 * xa[i + 1]
        a2 += r2 * xa[i + 2]
        a3 += r3 * xa[i + 3]
        b0 += r0 * xb[i]
        b1 += r1 * xb[i + 1]
        b2 += r2 * xb[i + 2]
        b3 += r3 * xb[i + 3]
        c0 += r0 * xc[i]
        c1 += r1 * xc[i + 1]
        c2 += r2 * xc[i + 2]
        c3 += r3 * xc[i + 3]
        d0 += r0 * xd[i]
        d1 += r1 * xd[i + 1]
        d2 += r2 * xd[i + 2]
        d3 += r3 * xd[i + 3]
    for i in range(whole, stop):
        a0 += row[i] * xa[i]
        b0 += row[i] * xb[i]
        c0 += row[i] * xc[i]
        d0 += row[i] * xd[i]
    return (
        (a0 + a1) + (a2 + a3),
        (b0 + b1) + (b2 + b3),
        (c0 + c1) + (c2 + c3),
        (d0 + d1) + (d2 + d3),
    )


@jit_uncounted
def _solve_four(lu: FloatArray, x: FloatArray, first: int) -> None:
    """Solve for four right sides ``[4, N]`` that are 0 before place ``first``.

    The matrix, which does not fit into the cache, is read once for the four.
    """
    n = lu.shape[0]
    for i in range(first + 1, n):
        a, b, c, d = _dot_four(lu[i], x, first, i)
        x[0, i] -= a
        x[1, i] -= b
        x[2, i] -= c
        x[3, i] -= d
    for i in range(n - 1, -1, -1):
        a, b, c, d = _dot_four(lu[i], x, i + 1, n)
        x[0, i] = (x[0, i] - a) / lu[i, i]
        x[1, i] = (x[1, i] - b) / lu[i, i]
        x[2, i] = (x[2, i] - c) / lu[i, i]
        x[3, i] = (x[3, i] - d) / lu[i, i]


@jit
def invert(
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    g: float,
    transposed: FloatArray,
) -> None:
    """Fill ``transposed`` [N, N] with the transpose of ``(I - g T)^-1``."""
    n = transposed.shape[0]
    matrix, slack = np.empty((n, n)), np.empty(n)
    assemble(theta, pi, rows, g, matrix, slack)
    factorise(matrix, slack)
    transposed[:] = 0.0
    for column in range(n):
        transposed[column, column] = 1.0
    whole = n - n % 4
    for column in range(0, whole, 4):
        _solve_four(matrix, transposed[column : column + 4], column)
    for column in range(whole, n):
        solve(matrix, transposed[column])
