"""Regions: inference of the reads and writes of a block from its body, and the form `a..b`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from mslang.ir.annotations import STREAM
from mslang.ir.arith import intersect_box, proved, relax, simplify, union_box
from mslang.ir.expr import ONE, TRUE, ZERO, Binary, Const, Expr, Load, Unary
from mslang.ir.nodes import AttrValue, Block, Buffer, Evaluate, For, If, Let, Range, Region, Stmt, Store, While
from mslang.ir.visit import free_vars, loads_of, substitute, walk, walk_expr

Box = tuple[Range, ...]
Regions = tuple[Region, ...]

NO_BUFFERS: Mapping[str, Buffer] = MappingProxyType({})


HIDDEN: Mapping[str, str] = MappingProxyType({"read": "hidden_reads", "write": "hidden_writes"})
"""The annotations that name buffers which a block accesses without declaring it."""


def hidden(block: Block, access: str) -> frozenset[str]:
    """The buffers that a block reads, or writes, without declaring it."""
    found = dict(block.annotations).get(HIDDEN[access], ())
    return frozenset(x for x in found if isinstance(x, str)) if isinstance(found, tuple) else frozenset()


def hidden_renamed(block: Block, names: Mapping[str, str], accesses: Iterable[str] = ("read", "write")) -> Block:
    """A block that hides the same buffers by other names."""
    keys = {HIDDEN[access] for access in accesses}
    if not any(key in keys for key, _ in block.annotations):
        return block

    def renamed(value: AttrValue) -> AttrValue:
        return tuple(names.get(x, x) if isinstance(x, str) else x for x in value) if isinstance(value, tuple) else value

    notes = tuple((key, renamed(value) if key in keys else value) for key, value in block.annotations)
    return replace(block, annotations=notes)


def streams_renamed(block: Block, names: Mapping[str, str | None]) -> Block:
    """A block that streams the same buffers by other names; none of those that have None."""
    if not any(key.startswith(STREAM) for key, _ in block.annotations):
        return block
    notes = []
    for key, value in block.annotations:
        buffer = key.removeprefix(STREAM) if key.startswith(STREAM) else None
        name = buffer if buffer is None else names.get(buffer, buffer)
        if name is not None or buffer is None:
            notes.append((key if name is None else STREAM + name, value))
    return replace(block, annotations=tuple(notes))


# ------------------------------------------------------------------ a..b
def range_between(start: Expr, stop: Expr) -> Range:
    """The range written `start..stop`; the exact inverse of `Range.stop` on what that gives."""
    match start, stop:
        case _, Binary(op="+", left=left, right=extent) if left == start:
            return Range(start, extent)
        case Const(value=a), Const(value=b):
            return Range(start, Const(b - a))
        case Const(value=0), _:
            return Range(start, stop)
    return Range(start, simplify(Binary("-", stop, start)))


def point(index: Expr) -> Range:
    """The range that holds `index` alone."""
    return Range(index, ONE)


def whole(buffer: Buffer) -> Box:
    """The box of all of a buffer."""
    return tuple(Range(ZERO, n) for n in buffer.shape)


# ------------------------------------------------------------------ inference
class _Access(msgspec.Struct, frozen=True):
    """The box of an access, in terms of the block's axes and of `loops`, the inner loops not yet relaxed over."""

    buffer: str
    box: Box
    write: bool
    loops: tuple[tuple[str, Range], ...]
    limits: tuple[Box, ...] = ()
    """What a block inside can access at all, whatever its loops run over: through a view what is viewed, and if it is
    guarded what its axes reach."""
    conditions: tuple[Expr, ...] = ()
    """Those under which it happens, as far as statements show them."""


