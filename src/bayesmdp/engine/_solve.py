"""Value, occupancy and variance of one draw, by elimination or by iterations.

Three methods: dense elimination, elimination within a band, and iterations
(`bayesmdp.engine._krylov`). Which one is chosen in
`bayesmdp.engine._choose`; here they differ in how a system is prepared and solved.

Right-hand sides are found by a pass over the entries, which are counted with unsigned
numbers: numba tests signed indices for counting from the end, which costs more than the
arithmetic.
"""

from typing import NamedTuple

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._chain import Chain, Layout, fill_chain
from bayesmdp.engine._dense import (
    ENDLESS,
    assemble,
    assemble_band,
    copy_to,
    factorise,
    factorise_band,
    solve,
    solve_band,
    solve_band_transposed,
    solve_transposed,
)
from bayesmdp.engine._krylov import (
    ACCEPTED,
    N_VECTORS,
    TOLERANCE,
    System,
    bounding_scale,
    fill_inverse,
    iterate,
)

# What became of a draw. Left out: of weight 0, or not yet looked at.
LEFT_OUT, SOLVED, ENDLESS_CHAIN, UNSOLVED, RETRIED = range(5)

# What is wanted beside the value, as bits; control variates of the start, or of all;
# values and variances of every draw; covariances of several rewards.
VARIANCE, OCCUPANCY, GRADIENT, CONTROL, CONTROL_STATES, KEEP = 1, 2, 4, 8, 16, 32
CROSS = 64


class Dense(NamedTuple):
    """Elimination in the whole matrix."""

    always: bool = True


class Band(NamedTuple):
    """Elimination within a band: where states stand in it, and its width."""

    width: int  # on either side of the diagonal
    position: IntArray  # [N]


class Krylov(NamedTuple):
    """Iterations."""

    backward: bool  # whether they sweep from the last state to the first


class Method(NamedTuple):
    """How to solve: within a band, by iterations, or by dense elimination if neither.

    Kernels take the three ways apart, two of which are None: numba drops what follows
    ``is not None`` where it is, so that each compiles for one way only.
    """

    band: Band | None = None
    krylov: Krylov | None = None

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


class Space(NamedTuple):
    """Work space of one thread; what a method does not need is empty."""

    matrix: FloatArray  # [N, N], or [N, 2 width + 1]
    slack: FloatArray  # [N]
    vectors: FloatArray  # [8, S], zero for terminal states
    value: FloatArray  # [K]
    t_value: FloatArray  # [K]
    inverse: FloatArray  # [N]
    scale: FloatArray  # [N]
    rhs: FloatArray  # [S]
    ones: FloatArray  # [S]


class Solution(NamedTuple):
    """Vectors over states ``[K, S]``, zero for terminal ones but for arrivals."""

    value: FloatArray
    variance: FloatArray
    occupancy: FloatArray


def make_space(method: Method, n: int, n_states: int, entries: int) -> Space:
    """Allocate for ``n`` live states and rows of so many entries.

    NumPy asks for large pages, numba does not; vectors of a million states are read a
    tenth faster with them. What is not touched takes no memory.
    """
    height, columns, n_vectors = n, n, 1
    if method.band is not None:
        columns = 2 * method.band.width + 1
    if method.krylov is not None:
        height, columns, n_vectors = 0, 0, N_VECTORS
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
        np.zeros(n_states),
        np.ones(n_states),
    )


@jit
def eliminate(
    dense: Dense | None,
    band: Band | None,
    space: Space,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    g: float,
) -> bool:
    """Factorise ``I - g T``; False where the chain does not end."""
    least = 0.0
    if dense is not None:
        assemble(theta, pi, rows, g, space.matrix, space.slack)
        least = factorise(space.matrix, space.slack)
    if band is not None:
        assemble_band(theta, pi, rows, g, band.position, space.matrix, space.slack)
        least = factorise_band(space.matrix, space.slack)
    return least > ENDLESS


@jit
def substitute(
    dense: Dense | None, band: Band | None, space: Space, x: FloatArray
) -> None:
    """Solve with what `eliminate` left; ``x`` [S] in place."""
    n = space.slack.size
    if dense is not None:
        solve(space.matrix, x[:n])
    if band is not None:
        solve_band(space.matrix, band.position, x[:n], space.vectors[0])


@jit
def substitute_transposed(
    dense: Dense | None, band: Band | None, space: Space, x: FloatArray
) -> None:
    """Solve with the transpose of it."""
    n = space.slack.size
    if dense is not None:
        solve_transposed(space.matrix, x[:n])
    if band is not None:
        solve_band_transposed(space.matrix, band.position, x[:n], space.vectors[0])


@jit
def solve_directly(
    dense: Dense | None,
    band: Band | None,
    space: Space,
    want: int,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    g: FloatArray,
    start: FloatArray,
    out: Solution,
) -> int:
    """Fill ``out`` by elimination, once for each discount; say what became of it.

    Rewards [K, E] of the same discount [K] stand beside each other.
    """
    held = -1.0  # discount that the factorised matrix has
    for k in range(g.size):
        if g[k] != held:
            held = g[k]
            if not eliminate(dense, band, space, theta, pi, rows, held):
                return ENDLESS_CHAIN
            if want & (OCCUPANCY | GRADIENT):
                copy_to(out.occupancy[k], start)
                substitute_transposed(dense, band, space, out.occupancy[k])
        elif want & (OCCUPANCY | GRADIENT):
            copy_to(out.occupancy[k], out.occupancy[k - 1])
        bellman_mean(theta, pi, rows, reward[k], out.value[k])
        substitute(dense, band, space, out.value[k])
    if want & VARIANCE:
        for k in range(g.size):
            spread = out.variance[k]
            bellman_spread(theta, pi, rows, reward[k], g[k], out.value[k], spread)
            if g[k] * g[k] != held:
                held = g[k] * g[k]
                eliminate(dense, band, space, theta, pi, rows, held)
            substitute(dense, band, space, spread)
    return SOLVED


