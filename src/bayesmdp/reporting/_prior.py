"""Evidence of priors and prior sensitivity, where they were computed."""

from typing import Any

from bayesmdp.priors import EvidenceCurve
from bayesmdp.reporting._inputs import Inputs
from bayesmdp.reporting._numbers import column, plain, quantity

_FRAGILE = 20
_QUANTITIES = ["start_value", "start_epistemic_sd", "start_aleatoric_sd"]
_QUANTITIES += ["gain", "gain_epistemic_sd", "probability_better"]


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