class _Scope(msgspec.Struct, frozen=True):
    """What the names inside a block's body stand for: lets, loops (outermost first) and views."""

    lets: Mapping[str, Expr] = MappingProxyType({})
    loops: tuple[tuple[str, Range], ...] = ()
    views: Mapping[str, Region] = MappingProxyType({})
    updated: frozenset[tuple[str, tuple[Expr, ...]]] = frozenset()
    started: frozenset[str] = frozenset()
    """What the block's init writes; the blocks inside that update it do not make it a read."""
    conditions: tuple[Expr, ...] = ()

    def under(self, condition: Expr) -> _Scope:
        """What is inside of a condition."""
        return replace(self, conditions=(*self.conditions, substitute(condition, self.lets)))

    def touch(self, buffer: str, box: Box, write: bool) -> _Access:
        """The access to `box`, in the buffer that is viewed where `buffer` is a view."""
        box = _substituted(box, self.lets)
        while buffer in self.views:
            source = self.views[buffer]
            dropped = len(source.ranges) - len(box)
            kept = zip(source.ranges[dropped:], box, strict=True)
            buffer, box = (
                source.buffer,
                (*source.ranges[:dropped], *(Range(_plus(s.start, r.start), r.extent) for s, r in kept)),
            )
        return _Access(buffer, box, write, self.loops, conditions=self.conditions)

    def window(self, buffer: str) -> tuple[Box, ...]:
        """What can be accessed through a view, in the buffer that is viewed; nothing for another buffer."""
        source = self.views.get(buffer)
        return () if source is None else (self.touch(source.buffer, source.ranges, False).box,)

    def root(self, buffer: str) -> str:
        """The buffer that a name stands for, views looked through."""
        while buffer in self.views:
            buffer = self.views[buffer].buffer
        return buffer

    def reads(self, e: Expr) -> Iterator[_Access]:
        """The accesses of the loads in `e`, but for those by which a reduction reads what it updates."""
        for x in loads_of(e):
            if (x.buffer, x.indices) not in self.updated:
                yield self.touch(x.buffer, tuple(point(i) for i in x.indices), False)


def infer_regions(block: Block, buffers: Mapping[str, Buffer] = NO_BUFFERS) -> tuple[Regions, Regions]:
    """The regions that a block reads and writes by its body and init, in terms of its axes.

    One region a buffer, in the order of first use: the smallest provable box around its accesses. Loops
    inside the body are run over; a nested block counts as its declared regions; an access to a view counts
    as one to what is viewed; what the block allocates is not listed. In a block with `init`, the loads by
    which the body updates what `init` started are not reads.

    Args:
        block: the block; what it declares to read and write is not looked at.
        buffers: the buffers by name, for accesses that depend on data or have no provable hull, which widen
            to whole dimensions. Without its shape, boxes of a buffer that cannot be joined are listed apart.

    Returns:
        The reads and the writes.
    """
    started = stored(block.init or ())
    views = {v.buffer.name: v.source for v in block.views}
    scope = _Scope(views=views, updated=_updated(block, started), started=started)
    local = {b.name for b in block.allocs}
    ranges = {a.name: Range(ZERO, a.extent) for a in block.axes}
    boxes: dict[tuple[bool, str], list[Box]] = {}
    for a in (*_accesses(block.body, scope, _declared), *_accesses(block.init or (), scope, _declared)):
        if a.buffer in local:
            continue
        buffer = buffers.get(a.buffer)
        box = _relaxed(resolved(a.box, buffer), a.loops, None if buffer is None else whole(buffer))
        for limit in a.limits:
            if not _depends_on_any(limit, a.loops):
                box = intersect_box(box, limit, ranges)
        known = boxes.setdefault((a.write, a.buffer), [])
        if box not in known:
            known.append(box)
    joined = [
        (write, Region(b, box)) for (write, b), found in boxes.items() for box in _joined(found, buffers.get(b), ranges)
    ]
    return tuple(r for write, r in joined if not write), tuple(r for write, r in joined if write)


def _updated(block: Block, started: frozenset[str]) -> frozenset[tuple[str, tuple[Expr, ...]]]:
    """The elements, as they are written, that the body of a block stores to in what its init has started."""
    return frozenset((s.buffer, s.indices) for s in walk(block.body) if isinstance(s, Store) and s.buffer in started)