@jit
def solve_iteratively(
    krylov: Krylov,
    chain: Chain,
    space: Space,
    want: int,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    g: FloatArray,
    start: FloatArray,
    length: FloatArray,
    t_length: FloatArray,
    out: Solution,
) -> int:
    """Fill ``out`` by iterations from the guesses it holds.

    Returns the number of products, negative where some system was not solved.
    ``length`` and ``t_length`` [S] are trial weights for the bounds on errors. Rewards
    [K, E] of the same discount [K] stand beside each other.
    """
    value = theta
    if chain.slot.size > 0:
        value = space.value
        fill_chain(chain, theta, pi, rows, value)
    products = 0
    for k in range(g.size):
        more = _iterate_one(
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
            length,
            t_length,
            value,
            k,
            out,
        )
        if more < 0:
            return more - products
        products += more
    return products


@jit
def _iterate_one(
    krylov: Krylov,
    chain: Chain,
    space: Space,
    want: int,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    g: FloatArray,
    start: FloatArray,
    length: FloatArray,
    t_length: FloatArray,
    value: FloatArray,
    k: int,
    out: Solution,
) -> int:
    """Solve for reward ``k``; visits as those of the one before, if they are."""
    n, down = space.slack.size, krylov.backward
    system = System(
        g[k], down, chain.begin, chain.stop, chain.column, value, space.inverse
    )
    fill_inverse(system)
    bellman_mean(theta, pi, rows, reward[k], space.rhs)
    products = bounded(system, space, length, out.value[k])
    if products > 0 and want & (OCCUPANCY | GRADIENT):
        if k > 0 and g[k] == g[k - 1]:
            copy_to(out.occupancy[k], out.occupancy[k - 1])
        else:
            for at in range(chain.t_slot.size):
                e = np.uint64(at)
                space.t_value[e] = value[chain.t_slot[e]]
            transposed = System(
                g[k],
                not down,  # what flows towards the end in the rows flows from it here
                chain.t_begin,
                chain.t_stop,
                chain.t_column,
                space.t_value,
                space.inverse,
            )
            copy_to(space.rhs, start)
            more = bounded(transposed, space, t_length, out.occupancy[k])
            products = products + more if more > 0 else -products
    if products > 0 and want & VARIANCE:
        variance = out.variance[k]
        bellman_spread(theta, pi, rows, reward[k], g[k], out.value[k], space.rhs)
        square = System(
            g[k] * g[k],
            down,
            chain.begin,
            chain.stop,
            chain.column,
            value,
            space.inverse,
        )
        fill_inverse(square)
        more = bounded(square, space, length, variance)
        products = products + more if more > 0 else -products
        for i in range(n):  # an error within the tolerance may be below 0
            variance[i] = max(variance[i], 0.0)
    return products


@jit
def bounded(system: System, space: Space, length: FloatArray, x: FloatArray) -> int:
    """Solve for ``space.rhs`` with a bound on the error; products, negative if not."""
    n = system.begin.size
    x[n:] = 0.0
    first = bounding_scale(system, length, space.ones, space.scale, space.vectors)
    if first == 0:
        return -1
    then = iterate(
        system, space.rhs, space.scale, 0.0, TOLERANCE, ACCEPTED, x, space.vectors
    )
    return first + then if then > 0 else -first


@jit
def add_arrivals(
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    g: float,
    start: FloatArray,
    n: int,
    out: FloatArray,
) -> None:
    """Add discounted arrivals in terminal states to the visits ``out`` [S] of others.

    The first ``n`` states are live; a start in a terminal state counts there.
    """
    copy_to(out[n:], start[n:])
    for row in range(pi.size):
        if pi[row] > 0.0:
            flow = g * pi[row] * out[rows.source[row]]
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
                if rows.target[e] >= n:
                    out[rows.target[e]] += flow * theta[e]


@jit
def bellman_mean(
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    out: FloatArray,
) -> None:
    """Set ``out[s] = b[s]``, the expected reward of a step."""
    out[:] = 0.0
    for row in range(pi.size):
        if pi[row] > 0.0:
            total = 0.0
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
                total += theta[e] * reward[e]
            out[rows.source[row]] += pi[row] * total


@jit
def bellman_spread(
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    g: float,
    value: FloatArray,
    out: FloatArray,
) -> None:
    """Set ``out[s] = sum_a pi sum_t theta (r + g V[t] - V[s])^2``.

    The same as the right-hand side of the equation in `_kernel`, because ``V[s]`` is
    the mean of what is squared, but without a difference of large numbers.
    """
    out[:] = 0.0
    for row in range(pi.size):
        if pi[row] > 0.0:
            centre = value[rows.source[row]]
            total = 0.0
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
                h = reward[e] + g * value[rows.target[e]] - centre
                total += theta[e] * h * h
            out[rows.source[row]] += pi[row] * total
