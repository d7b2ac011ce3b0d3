"""Several policies side by side, on the same draws."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Record, Sheet, Table, between, rounded, significant
from bayesmdp._typing import PolicyLike, Seed
from bayesmdp.errors import ArgumentError, BayesmdpWarning
from bayesmdp.evaluation._errors import probability
from bayesmdp.evaluation._evaluate import (
    Chosen,
    as_draws,
    evaluations_of,
    one_reward,
    share_of_visits,
    sweep_policies,
)
from bayesmdp.evaluation._evaluation import (
    Evaluation,
    in_costs,
    inference_data,
    interval_of,
)
from bayesmdp.model import as_policy
from bayesmdp.posterior import Belief, Draws

if TYPE_CHECKING:
    from concurrent.futures import Executor


@dataclass(frozen=True)
class ComparisonRow:
    """One policy of a comparison, from the start distribution."""

    name: str
    value: float
    value_mcse: float
    interval: tuple[float, float]  # 95 % over draws
    difference: float  # to the reference
    difference_mcse: float  # paired, with control variates
    difference_interval: tuple[float, float] | None  # 95 % over draws, paired
    probability_better: float | None  # than the reference, over draws
    probability_tied: float | None  # equal but for rounding, which is not better
    epistemic_sd: float
    aleatoric_sd: float
    low_support: float | None  # share of visits on pairs below ``min_count``


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Record):
    """Policies on common draws, best first; made by `bayesmdp.compare`.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(500, seed=0), world.task)
    >>> policies = {"mle": bm.policies.mle(posterior),
    ...             "nominal": bm.policies.nominal(posterior)}
    >>> table = bm.compare(policies, posterior.draws(500), reference="mle")
    >>> sorted(row.name for row in table.rows)
    ['mle', 'nominal']
    """

    _left_out = ("evaluations",)
    _table_of = "rows"
    _index = "name"

    rows: tuple[ComparisonRow, ...]  # best first
    reference: str
    min_count: int  # observations below which a pair counts as poorly supported
    evaluations: Mapping[str, Evaluation]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, for JSON; what is not finite is None."""
        cost = self.evaluations[self.reference].task.is_cost
        return super().to_dict() | ({"is_cost": True} if cost else {})

    def to_inference_data(self, chains: int = 1) -> Any:
        """Return draws of all policies' values for ArviZ; needs the extra ``arviz``.

        ``posterior`` holds ``start_value`` by policy and ``difference`` by contrast
        (each other policy minus the reference); else as `Evaluation.to_inference_data`.

        Parameters
        ----------
        chains
            How many chains the draws came from, one after the other.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> table = bm.compare({"play": [0, 0, 0], "leave": [1, 0, 0]},
        ...                    bm.worlds.casino())
        >>> draws = table.to_inference_data().posterior["difference"].values[0]
        >>> draws.ravel().round(2).tolist()
        [-9.9, 99.0]
        """
        names = list(self.evaluations)
        values = np.stack([x.start_values for x in self.evaluations.values()], axis=1)
        at = names.index(self.reference)
        gaps = np.delete(values - values[:, [at]], at, axis=1)
        contrasts = [f"{x} - {self.reference}" for x in names if x != self.reference]
        variables = {
            "start_value": (values, {"policy": names}),
            "difference": (gaps, {"contrast": contrasts}),
        }
        return inference_data(variables, self.evaluations[names[0]].weights, chains)

    def _table(self) -> Table:
        task = next(iter(self.evaluations.values())).task
        unit, what = task.reward_unit, "cost" if task.is_cost else "value"
        header = [
            "",
            f"{what}, {unit}" if unit else what,
            "95 % interval",
            f"minus {self.reference}",
            "95 % of difference",
            "better",
            "epistemic sd",
            "aleatoric sd",
            f"under {self.min_count} visits",
        ]
        rows = []
        for row in self.rows:
            is_reference = row.name == self.reference
            rows.append(
                [
                    row.name,
                    rounded(row.value, row.value_mcse),
                    between(*row.interval),
                    ""
                    if is_reference
                    else rounded(row.difference, row.difference_mcse),
                    between(*row.difference_interval)
                    if row.difference_interval
                    else "",
                    _percent(row.probability_better),
                    significant(row.epistemic_sd),
                    significant(row.aleatoric_sd),
                    _percent(row.low_support),
                ]
            )
        return Table(header, rows)

    def __repr__(self) -> str:
        best = self.rows[0]
        said = f"best {best.name!r} {rounded(best.value, best.value_mcse)}"
        policies = _checks.many(len(self.rows), "policy")
        return f"Comparison({policies}, {said}, reference {self.reference!r})"

    def _sheet(self, shown: int = 10) -> Sheet:
        cost = self.evaluations[self.reference].task.is_cost
        what, better = ("cost", "lower cost") if cost else ("value", "higher value")
        notes = [
            f"± Monte Carlo error; 95 %: posterior intervals of the {what} and of the "
            f"paired difference; better: probability of a {better} than "
            f"{self.reference} (a tie is not better); under {self.min_count} visits: "
            "share of visits on pairs logged less often",
            *dict.fromkeys(
                f"note: {note}" for e in self.evaluations.values() for note in e.notes
            ),
        ]
        of = self.evaluations[self.reference].drawn
        title = f"Policies compared with {self.reference}, over the same {of}"
        return Sheet(title, [self._table(), *notes])


