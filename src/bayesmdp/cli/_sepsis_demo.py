"""The story of the package, on patients whose true dynamics are known.

Patients of ICU-Sepsis are treated as clinicians did. Two models learn from what was
logged: frequencies, which believe every lucky streak, and a posterior under which death
is always possible. Each promises something for its own best policy; because the truth
is known here, what the policy delivers can be set beside the promise.

One cohort tells a story, not a law: `python -m studies beliefs` repeats it on many.
"""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

import bayesmdp as bm
from bayesmdp import _checks
from bayesmdp._sheet import Sheet, Table
from bayesmdp._typing import FloatArray, Seed
from bayesmdp.errors import ArgumentError, StorageError
from bayesmdp.evaluation import rounded

DEATH = "death"
DISCOUNT = 0.999
MIN_COUNT = 5  # visits an action needs to be considered
PATIENTS = 18_000
_LEVEL, _WIDTH = 0.9, 92
_FREQUENCIES, _POSTERIOR = "frequencies", "posterior"
# Nobody waits minutes for a demonstration. With all starts the search of the default
# cohort takes more than twice as long, and ends on the same policy.
_STARTS = ("nominal",)
_SENSITIVITY_DRAWS = 200  # priors differ by far more than these leave open


@dataclass(frozen=True)
class Promise:
    """One policy: what a model says it is worth, and what it is worth in truth."""

    policy: str
    model: str  # who promises: frequencies, or the posterior
    promise: float
    promise_error: float  # Monte Carlo; 0 where one model was solved exactly
    interval: tuple[float, float] | None  # 90 % over the posterior, where there is one
    delivery: float  # in the true model, exact


@dataclass(frozen=True, eq=False, repr=False)
class Story:
    """What was promised and what was delivered; made by `tell_story`."""

    n_patients: int
    n_transitions: int
    n_pairs: int  # of state and action, seen often enough to be considered
    promises: tuple[Promise, ...]
    best_delivery: float  # of the policy that knows the truth
    comparison: bm.Comparison
    optimisation: bm.Optimisation
    findings: bm.data.Findings
    cautions: tuple[str, ...]  # what the page says before it is believed
    seed: int
    html: Path  # the page
    json: Path  # its data

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, for JSON."""
        names = ("n_patients", "n_transitions", "n_pairs", "best_delivery", "seed")
        search = self.optimisation.to_dict()
        kept = ("chosen_start", "converged", "status", "steps", "upper_bound")
        return {
            **{name: getattr(self, name) for name in names},
            "promises": [asdict(x) for x in self.promises],
            "comparison": self.comparison.to_dict(),
            "search": {"starts": list(_STARTS)} | {name: search[name] for name in kept},
            "findings": self.findings.to_dict()["findings"],
            "cautions": list(self.cautions),
            "html": str(self.html),
            "json": str(self.json),
        }

    def summary(self) -> str:
        """Tell it: a table, what it says, and where to look next."""
        return "\n\n".join([self._sheet().text(), self._said(), self._next()])

    def _sheet(self) -> Sheet:
        header = ["policy", "promised by", "promise", "90 % interval", "delivers"]
        rows = [
            [
                x.policy,
                x.model,
                _number(x.promise, x.promise_error),
                "" if x.interval is None else "{:.3f} to {:.3f}".format(*x.interval),
                f"{x.delivery:.4f}",
            ]
            for x in self.promises
        ]
        rows.append(["best of all", "", "", "", f"{self.best_delivery:.4f}"])
        title = (
            f"{self.n_patients:,} simulated patients, {self.n_transitions:,} "
            "transitions"
        )
        what = "What was promised, and what is delivered in the true model"
        notes = [
            "",
            "Values are discounted survival, ± Monte Carlo error; exact where there is "
            "none. The interval",
            "is what the data leave open. The best of all knows the truth.",
        ]
        return Sheet(title, [what, "", Table(header, rows), *notes])

    def _said(self) -> str:
        of = {x.policy: x for x in self.promises}
        logged, optimised = of["behaviour"], of["optimised"]
        lines = [
            f"- Frequencies promise {of['mle'].promise:.3f}; their policy delivers "
            f"{_against(of['mle'], logged)}.",
            f"- The posterior promises {optimised.promise:.3f}; its policy delivers "
            f"{_against(optimised, logged)}.",
            "- Under its prior death is always possible. Of the clinicians it believes "
            f"{logged.promise:.3f},\n  and they deliver {logged.delivery:.3f}; of its "
            f"own policy, {_judged(optimised)}.",
            "- The search began from the nominal policy alone, to save time:\n  "
            f"{self.optimisation.status}.",
            *(
                fill(f"- Before you believe it: {x}", _WIDTH, subsequent_indent="  ")
                for x in self.cautions
            ),
        ]
        return "\n".join(lines)

    def _next(self) -> str:
        return (
            "Where to look next\n"
            f"  {self.html}: open it in a browser; what is behind the promises\n"
            "  python -m studies beliefs --quick, in a checkout: more priors, more "
            "cohorts\n"
            "  bayesmdp fit --help: your own data"
        )

    def __repr__(self) -> str:
        return f"Story({self.n_patients} patients, seed {self.seed})"


def tell_story(
    out: Path,
    *,
    n_patients: int = PATIENTS,
    seed: Seed = 0,
    n_draws: int = 1000,
    n_steps: int = 40,
    threads: int | None = None,
    progress: bool | None = None,
    say: Callable[[str], None] | None = None,
) -> Story:
    """Simulate a cohort, analyse it as if the truth were not known, then look it up.

    Parameters
    ----------
    out
        Directory for ``report.html`` and ``report.json``; made where it is missing.
    n_patients
        How many; at least 50, fewer say nothing.
    seed
        Of patients and draws.
    n_draws
        Of the posterior, for the comparison.
    n_steps
        Most steps of the search.
    threads, progress
        As in `bayesmdp.evaluate`.
    say
        Is told what is being done.

    Returns
    -------
    Story
    """
    n_patients = _checks.integer("n_patients", n_patients, 50, ArgumentError)
    number = _checks.seed_integer(seed)
    _make(out)
    say = say or (lambda _: None)
    world = bm.worlds.icu_sepsis(discount=DISCOUNT)
    task = world.task
    say(f"simulating {n_patients:,} patients, treated as clinicians did")
    cohort = world.simulate(world.expert, n_patients, seed=number)
    say("validating the log, and learning from it")
    findings = bm.validate(cohort, task, min_count=MIN_COUNT)
    prior = bm.SparsePrior(1, fallback=DEATH)
    posterior = bm.fit(cohort, task, prior=prior, min_count=MIN_COUNT)
    say("planning with frequencies, and with the posterior")
    policies = {
        "behaviour": bm.policies.behaviour(posterior),
        "mle": bm.policies.mle(posterior),
        "nominal": bm.policies.nominal(posterior),
    }
    say("searching for a better policy, on draws of the posterior")
    result = bm.optimise(
        posterior,
        method=bm.MirrorAscent(n_steps=n_steps),
        starts=_STARTS,
        seed=number,
        threads=threads,
        progress=progress,
    )
    if result.interrupted:  # who stops a demonstration does not want the rest of it
        raise KeyboardInterrupt
    policies["optimised"] = result.policy
    say(f"comparing {len(policies)} policies on {n_draws:,} draws")
    table = bm.compare(
        policies,
        posterior.draws(n_draws, number),
        reference="behaviour",
        threads=threads,
        progress=progress,
    )
    say("asking what other priors would say")
    tried = _other_priors(posterior, result.policy, n_draws, number, threads)
    say("looking up the truth, and writing the report")
    page = bm.report(
        posterior,
        table,
        optimisation=result,
        findings=findings,
        evidence=bm.priors.evidence_curve(posterior.counts, task, min_count=MIN_COUNT),
        sensitivity=tried,
    )
    return Story(
        n_patients=n_patients,
        n_transitions=posterior.counts.total,
        n_pairs=int(posterior.available.sum()),
        promises=_promises(world, posterior, table),
        best_delivery=_from_start(world, _knowing(world)),
        comparison=table,
        optimisation=result,
        findings=findings,
        cautions=_cautions(page),
        seed=number,
        html=page.save(out / "report.html"),
        json=page.save(out / "report.json"),
    )


def _make(out: Path) -> None:
    """Make the directory first: nobody waits for what cannot be kept."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        said = problem.strerror or str(problem)
        raise StorageError(f"`{out}` cannot be made: {said}.") from problem
    if not os.access(out, os.W_OK):
        raise StorageError(f"`{out}` cannot be written to.")


