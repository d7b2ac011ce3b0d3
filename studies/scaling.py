"""Seconds for 1,000 gradient steps against the number of states (appendix C, figure 7).

Algorithm 2 on synthetic problems of 5 actions, with batches of 8 and 256 draws, either
drawn again before each step or once before the first. Draws of this package are
functions of their number and made again wherever they are used; so the fixed sample is
handed over as an `bayesmdp.Ensemble` of models, which is what it costs to store them.
Synthetic problems can go anywhere from anywhere, and are solved by elimination. Beside
them stand sparse problems, with 10 next states a pair, which are solved by iterations.

Some 50 steps are timed (few where steps are long) and scaled to 1,000. Seconds are CPU
time on one thread, and differ from run to run.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import bayesmdp as bm
from bayesmdp.posterior import Belief
from studies.means import percent, short
from studies.study import Effort, Job, Record, Study

_ACTIONS, _NEXT, _DISCOUNT = 5, 10, 0.999
_STEPS = 1000
_CUBIC = 3.3  # power of the number of states that is still taken for 3
_EASY = 2.0  # power below which many states are within reach
_RATE = 1.0  # what a step costs does not depend on its length
_DENSE, _SPARSE = "dense", "sparse"
_FIXED_ENTRIES = 256 * 100 * 100 * _ACTIONS  # most that a fixed sample may store
#: The authors' scripts, on two cores of another machine: states -> seconds, batch 256.
AUTHORS = {5: 4.0, 100: 1166.0}


class _EnoughError(Exception):
    """Raised where the clock has been read often enough."""


class _Clock:
    """A learning rate that notes the time of each step, and stops after the last."""

    def __init__(self, n_steps: int) -> None:
        self.n_steps, self.times = n_steps, list[float]()

    def __call__(self, step: int) -> float:
        self.times.append(time.process_time())
        if step == self.n_steps:
            raise _EnoughError
        return _RATE


def _jobs(effort: Effort) -> list[Job]:
    dense: tuple[int, ...] = (5, 10, 20, 50, 100, 200, 400)
    sparse: tuple[int, ...] = (1_000, 10_000, 100_000)
    if effort.quick:
        dense, sparse = (5, 10, 20, 40), (500, 2_000)
    if effort.full:
        dense = (*dense, 800)
    jobs = [
        _job(_DENSE, n, batch, fresh, 5 if effort.quick else 50)
        for n in dense
        for batch in (8, 256)
        for fresh in (True, False)
        if fresh or batch * n * n * _ACTIONS <= _FIXED_ENTRIES
    ]
    for n in sparse:
        steps = 2 if effort.quick else max(2, min(50, 100_000 // n))
        jobs.append(_job(_SPARSE, n, 8, True, steps))
    return jobs


def _job(kind: str, n_states: int, batch: int, fresh: bool, n_steps: int) -> Job:
    key = f"{kind}-{n_states:06}-{batch:03}-{'fresh' if fresh else 'fixed'}"
    params = {"kind": kind, "n_states": n_states, "batch": batch}
    return Job(key, params | {"fresh": fresh, "n_steps": n_steps})


def _work(
    kind: str, n_states: int, batch: int, fresh: bool, n_steps: int
) -> list[Record]:
    """Time the steps of one problem."""
    posterior = _sparse(n_states) if kind == _SPARSE else _dense(n_states)
    belief = posterior
    if not fresh:
        draws = posterior.draws(batch, seed=0)
        models = [draws.dynamics(i) for i in range(batch)]
        belief = bm.Ensemble(models, posterior.task)
    timed(belief, batch, 1)  # compiled, in cache
    return [
        {
            "kind": kind,
            "n_states": n_states,
            "batch": batch,
            "fresh": fresh,
            "n_steps": n_steps,
            "seconds": timed(belief, batch, n_steps),
        }
    ]


def timed(belief: Belief, batch: int, n_steps: int) -> float:
    """CPU seconds of so many steps; setting up and judging are left out."""
    clock = _Clock(n_steps)
    method = bm.StochasticGradient(clock, batch, n_steps + 1)
    shape = (belief.task.n_states, belief.task.n_actions)
    even = np.full(shape, 1.0 / belief.task.n_actions)
    try:
        bm.optimise(belief, method=method, starts={"even": even}, threads=1)
    except _EnoughError:
        return clock.times[-1] - clock.times[0]
    raise AssertionError("the clock stops every run")


def _dense(n_states: int) -> Belief:
    """Return what one visit of each pair leaves of a synthetic problem."""
    world = bm.worlds.synthetic(0, n_states, _ACTIONS, discount=_DISCOUNT)
    return bm.fit(
        world.sample(n_states * _ACTIONS, seed=0), world.task, prior=bm.SymmetricPrior()
    )


def _sparse(n_states: int) -> Belief:
    """Return a posterior whose pairs have led to a few next states, once each."""
    rng = np.random.default_rng(0)
    pair = np.repeat(np.arange(n_states * _ACTIONS), _NEXT)
    counts = bm.Counts.from_arrays(
        pair // _ACTIONS,
        pair % _ACTIONS,
        rng.integers(0, n_states, size=pair.size),
        n_states=n_states,
        n_actions=_ACTIONS,
    )
    reward = rng.standard_normal(n_states)
    task = bm.Task(n_states, _ACTIONS, reward, discount=_DISCOUNT)
    return bm.fit(counts, task, prior=bm.SparsePrior(1.0))


# ---------------------------------------------------------------- what they come to


def scaled(record: Record) -> float:
    """Seconds for 1,000 steps."""
    return float(record["seconds"]) * _STEPS / int(record["n_steps"])


def _curve(
    records: list[Record], kind: str, batch: int, fresh: bool
) -> tuple[Sequence[int], Sequence[float]]:
    """States, and seconds for 1,000 steps."""
    of = [
        x
        for x in records
        if (x["kind"], x["batch"], x["fresh"]) == (kind, batch, fresh)
    ]
    of.sort(key=lambda x: int(x["n_states"]))
    return [x["n_states"] for x in of], [scaled(x) for x in of]


def exponent(curve: tuple[Sequence[int], Sequence[float]]) -> float:
    """Power of the number of states with which the last two sizes grow."""
    states, seconds = curve
    return float(np.log(seconds[-1] / seconds[-2]) / np.log(states[-1] / states[-2]))


_CURVES = ((8, True), (8, False), (256, True), (256, False))


def _tell(records: list[Record]) -> str:
    curves = {x: _curve(records, _DENSE, *x) for x in _CURVES}
    states = curves[256, True][0]
    timed_steps = _timed_steps(records)
    dense_steps = timed_steps[_DENSE, states[-1]]
    lines = [
        f"**CPU seconds for 1,000 steps**, one thread, scaled from {dense_steps} "
        f"({_ACTIONS} actions; '-' was not run for the memory a fixed sample takes)\n",
        "| states | batch 8, resampled | batch 8, fixed | batch 256, resampled | "
        "batch 256, fixed | authors' scripts, 256, two other cores |",
        "|---|---|---|---|---|---|",
    ]
    for n in states:
        found = [dict(zip(*curves[x], strict=True)).get(n) for x in _CURVES]
        cells = ["-" if x is None else short(x, 3) for x in found]
        cells.append(f"{AUTHORS[n]:,.0f}" if n in AUTHORS else "")
        lines.append(f"| {n} | {' | '.join(cells)} |")
    sparse = _curve(records, _SPARSE, 8, True)
    lines += [
        "",
        f"**Sparse problems** ({_NEXT} next states a pair), batch 8, resampled\n",
        "| states | seconds for 1,000 steps | scaled from |",
        "|---|---|---|",
    ]
    lines += [
        f"| {n:,} | {short(x, 3)} | {timed_steps[_SPARSE, n]} |"
        for n, x in zip(*sparse, strict=True)
    ]
    return "\n".join([*lines, "", _verdict(curves, sparse)])


def _timed_steps(records: list[Record]) -> dict[tuple[str, int], int]:
    """How many steps were timed, by kind and states."""
    return {(x["kind"], x["n_states"]): x["n_steps"] for x in records}


def _verdict(curves: dict[tuple[int, bool], Any], sparse: Any) -> str:
    power, thin = exponent(curves[256, True]), exponent(sparse)
    fixed = curves[256, False]
    fresh = dict(zip(*curves[256, True], strict=True))
    last = fixed[0][-1]
    saved = 1.0 - fixed[1][-1] / fresh[last]
    verdict = "not confirmed"
    if power <= _CUBIC:
        verdict = "confirmed with a caveat" if thin < _EASY else "confirmed"
    largest, took = sparse[0][-1], sparse[1][-1]
    return (
        "**Verdict:** the paper claims a cost of O(S^3), too much for many more states "
        "than the clinical problem has, and shows what resampling costs. Measured: "
        f"between the two largest dense sizes seconds grow with the power {power:.1f} "
        f"of the number of states; a fixed sample saves {percent(saved)} of them at "
        f"{last} states with batches of 256. Sparse problems grow with the power "
        f"{thin:.1f}: 1,000 steps of 8 draws with {largest:,} states would take "
        f"{short(took / 3600)} hours on one core (up to {_CUBIC:g} is cubic or less; "
        f"below {_EASY:g} is no bar to more states): {verdict}."
    )


def _plot(records: list[Record]) -> dict[str, Any]:
    """Seconds against states, both on logarithmic scales."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axis = figure.subplots()
    for batch, fresh in _CURVES:
        axis.loglog(
            *_curve(records, _DENSE, batch, fresh),
            "o-" if fresh else "s--",
            color="#0072B2" if batch == 256 else "#D55E00",
            label=f"batch {batch}, {'resampled' if fresh else 'fixed sample'}",
        )
    sparse = _curve(records, _SPARSE, 8, True)
    axis.loglog(*sparse, "^-", color="#009E73", label="batch 8, resampled, sparse")
    known = list(AUTHORS), list(AUTHORS.values())
    axis.loglog(
        *known,
        "kx",
        markersize=8,
        label="authors' scripts, batch 256\n(two other cores)",
    )
    axis.set_xlabel("states")
    fewest, most = min(steps := _timed_steps(records).values()), max(steps)
    said = f"{fewest} to {most}" if fewest < most else f"{most}"
    axis.set_ylabel(
        f"CPU seconds for 1,000 gradient steps\n(scaled from {said} timed ones)"
    )
    axis.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8)
    return {"scaling": figure}


STUDY = Study(
    "scaling",
    "Figure 7: seconds for 1,000 gradient steps against the number of states",
    _jobs,
    _work,
    _tell,
    _plot,
    timed=True,
)
