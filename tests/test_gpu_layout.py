"""How chains and draws lie on a GPU: every entry once, where its row is read.

The layout is NumPy's work; a device of 32 lanes that never launches is enough.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesmdp.engine._gpu_device import Device, Launch
from bayesmdp.engine._gpu_layout import Block, Slices

WARP = 32


class Lanes(Device):
    """A device of 32 lanes without kernels."""

    name, n_processors, warp, most_threads = "lanes", 1, WARP, 512

    def kernel(
        self, sources: tuple[str, ...], name: str, **constants: object
    ) -> Launch:
        raise AssertionError(name)

    def put(self, array: Any) -> Any:
        return np.ascontiguousarray(array)

    def get(self, array: Any) -> Any:
        return array

    def free_bytes(self) -> int:
        return 2**30


def slots(n: int, density: float, seed: int) -> tuple[Any, Any]:
    """Return random pairs of states, in order of the first."""
    return np.nonzero(np.random.default_rng(seed).random((n, n)) < density)


def times(made: Slices, values: Any, x: Any) -> Any:
    """Multiply as a block does: thread by thread, slice by slice."""
    lanes, rows = made.block.lanes, WARP // made.block.lanes
    out = np.zeros(x.size)
    for warp in range(made.block.n_warps):
        for at in range(made.first[warp], made.first[warp + 1]):
            begin, end = made.quads[at]
            threads = slice(warp * WARP, (warp + 1) * WARP)
            read = values[begin:end, threads] * x[made.column[begin:end, threads]]
            sums = read.sum(axis=(0, 2)).reshape(rows, lanes).sum(axis=1)
            out[made.order[at]] = sums
    return out


@pytest.mark.parametrize("most", [0, 10**6], ids=["streamed", "near"])
@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(1, 150),
    density=st.floats(0.0, 0.5),
    lanes=st.sampled_from([1, 2, 4, 32]),
    warps=st.sampled_from([1, 3, 16]),
    seed=st.integers(0, 99),
)
def test_a_block_that_reads_its_places_multiplies(
    most: int, n: int, density: float, lanes: int, warps: int, seed: int
) -> None:
    state, target = slots(n, density, seed)
    made = Slices.of(state, target, n, Block(WARP, warps, lanes), most)
    assert np.unique(made.position).size == state.size
    assert (made.column.reshape(-1)[made.position] == target).all()
    rng = np.random.default_rng(seed)
    entries = rng.integers(1, 100, state.size).astype(float)
    values, x = np.zeros(made.column.size), rng.integers(1, 100, n + 1).astype(float)
    values[made.position] = entries
    matrix = np.zeros((n, n))
    matrix[state, target] = entries
    x[n] = 0.0
    found = times(made, values.reshape(made.column.shape), x)
    assert (found[:n] == matrix @ x[:n]).all()  # whole numbers


def conflicts(made: Slices) -> float:
    """Mean over reads of a warp of the lanes that meet in the busiest bank."""
    met = []
    for columns in made.column.reshape(-1, made.block.n_warps, WARP, 4).swapaxes(2, 3):
        for step in columns.reshape(-1, WARP):
            different = np.unique(step)  # one address is read once
            if different.size > 1:
                met.append(np.bincount(different % 32).max())
    return float(np.mean(met))


def test_few_lanes_meet_in_a_bank() -> None:
    state, target = slots(700, 0.08, 0)
    block = Block(WARP, 16, 2)
    plain, dealt = (Slices.of(state, target, 700, block, most) for most in (0, 100))
    assert plain.n_quads == dealt.n_quads
    assert conflicts(plain) > 2.5  # as 32 lanes at random do
    assert conflicts(dealt) < 1.6


@pytest.mark.parametrize("n", [1, 32, 33, 70])
def test_draws_come_back_from_their_groups(n: int) -> None:
    device, rng = Lanes(np), np.random.default_rng(n)
    rows = rng.random((n, 5))
    by_group = device.grouped(rows)
    assert by_group.shape == (device.n_groups(n), 5, WARP)
    assert (by_group[n // WARP - (n % WARP == 0), :, (n - 1) % WARP] == rows[-1]).all()
    assert (device.by_draw(by_group, n) == rows).all()
    both = np.stack([by_group, 2 * by_group])
    assert (device.by_draw(both, n) == np.stack([rows, 2 * rows])).all()
