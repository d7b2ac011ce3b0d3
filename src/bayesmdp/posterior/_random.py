"""Random numbers as pure functions of a key, and the gamma variates made of them.

A stream is opened by a counter-based generator, Philox 4x64 with 10 rounds (Salmon et
al. 2011): the key says whose stream it is, the counter which one. Its 256 bits seed a
xoshiro256++ generator (Blackman and Vigna 2021), which is several times faster and
runs inside the stream. Nothing is carried from one stream to the next.

Gamma variates of shape ``a``, all exact:

* whole ``a`` up to 16: a ziggurat of its own (below);
* other ``a > 1``: ``d v`` with ``d = a - 1/3``, ``v = (1 + c x)^3``, ``9 c^2 d = 1``
  and ``x`` normal, accepted with probability ``h = exp(x^2 / 2 + d (1 - v + log v))``
  (Marsaglia and Tsang 2000b);
* ``0.1 <= a < 1``: ``G(a + 1) exp(-E / a)`` with ``E`` exponential;
* ``a < 0.1``: ``exp(-E / a)`` or ``1 + E``, accepted with probability ``exp(-x)`` or
  ``x^(a - 1)`` (Ahrens and Dieter 1974), because it knows ``log x`` where ``x``
  underflows.

Logarithms are rarely needed for ``h``: with ``t = c x`` it is ``exp(g(t) / (9 c^2))``,
``g(t) = -3 integral_0^t s^3 / (1 + s) ds``. For ``x > 0`` therefore ``g >= -3 t^4 / 4``
and ``h >= 1 - c^2 x^4 / 12``. For all ``x``, ``h >= 1 - c^2 x^4 / 5``: for any given
``t``, ``(1 - h) / (c^2 x^4) = (1 - h) c^2 / t^4`` grows with ``c``, and for the largest
``c^2``, 1/6 of shape 1, its maximum over ``t`` is 0.1985.

A ziggurat (Marsaglia and Tsang 2000a, Doornik 2005) covers the area under a density by
256 layers of equal area. A point of layer ``i`` between the edges of layer ``i + 1`` is
under the density: in 98 % of all cases a variate costs one random word, two products
and two comparisons. The rest look at the density itself. The normal density is
symmetric; ``x^m exp(-x)``, of shape ``m + 1``, has two edges a layer.

Variates have two forms. The short one is inlined into the loop over a row and may be
undecided. The full one is then called with the words the short one started from; where
both decide, they agree.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from bayesmdp._jit import jit
from bayesmdp._typing import BitArray, FloatArray

Words = tuple[np.uint64, np.uint64, np.uint64, np.uint64]  # where a stream stands

_M0 = np.uint64(0xD2E7470EE14C6C93)
_M1 = np.uint64(0xCA5A826395121157)
_W0 = np.uint64(0x9E3779B97F4A7C15)
_W1 = np.uint64(0xBB67AE8584CAA73B)
_U0, _U1, _U12, _U17, _U255 = (np.uint64(x) for x in (0, 1, 12, 17, 255))
_U19, _U23, _U41, _U45, _U257 = (np.uint64(x) for x in (19, 23, 41, 45, 257))
_TO_UNIT = 2.0**-52

_TINY = 0.1  # below, Ahrens and Dieter's form is the faster one
_FLOOR = -700.0  # logarithms below are held here, before exp underflows
_FAINT = 1e-250  # beside a total above, what is under exp(-700) is immaterial


def _high_product(typing_context: Any, a: Any, b: Any) -> Any:
    """Upper 64 bits of a product of two uint64."""
    signature = types.uint64(types.uint64, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        x, y = (builder.zext(argument, wide) for argument in arguments)
        high = builder.lshr(builder.mul(x, y), ir.Constant(wide, 64))
        return builder.trunc(high, ir.IntType(64))

    return signature, generate


def _first_element(typing_context: Any, array: Any) -> Any:
    """Pointer to the data of an array, which must be C-contiguous."""
    if array.layout != "C":
        return None
    pointer: Any = types.CPointer
    signature = pointer(array.dtype)(array)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return array.data

    return signature, generate


# A kernel with a loop counts the references to its arrays by locked operations, a third
# of the time of a row of two entries. Pointers are not counted: the caller holds the
# array. Only kernels called once a row need them.
_pointer: Any = intrinsic(_first_element)
_high: Any = intrinsic(_high_product)


# ---------------------------------------------------------------- streams


@jit
def philox(
    k0: np.uint64,
    k1: np.uint64,
    c0: np.uint64,
    c1: np.uint64,
    c2: np.uint64,
    c3: np.uint64,
) -> Words:
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
    k, s = _pointer(key), _pointer(stream)
    c0, c1, c2 = np.uint64(draw), np.uint64(state), np.uint64(action)
    s0, s[1], s[2], s[3] = philox(k[0], k[1], c0, c1, c2, _U0)
    s[0] = s0 | _U1  # xoshiro must not start from zero alone


@jit
def advance(words: Words) -> tuple[np.uint64, Words]:
    """Next 64 bits of xoshiro256++, and the words after it.

    Words in a tuple stay in registers over a row; in an array they would not.
    """
    s0, s1, s2, s3 = words
    mixed = s0 + s3
    bits = ((mixed << _U23) | (mixed >> _U41)) + s0
    s2 ^= s0
    s3 ^= s1
    after = (s0 ^ s3, s1 ^ s2, s2 ^ (s1 << _U17), (s3 << _U45) | (s3 >> _U19))
    return bits, after


@jit
def unit(bits: np.uint64) -> float:
    """Uniform in (0, 1), never 0 or 1: 52 bits leave room for the half."""
    return (np.float64(np.int64(bits >> _U12)) + 0.5) * _TO_UNIT


@jit
def next_bits(stream: BitArray) -> np.uint64:
    """Next 64 bits of a stream."""
    bits, after = advance((stream[0], stream[1], stream[2], stream[3]))
    stream[0], stream[1], stream[2], stream[3] = after
    return bits


@jit
def uniform(stream: BitArray) -> float:
    """Uniform in (0, 1) from a stream."""
    return unit(next_bits(stream))


# ---------------------------------------------------------------- normal variates


def _normal_layers() -> tuple[FloatArray, FloatArray]:
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


_EDGE, _DENSITY = _normal_layers()


@jit
def _signed(bits: np.uint64, layer: np.uint64) -> float:
    """Return a point of a layer, of either sign: the top 53 bits; a layer takes 8."""
    return (np.float64(np.int64(bits) >> 11) + 0.5) * _TO_UNIT * _EDGE[layer]


@jit
def _short_normal(bits: np.uint64) -> float:
    """Return a standard normal variate, or infinity where the full form must decide."""
    layer = bits & _U255
    x = _signed(bits, layer)
    return x if abs(x) < _EDGE[layer + _U1] else math.inf


@jit
def normal(words: Words) -> tuple[float, Words]:
    """Return a standard normal variate by the ziggurat method."""
    while True:
        bits, words = advance(words)
        layer = bits & _U255
        x = _signed(bits, layer)
        if abs(x) < _EDGE[layer + _U1]:
            return x, words
        if layer == _U0:  # the tail beyond the base edge (Marsaglia 1964)
            while True:
                bits, words = advance(words)
                beyond = -math.log(unit(bits)) / _EDGE[1]
                bits, words = advance(words)
                if -2.0 * math.log(unit(bits)) > beyond * beyond:
                    return math.copysign(_EDGE[1] + beyond, x), words
        bits, words = advance(words)
        low, high = _DENSITY[layer], _DENSITY[layer + _U1]
        if low + unit(bits) * (high - low) < math.exp(-0.5 * x * x):
            return x, words


# ---------------------------------------------------------------- gamma, whole shapes

# Right edges of the base layers for x^m exp(-x), m = 0, ..., 15: just below the values
# for which the layers close at the top, so what stands over the top is rejected. The
# first is the one known for exponential variates (Marsaglia and Tsang 2000a).
# fmt: off
_BASE = (
    7.697117470, 10.304105467, 12.515416100, 14.534116104,
    16.432172111, 18.245340081, 19.994504643, 21.693136277,
    23.350531184, 24.973428658, 26.566901276, 28.134881827,
    29.680493379, 31.206265606, 32.714281939, 34.206282823,
)
# fmt: on


def _root(m: int, level: float, x: float) -> float:
    """Solve ``m log x - x = level`` by Newton steps from outside, on either side.

    That is concave in ``x``, so no step passes the root.
    """
    for _ in range(50):
        step = (m * math.log(x) - x - level) / (m / x - 1.0)
        x -= step
        if abs(step) <= 1e-15 * x:
            break
    return x


def _gamma_layers(m: int, edge: float) -> tuple[FloatArray, FloatArray]:
    """Edges [257, 2] and heights [257] of 256 layers of equal area under x^m exp(-x).

    The last is the top, without width: no point of the layer below it is inside.
    """
    height, tail = edge**m * math.exp(-edge), 1.0
    for j in range(1, m + 1):  # the integral beyond the edge, by parts
        tail = j * tail + edge**j
    area = height * edge + tail * math.exp(-edge)
    left = _root(m, math.log(height), height ** (1.0 / m)) if m else 0.0
    right = edge
    edges, heights = [(0.0, area / height), (left, right)], [0.0, height]
    for _ in range(2, 256):
        height += area / (right - left)
        level = math.log(height)
        left, right = _root(m, level, left) if m else 0.0, _root(m, level, right)
        edges.append((left, right))
        heights.append(height)
    edges.append((float(m), float(m)))
    heights.append(height + area / (right - left))
    return np.array(edges), np.array(heights)


def _all_layers() -> tuple[FloatArray, FloatArray]:
    """Layers for all ``m``, one below the other: [16 * 257, 2] and [16 * 257]."""
    layers = [_gamma_layers(m, edge) for m, edge in enumerate(_BASE)]
    return np.vstack([x for x, _ in layers]), np.concatenate([y for _, y in layers])


_SIDES, _HEIGHT = _all_layers()
_WHOLE = np.uint64(len(_BASE))


def layers() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Edges and densities of the normal layers, sides and heights of all others."""
    return _EDGE, _DENSITY, _SIDES, _HEIGHT


