"""Indices as digits: the same values, and the number that they are digits of."""

from __future__ import annotations

from itertools import product

import pytest

from mslang.ir.arith import evaluate
from mslang.ir.arith.digits import as_digits
from mslang.ir.expr import ZERO, Binary, Const, Expr, Var
from mslang.ir.program import Range
from mslang.lower.gpu.digits import as_digits_of_one, one_number

SIZES = {"f": 5, "t": 60, "l": 4, "b": 2}
RANGES = {v: Range(ZERO, Const(n)) for v, n in SIZES.items()}


def flat(f: int, t: int, lane: int) -> Expr:
    terms = [Binary("*", Var(v), Const(c)) for v, c in (("f", f), ("t", t), ("l", lane)) if c]
    total = terms[0]
    for x in terms[1:]:
        total = Binary("+", total, x)
    return total


def over(x: Expr, n: int) -> Expr:
    return Binary("//", x, Const(n))


def rem(x: Expr, n: int) -> Expr:
    return Binary("%", x, Const(n))


WHOLE = flat(240, 4, 1)
CASES = {
    "rows": (over(WHOLE, 384), rem(over(WHOLE, 128), 3), rem(over(WHOLE, 16), 8), rem(WHOLE, 16)),
    "reduced": (
        over(flat(5, 0, 0), 8),
        rem(over(WHOLE, 25 * 6), 8),
        rem(WHOLE, 150),
    ),
    "merged": (
        over(WHOLE, 384),
        rem(over(WHOLE, 128), 3),
        rem(over(WHOLE, 16), 8),
        Binary("+", Binary("*", rem(Var("t"), 4), Const(4)), Var("l")),
    ),
    "offset": (
        Binary("+", Binary("*", Var("b"), Const(7)), over(WHOLE, 64)),
        rem(WHOLE, 64),
    ),
    "taken out": (
        over(WHOLE, 400),
        rem(over(WHOLE, 40), 10),
        rem(Binary("+", flat(60, 0, 0), over(flat(0, 4, 1), 4)), 10),
        rem(WHOLE, 4),
    ),
}


def values(e: Expr) -> list[int]:
    points = product(*(range(n) for n in SIZES.values()))
    return [int(evaluate(e, dict(zip(SIZES, p, strict=True)))) for p in points]


@pytest.mark.parametrize("name", CASES)
def test_digits_have_the_values_of_the_indices(name: str) -> None:
    for e, lifted in zip(CASES[name], as_digits_of_one(CASES[name], RANGES), strict=True):
        assert values(as_digits(e, RANGES)) == values(e)
        assert values(lifted) == values(e)


@pytest.mark.parametrize("name", ["rows", "merged", "offset", "taken out"])
def test_digits_determine_the_number(name: str) -> None:
    pairs = [(e, Var(f"@{k}")) for k, e in enumerate(CASES[name])]
    found = one_number(pairs, RANGES, frozenset({"b"}))
    assert found is not None
    number, value = found
    assert values(number) == values(WHOLE)
    points = [dict(zip(SIZES, p, strict=True)) for p in product(*(range(n) for n in SIZES.values()))]
    for point in points[::7]:
        digits = {f"@{k}": int(evaluate(e, point)) for k, e in enumerate(CASES[name])}
        assert evaluate(value, {**point, **digits}) == evaluate(WHOLE, point)


@pytest.mark.parametrize(
    "indices",
    [(over(WHOLE, 384), rem(over(WHOLE, 128), 3), rem(WHOLE, 16)), (over(WHOLE, 16), rem(WHOLE, 32)), (Var("b"),)],
    ids=["a digit is missing", "digits overlap", "no digit"],
)
def test_indices_that_do_not_determine_it(indices: tuple[Expr, ...]) -> None:
    assert one_number([(e, Var(f"@{k}")) for k, e in enumerate(indices)], RANGES, frozenset({"b"})) is None
