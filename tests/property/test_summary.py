"""Parametric lowering and the summary: numbers may be put in before or after, for every sketch of the library."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path

import pytest
from msgspec.structs import replace

import mslang
from mslang.ir.arith import evaluate, simplify, substitute_symbols
from mslang.ir.buckets import dynamic_sizes
from mslang.ir.expr import FALSE, TRUE, DynamicRange, Expr
from mslang.ir.program import Program
from mslang.ir.visit import map_buffer, map_expr
from mslang.kernel.nodes import Allocate, Body, For, If, Stmt
from mslang.kernel.visit import bodies, map_expressions, with_bodies
from mslang.lower.fold import step
from mslang.lower.summary import Summary, numbers, summarize
from mslang.lower.symbolic import lower_symbolic
from mslang.schedule import distribution
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.schedule import Schedule
from mslang.schedule.sketch import Sketch
from mslang.schedule.space import Candidate, Space
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.target.description import AVX512
from tests.property.stages import drawn_pair, schedule_pair
from tests.property.tally import Tally
from tests.property.test_schedules import sampled

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "stdlib" / "workloads").glob("*.ms"), *(ROOT / "examples").glob("*.ms")])
AUTOMATIC = "(automatic)"
SPACES = [
    pytest.param(str(p), n, id=f"{p.parent.name}.{p.stem}.{n}") for f in FILES for p, n in (*sampled(f), (f, AUTOMATIC))
]

DRAWS = 4
"""Draws of each space; in the campaign `CAMPAIGN`."""

CAMPAIGN = 40


@lru_cache(maxsize=64)
def library_space(path: str, name: str) -> Space:
    """The space of a schedule, or the automatic one of the first program."""
    if name == AUTOMATIC:
        module = mslang.load(path)
        return automatic_space(module.program(next(iter(module.programs))), AVX512)
    return space_of(load(path), name)


@lru_cache(maxsize=64)
def symbolic(sketch: Sketch) -> tuple[Body, Summary]:
    """What lowering makes of a sketch, and its summary."""
    module = lower_symbolic(sketch.program, AVX512)
    return module.body, summarize(module, AVX512)


def candidates(space: Space, count: int) -> Iterator[Candidate]:
    """Valid draws."""
    found = (c for seed in range(20 * count) if isinstance(c := space.attempt(seed), Candidate))
    return islice(found, count)


def put_in(body: Body, values: dict[str, int | tuple[int, ...]]) -> Body:
    """Statements with numbers for decisions, indices in canonical form, conditions that are settled gone."""

    def expr(e: Expr) -> Expr:
        return simplify(map_expr(substitute_symbols(e, values), step))

    def statement(s: Stmt) -> Stmt:
        s = map_expressions(with_bodies(s, tuple(put_in(b, values) for b in bodies(s))), expr)
        match s:
            case Allocate():
                return replace(s, buffer=map_buffer(s.buffer, expr))
            case For():
                return replace(s, annotations=())
        return s

    out: list[Stmt] = []
    for s in map(statement, body):
        if isinstance(s, If) and s.condition in (TRUE, FALSE):
            out.extend(s.then if s.condition == TRUE else s.otherwise)
        else:
            out.append(s)
    return tuple(out)


def check(space: Space, count: int) -> None:
    """Numbers put in before and after lowering give the same loops, buffers and summaries."""
    seen = 0
    for c in candidates(space, count):
        values = distribution.plain({d.address: c.decisions[d.address] for d in c.sketch.decisions})  # type: ignore[misc]
        body, summary = symbolic(c.sketch)
        module = lower_symbolic(c.program, AVX512)
        assert put_in(body, values) == put_in(module.body, {})
        before, after = list(numbers(summary)), list(numbers(summarize(module, AVX512)))
        assert [path for path, _ in before] == [path for path, _ in after]
        for sizes in sizes_of(c.program):
            wrong = [
                p
                for (p, a), (_, b) in zip(before, after, strict=True)
                if evaluate(a, {}, {**values, **sizes}) != evaluate(b, {}, sizes)
            ]
            assert not wrong, sizes
        seen += 1
    assert seen == count or seen == space_size(space)


def sizes_of(program: Program) -> list[dict[str, int]]:
    """Values of the dynamic sizes from the least to the greatest; one empty assignment if there are none."""
    ranges = {s.text: s.domain for s in dynamic_sizes(program) if isinstance(s.domain, DynamicRange)}
    between = {n: range(-(-r.lo // r.multiple) * r.multiple, r.hi + 1, r.multiple) for n, r in ranges.items()}
    return [{n: values[k * (len(values) - 1) // 3] for n, values in between.items()} for k in range(4 if ranges else 1)]


def space_size(space: Space) -> int:
    """How many draws of a space differ, for those that have few."""
    return sum(1 for s in space.sketches() for _ in islice(s.points(), CAMPAIGN))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("path", "name"), SPACES)
@pytest.mark.one_in(2)
def test_numbers_may_be_put_in_before_or_after(path: str, name: str):
    check(library_space(path, name), DRAWS)


@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("path", "name"), SPACES)
def test_numbers_may_be_put_in_before_or_after_for_many_draws(path: str, name: str):
    check(library_space(path, name), CAMPAIGN)


PAIRS = range(48)
"""Random programs under random schedules; those with decisions are compared."""


@pytest.mark.timeout(300)
def test_random_programs_have_the_same_numbers_before_and_after():
    compared = 0
    for k in PAIRS:
        program, rng = drawn_pair(5, k)
        schedule = Schedule(program, seed=k)
        schedule_pair(schedule, rng, Tally())
        sketch = schedule.sketch
        if not sketch.decisions:
            continue
        before = list(numbers(summarize(lower_symbolic(sketch.program, AVX512), AVX512)))
        for values in islice(sketch.points(), 3):
            given = distribution.plain(values)
            module = lower_symbolic(sketch.instantiate(values), AVX512)
            after = list(numbers(summarize(module, AVX512)))
            assert [p for p, _ in before] == [p for p, _ in after], k
            wrong = [
                p for (p, a), (_, b) in zip(before, after, strict=True) if evaluate(a, {}, given) != evaluate(b, {})
            ]
            assert not wrong, (k, values)
            compared += 1
    assert compared >= 20
