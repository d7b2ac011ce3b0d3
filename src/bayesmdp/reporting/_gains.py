"""The gain on one axis: predicted, claimed without effect, cross-fitted."""

from typing import Any

import numpy as np

from bayesmdp.reporting._inputs import Inputs
from bayesmdp.reporting._numbers import column, plain


def gains(inputs: Inputs, difference: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return rows with a point, an interval or dots, and the limits of their axis.

    None where there is nothing to set beside the predicted gain. ``difference`` is the
    gain of the recommended policy with its 95 % ``low`` and ``high``.
    """
    null, fair = inputs.negative_control, inputs.cross_fit
    if null is None and fair is None:
        return None
    rows: list[dict[str, Any]] = []
    if difference is not None:
        ends = [difference["low"], difference["high"]]
        rows.append(_row(f"Predicted for “{inputs.recommended}”", difference, ends))
    if null is not None:
        claimed = {"value": plain(null.claimed_gain, 6)}
        dots = column(np.sort(null.null_gains), 3)
        rows.append(_row("Claimed for the nominal policy", claimed))
        rows.append(_row("Claimed without effect", None, dots=dots))
    if fair is not None:
        ends = [plain(x, 6) for x in fair.interval]
        rows.append(_row("Cross-fitted", {"value": plain(fair.gain, 6)}, ends))
    numbers = [0.0]
    for row in rows:
        numbers += [x for x in [row["value"], *row["interval"], *row["dots"]] if x]
    low, high = min(numbers), max(numbers)
    room = 0.04 * (high - low or 1.0)
    return {"rows": rows, "low": plain(low - room, 6), "high": plain(high + room, 6)}


def _row(
    label: str,
    value: dict[str, Any] | None,
    interval: list[float | None] | None = None,
    dots: list[float | None] | None = None,
) -> dict[str, Any]:
    known = interval is not None and None not in interval
    return {
        "label": label,
        "value": None if value is None else value["value"],
        "interval": interval if known else [],
        "dots": [x for x in dots or [] if x is not None],
    }
