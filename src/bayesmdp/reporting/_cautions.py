"""What a reader must know before believing the first screen: cautions and checks.

A caution is ``{"topic", "level", "text"}``; the level is ``ok``, ``note`` (not
examined, or good to know) or ``warning``. A check, which a referee asks for first, is
``{"name", "title", "level", "text", "command"}``: what it found, or the command that
runs it. One that ``contradicts`` a recommended gain keeps the first screen from
printing that gain large, and has a ``remedy``.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bayesmdp._checks import many
from bayesmdp._typing import FloatArray
from bayesmdp.diagnostics import (
    Check,
    CheckTest,
    CrossFit,
    NegativeControl,
    PriorSensitivity,
)
from bayesmdp.evaluation import OffPolicy, between, mean_and_mcse, rounded
from bayesmdp.model import Rewards, Task
from bayesmdp.reporting._inputs import (
    SURE,
    Inputs,
    chance,
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
            said = f"{many(best.n_draws, 'model')}, exactly."
        found.append(_say("Draws", "ok", said))
    return found


def _ahead(inputs: Inputs) -> list[Caution]:
    """Say if a policy is clearly better than the recommended one on common draws."""
    values, weights = start_values(inputs)
    found = []
    gaps = gaps_to(inputs.recommended, values, inputs.evaluations)
    for name, gap in gaps.items():
        gap = -gap if inputs.task.is_cost else gap
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
    value, far = _moved("value", found.start_value, found.start_epistemic_sd)
    gain, farther = _moved("gain", found.gain, found.gain_epistemic_sd)
    flips = found.flip_share
    text = (
        f"Over {many(len(found.names), 'prior')} {value}, and {gain}; recommendations "
        f"flip in {in_percent(flips)} of the logged visits."
    )
    if inputs.recommended not in inputs.examined:
        text += " This was asked of another policy than the recommended one."
        return [_say("Prior", "warning", text)]
    bad = far or farther or flips > _POOR
    return [_say("Prior", "warning" if bad else "ok", text)]


def _moved(what: str, found: FloatArray, sd: FloatArray) -> tuple[str, bool]:
    """Say how far a number moves over priors; whether beyond its epistemic sd."""
    by, largest = float(np.ptp(found)), float(sd.max())
    text = f"the {what} moves by {by:.2g}"
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


_RARE = 0.05  # p value up to which a gain is more than no effect gives
_READ = "WIS", "WDR"  # estimates without a model, in this order
_MOSTLY = 0.5  # share of observed returns that the belief completed, worth a note
_MUCH = 0.2  # share of visits that cross-fitting cannot judge, which is worth a note

_UNKNOWN = "Not known for tasks with a horizon, averages per step or a cost."
_PRIORS = "report RUN --prior-sensitivity"

#: Level, text, and the remedy where it contradicts a recommended gain.
Found = tuple[str, str, str]


def _recommends(inputs: Inputs) -> bool:
    """Whether another policy than the reference is recommended."""
    return inputs.recommended != inputs.reference


def _is_sure(inputs: Inputs) -> bool:
    """Whether it is said to be better with near certainty."""
    better = inputs.row.probability_better
    return better is not None and better >= SURE


def _fit(inputs: Inputs, found: Check) -> Found:
    low, high = found.predicted_interval
    censored = ""
    if found.n_censored:
        censored = (
            f"; {found.n_censored:,} censored, completed by the predicted value of "
            f"their last state, {in_percent(found.model_share)} of this mean"
        )
    text = (
        f"Logged episodes had a mean return of "
        f"{rounded(found.observed_value, found.observed_se)} (standard error, "
        f"{found.n_episodes:,} episodes{censored}). Predicted for the same behaviour: "
        f"{rounded(found.predicted_value, (high - low) / 40).split(' ')[0]} "
        f"(95 % {between(low, high)})"
    )
    if math.isfinite(found.gap):
        text += f", gap {round(found.gap, 1) + 0.0:+.1f} standard errors"
    if not found.problems:
        if found.model_share > _MOSTLY:
            text += ". Both consist mostly of predicted values: this is a weak test."
            return "note", text, ""
        return "ok", f"{text}. No problem detected.", ""
    text += f". {' '.join(found.problems)}"
    if not (_recommends(inputs) and _is_serious(found, inputs)):
        return "warning", text, ""
    remedy = (
        "The belief does not fit this log: compare priors (bayesmdp compare-priors), "
        "look at what defines a state, and do not act on the predicted gain."
    )
    if found.n_actions == 1:
        remedy = "Do not act on the predicted gain: no logged episode speaks for it."
    return "warning", text, remedy


def _is_serious(found: Check, inputs: Inputs) -> bool:
    """Whether values are misfitted, or history explains as much as half the gain."""
    failed = _failed(found)
    if len(found.problems) > len(failed):
        return True
    return any(abs(x.effect) >= abs(inputs.row.difference) / 2 for x in failed)


def _failed(found: Check) -> list[CheckTest]:
    """Return the tests by which the past matters."""
    return [x for x in found.tests if x.p_holm < _RARE]


def _pays_by_action(task: Task) -> bool:
    """Whether actions of a state are paid differently for the same next state."""
    reward = task.reward
    assert not isinstance(reward, Rewards)  # refused by `report`
    if isinstance(reward, np.ndarray):
        return reward.ndim > 1 and bool(np.ptp(reward, axis=1).any())
    pair, after = np.divmod(reward.key, task.n_states)
    group = pair // task.n_actions * task.n_states + after
    order = np.argsort(group, kind="stable")
    same = np.diff(group[order]) == 0
    return bool((np.diff(reward.reward[order])[same] != 0).any())


def _alike(*gains: float) -> list[str]:
    """Write gains with as many decimals as three digits of the largest need."""
    largest = max(abs(x) for x in gains)
    decimals = 0 if largest == 0 else max(2 - math.floor(math.log10(largest)), 0)
    return [f"{round(x, decimals) + 0.0:+.{decimals}f}" for x in gains]


def _null(inputs: Inputs, found: NegativeControl) -> Found:
    how = "among visits of a state" if found.permute == "state" else "between episodes"
    n = found.null_gains.size
    claimed, mean, most = _alike(
        found.claimed_gain,
        float(found.null_gains.mean()),
        float(np.quantile(found.null_gains, SURE)),
    )
    text = (
        f"The nominal policy's claimed gain is {claimed}. With actions exchanged "
        f"{how}, so that they have no effect, the same procedure claims {mean} on "
        f"average and at most {most} in 95 % of {n} permutations: "
        f"p = {found.p_value:.2g}."
    )
    if _pays_by_action(inputs.task):
        text += (
            " Rewards depend on the action and stay with it, so that this asks about "
            "next states alone: a gain in rewards is in all of these numbers."
        )
        return "note", text, ""
    if found.p_value <= _RARE:
        past = inputs.check is not None and _failed(inputs.check)
        if found.permute == "state" and past:
            text += (
                " By the tests above the past matters beside the state: this p value "
                "may be small without any effect."
            )
            return "note", text, ""
        return "ok", f"{text} No problem detected.", ""
    if 1 / (n + 1) > _RARE:
        return "note", f"{text} Too few permutations to tell.", ""
    text += " A gain of this size is found without any effect, too."
    if not _recommends(inputs):
        return "note", text, ""
    remedy = (
        "Treat the gain as noise: the log does not tell these actions apart. More "
        "episodes may tell whether they differ."
    )
    return "warning", text, remedy


def _cross_fitted(inputs: Inputs, found: CrossFit) -> Found:
    low, high = found.interval
    text = (
        f"Chosen on some episodes and judged by the others, the nominal policy gains "
        f"{found.gain:+.3g} (95 % {low:+.3g} to {high:+.3g}) and is better with "
        f"probability {chance(share(found.probability_better, found.n_draws))}."
    )
    judged = found.unjudged is None or found.unjudged <= _MUCH
    if found.unjudged is not None and not judged:
        text += (
            f" {in_percent(found.unjudged)} of its visits are on pairs that the "
            "judging episodes never contain: there the prior decides."
        )
    predicted = inputs.row.difference
    if found.probability_better >= SURE:
        above = _recommends(inputs) and inputs.over_behaviour and predicted > high
        if above:
            text += (
                f" The predicted gain, {predicted:+.3g}, is above that: either fewer "
                "episodes choose worse policies, or too much is predicted. Quote both."
            )
        if above or not judged:
            return "note", text, ""
        return "ok", f"{text} No problem detected.", ""
    text += " These episodes alone do not confirm a gain."
    if not _recommends(inputs) or found.gain > 0:
        return "note", text, ""
    remedy = (
        "Episodes that did not choose the policy do not confirm its gain: do not act "
        "on it."
    )
    return "warning", text, remedy


def _off_policy(inputs: Inputs, found: OffPolicy) -> Found:
    said = []
    for estimator in _READ:
        interval = found.intervals[estimator]
        value = found.estimates[estimator]
        if math.isfinite(value):
            ends = "no interval"
            if interval is not None:
                ends = f"95 % {interval[0]:.4g} to {interval[1]:.4g}"
            said.append(f"{estimator} {value:.4g} ({ends})")
    size = found.effective_sample_size["WIS"]
    other = found.name != inputs.recommended
    judged = inputs.evaluations.get(found.name, inputs.best)
    predicted = judged.start_value
    text = (
        f"Logged episodes weighted as “{found.name}” would act: "
        f"{', '.join(said) or 'no estimate'}; {size:.3g} effective episodes. Predicted "
        f"for “{inputs.recommended if judged is inputs.best else found.name}”: "
        f"{predicted:.4g}."
    )
    if other:
        text += f" The recommended policy is another one, “{inputs.recommended}”."
    interval = found.intervals["WDR"] or found.intervals["WIS"]
    if interval is None or found.n_open:
        text += f" {' '.join(found.notes)}"
        return "note", text, ""
    known = {x: of for x in _READ if (of := found.intervals[x]) is not None}
    beyond = [x for x, (a, b) in known.items() if not a <= predicted <= b]
    if not beyond:
        return "ok", f"{text} No problem detected.", ""
    text += f" That is outside the interval of {' and '.join(beyond)}."
    if not found.n_folds and _recommends(inputs):
        text += (
            " The policy was judged by all episodes: if they chose it, they make it "
            "look better than it is (folds do not: bayesmdp off-policy RUN LOG)."
        )
    inside = interval[0] <= predicted <= interval[1]
    if inside or not _recommends(inputs) or other:
        return "note", text, ""
    remedy = (
        "What episodes say without a model and what the belief predicts differ: check "
        "that starts and rewards of log and task agree, then the Markov tests of "
        "bayesmdp check."
    )
    return "warning", text, remedy


def _states(inputs: Inputs, n: dict[str, int]) -> Found:
    changed = n.get("recommend", 0)
    defer = n.get("thin", 0) + n.get("unclear", 0)
    total = sum(n.values()) - n.get("end", 0)
    if not inputs.knows_actions:
        text = (
            f"In {n.get('same', 0):,} of {total:,} states both policies mostly do the "
            "same; whether the evidence suffices in the others is not known for tasks "
            "with a horizon, averages per step or a cost."
        )
        return "note", text, ""
    text = (
        f"In {changed:,} of {total:,} states the evidence suffices to act otherwise "
        f"than “{inputs.reference}”, in {n.get('same', 0):,} both policies take the "
        f"same action most often, in {defer:,} one should defer."
    )
    if changed or not (defer and _is_sure(inputs)) or n.get("unknown"):
        return "ok" if changed else "note", text, ""
    if (
        inputs.negative_control is not None
        and _null(inputs, inputs.negative_control)[0] == "ok"
    ):
        text += (
            " No state is certain alone; that actions differ is told by all together, "
            "for exchanged ones do not explain the gain."
        )
        return "note", text, ""
    remedy = (
        "The gain is a sum over states of which none is certain: do not change what "
        "is done in a single state on this evidence."
    )
    return "warning", text, remedy


def _other_priors(inputs: Inputs, found: PriorSensitivity) -> Found:
    gains = ", ".join(
        f"{prior}{' (best predictor)' if prior == inputs.best_predictor else ''} "
        f"{rounded(gain, error)} (95 % {between(low, high)})"
        for prior, gain, error, (low, high) in zip(
            found.names, found.gain, found.gain_mcse, found.gain_interval, strict=True
        )
    )
    text = f"Gain over the baseline under each prior: {gains}."
    if inputs.best_predictor is None:
        text += (
            " Which prior predicts best is not known: bayesmdp compare-priors RUN LOG."
        )
    if inputs.recommended not in inputs.examined:
        text += " This was asked of another policy than the recommended one."
        return "note", text, ""
    above = found.gain > 2 * found.gain_mcse
    below = found.gain < -2 * found.gain_mcse
    if not (_recommends(inputs) and above.any() and below.any()):
        return "ok" if above.all() else "note", text, ""
    remedy = "The sign of the gain depends on the prior: report it under each of them."
    return "warning", text, remedy


_CHECKS: dict[str, tuple[str, str, Callable[[Inputs, Any], Found]]] = {
    "check": ("Observed and predicted", "check RUN LOG", _fit),
    "negative_control": ("Gain without effect", "negative-control RUN LOG", _null),
    "cross_fit": ("Cross-fitted gain", "cross-fit RUN LOG", _cross_fitted),
    "off_policy": ("Estimates without a model", "off-policy RUN LOG", _off_policy),
    "states": ("States with evidence", "", _states),
    "other_priors": ("Gain under other priors", _PRIORS, _other_priors),
}


def checks_made(inputs: Inputs, n_verdicts: dict[str, int]) -> list[dict[str, Any]]:
    """List all checks; ``n_verdicts`` are states by what the explorer says of them."""
    of = {"states": n_verdicts, "other_priors": inputs.prior_sensitivity}
    made = []
    for name, (title, command, look) in _CHECKS.items():
        found: Any = of[name] if name in of else getattr(inputs, name)
        plain, run = inputs.knows_actions, None
        level, text, remedy = "note", "Not run." if plain else _UNKNOWN, ""
        if found is not None:
            level, text, remedy = look(inputs, found)
        elif plain:
            run = f"bayesmdp {command}"
        said = {"name": name, "title": title, "level": level, "text": text}
        more = {"contradicts": bool(remedy), "remedy": remedy or None}
        made.append({**said, "command": run, **more})
    return made
