"""What beliefs predict, and what is true, on cohorts of two simulators.

Two simulators whose true values are known exactly, ICU-Sepsis (`studies.cohorts`) and
one of vital signs (`studies.vitals_simulator`), treat cohorts of 500 to 18,000 patients
as clinicians would. Every prior learns from each cohort, and three questions are put:

- *The chosen policy*: the nominal one of pairs with 5 visits or more, at discount
  0.999. Its predicted value (mean and 90 % interval over posterior draws) is set beside
  its true value; it was chosen because it looked good.
- *The clinicians*, whom nobody chose: the predicted value of logged action frequencies
  on all logged pairs, from logged starts, beside the observed mean return of those
  patients and the true value of the same policy.
- *Held-out patients*, on some cohorts: four fifths of the patients teach, the rest
  judge, by the log density of their transitions and by their mean return. Density is
  that of an event: next states that were observed from the state in training (after
  any action) and terminal states are events of their own, all others are one event
  together, so that beliefs which lump them are scored like those which do not. Scored
  are transitions of pairs that training visited.

**Cohorts that tune and cohorts that judge.** Sizes of draws, how clinicians of the
second simulator act, and anything else that is chosen after looking at results, are
chosen on cohorts `TUNING` (seeds 100 to 109), which ``--quick`` runs on. The tables
rest on cohorts `JUDGING` (seeds 4000 to 4009), which nothing in this repository was
chosen on; earlier trials used seeds below 100 and 7005.
"""

import time
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

import bayesmdp as bm
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.errors import PriorWarning
from bayesmdp.posterior import Belief
from studies.beliefs_page import EVIDENCE, REFERENCE, plot, tell
from studies.cohorts import DEATH, MIN_COUNT, sepsis
from studies.study import Effort, Job, Record, Study
from studies.vitals_simulator import clinicians, vitals_world

if TYPE_CHECKING:
    from bayesmdp.priors import Prior

TUNING, JUDGING = 100, 4000  # seed of the first cohort
SIZES = {"ICU-Sepsis": (500, 2_000, 5_000, 18_000), "vital signs": (2_000, 18_000)}
N_COHORTS, N_HELD_OUT = 10, 2
N_OTHERS = 2  # cohorts for priors that are neither the default nor the reference
_LEVEL = 0.9
DEFAULT = "hierarchical, local"


def priors() -> "dict[str, Prior | bm.HierarchicalPrior]":
    """Return the priors that are set side by side, by name."""
    return {
        **{
            f"hierarchical, {base}": bm.HierarchicalPrior(base)
            for base in ("local", "marginal")
        },
        REFERENCE: bm.SparsePrior(1.0, fallback=DEATH),
        "symmetric, 1": bm.SymmetricPrior(1.0),
        "scaled (1 / n_states)": bm.ScaledPrior(1.0),
        EVIDENCE: bm.EvidencePrior(),
        "evidence, death": bm.FallbackPrior(bm.EvidencePrior(), DEATH),
        "random support": bm.RandomSupportPrior(),
        # As good as no prior; only who was never observed is predicted to die.
        "maximum likelihood": bm.SparsePrior(1e-9, fallback=DEATH),
    }


@dataclass(frozen=True)
class Simulator:
    """A true model, and what clinicians do in it."""

    world: bm.MDP
    clinicians: FloatArray  # [S, A]


@lru_cache(maxsize=2)
def simulator(name: str) -> Simulator:
    """Return a simulator by its name."""
    if name == "ICU-Sepsis":
        world = sepsis()
        return Simulator(world, world.expert)
    vitals = vitals_world()
    return Simulator(vitals, clinicians(vitals))


SIMULATORS = ("ICU-Sepsis", "vital signs")


@lru_cache(maxsize=1)
def _log(name: str, size: int, cohort: int) -> bm.Transitions:
    true = simulator(name)
    return true.world.simulate(true.clinicians, size, seed=cohort)


