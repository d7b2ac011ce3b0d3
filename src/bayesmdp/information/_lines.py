"""Expected maxima of straight lines in a standard normal, exactly.

With lines ``a[j] + b[j] Z`` the largest at ``z`` is one of the upper envelope, which is
found by going through the lines in order of slope. On the stretch ``(z0, z1)`` of line
``j`` it contributes ::

    a[j] (Phi(z1) - Phi(z0)) + b[j] (phi(z0) - phi(z1))

What learning is worth is that less the largest ``a[j]``: the knowledge gradient
(Frazier, Powell and Dayanik 2009). The gain is summed at the breakpoints of the
envelope, where nothing cancels: with slopes rising, ``u`` the distance of a breakpoint
from 0 and ``f(u) = phi(u) - u Phi(-u)``, ::

    E[max] - max_j a[j] = sum over breakpoints of (b[j+1] - b[j]) f(|z|)
"""

import math

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray

__all__ = ["line_gains"]

_NORMAL = 1.0 / math.sqrt(2.0 * math.pi)


@jit
def _below(z: float) -> float:
    """Probability that a standard normal is below ``z``."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@jit
def line_gains(
    a: FloatArray, b: FloatArray, gain: FloatArray, share: FloatArray
) -> None:
    """Fill gains [Q] of lines ``a`` [Q or 1, P], ``b`` [Q, P].

    ``share`` [Q, P] is the probability that a line is the largest.
    """
    n_lines = b.shape[1]
    kept, at = np.empty(n_lines, dtype=np.int64), np.empty(n_lines + 1)
    for q in range(b.shape[0]):
        level, slope = a[q if a.shape[0] > 1 else 0], b[q]
        order = np.argsort(level, kind="mergesort")
        order = order[np.argsort(slope[order], kind="mergesort")]
        n = 0  # lines of the envelope, and where each takes over from the one before
        for j in order:
            if n > 0 and slope[j] == slope[kept[n - 1]]:
                n -= 1  # the one before is nowhere above
            while n > 0:
                last = kept[n - 1]
                z = (level[last] - level[j]) / (slope[j] - slope[last])
                if n == 1 or z > at[n - 1]:
                    at[n] = z
                    break
                n -= 1
            kept[n] = j
            n += 1
        gain[q], share[q] = 0.0, 0.0
        for i in range(n):
            low = _below(at[i]) if i > 0 else 0.0
            high = _below(at[i + 1]) if i + 1 < n else 1.0
            share[q, kept[i]] = high - low
            u = abs(at[i])
            if i > 0 and u < 38.0:  # beyond, less than the smallest number
                f = _NORMAL * math.exp(-0.5 * u * u) - u * _below(-u)
                gain[q] += (slope[kept[i]] - slope[kept[i - 1]]) * max(f, 0.0)
