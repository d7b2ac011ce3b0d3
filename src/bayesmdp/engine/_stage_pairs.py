"""Two columns of results with a horizon at once: each entry is read once for both.

The maths is in `bayesmdp.engine._stages`. Values stand side by side, ``x[2 s]`` and
``x[2 s + 1]``; variances of both and their covariance, too, in four lanes per state of
which the last repeats the third.
"""

from bayesmdp._jit import jit_uncounted
from bayesmdp._typing import FloatArray
from bayesmdp.engine._chain import Setting
from bayesmdp.engine._stage_variances import Stages, StageSpace, row_reward
from bayesmdp.engine._vectors import mean_two, spread_four


@jit_uncounted
def sweep_pair(
    stages: Stages,
    space: StageSpace,
    given: Setting,
    theta: FloatArray,
    pair: tuple[int, int],
    known: bool,
    spread: bool,
    out: FloatArray,
) -> None:
    """Fill the values of all times of two columns, unless they are known.

    With ``spread``, set ``out`` [3, S] to variances of their returns and covariance, of
    rewards that do not differ within rows.
    """
    x, x_now, z, z_now = space.lanes[0], space.lanes[1], space.lanes[2], space.lanes[3]
    one, two = space.value[pair[0]], space.value[pair[1]]
    _interleave(one[stages.phase.size], two[stages.phase.size], x)
    z[:] = 0.0
    for t in range(stages.phase.size - 1, -1, -1):
        _interleave(one[t], two[t], x_now)
        if not known:
            _values(stages, space, given, theta, pair, t, x, x_now)
        if spread:
            _spread(stages, space, given, theta, pair, t, x, x_now, z, z_now)
        x, x_now = x_now, x
        z, z_now = z_now, z
    if spread:
        for s in range(out.shape[1]):
            for lane in range(3):
                out[lane, s] = z[4 * s + lane]


@jit_uncounted
def _interleave(one: FloatArray, two: FloatArray, out: FloatArray) -> None:
    """Put two vectors [S] side by side."""
    for s in range(one.size):
        out[2 * s] = one[s]
        out[2 * s + 1] = two[s]


@jit_uncounted
def _values(
    stages: Stages,
    space: StageSpace,
    given: Setting,
    theta: FloatArray,
    pair: tuple[int, int],
    t: int,
    ahead: FloatArray,
    now: FloatArray,
) -> None:
    """Set the values of live states at time ``t`` from those after."""
    (m, n), table, rows, pi = pair, space.row_own, given.rows, given.pi
    base, paid = stages.phase[t] * rows.target.size, stages.paid[t] * pi.size
    for i in range(2 * given.nominal.n_live):
        now[i] = 0.0
    for row in range(pi.size):
        if pi[row] > 0.0:
            at, s = (rows.indptr[row], rows.indptr[row + 1], base), rows.source[row]
            p, q = mean_two(theta, rows.target, ahead, *at)
            p += row_reward(stages, table, m, t, paid + row)
            q += row_reward(stages, table, n, t, paid + row)
            now[2 * s] += pi[row] * p
            now[2 * s + 1] += pi[row] * q
    for s in range(given.nominal.n_live):
        space.value[m, t, s] = now[2 * s]
        space.value[n, t, s] = now[2 * s + 1]


@jit_uncounted
def _spread(
    stages: Stages,
    space: StageSpace,
    given: Setting,
    theta: FloatArray,
    pair: tuple[int, int],
    t: int,
    x: FloatArray,
    x_now: FloatArray,
    z: FloatArray,
    z_now: FloatArray,
) -> None:
    """Set variances and covariances at time ``t`` from those after."""
    (m, n), table, rows, pi = pair, space.row_own, given.rows, given.pi
    base, paid = stages.phase[t] * rows.target.size, stages.paid[t] * pi.size
    z_now[:] = 0.0
    for row in range(pi.size):
        if pi[row] > 0.0:
            s = rows.source[row]
            x0 = x_now[2 * s] - row_reward(stages, table, m, t, paid + row)
            y0 = x_now[2 * s + 1] - row_reward(stages, table, n, t, paid + row)
            at = rows.indptr[row], rows.indptr[row + 1], base, 4 * s
            spread_four(theta, rows.target, x, z, z_now, *at, x0, y0, pi[row])
