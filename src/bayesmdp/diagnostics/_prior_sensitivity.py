"""Prior sensitivity: a policy's value, its gain over a baseline, what is recommended.

The same data, policies and draws' seed under each prior in turn. The gain is the start
value of the policy minus that of the baseline in the same draw: a prior may move both
values alike and leave the gain, or the other way round. The recommendation of a
prior in a state is its nominal policy's action; of tied actions, one that is best under
all priors, if there is any. A recommendation flips where there is none. With ``Q_p(s,
a)`` the value, in prior ``p``'s mean model, of action ``a`` followed by its plan, and
``a_q(s)`` the recommendation of prior ``q``, what is at stake there is ::

    stake[s] = max_p (max_a Q_p(s, a) - min_q Q_p(s, a_q(s)))

the most that one prior believes is lost by following another's recommendation once.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import (
    Record,
    Sheet,
    Table,
    as_plain,
    number,
    percent,
    significant,
    table,
)
from bayesmdp._typing import BoolArray, FloatArray, IntArray, PolicyLike, Seed
from bayesmdp.diagnostics._advice import (
    Advice,
    actions,
    advise,
    checked_priors,
    common_best,
    fit_named,
    naming,
    state_visits,
)
from bayesmdp.errors import ArgumentError, BayesmdpWarning
from bayesmdp.evaluation import (
    Comparison,
    ComparisonRow,
    Evaluation,
    between,
    bootstrap_mcse,
    compare,
    gaps,
    probability,
    share_mcse,
)
from bayesmdp.model import Data, Task, align, as_policy
from bayesmdp.policies import behaviour
from bayesmdp.posterior import Fitted
from bayesmdp.priors import AnyPrior

if TYPE_CHECKING:
    from concurrent.futures import Executor

_QUANTITIES = ("value", "epistemic_sd", "aleatoric_sd")
_GAIN = ("gain", "gain_epistemic_sd", "probability_better")
_SHOWN = (*_QUANTITIES, *_GAIN)
_TOLD = (*_QUANTITIES, "gain")  # with their errors


@dataclass(frozen=True, eq=False, repr=False)
class PriorSensitivity(Record):
    """Value of one policy under several priors; made by `bayesmdp.prior_sensitivity`.

    Axis P runs over priors, in the order given; ``*_mcse`` are Monte Carlo standard
    errors; that of a probability ``k / n`` is taken at ``(k + 1) / (n + 2)``, so that
    it is not 0 where all draws agree. Visits are logged transitions from a state.
    """

    names: tuple[str, ...]  # [P]
    value: FloatArray  # [P, S]
    value_mcse: FloatArray  # [P, S]
    epistemic_sd: FloatArray  # [P, S]
    epistemic_sd_mcse: FloatArray  # [P, S]
    aleatoric_sd: FloatArray  # [P, S]
    aleatoric_sd_mcse: FloatArray  # [P, S]
    start_value: FloatArray  # [P]
    start_value_mcse: FloatArray  # [P]
    start_epistemic_sd: FloatArray  # [P]
    start_epistemic_sd_mcse: FloatArray  # [P]
    start_aleatoric_sd: FloatArray  # [P]
    start_aleatoric_sd_mcse: FloatArray  # [P]
    gain: FloatArray  # [P], start value minus that of the baseline, draw by draw
    gain_mcse: FloatArray  # [P]
    gain_interval: FloatArray  # [P, 2], 95 % over draws, paired
    gain_epistemic_sd: FloatArray  # [P]
    gain_epistemic_sd_mcse: FloatArray  # [P]
    probability_better: FloatArray  # [P], probability of a gain; a tie is none
    probability_better_mcse: FloatArray  # [P]
    recommended: IntArray  # [P, S], nominal action; -1 in terminal states
    predicted_value: FloatArray  # [P], of the nominal policy, in the mean model
    agreement: FloatArray  # [P], share of visits where the policy does as recommended
    flips: BoolArray  # [S], whether no action is best under every prior
    stake: FloatArray  # [S], most a prior thinks is lost by another's; 0 in agreement
    visits: IntArray  # [S]
    policy: FloatArray  # [S, A]
    baseline: FloatArray  # [S, A]
    n_draws: int
    seed: int
    min_count: int
    notes: tuple[str, ...]  # what was warned about
    task: Task = field(repr=False)

    @property
    def fragile(self) -> IntArray:
        """States whose recommendation flips, most visited first."""
        found = np.flatnonzero(self.flips)
        return found[np.argsort(-self.visits[found], kind="stable")]

    @property
    def flip_share(self) -> float:
        """Share of visits in states whose recommendation flips."""
        return float(self.visits[self.flips].sum() / self.visits.sum())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, for JSON; states by name."""
        return {
            "rows": self._rows(),
            "flip_share": self.flip_share,
            "fragile": [self._fragile(int(s)) for s in self.fragile],
            "n_draws": self.n_draws,
            "seed": self.seed,
            "min_count": self.min_count,
            "notes": list(self.notes),
        }

    def _rows(self) -> list[dict[str, Any]]:
        return [self._start_of(p) for p in range(len(self.names))]

    def _start_of(self, p: int) -> dict[str, Any]:
        row: dict[str, Any] = {"name": self.names[p]}
        for quantity in _SHOWN:
            of = "" if quantity in _GAIN else "start_"
            for name in (quantity, f"{quantity}_mcse"):
                row[name] = as_plain(getattr(self, of + name)[p])
        row["gain_interval"] = [as_plain(x) for x in self.gain_interval[p]]
        row["predicted_value"] = as_plain(self.predicted_value[p])
        row["agreement"] = float(self.agreement[p])
        return row

    def _fragile(self, state: int) -> dict[str, Any]:
        return {
            "state": self.task.state_name(state),
            "visits": int(self.visits[state]),
            "stake": as_plain(self.stake[state]),
            "recommended": self._recommended(state),
        }

    def _recommended(self, state: int) -> dict[str, str]:
        chosen = self.recommended[:, state]
        names = [self.task.action_name(int(a)) for a in chosen]
        return dict(zip(self.names, names, strict=True))

    def _sheet(self, shown: int = 10) -> Sheet:
        header = ["value", "epistemic sd", "aleatoric sd", "gain", "95 % of gain"]
        header += ["better", "predicted value", "as recommended"]
        cells = [
            [
                *(number(row[q], row[f"{q}_mcse"]) for q in _TOLD),
                between(*self.gain_interval[p]),
                percent(row["probability_better"], row["probability_better_mcse"]),
                significant(self.predicted_value[p], 4),
                percent(row["agreement"]),
            ]
            for p, row in enumerate(map(self._start_of, range(len(self.names))))
        ]
        title = (
            f"One policy under {_checks.many(len(self.names), 'prior')}, "
            f"{self.n_draws} draws each (seed {self.seed})"
        )
        body: list[Table | str] = [
            table(self.names, header, cells),
            "± Monte Carlo error; gain: over the baseline, with its 95 % interval over "
            "draws; better: its probability; "
            "predicted value: of the prior's own best policy; as recommended: share of "
            "logged visits",
        ]
        if len(self.names) > 1:
            body += [self._moves(), *self._fragile_table(shown)]
        body += [f"note: {note}" for note in self.notes]
        return Sheet(title, body)

    def _moves(self) -> str:
        def moved(name: str, found: FloatArray, sd: FloatArray) -> str:
            by, largest = float(np.ptp(found)), float(sd.max())
            said = f"the {name} moves by {significant(by)} over priors"
            if largest == 0:
                return said
            return f"{said}, {by / largest:.2g} times its largest epistemic sd"

        value = moved("value", self.start_value, self.start_epistemic_sd)
        return f"{value}; {moved('gain', self.gain, self.gain_epistemic_sd)}"

    def _fragile_table(self, shown: int) -> list[Table | str]:
        fragile, live = self.fragile, self.task.live
        body: list[Table | str] = [
            f"recommendations flip in {fragile.size} of {live.size} states, "
            f"{percent(self.flip_share)} of visits"
        ]
        if fragile.size and shown:
            some = [int(s) for s in fragile[:shown]]
            cells = [
                [
                    str(int(self.visits[s])),
                    significant(self.stake[s]),
                    *self._recommended(s).values(),
                ]
                for s in some
            ]
            names = [f"state {self.task.state_name(s)}" for s in some]
            body.append(table(names, ("visits", "at stake", *self.names), cells))
        return body

    def __repr__(self) -> str:
        said = _checks.sizes(prior=len(self.names), fragile_state=self.fragile.size)
        return f"PriorSensitivity({said})"


