"""Indices as digits of one number: quotients and remainders in which as little as possible is divided.

Loops that were fused and split again give indices like `(a * 448 + t * 4 + l) // 2048 % 3`. What the divisor has in
common with a factor can be divided out, by `(x * g + y) // (n * g) = (x + y // g) // n`; here that gives
`(a * 7 + t // 16) // 32 % 3`. Done to all indices of an access, it shows them to be digits of the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from mslang.ir.arith.simplify import simplify
from mslang.ir.expr import ZERO, Binary, Const, Expr
from mslang.ir.nodes import Range
from mslang.ir.visit import map_expr

Terms = list[tuple[int, Expr]]


def as_digits(e: Expr, ranges: Mapping[str, Range]) -> Expr:
    """An equal index in which divisors and factors have nothing in common.

    Args:
        e: the index.
        ranges: what its variables run over.

    Example:
        >>> from mslang.ir.expr import Var
        >>> x = Binary("+", Binary("*", Var("b"), Const(64)), Var("t"))
        >>> as_digits(Binary("//", x, Const(3712)), {"t": Range(ZERO, Const(64)), "b": Range(ZERO, Const(58))})
        Const(value=0, dtype='i64')
    """

    def visit(x: Expr) -> Expr | None:
        match x:
            case Binary(op="//", left=a, right=Const(value=int(n))) if n > 1:
                return _quotient(a, n, ranges)
            case Binary(op="%", left=a, right=Const(value=int(n))) if n > 1:
                return _remainder(a, n, ranges)
        return None

    return simplify(map_expr(e, visit), ranges)


def _quotient(e: Expr, n: int, ranges: Mapping[str, Range]) -> Expr:
    g, multiples, rest = _parted(e, n)
    if g == 1:
        return simplify(Binary("//", e, Const(n)), ranges)
    inner = Binary("+", multiples, _quotient(rest, g, ranges))
    return _quotient(inner, n // g, ranges) if n > g else simplify(inner, ranges)


def _remainder(e: Expr, n: int, ranges: Mapping[str, Range]) -> Expr:
    g, multiples, rest = _parted(e, n)
    if g == 1:
        return simplify(Binary("%", e, Const(n)), ranges)
    low = _remainder(rest, g, ranges)
    if n == g:
        return low
    high = _remainder(Binary("+", multiples, _quotient(rest, g, ranges)), n // g, ranges)
    return Binary("+", Binary("*", high, Const(g)), low)


def _parted(e: Expr, n: int) -> tuple[int, Expr, Expr]:
    """The largest divisor `g` > 1 of `n` that some factors are multiples of: `e = multiples * g + rest`; 1 if none."""
    terms = terms_of(e)
    g = max((gcd(c, n) for c, atom in terms if not isinstance(atom, Const)), default=1)
    if g <= 1:
        return 1, ZERO, e
    multiples = [(c // g, a) for c, a in terms if c % g == 0]
    return g, sum_of(multiples), sum_of([(c, a) for c, a in terms if c % g])


def terms_of(e: Expr) -> Terms:
    """A sum as factors and what they multiply; a constant is a factor of 1."""
    match e:
        case Binary(op="+", left=a, right=b):
            return [*terms_of(a), *terms_of(b)]
        case Binary(op="-", left=a, right=b):
            return [*terms_of(a), *((-c, x) for c, x in terms_of(b))]
        case Binary(op="*", left=a, right=Const(value=int(k))):
            return [(c * k, x) for c, x in terms_of(a)]
        case Const(value=int(k)):
            return [(k, Const(1))] if k else []
    return [(1, e)]


def sum_of(terms: Terms) -> Expr:
    """What factors and what they multiply add up to."""
    total: Expr = ZERO
    for c, x in terms:
        total = Binary("+", total, Binary("*", x, Const(c)))
    return total