def _jobs(effort: Effort) -> list[Job]:
    sepsis()  # says what to install before anything is kept
    first = TUNING if effort.quick else JUDGING
    n_cohorts = effort.seeds or (2 if effort.quick else N_COHORTS)
    named = [*priors()]
    if effort.quick:
        named = [named[0], REFERENCE, EVIDENCE, "maximum likelihood"]
    jobs = []
    for name in SIMULATORS:
        for size in (500,) if effort.quick else SIZES[name]:
            for number in range(n_cohorts):
                given = {"simulator_name": name, "size": size, "cohort": first + number}
                given["held_out"] = number < (1 if effort.quick else N_HELD_OUT)
                jobs += [
                    Job(
                        f"{name}-{size:05}-{first + number}-{prior}",
                        {**given, "prior": prior, "n_draws": _n_draws(prior)},
                    )
                    for prior in (named if number < N_OTHERS else [DEFAULT, REFERENCE])
                ]
    return jobs


def _n_draws(prior: str) -> int:
    """Draws whose order statistics end a 90 % interval; rows of 700 cost more."""
    return 99 if prior in (DEFAULT, REFERENCE) else 19


def _work(
    simulator_name: str,
    size: int,
    cohort: int,
    prior: str,
    n_draws: int,
    held_out: bool,
) -> list[Record]:
    """Learn from one cohort with one prior, and judge what comes of it."""
    warnings.simplefilter("ignore", PriorWarning)  # that some weigh too much is known
    true, log = simulator(simulator_name), _log(simulator_name, size, cohort)
    world, believed = true.world, priors()[prior]
    record: Record = {
        "simulator": simulator_name,
        "size": size,
        "cohort": cohort,
        "prior": prior,
        "clinicians_value": float(world.task.start @ world.value(true.clinicians)),
    }
    began = time.process_time()
    policy, belief, every_pair = learnt(believed, log, world.task)
    record["seconds_fit"] = time.process_time() - began
    start = world.task.start
    record |= _judged("chosen", policy, belief, true, start, n_draws, cohort)
    logged = bm.policies.behaviour(every_pair)
    begin = logged_start(log, world.task)
    record |= _judged("behaviour", logged, every_pair, true, begin, n_draws, cohort)
    seen = returns(log, world.task.discount)
    record["observed"] = float(seen.mean())
    record["observed_error"] = float(seen.std(ddof=1) / np.sqrt(seen.size))
    if held_out:
        record |= _held_out(believed, log, size, world)
    return [record]


def learnt(
    prior: "Prior | bm.HierarchicalPrior", log: bm.Transitions, task: bm.Task
) -> tuple[FloatArray, Belief, Belief]:
    """Return the nominal policy, its belief, and the belief about all logged pairs.

    Rows of logged pairs do not depend on `min_count` under a hierarchical prior, and
    its chains take long: one fit serves both.
    """
    every_pair = bm.fit(log, task, prior=prior, min_count=1)
    if isinstance(every_pair, bm.Posterior):
        belief = bm.fit(log, task, prior=prior, min_count=MIN_COUNT)
        return bm.policies.nominal(belief), belief, every_pair
    cheap = bm.fit(log, task, prior=bm.SparsePrior(fallback=DEATH), min_count=MIN_COUNT)
    mean = bm.Ensemble([every_pair.mean()], task, available=cheap.available)
    return bm.policies.nominal(mean), every_pair, every_pair


def _judged(
    name: str,
    policy: FloatArray,
    belief: Belief,
    true: Simulator,
    start: FloatArray,
    n_draws: int,
    seed: int,
) -> Record:
    """Predicted and true value of a policy from a start distribution ``[S]``."""
    draws = belief.draws(n_draws, seed=seed)
    found = bm.evaluate(policy, draws, keep_values=True, threads=1, progress=False)
    assert found.values is not None
    values = found.values @ start
    ends = (1 - _LEVEL) / 2, (1 + _LEVEL) / 2
    low, high = np.quantile(values, ends, method="weibull")
    truth = float(start @ true.world.value(policy))
    return {
        f"{name}_predicted": float(found.value @ start),
        f"{name}_sd": float(values.std(ddof=1)),
        f"{name}_low": float(low),
        f"{name}_high": float(high),
        f"{name}_true": truth,
        f"{name}_covered": bool(low <= truth <= high),
    }


