"""From a program to a kernel: the passes in order."""

from __future__ import annotations

from mslang.diagnostics import MsError, problem
from mslang.ir.dtype import parts
from mslang.ir.expr import DynamicRange, Expr, Symbol
from mslang.ir.program import Program
from mslang.ir.visit import all_buffers, map_program_exprs, walk_expr
from mslang.lower.align import align
from mslang.lower.auto_unroll import auto_unrolled
from mslang.lower.blocks import flatten
from mslang.lower.guards import resolve
from mslang.lower.init import hoist
from mslang.lower.kernel import AUTO_VECTORIZE, Kernel
from mslang.lower.pipeline import pipelined
from mslang.lower.place import place
from mslang.target.description import Target
from mslang.transform.primitives.storage_align import alignments


def lower(program: Program, target: Target, *, located: bool = False) -> Kernel:
    """What a concrete program does, as loops over placed buffers.

    `located`: for a build that checks its accesses. Buffers keep their whole shape, and statements know their block and
    its axes, so that a report names them.

    Raises MsError MS406 if a decision of the program has no value, MS405 if a view is accessed with too many indices,
    MS409 if a buffer's elements are vectors.
    """
    _check_decided(program)
    _check_types(program)
    dynamic = tuple(s for s in program.dynamic if isinstance(s, Symbol))
    flat = flatten(auto_unrolled(program), target, located)
    auto = bool(dict(program.annotations).get(AUTO_VECTORIZE, False))
    body = align(place(flat, compact=not located), alignments(program))
    return Kernel(program.name, program.params, resolve(pipelined(hoist(body))), dynamic, auto)


def _check_types(program: Program) -> None:
    for buffer in all_buffers(program).values():
        found = parts(buffer.dtype)
        if found is None or found.lanes > 1:
            raise MsError(
                problem(
                    "MS409",
                    f"{buffer.name} has elements of type {buffer.dtype}",
                    why="only scalar elements are compiled",
                    help="add a dimension to the buffer, and vectorize the loop over it",
                )
            )


def _check_decided(program: Program) -> None:
    def look(e: Expr) -> Expr:
        for x in walk_expr(e):
            if isinstance(x, Symbol) and not isinstance(x.domain, DynamicRange):
                raise MsError(
                    problem(
                        "MS406",
                        f"the decision {x.text} has no value",
                        why="only a concrete program can be compiled",
                        help="pin the decision, or sample a candidate",
                    )
                )
        return e

    map_program_exprs(program, look)