@jit
def _place(m: np.uint64, bits: np.uint64) -> tuple[np.uint64, float]:
    """Index of a layer, by the low 8 bits, and a point in it, by the top 52."""
    at = m * _U257 + (bits & _U255)
    left = _SIDES[at, 0]
    return at, left + unit(bits) * (_SIDES[at, 1] - left)


@jit
def _inside(at: np.uint64, x: float) -> bool:
    """Whether a point of a layer is between the edges of the next."""
    return _SIDES[at + _U1, 0] < x < _SIDES[at + _U1, 1]


@jit
def _short_whole(m: np.uint64, bits: np.uint64) -> float:
    """Gamma variate of shape ``m + 1``, or -1 where undecided."""
    at, x = _place(m, bits)
    return x if _inside(at, x) else -1.0


@jit
def gamma_whole(m: np.uint64, words: Words) -> tuple[float, Words]:
    """Gamma variate of shape ``m + 1``, ``m`` up to 15; 0 makes it exponential."""
    edge = _SIDES[m * _U257 + _U1, 1]
    power = np.int64(m)
    while True:
        bits, words = advance(words)
        at, x = _place(m, bits)
        if _inside(at, x):
            return x, words
        if x >= edge:  # in the base layer, for the tail
            # It is under its tangent: m log(x / edge) <= m (x - edge) / edge.
            slope = power / edge
            while True:
                bits, words = advance(words)
                beyond = -math.log(unit(bits)) / (1.0 - slope)
                bits, words = advance(words)
                gap = slope * beyond - power * math.log1p(beyond / edge)
                if -math.log(unit(bits)) >= gap:
                    return edge + beyond, words
        density = math.exp(-x)
        for _ in range(power):
            density *= x
        bits, words = advance(words)
        low, high = _HEIGHT[at], _HEIGHT[at + _U1]
        if low + unit(bits) * (high - low) < density:
            return x, words


