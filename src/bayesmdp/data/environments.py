"""Gymnasium environments as users may give them: made, or by name."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bayesmdp import _checks
from bayesmdp.errors import ArgumentError

__all__ = ["discrete", "opened"]


@contextmanager
def opened(env: Any, needed_by: str) -> Iterator[Any]:
    """Yield an environment; one that was made here, from its name, is closed again."""
    gymnasium = _checks.extra("gymnasium", "gym", needed_by)
    if isinstance(env, gymnasium.Env):
        yield env
        return
    if not isinstance(env, str):
        raise ArgumentError(
            "`env` must be a single Gymnasium environment or the name of one, such as "
            f"'FrozenLake-v1'; got {type(env).__name__}."
        )
    try:
        made = gymnasium.make(env)
    except (gymnasium.error.Error, ImportError) as problem:
        said = " ".join(str(problem).split()).rstrip(".")
        raise ArgumentError(
            f"`env` {env!r:.80} cannot be made: {said:.300}."
        ) from problem
    try:
        yield made
    finally:
        made.close()


def discrete(space: Any, name: str) -> tuple[int, int]:
    """Size and first id of a discrete space; ``name`` says whose, in messages."""
    if type(space).__name__ != "Discrete":
        raise ArgumentError(
            f"`{name}` must be Discrete; got {space!r:.80}; number its elements from "
            "0 first."
        )
    return int(space.n), int(space.start)
