"""What a sweep will take, before it is begun."""

from dataclasses import dataclass, replace

import numpy as np

from bayesmdp._memory import available_bytes, gigabytes
from bayesmdp.engine import _reduce as channels
from bayesmdp.engine._choose import rough_cost
from bayesmdp.engine._join import BLOCK
from bayesmdp.engine._krylov import N_VECTORS
from bayesmdp.engine._problem import Problem
from bayesmdp.engine._solve import CONTROL, CONTROL_STATES, GRADIENT, Krylov, Method
from bayesmdp.errors import TooLargeError

_DENSE_IS_SLOW = 10_000  # live states
_TASK_SECONDS = 1.0  # roughly, so that Ctrl-C is heard
_LEAST_SECONDS = 1e-3  # less than that, and handing over takes longer than it saves
_ENTRY_SECONDS = 15e-9  # to sample one
_TASK_BYTES = 64_000_000  # sums a task may hold before they are joined
_ITERATIVE = Method(krylov=Krylov(False))
_NO_CONTROLS = "no control variates (control=False in `evaluate`)"


def bytes_a_block(problem: Problem, bits: int) -> int:
    """Return what the sums of one block of draws take."""
    n_policies, n_rows = problem.policies.shape
    slopes = 2 * n_rows if bits & GRADIENT else 0
    n_sums = channels.n_channels(bits) * problem.start.size + slopes
    return int(8 * n_policies * n_sums)


