"""Primitives that say how far apart the rows of a buffer lie: storage_align, and what it leaves for lowering."""

from __future__ import annotations

from mslang.ir.find import blocks_of
from mslang.ir.intrin import intrin_of
from mslang.ir.program import AttrValue, Block, Program
from mslang.transform.analysis.alignment import ALIGNMENT, alignment_entries, with_alignments
from mslang.transform.analysis.dependence import storage_of
from mslang.transform.analysis.position import block_at, block_path, buffer_named
from mslang.transform.outcome import BlockRef, BufferRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.rewrite import put


@primitive(family="memory")
def storage_align(
    program: Program,
    block: BlockRef,
    axis: int,
    factor: int,
    offset: int = 0,
    *,
    buffer: BufferRef | None = None,
) -> Outcome:
    """Let the stride of a dimension of the buffer that a block writes be `offset` modulo `factor`, in elements.

    So rows of a tile in shared memory come to lie in different banks. It is kept as an annotation of the block and
    counts for the memory that lowering makes for the buffer: what is accessed of it, not its whole shape. `axis` may be
    counted from the end (`-2` is the last but one). Asked again for the same dimension, the new values count.

    `buffer` says which, if the block writes several.

    Before:
        alloc T: f32[64, 64]
        block a[i: 64, j: 64] { T[i, j] = A[i, j] }
        block b[i: 64, j: 64] { B[i, j] = T[i, j] }

    After:
        # a.storage_align(axis = -2, factor = 32, offset = 8)
        alloc T: f32[64, 64]
        block a[i: 64, j: 64] {
            attr "buffer_dim_align" = [[0, 0, 32, 8]]
            T[i, j] = A[i, j]
        }
        block b[i: 64, j: 64] { B[i, j] = T[i, j] }

    Rejects:
        - a factor below 1
        - an axis that the buffer has not
        - a block that does not write the buffer, or writes several and none is named
        - a buffer that the program does not allocate (a parameter, a view), or whose strides are given, by a view too
        - the last axis of an operand of an instruction, which takes rows whose elements lie side by side
        - an annotation `buffer_dim_align` of the block that says something else

    Source: TVM storage_align
    """
    primitive = "storage_align"
    path = block_path(program, block, primitive)
    found = block_at(path)
    number = _number(found, buffer)
    name = found.writes[number].buffer
    if factor < 1:
        raise refuse("MS394", primitive, f"the factor {factor} is below 1", why="strides must be multiples of it")
    own = {b.name: b for b in (*program.allocs, *(b for s in blocks_of(program.body) for b in s.allocs))}
    if name not in own:
        raise refuse(
            "MS394",
            primitive,
            f"the program does not allocate `{name}`",
            why="its memory is laid out elsewhere",
            help="make a copy of it: `cache_read` or `cache_write`",
        )
    if own[name].strides is not None:
        raise refuse("MS394", primitive, f"the strides of `{name}` are given", why="they say where its rows lie")
    viewed = next(
        (v for s in blocks_of(program.body) for v in s.views if storage_of(program, v.source.buffer) == name), None
    )
    if viewed is not None and viewed.buffer.strides is not None:
        raise refuse(
            "MS394",
            primitive,
            f"`{viewed.buffer.name}` is a view of `{name}` with strides of its own",
            why="they say where the rows lie",
        )
    rank = len(buffer_named(program, BufferRef(name), primitive).shape)
    if not -rank <= axis < rank:
        raise refuse("MS394", primitive, f"`{name}` has no dimension {axis}", help=f"it has {rank}, from 0")
    operand = next((s for s in blocks_of(program.body) if intrin_of(s) and _views(program, s, name)), None)
    if operand is not None and axis % rank == rank - 1:
        raise refuse(
            "MS394",
            primitive,
            f"`{name}` is an operand of an instruction (block `{operand.name}`)",
            why="the instruction takes rows whose elements lie side by side",
        )
    entry: AttrValue = (number, axis % rank, factor, offset % factor)
    there = alignment_entries(found)
    if there is None:
        raise refuse(
            "MS394",
            primitive,
            f"block `{found.name}` has another annotation `{ALIGNMENT}`",
            help=f'`unannotate("{ALIGNMENT}")` first',
        )
    kept = tuple(e for e in there if e[:2] != (number, axis % rank))
    return Outcome(put(program, path, with_alignments(found, (*kept, entry))))


def _views(program: Program, block: Block, name: str) -> bool:
    return any(storage_of(program, v.source.buffer) == name for v in block.views)


def _number(block: Block, buffer: BufferRef | None) -> int:
    names = [r.buffer for r in block.writes]
    if buffer is None and len(set(names)) == 1:
        return 0
    if buffer is not None and buffer.name in names:
        return names.index(buffer.name)
    listed = ", ".join(f"`{n}`" for n in dict.fromkeys(names)) or "nothing"
    said = (
        "writes several buffers"
        if buffer is None and names
        else f"does not write `{buffer.name}`"
        if buffer
        else "writes nothing"
    )
    raise refuse(
        "MS394", "storage_align", f"block `{block.name}` {said}", help=f"it writes {listed}; name one by `buffer`"
    )


# ------------------------------------------------------------------ what is noted on blocks
