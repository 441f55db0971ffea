"""`interleave`: iterations dealt out in turn, as cards are."""

from mslang import LoopRef, Outcome, primitive, then
from mslang.ir.expr import Expr
from mslang.ir.program import Program
from mslang.transform.primitives.loops import reorder, split


@primitive(gives=(LoopRef, LoopRef), consumes=("loop",), family="examples")
def interleave(program: Program, loop: LoopRef, ways: Expr) -> Outcome:
    """Deal a loop's iterations out to `ways` in turn: the first takes 0, `ways`, 2·`ways`, …

    The new loops are returned outermost first; the old handle is dead.

    Before:
        for i in 0..12 {
            block b[x: 12 = i] { B[x] = A[x] }
        }

    After:
        # let way, turn = i.interleave(4)
        for way in 0..4, turn in 0..3 {
            block b[x: 12 = turn * 4 + way] { B[x] = A[x] }
        }

    Rejects:
        - what `split` rejects: a size that is not positive;
        - what `reorder` rejects: iterations whose order matters (MS304).
    """
    halves = split(program, loop, [None, ways])
    turn, way = halves.handles
    assert isinstance(turn, LoopRef) and isinstance(way, LoopRef)
    return then(halves, reorder(halves.program, [way, turn]), handles=(way, turn))