def logged_start(log: bm.Transitions, task: bm.Task) -> FloatArray:
    """Return the share of patients that begin in each state, ``[S]``."""
    starts, share = log.starts(), np.zeros(task.n_states)
    share[starts.state] = starts.count / starts.count.sum()
    return share


def returns(log: bm.Transitions, discount: float) -> FloatArray:
    """Return the discounted return of each patient, in the order of patients."""
    found = []
    for batch in log.episodes():
        assert batch.reward is not None
        paid = batch.reward * discount**batch.step
        found.append(np.add.reduceat(paid, batch.start[:-1]))
    return np.concatenate(found)


def _held_out(
    prior: "Prior | bm.HierarchicalPrior",
    log: bm.Transitions,
    size: int,
    world: bm.MDP,
) -> Record:
    """Learn from the first four fifths of the patients, and predict the others."""
    cut = size * 4 // 5
    training, rest = split(log, cut, world.task)
    belief = bm.fit(training, world.task, prior=prior, min_count=1)
    # The value of the mean model: exact, and costs no draws.
    mean = bm.MDP(belief.mean(), world.task)
    value = mean.value(bm.policies.behaviour(belief))
    seen = returns(rest, world.task.discount)
    predicted = float(value @ logged_start(rest, world.task))
    log_density, count = event_densities(
        belief.mean(), training.counts(), rest.counts(), world.task
    )
    mass = np.isfinite(log_density)
    n = count.sum()
    return {
        "held_out_return": float(seen.mean()),
        "held_out_return_error": float(seen.std(ddof=1) / np.sqrt(seen.size)),
        "held_out_predicted": predicted,
        "held_out_log_density": float(
            count[mass] @ log_density[mass] / count[mass].sum()
        ),
        "held_out_no_mass": float(count[~mass].sum() / n),
        "held_out_scored": float(n / rest.n_rows),
    }


def split(
    log: bm.Transitions, cut: int, task: bm.Task
) -> tuple[bm.Transitions, bm.Transitions]:
    """Return the first ``cut`` patients, and the others."""
    (batch,) = log.episodes(batch_rows=log.n_rows)
    assert batch.reward is not None
    first = batch.episode < cut

    def part(rows: BoolArray) -> bm.Transitions:
        assert batch.reward is not None
        return bm.Transitions.from_arrays(
            batch.state[rows],
            batch.action[rows],
            batch.next_state[rows],
            reward=batch.reward[rows],
            episode=batch.episode[rows],
            step=batch.step[rows],
            n_states=task.n_states,
            n_actions=task.n_actions,
        )

    return part(first), part(~first)


def event_densities(
    model: bm.Dynamics, training: bm.Counts, rest: bm.Counts, task: bm.Task
) -> tuple[FloatArray, IntArray]:
    """Log density of held-out events ``[K]``, and how often each happened ``[K]``.

    An event is a next state that training observed from the state, a terminal one, or
    any other. Only pairs that training visited are scored.
    """
    n_states = task.n_states
    event = np.zeros((n_states, n_states), dtype=np.bool_)
    event[training.state, training.next_state] = True
    event[:, task.is_terminal] = True
    rows = model.rows
    own = event[rows.state[rows.row_of_entry], rows.next_state]
    other = rows.row_sums(np.where(own, 0.0, model.probability))  # [R]
    visited = training.pair_totals(n_states, task.n_actions) > 0
    scored = visited[rest.state, rest.action]
    state, action = rest.state[scored], rest.action[scored]
    next_state = rest.next_state[scored]
    row, entry = rows.find(state, action, next_state)
    inside = np.where(entry >= 0, model.probability[entry], 0.0)
    density = np.where(event[state, next_state], inside, other[row])
    with np.errstate(divide="ignore"):
        return np.log(density), rest.count[scored]


STUDY = Study(
    "beliefs",
    "What beliefs predict, and what is true",
    _jobs,
    _work,
    tell,
    plot,
    timed=True,
)
