"""Sums over the entries of a row for two or four vectors at once.

What an entry is multiplied by lies side by side in interleaved vectors, ``x[width *
state + lane]``, and is one load and one multiply-add for all lanes. Numba does not find
that out (it would read lane by lane), so it is said to the compiler in its own terms.

These are taken in by the kernel that calls them, and must not be called by a part of
it (`bayesmdp._jit`): the compiler would keep the sums in memory.
"""

from typing import Any

from numba.extending import intrinsic as _intrinsic


class _Vectors:
    """Loads and sums of so many lanes, as the compiler is told them."""

    def __init__(self, target: Any, builder: Any, width: int) -> None:
        from llvmlite import ir
        from numba.core import cgutils

        self.target, self.builder, self.width = target, builder, width
        tools: Any = cgutils
        self.word, self.tools = ir.IntType(64), tools
        self.lanes = ir.VectorType(ir.DoubleType(), width)
        self.zero = ir.Constant(self.lanes, [0.0] * width)
        self._place = ir.IntType(32)(0)
        self._every = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)

    def data(self, kinds: Any, arrays: Any) -> list[Any]:
        """Return pointers to the elements of arrays."""
        return [
            self.target.make_array(kind)(self.target, self.builder, array).data
            for kind, array in zip(kinds, arrays, strict=True)
        ]

    def wide(self, scalar: Any) -> Any:
        """Return a scalar in every lane."""
        one = self.builder.insert_element(self.zero, scalar, self._place)
        return self.builder.shuffle_vector(one, self.zero, self._every)

    def made(self, *scalars: Any) -> Any:
        """Return scalars in the first lanes."""
        out = self.zero
        for lane, scalar in enumerate(scalars):
            out = self.builder.insert_element(out, scalar, self._place.type(lane))
        return out

    def at(self, array: Any, place: Any) -> Any:
        """Return where lanes begin."""
        pointer = self.lanes.as_pointer()
        return self.builder.bitcast(self.builder.gep(array, [place]), pointer)

    def load(self, array: Any, place: Any) -> Any:
        """Return lanes of an array."""
        return self.builder.load(self.at(array, place), align=8)

    def of(self, array: Any, state: Any) -> Any:
        """Return the lanes of a state."""
        return self.load(array, self.builder.mul(state, self.word(self.width)))

    def mixed(self, lanes: Any, order: tuple[int, ...]) -> Any:
        """Return lanes in another order."""
        from llvmlite import ir

        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(order)), list(order))
        return self.builder.shuffle_vector(lanes, lanes, mask)

    def store(self, lanes: Any, array: Any, place: Any) -> None:
        """Set lanes of an array."""
        self.builder.store(lanes, self.at(array, place), align=8)

    def times(self, x: Any, y: Any) -> Any:
        """Multiply; may be contracted with a sum, as in all kernels."""
        return self.builder.fmul(x, y, flags=("contract",))

    def plus(self, x: Any, y: Any) -> Any:
        """Add."""
        return self.builder.fadd(x, y, flags=("contract",))

    def total(
        self, entries: Any, states: Any, these: tuple[Any, Any, Any], term: Any
    ) -> Any:
        """Sum entries times a term of their state, in four sums.

        States stand from the first to before the last of these, entries ``base`` later.
        """
        builder, word = self.builder, self.word
        first, last, base = these
        sums = [self.tools.alloca_once_value(builder, self.zero) for _ in range(4)]

        def add(at: Any, into: Any) -> None:
            entry = builder.load(builder.gep(entries, [builder.add(at, base)]))
            state = builder.zext(builder.load(builder.gep(states, [at])), word)
            more = term(state)
            more = self.times(self.wide(entry), more)
            builder.store(self.plus(builder.load(into), more), into)

        whole = builder.sub(last, builder.urem(builder.sub(last, first), word(4)))
        loop = self.tools.for_range_slice
        with loop(builder, first, whole, word(4), word) as (at, _):
            for i in range(4):
                add(builder.add(at, word(i)), sums[i])
        with loop(builder, whole, last, word(1), word) as (at, _):
            add(at, sums[0])
        a, b, c, d = (builder.load(x) for x in sums)
        return builder.fadd(builder.fadd(a, b), builder.fadd(c, d))


def _row(width: int) -> Any:
    """Make the sweep of one state, whose lanes begin at ``place``.

    ``x[place] = (weight rhs[place] + g sum_k value[k] x[column[k]]) inverse``, itself
    left out.
    """

    def sweep(  # type: ignore[no-untyped-def]
        context, value, column, rhs, x, first, last, base, place, weight, g, inverse
    ):
        from numba.core import types

        def generate(target, builder, signature, given):  # type: ignore[no-untyped-def]
            at = _Vectors(target, builder, width)
            value, column, rhs, x = at.data(signature.args[:4], given[:4])
            first, last, base, place = given[4:8]
            weight, g, inverse = (at.wide(scalar) for scalar in given[8:])
            at.store(at.zero, x, place)
            these = first, last, base
            total = at.total(value, column, these, lambda j: at.of(x, j))
            total = at.plus(at.times(weight, at.load(rhs, place)), at.times(g, total))
            at.store(at.times(total, inverse), x, place)
            return target.get_dummy_value()

        given = value, column, rhs, x, first, last, base, place, weight, g, inverse
        return types.void(*given), generate

    return _intrinsic(sweep)


def _mean(context, value, column, x, first, last, base):  # type: ignore[no-untyped-def]
    """Return both lanes of ``sum_k value[k] x[column[k]]``."""
    from numba.core import types

    pair: Any = types.UniTuple

    def generate(target, builder, signature, given):  # type: ignore[no-untyped-def]
        at = _Vectors(target, builder, 2)
        value, column, x = at.data(signature.args[:3], given[:3])
        total = at.total(value, column, given[3:], lambda j: at.of(x, j))
        each = [builder.extract_element(total, at.word(i)) for i in range(2)]
        return target.make_tuple(builder, signature.return_type, each)

    given = value, column, x, first, last, base
    return pair(types.float64, 2)(*given), generate


def _spread(  # type: ignore[no-untyped-def]
    context, value, column, x, z, out, first, last, base, place, x0, y0, weight
):
    """Add ``weight sum_k value[k] (u v + z[j])`` to ``out[place]``, ``j = column[k]``.

    With two lanes ``d = x[j] - (x0, y0)``, ``u = (d0, d1, d0, d1)``, and ``v = (d0, d1,
    d1, d0)``.
    """
    from numba.core import types

    def generate(target, builder, signature, given):  # type: ignore[no-untyped-def]
        at, two = _Vectors(target, builder, 4), _Vectors(target, builder, 2)
        value, column, x, z, out = at.data(signature.args[:5], given[:5])
        first, last, base, place, x0, y0, weight = given[5:]
        these, middle = (first, last, base), two.made(x0, y0)

        def term(j: Any) -> Any:
            d = builder.fsub(two.of(x, j), middle)
            u, v = two.mixed(d, (0, 1, 0, 1)), two.mixed(d, (0, 1, 1, 0))
            return at.plus(at.times(u, v), at.of(z, j))

        more = at.times(at.wide(weight), at.total(value, column, these, term))
        at.store(at.plus(at.load(out, place), more), out, place)
        return target.get_dummy_value()

    given = value, column, x, z, out, first, last, base, place, x0, y0, weight
    return types.void(*given), generate


sweep_two, sweep_four = _row(2), _row(4)
mean_two: Any = _intrinsic(_mean)
spread_four: Any = _intrinsic(_spread)
