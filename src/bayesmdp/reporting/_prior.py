"""What hangs on the prior: evidence and sensitivity, where they were computed."""

from typing import Any

from bayesmdp.reporting._inputs import Inputs
from bayesmdp.reporting._numbers import column, plain, quantity

_FRAGILE = 20


def prior_section(inputs: Inputs) -> dict[str, Any]:
    """Put the evidence curve and the sensitivity to the prior together."""
    return {"evidence": _evidence(inputs), "sensitivity": _sensitivity(inputs)}


def _evidence(inputs: Inputs) -> dict[str, Any]:
    curve = inputs.evidence
    if curve is None:
        return {
            "left_out": "No evidence curve was given; "
            "`bm.priors.evidence_curve(data, task)` computes one."
        }
    said = curve.summary().splitlines()[:2]
    return {
        "grid": column(curve.grid, 6),
        "log_evidence": column(curve.log_evidence, 9),
        "best": None if curve.best is None else plain(curve.best, 6),
        "interval": None if curve.interval is None else column_of(curve.interval),
        "said": ": ".join(line.strip() for line in said) + ".",
        "n_pairs": curve.n_pairs,
        "n_transitions": curve.n_transitions,
    }


def column_of(pair: tuple[float, float]) -> list[float | None]:
    """Return two numbers, short."""
    return [plain(x, 5) for x in pair]


def _sensitivity(inputs: Inputs) -> dict[str, Any]:
    found = inputs.sensitivity
    if found is None:
        return {
            "left_out": "The analysis was not repeated under other priors; "
            "`bm.sensitivity(policy, data, task, priors)` does that."
        }
    rows = []
    for p, name in enumerate(found.names):
        row: dict[str, Any] = {"name": name}
        for q in ("value", "epistemic_sd", "aleatoric_sd"):
            row[q] = quantity(
                float(getattr(found, f"start_{q}")[p]),
                float(getattr(found, f"start_{q}_error")[p]),
            )
        row["promise"] = plain(float(found.promise[p]))
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
        "names": list(found.names),
        "rows": rows,
        "flip_share": plain(found.flip_share),
        "n_fragile": int(found.fragile.size),
        "fragile": fragile,
        "notes": list(found.notes),
        "n_draws": found.n_draws,
        "seed": found.seed,
    }
