"""Draws of the dynamics: lazy, and pure functions of their address.

The purpose keeps streams apart: draws a policy was chosen on are never those it is
scored on, whatever the seed. `bayesmdp.posterior._stream` samples them.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bayesmdp import _checks
from bayesmdp._memory import check_draws
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.errors import ArgumentError
from bayesmdp.model import Dynamics
from bayesmdp.posterior._stream import Stream

if TYPE_CHECKING:
    from bayesmdp.posterior._belief import Belief


@dataclass(frozen=True, eq=False)
class Draws:
    """A number of draws from a posterior; nothing is sampled until it is used.

    Get one from ``posterior.draws(n, seed)``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
    >>> posterior.draws(1000, seed=0)
    Draws(1000 draws, seed 0)
    """

    belief: "Belief"
    n_draws: int
    seed: int
    purpose: str = "evaluate"
    exact: bool = False  # every model of an ensemble once, with its weight
    room: int = 0  # bytes of rows to remember, for several passes over the same draws

    @cached_property
    def stream(self) -> Stream:
        """The rows of these draws."""
        n = None if self.exact else self.n_draws
        made = self.belief.stream(n, self.seed, self.purpose)
        return made.keeping(self.room) if self.room else made

    @property
    def weights(self) -> FloatArray:
        """Weight of each draw, ``[D]``: 1, or probability times number of models."""
        check_draws(self.n_draws, 8)
        return self.stream.weights(self.n_draws)

    @cached_property
    def members(self) -> IntArray:
        """Model or component of each draw ``[D]``; empty where there is no choice."""
        check_draws(self.n_draws, 8)
        return self.stream.members(np.arange(self.n_draws))

    def dynamics(self, draw: int) -> Dynamics:
        """Show one draw.

        Parameters
        ----------
        draw
            Which, from 0.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> world = bm.worlds.gridworld()
        >>> draws = bm.fit(world.sample(100, seed=0), world.task).draws(10, seed=0)
        >>> draws.dynamics(3)
        Dynamics(25 states, 4 actions, 80 pairs, 2000 entries)
        """
        number = _checks.integer("draw", draw, 0, ArgumentError)
        if number >= self.n_draws:
            raise ArgumentError(
                f"`draw` must be in 0..{self.n_draws - 1}; got {number}."
            )
        if self.belief.rows().until:
            raise ArgumentError(
                "Rows that change with time are no single model: take draws of one of "
                "`beliefs`."
            )
        layout = self.belief.rows().layout
        theta = np.zeros((1, layout.next_state.size))
        every = np.ones(layout.pair.size, dtype=np.bool_)
        self.stream.fill(np.array([number]), every, theta)
        return Dynamics(layout, _checks.sealed(theta[0]))

    def __repr__(self) -> str:
        if self.exact:
            return f"Draws({_checks.many(self.n_draws, 'model')}, exact)"
        return f"Draws({_checks.many(self.n_draws, 'draw')}, seed {self.seed})"
