"""Where the uncertainty about the recommended policy comes from, to first order."""

import warnings
from typing import Any

import numpy as np

from bayesmdp.errors import BayesmdpWarning
from bayesmdp.evaluation import evaluate_analytic
from bayesmdp.posterior import Belief
from bayesmdp.reporting._inputs import Inputs
from bayesmdp.reporting._numbers import plain, quantity

_SHOWN = 15
MAX_STATES = 2_000  # live ones: the inverse is dense


def attribution_section(inputs: Inputs) -> dict[str, Any]:
    """Share of the start value's epistemic variance that each pair causes."""
    belief = inputs.posterior
    if belief.rows().total is None or inputs.task.live.size > MAX_STATES:
        return {"left_out": _why_not(belief)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesmdpWarning)  # the evaluation says it
        found = evaluate_analytic(inputs.best.policy, belief)
    share = found.variance_share
    if not share.any():
        return {
            "left_out": "To first order there is no variance that could be divided."
        }
    order = np.argsort(-share, axis=None, kind="stable")
    shares = share.ravel()[order]
    order = order[:_SHOWN][shares[:_SHOWN] > 0]
    by_state = share.sum(axis=1)
    visits = inputs.visits
    pairs = []
    for index in order:
        state, action = (int(i) for i in np.unravel_index(index, share.shape))
        pairs.append(
            {
                "state": state,
                "state_label": inputs.task.state_name(state),
                "action": action,
                "action_label": inputs.task.action_name(action),
                "share": plain(float(share[state, action]), 4),
                "visits": None if visits is None else int(visits[state, action]),
            }
        )
    states = np.argsort(-by_state, kind="stable")[:_SHOWN]
    drawn = inputs.best
    return {
        "policy": inputs.recommended,
        "pairs": pairs,
        "states": [
            {
                "state": int(s),
                "state_label": inputs.task.state_name(int(s)),
                "share": plain(float(by_state[s]), 4),
            }
            for s in states
            if by_state[s] > 0
        ],
        "n_for_half": int(np.searchsorted(np.cumsum(shares), 0.5) + 1),
        "n_pairs": int((share > 0).sum()),
        "first_order_sd": plain(found.start_epistemic_sd, 5),
        "drawn_sd": quantity(drawn.start_epistemic_sd, drawn.start_epistemic_sd_mcse),
    }


def _why_not(belief: Belief) -> str:
    """Say why the uncertainty is not divided."""
    if belief.rows().total is None:
        return (
            "The uncertainty is not divided among pairs of state and action: that "
            "needs independent Dirichlet rows."
        )
    return (
        "The uncertainty is not divided among pairs of state and action: that is "
        f"offered up to {MAX_STATES:,} states."
    )
