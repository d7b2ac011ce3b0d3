"""Which of several policies is best, on draws none of them was chosen on."""

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.evaluation.paired import paired_differences
from bayesmdp.optimisation._field import Field

_BUDGET = 6e9  # operations a policy, which sets the number of draws
_LEAST, _MOST = 64, 2048


class Race:
    """Compares policies by paired differences with control variates."""

    def __init__(self, field: Field, purpose: str) -> None:
        self._field = field
        self._draws = field.draws(purpose, field.affordable(_BUDGET, _LEAST, _MOST))

    def differences(
        self, policies: list[FloatArray], reference: int = 0
    ) -> tuple[FloatArray, FloatArray]:
        """Value of each policy minus the reference's, and the errors."""
        return paired_differences(
            np.stack(policies), self._draws, reference, pool=self._field.pool
        )

    def best(self, policies: list[FloatArray]) -> int:
        """Index of the best; the first where nothing is better."""
        if len(policies) == 1:
            return 0
        difference, _ = self.differences(policies)
        return int(np.argmax(difference))
