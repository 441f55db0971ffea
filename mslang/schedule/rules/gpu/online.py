"""Attention on GPUs in one kernel: keys in tiles, with a running maximum (online softmax, FlashAttention).

A block of threads computes some queries of a head, a row of a warp's threads for each. They share the scores of a tile
of keys, then the features of the result; keys, values and weights of a tile are in shared memory, all else in
registers. No memory grows with the number of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import msgspec

from mslang.ir.expr import Const
from mslang.ir.find import all_buffers
from mslang.ir.program import Block, Program
from mslang.ir.reduction import is_maximum
from mslang.schedule.handles import Handle
from mslang.schedule.rules.gpu.nests import Step, axes_in, inputs, tiled_axes, written_axes
from mslang.schedule.rules.gpu.steps import BYTES, WARP, fused, handle_of, unsuitable
from mslang.schedule.rules.nests import block_handle, block_of, do, handle, leaf_blocks, loops_around
from mslang.schedule.session import Session
from mslang.transform.getters import is_output
from mslang.transform.outcome import BlockRef

ROWS = 8
"""Queries of a block of threads, a warp each."""
KEYS = (64, 32)
"""Keys of a tile: the first that shared memory has room for."""
SCORES = 4 << 20
"""From so many scores on they are not written to memory: with the weights 32 MiB, about one L2 cache."""


class Chain(msgspec.Struct, frozen=True):
    """Stages of attention: those before the maximum, a product first; the maximum; the exponentials; the sums; those
    after."""

    before: tuple[str, ...]
    maximum: str
    exponentials: tuple[str, ...]
    sums: tuple[str, ...]
    after: tuple[str, ...]


def chain_of(program: Program, names: Sequence[str]) -> Chain | None:
    """The stages of attention that some nests end with; None if they do not, or scores are few.

    The maximum is one for each row, along one axis.
    """
    named = {b.name: b for b in leaf_blocks(program)}
    at = next((k for k in reversed(range(len(names))) if is_maximum(named[names[k]])), None)
    if at is None:
        return None
    first = next((k for k in reversed(range(at)) if tiled_axes(program, named[names[k]]) is not None), None)
    sums = [n for n in names[at + 1 :] if named[n].init is not None]
    if first is None or not any(tiled_axes(program, named[n]) is not None for n in sums):
        return None
    axes = named[names[at]].axes
    sizes = [int(a.extent.value) for a in axes if isinstance(a.extent, Const)]
    if len(sizes) != len(axes) or prod(sizes) < SCORES:
        return None
    if all(a.kind == "reduce" for a in axes) or sum(a.kind == "reduce" for a in axes) != 1:
        return None
    last = max(names.index(n) for n in sums)
    exponentials = tuple(n for n in names[at + 1 : last] if n not in sums)
    return Chain(tuple(names[first:at]), names[at], exponentials, tuple(sums), tuple(names[last + 1 :]))


def online(chain: Chain, keys: int) -> Step:
    """The stages of a chain as one kernel, `keys` at a time."""

    def step(session: Session) -> None:
        maximum = block_handle(session, chain.maximum)
        block = block_of(session, maximum)
        *batch, row = (a.name for a in block.axes if a.kind == "spatial")
        (reduced,) = (a.name for a in block.axes if a.kind == "reduce")
        outer = [session.axis(maximum, a) for a in batch]
        blocks, rows = do(session, "split", session.axis(maximum, row), (None, ROWS))
        tiles, within = do(session, "split", session.axis(maximum, reduced), (None, keys))
        do(session, "reorder", *outer, blocks, rows, tiles, within)
        known = {b.name for b in leaf_blocks(session.program)}
        sums = tuple(block_handle(session, n) for n in chain.sums)
        partial = do(session, "rolling_update", maximum, tiles, sums)
        parts = dict(zip((chain.maximum, *chain.sums), (session.handles.resolve(h).name for h in partial), strict=True))
        begun = [b.name for b in leaf_blocks(session.program) if b.name not in {*known, *parts.values()}]
        for n in reversed(chain.before):
            do(session, "compute_at", block_handle(session, n), tiles)
        for n in chain.after:
            do(session, "reverse_compute_at", block_handle(session, n), rows)
        if outer:
            do(session, "bind", fused(session, outer), "blockIdx.y")
        do(session, "bind", blocks, "blockIdx.x")
        do(session, "bind", rows, "threadIdx.y")
        for n in (*begun, *chain.before, *parts.values(), chain.maximum, *chain.exponentials, *chain.sums):
            _keep(session, n, "shared" if n in chain.exponentials else "local")
        stages = {n: _block(session, parts.get(n, n)) for n in (*chain.before, *chain.sums)}
        products = [n for n, b in stages.items() if tiled_axes(session.program, b) is not None]
        for n in (*chain.before, *chain.exponentials, *(parts[x] for x in parts if x not in products)):
            _share(session, n, along_keys=True)
        for n in (*begun, *(parts[x] for x in parts if x in products), *products, *chain.after):
            if n not in chain.before:
                _share(session, n, along_keys=False)
        for n in products:
            _stage(session, parts.get(n, n), tiles)

    return step


def _block(session: Session, name: str) -> Block:
    return block_of(session, block_handle(session, name))


def _keep(session: Session, name: str, scope: str) -> None:
    """Put what a block writes in memory of a thread or of a block of threads."""
    if is_output(session.program, BlockRef(name)):
        return
    for region in _block(session, name).writes:
        if all_buffers(session.program)[region.buffer].scope == "global":
            do(session, "set_scope", block_handle(session, name), handle_of(session, region.buffer), scope)


def _share(session: Session, name: str, along_keys: bool) -> None:
    """Bind the loop of a block's columns, or of the keys that it reduces, to the threads of a row."""
    b, block = block_handle(session, name), _block(session, name)
    if loops_around(session.program, block)[-1].kind != "serial":
        return  # One value for each row.
    reduced = [a.name for a in block.axes if a.kind == "reduce"]
    columns = [a.name for a in block.axes if a.name in written_axes(block)[-1]]
    wanted = reduced if along_keys and reduced and tiled_axes(session.program, block) is None else columns
    if not wanted:
        raise unsuitable("it has no columns")
    loop = session.axis(b, wanted[-1])
    if along_keys:
        _, thread = do(session, "split", loop, (None, WARP))
        do(session, "bind", thread, "threadIdx.x")
        return
    thread, own = do(session, "split", loop, (WARP, None))
    if reduced:
        do(session, "reorder", thread, session.axis(b, reduced[0]), own)
    do(session, "bind", thread, "threadIdx.x")


