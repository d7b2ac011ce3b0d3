"""What each stage of a search is worth: the normal effort with one left out in turn.

Switches live here: a stage is left out by a smaller `Effort`, or by putting something
in place of what does it. Losses are paired differences to the whole search in the
objective, on draws that no search has met, in thousandths of the nominal policy's
epistemic standard deviation, and means over the problems of a group. Times are those of
all threads together (CPU), which other work on the machine changes little.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np

import bayesmdp as bm
from bayesmdp.optimisation import Objective
from bayesmdp.optimisation import _search as search
from bayesmdp.optimisation._oracle import Selection, objective_difference
from bayesmdp.optimisation._settings import EFFORTS, Effort
from bayesmdp.posterior import Fitted
from benchmarks.policies import golden
from benchmarks.tables import table

NORMAL = EFFORTS["normal"]
THREADS, N_DRAWS, SEED = 2, 4096, 11
WHOLE = "whole search"


class _AsGiven(Selection):
    """Tells nothing: policies stay in the order given."""

    def order(self, policies: list[Any]) -> list[int]:
        return list(range(len(policies)))


def _selection(of: str, kind: type[Selection]) -> Callable[[], Any]:
    """Leave out one of the two comparisons."""

    def make(oracle: Any, purpose: str, n_draws: int) -> Selection:
        return (kind if purpose == of else Selection)(oracle, purpose, n_draws)

    return lambda: patch.object(search, "Selection", make)


class _Last(_AsGiven):
    def order(self, policies: list[Any]) -> list[int]:
        return super().order(policies)[::-1]


def _instead(what: str, by: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: patch(f"bayesmdp.optimisation.{what}", by)


@dataclass(frozen=True)
class Stage:
    """A way to search without something."""

    name: str
    effort: Effort = NORMAL
    without: Callable[[], AbstractContextManager[Any]] = nullcontext


_NOMINAL = replace(NORMAL, starts=("nominal",))
STAGES = (
    Stage(WHOLE),
    Stage("with an MLE start", replace(NORMAL, starts=(*NORMAL.starts, "mle"))),
    Stage("without second-order start", _NOMINAL),
    Stage("without comparison of starts", without=_selection("select", _AsGiven)),
    Stage("without second start that climbs", replace(NORMAL, n_climbs=1)),
    Stage("without largest sample", replace(NORMAL, stages=NORMAL.stages[:-1])),
    Stage("without both larger samples", replace(NORMAL, stages=NORMAL.stages[:1])),
    Stage("without ascent", without=_instead("_search.Search.climb", lambda *_: None)),
    Stage(
        "without ascent and second-order start",
        _NOMINAL,
        _instead("_search.Search.climb", lambda *_: None),
    ),
    Stage(
        "without stop within noise", without=_instead("_search._gain", lambda *_: 0.0)
    ),
    Stage(
        "without leaving out unlikely actions",
        without=_instead("_oracle.Oracle.tried", lambda _, rows: rows),
    ),
    Stage("without comparison at the end", without=_selection("choose", _Last)),
    Stage(
        "without rounding",
        without=_instead("_search.Search._rounded", lambda _, __, chosen: chosen),
    ),
    Stage(
        "without hindsight bound",
        without=_instead("_oracle.hindsight_bound", lambda *_: (np.nan, np.nan)),
    ),
)


def random_mdp(seed: int, n_states: int, n_actions: int) -> bm.worlds.MDP:
    """Rows of few likely next states, rewards at random."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(n_states, 0.1), size=(n_states, n_actions))
    reward = rng.normal(size=(n_states, n_actions))
    task = bm.Task(n_states, n_actions, reward, discount=0.95)
    return bm.worlds.MDP(bm.Dynamics.from_dense(rows), task)


def after(seed: int, n_states: int, n_actions: int, n: int) -> bm.Posterior:
    """Fit a random MDP after so many transitions."""
    world = random_mdp(seed, n_states, n_actions)
    log, prior = world.sample(n, seed=seed), bm.SymmetricPrior(0.1)
    return bm.fit(log, world.task, prior=prior)  # type: ignore[return-value]


def sepsis(prior: Any = None) -> Fitted:
    """Fit a cohort of 2,000 patients."""
    world = bm.worlds.icu_sepsis()
    log = world.simulate(world.expert, 2_000, seed=7005)
    return bm.fit(log, world.task, prior=prior, min_count=5)


