"""The search for the best policy: values beside times, against published policies.

Golden policies are those of the paper's own scripts (``tests/golden``). Every
comparison is a paired difference with control variates on draws that neither side was
chosen on; "+0.4 (0.1)" means better by 0.4 with a standard error of 0.1.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp.engine import Problem
from bayesmdp.engine.planning import plan
from benchmarks import Row, made_with
from benchmarks.grid import best, new_process

Array = NDArray[np.float64]
THREADS, N_DRAWS, ROUNDING = 2, 8192, 1e-12
GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
PUBLISHED = ("mle", "nominal", "second_order", "gradient")
SGD = bm.StochasticGradient(learning_rate=10, batch=128, n_steps=10_000)


def golden() -> Iterator[tuple[str, dict[str, Any], bm.Posterior]]:
    """Name, data set and posterior of each golden problem."""
    world = bm.worlds.gridworld(0.25)
    prior = bm.SymmetricPrior(1.0, support=world.support)
    for data in json.loads((GOLDEN / "fig2_seed0.json").read_text())["datasets"]:
        triplets = np.array(data["counts"]).T
        counts = bm.Counts.from_arrays(*triplets, n_states=25, n_actions=4)
        yield f"grid {data['n']}", data, bm.fit(counts, world.task, prior=prior)
    for data in json.loads((GOLDEN / "synthetic_run0.json").read_text())["problems"]:
        task = bm.Task(5, 5, data["reward"], discount=0.999)
        counts = bm.Counts.from_dense(data["counts"])
        posterior = bm.fit(counts, task, prior=bm.SymmetricPrior(1.0))
        yield f"synthetic {data['visits']}", data, posterior


def published(data: dict[str, Any]) -> dict[str, Array]:
    """Golden policies; probabilities were stored in single precision."""
    out = {}
    for name in PUBLISHED:
        policy = np.array(data[name])
        soft = policy.ndim == 2
        out[name] = policy / policy.sum(axis=1, keepdims=True) if soft else policy
    return out


def gains(
    ours: Array, others: dict[str, Array], posterior: bm.Posterior
) -> dict[str, tuple[float, float]]:
    """Value of ours minus that of each other policy, and the errors."""
    draws = posterior.draws(N_DRAWS, seed=1)
    policies = {"ours": ours, **others}
    table = bm.compare(policies, draws, reference="ours", threads=THREADS)
    found = {row.name: row for row in table.rows}
    return {
        name: (-found[name].difference, found[name].difference_mcse) for name in others
    }


def not_below(gain: tuple[float, float]) -> bool:
    """Whether a difference is above minus two standard errors."""
    return bool(gain[0] >= -2 * gain[1] - ROUNDING)


def timed(
    posterior: bm.Posterior, repeats: int, **settings: Any
) -> tuple[float, bm.Optimisation]:
    """Least seconds of several runs, and the result."""
    seconds, result = best(
        lambda: bm.optimise(posterior, seed=0, threads=THREADS, **settings), repeats
    )
    return seconds, result


def against_published() -> tuple[list[Row], list[dict[str, Any]]]:
    """Every golden problem: our value minus every golden policy's."""
    rows, table = [], []
    for name, data, posterior in golden():
        seconds, result = timed(posterior, 2)
        gain = gains(result.policy, published(data), posterior)
        lost = [other for other in PUBLISHED if not not_below(gain[other])]
        verdict = f"below {', '.join(lost)}" if lost else "not below any"
        said = ", ".join(f"{k} {v:+.2g} ({e:.1g})" for k, (v, e) in gain.items())
        target = 1.0 if name.startswith("grid") else 0.3
        rows.append(
            Row(f"{name}, optimise", seconds, "s", "<=", target, said, not lost)
        )
        table.append(
            {
                "problem": name,
                "seconds": seconds,
                "value": result.start_value,
                "upper_bound": result.upper_bound,
                "minus": {k: list(v) for k, v in gain.items()},
                "verdict": verdict,
                "chosen_start": result.chosen_start,
                "published_gradient_seconds": data["gradient_seconds"],
            }
        )
    return rows, table


def mean_gain(table: list[dict[str, Any]], kind: str) -> Row:
    """Ours minus the published gradient policy, on average over problems."""
    found = [r["minus"]["gradient"] for r in table if r["problem"].startswith(kind)]
    gain, error = np.array(found).T
    mean, its_error = float(gain.mean()), float(np.sqrt((error**2).sum()) / gain.size)
    return Row(
        f"{kind}: ours minus published gradient, mean of {gain.size}",
        mean,
        "value",
        ">=",
        0.0,
        f"error {its_error:.1g}",
        mean > 2 * its_error,
    )


