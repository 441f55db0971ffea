"""Expressions with Python's operators, for writing programs in Python."""

from __future__ import annotations

import msgspec

from mslang.ir.dtype import INDEX, is_float
from mslang.ir.expr import Binary, Call, Cast, Const, Expr, Select, Unary, dtype_of
from mslang.ir.functions import FUNCTIONS


class Value(msgspec.Struct, frozen=True):
    """An expression with Python's operators; a Python number takes the type of the other side."""

    expr: Expr

    @property
    def dtype(self) -> str:
        """The element type."""
        return dtype_of(self.expr)

    def __add__(self, other: Operand) -> Value:
        return _binary("+", self, other)

    def __radd__(self, other: Operand) -> Value:
        return _binary("+", other, self)

    def __sub__(self, other: Operand) -> Value:
        return _binary("-", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return _binary("-", other, self)

    def __mul__(self, other: Operand) -> Value:
        return _binary("*", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return _binary("*", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return _binary("/", other, self)

    def __floordiv__(self, other: Operand) -> Value:
        return _binary("//", self, other)

    def __mod__(self, other: Operand) -> Value:
        return _binary("%", self, other)

    def __lshift__(self, other: Operand) -> Value:
        return _binary("<<", self, other)

    def __rshift__(self, other: Operand) -> Value:
        return _binary(">>", self, other)

    def __lt__(self, other: Operand) -> Value:
        return _binary("<", self, other)

    def __le__(self, other: Operand) -> Value:
        return _binary("<=", self, other)

    def __gt__(self, other: Operand) -> Value:
        return _binary(">", self, other)

    def __ge__(self, other: Operand) -> Value:
        return _binary(">=", self, other)

    def __and__(self, other: Operand) -> Value:
        return _binary("and" if self.dtype == "bool" else "&", self, other)

    def __or__(self, other: Operand) -> Value:
        return _binary("or" if self.dtype == "bool" else "|", self, other)

    def __xor__(self, other: Operand) -> Value:
        return _binary("^", self, other)

    def __invert__(self) -> Value:
        return Value(Unary("not", self.expr))

    def __neg__(self) -> Value:
        return Value(Unary("-", self.expr))

    def equals(self, other: Operand) -> Value:
        """`self == other` as an expression (`==` itself compares the Python values)."""
        return _binary("==", self, other)

    def differs(self, other: Operand) -> Value:
        """`self != other` as an expression."""
        return _binary("!=", self, other)

    def cast(self, dtype: str) -> Value:
        """Conversion to `dtype`."""
        return Value(Cast(dtype, self.expr))


Operand = Value | int | float | bool


def expression(x: Operand | Expr, dtype: str = INDEX) -> Expr:
    """The expression that `x` stands for; a Python number becomes a constant of type `dtype`."""
    match x:
        case Value(expr=e):
            return e
        case Expr():
            return x
        case bool():
            return Const(x, "bool")
    return Const(float(x) if is_float(dtype) else x, dtype)


def _binary(op: str, a: Operand, b: Operand) -> Value:
    dtype = a.dtype if isinstance(a, Value) else b.dtype if isinstance(b, Value) else INDEX
    return Value(Binary(op, expression(a, dtype), expression(b, dtype)))


def minimum(a: Operand, b: Operand) -> Value:
    """`min(a, b)`."""
    return _binary("min", a, b)


def maximum(a: Operand, b: Operand) -> Value:
    """`max(a, b)`."""
    return _binary("max", a, b)


def select(condition: Value, then: Operand, otherwise: Operand) -> Value:
    """`then` where `condition` holds, else `otherwise`; only the one chosen is evaluated."""
    dtype = then.dtype if isinstance(then, Value) else otherwise.dtype if isinstance(otherwise, Value) else "f32"
    return Value(Select(condition.expr, expression(then, dtype), expression(otherwise, dtype)))


def call(name: str, *args: Value) -> Value:
    """A function of `mslang.ir.functions.FUNCTIONS`.

    Raises:
        ValueError: there is no such function of so many arguments.
    """
    function = FUNCTIONS.get(name)
    if function is None or function.arity != len(args):
        raise ValueError(f"no function {name} of {len(args)} arguments")
    return Value(Call(name, tuple(a.expr for a in args), function.result(args[0].dtype)))
