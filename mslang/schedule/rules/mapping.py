"""`std.tensor.tensorize_mapping`: a block's loops made those of an intrinsic, by the primitives that this takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.expr import Const
from mslang.ir.intrin import Intrin
from mslang.ops.table import OPERATIONS
from mslang.schedule.arguments import resolved
from mslang.schedule.handles import Handle
from mslang.schedule.session import Session
from mslang.transform.analysis.mapping import padding_for
from mslang.transform.analysis.mapping import tensorize_mapping as search
from mslang.transform.outcome import BlockRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter


def tensorize_mapping(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """Split off, and bring inside, the loops of a block that an intrinsic can take; pads what does not divide.

    Gives the outermost of the tile's loops, to tensorize. The trace holds the primitives that this takes.
    """
    given = dict(zip(("block", "intrin"), args, strict=False)) | dict(kwargs)
    if set(given) != {"block", "intrin"} or len(args) > 2:
        raise ScheduleError(problem("MS205", "`tensorize_mapping` takes a block and an intrinsic"))
    return map_loops(it.session, given["block"], given["intrin"])


def map_loops(session: Session, block: object, intrin: object) -> Handle:
    """What `std.tensor.tensorize_mapping` does, in a running schedule.

    Raises:
        ScheduleError: MS203, the arguments are no block and intrinsic; MS382, no loops of the block can be taken.
    """
    wanted = resolved(OPERATIONS["tensorize"], {"target": block, "intrin": intrin})["intrin"]
    if not isinstance(block, Handle) or block.kind != "block" or not isinstance(wanted, Intrin):
        raise ScheduleError(problem("MS203", "`tensorize_mapping` takes a block and an intrinsic"))
    found = search(session.program, _ref(session, block), wanted)
    if not all(t.divides for t in found):
        padding = padding_for(session.program, _ref(session, block), found)
        session.call("pad_einsum", (block, padding), {})
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


def _ref(session: Session, block: Handle) -> BlockRef:
    return BlockRef(session.handles.resolve(block).name)
