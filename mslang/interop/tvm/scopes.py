"""Producers and consumers of a block in TVM's order, on which a trace's handles depend.

TVM lists producers in the order of the regions that the block reads, then of those that it writes (a block that wrote
the same buffer before is a producer too); consumers are in program order. The getters of a schedule here list both in
program order, and flow dependences only.
"""

from __future__ import annotations

from collections.abc import Iterator

from mslang.ir.find import blocks_of, path_to_block
from mslang.ir.program import Block, Program
from mslang.transform.analysis.position import scope_body


def producers(program: Program, name: str) -> tuple[str, ...]:
    """The blocks that TVM considers producers of a block in its scope, in TVM's order."""
    before, block, _ = _scope(program, name)
    return tuple(dict.fromkeys(b.name for region in _touched(block) for b in before if region in _written(b)))


def consumers(program: Program, name: str) -> tuple[str, ...]:
    """The blocks that TVM considers consumers of a block in its scope, in TVM's order."""
    _, block, after = _scope(program, name)
    return tuple(b.name for b in after if _written(block) & set(_touched(b)))


def _scope(program: Program, name: str) -> tuple[tuple[Block, ...], Block, tuple[Block, ...]]:
    """The blocks of a block's scope before it, the block, and those after it."""
    path = path_to_block(program, name)
    assert path is not None
    blocks = blocks_of(scope_body(program, path), into_blocks=False)
    at = next(k for k, b in enumerate(blocks) if b.name == name)
    return blocks[:at], blocks[at], blocks[at + 1 :]


def _touched(block: Block) -> Iterator[str]:
    """The buffers that a block reads, then those that it writes."""
    return (r.buffer for r in (*block.reads, *block.writes))


def _written(block: Block) -> set[str]:
    return {r.buffer for r in block.writes}
