"""Value, occupancy and variance of one draw, by elimination or by iterations.

Three methods: dense elimination, elimination within a band, and iterations
(`bayesmdp.engine._krylov`). Which one is chosen in
`bayesmdp.engine._choose`; here they differ in how a system is prepared and solved.

Several rewards are several right-hand sides (`bayesmdp.engine._bellman`): those of one
discount share the chain, what is prepared of it, and the reading of it.
"""

from typing import NamedTuple

import numpy as np

from bayesmdp._jit import jit, jit_uncounted
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._bellman import bellman_mean, bellman_spread
from bayesmdp.engine._chain import Chain, Layout, fill_chain
from bayesmdp.engine._dense import (
    ENDLESS,
    assemble,
    assemble_band,
    copy_to,
    factorise,
    factorise_band,
    solve_all,
    solve_band,
    solve_band_transposed,
    solve_transposed,
)
from bayesmdp.engine._krylov import (
    ACCEPTED,
    TOLERANCE,
    System,
    bounding_scale,
    fill_inverse,
    iterate,
)
from bayesmdp.engine._lanes import FOUR, TWO, WIDEST, solve_lanes

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


class Space(NamedTuple):
    """Work space of one thread; what a method does not need is empty."""

    matrix: FloatArray  # [N, N], or [N, 2 width + 1]
    slack: FloatArray  # [N]
    vectors: FloatArray  # [8, S], zero for terminal states
    value: FloatArray  # [K]
    t_value: FloatArray  # [K]
    inverse: FloatArray  # [N]
    scale: FloatArray  # [N]
    rhs: FloatArray  # [K + X, S], variances of K rewards, and X covariances
    ones: FloatArray  # [S]
    lanes: FloatArray | None  # [9, 4 S], zero for terminal states; for several rewards


class Solution(NamedTuple):
    """Vectors over states ``[K, S]``, zero for terminal ones but for arrivals."""

    value: FloatArray
    variance: FloatArray  # [K or K + X, S], covariances of X pairs of rewards at last
    occupancy: FloatArray  # of the first reward of each discount


@jit_uncounted
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


@jit_uncounted
def substitute(
    dense: Dense | None, band: Band | None, space: Space, x: FloatArray
) -> None:
    """Solve with what `eliminate` left; ``x`` [K, S] in place."""
    n = space.slack.size
    if dense is not None:
        solve_all(space.matrix, x)
    if band is not None:
        for k in range(x.shape[0]):
            solve_band(space.matrix, band.position, x[k, :n], space.vectors[0])


@jit_uncounted
def substitute_transposed(
    dense: Dense | None, band: Band | None, space: Space, x: FloatArray
) -> None:
    """Solve with the transpose of it."""
    n = space.slack.size
    if dense is not None:
        solve_transposed(space.matrix, x[:n])
    if band is not None:
        solve_band_transposed(space.matrix, band.position, x[:n], space.vectors[0])


