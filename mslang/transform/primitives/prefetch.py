"""The primitive that makes a loop fetch memory ahead of its use: prefetch."""

from __future__ import annotations

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.annotations import PREFETCH
from mslang.ir.expr import ZERO, Binary, Expr
from mslang.ir.find import blocks_of
from mslang.ir.program import For, Program
from mslang.ir.visit import free_vars
from mslang.transform.analysis.dependence import buffers_read
from mslang.transform.analysis.position import buffer_named, loop_at, loop_path
from mslang.transform.outcome import BufferRef, LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.rewrite import put


@primitive(family="memory")
def prefetch(program: Program, loop: LoopRef, buffer: BufferRef, ahead: Expr) -> Outcome:
    """Have each iteration of a loop fetch what the iteration `ahead` later reads of a buffer.

    The cache lines are requested by prefetch instructions, which do not change results; addresses outside of the buffer
    are harmless. It pays where the processor does not predict the addresses, or too late: panels of a product that are
    read from the L2 cache, or a table that is read at loaded indices (`t[idx[i]]`). Such an index is loaded for the
    prefetch, of the last iteration at most. Lines whose addresses depend on an inner loop are left out, unless that
    loop is unrolled or vectorized. Of what an instruction reads, each row is fetched.

    The loop gets the annotation `prefetch.BUFFER`, so `ahead` may be drawn; 0 fetches nothing. On GPUs it has no
    effect. A second `prefetch` of the same buffer replaces the distance.

    Before:
        for i in 0..64 { block b[x: 64 = i] { B[x] = A[x] } }

    After:
        # i.prefetch(A, ahead = 8)
        for i in 0..64 @ serial("prefetch.A" = i64(8)) { block b[x: 64 = i] { B[x] = A[x] } }

    Rejects:
        - a distance that depends on a loop, or is not provably 0 or more
        - a loop in which the buffer is not read
        - a loop whose iterations do not follow one another: parallel, vectorized, or bound to threads
        - a buffer in registers (scope `local`)

    Source: Halide prefetch, TVM Stage.prefetch
    """
    primitive = "prefetch"
    path = loop_path(program, loop, primitive)
    old, named = loop_at(path), buffer_named(program, buffer, primitive)
    if free_vars(ahead) or not arith.proved(Binary("<=", ZERO, ahead)):
        raise refuse("MS303", primitive, "`ahead` is not provably 0 or more", help="0 says: fetch nothing ahead")
    _require_use(old, named.name, primitive)
    if named.scope == "local":
        raise refuse(
            "MS335",
            primitive,
            f"`{named.name}` is in registers",
            why="only memory is fetched",
            help="name what it is read from",
        )
    if old.kind not in ("serial", "unrolled"):
        raise refuse(
            "MS335",
            primitive,
            f"the iterations of `{old.var}` do not follow one another",
            why=f"the loop is {old.kind}: no iteration comes before the one that it would fetch for",
            help="name a serial or unrolled loop inside",
        )
    notes = dict(old.annotations) | {PREFETCH + named.name: ahead}
    return Outcome(put(program, path, replace(old, annotations=tuple(notes.items()))))


def _require_use(loop: For, buffer: str, primitive: str) -> None:
    read = dict.fromkeys(b for block in blocks_of((loop,)) for b in buffers_read(block))
    if buffer not in read:
        raise refuse(
            "MS335",
            primitive,
            f"nothing of `{buffer}` is read in the loop `{loop.var}`",
            help=f"it reads {', '.join(f'`{b}`' for b in read) or 'nothing'}",
        )


__all__ = ["prefetch"]
