"""The unscheduled program with its loops in the order of memory, for the expected results.

In the order of its axes, a product `C[i, j] += A[i, k] * B[k, j]` reads a column of `B` for each result, which takes
several times as long as row by row for large matrices. So the loop of each nest along which accesses are contiguous
becomes the innermost one, if it serves spatial axes only: then each element is still summed in the same order, and
results are equal bit for bit.
"""

from __future__ import annotations

from itertools import takewhile

from mslang.ir.expr import Const, Expr
from mslang.ir.program import Block, For, Program
from mslang.ir.visit import free_vars
from mslang.schedule.rules.nests import attempt, leaf_blocks, loops_around
from mslang.transform.outcome import LoopRef

STRIDED = 16
"""The cost of an access along a dimension other than the last, against one along the last: elements of a cache line."""

WAITING = 2
"""The cost of a sum each of whose steps waits for the one before, as it does in a loop over a reduction axis."""

SHORT = 8
"""Loops with fewer iterations do not become innermost."""


def in_memory_order(program: Program) -> Program:
    """The program, with the cheapest legal loop over spatial axes innermost in each nest.

    >>> from mslang.sema.program import parse_program
    >>> p = parse_program(
    ...     "program p(A: f32[8, 8], B: f32[8, 8], out C: f32[8, 8])"
    ...     " { block b[i: 8, j: 8 | k: 8] { C[i, j] += A[i, k] * B[k, j] } }"
    ... )
    >>> [s.var for s in loops_around(in_memory_order(p), leaf_blocks(p)[0])]
    ['i', 'k', 'j']
    """
    for block in leaf_blocks(program):
        program = _ordered(program, block)
    return program


def _ordered(program: Program, block: Block) -> Program:
    nest = _nest(program, block)
    if len(nest) < 2:
        return program
    reduced = {v for a in block.axes if a.kind != "spatial" for v in free_vars(a.binding)}
    costs = {s.var: _cost(block, s.var) + WAITING * (s.var in reduced) for s in nest}
    long = [s.var for s in nest if not isinstance(s.extent, Const) or s.extent.value >= SHORT]
    cheaper = [v for v in long if costs[v] < costs[nest[-1].var] and v not in reduced]
    for var in sorted(cheaper, key=lambda v: costs[v]):
        order = [LoopRef(s.var) for s in nest if s.var != var]
        made = attempt(program, "reorder", [*order, LoopRef(var)])
        if made is not None:
            return made.program
    return program


def _nest(program: Program, block: Block) -> tuple[For, ...]:
    """The serial loops around a block that hold nothing else, outermost first."""
    loops = loops_around(program, block)
    alone = takewhile(lambda s: len(s.body) == 1 and s.kind == "serial", reversed(loops))
    return tuple(reversed(tuple(alone)))


def _cost(block: Block, var: str) -> int:
    """What the accesses of a block cost where this loop is the innermost one."""
    moved = {a.name for a in block.axes if var in free_vars(a.binding)}

    def moves(index: Expr) -> bool:
        return not moved.isdisjoint(free_vars(index))

    regions = (*block.reads, *block.writes)
    strided = sum(any(moves(r.start) for r in region.ranges[:-1]) for region in regions)
    return STRIDED * strided + sum(any(moves(r.start) for r in region.ranges[-1:]) for region in regions)
