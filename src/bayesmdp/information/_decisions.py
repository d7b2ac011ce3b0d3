"""The policies among which a decision is taken, and what is known of their values."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayesmdp import policies as baselines
from bayesmdp._typing import FloatArray, PolicyLike
from bayesmdp.engine import Pool, Problem, check_ending
from bayesmdp.engine.planning import hindsight_choices, plan
from bayesmdp.errors import ArgumentError, EndlessError
from bayesmdp.evaluation import Swept
from bayesmdp.evaluation.paired import controlled, paired, sweep_paired
from bayesmdp.model import as_policy
from bayesmdp.optimisation import optimise
from bayesmdp.posterior import Belief, Draws

_N_OPTIMA = 50  # draws whose own optimal policies are in the default set


@dataclass(frozen=True, eq=False)
class Decisions:
    """Policies and their values on common draws; the best comes out at 0."""

    names: tuple[str, ...]  # [P]
    policies: FloatArray  # [P, S, A]
    swept: Swept

    @cached_property
    def best(self) -> int:
        """Policy of the highest expected value."""
        found, weights, _ = controlled(self.swept, 0)
        return int((found @ weights).argmax())

    @cached_property
    def _gaps(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return controlled(self.swept, self.best)

    @cached_property
    def level(self) -> FloatArray:
        """Expected value less that of the best, ``[P]``."""
        found, weights, _ = self._gaps
        return np.minimum(found @ weights, 0.0)

    @cached_property
    def covariance(self) -> FloatArray:
        """Squared Monte Carlo errors of levels, ``[P, P]``."""
        found, weights, inflation = self._gaps
        raw, _ = paired(self.swept, self.best)
        off = inflation[:, None] * (found - (found @ weights)[:, None])
        plain = raw - (raw @ weights)[:, None]
        chain = self.swept.draws.belief.chain_noise
        common = chain * (plain * weights) @ plain.T  # models may be a sample
        if self.swept.draws.exact:
            return np.asarray(common)
        own = (off * weights) @ off.T / max(weights.size - 1, 1)
        return np.asarray(own + common)

    def error(self, share: FloatArray) -> FloatArray:
        """Error of ``sum_j share[..., j] level[j]``."""
        squared = np.einsum("...i,ij,...j->...", share, self.covariance, share)
        return np.asarray(np.sqrt(np.maximum(squared, 0.0)))

    def evpi(self) -> tuple[float, float]:
        """Value of knowing the model when choosing among the policies, and error."""
        gaps, weights = paired(self.swept, self.best)
        gain = gaps.max(axis=0)
        mean = float(gain @ weights)
        draws = self.swept.draws
        own = 0.0 if draws.exact else 1 / max(gain.size - 1, 1)
        noise = own + draws.belief.chain_noise
        return mean, float(np.sqrt((gain - mean) ** 2 @ weights * noise))


def decide(
    posterior: Belief,
    policies: object,
    draws: Draws,
    seed: int,
    pool: Pool,
    how: dict[str, Any],
) -> Decisions:
    """Read or make the policies, and value them on the draws."""
    if policies is None:
        made = _default_set(posterior, seed, pool, how)
    else:
        made = _given_set(posterior, policies)
    names: list[str] = []
    kept: list[FloatArray] = []
    for name, policy in made.items():
        if not any(np.array_equal(policy, other) for other in kept):
            names.append(name)
            kept.append(policy)
    table = np.stack(kept)
    swept = sweep_paired(table, draws, pool=pool)
    return Decisions(tuple(names), table, swept)


def _given_set(posterior: Belief, policies: object) -> dict[str, FloatArray]:
    """Policies by name; a list has numbers for names."""
    if not isinstance(policies, Mapping):
        given: Any = policies
        try:
            policies = {f"policy {i}": policy for i, policy in enumerate(given)}
        except TypeError:
            raise ArgumentError(
                "`policies` must be a dict of policies by name, or a list of them; got "
                f"{type(given).__name__}."
            ) from None
    if not policies:
        raise ArgumentError("`policies` holds none; leave it out for a default set.")
    made: dict[str, FloatArray] = {}
    for name, policy in policies.items():
        asked: PolicyLike = policy
        made[str(name)] = as_policy(asked, posterior, f"policies[{name!r}]")
    return made


def _default_set(
    posterior: Belief, seed: int, pool: Pool, how: dict[str, Any]
) -> dict[str, FloatArray]:
    """Behaviour, nominal, optimised, and the optima of single draws."""
    made: dict[str, FloatArray] = {}
    if posterior.counts is not None:
        made["behaviour"] = baselines.behaviour(posterior)
    made["nominal"] = baselines.nominal(posterior)
    found = optimise(posterior, seed=seed, effort="quick", **how)
    made["optimised"] = found.policy
    every = Problem.of_belief(posterior)
    n = posterior.n_models
    exact = n is not None and n <= _N_OPTIMA
    n_draws = n if exact and n is not None else _N_OPTIMA
    stream = posterior.stream(None if exact else n_draws, seed, "information optima")
    warm = plan(every).choice
    _, choices = hindsight_choices(every.with_stream(stream), n_draws, warm, pool)
    for number, choice in enumerate(choices):
        row = np.zeros(every.rows.row.size)
        row[choice] = 1.0
        made[f"optimum of draw {number}"] = every.rows.as_policy(row)
    return {name: x for name, x in made.items() if _has_mean(posterior, x)}


def _has_mean(posterior: Belief, policy: FloatArray) -> bool:
    """Whether a policy ends, and its value has a mean."""
    if posterior.task.discount < 1:
        return True
    try:
        (ending,) = check_ending(Problem.of_belief(posterior, policy[None]), posterior)
    except EndlessError:
        return False
    return bool(ending.visits_exist)