def against_our_sgd() -> tuple[Row, dict[str, Any]]:
    """Time to the value that Algorithm 2 ends with, from the nominal policy."""
    posterior = next(p for name, _, p in golden() if name == "grid 100")
    sgd_seconds, sgd = timed(posterior, 1, method=SGD)
    path: list[dict[str, Any]] = []
    for effort in ("quick", "normal", "thorough"):
        seconds, result = timed(posterior, 2, effort=effort)
        ((gain, error),) = gains(result.policy, {"sgd": sgd.policy}, posterior).values()
        path.append({"effort": effort, "s": seconds, "gain": gain, "error": error})
        if gain >= 0:
            break
    end = path[-1]
    reached = end["gain"] >= 0
    row = Row(
        "grid 100: time of SGD 10,000 x 128 / ours to its value",
        sgd_seconds / end["s"] if reached else 0.0,
        "x",
        ">=",
        20.0,
        f"{sgd_seconds:.2f} s / {end['s']:.3f} s, {end['effort']}, ours "
        f"{end['gain']:+.2g} ({end['error']:.1g})",
        reached,
    )
    return row, {"sgd_seconds": sgd_seconds, "ours": path}


def random_entries(
    rng: np.random.Generator, n_states: int, n_pairs: int, n_next: int
) -> NDArray[np.int64]:
    """Next states of each pair, all different, ``[pair, next]``."""
    shuffled = [rng.choice(n_states, n_next, replace=False) for _ in range(n_pairs)]
    return np.sort(np.stack(shuffled), axis=1)


def planner_with_ties() -> Row:
    """716 states, 25 actions of which each but the first has an exact twin."""
    rng = np.random.default_rng(0)
    n_states, n_actions, n_next = 716, 25, 20
    kinds = 13
    to = random_entries(rng, n_states, n_states * kinds, n_next)
    p = rng.dirichlet(np.ones(n_next), size=n_states * kinds)
    twin = (np.arange(n_actions) + 1) // 2
    at = (np.arange(n_states)[:, None] * kinds + twin).ravel()
    pair = np.repeat(np.arange(n_states * n_actions), n_next)
    dynamics = bm.Dynamics.from_arrays(
        pair // n_actions,
        pair % n_actions,
        to[at].ravel(),
        p[at].ravel(),
        n_states=n_states,
        n_actions=n_actions,
    )
    reward = np.zeros(n_states)
    reward[713:] = -1.0, 1.0, 0.0
    task = bm.Task(
        n_states, n_actions, reward, discount=0.999, terminal=[713, 714, 715]
    )
    problem = Problem.of_dynamics(dynamics, task)
    seconds, found = best(lambda: plan(problem), 5)
    value = found.value
    ahead = np.einsum("pn,pn->p", p[at], value[to[at]]).reshape(n_states, n_actions)
    residual = np.abs(value - task.discount * ahead.max(axis=1))[:713].max()
    return Row(
        "planner, 716 x 25, tied actions",
        1e3 * seconds,
        "ms",
        "<=",
        100.0,
        f"{found.status}; Bellman residual {residual:.0e}",
        bool(found.converged and residual < 1e-9),
    )


