"""Decisions as arrays are what they are one by one: validity and every integer of every sketch of the library and the
examples, of schedules with guards and requirements, and of random ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import mslang
from mslang.diagnostics import MsError, ScheduleError
from mslang.ir.arith import evaluate
from mslang.ir.dtype import INDEX
from mslang.ir.expr import Expr, Symbol, dtype_of
from mslang.ir.program import Block, Program
from mslang.ir.symbols import all_exprs, annotation_exprs, buffer_exprs, extent_of
from mslang.ir.visit import free_vars, loads_of, walk, walk_expr
from mslang.lower.summary import numbers, summarize
from mslang.lower.symbolic import lower_symbolic
from mslang.schedule import distribution
from mslang.schedule.batch.layout import DecisionBatch
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.schedule import Schedule
from mslang.schedule.sketch import Sketch
from mslang.schedule.values import Size
from mslang.target.description import AVX512, GENERIC, Target
from tests.property.stages import drawn_pair, schedule_pair
from tests.property.tally import Tally
from tests.property.test_library_draws import FILES, SCHEDULES, library_space
from tests.unit.schedule.samples import GUARDED, body, space

DRAWS = 1000
"""Draws of each sketch."""


def sizes_of(p: Program) -> tuple[Expr, ...]:
    """Every size in a program that depends on decisions, of which no part is a variable or a load."""
    found: dict[Expr, None] = {}
    buffers = [*(q.buffer for q in p.params), *p.allocs]
    whole = [e for b in buffers for e in buffer_exprs(b)]
    whole += annotation_exprs(p.annotations)
    for s in walk(p.body):
        whole += all_exprs(s)
        if isinstance(s, Block):
            whole += [x for a in s.axes for x in (a.extent, a.binding)]
    for e in whole:
        for part in (x for y in walk_expr(e) for x in (y, *_extents(y))):
            plain = not free_vars(part) and not any(loads_of(part))
            if plain and dtype_of(part) in (INDEX, "bool") and any(isinstance(x, Symbol) for x in walk_expr(part)):
                found[part] = None
    return tuple(found)


def _extents(e: Expr) -> Iterator[Expr]:
    if isinstance(e, Symbol) and (extent := extent_of(e.domain)) is not None:
        yield extent


def changed(batch: DecisionBatch, rng: np.random.Generator) -> DecisionBatch:
    """The batch with one number of each row taken from another row, or changed by a little."""
    array = batch.array.copy(order="F")
    rows = np.arange(len(batch))
    column = rng.integers(0, batch.layout.width, len(batch))
    other = batch.array[rng.permutation(len(batch)), column]
    array[rows, column] = np.where(rng.random(len(batch)) < 0.7, other, array[rows, column] + rng.integers(-1, 3))
    return DecisionBatch(batch.layout, array)


def check(sketch: Sketch, draws: int = DRAWS, sizes: int = DRAWS) -> tuple[int, int]:
    """Compare a sketch's arrays with its single values.

    Returns:
        How many of the draws are valid, and how many are not.
    """
    many = sketch.batch()
    batch = many.draw(draws, seed=1)
    valid = many.valid(batch)
    first = many.violation(batch)
    assert ((first == -1) == valid).all() and sum(many.violations(batch).values()) == (~valid).sum()
    for k in range(draws):
        assert _judged(sketch, batch.row(k), many.reasons, int(first[k])), batch.row(k)
    if batch.layout.width and not any(s.inferred for s in batch.layout.slots):
        moved = changed(batch[:200], np.random.default_rng(7))
        for k, found in enumerate(many.violation(moved).tolist()):
            assert _judged(sketch, moved.row(k), many.reasons, found), moved.row(k)
    exprs = [e for e in sizes_of(sketch.program) if _is_of(e, sketch)]
    some = batch[valid][:sizes]
    columns = many.evaluate(exprs, some)
    for k in range(len(some)):
        values = distribution.plain(some.row(k))
        for e, column in zip(exprs, columns, strict=True):
            assert column[k] == evaluate(e, {}, values), (e, values)
    return int(valid.sum()), int((~valid).sum())


def _is_of(e: Expr, sketch: Sketch) -> bool:
    """Whether an expression is over the decisions of a sketch alone, of which each has a number."""
    names = sketch.batch().layout.names
    return all(x.text in names for x in walk_expr(e) if isinstance(x, Symbol))


def _judged(sketch: Sketch, values: Mapping[str, distribution.Number], reasons: tuple[str, ...], found: int) -> bool:
    """Whether the number of a reason is the one that the sketch gives for single values."""
    why = sketch.violation(values)
    if why is None or found < 0:
        return why is None and found == -1
    decision = next((d for d in sketch.decisions if why.startswith(f"{d.address}: ")), None)
    if found < len(sketch.decisions):
        return decision is sketch.decisions[found]
    return why == reasons[found]


# ------------------------------------------------------------------ the library
def name_of(path: Path) -> str:
    return f"{path.parent.name}.{path.stem}"


@pytest.mark.parametrize(("path", "name"), SCHEDULES)
@pytest.mark.one_in(2)
def test_the_library_as_arrays(path: str, name: str):
    found = [check(s) for s in library_space(path, name).sketches()]
    assert sum(valid for valid, _ in found) > 0


def automatic(path: Path) -> list[Sketch]:
    """The sketches of the automatic space of the first program of a file."""
    module = mslang.load(path)
    return list(automatic_space(module.program(next(iter(module.programs))), GENERIC).sketches())


@pytest.mark.parametrize("path", FILES, ids=name_of)
@pytest.mark.one_in(2)
def test_automatic_spaces_as_arrays(path: Path):
    sketches = automatic(path)
    assert sum(check(s, sizes=100)[0] for s in sketches) > 0
    check_summary(sketches[-1], 20, GENERIC)


@pytest.mark.campaign
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_automatic_spaces_as_arrays_at_length(path: Path):
    for sketch in automatic(path):
        check(sketch)
        check_summary(sketch, DRAWS, GENERIC)


def check_summary(sketch: Sketch, draws: int, target: Target = AVX512) -> None:
    """Compare all numbers of a sketch's nest summary, as arrays, with those of single values."""
    many = sketch.batch()
    batch = many.draw(draws, seed=2)
    exprs = {e for _, e in numbers(summarize(lower_symbolic(sketch.program, target), target))}
    known = [e for e in exprs if _is_of(e, sketch)]
    columns = many.evaluate(known, batch)
    for k in range(draws):
        values = distribution.plain(batch.row(k))
        assert [c[k] for c in columns] == [evaluate(e, {}, values) for e in known], values


