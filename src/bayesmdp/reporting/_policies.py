"""Policies, their values in every state, and which pairs cause uncertainty."""

import warnings
from typing import Any

import numpy as np

from bayesmdp._typing import IntArray
from bayesmdp.errors import BayesmdpWarning
from bayesmdp.evaluation import ComparisonRow, Evaluation, evaluate_analytic
from bayesmdp.posterior import Belief
from bayesmdp.reporting._inputs import (
    Inputs,
    acceptability,
    best_shares,
    gaps_to,
    start_values,
)
from bayesmdp.reporting._numbers import (
    ERROR_DIGITS,
    column,
    interval,
    plain,
    quantity,
    share,
    whole,
)


def policies_section(inputs: Inputs) -> dict[str, Any]:
    """Return the value of each policy, and how it compares with the reference."""
    values, weights = start_values(inputs)
    exact = inputs.best.exact
    best = best_shares(values, weights, inputs.evaluations)
    gaps = gaps_to(inputs.reference, values, inputs.evaluations)
    rows = [
        {
            **_row(row, inputs),
            "interval": interval(values[row.name], weights, exact=exact),
            "difference_interval": interval(gaps[row.name], weights, exact=exact),
            "probability_best": best[row.name],
        }
        for row in inputs.rows
    ]
    return {
        "reference": inputs.reference,
        "recommended": inputs.recommended,
        "min_count": inputs.comparison.min_count,
        "rows": rows,
        "acceptability": acceptability(gaps, weights, inputs.reference),
    }


def _row(row: ComparisonRow, inputs: Inputs) -> dict[str, Any]:
    evaluation = inputs.comparison.evaluations[row.name]
    n = np.inf if evaluation.exact else evaluation.n_draws
    better = row.probability_better
    return {
        "name": row.name,
        "value": quantity(row.value, row.value_mcse),
        "difference": quantity(row.difference, row.difference_mcse),
        "probability_better": None if better is None else share(better, n),
        "epistemic_sd": quantity(row.epistemic_sd, evaluation.start_epistemic_sd_mcse),
        "aleatoric_sd": quantity(row.aleatoric_sd, evaluation.start_aleatoric_sd_mcse),
        "low_support": None if row.low_support is None else quantity(row.low_support),
    }


_QUANTITIES = ("value", "epistemic_sd", "aleatoric_sd")


def states_section(inputs: Inputs) -> dict[str, Any]:
    """Return columns over the states shown; one block of columns a policy."""
    task, shown, visits = inputs.task, inputs.shown, inputs.visits
    n = task.n_states
    left_out = None
    if shown.size < n:
        left_out = (
            f"Of {n} states, the page holds the {shown.size} that the recommended "
            "policy meets most often."
        )
    return {
        "n_states": n,
        "state": whole(shown),
        "label": [task.state_name(int(s)) for s in shown],
        "terminal": whole(task.is_terminal[shown]),
        "start": column(task.start[shown]),
        "visits": None if visits is None else whole(visits.sum(axis=1)[shown]),
        "policies": {
            name: state_columns(e, shown) for name, e in inputs.evaluations.items()
        },
        "left_out": left_out,
    }


def state_columns(
    evaluation: Evaluation, shown: IntArray
) -> dict[str, list[float | None]]:
    """Return values and uncertainties of some states, with their errors."""
    return {
        **{
            key: column(getattr(evaluation, key)[shown], digits)
            for q in _QUANTITIES
            for key, digits in ((q, 5), (f"{q}_mcse", ERROR_DIGITS))
        },
        "occupancy": column(evaluation.occupancy[shown], 4),
    }


_SHOWN = 15
MAX_STATES = 2_000  # live ones: the inverse is dense


def attribution_section(inputs: Inputs) -> dict[str, Any]:
    """Share of the start value's epistemic variance that each pair causes."""
    belief = inputs.posterior
    fits = inputs.task.is_plain and inputs.task.live.size <= MAX_STATES
    if belief.rows().total is None or not fits:
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
    if not belief.task.is_plain:
        return (
            "The uncertainty is not divided among pairs of state and action: that is "
            "known for discounted rewards without a horizon."
        )
    return (
        "The uncertainty is not divided among pairs of state and action: that is "
        f"offered up to {MAX_STATES:,} states."
    )
