"""What a referee asks first: each check with its answer, or the command that runs it.

An entry is ``{"name", "title", "level", "text", "command"}``; the level is ``ok``,
``note`` (not run, or nothing to conclude from) or ``warning``. An entry that
``contradicts`` a claimed gain keeps the first screen from printing that gain large, and
has a ``remedy``. A gain is *claimed* where its probability is 95 % or more.
"""

import math
from typing import Any

import numpy as np

from bayesmdp.evaluation import rounded
from bayesmdp.reporting._inputs import Inputs
from bayesmdp.reporting._numbers import chance, in_percent, share

SURE = 0.95
_RARE = 0.05  # p value up to which a gain is more than no effect gives
_MUCH = 0.2  # share of visits that cross-fitting cannot judge, which is worth a note

Entry = dict[str, Any]


def checks_made(inputs: Inputs, n_verdicts: dict[str, int]) -> list[Entry]:
    """List all checks; ``n_verdicts`` are states by what the explorer says of them."""
    return [
        _fit(inputs),
        _null(inputs),
        _cross_fitted(inputs),
        _off_policy(inputs),
        _states(inputs, n_verdicts),
        _other_priors(inputs),
    ]


def claims(inputs: Inputs) -> bool:
    """Whether the recommended policy is said to be better with near certainty."""
    row = next(r for r in inputs.rows if r.name == inputs.recommended)
    return row.probability_better is not None and row.probability_better >= SURE


def _entry(name: str, title: str, level: str, text: str, remedy: str = "") -> Entry:
    return {
        "name": name,
        "title": title,
        "level": level,
        "text": text,
        "command": None,
        "contradicts": bool(remedy),
        "remedy": remedy or None,
    }


def _not_run(name: str, title: str, command: str) -> Entry:
    found = _entry(name, title, "note", "Not run.")
    return found | {"command": f"bayesmdp {command}"}


def _fit(inputs: Inputs) -> Entry:
    name, title = "check", "Observed and predicted"
    found = inputs.check
    if found is None:
        return _not_run(name, title, "check RUN LOG")
    low, high = found.predicted_interval
    text = (
        f"Logged episodes had a mean return of "
        f"{rounded(found.observed_value, found.observed_se)} (standard error, "
        f"{found.n_episodes:,} episodes). Predicted for the same behaviour: "
        f"{found.predicted_value:.4g} (95 % {low:.4g} to {high:.4g})"
    )
    if math.isfinite(found.gap):
        text += f", {found.gap:+.1f} standard errors away"
    if not found.problems:
        return _entry(name, title, "ok", f"{text}. No problem detected.")
    text += f". {' '.join(found.problems)}"
    if not claims(inputs):
        return _entry(name, title, "warning", text)
    remedy = (
        "The belief does not fit this log: compare priors (bayesmdp compare-priors), "
        "look at what defines a state, and do not act on the predicted gain."
    )
    return _entry(name, title, "warning", text, remedy)


def _null(inputs: Inputs) -> Entry:
    name, title = "negative_control", "Gain without effect"
    found = inputs.negative_control
    if found is None:
        return _not_run(name, title, "negative-control RUN LOG")
    how = "among visits of a state" if found.permute == "state" else "between episodes"
    n = found.null_gains.size
    text = (
        f"The nominal policy's claimed gain is {found.claimed_gain:+.3g}. With actions "
        f"exchanged {how}, so that they have no effect, the same procedure claims "
        f"{found.null_gains.mean():+.3g} on average and at most "
        f"{np.quantile(found.null_gains, SURE):+.3g} in 95 % of {n} permutations: "
        f"p = {found.p_value:.2g}."
    )
    if found.p_value <= _RARE:
        return _entry(name, title, "ok", f"{text} No problem detected.")
    text += " Such a gain is within what no effect gives."
    if not claims(inputs):
        return _entry(name, title, "note", text)
    remedy = (
        "Treat the gain as noise: the log does not tell these actions apart. More "
        "episodes, or fewer and coarser actions, would."
    )
    return _entry(name, title, "warning", text, remedy)


