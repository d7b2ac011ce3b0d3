"""A belief that is a finite set of models.

For draws that come from elsewhere: MCMC, a bootstrap, expert scenarios, multi-model
decision processes. Every model may bring a reward of its own (uncertain rewards).
Models are laid over each other: a row of the ensemble lists every next state that some
model allows, and ``table[m, e]`` is the probability model ``m`` gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._labelled import in_order
from bayesmdp._sheet import Sheet, Shown
from bayesmdp._typing import ArrayLike, BoolArray, FloatArray, IntArray, Seed
from bayesmdp.errors import (
    BayesmdpError,
    BeliefError,
    DynamicsError,
)
from bayesmdp.model import (
    Dynamics,
    Rewards,
    Rows,
    Task,
    as_dynamics,
    check_start,
    is_sparse,
)
from bayesmdp.posterior._belief import Belief, BeliefRows, Exits, spread, union
from bayesmdp.posterior._stream import Membership, ModelStream
from bayesmdp.posterior._tasks_of_models import tasks_of_models

_KNOWN = (  # what tasks of draws must share
    *("n_states", "n_actions", "discount", "terminal", "start", "horizon", "cycle"),
    *("criterion", "is_cost", "state_labels", "action_labels"),
)
_AT_ONCE = 2_000_000  # probabilities of models that are sorted together


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Ensemble(Belief, Shown):
    """Several models, each with a weight; used like a posterior.

    Parameters
    ----------
    dynamics
        One model each, all of the task's size: Dynamics, arrays ``[S, A, S]`` (hence
        also one array ``[M, S, A, S]``), or matrices of scipy.sparse as
        `Dynamics.from_matrices` takes them.
    task
        The known part.
    rewards
        One reward per model, in any form a task takes; the task's own where not given.
    weights
        Probability of each model; equal where not given.
    available
        Pairs a policy may use, boolean ``[S, A]``; those all models have a row for,
        where not given.
    sampled
        Whether the models are a random sample from the belief (MCMC, a bootstrap, a
        probabilistic sensitivity analysis) and not the whole of it: means over them
        then have Monte Carlo errors.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> casino = bm.worlds.casino()
    >>> casino
    Ensemble(2 models, 3 states, 2 actions)
    >>> bm.evaluate([1, 0, 0], casino.draws()).start_value
    -1.0
    >>> import numpy as np
    >>> models = np.stack([model.to_dense() for model in casino.dynamics])
    >>> models.shape, bm.Ensemble(models, casino.task)
    ((2, 3, 2, 3), Ensemble(2 models, 3 states, 2 actions))
    """

    task: Task
    weights: FloatArray  # [M]
    layout: Rows
    table: FloatArray  # [M, E]
    rewards: FloatArray  # [1, E] or [M, E], of transitions; [., K, E] of K by name
    terminal_values: FloatArray  # [1, S] or [M, S]; [., K, S] of K rewards by name
    sampled: bool
    dynamics: tuple[Dynamics, ...] = field()

    def __init__(
        self,
        dynamics: Iterable[Any],
        task: Task,
        rewards: Sequence[Any] | None = None,
        weights: ArrayLike | None = None,
        available: ArrayLike | None = None,
        *,
        sampled: bool = False,
    ) -> None:
        if not isinstance(dynamics, Iterable) or is_sparse(dynamics):
            raise BeliefError(
                f"`dynamics` must be a list of Dynamics; got {type(dynamics).__name__}."
            )
        _checks.of_type("task", task, Task, BeliefError)
        check_start(task)
        models = tuple(_read_model(i, model) for i, model in enumerate(dynamics))
        _check_models(models, task)
        put = object.__setattr__
        put(self, "task", task)
        put(self, "dynamics", models)
        _checks.of_type("sampled", sampled, bool, BeliefError)
        put(self, "sampled", sampled)
        n = len(models)
        even = np.full(n, 1.0 / n) if weights is None else weights
        put(self, "weights", _checks.shares("weights", even, "model", n, BeliefError))
        mask = _available(models, task, available)
        pair = np.flatnonzero(mask.ravel())
        parts = [_possible(model, pair) for model in models]
        rows = union([layout for layout, _ in parts])
        table = np.stack([spread(*part, rows) for part in parts])
        put(self, "layout", rows)
        put(self, "table", _checks.sealed(table))
        tasks = (
            [task] if rewards is None else tasks_of_models(task, rewards, len(models))
        )
        entry_state = rows.state[rows.row_of_entry]
        entry_action = rows.action[rows.row_of_entry]
        at = entry_state, entry_action, rows.next_state
        each = [list(t.parts.values()) for t in tasks]
        paid = np.stack([[t.transition_reward(*at) for t in ts] for ts in each])
        final = np.stack([[t.terminal_value for t in ts] for ts in each])
        if not isinstance(task.reward, Rewards):
            paid, final = paid[:, 0], final[:, 0]
        put(self, "rewards", _checks.sealed(paid))
        put(self, "terminal_values", _checks.sealed(final))

    @classmethod
    def from_function(
        cls,
        f: Callable[[np.random.Generator], tuple[Any, Any]],
        n: int,
        seed: Seed = 0,
        *,
        task: Task | None = None,
    ) -> Ensemble:
        """Draw models by a function: rows and rewards that share parameters.

        For beliefs that are no independent Dirichlet rows: a relative risk on a row
        that treatments share, probabilities from rates, uncertain costs and utilities.
        `bayesmdp.economics` has distributions by mean and standard deviation. Policies
        should be judged on another seed than they were chosen on.

        Parameters
        ----------
        f
            Given a random generator, returns the dynamics of one draw, in a form that
            an ensemble takes, and its reward, in a form that ``task`` takes (None: the
            task's own). It is called once for each draw, in order, and so may note its
            parameters. Draw ``i`` depends on the seed and ``i`` alone: two functions
            that draw alike share them, as `bayesmdp.posterior.BeliefsByCycle` asks.
        n
            Number of draws, at least 2.
        seed
            Which draws.
        task
            The known part. Where not given, the function returns a task in place of
            the reward, and tasks differ in rewards alone.

        Returns
        -------
        Ensemble
            With Monte Carlo errors, since its models are a sample.

        Examples
        --------
        >>> import numpy as np, bayesmdp as bm
        >>> task = bm.Task(2, 2, reward="alive", discount=0.97, terminal=1, start=0)
        >>> def draw(rng):
        ...     risk, ratio = rng.beta(10, 90), rng.lognormal(np.log(0.7), 0.1)
        ...     die = np.array([risk, risk * ratio])  # untreated, treated
        ...     rows = np.zeros((2, 2, 2))
        ...     rows[0] = np.column_stack([1 - die, die])
        ...     rows[1, :, 1] = 1
        ...     return rows, None
        >>> belief = bm.Ensemble.from_function(draw, 500, seed=1, task=task)
        >>> bm.evaluate([1, 0], belief)
        Evaluation(start_value=10.8 ± 0.1, epistemic_sd=2.46, aleatoric_sd=7.36, ...)
        """
        n = _checks.integer("n", n, 2, BeliefError)
        number = _checks.seed_integer(seed)
        if not callable(f):
            raise BeliefError(
                f"`f` must be a function of a random generator; got {type(f).__name__}."
            )
        if task is not None:
            _checks.of_type("task", task, Task, BeliefError)
        drawn = [_drawn(f, number, i) for i in range(n)]
        if task is None:
            task = drawn[0][1]
            if not isinstance(task, Task):
                raise BeliefError(
                    "`task` must be given, or `f` must return a Task beside the "
                    f"dynamics; draw 0 has {type(task).__name__}."
                )
        for i, (_, x) in enumerate(drawn):
            if isinstance(x, Task):
                _check_known(i, x, task)
        rewards = [x.reward if isinstance(x, Task) else x for _, x in drawn]
        own = [task.reward if x is None else x for x in rewards]
        none = all(x is None for x in rewards)
        try:
            return cls([x for x, _ in drawn], task, None if none else own, sampled=True)
        except BayesmdpError as problem:
            problem.add_note("Models are draws of `f`, with the same numbers.")
            raise

    @property
    def chain_noise(self) -> float:
        """Share of a variance by which a mean over models is off: theirs as a sample.

        ``1 / M`` for models of equal weight.
        """
        return float(self.weights @ self.weights) if self.sampled else 0.0

    @property
    def counts(self) -> None:  # type: ignore[override]
        """No counts: the models come from elsewhere."""
        return None

    @property
    def n_models(self) -> int:  # type: ignore[override]
        """Number of models."""
        return len(self.dynamics)

    def with_reward(self, reward: str | Mapping[str, float]) -> Ensemble:
        """Return the same models with one of the task's rewards, or a sum of them."""
        other = Belief.with_reward(self, reward)
        if isinstance(other.task.reward, Rewards):  # a sum of values of several
            return other
        choice = {reward: 1.0} if isinstance(reward, str) else reward
        weights = [choice.get(name, 0.0) for name in self.task.parts]
        for name in ("rewards", "terminal_values"):
            each = np.tensordot(getattr(self, name), weights, axes=(1, 0))
            object.__setattr__(other, name, _checks.sealed(each))
        return other

    @cached_property
    def _rows(self) -> BeliefRows:
        mean = self.weights @ self.table
        if isinstance(self.task.reward, Rewards):  # none of them stands for the others
            paid, final = np.full(mean.size, np.nan), self.task.terminal_value
            return BeliefRows(self.layout, _checks.sealed(mean), paid, final, None)
        own = self.terminal_values.shape[0] > 1
        final = self.weights @ self.terminal_values if own else self.terminal_values[0]
        reward = self.rewards[0]
        if self.rewards.shape[0] > 1:
            paid = self.weights @ (self.table * self.rewards)
            reward = np.zeros_like(paid)
            np.divide(paid, mean, reward, where=mean > 0)
        return BeliefRows(
            self.layout,
            _checks.sealed(mean),
            _checks.sealed(reward),
            _checks.sealed(np.asarray(final)),
            None,
        )

    def rows(self) -> BeliefRows:
        """Return what is the same in every draw."""
        return self._rows

    def stream(self, n_draws: int | None, seed: int, purpose: str) -> ModelStream:
        """Return every model once, or models drawn by their weights."""
        key = None if n_draws is None else _checks.stream_key(seed, purpose)
        membership = Membership(key, self.weights)
        given = (self.table, self.rewards, self.terminal_values)
        return ModelStream(membership, self.layout, *given)

    def exits(self) -> Iterator[Exits]:
        """Known models: what is possible is certain to stay so."""
        for model in self.table[self.weights > 0]:
            yield Exits(model, np.where(model > 0, np.inf, 0.0))

    def describe(self) -> str:
        """Say what the belief is made of."""
        how, given = "a finite set of", " with given probabilities"
        if self.sampled:
            how, given = "a sample of", ""
        return (
            f"The belief about the dynamics is {how} {self.n_models:,} models{given}."
        )

    def mean_squares(self) -> FloatArray:
        """Mean of the square of each probability over models, ``[E]``."""
        return np.asarray(self.weights @ self.table**2)

    def intervals(self, entry: IntArray, level: float) -> tuple[FloatArray, FloatArray]:
        """Weighted quantiles over models of the probability of entries ``[K]``."""
        ends = np.empty((2, entry.size))
        many = max(1, _AT_ONCE // self.n_models)
        for begin in range(0, entry.size, many):
            part = slice(begin, begin + many)
            table = self.table[:, entry[part]]  # [M, K]
            order = np.argsort(table, axis=0, kind="stable")
            mass = np.cumsum(self.weights[order], axis=0)
            ordered = np.take_along_axis(table, order, axis=0)
            for i, tail in enumerate(((1 - level) / 2, (1 + level) / 2)):
                at = np.argmax(mass >= tail * (1 - 1e-12), axis=0)
                ends[i, part] = np.take_along_axis(ordered, at[None], axis=0)[0]
        return ends[0], ends[1]

    def _sheet(self, shown: int = 10) -> Sheet:
        whose = "models" if self.rewards.shape[0] > 1 else "task"
        n_pairs = self.task.live.size * self.task.n_actions
        lines = [
            f"weights from {self.weights.min():.3g} to {self.weights.max():.3g}, "
            f"rewards of the {whose}",
            f"{self.layout.pair.size} of {_checks.many(n_pairs, 'pair')} available",
        ]
        return Sheet(repr(self), lines, indent="  ")

    def __repr__(self) -> str:
        said = _checks.sizes(
            model=self.n_models, state=self.task.n_states, action=self.task.n_actions
        )
        return f"Ensemble({said})"


def _drawn(f: Callable[..., Any], seed: int, number: int) -> tuple[Any, Any]:
    """Return dynamics and reward of a draw: a function of seed and number alone."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, number))))
    try:
        found = f(rng)
    except Exception as problem:
        problem.add_note(f"`f` failed at draw {number} of seed {seed}.")
        raise
    if not isinstance(found, tuple) or len(found) != 2:
        several = isinstance(found, tuple)
        n = f"has {len(found)}" if several else f"is of type {type(found).__name__}"
        raise BeliefError(
            "`f` must return two things, dynamics and reward (None for the task's "
            f"own); draw {number} {n}."
        )
    return found


def _check_known(number: int, drawn: Task, task: Task) -> None:
    """Refuse a draw's task that differs in more than the reward."""
    for name in _KNOWN:
        pairs = [
            (drawn.parts[x], task.parts[x]) for x in task.parts if x in drawn.parts
        ]
        same = [np.array_equal(getattr(x, name), getattr(y, name)) for x, y in pairs]
        if not all(same):
            raise BeliefError(
                f"`f` must return tasks that differ in the reward alone: that of draw "
                f"{number} has another `{name}`."
            )


def _possible(model: Dynamics, pair: IntArray) -> tuple[Rows, FloatArray]:
    """Rows of some of a model's pairs ``[R]``, and values, without impossible ones."""
    row = np.searchsorted(model.rows.pair, pair)
    rows, values = model.rows.take(row), model.probability[model.rows.entries_of(row)]
    kept = values > 0
    if kept.all():
        return rows, values
    length = np.bincount(rows.row_of_entry[kept], minlength=pair.size)
    indptr = np.zeros(pair.size + 1, dtype=np.int64)
    np.cumsum(length, out=indptr[1:])
    possible = Rows(
        rows.n_states,
        rows.n_actions,
        rows.pair,
        _checks.sealed(indptr),
        _checks.sealed(rows.next_state[kept]),
    )
    return possible, values[kept]


def _read_model(number: int, model: object) -> Any:
    try:
        return as_dynamics(model)
    except DynamicsError as problem:
        raise BeliefError(f"`dynamics`, model {number}: {problem}") from None


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
