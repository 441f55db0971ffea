"""Sending accesses of one buffer to another."""

from __future__ import annotations

from msgspec.structs import replace

from mslang.ir.expr import Expr, Load
from mslang.ir.program import Block, Region, Stmt, Store, View
from mslang.ir.region import hidden_renamed, streams_renamed
from mslang.ir.visit import map_bodies, map_expr, map_stmt_exprs


def read_from(s: Stmt, old: str, new: str) -> Stmt:
    """A statement that reads the buffer `new` where it read `old`, regions and views included.

    The predicate and the bindings of a block are outside of it, and read what they read: its regions do not say where.
    """
    done = _sent(map_stmt_exprs(s, lambda e: _loading(e, old, new)), old, new, reads=True, writes=False)
    match s, done:
        case Block(), Block():
            axes = tuple(replace(a, binding=b.binding) for a, b in zip(done.axes, s.axes, strict=True))
            return replace(done, axes=axes, predicate=s.predicate)
    return done


def work_on(s: Stmt, old: str, new: str) -> Stmt:
    """A statement that reads and writes the buffer `new` where it did `old`, regions and views included."""
    return _sent(map_stmt_exprs(s, lambda e: _loading(e, old, new)), old, new, reads=True, writes=True)


def _loading(e: Expr, old: str, new: str) -> Expr:
    return map_expr(e, lambda x: Load(new, x.indices, x.dtype) if isinstance(x, Load) and x.buffer == old else None)


def _sent(s: Stmt, old: str, new: str, *, reads: bool, writes: bool) -> Stmt:
    def region(r: Region) -> Region:
        return Region(new, r.ranges) if r.buffer == old else r

    accesses = [access for access, sent in (("read", reads), ("write", writes)) if sent]
    match s:
        case Store(buffer=b) if writes and b == old:
            return Store(new, s.indices, s.value)
        case Block():
            s = hidden_renamed(s, {old: new}, accesses)
            s = streams_renamed(s, {old: None}) if writes else s
            s = replace(
                s,
                reads=tuple(region(r) for r in s.reads) if reads else s.reads,
                writes=tuple(region(r) for r in s.writes) if writes else s.writes,
                views=tuple(View(v.buffer, region(v.source)) for v in s.views),
            )
    return map_bodies(s, lambda body: tuple(_sent(x, old, new, reads=reads, writes=writes) for x in body))
