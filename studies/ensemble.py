"""Appendix D, figure 8: what an ensemble of quantile networks calls epistemic.

Datasets of four sizes from the gridworld with ``p_rand`` 0.5, each containing the
smaller ones. The policy is the one that is optimal for the maximum-likelihood model.
Its epistemic standard deviation, averaged over the 20 states, is measured three ways:

* *simulated*, as in the paper: networks are trained on episodes of the policy in the
  maximum-likelihood model. Next states of a pair without data are taken as equally
  likely among its neighbours (the paper does not say).
* *replayed*: the same networks are trained on the dataset itself, which the paper did
  not try.
* *posterior*: `bayesmdp.evaluate`, with the paper's prior (1 on each neighbour).

Beside them stands the error they are to warn of: the root of the mean square, over
states, of the value found minus the true one. Architecture and hyper-parameters of the
networks are those of `studies.quantile.quantile_evaluate`, which says where they are
from; needs torch. Records are the same in every run on one machine with one version of
torch, not on all machines.
"""

import warnings
from typing import Any

import numpy as np

import bayesmdp as bm
from bayesmdp._typing import FloatArray
from bayesmdp.errors import BayesmdpWarning
from studies.means import fixed, percent
from studies.quantile import quantile_evaluate
from studies.quantile_networks import import_torch
from studies.study import Effort, Job, Record, Study

_P_RAND = 0.5
_SIZES = (25, 250, 2_500, 25_000)
_NETWORKS = ("simulated", "replayed")
_DRAWS = 10_000
_SHARE_LEFT = 1 / 3  # of the initial disagreement: at most this is a collapse
_COLOURS = {"simulated": "#D55E00", "replayed": "#0072B2", "posterior": "black"}
_NAMES = {
    "simulated": "networks, trained in the maximum-likelihood model (paper)",
    "replayed": "networks, trained on the data",
    "posterior": "posterior (ours)",
}


def _jobs(effort: Effort) -> list[Job]:
    import_torch("ensemble")
    n_series = effort.seeds or (1 if effort.quick else 5 if effort.full else 2)
    small = {"n_networks": 2, "n_quantiles": 20, "width": 50, "batch_size": 32}
    training: dict[str, float] = {"n_steps": 10_000, "log_every": 100}
    if effort.quick:
        training = {"n_steps": 600, "log_every": 50, "warm_up": 50, **small}
        training["learning_rate"] = 0.005
    return [
        Job(
            f"{size:05}-{series:02}-{method}",
            {"size": size, "series": series, "method": method}
            | ({"training": training} if method in _NETWORKS else {}),
        )
        for size in _SIZES
        for series in range(n_series)
        for method in _NAMES
    ]


def _work(
    size: int, series: int, method: str, training: dict[str, Any] | None = None
) -> list[Record]:
    """Evaluate the policy of one dataset in one way."""
    world = bm.worlds.gridworld(_P_RAND)
    live = world.task.live
    data = world.sample(size, seed=series)
    prior = bm.SymmetricPrior(support=world.support)
    posterior = bm.fit(data, world.task, prior=prior)
    policy = bm.policies.mle(posterior)
    record: Record = {"size": size, "series": series, "method": method}
    if training is None:
        draws = posterior.draws(_DRAWS, seed=series)
        found = bm.evaluate(policy, draws, progress=False)
    else:
        source: Any = posterior
        if method == "simulated":
            flat = bm.SymmetricPrior(1e-9, support=world.support)  # as good as none
            source = bm.MDP(bm.fit(data, world.task, prior=flat).mean(), world.task)
        with warnings.catch_warnings():
            # Of states without data, which the record counts.
            warnings.simplefilter("ignore", BayesmdpWarning)
            learnt = quantile_evaluate(
                policy, source, seed=series, progress=False, **training
            )
        found, history = learnt.evaluation, learnt.history
        record |= {
            "step": history.step.tolist(),
            "loss": history.loss.tolist(),
            "epistemic": history.epistemic_sd[:, live].mean(axis=1).tolist(),
        }
    seen = posterior.counts.pair_totals(world.task.n_states, world.task.n_actions)
    chosen = policy[live].argmax(axis=1)
    wrong = (found.value - world.value(policy))[live]
    record |= {
        "states_unseen": int((seen[live, chosen] == 0).sum()),
        "epistemic_sd": found.epistemic_sd[live].tolist(),
        "aleatoric_sd": found.aleatoric_sd[live].tolist(),
        "error": float(np.sqrt(np.mean(wrong**2))),
    }
    return [record]


def _of(records: list[Record], size: int, method: str) -> list[Record]:
    return [x for x in records if x["size"] == size and x["method"] == method]


