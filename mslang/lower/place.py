"""Where buffers live: around the innermost statements that hold all accesses, compacted to what is accessed there.

Decisions may have no values: what a buffer holds and where it begins are then expressions over them, and putting
numbers in gives what placing the concrete program gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from mslang.diagnostics import MsError
from mslang.ir.arith import Verdict, decide, minimum, proved, relax, simplify, union_box
from mslang.ir.arith.domain import is_dynamic
from mslang.ir.arith.linear import expression, linear
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr, Load, Select, Var
from mslang.ir.program import Buffer, Range
from mslang.ir.visit import free_vars, loads_of, map_expr, substitute
from mslang.kernel.nodes import Allocate, Atomic, Body, For, Let, Stmt, Store, While
from mslang.kernel.visit import bodies, expressions, map_deep, map_expressions, with_bodies
from mslang.lower.analysis import accessed, given_strides, stored

Box = tuple[Range, ...]

Shared = Callable[[Buffer], Mapping[str, Range]]
"""The variables from around an allocation whose values share it: a block's threads do, for shared memory."""

NO_THREADS: Mapping[str, Range] = {}
"""No loops are threads."""


def place(
    body: Body, *, compact: bool = True, shared: Shared = lambda _: {}, threads: Mapping[str, Range] = NO_THREADS
) -> Body:
    """The statements with the buffers that are allocated around all of them allocated around their accesses instead.

    Args:
        body: allocations, one in another, around what uses the buffers.
        compact: make buffers no larger than what is accessed of them there.
        shared: for a buffer the variables whose values share it, with their ranges: it holds what is accessed for all.
        threads: the kinds of loops whose iterations are threads, if they still are loops, with the numbers of the
            threads: each has memory of its own, which holds what it accesses in all loops of the kind.
    """
    outside: list[Allocate] = []
    while len(body) == 1 and isinstance(body[0], Allocate):
        outside.append(body[0])
        body = body[0].body
    for a in outside:
        own = NO_THREADS if a.buffer.scope in (*_SHARED, "global") else threads
        body = _place(a, body, compact, _Place(shared(a.buffer), {}, own, {}))
    return body


class _Place(NamedTuple):
    """Where a buffer is to be placed: the variables whose values share it, and the loops around.

    `threads` are the kinds of loops whose iterations have one each, `indices` the numbers of the threads around.
    """

    shared: Mapping[str, Range]
    around: Mapping[str, Range]
    threads: Mapping[str, Range]
    indices: Mapping[str, Expr]


def _place(a: Allocate, body: Body, compact: bool, at: _Place) -> Body:
    users = [k for k, s in enumerate(body) if a.buffer.name in accessed(s)]
    if not users:
        return body
    if len(users) == 1:
        s = body[users[0]]
        inner = _descend(a, s, compact, at)
        if inner is not None:
            return (*body[: users[0]], inner, *body[users[0] + 1 :])
    first, last = users[0], users[-1] + 1
    inside = replace(a, body=body[first:last])
    return (*body[:first], compacted(inside, at) if compact else inside, *body[last:])


def _descend(a: Allocate, s: Stmt, compact: bool, at: _Place) -> Stmt | None:
    """The statement with the buffer placed inside, or None if it must be outside."""
    buffer = a.buffer.name
    if isinstance(s, For):
        over = Range(s.start, s.extent)
        at = at._replace(around={**at.around, s.var: over})
        if s.kind.startswith(_SHARED.get(a.buffer.scope, ())):
            at = at._replace(shared={**at.shared, s.var: over})
        if s.kind in at.threads:
            at = at._replace(indices={**at.indices, s.kind: _minus(Var(s.var), s.start)})
    if any(_mentions(e, buffer) for e in expressions(s)):
        return None
    # What an iteration of a `while` stores, later ones may load.
    if isinstance(s, While) or (isinstance(s, For) and (s.var in a.carried or s.kind == "vectorized")):
        return None
    parts = bodies(s)
    users = [k for k, b in enumerate(parts) if any(buffer in accessed(x) for x in b)]
    if len(users) != 1:
        return None
    return with_bodies(s, tuple(_place(a, b, compact, at) if k == users[0] else b for k, b in enumerate(parts)))


_SHARED = {
    "shared": ("threadIdx.", "vthread"),
    "shared.dyn": ("threadIdx.", "vthread"),
    "warp": ("threadIdx.x",),
}
"""The loops whose iterations share the memory of a scope: a buffer of the scope holds what all of them access."""


