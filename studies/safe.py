"""Safe policy improvement: every method on the same logs, where the truth is known.

Logs of a baseline are given to `bm.improve`, with default settings, and to the methods
of `studies.safe_rivals`; each policy is valued exactly. Wet Chicken: one trajectory,
baselines with 0.1 and 0.5 of their choices random. Random MDPs: another world for each
log, episodes of at most 50 steps under a baseline halfway between the uniform random
policy and the best; values are told as shares of the way from the baseline to the best.
ICU-Sepsis: cohorts of 500 patients; `improve` is given no baseline, and set beside the
behaviour that it estimates, and beside the nominal policy.

Logs of the tables have seeds from 60,000 on: those from 50,000 on judged an earlier
rule of `improve`, which was changed after that. Constants of rivals, which have no
default, are those of a grid with the largest sum of mean and worst tenth on logs with
seeds below 100 (`python -m studies.safe_constants`).
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import bayesmdp as bm
from bayesmdp._typing import FloatArray
from bayesmdp.errors import BayesmdpWarning
from studies import safe_rivals as rivals
from studies.cohorts import sepsis
from studies.means import COLOURS, mean_and_error, percent
from studies.study import Effort, Job, Record, Study

OURS, NOMINAL = "improve", "nominal"
JUDGING = 60_000
_STEPS = (200, 500, 1000, 2000, 5000)
_EPISODES = (20, 100, 500)
_FROM, _SAFE_FROM = 1000, 500  # steps from which a claim is made
_SHARE = 0.05
_SURE = 2.0  # standard errors
_BELOW = 1e-4  # what counts as below the baseline
_LONGEST = 50  # steps of an episode of a random MDP
_PATIENTS = 500
_LOGS, _COHORTS = 500, 200  # of a whole run
SEPSIS = "ICU-Sepsis"
_NONE: FloatArray = np.empty(0)


@dataclass(frozen=True)
class Domain:
    """Where logs come from, and the constants that rivals have there."""

    name: str
    sizes: tuple[int, ...]
    unit: str
    baseline: float
    constants: dict[str, float]

    def methods(self) -> dict[str, Callable[[rivals.Log], FloatArray]]:
        """Return the rivals by name."""
        c = self.constants
        return {
            f"SPIBB, {c['spibb']:g}": lambda x: rivals.spibb(x, int(c["spibb"])),
            f"Soft-SPIBB, {c['soft']:g}": lambda x: rivals.soft_spibb(x, c["soft"]),
            f"RaMDP, {c['ramdp']:g}": lambda x: rivals.ramdp(x, c["ramdp"]),
            f"DPRL, {c['dprl']:g}": lambda x: rivals.dprl(x, int(c["dprl"])),
        }

    @property
    def chicken(self) -> bool:
        """Whether it is Wet Chicken."""
        return self.unit == "steps"


_KEYS = ("spibb", "soft", "ramdp", "dprl")
DOMAINS = tuple(
    Domain(name, sizes, unit, baseline, dict(zip(_KEYS, constants, strict=True)))
    for name, sizes, unit, baseline, constants in (
        ("Wet Chicken, baseline 0.1", _STEPS, "steps", 0.1, (3, 0.5, 2, 10)),
        ("Wet Chicken, baseline 0.5", _STEPS, "steps", 0.5, (5, 0.5, 4, 5)),
        ("Random MDPs", _EPISODES, "episodes", 0.5, (2, 1, 0.1, 5)),
    )
)
_DOMAINS = {domain.name: domain for domain in DOMAINS}


def _jobs(effort: Effort) -> list[Job]:
    """Jobs of the first logs come first, those of all domains together."""
    n_logs = effort.seeds or (5 if effort.quick else _LOGS)
    start = 0 if effort.quick else JUDGING
    jobs = []
    for log in range(n_logs):
        params = {"seed": start + log, "quick": effort.quick}
        for number, domain in enumerate(DOMAINS):
            jobs.append(Job(f"{number}-{log:04}", {"domain": domain.name, **params}))
        if log % 5 in (0, 2) and not effort.quick:  # 200 cohorts beside 500 logs
            jobs.append(Job(f"sepsis-{log:04}", {"domain": SEPSIS, **params}))
    return jobs


def _work(domain: str, seed: int, quick: bool) -> list[Record]:
    warnings.simplefilter("ignore", BayesmdpWarning)  # of chains, and of few draws
    if domain == SEPSIS:
        return _cohort(seed)
    made = _DOMAINS[domain]
    sizes = made.sizes[1:3] if quick else made.sizes
    return [record for size in sizes for record in _log(made, seed, size)]


def world_and_baseline(domain: Domain, seed: int) -> tuple[bm.MDP, FloatArray]:
    """Return where the log of a seed comes from."""
    if domain.chicken:
        return bm.worlds.wet_chicken(), bm.worlds.wet_chicken_baseline(domain.baseline)
    world = bm.worlds.random_mdp(seed)
    return world, bm.worlds.random_mdp_baseline(world, domain.baseline, seed)


def sample(domain: Domain, seed: int, size: int) -> tuple[bm.MDP, rivals.Log]:
    """Return a world, and a log of its baseline; smaller logs begin larger ones."""
    world, baseline = world_and_baseline(domain, seed)
    episodes, longest = (1, size) if domain.chicken else (size, _LONGEST)
    log = world.simulate(baseline, episodes, seed=seed, max_steps=longest)
    return world, rivals.Log(log, world.task, baseline)


def _log(domain: Domain, seed: int, size: int) -> list[Record]:
    world, log = sample(domain, seed, size)
    belief = bm.fit(log.transitions, world.task)
    better = bm.improve(belief, log.baseline, threads=1, progress=False)
    policies = {OURS: better.policy, NOMINAL: bm.policies.nominal(belief)}
    policies |= {name: make(log) for name, make in domain.methods().items()}
    best = bm.policies.nominal(bm.Ensemble([world.dynamics], world.task))
    base, top = (_value(world, x) for x in (log.baseline, best))
    same = {"domain": domain.name, "seed": seed, "size": size}
    same |= {"baseline": base, "best": top, "predicted": better.improvement}
    return [
        same | {"method": name, "value": _value(world, policy)}
        for name, policy in policies.items()
    ]


def _cohort(seed: int) -> list[Record]:
    world = sepsis()
    log = world.simulate(world.expert, _PATIENTS, seed=seed)
    belief = bm.fit(log, world.task)
    better = bm.improve(belief, threads=1, progress=False)
    base = _value(world, better.baseline)
    same = {"domain": SEPSIS, "seed": seed, "size": _PATIENTS, "baseline": base}
    same |= {"changes": len(better.changes), "predicted": better.improvement}
    policies = {OURS: better.policy, NOMINAL: bm.policies.nominal(belief)}
    return [
        same | {"method": name, "value": _value(world, policy)}
        for name, policy in policies.items()
    ]


def _value(world: bm.MDP, policy: FloatArray) -> float:
    return float(world.task.start @ world.value(policy))


def columns(records: list[Record], domain: str, size: int) -> dict[str, FloatArray]:
    """Return values of each method, by seed; of Random MDPs shares of the way."""
    rows = [x for x in records if x["domain"] == domain and x["size"] == size]
    found: dict[str, list[float]] = {}
    for x in sorted(rows, key=lambda x: int(x["seed"])):
        value = x["value"]
        if domain == "Random MDPs":
            value = (value - x["baseline"]) / (x["best"] - x["baseline"])
        found.setdefault(x["method"], []).append(value)
    return {method: np.array(values) for method, values in found.items()}


def worst_tenth(values: FloatArray) -> FloatArray:
    """Mean over the worst tenth of logs, along the last axis."""
    n = max(values.shape[-1] // 10, 1)
    return np.asarray(np.partition(values, n - 1, axis=-1)[..., :n].mean(axis=-1))


def paired_errors(ours: FloatArray, other: FloatArray) -> tuple[float, float]:
    """Errors of differences in mean and in worst tenth: a bootstrap over logs."""
    rng = np.random.default_rng(0)
    pick = rng.integers(ours.size, size=(1000, ours.size))
    mean = (ours - other)[pick].mean(axis=1)
    tail = worst_tenth(ours[pick]) - worst_tenth(other[pick])
    return float(mean.std()), float(tail.std())


def below(records: list[Record], domain: str, size: int, method: str) -> list[bool]:
    """Say of each log whether a method's policy is worse than the baseline."""
    return [
        x["value"] < x["baseline"] - _BELOW
        for x in records
        if (x["domain"], x["size"], x["method"]) == (domain, size, method)
    ]


