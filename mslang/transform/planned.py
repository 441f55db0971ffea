"""Primitives that the language has, whose implementations are not part of this version.

Checker, completion and `explain` know them, so that schedules that use them can be read, checked and formatted;
running one is refused.
"""

from __future__ import annotations

from mslang.diagnostics import ScheduleError
from mslang.ir.program import Program
from mslang.transform.outcome import BlockRef, LoopRef, Outcome, refuse


def blockize(program: Program, loop: LoopRef) -> Outcome:
    """Make all that is under a loop one block (known, but not part of this version: it cannot run yet).

    Before:
        for i0 in 0..4, i1 in 0..16 { block b[x: 64 = i0 * 16 + i1] { B[x] = A[x] } }

    After:
        # i1.blockize()
        for i0 in 0..4 {
            block b_o[xo: 4 = i0] {
                for i1 in 0..16 { block b[x: 64 = xo * 16 + i1] { B[x] = A[x] } }
            }
        }

    Rejects:
        - every program, in this version

    Source: TVM blockize
    """
    raise _not_yet("blockize")


def tensorize(program: Program, target: LoopRef | BlockRef, intrin: object) -> Outcome:
    """Let an instruction do what a loop or block does (known, but not part of this version: it cannot run yet).

    Before:
        for i in 0..16 { block b[x: 16 = i] { B[x] = 0.0 } }

    After:
        # i.tensorize(fill)
        block b_o { writes B[0..16] attr "intrin" = "fill" }

    Rejects:
        - every program, in this version

    Source: TVM tensorize
    """
    raise _not_yet("tensorize")


def storage_align(program: Program, block: BlockRef, axis: int, factor: int, offset: int = 0) -> Outcome:
    """Pad rows of what a block writes, against bank conflicts (known, but not part of this version: it cannot run yet).

    The stride of dimension `axis` becomes `offset` more than a multiple of `factor`.

    Before:
        for i in 0..16, j in 0..16 { block b[x: 16 = i, y: 16 = j] { B[x, y] = A[x, y] } }

    After:
        # b.storage_align(axis = -2, factor = 32, offset = 8)
        for i in 0..16, j in 0..16 { block b[x: 16 = i, y: 16 = j] { attr "align.B" = 32 B[x, y] = A[x, y] } }

    Rejects:
        - every program, in this version

    Source: TVM storage_align
    """
    raise _not_yet("storage_align")


def pipeline(program: Program, loop: LoopRef, *, stages: int, copy: str | None = None) -> Outcome:
    """Overlap copies with the work of the iteration before (known, but not part of this version: it cannot run yet).

    `copy` is how elements are moved: `cp_async` names the asynchronous copy of a GPU.

    Before:
        for k in 0..16 { block b[x: 16 = k] { B[x] = A[x] } }

    After:
        # k.pipeline(stages = 2)
        for k in 0..16 @ serial("pipeline.stages" = 2) { block b[x: 16 = k] { B[x] = A[x] } }

    Rejects:
        - every program, in this version

    Source: TVM software_pipeline_stage
    """
    raise _not_yet("pipeline")


def _not_yet(primitive: str) -> ScheduleError:
    return refuse(
        "MS399",
        primitive,
        "known, but not part of this version",
        why="schedules that use it can be written, checked and formatted; they cannot run yet",
        help="leave the statement out, or pin a fork to a case without it",
    )