def blocks_a_task(
    problem: Problem, method: Method, bits: int, n_draws: int, in_flight: int
) -> int:
    """Count the blocks of a task: several for each of many workers, none too large."""
    blocks = -(-n_draws // BLOCK)
    solved = 1e-9 * problem.policies.shape[0] * rough_cost(problem, method)
    seconds = BLOCK * (solved + _ENTRY_SECONDS * problem.target.size)
    most = min(_TASK_BYTES // bytes_a_block(problem, bits), _TASK_SECONDS / seconds)
    # One worker has nobody to share with.
    share = min(blocks // (2 * in_flight) if in_flight > 2 else blocks, 16)
    return int(max(min(max(share, _LEAST_SECONDS / seconds), most, blocks), 1))


def bytes_a_thread(
    problem: Problem, method: Method, bits: int, n_draws: int, threads: int
) -> int:
    """Return what one thread of a sweep takes: a model, its chains, work space."""
    n_policies, n_states = problem.policies.shape[0], problem.start.size
    entries, n = problem.target.size, problem.n_live
    vectors = 8 * n_states * (N_VECTORS + 12)
    held = 0
    if bits & GRADIENT and not (problem.policies > 0).all():
        held = 2 * 8 * n_policies * n_states * BLOCK
    if method.krylov is not None:  # the chain and its transpose, indices and values
        solving = entries * (16 * n_policies + 16)
    else:
        columns = n if method.band is None else 2 * method.band.width + 1
        solving = 8 * n * columns
    # a task at work and one that waits to be joined
    blocks = 2 * blocks_a_task(problem, method, bits, n_draws, 2 * threads)
    sums = blocks * bytes_a_block(problem, bits)
    rows = 0
    if problem.sets.group.size or problem.alpha.shape[0] > 1:  # one while it is sampled
        rows = 16 * int(np.diff(problem.indptr).max(initial=0))
    return int(8 * entries + vectors + held + solving + sums + rows)


def check_memory(
    problem: Problem,
    method: Method,
    bits: int,
    n_draws: int,
    threads: int,
    *,
    to_invert: bool = False,
) -> None:
    """Refuse a sweep that does not fit, and say what would.

    ``to_invert`` where the inverses of control variates are still to be formed.
    """
    inverses = 0
    if to_invert:  # one of every policy, and one while it is made
        inverses = 8 * problem.n_live**2 * (problem.policies.shape[0] + 1)
    needed = inverses + _bytes_in_all(problem, method, bits, n_draws, threads)
    if needed <= (there := available_bytes(needed)):
        return
    counts = f"{threads} thread{'s' if threads > 1 else ''}"
    raise TooLargeError(
        f"This sweep needs about {gigabytes(needed)} of memory ({problem.n_live} "
        f"states, {problem.target.size} entries, {counts}), and {gigabytes(there)} are "
        f"free: {_remedy(problem, method, bits, n_draws, threads, there, inverses)}. "
        "`BAYESMDP_MEMORY` sets another limit."
    )


def _bytes_a_draw(problem: Problem) -> int:
    """Return what the results of one draw take, twice while they are put together."""
    return int(2 * problem.policies.shape[0] * (8 * channels.N_START + 9) + 16)


def _bytes_in_all(
    problem: Problem, method: Method, bits: int, n_draws: int, threads: int
) -> int:
    """Return what all threads and the joined sums take together."""
    each = bytes_a_thread(problem, method, bits, n_draws, threads)
    per_draw = _bytes_a_draw(problem)
    return threads * each + 4 * bytes_a_block(problem, bits) + n_draws * per_draw


@dataclass(frozen=True)
class _Room:
    """What is free, and whether a sweep of so many draws would fit into it."""

    there: int
    problem: Problem
    n_draws: int

    def fits(self, method: Method, bits: int, threads: int, more: int = 0) -> bool:
        """Whether the sweep fits, with ``more`` bytes beside it."""
        needed = _bytes_in_all(self.problem, method, bits, self.n_draws, threads)
        return more + needed <= self.there

    def most(self, method: Method, bits: int, threads: int, more: int = 0) -> int:
        """Draws that fit, in whole blocks."""
        low, high = 0, self.n_draws // BLOCK
        while low < high:
            half = (low + high + 1) // 2
            if replace(self, n_draws=half * BLOCK).fits(method, bits, threads, more):
                low = half
            else:
                high = half - 1
        return low * BLOCK


def _remedy(
    problem: Problem,
    method: Method,
    bits: int,
    n_draws: int,
    threads: int,
    there: int,
    inverses: int,
) -> str:
    """Find the nearest thing that fits, tried in turn."""
    room = _Room(there, problem, n_draws)
    if fewer := room.most(method, bits, threads, inverses):
        return f"about {fewer} draws would fit"
    large = method.name == "dense" and problem.n_live > _DENSE_IS_SLOW
    if large and room.fits(_ITERATIVE, bits, threads, inverses):
        return "solver='iterative' takes far less, and is far faster"
    for on in range(threads - 1, 0, -1):
        if room.fits(method, bits, on, inverses):
            return f"threads={on} would fit"
    return _plain_remedy(room, method, bits)


def _plain_remedy(room: _Room, method: Method, bits: int) -> str:
    """Find what fits on one thread without control variates."""
    problem = room.problem
    plain = bits & ~(CONTROL | CONTROL_STATES)
    how = "threads=1" + (f" and {_NO_CONTROLS}" if plain != bits else "")
    if plain != bits and room.fits(method, plain, 1):
        return f"{how} would fit"
    if method.name != "iterative" and room.fits(_ITERATIVE, plain, 1):
        return f"solver='iterative' with {how} would fit"
    n_policies = problem.policies.shape[0]
    alone = replace(problem, policies=problem.policies[:1])
    if n_policies > 1 and replace(room, problem=alone).fits(method, plain, 1):
        return f"the {n_policies} policies would fit one at a time, with {how}"
    if fewer := room.most(method, plain, 1):
        return f"about {fewer} draws with {how} would fit"
    share = room.there / _bytes_in_all(problem, method, plain, BLOCK, 1)
    if method.name == "dense":
        share = share**0.5
    return (
        f"about {int(share * problem.n_live)} states of this shape would fit, or a "
        "policy and a prior with fewer next states"
    )
