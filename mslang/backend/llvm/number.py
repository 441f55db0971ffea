"""Floating values with Python's operators, to write approximations of functions readably."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mslang.backend.llvm import arithmetic
from mslang.backend.llvm.function import FunctionWriter
from mslang.backend.llvm.types import Value, constant
from mslang.ir.dtype import bits


class Number(NamedTuple):
    """A floating value, scalar or vector, and the function it is computed in."""

    fn: FunctionWriter
    value: Value

    def of(self, x: float) -> Number:
        """A constant like this value."""
        return Number(self.fn, constant(x, self.value.dtype, self.value.lanes))

    def _op(self, op: str, other: Number | float) -> Number:
        right = other if isinstance(other, Number) else self.of(other)
        return Number(self.fn, arithmetic.binary(self.fn, op, self.value, right.value))

    def plus(self, other: Number | float) -> Number:
        """The sum."""
        return self._op("+", other)

    def minus(self, other: Number | float) -> Number:
        """The difference."""
        return self._op("-", other)

    def times(self, other: Number | float) -> Number:
        """The product."""
        return self._op("*", other)

    def times_rounded(self, other: Number) -> Number:
        """The product, rounded: a sum that it is added to is not fused with it."""
        text = f"fmul {self.value.typed}, {other.value.ref}"
        return Number(self.fn, arithmetic.instruction(self.fn, text, self.value))

    def over(self, other: Number | float) -> Number:
        """The quotient."""
        return self._op("/", other)

    def negated(self) -> Number:
        """`-x`."""
        return Number(self.fn, arithmetic.negate(self.fn, self.value))

    def magnitude(self) -> Number:
        """`|x|`."""
        return Number(self.fn, self.fn.intrinsic("fabs", self.value.dtype, self.value.lanes, (self.value,)))

    def signed_as(self, other: Number) -> Number:
        """The magnitude of this with the sign of the other."""
        args = (self.value, other.value)
        return Number(self.fn, self.fn.intrinsic("copysign", self.value.dtype, self.value.lanes, args))

    def root(self) -> Number:
        """The square root."""
        return Number(self.fn, self.fn.intrinsic("sqrt", self.value.dtype, self.value.lanes, (self.value,)))

    def truncated(self) -> Number:
        """Rounded towards 0."""
        return Number(self.fn, self.fn.intrinsic("trunc", self.value.dtype, self.value.lanes, (self.value,)))

    def fused(self, factor: Number, term: Number) -> Number:
        """`self * factor + term`, rounded once."""
        args = (self.value, factor.value, term.value)
        return Number(self.fn, self.fn.intrinsic("fma", self.value.dtype, self.value.lanes, args))

    @property
    def scales(self) -> bool:
        """Whether `scaled` is one instruction for this value."""
        return self.fn.scales and bits(self.value.dtype) * self.value.lanes == 512

    def scaled(self, count: Number) -> Number:
        """`self * 2**count` for an integral `count`, rounded once, where that is one instruction."""
        suffix, mask = ("ps", "i16") if self.value.dtype == "f32" else ("pd", "i8")
        name, t = f"@llvm.x86.avx512.mask.scalef.{suffix}.512", self.value.type
        self.fn.declarations.add(f"declare {t} {name}({t}, {t}, {t}, {mask}, i32)")
        operands = f"{self.value.typed}, {count.value.typed}, {t} zeroinitializer, {mask} -1, i32 4"
        made = self.fn.pure(f"call {t} {name}({operands})")
        return Number(self.fn, self.value._replace(ref=made))

    def rounded(self) -> Number:
        """The nearest integer, ties to even."""
        return Number(self.fn, self.fn.intrinsic("roundeven", self.value.dtype, self.value.lanes, (self.value,)))

    def is_(self, op: str, other: Number | float) -> Value:
        """The comparison `self op other`, lane by lane."""
        return self._op(op, other).value

    def where(self, condition: Value, otherwise: Number | float) -> Number:
        """This where the condition holds, else the other."""
        right = otherwise if isinstance(otherwise, Number) else self.of(otherwise)
        return Number(self.fn, arithmetic.choose(self.fn, condition, self.value, right.value))

    def at_most(self, x: float) -> Number:
        """`min(self, x)`, but a NaN stays."""
        return self.of(x).where(self.is_(">", x), self)

    def at_least(self, x: float) -> Number:
        """`max(self, x)`, but a NaN stays."""
        return self.of(x).where(self.is_("<", x), self)

    def polynomial(self, coefficients: Sequence[float]) -> Number:
        """`c0 + c1·x + c2·x² + …`, by Horner's rule."""
        *rest, last = coefficients
        total = self.of(last)
        for c in reversed(rest):
            total = total.times(self).plus(c)
        return total

    # -------------------------------------------------------------- bits
    @property
    def integers(self) -> str:
        """The signed integer type of the same width."""
        return f"i{bits(self.value.dtype)}"

    def word(self) -> Integer:
        """The bits as an integer."""
        return Integer(self.fn, arithmetic.bitcast(self.fn, self.value, self.integers))


class Integer(NamedTuple):
    """The integer companion of `Number`."""

    fn: FunctionWriter
    value: Value

    def op(self, op: str, other: Integer | int) -> Integer:
        """`self op other`; shifts are by constants."""
        right = other.value if isinstance(other, Integer) else constant(other, self.value.dtype, self.value.lanes)
        if op in ("<<", ">>"):
            name = "shl" if op == "<<" else "ashr"
            text = f"{name} {self.value.typed}, {right.ref}"
            return Integer(self.fn, arithmetic.instruction(self.fn, text, self.value))
        return Integer(self.fn, arithmetic.binary(self.fn, op, self.value, right))

    def as_float(self) -> Number:
        """These bits as a floating value."""
        return Number(self.fn, arithmetic.bitcast(self.fn, self.value, f"f{bits(self.value.dtype)}"))

    def converted(self) -> Number:
        """The integer's value as a floating one."""
        return Number(self.fn, arithmetic.cast(self.fn, self.value, f"f{bits(self.value.dtype)}"))
