"""The record of an optimisation."""

import math
from dataclasses import dataclass
from typing import Any

from bayesmdp._sheet import Sheet
from bayesmdp._typing import FloatArray
from bayesmdp.evaluation import Evaluation, plain, rounded


@dataclass(frozen=True)
class Step:
    """One step of any ascent, the short ones included, for people to look at."""

    start: str  # which start it came from
    step: int
    value: float  # on that step's own draws
    gap: float  # first-order bound on what is left to gain
    batch: int


@dataclass(frozen=True, eq=False, repr=False)
class Optimisation:
    """A policy, what it is worth on draws it never saw, and how it was found.

    ``upper_bound`` is the mean over draws of each draw's own best value: no policy that
    does not know the model can be worth more. ``gap`` is what is left below it; it
    holds both what a better policy could gain and what perfect information would be
    worth, so it does not go to 0 at the optimum. Without discount both are NaN where
    some draw's best policy would never end.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> result = bm.optimise(bm.worlds.casino(), seed=0)
    >>> result.policy[0].round(4).tolist(), round(result.start_value, 4)
    ([0.6907, 0.3093], 1.3377)
    """

    policy: FloatArray  # [S, A]
    evaluation: Evaluation  # on fresh draws
    start_value: float
    start_value_error: float
    upper_bound: float
    upper_bound_error: float
    gap: float
    gap_error: float  # of the paired difference; far below that of the bound
    chosen_start: str
    starts: dict[str, FloatArray]
    history: tuple[Step, ...]
    converged: bool
    status: str  # a message
    steps: int
    draws_used: int  # of the optimiser's own stream; `resume` goes on after them
    seconds: float
    seed: int

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it: the best policy so far, and `resume` goes on."""
        return self.status.startswith("interrupted")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, for JSON; what is not finite is None.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> bm.optimise(bm.worlds.casino(), seed=0).to_dict()["converged"]
        True
        """
        names = ["start_value", "start_value_error", "upper_bound", "upper_bound_error"]
        names += ["gap", "gap_error", "chosen_start", "converged", "interrupted"]
        names += ["status", "steps", "draws_used", "seconds", "seed"]
        found = {name: plain(getattr(self, name)) for name in names}
        return found | {"evaluation": self.evaluation.to_dict()}

    def summary(self) -> str:
        """Say what was found.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> print(bm.optimise(bm.worlds.casino(), seed=0).summary())
        Worth 1.33772 from the start, at most 3.95 with perfect information
          found from ...
        """
        return self._sheet().text()

    def _sheet(self) -> Sheet:
        value = rounded(self.start_value, self.start_value_error)
        most = ""  # the status says why there is no bound
        if math.isfinite(self.upper_bound):
            bound = rounded(self.upper_bound, self.upper_bound_error)
            most = f", at most {bound} with perfect information"
        return Sheet(
            f"Worth {value} from the start{most}",
            [
                f"found from {self.chosen_start!r} in {self.steps} steps, "
                f"{self.seconds:.2f} s: {self.status}"
            ],
            indent="  ",
        )

    def _repr_html_(self) -> str:
        return self._sheet().html() + self.evaluation._repr_html_()

    def __repr__(self) -> str:
        return (
            f"Optimisation(start_value={self.start_value:.6g}, "
            f"upper_bound={self.upper_bound:.4g}, converged={self.converged})"
        )