def _standing(found: dict[str, FloatArray]) -> dict[str, tuple[float, float]]:
    """Differences to each rival in mean and worst tenth, in standard errors."""
    out = {}
    for name, other in found.items():
        if name in (OURS, NOMINAL):
            continue
        ours = found[OURS]
        errors = paired_errors(ours, other)
        gaps = ours.mean() - other.mean(), worst_tenth(ours) - worst_tenth(other)
        out[name] = tuple(
            float(gap / error) if error > 0 else float(np.sign(gap)) * np.inf
            for gap, error in zip(gaps, errors, strict=True)
        )
    return out  # type: ignore[return-value]


def _sizes(records: list[Record], domain: Domain) -> list[int]:
    return [n for n in domain.sizes if columns(records, domain.name, n)]


def _table(records: list[Record], domain: Domain) -> list[str]:
    sizes = _sizes(records, domain)
    first = columns(records, domain.name, sizes[0])
    digits = 2 if domain.chicken else 3
    unit = "value" if domain.chicken else "share of the way from baseline to best"
    lines = [
        f"**{domain.name}, {len(first[OURS])} logs of each size** ({unit}: mean and "
        "worst tenth, each ± standard error / logs below the baseline)",
        "",
        f"| {domain.unit} | {' | '.join(first)} |",
        "|---" * (1 + len(first)) + "|",
    ]
    for n in sizes:
        cells = [f"{n:,}"]
        for name, values in columns(records, domain.name, n).items():
            mean, error = mean_and_error(values)
            _, tail_error = paired_errors(values, np.zeros_like(values))
            share = percent(float(np.mean(below(records, domain.name, n, name))))
            both = (mean, error), (worst_tenth(values), tail_error)
            said = [f"{x:.{digits}f} ± {e:.{digits}f}" for x, e in both]
            cells.append(" / ".join([*said, share]))
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _differences(records: list[Record], domain: Domain) -> list[str]:
    """Return the table of paired differences in standard errors."""
    sizes = _sizes(records, domain)
    by_size = {n: _standing(columns(records, domain.name, n)) for n in sizes}
    lines = [
        f"*{domain.name}: `improve` minus rival, in standard errors of the paired "
        "difference (mean / worst tenth)*",
        "",
        f"| {domain.unit} | {' | '.join(by_size[sizes[0]])} |",
        "|---" * (1 + len(by_size[sizes[0]])) + "|",
    ]
    for n, found in by_size.items():
        cells = [f"{mean:+.1f} / {tail:+.1f}" for mean, tail in found.values()]
        lines.append(f"| {n:,} | {' | '.join(cells)} |")
    return [*lines, ""]


