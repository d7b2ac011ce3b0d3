"""Dirichlet rows that are alike in all next states that they hold.

**Symmetric**: the same concentration on every possible next state.

``theta[s, a, :] ~ Dirichlet(concentration, ..., concentration)`` over the support: all
states, or those the user knows to be possible (the four neighbours in the paper's
gridworld).

**Scaled**: a fixed weight for the prior as a whole, however many next states there are.

``theta[s, a, :] ~ Dirichlet(total / K, ..., total / K)`` over the ``K`` possible next
states. A symmetric prior of 1 on 700 states outweighs hundreds of visits; this one is
worth ``total`` visits in every row. With total 1 it is the sparse prior of Guez et al.

**Sparse**: only next states that were observed, and a bad one as a fallback.

The paper's conservative model of clinical data (section 5.3): the support of a pair is
what was observed after it plus the fallback (death), each with the same concentration.
A pair that was once observed to lead to recovery is then not certain to do so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bayesmdp._typing import FloatArray, IntArray, Name
from bayesmdp.data import Counts
from bayesmdp.model import Rows, Task
from bayesmdp.priors._contract import (
    LEAST,
    Support,
    checked_concentration,
    checked_support,
    counted,
    rows_from_keys,
    support_rows,
)


@dataclass(frozen=True, eq=False)
class SymmetricPrior:
    """Dirichlet with equal parameters on the states that are possible.

    Parameters
    ----------
    concentration
        Pseudo-count of every possible next state, above 0; 1 is the flat prior.
    support
        Which next states are possible: boolean ``[S, S]`` (the same for all
        actions) or ``[S, A, S]``, or three columns (state, action, next_state);
        everything where not given.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.SymmetricPrior(0.5)
    SymmetricPrior(concentration=0.5)
    """

    concentration: float = 1.0
    support: Support = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check the concentration."""
        checked = checked_concentration(self.concentration)
        object.__setattr__(self, "concentration", checked)
        object.__setattr__(self, "support", checked_support(self.support))

    @property
    def looks_at_data(self) -> bool:
        """Never: the support is fixed in advance."""
        return False

    def concentrations(
        self, pair: IntArray, counts: Counts, task: Task
    ) -> tuple[Rows, FloatArray]:
        """Dirichlet parameters before the data, for sorted pairs ``[R]``."""
        rows = support_rows(self.support, pair, task)
        return rows, np.broadcast_to(self.concentration, rows.next_state.shape)


@dataclass(frozen=True, eq=False)
class ScaledPrior:
    """Dirichlet with equal parameters that add up to the same total in every row.

    Parameters
    ----------
    total
        Pseudo-counts of each pair, above 0, shared evenly by its next states.
    support
        Which next states are possible, as for `SymmetricPrior`.

    References
    ----------
    Guez, Silver and Dayan (2012), Efficient Bayes-adaptive reinforcement learning
    using sample-based search, NeurIPS.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(4, 1, reward=[0, 0, 0, 1], discount=0.9)
    >>> counts = bm.Counts.from_arrays([0], [0], [3])
    >>> posterior = bm.fit(counts, task, prior=bm.ScaledPrior(1.0))
    >>> posterior.mean().to_dense()[0, 0].tolist()
    [0.125, 0.125, 0.125, 0.625]
    """

    total: float = 1.0
    support: Support = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check the total, and copy the support."""
        object.__setattr__(self, "total", checked_concentration(self.total, "total"))
        object.__setattr__(self, "support", checked_support(self.support))

    @property
    def looks_at_data(self) -> bool:
        """Never: support and weight are fixed in advance."""
        return False

    def concentrations(
        self, pair: IntArray, counts: Counts, task: Task
    ) -> tuple[Rows, FloatArray]:
        """Dirichlet parameters before the data, for sorted pairs ``[R]``."""
        rows = support_rows(self.support, pair, task)
        length = np.diff(rows.indptr)
        each = np.maximum(self.total / np.maximum(length, 1), LEAST)
        return rows, np.repeat(each, length)


@dataclass(frozen=True)
class SparsePrior:
    """Dirichlet on the observed next states and a fallback.

    Its support depends on the data, so it is not a prior in the strict sense, and model
    evidence has no meaning for it.

    Parameters
    ----------
    concentration
        Pseudo-count of every possible next state, above 0.
    fallback
        State (or its label) that is always possible, such as death; None for
        observed next states alone.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.SparsePrior(fallback="death")
    SparsePrior(concentration=1.0, fallback='death')
    """

    concentration: float = 1.0
    fallback: Name | None = None

    def __post_init__(self) -> None:
        """Check the concentration; the fallback is checked against the task."""
        checked = checked_concentration(self.concentration)
        object.__setattr__(self, "concentration", checked)

    @property
    def looks_at_data(self) -> bool:
        """Always: the support is what was observed."""
        return True

    def concentrations(
        self, pair: IntArray, counts: Counts, task: Task
    ) -> tuple[Rows, FloatArray]:
        """Dirichlet parameters before the data, for sorted pairs ``[R]``."""
        row, next_state, _ = counted(pair, counts, task)
        key = row * task.n_states + next_state
        if self.fallback is not None:
            fallback = np.arange(pair.size) * task.n_states + task.state(
                self.fallback, "fallback"
            )
            key = np.union1d(key, fallback)
        rows = rows_from_keys(pair, key, task)
        return rows, np.broadcast_to(self.concentration, rows.next_state.shape)
