"""Which method solves the chains of a problem.

Small chains are eliminated. For larger ones the nominal model is solved by iterations,
in either direction of sweeps; its products of matrix and vector, counted, tell what a
draw will cost. Where elimination (dense, or within the band that reverse
Cuthill-McKee finds) costs less, or iterations do not converge, it is taken. The choice
depends on counts of operations, never on a clock or on free memory, so it is the same
in every process.
"""

from dataclasses import dataclass

import numpy as np

from bayesmdp._checks import read_only, writable
from bayesmdp._jit import jit
from bayesmdp._memory import available_bytes, gigabytes
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._chain import Layout, build_chain, fill_chain
from bayesmdp.engine._dense import copy_to
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
from bayesmdp.engine._solve import Band, Krylov, Method, Space, make_space
from bayesmdp.errors import ArgumentError, TooLargeError

SOLVERS = ("auto", "dense", "iterative")
_SMALL = 64  # live states up to which elimination is not worth a thought
_FAILED = 10 * MOST_PRODUCTS  # stands for a solve that failed
_PATIENT = 60  # products beyond which the other direction and a band are looked at
# Rough nanoseconds: an operation of elimination, an entry and a state of a product.
_ELIMINATION, _ENTRY, _STATE = 0.05, 0.4, 3.0
_SUBSTITUTION = 2.0  # an element of a factorised matrix, filled and used
# Limits of an elimination nobody asked for: a minute or so a draw, and a matrix. Fixed,
# so that every process comes to the same choice.
_MOST_OPERATIONS, _MOST_BYTES = 2e11, 1e9
_FEW = 1000  # states that are eliminated for digits alone


@dataclass(frozen=True, eq=False)
class Solver:
    """A method, and what it needs to know of the nominal model."""

    method: Method
    length: FloatArray  # [2, P, S], trial weights for bounds on errors; or zeros

    @property
    def name(self) -> str:
        """What the method is called."""
        return self.method.name


def choose(problem: Problem, wanted: str = "auto", *, adjoint: bool = True) -> Solver:
    """Choose for the policies of a problem; ``adjoint`` where visits are wanted."""
    check_solver(wanted)
    n = problem.n_live
    nothing = np.zeros((2, problem.policies.shape[0], problem.rows.start.size))
    if wanted == "dense" or (wanted == "auto" and n <= _SMALL):
        check_dense(n)
        return Solver(Method(), nothing)
    length, products = _lengths(problem, False, adjoint)
    backward = False
    if products > _PATIENT:
        other, fewer = _lengths(problem, True, adjoint)
        if fewer < products:
            length, products, backward = other, fewer, True
    iterative = Method(krylov=Krylov(backward))
    if wanted == "iterative":
        return Solver(iterative, length)
    entries = _most_entries(problem)
    cost = 2.0 * products * (_ENTRY * entries + _STATE * n)
    if cost > _cost_of_dense(n) and 8 * n * n <= _MOST_BYTES:
        return Solver(Method(), nothing)
    if products > _PATIENT:
        method = direct(problem)
        failed = products >= _FAILED
        if method is not None and (failed or cost > _cost_of_direct(n, method)):
            return Solver(method, nothing)
    return Solver(iterative, length)


def check_solver(wanted: str) -> None:
    """Refuse what is none of the solvers."""
    if wanted not in SOLVERS:
        raise ArgumentError(
            f"`solver` must be one of {', '.join(SOLVERS)}; got {wanted!r:.60}."
        )


def check_dense(n: int) -> None:
    """Refuse a matrix that does not fit."""
    needed = 8 * n * n
    if needed > (there := available_bytes(needed)):
        raise TooLargeError(
            f"`solver='dense'` needs {gigabytes(needed)} for a matrix of {n} states, "
            f"and {gigabytes(there)} are free: about {int((there / 8) ** 0.5)} states "
            "would fit. solver='iterative' needs far less."
        )


def direct(problem: Problem) -> Method | None:
    """Return the cheaper elimination, within a band or dense; None if neither fits."""
    n = problem.n_live
    band = _band(problem)
    methods = (Method(band=band), Method())
    best = min(methods, key=lambda method: _cost_of_direct(n, method))
    columns = n if best.band is None else 2 * band.width + 1
    operations = _cost_of_direct(n, best) / _ELIMINATION
    if operations > _MOST_OPERATIONS or 8 * n * columns > _MOST_BYTES:
        return None
    return best


def quick_direct(problem: Problem) -> Solver | None:
    """Return an elimination that costs no more than that of a thousand states."""
    method = direct(problem)
    if method is None or _cost_of_direct(problem.n_live, method) > _cost_of_dense(_FEW):
        return None
    return Solver(
        method, np.zeros((2, problem.policies.shape[0], problem.rows.start.size))
    )


def _cost_of_dense(n: int) -> float:
    return _ELIMINATION * 2 / 3 * n**3 + _SUBSTITUTION * n**2


def _cost_of_direct(n: int, method: Method) -> float:
    if method.band is None:
        return _cost_of_dense(n)
    width = method.band.width
    return 2 * n * (_ELIMINATION * width**2 + _SUBSTITUTION * (2 * width + 1))


def rough_cost(problem: Problem, method: Method) -> float:
    """Return rough nanoseconds of the three solves of a draw."""
    if method.krylov is None:
        return 2 * _cost_of_direct(problem.n_live, method)
    return 100 * (_ENTRY * problem.rows.target.size + _STATE * problem.n_live)


def _used_entries(problem: Problem) -> tuple[IntArray, IntArray]:
    """Source and target of live entries that some policy uses."""
    row = problem.rows.row_of_entry
    kept = problem.used[row] & (problem.rows.target < problem.n_live)
    return problem.rows.source[row[kept]], problem.rows.target[kept].astype(np.int64)


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
    tail, head = _used_entries(problem)
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
            make_space(
                Method(krylov=krylov),
                problem.n_live,
                problem.rows.start.size,
                problem.rows.target.size,
            ),
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
