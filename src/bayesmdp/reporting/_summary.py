"""The first screen: question, answer, uncertainty, and gains on one axis.

How it was done, in sentences that can be quoted, with what is needed to redo it.
"""

import math
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._version import __version__
from bayesmdp.evaluation import Evaluation, rounded
from bayesmdp.reporting._cautions import cautions
from bayesmdp.reporting._checks_made import checks_made
from bayesmdp.reporting._inputs import (
    Inputs,
    chance,
    column,
    in_percent,
    plain,
    quantity,
)

_PAPER = (
    "Valdettaro and Faisal (2024). Offline Bayesian Aleatoric and Epistemic "
    "Uncertainty Quantification and Posterior Value Optimisation in Finite-State MDPs. "
    "Proceedings of the 40th Conference on Uncertainty in Artificial Intelligence."
)
_SOBEL = (
    "Sobel (1982). The variance of discounted Markov decision processes. Journal of "
    "Applied Probability 19(4), 794-802."
)
_DELAGE = (
    "Delage and Mannor (2010). Percentile optimization for Markov decision processes "
    "with parameter uncertainty. Operations Research 58(1), 203-213."
)
_DEARDEN = (
    "Dearden, Friedman and Andre (1999). Model based Bayesian exploration. "
    "Proceedings of the 15th Conference on Uncertainty in Artificial Intelligence."
)


def methods_section(inputs: Inputs) -> dict[str, Any]:
    """Say how the numbers came about."""
    return {
        "paragraphs": [
            inputs.posterior.describe(),
            _evaluation(inputs),
            _comparison(inputs),
            *_optimisation(inputs),
            _APPROXIMATION,
        ],
        "assumptions": _assumptions(inputs),
        "references": [_PAPER, _SOBEL, _DELAGE, _DEARDEN],
        "versions": {
            "bayesmdp": __version__,
            "Python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "scipy", "numba", "plotly")},
        },
        "seeds": _seeds(inputs),
    }


_APPROXIMATION = (
    "One part is an approximation: the attribution of epistemic uncertainty to pairs, "
    "where it is shown, expands the value to first order around the mean model "
    "(Delage and Mannor 2010); its sd is shown beside that of the draws."
)


def _assumptions(inputs: Inputs) -> list[str]:
    """Say what the numbers take for granted."""
    logged = inputs.posterior.n_models is None
    rewards, whose = (
        "Rewards are known, and states are given",
        "the model and the prior",
    )
    if inputs.own_rewards:
        rewards = "Rewards are as uncertain as the models say, and states are given"
    if not logged:
        whose = "the models given, whose own assumptions are not examined"
    return [
        "The next state depends on the past only through state and action (the Markov "
        "property).",
        "No unmeasured confounding: nothing unrecorded influenced both the action and "
        "the outcome.",
        f"{rewards}: that other states might have been defined is not part of the "
        "uncertainty.",
        f"Probabilities are those of {whose}{' named here' if logged else ''}.",
    ]


def _evaluation(inputs: Inputs) -> str:
    best = inputs.best
    many = f"Each of {best.n_draws:,} draws from the posterior"
    if best.exact:
        many = f"Each of the {inputs.drawn}"
    noise = "There is no Monte Carlo error."
    if not inputs.exact:
        noise = (
            "The figure after ± is the Monte Carlo standard error, which more "
            f"{'models' if best.exact else 'draws'} would remove; it is no part of the "
            "uncertainty about the dynamics."
        )
    if inputs.task.criterion == "average":
        return (
            f"{many} gives the average per step of the {_paid(inputs)} in the long "
            "run, and the asymptotic variance of a sum of steps over their number, in "
            "closed form. The epistemic variance is that of the average over draws, "
            "the aleatoric one the mean of the asymptotic variance: by the law of "
            "total variance the mean over n steps has the variance epistemic + "
            f"aleatoric / n, for large n. {noise}"
        )
    how = "in closed form (Sobel 1982)"
    if inputs.task.horizon is not None:
        how = "by one product per cycle, exactly"
    return (
        f"{many} gives the mean and the variance of the return "
        f"({inputs.task.said_time}) {how}. By the law of total variance the variance "
        "of the mean over draws is the epistemic part, and the mean of the variance "
        "the aleatoric part (Valdettaro and Faisal 2024, Algorithm 1). A random start "
        f"adds to the aleatoric part. {noise}"
    )


