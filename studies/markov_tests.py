"""What tests of the Markov assumption find where it holds, and where it does not.

`bm.check` on logs that are Markov (`studies.history_logs.NULL`): every alarm is false,
and a test at 5 % should raise one in 5 % of logs. The same statistics with the p value
of a permutation of next states within pairs (its normal limit, ``permuted``) stand
beside, to show what that would do. Then logs with a hidden frailty, of a size that
shifts the value of the policy that would be chosen by so much.

Fits have independent rows (``ScaledPrior(1.0)``): chains would make 10,000 fits slow,
and tests look at residuals within pairs, which hardly depend on the prior. ICU-Sepsis
cohorts, with the default prior, are in docs/beliefs.md.
"""

import math
from typing import Any

import numpy as np

import bayesmdp as bm
from studies.history_logs import (
    NULL,
    PATIENTS,
    SHIFTS,
    frail_log,
    frailty_of,
    markov_log,
)
from studies.means import COLOURS, percent
from studies.no_effect import limits
from studies.study import Effort, Job, Record, Study

TESTS = (
    *("previous value", "previous action", "past actions"),
    *("step", "episode order", "second order"),
)
_PREDICTIVE = ("survival", "prevalence", "actions")
RANGE = 0.036, 0.064  # of false alarms in 1,000 logs, if 5 % is right
JUDGING = 20_000  # first seed of the tables
_A_JOB = 10  # logs
_LEVEL = 0.05
_POWER = 0.8  # wanted at a shift of 0.01
_DESIGNS = {design.name: design for design in NULL}


