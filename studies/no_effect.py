"""What is claimed where actions do nothing, and what where they do something.

The best policy of a belief is the best of many that hardly differ, so it looks better
than it is, and a belief in which actions differ before any data is then sure of an
effect. Each prior learns from the same logs (`studies.effect_logs`), its nominal policy
is set beside the behaviour on fresh joint draws, and a *claim* is a probability of 95 %
or more that its value is higher; equal values are not higher. With no effect claims are
false. With a known one, the predicted gain stands beside the true one: ``z = (predicted
- true) / sd`` has a root mean square of 1 where the sd is right.

Logs of the tables have seeds from 30,000 on, which nothing was tuned on; with
``--quick`` they have small seeds.
"""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

import bayesmdp as bm
from bayesmdp.errors import PriorWarning
from studies.effect_logs import EFFECT, JUDGING, NO_EFFECT, Design, Log, sample
from studies.means import COLOURS, mean_and_error, percent, rms
from studies.study import Effort, Job, Record, Study

if TYPE_CHECKING:
    from bayesmdp.priors import Prior

HIERARCHICAL, SYMMETRIC, SPARSE = "hierarchical", "symmetric, 1", "sparse, bad end"
PRIORS = (HIERARCHICAL, SYMMETRIC, SPARSE)
_CLAIM = 0.95
_Z = 0.8, 1.3  # root mean squares of z that are right
_A_JOB = 10  # logs
_N_OTHERS = 50  # logs of a design that other priors learn from, too
_NO_SPREAD = 1e-12  # an sd that is 0 but for rounding
_DESIGNS = {design.name: design for design in NO_EFFECT + EFFECT}


def _prior(name: str, task: bm.Task) -> "Prior | bm.HierarchicalPrior":
    if name == HIERARCHICAL:
        return bm.HierarchicalPrior()
    if name == SYMMETRIC:
        return bm.SymmetricPrior(1.0)
    bad = int(task.terminal[-1]) if task.terminal.size else None
    return bm.SparsePrior(1.0, fallback=bad)


