"""Which method solves the chains of a problem that is not small.

The nominal model is solved by iterations, in either direction of sweeps; its products
of matrix and vector, counted, tell what a draw will cost. Where elimination (dense, or
within the band that reverse Cuthill-McKee finds) costs less, or iterations do not
converge, it is taken. The choice depends on counts of operations, never on a clock or
on free memory, so it is the same in every process.
"""

import numpy as np

from bayesmdp._checks import read_only, writable
from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray
from bayesmdp.engine._chain import Layout, build_chain, fill_chain
from bayesmdp.engine._dense import copy_to
from bayesmdp.engine._kernel import ELIMINATION, ENTRY, STATE, Method
from bayesmdp.engine._krylov import (
    ACCEPTED,
    MOST_PRODUCTS,
    TOLERANCE,
    System,
    bounding_scale,
    fill_inverse,
    iterate,
)
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import Band, Krylov, Space

_FAILED = 10 * MOST_PRODUCTS  # stands for a solve that failed
_PATIENT = 60  # products beyond which the other direction and a band are looked at
# Limits of an elimination nobody asked for: a minute or so a draw, and a matrix. Fixed,
# so that every process comes to the same choice.
_MOST_OPERATIONS, _MOST_BYTES = 2e11, 1e9
_FEW = 1000  # states that are eliminated for digits alone


def choose(problem: Problem, wanted: str = "auto", *, adjoint: bool = True) -> Method:
    """Choose for the policies of a problem; ``adjoint`` where visits are wanted."""
    n = problem.n_live
    length, products = _lengths(problem, False, adjoint)
    backward = False
    if products > _PATIENT:
        other, fewer = _lengths(problem, True, adjoint)
        if fewer < products:
            length, products, backward = other, fewer, True
    iterative = Method(krylov=Krylov(backward), length=length)
    if wanted == "iterative":
        return iterative
    cost = 2.0 * products * (ENTRY * _most_entries(problem) + STATE * n)
    if cost > Method().cost(n) and 8 * n * n <= _MOST_BYTES:
        return Method()
    if products > _PATIENT:
        method = direct(problem)
        if method is not None and (products >= _FAILED or cost > method.cost(n)):
            return method
    return iterative


def direct(problem: Problem) -> Method | None:
    """Return the cheaper elimination, within a band or dense; None if neither fits."""
    n = problem.n_live
    best = min(Method(band=_band(problem)), Method(), key=lambda x: x.cost(n))
    operations = best.cost(n) / ELIMINATION
    if operations > _MOST_OPERATIONS or 8 * n * best.columns(n) > _MOST_BYTES:
        return None
    return best


def quick_direct(problem: Problem) -> Method | None:
    """Return an elimination that costs no more than that of a thousand states."""
    method = direct(problem)
    few = method is not None and method.cost(problem.n_live) <= Method().cost(_FEW)
    return method if few else None


def _most_entries(problem: Problem) -> int:
    """Entries of the largest chain, those of the same state and next state as one."""
    length = np.diff(problem.rows.indptr)
    most = 0
    for policy in problem.policies:
        per_state = np.bincount(
            problem.rows.source,
            np.where(policy > 0, length, 0),
            minlength=problem.n_live,
        )
        most = max(most, int(np.minimum(per_state, problem.rows.start.size).sum()))
    return most


def _band(problem: Problem) -> Band:
    """Find places for states that keep entries near the diagonal."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    n = problem.n_live
    row = problem.rows.row_of_entry
    kept = problem.used[row] & (problem.rows.target < n)  # live, and used
    tail = problem.rows.source[row[kept]]
    head = problem.rows.target[kept].astype(np.int64)
    pattern = coo_array((np.ones(tail.size), (tail, head)), shape=(n, n)).tocsr()
    order = reverse_cuthill_mckee(pattern + pattern.T, symmetric_mode=True)
    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n)
    width = int(np.abs(position[tail] - position[head]).max(initial=0))
    return Band(width, read_only(position))


def _lengths(
    problem: Problem, backward: bool, adjoint: bool
) -> tuple[FloatArray, float]:
    """Weights of every policy, ``[2, P, S]``, and the most products a solve took."""
    length = np.zeros((2, problem.policies.shape[0], problem.rows.start.size))
    krylov, most = Krylov(backward), 0
    for p, policy in enumerate(problem.policies):
        products = measure_lengths(
            krylov,
            writable(problem.rows.mean),
            read_only(policy),
            problem.rows.layout,
            float(problem.discounts.max()),
            Method(krylov=krylov).space(*problem.sizes[:3]),
            adjoint,
            length[0, p],
            length[1, p],
        )
        most = max(most, products)
    return length, float(most)


@jit
def measure_lengths(
    krylov: Krylov,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    g: float,
    space: Space,
    adjoint: bool,
    length: FloatArray,
    t_length: FloatArray,
) -> int:
    """Solve for the right-hand side 1, both ways; return the larger count of products.

    A solve that fails counts as more than any that does not, and leaves zeros.
    """
    n = space.slack.size
    chain = build_chain(pi, rows, n, adjoint)
    value = space.value
    if chain.slot.size > 0:
        fill_chain(chain, theta, pi, rows, value)
    else:
        value = theta
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
    most = 0
    for side in range(2 if adjoint else 1):
        x = length if side == 0 else t_length
        if side == 1:
            for k in range(chain.t_slot.size):
                space.t_value[k] = value[chain.t_slot[k]]
            system = System(
                g,
                not krylov.backward,
                chain.t_begin,
                chain.t_stop,
                chain.t_column,
                space.t_value,
                space.inverse,
            )
        products = 0
        if bounding_scale(system, x, space.ones, space.scale, space.vectors) > 0:
            copy_to(x, space.vectors[6, :n])
            products = iterate(
                system,
                space.ones,
                space.scale,
                0.0,
                TOLERANCE,
                ACCEPTED,
                x,
                space.vectors,
            )
        if products <= 0:
            products = _FAILED
            x[:] = 0.0
        most = max(most, products)
    return most
