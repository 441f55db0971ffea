"""The value of a polynomial where its symbols have values: numbers, or NumPy arrays of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from mslang.ir.arith.operations import DIVIDING, OPERATIONS, SCALAR
from mslang.ir.arith.size import Factor, Poly

Operator = Callable[[Any, Any], Any]


def number_at(p: Poly, symbols: Mapping[str, int]) -> int:
    """A size for numbers by `symbol.text`.

    Raises:
        ZeroDivisionError: it divides by zero there.
    """
    value: int = _value(p, symbols, SCALAR.__getitem__, {})
    return value


def arrays_at(p: Poly, columns: Mapping[str, Any]) -> Any:
    """A size for NumPy arrays by `symbol.text`: an array, or a number where no symbol occurs.

    Raises:
        ZeroDivisionError: it divides by zero in some row.
    """
    import numpy as np

    def operator(op: str) -> Operator:
        function: Operator = getattr(np, OPERATIONS[op].array)
        return _checked(function) if op in DIVIDING else function

    return _value(p, columns, operator, {})


def _checked(divide: Operator) -> Operator:
    def checked(a: Any, b: Any) -> Any:
        if not (b != 0 if isinstance(b, int) else b.all()):
            raise ZeroDivisionError
        return divide(a, b)

    return checked


def _value(p: Poly, symbols: Mapping[str, Any], operator: Callable[[str], Operator], memo: dict[Factor, Any]) -> Any:
    out: Any = 0
    for m, c in p.terms.items():
        term: Any = c
        for f in m:
            x = memo.get(f)
            if x is None:
                x = memo[f] = _factor(f, symbols, operator, memo)
            term = term * x
        out = out + term
    return out


def _factor(f: Factor, symbols: Mapping[str, Any], operator: Callable[[str], Operator], memo: dict[Factor, Any]) -> Any:
    if f.symbol is not None:
        return symbols[f.symbol.text]
    return reduce(operator(f.op), (_value(a, symbols, operator, memo) for a in f.args))
