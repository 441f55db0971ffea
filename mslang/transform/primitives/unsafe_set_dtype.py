"""Primitives that change the element type of a buffer: unsafe_set_dtype."""

from __future__ import annotations

from msgspec.structs import replace

from mslang.ir.dtype import parts
from mslang.ir.expr import Cast, Expr, Load
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.intrin import intrin_of
from mslang.ir.program import Block, Buffer, Program, Stmt, Store, View
from mslang.ir.visit import map_bodies, map_expr, map_program_exprs
from mslang.transform.analysis.dependence import buffers_written, storage_of
from mslang.transform.analysis.position import block_at, block_path, buffer_named
from mslang.transform.kinds import ElementType
from mslang.transform.outcome import BlockRef, BufferRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.widening import directly


@primitive(family="memory")
def unsafe_set_dtype(program: Program, block: BlockRef, buffer: BufferRef, dtype: ElementType) -> Outcome:
    """Change the element type of a buffer that the program allocates; views of it go with it.

    What is stored is converted to the new type, what is loaded back to the old one, so that all is computed as before.
    Results change where the new type does not hold what the old one does: nobody checks that. Where it holds all of it,
    and what is loaded was converted to it before, that is left out: so a copy of an operand of bf16 is converted to f32
    once, in place of each time that it is read.

    Before:
        alloc t: f32[64]
        block b[i: 64] { t[i] = A[i] * 2.0 }
        block c[i: 64] { B[i] = t[i] + 1.0 }

    After:
        # b.unsafe_set_dtype(t, f16)
        alloc t: f16[64]
        block b[i: 64] { t[i] = f16(A[i] * 2.0) }
        block c[i: 64] { B[i] = f32(t[i]) + 1.0 }

    Rejects:
        - what is not an element type, or one with another number of lanes
        - a buffer that the block does not write
        - a parameter of the program: its type is the caller's
        - an operand of an instruction, which takes elements of the type that they have

    Source: TVM unsafe_set_dtype
    """
    primitive = "unsafe_set_dtype"
    path = block_path(program, block, primitive)
    old = buffer_named(program, buffer, primitive)
    was, now = parts(old.dtype), parts(dtype)
    if now is None or was is None or now.lanes != was.lanes:
        raise refuse(
            "MS366",
            primitive,
            f"`{old.name}` cannot have elements of type `{dtype}`",
            help="an element type is one of the language's, for a value of the same sort: a number for a number",
        )
    written = buffers_written(block_at(path))
    if old.name not in written:
        raise refuse(
            "MS330",
            primitive,
            f"block `{block.name}` does not write `{old.name}`",
            help=f"it writes {', '.join(f'`{b}`' for b in written) or 'nothing'}",
        )
    storage = storage_of(program, old.name)
    if any(q.buffer.name == storage for q in program.params):
        raise refuse(
            "MS366",
            primitive,
            f"`{storage}` is a parameter",
            why="its type is the caller's",
            help="make a copy of it with `cache_read` or `cache_write` and change that",
        )
    names = {b for b in all_buffers(program) if storage_of(program, b) == storage}
    if dtype == old.dtype:
        return Outcome(program)
    for b in blocks_of(program.body):
        instruction = intrin_of(b)
        if instruction is not None and any(v.buffer.name in names for v in b.views):
            raise refuse(
                "MS381",
                primitive,
                f"`{storage}` is an operand of the instruction `{instruction}` (block `{b.name}`)",
                why="the instruction takes elements of the type that they have",
                help="change the type before `tensorize`",
            )

    def value(e: Expr) -> Expr:
        return map_expr(e, lambda x: _converted(x, names, dtype))

    def typed(b: Buffer) -> Buffer:
        return replace(b, dtype=dtype) if b.name in names else b

    def visit(s: Stmt) -> Stmt:
        inner = map_bodies(s, lambda body: tuple(visit(x) for x in body))
        match inner:
            case Store() if inner.buffer in names:
                return Store(inner.buffer, inner.indices, Cast(dtype, inner.value))
            case Block():
                return replace(
                    inner,
                    allocs=tuple(typed(b) for b in inner.allocs),
                    views=tuple(View(typed(v.buffer), v.source) for v in inner.views),
                )
        return inner

    changed = map_program_exprs(program, value)
    return Outcome(
        replace(changed, allocs=tuple(typed(b) for b in changed.allocs), body=tuple(visit(s) for s in changed.body))
    )


def _converted(e: Expr, names: set[str], dtype: str) -> Expr | None:
    if isinstance(e, Load) and e.buffer in names and e.dtype != dtype:
        return Cast(e.dtype, Load(e.buffer, e.indices, dtype))
    return directly(e, names, dtype)


__all__ = ["unsafe_set_dtype"]
