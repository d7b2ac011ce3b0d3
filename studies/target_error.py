"""What it takes to bring an error down to 0.001, from runs of several lengths."""

from dataclasses import dataclass

import numpy as np

from studies.study import Record

Setting = tuple[str, int, float]  # world, observed transitions, discount
Groups = dict[Setting, list[list[Record]]]  # of each data set

AIM = 0.001
PLAIN, OURS, ROLLOUTS = "exact, as published", "exact, control variates", "roll-outs"


@dataclass(frozen=True)
class Reach:
    """What it takes to bring an error down to the aim."""

    draws: float
    seconds: float
    extrapolated: bool  # no run was that long


def reach(runs: list[Record], quantity: str = "value") -> Reach:
    """Draws and seconds of a method, from its runs at several numbers of draws.

    Errors fall with the root of the draws, from the longest run on. Seconds are a fixed
    cost and one a draw, through the shortest and the longest run; nothing is taken to
    be sooner than the shortest.
    """
    first, last = runs[0], runs[-1]
    draws = last["n_draws"] * (last[f"{quantity}_mcse"] / AIM) ** 2
    slope = _seconds_a_draw(first, last)
    fixed = max(first["seconds"] - slope * first["n_draws"], 0.0)
    used = max(draws, first["n_draws"])
    return Reach(used, fixed + slope * used, draws > last["n_draws"])


def _seconds_a_draw(first: Record, last: Record) -> float:
    """Return what a draw costs beside what is fixed."""
    slope = (last["seconds"] - first["seconds"]) / (last["n_draws"] - first["n_draws"])
    if slope <= 0:  # a busy machine: no fixed cost can be told
        slope = last["seconds"] / last["n_draws"]
    return float(slope)


def best(records: list[Record], method: str, quantity: str) -> Reach:
    """Return what a method needs; roll-outs with the number that serves them best."""
    kinds = kinds_of(records)
    return min(
        (reach(runs, quantity) for (name, _), runs in kinds.items() if name == method),
        key=lambda x: x.seconds,
    )


def one_walk(records: list[Record]) -> Reach:
    """Estimate what one walk a draw from the start needs for the start's value.

    A draw costs a model and so many walks; runs with few and with many walks tell the
    two apart. Walks are as long as from a state on average. The value of one walk
    varies by epistemic and by aleatoric uncertainty.
    """
    runs = [x for (name, _), x in kinds_of(records).items() if name == ROLLOUTS]
    costs = [_seconds_a_draw(of[0], of[-1]) for of in runs]
    few, many = (runs[i][0]["n_rollouts"] * runs[i][0]["n_live"] for i in (0, -1))
    walk = max(costs[-1] - costs[0], 0.0) / (many - few)
    model = max(costs[0] - few * walk, 0.0)
    x = records[0]
    draws = (x["epistemic_sd"] ** 2 + x["aleatoric_sd"] ** 2) / AIM**2
    return Reach(draws, draws * (model + walk), True)


def kinds_of(records: list[Record]) -> dict[tuple[str, int], list[Record]]:
    """Group runs by method and number of roll-outs, in order of draws."""
    kinds: dict[tuple[str, int], list[Record]] = {}
    for x in sorted(records, key=lambda x: int(x["n_draws"])):
        kinds.setdefault((x["method"], x["n_rollouts"]), []).append(x)
    return {key: kinds[key] for key in sorted(kinds)}


def groups_of(records: list[Record]) -> Groups:
    """Group records by setting, a list a data set."""
    groups: dict[Setting, dict[int, list[Record]]] = {}
    for x in records:
        key = (x["world"], x["size"], x["discount"])
        groups.setdefault(key, {}).setdefault(x["seed"], []).append(x)
    return {key: list(of.values()) for key, of in groups.items()}


def ratios(
    sets: list[list[Record]], method: str, quantity: str = "value"
) -> tuple[float, float, float]:
    """Say how many times sooner than roll-outs: geometric mean and range."""
    found = [
        best(x, ROLLOUTS, quantity).seconds / best(x, method, quantity).seconds
        for x in sets
    ]
    return geometric_mean(found), min(found), max(found)


def geometric_mean(values: list[float]) -> float:
    """Geometric mean: data sets differ by factors."""
    return float(np.exp(np.mean(np.log(values))))


def sooner_than_one_walk(sets: list[list[Record]], method: str) -> list[float]:
    """Say how many times sooner than one walk a draw, for each data set."""
    return [one_walk(x).seconds / best(x, method, "value").seconds for x in sets]
