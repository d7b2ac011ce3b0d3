"""Algorithm 2 with its draws kept or renewed, its rate constant or falling.

The paper renews the draws at every step, to remove the bias of a finite sample, and
keeps the learning rate constant. Each is changed in turn: the same draws throughout (as
many as a batch, and 16), and a rate that falls like one over the step while the rates
add up to the same (such schedules have guarantees). All are judged on draws that none
of them saw; for a kept sample, what it predicted on its own draws is noted too.
"""

from functools import partial
from math import log
from typing import Any

import bayesmdp as bm
from bayesmdp._typing import FloatArray
from studies import grid_data, grid_runs, synthetic_data, synthetic_runs
from studies.means import COLOURS, mean_and_error, percent, said
from studies.paired import (
    band,
    columns,
    judged,
    sign,
    steps_said,
)
from studies.study import Effort, Job, Record, Study
from studies.synthetic_data import PAIRS

FRESH, FALLING, OURS = "fresh draws", "falling rate", "ours"
_FEW = 16
_BATCH_KEPT, _FEW_KEPT = "{batch} kept", f"{_FEW} kept"
_MATTERS = 0.2  # share of what is left to gain, from which a better rate matters
_SLOWING = 10  # part of the steps after which the rate has halved
_SIZES = {"grid": (25, 250), "synthetic": (1, 5)}
_RATES = {"grid": grid_runs.RATE, "synthetic": synthetic_runs.RATE}
_BATCHES = {"grid": grid_runs.BATCH, "synthetic": synthetic_runs.BATCH}
_SOFTNESS = {"grid": grid_runs.SOFTNESS, "synthetic": synthetic_runs.SOFTNESS}
_STEPS = {"grid": grid_runs.N_STEPS, "synthetic": synthetic_runs.N_STEPS}


def _jobs(effort: Effort) -> list[Job]:
    usual = (
        {"grid": 3, "synthetic": 10} if not effort.quick else dict.fromkeys(_SIZES, 2)
    )
    return [
        Job(
            f"{problem}-{number:03}-{size:03}",
            {
                "problem": problem,
                "number": number,
                "size": size,
                "n_steps": 50 if effort.quick else _STEPS[problem],
                "n_draws": 1_000 if effort.quick else 10_000,
            },
        )
        for problem, sizes in _SIZES.items()
        for number in range(effort.seeds or usual[problem])
        for size in (sizes[:1] if effort.quick else sizes)
    ]


def methods(problem: str, n_steps: int) -> dict[str, bm.StochasticGradient]:
    """Algorithm 2 as published, and with one thing changed at a time."""
    rate, batch = _RATES[problem], _BATCHES[problem]
    make = partial(bm.StochasticGradient, n_steps=n_steps, softness=_SOFTNESS[problem])
    return {
        FRESH: make(rate, batch),
        _BATCH_KEPT.format(batch=batch): make(rate, batch, resample_every=0),
        _FEW_KEPT: make(rate, _FEW, resample_every=0),
        FALLING: make(partial(falling, rate=rate, n_steps=n_steps), batch),
    }


def falling(step: int, rate: float, n_steps: int) -> float:
    """One over the step; the rates of all steps add up as if constant."""
    slow = n_steps / _SLOWING
    return rate * _SLOWING / log(1 + _SLOWING) / (1 + step / slow)


def _work(
    problem: str, number: int, size: int, n_steps: int, n_draws: int
) -> list[Record]:
    """Run the variants on one data set, and judge what they end with."""
    belief = _learnt(problem, number, size)
    results = {
        name: bm.optimise(belief, method=method, seed=number)
        for name, method in methods(problem, n_steps).items()
    }
    policies = {name: x.policy for name, x in results.items()}
    policies[OURS] = bm.optimise(belief, seed=number).policy
    records = judged(policies, belief, n_draws, [FRESH])
    for record in records:
        name = record["method"]
        record |= {"problem": problem, "number": number, "size": size}
        record["gradient_steps"] = n_steps
        if name.endswith("kept"):
            # On a kept sample the last step's batch is the sample itself.
            record["predicted"] = results[name].history[-1].value
            record["optimism"] = record["predicted"] - record["value"]
    return records


def _learnt(problem: str, number: int, size: int) -> bm.Posterior:
    if problem == "grid":
        return grid_data.learnt(number, size)
    counts = synthetic_data.datasets(number)[size]
    return synthetic_data.believe(counts, synthetic_data.world(number).task)


def _cases(records: list[Record]) -> list[tuple[str, int]]:
    """Return problems and sizes, in the order of jobs."""
    found = {(x["problem"], x["size"]) for x in records}
    return [(p, n) for p, sizes in _SIZES.items() for n in sizes if (p, n) in found]


def _case_said(problem: str, size: int) -> str:
    """Name a problem and how much data there are."""
    return f"{problem}, {_transitions(problem, size)} transitions"


def _transitions(problem: str, size: int) -> int:
    """Return how many there are; synthetic problems count visits of every pair."""
    return size if problem == "grid" else PAIRS * size


def _of(records: list[Record], problem: str, size: int) -> list[Record]:
    return [x for x in records if x["problem"] == problem and x["size"] == size]


