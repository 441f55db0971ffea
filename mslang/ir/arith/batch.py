"""Sizes over arrays of decisions: many candidates at once, in NumPy (loaded when used)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from mslang.ir.arith.size import Factor, Poly

if TYPE_CHECKING:
    from numpy.typing import NDArray


def poly_values(p: Poly, columns: Mapping[str, NDArray[Any]]) -> NDArray[Any] | int:
    """A size at each row of the columns (`symbol.text` -> integers)."""
    out: NDArray[Any] | int = _value(p, columns, {})
    return out


def _value(p: Poly, columns: Mapping[str, NDArray[Any]], memo: dict[Factor, Any]) -> Any:
    out: Any = 0
    for m, c in p.terms.items():
        term: Any = c
        for f in m:
            term = term * _factor(f, columns, memo)
        out = out + term
    return out


def _factor(f: Factor, columns: Mapping[str, NDArray[Any]], memo: dict[Factor, Any]) -> Any:
    import numpy as np

    if f in memo:
        return memo[f]
    if f.symbol is not None:
        memo[f] = columns[f.symbol.text]
        return memo[f]
    args = [_value(a, columns, memo) for a in f.args]
    match f.op:
        case "//":
            memo[f] = args[0] // args[1]
        case "%":
            memo[f] = args[0] % args[1]
        case "min":
            memo[f] = reduce(np.minimum, args)
        case "max":
            memo[f] = reduce(np.maximum, args)
        case _:
            raise ValueError(f"not a size: {f.key}")
    return memo[f]
