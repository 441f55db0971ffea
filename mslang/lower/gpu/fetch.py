"""Cooperative fetch: the threads of a block share out a copy that an annotation marks.

TVM's rules leave `meta_schedule.cooperative_fetch = v` at the block of a copy to shared memory: its loops are to become
one, cut into rounds, the threads of the launch, and vectors of v elements. A copy whose loops cannot be cut so stays as
it is, and is made by one thread.
"""

from __future__ import annotations

from mslang.diagnostics import ScheduleError
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const, Expr
from mslang.ir.find import all_buffers, blocks_of, loops_of, path_to_block
from mslang.ir.program import AttrValue, Block, For, Program
from mslang.ir.visit import Path, walk
from mslang.lower.gpu.axes import bound_threads
from mslang.transform.outcome import LoopRef
from mslang.transform.primitives.loop_kinds import bind, vectorize
from mslang.transform.primitives.loops import fuse, split

COOPERATIVE = "meta_schedule.cooperative_fetch"
"""The annotation: how many elements a thread copies at once."""

WIDEST = 4
"""Bytes of the largest elements that are copied as vectors, as in TVM."""


def fetched(program: Program) -> Program:
    """The program with marked copies shared out among threads."""
    for b in blocks_of(program.body):
        lanes = _number(dict(b.annotations).get(COOPERATIVE))
        path = path_to_block(program, b.name)
        if lanes is not None and path is not None:
            try:
                program = _shared_out(program, path, lanes)
            except ScheduleError:
                continue
    return program


def _shared_out(program: Program, path: Path, lanes: int) -> Program:
    block, threads = path[-1], _threads(path)
    own = _own_loops(path)
    if not isinstance(block, Block) or not own or not threads:
        return program
    written = all_buffers(program)[block.writes[0].buffer]
    if lanes > 1 and (size_of(written.dtype) > WIDEST or _copied(own) % lanes):
        lanes = 1
    flat = own[0].var
    if len(own) > 1:
        done = fuse(program, [LoopRef(s.var) for s in own])
        program, flat = done.program, _name(done.handles[0])
    done = split(program, LoopRef(flat), [None, *(Const(n) for n in threads.values()), Const(lanes)])
    program = done.program
    _, *parts, vector = (_name(h) for h in done.handles)
    for name, axis in zip(parts, threads, strict=True):
        program = bind(program, LoopRef(name), axis).program
    return vectorize(program, LoopRef(vector)).program


def _name(handle: object) -> str:
    assert isinstance(handle, LoopRef)
    return handle.name


def _own_loops(path: Path) -> list[For]:
    """The loops right above the block, outermost first, that hold nothing else and are not bound."""
    found: list[For] = []
    for s in reversed(loops_of(path)):
        if len(s.body) != 1 or s.kind != "serial":
            break
        found.insert(0, s)
    return found


def _threads(path: Path) -> dict[str, int]:
    """The threads of the launch, from the slowest axis to `threadIdx.x`; none while their number is open."""
    found = bound_threads(walk(path[:1]))
    if not all(isinstance(n, Const) for n in found.values()):
        return {}
    return {a: int(n.value) for a, n in reversed(found.items()) if isinstance(n, Const)}


def _copied(loops: list[For]) -> int:
    count = 1
    for s in loops:
        count *= int(s.extent.value) if isinstance(s.extent, Const) else 1
    return count


def _number(value: AttrValue | None) -> int | None:
    if isinstance(value, Expr):
        value = value.value if isinstance(value, Const) else None
    return int(value) if isinstance(value, int) else None
