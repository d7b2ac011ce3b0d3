"""What was observed and how well it covers policies; evidence and prior sensitivity.

Costs beside effects, where a cost-effectiveness analysis was given.

Where more patients would teach most, where that was computed.

Policies, their values in every state, and which pairs cause uncertainty.
"""

import warnings
from typing import Any

import numpy as np

from bayesmdp._typing import IntArray
from bayesmdp.errors import BayesmdpWarning
from bayesmdp.evaluation import ComparisonRow, Evaluation, evaluate_analytic
from bayesmdp.information import Information
from bayesmdp.model import Rewards, Task
from bayesmdp.posterior import Fitted
from bayesmdp.priors import EvidenceCurve
from bayesmdp.reporting._inputs import (
    ERROR_DIGITS,
    Inputs,
    acceptability,
    best_shares,
    column,
    gaps_to,
    interval,
    plain,
    quantity,
    share,
    start_values,
    whole,
)


def _discounts(task: Task) -> str:
    if task.criterion == "average":
        return "none: averages per step"
    if not isinstance(task.reward, Rewards):
        return f"{task.discount:g}"
    of = task.reward
    return ", ".join(
        f"{x:g} ({name})" for name, x in zip(of.names, of.discounts, strict=True)
    )


def data_section(inputs: Inputs) -> dict[str, Any]:
    """Summarise the data behind the belief."""
    belief, task = inputs.posterior, inputs.task
    facts: list[list[str]] = [
        ["States", f"{task.n_states:,} ({task.terminal.size} terminal)"],
        ["Actions", f"{task.n_actions:,}"],
        ["Discount", _discounts(task)],
    ]
    # not the lines of a text: a label may hold line breaks
    lines = [line for line in task._sheet().body if isinstance(line, str)]
    if inputs.own_rewards:  # those of the task took no part
        unit = f", in {task.reward_unit}" if task.reward_unit else ""
        own = f"reward: each model has its own{unit}"
        lines = [own if x.startswith("reward") else x for x in lines]
    facts += [_fact(line) for line in dict.fromkeys(lines)]
    visits, summary = inputs.visits, ""
    if belief.n_models is not None:
        how = "a sample" if inputs.sampled else "given as an ensemble"
        facts.append(["Models", f"{belief.n_models:,}, {how}"])
    if isinstance(belief, Fitted) and visits is not None:
        seen = visits[task.live]
        facts += [
            ["Logged transitions", f"{belief.counts.total:,}"],
            ["Pairs of state and action observed", f"{int((seen > 0).sum()):,}"],
            ["Pairs a policy may use", f"{int(belief.available.sum()):,}"],
            ["Minimum visits of a usable pair (min_count)", f"{belief.min_count}"],
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
            "left_out": "An ensemble has no counts, so it is not known how often a "
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
            "How well symmetric priors predict the data; there is no best "
            f"concentration inside the range that was searched. {rests}"
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
        how = "; `bm.prior_sensitivity(policy, data, task, priors)` does that"
        if not inputs.knows_actions:
            how = f", which is not known for {inputs.unknown_for}"
        return {"left_out": f"The analysis was not repeated under other priors{how}."}
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


def economics_section(inputs: Inputs) -> dict[str, Any] | None:
    """Return the incremental table and curves over thresholds; None without."""
    found = inputs.cost_effectiveness
    if found is None:
        return None
    rows = []
    for row in found.table:
        given = row.icer is not None and row.icer_mcse is not None
        rows.append(
            {
                "name": row.name,
                "cost": quantity(row.cost, row.cost_mcse),
                "cost_interval": [plain(x) for x in row.cost_interval],
                "effect": quantity(row.effect, row.effect_mcse),
                "effect_interval": [plain(x) for x in row.effect_interval],
                "icer": quantity(row.icer or 0.0, row.icer_mcse or 0.0)
                if given
                else None,
                "dominated": row.dominated,
                "extendedly_dominated": row.extendedly_dominated,
                "same_as": row.same_as,
            }
        )
    return {
        "cost": found.cost,
        "effect": found.effect,
        "per": found.per,
        "n_draws": found.n_draws,
        "rows": rows,
        "thresholds": column(found.thresholds, 6),
        "best": list(found.best),
        "frontier": column(found.frontier),
        "evpi": column(found.evpi),
        "evpi_mcse": column(found.evpi_mcse, 2),
        "ceac": {name: column(found.ceac[name]) for name in found.names},
    }


_SHOWN = 15  # states, in one table
PER = 1_000  # later patients that gains are told for


def information_section(inputs: Inputs) -> dict[str, Any]:
    """Put the value of information together."""
    found = inputs.information
    if found is None and not inputs.knows_actions:
        return {
            "left_out": "The value of more data is not known for "
            f"{inputs.unknown_for}. The value of perfect information about an "
            "uncertain quantity can be computed from draws of it: "
            "`bm.information.evppi`."
        }
    if found is None:
        command = ""
        if isinstance(inputs.posterior, Fitted):
            command = f" or `{inputs.command('information RUN')}`"
        return {
            "left_out": "The value of more data was not computed; "
            f"`bm.value_of_information(posterior)`{command} does that."
        }
    return {
        "evpi": quantity(found.evpi, found.evpi_mcse),
        "evpi_bound": quantity(found.evpi_bound, found.evpi_bound_mcse),
        "n_policies": len(found.names),
        "n_patients": found.n_patients,
        "unit": f" (in {found.task.reward_unit})" if found.task.reward_unit else "",
        "per": PER,
        "n_visits": found.n_visits[-1],
        "states": states_worth_most(found, _SHOWN),
        "action_labels": [
            found.task.action_name(a) for a in range(found.task.n_actions)
        ],
    }


def states_worth_most(found: Information, n: int) -> list[dict[str, Any]]:
    """List states where further patients teach most, with the worth of each action.

    Gains are per 1,000 later patients; of actions, after visits to each alone.
    """
    order = np.argsort(-found.patients_evsi, kind="stable")[:n]
    rows = []
    for s in order[found.patients_evsi[order] > 0].tolist():
        of_actions = np.where(found.available[s], found.switch_evsi[-1, s], np.nan)
        best = int(np.nanargmax(of_actions))
        rows.append(
            {
                "state": s,
                "state_label": found.task.state_name(s),
                "gain": plain(PER * float(found.patients_evsi[s]), 4),
                "visits": plain(float(found.patients_visits[s].sum()), 4),
                "action": found.task.action_name(best),
                "of_actions": [plain(PER * float(x), 4) for x in of_actions],
                "confirmed": bool(found.confirmed[s]),
            }
        )
    return rows


def policies_section(inputs: Inputs) -> dict[str, Any]:
    """Return the value of each policy, and how it compares with the reference."""
    values, weights = start_values(inputs)
    how: Any = {"exact": inputs.best.exact, "chain": inputs.posterior.chain_noise}
    best = best_shares(values, weights, inputs.evaluations, inputs.n_effective)
    gaps = gaps_to(inputs.reference, values, inputs.evaluations)
    rows = [
        {
            **_row(row, inputs),
            "interval": interval(values[row.name], weights, **how),
            "difference_interval": interval(gaps[row.name], weights, **how),
            "probability_best": best[row.name],
        }
        for row in inputs.rows
    ]
    return {
        "reference": inputs.reference,
        "recommended": inputs.recommended,
        "min_count": inputs.comparison.min_count,
        "rows": rows,
        "acceptability": acceptability(
            gaps, weights, inputs.reference, cost=inputs.task.is_cost
        ),
    }


def _row(row: ComparisonRow, inputs: Inputs) -> dict[str, Any]:
    evaluation = inputs.comparison.evaluations[row.name]
    better = row.probability_better
    return {
        "name": row.name,
        "value": quantity(row.value, row.value_mcse),
        "difference": quantity(row.difference, row.difference_mcse),
        "probability_better": None
        if better is None
        else share(better, inputs.n_effective),
        "epistemic_sd": quantity(row.epistemic_sd, evaluation.start_epistemic_sd_mcse),
        "aleatoric_sd": quantity(row.aleatoric_sd, evaluation.start_aleatoric_sd_mcse),
        "low_support": None if row.low_support is None else quantity(row.low_support),
    }


_OF_STATES = ("value", "epistemic_sd", "aleatoric_sd")


def states_section(inputs: Inputs) -> dict[str, Any]:
    """Return columns over the states shown; one block of columns a policy."""
    task, shown, visits = inputs.task, inputs.shown, inputs.visits
    n = task.n_states
    left_out = None
    if shown.size < n:
        left_out = (
            f"Of {n} states, the page has the {shown.size} that the recommended "
            "policy visits most often."
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
            for q in _OF_STATES
            for key, digits in ((q, 5), (f"{q}_mcse", ERROR_DIGITS))
        },
        "occupancy": column(evaluation.occupancy[shown], 4),
    }


MAX_STATES = 2_000  # live ones: the inverse is dense


def attribution_section(inputs: Inputs) -> dict[str, Any]:
    """Share of the start value's epistemic variance that each pair causes."""
    belief = inputs.posterior
    fits = inputs.knows_actions and inputs.task.live.size <= MAX_STATES
    if belief.rows().total is None or not fits:
        return {"left_out": _why_not(inputs)}
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


def _why_not(inputs: Inputs) -> str:
    """Say why the uncertainty is not divided."""
    belief = inputs.posterior
    if belief.rows().total is None:
        return (
            "The uncertainty is not divided among pairs of state and action: that "
            "needs independent Dirichlet rows."
        )
    if not inputs.knows_actions:
        return (
            "The uncertainty is not divided among pairs of state and action: that is "
            f"not known for {inputs.unknown_for}."
        )
    return (
        "The uncertainty is not divided among pairs of state and action: that is "
        f"offered up to {MAX_STATES:,} states."
    )
