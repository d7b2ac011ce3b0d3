"""Exact moments against roll-outs (appendix A): draws and seconds to reach an error.

A policy is evaluated three ways: by exact moments as the paper does (plain draws), by
exact moments as `bayesmdp.evaluate` does by default (the same with control variates),
and by roll-outs in every draw, whose horizon cuts off at most half of the error aimed
at. Roll-outs leave every state at least twice, which tells aleatoric from epistemic
uncertainty; what one walk per draw from the start alone would take, for its value
alone, is estimated from the cost of a walk. Each is run at several numbers of draws,
several times over; its deviations from a long reference are set beside the errors it
reports. Errors fall with the root of the number of draws, so the draws and seconds to
reach 0.001 follow from the longest run, where no run reached it itself.

The grid's episodes end after some ten steps, those of synthetic problems never do;
these are also evaluated with smaller discounts. Seconds are CPU time on one thread, and
differ from run to run; all else is a function of a job's parameters.
"""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import bayesmdp as bm
from bayesmdp.errors import BayesmdpWarning
from studies.means import rms, short
from studies.study import Effort, Job, Record, Study
from studies.target_error import (
    AIM,
    OURS,
    PLAIN,
    ROLLOUTS,
    Groups,
    Reach,
    Setting,
    best,
    geometric_mean,
    groups_of,
    kinds_of,
    one_walk,
    ratios,
    reach,
    sooner_than_one_walk,
)

_FAILURE = 0.05
_FAR = 100  # times sooner
_START = ("value", "epistemic_sd", "aleatoric_sd")
_REFERENCE = 100_000

_SETTINGS: tuple[Setting, ...] = (
    ("grid", 100, 0.999),
    ("grid", 1_000, 0.999),
    ("grid", 5_000, 0.999),
    ("synthetic", 25, 0.999),
    ("synthetic", 250, 0.999),
    ("synthetic", 250, 0.99),
    ("synthetic", 250, 0.9),
)


def _jobs(effort: Effort) -> list[Job]:
    settings = _SETTINGS[1:5:3] if effort.quick else _SETTINGS
    seeds = effort.seeds or (1 if effort.quick else 3)
    return [
        Job(
            f"{world}-{size:05}-{discount}-{seed:02}",
            {
                "world": world,
                "size": size,
                "discount": discount,
                "seed": seed,
                "quick": effort.quick,
            },
        )
        for world, size, discount in settings
        for seed in range(seeds)
    ]


def _belief(world: str, size: int, discount: float, seed: int) -> tuple[Any, Any]:
    """Return a posterior and the policy that is evaluated."""
    if world == "grid":
        grid = bm.worlds.gridworld(discount=discount)
        prior = bm.SymmetricPrior(support=grid.support)
        posterior = bm.fit(grid.sample(size, seed=seed), grid.task, prior=prior)
    else:
        made = bm.worlds.synthetic(seed, discount=discount)
        posterior = bm.fit(
            made.sample(size, seed=seed), made.task, prior=bm.SymmetricPrior()
        )
    return posterior, bm.policies.nominal(posterior)


def least_horizon(task: bm.Task, hidden: float) -> int:
    """Fewest steps that hide no more than ``hidden`` of a value."""
    one = bm.evaluation.truncation_bound(task, 1)
    steps = 1 + math.log(hidden / one) / math.log(task.discount)
    return max(1, math.ceil(steps - 1e-9))


def _ladder(
    world: str, discount: float, quick: bool
) -> list[tuple[str, int, Sequence[int]]]:
    """Methods, roll-outs of each state, and numbers of draws."""
    exact, short, long = (64, 1024, 8192), (64, 256, 1024), (16, 64)
    if quick:
        exact, short, long = (64, 512, 4096), (16, 64, 256), (8, 16)
    ends = world == "grid"
    numbers = (2, 10, 50) if ends else (2, 10)
    # Walks that do not end are a thousand times longer: few draws tell their cost.
    draws = short if ends or discount < 0.999 else long
    walks = [(ROLLOUTS, n, draws) for n in numbers]
    return [(PLAIN, 0, exact), (OURS, 0, exact), *walks]


