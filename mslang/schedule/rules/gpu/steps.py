"""How the threads of a GPU share nests of each kind. A step raises where a primitive refuses it."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.expr import ONE, Const
from mslang.ir.find import all_buffers
from mslang.ir.program import Block
from mslang.schedule.handles import Handle
from mslang.schedule.rules.gpu.nests import Step, axes_in, extent, inputs, last_axes, loop_names, written_axes
from mslang.schedule.rules.nests import block_handle, block_of, do, handle, loops_around, own_loop
from mslang.schedule.session import Session
from mslang.transform.getters import consumers, is_injective, is_output
from mslang.transform.outcome import BlockRef, BufferRef

THREADS = 256
"""Threads of a block: 8 warps, of which a multiprocessor holds 8 blocks."""
WARP = 32
PARTS = 256
"""Partial results of a whole array: about two blocks of threads for each multiprocessor."""
SHARED = 32 * 1024
"""Bytes of shared memory that rows of intermediate results may take: one more block fits with it in 64 KiB."""
BYTES = {"bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i64": 8, "u64": 8, "f64": 8}
"""Bytes of an element; 4 of any other."""


class Unsuitable(ScheduleError):
    """A step is not meant for a nest."""


def unsuitable(why: str) -> Unsuitable:
    """The error of a step that is not for this nest."""
    return Unsuitable(problem("MS203", "the default schedule does not fit", why=why))


def fused(session: Session, loops: Sequence[Handle]) -> Handle:
    """Loops as one."""
    return loops[0] if len(loops) == 1 else do(session, "fuse", *loops)[0]


def threads_for(iterations: int | None, most: int = THREADS) -> int:
    """A power of two of threads, whole warps, no more than there is work for."""
    if iterations is None:
        return most
    return min(most, max(WARP, 1 << (iterations - 1).bit_length()))


def _front(session: Session, block: Block) -> tuple[list[Handle], list[Handle]]:
    """The spatial and the reduction loops of a block, the spatial ones outermost."""
    program = session.program
    spatial, reduce = (loop_names(program, block, k) for k in ("spatial", "reduce"))
    now = [s.var for s in loops_around(program, block)]
    loops = {v: handle(session, v) for v in now}
    if now[: len(spatial)] != spatial:
        do(session, "reorder", *(loops[v] for v in (*spatial, *(v for v in now if v not in spatial))))
    return [loops[v] for v in spatial], [loops[v] for v in reduce]


def spread(name: str, *, registers: bool, vector: bool) -> Step:
    """Every element of the result by a thread of its own; a reduction runs in its thread.

    Args:
        name: the block.
        registers: whether what a thread sums stands in a register.
        vector: whether a thread computes as many neighbours as 16 bytes hold.
    """

    def step(session: Session) -> None:
        b = block_handle(session, name)
        block = block_of(session, b)
        total = extent(session.program, block, loop_names(session.program, block, "spatial"))
        spatial, reduce = _front(session, block)
        if not spatial:
            raise unsuitable("no spatial loops")
        if registers and (not reduce or block.init is None or len(block.writes) != 1):
            raise unsuitable("it is not a reduction in one buffer")
        into = block.writes[0].buffer if block.writes else None
        lanes = 1 if into is None else 16 // BYTES.get(all_buffers(session.program)[into].dtype, 4)
        suits = is_injective(session.program, BlockRef(name)) and _vectors(session, block, spatial, lanes)
        if vector and not suits:
            raise unsuitable("neighbours are not aligned")
        if vector and total is not None and total < lanes * THREADS:
            raise unsuitable("there is not enough work for the threads")
        sums: tuple[Handle, ...] = ()
        if registers and into is not None:
            sums = do(session, "cache_write", b, handle_of(session, into), scope="local")
        loop = fused(session, spatial)
        sizes = (None, threads_for(total), *((lanes,) if vector else ()))
        outer, thread, *lane = do(session, "split", loop, sizes)
        do(session, "bind", outer, "blockIdx.x")
        do(session, "bind", thread, "threadIdx.x")
        for x in lane:
            do(session, "vectorize", x)
        for copy in sums:
            do(session, "reverse_compute_at", copy, thread)
            do(session, "decompose_reduction", b, reduce[0])

    return step


def spread_apart(name: str) -> Step:
    """Every element of the result by a thread, as `spread`, with loops that stay apart: indices are simpler."""

    def step(session: Session) -> None:
        block = block_of(session, block_handle(session, name))
        spatial, _ = _front(session, block)
        if not spatial:
            raise unsuitable("no spatial loops")
        last = session.handles.resolve(spatial[-1]).name
        outer, thread = do(session, "split", spatial[-1], (None, threads_for(extent(session.program, block, [last]))))
        do(session, "bind", thread, "threadIdx.x")
        do(session, "bind", outer, "blockIdx.x" if len(spatial) == 1 else "blockIdx.y")
        if len(spatial) > 1:
            do(session, "bind", spatial[-2], "blockIdx.x")
        if len(spatial) > 2:
            do(session, "bind", fused(session, spatial[:-2]), "blockIdx.z")

    return step


def handle_of(session: Session, buffer: str) -> Handle:
    """The handle of a buffer."""
    return session.handles.handle(BufferRef(buffer))


def _vectors(session: Session, block: Block, spatial: Sequence[Handle], lanes: int) -> bool:
    """Whether the last loop has a multiple of `lanes` iterations, along which accesses are contiguous or the same."""
    last = session.handles.resolve(spatial[-1]).name
    loop = next(s for s in loops_around(session.program, block) if s.var == last)
    out = written_axes(block)
    if not out or not isinstance(loop.extent, Const) or loop.extent.value % lanes or len(block.writes) != 1:
        return False
    along = {a.name for a in block.axes if own_loop(session.program, block, a.name) == loop}
    apart = [x for x in inputs(block) if axes_in(block, x.indices[:-1]) & along]
    return bool(along) and out[-1] == along and not apart


def rows(names: Sequence[str]) -> Step:
    """A block of threads for each row: it computes the blocks of `names`, the last of which is the consumer, in turn.

    Reductions run across the threads; what only they use stays in shared memory.
    """

    def step(session: Session) -> None:
        program = session.program
        handles = [block_handle(session, n) for n in names]
        blocks = [block_of(session, b) for b in handles]
        reductions = [b for b in blocks if b.init is not None]
        if not reductions:
            raise unsuitable("there is no reduction")
        if not all(_along_rows(session, b) for b in reductions):
            raise unsuitable("sums are short, or along columns")
        shared = min(len(loop_names(program, b, "spatial")) for b in reductions)
        spatial, _ = _front(session, blocks[-1])
        outer = spatial[:shared]
        if outer:
            row = fused(session, outer)
            for b in reversed(handles[:-1]):
                do(session, "compute_at", b, row)
            do(session, "bind", row, "blockIdx.x")
        elif len(names) > 1:
            raise unsuitable("there are no rows")
        else:  # One block of threads: without a loop of blocks, each statement would be a launch of its own.
            first = loops_around(session.program, blocks[-1])[0]
            (one,) = do(session, "add_unit_loop", handle(session, first.var))
            do(session, "bind", one, "blockIdx.x")
        for b in handles[:-1]:
            _keep(session, block_of(session, b), {*names}, shared)
        inner = []
        for b in handles:
            block = block_of(session, b)
            around = loops_around(session.program, block)[1:]
            if block.init is not None and any(
                v.extent != ONE and v.var in loop_names(session.program, block, "spatial") for v in around
            ):
                raise unsuitable("a reduction has several results in a row")
            inner.append((b, [s.var for s in around]))
        sizes = [extent(session.program, block_of(session, b), loops) for b, loops in inner if loops]
        most = 1024 if not outer else THREADS
        threads = threads_for(None if None in sizes else max((x for x in sizes if x is not None), default=1), most)
        for _, loops in inner:
            if loops:
                flat = fused(session, [handle(session, v) for v in loops])
                _, thread = do(session, "split", flat, (None, threads))
                do(session, "bind", thread, "threadIdx.x")

    return step


def _along_rows(session: Session, block: Block) -> bool:
    """Whether a reduction has work for a warp, and reads neighbours one after the other."""
    program = session.program
    several = extent(program, block, loop_names(program, block, "reduce"))
    kinds = {a.name: a.kind for a in block.axes}
    along = any("reduce" in {kinds[a] for a in last_axes(block, x)} for x in inputs(block))
    return along and (several is None or several >= WARP)


def _keep(session: Session, block: Block, names: set[str], shared: int) -> None:
    """Put what a block leaves for later ones of its row in shared memory, if it is small and they alone read it."""
    ref = BlockRef(block.name)
    if is_output(session.program, ref) or {x.name for x in consumers(session.program, ref)} - names:
        return
    for k, region in enumerate(block.writes):
        buffer = all_buffers(session.program)[region.buffer]
        rest = buffer.shape[shared:]
        size = BYTES.get(buffer.dtype, 4)
        for e in rest:
            if not isinstance(e, Const):
                return
            size *= int(e.value)
        if size <= SHARED and k < len(block.writes):
            do(session, "set_scope", block_handle(session, block.name), handle_of(session, buffer.name), "shared")


def partial_sums(name: str) -> Step:
    """A reduction of a whole array in two: about `PARTS` equal parts, a block of threads each, then their results."""

    def step(session: Session) -> None:
        block = block_of(session, block_handle(session, name))
        spatial, reduce = _front(session, block)
        several = extent(session.program, block, loop_names(session.program, block, "reduce"))
        parts = next((k for k in range(2 * PARTS, PARTS // 4, -1) if several is not None and several % k == 0), None)
        if spatial or not reduce or several is None or several < PARTS * THREADS or parts is None:
            raise unsuitable("one block of threads is enough, or parts would not be equal")
        outer, _ = do(session, "split", fused(session, reduce), (parts, None))
        do(session, "rfactor", outer, axis=0)

    return step


def columns(name: str) -> Step:
    """A sum along columns: a warp goes along the rows, the warps of a block share the sum."""

    def step(session: Session) -> None:
        block = block_of(session, block_handle(session, name))
        spatial, reduce = _front(session, block)
        program = session.program
        several = extent(program, block, loop_names(program, block, "reduce"))
        kinds = {a.name: a.kind for a in block.axes}
        along = [x for x in inputs(block) if {kinds[a] for a in last_axes(block, x)} == {"spatial"}]
        if block.init is None or not spatial or not reduce or not along or (several is not None and several < WARP):
            raise unsuitable("it does not sum along columns")
        outer, lane = do(session, "split", fused(session, spatial), (None, WARP))
        _, warp = do(session, "split", fused(session, reduce), (None, THREADS // WARP))
        do(session, "bind", outer, "blockIdx.x")
        do(session, "bind", lane, "threadIdx.x")
        do(session, "bind", warp, "threadIdx.y")

    return step


def turned(name: str, side: int = 32, down: int = 8) -> Step:
    """A transposition: tiles go through shared memory, so that reads and writes both go along rows."""

    def step(session: Session) -> None:
        b = block_handle(session, name)
        block = block_of(session, b)
        read, out = inputs(block), written_axes(block)
        if block.init is not None or len(read) != 1 or not out or len(out[-1]) != 1:
            raise unsuitable("it is not a transposition")
        across, along = last_axes(block, read[0]), out[-1]
        if len(across) != 1 or across == along or any(len(x) > 1 for x in out):
            raise unsuitable("it is not a transposition")
        loops = {s.var: s for s in loops_around(session.program, block)}
        x, y = (own_loop(session.program, block, next(iter(a))) for a in (along, across))
        if x is None or y is None:
            raise unsuitable("its loops are not of known length")
        rest = [handle(session, v) for v in loops if v not in (x.var, y.var)]
        y0, y1 = do(session, "split", handle(session, y.var), (None, side))
        x0, x1 = do(session, "split", handle(session, x.var), (None, side))
        do(session, "reorder", *rest, y0, x0, y1, x1)
        (tile,) = do(session, "cache_read", b, handle_of(session, read[0].buffer), scope="shared")
        do(session, "compute_at", tile, x0)
        copied = [s.var for s in loops_around(session.program, block_of(session, tile))][len(rest) + 2 :]
        dims = len(read[0].indices)
        do(session, "storage_align", tile, axis=dims - 2, factor=side, offset=1)
        do(session, "bind", fused(session, [*rest, y0, x0]), "blockIdx.x")
        _, y2 = do(session, "split", y1, (None, down))
        do(session, "bind", y2, "threadIdx.y")
        do(session, "bind", x1, "threadIdx.x")
        _, u, v = do(session, "split", fused(session, [handle(session, c) for c in copied]), (None, down, side))
        do(session, "bind", u, "threadIdx.y")
        do(session, "bind", v, "threadIdx.x")

    return step


def tile(name: str, axes: tuple[str, str, str], across: int, results: int, depth: int) -> Step:
    """A product of matrices: a square tile of the result for each block, `results` x `results` of it a thread's.

    Tiles of the operands go through shared memory.

    Args:
        name: the block.
        axes: the axes of a row, a column and the sum.
        across: threads of a block along each side.
        results: results of a thread along each side.
        depth: how much of the sum is fetched at a time.
    """

    def step(session: Session) -> None:
        b = block_handle(session, name)
        block = block_of(session, b)
        loops = [own_loop(session.program, block, a) for a in axes]
        sizes = [int(s.extent.value) for s in loops if s is not None and isinstance(s.extent, Const)]
        if len(sizes) != 3 or min(sizes[:2]) < across * results // 2 or sizes[2] < depth:
            raise unsuitable("it is too small for the tile")
        i, j, k = (handle(session, s.var) for s in loops if s is not None)
        mine = {s.var for s in loops if s is not None}
        batch = [handle(session, v) for v in loop_names(session.program, block, "spatial") if v not in mine]
        outer = [handle(session, v) for v in loop_names(session.program, block, "reduce") if v not in mine]
        i0, i1, i2 = do(session, "split", i, (None, across, results))
        j0, j1, j2 = do(session, "split", j, (None, across, results))
        k0, k1 = do(session, "split", k, (None, depth))
        do(session, "reorder", *batch, i0, j0, i1, j1, *outer, k0, k1, i2, j2)
        (sums,) = do(session, "cache_write", b, handle_of(session, block.writes[0].buffer), scope="local")
        do(session, "reverse_compute_at", sums, j1)
        do(session, "bind", i0, "blockIdx.y")
        do(session, "bind", j0, "blockIdx.x")
        do(session, "bind", i1, "threadIdx.y")
        do(session, "bind", j1, "threadIdx.x")
        if batch:
            do(session, "bind", fused(session, batch), "blockIdx.z")
        for x in inputs(block):
            (copy,) = do(session, "cache_read", b, handle_of(session, x.buffer), scope="shared")
            do(session, "compute_at", copy, k0)
            around = [s.var for s in loops_around(session.program, block_of(session, copy))]
            below = around[around.index(session.handles.resolve(k0).name) + 1 :]
            flat = fused(session, [handle(session, v) for v in below])
            _, u, v = do(session, "split", flat, (None, across, across))
            do(session, "bind", u, "threadIdx.y")
            do(session, "bind", v, "threadIdx.x")
        do(session, "decompose_reduction", b, outer[0] if outer else k0)
        do(session, "unroll", i2)
        do(session, "unroll", j2)

    return step
