"""The casino (appendix B, figure 6): the best policy may be a gamble.

A player pays 1 a visit, leaves, or plays with probability ``p``; playing wins ``R``
with probability ``1 - theta``, where ``theta`` is 0 or 1 and nobody knows which. Then
``V(p) = (-1 + g p R - 1 / (1 - g p)) / 2``, which is largest where
``1 - g p = 1 / sqrt(R)``. Two models are the whole belief, so every value is exact.
"""

import math
from typing import Any

import numpy as np

import bayesmdp as bm
from studies.study import Effort, Job, Record, Study

_PAYOUT, _DISCOUNT = 10.0, 0.99
#: What the paper prints: probability of playing, and value.
_PRINTED = {"never": (0.0, 1.0), "always": (1.0, -45.55), "best": (0.69, 1.34)}


def closed_form(p: float) -> float:
    """Value of playing with probability ``p``, by the paper's own formula."""
    gp = _DISCOUNT * p
    return 0.5 * (-1.0 + gp * _PAYOUT - 1.0 / (1.0 - gp))


def best_in_closed_form() -> float:
    """Probability of playing that is best."""
    return (1.0 - 1.0 / math.sqrt(_PAYOUT)) / _DISCOUNT


def _jobs(effort: Effort) -> list[Job]:
    n_points = 21 if effort.quick else 101
    return [
        Job("curve", {"what": "curve", "n_points": n_points}),
        Job("policies", {"what": "policies", "n_points": 0}),
    ]


def _work(what: str, n_points: int) -> list[Record]:
    """Value the curve's policies, or those that methods find."""
    casino = bm.worlds.casino(_PAYOUT, _DISCOUNT)
    if what == "curve":
        points = np.linspace(0.0, 1.0, n_points)
        policies = {f"{p:.4f}": _playing(float(p)) for p in points}
    else:
        policies = {
            "never": _playing(0.0),
            "always": _playing(1.0),
            "nominal": bm.policies.nominal(casino),
            "ours": bm.optimise(casino, seed=0).policy,
        }
    found = {x: bm.evaluate(pi, casino.draws()) for x, pi in policies.items()}
    return [
        {
            "what": what,
            "policy": name,
            "play": float(evaluation.policy[0, 0]),
            "value": evaluation.start_value,
            "epistemic_sd": evaluation.start_epistemic_sd,
        }
        for name, evaluation in found.items()
    ]


def _playing(p: float) -> Any:
    return np.array([[p, 1.0 - p], [1.0, 0.0], [1.0, 0.0]])


def _of(records: list[Record], what: str) -> dict[str, Record]:
    return {x["policy"]: x for x in records if x["what"] == what}


def _tell(records: list[Record]) -> str:
    found, curve = _of(records, "policies"), _of(records, "curve")
    best, at = closed_form(best_in_closed_form()), best_in_closed_form()
    lines = [
        "| policy | plays with probability | value | the paper prints |",
        "|---|---|---|---|",
    ]
    printed = _PRINTED | {"ours": _PRINTED["best"]}
    for name, x in found.items():
        said = f"{printed[name][1]:g}" if name in printed else ""
        lines.append(f"| {name} | {x['play']:.4f} | {x['value']:.4f} | {said} |")
    lines.append(f"| best, in closed form | {at:.4f} | {best:.4f} | 1.34 |")
    worst = max(abs(x["value"] - closed_form(x["play"])) for x in curve.values())
    ours, ends = found["ours"], (found["never"], found["always"])
    gamble = ours["value"] > max(x["value"] for x in ends)
    agrees = (
        abs(ours["value"] - best) < 1e-6
        and abs(found["always"]["value"] - _PRINTED["always"][1]) < 0.005
        and worst < 1e-9
    )
    slip = abs(found["never"]["value"] - _PRINTED["never"][1]) > 0.005
    verdict = "not confirmed"
    if gamble and agrees:
        verdict = "confirmed with a caveat" if slip else "confirmed"
    return "\n".join(
        [
            *lines,
            "",
            f"The curve's {len(curve)} points differ from the closed form by at most "
            f"{worst:.1e}.",
            "",
            "**Verdict:** the paper claims that no deterministic policy is best here: "
            "playing with probability about 0.69 is worth about 1.34, always playing "
            f"-45.55. Measured: {ours['play']:.4f} is worth {ours['value']:.4f}, "
            f"always playing {found['always']['value']:.2f}, never playing "
            f"{found['never']['value']:g} (the paper prints 1, against its own "
            f"formula): {verdict}.",
        ]
    )


def _plot(records: list[Record]) -> dict[str, Any]:
    """Value against the probability of playing; beside it, near the best."""
    from matplotlib.figure import Figure

    found = _of(records, "policies")
    curve = _of(records, "curve").values()
    play = np.linspace(0.0, 1.0, 1_001)  # steep at its end
    value = [closed_form(p) for p in play]
    best = (best_in_closed_form(), closed_form(best_in_closed_form()))
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    whole, near = figure.subplots(1, 2)
    for axis in (whole, near):
        axis.plot(play, value, color="#0072B2", label="value, closed form")
        axis.plot(
            [x["play"] for x in curve],
            [x["value"] for x in curve],
            ".",
            color="#0072B2",
            markersize=3.5,
            label="value, evaluated",
        )
        for name, marker, colour in (
            ("never", "s", "grey"),
            ("always", "D", "#CC79A7"),
            ("ours", "o", "#D55E00"),
        ):
            x = found[name]
            label = f"{name}: {x['value']:.2f}"
            axis.plot(x["play"], x["value"], marker, color=colour, label=label)
        axis.plot(*best, "k+", markersize=14, label="best, closed form")
        axis.set_xlabel("probability of playing")
        axis.set_ylabel("posterior value")
        axis.grid(alpha=0.3)
    near.set(ylim=(-2.0, 1.8), title="near the best")
    whole.set_title("casino: R = 10, discount 0.99")
    whole.legend(loc="lower left", fontsize=8)
    return {"casino": figure}


STUDY = Study(
    "casino",
    "Figure 6: the casino, where the best policy is a gamble",
    _jobs,
    _work,
    _tell,
    _plot,
)