def compare(
    policies: Mapping[str, PolicyLike],
    draws: Draws | Belief,
    *,
    reward: Chosen | None = None,
    n_draws: int | None = None,
    seed: Seed | None = None,
    reference: str | None = None,
    min_count: int = 5,
    solver: str = "auto",
    threads: int | None = None,
    executor: Executor | None = None,
    device: str | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Compare policies on the same draws.

    Parameters
    ----------
    policies
        Two or more, by name.
    draws
        From ``posterior.draws(n, seed)``: fresh ones, not those a policy was chosen on.
        Or a posterior or an ensemble.
    reward
        Which of several rewards, by name, or weights by name: net benefit
        ``{"qaly": 50_000, "cost": -1}``.
    n_draws, seed
        Of draws from a posterior, as in `bayesmdp.evaluate`.
    reference
        Name of the policy that the others are compared with; the first by default.
    min_count
        Observations below which a pair counts as poorly supported (``low_support``); no
        pair is left out, as by ``min_count`` of `bayesmdp.fit`.
    solver, threads, executor, device, progress
        As in `bayesmdp.evaluate`.

    Returns
    -------
    Comparison
        ``probability_better`` is the weight of the draws in which a policy has a higher
        value than the reference, ``probability_tied`` of those in which both values are
        equal up to rounding: a tie does not count as better.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> casino = bm.worlds.casino()
    >>> table = bm.compare({"play": [0, 0, 0], "leave": [1, 0, 0]}, casino.draws())
    >>> [(row.name, round(row.value, 2)) for row in table.rows]
    [('leave', -1.0), ('play', -45.55)]
    """
    from bayesmdp import engine
    from bayesmdp.evaluation.paired import differences, paired

    draws = as_draws(draws, n_draws, seed)
    belief = one_reward(draws.belief, reward, "compare")
    draws = draws if belief is draws.belief else replace(draws, belief=belief)
    if not isinstance(policies, Mapping) or len(policies) < 2:
        raise ArgumentError(
            "`policies` must map at least two names to policies, such as "
            "{'care': [0, 0], 'drug': [1, 0]}."
        )
    names = list(policies)
    for name in names:
        _checks.of_type("policies", name, str, ArgumentError)
    if reference is not None:
        _checks.of_type("reference", reference, str, ArgumentError)
    reference = names[0] if reference is None else reference
    if reference not in policies:
        hint = _checks.did_you_mean(reference, names)
        raise ArgumentError(
            f"`reference` {reference!r} is not among the policies: {', '.join(names)}"
            f"{hint}."
        )
    min_count = _checks.integer("min_count", min_count, 1, ArgumentError)
    probabilities = np.stack(
        [as_policy(p, draws.belief, f"policies[{n!r}]") for n, p in policies.items()]
    )
    with engine.workers(threads, executor, device) as pool:
        how: Any = {"solver": solver, "progress": progress}
        swept = sweep_policies(probabilities, draws, pool, **how)
    at = names.index(reference)
    evaluations = {name: evaluations_of(swept, p)[0] for p, name in enumerate(names)}
    difference, error = differences(swept, at)
    gaps, weights = paired(swept, at)
    rows = [
        ComparisonRow(
            name=name,
            value=evaluations[name].start_value,
            value_mcse=evaluations[name].start_value_mcse,
            interval=evaluations[name].interval(),
            difference=float(difference[p]),
            difference_mcse=float(error[p]),
            difference_interval=None if p == at else interval_of(gaps[p], weights),
            probability_better=None if p == at else probability(gaps[p] > 0, weights),
            probability_tied=None if p == at else probability(gaps[p] == 0, weights),
            epistemic_sd=evaluations[name].start_epistemic_sd,
            aleatoric_sd=evaluations[name].start_aleatoric_sd,
            low_support=_low_support(evaluations[name], draws, min_count),
        )
        for p, name in enumerate(names)
    ]
    rows.sort(key=lambda row: -row.difference)
    for note in dict.fromkeys(n for e in evaluations.values() for n in e.notes):
        warnings.warn(note, BayesmdpWarning, stacklevel=2)
    found = Comparison(tuple(rows), reference, min_count, evaluations)
    return _in_costs(found) if belief.task.is_cost else found


def _in_costs(found: Comparison) -> Comparison:
    """Return the comparison of minus costs in costs: the least one first."""
    rows = []
    for row in found.rows:
        gap = row.difference_interval
        turned: dict[str, Any] = {
            "value": -row.value,
            "interval": (-row.interval[1], -row.interval[0]),
            "difference": 0.0 - row.difference,
            "difference_interval": None if gap is None else (-gap[1], -gap[0]),
        }
        rows.append(replace(row, **turned))
    turned = {name: in_costs(x) for name, x in found.evaluations.items()}
    return replace(found, rows=tuple(rows), evaluations=turned)


def _low_support(evaluation: Evaluation, draws: Draws, min_count: int) -> float | None:
    """Share of visits on pairs observed less often than that, where it is known."""
    share = share_of_visits(
        evaluation.occupancy, evaluation.policy, draws, fewer_than=min_count
    )
    return None if np.isnan(share) else share


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"
