"""What a reader must know before believing the first screen.

A caution is ``{"topic", "level", "text"}``; the level is ``ok``, ``note`` (not
examined, or good to know) or ``warning``.
"""

from typing import Any

import numpy as np

from bayesmdp._checks import many
from bayesmdp._typing import FloatArray
from bayesmdp.evaluation import mean_and_mcse, rounded, significant
from bayesmdp.reporting._inputs import (
    SURE,
    Inputs,
    gaps_to,
    in_percent,
    share,
    start_values,
)

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
    error = share(better, inputs.n_effective)["mcse"] or 0.0
    if better >= SURE and better - 2 * error < SURE:
        text = (
            f"From {inputs.drawn} it cannot be decided whether the probability that "
            f"“{row.name}” is better than “{inputs.reference}” is above "
            f"{in_percent(SURE)}; use more {_kind(inputs)}."
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


def _kind(inputs: Inputs) -> str:
    return "models" if inputs.best.exact else "draws"


def _support(inputs: Inputs) -> list[Caution]:
    row = inputs.row
    min_count, name = inputs.comparison.min_count, inputs.recommended
    if row.low_support is None:
        text = (
            "The belief is an ensemble, for which it is not known how often a pair of "
            "state and action occurred."
        )
        return [_say("Support", "note", text)]
    text = (
        f"{in_percent(row.low_support)} of the visits under “{name}” are on pairs of "
        f"state and action with fewer than {min_count} visits"
    )
    if row.low_support > _POOR:
        text += ": there the posterior is dominated by the prior."
        return [_say("Support", "warning", text)]
    return [_say("Support", "ok", f"{text}.")]


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
    noise = _NOISY * best.start_epistemic_sd
    if not inputs.exact and best.start_value_mcse > noise > 0:
        text = (
            f"The Monte Carlo error of the value is more than {in_percent(_NOISY)} of "
            f"its epistemic sd; use more {_kind(inputs)}."
        )
        found.append(_say("Draws", "warning", text))
    found += _ahead(inputs)
    if inputs.sampled:
        text = (
            f"The belief is a sample of {many(inputs.posterior.n_models or 0, 'model')}"
            ": policies were evaluated on the models on which they were chosen, which "
            "favours the best of them. Models of another seed avoid this."
        )
        found.append(_say("Draws", "note", text))
    if not found:
        said = f"{best.n_draws:,} draws, all of them solved."
        if best.exact:
            said = f"{many(best.n_draws, 'model')}, exactly."
        found.append(_say("Draws", "ok", said))
    return found


def _ahead(inputs: Inputs) -> list[Caution]:
    """Say if a policy is clearly better than the recommended one on common draws.

    One that was chosen for its tail may be behind in the mean: that is its price.
    """
    values, weights = start_values(inputs)
    found: dict[str, str] = {}
    gaps = gaps_to(inputs.recommended, values, inputs.evaluations)
    for name, gap in gaps.items():
        gap = -gap if inputs.task.is_cost else gap
        chain = inputs.posterior.chain_noise
        mean, error = mean_and_mcse(gap, weights, exact=inputs.best.exact, chain=chain)
        if mean > _AHEAD * error:
            found[name] = rounded(float(mean), float(error)).split(" ")[0]
    result = inputs.optimisation
    if found and inputs.optimised and inputs.for_tail and result is not None:
        better = "lower" if inputs.task.is_cost else "higher"
        others = ", ".join(f"of “{name}” by {by}" for name, by in found.items())
        text = (
            f"In the mean over draws the {inputs.measure} is {better} {others}: the "
            "recommended policy was chosen for something else, which may cost some of "
            f"the mean ({result.objective_title or result.objective})."
        )
        return [_say("Choice", "note", text)]
    return [
        _say("Choice", "warning", f"“{x}” is ahead of the recommended policy by {by}.")
        for x, by in found.items()
    ]


def _prior(inputs: Inputs) -> list[Caution]:
    found = inputs.prior_sensitivity
    if found is None:
        text = "Prior sensitivity was not examined."
        return [_say("Prior", "note", text)]
    value, far = _moved("value", found.start_value, found.start_epistemic_sd)
    gain, farther = _moved("gain", found.gain, found.gain_epistemic_sd)
    flips = found.flip_share
    text = (
        f"Over {many(len(found.names), 'prior')} {value}, and {gain}; recommendations "
        f"flip in {in_percent(flips)} of the logged visits."
    )
    if inputs.recommended not in inputs.examined:
        text += " This was examined for a policy other than the recommended one."
        return [_say("Prior", "warning", text)]
    bad = far or farther or flips > _POOR
    return [_say("Prior", "warning" if bad else "ok", text)]


def _moved(what: str, found: FloatArray, sd: FloatArray) -> tuple[str, bool]:
    """Say how far a number moves over priors; whether beyond its epistemic sd."""
    by, largest = float(np.ptp(found)), float(sd.max())
    text = f"the {what} moves by {significant(by, 2)}"
    if largest > 0:
        text += f", {by / largest:.2g} times its largest epistemic sd"
    return text, by > largest


def _data(inputs: Inputs) -> list[Caution]:
    found = inputs.findings
    if found is None:
        return [_say("Data", "note", "The data were not validated.")]
    if found.exit_code == 0:
        return [_say("Data", "ok", found.headline())]
    worst: Any = [*found.errors, *found.warnings]
    text = f"{found.headline()} First: {worst[0].message}"
    return [_say("Data", "warning", text)]
