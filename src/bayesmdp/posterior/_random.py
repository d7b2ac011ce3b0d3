"""Random numbers as pure functions of a key, and the gamma variates made of them.

A stream is opened by a counter-based generator, Philox 4x64 with 10 rounds (Salmon et
al. 2011): the key says whose stream it is, the counter which one. Its 256 bits seed a
xoshiro256++ generator (Blackman and Vigna 2021), which is several times faster and
runs inside the stream. Nothing is carried from one stream to the next.

Gamma variates of shape ``a``:

* ``a = 1``: ``-log U``; whole ``a`` up to 4: ``-log(U_1 ... U_a)``;
* ``a > 1``: Marsaglia and Tsang (2000) with ziggurat normals (Doornik 2005);
* ``a < 1``: ``G(a + 1) U^(1/a)``, in logarithms, because it underflows for small ``a``.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from bayesmdp._jit import jit
from bayesmdp._typing import BitArray, FloatArray

_M0 = np.uint64(0xD2E7470EE14C6C93)
_M1 = np.uint64(0xCA5A826395121157)
_W0 = np.uint64(0x9E3779B97F4A7C15)
_W1 = np.uint64(0xBB67AE8584CAA73B)
_U1, _U8, _U12, _U17, _U255 = (np.uint64(x) for x in (1, 8, 12, 17, 255))
_U19, _U23, _U41, _U45 = (np.uint64(x) for x in (19, 23, 41, 45))
_TO_UNIT = 2.0**-52


def _high_product(typing_context: Any, a: Any, b: Any) -> Any:
    """Upper 64 bits of a product of two uint64."""
    signature = types.uint64(types.uint64, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        x, y = (builder.zext(argument, wide) for argument in arguments)
        high = builder.lshr(builder.mul(x, y), ir.Constant(wide, 64))
        return builder.trunc(high, ir.IntType(64))

    return signature, generate


_high: Any = intrinsic(_high_product)


@jit
def philox(
    k0: np.uint64,
    k1: np.uint64,
    c0: np.uint64,
    c1: np.uint64,
    c2: np.uint64,
    c3: np.uint64,
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Philox 4x64-10 of a key and a counter."""
    for _ in range(10):
        high0, low0 = _high(_M0, c0), _M0 * c0
        high1, low1 = _high(_M1, c2), _M1 * c2
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0 += _W0
        k1 += _W1
    return c0, c1, c2, c3


@jit
def open_stream(
    stream: BitArray, key: BitArray, draw: int, state: int, action: int
) -> None:
    """Set ``stream`` (uint64 [4]) to the start of the stream of one row."""
    s0, s1, s2, s3 = philox(
        key[0],
        key[1],
        np.uint64(draw),
        np.uint64(state),
        np.uint64(action),
        np.uint64(0),
    )
    stream[0] = s0 | _U1  # xoshiro must not start from zero alone
    stream[1] = s1
    stream[2] = s2
    stream[3] = s3


@jit
def next_bits(stream: BitArray) -> np.uint64:
    """Next 64 bits of xoshiro256++."""
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    mixed = s0 + s3
    result = ((mixed << _U23) | (mixed >> _U41)) + s0
    shifted = s1 << _U17
    s2 ^= s0
    s3 ^= s1
    stream[1] = s1 ^ s2
    stream[0] = s0 ^ s3
    stream[2] = s2 ^ shifted
    stream[3] = (s3 << _U45) | (s3 >> _U19)
    return result


@jit
def uniform(stream: BitArray) -> float:
    """Uniform in (0, 1), never 0 or 1: 52 bits leave room for the half."""
    return (np.float64(next_bits(stream) >> _U12) + 0.5) * _TO_UNIT


def _ziggurat_tables() -> tuple[FloatArray, FloatArray]:
    """Right edges and densities of 256 layers of equal area under exp(-x^2 / 2).

    The edge 3.6541528853610088 of the base layer is the value for which the layers
    close at the top (Doornik 2005, table 1).
    """
    edge = 3.6541528853610088
    tail = math.sqrt(math.pi / 2) * math.erfc(edge / math.sqrt(2))
    area = edge * math.exp(-0.5 * edge * edge) + tail
    x = np.zeros(257)
    x[0] = area / math.exp(-0.5 * edge * edge)
    x[1] = edge
    for i in range(2, 256):
        height = area / x[i - 1] + math.exp(-0.5 * x[i - 1] ** 2)
        x[i] = math.sqrt(-2.0 * math.log(height))
    return x, np.exp(-0.5 * x * x)


_EDGE, _DENSITY = _ziggurat_tables()


@jit
def normal(stream: BitArray) -> float:
    """Return a standard normal variate by the ziggurat method."""
    while True:
        bits = next_bits(stream)
        layer = np.int64(bits & _U255)
        sign = 1.0 if (bits >> _U8) & _U1 else -1.0
        x = (np.float64(bits >> _U12) + 0.5) * _TO_UNIT * _EDGE[layer]
        if x < _EDGE[layer + 1]:
            return sign * x
        if layer == 0:  # the tail beyond the base edge (Marsaglia 1964)
            while True:
                x = -math.log(uniform(stream)) / _EDGE[1]
                y = -math.log(uniform(stream))
                if y + y > x * x:
                    return sign * (_EDGE[1] + x)
        low, high = _DENSITY[layer], _DENSITY[layer + 1]
        if low + uniform(stream) * (high - low) < math.exp(-0.5 * x * x):
            return sign * x


@jit
def gamma_above_one(shape: float, stream: BitArray) -> float:
    """Gamma variate of shape 1 or more."""
    if shape <= 4.0 and shape == math.floor(shape):
        product = uniform(stream)
        for _ in range(1, int(shape)):
            product *= uniform(stream)
        return -math.log(product)
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(stream)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u = uniform(stream)
        square = x * x
        if u < 1.0 - 0.0331 * square * square:
            return d * v
        if math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return d * v


@jit
def log_gamma_variate(shape: float, stream: BitArray) -> float:
    """Logarithm of a gamma variate of any shape."""
    if shape >= 1.0:
        return math.log(gamma_above_one(shape, stream))
    boosted = math.log(gamma_above_one(shape + 1.0, stream))
    return boosted + math.log(uniform(stream)) / shape


@jit
def dirichlet_row(alpha: FloatArray, stream: BitArray, out: FloatArray) -> None:
    """Fill ``out`` with a Dirichlet variate; both have the entries of one row."""
    n = alpha.size
    if n == 1:
        out[0] = 1.0
        return
    smallest = alpha[0]
    for i in range(1, n):
        smallest = min(smallest, alpha[i])
    total = 0.0
    if smallest >= 1.0:
        for i in range(n):
            out[i] = gamma_above_one(alpha[i], stream)
            total += out[i]
    else:
        largest = -math.inf
        for i in range(n):
            out[i] = log_gamma_variate(alpha[i], stream)
            largest = max(largest, out[i])
        for i in range(n):
            out[i] = math.exp(out[i] - largest)
            total += out[i]
    for i in range(n):
        out[i] /= total