def clinical_posterior() -> bm.Posterior:
    """716 states, 25 actions, every third exactly tied with the one before it."""
    rng = np.random.default_rng(0)
    n_states, n_actions, n_next = 716, 25, 6
    n_pairs = 713 * n_actions
    pair = np.arange(n_pairs)
    to = random_entries(rng, 713, n_pairs, n_next)
    to[pair, rng.integers(n_next, size=n_pairs)] = 714  # discharge
    seen = rng.geometric(0.3, size=to.shape)
    tied = np.flatnonzero(pair % n_actions % 3 == 2)
    to[tied], seen[tied] = to[tied - 1], seen[tied - 1]
    counts = bm.Counts.from_arrays(
        np.repeat(pair // n_actions, n_next),
        np.repeat(pair % n_actions, n_next),
        to.ravel(),
        seen.ravel(),
        n_states=n_states,
        n_actions=n_actions,
    )
    reward = np.zeros(n_states)
    reward[713:] = -1.0, 1.0, 0.0
    task = bm.Task(
        n_states, n_actions, reward, discount=0.999, terminal=[713, 714, 715]
    )
    return bm.fit(counts, task, prior=bm.SparsePrior(fallback=713), min_count=1)


def clinical_run() -> dict[str, Any]:
    """Optimise at clinical size; meant for a process of its own."""
    import resource

    small = bm.worlds.synthetic(0)
    warm_up = bm.fit(small.sample(100, seed=0), small.task, prior=bm.SymmetricPrior())
    bm.optimise(warm_up, seed=0, threads=THREADS)  # compile first
    posterior = clinical_posterior()
    began = time.perf_counter()
    starts = ["nominal", "mle"]
    result = bm.optimise(posterior, starts=starts, seed=0, threads=THREADS)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak *= 1 if sys.platform == "darwin" else 1024
    draws = posterior.draws(128, seed=1)
    policies = {"ours": result.policy, **result.starts}
    table = bm.compare(policies, draws, reference="ours", threads=THREADS)
    return {
        "seconds": seconds,
        "peak_gigabytes": peak / 1e9,
        "entries": int(posterior.alpha.size),
        "value": result.start_value,
        "upper_bound": result.upper_bound,
        "status": result.status,
        "minus": {
            row.name: [-row.difference, row.difference_mcse]
            for row in table.rows
            if row.name != "ours"
        },
    }


CLINICAL = (
    "import json; from benchmarks.policies import clinical_run; "
    "print(json.dumps(clinical_run()))"
)


def clinical() -> tuple[list[Row], dict[str, Any]]:
    """Seconds and peak memory at clinical size, in a new process."""
    record = json.loads(new_process(CLINICAL))
    gain = {name: (d, e) for name, (d, e) in record["minus"].items()}
    right = all(map(not_below, gain.values()))
    said = ", ".join(f"{k} {d:+.2g} ({e:.1g})" for k, (d, e) in gain.items())
    what = f"716 states, {record['entries']} entries, optimise"
    peak = record["peak_gigabytes"]
    return [
        Row(what, record["seconds"], "s", "<=", 60.0, said, right),
        Row(f"{what}: peak memory", peak, "GB", "<=", 1.0, said, right),
    ], record


def msbi_study(n_problems: int = 20, n_transitions: int = 50) -> dict[str, Any]:
    """Nominal minus MSBI, with 2,048 different draws and with one draw for all."""
    lost: dict[str, list[float]] = {"2,048 draws": [], "one draw": []}
    errors: dict[str, list[float]] = {name: [] for name in lost}
    for seed in range(n_problems):
        world = bm.worlds.synthetic(seed)
        posterior = bm.fit(
            world.sample(n_transitions, seed=seed),
            world.task,
            prior=bm.SymmetricPrior(),
        )
        single = posterior.draws(2, seed=seed + 1000).dynamics(0)
        others = {
            "2,048 draws": bm.policies.msbi(posterior, 2048, seed=seed),
            "one draw": plan(Problem.of_dynamics(single, posterior.task)).policy,
        }
        found = gains(bm.policies.nominal(posterior), others, posterior)
        for name, (gain, error) in found.items():
            lost[name].append(gain)
            errors[name].append(error)
    return {
        "problems": n_problems,
        "transitions": n_transitions,
        "variants": {
            name: {
                "mean": float(np.mean(lost[name])),
                "standard_error": float(
                    np.std(lost[name], ddof=1) / np.sqrt(n_problems)
                ),
                "largest": float(np.max(lost[name])),
                "smallest": float(np.min(lost[name])),
                "largest_monte_carlo_error": float(np.max(errors[name])),
            }
            for name in lost
        },
    }


def msbi_row(study: dict[str, Any]) -> Row:
    """Set what MSBI loses with 2,048 draws against what it loses with one."""
    many, one = (study["variants"][k] for k in ("2,048 draws", "one draw"))
    said = (
        f"nominal minus MSBI: {many['mean']:+.2g} ({many['standard_error']:.1g}), "
        f"one draw {one['mean']:+.3g} ({one['standard_error']:.2g})"
    )
    sure = bool(one["mean"] > 2 * one["standard_error"])
    share = abs(many["mean"]) / abs(one["mean"])
    return Row("MSBI: loss with 2,048 draws / one", share, "", "<=", 0.1, said, sure)


def run() -> dict[str, Any]:
    """Measure everything; a record ready for JSON."""
    bm.optimise(bm.worlds.casino(), seed=0, threads=THREADS)  # compile first
    rows, table = against_published()
    sgd_row, sgd = against_our_sgd()
    clinical_rows, record = clinical()
    study = msbi_study()
    return {
        "problem": f"policies compared on {N_DRAWS} common draws, {THREADS} threads",
        "made_with": made_with(),
        "rows": [
            row.as_record()
            for row in (
                *rows,
                mean_gain(table, "grid"),
                mean_gain(table, "synthetic"),
                sgd_row,
                planner_with_ties(),
                *clinical_rows,
                msbi_row(study),
            )
        ],
        "published": table,
        "stochastic_gradient": sgd,
        "clinical": record,
        "msbi": study,
    }
