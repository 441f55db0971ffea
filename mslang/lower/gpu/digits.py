"""Indices as digits of one number: quotients and remainders in which as little as possible is divided.

Loops that were fused and split again give indices like `(a * 448 + t * 4 + l) // 2048 % 3`. What the divisor has in
common with a factor can be divided out, by `(x * g + y) // (n * g) = (x + y // g) // n`; here that gives
`(a * 7 + t // 16) // 32 % 3`. Done to all indices of an access, it shows them to be digits of the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

from mslang.ir import arith
from mslang.ir.arith.linear import Linear, linear
from mslang.ir.expr import ZERO, Binary, Const, Expr, Var
from mslang.ir.program import Range
from mslang.ir.visit import free_vars, map_expr, walk_expr

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

    return arith.simplify(map_expr(e, visit), ranges)


def _quotient(e: Expr, n: int, ranges: Mapping[str, Range]) -> Expr:
    g, multiples, rest = _parted(e, n)
    if g == 1:
        return arith.simplify(Binary("//", e, Const(n)), ranges)
    inner = Binary("+", multiples, _quotient(rest, g, ranges))
    return _quotient(inner, n // g, ranges) if n > g else arith.simplify(inner, ranges)


def _remainder(e: Expr, n: int, ranges: Mapping[str, Range]) -> Expr:
    g, multiples, rest = _parted(e, n)
    if g == 1:
        return arith.simplify(Binary("%", e, Const(n)), ranges)
    low = _remainder(rest, g, ranges)
    if n == g:
        return low
    high = _remainder(Binary("+", multiples, _quotient(rest, g, ranges)), n // g, ranges)
    return Binary("+", Binary("*", high, Const(g)), low)


def _parted(e: Expr, n: int) -> tuple[int, Expr, Expr]:
    """The largest divisor `g` > 1 of `n` that some factors are multiples of: `e = multiples * g + rest`; 1 if none."""
    terms = _terms(e)
    g = max((gcd(c, n) for c, atom in terms if not isinstance(atom, Const)), default=1)
    if g <= 1:
        return 1, ZERO, e
    multiples = [(c // g, a) for c, a in terms if c % g == 0]
    return g, _sum(multiples), _sum([(c, a) for c, a in terms if c % g])


def _terms(e: Expr) -> Terms:
    """A sum as factors and what they multiply; a constant is a factor of 1."""
    match e:
        case Binary(op="+", left=a, right=b):
            return [*_terms(a), *_terms(b)]
        case Binary(op="*", left=a, right=Const(value=int(k))):
            return [(c * k, x) for c, x in _terms(a)]
        case Const(value=int(k)):
            return [(k, Const(1))] if k else []
    return [(1, e)]


def _sum(terms: Terms) -> Expr:
    total: Expr = ZERO
    for c, x in terms:
        total = Binary("+", total, Binary("*", x, Const(c)))
    return total


def as_digits_of_one(indices: Sequence[Expr], ranges: Mapping[str, Range]) -> tuple[Expr, ...]:
    """Equal indices in which all quotients and remainders are of the widest number that is divided in any of them.

    What `as_digits` divides out is put back: with `b * 32 + t` in another index, `b // 9` is `(b * 32 + t) // 288`.

    Args:
        indices: the indices of one access.
        ranges: what their variables run over.
    """
    divided = (x.left for e in indices for x in walk_expr(e) if isinstance(x, Binary) and x.op in ("//", "%"))
    forms = [f for x in divided if (f := linear(x)) is not None]
    widest = max(forms, key=lambda f: len(f.terms), default=None)
    if widest is None or len(widest.terms) < 2:
        return tuple(indices)
    whole = _written(widest)

    def visit(x: Expr) -> Expr | None:
        match x:
            case Binary(op=("//" | "%") as op, left=a, right=Const(value=int(n))) if n > 1:
                form = linear(a)
                if form == widest:
                    return Binary(op, whole, Const(n))
                return None if form is None else _of_whole(op, form, n)
        return None

    def _of_whole(op: str, form: Linear, n: int) -> Expr | None:
        g = _scale(form, widest)
        if g is not None and _within(_difference(widest, form, g), g, ranges):
            lifted = Binary("//", whole, Const(n * g)) if op == "//" else Binary("//", whole, Const(g))
            return lifted if op == "//" else Binary("%", lifted, Const(n))
        rest = _difference(widest, form, 1)
        if op == "%" and rest.constant % n == 0 and all(c % n == 0 for c in rest.terms.values()):
            return Binary("%", whole, Const(n))
        return None

    return tuple(map_expr(e, visit) for e in indices)


def one_number(
    pairs: Sequence[tuple[Expr, Expr]], ranges: Mapping[str, Range], fixed: frozenset[str]
) -> tuple[Expr, Expr] | None:
    """The number of which some indices are all digits, and its value in terms of theirs; None if they are not.

    Args:
        pairs: indices and their values.
        ranges: what the variables of the indices run over.
        fixed: variables that may occur in what is added to a digit.
    """
    lifted = as_digits_of_one([_merged(e, ranges, fixed) for e, _ in pairs], ranges)
    found: dict[int, tuple[int | None, Expr]] = {}
    numbers: set[Expr] = set()
    for e, (_, value) in zip(lifted, pairs, strict=True):
        digits = [(x, d) for c, x in _terms(e) if c == 1 and (d := _digit(x)) is not None]
        digits = [(x, d) for x, d in digits if not free_vars(x) <= fixed]
        if len(digits) != 1:
            if free_vars(e) <= fixed:
                continue
            return None
        ((x, (number, place, base)),) = digits
        offset = _sum([(c, y) for c, y in _terms(e) if y != x])
        if place in found or not free_vars(offset) <= fixed:
            return None
        numbers.add(number)
        found[place] = (base, Binary("-", value, offset))
    if len(numbers) != 1 or not found:
        return None
    place = 1
    total: Expr = ZERO
    while place in found:
        base, value = found.pop(place)
        total = Binary("+", total, Binary("*", value, Const(place)))
        if base is None:
            break
        place *= base
    return None if found else (numbers.pop(), total)


def _merged(e: Expr, ranges: Mapping[str, Range], fixed: frozenset[str]) -> Expr:
    """`x % n * g + y` with `0 <= y < g` as `(x * g + y) % (n * g)`, which is one digit."""
    terms = _terms(e)
    for g, x in terms:
        match x:
            case Binary(op="%", left=a, right=Const(value=int(n))) if g > 1:
                low = [(c, y) for c, y in terms if y != x and not free_vars(y) <= fixed]
                form = linear(_sum(low))
                if form is not None and _within(form, g, ranges):
                    digit = Binary("%", _sum([*((c * g, y) for c, y in _terms(a)), *low]), Const(n * g))
                    return _sum([(1, digit), *((c, y) for c, y in terms if y != x and (c, y) not in low)])
    return e


def _digit(e: Expr) -> tuple[Expr, int, int | None] | None:
    """The number of which an expression is a digit, the digit's place value, and its base; no base: all above."""
    match e:
        case Binary(op="%", left=Binary(op="//", left=x, right=Const(value=int(n))), right=Const(value=int(m))):
            return x, n, m
        case Binary(op="%", left=x, right=Const(value=int(m))):
            return x, 1, m
        case Binary(op="//", left=x, right=Const(value=int(n))):
            return x, n, None
    return None