# ---------------------------------------------------------------- gamma, other shapes


@jit
def gamma_above_one(d: float, c: float, words: Words) -> tuple[float, Words]:
    """Gamma variate of shape ``d + 1/3``, 1 or more (Marsaglia and Tsang 2000b)."""
    while True:
        x, words = normal(words)
        bits, words = advance(words)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            log_h = 0.5 * x * x + d * (1.0 - v + math.log(v))
            if math.log(unit(bits)) < log_h:
                return v * d, words


@jit
def log_gamma_tiny(shape: float, words: Words) -> tuple[float, Words]:
    """Logarithm of a gamma variate of shape below 1 (Ahrens and Dieter 1974).

    The density is under ``x^(shape - 1)`` up to 1 and under ``exp(-x)`` beyond. These
    have the areas ``1 / shape`` and ``1 / e``: ``w`` chooses one and accepts the first.
    """
    while True:
        exponential, words = gamma_whole(_U0, words)
        bits, words = advance(words)
        w = unit(bits) * (math.e + shape)
        if w < math.e:
            log_x = -exponential / shape
            if w <= math.e * math.exp(-math.exp(log_x)):
                return log_x, words
        else:
            log_x = math.log(1.0 + exponential)
            bits, words = advance(words)
            if math.log(unit(bits)) <= (shape - 1.0) * log_x:
                return log_x, words


