"""From a scheduled program to the kernels of a GPU: the passes in order."""

from __future__ import annotations

from mslang.diagnostics import ScheduleError, TargetError
from mslang.ir.program import Program
from mslang.kernel import Module
from mslang.kernel.visit import map_functions
from mslang.lower import passes
from mslang.lower.align import align
from mslang.lower.gpu.barriers import synchronized
from mslang.lower.gpu.fetch import fetched
from mslang.lower.gpu.invariants import lifted
from mslang.lower.gpu.launches import launches
from mslang.lower.gpu.own_updates import plainly
from mslang.lower.gpu.pipeline import staged
from mslang.lower.gpu.predicates import decided
from mslang.lower.gpu.reduction import joined
from mslang.lower.gpu.shared import shared
from mslang.lower.gpu.storage import placed
from mslang.lower.gpu.temporaries import private
from mslang.lower.gpu.unroll import unrolled
from mslang.lower.gpu.vectors import vectorized
from mslang.lower.gpu.vthreads import interleaved
from mslang.lower.gpu.warps import exchanged
from mslang.lower.gpu.widths import widths
from mslang.lower.init import hoist
from mslang.lower.instructions import CUDA
from mslang.lower.passes import Pass
from mslang.target.description import Target
from mslang.transform.analysis.threads import require_one_index

PASSES = (
    Pass("launches", launches, "top-level nests become functions, bound loops the variables of their axes"),
    Pass("place", placed, "buffers on the chip go where they are used, and hold what is accessed there"),
    Pass("align", lambda m, _: map_functions(m, align), "strides are what `storage_align` asked for"),
    Pass("vthreads", interleaved, "loops of virtual threads go inwards and are unrolled"),
    Pass("invariants", lifted, "conditions that a loop does not change go around it"),
    Pass("init", lambda m, _: map_functions(m, hoist), "work of the first iteration alone is moved before the loop"),
    Pass("predicates", decided, "predicates that hold for all threads go, and indices are simplified"),
    Pass("pipeline", staged, "copies of later iterations run ahead, asynchronously where that is asked for"),
    Pass("warps", exchanged, "memory of warps becomes registers of their lanes, which shuffles read"),
    Pass("barriers", synchronized, "threads wait where they depend on one another"),
    Pass("shared", shared, "shared memory is allocated for the whole block, static or dynamic, and laid out"),
    Pass("vectorize", vectorized, "vectorized loops become vector statements, or are unrolled"),
    Pass("unroll", unrolled, "the loops that are written out: those that the schedule says, and those over registers"),
    Pass("widths", widths, "a store of a vector is one instruction, and so is a `let` of a load of one"),
)
"""The passes of a GPU, in order."""


def prepared(program: Program) -> Program:
    """What is done while a program still has blocks: they are shared out, and threads combine the parts of the
    reductions that they share out.

    Raises:
        TargetError: MS435, the threads cannot combine what they have; MS437, they cannot share a block's memory.
    """
    return joined(shared_out(program))


def shared_out(program: Program) -> Program:
    """The program in which what blocks allocate is their threads' own, and updated plainly, and in which threads share
    out the copies that are marked. Decisions may have no values.

    Raises:
        TargetError: MS437, threads cannot share a block's memory.
    """
    return fetched(private(plainly(program)))


def lower(program: Program, target: Target) -> Module:
    """What a concrete program does on a GPU: a function a launch, ready to be printed.

    Raises:
        MsError: MS405, MS406, MS409, as of `mslang.lower.lower`.
        TargetError: MS430 to MS439, MS456, the schedule cannot be run by a GPU's threads as it stands; MS461, a block
            needs more shared memory than there is; MS317, MS395, loops of one axis inside each other are not one index.
    """
    try:
        require_one_index(program, "lower")
    except ScheduleError as error:
        raise TargetError(error.diagnostic) from error
    return passes.lower(prepared(program), target, passes=PASSES, texts=CUDA)