def touched_by_data(block: Block) -> frozenset[str]:
    """The buffers that a block accesses at indices that depend on data, so that their regions cannot be inferred."""
    scope = _Scope(views={v.buffer.name: v.source for v in block.views})
    return frozenset(
        a.buffer
        for a in (*_accesses(block.body, scope, _declared), *_accesses(block.init or (), scope, _declared))
        if any(_depends_on_data(r.start) or _depends_on_data(r.extent) for r in (*a.box, *_running(a)))
    )


def _running(a: _Access) -> Iterator[Range]:
    """The ranges of the loops that an access runs over."""
    names = {n for r in a.box for n in free_vars(r.start) | free_vars(r.extent)}
    for name, over in reversed(a.loops):
        if name in names:
            yield over
            names |= free_vars(over.start) | free_vars(over.extent)


def stored(body: tuple[Stmt, ...]) -> frozenset[str]:
    """The buffers that statements store to; what blocks among them store to a view goes to what is viewed."""
    viewed = {v.buffer.name: v.source.buffer for s in walk(body) if isinstance(s, Block) for v in s.views}
    own = {a.name for s in walk(body) if isinstance(s, Block) for a in s.allocs}
    found = set()
    for s in walk(body):
        if isinstance(s, Store):
            name = s.buffer
            while name in viewed:
                name = viewed[name]
            found.add(name)
    return frozenset(found - own)


def _accesses(
    body: tuple[Stmt, ...], scope: _Scope, of_block: Callable[[Block, _Scope], Iterator[_Access]]
) -> Iterator[_Access]:
    """The accesses of statements; `of_block` gives those of a block among them."""
    for s in body:
        match s:
            case Store(buffer=b, indices=xs, value=v):
                for e in (v, *xs):
                    yield from scope.reads(e)
                yield scope.touch(b, tuple(point(x) for x in xs), True)
            case Let(name=n, value=v, body=inner):
                yield from scope.reads(v)
                yield from _accesses(inner, replace(scope, lets={**scope.lets, n: substitute(v, scope.lets)}), of_block)
            case For(var=n, start=a, extent=e, body=inner):
                yield from (*scope.reads(a), *scope.reads(e))
                over = Range(substitute(a, scope.lets), substitute(e, scope.lets))
                yield from _accesses(inner, replace(scope, loops=(*scope.loops, (n, over))), of_block)
            case If(condition=c, then=t, otherwise=o):
                yield from scope.reads(c)
                yield from _accesses(t, scope.under(c), of_block)
                yield from _accesses(o, scope.under(Unary("not", c)), of_block)
            case While(condition=c, body=inner):
                yield from scope.reads(c)
                yield from _accesses(inner, scope.under(c), of_block)
            case Evaluate(value=v):
                yield from scope.reads(v)
            case Block():
                yield from _conditions(s, scope)
                yield from of_block(s, scope)


def _conditions(block: Block, scope: _Scope) -> Iterator[_Access]:
    """What the bindings and the predicate of a block inside read."""
    bound = {a.name: a.binding for a in block.axes}
    for e in (*bound.values(), substitute(block.predicate, bound)):
        yield from scope.reads(e)


def _declared(block: Block, scope: _Scope) -> Iterator[_Access]:
    """What a block inside declares to access."""
    bound = {a.name: a.binding for a in block.axes}
    for write, regions in ((False, block.reads), (True, block.writes)):
        for r in regions:
            if not write and scope.root(r.buffer) in scope.started:
                continue
            limits = scope.window(r.buffer)
            if block.predicate != TRUE and not any(_depends_on_data(d.start) for d in r.ranges):
                reached = relax(r.ranges, {a.name: Range(ZERO, a.extent) for a in block.axes})
                limits = (*limits, scope.touch(r.buffer, reached, write).box)
            yield replace(scope.touch(r.buffer, _substituted(r.ranges, bound), write), limits=limits)


