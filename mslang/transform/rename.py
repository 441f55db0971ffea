"""Renaming what handles name: how a `let` gives its binders' names to what a primitive made."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mslang.ir.expr import Expr, Load, Var
from mslang.ir.program import Block, Buffer, For, Program, Region, Stmt, Store, View
from mslang.ir.visit import fresh, map_expr, map_program_exprs, used_names
from mslang.transform.outcome import BlockRef, BufferRef, Handle, LoopRef, Outcome
from mslang.transform.rewrite import map_bodies, substitute_loops


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
        program = replace(program, body=tuple(_with_names(s, loops, blocks) for s in program.body))
    return Outcome(program, tuple(new.get(h, h) for h in names), moved)


def _with_names(s: Stmt, loops: Mapping[str, str], blocks: Mapping[str, str]) -> Stmt:
    inner = map_bodies(s, lambda body: tuple(_with_names(x, loops, blocks) for x in body))
    match inner:
        case Block(name=n) if n in blocks:
            return replace(inner, name=blocks[n])
        case For(var=v) if v in loops:
            values: dict[str, Expr] = {v: Var(loops[v])}
            return replace(inner, var=loops[v], body=substitute_loops(inner.body, values, None))
    return inner


def _with_buffers(program: Program, names: Mapping[str, str]) -> Program:
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
                    inner,
                    reads=tuple(region(r) for r in inner.reads),
                    writes=tuple(region(r) for r in inner.writes),
                    allocs=tuple(named(b) for b in inner.allocs),
                    views=tuple(View(named(v.buffer), region(v.source)) for v in inner.views),
                )
            case inner:
                return inner

    program = map_program_exprs(program, lambda e: map_expr(e, load))
    return replace(program, allocs=tuple(named(b) for b in program.allocs),
                   body=tuple(visit(s) for s in program.body))
