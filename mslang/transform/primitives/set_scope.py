"""Primitives that say where a buffer lives: set_scope."""

from __future__ import annotations

from msgspec.structs import replace

from mslang.ir.program import SCOPES, Block, Buffer, Program, Stmt, View
from mslang.ir.visit import map_bodies
from mslang.transform.analysis.dependence import storage_of
from mslang.transform.analysis.position import block_at, block_path, buffer_named
from mslang.transform.kinds import Scope
from mslang.transform.outcome import BlockRef, BufferRef, Outcome, refuse
from mslang.transform.primitive import primitive


@primitive(family="memory")
def set_scope(program: Program, block: BlockRef, buffer: BufferRef, scope: Scope) -> Outcome:
    """Move a buffer that the program allocates to another memory; views of it go with it.

    Before:
        alloc t: f32[64]
        block b[i: 64] { t[i] = A[i] }

    After:
        # b.set_scope(t, local)
        alloc t: f32[64] @ local
        block b[i: 64] { t[i] = A[i] }

    Rejects:
        - a scope that does not exist
        - a buffer that the block does not write
        - a parameter of the program that is elsewhere: its memory is the caller's

    Source: TVM set_scope
    """
    path = block_path(program, block, "set_scope")
    found = buffer_named(program, buffer, "set_scope")
    if scope not in SCOPES:
        raise refuse(
            "MS315", "set_scope", f"unknown storage scope `{scope}`", help=f"one of {', '.join(sorted(SCOPES))}"
        )
    if all(r.buffer != found.name for r in block_at(path).writes):
        names = ", ".join(f"`{r.buffer}`" for r in block_at(path).writes)
        raise refuse(
            "MS315",
            "set_scope",
            f"block `{block.name}` does not write `{found.name}`",
            help=f"it writes {names or 'nothing'}",
        )
    if found.scope == scope:
        return Outcome(program)
    storage = storage_of(program, found.name)
    if any(q.buffer.name == storage for q in program.params):
        raise refuse(
            "MS315",
            "set_scope",
            f"`{storage}` is a parameter",
            why="its memory is the caller's",
            help="make a copy of it in that scope: `cache_read` or `cache_write`",
        )

    def moved(b: Buffer) -> Buffer:
        return replace(b, scope=scope) if storage_of(program, b.name) == storage else b

    def visit(s: Stmt) -> Stmt:
        inner = map_bodies(s, lambda body: tuple(visit(x) for x in body))
        if not isinstance(inner, Block):
            return inner
        return replace(
            inner,
            allocs=tuple(moved(b) for b in inner.allocs),
            views=tuple(View(moved(v.buffer), v.source) for v in inner.views),
        )

    return Outcome(
        replace(program, allocs=tuple(moved(b) for b in program.allocs), body=tuple(visit(s) for s in program.body))
    )