def _final(records: list[Record], size: int, method: str) -> FloatArray:
    """Mean epistemic sd over states at the end, one a series."""
    found = _of(records, size, method)
    return np.array([np.mean(x["epistemic_sd"]) for x in found])


def _sizes(records: list[Record]) -> list[int]:
    return sorted({x["size"] for x in records})


def _tell(records: list[Record]) -> str:
    step = next(x for x in records if x["method"] == "simulated")["step"]
    n_steps = 2 * step[-1] - step[-2]
    n_series = len({x["series"] for x in records})
    lines = [
        "Epistemic standard deviation, mean over states"
        + (f" (mean ± standard error over {n_series} series)" if n_series > 1 else "")
        + f"; networks after {n_steps:,} steps. The last columns are the errors they "
        "are to warn of.\n",
        "| transitions | networks, simulated | networks, replayed | posterior | "
        "error, networks simulated | replayed | posterior |",
        "|---|---|---|---|---|---|---|",
    ]
    for size in _sizes(records):
        sds = [fixed(_final(records, size, method), 3) for method in _NAMES]
        errors = [
            fixed([x["error"] for x in _of(records, size, method)], 3)
            for method in _NAMES
        ]
        lines.append(f"| {size:,} | {' | '.join(sds)} | {' | '.join(errors)} |")
    return "\n".join([*lines, "", _verdict(records)])


def _fall(records: list[Record], method: str) -> float:
    """How many times smaller the sd is with the most data than with the least."""
    few, *_, most = _sizes(records)
    return float(
        _final(records, few, method).mean() / _final(records, most, method).mean()
    )


def _verdict(records: list[Record]) -> str:
    few, *_, most = _sizes(records)
    left = max(
        np.mean(x["epistemic_sd"]) / x["epistemic"][0]
        for x in records
        if x["method"] == "simulated"
    )
    fall = {method: _fall(records, method) for method in _NAMES}
    collapsed = left <= _SHARE_LEFT
    # On a log scale, nearer to no change than to the posterior's.
    blind = fall["simulated"] < np.sqrt(fall["posterior"])
    tracks = fall["replayed"] > np.sqrt(fall["posterior"])
    said = "not confirmed"
    if collapsed and blind:
        said = "confirmed with a caveat" if tracks else "confirmed"
    caveat = (
        "so it is training in the model that hides the data from them"
        if tracks
        else "so they do not see it there either"
    )
    return (
        "**Verdict:** The paper says that the networks' epistemic sd becomes small "
        "whatever the data. Trained in the maximum-likelihood model, at most "
        f"{percent(left)} of the initial disagreement is left (up to "
        f"{percent(_SHARE_LEFT)} is a collapse); from {few:,} to {most:,} "
        f"transitions it changes {fall['simulated']:.1f}-fold, where the posterior's "
        f"falls {fall['posterior']:.1f}-fold. Trained on the data themselves, it falls "
        f"{fall['replayed']:.1f}-fold, {caveat}: {said}."
    )


def _plot(records: list[Record]) -> dict[str, Any]:
    """Epistemic sd above, loss below, one column a size; series faint."""
    from matplotlib.figure import Figure

    sizes = _sizes(records)
    figure = Figure(figsize=(2.9 * len(sizes), 5.6), layout="constrained")
    axes = figure.subplots(2, len(sizes), sharex=True, sharey="row", squeeze=False)
    for column, size in enumerate(sizes):
        above, below = axes[:, column]
        for method in _NETWORKS:
            found = _of(records, size, method)
            step = found[0]["step"]
            for axis, what in ((above, "epistemic"), (below, "loss")):
                curves = np.array([x[what] for x in found])
                style = {"color": _COLOURS[method]}
                if len(found) > 1:
                    axis.plot(step, curves.T, alpha=0.3, linewidth=0.8, **style)
                axis.plot(step, curves.mean(axis=0), label=_NAMES[method], **style)
        ours = _final(records, size, "posterior").mean()
        above.axhline(ours, color="black", linestyle="--", label=_NAMES["posterior"])
        error = np.mean([x["error"] for x in _of(records, size, "posterior")])
        above.axhline(
            error, color="grey", linestyle=":", label="error of the posterior's value"
        )
        above.set_title(f"{size:,} transitions", fontsize=10)
        above.set_yscale("log")
        below.set_ylim(bottom=0)
        below.set_xlabel("training step")
        for axis in (above, below):
            axis.grid(alpha=0.25)
    axes[0, 0].set_ylabel("epistemic sd\n(mean over states)")
    axes[1, 0].set_ylabel("quantile loss")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, fontsize=9)
    return {"ensemble": figure}


STUDY = Study(
    "ensemble",
    "Figure 8: what an ensemble of quantile networks calls epistemic",
    _jobs,
    _work,
    _tell,
    _plot,
)
