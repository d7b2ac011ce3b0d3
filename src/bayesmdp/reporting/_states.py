"""Values and uncertainties of every state, column by column."""

from typing import Any

from bayesmdp._typing import IntArray
from bayesmdp.evaluation import Evaluation
from bayesmdp.reporting._inputs import Inputs
from bayesmdp.reporting._numbers import ERROR_DIGITS, column, whole

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
