"""Markov chains of the hierarchical belief: run, and kept state by state.

The model stands in `bayesmdp.priors._hierarchical`, one sweep in
`bayesmdp.posterior._gibbs`. Chains are a function of data and prior alone: their seed
is fixed, so that the same data give the same belief.

Whether they have converged, and how many independent draws they are worth, is told by
R-hat and effective sample sizes as in Vehtari, Gelman, Simpson, Carpenter and Buerkner
(2021): chains are split in halves and rank-normalised; R-hat is the larger of that of
the values and of their distances to the median.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from bayesmdp._checks import many, read_only, stream_key, thread_count
from bayesmdp._io import name_of
from bayesmdp._resources import progress_bar
from bayesmdp._sheet import Sheet, Shown
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.errors import BeliefError
from bayesmdp.model import Rows, Task
from bayesmdp.priors import Cells

N_CHAINS = 4


@dataclass(frozen=True, eq=False)
class Chains:
    """States of the Markov chains, one chain after the other."""

    tables: NDArray[np.int32]  # [M, K], of cells
    strength: FloatArray  # [M, S], inf where actions do nothing
    k: FloatArray  # [M, S], strength of the base
    hyper: FloatArray  # [M, 5]: logit w, location and log scale of log c, of log k

    @cached_property
    def order(self) -> IntArray:
        """Order in which draws take the states, over and over, ``[M]``."""
        return np.random.default_rng(_SEED).permutation(len(self.k))

    def kept(self, cells: Cells) -> dict[str, NDArray[Any]]:
        """Arrays to be stored, as small as they go."""
        tables = self.tables[:, cells.observed]
        size = np.min_scalar_type(int(tables.max(initial=0)))
        return {
            "tables": tables.astype(size),
            "strength": self.strength,
            "k": self.k,
            "hyper": self.hyper,
        }

    @classmethod
    def restored(
        cls, kept: Mapping[str, NDArray[Any]], cells: Cells, task: Task
    ) -> "Chains":
        """Read what was stored; refuse what does not belong to the data."""
        m = len(np.atleast_1d(kept.get("hyper", ())))
        wanted = {
            "tables": ((m, int(cells.observed.sum())), "iu", 1.0, 2.0**31 - 1),
            "strength": ((m, task.n_states), "f", 1.0, np.inf),
            "k": ((m, task.n_states), "f", 0.0, np.inf),
            "hyper": ((m, 5), "f", -1e3, 1e3),
        }
        for name, (shape, kind, low, high) in wanted.items():
            found = np.asarray(kept.get(name, ()))
            right = found.shape == shape and found.dtype.kind in kind
            if not (right and m > 0 and m % N_CHAINS == 0) or not bool(
                ((found >= low) & (found <= high)).all()
            ):
                raise BeliefError(
                    f"the chains' {name} are not those of these data; fit them again."
                )
        return cls(
            read_only(_widened(kept["tables"], cells)),
            read_only(np.asarray(kept["strength"], dtype=np.float64)),
            read_only(np.asarray(kept["k"], dtype=np.float64)),
            read_only(np.asarray(kept["hyper"], dtype=np.float64)),
        )

    @property
    def ends(self) -> FloatArray:
        """Hyperparameters that each chain ended at, ``[C, 5]``."""
        return np.ascontiguousarray(self.hyper.reshape(N_CHAINS, -1, 5)[:, -1])

    def by_chain(self, values: FloatArray) -> FloatArray:
        """Return values of states ``[M]`` as ``[C, M / C]``."""
        return values.reshape(N_CHAINS, -1)


_N_WARM, _N_KEPT = 250, 125  # of each chain
_N_KEPT_AGAIN = 50  # of each that begins where another ended
_AGAIN = {True: (50, 4), False: (25, 1)}  # sweeps before and between, small data or not
_N_GRID, _K = 30, (0.1, 1e4)
_SMALL = 5000  # next states, and quarters of visits, up to which sweeps cost little
_FEW, _MANY = 100, 2000  # states
_ROOM, _LEAST = 2.5e8, 25  # bytes for tables; states kept of a chain in any case
_BEYOND = 100.0  # times the largest pair's visits: strengths that are looked at
_SEED = 4242
#: By what they were run on: whoever asks for the belief of the same data again, as a
#: comparison of priors does, need not wait.
_IN_USE: WeakValueDictionary[str, Chains] = WeakValueDictionary()


def run_chains(
    cells: Cells,
    layout: Rows,
    count: FloatArray,
    task: Task,
    first: FloatArray | None = None,
) -> Chains:
    """Run all chains from places of their own, on threads.

    ``count`` [E] are the visits of the entries of ``layout``. With ``first`` [C, 5],
    chains begin from there, are shorter, and run one after the other. Chains of the
    same data that are still in use are returned again.
    """
    from concurrent.futures import ThreadPoolExecutor

    from bayesmdp.posterior._gibbs import run_chain  # numba

    observed, grid = _observed(cells, layout, count, task)
    key = stream_key(_SEED, "chain")
    fits = int(_ROOM / (N_CHAINS * 4 * cells.base.size))
    n_warm, n_kept = _N_WARM, min(_N_KEPT, max(fits, _LEAST))
    digest = ""
    if first is None:
        digest = name_of((observed, grid, cells.observed, key, n_warm, n_kept))
    if (known := _IN_USE.get(digest)) is not None:
        return known
    starts = np.empty((N_CHAINS, 0))
    small = max(observed.base.size, float(count.sum()) / 4) <= _SMALL
    thin = 4 if small else 3
    if first is not None:
        (n_warm, thin), n_kept, starts = _AGAIN[small], _N_KEPT_AGAIN, first
    n_base = 5 if small and task.n_states <= _FEW else 1
    n_moves = 8 if task.n_states <= _MANY else 4  # many states tell w and the rest
    sizes = observed.base.size, task.n_states, task.n_states, 5
    types = np.int32, np.float64, np.float64, np.float64

    def one(number: int) -> list[NDArray[Any]]:
        kept = [np.zeros((n_kept, n), t) for n, t in zip(sizes, types, strict=True)]
        moves = thin, n_moves, n_base, starts[number]
        run_chain(key, number, n_warm, *moves, observed, grid, *kept)
        return kept

    parts = []
    if first is not None:
        parts = [one(number) for number in range(N_CHAINS)]
    else:
        with (
            ThreadPoolExecutor(min(N_CHAINS, thread_count(None))) as pool,
            progress_bar("fitting", N_CHAINS, None) as show,
        ):
            for part in pool.map(one, range(N_CHAINS)):
                parts.append(part)
                show(len(parts))
    tables, *others = (np.concatenate(x) for x in zip(*parts, strict=True))
    tables = _widened(tables, cells)
    chains = Chains(read_only(tables), *map(read_only, others))
    if digest:
        _IN_USE[digest] = chains
    return chains


def _widened(tables: NDArray[Any], cells: Cells) -> NDArray[np.int32]:
    """Tables of all cells, from those of observed ones."""
    wide = np.zeros((len(tables), cells.base.size), np.int32)
    wide[:, cells.observed] = tables
    return wide


def _observed(
    cells: Cells, layout: Rows, count: FloatArray, task: Task
) -> tuple[Any, Any]:
    """Return what the chains read."""
    from scipy.special import gammaln

    from bayesmdp.posterior._base_strengths import Grid, Observed

    states = np.arange(task.n_states + 1)
    of_cell = np.cumsum(cells.observed) - 1
    cell_state = cells.state[cells.observed]
    base = np.maximum(cells.base[cells.observed], 1e-12)
    rest = np.maximum(1.0 - np.bincount(cell_state, base, task.n_states), 0.0)
    rest[rest < 1e-9] = 0.0
    length = np.diff(layout.indptr)
    within = np.arange(count.size) - np.repeat(layout.indptr[:-1], length)
    entry_cell = np.repeat(cells.start[layout.state], length) + within
    seen = count > 0
    observed = Observed(
        np.searchsorted(cell_state, states),
        base,
        rest,
        np.concatenate([[0], np.cumsum(seen)])[
            layout.indptr[np.searchsorted(layout.state, states)]
        ],
        of_cell[entry_cell[seen]],
        count[seen].astype(np.int64),
    )
    visits = layout.row_sums(count)[:, None]
    log_strength = np.linspace(0.0, np.log(_BEYOND * max(visits.max(), 1.0)), _N_GRID)
    c, n = np.exp(log_strength)[None], np.maximum(visits, 1.0)
    each = gammaln(c + n) - gammaln(c + 1) - (n - 1) * np.log(c)
    of_pairs = np.zeros((task.n_states, _N_GRID))
    np.add.at(of_pairs, layout.state, each)
    low = np.array([-9.0, 0.0, np.log(0.3), np.log(_K[0]), np.log(0.3)])
    high = np.array([9.0, log_strength[-1], np.log(6.0), np.log(_K[1]), np.log(3.0)])
    return observed, Grid(log_strength, of_pairs, low, high)


# Above, chains disagree. Some hundred states of slow chains have up to 1.1 by chance.
_RHAT = 1.2
_ESS = 30.0  # below, there are too few effective states


@dataclass(frozen=True, repr=False)
class Diagnostics(Shown):
    """R-hat and effective sample size of each quantity, by name."""

    rhat: dict[str, float]
    ess: dict[str, float]
    n_chains: int
    n_kept: int  # states of all chains

    @property
    def problems(self) -> list[str]:
        """Say what has not converged, one sentence each."""
        far = {name: x for name, x in self.rhat.items() if x > _RHAT}
        few = {name: x for name, x in self.ess.items() if x < _ESS and name not in far}
        said = [
            f"The chains disagree about {name} (R-hat {x:.2f}, should be below "
            f"{_RHAT}): results may depend on where they began."
            for name, x in far.items()
        ]
        return said + [
            f"The chains mix slowly in {name}: {self.n_kept} iterations have an "
            f"effective sample size of {x:.0f}."
            for name, x in few.items()
        ]

    def _sheet(self, shown: int = 10) -> Sheet:
        worst = max(self.rhat, key=lambda name: self.rhat[name])
        least = min(self.ess, key=lambda name: self.ess[name])
        return Sheet(
            f"{many(self.n_chains, 'chain')}, {many(self.n_kept, 'iteration')}: "
            f"R-hat at most {self.rhat[worst]:.2f} ({worst}), effective sample size at "
            f"least {self.ess[least]:.0f} ({least})",
            [],
        )

    def __repr__(self) -> str:
        return f"Diagnostics({self.summary()})"


def diagnose(quantities: dict[str, FloatArray]) -> Diagnostics:
    """Diagnose quantities, each ``[C, M]``: chains and their states."""
    n_chains, n_kept = next(iter(quantities.values())).shape
    return Diagnostics(
        {name: rhat(x) for name, x in quantities.items()},
        {name: ess(x) for name, x in quantities.items()},
        n_chains,
        n_chains * n_kept,
    )


def rhat(x: FloatArray) -> float:
    """R-hat of chains ``[C, M]``; 1 where nothing varies."""
    halves = _halves(x)
    if _constant(halves):
        return 1.0
    folded = np.abs(halves - np.median(halves))
    return max(_plain_rhat(_normalised(halves)), _plain_rhat(_normalised(folded)))


def ess(x: FloatArray) -> float:
    """Effective sample size for the mean of chains ``[C, M]``."""
    halves = _halves(x)
    n = halves.shape[1]
    if _constant(halves):
        return float(halves.size)
    within = halves.var(axis=1, ddof=1).mean()
    between = n * halves.mean(axis=1).var(ddof=1)
    total = within * (n - 1) / n + between / n
    off = halves - halves.mean(axis=1, keepdims=True)
    f = np.fft.rfft(off, 2 * n, axis=1)
    covariance = np.fft.irfft(f * f.conj(), axis=1)[:, :n] / n
    rho = 1 - (within - covariance.mean(axis=0) * n / (n - 1)) / total
    rho[0] = 1.0
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    end = np.flatnonzero(pairs <= 0)
    pairs = np.minimum.accumulate(pairs[: end[0]] if end.size else pairs)
    tau = max(2 * pairs.sum() - 1, 1 / np.log10(halves.size))
    return float(halves.size / tau)


def _constant(x: FloatArray) -> bool:
    """Whether values differ by rounding alone."""
    return bool(np.ptp(x) <= 1e-9 * np.abs(x).max())


def _halves(x: FloatArray) -> FloatArray:
    n = x.shape[1] // 2
    return np.concatenate([x[:, :n], x[:, -n:]])


def _normalised(x: FloatArray) -> FloatArray:
    """Return normal scores of ranks."""
    from scipy.special import ndtri

    _, place, number = np.unique(x, return_inverse=True, return_counts=True)
    rank = (np.cumsum(number) - (number - 1) / 2)[place].reshape(x.shape)
    return np.asarray(ndtri((rank - 0.375) / (x.size + 0.25)))


def _plain_rhat(x: FloatArray) -> float:
    n = x.shape[1]
    within = x.var(axis=1, ddof=1).mean()
    if within == 0:
        return float("inf") if np.ptp(x) > 0 else 1.0
    between = x.mean(axis=1).var(ddof=1)
    return float(np.sqrt((n - 1) / n + between / within))
