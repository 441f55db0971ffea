"""Where buffers live: around the innermost statements that hold all accesses, compacted to what is accessed there."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mslang.diagnostics import MsError
from mslang.ir.arith import relax, union_box
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr, Load, Var
from mslang.ir.program import Buffer, For, Let, Range, Stmt, Store
from mslang.ir.visit import free_vars, map_expr
from mslang.lower.analysis import accesses
from mslang.lower.blocks import Flat
from mslang.lower.kernel import Allocate, Body, bodies, expressions, map_expressions, with_bodies
from mslang.lower.linear import tidy

Box = tuple[Range, ...]


def place(flat: Flat, *, compact: bool = True) -> Body:
    """The statements with every buffer allocated around its accesses; `compact`: no larger than what they access."""
    body = flat.body
    for buffer in flat.buffers:
        kept = frozenset(loop for name, loop in flat.carried if name == buffer.name)
        body = _place(buffer, body, kept, compact)
    return body


def _place(buffer: Buffer, body: Body, kept: frozenset[str], compact: bool) -> Body:
    users = [k for k, s in enumerate(body) if _uses(s, buffer.name)]
    if not users:
        return body
    if len(users) == 1:
        s = body[users[0]]
        inner = _descend(buffer, s, kept, compact)
        if inner is not None:
            return (*body[: users[0]], inner, *body[users[0] + 1 :])
    first, last = users[0], users[-1] + 1
    inside = body[first:last]
    return (*body[:first], allocate(buffer, inside) if compact else Allocate(buffer, inside), *body[last:])


def _descend(buffer: Buffer, s: Stmt, kept: frozenset[str], compact: bool) -> Stmt | None:
    """The statement with the buffer placed inside, or None if it must be outside."""
    if any(_mentions(e, buffer.name) for e in expressions(s)):
        return None
    if isinstance(s, For) and (s.var in kept or s.kind == "vectorized"):
        return None
    parts = bodies(s)
    users = [k for k, b in enumerate(parts) if any(_uses(x, buffer.name) for x in b)]
    if len(users) != 1:
        return None
    return with_bodies(s, tuple(_place(buffer, b, kept, compact) if k == users[0] else b for k, b in enumerate(parts)))


def _uses(s: Stmt, buffer: str) -> bool:
    return any(a.buffer == buffer for a in accesses((s,)))


def _mentions(e: Expr, buffer: str) -> bool:
    found = False

    def look(x: Expr) -> None:
        nonlocal found
        found = found or (isinstance(x, Load) and x.buffer == buffer)

    map_expr(e, look)
    return found


# ------------------------------------------------------------------ compaction
def allocate(buffer: Buffer, body: Body) -> Allocate:
    """The allocation of a buffer for `body`, holding only the box that is accessed there."""
    whole = tuple(Range(ZERO, n) for n in buffer.shape)
    if buffer.strides is not None or not buffer.shape:
        return Allocate(buffer, body)
    touched = _touched(buffer.name, body, {}, None, whole)
    if touched is None:
        return Allocate(buffer, body)
    box = tuple(w if _is_whole(r, w) else r for r, w in zip(touched, whole, strict=True))
    if box == whole:
        return Allocate(buffer, body)
    return Allocate(replace(buffer, shape=tuple(r.extent for r in box)), _shifted(buffer.name, box, body))


def _is_whole(r: Range, whole: Range) -> bool:
    """Whether an accessed range saves nothing: it is as large as the dimension, or of no known size."""
    if free_vars(r.extent):
        return True
    if isinstance(r.extent, Const) and isinstance(whole.extent, Const):
        return int(r.extent.value) >= int(whole.extent.value)
    return not isinstance(r.extent, Const)


def _touched(buffer: str, body: Body, ranges: Mapping[str, Range], box: Box | None, whole: Box) -> Box | None:
    """`box` grown by all accesses in `body`; `ranges` are the loops and lets inside of the allocation."""
    for s in body:
        for a in _direct(s, buffer):
            try:
                part = relax(a, ranges, whole)
            except MsError:
                part = whole
            # Names bound inside that could not be relaxed away must not leave their scope.
            part = tuple(w if _escapes(r, ranges) else r for r, w in zip(part, whole, strict=True))
            box = part if box is None else union_box(box, part, whole)
        match s:
            case For(extent=Const(value=n)) if n <= 0:
                continue  # It never runs; what its body would touch may have an extent below 0.
            case For(var=v, start=start, extent=extent):
                inner: Mapping[str, Range] = {**ranges, v: Range(start, extent)}
            case Let(name=n):
                # Nothing is known of its value: an index that uses it may take the whole dimension.
                inner = {**ranges, n: Range(Var(n), ONE)}
            case _:
                inner = ranges
        for b in bodies(s):
            box = _touched(buffer, b, inner, box, whole)
    return box


def _escapes(r: Range, ranges: Mapping[str, Range]) -> bool:
    return not (free_vars(r.start) | free_vars(r.extent)).isdisjoint(ranges)


def _direct(s: Stmt, buffer: str) -> list[tuple[Expr, ...]]:
    found: list[tuple[Expr, ...]] = []
    if isinstance(s, Store) and s.buffer == buffer:
        found.append(s.indices)

    def look(x: Expr) -> None:
        if isinstance(x, Load) and x.buffer == buffer:
            found.append(x.indices)

    for e in expressions(s):
        map_expr(e, look)
    return found


def _shifted(buffer: str, box: Box, body: Body) -> Body:
    starts = tuple(r.start for r in box)

    def moved(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(i if at == ZERO else tidy(Binary("-", i, at)) for i, at in zip(indices, starts, strict=True))

    def change(x: Expr) -> Expr | None:
        return Load(x.buffer, moved(x.indices), x.dtype) if isinstance(x, Load) and x.buffer == buffer else None

    def statement(s: Stmt) -> Stmt:
        s = with_bodies(s, tuple(tuple(statement(x) for x in b) for b in bodies(s)))
        s = map_expressions(s, lambda e: map_expr(e, change))
        return Store(buffer, moved(s.indices), s.value) if isinstance(s, Store) and s.buffer == buffer else s

    return tuple(statement(s) for s in body)
