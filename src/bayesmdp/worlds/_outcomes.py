"""Tables of outcomes, in which a transition may stand several times."""

import warnings
from dataclasses import dataclass, replace

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.errors import BayesmdpWarning
from bayesmdp.model import Dynamics, RewardTriplets

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What may happen, as columns; axis K runs over outcomes."""

    n_states: int
    n_actions: int
    state: IntArray  # [K]
    action: IntArray  # [K]
    next_state: IntArray  # [K]
    probability: FloatArray  # [K], above 0
    reward: FloatArray  # [K]
    ends: BoolArray  # [K]

    def of(self, kept: BoolArray) -> "Outcomes":
        """Outcomes of the mask ``[K]``."""
        names = ("state", "action", "next_state", "probability", "reward", "ends")
        return replace(self, **{name: getattr(self, name)[kept] for name in names})

    def dynamics(self) -> Dynamics:
        """Probabilities, those of the same transition added up."""
        return Dynamics.from_arrays(
            self.state,
            self.action,
            self.next_state,
            self.probability,
            n_states=self.n_states,
            n_actions=self.n_actions,
        )

    def mean_reward(self, needed_by: str, live: BoolArray) -> RewardTriplets:
        """Mean reward of each transition.

        Says aloud where a transition from one of the ``live`` states ``[S]`` pays now
        this and now that; ``needed_by`` is the function that users called.
        """
        pair = self.state * self.n_actions + self.action
        key, place = np.unique(
            pair * self.n_states + self.next_state, return_inverse=True
        )
        p = self.probability
        mean = np.bincount(place, p * self.reward) / np.bincount(place, p)
        off = np.abs(self.reward - mean[place])
        varied = (off > _ROUNDING * np.abs(mean[place])) & live[self.state]
        if varied.any():
            first = int(np.argmax(varied))
            warnings.warn(
                f"`{needed_by}`: {np.unique(place[varied]).size} transitions pay now "
                f"this and now that (first: state {self.state[first]}, action "
                f"{self.action[first]}); their mean is taken, so values are right and "
                "the spread of returns is too small.",
                BayesmdpWarning,
                stacklevel=3,
            )
        return RewardTriplets(key, mean)
