"""Every remedy that a refusal proposes is tried, and works."""

import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayesmdp as bm

# Five states: ward and icu go on, lost was never visited, home and death are ends.
NAMES = ["ward", "icu", "lost", "home", "death"]
VISITED = bm.Counts.from_arrays([0, 0, 1, 2], [0, 1, 0, 0], [1, 3, 4, 3], [3, 2, 2, 1])
SPARE = bm.Counts.from_arrays([0, 0, 1], [0, 1, 0], [1, 3, 4], [3, 2, 2])


def task(**changes: Any) -> bm.Task:
    given: dict[str, Any] = {
        "n_states": 5,
        "n_actions": 2,
        "reward": [0, 0, 0, 1, 0],
        "discount": 0.9,
        "terminal": ["home", "death"],
        "state_labels": NAMES,
        "action_labels": ["wait", "treat"],
    }
    return bm.Task(**(given | changes))


def fit(
    prior: Any, counts: bm.Counts = VISITED, min_count: int = 0, **known: Any
) -> Any:
    return bm.fit(counts, task(**known), prior=prior, min_count=min_count)


def kept(prior: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        run = bm.storage.save(fit(bm.SymmetricPrior()), folder)
        return bm.storage.save_result(run, "x", {"prior": prior})


def support(*without: tuple[int, ...]) -> np.ndarray:
    mask = np.ones((5, 2, 5), dtype=bool)
    for cell in without:
        mask[cell] = False
    return mask


def symmetric(*without: tuple[int, ...]) -> bm.SymmetricPrior:
    return bm.SymmetricPrior(support=support(*without))


def hierarchical(*without: tuple[int, ...]) -> bm.RandomSupportPrior:
    return bm.RandomSupportPrior(support=support(*without))


def curve(min_count: int = 0, *without: tuple[int, ...]) -> bm.priors.EvidenceCurve:
    mask = support(*without)
    return bm.priors.evidence_curve(VISITED, task(), support=mask, min_count=min_count)


@dataclass(frozen=True)
class Refusal:
    """A call that is refused, and what its message says to do instead."""

    call: Callable[[], Any]
    remedies: Mapping[str, Callable[[], Any]]  # as the message words them
    never: tuple[str, ...] = ()  # what would not help


ONCE = bm.Counts.from_arrays([0, 1], [0, 0], [3, 4], n_states=5, n_actions=2)
ALWAYS = bm.Counts.from_arrays([0, 1, 2], [0, 0, 0], [3, 4, 3], [9, 9, 9])
MIX = [bm.SymmetricPrior(1.0), bm.SparsePrior(1.0, "death")]
EMPTY: dict[str, Refusal] = {
    "sparse, pairs never visited": Refusal(
        lambda: fit(bm.SparsePrior(1.0)),
        {
            "FallbackPrior(prior, state)": lambda: fit(
                bm.FallbackPrior(bm.SparsePrior(1.0), "death")
            ),
            "min_count=1": lambda: fit(bm.SparsePrior(1.0), min_count=1),
        },
        never=("support",),
    ),
    "sparse, a state never visited": Refusal(
        lambda: fit(bm.SparsePrior(1.0), SPARE),
        {
            "FallbackPrior(prior, state)": lambda: fit(
                bm.FallbackPrior(bm.SparsePrior(1.0), "death"), SPARE
            ),
        },
        never=("support", "min_count"),
    ),
    "sparse, a state never visited, by visits": Refusal(
        lambda: fit(bm.SparsePrior(1.0), SPARE, min_count=5),
        {
            "FallbackPrior(prior, state)": lambda: fit(
                bm.FallbackPrior(bm.SparsePrior(1.0), "death"), SPARE, min_count=5
            ),
        },
        never=("support", "min_count"),
    ),
    "an empty support": Refusal(
        lambda: fit(symmetric((1, 1))),
        {
            "widen the support": lambda: fit(symmetric((1, 1, 0))),
            "FallbackPrior(prior, state)": lambda: fit(
                bm.FallbackPrior(symmetric((1, 1)), "death")
            ),
            "min_count=1": lambda: fit(symmetric((1, 1)), min_count=1),
        },
    ),
    "an empty support where nobody was": Refusal(
        lambda: fit(symmetric((2, 1)), SPARE),
        {
            "widen the support": lambda: fit(symmetric((2, 1, 0)), SPARE),
            "FallbackPrior(prior, state)": lambda: fit(
                bm.FallbackPrior(symmetric((2, 1)), "death"), SPARE
            ),
        },
        never=("min_count",),
    ),
    "an empty support, hierarchical": Refusal(
        lambda: fit(hierarchical((1, 1))),
        {
            "widen the support": lambda: fit(hierarchical((1, 1, 0))),
            "min_count=1": lambda: fit(hierarchical((1, 1)), min_count=1),
        },
        never=("FallbackPrior",),
    ),
    "an empty support, for a curve": Refusal(
        lambda: curve(0, (1, 1)),
        {
            "widen the support": lambda: curve(0, (1, 1, 0)),
            "min_count=1": lambda: curve(1, (1, 1)),
        },
        never=("FallbackPrior",),
    ),
    "data outside the support": Refusal(
        lambda: fit(symmetric((0, 1, 3))),
        {
            "widen the support": lambda: fit(symmetric()),
            "leave these transitions out": lambda: fit(
                symmetric((0, 1, 3)),
                bm.Counts.from_arrays([0, 1, 2], [0, 0, 0], [1, 4, 3]),
            ),
        },
    ),
}
PRIORS: dict[str, Refusal] = {
    "evidence of one visit each": Refusal(
        lambda: fit(bm.EvidencePrior(), ONCE),
        {"SymmetricPrior(0.1)": lambda: fit(bm.SymmetricPrior(0.1), ONCE)},
    ),
    "evidence of what never varies": Refusal(
        lambda: fit(bm.EvidencePrior(), ALWAYS),
        {"SymmetricPrior(0.1)": lambda: fit(bm.SymmetricPrior(0.1), ALWAYS)},
    ),
    "a mixture of what has no evidence": Refusal(
        lambda: fit(bm.MixturePrior(MIX)),
        {
            "posterior_weights=[...]": lambda: fit(
                bm.MixturePrior(MIX, posterior_weights=[0.5, 0.5])
            )
        },
    ),
    "weights before and after": Refusal(
        lambda: bm.MixturePrior(MIX, weights=[1, 0], posterior_weights=[0, 1]),
        {
            "Give `weights`": lambda: bm.MixturePrior(MIX, weights=[1, 0]),
            "or `posterior_weights`": lambda: bm.MixturePrior(
                MIX, posterior_weights=[0, 1]
            ),
        },
    ),
    "a mixture of mixtures": Refusal(
        lambda: bm.MixturePrior([bm.MixturePrior([MIX[0]] * 2), MIX[0]]),
        {
            "list its components instead, with their weights times its own": lambda: (
                bm.MixturePrior([MIX[0]] * 3, weights=[0.25, 0.25, 0.5])
            )
        },
    ),
    "a mixture of one": Refusal(
        lambda: bm.MixturePrior(MIX[:1]),
        {"one alone goes to `fit`": lambda: fit(MIX[0])},
    ),
    "no evidence of a mixture": Refusal(
        lambda: fit(bm.MixturePrior(MIX, posterior_weights=[1, 0])).log_evidence(),
        {
            "give `weights` instead, and only priors that do not look": lambda: fit(
                bm.MixturePrior([MIX[0]] * 2, weights=[1, 0])
            ).log_evidence()
        },
    ),
    "no evidence of a prior": Refusal(
        lambda: fit(MIX[1]).log_evidence(),
        {
            "held-out predictive density": lambda: bm.compare_priors(
                {"one": MIX[0], "other": MIX[1]},
                bm.Transitions.from_arrays(
                    [0, 1, 0, 2, 0, 1], [0, 0, 1, 0, 0, 0], [1, 4, 3, 3, 1, 4],
                    episode=[0, 0, 1, 1, 2, 2],
                ),
                task(), n_folds=3,
            )
        },
    ),
    "a number for the evidence prior": Refusal(
        lambda: bm.priors.named_prior("evidence", concentration=1.0),
        {
            "leave it out": lambda: bm.priors.named_prior("evidence"),
            "symmetric": lambda: bm.priors.named_prior("symmetric", concentration=1.0),
        },
    ),
    "a prior that cannot be kept": Refusal(
        lambda: kept(bm.SymmetricPrior(support=support().astype(object))),
        {"True and False": lambda: kept(bm.SymmetricPrior(support=support()))},
    ),
}  # fmt: skip


def analytic(posterior: Any) -> Any:
    return bm.evaluate_analytic([0] * 5, posterior)


def evaluate(posterior: Any, policy: Any = (0,) * 5, n: int = 64, **how: Any) -> Any:
    return bm.evaluate(list(policy), posterior.draws(n), **how)


def endless(discount: float = 1.0, prior: Any = None, **known: Any) -> Any:
    """Everyone stays in the first two states, unless the prior says otherwise."""
    counts = bm.Counts.from_arrays([0, 1, 2], [0, 0, 0], [1, 0, 3], [9, 9, 9])
    prior = bm.SparsePrior(1.0) if prior is None else prior
    return fit(prior, counts, min_count=1, discount=discount, **known)


ENDING = bm.FallbackPrior(bm.SparsePrior(1.0), "death", 5.0)
PAID = {"reward": [1, 1, 1, 1, 0]}
STUCK = np.zeros((5, 2, 5), dtype=bool)
STUCK[:, 0, 2] = STUCK[:, 1, 3] = STUCK[2, 0] = False
STUCK[[0, 1, 2], 0, [1, 0, 2]] = True
STUCK[:, 1, 3] = True


def choosing(discount: float = 1.0) -> Any:
    """Action 0 never ends, action 1 does."""
    counts = bm.Counts.from_arrays(
        [0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1], [1, 0, 2, 3, 3, 3], [9] * 6
    )
    return fit(bm.SymmetricPrior(support=STUCK), counts, discount=discount)


def slow(discount: float = 1.0, reward: float = 1.0, weight: float = 1e90) -> Any:
    """Episodes of about ``weight`` steps."""
    counts = bm.Counts.from_arrays([0, 1], [0, 0], [1, 2], [5, 5])
    known = bm.Task(3, 1, [reward, reward, 0], discount=discount, terminal=[2])
    ends = bm.FallbackPrior(bm.SparsePrior(1.0), 2, 5.0)
    return bm.fit(counts, known, prior=bm.FallbackPrior(ends, 0, weight))


def walk(posterior: Any) -> Any:
    return bm.evaluate([0, 0, 0], posterior.draws(64))


def optimise(posterior: Any, starts: Any) -> Any:
    method = bm.MirrorAscent(n_steps=1)
    return bm.optimise(posterior, method=method, starts=starts)


MANY = 20_000  # draws; fewer are made without an executor


def closed() -> ThreadPoolExecutor:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    return executor


def within() -> Any:
    with ThreadPoolExecutor(1) as executor:
        return evaluate(fit(MIX[0]), n=MANY, executor=executor)


BELIEFS: dict[str, Refusal] = {
    "a terminal state that is left": Refusal(
        lambda: fit(MIX[0], terminal=["lost"]),
        {
            "drop them": lambda: fit(MIX[0], SPARE, terminal=["lost"]),
            "take the state out of `terminal`": lambda: fit(MIX[0], terminal=["home"]),
        },
    ),
    "analytic moments of a mixture": Refusal(
        lambda: analytic(fit(bm.MixturePrior([MIX[0]] * 2))),
        {
            "one of `posterior.components`": lambda: analytic(
                fit(bm.MixturePrior([MIX[0]] * 2)).components[0]
            )
        },
    ),
    "analytic moments of other rows": Refusal(
        lambda: analytic(fit(bm.RandomSupportPrior())),
        {
            "use draws": lambda: evaluate(fit(bm.RandomSupportPrior())),
            "another prior": lambda: analytic(fit(MIX[0])),
        },
    ),
    "a pair that is not available": Refusal(
        lambda: evaluate(fit(MIX[0], min_count=1), (0, 1, 0, 0, 0)),
        {
            "bm.restrict(policy, posterior)": lambda: evaluate(
                fit(MIX[0], min_count=1),
                quiet(lambda: bm.restrict([0, 1, 0, 0, 0], fit(MIX[0], min_count=1))),
            )
        },
    ),
    "an executor that is shut down": Refusal(
        lambda: evaluate(fit(MIX[0]), n=MANY, executor=closed()),
        {
            "within its `with` block": within,
            "make a new one": lambda: evaluate(
                fit(MIX[0]), n=MANY, executor=ThreadPoolExecutor(1)
            ),
        },
    ),
    "rewards that overflow": Refusal(
        lambda: task(reward=[0, 0, 0, 1e60, 0]),
        {"larger units": lambda: evaluate(fit(MIX[0], reward=[0, 0, 0, 1, 0]))},
    ),
    "rewards that vanish": Refusal(
        lambda: task(reward=[0, 0, 0, 1e-60, 0]),
        {
            "smaller units": lambda: evaluate(fit(MIX[0], reward=[0, 0, 0, 1, 0])),
            "or 0": lambda: evaluate(fit(MIX[0], reward=[0.0] * 5)),
        },
    ),
}
DISCOUNT_1: dict[str, Refusal] = {
    "a policy that never ends": Refusal(
        lambda: evaluate(choosing()),
        {
            "choose another policy there": lambda: evaluate(choosing(), (1,) * 5),
            "a discount below 1": lambda: evaluate(choosing(0.9)),
        },
    ),
    "no policy ends": Refusal(
        lambda: bm.policies.nominal(endless()),
        {
            "FallbackPrior": lambda: bm.policies.nominal(endless(1, ENDING)),
            "a discount below 1": lambda: bm.policies.nominal(endless(0.9)),
        },
        never=("support",),
    ),
    "a set that may be closed": Refusal(
        lambda: evaluate(endless(1, bm.RandomSupportPrior())),
        {
            "FallbackPrior": lambda: evaluate(
                endless(1, bm.FallbackPrior(bm.RandomSupportPrior(), "death", 5.0))
            ),
            "a discount below 1": lambda: evaluate(
                endless(0.9, bm.RandomSupportPrior())
            ),
        },
    ),
    "an infinite mean": Refusal(
        lambda: evaluate(endless(1, bm.SymmetricPrior(0.1), **PAID)),
        {
            "raise the prior's concentration": lambda: evaluate(
                endless(1, bm.SymmetricPrior(1.0), **PAID)
            ),
            "a discount below 1": lambda: evaluate(
                endless(0.9, bm.SymmetricPrior(0.1), **PAID)
            ),
        },
    ),
    "no start ends": Refusal(
        lambda: optimise(choosing(), {"stay": [0] * 5}),
        {
            "give a policy that does in `starts`": lambda: optimise(
                choosing(), {"leave": [1] * 5}
            ),
            "a discount below 1": lambda: optimise(choosing(0.9), {"stay": [0] * 5}),
        },
    ),
    "episodes without an end in sight": Refusal(
        lambda: walk(slow()), {"a smaller discount": lambda: walk(slow(0.99))}
    ),
    "values without bounds": Refusal(
        lambda: walk(slow(reward=1e40, weight=1e40)),
        {
            "a smaller discount": lambda: walk(slow(0.99, 1e40, 1e40)),
            "larger units": lambda: walk(slow(1.0, 1.0, 1e40)),
        },
    ),
}
NAMED = bm.read_transitions(
    pd.DataFrame(
        {
            "state": ["ward", "icu"],
            "action": ["wait", "wait"],
            "next_state": ["icu", "home"],
            "reward": [0.0, 1.0],
        }
    )
)
BARE: dict[str, Any] = {"state_labels": None, "action_labels": None, "terminal": [3]}


def small(**changes: Any) -> bm.Task:
    """Three states, named as the data name them."""
    known = {"n_states": 3, "n_actions": 1, "reward": [0, 1, 0], "terminal": [1]}
    labels = {"state_labels": ["icu", "home", "ward"], "action_labels": ["wait"]}
    return task(**(known | labels | changes))


def roll_out(draws: Any) -> Any:
    return bm.evaluation.rollout_evaluate([0, 0, 0], draws, 4, 5)


TASKS: dict[str, Refusal] = {
    "names without a place": Refusal(
        lambda: bm.fit(NAMED, task(**BARE)),
        {
            "give the task `state_labels`": lambda: bm.fit(NAMED, small()),
            "Task.from_data(data, ...)": lambda: bm.fit(
                NAMED, bm.Task.from_data(NAMED, discount=0.9)
            ),
        },
    ),
    "a name that is not known": Refusal(
        lambda: bm.fit(NAMED, small(state_labels=["icu", "home", "yard"])),
        {
            "add it there": lambda: bm.fit(
                NAMED,
                small(
                    n_states=4,
                    reward=[0, 1, 0, 0],
                    state_labels=["icu", "home", "yard", "ward"],
                ),
            )
        },
    ),
    "a label without labels": Refusal(
        lambda: task(**BARE, start="ward"),
        {
            "give an index": lambda: task(**BARE, start=0),
            "set the labels": lambda: task(start="ward"),
        },
    ),
    "no reward in the data": Refusal(
        lambda: bm.Task.from_data(
            bm.Transitions.from_arrays([0], [0], [1]), discount=0.9
        ),
        {
            "give `reward`": lambda: bm.Task.from_data(
                bm.Transitions.from_arrays([0], [0], [1]), discount=0.9, reward=[0, 1]
            )
        },
    ),
    "roll-outs of every model": Refusal(
        lambda: roll_out(bm.worlds.casino().draws()),
        {"ensemble.draws(n, seed)": lambda: roll_out(bm.worlds.casino().draws(16, 0))},
    ),
}
ALL = EMPTY | PRIORS | BELIEFS | DISCOUNT_1 | TASKS


def quiet(call: Callable[[], Any]) -> Any:
    with pytest.warns(bm.BayesmdpWarning):
        return call()


@pytest.mark.filterwarnings("ignore::bayesmdp.errors.BayesmdpWarning")
@pytest.mark.parametrize("name", ALL)
def test_remedies_work(name: str) -> None:
    refusal = ALL[name]
    with pytest.raises(bm.BayesmdpError) as caught:
        refusal.call()
    said = str(caught.value)
    for remedy, call in refusal.remedies.items():
        assert remedy in said, said
        call()
    for useless in refusal.never:
        assert useless not in said, said
