"""Draws of the dynamics: lazy, and pure functions of their address.

The row ``theta[draw, s, a, :]`` depends on (purpose, seed, draw, s, a) and on the row's
Dirichlet parameters, on nothing else. So every policy meets the same draws, any subset
can be made without the others, on any number of threads or machines, and nothing needs
to be stored. The purpose keeps streams apart: draws a policy was chosen on are never
those it is scored on, whatever the seed.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp.errors import ArgumentError
from bayesmdp.model import Dynamics

if TYPE_CHECKING:
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

    posterior: "Posterior"
    n_draws: int
    seed: int
    purpose: str = "evaluate"

    def __post_init__(self) -> None:
        """Check the number of draws."""
        _checks.integer("n_draws", self.n_draws, 2, ArgumentError)

    @cached_property
    def key(self) -> NDArray[np.uint64]:
        """Key of the streams, uint64 ``[2]``: the seed, and a hash of the purpose."""
        digest = hashlib.blake2b(self.purpose.encode(), digest_size=8).digest()
        key = np.array([self.seed, int.from_bytes(digest, "little")], dtype=np.uint64)
        key.flags.writeable = False
        return key

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
        rows, alpha = self.posterior.rows, self.posterior.alpha
        theta = np.empty(alpha.size)
        _sampler()(self.key, number, rows.state, rows.action, rows.indptr, alpha, theta)
        return Dynamics(rows, _checks.sealed(theta))

    def __repr__(self) -> str:
        return f"Draws({self.n_draws} draws, seed {self.seed})"


def _sampler() -> Callable[..., None]:
    from bayesmdp.posterior.sampling import sample_rows  # numba: only where used

    return sample_rows
