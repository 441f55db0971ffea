"""What was asked of the strides of buffers."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from mslang.ir.find import blocks_of
from mslang.ir.program import AttrValue, Block, Program
from mslang.transform.analysis.dependence import buffers_written

ALIGNMENT = "buffer_dim_align"
"""The annotation of a block: `[[number of the written buffer, axis, factor, offset], …]`, as TVM has it."""


class Alignment(msgspec.Struct, frozen=True):
    """The stride of dimension `axis` is `offset` modulo `factor`."""

    axis: int
    factor: int
    offset: int


def with_alignments(block: Block, entries: tuple[AttrValue, ...]) -> Block:
    """A block that asks for these strides, and no others."""
    rest = tuple((k, v) for k, v in block.annotations if k != ALIGNMENT)
    return replace(block, annotations=(*rest, (ALIGNMENT, entries)) if entries else rest)


def without_alignment(block: Block, buffer: str) -> Block:
    """A block that says nothing of the strides of a buffer any more."""
    there = alignment_entries(block)
    if not there or buffer not in buffers_written(block):
        return block
    numbers = {k for k, r in enumerate(block.writes) if r.buffer == buffer}
    return with_alignments(block, tuple(e for e in there if e[0] not in numbers))


def alignments(program: Program) -> Mapping[str, tuple[Alignment, ...]]:
    """What was asked of the strides of buffers; what no longer fits them is left out by those who use it."""
    found: dict[str, dict[int, Alignment]] = {}
    for block in blocks_of(program.body):
        for number, axis, factor, offset in alignment_entries(block) or ():
            if 0 <= number < len(block.writes):
                name = block.writes[number].buffer
                found.setdefault(name, {}).setdefault(axis, Alignment(axis, factor, offset))
    return {name: tuple(by_axis.values()) for name, by_axis in found.items()}


def alignment_entries(block: Block) -> tuple[tuple[int, int, int, int], ...] | None:
    """What `storage_align` left on a block; None if the annotation is something else."""
    noted = dict(block.annotations).get(ALIGNMENT, ())
    if not isinstance(noted, tuple):
        return None
    out: list[tuple[int, int, int, int]] = []
    for e in noted:
        match e:
            case (int() as number, int() as axis, int() as factor, int() as offset) if factor >= 1:
                out.append((number, axis, factor, offset))
            case _:
                return None
    return tuple(out)
