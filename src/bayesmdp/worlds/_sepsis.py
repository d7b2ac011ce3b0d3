"""ICU-Sepsis (Choudhary, Gupta and Thomas 2024): the treatment of sepsis, as a world.

A finite decision process that its authors estimated from the intensive-care records of
MIMIC-III. States 0 to 712 are clusters of patients' measurements, 713 is death, 714
survival and 715 an end that only these two lead to. An action is a pair of doses, each
in five levels: ``a = 5 * fluid + vasopressor``. Survival pays 1, so that with discount
1 the value of a policy is the probability of surviving.

An action that was rare in the records has the mean of the state's common ones as its
dynamics: many actions are exactly alike, and every pair is available.

The arrays come with the package icu-sepsis and are read from its files: importing it
would import gym and gymnasium, which nothing here needs.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import ArrayLike, FloatArray
from bayesmdp.errors import DynamicsError
from bayesmdp.model import Dynamics, Rows, Task, as_policy
from bayesmdp.worlds._mdp import MDP

_N_LIVE, _N_LEVELS = 713, 5
_DEATH, _SURVIVAL, _END = range(_N_LIVE, _N_LIVE + 3)
_N_STATES, _N_ACTIONS = _N_LIVE + 3, _N_LEVELS**2
_SHAPES = {
    "tx_mat": (_N_STATES, _N_ACTIONS, _N_STATES),
    "d_0": (_N_STATES,),
    "expert_policy": (_N_STATES, _N_ACTIONS),
    "sofa_scores": (_N_STATES,),
}
_REMEDY = "pip install --no-deps icu-sepsis==2.0.1"


@dataclass(frozen=True, init=False, eq=False)
class SepsisMDP(MDP):
    """An `MDP` of patients, with what clinicians did; see `icu_sepsis`.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.icu_sepsis()
    >>> isinstance(world, bm.worlds.SepsisMDP), world.expert.shape
    (True, (716, 25))
    """

    expert: FloatArray = field(repr=False)  # [S, A], estimated policy of clinicians
    sofa: FloatArray = field(repr=False)  # [S], mean severity (SOFA score) of a state

    def __init__(
        self, dynamics: Dynamics, task: Task, *, expert: ArrayLike, sofa: FloatArray
    ) -> None:
        MDP.__init__(self, dynamics, task)
        object.__setattr__(self, "expert", as_policy(expert, self, "expert"))
        object.__setattr__(self, "sofa", _checks.frozen(sofa))


def icu_sepsis(*, discount: float = 0.999) -> SepsisMDP:
    """Treatment of sepsis in intensive care, with exact answers.

    States have their number as label, but for ``"death"``, ``"survival"`` and
    ``"end"``, which are terminal; actions are labelled
    ``"fluid 0, vasopressor 0"`` to ``"fluid 4, vasopressor 4"``.

    It is a model, not patients: a cohort simulated from it says how a method fares
    where the truth is known, and nothing about a treatment.

    Parameters
    ----------
    discount
        In [0, 1]. With 1, values are probabilities of survival, as its authors state
        them.

    Returns
    -------
    SepsisMDP
        Needs the data of the package icu-sepsis, and none of what that depends on:
        ``pip install --no-deps icu-sepsis==2.0.1``.

    References
    ----------
    Choudhary, Gupta and Thomas, *ICU-Sepsis: A Benchmark MDP Built from Real Medical
    Data*, Reinforcement Learning Journal 2024.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.icu_sepsis(discount=1)
    >>> world.dynamics
    Dynamics(716 states, 25 actions, 17900 pairs, 1528600 entries)
    >>> survival = world.task.start @ world.value(world.expert)
    >>> print(f"{survival:.4f}")
    0.7818
    """
    arrays = _read(_data_file())
    task = Task(
        _N_STATES,
        _N_ACTIONS,
        _survival_pays(),
        discount=discount,
        start=arrays["d_0"],
        terminal=[_DEATH, _SURVIVAL, _END],
        state_labels=[*map(str, range(_N_LIVE)), "death", "survival", "end"],
        action_labels=[
            f"fluid {fluid}, vasopressor {vasopressor}"
            for fluid in range(_N_LEVELS)
            for vasopressor in range(_N_LEVELS)
        ],
    )
    return SepsisMDP(
        _sparse(arrays["tx_mat"]),
        task,
        expert=arrays["expert_policy"],
        sofa=arrays["sofa_scores"],
    )


def _data_file() -> Path:
    """Find the file of the installed package without importing the package."""
    found = find_spec("icu_sepsis")
    for folder in (found and found.submodule_search_locations) or ():
        path = Path(folder, "envs", "assets", "dynamics.npz")
        if path.is_file():
            return path
    raise DynamicsError(
        "`icu_sepsis` needs the data of the package icu-sepsis, which is not "
        f"installed; `{_REMEDY}` gets it, without the many packages it depends on."
    )


def _read(path: Path) -> dict[str, FloatArray]:
    """Read what is needed; the rewards ``[S, A, S]`` are known and slow to unpack."""
    try:
        with path.open("rb") as stream, np.load(stream) as file:
            arrays = {name: file[name] for name in _SHAPES if name in file}
    except (OSError, EOFError, ValueError, BadZipFile, zlib.error) as problem:
        raise DynamicsError(
            f"`icu_sepsis` cannot read {path}, which may be damaged; `{_REMEDY} "
            "--force-reinstall` fixes it."
        ) from problem
    for name, shape in _SHAPES.items():
        array = arrays.get(name)
        if array is None or array.shape != shape or array.dtype != np.float64:
            got = "nothing" if array is None else f"{array.dtype} of {array.shape}"
            raise DynamicsError(
                f"`icu_sepsis` expects `{name}` in its data to be float64 of {shape}; "
                f"got {got}; `{_REMEDY}` installs the version it knows."
            )
    return arrays


def _sparse(dense: FloatArray) -> Dynamics:
    """Keep what is not zero; `Dynamics.from_dense` needs twice the time and memory."""
    key = np.flatnonzero(dense)
    rows = Rows.of_keys(key, _N_STATES, _N_ACTIONS)
    return Dynamics(rows, _checks.sealed(dense.reshape(-1)[key]))


def _survival_pays() -> tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike]:
    """Reward 1 on entering survival, from wherever and by whatever."""
    state, action = np.divmod(np.arange(_N_LIVE * _N_ACTIONS), _N_ACTIONS)
    return state, action, np.full(state.size, _SURVIVAL), np.ones(state.size)
