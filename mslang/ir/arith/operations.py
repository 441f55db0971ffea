"""The table of binary operators: what each computes, of numbers and of arrays.

Every evaluator reads this table: `evaluate` (numbers), `arrays` (NumPy), the constants of `.ms` text, and the constant
folding of lowering. `//` and `%` are floor division and its remainder, in Python and in NumPy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from mslang.ir.functions import maximum, minimum

Number = int | float | bool


class Operation(NamedTuple):
    """A binary operator: its function of two numbers, and the name of NumPy's function of arrays."""

    scalar: Callable[[Any, Any], Any]
    array: str


def _both(a: Number, b: Number) -> bool:
    return bool(a) and bool(b)


def _either(a: Number, b: Number) -> bool:
    return bool(a) or bool(b)


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "+": Operation(operator.add, "add"),
        "-": Operation(operator.sub, "subtract"),
        "*": Operation(operator.mul, "multiply"),
        "/": Operation(operator.truediv, "true_divide"),
        "//": Operation(operator.floordiv, "floor_divide"),
        "%": Operation(operator.mod, "remainder"),
        "min": Operation(minimum, "minimum"),
        "max": Operation(maximum, "maximum"),
        "<<": Operation(operator.lshift, "left_shift"),
        ">>": Operation(operator.rshift, "right_shift"),
        "&": Operation(operator.and_, "bitwise_and"),
        "|": Operation(operator.or_, "bitwise_or"),
        "^": Operation(operator.xor, "bitwise_xor"),
        "==": Operation(operator.eq, "equal"),
        "!=": Operation(operator.ne, "not_equal"),
        "<": Operation(operator.lt, "less"),
        "<=": Operation(operator.le, "less_equal"),
        ">": Operation(operator.gt, "greater"),
        ">=": Operation(operator.ge, "greater_equal"),
        "and": Operation(_both, "logical_and"),
        "or": Operation(_either, "logical_or"),
    }
)
"""Every operator of `expr.BINARY_OPS`."""

SCALAR: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType({op: o.scalar for op, o in OPERATIONS.items()})
"""The functions of numbers alone."""

DIVIDING = frozenset({"/", "//", "%"})
"""The operators that have no result where the right operand is 0."""
