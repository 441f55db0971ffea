"""Bounds of expressions that cannot be derived from their form, by trying every value of their variables.

Floats are computed as intervals that hold the rounded and the exact result of each operation, so that they bound what
compiled code computes too, where a product and a sum may be rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from mslang.ir.dtype import bits, is_float, is_integer, is_unsigned, parts
from mslang.ir.expr import Binary, Call, Cast, Const, Expr, Select, Unary, Var, dtype_of
from mslang.ir.program import Range
from mslang.ir.visit import free_vars

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = Mapping[str, NDArray[Any]]
    Interval = tuple[Any, Any]

MOST = 1 << 16
"""So many values are tried."""

_EPSILON = {"f16": 2.0**-9, "bf16": 2.0**-6, "f32": 2.0**-22, "f64": 2.0**-51}
"""Twice what rounding changes, as a part of the result."""
_LEAST = {"f16": 2.0**-23, "bf16": 2.0**-125, "f32": 2.0**-125, "f64": 2.0**-1000}
_GREATEST = {"f16": 60000.0, "bf16": 1e38, "f32": 1e38, "f64": 1e300}
_EXACT = 2**52
"""Integers up to here are doubles."""


def inside(e: Expr, low: Expr, stop: Expr, ranges: Mapping[str, Range]) -> bool:
    """Is `low <= e < stop` for all values of the variables? Not known if they are too many, or are not numbers."""
    names = sorted(free_vars(e) | free_vars(low) | free_vars(stop))
    values = _values(names, ranges)
    if values is None:
        return False
    found = [_interval(x, values) for x in (e, low, stop)]
    if any(x is None for x in found):
        return False
    (least, most), (_, start), (end, _) = (x for x in found if x is not None)
    return bool((start <= least).all() and (most < end).all())


def _values(names: Sequence[str], ranges: Mapping[str, Range]) -> Values | None:
    """All combinations of the values of some variables, each along a dimension of its own."""
    import numpy as np

    spans: list[tuple[int, int]] = []
    for n in names:
        match ranges.get(n):
            case Range(start=Const(value=int() as start), extent=Const(value=int() as extent)):
                spans.append((start, start + extent))
            case _:
                return None
    if prod(b - a for a, b in spans) > MOST:
        return None
    grid = np.meshgrid(*(np.arange(a, b, dtype=np.int64) for a, b in spans), indexing="ij", sparse=True)
    return dict(zip(names, grid, strict=True))


def _interval(e: Expr, values: Values) -> Interval | None:
    """The smallest and the largest that an expression may be, for each combination of values; None: not known."""
    import numpy as np

    match e:
        case Const(value=bool()):
            return None
        case Const(value=v, dtype=d):
            return _kept((np.asarray(v), np.asarray(v)), d, exact=not is_float(d))
        case Var(name=n):
            return values[n], values[n]
        case Unary(op="-", operand=x):
            found = _interval(x, values)
            return None if found is None else (-found[1], -found[0])
        case Select(then=t, otherwise=o):
            return _hull(_interval(t, values), _interval(o, values))
        case Call(name="floor" | "ceil" | "round" as name, args=(x,)):
            found = _interval(x, values)
            whole = {"floor": np.floor, "ceil": np.ceil, "round": np.rint}[name]
            return None if found is None else (whole(found[0]), whole(found[1]))
        case Cast(dtype=d, operand=x):
            found = _interval(x, values)
            return None if found is None else _converted(found, dtype_of(x), d)
        case Binary(op=op, left=left, right=right):
            a, b = _interval(left, values), _interval(right, values)
            return None if a is None or b is None else _combined(op, a, b, dtype_of(e))
    return None


def _combined(op: str, a: Interval, b: Interval, dtype: str) -> Interval | None:
    import numpy as np

    match op:
        case "+":
            return _kept((a[0] + b[0], a[1] + b[1]), dtype)
        case "-":
            return _kept((a[0] - b[1], a[1] - b[0]), dtype)
        case "*":
            ends = [x * y for x in a for y in b]
            return _kept((np.minimum.reduce(ends), np.maximum.reduce(ends)), dtype)
        case "min":
            return np.minimum(a[0], b[0]), np.minimum(a[1], b[1])
        case "max":
            return np.maximum(a[0], b[0]), np.maximum(a[1], b[1])
        case "//" | "%" if is_integer(dtype) and (b[0] > 0).all() and (b[0] == b[1]).all():
            if op == "//":
                return a[0] // b[0], a[1] // b[0]
            single = (a[0] == a[1]).all()
            return (a[0] % b[0], a[0] % b[0]) if single else (b[0] * 0 + a[0] * 0, b[0] - 1 + a[0] * 0)
    return None


def _hull(a: Interval | None, b: Interval | None) -> Interval | None:
    import numpy as np

    return None if a is None or b is None else (np.minimum(a[0], b[0]), np.maximum(a[1], b[1]))


def _converted(found: Interval, old: str, new: str) -> Interval | None:
    import numpy as np

    if is_integer(new) and is_float(old):
        whole = np.trunc(found[0]), np.trunc(found[1])
        if not (np.abs(whole) < _EXACT).all():
            return None
        return _kept((whole[0].astype(np.int64), whole[1].astype(np.int64)), new)
    if is_float(new):
        return _kept((found[0] * 1.0, found[1] * 1.0), new)
    return _kept(found, new)


def _kept(found: Interval, dtype: str, exact: bool = False) -> Interval | None:
    """A result in its type: a float with what rounding may change, an integer if it cannot overflow."""
    import numpy as np

    kind = parts(dtype)
    if kind is None or kind.lanes > 1:
        return None
    low, high = found
    if is_float(dtype):
        if dtype not in _EPSILON or not (np.maximum(np.abs(low), np.abs(high)) < _GREATEST[dtype]).all():
            return None
        slack = 0.0 if exact else np.maximum(np.abs(low), np.abs(high)) * _EPSILON[dtype] + _LEAST[dtype]
        return low - slack, high + slack
    if not is_integer(dtype):
        return None
    n = bits(dtype)
    least, most = (0, 2**n - 1) if is_unsigned(dtype) else (-(2 ** (n - 1)), 2 ** (n - 1) - 1)
    fits = (low >= max(least, -_EXACT)).all() and (high <= min(most, _EXACT)).all()
    return (low, high) if fits else None


__all__ = ["inside"]
