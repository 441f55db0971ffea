"""Digits of one number, from each of which something else was divided out: still the whole number.

Loops fused, then split for threads and lanes, give such indices, as cooperative copies into shared memory have them.
"""

from __future__ import annotations

from itertools import product

import pytest

from mslang.ir.arith import IterMap, detect, evaluate
from mslang.ir.expr import ZERO, Binary, Choice, Const, Expr, Symbol, Var
from mslang.ir.program import Range

F0, F1, F2 = (Var(f"f{k}") for k in range(3))


def op(o: str, a: Expr, b: Expr | int) -> Expr:
    return Binary(o, a, b if isinstance(b, Expr) else Const(b))


def digit(number: Expr, lower: int, extent: int | None = None) -> Expr:
    quotient = op("//", number, lower) if lower > 1 else number
    return quotient if extent is None else op("%", quotient, extent)


def sum_of(*terms: tuple[Expr, int]) -> Expr:
    total: Expr = ZERO
    for e, scale in terms:
        total = op("+", total, op("*", e, scale))
    return total


def level(bindings: list[Expr], extents: tuple[int, ...]) -> str:
    found = detect(bindings, {f"f{k}": Range(ZERO, Const(n)) for k, n in enumerate(extents)})
    return found.level if isinstance(found, IterMap) else found.reason


def values(bindings: list[Expr], extents: tuple[int, ...]) -> list[tuple[object, ...]]:
    points = product(*(range(n) for n in extents))
    return [tuple(evaluate(e, {f"f{k}": v for k, v in enumerate(p)}) for e in bindings) for p in points]


CASES = {
    "a unit loop above": ([(F0, 256), (F1, 1)], (1, 256), (20, 4, 5)),
    "a divisor that shares a factor": ([(F0, 32), (F1, 1)], (7, 32), (112, 16, 7)),
    "threads and lanes": ([(F0, 96), (F1, 3), (F2, 1)], (63, 32, 3), (336, 48, 7)),
}


@pytest.mark.parametrize("terms, extents, split", CASES.values(), ids=CASES)
def test_all_digits_tell_the_number(terms: list[tuple[Expr, int]], extents: tuple[int, ...], split: tuple[int, ...]):
    high, low, base = split
    bindings = [digit(sum_of(*terms), high), digit(sum_of(*terms), low, base), digit(sum_of(*terms), 1, low)]
    assert level(bindings, extents) in ("injective", "bijective")
    found = values(bindings, extents)
    assert len(set(found)) == len(found)


def test_what_is_divided_out_before():
    # x = f0 * 96 + f1 * 3 + f2 in digits of base 16, 3, 7, as they are after simplification.
    low = sum_of((F1, 3), (F2, 1))
    top = sum_of((F0, 2), (digit(F1, 16), 1))
    bindings = [digit(top, 7), digit(top, 1, 7), digit(low, 16, 3), digit(low, 1, 16)]
    assert level(bindings, (63, 32, 3)) == "injective"
    found = values(bindings, (63, 32, 3))
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("left_out", range(4))
def test_a_digit_that_is_missing(left_out: int):
    low = sum_of((F1, 3), (F2, 1))
    top = sum_of((F0, 2), (digit(F1, 16), 1))
    bindings = [digit(top, 7), digit(top, 1, 7), digit(low, 16, 3), digit(low, 1, 16)]
    del bindings[left_out]
    assert level(bindings, (63, 32, 3)) == "affine"


def test_part_of_the_largest_term_is_not_all_of_it():
    # f1 // 8 % 2 leaves out f1 // 16, so that 3 * f1 + f2 is not known.
    low = sum_of((F1, 3), (F2, 1))
    bindings = [F0, digit(F1, 8, 2), digit(low, 1, 24)]
    assert level(bindings, (5, 32, 3)) == "affine"
    found = values(bindings, (5, 32, 3))
    assert len(set(found)) < len(found)


def test_where_a_loop_starts_may_depend_on_one_that_does_not_start_at_0():
    """`m` is 1, 2 and `n` is 0, 1 or 1, 2: 2 is taken twice, and 0 not at all. And `n` is from 3 on, not from 0."""
    m, n = Var("m"), Var("n")
    ranges = {"m": Range(Const(1), Const(2)), "n": Range(op("//", m, 2), Const(2))}
    twice = detect([op("+", op("-", n, op("*", m, 2)), 4)], ranges)
    assert not isinstance(twice, IterMap) or twice.level == "affine"
    in_turn = detect([n], {"m": Range(Const(1), Const(4)), "n": Range(op("*", m, 3), Const(3))})
    assert isinstance(in_turn, IterMap)
    assert (in_turn.level, in_turn.starts, in_turn.extents) == ("bijective", (Const(3),), (Const(12),))


@pytest.mark.parametrize("rows, whole", [((4, 8, 16), True), ((4, 8, 9), False)])
def test_digits_may_be_whole_for_all_values_of_decisions(rows: tuple[int, ...], whole: bool):
    """Rows of 64 elements of a tile of keys, copied by `r` warps that take `k` elements a thread: 9 warps copy half
    a row more than a tile has."""
    r, k, keys = Symbol("r", Choice(rows)), Symbol("k", Choice((1, 2, 4))), Symbol("keys", Choice((32, 64, 128)))
    threads, tile = op("*", r, k), op("*", op("//", op("+", keys, 31), 32), 64)
    count = op("//", op("-", op("+", threads, tile), 1), threads)
    inner = op("+", op("*", F2, k), Var("f3"))
    fused = op("+", op("*", F0, op("*", threads, 32)), op("+", op("*", F1, op("*", k, 32)), inner))
    ranges = {"f0": Range(ZERO, count), "f1": Range(ZERO, r), "f2": Range(ZERO, Const(32)), "f3": Range(ZERO, k)}
    told = detect([op("//", fused, 64), op("%", fused, 64)], ranges)
    assert (isinstance(told, IterMap) and told.level == "bijective") is whole
