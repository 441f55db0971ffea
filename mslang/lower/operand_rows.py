"""The memory that instructions read: rows of adjacent elements, known from the instructions' meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

from mslang.ir.arith.linear import Interval, add, interval, linear
from mslang.ir.expr import Binary, Const, Expr, Load, MaskedLoad, Ramp
from mslang.ir.visit import walk_expr
from mslang.kernel.nodes import Body, For, Invoke
from mslang.kernel.visit import bodies, expressions
from mslang.lower.fold import fold

Loaded = tuple[tuple[Expr, ...], Mapping[str, Interval]]
"""The indices of a load, and the ranges of the loops around it."""

MOST = 64
"""The largest number of rows of an operand: of an instruction with more, only the first element is given."""


def operand_rows(s: Invoke, buffer: str) -> Iterator[Load]:
    """What an instruction reads of a buffer: a load of each row, as a vector, or of the first element alone where the
    rows are not known.

    Dimensions of which the instruction declares the strides are one row.
    """
    loaded = list(_loaded(s.meaning, buffer, {}))
    for formal, operand in zip(s.params, s.operands, strict=True):
        if not isinstance(operand, Load) or operand.buffer != buffer or not loaded:
            continue
        reach = _reach(operand.indices, loaded)
        strides = (formal.strides or (1,))[-len(operand.indices) :]
        outer = reach[: len(reach) - len(strides)]
        if not reach or prod(n + 1 for n in outer) > MOST:
            yield operand
            continue
        row = sum(n * stride for n, stride in zip(reach[len(outer) :], strides, strict=True)) + 1
        *_, last = operand.indices
        for at in product(*(range(n + 1) for n in outer)):
            first = [_plus(x, k) for x, k in zip(operand.indices, at, strict=False)]
            yield Load(buffer, (*first, *operand.indices[len(outer) : -1], Ramp(last, 1, row)), operand.dtype)


def _loaded(body: Body, buffer: str, ranges: Mapping[str, Interval]) -> Iterator[Loaded]:
    for s in body:
        inside = ranges
        if isinstance(s, For) and isinstance(s.start, Const) and isinstance(s.extent, Const):
            start = int(s.start.value)
            inside = {**ranges, s.var: (start, start + int(s.extent.value) - 1)}
        for e in expressions(s):
            for x in walk_expr(e):
                if isinstance(x, Load | MaskedLoad) and x.buffer == buffer:
                    yield x.indices, ranges
        for b in bodies(s):
            yield from _loaded(b, buffer, inside)


def _reach(first: Sequence[Expr], loaded: Sequence[Loaded]) -> tuple[int, ...]:
    """How far behind the first element the last one is along each dimension; none if it is not known."""
    most = [0] * len(first)
    for indices, ranges in loaded:
        for k, (a, b) in enumerate(zip(first, indices, strict=True)):
            start, end = linear(a), linear(b)
            behind = None if start is None or end is None else interval(add(end, start, -1), ranges)
            if behind is None or behind[0] < 0:
                return ()
            most[k] = max(most[k], behind[1])
    return tuple(most)


def _plus(index: Expr, k: int) -> Expr:
    return fold(Binary("+", index, Const(k)))
