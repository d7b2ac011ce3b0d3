"""Draws of values as ArviZ takes them, so that its summaries and plots work.

ArviZ before 1.0 has a class of its own, `InferenceData`; from 1.0 on it takes the
`DataTree` of xarray. Both hold one data set, ``posterior``, with axes chain and draw.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray
from bayesmdp.errors import ArgumentError

#: Values ``[D, ...]`` by name, each with the name and labels of its second axis.
Variables = Mapping[str, tuple[FloatArray, Mapping[str, Sequence[str]]]]


def inference_data(variables: Variables, weights: FloatArray | None, n: Any) -> Any:
    """Hand values over draws to ArviZ.

    Parameters
    ----------
    variables
        Values by name, with labels of further axes.
    weights
        Of draws; ArviZ takes all to count alike.
    n
        How many chains the draws came from, one after the other.
    """
    if weights is not None and not np.allclose(weights, weights[0]):
        raise ArgumentError(
            "`to_inference_data` takes draws that count alike, and models of this "
            "ensemble have different weights: repeat models by weight, or use `values`."
        )
    n = _checks.integer("chains", n, 1, ArgumentError)
    known = np.all(
        [np.isfinite(x).reshape(x.shape[0], -1).all(1) for x, _ in variables.values()],
        axis=0,
    )
    if n > 1 and (known.size % n or not known.all()):
        raise ArgumentError(
            f"`chains` must divide the {known.size} draws, none of them left out for "
            f"not ending; got {n} and {int(known.sum())} draws with a value."
        )
    try:
        with warnings.catch_warnings():  # ArviZ 0.23 announces 1.0 once a day
            warnings.simplefilter("ignore", FutureWarning)
            import arviz
        import xarray
    except ImportError:
        raise ArgumentError(
            "`to_inference_data` needs ArviZ, which is not installed: "
            '`pip install "bayesmdp[arviz]"`.'
        ) from None
    coordinates = {
        d: list(x) for _, axes in variables.values() for d, x in axes.items()
    }
    data = {
        name: (("chain", "draw", *axes), x[known].reshape(n, -1, *x.shape[1:]))
        for name, (x, axes) in variables.items()
    }
    found = xarray.Dataset(
        data,
        {"chain": np.arange(n), "draw": np.arange(known.sum() // n), **coordinates},
        {"inference_library": "bayesmdp"},
    )
    if hasattr(arviz, "InferenceData"):  # before 1.0
        return arviz.InferenceData(posterior=found)
    return xarray.DataTree.from_dict({"posterior": found})
