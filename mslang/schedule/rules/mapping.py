"""`std.tensor.tensorize_mapping`: transforms a block's loops into those of an intrinsic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mslang.diagnostics import ScheduleError, problem
from mslang.ir import arith
from mslang.ir.expr import Const, Expr, Var
from mslang.ir.index_map import IndexMap
from mslang.ir.intrin import Intrin
from mslang.ir.program import Block
from mslang.schedule.arguments import resolved
from mslang.schedule.handles import Handle
from mslang.schedule.session import Session
from mslang.transform.analysis.position import block_at, block_path
from mslang.transform.outcome import BlockRef, BufferRef
from mslang.transform.registry import OPERATIONS
from mslang.transform.tensorize_mapping import classes, padding_for
from mslang.transform.tensorize_mapping import tensorize_mapping as search

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter


def tensorize_mapping(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """Split off the loops of a block that match an intrinsic's, and move them innermost; pad where needed.

    Where no single axis of the block corresponds to a loop of the intrinsic, as in a convolution with the channels
    first, operands are copied so that axes that occur in the same operands can be fused, and the axes are fused
    (im2col).

    Returns the outermost loop of the tile, to tensorize. The trace holds the primitives applied.
    """
    given = dict(zip(("block", "intrin"), args, strict=False)) | dict(kwargs)
    if set(given) != {"block", "intrin"} or len(args) > 2:
        raise ScheduleError(problem("MS205", "`tensorize_mapping` takes a block and an intrinsic"))
    return map_loops(it.session, given["block"], given["intrin"])


def map_loops(session: Session, block: object, intrin: object, *, laid_out: bool | None = None) -> Handle:
    """The implementation of `std.tensor.tensorize_mapping` in a running schedule.

    Args:
        session: the running schedule.
        block: the block.
        intrin: the intrinsic, or its name.
        laid_out: whether operands are copied so that their axes can be fused (im2col); None: where it is necessary.

    Raises:
        ScheduleError: MS203, the arguments are not a block and an intrinsic; MS382, no loops of the block match.
    """
    wanted = resolved(OPERATIONS["tensorize"], {"target": block, "intrin": intrin})["intrin"]
    if not isinstance(block, Handle) or block.kind != "block" or not isinstance(wanted, Intrin):
        raise ScheduleError(problem("MS203", "`tensorize_mapping` takes a block and an intrinsic"))
    copies: list[Handle] = []
    try:
        if laid_out:
            copies = _fuse(session, block, wanted)
        found = search(session.program, _ref(session, block), wanted)
    except ScheduleError:
        if laid_out is not None:
            raise
        copies = _fuse(session, block, wanted)
        found = search(session.program, _ref(session, block), wanted)
    if not all(t.divides for t in found):
        padding = padding_for(session.program, _ref(session, block), found)
        session.call("pad_einsum", (block, padding), {})
        for copy in copies:  # Padded operands are copied by this step; a second copy is not needed.
            session.call("compute_inline", (copy,), {})
        found = search(session.program, _ref(session, block), wanted)
    inner: list[Handle] = []
    for t in found:
        loop = session.handles.handle(t.loop)
        if not t.whole:
            size = t.extent.value if isinstance(t.extent, Const) else t.extent
            made = session.call("split", (loop, (None, size)), {})
            assert isinstance(made, tuple)
            loop = made[1]
        inner.append(loop)
    loops = session.call("loops", (block,), {})
    assert isinstance(loops, tuple)
    names = {session.handles.resolve(x).name for x in inner}
    first = next(k for k, x in enumerate(loops) if session.handles.resolve(x).name in names)
    order = [*(x for x in loops[first:] if session.handles.resolve(x).name not in names), *inner]
    if [session.handles.resolve(x) for x in order] != [session.handles.resolve(x) for x in loops[first:]]:
        session.call("reorder", order, {})
    return inner[0]


def _fuse(session: Session, block: Handle, intrin: Intrin) -> list[Handle]:
    """Copy every operand and fuse the axes of each class, in copies and block; returns the copies that are read."""
    ref = _ref(session, block)
    found = classes(session.program, ref, intrin)
    extents = {a.name: a.extent for a in block_at(block_path(session.program, ref, "tensorize_mapping")).axes}
    copies: list[Handle] = []
    for buffer, written, order in found.operands:
        made = session.call(
            "reindex",
            (block, session.handles.handle(BufferRef(buffer))),
            {"access": "write" if written else "read"},
        )
        assert isinstance(made, tuple)
        copies += () if written else made
        copy = block_at(block_path(session.program, _ref(session, made[0]), "tensorize_mapping"))
        fresh = (copy.reads if written else copy.writes)[0].buffer
        params = _indices(block_at(block_path(session.program, ref, "tensorize_mapping")), fresh)
        rest = tuple(Var(p) for p in params if p in found.rest)
        fused = tuple(_row_major(found.axes[k], extents) for k in order)
        session.call(
            "transform_layout",
            (block, session.handles.handle(BufferRef(fresh)), IndexMap(params, (*rest, *fused))),
            {},
        )
    results = (*map(Var, found.rest), *(_row_major(names, extents) for names in found.axes))
    session.call("transform_block_layout", (block, IndexMap(tuple(extents), results)), {})
    return copies


def _indices(block: Block, buffer: str) -> tuple[str, ...]:
    """The axes at which a block accesses a reindexed buffer."""
    touched = next(r for r in (*block.reads, *block.writes) if r.buffer == buffer)
    return tuple(d.start.name for d in touched.ranges if isinstance(d.start, Var))


def _row_major(names: Sequence[str], extents: Mapping[str, Expr]) -> Expr:
    """Several axes fused into one, the last varying fastest."""
    total: Expr = Var(names[0])
    for name in names[1:]:
        total = arith.add(arith.mul(total, extents[name]), Var(name))
    return total


def _ref(session: Session, block: Handle) -> BlockRef:
    return BlockRef(session.handles.resolve(block).name)