def _sepsis_said(records: list[Record]) -> list[str]:
    rows = [x for x in records if x["domain"] == SEPSIS]
    if not rows:
        return []
    gains = {
        method: np.array(
            [x["value"] - x["baseline"] for x in rows if x["method"] == method]
        )
        for method in (OURS, NOMINAL)
    }
    changed = np.mean([x["changes"] > 0 for x in rows if x["method"] == OURS])
    lines = [
        f"**ICU-Sepsis, {gains[OURS].size} cohorts of {_PATIENTS} patients** (true "
        "survival, discounted, minus that of the estimated baseline)",
        "",
        "| policy | mean gain | worst tenth | below the baseline | largest loss |",
        "|---|---|---|---|---|",
    ]
    for method, gain in gains.items():
        gain = np.round(gain, 9) + 0.0  # what rounding leaves is no loss
        mean, error = mean_and_error(gain)
        loss = max(-float(gain.min()), 0.0) + 0.0  # no minus before a zero
        lines.append(
            f"| {method} | {mean:.5f} ± {error:.5f} | {worst_tenth(gain):.5f} | "
            f"{percent(float((gain < -_BELOW).mean()))} | {loss:.5f} |"
        )
    lines += [
        "",
        f"`improve` changes something in {percent(float(changed))} of them.",
        "",
    ]
    return lines


def _tell(records: list[Record]) -> str:
    lines = _how_much(records)
    for domain in DOMAINS:
        if _sizes(records, domain):
            lines += _table(records, domain) + _differences(records, domain)
    return "\n".join([*lines, *_sepsis_said(records), _verdict(records)])


