"""The comparison that belongs to what a run holds now."""

import numpy as np

from bayesmdp._typing import Seed
from bayesmdp.evaluation import Comparison, compare
from bayesmdp.optimisation import Optimisation
from bayesmdp.storage._outcomes import (
    COMPARISON,
    OPTIMISED,
    load_comparison,
    load_optimisation,
    save_comparison,
)
from bayesmdp.storage._policies import find_policies
from bayesmdp.storage._results import check_result
from bayesmdp.storage._run import Run

_USUAL = ("behaviour", "mle", "nominal")


def current_comparison(
    run: Run,
    *,
    n_draws: int = 10_000,
    seed: Seed = 0,
    threads: int | None = None,
    progress: bool | None = None,
) -> tuple[Comparison, str]:
    """Return the comparison kept with a run, made again where it is not up to date.

    It is made, and kept, where there is none (of behaviour, mle and nominal policy),
    and where the run's optimised policy is missing in it or has changed since.

    Parameters
    ----------
    run
        From `load`.
    n_draws, seed, threads, progress
        Of a comparison that is made; `bayesmdp.compare` says what they mean.

    Returns
    -------
    tuple
        The comparison, and why it had to be made; nothing where it had not.

    Examples
    --------
    >>> import tempfile, bayesmdp as bm
    >>> world = bm.worlds.synthetic(0)
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
    >>> run = bm.storage.load(bm.storage.save(posterior, tempfile.mkdtemp()))
    >>> bm.storage.current_comparison(run, n_draws=100)[1]
    'no comparison was kept, so that one is made: behaviour, mle, nominal'
    >>> bm.storage.current_comparison(run)[1]
    ''
    """
    best = load_optimisation(run.path) if OPTIMISED in run.results else None
    kept = load_comparison(run.path) if COMPARISON in run.results else None
    if kept is not None and _knows(kept, best):
        return kept, ""
    check_result(run.path, COMPARISON, overwrite=True)
    if kept is None:
        policies = find_policies(run, _USUAL, seed=seed, threads=threads)
        reference, min_count, why = _USUAL[0], 5, "no comparison was kept"
    else:
        policies = {name: x.policy for name, x in kept.evaluations.items()}
        reference, min_count, why = (
            kept.reference,
            kept.min_count,
            "the comparison kept lacks",
        )
        why += " the optimised policy as it is now"
    if best is not None:
        policies[OPTIMISED] = best.policy
    made = compare(
        policies,
        run.posterior.draws(n_draws, seed),
        reference=reference,
        min_count=min_count,
        threads=threads,
        progress=progress,
    )
    save_comparison(run.path, made, overwrite=True)
    return made, f"{why}, so that one is made: {', '.join(policies)}"


def _knows(kept: Comparison, best: Optimisation | None) -> bool:
    """Whether the optimised policy is compared as it is now, or there is none."""
    if best is None:
        return True
    compared = kept.evaluations.get(OPTIMISED)
    return compared is not None and np.array_equal(compared.policy, best.policy)
