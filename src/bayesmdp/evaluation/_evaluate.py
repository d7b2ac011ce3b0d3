"""Algorithm 1 of the paper: value, epistemic and aleatoric uncertainty of a policy.

Every draw of the dynamics gives the mean and the variance of the return in closed form
(engine/_kernel.py). Over draws, the law of total variance parts the doubt::

    Var(return) = Var_draws(V)  +  mean_draws(return variance)
                  epistemic        aleatoric

From the start distribution ``rho``, epistemic is ``Var(rho.V)``; a random start is
chance, not ignorance, so it counts as aleatoric:
``mean(rho.var + sum_s rho[s] (V[s] - rho.V)^2)``.
"""

import warnings
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._progress import progress_bar
from bayesmdp._typing import ArrayLike, FloatArray
from bayesmdp.errors import ArgumentError, BayesmdpWarning
from bayesmdp.evaluation._evaluation import Evaluation
from bayesmdp.model import as_policy
from bayesmdp.posterior import Draws

if TYPE_CHECKING:
    from bayesmdp.evaluation._measure import Measured

_FIRST_STAGE = 256  # draws before a tolerance is looked at
_ROUNDING = 1e-13  # doubt of this share of the value is rounding


def evaluate(
    policy: ArrayLike,
    draws: Draws,
    *,
    tolerance: float | None = None,
    control: bool = True,
    threads: int | None = None,
    executor: Executor | None = None,
    progress: bool | None = None,
) -> Evaluation:
    """Value of a policy with both uncertainties.

    Parameters
    ----------
    policy
        ``[S, A]`` probabilities or ``[S]`` actions, on available pairs.
    draws
        From ``posterior.draws(n, seed)``; the same draws make policies comparable.
    tolerance
        Stop as soon as ``start_value_error`` is at most this; ``n_draws`` of the result
        says how many draws that took. All draws where not given.
    control
        Whether to use control variates: errors of values shrink, often tenfold and
        more, at little cost.
    threads
        Default: ``BAYESMDP_THREADS``, else every core. Results do not depend on it.
    executor
        Runs the parts of the sweep in place of a thread pool of our own.
    progress
        Whether to show a bar; by default on a terminal, after a second.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> prior = bm.SymmetricPrior(support=world.support)
    >>> posterior = bm.fit(world.sample(1000, seed=0), world.task, prior=prior)
    >>> policy = np.where(np.arange(25) % 5 == 4, 2, 1)  # right, then down
    >>> evaluation = bm.evaluate(policy, posterior.draws(2000, seed=0))
    >>> truth = world.task.start @ world.value(policy)
    >>> bool(abs(evaluation.start_value - truth) < 3 * evaluation.start_epistemic_sd)
    True
    """
    from bayesmdp import engine
    from bayesmdp.evaluation._measure import measure

    if not isinstance(draws, Draws):
        raise ArgumentError(
            "`draws` must come from `posterior.draws(n, seed)`; got "
            f"{type(draws).__name__}."
        )
    if tolerance is not None:
        tolerance = _checks.real(
            "tolerance", tolerance, ArgumentError, 0, open_low=True
        )
    probabilities = as_policy(policy, draws.posterior)
    problem = engine.Problem.of_draws(draws, probabilities[None])
    ending = engine.check_ending(problem)
    nominal = engine.nominal(problem, control=control)
    want = engine.Want(variance=True, occupancy=True)
    n_draws = draws.n_draws
    with (
        engine.workers(threads, executor) as pool,
        progress_bar("evaluating", n_draws, progress) as show,
    ):
        n = n_draws if tolerance is None else min(_FIRST_STAGE, n_draws)
        sums = None
        while True:
            sums = engine.sweep(
                problem, nominal, n, want=want, pool=pool, after=sums, progress=show
            )
            measured = measure(problem, nominal, sums)
            error = float(measured.start.value_error)
            if tolerance is None or error <= tolerance or n == n_draws:
                break
            n = _next_stage(n, error / tolerance, n_draws, engine.BLOCK)
    notes = [ending.warning] if ending.warning else []
    notes += _remarks(measured, error, tolerance, n)
    if not ending.visits_exist:
        measured.occupancy[problem.task.live] = np.nan
        notes.append(
            "The posterior mean of `occupancy` is infinite in some states: it is NaN "
            "in all but the terminal ones. Values are not affected."
        )
    for note in notes:
        warnings.warn(note, BayesmdpWarning, stacklevel=2)
    return _evaluation(measured, probabilities, draws, n, tuple(notes))


def _next_stage(n: int, ratio: float, limit: int, block: int) -> int:
    """Draws that should bring the error down by ``ratio``, at most four times more."""
    wanted = n * min(1.05 * ratio**2, 4.0)
    return min(limit, max(n + block, -(-int(wanted) // block) * block))


def _remarks(
    measured: "Measured", error: float, tolerance: float | None, n: int
) -> list[str]:
    """Say what a reader must know before believing the numbers."""
    notes = []
    if measured.n_endless:
        notes.append(
            f"{measured.n_endless} of {n} draws have episodes too long to resolve; "
            "they are left out, so values are conditional on ending."
        )
    if tolerance is not None and error > tolerance:
        notes.append(
            f"`tolerance` {tolerance:g} was not reached: the error of the start value "
            f"is {error:.2g} after all {n} draws; give more draws."
        )
    return notes


def _evaluation(
    measured: "Measured",
    policy: FloatArray,
    draws: Draws,
    n_draws: int,
    notes: tuple[str, ...],
) -> Evaluation:
    """Put the record together."""
    fields: dict[str, Any] = {}
    for name, value in vars(measured.states).items():
        fields[name] = _checks.sealed(value)
    for name, value in vars(measured.start).items():
        fields[f"start_{name}"] = float(value)
    reduction = 1.0
    doubt = fields["start_epistemic_sd"]
    matters = doubt > _ROUNDING * max(abs(fields["start_value"]), 1e-300)
    if measured.control is not None and matters and fields["start_value_error"] > 0:
        raw = doubt / np.sqrt(n_draws)
        reduction = float((raw / fields["start_value_error"]) ** 2)
    return Evaluation(
        **fields,
        occupancy=_checks.sealed(measured.occupancy),
        occupancy_error=_checks.sealed(measured.occupancy_error),
        start_values=_checks.sealed(measured.start_values),
        n_draws=n_draws,
        n_endless=measured.n_endless,
        variance_reduction=reduction,
        notes=notes,
        seed=draws.seed,
        policy=policy,
        task=draws.posterior.task,
    )
