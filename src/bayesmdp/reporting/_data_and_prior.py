"""What was observed and how well it covers policies; evidence and prior sensitivity."""

from typing import Any

import numpy as np

from bayesmdp._typing import IntArray
from bayesmdp.posterior import Fitted
from bayesmdp.priors import EvidenceCurve
from bayesmdp.reporting._inputs import Inputs
from bayesmdp.reporting._numbers import column, plain, quantity, whole


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
            ["Pairs of state and action observed", f"{int((seen > 0).sum()):,}"],
            ["Pairs a policy may use", f"{int(belief.available.sum()):,}"],
            ["Least visits of a usable pair (min_count)", f"{belief.min_count}"],
            ["Visits of an observed pair, median", f"{_median(seen):g}"],
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


_MAP_STATES = 1_000


def support_section(inputs: Inputs) -> dict[str, Any]:
    """Count visits of pairs, and where each policy's visits lie."""
    visits, task = inputs.visits, inputs.task
    if visits is None:
        return {
            "left_out": "An ensemble holds no counts, so it is not known how often a "
            "pair of state and action was observed."
        }
    live = visits[task.live]
    order = task.live[np.argsort(-live.sum(axis=1), kind="stable")][:_MAP_STATES]
    return {
        "min_count": inputs.comparison.min_count,
        "n_pairs": int(live.size),
        "n_seen": int((live > 0).sum()),
        "n_few": int(((live > 0) & (live < inputs.comparison.min_count)).sum()),
        "n_available": int(inputs.posterior.available.sum()),
        "action_labels": [task.action_name(a) for a in range(task.n_actions)],
        "map_states": whole(order),
        "map_left_out": int(task.live.size - order.size),
        "map": [whole(visits[order, a]) for a in range(task.n_actions)],  # [A][K]
        "policies": {
            name: {
                "by_visits": _shares(inputs, name, visits),
                "prior_alone": plain(e.prior_share, 4),
            }
            for name, e in inputs.evaluations.items()
        },
        "bands": list(_BANDS),
    }


_BANDS = ("never", "1 to 4", "5 to 19", "20 to 99", "100 or more")
_EDGES = (1, 5, 20, 100)


def _shares(inputs: Inputs, name: str, visits: IntArray) -> list[float | None]:
    """Share of a policy's visits on pairs with so many visits, one per band."""
    evaluation, live = inputs.comparison.evaluations[name], inputs.task.live
    mass = (evaluation.occupancy[:, None] * evaluation.policy)[live]
    band = np.searchsorted(_EDGES, visits[live], side="right")
    total = np.bincount(band.ravel(), mass.ravel(), len(_BANDS))
    return [plain(x, 4) for x in total / mass.sum()]


_FRAGILE = 20
_QUANTITIES = ["start_value", "start_epistemic_sd", "start_aleatoric_sd"]
_QUANTITIES += ["gain", "probability_better"]


def prior_section(inputs: Inputs) -> dict[str, Any]:
    """Put the evidence curve and the prior sensitivity together."""
    return {"evidence": _evidence(inputs), "sensitivity": _sensitivity(inputs)}


def _evidence(inputs: Inputs) -> dict[str, Any]:
    curve = inputs.evidence
    if curve is None:
        return {
            "left_out": "No evidence curve was given; "
            "`bm.priors.evidence_curve(data, task)` computes one."
        }
    return {
        "grid": column(curve.grid, 6),
        "log_evidence": column(curve.log_evidence, 9),
        "best": None if curve.best is None else plain(curve.best, 6),
        "interval": None
        if curve.interval is None
        else [plain(x, 5) for x in curve.interval],
        "said": _said(curve),
        "n_pairs": curve.n_pairs,
        "n_transitions": curve.n_transitions,
    }


def _said(curve: EvidenceCurve) -> str:
    """Say the best concentration and how sure the data are of it."""
    rests = (
        f"It rests on {curve.n_transitions:,} transitions of {curve.n_pairs:,} pairs."
    )
    if curve.best is None or curve.interval is None:
        return (
            "How well symmetric priors predict the data; they have no best "
            f"concentration between the ends that were searched. {rests}"
        )
    low, high = curve.interval
    return (
        "How well symmetric priors predict the data (log evidence). The best "
        f"concentration is {curve.best:.3g}, 95 % interval {low:.3g} to {high:.3g}. "
        f"{rests}"
    )


def _sensitivity(inputs: Inputs) -> dict[str, Any]:
    found = inputs.prior_sensitivity
    if found is None:
        return {
            "left_out": "The analysis was not repeated under other priors; "
            "`bm.prior_sensitivity(policy, data, task, priors)` does that."
        }
    rows = []
    for p, name in enumerate(found.names):
        row: dict[str, Any] = {"name": name}
        for q in _QUANTITIES:
            value, error = (getattr(found, x)[p] for x in (q, f"{q}_mcse"))
            row[q.removeprefix("start_")] = quantity(float(value), float(error))
        row["gain_interval"] = column(found.gain_interval[p], 6)
        row["predicted_value"] = plain(float(found.predicted_value[p]))
        row["agreement"] = plain(float(found.agreement[p]))
        rows.append(row)
    fragile = []
    for s in found.fragile[:_FRAGILE].tolist():
        chosen = found.recommended[:, s]
        fragile.append(
            {
                "state": s,
                "state_label": inputs.task.state_name(s),
                "visits": int(found.visits[s]),
                "stake": plain(float(found.stake[s]), 4),
                "recommended": [inputs.task.action_name(int(a)) for a in chosen],
            }
        )
    return {
        "policy": _examined(inputs),
        "names": list(found.names),
        "rows": rows,
        "flip_share": plain(found.flip_share),
        "n_fragile": int(found.fragile.size),
        "fragile": fragile,
        "notes": list(found.notes),
        "n_draws": found.n_draws,
        "seed": found.seed,
    }


def _examined(inputs: Inputs) -> str | None:
    """Which of the policies compared was asked about; None where it is none of them."""
    if inputs.recommended in inputs.examined:
        return inputs.recommended
    return inputs.examined[0] if inputs.examined else None
