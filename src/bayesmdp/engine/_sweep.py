"""One sweep over draws, for whoever needs it: the narrow waist of the package.

`sweep` runs ranges of draws on an executor and joins them in a fixed tree
(`bayesmdp.engine._join`), so that the result depends neither on the number of threads
nor on how the draws were split. What is done with a range is a backend's business;
nothing grows with draws times model size.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine import _solve as solving
from bayesmdp.engine._backend import Backend
from bayesmdp.engine._footprint import Footprint
from bayesmdp.engine._join import BLOCK, Joiner, Sums
from bayesmdp.engine._nominal import MAX_INVERSE, Nominal, blank, lacks_digits
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._workers import Inline, Pool, results
from bayesmdp.errors import TooLargeError


@dataclass(frozen=True)
class Want:
    """What a sweep computes beside the value."""

    variance: bool = False
    occupancy: bool = False
    gradient: bool = False
    values: bool = False  # and variances, of every draw and state

    def bits(self, control: bool = False, every_state: bool = False) -> int:
        """Return the flags as the kernel reads them."""
        return (
            solving.VARIANCE * self.variance
            + solving.OCCUPANCY * self.occupancy
            + solving.GRADIENT * self.gradient
            + solving.KEEP * self.values
            + solving.CONTROL * control
            + solving.CONTROL_STATES * (control and every_state)
        )

    @property
    def adjoint(self) -> bool:
        """Whether visits are solved for."""
        return self.occupancy or self.gradient


Progress = Callable[[int], None]


def sweep(
    problem: Problem,
    nominal: Nominal,
    n_draws: int,
    *,
    want: Want,
    pool: Pool,
    first: int = 0,
    weights: FloatArray | None = None,
    after: Sums | None = None,
    progress: Progress | None = None,
) -> Sums:
    """Sweep ``n_draws`` draws of a problem.

    Parameters
    ----------
    problem
        Arrays of the belief and the policies.
    nominal
        Reference model.
    n_draws
        How many, those of ``after`` included.
    want
        What to compute beside the value.
    pool
        Who works, from `workers`.
    first
        Number of the first draw.
    weights
        One for each draw, ``[D]``; 1 where not given.
    after
        Earlier result to go on from; its draws, a multiple of the block, are not
        computed again.
    progress
        Called with the number of draws done.
    """
    done = 0 if after is None else after.n_draws
    w = np.ones(n_draws) if weights is None else weights
    if done % BLOCK or first % BLOCK or w.size != n_draws:
        raise AssertionError("a sweep goes on at the end of a whole block")
    bits = want.bits(nominal.controls, nominal.every_state)
    left = n_draws - done
    planned = Footprint(pool.backend, problem, nominal.solver, bits, left, pool.threads)
    blocks = planned.blocks_per_task(pool.in_flight)
    if pool.local:
        planned.check()
        pool = replace(pool, executor=Inline()) if blocks * BLOCK >= left else pool
    total = Joiner()
    if after is not None:
        total.add(after)
    jobs = (
        (problem, nominal, bits, first + begin, w[begin:stop])
        for begin, stop in _ranges(done, n_draws, blocks)
    )
    with results(pool, pool.backend.sweep, jobs) as parts:
        for part in parts:
            total.add(part)
            if progress is not None:
                progress(total.n_draws)
    return total.sums()


def _ranges(first: int, stop: int, blocks: int) -> Iterator[tuple[int, int]]:
    """Split draws into tasks of so many blocks."""
    for begin in range(first, stop, blocks * BLOCK):
        yield begin, min(begin + blocks * BLOCK, stop)


_EVERYTHING = Want(variance=True, occupancy=True)
_MOST = 1e70  # a value whose fourth power can be summed, also where draws are larger


def solve_known(
    problem: Problem, backend: Backend, want: Want = _EVERYTHING
) -> FloatArray:
    """Value, return variance and occupancy of the mean model, ``[3, P, S]``.

    In sweep order, terminal values not added; zeros for what is not wanted.
    """
    solver = backend.choose(problem, "auto", adjoint=want.adjoint)
    return _solved(problem, backend, solver, want.bits())


def _solved(problem: Problem, backend: Backend, solver: Any, bits: int) -> FloatArray:
    """Solve the mean model, and refuse values whose powers cannot be summed."""
    out = backend.solve_mean(problem, solver, bits)
    if not np.abs(out[0]).max(initial=0.0) <= _MOST:
        raise TooLargeError(
            f"Values of this policy are above {_MOST:g} in size, too large for their "
            "fourth moments: episodes are too long for rewards of this size; use a "
            "smaller discount, or give rewards in larger units."
        )
    return out


def nominal(
    problem: Problem,
    pool: Pool,
    *,
    control: bool,
    solver: str = "auto",
    want: Want = _EVERYTHING,
    n_draws: int = BLOCK,
) -> Nominal:
    """Solve the nominal model; with ``control``, form its inverse up to some size.

    Memory is looked at before, for a sweep of ``n_draws``.
    """
    backend = pool.backend
    adjoint = want.adjoint or control
    chosen = backend.choose(problem, solver, adjoint=adjoint)
    want = replace(want, occupancy=adjoint)
    # the mean of the second control variate needs independent Dirichlet rows
    fits = control and problem.rows.total is not None and problem.n_live <= MAX_INVERSE
    # the inverse of every policy, and one while it is made
    inverses = 8 * problem.n_live**2 * (len(problem.policies) + 1) if fits else 0
    bits = want.bits(control, fits)
    planned = Footprint(backend, problem, chosen, bits, n_draws, pool.threads, inverses)
    planned.check()
    reference = _solved(problem, backend, chosen, want.bits())
    few = lacks_digits(problem, reference)
    exact = backend.exact(problem, chosen) if any(few) and solver == "auto" else None
    if exact is not None:
        chosen = exact
        replace(planned, solver=chosen).check()
        reference = _solved(problem, backend, chosen, want.bits())
    if chosen.name != "iterative":
        few = ()
    inverse = backend.inverses(problem) if fits else blank(problem, chosen).inverse
    return Nominal(reference, problem.rows.mean, inverse, chosen, control, few)