def _other_priors(
    posterior: bm.Posterior,
    policy: FloatArray,
    n_draws: int,
    seed: int,
    threads: int | None,
) -> bm.criticism.Sensitivity:
    return bm.sensitivity(
        policy,
        posterior.counts,
        posterior.task,
        bm.priors.usual_priors(posterior.prior),
        min_count=MIN_COUNT,
        n_draws=min(n_draws, _SENSITIVITY_DRAWS),
        seed=seed,
        threads=threads,
    )


def _promises(
    world: bm.World, posterior: bm.Posterior, table: bm.Comparison
) -> tuple[Promise, ...]:
    """Each policy's promise by the model that made it; the posterior's for the log."""
    # As good as no prior; only who was never seen at all is believed to die.
    nothing = bm.SparsePrior(1e-9, fallback=DEATH)
    seen = bm.fit(posterior.counts, world.task, prior=nothing, min_count=MIN_COUNT)
    frequencies = bm.World(seen.mean(), world.task)
    found = []
    for name, judged in table.evaluations.items():
        delivery = _from_start(world, judged.policy)
        if name == "mle":
            promise = _from_start(frequencies, judged.policy)
            found.append(Promise(name, _FREQUENCIES, promise, 0.0, None, delivery))
            continue
        ends = (1 - _LEVEL) / 2, (1 + _LEVEL) / 2
        low, high = np.quantile(judged.start_values, ends)
        value, error = judged.start_value, judged.start_value_error
        interval = float(low), float(high)
        found.append(Promise(name, _POSTERIOR, value, error, interval, delivery))
    return tuple(found)


def _cautions(page: bm.Report) -> tuple[str, ...]:
    """Return what the page warns of."""
    said = page.data["summary"]["cautions"]
    return tuple(
        f"{x['topic']}. {x['text']}" for x in said if x["level"] not in ("ok", "note")
    )


def _knowing(world: bm.World) -> FloatArray:
    """Return the policy that is best in the true model."""
    return bm.policies.nominal(bm.Ensemble([world.dynamics], world.task))


def _from_start(world: bm.World, policy: FloatArray) -> float:
    return float(world.task.start @ world.value(policy))


def _number(value: float, error: float) -> str:
    return rounded(value, error) if error > 0 else f"{value:.4f}"


def _against(x: Promise, logged: Promise) -> str:
    gain = x.delivery - logged.delivery
    word = "more" if gain >= 0 else "less"
    return f"{x.delivery:.3f}, {abs(gain):.3f} {word} than the clinicians'"


def _judged(x: Promise) -> str:
    """Say where the truth lies as seen from the interval."""
    low, high = x.interval or (x.promise, x.promise)
    if x.delivery > high:
        return "the truth lies above its interval"
    if x.delivery < low:
        return "and yet the truth lies below its interval"
    return "its interval holds the truth"
