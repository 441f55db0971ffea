"""Primitives that leave remarks on loops and blocks: annotate, unannotate."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import replace

from mslang.ir.annotations import ATOMIC
from mslang.ir.expr import Expr
from mslang.ir.program import AttrValue, Block, For, Program
from mslang.ir.visit import free_vars
from mslang.ops.signature import Kind
from mslang.transform.analysis.loop_kinds import require_kinds
from mslang.transform.analysis.position import path_of, shown
from mslang.transform.outcome import BlockRef, LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.rewrite import put


@primitive(family="annotations")
def annotate(
    program: Program, target: LoopRef | BlockRef, key: str, value: Annotated[AttrValue, Kind.VALUE] = True
) -> Outcome:
    """Leave a remark on a loop or a block, for lowering, rules or people.

    A key that is there already gets the new value: what is said last counts.

    Before:
        block b[x: 64 = i] { B[x] = A[x] }

    After:
        # b.annotate("note", 3)
        block b[x: 64 = i] {
            attr "note" = 3
            B[x] = A[x]
        }

    Rejects:
        - a value that depends on a loop

    Source: TVM annotate
    """
    path = path_of(program, target, "annotate")
    s = path[-1]
    assert isinstance(s, For | Block)
    if isinstance(value, Expr) and free_vars(value):
        raise refuse(
            "MS312",
            "annotate",
            f"the value of {key!r} depends on `{min(free_vars(value))}`",
            why="an annotation says one thing for all iterations",
        )
    there = dict(s.annotations)
    if key in there and there[key] == value and type(there[key]) is type(value):
        return Outcome(program)
    notes = tuple((there | {key: value}).items())
    return Outcome(put(program, path, replace(s, annotations=notes)))


@primitive(family="annotations")
def unannotate(program: Program, target: LoopRef | BlockRef, key: str) -> Outcome:
    """Take a remark away from a loop or a block.

    Before:
        block b[x: 64 = i] {
            attr "note" = 3
            B[x] = A[x]
        }

    After:
        # b.unannotate("note")
        block b[x: 64 = i] { B[x] = A[x] }

    Rejects:
        - a key that is not there
        - `"atomic"` of a block whose updates meet in concurrent loops

    Source: TVM unannotate
    """
    path = path_of(program, target, "unannotate")
    s = path[-1]
    assert isinstance(s, For | Block)
    if key not in dict(s.annotations):
        names = ", ".join(repr(k) for k, _ in s.annotations)
        raise refuse(
            "MS312", "unannotate", f"{shown(target)} has no annotation {key!r}", help=f"it has: {names or 'none'}"
        )
    left = tuple((k, v) for k, v in s.annotations if k != key)
    done = put(program, path, replace(s, annotations=left))
    if key == ATOMIC:
        require_kinds(done, [x.var for x in path if isinstance(x, For)], "unannotate")
    return Outcome(done)
