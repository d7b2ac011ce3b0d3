"""Which of several policies is best, on draws none of them was chosen on."""

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.evaluation import Swept, tie
from bayesmdp.evaluation.paired import differences, sweep_paired
from bayesmdp.optimisation._oracle import Field

_BUDGET = 2.5e9  # operations a policy, which sets the number of draws
_LEAST, _MOST = 64, 1024
_SAME = 1.0  # errors within which policies count as equally good


class Race:
    """Compares policies by paired differences with control variates."""

    def __init__(self, field: Field, purpose: str, most: int = _MOST) -> None:
        self._field = field
        self._draws = field.draws(purpose, field.affordable(_BUDGET, _LEAST, most))

    def differences(self, policies: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Value of each policy minus that of the first, and the errors.

        A policy that never ends is worth minus infinity.
        """
        ends = [self._field.ends(policy) for policy in policies]
        difference, error = np.full(len(policies), -np.inf), np.zeros(len(policies))
        if ends[0]:
            kept = [p for p, good in zip(policies, ends, strict=True) if good]
            difference[ends], error[ends] = differences(self._sweep(kept), 0)
        return difference, error

    def best(self, policies: list[FloatArray], preferred: int = 0) -> int:
        """Index of the best policy.

        Of the first ``preferred`` ones, in their order, one that is within `_SAME`
        errors of the best of them wins over it, unless one of the others is ahead;
        then likewise among those.
        """
        if len(policies) == 1:
            return 0
        ends = np.array([self._field.ends(policy) for policy in policies])
        if not ends.all():
            kept = np.flatnonzero(ends)
            if kept.size == 0:
                return 0
            few = int(ends[:preferred].sum())
            return int(kept[self.best([policies[i] for i in kept], few)])
        swept = self._sweep(policies)
        difference = differences(swept, 0)[0]
        if preferred in (0, len(policies)):
            return int(np.argmax(difference))
        scale = tie(swept.sums.start[0, 0])
        first = _first_best(swept, difference, slice(0, preferred), scale)
        rest = preferred + int(np.argmax(difference[preferred:]))
        if difference[rest] > difference[first] + scale:
            return _first_best(swept, difference, slice(preferred, None), scale)
        return first

    def _sweep(self, policies: list[FloatArray]) -> Swept:
        field = self._field
        return sweep_paired(
            np.stack(policies), self._draws, pool=field.pool, solver=field.solver
        )


def _first_best(
    swept: Swept, difference: FloatArray, among: slice, scale: float
) -> int:
    """First policy of some that is within `_SAME` errors of the best of them."""
    ahead = int(among.start + np.argmax(difference[among]))
    below, error = differences(swept, ahead)
    same = below[among] >= -(_SAME * error[among] + scale)
    return int(among.start + np.argmax(same))
