"""Indices of a box that is fused, split again and guarded, as cooperative copies have them, judged by going through all
points: what is said to be one to one is, and what plainly is so is said to be."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mslang.ir import arith
from mslang.ir.arith import evaluate
from mslang.ir.expr import TRUE, ZERO, Binary, Const, Expr, Var
from mslang.ir.program import Range
from mslang.transform.analysis.predicated_indices import detect
from tests.property.arith_cases import op

Box = tuple[int, ...]


def fused_again(box: Box, factors: Box) -> tuple[list[Expr], dict[str, Range], Expr]:
    """The indices of a box whose one loop is split by factors, rounded up: with the loops and the guard."""
    outer = -(-prod(box) // prod(factors))
    extents = (outer, *factors)
    loops = {f"i{k}": Range(ZERO, Const(n)) for k, n in enumerate(extents)}
    total: Expr = ZERO
    for k, n in enumerate(extents):
        total = arith.add(arith.mul(total, Const(n)), Var(f"i{k}"))
    indices = [
        arith.simplify(arith.mod(arith.floordiv(total, Const(prod(box[k + 1 :]))), Const(n)), loops)
        for k, n in enumerate(box)
    ]
    return indices, loops, arith.simplify(Binary("<", total, Const(prod(box))), loops)


boxes = st.lists(st.sampled_from((1, 2, 3, 3, 4, 5, 6, 8)), min_size=1, max_size=3).map(tuple)
tiles = st.lists(st.sampled_from((1, 2, 3, 4, 5)), min_size=1, max_size=2).map(tuple)


@settings(max_examples=120, deadline=None)
@given(boxes, tiles, st.integers(0, 3), st.booleans())
def test_what_is_one_to_one_is_said_to_be(box: Box, factors: Box, offset: int, moved: bool) -> None:
    assume(prod(box) >= prod(factors))
    indices, loops, guard = fused_again(box, factors)
    if moved:
        indices[0] = arith.simplify(arith.add(indices[0], op("*", Var("outside"), offset)), loops)
    found = detect(indices, loops, guard)
    assert isinstance(found, arith.IterMap) and found.level != "affine"


@pytest.mark.parametrize(
    ("box", "factors"),
    [
        pytest.param((2, 5, 2), (1, 5), id="a loop of one iteration in a digit of a fused loop"),
        pytest.param((5, 6, 5), (2,), id="digits of one number, each divided by something else"),
        pytest.param((3, 2, 6), (4,), id="digits of one number, all divided alike"),
        pytest.param((3, 5, 3), (4,), id="a guard on the last tile"),
    ],
)
def test_a_box_fused_and_split_is_filled_again(box: Box, factors: Box) -> None:
    found = detect(*fused_again(box, factors))
    assert isinstance(found, arith.IterMap) and found.level == "bijective"


@settings(max_examples=200, deadline=None)
@given(boxes, tiles, st.sampled_from(("none", "dropped", "divided", "wrapped")), st.integers(0, 2), st.integers(0, 5))
def test_what_is_said_to_be_one_to_one_is(box: Box, factors: Box, fault: str, at: int, less: int) -> None:
    indices, loops, guard = fused_again(box, factors)
    k = at % len(indices)
    match fault:
        case "dropped":
            indices[k] = ZERO
        case "divided":
            indices[k] = arith.simplify(arith.floordiv(indices[k], Const(2)), loops)
        case "wrapped":
            indices[k] = arith.simplify(arith.mod(indices[k], Const(3)), loops)
    if guard != TRUE and less:
        assert isinstance(guard, Binary) and isinstance(guard.right, Const)
        guard = Binary(guard.op, guard.left, Const(max(1, int(guard.right.value) - less)))
    _check(indices, loops, guard)


@st.composite
def numbers_of(draw: st.DrawFn, loops: dict[str, Range]) -> Expr:
    """A sum of loops, often one fused loop, and a digit of it."""
    total: Expr = ZERO
    scale = 1
    for v in draw(st.permutations(sorted(loops)))[: draw(st.integers(1, len(loops)))]:
        total = arith.add(total, arith.mul(Var(v), Const(scale)))
        scale = draw(st.sampled_from((scale * int(evaluate(loops[v].extent, {})),) * 3 + (1, 2, 3)))
    total = arith.floordiv(total, Const(draw(st.sampled_from((1, 1, 2, 3, 4)))))
    return draw(st.sampled_from((total, arith.mod(total, Const(draw(st.integers(2, 6)))))))


@st.composite
def any_map(draw: st.DrawFn) -> tuple[list[Expr], dict[str, Range], Expr]:
    """Sums of digits of a few loops, some under a guard."""
    extents = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    loops = {f"i{k}": Range(ZERO, Const(n)) for k, n in enumerate(extents)}
    indices = [
        arith.simplify(arith.add(a, arith.mul(b, Const(draw(st.integers(0, 4))))), loops)
        for a, b in draw(st.lists(st.tuples(numbers_of(loops), numbers_of(loops)), min_size=1, max_size=3))
    ]
    guard = Binary("<", draw(numbers_of(loops)), Const(draw(st.integers(1, 12))))
    return indices, loops, draw(st.sampled_from((TRUE, arith.simplify(guard, loops))))


@settings(max_examples=250, deadline=None)
@given(any_map())
def test_any_map_said_to_be_one_to_one_is(drawn: tuple[list[Expr], dict[str, Range], Expr]) -> None:
    _check(*drawn)


def _check(indices: list[Expr], loops: dict[str, Range], guard: Expr) -> None:
    found = detect(indices, loops, guard)
    if not isinstance(found, arith.IterMap) or found.level == "affine":
        return
    images = [tuple(int(evaluate(e, at)) for e in indices) for at in _points(loops) if evaluate(guard, at)]
    assert len(set(images)) == len(images)
    if found.level == "bijective":
        assert len(images) == prod(int(evaluate(n, {})) for n in found.extents)
        for n, (start, extent) in enumerate(zip(found.starts, found.extents, strict=True)):
            low = int(evaluate(start, {}))
            assert {image[n] for image in images} == set(range(low, low + int(evaluate(extent, {}))))


def _points(loops: dict[str, Range]) -> list[dict[str, int]]:
    counts = [range(int(evaluate(r.extent, {}))) for r in loops.values()]
    return [dict(zip(loops, values, strict=True)) for values in product(*counts)]
