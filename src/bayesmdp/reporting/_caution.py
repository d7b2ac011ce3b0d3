"""What a reader must know before believing the first screen.

A caution is ``{"topic", "level", "text"}``; the level is ``ok``, ``note`` (not
examined, or good to know) or ``warning``.
"""

from typing import Any

import numpy as np

from bayesmdp.evaluation import mean_and_mcse
from bayesmdp.reporting._draws import gaps_to, start_values
from bayesmdp.reporting._inputs import Inputs
from bayesmdp.reporting._numbers import SURE, in_percent, share

_POOR = 0.05  # share of visits on thin data from which on support is a warning
_NOISY = 0.1  # of the epistemic sd: a larger Monte Carlo error is worth a warning
_AHEAD = 3.0  # standard errors by which another policy must be ahead

Caution = dict[str, str]


def cautions(inputs: Inputs) -> list[Caution]:
    """List all cautions, warnings first."""
    found = [
        *_certainty(inputs),
        *_support(inputs),
        *_convergence(inputs),
        *_draws(inputs),
        *_prior(inputs),
        *_data(inputs),
    ]
    order = {"warning": 0, "note": 1, "ok": 2}
    return sorted(found, key=lambda x: order[x["level"]])


def _say(topic: str, level: str, text: str) -> Caution:
    return {"topic": topic, "level": level, "text": text}


def _certainty(inputs: Inputs) -> list[Caution]:
    row = inputs.row
    better = row.probability_better
    if better is None:
        return []
    n = np.inf if inputs.best.exact else inputs.best.n_draws
    error = share(better, n)["mcse"] or 0.0
    if better >= SURE and better - 2 * error < SURE:
        text = (
            f"From {n:,} draws it cannot be told whether the probability that "
            f"“{row.name}” is better than “{inputs.reference}” is above "
            f"{in_percent(SURE)}; use more draws."
        )
        return [_say("Certainty", "warning", text)]
    if better >= SURE:
        return []
    text = (
        f"The probability that “{row.name}” is better than “{inputs.reference}” is "
        f"only {in_percent(better)}."
    )
    if row.probability_tied:
        text += f" In {in_percent(row.probability_tied)} of the draws they are equal."
    return [_say("Certainty", "warning", text)]


def _support(inputs: Inputs) -> list[Caution]:
    row = inputs.row
    min_count, name = inputs.comparison.min_count, inputs.recommended
    if row.low_support is None:
        text = (
            "The belief is an ensemble: how often a pair of state and action occurred "
            "is not known."
        )
        return [_say("Support", "note", text)]
    thin = f"{in_percent(row.low_support)} of the visits under “{name}”"
    if row.low_support > _POOR:
        text = (
            f"{thin} are on pairs of state and action with fewer than {min_count} "
            "visits: there the posterior is dominated by the prior."
        )
        return [_say("Support", "warning", text)]
    text = (
        f"{thin} are on pairs of state and action with fewer than {min_count} visits."
    )
    return [_say("Support", "ok", text)]


def _convergence(inputs: Inputs) -> list[Caution]:
    result = inputs.optimisation
    if result is None:
        text = "No optimisation was given: a better policy than these may exist."
        return [_say("Convergence", "note", text)]
    found = []
    status = result.status[0].upper() + result.status[1:].rstrip(".")
    level = "ok" if result.converged else "warning"
    found.append(_say("Convergence", level, f"Optimisation: {status}."))
    if not inputs.optimised:
        text = "The optimised policy is not among the policies compared."
        found.append(_say("Convergence", "warning", text))
    return found


def _draws(inputs: Inputs) -> list[Caution]:
    best = inputs.best
    found = [
        _say("Draws", "warning", note)
        for note in dict.fromkeys(
            n for e in inputs.evaluations.values() for n in e.notes
        )
    ]
    if not best.exact and best.start_value_mcse > _NOISY * best.start_epistemic_sd > 0:
        text = (
            f"The Monte Carlo error of the value is more than {in_percent(_NOISY)} of "
            "its epistemic sd; use more draws."
        )
        found.append(_say("Draws", "warning", text))
    found += _ahead(inputs)
    if not found:
        said = f"{best.n_draws:,} draws, all of them solved."
        if best.exact:
            many = "" if best.n_draws == 1 else "s"
            said = f"{best.n_draws:,} model{many}, exactly."
        found.append(_say("Draws", "ok", said))
    return found


def _ahead(inputs: Inputs) -> list[Caution]:
    """Say if a policy is clearly better than the recommended one on common draws."""
    values, weights = start_values(inputs)
    found = []
    gaps = gaps_to(inputs.recommended, values, inputs.evaluations)
    for name, gap in gaps.items():
        chain = inputs.posterior.chain_noise
        mean, error = mean_and_mcse(gap, weights, exact=inputs.best.exact, chain=chain)
        if mean > _AHEAD * error:
            text = f"“{name}” is ahead of the recommended policy by {mean:.3g}."
            found.append(_say("Choice", "warning", text))
    return found


def _prior(inputs: Inputs) -> list[Caution]:
    found = inputs.prior_sensitivity
    if found is None:
        text = "Prior sensitivity was not examined."
        return [_say("Prior", "note", text)]
    moved = float(np.ptp(found.start_value))
    uncertainty = float(found.start_epistemic_sd.max())
    flips = found.flip_share
    text = (
        f"Over {len(found.names)} priors the value moves by {moved:.2g}, "
        f"{moved / uncertainty:.2g} times the largest epistemic sd; "
        if uncertainty > 0
        else f"Over {len(found.names)} priors the value moves by {moved:.2g}; "
    )
    text += f"recommendations flip in {in_percent(flips)} of the logged visits."
    if inputs.recommended not in inputs.examined:
        text += " This was asked of another policy than the recommended one."
        return [_say("Prior", "warning", text)]
    bad = moved > uncertainty or flips > _POOR
    return [_say("Prior", "warning" if bad else "ok", text)]


def _data(inputs: Inputs) -> list[Caution]:
    found = inputs.findings
    if found is None:
        return [_say("Data", "note", "The data were not validated.")]
    if found.exit_code == 0:
        return [_say("Data", "ok", found.headline())]
    worst: Any = [*found.errors, *found.warnings]
    text = f"{found.headline()} First: {worst[0].message}"
    return [_say("Data", "warning", text)]
