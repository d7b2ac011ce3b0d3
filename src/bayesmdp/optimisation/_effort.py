"""How hard to look: draws and steps of a search, and what they may cost.

Draws are fewer where the model is large: each number is also bounded by a budget of
operations. `docs/optimisation.md` has what each level brings and takes.
"""

from dataclasses import dataclass

from bayesmdp import _checks
from bayesmdp.errors import ArgumentError

_FEW = ("nominal", "mle", "second_order")
_ALL = (*_FEW, "msbi", "uniform", "random_1", "random_2")


@dataclass(frozen=True)
class Effort:
    """Numbers of one level."""

    starts: tuple[str, ...]  # where not given
    second_order: int  # live states up to which it is one: dozens of inversions
    n_climbs: int  # starts that climb, the best ones
    stages: tuple[tuple[int, int], ...]  # draws that steps share, and most steps
    select: int  # draws that starts are compared on
    choose: int  # draws that the policies found are compared on
    judge: int  # draws of the evaluation
    bound: int  # draws of the upper bound
    budget: float  # operations for each of these
    tolerance: float  # gain at which to stop, in epistemic sds of the value


EFFORTS = {
    "quick": Effort(
        starts=_FEW,
        second_order=100,
        n_climbs=1,
        stages=((64, 8), (256, 4)),
        select=128,
        choose=256,
        judge=512,
        bound=64,
        budget=5e8,
        tolerance=1e-2,
    ),
    "normal": Effort(
        starts=_FEW,
        second_order=300,
        n_climbs=2,
        stages=((128, 12), (512, 8), (1024, 6)),
        select=256,
        choose=512,
        judge=1024,
        bound=128,
        budget=2e9,
        tolerance=2e-3,
    ),
    "thorough": Effort(
        starts=_ALL,
        second_order=2000,
        n_climbs=len(_ALL),
        stages=((512, 20), (4096, 12), (16384, 8)),
        select=1024,
        choose=4096,
        judge=10_000,
        bound=256,
        budget=2e10,
        tolerance=2e-4,
    ),
}


def effort_of(name: str) -> Effort:
    """Return the numbers of a level."""
    if not isinstance(name, str) or name not in EFFORTS:
        hint = _checks.did_you_mean(str(name), EFFORTS)
        raise ArgumentError(
            f"`effort` must be one of {', '.join(EFFORTS)}; got {name!r:.60}{hint}."
        )
    return EFFORTS[name]
