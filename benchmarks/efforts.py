"""What more effort in a search brings, and what each stage of it is worth.

Gains are paired differences of the posterior mean of the value against the nominal
policy, in its epistemic standard deviations, on draws that no search has met. Levels
were tuned on the golden problems and on seeds below 3,000; the random MDPs and the
cohort here are others.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import bayesmdp as bm
from bayesmdp.optimisation._settings import EFFORTS
from bayesmdp.posterior import Fitted
from benchmarks import Row, ablation, made_with
from benchmarks.policies import golden
from benchmarks.tables import table

THREADS, N_DRAWS, SEED = 2, 4096, 11
_STAGES = (
    "## What each stage is worth\n\n"
    "The normal search with one stage left out in turn, or added: what that loses "
    "against the whole search in the objective, in the same thousandths, with the "
    "paired error, mean over the problems of a group (their number in brackets), and "
    "the change in CPU time, of which less than a tenth is noise. `nominal` is the "
    "policy that every search begins from.\n"
)

SLOW = 1.0  # second, that the normal effort may take with 50 states and 4 actions


def problems() -> Iterator[tuple[str, Fitted]]:
    """Golden ones, random MDPs with little data, a cohort of 2,000 patients."""
    for name, _, posterior in golden():
        if name in ("grid 25", "grid 250", "synthetic 8"):
            yield name, posterior
    yield "random 15 x 3, 150 (7001)", ablation.after(7001, 15, 3, 150)
    yield "random 50 x 4, 1000 (7003)", ablation.after(7003, 50, 4, 1_000)
    prior = bm.SparsePrior(fallback="death")
    yield "sepsis, 2,000 patients", ablation.sepsis(prior)


def searched(posterior: Fitted, effort: str) -> tuple[float, bm.Optimisation]:
    """CPU seconds of one search, kernels compiled, and its result."""
    how: dict[str, Any] = {"seed": SEED, "threads": THREADS, "effort": effort}
    bm.optimise(posterior, max_seconds=0, **how)
    began = time.process_time()
    found = bm.optimise(posterior, **how)
    return time.process_time() - began, found


def run() -> dict[str, Any]:
    """Search every problem in every way; a record ready for JSON."""
    rows, found = [], []
    for name, posterior in problems():
        results = {level: searched(posterior, level) for level in EFFORTS}
        nominal = bm.policies.nominal(posterior)
        draws = posterior.draws(1024 if "sepsis" in name else N_DRAWS, seed=5)
        policies = {level: result.policy for level, (_, result) in results.items()}
        compared = bm.compare(
            {"nominal": nominal, **policies}, draws, reference="nominal", progress=False
        )
        unit = compared.evaluations["nominal"].start_epistemic_sd
        gains = {
            row.name: [row.difference / unit, row.difference_mcse / unit]
            for row in compared.rows
            if row.name != "nominal"
        }
        seconds = {level: took for level, (took, _) in results.items()}
        found.append({"problem": name, "seconds": seconds, "gains": gains})
        rows.append(_row(name, seconds["normal"], gains))
    return {
        "problem": "what effort brings: gains over nominal in epistemic sds",
        "made_with": made_with(),
        "problems": found,
        "ablation": ablation.run(),
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
        "`benchmarks/results/efforts.json`. Each cell: CPU seconds of two threads, and "
        "the gain in posterior mean value over the nominal policy, in thousandths of "
        "its epistemic standard deviation, with its error.",
        "",
    ]
    rows = []
    for found in record["problems"]:
        cells = [
            f"{found['seconds'][way]:.2f} s, {1e3 * gain:+.1f} ({1e3 * error:.1f})"
            for way in EFFORTS
            for gain, error in [found["gains"][way]]
        ]
        rows.append([found["problem"], *cells])
    lines += [*table(["problem", *EFFORTS], rows), _STAGES]
    return "\n".join([*lines, *ablation.ablation_table(record["ablation"])])