def _jobs(effort: Effort) -> list[Job]:
    n_logs = effort.seeds or (3 if effort.quick else 200)
    n_draws = 100 if effort.quick else 200
    start = 0 if effort.quick else JUDGING
    return [
        Job(
            f"{number:02}-{first:04}",
            {
                "design": design.name,
                "seeds": [start + first, start + min(first + _A_JOB, n_logs)],
                "n_draws": n_draws,
            },
        )
        for number, design in enumerate(NO_EFFECT + EFFECT)
        # half as many tell power and errors well enough
        for first in range(
            0, n_logs if design in NO_EFFECT else -(-n_logs // 2), _A_JOB
        )
    ]


def _work(design: str, seeds: list[int], n_draws: int) -> list[Record]:
    """Learn from some logs with every prior; from the later ones with the default."""
    warnings.simplefilter("ignore", PriorWarning)  # that some weigh too much is known
    records = []
    for seed in range(*seeds):
        log = sample(_DESIGNS[design], seed)
        few = seed % JUDGING < _N_OTHERS
        for prior in PRIORS if few else [*PRIORS][:1]:
            record = {"design": design, "seed": seed, "prior": prior}
            record["transitions"] = log.counts.total
            records.append(record | _judge(log, prior, seed, n_draws))
    return records


def _judge(log: Log, prior: str, seed: int, n_draws: int) -> Record:
    """Choose a policy, and set it beside the behaviour."""
    task = log.world.task
    belief = bm.fit(log.counts, task, prior=_prior(prior, task))
    chosen = bm.policies.nominal(belief)
    table = bm.compare(
        {"behaviour": log.behaviour, "chosen": chosen},
        belief.draws(n_draws, seed=seed),
        threads=1,
    )
    row = next(x for x in table.rows if x.name == "chosen")
    before, after = (table.evaluations[x] for x in ("behaviour", "chosen"))
    true_before, true_after = (
        float(task.start @ log.world.value(x)) for x in (log.behaviour, chosen)
    )
    return {
        "better": row.probability_better,
        "gain": row.difference,
        "gain_sd": float((after.start_values - before.start_values).std(ddof=1)),
        "true_gain": true_after - true_before,
        "value": after.start_value,
        "value_sd": after.start_epistemic_sd,
        "true_value": true_after,
    }


def limits(claims: int, n: int) -> tuple[float, float]:
    """Lower and upper 95 % limits of a share, one-sided each (Clopper-Pearson)."""
    from scipy.stats import beta

    low = float(beta.ppf(0.05, claims, n - claims + 1)) if claims else 0.0
    high = float(beta.ppf(0.95, claims + 1, n - claims)) if claims < n else 1.0
    return low, high


def _of(records: list[Record], prior: str, *designs: Design) -> list[Record]:
    names = {design.name for design in designs}
    return [x for x in records if x["prior"] == prior and x["design"] in names]


def _claims(records: list[Record]) -> tuple[int, int]:
    return sum(x["better"] >= _CLAIM for x in records), len(records)


def _off(records: list[Record], what: str) -> str:
    """Root mean square of z; then how many logs have no spread, and so no z."""
    gap = np.array([x[what] - x[f"true_{what}"] for x in records])
    sd = np.array([x[f"{what}_sd"] for x in records])
    sure = sd < _NO_SPREAD
    found = f"{rms(gap[~sure] / sd[~sure]):.2f}" if not sure.all() else "none"
    return found + (f" ({sure.sum()} with sd 0)" if sure.any() else "")


def _pooled_off(records: list[Record], what: str) -> float:
    """Root mean square error over that of the sd, which logs without spread have."""
    gap = rms([x[what] - x[f"true_{what}"] for x in records])
    sd = rms([x[f"{what}_sd"] for x in records])
    return gap / sd if sd > _NO_SPREAD else np.inf


def _cell(records: list[Record]) -> str:
    """Share of claims with its limits."""
    claims, n = _claims(records)
    low, high = limits(claims, n)
    return f"{percent(claims / n)} ({100 * low:.1f} to {100 * high:.1f})"


def _mean(records: list[Record], key: str) -> str:
    mean, _ = mean_and_error([x[key] for x in records])
    return f"{mean + 0.0:.4f}"


def _tell(records: list[Record]) -> str:
    n_logs, n_effect = (
        len(_of(records, HIERARCHICAL, x[0])) for x in (NO_EFFECT, EFFECT)
    )
    names = " | ".join(PRIORS)
    lines = [
        f"**No effect: claims of 95 % or more in {n_logs} logs of each design** (other "
        f"priors: the first {_N_OTHERS} of them; share in per cent, with lower and "
        "upper one-sided 95 % limits), and mean claimed gain; the true one is 0",
        "",
        f"| log | transitions | {names} | gain, {HIERARCHICAL} | gain, {SYMMETRIC} |",
        "|---" * (len(PRIORS) + 4) + "|",
    ]
    for design in NO_EFFECT:
        of = {prior: _of(records, prior, design) for prior in PRIORS}
        size = np.mean([x["transitions"] for x in of[HIERARCHICAL]])
        cells = [design.name, f"{size:,.0f}", *map(_cell, of.values())]
        cells += [_mean(of[prior], "gain") for prior in (HIERARCHICAL, SYMMETRIC)]
        lines.append(f"| {' | '.join(cells)} |")
    pooled = [_cell(_of(records, prior, *NO_EFFECT)) for prior in PRIORS]
    lines += [
        f"| *all* | | {' | '.join(pooled)} | | |",
        "",
        f"**Known effects, {n_effect} logs of each design** (other priors: the first "
        f"{_N_OTHERS}; gain and value of the chosen policy; *z* is predicted minus "
        "true over sd, its root mean square; *error / sd* the root mean square error "
        "over the root mean square sd)",
        "",
        "| effect | prior | claims | predicted gain | true gain | z of gain | error / "
        "sd | z of value |",
        "|---" * 8 + "|",
    ]
    for design in EFFECT:
        for prior in PRIORS:
            of_one = _of(records, prior, design)
            cells = [
                design.name,
                prior,
                _cell(of_one),
                _mean(of_one, "gain"),
                _mean(of_one, "true_gain"),
                _off(of_one, "gain"),
                f"{_pooled_off(of_one, 'gain'):.2f}",
                _off(of_one, "value"),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", _verdict(records)])


def _verdict(records: list[Record]) -> str:
    """Say whether false claims stay at 5 % and errors have the size of the sd."""
    each = [_claims(_of(records, HIERARCHICAL, design)) for design in NO_EFFECT]
    beyond = sum(limits(*found)[0] > 1 - _CLAIM for found in each)
    shares = {
        prior: _claims(_of(records, prior, *NO_EFFECT))[0]
        / len(_of(records, prior, *NO_EFFECT))
        for prior in PRIORS
    }
    off = [_pooled_off(_of(records, HIERARCHICAL, x), "gain") for x in EFFECT]
    kept = sum(_Z[0] <= x <= _Z[1] for x in off)
    word = "confirmed"
    if beyond or shares[HIERARCHICAL] > 1 - _CLAIM:
        word = "not confirmed"
    elif kept < len(off):
        word += " with a caveat, for some errors are not of the size of their sd"
    return (
        "**Verdict:** a best policy must not look better where actions do nothing. "
        f"With no effect the {HIERARCHICAL} prior claims one in "
        f"{percent(shares[HIERARCHICAL])} of all logs ({SYMMETRIC}: "
        f"{percent(shares[SYMMETRIC])}, {SPARSE}: {percent(shares[SPARSE])}), beyond "
        f"5 % by its lower limit in {beyond} of {len(each)} designs; with an effect, "
        f"error over sd is within {_Z[0]} and {_Z[1]} in {kept} of {len(off)} "
        f"designs ({min(off):.2f} to {max(off):.2f}): {word}."
    )


def _plot(records: list[Record]) -> dict[str, Any]:
    """Share of claims by design, with limits: false ones above, true ones below."""
    from matplotlib.figure import Figure

    sizes = [len(NO_EFFECT), len(EFFECT)]
    figure = Figure(figsize=(8.0, 7.0), layout="constrained")
    axes = figure.subplots(2, 1, sharex=True, height_ratios=sizes)
    titles = "No effect: every claim is false", "An effect: claims are right"
    for axis, designs, title in zip(axes, (NO_EFFECT, EFFECT), titles, strict=True):
        for number, prior in enumerate(PRIORS):
            found = [_claims(_of(records, prior, design)) for design in designs]
            share = np.array([claims / n for claims, n in found])
            ends = np.array([limits(*x) for x in found]).T
            axis.errorbar(
                100 * share,
                np.arange(len(designs)) + 0.2 * (number - 1),
                xerr=100 * np.maximum([share - ends[0], ends[1] - share], 0.0),
                marker="os^"[number],
                markersize=5,
                color=COLOURS[number],
                linestyle="none",
                linewidth=1.2,
                label=prior,
            )
        axis.axvline(5, color="grey", linewidth=0.8, linestyle="--", zorder=0)
        axis.set_yticks(range(len(designs)), [design.name for design in designs])
        axis.set(xlim=(-2, 102), ylim=(len(designs) - 0.5, -0.5), title=title)
    axes[1].set_xlabel("logs with a claim of 95 % or more (per cent)")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3)
    return {"no_effect": figure}


STUDY = Study(
    "no_effect",
    "What is claimed where actions do nothing, and where they do something",
    _jobs,
    _work,
    _tell,
    _plot,
)
