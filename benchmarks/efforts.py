"""What more effort in a search brings, and what each part of it is worth.

Gains are paired differences of the posterior mean of the value against the nominal
policy, in its epistemic standard deviations, on draws that no search has met. Levels
were tuned on the golden problems and on seeds below 3,000; the random MDPs and the
cohort here are others.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

import bayesmdp as bm
from bayesmdp.optimisation._settings import EFFORTS, Effort
from benchmarks import Row, made_with
from benchmarks.policies import golden
from benchmarks.tables import table

THREADS, N_DRAWS, SEED = 2, 4096, 11
NORMAL = EFFORTS["normal"]
#: Ways to search: the levels, and the normal one with a part left out.
WAYS: dict[str, Effort] = {
    **EFFORTS,
    "best start": replace(NORMAL, stages=((16, 1),), n_climbs=1),
    "one climb": replace(NORMAL, n_climbs=1),
    "one stage": replace(NORMAL, stages=NORMAL.stages[:1]),
    "every start": replace(NORMAL, starts=EFFORTS["thorough"].starts),
}
SLOW = 1.0  # second, that the normal effort may take with 50 states and 4 actions


def random_mdp(seed: int, n_states: int, n_actions: int) -> bm.worlds.MDP:
    """Rows of few likely next states, rewards at random."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(n_states, 0.1), size=(n_states, n_actions))
    reward = rng.normal(size=(n_states, n_actions))
    task = bm.Task(n_states, n_actions, reward, discount=0.95)
    return bm.worlds.MDP(bm.Dynamics.from_dense(rows), task)


def problems() -> Iterator[tuple[str, bm.Posterior]]:
    """Golden ones, random MDPs with little data, a cohort of 2,000 patients."""
    for name, _, posterior in golden():
        if name in ("grid 25", "grid 250", "synthetic 8"):
            yield name, posterior
    for seed, n_states, n_actions, n in (
        (7001, 15, 3, 150),
        (7003, 50, 4, 1_000),
    ):
        world = random_mdp(seed, n_states, n_actions)
        prior = bm.SymmetricPrior(0.1)
        posterior = bm.fit(world.sample(n, seed=seed), world.task, prior=prior)
        yield f"random {n_states} x {n_actions}, {n} ({seed})", posterior
    world = bm.worlds.icu_sepsis()
    log = world.simulate(world.expert, 2_000, seed=7005)
    prior = bm.SparsePrior(fallback="death")
    yield "sepsis, 2,000 patients", bm.fit(log, world.task, prior=prior, min_count=5)


def searched(posterior: bm.Posterior, effort: Effort) -> tuple[float, bm.Optimisation]:
    """Seconds of one search, kernels compiled, and its result."""
    with patch.dict(EFFORTS, {"normal": effort}):
        bm.optimise(posterior, seed=SEED, threads=THREADS, max_seconds=0)
        began = time.perf_counter()
        found = bm.optimise(posterior, seed=SEED, threads=THREADS)
        return time.perf_counter() - began, found


def run() -> dict[str, Any]:
    """Search every problem in every way; a record ready for JSON."""
    rows, found = [], []
    for name, posterior in problems():
        results = {way: searched(posterior, effort) for way, effort in WAYS.items()}
        nominal = bm.policies.nominal(posterior)
        draws = posterior.draws(1024 if "sepsis" in name else N_DRAWS, seed=5)
        policies = {way: result.policy for way, (_, result) in results.items()}
        compared = bm.compare(
            {"nominal": nominal, **policies}, draws, reference="nominal", progress=False
        )
        unit = compared.evaluations["nominal"].start_epistemic_sd
        gains = {
            row.name: [row.difference / unit, row.difference_mcse / unit]
            for row in compared.rows
            if row.name != "nominal"
        }
        seconds = {way: took for way, (took, _) in results.items()}
        found.append({"problem": name, "seconds": seconds, "gains": gains})
        rows.append(_row(name, seconds["normal"], gains))
    return {
        "problem": "what effort brings: gains over nominal in epistemic sds",
        "made_with": made_with(),
        "problems": found,
        "rows": rows,
    }


def _row(name: str, seconds: float, gains: dict[str, list[float]]) -> dict[str, Any]:
    """Time of the normal effort; right where thorough gains little more."""
    target = SLOW if "50 x 4" in name else None
    more = gains["thorough"][0] - gains["normal"][0]
    error = float(np.hypot(gains["thorough"][1], gains["normal"][1]))
    said = f"thorough gains {more:+.4f} sd ({error:.4f}) more"
    right = more < 0.005 + 2 * error
    what = f"{name}, normal effort"
    return Row(what, seconds, "s", "<=", target, said, bool(right)).as_record()


def efforts_page(record: dict[str, Any]) -> str:
    """Write the record as a page: `docs/effort.md`."""
    made = ", ".join(f"{what} {of}" for what, of in record["made_with"].items())
    lines = [
        "# What effort brings",
        "",
        f"Written by `python -m benchmarks efforts` ({made}); the record is "
        "`benchmarks/results/efforts.json`. Each cell: seconds on two threads, and the "
        "gain in posterior mean value over the nominal policy, in thousandths of its "
        "epistemic standard deviation, with its error. The last four columns are the "
        "normal effort with one part changed: no ascent, one start that climbs instead "
        "of two, the first stage alone, and every start tried.",
        "",
    ]
    rows = []
    for found in record["problems"]:
        cells = [
            f"{found['seconds'][way]:.2f} s, {1e3 * gain:+.1f} ({1e3 * error:.1f})"
            for way in WAYS
            for gain, error in [found["gains"][way]]
        ]
        rows.append([found["problem"], *cells])
    return "\n".join([*lines, *table(["problem", *WAYS], rows)])