def _paid(inputs: Inputs) -> str:
    return "cost" if inputs.task.is_cost else "reward"


def _comparison(inputs: Inputs) -> str:
    return (
        f"All {len(inputs.rows)} policies use the same draws, so that differences are "
        "paired. A policy's probability of being better is the share of draws in which "
        f"its {inputs.measure} is {'below' if inputs.task.is_cost else 'above'} that "
        f"of “{inputs.reference}”; a tie is not better."
    )


def _optimisation(inputs: Inputs) -> list[str]:
    result = inputs.optimisation
    if result is None:
        return []
    what = f"the posterior mean of the {inputs.measure} {inputs.when}"
    if inputs.for_tail:
        of = f"{inputs.measure}s {inputs.when} over the posterior"
        what = f"{result.objective} of the {of}"
    starts = _checks.many(len(result.starts), "starting policy")
    aim = "minimises" if inputs.task.is_cost else "maximises"
    return [
        f"The optimised policy {aim} {what}, by ascent from {starts} "
        f"({', '.join(result.starts)}). {_judged(inputs)} Status: {result.status}."
    ]


def _judged(inputs: Inputs) -> str:
    if inputs.sampled:
        return (
            f"It was learnt, chosen and judged on the same "
            f"{inputs.posterior.n_models:,} sampled models, which favours it; an "
            "evaluation on models of another seed would not."
        )
    if inputs.best.exact:
        return "It was learnt, chosen and judged on all models, exactly."
    return "It was learnt, chosen and judged on three separate streams of draws."


def _seeds(inputs: Inputs) -> dict[str, int]:
    found = {"comparison": inputs.best.seed}
    if inputs.optimisation is not None:
        found["optimisation"] = inputs.optimisation.seed
    if inputs.prior_sensitivity is not None:
        found["prior_sensitivity"] = inputs.prior_sensitivity.seed
    return found


_WIDTH = 3.92  # of a normal distribution's 95 % interval, in standard deviations


def summary_section(
    inputs: Inputs, policies: dict[str, Any], n_verdicts: dict[str, int]
) -> dict[str, Any]:
    """Say what is recommended, how sure we are, and whether checks contradict it."""
    best = inputs.best
    row = next(r for r in policies["rows"] if r["name"] == inputs.recommended)
    reference = next(r for r in policies["rows"] if r["name"] == inputs.reference)
    found: dict[str, Any] = {
        "question": _question(inputs),
        "measure": inputs.measure,
        "when": inputs.when,
        "average": inputs.task.criterion == "average",
        "given": _given(inputs),
        "recommended": inputs.recommended,
        "reference": inputs.reference,
        "chosen_by": "optimisation" if inputs.optimised else "comparison",
        "same_as": [n for n in inputs.optimised if n != inputs.recommended],
        "value": row["value"],
        "interval": row["interval"],
        "epistemic_sd": row["epistemic_sd"],
        "aleatoric_sd": row["aleatoric_sd"],
        "total_sd": quantity(best.start_total_sd, best.start_total_sd_mcse),
        "epistemic_share": _epistemic_share(best),
        "reference_value": reference["value"],
        "difference": row["difference"],
        "difference_interval": row["difference_interval"],
        "probability_better": row["probability_better"],
        "n_draws": best.n_draws,
        "exact": inputs.exact,
        "drawn": inputs.drawn,
    }
    ends, gap = found["difference_interval"], None
    if found["probability_better"] is not None:
        gap = {x: ends[x]["value"] for x in ("low", "high")} | found["difference"]
        found["difference_sd"] = (gap["high"] - gap["low"]) / _WIDTH
    found["gains"] = gains(inputs, gap)
    result = inputs.optimisation
    if result is not None and not inputs.for_tail:
        found["upper_bound"] = quantity(result.upper_bound, result.upper_bound_mcse)
        found["gap"] = quantity(result.gap, result.gap_mcse)
    found["sentences"] = _sentences(inputs, found)
    found["cautions"] = cautions(inputs)
    found["checks"] = checks_made(inputs, n_verdicts)
    found["contradicted"] = any(x["contradicts"] for x in found["checks"])
    return found


