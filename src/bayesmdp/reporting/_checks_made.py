"""What a referee asks for first: checks, and what each of them found.

A check is ``{"name", "title", "level", "text", "command"}``: what it found, or the
command that runs it. One that ``contradicts`` a recommended gain keeps the first screen
from printing that gain large, and has a ``remedy``.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bayesmdp.diagnostics import (
    Check,
    CheckTest,
    CrossFit,
    NegativeControl,
    PriorSensitivity,
)
from bayesmdp.evaluation import OffPolicy, between, rounded, significant
from bayesmdp.model import Rewards, Task
from bayesmdp.reporting._inputs import SURE, Inputs, chance, in_percent, share

_RARE = 0.05  # p value up to which a gain is more than no effect gives
_READ = "WIS", "WDR"  # estimates without a model, in this order
_MOSTLY = 0.5  # share of observed returns that the belief completed, worth a note
_MUCH = 0.2  # share of visits that cross-fitting cannot judge, which is worth a note

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
            text += ". Both consist mostly of predicted values, so this is a weak test."
            return "note", text, ""
        return "ok", f"{text}. No problem detected.", ""
    text += f". {' '.join(found.problems)}"
    if not (_recommends(inputs) and _is_serious(found, inputs)):
        return "warning", text, ""
    remedy = (
        "The belief does not fit this log: compare priors (bayesmdp compare-priors), "
        "reconsider how states are defined, and do not act on the predicted gain."
    )
    if found.n_actions == 1:
        remedy = "Do not act on the predicted gain: no logged episode supports it."
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
            " Rewards depend on the action and stay with it, so that this test is "
            "about next states alone: all of these numbers include gains in rewards."
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
        return "note", f"{text} Too few permutations for a conclusion.", ""
    text += " Gains of this size also occur without any effect."
    if not _recommends(inputs):
        return "note", text, ""
    remedy = (
        "Treat the gain as noise: the log does not show that these actions differ. "
        "More episodes may show whether they do."
    )
    return "warning", text, remedy


def _cross_fitted(inputs: Inputs, found: CrossFit) -> Found:
    low, high = found.interval
    text = (
        "Chosen on some episodes and evaluated on the others, the nominal policy "
        f"gains {significant(found.gain, sign='+')} (95 % "
        f"{significant(low, sign='+')} to {significant(high, sign='+')}) and is better "
        f"with probability {chance(share(found.probability_better, found.n_draws))}."
    )
    judged = found.unjudged is None or found.unjudged <= _MUCH
    if found.unjudged is not None and not judged:
        text += (
            f" {in_percent(found.unjudged)} of its visits are on pairs that the "
            "evaluating episodes never contain: there the prior decides."
        )
    predicted = inputs.row.difference
    if found.probability_better >= SURE:
        above = _recommends(inputs) and inputs.over_behaviour and predicted > high
        if above:
            text += (
                f" The predicted gain, {significant(predicted, sign='+')}, is above "
                "that: either policies chosen on fewer episodes are worse, or the "
                "prediction is too high. Report both."
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
                likely = [significant(x, 4) for x in interval]
                ends = f"95 % {likely[0]} to {likely[1]}"
            said.append(f"{estimator} {significant(value, 4)} ({ends})")
    size = found.effective_sample_size["WIS"]
    other = found.name != inputs.recommended
    judged = inputs.evaluations.get(found.name, inputs.best)
    predicted = judged.start_value
    text = (
        f"Logged episodes weighted for “{found.name}”: "
        f"{', '.join(said) or 'no estimate'}; {size:.3g} effective episodes. Predicted "
        f"for “{inputs.recommended if judged is inputs.best else found.name}”: "
        f"{significant(predicted, 4)}."
    )
    if other:
        text += f" The recommended policy is another one, “{inputs.recommended}”."
    if found.name in inputs.optimised and not found.n_folds:  # it names no policy
        text += f" Episodes were weighted for “{found.name}” as it was at that time."
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
            " The policy was judged by all episodes: if it was chosen on them, it "
            "looks better than it is (folds avoid this: "
            f"{inputs.command('off-policy RUN LOG')})."
        )
    inside = interval[0] <= predicted <= interval[1]
    if inside or not _recommends(inputs) or other:
        return "note", text, ""
    remedy = (
        "Estimates without a model differ from what the belief predicts: check that "
        "starts and rewards of log and task agree, then the Markov tests of bayesmdp "
        "check."
    )
    return "warning", text, remedy


def _states(inputs: Inputs, n: dict[str, int]) -> Found:
    changed = n.get("recommend", 0)
    defer = n.get("thin", 0) + n.get("unclear", 0)
    total = sum(n.values()) - n.get("end", 0)
    if not inputs.knows_actions:
        text = (
            f"In {n.get('same', 0):,} of {total:,} states both policies mostly do the "
            "same; whether the evidence suffices in the others is not known for "
            f"{inputs.unknown_for}."
        )
        return "note", text, ""
    text = (
        f"In {changed:,} of {total:,} states the evidence suffices to depart from "
        f"“{inputs.reference}”, in {n.get('same', 0):,} both policies take the "
        f"same action most often, in {defer:,} one should defer."
    )
    if changed or not (defer and _is_sure(inputs)) or n.get("unknown"):
        return "ok" if changed else "note", text, ""
    if (
        inputs.negative_control is not None
        and _null(inputs, inputs.negative_control)[0] == "ok"
    ):
        text += (
            " No single state is certain, but together they show that actions differ: "
            "exchanged actions do not explain the gain."
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
            " Which prior predicts best is not known: "
            f"{inputs.command('compare-priors RUN LOG')}."
        )
    if inputs.recommended not in inputs.examined:
        text += " This was examined for a policy other than the recommended one."
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
        run, level, text, remedy = None, "note", "Not run.", ""
        if found is not None:
            level, text, remedy = look(inputs, found)
        elif not inputs.knows_actions:
            text = f"Not known for {inputs.unknown_for}."
        elif inputs.posterior.counts is None:
            text = "Not known for an ensemble: this needs logged episodes."
        else:
            run = inputs.command(command)
        said = {"name": name, "title": title, "level": level, "text": text}
        more = {"contradicts": bool(remedy), "remedy": remedy or None}
        made.append({**said, "command": run, **more})
    return made