def _work(
    world: str, size: int, discount: float, seed: int, quick: bool
) -> list[Record]:
    """Evaluate one policy in all ways, several times over."""
    posterior, policy = _belief(world, size, discount, seed)
    task = posterior.task
    horizon = least_horizon(task, AIM / 2)
    n_reference, repeats = (20_000, 4) if quick else (_REFERENCE, 10)
    truth = bm.evaluate(policy, posterior.draws(n_reference, seed=10**6))
    records = []
    for method, n_rollouts, ladder in _ladder(world, discount, quick):
        evaluate = _evaluator(method, policy, n_rollouts, horizon)
        for n_draws in ladder:
            evaluate(posterior.draws(n_draws, seed=10**5), 0)  # compiled, in cache
            found, seconds = [], []
            for number in range(repeats):
                draws = posterior.draws(n_draws, seed=number)
                began = time.process_time()
                found.append(evaluate(draws, number))
                seconds.append(time.process_time() - began)
            records.append(
                {
                    "world": world,
                    "size": size,
                    "discount": discount,
                    "seed": seed,
                    "method": method,
                    "n_rollouts": n_rollouts,
                    "n_draws": n_draws,
                    "horizon": horizon if n_rollouts else None,
                    "max_reward": _max_reward(task),
                    "n_live": int(task.live.size),
                    "epistemic_sd": truth.start_epistemic_sd,
                    "aleatoric_sd": truth.start_aleatoric_sd,
                    "repeats": repeats,
                    **_errors(found, truth),
                    "seconds": min(seconds),  # of the run least disturbed
                }
            )
    return records


def _max_reward(task: bm.Task) -> float:
    return bm.evaluation.truncation_bound(task, 1) * (1 - task.discount) / task.discount


def _evaluator(
    method: str, policy: Any, n_rollouts: int, horizon: int
) -> Callable[[bm.Draws, int], bm.Evaluation]:
    def exact(draws: bm.Draws, number: int) -> bm.Evaluation:
        return bm.evaluate(policy, draws, control=method == OURS, threads=1)

    def rollouts(draws: bm.Draws, number: int) -> bm.Evaluation:
        with warnings.catch_warnings():
            # What the horizon hides is half of the error aimed at, at most.
            warnings.simplefilter("ignore", BayesmdpWarning)
            return bm.evaluation.rollout_evaluate(
                policy, draws, n_rollouts, horizon, seed=number, threads=1
            )

    return rollouts if method == ROLLOUTS else exact


def _errors(found: list[bm.Evaluation], truth: bm.Evaluation) -> Record:
    """Errors reported, and deviations from the reference, as root mean squares."""
    out: Record = {}
    for name in _START:
        key = f"start_{name}"
        said = np.array([getattr(x, f"{key}_mcse") for x in found])
        off = np.array([getattr(x, key) for x in found]) - getattr(truth, key)
        out[f"{name}_mcse"] = rms(said)
        out[f"{name}_deviation"] = rms(off)
        out[f"{name}_reference_mcse"] = getattr(truth, f"{key}_mcse")
    said = np.array([x.value_mcse for x in found])
    out["state_mcse"] = float(np.sqrt(np.mean(said**2, axis=0)).max())
    return out


def _tell(records: list[Record]) -> str:
    groups = groups_of(records)
    parts = [
        _reached(groups, "value", "the value from the start"),
        _reached(groups, "state", "the value of every state"),
        _reached(groups, "epistemic_sd", "the epistemic sd from the start"),
        _alone(groups),
        _bounded(records),
        _honest(records),
        _verdict(groups),
    ]
    return "\n\n".join(parts)


def _name(key: Setting) -> str:
    return f"{key[0]}, {key[1]:,} transitions, discount {key[2]:g}"


