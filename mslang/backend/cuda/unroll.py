"""Which loops nvcc is asked to unroll."""

from __future__ import annotations

from mslang.ir.annotations import MAX_STEPS
from mslang.ir.expr import Const, Expr, Load, Var
from mslang.ir.program import AttrValue
from mslang.ir.visit import walk_expr
from mslang.kernel.nodes import Atomic, Body, For, Invoke, Stmt, Store
from mslang.kernel.visit import bodies, expressions, walk

MAX_UNROLLED = 1024
"""Statements that unrolling may make of one loop; a loop beyond stays a loop."""

IN_REGISTERS = 512
"""Statements that a loop over registers, and those in it, may become."""


def unrolls(s: For, registers: frozenset[str]) -> bool:
    """Whether a loop is to be unrolled: because the schedule says so, or because it indexes registers.

    An array is in registers only where every index is a number after unrolling.
    """
    if not isinstance(s.extent, Const):
        return False
    trips = int(s.extent.value)
    if s.kind in ("unrolled", "vectorized"):
        return trips <= _max_steps(s) and trips * weight(s.body) <= MAX_UNROLLED
    return s.kind == "serial" and indexes(s, registers) and trips * written_out(s.body, registers) <= IN_REGISTERS


def weight(body: Body) -> int:
    """How many statements that do something a body has."""
    return sum(isinstance(s, Store | Invoke | Atomic) for s in _outside_of_meanings(body))


def written_out(body: Body, registers: frozenset[str]) -> int:
    """How many statements a body is once its loops over registers are unrolled, too."""
    total = 0
    for s in body:
        inner = 1 if isinstance(s, Invoke) else sum(written_out(b, registers) for b in bodies(s))
        if isinstance(s, For) and isinstance(s.extent, Const) and indexes(s, registers):
            inner *= int(s.extent.value)
        total += max(inner, isinstance(s, Store | Invoke | Atomic))
    return total


def indexes(s: For, registers: frozenset[str]) -> bool:
    """Whether the loop's variable occurs in an index of one of the buffers."""
    return any(name in registers and _mentions(at, s.var) for x in walk(s.body) for name, at in _accesses(x))


def _accesses(s: Stmt) -> list[tuple[str, tuple[Expr, ...]]]:
    found = [(x.buffer, x.indices) for e in expressions(s) for x in walk_expr(e) if isinstance(x, Load)]
    if isinstance(s, Store | Atomic):
        found.append((s.buffer, s.indices))
    return found


def _mentions(indices: tuple[Expr, ...], var: str) -> bool:
    return any(isinstance(x, Var) and x.name == var for e in indices for x in walk_expr(e))


def _outside_of_meanings(body: Body) -> list[Stmt]:
    found: list[Stmt] = []
    for s in body:
        found.append(s)
        if not isinstance(s, Invoke):
            found += [x for b in bodies(s) for x in _outside_of_meanings(b)]
    return found


def _max_steps(s: For) -> int:
    """How many iterations the schedule lets be written out."""
    limit: AttrValue | None = dict(s.annotations).get(MAX_STEPS)
    if isinstance(limit, Const):
        limit = limit.value
    return limit if isinstance(limit, int) else MAX_UNROLLED