@jit_uncounted
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

    Rewards [K, E] of the same discount [K] stand beside each other. One discount goes
    straight on: with few states, loops over discounts take longer than the arithmetic.
    """
    bellman_mean(theta, pi, rows, reward, out.value)
    if run_of(g, 0) < g.size:
        return _solve_each(
            dense, band, space, want, theta, pi, rows, reward, g, start, out
        )
    if not eliminate(dense, band, space, theta, pi, rows, g[0]):
        return ENDLESS_CHAIN
    if want & (OCCUPANCY | GRADIENT):
        copy_to(out.occupancy[0], start)
        substitute_transposed(dense, band, space, out.occupancy[0])
    substitute(dense, band, space, out.value)
    if want & VARIANCE:
        bellman_spread(theta, pi, rows, reward, g, out.value, out.variance)
        if g[0] * g[0] != g[0]:
            eliminate(dense, band, space, theta, pi, rows, g[0] * g[0])
        substitute(dense, band, space, out.variance)
    return SOLVED


@jit
def _solve_each(
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
    """Do the same for several discounts; values hold the rewards of a step."""
    adjoint = want & (OCCUPANCY | GRADIENT)
    first, held = 0, -1.0  # discount that the factorised matrix has
    while first < g.size:
        last, held = run_of(g, first), g[first]
        if not eliminate(dense, band, space, theta, pi, rows, held):
            return ENDLESS_CHAIN
        if adjoint:
            copy_to(out.occupancy[first], start)
            substitute_transposed(dense, band, space, out.occupancy[first])
        substitute(dense, band, space, out.value[first:last])
        first = last
    if want & VARIANCE:
        bellman_spread(theta, pi, rows, reward, g, out.value, out.variance)
        first = 0
        while first < out.variance.shape[0]:
            square, last = run_of_squares(g, first, out.variance.shape[0])
            if square != held:
                held = square
                eliminate(dense, band, space, theta, pi, rows, held)
            substitute(dense, band, space, out.variance[first:last])
            first = last
    return SOLVED


@jit_uncounted
def run_of(g: FloatArray, first: int) -> int:
    """Return where discounts are no longer that of place ``first``."""
    last = first + 1
    while last < g.size and g[last] == g[first]:
        last += 1
    return last


@jit_uncounted
def run_of_squares(g: FloatArray, first: int, n: int) -> tuple[float, int]:
    """Return the discount of a variance or covariance, and where it is another.

    There are ``n`` of them, as `bellman_spread` has them.
    """
    square, last = _square(g, first), first + 1
    while last < n and _square(g, last) == square:
        last += 1
    return square, last


@jit_uncounted
def _square(g: FloatArray, at: int) -> float:
    """Return the discount of one: those of variances, then of pairs."""
    if at < g.size:
        return float(g[at] * g[at])
    at -= g.size
    i = 0
    while at >= g.size - 1 - i:
        at -= g.size - 1 - i
        i += 1
    return float(g[i] * g[i + 1 + at])


@jit
def solve_iteratively(  # noqa: C901 - three systems, each of some right-hand sides
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
    products, first = 0, 0
    bellman_mean(theta, pi, rows, reward, space.rhs[: g.size])
    while first < g.size:  # right-hand sides of one discount share a system
        last = run_of(g, first)
        system = _system(krylov, chain, value, g[first], space)
        some = space.rhs[first:last]
        into = out.value[first:last]
        more = bounded(system, space, length, space.lanes, some, into)
        if more < 0:
            return more - products
        products, first = products + more, last
    first = 0
    while first < g.size and want & (OCCUPANCY | GRADIENT):
        more = _iterate_visits(
            krylov, chain, space, value, g[first], start, t_length, out.occupancy[first]
        )
        if more < 0:
            return more - products
        products, first = products + more, run_of(g, first)
    if want & VARIANCE:
        spread = out.variance
        rhs = space.rhs[: spread.shape[0]]
        bellman_spread(theta, pi, rows, reward, g, out.value, rhs)
        first = 0
        while first < spread.shape[0]:
            square, last = run_of_squares(g, first, spread.shape[0])
            system = _system(krylov, chain, value, square, space)
            some = rhs[first:last]
            into = spread[first:last]
            more = bounded(system, space, length, space.lanes, some, into)
            if more < 0:
                return more - products
            products, first = products + more, last
        for k in range(g.size):  # an error within the tolerance may be below 0
            for i in range(space.slack.size):
                spread[k, i] = max(spread[k, i], 0.0)
    return products


@jit
def _system(
    krylov: Krylov, chain: Chain, value: FloatArray, g: float, space: Space
) -> System:
    """Prepare ``I - g T``."""
    system = System(
        g,
        krylov.backward,
        chain.begin,
        chain.stop,
        chain.column,
        value,
        space.inverse,
    )
    fill_inverse(system)
    return system


@jit
def _iterate_visits(
    krylov: Krylov,
    chain: Chain,
    space: Space,
    value: FloatArray,
    g: float,
    start: FloatArray,
    length: FloatArray,
    out: FloatArray,
) -> int:
    """Solve for visits [S] with the transpose; products, negative if that failed."""
    system = _system(krylov, chain, value, g, space)
    for at in range(chain.t_slot.size):
        e = np.uint64(at)
        space.t_value[e] = value[chain.t_slot[e]]
    transposed = System(
        g,
        not system.backward,  # what flows towards the end in the rows flows from it
        chain.t_begin,
        chain.t_stop,
        chain.t_column,
        space.t_value,
        space.inverse,
    )
    given = start.reshape((1, start.size))
    return bounded(transposed, space, length, None, given, out.reshape((1, out.size)))


@jit
def bounded(
    system: System,
    space: Space,
    length: FloatArray,
    lanes: FloatArray | None,
    rhs: FloatArray,
    x: FloatArray,
) -> int:
    """Solve for ``rhs`` [K, S] with bounds on errors; products, negative if not.

    With ``lanes`` several are solved together: they read the chain once for all.
    """
    n, scale, vectors = system.begin.size, space.scale, space.vectors
    x[:, n:] = 0.0
    products = bounding_scale(system, length, space.ones, scale, vectors)
    if products == 0:
        return -1
    done = 0
    while done < rhs.shape[0]:
        some, into, more = rhs[done:], x[done:], 0
        if lanes is not None and some.shape[0] > 1:
            some, into = some[:WIDEST], into[:WIDEST]
            if some.shape[0] == 2:
                more = solve_lanes(system, some, scale, TWO, into, vectors, lanes)
            else:
                more = solve_lanes(system, some, scale, FOUR, into, vectors, lanes)
            done += some.shape[0]
        else:
            more = iterate(
                system, some[0], scale, 0.0, TOLERANCE, ACCEPTED, into[0], vectors
            )
            done += 1
        if more < 0:
            return -products
        products += more
    return products
