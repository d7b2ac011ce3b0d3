"""RiverSwim with uncertain currents (Su and Petrik 2023): 100 models, equally likely.

A swimmer in one of 20 places swims left, which always succeeds and pays 5, or right,
against a current whose strength differs between models and places; the right end pays
much. The models are those that the authors' policies learn from (`riverswim.csv.gz`,
from the repository suxh2019/CADP, MIT licence: `riverswim_licence.txt`). At discount
0.9 each model's own best policy has 210.1570 on average over models, the best policy
without memory for all of them 202.8513, and that for the mean model 200.9236 (on the
authors' 700 further models 213.2829, 206.2617 and 204.0195).
"""

import csv
import gzip
from pathlib import Path

import numpy as np

from bayesmdp.errors import DynamicsError
from bayesmdp.model import Task
from bayesmdp.posterior import Ensemble

_FILE = Path(__file__).parent / "riverswim.csv.gz"
_N_STATES, _DISCOUNT = 20, 0.9


def riverswim(path: str | Path | None = None) -> Ensemble:
    """Swim against a current of unknown strength.

    Parameters
    ----------
    path
        A file of other models in the authors' columns, such as those that policies are
        judged on; gzipped.

    Returns
    -------
    Ensemble
        Action 0 is left, action 1 right; every place is as likely a start.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> river = bm.worlds.riverswim()
    >>> river.n_models
    100
    >>> print(f"{bm.evaluate(bm.policies.nominal(river), river).start_value:.1f}")
    200.9
    """
    file = _FILE if path is None else Path(path)
    try:
        with gzip.open(file, "rt", encoding="utf-8") as stream:
            rows = np.array(list(csv.reader(stream))[1:], dtype=np.float64)
    except (OSError, ValueError) as problem:
        raise DynamicsError(
            f"`path` must name a gzipped table of models; cannot read {file}: "
            f"{problem}."
        ) from problem
    state, action, to, model = rows[:, :4].astype(np.int64).T
    shape = model.max() + 1, _N_STATES, 2, _N_STATES
    theta, reward = np.zeros((2, *shape))
    theta[model, state, action, to], reward[model, state, action, to] = rows[:, 4:].T
    task = Task(
        _N_STATES,
        2,
        np.zeros((_N_STATES, 2)),
        discount=_DISCOUNT,
        action_labels=["left", "right"],
    )
    paid = (theta * reward).sum(axis=3)
    return Ensemble(theta, task, list(paid))
