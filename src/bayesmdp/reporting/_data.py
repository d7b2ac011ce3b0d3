"""What was observed, and what `validate` says about it."""

from typing import Any

import numpy as np

from bayesmdp.posterior import Fitted
from bayesmdp.reporting._inputs import Inputs


def data_section(inputs: Inputs) -> dict[str, Any]:
    """Summarise the data behind the belief."""
    belief, task = inputs.posterior, inputs.task
    facts: list[list[str]] = [
        ["States", f"{task.n_states:,} ({task.terminal.size} terminal)"],
        ["Actions", f"{task.n_actions:,}"],
        ["Discount", f"{task.discount:g}"],
    ]
    # not the lines of a text: a label may hold line breaks
    facts += [_fact(line) for line in task._sheet().body if isinstance(line, str)]
    visits, summary = inputs.visits, ""
    if belief.n_models is not None:
        facts.append(["Models", f"{belief.n_models:,}, given as an ensemble"])
    if isinstance(belief, Fitted) and visits is not None:
        seen = visits[task.live]
        facts += [
            ["Logged transitions", f"{belief.counts.total:,}"],
            ["Pairs of state and action seen", f"{int((seen > 0).sum()):,}"],
            ["Pairs a policy may use", f"{int(belief.available.sum()):,}"],
            ["Least visits of a usable pair (min_count)", f"{belief.min_count}"],
            ["Visits of a pair seen, median", f"{_median(seen):g}"],
        ]
        summary = belief.summary()
    findings = inputs.findings
    return {
        "facts": facts,
        "summary": summary,
        "findings": None if findings is None else findings.to_dict(),
        "headline": None if findings is None else findings.headline(),
    }


def _fact(line: str) -> list[str]:
    name, said = line.split(": ", 1)
    return [{"terminal": "Terminal states"}.get(name, name.capitalize()), said]


def _median(seen: Any) -> float:
    return float(np.median(seen[seen > 0])) if (seen > 0).any() else 0.0