def prior_sensitivity(
    policy: PolicyLike,
    data: Data | Fitted,
    task: Task,
    priors: Mapping[str, AnyPrior],
    *,
    baseline: PolicyLike | None = None,
    min_count: int = 0,
    n_draws: int = 1000,
    seed: Seed = 0,
    threads: int | None = None,
    executor: Executor | None = None,
    device: str | None = None,
) -> PriorSensitivity:
    """Show how a policy's value, its gain and the recommendations move with the prior.

    Parameters
    ----------
    policy
        ``[S, A]`` or ``[S]``, on available pairs. Which pairs are available depends on
        the data and ``min_count`` only, so it is the same for all priors.
    data
        Transitions, a dataframe of them, counts, or a posterior of `bayesmdp.fit`: then
        its counts are taken, and its own prior is not fitted again.
    task
        The known part.
    priors
        One or more, by name; also mixtures and hierarchical ones.
    baseline
        Policy relative to which the gain is computed; `policies.behaviour` where not
        given.
    min_count
        As for `bayesmdp.fit`.
    n_draws, seed
        Draws of each posterior.
    threads, executor, device
        As in `bayesmdp.evaluate`.

    Returns
    -------
    PriorSensitivity

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(3, 2, reward=[0, 1, 0], discount=0.9, terminal=[1, 2])
    >>> tried = bm.Counts.from_arrays([0, 0, 0], [0, 0, 1], [1, 2, 1], [14, 6, 1])
    >>> priors = {"as seen": bm.SparsePrior(0.01), "flat": bm.SymmetricPrior()}
    >>> found = bm.prior_sensitivity([0, 0, 0], tried, task, priors)  # 14 of 20 go well
    >>> found.recommended[:, 0].tolist(), found.fragile.tolist()
    ([1, 0], [0])
    """
    from bayesmdp.engine import backend_of

    named = checked_priors(priors)
    _checks.of_type("task", task, Task, ArgumentError)
    task.plain("prior_sensitivity", "task")
    min_count = _checks.integer("min_count", min_count, 0, ArgumentError)
    n_draws = _checks.integer("n_draws", n_draws, 2, ArgumentError)
    seed = _checks.seed_integer(seed)
    _checks.thread_count(threads)  # here, as no prior is to blame
    backend_of(device)
    if executor is not None:
        from concurrent.futures import Executor

        _checks.of_type("executor", executor, Executor, ArgumentError)
    fitted = data if isinstance(data, Fitted) else None
    counts, task = align(data.counts if isinstance(data, Fitted) else data, task)
    visits = state_visits(counts, task)
    found, best, notes, chain = [], [], [], []
    for name, prior in named.items():
        posterior = fit_named(name, prior, counts, task, min_count, fitted)
        checked = as_policy(policy, posterior)
        base = (
            behaviour(posterior)
            if baseline is None
            else as_policy(baseline, posterior, "baseline")
        )
        with naming(name), warnings.catch_warnings():
            warnings.simplefilter("ignore", BayesmdpWarning)  # said below, with names
            found.append(
                compare(
                    {"policy": checked, "baseline": base},
                    posterior.draws(n_draws, seed),
                    reference="baseline",
                    threads=threads,
                    executor=executor,
                    device=device,
                )
            )
        best.append(advise(name, posterior))
        chain.append(posterior.chain_noise)
        said = [x for e in found[-1].evaluations.values() for x in e.notes]
        notes += [f"Under {name!r}: {note}" for note in dict.fromkeys(said)]
        notes += best[-1].notes
    recommended, flips = _recommendations(best, task)
    for note in notes:
        warnings.warn(note, BayesmdpWarning, stacklevel=2)
    return PriorSensitivity(
        names=tuple(named),
        **_moments([x.evaluations["policy"] for x in found]),
        **_gains(found, chain),
        recommended=recommended,
        predicted_value=_checks.sealed(np.array([x.start_value for x in best])),
        agreement=_followed(checked, recommended, visits),
        flips=flips,
        stake=_stake(best, recommended, flips),
        visits=visits,
        policy=checked,
        baseline=base,
        n_draws=n_draws,
        seed=seed,
        min_count=min_count,
        notes=tuple(notes),
        task=task,
    )


