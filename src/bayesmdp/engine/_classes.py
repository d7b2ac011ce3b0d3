"""Closed classes of a policy's chain: averages are of one number where there is one.

A closed class is a set of states that is never left, and in which every state leads to
every other. With two of them the average depends on where the chain begins. What counts
are next states that are possible in every draw (`Exits.sure`): where one state is
reached from all others by these, no draw has a second class.
"""

from collections.abc import Sequence

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.errors import EndlessError


def closed_classes(source: IntArray, target: IntArray, n_states: int) -> list[IntArray]:
    """Find the closed classes of a chain with these entries ``[E]``."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    entries = coo_array((np.ones(source.size), (source, target)), (n_states, n_states))
    n, label = connected_components(entries.tocsr(), connection="strong")
    leaves = np.zeros(n, dtype=np.bool_)
    leaves[label[source[label[source] != label[target]]]] = True
    return [np.flatnonzero(label == c) for c in np.flatnonzero(~leaves)]


def anchor_of(
    source: IntArray,
    target: IntArray,
    possible: Sequence[BoolArray],
    weight: FloatArray,
    names: Sequence[str],
) -> int:
    """Return a state that is reached from all others in every model or component.

    ``possible`` says of each which entries ``[E]`` it has; ``weight`` [S] which state
    is preferred. Several closed classes are refused by name.
    """
    common = np.ones(len(names), dtype=np.bool_)
    for has in possible:
        found = closed_classes(source[has], target[has], len(names))
        if len(found) > 1:
            one, other = (names[int(part[0])] for part in found[:2])
            raise EndlessError(
                "`criterion='average'` needs one closed class of states under a "
                f"policy, and this one has {len(found)}: from state {one} it never "
                f"comes to state {other}, nor back, so that the average depends on the "
                "start; choose another policy, a prior that allows more next states, "
                "or a discount below 1."
            )
        inside = np.zeros(len(names), dtype=np.bool_)
        inside[found[0]] = True
        common &= inside
    if not common.any():
        raise EndlessError(
            "`criterion='average'` needs a state that this policy visits again and "
            "again in every model, and there is none: choose another policy, or a "
            "discount below 1."
        )
    return int(np.argmax(np.where(common, weight, -1.0)))
