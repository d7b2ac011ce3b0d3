"""The two methods at work on a field."""

from collections.abc import Callable

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine import BLOCK
from bayesmdp.engine.ascent import AscentSettings, AscentState, climb, gap, soften
from bayesmdp.optimisation._field import Field
from bayesmdp.optimisation._methods import MirrorAscent, StochasticGradient
from bayesmdp.optimisation._result import Step

_SOFTNESS = 0.1
Watch = Callable[[Step], None]


def mirror_state(policy: FloatArray, field: Field, method: MirrorAscent) -> AscentState:
    """Return the state of an ascent that starts from a policy."""
    problem = field.problem
    rows = soften(field.rows(policy), problem.source, problem.n_live, _SOFTNESS)
    return AscentState(rows, batch=field.affordable(2e9, 16, method.batch))


def mirror_ascent(
    name: str,
    state: AscentState,
    field: Field,
    method: MirrorAscent,
    n_steps: int,
    tolerance: float,
    watch: Watch,
) -> None:
    """Climb from a state, in place, up to ``n_steps`` steps in all."""
    problem = field.problem
    settings = AscentSettings(
        n_steps,
        method.batch,
        field.affordable(3e10, 32, method.max_batch),
        tolerance,
    )

    def after_step(now: AscentState) -> None:
        watch(Step(name, now.step, now.values[-1], now.gap, now.batch))

    climb(state, field.slopes, problem.source, problem.n_live, settings, after_step)


def stochastic_gradient(
    name: str,
    policy: FloatArray,
    field: Field,
    method: StochasticGradient,
    watch: Watch,
) -> FloatArray:
    """Run Algorithm 2 from a policy; return the last one."""
    problem = field.problem
    source, n = problem.source, problem.n_live
    rows = field.rows(policy)
    others = np.maximum(np.bincount(source, minlength=n)[source] - 1, 1)
    logits = np.log(
        (1 - method.softness) * rows + method.softness * (1 - rows) / others
    )
    began, shared = field.used, -(-method.batch // BLOCK) * BLOCK
    for step in range(method.n_steps):
        top = np.full(n, -np.inf)
        np.maximum.at(top, source, logits)
        weight = np.exp(logits - top[source])
        pi = weight / np.bincount(source, weight, minlength=n)[source]
        every = method.resample_every
        group = 0 if every == 0 else step // every
        field.used = began + (group + 1) * shared
        found = field.slopes(pi, method.batch, first=field.used - shared)
        logits = logits + method.rate(step) * pi * found.slope
        watch(Step(name, step + 1, found.value, gap(found, source, n), method.batch))
    top = np.full(n, -np.inf)
    np.maximum.at(top, source, logits)
    return field.policy(np.exp(logits - top[source]))
