"""Vectorized loops over several rows: each row as a vectorized loop of its own.

`A[l // 32, l % 32]` for `l` in 64 lanes is not a vector of memory, but two rows of 32 are.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from msgspec.structs import replace

from mslang.ir.expr import ZERO, Binary, Const, Expr, Var
from mslang.ir.visit import free_vars, walk_expr
from mslang.kernel.nodes import For
from mslang.kernel.visit import expressions, map_deep, walk
from mslang.lower.lanes import vectorizable
from mslang.lower.substitute import Known, loop_bounds

_SHORTEST = 4
"""Fewer lanes than these are not worth a vector of their own."""
_UNROLLED = 8
"""More rows than these stay a loop."""


def in_rows(s: For, known: Known, fresh: Callable[[str], str]) -> For | None:
    """A vectorized loop as one over rows, each of which can run as lanes; None if there are none."""
    length = _row_length(s)
    if length is None or not isinstance(s.extent, Const):
        return None
    count = int(s.extent.value) // length
    row = For(fresh(f"{s.var}_row"), Const(count), (), kind="unrolled" if count <= _UNROLLED else "serial")
    lanes = replace(s, extent=Const(length))
    inside = known.within(row.var, loop_bounds(row, known))
    inside = inside.within(s.var, loop_bounds(lanes, inside))
    at: Expr = Binary("+", Binary("*", Var(row.var), Const(length)), Var(s.var))
    lanes = replace(lanes, body=map_deep(s.body, lambda e: inside.expr(e, {s.var: at})))
    return replace(row, body=(lanes,)) if vectorizable(lanes) else None


def _row_length(s: For) -> int | None:
    """How many iterations of a loop from 0 have the quotients and remainders of its variable in common."""
    if s.start != ZERO or not isinstance(s.extent, Const):
        return None
    found = {int(s.extent.value)}
    for x in walk(s.body):
        for e in expressions(x):
            for part in walk_expr(e):
                match part:
                    case Binary(op="//" | "%", left=left, right=Const(value=k)) if s.var in free_vars(left):
                        found.add(int(k))
    length = gcd(*found)
    return length if len(found) > 1 and _SHORTEST <= length < int(s.extent.value) else None
