"""What an intrinsic's description says, taken apart for unification."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import ScheduleError
from mslang.ir.expr import ZERO
from mslang.ir.find import blocks_of
from mslang.ir.intrin import Intrin
from mslang.ir.program import Block, For, Program
from mslang.transform.analysis.unify import Mismatch, Side, parameters, side
from mslang.transform.outcome import LoopRef
from mslang.transform.primitives.blockize import blockize


class Description(msgspec.Struct, frozen=True):
    """The statements of a description, and apart from them those that start its reduction, if it does."""

    body: Side
    init: Side | None


def described(intrin: Intrin) -> Description:
    """What an intrinsic's description says.

    Raises:
        Mismatch: it is of a form that nothing can be matched with.
    """
    made, asked = _lifted(intrin.desc), parameters(intrin.desc)
    zeros = {a.name: ZERO for a in made.axes}
    init = None if made.init is None else side(made.init, asked, {}, "description", zeros)
    return Description(side(made.body, asked, {}, "description", zeros), init)


def _lifted(desc: Program) -> Block:
    """A description as one block, its init (if it has one) in front, as `blockize` makes tiles."""
    if not any(b.init is not None for b in blocks_of(desc.body)):
        return Block(desc.name, (), (), (), desc.body)
    match desc.body:
        case (For(var=v),):
            try:
                made = blockize(desc, LoopRef(v)).program.body[0]
            except ScheduleError as error:
                raise Mismatch(f"the description cannot be one block: {error.diagnostic.message}") from None
            if isinstance(made, Block):
                return made
        case (Block() as only,):
            return replace(only, name=desc.name)
    raise Mismatch("a description with an init is one block under its loops")