def groups() -> Iterator[tuple[str, list[Fitted], Objective]]:
    """Problems that belong together; what is judged is made when it is asked for."""
    mean = bm.PosteriorMean()
    known = {name: posterior for name, _, posterior in golden()}
    grid = [known[f"grid {n}"] for n in (25, 50, 100, 250, 500)]
    synthetic = [x for name, x in known.items() if name.startswith("synthetic")]
    yield f"golden grid ({len(grid)})", grid, mean
    yield f"golden synthetic ({len(synthetic)})", synthetic, mean
    small = [after(s, 8, 3, 60) for s in range(7101, 7113)]
    yield f"random 8 x 3 ({len(small)})", list(small), mean
    large = [after(s, 50, 4, 1_000) for s in (7003, 7101, 7102)]
    yield f"random 50 x 4 ({len(large)})", list(large), mean
    learnt = [bm.fit(x.counts, x.task) for x in (*grid[:3], *synthetic[:3])]
    yield f"default prior ({len(learnt)})", learnt, mean
    few = [*grid[:3], *synthetic[:5]]
    yield f"CVaR(0.1) ({len(few)})", few, bm.CVaR(0.1)
    yield f"CVaR(0.1), default prior ({len(learnt)})", learnt, bm.CVaR(0.1)
    yield "sepsis, sparse prior", [sepsis(bm.SparsePrior(fallback="death"))], mean
    yield "sepsis, default prior", [sepsis()], mean


def searched(
    posterior: Fitted, stage: Stage, objective: Objective
) -> tuple[float, bm.Optimisation]:
    """CPU seconds of one search, and its result."""
    with patch.dict(EFFORTS, {"normal": stage.effort}), stage.without():
        began = time.process_time()
        found = bm.optimise(posterior, objective, seed=SEED, threads=THREADS)
        return time.process_time() - began, found


def losses(
    posterior: Fitted, policies: dict[str, Any], objective: Objective
) -> dict[str, tuple[float, float]]:
    """Return what is lost without each stage, and the error, in the units above."""
    draws = posterior.draws(1024 if posterior.task.n_states > 100 else N_DRAWS, seed=5)
    nominal = bm.policies.nominal(posterior)
    every = {"nominal": nominal, **policies}
    found = bm.compare(every, draws, reference=WHOLE, progress=False)
    values = {name: x.start_values for name, x in found.evaluations.items()}
    unit = 1e-3 * found.evaluations["nominal"].start_epistemic_sd
    apart = {x.name: (-x.difference, x.difference_mcse) for x in found.rows}
    if not objective.linear:
        even = np.full(draws.n_draws, 1 / draws.n_draws)
        apart = {
            name: objective_difference(values[WHOLE], objective, x, even, draws)
            for name, x in values.items()
        }
    return {name: (x / unit, error / unit) for name, (x, error) in apart.items()}


def run() -> list[dict[str, Any]]:
    """Leave out each stage on every problem; a record for each group."""
    out = []
    for group, posteriors, objective in groups():
        seconds = {stage.name: 0.0 for stage in STAGES}
        lost: dict[str, list[tuple[float, float]]] = {}
        for posterior in posteriors:
            bm.optimise(posterior, objective, seed=SEED, max_seconds=0)  # kernels
            results = {x.name: searched(posterior, x, objective) for x in STAGES}
            for name, (took, _) in results.items():
                seconds[name] += took / len(posteriors)
            policies = {name: x.policy for name, (_, x) in results.items()}
            for name, of in losses(posterior, policies, objective).items():
                lost.setdefault(name, []).append(of)
        mean = {
            name: [
                float(np.mean([x for x, _ in of])),
                float(np.sqrt(sum(e**2 for _, e in of)) / len(of)),
            ]
            for name, of in lost.items()
        }
        out.append({"group": group, "seconds": seconds, "lost": mean})
    return out


def ablation_table(found: list[dict[str, Any]]) -> list[str]:
    """Lines of a table: stages by groups of problems."""
    rows = []
    for name in ("nominal", *(stage.name for stage in STAGES)):
        cells = []
        for group in found:
            took, (lost, error) = group["seconds"].get(name), group["lost"][name]
            whole = group["seconds"][WHOLE]
            said = f"{round(lost, 1) + 0.0:.1f} ({error:.1f})"
            if name == WHOLE:
                said = f"{whole:.2f} s"
            elif took is not None:
                said += f", {100 * (took / whole - 1):+.0f} %"
            cells.append(said)
        rows.append([name, *cells])
    return table(["", *(group["group"] for group in found)], rows)