def _moments(found: list[Evaluation]) -> dict[str, Any]:
    """Stack what evaluations say of states ``[P, S]`` and of the start ``[P]``."""
    names = [f"{q}{error}" for q in _QUANTITIES for error in ("", "_mcse")]
    return {
        f"{of}{name}": _checks.sealed(np.array([getattr(x, of + name) for x in found]))
        for of in ("", "start_")
        for name in names
    }


def _gains(found: list[Comparison], chain: list[float]) -> dict[str, Any]:
    """Gain over the baseline, its epistemic sd and probability, with errors ``[P]``."""
    columns = np.array([_gain(*one) for one in zip(found, chain, strict=True)]).T
    names = [f"{q}{error}" for q in _GAIN for error in ("", "_mcse")]
    ends = np.array([_row(x).difference_interval for x in found])
    return {
        "gain_interval": _checks.sealed(ends),
        **dict(zip(names, map(_checks.sealed, columns), strict=True)),
    }


def _row(comparison: Comparison) -> ComparisonRow:
    return next(x for x in comparison.rows if x.name == "policy")


def _gain(comparison: Comparison, chain: float) -> tuple[float, ...]:
    ours, theirs = (
        comparison.evaluations[x].start_values for x in ("policy", "baseline")
    )
    known = np.isfinite(ours) & np.isfinite(theirs)
    found = gaps(ours[known], theirs[known])
    n = found.size
    even = np.full(n, 1 / n)
    better = probability(found > 0, even)
    likely = (better * n + 1) / (n + 2)

    def sd(share: FloatArray) -> float:
        return float(np.sqrt(share @ (found - share @ found) ** 2))

    row = _row(comparison)
    return (
        row.difference,
        row.difference_mcse,
        sd(even) * float(np.sqrt(n / max(n - 1, 1))),
        bootstrap_mcse(sd, even, chain=chain),
        better,
        float(share_mcse(likely, 1 / n + chain)),
    )


