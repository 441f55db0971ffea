"""The getters of schedules: what one may ask of a loop or block of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mslang.ir.expr import Const, Expr
from mslang.ir.program import Block, Program
from mslang.ir.visit import Path
from mslang.transform import analysis
from mslang.transform.outcome import BlockRef, BufferRef, Handle, LoopRef

Answer = tuple[Handle, ...] | Expr | bool
Getter = Callable[[Program, Handle], Answer]


def _of_block(ask: Callable[[Program, Path, Block], Answer], name: str) -> Getter:
    def answer(program: Program, of: Handle) -> Answer:
        assert isinstance(of, BlockRef)
        path = analysis.block_path(program, of, name)
        return ask(program, path, analysis.block_at(path))

    return answer


def loop_extent(program: Program, loop: LoopRef) -> Expr:
    """The number of iterations of a loop."""
    return analysis.loop_at(analysis.loop_path(program, loop, "extent")).extent


def _extent(program: Program, of: Handle) -> Answer:
    assert isinstance(of, LoopRef)
    return loop_extent(program, of)


def _children(program: Program, of: Handle) -> Answer:
    assert not isinstance(of, BufferRef)
    end = analysis.path_of(program, of, "children")[-1]
    body = end.body if isinstance(end, Block) else (end,)
    return _blocks(analysis.leaves(*body))


def _blocks(blocks: tuple[Block, ...]) -> tuple[Handle, ...]:
    return tuple(BlockRef(b.name) for b in blocks)


def _loops_by_kind(kind: str) -> Callable[[Program, Path, Block], Answer]:
    return lambda _p, path, _b: tuple(LoopRef(s.var) for s in analysis.loops_by_kind(path, kind))


GETTERS: Mapping[str, Getter] = MappingProxyType({
    "loops": _of_block(lambda _p, path, _b: tuple(LoopRef(s.var) for s in analysis.loops_above(path)), "loops"),
    "children": _children,
    "producers": _of_block(lambda p, path, _b: _blocks(analysis.producers(p, path)), "producers"),
    "consumers": _of_block(lambda p, path, _b: _blocks(analysis.consumers(p, path)), "consumers"),
    "reads": _of_block(lambda _p, _q, b: tuple(BufferRef(x) for x in analysis.buffers_read(b)), "reads"),
    "writes": _of_block(lambda _p, _q, b: tuple(BufferRef(x) for x in analysis.buffers_written(b)), "writes"),
    "extent": _extent,
    "is_injective": _of_block(lambda _p, _q, b: analysis.is_injective(b), "is_injective"),
    "is_output": _of_block(lambda p, path, _b: analysis.is_output(p, path), "is_output"),
    "is_reduction": _of_block(lambda _p, _q, b: analysis.is_reduction(b), "is_reduction"),
    "has_branch": _of_block(lambda _p, _q, b: analysis.has_branch(b), "has_branch"),
    "spatial_loops": _of_block(_loops_by_kind("spatial"), "spatial_loops"),
    "reduction_loops": _of_block(_loops_by_kind("reduce"), "reduction_loops"),
})
"""The getters by name: from the program and what the receiver stands for to the answer."""


def constant(e: Expr) -> int | None:
    """The value of a size that is a number."""
    return int(e.value) if isinstance(e, Const) else None
