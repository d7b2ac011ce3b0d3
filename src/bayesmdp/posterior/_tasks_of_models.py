"""Tasks of the models of an ensemble, each with rewards of its own."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bayesmdp.errors import BayesmdpWarning, BeliefError, TaskError
from bayesmdp.model import Rewards, Task


def tasks_of_models(task: Task, rewards: Sequence[Any], n: int) -> list[Task]:
    """One task per model, which differ in the reward alone."""
    if not isinstance(rewards, Iterable):
        raise BeliefError(f"`rewards` must be a list; got {type(rewards).__name__}.")
    task.no_cost("Ensemble(rewards=)")
    rewards = list(rewards)
    if len(rewards) != n:
        raise BeliefError(
            f"`rewards` must have one entry per model, {n}; got {len(rewards)}."
        )
    with warnings.catch_warnings():  # the task itself has said it of the discount
        warnings.simplefilter("ignore", BayesmdpWarning)
        found = [_task_of(i, task, reward) for i, reward in enumerate(rewards)]
    for i, one in enumerate(found):
        timed = task.horizon is not None or task.cycle != "start"
        if timed and one.of_states != task.of_states:
            raise BeliefError(
                f"`rewards`, model {i}: it must be of states or pairs, or of "
                "transitions, as the task's own: `cycle` and `horizon` count them "
                "differently."
            )
    return found


def _task_of(number: int, task: Task, reward: Any) -> Task:
    """Return the task of a model; rewards by name are matched by name."""
    discount: Any = task.discount
    if isinstance(task.reward, Rewards):
        discount = {name: part.discount for name, part in task.parts.items()}
    try:
        return Task(
            task.n_states,
            task.n_actions,
            _by_name(number, task, reward),
            discount=None if task.criterion == "average" else discount,
            start=task.start,
            terminal=task.terminal,
            horizon=task.horizon,
            cycle=task.cycle,
            criterion=task.criterion,
        )
    except TaskError as problem:
        raise BeliefError(f"`rewards`, model {number}: {problem}") from None


def _by_name(number: int, task: Task, reward: Any) -> Any:
    """Put rewards of a model in the order of the task's."""
    own: dict[str, float] = {}
    if isinstance(reward, Rewards):
        own = dict(zip(reward.names, reward.discounts, strict=True))
        reward = dict(zip(reward.names, reward.rewards, strict=True))
    came = list(reward) if isinstance(reward, Mapping) else []
    names = list(task.parts) if isinstance(task.reward, Rewards) else []
    if {*came} != {*names}:
        said = "have no names, as the task's has none"
        if names:
            said = f"hold the task's rewards by name, {', '.join(names)}"
        raise BeliefError(
            f"`rewards`, model {number}, must {said}; got "
            f"{', '.join(map(repr, came)) or 'one without a name'}."
        )
    for name in names if task.criterion != "average" else ():
        wanted = task.parts[name].discount
        if own.get(name, wanted) != wanted:
            raise BeliefError(
                f"`rewards`, model {number}: {name!r} has the discount {own[name]:g}, "
                f"and the task's {wanted:g}; models differ in rewards alone."
            )
    return {name: reward[name] for name in names} if names else reward
