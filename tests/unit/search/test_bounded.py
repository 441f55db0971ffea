"""Decisions that bounds tie together: exactly the vectors within the bounds have numbers."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

from mslang.ir.expr import Binary, Choice, Const, Expr, PerfectTile, Symbol, Uniform
from mslang.schedule.decisions import Decision
from mslang.schedule.decisions import holds as is_true
from mslang.schedule.rules.automatic import automatic_space
from mslang.search import bounded as bounded_module
from mslang.search.bounds import bounds_of
from mslang.search.leaves import Leaf
from mslang.search.numbering import numbering_of
from mslang.search.strategy import Rejections
from mslang.sema.program import parse_program
from mslang.target.description import SM_80

OF_I, OF_J, LANES = PerfectTile(Const(24), 3), PerfectTile(Const(16), 3), Choice((1, 2, 4))
DECISIONS = (Decision("i", OF_I), Decision("lanes", LANES), Decision("j", OF_J), Decision("free", Uniform(0, 3)))
i = [Symbol("i", OF_I, k) for k in range(3)]
j = [Symbol("j", OF_J, k) for k in range(3)]
lanes, free = Symbol("lanes", LANES), Symbol("free", Uniform(0, 3))


def mul(*factors: Expr) -> Expr:
    out = factors[0]
    for x in factors[1:]:
        out = Binary("*", out, x)
    return out


THREADS = mul(i[1], j[1])
BYTES = Binary("+", mul(i[1], i[2], Const(4)), mul(i[2], j[1], j[2]))
CONDITIONS = {
    "most": (Binary("<=", THREADS, Const(12)),),
    "least": (Binary("<=", Const(4), THREADS),),
    "between": (Binary("<=", Const(4), THREADS), Binary("<", THREADS, Const(13))),
    "sum": (Binary("<=", BYTES, Const(64)),),
    "margins": (Binary("<=", mul(Binary("+", mul(i[1], i[2]), Const(2)), Binary("+", j[1], Const(1))), Const(40)),),
    "sum at least": (Binary("<=", Const(40), BYTES),),
    "multiple": (Binary("==", Binary("%", mul(j[1], j[2]), lanes), Const(0)),),
    "multiple of a product": (Binary("==", Binary("%", mul(i[1], Const(2)), mul(lanes, Const(3))), Const(0)),),
    "all": (
        Binary("<=", Const(4), THREADS),
        Binary("<=", THREADS, Const(12)),
        Binary("<=", BYTES, Const(64)),
        Binary("==", Binary("%", mul(j[1], j[2]), lanes), Const(0)),
    ),
    "none": (Binary("<=", Const(1000), THREADS),),
}


def holds(condition: Expr, row: tuple[int, ...]) -> bool:
    return is_true(condition, {"i": row[:3], "lanes": row[3], "j": row[4:7], "free": row[7]})


def every() -> list[tuple[int, ...]]:
    rows = numbering_of(DECISIONS)
    assert rows is not None
    return [tuple(r) for r in rows.rows(np.arange(rows.count)).array.tolist()]


@pytest.mark.parametrize("name", CONDITIONS)
def test_the_vectors_within_the_bounds_have_one_number_each(name: str) -> None:
    conditions = CONDITIONS[name]
    bounds = bounds_of(conditions)
    assert len(bounds) == len(conditions)
    found = numbering_of(DECISIONS, bounds)
    assert found is not None
    assert found.strata is not None and len(found.strata) <= 1
    rows = [tuple(r) for r in found.rows(np.arange(found.count)).array.tolist()]
    wanted = [r for r in every() if all(holds(c, r) for c in conditions)]
    assert sorted(rows) == sorted(wanted)


def test_of_a_factor_of_several_decisions_the_part_of_one_bounds_the_product() -> None:
    """The rows that a tile reads through a window: the check of the whole condition rejects the rest."""
    condition = Binary("<=", mul(Binary("-", Binary("+", i[1], j[1]), Const(1)), lanes), Const(12))
    found = numbering_of(DECISIONS, bounds_of([condition]))
    assert found is not None
    rows = {tuple(r) for r in found.rows(np.arange(found.count)).array.tolist()}
    wanted = {r for r in every() if holds(condition, r)}
    assert wanted < rows < set(every())


@pytest.mark.parametrize(("most", "divisors"), [(100, 1), (255, 1), (30, 2)])
def test_of_many_divisors_no_vector_is_lost(most: int, divisors: int) -> None:
    """The least common multiple of the numbers up to 50 is above 2**63."""
    domain = Uniform(1, most + 1)
    names = ["x", "y", "z"][: divisors + 1]
    x, *others = (Symbol(name, domain) for name in names)
    condition = Binary("==", Binary("%", x, mul(*others)), Const(0))
    found = numbering_of([Decision(name, domain) for name in names], bounds_of([condition]))
    assert found is not None
    rows = found.rows(np.arange(found.count)).array
    values = range(1, most + 1)
    wanted = {r for r in product(*([values] * (divisors + 1))) if r[0] % prod(r[1:]) == 0}
    assert wanted <= {tuple(r) for r in rows.tolist()}
    if divisors == 1:
        assert found.count == len(wanted)


def test_conditions_of_other_forms_are_no_bounds() -> None:
    others = (
        Binary("<=", mul(i[1], free), Const(4)),  # may be 0: nothing can be said of a product before it is whole
        Binary("<=", i[1], j[1]),
        Binary("<=", Binary("min", i[1], j[1]), Const(4)),
        Binary("==", i[1], Const(4)),
    )
    assert bounds_of(others) == ()


def test_bounds_that_would_make_too_large_tables_are_left_to_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    conditions = CONDITIONS["all"]
    monkeypatch.setattr(bounded_module, "MOST", 60)
    found = numbering_of(DECISIONS, bounds_of(conditions))
    whole, exact = numbering_of(DECISIONS), [r for r in every() if all(holds(c, r) for c in conditions)]
    assert found is not None and whole is not None
    assert len(exact) < found.count <= whole.count


def test_bounds_of_different_decisions_are_counted_apart() -> None:
    twice = [Decision(f"{d.address}{k}", d.domain) for k in (1, 2) for d in DECISIONS]
    two = [Binary("<=", mul(Symbol(f"i{k}", OF_I, 1), Symbol(f"j{k}", OF_J, 1)), Const(12)) for k in (1, 2)]
    found, one = numbering_of(twice, bounds_of(two)), numbering_of(DECISIONS, bounds_of(CONDITIONS["most"]))
    assert found is not None and one is not None
    assert found.count == one.count**2


PRODUCTS = {
    "f32": "program gemm(A: f32[512, 512], B: f32[512, 512], out C: f32[512, 512]) {"
    " block mm[i: 512, j: 512 | k: 512] { C[i, j] += A[i, k] * B[k, j] } }",
    "f16": "program gemm(A: f16[512, 512], B: f16[512, 512], out C: f32[512, 512]) {"
    " block mm[i: 512, j: 512 | k: 512] { C[i, j] += f32(A[i, k]) * f32(B[k, j]) } }",
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_most_draws_of_a_product_on_a_gpu_are_valid(name: str) -> None:
    for sketch in automatic_space(parse_program(PRODUCTS[name]), SM_80).sketches():
        rejections = Rejections()
        drawn = Leaf(0, sketch, SM_80, 1, rejections).draw(2000)
        rejected = sum(rejections.constraint.values())
        assert len(drawn) == 2000
        assert rejected <= 0.05 * (rejected + 2000), rejections.constraint


def test_every_combination_is_looked_at() -> None:
    """The brute force of these tests is the product of the domains."""
    tiles = [[t for t in product(range(1, 25), repeat=3) if t[0] * t[1] * t[2] == n] for n in (24, 16)]
    assert len(every()) == len(tiles[0]) * len(tiles[1]) * 3 * 3