def _seen(block: Block, scope: _Scope) -> Iterator[_Access]:
    """What the statements in a block inside access; what it declares where no statement shows an access."""
    bound = {a.name: substitute(a.binding, scope.lets) for a in block.axes}
    started = stored(block.init or ())
    inner = replace(
        scope,
        lets={**scope.lets, **bound},
        views={**scope.views, **{v.buffer.name: v.source for v in block.views}},
        updated=_updated(block, started),
        started=scope.started | started,
    ).under(block.predicate)
    inside = (*_accesses(block.body, inner, _seen), *_accesses(block.init or (), inner, _seen))
    own = {b.name for b in block.allocs}
    yield from (a for a in inside if a.buffer not in own)
    shown = {(a.write, a.buffer) for a in inside}
    yield from (a for a in _declared(block, scope) if (a.write, a.buffer) not in shown)


# ------------------------------------------------------------------ single accesses
def boxes_at_ends(block: Block, buffer: str, *, write: bool) -> Iterator[Box]:
    """The boxes of the accesses of a block to a buffer, with each loop inside the block at its first or its last
    iteration: each is accessed, where the hull that `infer_regions` gives may hold more. What blocks inside declare may
    hold more, too, so the statements in them are asked. What is not provably accessed at an end, under a condition, is
    left out."""
    scope = _Scope(views={v.buffer.name: v.source for v in block.views})
    ranges = {a.name: Range(ZERO, a.extent) for a in block.axes}
    for a in (*_accesses(block.body, scope, _seen), *_accesses(block.init or (), scope, _seen)):
        if a.buffer == buffer and a.write == write:
            yield from _at_ends(a, a.loops, ranges)


def _at_ends(a: _Access, loops: tuple[tuple[str, Range], ...], ranges: Mapping[str, Range]) -> Iterator[Box]:
    if not loops:
        if all(proved(c, ranges) for c in a.conditions):
            yield a.box
        return
    *outer, (name, over) = loops
    used = (e for r in a.box for e in (r.start, r.extent))
    if not any(name in free_vars(e) for e in (*used, *a.conditions)):
        yield from _at_ends(a, tuple(outer), ranges)
        return
    last = simplify(Binary("-", Binary("+", over.start, over.extent), ONE))
    for end in dict.fromkeys((over.start, last)):
        value = {name: end}
        at = replace(a, box=_substituted(a.box, value), conditions=tuple(substitute(c, value) for c in a.conditions))
        yield from _at_ends(at, tuple(outer), ranges)


def _plus(a: Expr, b: Expr) -> Expr:
    return b if a == ZERO else a if b == ZERO else Binary("+", a, b)


def _substituted(box: Box, values: Mapping[str, Expr]) -> Box:
    return tuple(Range(substitute(r.start, values), substitute(r.extent, values)) for r in box) if values else box


def _depends_on_any(box: Box, loops: tuple[tuple[str, Range], ...]) -> bool:
    names = {name for name, _ in loops}
    return any(names & (free_vars(r.start) | free_vars(r.extent)) for r in box)


def _depends_on_data(e: Expr) -> bool:
    return any(isinstance(x, Load) for x in walk_expr(e))


def resolved(box: Box, buffer: Buffer | None) -> Box:
    """The box with dimensions that depend on data widened to the whole dimension."""
    if buffer is None or len(buffer.shape) != len(box):
        return box
    return tuple(
        Range(ZERO, n) if _depends_on_data(r.start) or _depends_on_data(r.extent) else r
        for r, n in zip(box, buffer.shape, strict=True)
    )


def _relaxed(box: Box, loops: tuple[tuple[str, Range], ...], dimensions: Box | None) -> Box:
    for name, over in reversed(loops):
        if any(name in free_vars(r.start) | free_vars(r.extent) for r in box):
            box = relax(box, {name: over}, dimensions)
            if dimensions is not None:
                box = tuple(
                    d if _depends_on_data(r.start) or _depends_on_data(r.extent) else r
                    for r, d in zip(box, dimensions, strict=True)
                )
    return box


def _joined(boxes: list[Box], buffer: Buffer | None, ranges: Mapping[str, Range]) -> list[Box]:
    first, *others = boxes
    if not others or buffer is None:
        return boxes
    for box in others:
        first = union_box(first, box, whole(buffer), ranges)
    return [first]
