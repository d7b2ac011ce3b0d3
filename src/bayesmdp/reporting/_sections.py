"""All sections of a report, in the order a reader meets them."""

from typing import Any

from bayesmdp.reporting._attribution import attribution_section
from bayesmdp.reporting._data import data_section
from bayesmdp.reporting._explorer import explorer_section
from bayesmdp.reporting._information import information_section
from bayesmdp.reporting._inputs import Inputs
from bayesmdp.reporting._methods import methods_section
from bayesmdp.reporting._policies import policies_section
from bayesmdp.reporting._prior import prior_section
from bayesmdp.reporting._states import states_section
from bayesmdp.reporting._summary import summary_section
from bayesmdp.reporting._support import support_section


def sections(inputs: Inputs) -> dict[str, Any]:
    """Build every section."""
    policies, explorer = policies_section(inputs), explorer_section(inputs)
    return {
        "summary": summary_section(inputs, policies, explorer["n_verdicts"]),
        "policies": policies,
        "states": states_section(inputs),
        "attribution": attribution_section(inputs),
        "support": support_section(inputs),
        "prior": prior_section(inputs),
        "information": information_section(inputs),
        "data": data_section(inputs),
        "explorer": explorer,
        "methods": methods_section(inputs),
    }
