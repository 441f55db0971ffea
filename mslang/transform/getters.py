"""The getters of schedules: what a program tells about its blocks and loops, changing nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mslang.ir.expr import Expr
from mslang.ir.find import path_to_block
from mslang.ir.program import Block, Program
from mslang.transform.analysis import dependence, legality
from mslang.transform.analysis.dependence import buffers_read, buffers_written
from mslang.transform.analysis.position import (
    block_at,
    block_path,
    leaves,
    loop_at,
    loop_path,
    loops_above,
    path_of,
    scope_body,
)
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef


def loops(program: Program, block: BlockRef) -> tuple[LoopRef, ...]:
    """The loops above a block in its scope, outermost first."""
    return tuple(LoopRef(s.var) for s in loops_above(block_path(program, block, "loops")))


def children(program: Program, target: LoopRef | BlockRef) -> tuple[BlockRef, ...]:
    """The blocks directly in a block or under a loop, not those nested in them."""
    inside = path_of(program, target, "children")[-1]
    found = leaves(*inside.body) if isinstance(inside, Block) else leaves(inside)
    return tuple(BlockRef(b.name) for b in found)


def output_blocks(program: Program, block: BlockRef) -> tuple[BlockRef, ...]:
    """The blocks of the same scope as a block that write buffers which that scope does not allocate."""
    body = scope_body(program, block_path(program, block, "output_blocks"))
    paths = (path_to_block(program, b.name) or () for b in leaves(*body))
    return tuple(BlockRef(block_at(q).name) for q in paths if dependence.is_output(program, q))


def producers(program: Program, block: BlockRef) -> tuple[BlockRef, ...]:
    """The blocks of the same scope whose results a block reads."""
    return tuple(BlockRef(b.name) for b in dependence.producers(program, block_path(program, block, "producers")))


def consumers(program: Program, block: BlockRef) -> tuple[BlockRef, ...]:
    """The blocks of the same scope that read a block's results."""
    return tuple(BlockRef(b.name) for b in dependence.consumers(program, block_path(program, block, "consumers")))


def reads(program: Program, block: BlockRef) -> tuple[BufferRef, ...]:
    """The buffers that a block reads."""
    return tuple(BufferRef(b) for b in buffers_read(block_at(block_path(program, block, "reads"))))


def writes(program: Program, block: BlockRef) -> tuple[BufferRef, ...]:
    """The buffers that a block writes."""
    return tuple(BufferRef(b) for b in buffers_written(block_at(block_path(program, block, "writes"))))


def extent(program: Program, loop: LoopRef) -> Expr:
    """How many iterations a loop has."""
    return loop_at(loop_path(program, loop, "extent")).extent


def is_injective(program: Program, block: BlockRef) -> bool:
    """Does a block compute each element of its output once, by a formula of the element's own index?"""
    return legality.is_injective(block_at(block_path(program, block, "is_injective")))


def is_output(program: Program, block: BlockRef) -> bool:
    """Does a block write a buffer that its scope does not allocate?"""
    return dependence.is_output(program, block_path(program, block, "is_output"))


def is_reduction(program: Program, block: BlockRef) -> bool:
    """Has a block a reduction axis?"""
    return legality.is_reduction(block_at(block_path(program, block, "is_reduction")))


def has_branch(program: Program, block: BlockRef) -> bool:
    """Does a block decide anything: an `if`, a `while` or a `select`?"""
    return legality.has_branch(block_at(block_path(program, block, "has_branch")))


def spatial_loops(program: Program, block: BlockRef) -> tuple[LoopRef, ...]:
    """The loops above a block that only spatial axes depend on, outermost first."""
    return _loops_of(program, block, "spatial")


def reduction_loops(program: Program, block: BlockRef) -> tuple[LoopRef, ...]:
    """The loops above a block that only reduction axes depend on, outermost first."""
    return _loops_of(program, block, "reduce")


def _loops_of(program: Program, block: BlockRef, kind: str) -> tuple[LoopRef, ...]:
    path = block_path(program, block, f"{kind}_loops")
    return tuple(LoopRef(s.var) for s in legality.loops_by_kind(path, kind))


GETTERS: Mapping[str, Callable[..., object]] = MappingProxyType(
    {
        f.__name__: f
        for f in (
            loops,
            children,
            output_blocks,
            producers,
            consumers,
            reads,
            writes,
            extent,
            is_injective,
            is_output,
            is_reduction,
            has_branch,
            spatial_loops,
            reduction_loops,
        )
    }
)
"""The getters by name."""
