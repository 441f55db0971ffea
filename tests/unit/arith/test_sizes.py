"""What symbols prove: normal forms, exact division, rounding up, tables."""

from __future__ import annotations

import pytest

from mslang.ir.arith import (
    Verdict,
    ceildiv,
    decide,
    equal,
    floordiv,
    minimum,
    mul,
    proved,
    simplify,
    size_product,
    substitute_symbols,
)
from mslang.ir.arith.domain import rows
from mslang.ir.expr import (
    Binary,
    Choice,
    Const,
    Domain,
    DynamicRange,
    Expr,
    FreeTile,
    PartitionedTile,
    PerfectTile,
    Symbol,
    Uniform,
    Var,
)
from mslang.ir.program import Range
from mslang.schedule.distribution import enumerate_values

PERFECT = PerfectTile(Const(512), 4, 64)
T = [Symbol("ti", PERFECT, k) for k in range(4)]
FREE = FreeTile(Const(253), 3, 16)
U = [Symbol("tk", FREE, k) for k in range(3)]


def c(op: str, a: Expr, b: Expr) -> Expr:
    return Binary(op, a, b)


def test_the_factors_of_a_perfect_tile_multiply_to_the_extent() -> None:
    assert size_product(T) == Const(512)


def test_division_writes_the_extent_back_as_a_product() -> None:
    assert floordiv(Const(512), mul(T[1], T[2])) == mul(T[0], T[3])
    assert ceildiv(Const(512), size_product(T[1:])) == T[0]


def test_factor_0_of_a_free_tile_is_the_extent_rounded_up() -> None:
    assert ceildiv(Const(253), mul(U[1], U[2])) == U[0]
    assert proved(c(">=", size_product(U), Const(253)))
    assert proved(c("<", c("-", size_product(U), mul(U[1], U[2])), Const(253)))
    assert decide(c("==", size_product(U), Const(253))) is not Verdict.PROVED


def test_a_free_tile_of_a_dynamic_extent_does_not_name_its_inferred_factor() -> None:
    m = Symbol("M", DynamicRange(1, 4096))
    domain = FreeTile(m, 2)
    rounded = ceildiv(m, Symbol("t", domain, 1))
    assert simplify(Symbol("t", domain, 0)) == simplify(rounded)
    assert Symbol("t", domain, 0) not in (simplify(rounded), simplify(Symbol("t", domain, 0)))


def test_an_extent_may_be_a_size_of_other_symbols() -> None:
    inner = PerfectTile(mul(T[2], T[3]), 2)
    a, b = Symbol("s", inner, 0), Symbol("s", inner, 1)
    assert mul(a, b) == mul(T[2], T[3])
    assert proved(c("<=", mul(a, b), Const(512)))
    assert proved(c("<=", a, mul(T[2], T[3])))


def test_tables_settle_what_algebra_does_not() -> None:
    even = PartitionedTile(Const(48), 3, 1, 8)
    p = [Symbol("p", even, k) for k in range(3)]
    assert proved(c("==", c("%", mul(p[1], p[2]), Const(8)), Const(0)))
    assert decide(c("==", c("%", p[2], Const(8)), Const(0))) is Verdict.DEPENDS
    inner = PerfectTile(mul(p[1], p[2]), 2)
    q = [Symbol("q", inner, k) for k in range(2)]
    assert proved(c("!=", mul(c("%", q[0], Const(2)), c("%", q[1], Const(2))), Const(1)))


def test_a_minimum_that_the_symbols_decide_is_gone() -> None:
    assert minimum(mul(T[0], T[1]), Const(512)) == simplify(mul(T[0], T[1]))
    undecided = minimum(T[0], Const(8))
    assert isinstance(undecided, Binary) and undecided.op == "min"


def test_what_depends_is_not_folded() -> None:
    e = c("%", Var("i"), T[3])
    assert simplify(e) == e  # 0 only where ti[3] is 1
    assert decide(c("==", T[3], Const(1))) is Verdict.DEPENDS


def test_substitution_computes_sizes_and_leaves_the_rest() -> None:
    e = c("+", c("*", Var("i"), c("*", T[2], T[3])), c("*", Var("j"), T[1]))
    out = substitute_symbols(e, {"ti": (16, 1, 4, 8)})
    assert out == c("+", c("*", Var("i"), Const(32)), c("*", Var("j"), Const(1)))


@pytest.mark.parametrize(
    "domain",
    [
        PerfectTile(Const(24), 3, 4),
        PerfectTile(Const(7), 1),
        FreeTile(Const(10), 3, 4),
        FreeTile(Const(7), 2),
        PartitionedTile(Const(24), 3, 1, 4),
        PartitionedTile(Const(24), 2, 0, 3),
        Choice((1, 4, 9)),
        Uniform(-2, 3),
    ],
    ids=repr,
)
def test_tables_hold_what_distributions_draw(domain: Domain) -> None:
    drawn = {v if isinstance(v, tuple) else (v,) for v in enumerate_values(domain, {})}
    assert drawn == set(rows(domain) or ())


def test_equality_sees_through_remainders() -> None:
    i = Var("i")
    twice = c("-", c("*", c("//", i, Const(4)), Const(-4)), c("-", Const(0), i))
    assert equal(c("%", i, Const(4)), twice)
    assert not equal(c("%", i, Const(4)), c("//", i, Const(4)))


def test_long_products_are_compared_as_fast_as_short_ones() -> None:
    """Factors that occur together count as one: a product of 15 has 32768 terms in how far each is above 1."""
    tiles = [[Symbol(f"t{n}", PerfectTile(Const(512), 6), k) for k in range(1, 6)] for n in range(3)]
    whole = size_product([x for tile in tiles for x in tile])
    part = size_product([x for tile in tiles for x in tile[:2]])
    assert proved(c("<=", part, whole))
    assert proved(c("<=", mul(part, Const(2)), c("+", whole, part)))
    assert not proved(c("<=", mul(part, Const(2)), whole))
    below = Symbol("b", Uniform(-3, 4))
    assert proved(c("<=", mul(whole, Const(-3)), mul(below, whole)))
    assert not proved(c("<=", part, mul(below, whole)))


def test_a_table_whose_numbers_do_not_fit_in_64_bits_proves_nothing() -> None:
    """`s * s * s` is more than 2**64, so that machine integers gave it another remainder."""
    s = Symbol("s", Uniform(3_000_000, 3_000_900))
    rest = c("%", c("-", mul(mul(s, s), s), s), Const(6))
    assert decide(c("==", rest, Const(0))) is Verdict.UNKNOWN
    assert not proved(c(">=", rest, Const(2)))


def test_sizes_beside_loops_are_proved_by_their_values() -> None:
    t = [Symbol("t", PerfectTile(Const(12), 2), k) for k in range(2)]
    total = c("+", Var("i"), c("+", t[0], t[1]))
    assert proved(c(">=", total, Const(7)), {"i": Range(Const(0), Const(2))})
    assert decide(c(">=", total, Const(8)), {"i": Range(Const(0), Const(2))}) is not Verdict.PROVED


def test_a_quotient_by_a_loop_that_does_not_run_has_no_bounds() -> None:
    e = c("//", c("*", Var("j"), Var("j")), c("*", Const(6), Var("i")))
    ranges = {"i": Range(Const(1), Const(0)), "j": Range(Const(0), Const(2))}
    assert decide(c("<", e, c("%", T[0], Const(-1))), ranges) is not Verdict.DEPENDS
