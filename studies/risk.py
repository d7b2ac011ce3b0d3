"""Every objective on every domain, beside the method that was made for it.

Models to learn from and models to judge on are kept apart. *RiverSwim*: 100 and 700
models of Su and Petrik (2023). *Machine*: draws of the posterior of machine replacement
(Delage and Mannor 2010) after 300 sampled transitions, 100 and 1,000. *Machine, costs*:
the same authors' first example, in which costs alone are unknown: a machine of 20
states wears by one each step, a repair makes it new and costs 130 with variance 1, in
the last state 20; to let it fail there makes it new, too, and costs 100 with variance
800. Costs are normal.

Specialists: for the mean CADP, whose policies depend on the step; for CVaR and the
mixture BROIL's linear programme where rewards alone differ; for the quantile percentile
iteration; for the others, and for CVaR where dynamics differ, the same iteration with
their own measure. Seeds of data and draws from 50,000 on.
"""

import time
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import bayesmdp as bm
from bayesmdp._typing import FloatArray
from bayesmdp.errors import BayesmdpWarning
from bayesmdp.optimisation import Objective, RiskObjective
from studies import model_policies as others
from studies.means import COLOURS
from studies.study import Effort, Job, Record, Study

TEST_MODELS = Path(__file__).parent / "data" / "riverswim" / "test.csv.gz"
DOMAINS = ("RiverSwim", "Machine", "Machine, costs")
NAMES = ("mean", "CVaR", "quantile", "mean - sd", "half CVaR", "entropic", "EVaR")
_SEED, _HORIZON = 50_000, 150
_N_TRAINING, _N_TEST = 100, 1000
_AHEAD = 1e-6  # share of a value that is no difference


def objectives(sd: float) -> dict[str, Objective]:
    """Return them by name; the aversion to risk is one over an sd of values."""
    return dict(
        zip(
            NAMES,
            (
                bm.PosteriorMean(),
                bm.CVaR(0.1),
                bm.Quantile(0.1),
                bm.MeanSd(1.0),
                bm.SoftRobust(0.5, 0.1),
                bm.Entropic(1.0 / sd),
                bm.EVaR(0.1),
            ),
            strict=True,
        )
    )


@lru_cache(maxsize=3)
def models(domain: str) -> tuple[bm.Ensemble, bm.Ensemble]:
    """Return models to learn from, and models to judge on."""
    if domain == "RiverSwim":
        return bm.worlds.riverswim(), bm.worlds.riverswim(TEST_MODELS)
    make = _machines if domain == "Machine" else _costs
    return make(_N_TRAINING, _SEED), make(_N_TEST, _SEED + 1)


def _machines(n: int, seed: int) -> bm.Ensemble:
    world = bm.worlds.machine_replacement()
    prior = bm.SymmetricPrior(1.0, support=world.support)
    belief = bm.fit(world.sample(300, seed=_SEED), world.task, prior=prior)
    draws = belief.draws(n, seed=seed)
    return bm.Ensemble([draws.dynamics(i) for i in range(n)], world.task)


def _costs(n: int, seed: int) -> bm.Ensemble:
    rng = np.random.default_rng(seed)
    n_states = 20
    theta = np.zeros((n_states, 2, n_states))
    theta[np.arange(n_states), 0, (np.arange(n_states) + 1) % n_states] = 1.0
    theta[:, 1, 0] = 1.0
    cost = np.zeros((n, n_states, 2))
    cost[:, :, 1] = rng.normal(130.0, 1.0, (n, n_states))
    cost[:, -1] = rng.normal([100.0, 130.0], np.sqrt([800.0, 20.0]), (n, 2))
    task = bm.Task(n_states, 2, np.zeros((n_states, 2)), discount=0.8)
    return bm.Ensemble([theta] * n, task, list(-cost))


def _jobs(effort: Effort) -> list[Job]:
    domains = DOMAINS[1:] if effort.quick else DOMAINS
    return [
        Job(f"{d}-{o}", {"domain": domain, "name": name})
        for d, domain in enumerate(domains)
        for o, name in enumerate(NAMES)
    ]


def _work(domain: str, name: str) -> list[Record]:
    """Find our policy and the specialist's; values of both on all models."""
    warnings.simplefilter("ignore", BayesmdpWarning)  # few models behind a tail
    training, test = models(domain)
    nominal = bm.policies.nominal(training)
    sd = float(bm.evaluate(nominal, training).start_values.std())
    every = objectives(sd)
    began = time.perf_counter()
    ours = bm.optimise(training, every[name], seed=0, threads=1, progress=False)
    seconds = time.perf_counter() - began
    rows = {"optimise": ours.policy, **_specialist(domain, name, every[name], training)}
    out = []
    for method, policy in rows.items():
        values = [_values(policy, x) for x in (training, test)]
        same: Record = {"domain": domain, "objective": name, "method": method}
        same["seconds"] = seconds if method == "optimise" else None
        for where, x in zip(("training", "test"), values, strict=True):
            share = np.full(x.size, 1.0 / x.size)
            found = {f"{where}: {o}": f.value(x, share) for o, f in every.items()}
            same |= found
        out.append(same)
    return out


