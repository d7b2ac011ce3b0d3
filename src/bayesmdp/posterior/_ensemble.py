"""A belief that is a finite set of models.

For draws that come from elsewhere: MCMC, a bootstrap, expert scenarios, multi-model
decision processes. Every model may bring a reward of its own (uncertain rewards).
Models are laid over each other: a row of the ensemble lists every next state that some
model allows, and ``table[m, e]`` is the probability model ``m`` gives it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._labelled import in_order
from bayesmdp._typing import ArrayLike, BoolArray, FloatArray, Seed
from bayesmdp.errors import ArgumentError, BeliefError
from bayesmdp.model import Dynamics, Rows, Task
from bayesmdp.posterior._draws import Draws
from bayesmdp.posterior._overlay import overlay


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Ensemble:
    """Several models, each with a weight; the same contract as a posterior's.

    Parameters
    ----------
    dynamics
        One model each; all of the task's size.
    task
        The known part.
    rewards
        One reward a model, in any form a task takes; the task's own where not given.
    weights
        Probability of each model; equal where not given.
    available
        Pairs a policy may use, boolean ``[S, A]``; those all models have a row for,
        where not given.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> casino = bm.worlds.casino()
    >>> casino
    Ensemble(2 models, 3 states, 2 actions)
    >>> bm.evaluate([1, 0, 0], casino.draws()).start_value
    -1.0
    """

    task: Task
    weights: FloatArray  # [M]
    rows: Rows
    table: FloatArray  # [M, E]
    rewards: FloatArray  # [1, E] or [M, E], of transitions
    terminal_values: FloatArray  # [1, S] or [M, S]
    dynamics: tuple[Dynamics, ...] = field()

    def __init__(
        self,
        dynamics: Sequence[Dynamics],
        task: Task,
        rewards: Sequence[Any] | None = None,
        weights: ArrayLike | None = None,
        available: ArrayLike | None = None,
    ) -> None:
        if isinstance(dynamics, Dynamics) or not isinstance(dynamics, Iterable):
            raise BeliefError(
                f"`dynamics` must be a list of Dynamics; got {type(dynamics).__name__}."
            )
        _checks.of_type("task", task, Task, BeliefError)
        models = tuple(dynamics)
        _check_models(models, task)
        put = object.__setattr__
        put(self, "task", task)
        put(self, "dynamics", models)
        n = len(models)
        even = np.full(n, 1.0 / n) if weights is None else weights
        put(self, "weights", _checks.shares("weights", even, "model", n, BeliefError))
        mask = _available(models, task, available)
        parts = [(m.rows, m.probability) for m in models]
        rows, table = overlay(parts, np.flatnonzero(mask.ravel()))
        put(self, "rows", rows)
        put(self, "table", table)
        tasks = [task] if rewards is None else _tasks(task, rewards, len(models))
        entry_state = rows.state[rows.row_of_entry]
        entry_action = rows.action[rows.row_of_entry]
        paid = [
            t.transition_reward(entry_state, entry_action, rows.next_state)
            for t in tasks
        ]
        put(self, "rewards", _checks.sealed(np.stack(paid)))
        final = np.stack([t.terminal_value for t in tasks])
        put(self, "terminal_values", _checks.sealed(final))

    @property
    def n_models(self) -> int:
        """Number of models."""
        return len(self.dynamics)

    @property
    def available(self) -> BoolArray:
        """Pairs a policy may use, ``[S, A]``."""
        return self.rows.available

    @cached_property
    def _mean(self) -> Dynamics:
        return Dynamics(self.rows, _checks.sealed(self.weights @ self.table))

    def mean(self) -> Dynamics:
        """Weighted mean of the models.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> bm.worlds.casino().mean().row(0, 0)[1].tolist()
        [0.5, 0.5]
        """
        return self._mean

    @cached_property
    def mean_reward(self) -> FloatArray:
        """Reward of each entry that keeps expected rewards exact, ``[E]``."""
        if self.rewards.shape[0] == 1:
            return np.asarray(self.rewards[0])
        paid = self.weights @ (self.table * self.rewards)
        mean = self.mean().probability
        out: FloatArray = np.zeros_like(paid)
        np.divide(paid, mean, out, where=mean > 0)
        return _checks.sealed(out)

    def draws(self, n_draws: int | None = None, seed: Seed = 0) -> Draws:
        """Name draws: every model with its weight, or ``n_draws`` of them at random.

        Parameters
        ----------
        n_draws
            None for the exact weighted sweep, whose Monte Carlo error is 0.
        seed
            Which random draws.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> bm.worlds.casino().draws()
        Draws(2 models, exact)
        """
        number = _checks.seed_integer(seed)
        if n_draws is None:
            return Draws(self, self.n_models, number, exact=True)
        return Draws(
            self, _checks.integer("n_draws", n_draws, 2, ArgumentError), number
        )

    def __repr__(self) -> str:
        return (
            f"Ensemble({self.n_models} models, {self.task.n_states} states, "
            f"{self.task.n_actions} actions)"
        )


def _check_models(models: tuple[Dynamics, ...], task: Task) -> None:
    if not models:
        raise BeliefError("`dynamics` holds no model.")
    for i, model in enumerate(models):
        if not isinstance(model, Dynamics):
            raise BeliefError(
                f"`dynamics` must hold Dynamics: model {i} is {type(model).__name__}."
            )
        for name in ("n_states", "n_actions"):
            has, wants = getattr(model, name), getattr(task, name)
            if has != wants:
                raise BeliefError(
                    f"`dynamics` and `task` disagree about `{name}`: model {i} has "
                    f"{has}, the task {wants}."
                )


def _available(
    models: tuple[Dynamics, ...], task: Task, available: ArrayLike | None
) -> BoolArray:
    common = np.repeat(~task.is_terminal[:, None], task.n_actions, axis=1)
    for model in models:
        common &= model.available
    if available is not None:
        axes = ("state", "action")
        available = in_order("available", available, axes, BeliefError, task)
        wanted = _checks.any_array("available", available, BeliefError)
        if wanted.shape != common.shape or wanted.dtype != np.bool_:
            raise BeliefError(
                f"`available` must be boolean of shape {common.shape}; got "
                f"{wanted.dtype} of shape {wanted.shape}."
            )
        missing = wanted & ~common & ~task.is_terminal[:, None]
        if missing.any():
            state, action = _checks.first_true(missing)
            raise BeliefError(
                f"`available` names {task.pair_name(state, action)}, for which some "
                "model has no row."
            )
        common &= wanted
    empty = ~common.any(axis=1) & ~task.is_terminal
    if empty.any():
        name = task.state_name(int(np.argmax(empty)))
        raise BeliefError(f"No action of state {name} is available in every model.")
    return common


def _tasks(task: Task, rewards: Sequence[Any], n: int) -> list[Task]:
    """One task a model, which differ in the reward alone."""
    if not isinstance(rewards, Iterable):
        raise BeliefError(f"`rewards` must be a list; got {type(rewards).__name__}.")
    rewards = list(rewards)
    if len(rewards) != n:
        raise BeliefError(
            f"`rewards` must have one entry a model, {n}; got {len(rewards)}."
        )
    return [
        Task(
            task.n_states,
            task.n_actions,
            reward,
            discount=task.discount,
            start=task.start,
            terminal=task.terminal,
        )
        for reward in rewards
    ]
