"""Bounds by trying all values: they hold what is computed, rounded or not; what may overflow is not known."""

from __future__ import annotations

import pytest

from mslang.backend.reference import interpret
from mslang.ir.expr import Const, Var
from mslang.ir.program import Range, Store
from mslang.ir.visit import walk
from mslang.sema.program import parse_program
from mslang.transform.analysis.bounds_by_enumeration import MOST, inside

INDICES = [
    "i64(floor(f32(i) * 0.7 + 0.25))",
    "i64(ceil(f32(i) / f32(1.0)))",
    "i64(round(f16(i) * f16(0.3)))",
    "max(i64(f64(i) * f64(-1.5)) + 40, 3)",
    "min(i * 3 // 2, 20) - i % 4",
    "select(i < 5, i, i + 0)",
    "i64(i32(i) * i32(7)) % 50",
    "i64(bf16(i) * bf16(1.1))",
]


@pytest.mark.parametrize("index", INDICES)
def test_the_values_are_between_what_is_found(index: str) -> None:
    n = 24
    p = parse_program(f"program p(out B: i64[{n}]) {{ for i in {n} {{ block b[i: {n} = i] {{ B[i] = {index} }} }} }}")
    values = interpret.run(p, {})["B"]
    store = next(s for s in walk(p.body) if isinstance(s, Store))
    ranges = {"i": Range(Const(0), Const(n))}
    low, high = int(values.min()), int(values.max())
    if inside(store.value, Const(low - 1), Const(high + 2), ranges):
        assert not inside(store.value, Const(low + 1), Const(high + 1), ranges)
        assert not inside(store.value, Const(low), Const(high), ranges)
    else:
        assert "/" in index and "//" not in index, "a division of floats is not tried"


def test_too_many_values_are_not_tried() -> None:
    i, wide = Var("i"), {"i": Range(Const(0), Const(MOST + 1))}
    assert not inside(i, Const(0), Const(MOST + 1), wide)
    assert inside(i, Const(0), Const(MOST), {"i": Range(Const(0), Const(MOST))})
    assert not inside(i, Const(0), Const(9), {})