def _values(policy: Any, of: bm.Ensemble) -> FloatArray:
    """Value of a policy in each model; of a plan ``[T, S]`` over its steps."""
    if policy.dtype.kind == "i" and policy.ndim == 2:
        return others.Models.of(of).returns(policy)
    return np.asarray(bm.evaluate(policy, of, threads=1).start_values)


def _specialist(
    domain: str, name: str, objective: Objective, training: bm.Ensemble
) -> dict[str, Any]:
    made = others.Models.of(training)
    if name == "mean":
        return {"CADP": others.cadp(made, _HORIZON)}
    assert isinstance(objective, RiskObjective)
    if domain == "Machine, costs" and name in ("CVaR", "half CVaR"):
        weight = 0.0 if name == "CVaR" else 0.5
        return {"BROIL": others.broil(made, weight, 0.1)}
    word = "percentile iteration" if name == "quantile" else "iteration"
    return {word: others.rectangular(made, objective)}


def _own(records: list[Record], domain: str, name: str) -> dict[str, Record]:
    rows = [x for x in records if (x["domain"], x["objective"]) == (domain, name)]
    return {x["method"]: x for x in rows}


def _tell(records: list[Record]) -> str:
    lines, ahead, behind, level = [], 0, [], 0
    for domain in dict.fromkeys(x["domain"] for x in records):
        lines += [
            f"**{domain}**: each objective on the models of training, and on others",
            "",
            "| objective | specialist | training: ours | specialist's | test: ours | "
            "specialist's | mean on test: ours | specialist's |",
            "|---" * 8 + "|",
        ]
        for name in NAMES:
            both = _own(records, domain, name)
            ours = both["optimise"]
            (word,) = (x for x in both if x != "optimise")
            other = both[word]
            cells = [name, word]
            for key in (f"training: {name}", f"test: {name}", "test: mean"):
                cells += [f"{x[key]:.4f}" for x in (ours, other)]
            lines.append(f"| {' | '.join(cells)} |")
            gap = ours[f"training: {name}"] - other[f"training: {name}"]
            close = abs(gap) <= _AHEAD * abs(ours[f"training: {name}"])
            level += close
            ahead += gap > 0 and not close
            if gap < 0 and not close:
                behind.append(f"{word} ({name}, {domain})")
        lines += ["", *_matrix(records, domain)]
    said = ", ".join(behind) if behind else "none"
    word = "confirmed with a caveat" if behind else "confirmed"
    if len(behind) > ahead:
        word = "not confirmed"
    verdict = (
        "**Verdict:** on its own criterion and the models that both learnt from, "
        f"`optimise` must be at least as good as each specialist: it is ahead in "
        f"{ahead} cases, equal in {level}, behind in {len(behind)} ({said}): {word}."
    )
    return "\n".join([*lines, verdict])


def _matrix(records: list[Record], domain: str) -> list[str]:
    """Return every criterion of every policy of ours, on test models."""
    lines = [
        f"*{domain}: what the policy for one objective gives by every other (test)*",
        "",
        f"| policy for | {' | '.join(NAMES)} |",
        "|---" * (1 + len(NAMES)) + "|",
    ]
    for name in NAMES:
        row = _own(records, domain, name)["optimise"]
        cells = [name] + [f"{row[f'test: {other}']:.2f}" for other in NAMES]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _plot(records: list[Record]) -> dict[str, Any]:
    """Mean against the worst tenth on test models, ours and specialists'."""
    from matplotlib.figure import Figure

    domains = list(dict.fromkeys(x["domain"] for x in records))
    figure = Figure(figsize=(3.6 * len(domains), 3.9), layout="constrained")
    axes = figure.subplots(1, len(domains), squeeze=False)[0]
    for axis, domain in zip(axes, domains, strict=True):
        for number, name in enumerate(NAMES):
            for method, row in _own(records, domain, name).items():
                ours = method == "optimise"
                axis.scatter(
                    row["test: CVaR"],
                    row["test: mean"],
                    color=COLOURS[number],
                    marker="o" if ours else "x",
                    s=46 if ours else 36,
                    alpha=0.8,
                    label=name if ours else None,
                )
        axis.set_title(domain, fontsize=10)
        axis.set_xlabel("worst tenth of test models")
    axes[0].set_ylabel("mean over test models")
    axes[0].scatter([], [], color="grey", marker="x", label="its specialist")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4)
    return {"risk": figure}


STUDY = Study(
    "risk",
    "Every objective beside the method made for it",
    _jobs,
    _work,
    _tell,
    _plot,
    timed=True,
)
