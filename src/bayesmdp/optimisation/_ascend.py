"""The two methods at work on a field."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine import BLOCK, Slopes
from bayesmdp.engine.ascent import AscentSettings, AscentState, climb, gap, soften
from bayesmdp.optimisation._oracle import Field
from bayesmdp.optimisation._methods import MirrorAscent, StochasticGradient
from bayesmdp.optimisation._result import Step

_SOFTNESS = 0.1
_SHORT_STEPS, _SHORT_BATCH = 10, 128
_REFINE_SOFTNESS = 0.01
_REFINE_STAGES = ((16, 15), (4, 6), (1, 3))  # share of the sample, most steps on it
_REFINE_BUDGET, _REFINE_DRAWS = 6e9, 16384
_REFINE_PER_ROW = 130  # what a sample's luck adds grows with the rows it decides on
Watch = Callable[[Step, FloatArray], None]


def mirror_state(policy: FloatArray, field: Field, method: MirrorAscent) -> AscentState:
    """Return the state of an ascent that starts from a policy."""
    problem = field.problem
    rows = soften(field.rows(policy), problem.rows.source, problem.n_live, _SOFTNESS)
    return AscentState(rows, batch=field.affordable(5e8, 16, method.batch))


def settings_of(
    method: MirrorAscent, field: Field, tolerance: float, *, short: bool
) -> AscentSettings:
    """Return how an ascent is run: a short one to tell starts apart, or to the end."""
    n_steps = min(_SHORT_STEPS, method.n_steps) if short else method.n_steps
    most = min(_SHORT_BATCH, method.max_batch) if short else method.max_batch
    largest = field.affordable(5e9, 32, most)
    return AscentSettings(n_steps, largest, tolerance)


def mirror_ascent(
    name: str,
    state: AscentState,
    field: Field,
    settings: AscentSettings,
    watch: Watch,
) -> None:
    """Climb from a state, in place."""
    problem = field.problem

    def after_step(now: AscentState) -> None:
        step = Step(name, now.step, now.values[-1], now.gap, now.batch)
        watch(step, now.policy)

    def oracle(rows: FloatArray, n_draws: int) -> Slopes:
        return field.slopes(field.sparse(rows), n_draws)

    climb(state, oracle, problem.rows.source, problem.n_live, settings, after_step)


def refine(
    name: str, policy: FloatArray, field: Field, tolerance: float, watch: Watch
) -> AscentState:
    """Climb on a sample of fresh draws that all steps share, as if it were exact.

    The last gains drown in the noise between batches; on a shared sample they do not,
    and what the sample's own luck adds falls with its size. Most steps are taken on the
    beginning of the sample.
    """
    problem = field.problem
    wanted = min(_REFINE_PER_ROW * problem.rows.source.size, _REFINE_DRAWS)
    largest = field.affordable(_REFINE_BUDGET, 64, wanted)
    first = field.used
    field.used += largest
    rows = soften(
        field.rows(policy), problem.rows.source, problem.n_live, _REFINE_SOFTNESS
    )
    state = AscentState(rows, batch=largest)
    for share, steps in ((1, 100),) if field.exact else _REFINE_STAGES:
        n = max(largest // share // BLOCK, 4) * BLOCK

        def oracle(rows: FloatArray, _: int, n: int = n) -> Slopes:
            found = field.slopes(field.sparse(rows), n, first=first)
            return replace(found, noise=np.zeros_like(found.noise))

        def after_step(now: AscentState, n: int = n) -> None:
            watch(Step(name, now.step, now.values[-1], now.gap, n), now.policy)

        state.converged = False
        settings = AscentSettings(state.step + steps, n, tolerance)
        climb(state, oracle, problem.rows.source, problem.n_live, settings, after_step)
    return state


def stochastic_gradient(
    name: str,
    policy: FloatArray,
    field: Field,
    method: StochasticGradient,
    watch: Watch,
    offset: int = 0,
) -> FloatArray:
    """Run Algorithm 2 from a policy; return the last one.

    A policy that gives every action some probability is taken as it is, others are
    softened as published. ``offset`` is where the schedule of the rate begins.
    """
    problem = field.problem
    source, n = problem.rows.source, problem.n_live
    rows = field.rows(policy)
    others = np.maximum(np.bincount(source, minlength=n)[source] - 1, 1)
    if not (rows > 0).all():
        rows = (1 - method.softness) * rows + method.softness * (1 - rows) / others
    logits = np.log(rows)
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
        logits = logits + method.rate(offset + step) * pi * found.slope
        left = gap(found, source, n)
        watch(Step(name, step + 1, found.value, left, method.batch), pi)
    top = np.full(n, -np.inf)
    np.maximum.at(top, source, logits)
    return field.policy(np.exp(logits - top[source]))
