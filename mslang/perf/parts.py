"""The parts of a kernel that are timed: its outermost loops and statements, what they consist of, and named loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from mslang.backend.backend import Clock
from mslang.diagnostics import MsError, problem
from mslang.ir import program as ir
from mslang.ir.expr import Call, Const, Load
from mslang.ir.intrin import Formal
from mslang.ir.program import Block, Buffer, Param, Program
from mslang.ir.visit import bodies as program_bodies
from mslang.ir.visit import walk as walk_program
from mslang.ir.visit import walk_expr
from mslang.kernel.nodes import Allocate, Atomic, Body, For, Function, If, Invoke, Let, Module, Stmt, Store, While
from mslang.kernel.visit import bodies, walk, with_bodies
from mslang.lower.analysis import trips
from mslang.suggestions import did_you_mean

COUNTERS = "mslang_counters"
"""The parameter that a timed kernel has besides its own: two words a part, and two for the whole."""

MOST_ENTRIES = 4096
"""Inner loops that are entered more often in a run are timed only if they are named."""

LEAST_WORK = 64
"""Nor are those in which fewer statements run: the clock would take as long as they do."""

CALL_WORK = 16
"""Statements that a call of a function such as `exp` counts as."""


class Part(msgspec.Struct, frozen=True):
    """A part that is timed.

    `number` is its slot, `parent` that of the part around it (0: the whole kernel). `name` is the loop's variable, or
    the buffer that a statement stores to. `shared`: it stands in a parallel loop, so several threads run it at once;
    `parallel`: it is such a loop.
    """

    number: int
    parent: int
    name: str
    loops: tuple[str, ...]
    shared: bool = False
    parallel: bool = False


def timed(module: Module, names: Sequence[str], clock: Clock) -> tuple[Module, tuple[Part, ...]]:
    """A kernel that times its parts into one parameter more, and the parts.

    Args:
        module: a kernel after all passes, with one function.
        names: loops to be timed besides the outermost parts, and the inner ones that are long enough.
        clock: that of the back end.
    """
    found = _Timing(clock, frozenset(names))
    (function,) = module.functions
    whole = Part(0, -1, module.name, ())
    split = _loops_in(function.body) > 1
    body = found.between(whole, found.body(function.body, _Place(whole, (), 1, False, split)))
    counters = Buffer(COUNTERS, "i64", (Const(2 * (1 + len(found.parts))),))
    made = replace(function, body=body, params=(*function.params, counters))
    return (
        replace(module, functions=(made,), params=(*module.params, Param(counters, "inout"))),
        tuple(found.parts.values()),
    )


class _Place(NamedTuple):
    """A place in the kernel: the part and the loops around it, how often it is entered in a run, whether several
    threads run it, and whether its loops are among several, so that timing them tells something."""

    parent: Part
    loops: tuple[str, ...]
    entries: int
    shared: bool
    split: bool


class _Timing:
    """The parts found so far; a loop that occurs several times in one part is one part, whose times add up."""

    def __init__(self, clock: Clock, names: frozenset[str]) -> None:
        self.clock, self.names = clock, names
        self.parts: dict[tuple[int, str], Part] = {}

    def body(self, body: Body, place: _Place) -> Body:
        """Statements, those that are parts timed."""
        return tuple([x for s in body for x in self._statement(s, place)])

    def between(self, part: Part, body: Body) -> Body:
        """Statements between the start and the stop of a clock."""
        slot = Load(COUNTERS, (Const(2 * part.number),), "i64")
        # What it means to whoever asks for accesses: the slot is read and written.
        meaning = (Store(COUNTERS, slot.indices, slot),)
        start = self.clock.shared_start if part.shared else self.clock.start
        stop = self.clock.shared_stop if part.shared else self.clock.stop
        first, last = (
            Invoke(f"clock_{what}", text, (Formal("slot", "i64"),), (1,), (slot,), meaning)
            for what, text in (("start", start), ("stop", stop))
        )
        return (first, *body, last)

    def _statement(self, s: Stmt, place: _Place) -> Body:
        match s:
            case Allocate() | Let() | If():
                return (with_bodies(s, tuple([self.body(b, place) for b in bodies(s)])),)
            case For() | While():
                return self._loop(s, place)
            case Store(buffer=name) | Atomic(buffer=name) | Invoke(name=name) if not place.loops:
                return self.between(self._part(name, place), (s,))
        return (s,)

    def _loop(self, s: For | While, place: _Place) -> Body:
        name = s.var if isinstance(s, For) else "while"
        parallel = isinstance(s, For) and s.kind == "parallel"
        part = self._part(name, place, parallel) if name in self.names or _is_worth(s, place) else None
        inner = _Place(
            part or place.parent,
            (*place.loops, name),
            place.entries * (trips(s) if isinstance(s, For) else MOST_ENTRIES),
            place.shared or parallel,
            _loops_in(s.body) > 1,
        )
        made = with_bodies(s, (self.body(s.body, inner),))
        return (made,) if part is None else self.between(part, (made,))

    def _part(self, name: str, place: _Place, parallel: bool = False) -> Part:
        new = Part(len(self.parts) + 1, place.parent.number, name, place.loops, place.shared, parallel)
        return self.parts.setdefault((place.parent.number, name), new)


def calibration(clock: Clock, shared: bool, times: int) -> Module:
    """A kernel that does nothing but time: an empty part 2 in a part 1, so often; all of it is part 0.

    What part 2 counts is what a part counts of its own clock; part 1 counts that and the whole cost of part 2's.
    """
    timing = _Timing(clock, frozenset())
    outer, inner = (Part(k, k - 1, f"part{k}", (), shared) for k in (1, 2))
    nested = timing.between(outer, timing.between(inner, ()))
    body = timing.between(Part(0, -1, "whole", ()), (For("k", Const(times), nested),))
    counters = Buffer(COUNTERS, "i64", (Const(6),))
    function = Function("calibration", (counters,), body)
    return Module("calibration", (Param(counters, "inout"),), (function,))


def _is_worth(s: Stmt, place: _Place) -> bool:
    if not place.loops:
        return True
    return place.split and place.entries <= MOST_ENTRIES and _work((s,)) >= LEAST_WORK


def _work(body: Body) -> int:
    """About how many statements run, calls counted as the many operations that they are."""
    total = 0
    for s in body:
        match s:
            case For(body=inner):
                total += trips(s) * _work(inner)
            case Store(value=value):
                total += 1 + CALL_WORK * sum(isinstance(x, Call) for x in walk_expr(value))
            case Invoke(text=text):
                total += text.count("\n") + 1
            case _:
                total += sum(_work(b) for b in bodies(s))
    return total


def _loops_in(body: Body) -> int:
    """How many loops are directly in a body."""
    count = 0
    for s in body:
        match s:
            case For() | While():
                count += 1
            case Allocate() | Let() | If():
                count += sum(map(_loops_in, bodies(s)))
    return count


# ------------------------------------------------------------------ names
def loops_of(names: Sequence[str], program: Program, module: Module) -> tuple[str, ...]:
    """The loops of a kernel that names mean: loops, or blocks, which stand for the outermost loop that has only them.

    Raises:
        MsError: MS710, nothing of that name is a loop of the kernel.
    """
    kept = {s.var for f in module.functions for s in walk(f.body) if isinstance(s, For)}
    found = []
    for name in names:
        if name in kept:
            found.append(name)
            continue
        around = _around(program.body, name)
        loop = next((v for v in around or () if v in kept), None)
        if loop is None:
            raise _not_timed(name, around is not None, kept, tuple(_leaves(program.body)))
        found.append(loop)
    return tuple(found)


def blocks_in(program: Program) -> Mapping[str, tuple[str, ...]]:
    """The innermost blocks in each loop of a program, in order."""
    return {s.var: tuple(_leaves(s.body)) for s in walk_program(program.body) if isinstance(s, ir.For)}


def _leaves(body: tuple[ir.Stmt, ...]) -> Iterator[str]:
    for s in body:
        inside = [x for b in program_bodies(s) for x in _leaves(b)]
        if isinstance(s, Block) and not inside:
            yield s.name
        yield from inside


def _around(body: tuple[ir.Stmt, ...], block: str) -> list[str] | None:
    """The loops around a block, those that have it alone first, outermost first; None if there is no such block."""
    for s in body:
        if isinstance(s, Block) and s.name == block:
            return []
        inner = next((x for b in program_bodies(s) if (x := _around(b, block)) is not None), None)
        if inner is not None:
            if not isinstance(s, ir.For):
                return inner
            alone = set(_leaves(s.body)) <= {block}
            return [s.var, *inner] if alone or not inner else [*inner, s.var]
    return None


def _not_timed(name: str, is_block: bool, kept: set[str], blocks: Sequence[str]) -> MsError:
    listed = ", ".join(sorted(kept)) or "none"
    why = (
        "none of the loops around the block is a loop of the compiled kernel"
        if is_block
        else f"vectorized and unrolled loops are gone; the loops are {listed}, the blocks {', '.join(blocks)}"
    )
    return MsError(
        problem(
            "MS710",
            f"`{name}` cannot be timed: it is not a loop of the compiled kernel",
            why=why,
            help=did_you_mean(name, (*kept, *blocks))
            or "name a serial or parallel loop of `--stage loops`, or a block",
        )
    )