def _followed(
    policy: FloatArray, recommended: IntArray, visits: IntArray
) -> FloatArray:
    """Probability that the policy does as recommended, by visits, ``[P]``."""
    followed = np.take_along_axis(policy.T, np.maximum(recommended, 0), axis=0)
    return _checks.sealed(followed @ visits / visits.sum())


def _recommendations(best: list[Advice], task: Task) -> tuple[IntArray, BoolArray]:
    """Find each prior's action ``[P, S]``, and where they flip, ``[S]``."""
    chosen = actions(np.stack([x.policy for x in best]), task).copy()
    ties = np.stack([x.best for x in best])
    agreed = common_best(ties)
    chosen[:, agreed] = ties.all(axis=0).argmax(axis=1)[agreed]
    return _checks.sealed(chosen), _checks.sealed(~agreed & ~task.is_terminal)


def _stake(best: list[Advice], recommended: IntArray, flips: BoolArray) -> FloatArray:
    """Find what is at stake in each state, ``[S]``."""
    stake = np.zeros(flips.size)
    advised = recommended[:, flips].T  # [states, P]
    for q in (x.action_value[flips] for x in best):
        of_advised = np.take_along_axis(q, advised, axis=1)
        loss = np.fmax.reduce(q, axis=1) - of_advised.min(axis=1)
        stake[flips] = np.maximum(stake[flips], loss)
    return _checks.sealed(stake)
