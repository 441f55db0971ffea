"""Linear forms: what they hold for their expression at every point, and what they decide."""

import random
from itertools import product

import pytest

from mslang.ir.arith import evaluate
from mslang.ir.arith.linear import (
    Form,
    coefficients,
    compare,
    condition,
    decide,
    divide,
    expression,
    interval,
    linear,
    symbolic,
    tidy,
)
from mslang.ir.expr import Binary, Const, Expr, PerfectTile, Symbol, Unary, Var

RANGES = {"i": (0, 3), "j": (-2, 2), "k": (5, 7)}
POINTS = [dict(zip(RANGES, p, strict=True)) for p in product(*(range(lo, hi + 1) for lo, hi in RANGES.values()))]
TILE = PerfectTile(Const(64), 3)
SIZE = Symbol("t", TILE, 1)


def op(o: str, a: Expr | int, b: Expr | int) -> Expr:
    return Binary(o, *(Const(x) if isinstance(x, int) else x for x in (a, b)))


def drawn(rng: random.Random, depth: int = 3) -> Expr:
    """An expression that is linear in i, j and k with integer coefficients."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([Const(rng.randint(-9, 9)), *(Var(n) for n in RANGES)])
    kind = rng.choice("+-*n")
    if kind == "n":
        return Unary("-", drawn(rng, depth - 1))
    if kind == "*":
        sides = [Const(rng.randint(-4, 4)), drawn(rng, depth - 1)]
        rng.shuffle(sides)
        return op("*", *sides)
    return op(kind, drawn(rng, depth - 1), drawn(rng, depth - 1))


@pytest.mark.parametrize("seed", range(60))
def test_a_form_is_its_expression(seed: int):
    rng = random.Random(seed)
    a, b = drawn(rng), drawn(rng)
    form, other = linear(a), linear(b)
    assert form is not None and other is not None and 0 not in form.terms.values()
    bounds = interval(form, RANGES)
    values = [int(evaluate(a, p)) for p in POINTS]
    assert [evaluate(expression(form), p) for p in POINTS] == values
    assert [evaluate(tidy(a), p) for p in POINTS] == values
    assert bounds is not None and bounds[0] <= min(values) and max(values) <= bounds[1]
    for o in ("<", "<=", ">", ">=", "==", "!="):
        truths = {bool(evaluate(op(o, a, b), p)) for p in POINTS}
        told = condition(op(o, a, b))
        assert told is not None
        for known in (decide(told, RANGES), compare(o, form, other, RANGES)):
            assert known is None or truths == {known}
    by = rng.randint(1, 6)
    found = divide(form, by, RANGES)
    if found is not None:
        quotient, rest = (expression(x) for x in found)
        assert [evaluate(quotient, p) for p in POINTS] == [v // by for v in values]
        assert [evaluate(rest, p) for p in POINTS] == [v % by for v in values]


def test_what_is_decided():
    i, j = Form(0, {"i": 1}), Form(3, {"j": 1})
    assert compare("<", i, Form(4, {}), RANGES) is True
    assert compare(">=", i, Form(4, {}), RANGES) is False
    assert compare("<=", i, j, RANGES) is None
    assert compare("!=", i, Form(-1, {}), RANGES) is True
    assert compare("<", Form(0, {"x": 1}), j, RANGES) is None
    assert divide(Form(5, {"i": 8}), 8, RANGES) == (Form(0, {"i": 1}), Form(5, {}))
    assert divide(Form(6, {"i": 1}), 8, RANGES) is None


@pytest.mark.parametrize(
    "e",
    [
        op("*", Var("i"), Var("j")),
        op("//", Var("i"), 2),
        op("min", Var("i"), Var("j")),
        op("*", Var("i"), SIZE),
        Var("x", "i32"),
        Const(1.5, "f32"),
    ],
    ids=repr,
)
def test_what_is_not_linear_in_numbers(e: Expr):
    assert linear(e) is None and tidy(e) == e and condition(op("<", e, 1)) is None


def test_coefficients_hold_sizes_and_other_variables():
    i, j = Var("i"), Var("j")
    e = op("+", op("*", op("+", op("*", i, 4), j), SIZE), op("//", j, 3))
    assert coefficients(e, frozenset({"i"})) == {"i": op("*", SIZE, 4)}
    assert coefficients(op("*", op("-", i, 2), j), frozenset({"i"})) == {"i": j}
    assert coefficients(op("-", i, i), frozenset({"i"})) == {}
    assert coefficients(j, frozenset({"i"})) == {}
    assert coefficients(op("*", i, i), frozenset({"i"})) is None
    assert coefficients(op("//", i, 2), frozenset({"i"})) is None
    whole = op("*", op("*", Symbol("t", TILE, 0), SIZE), Symbol("t", TILE, 2))
    assert coefficients(op("*", i, whole), frozenset({"i"})) == {"i": Const(64)}


@pytest.mark.parametrize("dtype", ["u32", "i32", "f32"])
def test_numbers_of_other_types_have_no_form(dtype: str):
    e = op("-", Const(3, dtype), Const(2, dtype))
    assert symbolic(e, frozenset()) is None
    assert coefficients(op("+", Var("x", dtype), e), frozenset({"x"})) is None
