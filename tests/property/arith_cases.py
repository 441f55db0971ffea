"""Random index expressions over variables with ranges and symbols with domains, and points to judge them at."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hypothesis import strategies as st
from msgspec.structs import replace

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

PERFECT = PerfectTile(Const(24), 3, 8)
FREE = FreeTile(Const(10), 2, 4)
PART = PartitionedTile(Const(12), 2, 1, 2)
DYNAMIC = DynamicRange(4, 16, 4)
PICK = Choice((1, 2, 8))

SIGNED = Uniform(-2, 3)
NESTED = PerfectTile(Binary("*", Symbol("t", PERFECT, 1), Symbol("t", PERFECT, 2)), 2)

DOMAINS: dict[str, Domain] = {
    "t": PERFECT,
    "u": FREE,
    "p": PART,
    "M": DYNAMIC,
    "c": PICK,
    "w": SIGNED,
    "s": NESTED,
}
SYMBOLS: tuple[Symbol, ...] = (
    *(Symbol("t", PERFECT, k) for k in range(3)),
    *(Symbol("u", FREE, k) for k in range(2)),
    *(Symbol("p", PART, k) for k in range(2)),
    Symbol("M", DYNAMIC),
    Symbol("c", PICK),
    *(Symbol("s", NESTED, k) for k in range(2)),
)
"""Symbols that are sizes, that is positive."""

ANY_SYMBOLS = (*SYMBOLS, Symbol("w", SIGNED))
NAMES = ("i", "j", "k")


class Case(NamedTuple):
    """An expression and what its variables run over."""

    e: Expr
    ranges: Mapping[str, Range]


def op(o: str, a: Expr | int, b: Expr | int) -> Expr:
    return Binary(o, a if isinstance(a, Expr) else Const(a), b if isinstance(b, Expr) else Const(b))


def sizes() -> st.SearchStrategy[Expr]:
    """Positive sizes: numbers, symbols and products of them."""
    one = st.one_of(st.integers(1, 12).map(Const), st.sampled_from(SYMBOLS))
    return st.one_of(one, one, st.tuples(one, one).map(lambda x: op("*", *x)))


def indices(symbolic: bool = True, names: tuple[str, ...] = NAMES) -> st.SearchStrategy[Expr]:
    """Index expressions; divisors are positive sizes."""
    divisors = sizes() if symbolic else st.sampled_from((1, 2, 3, 4, 6, 8, 12)).map(Const)
    leaves: list[st.SearchStrategy[Expr]] = [st.sampled_from(names).map(Var), st.integers(-9, 20).map(Const)]
    if symbolic:
        leaves.append(st.sampled_from(ANY_SYMBOLS))

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.one_of(
            st.builds(op, st.sampled_from(("+", "-", "+")), inner, inner),
            st.builds(op, st.just("*"), inner, divisors),
            st.builds(op, st.sampled_from(("//", "%")), inner, divisors),
            st.builds(op, st.sampled_from(("//", "%")), inner, divisors),
            st.builds(op, st.sampled_from(("min", "max")), inner, inner),
        )

    return st.recursive(st.one_of(*leaves), grow, max_leaves=9)


def all_ranges(symbolic: bool = True) -> st.SearchStrategy[dict[str, Range]]:
    """Ranges for i, j and k; those of k may depend on i."""
    extents = sizes() if symbolic else st.integers(1, 12).map(Const)
    starts = st.sampled_from((0, 0, 0, 1, -2)).map(Const)
    plain = st.builds(Range, starts, extents)
    inner = st.one_of(plain, plain, st.builds(Range, st.just(op("*", Var("i"), 4)), extents))
    return st.fixed_dictionaries({"i": plain, "j": plain, "k": inner})


def cases(symbolic: bool = True) -> st.SearchStrategy[Case]:
    return st.builds(Case, indices(symbolic), all_ranges(symbolic))


def comparisons(symbolic: bool = True) -> st.SearchStrategy[Case]:
    e = st.builds(op, st.sampled_from(("<", "<=", ">", ">=", "==", "!=")), indices(symbolic), indices(symbolic))
    both = st.one_of(e, e, st.builds(op, st.sampled_from(("and", "or")), e, e))
    return st.builds(Case, both, all_ranges(symbolic))


def values_of(name: str, before: Mapping[str, tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """All values of a decision, given those that its extent depends on."""
    from mslang.ir.arith import substitute_symbols

    domain = DOMAINS[name]
    if isinstance(domain, PerfectTile):
        domain = replace(domain, extent=substitute_symbols(domain.extent, before))
    return rows(domain) or ()


def draws(draw: st.DrawFn) -> dict[str, tuple[int, ...]]:
    """A value for every decision."""
    out: dict[str, tuple[int, ...]] = {}
    for n in DOMAINS:
        out[n] = draw(st.sampled_from(values_of(n, out)))
    return out


symbol_values = st.composite(draws)


def points(ranges: Mapping[str, Range], symbols: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, int]]:
    """Every point of the ranges, the one of k after those of i and j."""
    from mslang.ir.arith import evaluate

    def values(n: str, env: Mapping[str, int]) -> range:
        r = ranges[n]
        start = int(evaluate(r.start, env, symbols))
        return range(start, start + int(evaluate(r.extent, env, symbols)))

    for i, j in itertools.product(values("i", {}), values("j", {})):
        for k in values("k", {"i": i, "j": j}):
            yield {"i": i, "j": j, "k": k}


def some_points(
    ranges: Mapping[str, Range], symbols: Mapping[str, tuple[int, ...]], n: int = 60
) -> list[dict[str, int]]:
    """At most about n points, spread over the ranges, the last among them."""
    found = list(itertools.islice(points(ranges, symbols), 20_000))
    step = max(1, len(found) // n)
    return [*found[::step], found[-1]] if found else []