def _stage(session: Session, name: str, place: Handle) -> None:
    """Copy the operand of a product that all rows share to shared memory, a tile at a time, by all threads."""
    b, block = block_handle(session, name), _block(session, name)
    axes = tiled_axes(session.program, block)
    assert axes is not None
    shared = [x for x in inputs(block) if axes[0] not in axes_in(block, x.indices)]
    for x in shared:
        (copy,) = do(session, "cache_read", b, handle_of(session, x.buffer), "shared")
        do(session, "compute_at", copy, place)
        around = loops_around(session.program, block_of(session, copy))
        own = around[[s.var for s in around].index(session.handles.resolve(place).name) + 1 :]
        lanes = 16 // BYTES.get(all_buffers(session.program)[x.buffer].dtype, 4)
        last = own[-1].extent
        vector = lanes if isinstance(last, Const) and last.value % lanes == 0 else 1
        flat = fused(session, [handle(session, s.var) for s in own])
        _, down, across, lane = do(session, "split", flat, (None, ROWS, WARP, vector))
        do(session, "bind", down, "threadIdx.y")
        do(session, "bind", across, "threadIdx.x")
        do(session, "vectorize", lane)
        if axes[1] not in axes_in(block, x.indices[-1:]):
            do(session, "storage_align", copy, axis=-2, factor=WARP, offset=1)
