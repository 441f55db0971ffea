"""Constant expressions: the values of `const` items, of target fields and of other text known without a program."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from mslang.diagnostics import MsError
from mslang.ir.arith.operations import SCALAR
from mslang.sema.evaluation_limits import excess, too_much
from mslang.sema.refer import dotted_name
from mslang.sema.report import failure, unknown
from mslang.syntax import tree

Scalar = int | float | bool | str
Value = Scalar | tuple["Value", ...]

Names = Callable[[str], Value | None]
"""Gives the value of a (dotted) name, or None if it has none."""

NUMBERS: Mapping[str, float] = MappingProxyType({"inf": math.inf, "nan": math.nan})

_NUMERIC = frozenset({"+", "-", "*", "/", "//", "%", "<", "<=", ">", ">="})
"""The operators that take numbers and nothing else."""


def no_names(name: str) -> Value | None:
    """The names of an expression that may use none."""
    return None


def evaluate(e: tree.Expr, names: Names = no_names, known: tuple[str, ...] = ()) -> Value:
    """The value of a constant expression.

    Args:
        e: the expression.
        names: the values of names.
        known: the names that there are, to suggest one.

    Raises:
        MsError: with one diagnostic at the node that is not a constant, or has the wrong type.
    """

    value = _value(e, names, known)
    over = excess(value)
    if over is not None:
        raise MsError(too_much(over).at(e.span))
    return value


def _value(e: tree.Expr, names: Names, known: tuple[str, ...]) -> Value:
    def inner(x: tree.Expr) -> Value:
        return evaluate(x, names, known)

    match e:
        case tree.Number(value=v):
            return v
        case tree.Bool(value=b):
            return b
        case tree.String(value=text):
            return text
        case tree.Size(bytes=n):
            return n
        case tree.List(items=items):
            return tuple(inner(x) for x in items)
        case tree.Group(items=(only,)):
            return inner(only)
        case tree.Ref() | tree.Member():
            return _named(e, names, known)
        case tree.Unary(op=op, operand=x):
            return _unary(e, op, inner(x))
        case tree.Binary(op=op, left=left, right=right):
            return _binary(e, op, inner(left), inner(right))
        case tree.Call(callee=tree.Ref(name=tree.Name(text="min" | "max" as name)), args=args):
            values = [_number(a.value, inner(a.value)) for a in args]
            if values:
                return min(values) if name == "min" else max(values)
        case tree.Bad():
            raise MsError
    raise failure("MS113", e, "this is not a constant", why="it may consist of literals, consts and arithmetic")


def _named(e: tree.Expr, names: Names, known: tuple[str, ...]) -> Value:
    name = dotted_name(e)
    if name is None:
        raise failure("MS113", e, "this is not a constant")
    value = names(name)
    if value is None:
        value = NUMBERS.get(name)
    if value is None:
        raise MsError(unknown("MS101", e, "constant", name, known))
    return value


def _number(e: tree.Expr, value: Value) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise failure("MS104", e, "a number is needed here")
    return value


def _truth(e: tree.Expr, value: Value) -> bool:
    if not isinstance(value, bool):
        raise failure("MS104", e, "a bool is needed here")
    return value


def _unary(e: tree.Unary, op: str, value: Value) -> Value:
    if op == "not":
        return not _truth(e.operand, value)
    number = _number(e.operand, value)
    return -number if op == "-" else number


def _binary(e: tree.Binary, op: str, left: Value, right: Value) -> Value:
    if op in ("and", "or"):
        a, b = _truth(e.left, left), _truth(e.right, right)
        return (a and b) if op == "and" else (a or b)
    if op in ("==", "!="):
        return (left == right) is (op == "==")
    if op == "+" and isinstance(left, tuple) and isinstance(right, tuple):
        return left + right
    if op == "..":
        raise failure("MS127", e, "a range cannot be a constant")
    x, y = _number(e.left, left), _number(e.right, right)
    if op == "/" and isinstance(x, int) and isinstance(y, int):
        raise failure(
            "MS108", e, "`/` on integers", why="it does not say how to round", help="write `//`, or `1.0 * a / b`"
        )
    if op not in _NUMERIC:
        raise MsError
    try:
        value: Value = SCALAR[op](x, y)
    except ZeroDivisionError:
        raise failure("MS113", e, "division by zero") from None
    return value