def _cross_fitted(inputs: Inputs) -> Entry:
    name, title = "cross_fit", "Cross-fitted gain"
    found = inputs.cross_fit
    if found is None:
        return _not_run(name, title, "cross-fit RUN LOG")
    low, high = found.interval
    text = (
        f"Chosen on some episodes and judged by the others, the nominal policy gains "
        f"{found.gain:+.3g} (95 % {low:+.3g} to {high:+.3g}) and is better with "
        f"probability {chance(share(found.probability_better, found.n_draws))}."
    )
    if found.unjudged is not None and found.unjudged > _MUCH:
        text += (
            f" {in_percent(found.unjudged)} of its visits are on pairs that the "
            "judging episodes never hold: there the prior answers."
        )
    if found.probability_better >= SURE:
        return _entry(name, title, "ok", f"{text} No problem detected.")
    if not claims(inputs) or found.gain > 0:
        return _entry(name, title, "note", text)
    remedy = (
        "Episodes that did not choose the policy do not confirm its gain: do not act "
        "on it."
    )
    return _entry(name, title, "warning", text, remedy)


def _off_policy(inputs: Inputs) -> Entry:
    name, title = "off_policy", "Without a model"
    found = inputs.off_policy
    if found is None:
        return _not_run(name, title, "off-policy RUN LOG")
    said = []
    for estimator in ("WIS", "WDR"):
        interval = found.intervals[estimator]
        value = found.estimates[estimator]
        if math.isfinite(value):
            ends = "no interval"
            if interval is not None:
                ends = f"95 % {interval[0]:.4g} to {interval[1]:.4g}"
            said.append(f"{estimator} {value:.4g} ({ends})")
    size = found.effective_sample_size["WIS"]
    predicted = inputs.best.start_value
    text = (
        f"Logged episodes weighted as “{found.name}” would act: "
        f"{', '.join(said) or 'no estimate'}; {size:.3g} effective episodes. "
        f"Predicted for “{inputs.recommended}”: {predicted:.4g}."
    )
    interval = found.intervals["WDR"] or found.intervals["WIS"]
    if interval is None:
        text += " Too few episodes go as the policy would for an interval."
        return _entry(name, title, "note", text)
    if interval[0] <= predicted <= interval[1]:
        return _entry(name, title, "ok", f"{text} No problem detected.")
    text += " The predicted value is outside."
    if not claims(inputs) or found.name != inputs.recommended:
        return _entry(name, title, "note", text)
    remedy = (
        "What episodes say without a model and what the belief predicts differ: check "
        "that starts and rewards of log and task agree, then the Markov tests of "
        "bayesmdp check."
    )
    return _entry(name, title, "warning", text, remedy)


def _states(inputs: Inputs, n: dict[str, int]) -> Entry:
    name, title = "states", "States with evidence"
    changed = n.get("recommend", 0)
    defer = n.get("thin", 0) + n.get("unclear", 0)
    text = (
        f"In {changed:,} states the evidence suffices to act otherwise than "
        f"“{inputs.reference}”, in {n.get('same', 0):,} both policies mostly do the "
        f"same, in {defer:,} one should defer."
    )
    if changed or not claims(inputs) or n.get("unknown"):
        return _entry(name, title, "ok" if changed else "note", text)
    remedy = (
        "The gain is the sum of many changes of which none is certain: do not change "
        "what is done in a single state on this evidence."
    )
    return _entry(name, title, "warning", text, remedy)


def _other_priors(inputs: Inputs) -> Entry:
    name, title = "other_priors", "Gain under other priors"
    found = inputs.sensitivity
    if found is None:
        return _not_run(name, title, "report RUN --sensitivity")
    gains = ", ".join(
        f"{prior}{' (best predictor)' if prior == inputs.best_predictor else ''} "
        f"{rounded(gain, error)}"
        for prior, gain, error in zip(
            found.names, found.gain, found.gain_error, strict=True
        )
    )
    text = f"Over the behaviour policy: {gains}."
    if inputs.best_predictor is None:
        text += (
            " Which prior predicts best is not known: bayesmdp compare-priors RUN LOG."
        )
    if found.gain.min() > 0 or not claims(inputs):
        return _entry(name, title, "ok" if found.gain.min() > 0 else "note", text)
    remedy = "The sign of the gain depends on the prior: report it under each of them."
    return _entry(name, title, "warning", text, remedy)
