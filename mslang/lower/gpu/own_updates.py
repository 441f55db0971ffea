"""Atomic updates of memory that one thread has to itself: plain ones, for no other thread sees it, and a GPU has no
atomic operations there."""

from __future__ import annotations

from msgspec.structs import replace

from mslang.ir.annotations import ATOMIC
from mslang.ir.atomics import atomic_update
from mslang.ir.find import all_buffers, contents_of
from mslang.ir.program import Block, Program, Stmt
from mslang.ir.visit import map_bodies
from mslang.lower.gpu.axes import BLOCK_SHARED


def plainly(program: Program) -> Program:
    """The program in which blocks that update memory of one thread are not marked as atomic."""
    if not contents_of(program.body).atomic:
        return program
    params = {q.buffer.name for q in program.params}
    own = {n for n, b in all_buffers(program).items() if n not in params and b.scope not in BLOCK_SHARED}
    return replace(program, body=tuple(_plainly(s, own) for s in program.body))


def _plainly(s: Stmt, own: set[str]) -> Stmt:
    s = map_bodies(s, lambda body: tuple(_plainly(x, own) for x in body))
    if not isinstance(s, Block) or (found := atomic_update(s)) is None or found[0].buffer not in own:
        return s
    return replace(s, annotations=tuple(a for a in s.annotations if a[0] != ATOMIC))
