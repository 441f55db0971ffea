"""Values while an expression is typed: literals have no type until what they meet gives them one."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from mslang.ir.arith.operations import SCALAR
from mslang.ir.dtype import INDEX, bits, has_finite, is_float, is_integer, is_unsigned, parts
from mslang.ir.expr import COMPARISONS, LOGICAL, Binary, Call, Cast, Const, Expr, Select, Unary, dtype_of
from mslang.ir.functions import FUNCTIONS


class Value(msgspec.Struct, frozen=True):
    """An expression being typed.

    `literal` is "int" or "float" while only literals are in it ("" else): it then takes any fitting type.
    `size` says that it comes from sizes or consts alone and is folded as soon as it is a number.
    """

    expr: Expr
    literal: str = ""
    size: bool = False

    @property
    def dtype(self) -> str:
        """The type it has, or would have by default."""
        return dtype_of(self.expr)


def default_dtype(literal: str) -> str:
    """The type of a literal that nothing else decides."""
    return INDEX if literal == "int" else "f32"


def scalar_of(dtype: str) -> str:
    """The scalar type of a (possibly vector) element type."""
    found = parts(dtype)
    return dtype if found is None else found.scalar


def accepts(dtype: str, literal: str) -> bool:
    """Whether a literal of this sort may take the type `dtype`."""
    scalar = scalar_of(dtype)
    return is_float(scalar) if literal == "float" else is_float(scalar) or is_integer(scalar)


def limits(dtype: str) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    n = bits(dtype)
    return (0, 2**n - 1) if is_unsigned(dtype) else (-(2 ** (n - 1)), 2 ** (n - 1) - 1)


def fits(value: int | float | bool, dtype: str) -> bool:
    """Whether a literal's value lies in the range of `dtype`; `inf` and `nan` are values of every floating type."""
    scalar = scalar_of(dtype)
    if is_float(scalar):
        return (isinstance(value, float) and not math.isfinite(value)) or has_finite(value, scalar)
    if isinstance(value, float):
        return True
    if not is_integer(scalar):
        return True
    lo, hi = limits(scalar)
    return lo <= value <= hi


def parts_of_literal(e: Expr) -> Iterator[Expr]:
    """A literal expression and the expressions in it that take the type of its place, as in `retyped`."""
    match e:
        case Const():
            yield e
        case Unary(operand=x):
            yield e
            yield from parts_of_literal(x)
        case Binary(left=a, right=b) | Select(then=a, otherwise=b):
            yield e
            yield from parts_of_literal(a)
            yield from parts_of_literal(b)
        case Call(name=n, args=xs) if not FUNCTIONS[n].truth:
            yield e
            for x in xs:
                yield from parts_of_literal(x)


def constant(value: int | float | bool, dtype: str) -> Const:
    """The constant of type `dtype`, its value of the Python type that goes with it."""
    scalar = scalar_of(dtype)
    if is_float(scalar):
        return Const(float(value), dtype)
    return Const(bool(value), dtype) if scalar == "bool" else Const(int(value), dtype)


def retyped(e: Expr, dtype: str) -> Expr:
    """A literal expression with every constant in it of type `dtype`."""
    match e:
        case Const(value=v):
            return constant(v, dtype)
        case Unary(op=op, operand=x):
            return Unary(op, retyped(x, dtype))
        case Binary(op=op, left=a, right=b):
            return Binary(op, retyped(a, dtype), retyped(b, dtype))
        case Call(name=n, args=xs) if not FUNCTIONS[n].truth:
            return Call(n, tuple(retyped(x, dtype) for x in xs), dtype)
        case Select(condition=c, then=t, otherwise=o):
            return Select(c, retyped(t, dtype), retyped(o, dtype))
    return e


def folded(e: Expr) -> Expr:
    """A constant instead of an operation on constants of index or bool type; anything else as it is.

    Raises `ZeroDivisionError` for a division by zero.
    """
    match e:
        case Binary(op=op, left=Const(value=a, dtype=t), right=Const(value=b)) if not is_float(t):
            return _fold_binary(op, a, b, t)
        case Unary(op="-", operand=Const(value=v, dtype=t)) if not is_float(t):
            return Const(-v, t)
        case Unary(op="not", operand=Const(value=v)):
            return Const(not v, "bool")
        case Cast(dtype=t, operand=Const(value=v)) if fits(v, t) and math.isfinite(v):
            return constant(v, t)
        case Select(condition=Const(value=c), then=Const() as t, otherwise=Const() as o):
            return t if c else o
    return e


_FOLDED = frozenset({"+", "-", "*", "//", "%", "min", "max"}) | COMPARISONS | LOGICAL


def _fold_binary(op: str, a: int | float | bool, b: int | float | bool, dtype: str) -> Expr:
    if op not in _FOLDED:
        return Binary(op, Const(a, dtype), Const(b, dtype))
    value = SCALAR[op](a, b)
    return Const(value, "bool") if op in COMPARISONS or op in LOGICAL else Const(int(value), dtype)
