"""Random programs under random sequences of loop primitives mean what they meant, for every draw of the sizes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from mslang.backend.reference import interpret
from mslang.diagnostics import ScheduleError
from mslang.ir.arith.domain import rows
from mslang.ir.expr import Choice, Const, Expr, FreeTile, PerfectTile, Symbol
from mslang.ir.find import blocks_of
from mslang.ir.program import For, Program
from mslang.ir.verify import verify
from mslang.ir.visit import map_program_exprs, walk
from mslang.transform.analysis.position import loops_above
from mslang.transform.outcome import BlockRef, BufferRef, Gone, LoopRef, Outcome
from mslang.transform.registry import IMPLEMENTATIONS
from tests.property.strategies import programs, random_inputs

Draw = Any
Values = dict[str, int | tuple[int, ...]]

OPERATIONS = (
    "split",
    "split",
    "split",
    "fuse",
    "reorder",
    "reorder",
    "add_unit_loop",
    "parallel",
    "vectorize",
    "unroll",
    "annotate",
    "unannotate",
    "decompose_reduction",
    "decompose_reduction",
    "set_scope",
)


# ------------------------------------------------------------------ drawing one call
def loops_in(program: Program) -> list[For]:
    return [s for s in walk(program.body) if isinstance(s, For)]


def draw_values(draw: Draw, symbol: Symbol) -> int | tuple[int, ...]:
    found = rows(symbol.domain)
    assert found, symbol
    row = draw(st.sampled_from(found))
    return row[0] if symbol.position is None else row


def draw_factors(draw: Draw, loop: For, address: str) -> tuple[list[Expr | None], Symbol | None]:
    n = draw(st.integers(1, 3))
    extent = loop.extent
    if isinstance(extent, Const) and draw(st.booleans()):
        domain = draw(st.sampled_from([PerfectTile(extent, n), FreeTile(extent, n)]))
        tile = [Symbol(address, domain, k) for k in range(n)]
        return list(tile), tile[0]
    if draw(st.booleans()):
        width = Symbol(address, Choice(tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True)))))
        factors: list[Expr | None] = [None, width]
        return draw(st.permutations(factors)), width
    literal: list[Expr | None] = [None, *(Const(draw(st.integers(1, 4))) for _ in range(n - 1))]
    return draw(st.permutations(literal)), None


def draw_call(draw: Draw, program: Program, address: str) -> tuple[str, dict[str, object], Symbol | None]:
    op = draw(st.sampled_from(OPERATIONS))
    loop = draw(st.sampled_from(loops_in(program)))
    block = draw(st.sampled_from(blocks_of(program.body)))
    symbol = None
    args: dict[str, object] = {"loop": LoopRef(loop.var)}
    match op:
        case "split":
            args["factors"], symbol = draw_factors(draw, loop, address)
        case "fuse":
            chain = [loop]
            while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], For) and draw(st.booleans()):
                chain.append(chain[-1].body[0])
            args = {"loops": [LoopRef(s.var) for s in chain]}
        case "reorder":
            path = draw(st.sampled_from([q for q in block_paths(program) if loops_above(q)]))
            names = [s.var for s in loops_above(path)]
            args = {
                "loops": [LoopRef(n) for n in draw(st.lists(st.sampled_from(names), min_size=2, unique=True))]
                if len(names) > 1
                else []
            }
        case "add_unit_loop":
            args = {"target": draw(st.sampled_from([LoopRef(loop.var), BlockRef(block.name)]))}
        case "annotate":
            args = {"target": LoopRef(loop.var), "key": "note", "value": draw(st.integers(0, 1))}
        case "unannotate":
            noted = [x for x in loops_in(program) if x.annotations] or [loop]
            args = {"target": LoopRef(draw(st.sampled_from(noted)).var), "key": "note"}
        case "unroll" if draw(st.booleans()):
            symbol = Symbol(address, Choice((0, 2, 16)))
            args["max_steps"] = symbol
        case "decompose_reduction":
            paths = [q for q in block_paths(program) if q[-1].init is not None]
            path = draw(st.sampled_from(paths or block_paths(program)))
            above = loops_above(path) or (loop,)
            args = {"block": BlockRef(path[-1].name), "loop": LoopRef(draw(st.sampled_from(above)).var)}
        case "set_scope":
            own = {b.name for b in program.allocs}
            pairs = [(b.name, r.buffer) for b in blocks_of(program.body) for r in b.writes if r.buffer in own]
            name, buffer = draw(st.sampled_from(pairs or [(block.name, "B")]))
            args = {
                "block": BlockRef(name),
                "buffer": BufferRef(buffer),
                "scope": draw(st.sampled_from(["local", "global"])),
            }
    return op, args, symbol


def block_paths(program: Program) -> list[Any]:
    from mslang.ir.program import Block
    from mslang.ir.visit import walk_paths

    return [q for q in walk_paths(program.body) if isinstance(q[-1], Block)]


# ------------------------------------------------------------------ judging
def check_outcome(before: Program, outcome: Outcome) -> None:
    assert not verify(outcome.program), verify(outcome.program)
    names = {s.var for s in loops_in(outcome.program)} | {b.name for b in blocks_of(outcome.program.body)}
    for handle in outcome.handles:
        assert handle.name in names
    for old, new in outcome.forward.items():
        alive = new.into if isinstance(new, Gone) else (new,)
        assert all(h.name in names for h in alive)
        assert old.name in {s.var for s in loops_in(before)} | {b.name for b in blocks_of(before.body)}
    moved = {h.name for h in outcome.forward}
    kept = {s.var for s in loops_in(before)} | {b.name for b in blocks_of(before.body)}
    assert kept - moved <= names, "a handle that is not forwarded still names something"


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all((a[k] == b[k]).all() for k in a)


APPLIED: Counter[str] = Counter()


def scheduled(draw: Draw, program: Program, length: int) -> tuple[Program, list[Symbol], list[str]]:
    symbols: list[Symbol] = []
    log: list[str] = []
    for k in range(length):
        op, args, symbol = draw_call(draw, program, f"d{k}")
        try:
            outcome = IMPLEMENTATIONS[op](program, **args)
        except ScheduleError:
            continue
        check_outcome(program, outcome)
        log.append(f"{op}({args})")
        APPLIED[op] += 1
        program = outcome.program
        if symbol is not None:
            symbols.append(symbol)
    return program, symbols, log


def check(data: Any, length: int) -> None:
    program = data.draw(programs())
    arrays = random_inputs(program, data.draw(st.integers(0, 99)))
    expected = interpret.run(program, arrays)
    result, symbols, log = scheduled(data.draw, program, length)
    for _ in range(2):
        values: Values = {s.name: draw_values(data.draw, s) for s in symbols}
        assert same(expected, interpret.run(result, arrays, sizes=values)), (log, values)
        concrete = map_program_exprs(result, lambda e, v=values: substitute(e, v))
        assert not verify(concrete)
        assert same(expected, interpret.run(replace(concrete, name="concrete"), arrays)), (log, values)


def substitute(e: Expr, values: Values) -> Expr:
    from mslang.ir.arith import substitute_symbols

    return substitute_symbols(e, values)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_sequences_keep_the_meaning(data: Any) -> None:
    check(data, data.draw(st.integers(1, 8)))


@pytest.mark.campaign
@settings(max_examples=5000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_many_random_sequences_keep_the_meaning(data: Any) -> None:
    check(data, data.draw(st.integers(1, 12)))