def _mentions(e: Expr, buffer: str) -> bool:
    return any(x.buffer == buffer for x in loads_of(e))


# ------------------------------------------------------------------ compaction
def compacted(a: Allocate, at: _Place) -> Allocate:
    """The allocation holding only the box of its buffer that is accessed, for all values of the shared variables."""
    buffer = a.buffer
    whole = tuple(Range(ZERO, n) for n in buffer.shape)
    if buffer.strides is not None or not buffer.shape:
        return a
    touched = _touched(buffer.name, _of_one_thread(a.body, at), at.shared, None, whole)
    if touched is None:
        return a
    changing = stored(a.body)
    # An extent is a stride of the dimensions before it: what determines declared ones stays.
    free = len(whole) - max(given_strides(a.body, buffer.name) - 1, 0)
    box = tuple(
        w if k >= free or _is_unsteady(r, changing) else _kept(r, w, {**at.around, **at.threads})
        for k, (r, w) in enumerate(zip(touched, whole, strict=True))
    )
    if box == whole:
        return a
    shape = tuple(r.extent for r in box)
    return replace(a, buffer=replace(buffer, shape=shape), body=_shifted(buffer.name, box, a.body, at))


def _of_one_thread(body: Body, at: _Place) -> Body:
    """What one thread does: it runs the iteration of its index in every loop of threads."""
    if not at.threads:
        return body
    out: list[Stmt] = []
    for s in body:
        inner = tuple(_of_one_thread(b, at) for b in bodies(s))
        if isinstance(s, For) and s.kind in at.threads:
            value = Binary("+", at.indices.get(s.kind, Var(s.kind)), s.start)
            out.extend(map_deep(inner[0], partial(substitute, values={s.var: value})))
        else:
            out.append(with_bodies(s, inner))
    return tuple(out)


def _is_unsteady(r: Range, changing: frozenset[str]) -> bool:
    """Whether a range begins where data that change meanwhile say, or is as long as data say."""
    return any(loads_of(r.extent)) or any(x.buffer in changing for x in loads_of(r.start))


def _kept(r: Range, whole: Range, around: Mapping[str, Range]) -> Range:
    """What is allocated of a dimension in which `r` is accessed: never more than all of it.

    Where decisions determine whether `r` is that large, the extent is a `min`. What is accessed lies in `r` and in the
    dimension, so what is kept may begin where `r` begins unless that is before the dimension.
    """
    if free_vars(r.extent) or is_dynamic(r.extent):
        return whole
    as_large = Binary(">=", r.extent, whole.extent)
    verdict = decide(as_large)
    if verdict is Verdict.REFUTED or (is_dynamic(whole.extent) and verdict is not Verdict.PROVED):
        return r
    extent = whole.extent if verdict is Verdict.PROVED else minimum(r.extent, whole.extent)
    if proved(Binary(">=", r.start, ZERO), around):
        return Range(r.start, extent)
    return whole if verdict is Verdict.PROVED else Range(Select(as_large, ZERO, r.start), extent)


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
                continue  # It never runs; what its body would access may have an extent below 0.
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
    if isinstance(s, Store | Atomic) and s.buffer == buffer:
        found.append(s.indices)
    found += (x.indices for e in expressions(s) for x in loads_of(e) if x.buffer == buffer)
    return found


def _shifted(buffer: str, box: Box, body: Body, at: _Place) -> Body:
    starts = tuple(r.start for r in box)

    def moved(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(i if first == ZERO else _minus(i, first) for i, first in zip(indices, starts, strict=True))

    def change(x: Expr) -> Expr | None:
        return Load(x.buffer, moved(x.indices), x.dtype) if isinstance(x, Load) and x.buffer == buffer else None

    def statement(s: Stmt) -> Stmt:
        if isinstance(s, For) and s.kind in at.threads and any(s.kind in free_vars(x) for x in starts):
            mine = {s.kind: _minus(Var(s.var), s.start)}
            own = tuple(Range(substitute(r.start, mine), r.extent) for r in box)
            return replace(s, body=_shifted(buffer, own, s.body, at))
        s = with_bodies(s, tuple(tuple(statement(x) for x in b) for b in bodies(s)))
        s = map_expressions(s, lambda e: map_expr(e, change))
        if isinstance(s, Store | Atomic) and s.buffer == buffer:
            return replace(s, indices=moved(s.indices))
        return s

    return tuple(statement(s) for s in body)


def _minus(index: Expr, start: Expr) -> Expr:
    e = Binary("-", index, start)
    form = linear(e)
    return simplify(e) if form is None else expression(form)
