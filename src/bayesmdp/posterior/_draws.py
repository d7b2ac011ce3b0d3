"""Draws of the dynamics: lazy, and pure functions of their address.

The row ``theta[draw, s, a, :]`` depends on (purpose, seed, draw, s, a) and on what is
believed of the row, on nothing else. So every policy meets the same draws, any subset
can be made without the others, on any number of threads or machines, and nothing needs
to be stored. The purpose keeps streams apart: draws a policy was chosen on are never
those it is scored on, whatever the seed.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._memory import check_draws
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.errors import ArgumentError
from bayesmdp.model import Dynamics

if TYPE_CHECKING:
    from bayesmdp.posterior._belief import Belief
    from bayesmdp.posterior._posterior import Posterior


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

    @cached_property
    def members(self) -> IntArray:
        """Model or component of each draw ``[D]``; empty for a posterior."""
        from bayesmdp.posterior._posterior import Posterior

        if isinstance(self.belief, Posterior):
            return np.empty(0, dtype=np.int64)
        if self.exact:  # a model of weight 0 is skipped; name one that counts instead
            weights = self.belief.weights
            return np.where(weights > 0, np.arange(self.n_draws), np.argmax(weights))
        from bayesmdp.posterior.sampling import sample_members

        check_draws(self.n_draws, 8)
        members = np.empty(self.n_draws, dtype=np.int64)
        sample_members(self._member_key, np.cumsum(self.belief.weights), members)
        return members

    @property
    def _member_key(self) -> NDArray[np.uint64]:
        """Key of the streams that members come from: not those of a mixture's rows."""
        from bayesmdp.posterior._mixture import MixturePosterior

        if isinstance(self.belief, MixturePosterior):
            return _key(self.seed, f"{self.purpose}: component")
        return self.key

    @property
    def weights(self) -> FloatArray:
        """Weight of each draw, ``[D]``: 1, or probability times number of models."""
        from bayesmdp.posterior._ensemble import Ensemble

        if self.exact and isinstance(self.belief, Ensemble):
            return self.belief.weights * self.n_draws
        check_draws(self.n_draws, 8)
        return np.ones(self.n_draws)

    @cached_property
    def key(self) -> NDArray[np.uint64]:
        """Key of the streams, uint64 ``[2]``: the seed, and a hash of the purpose."""
        return _key(self.seed, self.purpose)

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
        from bayesmdp.posterior._ensemble import Ensemble
        from bayesmdp.posterior._mixture import MixturePosterior
        from bayesmdp.posterior._overlay import spread

        belief = self.belief
        if isinstance(belief, Ensemble):
            model = belief.table[self.members[number]]
            return Dynamics(belief.rows, _checks.frozen(model))
        if isinstance(belief, MixturePosterior):
            component = belief.components[self.members[number]]
            theta = spread(
                component.rows, self._sampled(component, number), belief.rows
            )
            return Dynamics(belief.rows, _checks.sealed(theta))
        return Dynamics(belief.rows, _checks.sealed(self._sampled(belief, number)))

    def _sampled(self, posterior: "Posterior", draw: int) -> FloatArray:
        """Sample every row of one draw, ``[E]``."""
        from bayesmdp.posterior import sampling  # numba: only where used

        rows, theta = posterior.rows, np.empty(posterior.alpha.size)
        where = rows.state, rows.action, rows.indptr
        if posterior.sets is None:
            sampling.sample_rows(self.key, draw, *where, posterior.alpha, theta)
        else:
            sets = posterior.set_table
            sampling.sample_set_rows(
                self.key, draw, *where, posterior.alpha, sets, theta
            )
        return theta

    def __repr__(self) -> str:
        if self.exact:
            return f"Draws({self.n_draws} models, exact)"
        return f"Draws({self.n_draws} draws, seed {self.seed})"


def _key(seed: int, purpose: str) -> NDArray[np.uint64]:
    digest = hashlib.blake2b(purpose.encode(), digest_size=8).digest()
    key = np.array([seed, int.from_bytes(digest, "little")], dtype=np.uint64)
    key.flags.writeable = False
    return key
