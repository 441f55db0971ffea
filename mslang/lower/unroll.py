"""Unrolled loops written out, their variables numbers; and everything else in normal form.

Unrolled are the loops that a schedule says to unroll, and those over which a buffer in registers is indexed: registers
have no addresses. A loop of one iteration goes, and so does what no iteration reaches. What loops fetch ahead
(`prefetch.py`) is known here, where the statements of a later iteration are written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from mslang.ir.dtype import INDEX
from mslang.ir.expr import FALSE, ONE, TRUE, Binary, Const, Expr, Symbol, Var, dtype_of
from mslang.kernel.lanes import lanes_of
from mslang.kernel.nodes import Allocate, Atomic, Body, For, If, Invoke, Let, Module, Stmt, Store
from mslang.kernel.visit import bodies, map_deep, map_expressions, map_functions, walk, with_bodies
from mslang.lower.analysis import COUNTED_LANES, MAX_UNROLLED, changes_bounds, indexes, max_steps, weight
from mslang.lower.prefetch import distances, gathers, prefetches
from mslang.lower.substitute import Known, loop_bounds
from mslang.target.description import Target

_IN_REGISTERS = MAX_UNROLLED // 2
"""Statements that a loop over registers, and those in it, may become."""


def unroll(module: Module, target: Target) -> Module:
    """The module with unrolled loops written out; one that checks each access keeps its loops."""
    if module.checked:
        return module
    return map_functions(module, lambda body: _body(body, _Place(Known({}), {})))


class _Place(NamedTuple):
    """Where statements stand: what is known of variables, the values of those that are unrolled, and the buffers that
    may become registers."""

    known: Known
    values: Mapping[str, Expr]
    registers: frozenset[str] = frozenset()
    in_parallel: bool = False

    def expr(self, e: Expr) -> Expr:
        return self.known.expr(e, self.values)

    def position(self, e: Expr) -> Expr:
        return self.known.index(e, self.values)

    def with_value(self, name: str, value: Expr) -> _Place:
        return self._replace(values={**self.values, name: value})


def _body(body: Body, at: _Place) -> Body:
    out: list[Stmt] = []
    for s in body:
        out.extend(_statement(s, at))
    return tuple(out)


def _statement(s: Stmt, at: _Place) -> Iterator[Stmt]:
    match s:
        case Store(buffer=b, indices=xs, value=v, mask=mask):
            if mask is not None:
                mask = at.expr(mask)
                if mask == FALSE:
                    return
            indices = tuple([at.position(x) for x in xs])
            yield Store(b, indices, at.expr(v), None if mask == TRUE else mask, s.stream)
        case For():
            yield from _loop(s, at)
        case If(condition=c, then=then, otherwise=otherwise):
            c = at.expr(c)
            if isinstance(c, Const):
                yield from _body(then if c.value else otherwise, at)
                return
            yes, no = _body(then, at), _body(otherwise, at)
            if yes or no:
                yield If(c, yes, no)
        case Let(value=v):
            yield from _let(s, at.position(v) if dtype_of(v) == INDEX else at.expr(v), at)
        case Allocate(buffer=b, body=body):
            inside = at._replace(registers=at.registers | {b.name}) if b.scope == "local" else at
            yield replace(s, body=_body(body, inside))
        case Invoke(meaning=meaning):
            same = map_deep(meaning, at.expr)
            yield replace(s, operands=tuple([at.expr(x) for x in s.operands]), meaning=same)
        case Atomic(indices=xs, value=v):
            yield replace(s, indices=tuple([at.position(x) for x in xs]), value=at.expr(v))
        case _:
            yield with_bodies(map_expressions(s, at.expr), tuple([_body(b, at) for b in bodies(s)]))


def _let(s: Let, value: Expr, at: _Place) -> Iterator[Stmt]:
    scalar = dtype_of(value) == INDEX and lanes_of(value) == 1
    if scalar and _is_sum(value):
        yield from _body(s.body, at.with_value(s.name, value))
        return
    bounds = at.known.interval(value) if scalar else None
    body = _body(s.body, at._replace(known=at.known.within(s.name, bounds)))
    if body:
        yield replace(s, value=value, body=body)


def _loop(s: For, at: _Place) -> Iterator[Stmt]:
    start, extent = at.expr(s.start), at.expr(s.extent)
    trips = int(extent.value) if isinstance(extent, Const) else None
    if trips is not None and trips <= 0:
        return
    if trips == 1 and changes_bounds(s):
        yield from _let(Let(s.var, start, s.body), start, at)
        return
    if trips == 1:
        yield from _body(s.body, at.with_value(s.var, start))
        return
    task = s.kind == "parallel" and not at.in_parallel
    if trips is not None and not task and not changes_bounds(s) and _is_unrolled(s, trips, at.registers):
        for k in range(trips):
            value = at.expr(Binary("+", start, Const(k)))
            yield from _fetched(s, value, start, extent, at)
            yield from _body(s.body, at.with_value(s.var, value))
        return
    loop = replace(s, start=start, extent=extent)
    inner = at._replace(known=at.known.within(s.var, loop_bounds(loop, at.known)))
    if task:
        inner = inner._replace(registers=frozenset(), in_parallel=True)
    body = _body(s.body, inner)
    if body:
        body = (*_fetched(s, Var(s.var), start, extent, inner), *body)
        yield replace(loop, body=body, kind=s.kind if task else "serial")


def _fetched(s: For, value: Expr, start: Expr, extent: Expr, at: _Place) -> Iterator[Stmt]:
    """What the iteration of a value fetches for later ones."""
    for buffer, ahead in distances(s).items():
        if buffer in at.registers:
            continue
        later = Binary("+", value, Const(ahead))
        yield from prefetches(_body(s.body, at.with_value(s.var, at.expr(later))), buffer)
        if gathers(s.body, buffer) and not changes_bounds(s):
            last = Binary("-", Binary("+", start, extent), ONE)
            reached = at.with_value(s.var, at.expr(Binary("min", later, last)))
            yield from prefetches(_body(s.body, reached), buffer, gathered=True)


def _is_unrolled(s: For, trips: int, registers: frozenset[str]) -> bool:
    narrow = _narrowness(s.body)
    if s.kind == "unrolled":
        return trips <= max_steps(s) and trips * weight(s.body) <= MAX_UNROLLED * narrow
    return indexes(s, registers) and trips * _written_out(s.body, registers) <= _IN_REGISTERS * narrow


def _narrowness(body: Body) -> int:
    """How many vectors take the place of one of 16 lanes: limits are the same work on every machine."""
    stores = (s for s in walk(body) if isinstance(s, Store))
    lanes = max((lanes_of(x) for s in stores for x in s.indices), default=1)
    return max(1, COUNTED_LANES // lanes) if lanes > 1 else 1


def _written_out(body: Body, registers: frozenset[str]) -> int:
    """How many statements a body is once its loops over registers are unrolled, too."""
    total = 0
    for s in body:
        inner = sum(_written_out(b, registers) for b in bodies(s))
        match s:
            case For(kind="serial", extent=Const(value=n)) if n * inner <= _IN_REGISTERS and indexes(s, registers):
                total += int(n) * inner
            case _:
                total += max(inner, weight((s,)))
    return total


def _is_sum(e: Expr) -> bool:
    """Whether repeating an index costs nothing: it is a sum of multiples of variables and sizes."""
    match e:
        case Const() | Var() | Symbol():
            return True
        case Binary(op="+" | "-" | "*", left=left, right=right):
            return _is_sum(left) and _is_sum(right)
    return False
