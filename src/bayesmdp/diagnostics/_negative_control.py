"""What would be claimed if actions did nothing: a negative control.

Actions of the log are exchanged at random, in one of two ways.

``"state"``: the actions of a state's visits are exchanged among them. Next states,
rewards of states and how often each action was taken in each state stay. If the next
state does not depend on the action given the state, every exchange is as likely as the
log. That fails where something unrecorded (frailty) moves both actions and next
states, and where the action of a visit follows from the visits before it, as with arms
that are fixed per episode: visits of an episode then share what they have in common.

``"episode"``: episodes keep one action, their arm; arms are exchanged among episodes
that begin in the same state. Valid where arms were assigned at random given the first
state, whatever is hidden.

The best policy of a belief is the best of many that hardly differ, so some gain is
claimed in any log. Exchange actions at random, then fit, choose the
nominal policy and claim again, ::

    gain        = posterior mean of J(nominal) - J(behaviour) from the start
    probability = P(J(nominal) > J(behaviour)), a tie is not better
    p           = (1 + #{null gains >= claimed gain}) / (B + 1)

Rewards that depend on the action stay with it. A gain that comes from what actions cost
is then in the null gains too: these need not be 0, and p asks for what actions do to
next states alone.

**Chains** of a hierarchical prior are long for one further exchange, whose results are
used for nothing else. All others, those of the log as it is included, begin at the
hyperparameters at which that one ended, and are shorter. As that exchange is as likely
as the log if actions do nothing, claims of the log and of its exchanges are
exchangeable, and p is valid however short chains are. Too short ones would cost power.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesmdp import _checks
from bayesmdp._checks import argument
from bayesmdp._io import JobFile, name_of, worded
from bayesmdp._resources import progress_bar
from bayesmdp._sheet import Record, Sheet, percent, significant, table
from bayesmdp._typing import FloatArray, IntArray, Seed
from bayesmdp.data import Counts, Transitions
from bayesmdp.diagnostics._advice import check_prior, noted
from bayesmdp.errors import ArgumentError, BayesmdpWarning
from bayesmdp.evaluation import probability, share_mcse
from bayesmdp.model import Data, LoggedEpisodes, Task, align, as_data, logged_episodes
from bayesmdp.policies import behaviour, nominal
from bayesmdp.posterior import Fitted, refit
from bayesmdp.priors import AnyPrior, HierarchicalPrior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STATE, EPISODE, AUTO = "state", "episode", "auto"
DONE = {
    STATE: "actions exchanged among the visits of a state",
    EPISODE: "arms exchanged among episodes that begin in the same state",
}


@dataclass(frozen=True, eq=False)
class Exchange:
    """Labels that can be exchanged within groups; L labels, N transitions."""

    permute: str  # STATE or EPISODE
    counts: Counts  # as logged
    group: IntArray  # [L]
    label: IntArray  # [L], actions
    unit: IntArray | None  # [N], label of each transition; None where there is one each
    state: IntArray  # [N]
    next_state: IntArray  # [N]

    @property
    def free(self) -> float:
        """Share of labels whose group has several different ones."""
        kinds = np.unique(np.stack([self.group, self.label]), axis=1)[0]
        several = np.bincount(kinds, minlength=self.group.max() + 1) > 1
        return float(several[self.group].mean())

    def shuffled(self, rng: np.random.Generator) -> Counts:
        """Count the transitions after an exchange."""
        label = np.empty_like(self.label)
        to = np.argsort(self.group, kind="stable")
        label[to] = self.label[np.lexsort((rng.random(label.size), self.group))]
        action = label if self.unit is None else label[self.unit]
        size = {"n_states": self.counts.n_states, "n_actions": self.counts.n_actions}
        return Counts.from_arrays(self.state, action, self.next_state, **size)


def exchange_of(
    log: Transitions | Counts, task: Task, permute: str
) -> tuple[Exchange, Task]:
    """Find out what can be exchanged; the task is the one given, or has names."""
    if permute not in (STATE, EPISODE, AUTO):
        raise ArgumentError(
            f"`permute` must be 'state', 'episode' or 'auto'; got {permute!r:.40}."
        )
    if permute != STATE:
        if isinstance(log, Counts) or "episode" not in log.table.roles:
            raise ArgumentError(
                "`log` does not say which transitions belong to one episode, which "
                f"{argument('permute', permute)} needs: give an `episode` column, or "
                f"{argument('permute', STATE)}."
            )
        found = logged_episodes(log, task)
        arm = found.action[found.start[:-1]]
        switches = np.flatnonzero(found.action != arm[found.episode])
        if switches.size == 0:
            return _checked(_of_episodes(found, arm)), found.task
        if permute == EPISODE:
            raise ArgumentError(
                f"{argument('permute', EPISODE)} exchanges the arms of episodes, and "
                f"episode number {found.episode[switches[0]]} has several actions: "
                f"give {argument('permute', STATE)}."
            )
    counts, task = align(log, task)
    return _checked(_of_visits(counts, task)), task


def _of_episodes(found: LoggedEpisodes, arm: IntArray) -> Exchange:
    return Exchange(
        EPISODE,
        found.counts(),
        found.first_state,
        arm,
        found.episode,
        found.state,
        found.next_state,
    )


def _of_visits(counts: Counts, task: Task) -> Exchange:
    live = ~task.is_terminal[counts.state]
    state, action, next_state = (
        np.repeat(x[live], counts.count[live])
        for x in (counts.state, counts.action, counts.next_state)
    )
    return Exchange(STATE, counts, state, action, None, state, next_state)


def _checked(exchange: Exchange) -> Exchange:
    """Refuse what leaves nothing to exchange."""
    if exchange.label.size and exchange.free > 0:
        return exchange
    if np.unique(exchange.counts.action).size < 2:
        raise ArgumentError(
            "`log` holds one action only, so there is nothing to exchange: is `action` "
            "the right column?"
        )
    if exchange.permute == EPISODE:
        raise ArgumentError(
            "`log` has no two episodes that begin in the same state and have different "
            "actions, so there is nothing to exchange: is `action` the right column? "
            f"({argument('permute', STATE)} asks among visits of a state.)"
        )
    raise ArgumentError(
        "`log` has no state in which several actions were taken, so there is nothing "
        "to exchange: is `action` the right column?"
    )


_N_DRAWS = 200  # of each claim: exchanges differ by far more than these leave open
_SURE = 0.95
_LOG = -1  # the job that is the log as it is


class Claim(NamedTuple):
    """What is claimed for the nominal policy of a belief."""

    gain: float
    probability: float


@dataclass(frozen=True, eq=False, repr=False)
class NegativeControl(Record):
    """A claim beside those without effect; made by `bayesmdp.negative_control`.

    Axis B runs over permutations. Gains are over the behaviour policy, from the start.
    """

    _derived = ("p_value", "p_value_mcse", "null_claims")

    claimed_gain: float
    claimed_probability: float  # that the nominal policy is better than the behaviour
    null_gains: FloatArray  # [B]
    null_probabilities: FloatArray  # [B]
    permute: str  # "state" or "episode"
    exchangeable: float  # share of visits, or of episodes, with others to exchange with
    prior: str
    n_draws: int  # of each posterior
    min_count: int
    reward: str | Mapping[str, float] | None  # which of several, `Task.with_reward`
    seed: int
    notes: tuple[str, ...]  # what was warned about

    @property
    def p_value(self) -> float:
        """Probability of a gain as large as the claimed one if actions do nothing."""
        larger = int((self.null_gains >= self.claimed_gain).sum())
        return (1 + larger) / (self.null_gains.size + 1)

    @property
    def p_value_mcse(self) -> float:
        """Monte Carlo error of the p value, for a finite number of permutations."""
        return float(share_mcse(self.p_value, 1 / (self.null_gains.size + 1)))

    @property
    def null_claims(self) -> float:
        """Share of permutations with a probability of 95 % or more: false claims."""
        return float((self.null_probabilities >= _SURE).mean())

    def _rows(self) -> list[dict[str, Any]]:
        both = zip(self.null_gains, self.null_probabilities, strict=True)
        return [{"gain": float(x), "probability": float(p)} for x, p in both]

    def _sheet(self, shown: int = 10) -> Sheet:
        gains, n = self.null_gains, self.null_gains.size
        cells = [[significant(self.claimed_gain), percent(self.claimed_probability)]]
        for level in (0.5, 0.95, 1.0):
            gain, chance = np.quantile([gains, self.null_probabilities], level, axis=1)
            cells.append([significant(gain), percent(chance)])
        names = ["claimed", "no effect: median", "95th percentile", "largest"]
        larger = round(self.p_value * (n + 1)) - 1
        return Sheet(
            f"Negative control: {DONE[self.permute]}, {_checks.many(n, 'time')}",
            [
                table(names, ("gain", "better"), cells),
                f"p value {self.p_value:.2g}: a gain as large in {larger} of "
                f"{_checks.many(n, 'permutation')}",
                f"{percent(self.null_claims)} of permutations claim an improvement "
                "with a probability of 95 % or more",
                f"{percent(self.exchangeable)} of "
                f"{'visits' if self.permute == 'state' else 'episodes'} have others to "
                f"exchange with; prior: {self.prior}",
                *(f"note: {note}" for note in self.notes),
            ],
        )

    def __repr__(self) -> str:
        return (
            f"NegativeControl(gain {self.claimed_gain:.4g}, p value "
            f"{self.p_value:.4g}, {_checks.many(self.null_gains.size, 'permutation')})"
        )


def negative_control(
    log: Data,
    task: Task,
    prior: AnyPrior | None = None,
    *,
    permute: str = "auto",
    n_permutations: int = 100,
    min_count: int = 0,
    seed: Seed = 0,
    threads: int | None = None,
    progress: bool | None = None,
    resume: str | PathLike[str] | None = None,
) -> NegativeControl:
    """Compare the claimed gain with gains claimed when actions have no effect.

    Actions are exchanged at random, and the analysis that led to the claim is repeated:
    fit, nominal policy, its gain over the behaviour policy and the probability of a
    gain. ``p_value`` is valid, whatever the prior, if the exchanges are (see
    ``permute``). A small one is evidence that actions affect what happens next; it does
    not show that the policy chosen is the best, nor how large its gain is
    (`bayesmdp.cross_fit` estimates that). Rewards that depend on the action stay with
    it, so that null gains need not be 0.

    Parameters
    ----------
    log
        Transitions, or a dataframe of them; counts for ``permute="state"``.
    task
        The known part; names are found as in `bayesmdp.fit`.
    prior
        As in `bayesmdp.fit`.
    permute
        ``"state"``: actions are exchanged among the visits of a state. Valid if, given
        the state, next states depend neither on the action nor on the reasons for
        choosing it; not valid under unrecorded frailty, where sicker patients of a
        state are treated otherwise, nor for arms that are fixed per episode.
        ``"episode"``: arms are exchanged among episodes that begin in the same state;
        valid for arms assigned at random, whatever is hidden. ``"auto"``: ``"episode"``
        if every episode keeps one action, else ``"state"``; ``permute`` of the result
        says which.
    n_permutations
        How many, at least 1; the smallest p value is ``1 / (n_permutations + 1)``.
    min_count
        As in `bayesmdp.fit`.
    seed
        Permutation ``i`` is a function of the seed and ``i`` alone.
    threads
        As in `bayesmdp.evaluate`; permutations are distributed among threads.
    progress
        Whether to show a bar; by default on a terminal, after a second.
    resume
        File to keep finished permutations in, and to go on from; more permutations than
        it holds are added to it.

    Returns
    -------
    NegativeControl

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(3, 2, reward=[0, 1, 0], discount=0.9, terminal=[1, 2])
    >>> counts = bm.Counts.from_arrays([0] * 4, [0, 0, 1, 1], [1, 2, 1, 2],
    ...                                [30, 20, 20, 30])
    >>> found = bm.negative_control(counts, task, bm.SymmetricPrior(),
    ...                             permute="state", n_permutations=99)
    >>> found.claimed_probability >= 0.95, found.p_value
    (True, 0.1)
    """
    _checks.of_type("task", task, Task, ArgumentError)
    task.plain("negative_control", "task")
    log = as_data(log, task, "log")
    prior = HierarchicalPrior() if prior is None else prior
    check_prior(prior, "prior")
    n = _checks.integer("n_permutations", n_permutations, 1, ArgumentError)
    min_count = _checks.integer("min_count", min_count, 0, ArgumentError)
    seed = _checks.seed_integer(seed)
    if not isinstance(resume, str | PathLike | None):
        said = f"`resume` must be a path of a file; got {type(resume).__name__}."
        raise ArgumentError(said)
    exchange, task = exchange_of(log, task, permute)
    with noted() as notes:
        study = _Study(exchange, task, prior, min_count, seed)
        claims = _claims(study, n, threads, progress, resume)
    for note in notes:
        warnings.warn(note, BayesmdpWarning, stacklevel=2)
    null = np.array([claims[i] for i in range(n)])
    return NegativeControl(
        *claims[_LOG],
        null_gains=_checks.sealed(null[:, 0].copy()),
        null_probabilities=_checks.sealed(null[:, 1].copy()),
        permute=exchange.permute,
        exchangeable=exchange.free,
        prior=str(prior),
        n_draws=_N_DRAWS,
        min_count=min_count,
        reward=task.chosen,
        seed=seed,
        notes=tuple(notes),
    )


@dataclass(frozen=True, eq=False)
class _Study:
    """All that claims depend on."""

    exchange: Exchange
    task: Task
    prior: AnyPrior
    min_count: int
    seed: int
    n_draws: int = _N_DRAWS

    def counts(self, job: int) -> Counts:
        """Count the transitions of permutation ``job``, or of the log as it is."""
        if job == _LOG:
            return self.exchange.counts
        return self.exchange.shuffled(np.random.default_rng([self.seed, 1, job]))

    def reference(self) -> Fitted:
        """Fit one further permutation, from where all others go on."""
        counts = self.exchange.shuffled(np.random.default_rng([self.seed, 0]))
        return refit(counts, self.task, self.prior, self.min_count)


def _claims(
    study: _Study,
    n: int,
    threads: int | None,
    progress: bool | None,
    resume: str | PathLike[str] | None,
) -> dict[int | str, Claim]:
    """Make the claims that the file does not hold yet; return all."""
    from bayesmdp.engine import results, workers

    def read(found: dict[str, Any]) -> Claim:
        return Claim(float(found["gain"]), float(found["probability"]))

    path = None if resume is None else Path(resume)
    header = {"kind": "negative_control", "study": name_of(study)}
    with worded(path, "used", ValueError):  # that of a NUL in its name
        file = JobFile(path, header, read, f"`resume` {path}")
    missing = [job for job in range(_LOG, n) if job not in file.done]
    if not missing:
        return file.done
    with progress_bar("permuting", n + 1, progress, patience=0) as show:
        show(n + 1 - len(missing))
        with warnings.catch_warnings():  # where it ended matters to nothing but time
            warnings.simplefilter("ignore")
            reference = study.reference()
        with (
            workers(threads, None) as pool,
            results(pool, _claim, ((study, reference, x) for x in missing)) as found,
        ):
            for job, claim in zip(missing, found, strict=True):
                with worded(path, "used", OSError):
                    file.add(job, claim._asdict())
                show(sum(i in file.done for i in range(_LOG, n)))
    return file.done


def _claim(study: _Study, reference: Fitted, job: int) -> Claim:
    """Fit, choose, and claim."""
    from bayesmdp.engine import workers
    from bayesmdp.evaluation.paired import differences, paired, sweep_paired

    posterior = reference.relabelled(study.counts(job))
    policies = np.stack([nominal(posterior), behaviour(posterior)])
    draws = posterior.draws(study.n_draws, study.seed)
    with workers(1, None) as pool:
        swept = sweep_paired(policies, draws, pool=pool)
    gains, weights = paired(swept, 1)
    gain, _ = differences(swept, 1)
    return Claim(float(gain[0]), probability(gains[0] > 0, weights))


def plot_negative_control(control: NegativeControl, *, ax: Axes | None = None) -> Axes:
    """Draw the gains claimed without effect as a histogram, and the claimed gain.

    Parameters
    ----------
    control
        From `bayesmdp.negative_control`.
    ax
        Axes to draw on; those of a new figure where not given.

    Returns
    -------
    Axes
        Of matplotlib, with the extra ``plots``: ``ax.figure.savefig("null.png")``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> found = bm.negative_control(world.sample(200, seed=0), world.task,
    ...                             bm.SymmetricPrior(), permute="state",
    ...                             n_permutations=19)
    >>> bm.diagnostics.plot_negative_control(found).get_xlabel()
    'gain claimed over the behaviour policy'
    """
    _checks.of_type("control", control, NegativeControl, ArgumentError)
    if ax is None:
        needed_by = "plot_negative_control"
        figures = _checks.extra("matplotlib.figure", "plots", needed_by)
        ax = figures.Figure(figsize=(4.6, 2.8), layout="constrained").subplots()
    assert ax is not None
    gains, n = control.null_gains, control.null_gains.size
    low = min(float(gains.min()), control.claimed_gain)
    high = max(float(gains.max()), control.claimed_gain)
    span = high - low or max(abs(high), 1e-9)  # all alike: a bin around them
    edges = np.linspace(low - 0.02 * span, high + 0.02 * span, 31)
    ax.hist(gains, edges.tolist(), color="0.7", label=f"no effect, {n} permutations")
    ax.axvline(
        control.claimed_gain,
        color="#d55e00",
        linewidth=2.0,
        label=f"claimed, p = {control.p_value:.2g}",
    )
    ax.set_xlabel("gain claimed over the behaviour policy")
    ax.set_ylabel("permutations")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=2)
    return ax
