"""The primitive that has the stores of a block bypass the caches: stream."""

from __future__ import annotations

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.annotations import STREAM
from mslang.ir.arith.domain import is_dynamic
from mslang.ir.expr import ONE, ZERO, Binary, Expr
from mslang.ir.program import Block, Buffer, Program
from mslang.ir.visit import free_vars
from mslang.transform.analysis.dependence import buffers_written, reads_from, storage_of
from mslang.transform.analysis.position import block_at, block_path, buffer_named
from mslang.transform.outcome import BlockRef, BufferRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.rewrite import put


@primitive(family="memory")
def stream(program: Program, block: BlockRef, buffer: BufferRef, *, on: Expr | None = None) -> Outcome:
    """Have what a block stores to a buffer go to memory past the caches.

    An ordinary store first reads the cache line that it writes to, and later writes it back. A result that does not fit
    the caches is written in less time without: a third of the traffic of a copy is saved. One that is read soon after,
    while the caches would still hold it, is slower to read.

    Results do not change. On a CPU it is done by non-temporal stores of whole vectors, so vectorize the loop over the
    last dimension; scalars, tails, f16, and vectors at addresses that are no multiple of 16 are stored as usual. On
    GPUs it has no effect. The block gets the annotation `stream.BUFFER`, so `on` may be drawn; 0 stores as usual. A
    second `stream` of the same buffer replaces the first.

    Before:
        for i in 0..64 { block b[x: 64 = i] { B[x] = A[x] } }

    After:
        # b.stream(B)
        for i in 0..64 {
            block b[x: 64 = i] {
                attr "stream.B" = i64(1)
                B[x] = A[x]
            }
        }

    Rejects:
        - `on` that depends on a loop or on a size known only at the call, or is not provably 0 or more
        - a buffer that the block does not write
        - a buffer that the block reads, as a reduction reads its result: each update would wait for memory
        - a buffer in registers (scope `local`)

    Source: Intel 64 and IA-32 Architectures Software Developer's Manual, MOVNTPS; LLVM nontemporal metadata; Halide
    Func::stream_stores
    """
    primitive = "stream"
    path = block_path(program, block, primitive)
    old, named = block_at(path), buffer_named(program, buffer, primitive)
    on = ONE if on is None else on
    if free_vars(on) or is_dynamic(on) or not arith.proved(Binary("<=", ZERO, on)):
        raise refuse(
            "MS303", primitive, "`on` is not a number that is provably 0 or more", help="0 says: store as usual"
        )
    _require_written_once(program, old, named, primitive)
    notes = dict(old.annotations) | {STREAM + named.name: on}
    return Outcome(put(program, path, replace(old, annotations=tuple(notes.items()))))


def _require_written_once(program: Program, block: Block, buffer: Buffer, primitive: str) -> None:
    written = buffers_written(block)
    if buffer.name not in written:
        raise refuse(
            "MS336",
            primitive,
            f"block `{block.name}` does not write `{buffer.name}`",
            help=f"it writes {', '.join(f'`{b}`' for b in written) or 'nothing'}",
        )
    if buffer.scope == "local":
        raise refuse(
            "MS336",
            primitive,
            f"`{buffer.name}` is in registers",
            why="only stores to memory can bypass the caches",
            help="name the block that writes the result to memory",
        )
    if reads_from(program, block, storage_of(program, buffer.name)):
        raise refuse(
            "MS336",
            primitive,
            f"block `{block.name}` reads `{buffer.name}`, too",
            why="past the caches each update of an element waits for memory",
            help="`cache_write` the result, and name the block that copies it to memory",
        )


__all__ = ["stream"]
