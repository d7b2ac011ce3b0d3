"""Data as counts that fit a task."""

from bayesmdp.data import Counts, Transitions
from bayesmdp.errors import ArgumentError, CountsError
from bayesmdp.model._task import Task


def observed_counts(data: Transitions | Counts, task: Task) -> Counts:
    """Count data, sized and checked against a task."""
    if isinstance(data, Transitions):
        data = data.counts()
    if not isinstance(data, Counts):
        raise ArgumentError(
            f"`data` must be Transitions or Counts; got {type(data).__name__}."
        )
    for name, sized, axes in (
        ("n_states", data.sized[0], ("state", "next_state")),
        ("n_actions", data.sized[1], ("action",)),
    ):
        size, wanted = getattr(data, name), getattr(task, name)
        if sized and size != wanted:
            raise CountsError(
                f"`data` and `task` disagree about `{name}`: {size} and {wanted}."
            )
        for axis in axes:
            column = getattr(data, axis)
            if column.size and column.max() >= wanted:
                raise CountsError(
                    f"`{axis}` must be in 0..{wanted - 1}; the data has {column.max()}."
                    " Ids start from 0."
                )
    if all(data.sized):
        return data
    return Counts.from_arrays(
        data.state,
        data.action,
        data.next_state,
        data.count,
        n_states=task.n_states,
        n_actions=task.n_actions,
    )