@pytest.mark.parametrize(("path", "name"), SCHEDULES)
@pytest.mark.one_in(2)
def test_summaries_as_arrays(path: str, name: str):
    for sketch in library_space(path, name).sketches():
        check_summary(sketch, 60)


@pytest.mark.campaign
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("path", "name"), SCHEDULES)
def test_summaries_of_all_sketches_as_arrays(path: str, name: str):
    for sketch in library_space(path, name).sketches():
        check_summary(sketch, DRAWS)


# ------------------------------------------------------------------ guards and requirements


@pytest.mark.parametrize("name", ["tiled", "helpers", "free", "either"])
def test_samples_as_arrays(name: str):
    assert sum(check(s)[0] for s in islice(space(name).sketches(), 6)) >= 1000


def test_guards_and_requirements_as_arrays():
    sketches = list(body(GUARDED).sketches())
    assert len(sketches) == 4 and all(len(s.guards) == 2 for s in sketches)
    found = [check(s) for s in sketches]
    assert all(invalid > 300 for _, invalid in found) and sum(valid > 50 for valid, _ in found) >= 3


def test_pinned_decisions_as_arrays():
    made = body(GUARDED.replace("let inner ~ perfect_tile(i1, n = 2)", "let inner ~ perfect_tile(i1, n = 2) = [2, 2]"))
    sketch = next(made.sketches())
    assert next(d for d in sketch.decisions if d.address == "inner").given == (2, 2)
    rows = [sketch.batch().draw(400, 3).row(k) for k in range(400)]
    for row in rows:
        kept = distribution.kept(sketch.decisions[2].domain, (2, 2), row)
        assert kept is not None and kept[0] == row["inner"]
    assert {r["inner"] for r in rows} >= {(2, 2), (1, 1), (4, 2)}
    check(sketch)


# ------------------------------------------------------------------ random schedules
PAIRS = 100
"""Random programs with random schedules."""


def drawn_sketch(number: int) -> Sketch | None:
    """The sketch of a random schedule with a requirement and a branch on its decisions; None if it has no decisions."""
    program, rng = drawn_pair(11, number)
    schedule = Schedule(program, seed=number)
    schedule_pair(schedule, rng, Tally())
    sizes = [Size(x) for d in schedule.sketch.decisions for x in _symbols(d.address, schedule)]
    for _ in range(5):
        if sizes:
            a, b, c = (rng.choice(sizes) for _ in range(3))
            _ask(schedule, rng, a, b, c)
    return schedule.sketch if sizes else None


def _symbols(address: str, schedule: Schedule) -> list[Expr]:
    used = (x for e in sizes_of(schedule.parametric) for x in walk_expr(e) if isinstance(x, Symbol))
    return list(dict.fromkeys(x for x in used if x.name == address))


def _ask(schedule: Schedule, rng: random.Random, a: Size, b: Size, c: Size) -> None:
    made = rng.choice([a * b + c, a // b, a % (b + 1), a - b * c, a * a])
    asked = made <= rng.randint(0, 9) if isinstance(made, Size) else made > 3
    try:
        if rng.random() < 0.5:
            schedule.require(asked, "drawn")
        elif schedule.branch(asked):
            schedule.require(b != 7, "seven")
    except (ScheduleError, MsError):
        return


def test_random_schedules_as_arrays():
    sketches = [s for k in range(PAIRS) if (s := drawn_sketch(k)) is not None]
    found = [check(s, sizes=20) for s in sketches]
    assert len(sketches) > PAIRS // 4 and sum(valid for valid, _ in found) > 5000
    assert sum(bool(s.guards) for s in sketches) >= 3 and sum(bool(s.constraints) for s in sketches) >= 5
