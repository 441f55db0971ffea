"""Results that the caches do not hold may be stored past them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from mslang.ir.expr import Expr
from mslang.ir.find import blocks_of
from mslang.ir.intrin import intrin_of
from mslang.ir.program import Block, Program
from mslang.schedule.rules.cpu.large import bytes_of, outgrows_caches
from mslang.schedule.rules.nests import block_handle, do, draw, loops_around
from mslang.schedule.session import Session
from mslang.target.description import Target
from mslang.transform.analysis.dependence import buffers_written, reads_from, storage_of
from mslang.transform.outcome import BufferRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter


class StreamedResults(msgspec.Struct, frozen=True):
    """Draws whether the last stores to large results bypass the caches (`stream`).

    A result counts that no block reads, so that each element is stored once, in vectors. Whether it pays depends on
    what is in the caches at the call, and how fast they are, so it is measured: `stream:BLOCK/streamed`.
    """

    least_bytes: int | None = None
    """So large must a result be (None: half of the L2 cache, which does not hold all arrays)."""
    name: str = "stream"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block stores a large result in vectors."""
        return bool(self._results(it, block))

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """One: what is open is a number."""
        return ("applied",)

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Draw once for all results of the block."""
        results = self._results(it, block)
        on = draw(it.session, "choose", (0, 1), address=f"{self.name}:{block.name}/streamed")
        assert isinstance(on, Expr)
        bypass(it.session, block, results, on)

    def _results(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        return large_results(it.session.program, block, it.machine, self.least_bytes)


def large_results(program: Program, block: Block, machine: Target, least_bytes: int | None = None) -> tuple[str, ...]:
    """The results that a block stores in vectors, that no block reads, and that have so many bytes (None: that outgrow
    the caches)."""
    if blocks_of(block.body) or intrin_of(block) is not None:
        return ()
    if all(s.kind != "vectorized" for s in loops_around(program, block)):
        return ()
    outputs = (p.buffer for p in program.params if p.direction == "out" and p.buffer.dtype != "f16")
    large = {
        b.name
        for b in outputs
        if (outgrows_caches(b, program, machine) if least_bytes is None else bytes_of(b) >= least_bytes)
    }
    return tuple(b for b in buffers_written(block) if b in large and _only_written(program, b))


def bypass(session: Session, block: Block, results: Iterable[str], on: Expr | int | None = None) -> None:
    """Have what a block stores to some results bypass the caches: always, or where `on` says so."""
    for b in results:
        do(session, "stream", block_handle(session, block.name), session.handles.handle(BufferRef(b)), on=on)


def _only_written(program: Program, buffer: str) -> bool:
    storage = storage_of(program, buffer)
    return not any(reads_from(program, b, storage) for b in blocks_of(program.body))
