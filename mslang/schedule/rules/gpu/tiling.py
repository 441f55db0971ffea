"""Multi-level tiling for GPUs: blocks, virtual threads and threads share the tiles of a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mslang.ir import arith
from mslang.ir.arith.linear import symbolic
from mslang.ir.expr import ONE, Binary, Const, Expr
from mslang.ir.program import Block
from mslang.schedule.handles import Handle
from mslang.schedule.rules.gpu.fetch import cooperative_fetch, require_shared_memory, staged_bytes
from mslang.schedule.rules.gpu.machine import CP_ASYNC, capability, most_threads, registers, shared_memory, warp
from mslang.schedule.rules.gpu.steps import fused, handle_of
from mslang.schedule.rules.instruction import divides, looped_axes, put_in, split_off
from mslang.schedule.rules.multi_level import needs_tiling
from mslang.schedule.rules.nests import block_handle, block_of, do, draw
from mslang.schedule.rules.rule import legal
from mslang.schedule.session import Session

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

PLAIN = "plain"
WHOLE = "whole_window"
"""Where tiles of windows would need proofs that are not found: the operands of whole windows are staged."""
ASYNC = "async_"


class GpuTiling(msgspec.Struct, frozen=True):
    """Multi-level tiling of a block with reuse: each axis is split into a loop for each letter of its kind.

    The first groups of spatial loops are fused and bound to `binds`. Operands are staged in shared memory under the
    loop of level `read_level`, results in registers under that of `write_level`. Where the target copies
    asynchronously, there is an alternative for each number of `stages`, in which the copies of later tiles run ahead.
    Of several reduction axes those of at most `window` iterations are not tiled, as those of a convolution's window.
    Nor are axes that count groups: each block of threads works for one group. With `intrin`, the name of an intrinsic
    of the library, only blocks whose loops are whole tiles of it are tiled, and it computes their innermost tiles.

    Decisions: `gpu_tiling:block/axis` (tiles), `gpu_tiling:block/buffer` (elements that a thread fetches at once).

    Source: MetaSchedule, `MultiLevelTiling` and `MultiLevelTilingWithIntrin`.
    """

    name: str = "gpu_tiling"
    structure: str = "SSSRRSRS"
    binds: tuple[str, ...] = ("blockIdx.x", "vthread.x", "threadIdx.x")
    max_innermost: int = 64
    window: int = 8
    read_level: int = 4
    read_scope: str = "shared"
    write_level: int = 3
    write_scope: str = "local"
    stages: tuple[int, ...] = (3, 4)
    intrin: str = ""

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block reuses what it reads, no loop of it is bound yet, and the intrinsic serves it."""
        if not needs_tiling(it.session.program, block):
            return False
        return not self.intrin or divides(it.session, block, self.intrin)

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """Plain copies, and asynchronous ones by their number of stages where the target has them."""
        stages = self.stages if capability(it.machine) >= CP_ASYNC else ()
        found = legal(it, self, block, (PLAIN, *(f"{ASYNC}{n}" for n in stages)))
        return found or legal(it, self, block, (WHOLE,))

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Tile, bind, and stage results and operands."""
        session = it.session
        prefix = f"{self.name}:{block.name}"
        b = split_off(session, block, self.intrin) if self.intrin else block_handle(session, block.name)
        block = block_of(session, b)
        # Copies are made while every axis is one loop: then what they hold is the whole buffer, which needs no proof.
        (results,) = do(session, "cache_write", b, handle_of(session, block.writes[0].buffer), self.write_scope)
        staged = [
            (buffer, do(session, "cache_read", b, handle_of(session, buffer), self.read_scope, consumers=(b,))[0])
            for buffer in operands(block_of(session, b))
        ]
        levels = self._tiled(session, b, block_of(session, b), prefix, alternative == WHOLE)
        bound, threads = self._bound(session, levels)
        fetchers = [(axis, n) for axis, n in threads if axis.startswith("threadIdx")]
        total: Expr = ONE
        for _, n in fetchers:
            total = arith.mul(total, n)
        session.require(Binary("<=", total, Const(most_threads(it.machine))), "more threads than a block may have")
        session.require(Binary("<=", Const(warp(it.machine)), total), "fewer threads than a warp has")
        do(session, "reverse_compute_at", results, bound[self.write_level - 1])
        held = _held(session, results, bound[self.write_level - 1], bound[1:-1])
        session.require(
            Binary("<=", held, Const(registers(it.machine))), "the results of a thread do not fit registers"
        )
        place = (levels[self.read_level - 1] or bound)[-1]
        for _, copy in staged:
            do(session, "compute_at", copy, place)
        sizes = [staged_bytes(session, copy, place) for _, copy in staged]
        stages = int(alternative.removeprefix(ASYNC)) if alternative.startswith(ASYNC) else 1
        require_shared_memory(session, sizes, stages, shared_memory(it.machine))
        for buffer, copy in staged:
            cooperative_fetch(session, copy, place, fetchers, f"{prefix}/{buffer}")
        if self.intrin:
            put_in(session, b, self.intrin)
        if stages > 1:
            do(session, "pipeline", place, stages=stages, copy="cp_async")

    def _tiled(self, session: Session, b: Handle, block: Block, prefix: str, whole: bool) -> list[list[Handle]]:
        """The loops of each letter of the structure, in its order."""
        levels: list[list[Handle]] = [[] for _ in self.structure]
        kept, groups, looped = self._windows(block, whole), _groups(block), looped_axes(session, block)
        for axis in block.axes:
            if axis.name not in looped:  # The tile of an instruction covers it.
                continue
            letter = "S" if axis.kind == "spatial" else "R"
            places = [k for k, x in enumerate(self.structure) if x == letter]
            loop = session.axis(b, axis.name)
            size = axis.extent.value if isinstance(axis.extent, Const) else None
            if size == 1 or axis.name in groups:  # One iteration has no tiles to draw.
                levels[places[0]].append(loop)
                continue
            if axis.name in kept:
                levels[places[min(1, len(places) - 1)]].append(loop)
                continue
            tile = draw(session, "perfect_tile", loop, len(places), self.max_innermost, address=f"{prefix}/{axis.name}")
            parts = do(session, "split", loop, tile, names=[f"{axis.name}{k}" for k in range(len(places))])
            for place, part in zip(places, parts, strict=True):
                levels[place].append(part)
        do(session, "reorder", *(h for level in levels for h in level))
        return levels

    def _windows(self, block: Block, whole: bool) -> frozenset[str]:
        """The reduction axes that are not tiled: those of a window, all of them if `whole`; otherwise one is tiled if
        there are no others."""
        reduced = [a for a in block.axes if a.kind == "reduce" and a.extent != ONE]
        short = [a for a in reduced if isinstance(a.extent, Const) and a.extent.value <= self.window]
        return frozenset(a.name for a in (short if whole or len(short) < len(reduced) else short[1:]))

    def _bound(self, session: Session, levels: list[list[Handle]]) -> tuple[list[Handle], list[tuple[str, Expr]]]:
        """The fused loops bound to each axis of `binds`, and their extents."""
        bound, extents = [], []
        for axis, level in zip(self.binds, levels, strict=False):
            loop = fused(session, level)
            do(session, "bind", loop, axis)
            extent = session.get("extent", {"target": loop, "loop": loop})
            bound.append(loop)
            extents.append((axis, extent if isinstance(extent, Expr) else Const(int(str(extent)))))
        return bound, extents


def _groups(block: Block) -> frozenset[str]:
    """The axes of which each iteration writes a part of a dimension of its own, as the groups of a convolution.

    A tile of several groups and a part of what each writes would not be an interval of the dimension.
    """
    names = frozenset(a.name for a in block.axes)
    found: set[str] = set()
    for region in block.writes:
        for x in region.ranges:
            form = symbolic(x.start, names)
            if form is not None and len(form.terms) > 1:
                steps = {name: c.constant or 0 for name, c in form.terms.items()}
                found |= steps.keys() - {min(steps, key=lambda n: steps[n])}
    return frozenset(found)


def _held(session: Session, results: Handle, place: Handle, vthreads: Sequence[Handle]) -> Expr:
    """Registers for the results of a thread: those that it stores under `place`, for each of its virtual threads."""
    size = arith.floordiv(arith.add(staged_bytes(session, results, place), Const(3)), Const(4))
    for loop in vthreads:
        extent = session.get("extent", {"target": loop, "loop": loop})
        size = arith.mul(size, extent if isinstance(extent, Expr) else Const(int(str(extent))))
    return arith.simplify(size)


def operands(block: Block) -> tuple[str, ...]:
    """The buffers that a block reads and does not write, in the order of its reads."""
    written = {r.buffer for r in block.writes}
    return tuple(dict.fromkeys(r.buffer for r in block.reads if r.buffer not in written))
