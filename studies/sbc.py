"""Simulation-based calibration of the hierarchical belief.

Truths are drawn from the model that the chains assume (`bayesmdp.posterior`), data from
truths with visits that are fixed beforehand, since the range of strengths depends on
the most visited pair: ::

    logit w  ~ logistic, cut to [-9, 9]     location ~ U[0, log(100 most)]
    log scale ~ U[log 0.3, log 6]
    c[s] = inf with probability w, else on 30 points of log strength in [0, log(100
    most)], normal with that location and scale, nowhere below 3 % of the peak
    log k[s] normal: location ~ U[log 0.1, log 10,000], log scale ~ U[log 0.3, log 3]
    mu[s] ~ Dirichlet(k[s] g),  theta[s,a] ~ Dirichlet(c[s] mu[s]),  or mu[s]

With the base ``g`` uniform, as the belief has it, the truth is one more draw of the
posterior: its ranks among draws are uniform, also those of a policy that was chosen by
looking at the posterior (Talts et al. 2018). Ranked are the value of the uniform random
policy and of the nominal one, and the gain of the second over the first, in which "no
effect" is a tie. With a base that is drawn too and a belief that makes its own from the
data (``"marginal"``, ``"local"``) there is no theorem, and coverage is what is
reported.

Datasets of the tables have seeds from 30,000 on; with ``--quick`` small ones.
"""

from typing import Any

import numpy as np

import bayesmdp as bm
from bayesmdp._typing import FloatArray, IntArray
from studies.effect_logs import JUDGING
from studies.means import COLOURS
from studies.study import Effort, Job, Record, Study

QUANTITIES = ("uniform random", "nominal", "gain")
CASES = {  # name: base of the belief
    "base known": "uniform",
    "marginal base": "marginal",
    "local base": "local",
}
_N_STATES, _N_ACTIONS, _N_DRAWS = 4, 3, 199
_VISITS = (1, 2, 3, 5, 7, 10, 13, 16, 20, 4, 8, 12)  # of pairs, in order
_LEVEL, _WITHIN = 0.9, (0.88, 0.92)
_N_BINS, _A_JOB, _TIE = 20, 50, 1e-9
_GRID, _BEYOND, _SCALE, _LOGIT = 30, 100.0, (0.3, 6.0), 9.0
_K, _K_SCALE, _FLOOR = (0.1, 1e4), (0.3, 3.0), 0.03


def task() -> bm.Task:
    """Return a problem that never ends, with a reward in each state."""
    return bm.Task(_N_STATES, _N_ACTIONS, [0.0, 1.0, 2.0, 4.0], discount=0.9)


def log_strengths(most: int) -> FloatArray:
    """Return logarithms of finite strengths, for ``most`` visits to a pair."""
    return np.linspace(0.0, np.log(_BEYOND * most), _GRID)


def truth(case: str, most: int, rng: np.random.Generator) -> FloatArray:
    """Draw rows ``[S, A, S]`` from the model."""
    grid = log_strengths(most)
    while abs(logit := rng.logistic()) > _LOGIT:
        pass
    none = 1 / (1 + np.exp(-logit))
    location = rng.uniform(0.0, grid[-1])
    scale = np.exp(rng.uniform(*np.log(_SCALE)))
    middle = rng.uniform(*np.log(_K))
    spread = np.exp(rng.uniform(*np.log(_K_SCALE)))
    base = np.full(_N_STATES, 1 / _N_STATES)
    if CASES[case] != "uniform":
        base = rng.dirichlet(np.ones(_N_STATES))
    slab = np.exp(-0.5 * ((grid - location) / scale) ** 2) + _FLOOR
    slab /= slab.sum()
    theta = np.empty((_N_STATES, _N_ACTIONS, _N_STATES))
    for state in range(_N_STATES):
        mu = _dirichlet(np.exp(rng.normal(middle, spread)) * base, rng)
        theta[state] = mu
        if rng.random() >= none:
            c = np.exp(rng.choice(grid, p=slab))
            theta[state] = [_dirichlet(c * mu, rng) for _ in range(_N_ACTIONS)]
    return theta