def _question(inputs: Inputs) -> str:
    if inputs.recommended == inputs.reference:
        return f"Is any policy better than “{inputs.reference}”, and how sure are we?"
    return (
        f"Is “{inputs.recommended}” better than “{inputs.reference}”, and how sure "
        "are we?"
    )


def _epistemic_share(evaluation: Evaluation) -> dict[str, float | None]:
    """Part of the variance of one return that is epistemic.

    With ``f = e^2 / (e^2 + a^2)``, ``df = 2 f (1 - f) |(de/e, da/a)|``. Averages per
    step have no such part: it falls to nothing as steps are added.
    """
    if evaluation.task.criterion == "average":
        return quantity(math.nan, math.nan)
    e, a = evaluation.start_epistemic_sd, evaluation.start_aleatoric_sd
    if e <= 0 or a <= 0:
        return quantity(float(e > 0))
    part = e**2 / (e**2 + a**2)
    relative = math.hypot(
        evaluation.start_epistemic_sd_mcse / e, evaluation.start_aleatoric_sd_mcse / a
    )
    return quantity(part, 2 * part * (1 - part) * relative)


def _sentences(inputs: Inputs, found: dict[str, Any]) -> dict[str, str]:
    """Sentences that can be quoted as they stand."""
    sd, ends = found["epistemic_sd"]["value"], found["interval"]
    said = inputs.task.reward_unit
    unit = f" {said}" if said else ""
    what = f"the expected {inputs.measure} from the start"
    if inputs.task.criterion == "average":
        what = f"the average {_paid(inputs)} per step"
    if unit and isinstance(inputs.task.chosen, Mapping):  # a sum is no unit of its own
        what, unit = f"{what} ({said})", ""
    only = ""
    if inputs.cost_effectiveness is not None:
        about = inputs.task.chosen or "the reward"
        about = about if isinstance(about, str) else "this sum"
        only = f" This is about {about} alone"
        only += "; the section on cost-effectiveness has all rewards."
    return {
        "value": (
            f"Under “{found['recommended']}” {what} is "
            f"{_with_noise(found['value'], sd, unit)}; {found['given']}, it lies "
            f"between {known(ends['low'], sd)} and {known(ends['high'], sd)} with "
            f"probability 95 %.{only}"
        ),
        "uncertainty": _uncertainty(found),
        "choice": _choice(inputs),
        "gain": _gain(found),
    }


def _gain(found: dict[str, Any]) -> str:
    """Set the recommended policy against the reference."""
    if found["probability_better"] is None:
        return (
            f"No policy was found that is better than “{found['reference']}”, with "
            "which the others were compared."
        )
    gap, ends = found["difference"], found["difference_interval"]
    sd = found["difference_sd"]
    size = {"value": abs(gap["value"]), "mcse": gap["mcse"]}
    return (
        f"Its predicted {found['measure']} is {_with_noise(size, sd)} "
        f"{'more' if gap['value'] >= 0 else 'less'} than that of "
        f"“{found['reference']}” "
        f"({known(found['reference_value'], found['epistemic_sd']['value'])}); the "
        f"difference lies between {known(ends['low'], sd)} and "
        f"{known(ends['high'], sd)} with probability 95 %. The probability that it is "
        f"better is {chance(found['probability_better'])}."
    )


def _given(inputs: Inputs) -> str:
    """Say what probabilities rest on."""
    return "given the data" if inputs.posterior.n_models is None else "over the models"


def _uncertainty(found: dict[str, Any]) -> str:
    if found["average"]:
        return (
            f"Its epistemic sd is {_said(found['epistemic_sd'])}, which more data "
            "would remove; the mean over n steps varies by chance besides, with an sd "
            f"of {_said(found['aleatoric_sd'])} over the square root of n, for large n."
        )
    part = percent(found["epistemic_share"])
    return (
        f"The standard deviation of one outcome is {_said(found['total_sd'])}: "
        f"{part} of its variance is epistemic, which more data would "
        f"remove (sd {_said(found['epistemic_sd'])}); the rest is aleatoric "
        f"(sd {_said(found['aleatoric_sd'])})."
    )


