"""Negative control and cross-fitting on logs whose truth is known.

*Negative control*: if the exchanges are valid, p values are uniform, whatever the prior
(`_EVEN` compares them with that); with an effect they are small; with frailty that
nobody recorded, exchanges within states are not valid, and the table shows what they
do then. *Cross-fitting*: with no effect a claim of 95 % or more is false, and at most
5 % of logs should have one, under every prior.

Logs of the tables have seeds from 30,000 on; how long chains run and how strong frailty
is was chosen on small seeds, which ``--quick`` uses.
"""

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import bayesmdp as bm
from bayesmdp.errors import BayesmdpWarning
from studies.effect_logs import EFFECT, JUDGING, NO_EFFECT, Design, sample
from studies.means import COLOURS, mean_and_error, percent
from studies.no_effect import limits
from studies.study import Effort, Job, Record, Study

if TYPE_CHECKING:
    from bayesmdp.priors import Prior

HIERARCHICAL, SYMMETRIC, SPARSE = "hierarchical", "symmetric, 1", "sparse, bad end"
EVIDENCE = "evidence"
PRIORS = (HIERARCHICAL, SYMMETRIC, SPARSE, EVIDENCE)
_CONTROLLED = (HIERARCHICAL, SYMMETRIC)
_N_PERMUTATIONS = 19  # p values are multiples of 1/20, and 5 % is one of them
_LEVEL, _CLAIM = 0.05, 0.95
_FOLDED_ONE_IN = 20  # logs that are cross-fitted with chains, too
_EVEN = 0.001  # p value of p values below which they are not called uniform
_A_JOB = 5  # logs

_ARMS = Design("2 fixed arms", 4, 2, 0.02, episodes=40, keeps=True)
_VISITS = Design("4 states, 2 actions", 4, 2, 0.2, episodes=300)


@dataclass(frozen=True)
class Case:
    """Logs of a design, and how they are exchanged."""

    name: str
    design: Design
    permute: str
    valid: bool = True  # whether exchanges are as likely as the log
    effect: bool = False
    one_in: int = 4  # logs of so many; most tell whether p values are uniform

    @property
    def null(self) -> bool:
        """Whether p values must be uniform."""
        return self.valid and not self.effect


_FRAIL = replace(_ARMS, name="2 fixed arms, frailty", frailty=1.0)
_TREATED = replace(
    _VISITS, name="frailty decides on treatment", frailty=0.7, confounded=True
)
CASES = (
    Case(
        "no effect, 6 states, 3 actions, 50 episodes", NO_EFFECT[1], "state", one_in=1
    ),
    Case("no effect, 10 states, 2 fixed arms", NO_EFFECT[5], "episode", one_in=1),
    Case("no effect, 2 fixed arms, frailty", _FRAIL, "episode"),
    Case("no effect, 2 fixed arms, frailty", _FRAIL, "state", valid=False),
    Case(
        "no effect, frailty decides on treatment",
        _TREATED,
        "state",
        valid=False,
        one_in=8,
    ),
    Case("0.3 of whole rows, 300 episodes", EFFECT[3], "state", effect=True, one_in=10),
    Case(
        "0.3 of whole rows, 2 fixed arms",
        replace(NO_EFFECT[5], name="0.3 of whole rows, 2 fixed arms", own=0.3),
        "episode",
        effect=True,
        one_in=10,
    ),
)
FOLDED = tuple(design for design in NO_EFFECT if design.episodes)


def _prior(name: str, task: bm.Task) -> "Prior | bm.HierarchicalPrior":
    if name == HIERARCHICAL:
        return bm.HierarchicalPrior()
    if name == SYMMETRIC:
        return bm.SymmetricPrior(1.0)
    if name == EVIDENCE:
        return bm.EvidencePrior()
    bad = int(task.terminal[-1]) if task.terminal.size else 0
    return bm.SparsePrior(1.0, fallback=bad)


