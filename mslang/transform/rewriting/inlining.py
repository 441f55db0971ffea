"""What a formula in place of a buffer changes: loads, what blocks say that they read, allocations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from mslang.ir.expr import (
    Expr,
    Load,
)
from mslang.ir.find import path_to_block
from mslang.ir.program import Block, Buffer, Program, Stmt
from mslang.ir.region import infer_regions
from mslang.ir.visit import Path, map_bodies, map_expr, map_stmt_exprs
from mslang.transform.analysis.position import block_at, scope_path
from mslang.transform.rewriting.rewrite import put


def with_loads(s: Stmt, buffer: str, value: Callable[[tuple[Expr, ...]], Expr]) -> Stmt:
    """A statement in which each load of a buffer is replaced by a value made of its indices."""
    return map_stmt_exprs(
        s, lambda e: map_expr(e, lambda x: value(x.indices) if isinstance(x, Load) and x.buffer == buffer else None)
    )


def with_reads(s: Stmt, gone: str, come: frozenset[str], buffers: Mapping[str, Buffer]) -> Stmt:
    """A statement whose blocks, at any depth, declare to read no more the buffer `gone`, and declare again what they
    read of the buffers `come`, in the order in which they read."""
    rebuilt = map_bodies(s, lambda body: tuple(with_reads(x, gone, come, buffers) for x in body))
    if not isinstance(rebuilt, Block) or not any(r.buffer == gone for r in rebuilt.reads):
        return rebuilt
    stay = tuple(r for r in rebuilt.reads if r.buffer != gone and r.buffer not in come)
    read, _ = infer_regions(rebuilt, buffers)
    order = {r.buffer: k for k, r in enumerate(read)}
    reads = (*stay, *(r for r in read if r.buffer in come))
    return replace(rebuilt, reads=tuple(sorted(reads, key=lambda r: order.get(r.buffer, len(order)))))


def without_alloc(program: Program, path: Path, buffer: str) -> Program:
    """The program without a buffer that the scope of the end of a path (of an older program) allocates."""
    scope = scope_path(path)
    if not scope:
        return replace(program, allocs=tuple(b for b in program.allocs if b.name != buffer))
    found = path_to_block(program, block_at(scope).name) or ()
    block = block_at(found)
    return put(program, found, replace(block, allocs=tuple(b for b in block.allocs if b.name != buffer)))