@jit
def _exp(log_x: float) -> float:
    """Exponential, not below exp(-700); of the half, as libraries slow down at -512."""
    root = math.exp(max(0.5 * log_x, 0.5 * _FLOOR))
    return root * root


# ---------------------------------------------------------------- rows


@jit
def _gammas(shapes: Any, n: int, words: Words, variates: Any) -> tuple[float, Words]:
    """Fill ``variates`` by ``shapes``; return their sum and the words after."""
    total = 0.0
    for i in range(n):
        shape = shapes[i]
        whole = np.int64(shape)
        m = np.uint64(whole - 1)  # huge for shapes below 1
        bits, after = advance(words)
        if m < _WHOLE and whole == shape:
            x = _short_whole(m, bits)
            if x < 0.0:
                x, after = gamma_whole(m, words)
        elif shape < _TINY:
            more, after = advance(after)
            x = _exp(-_short_whole(_U0, bits) / shape)  # huge where undecided
            w = unit(more) * (math.e + shape)
            if w * (2.0 + x) > math.e * (2.0 - x):  # (2 - x) / (2 + x) <= exp(-x)
                log_x, after = log_gamma_tiny(shape, words)
                x = _exp(log_x)
        else:
            d = (shape if shape > 1.0 else shape + 1.0) - 1.0 / 3.0
            c = 1.0 / math.sqrt(9.0 * d)
            z = _short_normal(bits)
            more, after = advance(after)
            v, q = 1.0 + c * z, c * z * z
            x = v * v * v * d
            if unit(more) >= 1.0 - (0.2 if z < 0.0 else 1.0 / 12.0) * q * q:
                x, after = gamma_above_one(d, c, words)
            if shape < 1.0:
                words = after
                bits, after = advance(words)
                exponential = _short_whole(_U0, bits)
                if exponential < 0.0:
                    exponential, after = gamma_whole(_U0, words)
                x *= math.exp(-exponential / shape)
        words = after
        variates[i] = x
        total += x
    return total, words


@jit
def _faint(shapes: Any, n: int, words: Words, variates: Any) -> float:
    """Fill ``variates`` of tiny shapes over the largest of them; return their sum."""
    largest = -math.inf
    for i in range(n):
        log_x, words = log_gamma_tiny(shapes[i], words)
        variates[i] = log_x
        largest = max(largest, log_x)
    total = 0.0
    for i in range(n):
        x = math.exp(variates[i] - largest)
        variates[i] = x
        total += x
    return total


@jit
def gamma_row(alpha: FloatArray, stream: BitArray, out: FloatArray) -> float:
    """Fill ``out`` with gamma variates of the shapes ``alpha``; return their sum.

    Where a shape below 0.1 gives less than exp(-700), it is exp(-700).
    """
    n, s = alpha.size, _pointer(stream)
    words = (s[0], s[1], s[2], s[3])
    total, words = _gammas(_pointer(alpha), n, words, _pointer(out))
    s[0], s[1], s[2], s[3] = words
    return total


@jit
def dirichlet_row(alpha: FloatArray, stream: BitArray, out: FloatArray) -> None:
    """Fill ``out`` with a Dirichlet variate; both have the entries of one row.

    A row too faint for floating point is made again in logarithms from the words it
    started with: it is the same row, so nothing is chosen by its outcome. All shapes in
    it are below 0.1. A variate of a larger one cannot be under 1e-220, because the
    logarithm of a uniform number of 52 bits is above -37.
    """
    shapes, n, row, s = _pointer(alpha), alpha.size, _pointer(out), _pointer(stream)
    if n == 1:
        row[0] = 1.0
        return
    start = (s[0], s[1], s[2], s[3])
    total, words = _gammas(shapes, n, start, row)
    s[0], s[1], s[2], s[3] = words
    if total < _FAINT:
        total = _faint(shapes, n, start, row)
    scale = 1.0 / total
    for i in range(n):
        row[i] *= scale
