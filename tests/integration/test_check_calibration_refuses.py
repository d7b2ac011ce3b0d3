"""Calibration: what is refused, in one sentence."""

from typing import Any

import numpy as np
import pytest
from bad_input import case, check

import bayesmdp as bm
from bayesmdp.diagnostics import Episodes, plot_calibration
from bayesmdp.errors import ArgumentError, EndlessError, PolicyError, PriorError

pytestmark = pytest.mark.integration

TASK = bm.worlds.synthetic(0, 3, 2, discount=0.8).task
FLAT = bm.SymmetricPrior(1.0)


def call(task: Any = TASK, prior: Any = FLAT, **changes: Any) -> Any:
    return lambda: bm.check_calibration(task, prior, **({"n_datasets": 10} | changes))


WORLD = bm.worlds.synthetic(0, 4, 2, discount=0.9)
PARTLY = bm.MDP(
    bm.Dynamics.from_dense([[[0.5, 0.5], [0, 0]], [[0, 1], [1, 0]]]),
    bm.Task(2, 2, reward=[0, 1], discount=0.9),
)
NEVER = bm.Task(2, 1, reward=[1, 0], discount=1.0, terminal=[1])
BAD = [
    case("task", ArgumentError, call(task=3), "`task`"),
    case("prior", ArgumentError, call(prior=1.0), "`prior`", "SymmetricPrior(1.0)"),
    case("a class", ArgumentError, call(prior=bm.SymmetricPrior), "`prior`"),
    case("no truth", ArgumentError, call(truth="flat"), "`truth`", "or a world"),
    case(
        "sparse",
        PriorError,
        call(prior=bm.SparsePrior(fallback=0)),
        "SparsePrior generates no data",
        "give `truth`",
    ),
    case("evidence", PriorError, call(prior=bm.EvidencePrior()), "EvidencePrior"),
    case(
        "data that cannot choose",
        PriorError,
        call(prior=bm.EvidencePrior(), truth=FLAT, n_visits=1),
        "Simulated dataset 0 cannot be fitted",
        "give a number",
    ),
    case(
        "fallback over evidence",
        PriorError,
        call(prior=bm.FallbackPrior(bm.EvidencePrior(), 0)),
        "FallbackPrior",
    ),
    case(
        "fallback over sets with a fallback",
        PriorError,
        call(prior=bm.FallbackPrior(bm.RandomSupportPrior(fallback=1), 0)),
        "FallbackPrior",
    ),
    case(
        "sets with a fallback",
        PriorError,
        call(prior=bm.RandomSupportPrior(fallback=0)),
        "RandomSupportPrior",
    ),
    case(
        "another size",
        ArgumentError,
        call(truth=WORLD),
        "`truth` and `task`",
        "`n_states`",
        "4 and 3",
    ),
    case(
        "truth outside the support",
        PriorError,
        call(prior=bm.SymmetricPrior(support=np.eye(3, dtype=bool)), truth=FLAT),
        "support rules out",
    ),
    case(
        "no fallback",
        bm.errors.TaskError,
        call(prior=bm.FallbackPrior(FLAT, 7)),
        "`fallback`",
        "7",
    ),
    case("no visits", ArgumentError, call(n_visits=0), "`n_visits`", "at least 1"),
    case("half visits", ArgumentError, call(n_visits=2.5), "`n_visits`", "2.5"),
    case("shape", ArgumentError, call(n_visits=[1, 2]), "`n_visits`", "(3, 2)"),
    case(
        "negative",
        ArgumentError,
        call(n_visits=[[1, 1], [1, -2], [1, 1]]),
        "`n_visits`",
        "state 1, action 1",
        "-2",
    ),
    case("nothing", ArgumentError, call(n_visits=np.zeros((3, 2))), "0 for every pair"),
    case("words", ArgumentError, call(n_visits="many"), "`n_visits`", "many"),
    case(
        "not there",
        ArgumentError,
        call(PARTLY.task, truth=PARTLY, policy=[0, 0], n_visits=[[1, 1], [1, 1]]),
        "`n_visits`",
        "state 0, action 1",
        "`truth`",
    ),
    case(
        "policy not there",
        PolicyError,
        call(PARTLY.task, truth=PARTLY, policy=[1, 0]),
        "`policy`",
        "state 0",
    ),
    case(
        "choice not there",
        PolicyError,
        call(PARTLY.task, truth=PARTLY, policy=[0, 0], choose=lambda _: [1, 1]),
        "`choose`",
        "state 0",
    ),
    case(
        "behaviour",
        PolicyError,
        call(n_visits=Episodes([5, 0, 0], 3)),
        "`n_visits.policy`",
        "5",
    ),
    case("no episodes", ArgumentError, lambda: Episodes([0], 0), "`n_episodes`"),
    case("no steps", ArgumentError, lambda: Episodes([0], 1, 0), "`max_steps`"),
    case("policy", PolicyError, call(policy=[0, 9, 0]), "`policy`", "9"),
    case("choose", ArgumentError, call(choose="best"), "`choose`", "best"),
    case("chosen", PolicyError, call(choose=lambda _: [0, 0]), "`choose`"),
    case("min_count", ArgumentError, call(min_count=-1), "`min_count`"),
    case("datasets", ArgumentError, call(n_datasets=9), "`n_datasets`", "10"),
    case("draws", ArgumentError, call(n_draws=1), "`n_draws`", "2"),
    case(
        "ends between draws",
        ArgumentError,
        call(n_draws=99),
        "`n_draws` 99",
        "0.95",
        "2.5",
        "199",
    ),
    case("too few draws", ArgumentError, call(n_draws=7, levels=[0.9]), "`n_draws` 7"),
    case("level", ArgumentError, call(levels=[0.5, 1.0]), "`levels`", "(0, 1)", "1"),
    case("no level", ArgumentError, call(levels=[]), "`levels`"),
    case("rate", ArgumentError, call(error_rate=0), "`error_rate`"),
    case("high rate", ArgumentError, call(error_rate=0.9), "`error_rate`", "0.9"),
    case("seed", ArgumentError, call(seed=-1), "`seed`"),
    case("threads", ArgumentError, call(threads=0), "`threads`"),
    case("executor", ArgumentError, call(executor=4), "`executor`"),
    case(
        "no mean",
        EndlessError,
        call(NEVER, n_visits=1, prior=bm.SymmetricPrior(0.1)),
        "discount",
    ),
    case(
        "no calibration", ArgumentError, lambda: plot_calibration(FLAT), "`calibration`"
    ),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("error", "bad", "said"), BAD)
def test_bad_input(error: Any, bad: Any, said: tuple[str, ...]) -> None:
    check(error, bad, said)
