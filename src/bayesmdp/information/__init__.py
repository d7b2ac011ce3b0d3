"""What to learn next: the value of information of every pair, and the next trial."""

from bayesmdp.information._next_trial import TrialOutcome, TrialPlan, next_trial
from bayesmdp.information._record import Information, population
from bayesmdp.information._samples import Estimate, evpi, evppi, evsi
from bayesmdp.information._value import value_of_information

__all__ = [
    "Estimate",
    "Information",
    "TrialOutcome",
    "TrialPlan",
    "evpi",
    "evppi",
    "evsi",
    "next_trial",
    "population",
    "value_of_information",
]