def _jobs(effort: Effort) -> list[Job]:
    n_logs = effort.seeds or (2 if effort.quick else 200)
    start = 0 if effort.quick else JUDGING
    jobs = []
    for part, cases in (("control", CASES), ("cross", FOLDED)):
        for number, case in enumerate(cases):
            n = -(-n_logs // (case.one_in if isinstance(case, Case) else 4))
            for first in range(0, n, _A_JOB):
                seeds = [start + first, start + min(first + _A_JOB, n)]
                params = {"part": part, "number": number, "seeds": seeds}
                if part == "control":
                    params["permutations"] = 9 if effort.quick else _N_PERMUTATIONS
                else:
                    params["chains"] = start + -(-n_logs // _FOLDED_ONE_IN)
                jobs.append(Job(f"{part}-{number:02}-{first:04}", params))
    return jobs


def _work(
    part: str, number: int, seeds: list[int], permutations: int = 0, chains: int = 0
) -> list[Record]:
    """Control, or cross-fit, some logs; with chains only seeds below ``chains``."""
    # that some priors weigh too much is known, and that some chains are slow
    warnings.simplefilter("ignore", BayesmdpWarning)
    records = []
    for seed in range(*seeds):
        folded = PRIORS if seed < chains else PRIORS[1:]
        for prior in _CONTROLLED if part == "control" else folded:
            record = {"part": part, "number": number, "prior": prior, "seed": seed}
            if part == "control":
                record |= _control(number, seed, prior, permutations)
            else:
                record |= _cross_fit(number, seed, prior)
            records.append(record)
    return records


def _control(number: int, seed: int, prior: str, permutations: int) -> Record:
    case = CASES[number]
    log = sample(case.design, seed)
    assert log.episodes is not None
    task = log.world.task
    found = bm.negative_control(
        log.episodes,
        task,
        _prior(prior, task),
        permute=case.permute,
        n_permutations=permutations,
        seed=seed,
        threads=1,
    )
    return {
        "p": found.p_value,
        "permutations": permutations,
        "gain": found.claimed_gain,
        "better": found.claimed_probability,
        "null_gain": float(found.null_gains.mean()),
        "null_claims": found.null_claims,
    }


def _cross_fit(number: int, seed: int, prior: str) -> Record:
    log = sample(FOLDED[number], seed)
    assert log.episodes is not None
    task = log.world.task
    found = bm.cross_fit(log.episodes, task, _prior(prior, task), seed=seed, threads=1)
    return {
        "gain": found.gain,
        "gain_sd": found.gain_sd,
        "better": found.probability_better,
        "unjudged": found.unjudged,
    }


def uniformity(records: list[Record]) -> float:
    """P value of p values that are multiples of ``1 / (B + 1)``, by chi square.

    Over ten classes, or fewer where there are not 50 values.
    """
    from scipy.stats import chisquare

    n, ways = len(records), records[0]["permutations"] + 1
    classes = max(min(n // 5, 10), 2)
    rank = np.rint([x["p"] * ways - 1 for x in records]).astype(np.int64)
    found = np.bincount(rank * classes // ways, minlength=classes)
    size = np.bincount(np.arange(ways) * classes // ways)
    return float(chisquare(found, size / ways * n).pvalue)


def _share(hits: int, n: int) -> str:
    low, high = limits(hits, n)
    return f"{percent(hits / n)} ({100 * low:.1f} to {100 * high:.1f})"


def _of(records: list[Record], part: str, number: int, prior: str) -> list[Record]:
    return [
        x
        for x in records
        if (x["part"], x["number"], x["prior"]) == (part, number, prior)
    ]


def _small(records: list[Record]) -> tuple[int, int]:
    return sum(x["p"] <= _LEVEL + 1e-9 for x in records), len(records)


def _claims(records: list[Record]) -> tuple[int, int]:
    return sum(x["better"] >= _CLAIM for x in records), len(records)


def _tell(records: list[Record]) -> str:
    lines = [
        "**Negative control**: share of logs with a p value of 5 % or less (in per "
        "cent, with lower and upper one-sided 95 % limits), and, where p values must "
        "be uniform, the p value of that by chi square; *false claims* are exchanges "
        "in which the prior says 95 % or more",
        "",
        "| log | exchanged | prior | logs | p <= 5 % | uniform | false claims |",
        "|---" * 7 + "|",
    ]
    for number, case in enumerate(CASES):
        for prior in _CONTROLLED:
            of = _of(records, "control", number, prior)
            even = f"{uniformity(of):.2g}" if case.null else ""
            false, _ = mean_and_error([x["null_claims"] for x in of])
            word = case.permute if case.valid else f"{case.permute} (not valid)"
            cells = [case.name, word, prior, str(len(of)), _share(*_small(of)), even]
            lines.append(f"| {' | '.join([*cells, percent(false)])} |")
    n, few = (len(_of(records, "cross", 0, x)) for x in (SYMMETRIC, HIERARCHICAL))
    lines += [
        "",
        f"**Cross-fitting, no effect: claims of 95 % or more in {n} logs of each "
        f"design** (hierarchical: the first {few}), two folds; below, over all designs",
        "",
        f"| log | {' | '.join(PRIORS)} |",
        "|---" * (len(PRIORS) + 1) + "|",
    ]
    for number, design in enumerate(FOLDED):
        found = [_claims(_of(records, "cross", number, x)) for x in PRIORS]
        cells = [design.name, *(_share(*x) for x in found)]
        lines.append(f"| {' | '.join(cells)} |")
    every = [_all_claims(records, prior) for prior in PRIORS]
    lines.append(f"| *all* | {' | '.join(_share(*x) for x in every)} |")
    return "\n".join([*lines, "", _verdict(records)])


def _all_claims(records: list[Record], prior: str) -> tuple[int, int]:
    return _claims([x for x in records if (x["part"], x["prior"]) == ("cross", prior)])


def _verdict(records: list[Record]) -> str:
    null = {
        (number, prior): _of(records, "control", number, prior)
        for number, case in enumerate(CASES)
        if case.null
        for prior in _CONTROLLED
    }
    uneven = sum(uniformity(x) < _EVEN for x in null.values())
    shares = {x: _all_claims(records, x) for x in PRIORS}
    beyond = sum(
        limits(*_claims(_of(records, "cross", number, prior)))[0] > 1 - _CLAIM
        for number in range(len(FOLDED))
        for prior in PRIORS
    )
    frail = [
        _small(_of(records, "control", number, HIERARCHICAL))
        for number, case in enumerate(CASES)
        if not case.valid
    ]
    fail = sum(limits(*x)[0] > _LEVEL for x in frail)
    most = max(hits / n for hits, n in shares.values())
    right = not uneven and not beyond and most <= 1 - _CLAIM
    word = "confirmed" if right and fail == len(frail) else "not confirmed"
    return (
        "**Verdict:** where exchanges are valid, p values of a negative control must "
        f"be uniform: they are not in {uneven} of {len(null)} cases. Under frailty "
        f"exchanges within states fail in {fail} of {len(frail)} designs, as they "
        "should. Cross-fitting must claim nothing where actions do nothing: at most "
        f"{percent(most)} of logs under any prior, beyond 5 % by its lower limit in "
        f"{beyond} of {len(FOLDED) * len(PRIORS)} cases: {word}."
    )


def _plot(records: list[Record]) -> dict[str, Any]:
    """P values of the hierarchical prior as cumulative shares, one line per case."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axis = figure.subplots()
    at = np.linspace(0, 1, _N_PERMUTATIONS + 2)
    axis.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--")
    for number, case in enumerate(CASES):
        p = np.array([x["p"] for x in _of(records, "control", number, HIERARCHICAL)])
        share = [(p <= x + 1e-9).mean() for x in at]
        style = "-" if case.null else ("-." if case.effect else ":")
        axis.step(
            at,
            share,
            where="post",
            linestyle=style,
            color=COLOURS[number],
            label=f"{case.name}: {case.permute}",
        )
    axis.set(xlabel="p value", ylabel="share of logs with at most this p value")
    axis.set(xlim=(0, 1), ylim=(0, 1.02))
    figure.legend(loc="outside right upper", fontsize=7)
    return {"controls": figure}


STUDY = Study(
    "controls",
    "Negative control and cross-fitting where the truth is known",
    _jobs,
    _work,
    _tell,
    _plot,
)