def _how_much(records: list[Record]) -> list[str]:
    """Say what part of the whole was run, where it is a part."""
    least, *_, most = sorted(_n_seeds(records, domain.name) for domain in DOMAINS)
    cohorts = _n_seeds(records, SEPSIS)
    if least >= _LOGS and cohorts >= _COHORTS:
        return []
    logs = f"{most}" if least == most else f"{least} to {most}"
    return [
        f"*A part of `python -m studies safe`: {logs} of {_LOGS} logs of each size, "
        f"and {cohorts} of {_COHORTS} cohorts.*",
        "",
    ]


def _n_seeds(records: list[Record], domain: str) -> int:
    return len({x["seed"] for x in records if x["domain"] == domain})


def _verdict(records: list[Record]) -> str:
    """Say whether `improve` keeps up with rivals, and how often it does harm."""
    shares: dict[bool, list[float]] = {False: [0.0], True: [0.0]}
    places: dict[int, list[str]] = {-1: [], 0: [], 1: []}
    for domain in (x for x in DOMAINS if x.chicken):
        for n in _sizes(records, domain):
            share = float(np.mean(below(records, domain.name, n, OURS)))
            shares[n >= _SAFE_FROM].append(share)
            found = columns(records, domain.name, n) if n >= _FROM else {OURS: _NONE}
            for name, pair in _standing(found).items():
                place = -1 if min(pair) < -_SURE else int(max(pair) > _SURE)
                places[place].append(f"{name} ({domain.baseline:g}, {n:,} steps)")
    most, word = max(shares[True]), "confirmed"
    cohorts = [x for x in records if x["domain"] == SEPSIS and x["method"] == OURS]
    harmed = sum(x["value"] < x["baseline"] - _BELOW for x in cohorts)
    if places[-1] or most > _SHARE or harmed > _SHARE * len(cohorts):
        word = "not confirmed"
    elif places[0]:
        word = "confirmed with a caveat"
    said = f"behind {', '.join(places[-1])}" if places[-1] else "never behind"
    return (
        "**Verdict:** with default settings `improve` must keep up with rivals on Wet "
        f"Chicken from {_FROM:,} steps on, in mean and worst tenth, and be ahead in "
        f"one: it is {said}, and ahead in {len(places[1])} of "
        f"{sum(map(len, places.values()))} comparisons, by {_SURE:g} standard errors. "
        f"From {_SAFE_FROM} steps on it is below the baseline in at most "
        f"{100 * most:.1f} % of logs, with fewer in {percent(max(shares[False]))}; on "
        f"ICU-Sepsis in {harmed} of {len(cohorts)} cohorts: {word}."
    )


def _plot(records: list[Record]) -> dict[str, Any]:
    """Mean and worst tenth by size, each less the baseline's value."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 6.0), layout="constrained")
    axes = figure.subplots(2, len(DOMAINS), squeeze=False)
    for column, domain in enumerate(DOMAINS):
        sizes = _sizes(records, domain)
        if not sizes:
            continue
        by_size = [columns(records, domain.name, n) for n in sizes]
        rows = [x for x in records if x["domain"] == domain.name]
        base = rows[0]["baseline"] if domain.chicken else 0.0
        for number, name in enumerate(by_size[0]):
            values = [found[name] for found in by_size]
            tails = [float(worst_tenth(x)) for x in values]
            means = [float(x.mean()) for x in values]
            for axis, shown in zip(axes[:, column], (means, tails), strict=True):
                axis.plot(
                    sizes,
                    shown,
                    color=COLOURS[number % len(COLOURS)],
                    marker="o" if name == OURS else ".",
                    linewidth=2.2 if name == OURS else 1.1,
                    linestyle="--" if name == NOMINAL else "-",
                    label=name.split(",")[0],
                )
        for axis in axes[:, column]:
            axis.axhline(base, color="grey", linewidth=0.8, linestyle=":")
            axis.set_xscale("log")
            axis.set_xticks(sizes, [f"{n:,}" for n in sizes], minor=False)
            axis.minorticks_off()
        axes[0, column].set_title(domain.name, fontsize=10)
        axes[1, column].set_xlabel(domain.unit)
    axes[0, 0].set_ylabel("mean over logs")
    axes[1, 0].set_ylabel("worst tenth of logs")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
    return {"safe": figure}


STUDY = Study(
    "safe",
    "Safe policy improvement: every method on the same logs",
    _jobs,
    _work,
    _tell,
    _plot,
)
