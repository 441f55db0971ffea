"""Whether two programs have the same form: names, loops of one iteration, and remarks on the program do not count."""

from __future__ import annotations

import msgspec

from mslang.diagnostics import MsError
from mslang.ir.arith import simplify
from mslang.ir.equal import alpha_equal
from mslang.ir.expr import Const, Expr
from mslang.ir.find import blocks_of
from mslang.ir.program import For, Param, Program, Stmt
from mslang.ir.visit import map_bodies, map_program_exprs, substitute
from mslang.transform.outcome import BlockRef, BufferRef, Handle
from mslang.transform.rename import rename


def same_form(a: Program, b: Program) -> bool:
    """Whether two programs are alike but for names, loops of one iteration, and remarks on the program."""
    try:
        return alpha_equal(plain(a), plain(b))
    except MsError:
        return False


def plain(program: Program) -> Program:
    """The program without what does not count."""
    values: dict[str, Expr] = {}
    program = msgspec.structs.replace(
        program,
        params=tuple(Param(q.buffer, "inout") for q in program.params),
        body=_without_units(program.body, values),
        annotations=(),
    )
    return unnamed(map_program_exprs(program, lambda e: simplify(substitute(e, values))))


def unnamed(program: Program) -> Program:
    """The program with names for its blocks and buffers that say in which order they are met."""
    met: dict[Handle, None] = {}
    for b in blocks_of(program.body):
        met |= {BlockRef(b.name): None}
        met |= {BufferRef(r.buffer): None for r in (*(v.source for v in b.views), *b.reads, *b.writes)}
        met |= {BufferRef(x.name): None for x in (*(v.buffer for v in b.views), *b.allocs)}
    done = rename(program, {h: f"{type(h).__name__}_{k}" for k, h in enumerate(met)}).program
    return msgspec.structs.replace(done, allocs=tuple(sorted(done.allocs, key=lambda x: x.name)))


def _without_units(body: tuple[Stmt, ...], values: dict[str, Expr]) -> tuple[Stmt, ...]:
    """The statements without serial loops of one iteration; the variables of those go into `values`."""
    found: list[Stmt] = []
    for s in body:
        match s:
            case For(kind="serial", annotations=()) if simplify(s.extent) == Const(1):
                values[s.var] = s.start
                found += _without_units(s.body, values)
            case _:
                found.append(map_bodies(s, lambda inner: _without_units(inner, values)))
    return tuple(found)
