"""What a sweep will take, before it is begun."""

from bayesmdp.engine import _reduce as channels
from bayesmdp.engine._join import BLOCK
from bayesmdp.engine._krylov import N_VECTORS
from bayesmdp.engine._memory import available_bytes, gigabytes
from bayesmdp.engine._problem import Problem
from bayesmdp.engine._solve import GRADIENT, Method
from bayesmdp.errors import TooLargeError


def bytes_a_block(problem: Problem, bits: int) -> int:
    """Return what the sums of one block of draws take."""
    n_policies, n_rows = problem.policies.shape
    slopes = 2 * n_rows if bits & GRADIENT else 0
    n_sums = channels.n_channels(bits) * problem.start.size + slopes
    return int(8 * n_policies * n_sums)


def bytes_a_thread(problem: Problem, method: Method, bits: int) -> int:
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
    blocks = 2 * bytes_a_block(problem, bits)  # one at work, one waiting to be joined
    return int(8 * entries + vectors + held + solving + blocks)


def check_memory(problem: Problem, method: Method, bits: int, threads: int) -> None:
    """Refuse a sweep that does not fit, and say what would."""
    each, there = bytes_a_thread(problem, method, bits), available_bytes()
    joined = 4 * bytes_a_block(problem, bits)
    if threads * each + joined <= there:
        return
    fit = (there - joined) // each
    n_policies = problem.policies.shape[0]
    if fit >= 1:
        remedy = f"threads={fit} would fit"
    elif method.name == "dense":
        remedy = "solver='iterative' takes far less"
    elif n_policies > 1:
        remedy = f"sweep the {n_policies} policies one at a time"
    else:
        share = there / (each + joined)
        remedy = (
            f"about {int(share * problem.n_live)} states of this shape would fit, or a "
            "policy and a prior with fewer next states"
        )
    raise TooLargeError(
        f"This sweep needs about {gigabytes(threads * each + joined)} of memory "
        f"({problem.n_live} states, {problem.target.size} entries, {threads} threads), "
        f"and {gigabytes(there)} are free: {remedy}. `BAYESMDP_MEMORY` sets another "
        "limit."
    )