def _jobs(effort: Effort) -> list[Job]:
    n = effort.seeds or (10 if effort.quick else 1000)
    few = -(-n // 10) if not effort.quick else 2
    start = 0 if effort.quick else JUDGING
    kinds: list[tuple[Record, int]] = [({"design": x.name}, n) for x in NULL]
    kinds += [({"shift": s, "patients": p}, few) for s in SHIFTS for p in PATIENTS]
    return [
        Job(
            f"{number:02}-{first:04}",
            {"kind": kind, "seeds": [start + first, start + min(first + _A_JOB, size)]},
        )
        for number, (kind, size) in enumerate(kinds)
        for first in range(0, size, _A_JOB)
    ]


def _work(kind: Record, seeds: list[int]) -> list[Record]:
    """Check some logs of a kind."""
    records = []
    for seed in range(*seeds):
        if "design" in kind:
            log, task = markov_log(_DESIGNS[kind["design"]], seed)
        else:
            log, task = frail_log(kind["patients"], frailty_of(kind["shift"]), seed)
        belief = bm.fit(log, task, prior=bm.ScaledPrior(1.0))
        found = bm.check(belief, log, n_draws=199, n_permutations=199, seed=seed)
        record: Record = {**kind, "seed": seed, "rows": found.n_rows, "gap": found.gap}
        record["p"] = {x.name: x.p_value for x in found.tests}
        record["permuted"] = {
            x.name: math.erfc(abs(x.statistic) / math.sqrt(2))
            for x in found.tests
            if x.name in ("previous value", "step", "episode order")
        }
        record["holm"] = min((x.p_holm for x in found.tests), default=1.0)
        record["effect"] = {x.name: abs(x.effect) for x in found.tests}
        record["effect"].pop("second order", None)
        record["prevalence"] = found.prevalence.p_value
        record["survival"] = None if found.survival is None else found.survival.p_value
        record["actions"] = None if found.actions is None else found.actions.p_value
        record["problems"] = len(found.problems)
        records.append(record)
    return records


def _alarms(p: list[float | None], level: float = _LEVEL) -> tuple[int, int]:
    known = [x for x in p if x is not None]
    return sum(x <= level for x in known), len(known)


def _p(records: list[Record], test: str, key: str = "p") -> list[float | None]:
    return [x[key].get(test) for x in records]


def _share(found: tuple[int, int]) -> str:
    alarms, n = found
    return f"{100 * alarms / n:.1f}" if n else ""


def _predictive(records: list[Record], key: str) -> str:
    """Alarms of a posterior predictive test; a dash in records from before it."""
    if not any(key in x for x in records):
        return "-"
    return _share(_alarms([x.get(key) for x in records]))


def _of(records: list[Record], **what: Any) -> list[Record]:
    return [x for x in records if all(x.get(k) == v for k, v in what.items())]


def _null_table(records: list[Record]) -> list[str]:
    n = len(_of(records, design=NULL[0].name))
    lines = [
        f"**Markov logs: alarms at 5 %, in per cent of {n} logs of each design** (5 % "
        f"lie within {100 * RANGE[0]:.1f} and {100 * RANGE[1]:.1f} of 1,000 logs; "
        "*Holm*: any test, after Holm; *survival*, *prevalence*, *actions* (variance "
        "between actions, two-sided): posterior predictive, from the same data, and -: "
        "not in these records; *gap*: beyond two standard errors)",
        "",
        "| log | rows | "
        + " | ".join(TESTS)
        + " | Holm | "
        + " | ".join(_PREDICTIVE)
        + " | gap |",
        "|---" * (len(TESTS) + len(_PREDICTIVE) + 4) + "|",
    ]
    for design in NULL:
        of = _of(records, design=design.name)
        cells = [design.name, f"{np.mean([x['rows'] for x in of]):,.0f}"]
        cells += [_share(_alarms(_p(of, test))) for test in TESTS]
        cells += [_share(_alarms([x["holm"] for x in of]))]
        cells += [_predictive(of, key) for key in _PREDICTIVE]
        cells += [_share(_alarms([-abs(x["gap"]) for x in of], -2.0))]
        lines.append(f"| {' | '.join(cells)} |")
    null = [x for x in records if "design" in x]
    cells = [_share(_alarms(_p(null, test))) for test in TESTS]
    holm = _share(_alarms([x["holm"] for x in null]))
    lines.append(f"| *all* | | {' | '.join(cells)} | {holm} |{' |' * 4}")
    return lines


def _permuted_table(records: list[Record]) -> list[str]:
    names = ("previous value", "step", "episode order")
    lines = [
        "**The same statistics against permutations within pairs** (normal limit; "
        "alarms at 5 %, in per cent)",
        "",
        "| log | " + " | ".join(names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for design in NULL:
        of = _of(records, design=design.name)
        cells = [_share(_alarms(_p(of, test, "permuted"))) for test in names]
        lines.append(f"| {' | '.join([design.name, *cells])} |")
    return lines


def _power_table(records: list[Record]) -> list[str]:
    n = len(_of(records, shift=SHIFTS[0], patients=PATIENTS[0]))
    lines = [
        f"**Hidden frailty: alarms in per cent of {n} logs** (each test at 5 %; "
        "*Holm*: any test, after Holm; *effect*: mean over logs of the largest effect "
        "of a test)",
        "",
        "| shift of value | frailty | patients | " + " | ".join(TESTS) + " | Holm | "
        "effect |",
        "|---" * (len(TESTS) + 5) + "|",
    ]
    for shift in SHIFTS:
        for patients in PATIENTS:
            of = _of(records, shift=shift, patients=patients)
            cells = [f"{shift:g}", f"{frailty_of(shift):.2f}", f"{patients:,}"]
            cells += [_share(_alarms(_p(of, test))) for test in TESTS]
            cells += [_share(_alarms([x["holm"] for x in of]))]
            cells += [f"{np.mean([max(x['effect'].values()) for x in of]):.3f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _tell(records: list[Record]) -> str:
    lines = [*_null_table(records), "", *_permuted_table(records), ""]
    return "\n".join([*lines, *_power_table(records), "", _verdict(records)])


def _verdict(records: list[Record]) -> str:
    """Say whether alarms are as rare, and as frequent, as they should be."""
    null = [x for x in records if "design" in x]
    cells = {
        (design.name, test): _alarms(_p(_of(records, design=design.name), test))
        for design in NULL
        for test in TESTS
    }
    cells = {k: x for k, x in cells.items() if x[1]}
    share = [a / n for a, n in cells.values()]
    within = sum(RANGE[0] <= x <= RANGE[1] for x in share)
    high = [k for k, x in cells.items() if _too_many(*x, len(cells))]
    holm = _alarms([x["holm"] for x in null])
    power = _alarms(
        [x["holm"] for x in _of(records, shift=0.01, patients=PATIENTS[-1])]
    )
    word = "confirmed"
    if limits(*holm)[0] > _LEVEL or len(high) > len(cells) / 10:
        word = "not confirmed"
    elif high:
        said = ", ".join(f"{test} in {design}" for design, test in high)
        word += f" with a caveat, for alarms are too frequent in {said}"
    elif power[0] < _POWER * power[1]:
        word += f" with a caveat, for that is below {percent(_POWER)}"
    return (
        "**Verdict:** tests of the Markov assumption must keep their level on Markov "
        f"logs and find what matters. Alarms at 5 % are {100 * min(share):.1f} to "
        f"{100 * max(share):.1f} % by test and design ({within} of {len(cells)} within "
        f"{100 * RANGE[0]:.1f} and {100 * RANGE[1]:.1f}), any after Holm {_share(holm)}"
        f" % of all logs; a frailty that shifts the chosen policy's "
        f"value by 0.01 is found in {percent(power[0] / power[1])} of logs of "
        f"{PATIENTS[-1]:,} patients: {word}."
    )


def _too_many(alarms: int, n: int, of: int) -> bool:
    """Whether so many false alarms have a chance below 5 %, in any of several cells."""
    from scipy.stats import binom

    return bool(binom.sf(alarms - 1, n, _LEVEL) < 0.05 / of)


def _plot(records: list[Record]) -> dict[str, Any]:
    """Draw false alarms by design, and power by shift."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.3, 1])
    for number, test in enumerate(TESTS):
        found = [_alarms(_p(_of(records, design=x.name), test)) for x in NULL]
        share = [100 * a / n if n else np.nan for a, n in found]
        at = np.arange(len(NULL)) + 0.11 * (number - 2.5)
        marker = "os^Dvx"[number]
        how = {"linestyle": "none", "markersize": 5}
        left.plot(share, at, marker=marker, color=COLOURS[number], label=test, **how)
    left.axvspan(*(100 * x for x in RANGE), color="0.9", zorder=0)
    left.axvline(5, color="grey", linewidth=0.8, linestyle="--", zorder=0)
    left.set_yticks(range(len(NULL)), [x.name for x in NULL])
    left.set(ylim=(len(NULL) - 0.5, -0.5), xlim=(0, None), title="Markov logs")
    left.set_xlabel("alarms at 5 % (per cent of logs)")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=6)
    for number, patients in enumerate(PATIENTS):
        power = [
            _alarms([x["holm"] for x in _of(records, shift=s, patients=patients)])
            for s in SHIFTS
        ]
        share = [100 * a / n for a, n in power]
        how = {"marker": "os"[number], "color": COLOURS[number]}
        right.plot(SHIFTS, share, label=f"{patients:,} patients", **how)
    right.axhline(80, color="grey", linewidth=0.8, linestyle="--", zorder=0)
    right.set(title="Hidden frailty", xlabel="shift of the chosen policy's value")
    right.set(ylabel="any alarm after Holm (per cent of logs)", ylim=(0, 102))
    right.set_xticks(SHIFTS)
    right.legend(frameon=False)
    return {"markov_tests": figure}


STUDY = Study(
    "markov_tests",
    "What tests of the Markov assumption find where it holds, and where it does not",
    _jobs,
    _work,
    _tell,
    _plot,
)
