"""Renaming what handles name: how a `let` gives its binders' names to what a primitive made."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mslang.ir.expr import Expr, Load, Var
from mslang.ir.find import used_names
from mslang.ir.program import Block, Buffer, For, Program, Region, Stmt, Store, View
from mslang.ir.region import hidden_renamed, streams_renamed
from mslang.ir.visit import fresh, map_bodies, map_expr, map_stmt_exprs, walk
from mslang.transform.outcome import BlockRef, BufferRef, Handle, LoopRef, Outcome
from mslang.transform.rewriting.rewrite import substitute_loops


def rename(program: Program, names: Mapping[Handle, str]) -> Outcome:
    """Give loops, blocks and buffers other names; a name that is taken gets a number (`i_1`).

    Parameters keep their names: they are the program's interface.

    Returns:
        The program, the new handles in the order of `names`, and where the old ones went.
    """
    params = {BufferRef(q.buffer.name) for q in program.params}
    wanted = {h: n for h, n in names.items() if h not in params}
    taken = set(used_names(program)) - {h.name for h in wanted}
    new: dict[Handle, Handle] = {}
    for handle, name in wanted.items():
        given = fresh(name, taken)
        taken.add(given)
        new[handle] = replace(handle, name=given)
    moved = {old: to for old, to in new.items() if old != to}
    loops = {old.name: to.name for old, to in moved.items() if isinstance(old, LoopRef)}
    blocks = {old.name: to.name for old, to in moved.items() if isinstance(old, BlockRef)}
    buffers = {old.name: to.name for old, to in moved.items() if isinstance(old, BufferRef)}
    if buffers:
        program = _with_buffers(program, buffers)
    if loops or blocks:
        program = replace(program, body=_with_names(program.body, loops, blocks))
    return Outcome(program, tuple(new.get(h, h) for h in names), moved)


def _with_names(body: tuple[Stmt, ...], loops: Mapping[str, str], blocks: Mapping[str, str]) -> tuple[Stmt, ...]:
    """The statements of a scope, and those of the blocks in it, with loops and blocks renamed all at once."""
    here = {s.var for s in walk(body, into_blocks=False) if isinstance(s, For)}
    values: dict[str, Expr] = {old: Var(new) for old, new in loops.items() if old in here}

    def visit(s: Stmt) -> Stmt:
        match s:
            case Block():
                inside = map_bodies(s, lambda b: _with_names(b, loops, blocks))
                return replace(inside, name=blocks.get(s.name, s.name)) if isinstance(inside, Block) else inside
            case For():
                return replace(s, var=loops.get(s.var, s.var), body=tuple(visit(x) for x in s.body))
        return map_bodies(s, lambda b: tuple(visit(x) for x in b))

    return tuple(visit(s) for s in substitute_loops(body, values, None))


def renamed(
    body: tuple[Stmt, ...], loops: Mapping[str, str], blocks: Mapping[str, str], buffers: Mapping[str, str]
) -> tuple[Stmt, ...]:
    """Statements of one scope with the loops, blocks and buffers in them renamed all at once."""
    return _buffers_renamed(_with_names(body, loops, blocks), buffers)


def _with_buffers(program: Program, names: Mapping[str, str]) -> Program:
    allocs = tuple(replace(b, name=names.get(b.name, b.name)) for b in program.allocs)
    return replace(program, allocs=allocs, body=_buffers_renamed(program.body, names))


def _buffers_renamed(body: tuple[Stmt, ...], names: Mapping[str, str]) -> tuple[Stmt, ...]:
    def named(b: Buffer) -> Buffer:
        return replace(b, name=names.get(b.name, b.name))

    def region(r: Region) -> Region:
        return replace(r, buffer=names.get(r.buffer, r.buffer))

    def load(e: Expr) -> Expr | None:
        return replace(e, buffer=names[e.buffer]) if isinstance(e, Load) and e.buffer in names else None

    def visit(s: Stmt) -> Stmt:
        match map_bodies(s, lambda body: tuple(visit(x) for x in body)):
            case Store() as inner:
                return replace(inner, buffer=names.get(inner.buffer, inner.buffer))
            case Block() as inner:
                return replace(
                    streams_renamed(hidden_renamed(inner, names), names),
                    reads=tuple(region(r) for r in inner.reads),
                    writes=tuple(region(r) for r in inner.writes),
                    allocs=tuple(named(b) for b in inner.allocs),
                    views=tuple(View(named(v.buffer), region(v.source)) for v in inner.views),
                )
            case inner:
                return inner

    return tuple(visit(map_stmt_exprs(s, lambda e: map_expr(e, load))) for s in body) if names else body