def _dirichlet(alpha: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw a row; gammas of small shapes do not underflow in logarithms."""
    alpha = np.maximum(alpha, 1e-300)
    log = np.log(rng.gamma(alpha + 1.0)) + np.log(rng.random(alpha.size)) / alpha
    row = np.exp(log - log.max())
    return np.asarray(row / row.sum())


def _jobs(effort: Effort) -> list[Job]:
    n = effort.seeds or (20 if effort.quick else 2000)
    start = 0 if effort.quick else JUDGING
    return [
        Job(
            f"{number}-{first:04}",
            {
                "case": case,
                "seeds": [start + first, start + min(first + _A_JOB, n)],
            },
        )
        for number, case in enumerate(CASES)
        # where there is no theorem, coverage is only told
        for first in range(0, n if number == 0 else -(-n // 10), _A_JOB)
    ]


def _work(case: str, seeds: list[int]) -> list[Record]:
    """Rank the truths of some datasets."""
    number = list(CASES).index(case)
    records = []
    for seed in range(*seeds):
        rng = np.random.default_rng([seed, number])
        record = {"case": case, "seed": seed}
        records += [record | found for found in _ranks(case, seed, rng)]
    return records


def _ranks(case: str, seed: int, rng: np.random.Generator) -> list[Record]:
    visits = np.array(_VISITS).reshape(_N_STATES, _N_ACTIONS)
    theta = truth(case, int(visits.max()), rng)
    counts = bm.Counts.from_dense(rng.multinomial(visits, theta))
    belief = bm.fit(counts, task(), prior=bm.HierarchicalPrior(CASES[case]))
    policies = {
        "uniform random": np.full((_N_STATES, _N_ACTIONS), 1 / _N_ACTIONS),
        "nominal": bm.policies.nominal(belief),
    }
    world = bm.MDP(bm.Dynamics.from_dense(theta), task())
    table = bm.compare(policies, belief.draws(_N_DRAWS, seed=seed), threads=1)
    of = [
        np.append(
            table.evaluations[name].start_values, world.task.start @ world.value(x)
        )
        for name, x in policies.items()
    ]
    of.append(of[1] - of[0])
    return [
        {"quantity": name} | _rank(values[:-1], float(values[-1]), rng)
        for name, values in zip(QUANTITIES, of, strict=True)
    ]


def _rank(values: FloatArray, true: float, rng: np.random.Generator) -> Record:
    """Rank a truth among draws; among equals it takes a random place."""
    tied = np.abs(values - true) <= _TIE
    below = int(((values < true) & ~tied).sum())
    ties = int(tied.sum())
    mean, sd = float(values.mean()), float(values.std(ddof=1))
    rank = below + int(rng.integers(0, ties + 1))
    return {"rank": rank, "ties": ties, "mean": mean, "sd": sd, "true": true}


def covered(rank: IntArray) -> FloatArray:
    """Whether central intervals, whose ends are draws, hold the truth."""
    tail = round((_N_DRAWS + 1) * (1 - _LEVEL) / 2)
    return np.asarray((rank >= tail) & (rank <= _N_DRAWS - tail), dtype=np.float64)


def uniformity(rank: IntArray) -> float:
    """P value of the chi-square test that ranks are uniform."""
    from scipy.stats import chisquare

    bins = np.bincount(rank * _N_BINS // (_N_DRAWS + 1), minlength=_N_BINS)
    return float(chisquare(bins).pvalue)


def _of(records: list[Record], case: str, quantity: str, key: str) -> Any:
    found = [x for x in records if x["case"] == case and x["quantity"] == quantity]
    return np.array([x[key] for x in found])


def _tell(records: list[Record]) -> str:
    n = _of(records, "base known", "nominal", "rank").size
    lines = [
        f"**90 % intervals and ranks of {n} truths**, a tenth of them with bases made "
        f"from the data, {_N_STATES} states, {_N_ACTIONS} "
        f"actions, {min(_VISITS)} to {max(_VISITS)} visits of a pair, {_N_DRAWS} draws "
        f"(*p* of a chi-square test with {_N_BINS} bins; bias is predicted minus true; "
        "*z* the root mean square of its ratio to the sd)",
        "",
        "| truth | quantity | covered | p of uniform ranks | bias | z |",
        "|---" * 6 + "|",
    ]
    for case in CASES:
        for quantity in QUANTITIES:
            rank, mean, sd, true = (
                _of(records, case, quantity, x) for x in ("rank", "mean", "sd", "true")
            )
            n, share = rank.size, covered(rank).mean()
            error = np.sqrt(share * (1 - share) / n)
            gap = mean - true
            spread = sd > _TIE
            z = np.sqrt(np.mean((gap[spread] / sd[spread]) ** 2))
            lines.append(
                f"| {case} | {quantity} | {100 * share:.1f} ± {100 * error:.1f} % | "
                f"{uniformity(rank):.3f} | {gap.mean():+.4f} ± "
                f"{gap.std() / np.sqrt(n):.4f} | {z:.2f} |"
            )
    return "\n".join([*lines, "", _verdict(records)])


def _verdict(records: list[Record]) -> str:
    """Coverage must be right where there is a theorem; elsewhere it is told."""
    shares = {
        (case, quantity): covered(_of(records, case, quantity, "rank")).mean()
        for case in CASES
        for quantity in QUANTITIES[:2]
    }
    known = [x for (case, _), x in shares.items() if case == "base known"]
    ranks = [_of(records, "base known", quantity, "rank") for quantity in QUANTITIES]
    least = min(uniformity(x) for x in ranks)
    right = all(_WITHIN[0] <= x <= _WITHIN[1] for x in known)
    word = "confirmed" if right and least > 0.01 / len(ranks) else "not confirmed"
    other = [x for (case, _), x in shares.items() if case != "base known"]
    if word == "confirmed" and min(other) < _WITHIN[0]:
        word += " with a caveat, for the uncertainty of that base is left out"
    cover, more = (
        " and ".join(f"{100 * x:.1f} %" for x in which) for which in (known, other)
    )
    return (
        "**Verdict:** intervals of the hierarchical belief must have their "
        "nominal coverage. Where truths come from its own model, 90 % intervals cover "
        f"{cover} (fixed and chosen policy), and the smallest p of uniform ranks is "
        f"{least:.3f}; with the marginal and the local base, made from the data, they "
        f"cover {more}: {word}."
    )


def _plot(records: list[Record]) -> dict[str, Any]:
    """Shares of truths in each bin of ranks; a level line is right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 5.0), layout="constrained")
    axes = figure.subplots(len(CASES), len(QUANTITIES), sharex=True, sharey=True)
    for row, case in zip(axes, CASES, strict=True):
        for axis, quantity in zip(row, QUANTITIES, strict=True):
            rank = _of(records, case, quantity, "rank")
            bins = np.bincount(rank * _N_BINS // (_N_DRAWS + 1), minlength=_N_BINS)
            axis.bar(np.arange(_N_BINS) + 0.5, bins / rank.size, color=COLOURS[0])
            axis.axhline(1 / _N_BINS, color="black", linewidth=0.8)
            half = 2 * np.sqrt((1 / _N_BINS) * (1 - 1 / _N_BINS) / rank.size)
            band = 1 / _N_BINS - half, 1 / _N_BINS + half
            axis.axhspan(*band, color="grey", alpha=0.3)
            axis.set_title(f"{case}: {quantity}", fontsize=9)
            axis.set_xticks([0, _N_BINS / 2, _N_BINS], ["0", "100", "200"])
    figure.supxlabel("rank of the truth among 199 draws")
    figure.supylabel("share of datasets")
    return {"sbc": figure}


STUDY = Study(
    "sbc",
    "Ranks of truths under the hierarchical belief",
    _jobs,
    _work,
    _tell,
    _plot,
)
