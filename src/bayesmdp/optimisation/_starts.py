"""Where the search begins: one start alone can end in a worse basin than another's."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from bayesmdp import _checks, policies
from bayesmdp._typing import ArrayLike, FloatArray
from bayesmdp.engine import MAX_INVERSE
from bayesmdp.errors import ArgumentError, BayesmdpWarning, EndlessError
from bayesmdp.model import as_policy
from bayesmdp.optimisation._effort import Effort
from bayesmdp.posterior import Belief

if TYPE_CHECKING:
    from concurrent.futures import Executor

_MSBI_DRAWS = 512

Workers = tuple[int | None, "Executor | None"]  # threads, executor
Maker = Callable[[Belief, int, Workers], FloatArray]


def _random(number: int) -> "Maker":
    def start(belief: Belief, seed: int, workers: Workers) -> FloatArray:
        rng = np.random.default_rng([seed % 2**63, number])
        weight = rng.exponential(size=belief.available.shape) ** 3
        weight = np.where(belief.available, weight, 0.0)
        total = weight.sum(axis=1, keepdims=True)
        np.divide(weight, total, weight, where=total > 0)
        return weight

    return start


def _msbi(belief: Belief, seed: int, workers: Workers) -> FloatArray:
    with warnings.catch_warnings():  # a start need not be finished
        warnings.simplefilter("ignore", BayesmdpWarning)
        threads, executor = workers
        return policies.msbi(
            belief, _MSBI_DRAWS, 100, seed, threads=threads, executor=executor
        )


_MAKERS: dict[str, Maker] = {
    "nominal": lambda belief, *_: policies.nominal(belief),
    "mle": lambda belief, *_: policies.mle(belief),
    "second_order": lambda belief, *_: policies.second_order(belief),
    "msbi": _msbi,
    "uniform": lambda belief, *_: policies.uniform(belief),
    "random_1": _random(1),
    "random_2": _random(2),
}
_NEEDS_COUNTS, _NEEDS_ROWS = {"mle"}, {"second_order"}


def make_starts(
    belief: Belief,
    starts: Iterable[str] | Mapping[str, ArrayLike],
    seed: int,
    workers: Workers = (None, None),
) -> Iterator[tuple[str, FloatArray | EndlessError]]:
    """Make the policies to start from, ``[S, A]`` each, by name; or why there is none.

    One after the other, so that what was made survives Ctrl-C.
    """
    if isinstance(starts, Mapping):
        if not starts:
            raise ArgumentError("`starts` holds no policy.")
        for name, policy in starts.items():
            yield name, as_policy(policy, belief, f"starts[{name!r}]")
        return
    for name in _checked_names(starts):
        try:
            yield name, _MAKERS[name](belief, seed, workers)
        except EndlessError as error:
            yield name, error


def default_starts(belief: Belief, effort: Effort) -> list[str]:
    """Names of the starts that suit a belief."""
    names = list(effort.starts if belief.n_models is None else _MAKERS)
    if belief.counts is None:
        names = [name for name in names if name not in _NEEDS_COUNTS]
    if belief.rows().total is None:
        names = [name for name in names if name not in _NEEDS_ROWS]
    if belief.task.live.size > effort.second_order:
        names = [name for name in names if name != "second_order"]
    if belief.task.live.size > MAX_INVERSE:  # the others take long, or do not fit
        names = [name for name in names if name in {"nominal", "mle"}]
    if belief.task.discount == 1.0:  # others may be stuck in cycles
        names = [name for name in names if name in {"nominal", "mle"}] + ["uniform"]
    return names


def _checked_names(starts: Iterable[str]) -> list[str]:
    if not isinstance(starts, Iterable):
        raise ArgumentError(
            "`starts` must hold names, or map names to policies; got "
            f"{type(starts).__name__}."
        )
    names = [starts] if isinstance(starts, str) else list(starts)
    for name in names:
        if not isinstance(name, str) or name not in _MAKERS:
            hint = _checks.did_you_mean(str(name), _MAKERS)
            raise ArgumentError(
                f"`starts` has {name!r:.60}{hint}, which is none of: "
                f"{', '.join(_MAKERS)}; policies of your own need names, in a dict."
            )
    if not names:
        raise ArgumentError("`starts` holds no name.")
    return names
