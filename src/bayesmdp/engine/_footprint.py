"""What a sweep will take, before it is begun."""

from dataclasses import dataclass, replace
from typing import Any

from bayesmdp._memory import available_bytes, gigabytes
from bayesmdp.engine import _reduce as channels
from bayesmdp.engine._backend import Backend
from bayesmdp.engine._join import BLOCK
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import CONTROL, CONTROL_STATES, GRADIENT, KEEP
from bayesmdp.errors import TooLargeError

_DENSE_IS_SLOW = 10_000  # live states
_TASK_SECONDS = 1.0  # roughly, so that Ctrl-C is heard
_LEAST_SECONDS = 1e-3  # less than that, and handing over takes longer than it saves
_TASK_BYTES = 64_000_000  # sums a task may hold before they are joined
_NO_CONTROLS = "no control variates (control=False in `evaluate`)"


@dataclass(frozen=True)
class Footprint:
    """A sweep that is planned: what it computes, on how many draws and threads."""

    backend: Backend
    problem: Problem
    solver: Any  # of the backend
    bits: int
    n_draws: int
    threads: int
    inverses: int = 0  # bytes of those that are still to be formed

    @property
    def bytes_per_block(self) -> int:
        """What the sums of one block of draws take."""
        n_policies, n_rows = self.problem.policies.shape
        slopes = 2 * n_rows if self.bits & GRADIENT else 0
        n_states = self.problem.rows.start.size
        n_sums = channels.n_channels(self.bits) * n_states + slopes
        return int(8 * n_policies * n_sums)

    def blocks_per_task(self, in_flight: int) -> int:
        """Blocks of a task: several tasks for each worker, none too large."""
        blocks = -(-self.n_draws // BLOCK)
        seconds = BLOCK * self.backend.seconds_per_draw(self.problem, self.solver)
        most = min(_TASK_BYTES // self.bytes_per_block, _TASK_SECONDS / seconds)
        # One worker has nobody to share with.
        share = min(blocks // (2 * in_flight) if in_flight > 2 else blocks, 16)
        return int(max(min(max(share, _LEAST_SECONDS / seconds), most, blocks), 1))

    @property
    def n_bytes(self) -> int:
        """What all threads, the joined sums and the results of draws take together."""
        # a task at work and one that waits to be joined
        blocks = 2 * self.blocks_per_task(2 * self.threads)
        each = self.backend.bytes_per_thread(self.problem, self.solver, self.bits)
        each += blocks * self.bytes_per_block
        # results of one draw, twice while they are put together
        n_kept = 2 * self.problem.rows.start.size if self.bits & KEEP else 0
        each_draw = 8 * (channels.N_START + n_kept) + 9
        per_draw = 2 * len(self.problem.policies) * each_draw + 16
        joined = 4 * self.bytes_per_block
        return int(
            self.inverses + self.threads * each + joined + self.n_draws * per_draw
        )

    def check(self) -> None:
        """Refuse a sweep that does not fit, and say what would."""
        needed = self.n_bytes
        if needed <= (there := available_bytes(needed)):
            return
        problem = self.problem
        counts = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        raise TooLargeError(
            f"This sweep needs about {gigabytes(needed)} of memory ({problem.n_live} "
            f"states, {problem.rows.target.size} entries, {counts}), and "
            f"{gigabytes(there)} are free: {self._remedy(there)}. `BAYESMDP_MEMORY` "
            "sets another limit."
        )

    def _most(self, there: int) -> int:
        """Draws that fit, in whole blocks."""
        low, high = 0, self.n_draws // BLOCK
        while low < high:
            half = (low + high + 1) // 2
            if replace(self, n_draws=half * BLOCK).n_bytes <= there:
                low = half
            else:
                high = half - 1
        return low * BLOCK

    def _remedy(self, there: int) -> str:
        """Find the nearest thing that fits, tried in turn."""
        if fewer := self._most(there):
            return f"about {fewer} draws would fit"
        lighter = self.backend.lighter(self.solver)
        large = self.problem.n_live > _DENSE_IS_SLOW
        if lighter and large and replace(self, solver=lighter).n_bytes <= there:
            return "solver='iterative' takes far less, and is far faster"
        for on in range(self.threads - 1, 0, -1):
            if replace(self, threads=on).n_bytes <= there:
                return f"threads={on} would fit"
        return self._plain_remedy(there)

    def _plain_remedy(self, there: int) -> str:
        """Find what fits on one thread without control variates."""
        bits = self.bits & ~(CONTROL | CONTROL_STATES)
        plain = replace(self, bits=bits, threads=1, inverses=0)
        how = "threads=1" + (f" and {_NO_CONTROLS}" if bits != self.bits else "")
        if bits != self.bits and plain.n_bytes <= there:
            return f"{how} would fit"
        lighter = self.backend.lighter(self.solver)
        if lighter and replace(plain, solver=lighter).n_bytes <= there:
            return f"solver='iterative' with {how} would fit"
        problem = self.problem
        n_policies = len(problem.policies)
        alone = problem.with_policies(problem.policies[:1])
        if n_policies > 1 and replace(plain, problem=alone).n_bytes <= there:
            return f"the {n_policies} policies would fit one at a time, with {how}"
        if fewer := plain._most(there):
            return f"about {fewer} draws with {how} would fit"
        share = there / replace(plain, n_draws=BLOCK).n_bytes
        if lighter:  # a matrix grows with the square
            share = share**0.5
        return (
            f"about {int(share * problem.n_live)} states of this shape would fit, or a "
            "policy and a prior with fewer next states"
        )