def _reached(groups: Groups, quantity: str, what: str) -> str:
    lines = [
        f"**To an error of {AIM:g} in {what}** (CPU seconds on one thread, geometric "
        "means over data sets; ~ extrapolated from the longest run; none is taken to "
        "be sooner than the shortest, mostly fixed cost; roll-outs with the number a "
        "state that serves them best)\n",
        "| setting | exact, as published: draws, seconds | with control variates | "
        "roll-outs | sooner, as published (range) | with control variates |",
        "|---|---|---|---|---|---|",
    ]
    for key, sets in groups.items():
        cells = [_cell(sets, method, quantity) for method in (PLAIN, OURS, ROLLOUTS)]
        for method in (PLAIN, OURS):
            mean, low, high = ratios(sets, method, quantity)
            cells.append(f"{short(mean)} ({short(low)} to {short(high)})")
        lines.append(f"| {_name(key)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _alone(groups: Groups) -> str:
    """Set one walk a draw from the start beside exact moments."""
    lines = [
        f"**To an error of {AIM:g} in the value from the start, by one walk a draw "
        "from there** (estimated; it tells nothing of other states, nor chance from "
        "uncertainty)\n",
        "| setting | draws, seconds | sooner, as published (range) | "
        "with control variates |",
        "|---|---|---|---|",
    ]
    for key, sets in groups.items():
        cells = [_reach_said([one_walk(x) for x in sets])]
        for method in (PLAIN, OURS):
            found = sooner_than_one_walk(sets, method)
            mean, low, high = geometric_mean(found), min(found), max(found)
            cells.append(f"{short(mean)} ({short(low)} to {short(high)})")
        lines.append(f"| {_name(key)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(sets: list[list[Record]], method: str, quantity: str) -> str:
    return _reach_said([best(x, method, quantity) for x in sets])


def _reach_said(found: list[Reach]) -> str:
    draws = geometric_mean([x.draws for x in found])
    seconds = geometric_mean([x.seconds for x in found])
    mark = "~" if any(x.extrapolated for x in found) else ""
    return f"{mark}{short(draws)}, {short(seconds)} s"


def _bounded(records: list[Record]) -> str:
    lines = [
        f"**Draws that guarantee it** (Hoeffding, with probability {1 - _FAILURE:g})\n",
        "| setting | exact moments | least horizon | roll-outs of the horizon used |",
        "|---|---|---|---|",
    ]
    for key, sets in groups_of(records).items():
        x = next(x for x in sets[0] if x["horizon"])
        given: dict[str, Any] = {
            "discount": x["discount"],
            "max_reward": x["max_reward"],
            "failure": _FAILURE,
        }
        exact = bm.draws_needed(AIM, **given)
        walks = bm.draws_needed(AIM, **given, horizon=x["horizon"])
        top = x["max_reward"] / (1 - x["discount"])
        least = math.floor(math.log(AIM / top) / math.log(x["discount"])) + 1
        lines.append(
            f"| {_name(key)} | {exact:.2g} | {least:,} | {walks:.2g} "
            f"({x['horizon']:,} steps) |"
        )
    return "\n".join(lines)


def _honest(records: list[Record]) -> str:
    """Deviations over reported errors: 1 where errors are what they say."""
    said = []
    for method in (PLAIN, OURS, ROLLOUTS):
        of = [x for x in records if x["method"] == method]
        scores = [
            x["value_deviation"] ** 2
            / (x["value_mcse"] ** 2 + x["value_reference_mcse"] ** 2)
            for x in of
        ]
        said.append(f"{method} {math.sqrt(np.mean(scores)):.2f}")
    return (
        "Deviations of the start value from a reference of many more draws, over the "
        f"errors reported (root mean square, 1 is honest): {'; '.join(said)}."
    )


def _verdict(groups: Groups) -> str:
    far = {key: sets for key, sets in groups.items() if key[2] >= 0.999}
    plain = {key: ratios(sets, PLAIN)[0] for key, sets in far.items()}
    ours = {key: ratios(sets, OURS)[0] for key, sets in far.items()}
    enough = sum(x >= _FAR for x in plain.values())
    walks = [geometric_mean(sooner_than_one_walk(sets, PLAIN)) for sets in far.values()]
    verdict = "confirmed with a caveat"
    if enough == len(plain):
        verdict = "confirmed"
    elif min(plain.values()) < 1:
        verdict = "not confirmed"
    least, most = min(plain, key=lambda k: plain[k]), max(plain, key=lambda k: plain[k])
    nearer = "".join(
        f" At discount {key[2]:g} ({key[0]}, {key[1]:,} transitions) it is "
        f"{short(ratios(sets, PLAIN)[0])} times as published."
        for key, sets in groups.items()
        if key not in far
    )
    return (
        "**Verdict:** the paper claims that at discount 0.999 exact moments save "
        "computation over roll-outs. Measured and extrapolated: to an error of "
        f"{AIM:g} in the start value, exact moments as published are "
        f"{short(plain[least])} times ({_name(least)}) to {short(plain[most])} times "
        f"({_name(most)}) sooner, and {_FAR} times or more, as long walks suggest, in "
        f"{enough} of {len(plain)} settings; with control variates "
        f"{short(min(ours.values()))} to {short(max(ours.values()))} times.{nearer} "
        "Where episodes end early, roll-outs end with them, whatever the discount. "
        "One walk a draw, which tells the start's value and no more, takes "
        f"{short(min(walks))} to {short(max(walks))} times as long as exact moments as "
        f"published: {verdict}."
    )


# Colours that everyone can tell apart (Okabe and Ito).
_STYLES = {
    PLAIN: ("#0072B2", "o"),
    OURS: ("#009E73", "v"),
    ROLLOUTS: ("#D55E00", "s"),
}


def _plot(records: list[Record]) -> dict[str, Any]:
    """Error against seconds, and how many times sooner exact moments are."""
    from matplotlib.figure import Figure

    groups = groups_of(records)
    shown = [_shown(groups, world) for world in ("grid", "synthetic")]
    figure = Figure(figsize=(12.5, 4.0), layout="constrained")
    axes = figure.subplots(1, 3)
    for axis, key in zip(axes, shown, strict=False):
        _errors_against_seconds(axis, groups[key][0])
        axis.set_title(_name(key), fontsize=10)
    _sooner(axes[2], groups)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5, fontsize=8)
    return {"bounds": figure}


def _shown(groups: dict[Setting, Any], world: str) -> Setting:
    """Choose the setting that is drawn: one in the middle, of the largest discount."""
    of = [key for key in groups if key[0] == world]
    largest = [key for key in of if key[2] == max(key[2] for key in of)]
    return largest[len(largest) // 2]


def _errors_against_seconds(axis: Any, records: list[Record]) -> None:
    for (method, n), of in kinds_of(records).items():
        colour, style = _STYLES[method]
        style = {2: "s", 10: "^", 50: "D"}.get(n, style)
        label = f"{method}, {n} a state" if n else method
        took, error = [r["seconds"] for r in of], [r["value_mcse"] for r in of]
        axis.loglog(took, error, style, color=colour, markersize=5, label=label)
        missed = [r["value_deviation"] for r in of]
        axis.loglog(took, missed, style, color=colour, fillstyle="none", markersize=8)
        aim = reach(of)
        if aim.extrapolated:
            path = [took[-1], aim.seconds], [error[-1], AIM]
            axis.loglog(*path, ":", color=colour, linewidth=1)
    axis.axhline(AIM, color="grey", linewidth=0.8)
    axis.set_xlabel("CPU seconds (dotted: extrapolated)")
    axis.set_ylabel("error of the start value\n(hollow: measured deviation)")
    axis.grid(alpha=0.3)


def _sooner(axis: Any, groups: Groups) -> None:
    keys = list(groups)
    for method in (PLAIN, OURS):
        colour, marker = _STYLES[method]
        for at, key in enumerate(keys):
            mean, low, high = ratios(groups[key], method)
            axis.errorbar(
                mean,
                at,
                xerr=[[max(mean - low, 0.0)], [max(high - mean, 0.0)]],
                fmt=marker,
                color=colour,
                capsize=3,
            )
    axis.axvline(1, color="black", linewidth=0.8)
    axis.axvline(_FAR, color="grey", linewidth=0.8)
    axis.set_xscale("log")
    labels = [f"{k[0]} {k[1]:,}\ndiscount {k[2]:g}" for k in keys]
    axis.set_yticks(range(len(keys)), labels, fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("times sooner than roll-outs")
    axis.grid(alpha=0.3, axis="x")


STUDY = Study(
    "bounds",
    "Appendix A: draws and seconds to an error, by exact moments and by roll-outs",
    _jobs,
    _work,
    _tell,
    _plot,
    timed=True,
)
