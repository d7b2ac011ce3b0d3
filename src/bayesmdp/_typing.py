"""Array types, and the letters that name axes in every docstring and record.

========  =====================================================================
``D``     draws from a posterior
``S``     states
``A``     actions
``P``     policies swept together
``C``     components of a mixture; channels of the sums over draws
``M``     models of an ensemble
``B``     draws of a block, or blocks of a range
``R``     rows: (state, action) pairs a policy may use, sorted by pair
``E``     entries: possible next states of all rows, one row after the other
``N``     live states, that is, states that are not terminal
``K``     entries of a policy's chain, rows of the same state joined
========  =====================================================================
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
StatusArray: TypeAlias = NDArray[np.int8]
IndexArray: TypeAlias = NDArray[np.uint32]
BitArray: TypeAlias = NDArray[np.uint64]

#: A state or action as users may name it: its index, or its label.
Name: TypeAlias = int | str

#: A policy as users may give it: probabilities ``[S, A]``; an action for each state
#: ``[S]``; or a mapping of states that are not terminal to actions.
PolicyLike: TypeAlias = ArrayLike | Mapping[Any, Name] | str

#: A seed as users may give it.
Seed: TypeAlias = int | np.random.Generator

__all__ = [
    "ArrayLike",
    "BitArray",
    "BoolArray",
    "FloatArray",
    "IndexArray",
    "IntArray",
    "Name",
    "PolicyLike",
    "Seed",
    "StatusArray",
]