def _cells(rows: list[Record], method: str) -> tuple[str, str]:
    less = next(iter(columns(rows, method, f"minus_{FRESH}").values()))
    found = columns(rows, method, "optimism")
    return said(less), said(next(iter(found.values()))) if found else ""


def _tell(records: list[Record]) -> str:
    lines = [
        f"Mean over data sets ± standard error; {steps_said(records)}.\n",
        "| problem | data sets | variant | value minus that with fresh draws | "
        "predicted on its own draws minus value |",
        "|---|---|---|---|---|",
    ]
    for problem, size in _cases(records):
        rows = _of(records, problem, size)
        names = dict.fromkeys(x["method"] for x in rows)
        n = len({x["number"] for x in rows})
        lines += [
            f"| {_case_said(problem, size)} | {n} | {name} | "
            f"{' | '.join(_cells(rows, name))} |"
            for name in names
            if name != FRESH
        ]
    return "\n".join([*lines, "", _rates(records), "", _verdict(records)])


def _less(
    records: list[Record], name: str, key: str = f"minus_{FRESH}"
) -> dict[str, FloatArray]:
    """Return a number of a variant, for each problem and size."""
    found = {}
    for problem, size in _cases(records):
        method = name.format(batch=_BATCHES[problem])
        values = columns(_of(records, problem, size), method, key)
        found[f"{problem} {_transitions(problem, size)}"] = values[size]
    return found


def _verdict(records: list[Record]) -> str:
    """Say whether a kept sample is biased, and what that costs in value."""
    optimism, less = (
        {k: _less(records, k, key) for k in (_BATCH_KEPT, _FEW_KEPT)}
        for key in ("optimism", f"minus_{FRESH}")
    )
    optimistic = sum(sign(x) > 0 for of in optimism.values() for x in of.values())
    costs = {k: sum(sign(x) < 0 for x in of.values()) for k, of in less.items()}
    word = "not confirmed"
    if costs[_BATCH_KEPT]:
        word = "confirmed"
    elif optimistic or costs[_FEW_KEPT]:
        word = "confirmed with a caveat"
    n = len(less[_FEW_KEPT])
    return (
        "**Verdict:** the paper says that fresh draws at every step remove the bias of "
        "a finite sample. Samples kept throughout predict too much in "
        f"{optimistic} of {2 * n} cases; with as many draws as a batch the policy ends "
        f"below that of fresh draws in {costs[_BATCH_KEPT]} of {n}, with {_FEW} in "
        f"{costs[_FEW_KEPT]} of {n} (three standard errors). In value against fresh, a "
        f"batch kept has {_listed(less[_BATCH_KEPT])}; {_FEW} kept have "
        f"{_listed(less[_FEW_KEPT])}: {word}."
    )


def _listed(found: dict[str, FloatArray]) -> str:
    return ", ".join(f"{name}: {said(values)}" for name, values in found.items())


def _rates(records: list[Record]) -> str:
    more, best = _less(records, FALLING), _less(records, OURS)
    higher = [name for name, values in more.items() if sign(values) > 0]
    share = max((more[x].mean() / abs(best[x].mean()) for x in higher), default=0.0)
    word = "confirmed"
    if higher:
        word = "confirmed with a caveat" if share < _MATTERS else "not confirmed"
    return (
        "**Learning rate (section 4.2):** the paper found that a constant rate "
        f"converges too. A falling rate ends higher in {len(higher)} of {len(more)} "
        f"cases ({_listed(more)}), by at most {percent(share)} of what ours has "
        f"more ({_listed(best)}): {word}."
    )


def _plot(records: list[Record]) -> dict[str, Any]:
    """Value against fresh draws, in each problem and size."""
    from matplotlib.figure import Figure

    names = (_BATCH_KEPT, _FEW_KEPT, FALLING, OURS)
    figure = Figure(figsize=(9.5, 3.4), layout="constrained")
    cases = _cases(records)
    axes = figure.subplots(1, len(cases))
    for axis, (problem, size) in zip(axes, cases, strict=True):
        rows = _of(records, problem, size)
        for number, name in enumerate(names):
            method = name.format(batch=_BATCHES[problem])
            values = next(iter(columns(rows, method, f"minus_{FRESH}").values()))
            band(axis, {number: values}, method, COLOURS[number], marker="osD^"[number])
            mean, _ = mean_and_error(values)
            axis.plot([number, number], [0, mean], color=COLOURS[number], linewidth=1)
        axis.axhline(0, color="#C00000", linestyle="--", linewidth=1)
        ticks = [x.format(batch=_BATCHES[problem]) for x in names]
        axis.set_xticks(range(len(names)), ticks, rotation=40, ha="right", fontsize=8)
        axis.margins(x=0.15)
        n = len({x["number"] for x in rows})
        axis.set_title(f"{_case_said(problem, size)}\n({n} data sets)", fontsize=9)
    figure.axes[0].set_ylabel(
        "posterior value minus fresh draws'\n(bars: standard error)"
    )
    return {"resampling": figure}


STUDY = Study(
    "resampling",
    "Section 4.2: draws kept or renewed, and the learning rate, in Algorithm 2",
    _jobs,
    _work,
    _tell,
    _plot,
)