def _scale(form: Linear, widest: Linear) -> int | None:
    """How many times the first variable of a form the widest number has of it, if that is a whole number > 1."""
    name, c = next(iter(form.terms.items()), ("", 0))
    found = widest.terms.get(name, 0)
    return found // c if c and found % c == 0 and found // c > 1 else None


def _difference(a: Linear, b: Linear, times: int) -> Linear:
    """`a - times * b`."""
    terms = {v: a.terms.get(v, 0) - times * b.terms.get(v, 0) for v in (*a.terms, *b.terms)}
    return Linear(a.constant - times * b.constant, {v: c for v, c in terms.items() if c})


def _within(form: Linear, most: int, ranges: Mapping[str, Range]) -> bool:
    """Whether a number is at least 0 and less than `most`."""
    low = high = form.constant
    for v, c in form.terms.items():
        r = ranges.get(v)
        if r is None or not isinstance(r.start, Const) or not isinstance(r.extent, Const):
            return False
        ends = (c * int(r.start.value), c * (int(r.start.value) + int(r.extent.value) - 1))
        low, high = low + min(ends), high + max(ends)
    return low >= 0 and high < most


def _written(form: Linear) -> Expr:
    return _sum([*((c, Var(v)) for v, c in form.terms.items()), (form.constant, Const(1))])
