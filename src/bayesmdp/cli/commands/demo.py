"""``bayesmdp demo``: the story of the package, on patients whose truth is known.

Patients of ICU-Sepsis are treated as clinicians did. Two models learn from what was
logged: the plug-in model of observed frequencies, and the posterior under the default
prior. Each predicts the value of its own best policy; because the truth is known here,
the true value can be set beside the predicted one. What clinicians did can be checked
without the truth, against the returns of the logged patients.

One cohort tells a story, not a law: `python -m studies beliefs` repeats it on many.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import click

import bayesmdp as bm
from bayesmdp import _checks
from bayesmdp._sheet import Sheet, Table
from bayesmdp._typing import FloatArray, Seed
from bayesmdp.cli._options import Work, count, device_option, remark, work_options
from bayesmdp.errors import ArgumentError, StorageError
from bayesmdp.evaluation import rounded
from bayesmdp.posterior import Fitted

DEATH = "death"
DISCOUNT = 0.999
MIN_COUNT = 5  # visits an action needs to be considered
PATIENTS = 18_000
N_DRAWS = 250  # enough for two digits of an interval's ends
_WIDTH = 92
_LOGGED, _FREQUENCIES, _POSTERIOR = "behaviour", "frequencies", "posterior"
# Nobody waits minutes for a demonstration. With all starts the search of the default
# cohort takes more than twice as long, and ends on the same policy.
_STARTS = ("nominal",)
_PERMUTATIONS, _CHECK_DRAWS = 19, 120
_SENSITIVITY_DRAWS = 100  # priors differ by far more than these leave open


@dataclass(frozen=True)
class Prediction:
    """Value of one policy, as a model predicts it and in truth.

    Gains are over what clinicians did, by the same model and in truth.
    """

    policy: str
    model: str  # that predicts: frequencies, or the posterior
    predicted_value: float
    predicted_mcse: float  # Monte Carlo; 0 where one model was solved exactly
    interval: tuple[float, float] | None  # 95 % over the posterior, where there is one
    predicted_gain: float
    true_value: float  # exact
    true_gain: float


@dataclass(frozen=True, eq=False, repr=False)
class Story:
    """What was predicted and what is true; made by `tell_story`."""

    n_patients: int
    n_transitions: int
    n_pairs: int  # of state and action, observed often enough to be considered
    observed_return: float  # mean discounted return of the logged patients
    observed_error: float  # its standard error
    predictions: tuple[Prediction, ...]
    best_true_value: float  # of the policy that is best in the true model
    comparison: bm.Comparison
    optimisation: bm.Optimisation
    findings: bm.data.Findings
    cautions: tuple[str, ...]  # what the page says before it is believed
    seed: int
    html: Path  # the page
    json: Path  # its data

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, for JSON."""
        names = ["n_patients", "n_transitions", "n_pairs", "observed_return"]
        names += ["observed_error", "best_true_value", "seed"]
        search = self.optimisation.to_dict()
        kept = ("chosen_start", "converged", "status", "steps", "upper_bound")
        return {
            **{name: getattr(self, name) for name in names},
            "predictions": [asdict(x) for x in self.predictions],
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
        header = ["policy", "predicted by", "predicted value", "95 % interval"]
        header += ["gain", "true value", "true gain"]
        observed = rounded(self.observed_return, self.observed_error)
        true, best = self.of(_LOGGED).true_value, self.best_true_value
        rows = [
            [_LOGGED, "observed returns", observed, "", "", f"{true:.4f}", ""],
            *(_row(x) for x in self.predictions),
            ["best of all", *[""] * 4, f"{best:.4f}", f"{best - true:.3f}"],
        ]
        title = (
            f"{self.n_patients:,} simulated patients, {self.n_transitions:,} "
            "transitions"
        )
        what = "Predicted values, and values in the true model"
        notes = [
            "",
            "Values are discounted survival, ± Monte Carlo error (of observed returns: "
            "standard error);",
            "exact where there is none. The interval is what the data leave open. "
            "Gains are over the",
            "behaviour, what clinicians did. Best of all: optimal in the true model.",
        ]
        return Sheet(title, [what, "", Table(header, rows), *notes])

    def of(self, policy: str, model: str = _POSTERIOR) -> Prediction:
        """Return what a model predicts of a policy."""
        (found,) = (
            x for x in self.predictions if (x.policy, x.model) == (policy, model)
        )
        return found

    def _said(self) -> str:
        logged, ours = self.of(_LOGGED), self.of("optimised")
        plug_in, by_us = self.of("mle", _FREQUENCIES), self.of("mle")
        said = [
            f"The mean discounted return was {self.observed_return:.3f} (standard "
            f"error {self.observed_error:.3f}). The posterior predicts "
            f"{logged.predicted_value:.3f} for what clinicians did; the true value is "
            f"{logged.true_value:.3f}, {_placed(logged)}.",
            f"Frequencies predict {plug_in.predicted_value:.3f} for their own best "
            f"policy, and the posterior {by_us.predicted_value:.3f}; the true value is "
            f"{plug_in.true_value:.3f}, {_gain(plug_in.true_gain)} than the "
            "clinicians'.",
            f"The posterior predicts {ours.predicted_value:.3f} for its optimised "
            f"policy, {_gain(ours.predicted_gain)} than for the clinicians'; the true "
            f"value is {ours.true_value:.3f}, {_gain(ours.true_gain)}, "
            f"{_placed(ours)}.",
            "The search began from the nominal policy alone, to save time: "
            f"{self.optimisation.status}.",
            *(f"Before you believe it: {x}" for x in self.cautions),
        ]
        return "\n".join(fill(f"- {x}", _WIDTH, subsequent_indent="  ") for x in said)

    def _next(self) -> str:
        return (
            "Where to look next\n"
            f"  {self.html}: open it in a browser; what is behind the values\n"
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
    n_draws: int = N_DRAWS,
    n_steps: int = 40,
    threads: int | None = None,
    device: str | None = None,
    progress: bool | None = None,
    say: Callable[[str], None] | None = None,
) -> Story:
    """Simulate a cohort, analyse it as if the truth were not known, then look it up."""
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
    posterior = bm.fit(cohort, task, min_count=MIN_COUNT)
    policies = {
        _LOGGED: bm.policies.behaviour(posterior),
        "mle": bm.policies.mle(posterior),
    }
    say("searching for a better policy, on draws of the posterior")
    result = bm.optimise(
        posterior,
        method=bm.MirrorAscent(n_steps=n_steps),
        starts=_STARTS,
        seed=number,
        threads=threads,
        device=device,
        progress=progress,
    )
    if result.interrupted:  # who stops a demonstration does not want the rest of it
        raise KeyboardInterrupt
    policies["optimised"] = result.policy
    say(f"comparing {len(policies)} policies on {n_draws:,} draws")
    table = bm.compare(
        policies,
        posterior.draws(n_draws, number),
        reference=_LOGGED,
        threads=threads,
        device=device,
        progress=progress,
    )
    say("evaluating it under another prior, and asking which of them predicts better")
    priors = bm.priors.usual_priors(posterior.prior, ["sparse"], fallback=DEATH)
    tried = bm.prior_sensitivity(
        result.policy,
        posterior,
        task,
        priors,
        min_count=MIN_COUNT,
        n_draws=min(n_draws, _SENSITIVITY_DRAWS),
        seed=number,
        threads=threads,
        device=device,
    )
    held_out = bm.compare_priors(
        priors, cohort, task, n_folds=2, min_count=MIN_COUNT, seed=number
    )
    say("asking whether it is real: observed values, exchanged actions, other episodes")
    made = _asked(posterior, cohort, number, progress)
    say("looking up the truth, and writing the report")
    page = bm.report(
        posterior,
        table,
        optimisation=result,
        findings=findings,
        evidence=bm.priors.evidence_curve(posterior.counts, task, min_count=MIN_COUNT),
        prior_sensitivity=tried,
        best_predictor=held_out.best,
        **made,
    )
    check = made["check"]
    return Story(
        n_patients=n_patients,
        n_transitions=posterior.counts.total,
        n_pairs=int(posterior.available.sum()),
        observed_return=check.observed_value,
        observed_error=check.observed_se,
        predictions=_predictions(world, posterior, table),
        best_true_value=_from_start(world, _knowing(world)),
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


def _asked(
    posterior: Fitted, cohort: bm.Transitions, seed: int, progress: bool | None
) -> dict[str, Any]:
    """Ask what a referee asks first."""
    task = posterior.task
    how: dict[str, Any] = {"min_count": MIN_COUNT, "seed": seed}

    def choose(counts: bm.Counts, task: bm.Task) -> FloatArray:
        return bm.policies.nominal(bm.fit(counts, task, min_count=MIN_COUNT))

    return {
        "check": bm.check(posterior, cohort, n_draws=_CHECK_DRAWS, seed=seed),
        "negative_control": bm.negative_control(
            cohort, task, n_permutations=_PERMUTATIONS, progress=progress, **how
        ),
        "cross_fit": bm.cross_fit(cohort, task, **how),
        "off_policy": bm.off_policy(choose, cohort, task, seed=seed, name="nominal"),
    }


def _predictions(
    world: bm.MDP, posterior: Fitted, table: bm.Comparison
) -> tuple[Prediction, ...]:
    """Values by the posterior, and by frequencies where they chose the policy."""
    # As good as no prior; only who was never observed at all is predicted to die.
    nothing = bm.SparsePrior(1e-9, fallback=DEATH)
    counted = bm.fit(posterior.counts, world.task, prior=nothing, min_count=MIN_COUNT)
    frequencies = bm.MDP(counted.mean(), world.task)
    logged = table.evaluations[_LOGGED]
    found = []
    for name, judged in table.evaluations.items():
        truth = _valued(world, judged.policy, logged.policy)
        if name == "mle":
            value, gain = _valued(frequencies, judged.policy, logged.policy)
            found.append(Prediction(name, _FREQUENCIES, value, 0.0, None, gain, *truth))
        value, error = judged.start_value, judged.start_value_mcse
        gain = value - logged.start_value
        found.append(
            Prediction(name, _POSTERIOR, value, error, judged.interval(), gain, *truth)
        )
    return tuple(found)


def _cautions(page: bm.Report) -> tuple[str, ...]:
    """Return what the page warns of."""
    said = page.data["summary"]["cautions"]
    return tuple(
        f"{x['topic']}. {x['text']}" for x in said if x["level"] not in ("ok", "note")
    )


def _knowing(world: bm.MDP) -> FloatArray:
    """Return the policy that is best in the true model."""
    return bm.policies.nominal(bm.Ensemble([world.dynamics], world.task))


def _valued(
    world: bm.MDP, policy: FloatArray, other: FloatArray
) -> tuple[float, float]:
    """Return the value of a policy in a model, and its gain over another."""
    value = _from_start(world, policy)
    return value, value - _from_start(world, other)


def _from_start(world: bm.MDP, policy: FloatArray) -> float:
    return float(world.task.start @ world.value(policy))


def _row(x: Prediction) -> list[str]:
    value, error = x.predicted_value, x.predicted_mcse
    gain = x.policy != _LOGGED
    return [
        x.policy,
        x.model,
        rounded(value, error) if error > 0 else f"{value:.4f}",
        "" if x.interval is None else "{:.3f} to {:.3f}".format(*x.interval),
        f"{round(x.predicted_gain, 3) + 0.0:.3f}" if gain else "",
        f"{x.true_value:.4f}",
        f"{round(x.true_gain, 3) + 0.0:.3f}" if gain else "",
    ]


def _gain(gain: float) -> str:
    return f"{abs(gain):.3f} {'more' if gain >= 0 else 'less'}"


def _placed(x: Prediction) -> str:
    """Say where the truth lies, seen from the interval."""
    low, high = x.interval or (x.predicted_value, x.predicted_value)
    if x.true_value > high:
        return "above the 95 % interval"
    return "below the 95 % interval" if x.true_value < low else "in the 95 % interval"


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    help="Where to write report.html and report.json.",
)
@count("--patients n_patients", 50, PATIENTS, "Patients to simulate.")
@count("--draws n_draws", 2, N_DRAWS, "Draws of the posterior to compare policies on.")
@device_option
@work_options
def command(out: Path, n_patients: int, n_draws: int, work: Work) -> None:
    """Analyse simulated patients with known true values.

    Patients come from ICU-Sepsis, a published model of the treatment of sepsis. Their
    log is analysed as yours would be: it is validated and a posterior fitted, policies
    are found and compared, all on one page. Then every policy is evaluated in the true
    model. Takes a few minutes; the first time longer, while kernels compile.

    Example: bayesmdp demo

    Example: bayesmdp demo --patients 2000 --seed 1 --out small
    """
    silent = work.quiet or not sys.stderr.isatty()  # in a pipe nobody waits for news
    story = tell_story(
        out,
        n_patients=n_patients,
        n_draws=n_draws,
        **work.how,
        say=lambda text: remark(text, quiet=silent),
    )
    work.show(story.summary(), story.to_dict())
