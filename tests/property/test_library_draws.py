"""Every sampled schedule of the library and the examples: candidates are their sketch with values put in, and no value
makes another structure, not even factors of 1 and of the whole extent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import msgspec
import pytest

from mslang.ir.expr import Choice, Const, FreeTile, PartitionedTile, PerfectTile, Uniform
from mslang.schedule import distribution
from mslang.schedule.decisions import Decision, Drawing, holds
from mslang.schedule.distribution import Number
from mslang.schedule.instruction import REQUIRE
from mslang.schedule.replay import replay, run_trace
from mslang.schedule.sketch import Sketch, skeleton
from mslang.schedule.space import Candidate, Space
from mslang.schedule.strategies import space_of
from mslang.schedule.trace import Trace
from mslang.sema.modules import load
from tests.property.test_schedules import ConcreteDraws, sampled

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "stdlib" / "workloads").glob("*.ms"), *(ROOT / "examples").glob("*.ms")])
SCHEDULES = [pytest.param(str(p), n, id=f"{p.parent.name}.{p.stem}.{n}") for f in FILES for p, n in sampled(f)]

DRAWS = 1000
"""Draws of each schedule."""

FRESH = 10
"""Of those of one structure, so many are replayed afresh; in the campaign all are."""


@lru_cache(maxsize=64)
def library_space(path: str, name: str) -> Space:
    """The space of a schedule; its sketches are shared by the tests."""
    return space_of(load(path), name)


def drawn(space: Space) -> Iterator[Candidate]:
    """The valid ones among `DRAWS` draws."""
    return (c for seed in range(DRAWS) if isinstance(c := space.attempt(seed), Candidate))


def check_fresh(space: Space, candidate: Candidate) -> None:
    """A fresh replay, its decisions pinned to those of the draw, gives the same program."""
    assert replay(space.program, candidate.trace, strict=True).program == candidate.program


@pytest.mark.parametrize(("path", "name"), SCHEDULES)
def test_some_draws_are_replayed_afresh(path: str, name: str):
    space = library_space(path, name)
    seen = 0
    for seed in range(DRAWS):
        candidate = space.attempt(seed)
        if not isinstance(candidate, Candidate):
            continue
        check_fresh(space, candidate)
        seen += 1
        if seen == FRESH:
            break
    assert seen == FRESH


@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("path", "name"), SCHEDULES)
def test_all_draws_are_replayed_afresh(path: str, name: str):
    space = library_space(path, name)
    shapes: dict[tuple[object, ...], tuple[object, ...]] = {}
    for candidate in drawn(space):
        check_fresh(space, candidate)
        shape = skeleton(candidate.program)
        assert shapes.setdefault(candidate.sketch.structure, shape) == shape
    assert shapes


# ------------------------------------------------------------------ extreme values
def extremes(decision: Decision) -> tuple[Number, ...]:
    """The values at the edges of a decision's domain: the extent in one factor and 1 in the others; least; most."""
    match decision.domain:
        case PerfectTile(extent=Const(value=int() as whole), n=n) | FreeTile(extent=Const(value=int() as whole), n=n):
            corners: tuple[Number, ...] = tuple(tuple(whole if j == k else 1 for j in range(n)) for k in range(n))
        case PartitionedTile() as domain:
            corners = tuple(distribution.enumerate_values(domain, {}))[:: max(1, distribution.count(domain, {}) - 1)]
        case Choice(values=values):
            corners = (min(values), max(values))
        case Uniform(lo=lo, hi=hi):
            corners = (lo, hi - 1)
        case _:
            corners = ()
    return tuple(c for c in corners if distribution.objection(decision.domain, c, {}) is None)


def extreme_points(sketch: Sketch) -> Iterator[Mapping[str, Number]]:
    """Decision vectors made of extreme values that lead to the sketch's structure, requirements apart."""
    if any(distribution.depends_on(d.domain) for d in sketch.decisions):
        return
    corners = {d.address: extremes(d) for d in sketch.decisions}
    for k in range(max((len(c) for c in corners.values()), default=0)):
        point = {a: c[k % len(c)] for a, c in corners.items() if c}
        if len(point) == len(corners) and all(holds(g.question.condition, point) is g.answer for g in sketch.guards):
            yield point


def numbers_replayed(space: Space, trace: Trace) -> tuple[object, ...]:
    """The shape of the program when a trace is replayed with numbers in the place of symbols."""
    kept = tuple(i for i in trace.instructions if i.op != REQUIRE)
    unchecked = msgspec.structs.replace(trace, instructions=kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mslang.schedule.session.Draws", ConcreteDraws)
        session = run_trace(space.program, unchecked, Drawing(0, pins=trace.decisions))
    return skeleton(session.program)


@pytest.mark.parametrize(("path", "name"), SCHEDULES)
def test_extreme_factors_change_no_structure(path: str, name: str):
    space = library_space(path, name)
    checked = 0
    for sketch in space.sketches():
        shape = skeleton(sketch.program)
        for point in extreme_points(sketch):
            assert skeleton(sketch.instantiate(point)) == shape
            assert numbers_replayed(space, sketch.trace_with(point)) == shape
            checked += 1
        if checked >= FRESH:
            break
    assert checked >= 2