def _choice(inputs: Inputs) -> str:
    n = len(inputs.rows)
    same = [x for x in inputs.optimised if x != inputs.recommended]
    also = f" It is the same as “{same[0]}”." if same else ""
    if inputs.optimised and inputs.sampled:
        return (
            "It was found by optimisation over the same sampled models on which it is "
            "evaluated, which favours it; an evaluation on models of another seed "
            f"would not.{also}"
        )
    if inputs.optimised and inputs.best.exact:
        return f"It was found by optimisation over the same models, exactly.{also}"
    if inputs.optimised:
        return (
            "It was found by optimisation, on draws that are not used for these "
            f"numbers.{also}"
        )
    what = "models" if inputs.posterior.n_models is not None else "draws"
    return (
        f"It is the best of the {n} policies compared, chosen on the same {what} on "
        "which it is evaluated."
    )


def known(x: dict[str, float | None], sd: float | None) -> str:
    """Write a number to a tenth of its sd or to its error, whichever is coarser."""
    value, error = x["value"], x.get("mcse")
    if value is None or not sd:
        return _said(x)
    digits = 1 - math.floor(math.log10(sd))
    if error:
        digits = min(digits, -math.floor(math.log10(error)))
    if digits > 12 or abs(value) >= 1e12:
        return f"{value:.6g}"
    return f"{round(value, digits) + 0.0:.{max(digits, 0)}f}"


def _with_noise(x: dict[str, float | None], sd: float | None, unit: str = "") -> str:
    """Write a number to the precision of its sd, its Monte Carlo error in brackets."""
    error = x["mcse"]
    if not (sd and error):
        return known(x, sd) + unit
    said = f"{error:.1g}" if error < 1 else f"{float(f'{error:.1g}'):.0f}"
    return f"{known(x, sd)}{unit} (Monte Carlo error {said})"


def _said(x: dict[str, float | None]) -> str:
    value, error = x["value"], x["mcse"]
    if value is None:
        return "not known"
    return rounded(value, error or 0.0)


def percent(x: dict[str, float | None]) -> str:
    """Write a share in per cent, with two digits."""
    value = x["value"]
    if value is None:
        return "an unknown part"
    return in_percent(value)


def gains(inputs: Inputs, difference: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return rows with a point, an interval or dots, and the limits of their axis.

    None where there is nothing to set beside the predicted gain. ``difference`` is the
    gain of the recommended policy with its 95 % ``low`` and ``high``.
    """
    null, fair = inputs.negative_control, inputs.cross_fit
    if null is None and fair is None:
        return None
    rows: list[dict[str, Any]] = []
    ours = theirs = ""  # what gains are over, where that is not one policy
    if inputs.reference != "behaviour":
        ours, theirs = f" over “{inputs.reference}”", " over the behaviour policy"
    if difference is not None:
        ends = [difference["low"], difference["high"]]
        name = f"Predicted for “{inputs.recommended}”{ours}"
        rows.append(_row(name, difference, ends))
    if null is not None:
        claimed = {"value": plain(null.claimed_gain, 6)}
        dots = column(np.sort(null.null_gains), 3)
        rows.append(_row(f"Claimed for the nominal policy{theirs}", claimed))
        rows.append(_row("Claimed without effect", None, dots=dots))
    if fair is not None:
        ends = [plain(x, 6) for x in fair.interval]
        rows.append(_row(f"Cross-fitted{theirs}", {"value": plain(fair.gain, 6)}, ends))
    numbers = [0.0]
    for row in rows:
        numbers += [x for x in [row["value"], *row["interval"], *row["dots"]] if x]
    low, high = min(numbers), max(numbers)
    room = 0.04 * (high - low or 1.0)
    return {"rows": rows, "low": plain(low - room, 6), "high": plain(high + room, 6)}


def _row(
    label: str,
    value: dict[str, Any] | None,
    interval: list[float | None] | None = None,
    dots: list[float | None] | None = None,
) -> dict[str, Any]:
    known = interval is not None and None not in interval
    return {
        "label": label,
        "value": None if value is None else value["value"],
        "interval": interval if known else [],
        "dots": [x for x in dots or [] if x is not None],
    }
