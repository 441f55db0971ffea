"""Indices as digits of one number, put together again.

Loops that were fused and split again give indices that are quotients and remainders of the same number, from which as
much as possible was divided out (`ir/arith/digits.py`). Seen together they tell which number that is, and its value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mslang.ir.arith.digits import sum_of, terms_of
from mslang.ir.arith.linear import Linear, linear
from mslang.ir.expr import ZERO, Binary, Const, Expr, Var
from mslang.ir.program import Range
from mslang.ir.visit import free_vars, map_expr, walk_expr


def as_digits_of_one(indices: Sequence[Expr], ranges: Mapping[str, Range]) -> tuple[Expr, ...]:
    """Equal indices in which all quotients and remainders are of the widest number that is divided in any of them.

    What `as_digits` divides out is put back: with `b * 32 + t` in another index, `b // 9` is `(b * 32 + t) // 288`.
    What was taken out of a quotient too: `(b * 8 + t // 4) % 10` is `(b * 32 + t) // 4 % 10`.

    Args:
        indices: the indices of one access.
        ranges: what their variables run over.
    """
    indices = tuple(map_expr(e, _gathered) for e in indices)
    divided = (x.left for e in indices for x in walk_expr(e) if isinstance(x, Binary) and x.op in ("//", "%"))
    forms = [f for x in divided if (f := linear(x)) is not None]
    widest = max(forms, key=lambda f: len(f.terms), default=None)
    if widest is None or len(widest.terms) < 2:
        return indices
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


def _gathered(x: Expr) -> Expr | None:
    """`(y + z // m) % n` as `(y * m + z) // m % n`."""
    match x:
        case Binary(op="%", left=Binary(op="+" | "-") as left, right=n):
            terms = terms_of(left)
            quotients = [(c, q) for c, q in terms if isinstance(q, Binary) and q.op == "//"]
            match quotients:
                case [(1, Binary(left=z, right=Const(value=int(m))))] if m > 0:
                    rest = [(c * m, y) for c, y in terms if y != quotients[0][1]]
                    return Binary("%", Binary("//", sum_of([*rest, *terms_of(z)]), Const(m)), n)
    return None


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
        digits = [(x, d) for c, x in terms_of(e) if c == 1 and (d := _digit(x)) is not None]
        digits = [(x, d) for x, d in digits if not free_vars(x) <= fixed]
        if len(digits) != 1:
            if free_vars(e) <= fixed:
                continue
            return None
        ((x, (number, place, base)),) = digits
        offset = sum_of([(c, y) for c, y in terms_of(e) if y != x])
        if place in found or not free_vars(offset) <= fixed:
            return None
        numbers.add(number)
        found[place] = (base, Binary("-", value, offset))
    if len(numbers) != 1 or not found:
        return None
    number, place = numbers.pop(), 1
    last = False
    total: Expr = ZERO
    while not last and place in found:
        base, value = found.pop(place)
        total = Binary("+", total, Binary("*", value, Const(place)))
        last = base is None
        place *= base or 1
    # Remainders alone do not tell a number that has further digits.
    form = linear(number)
    whole = last or (form is not None and _within(form, place, ranges))
    return (number, total) if whole and not found else None


def _merged(e: Expr, ranges: Mapping[str, Range], fixed: frozenset[str]) -> Expr:
    """`x % n * g + y` with `0 <= y < g` as `(x * g + y) % (n * g)`, which is one digit."""
    terms = terms_of(e)
    for g, x in terms:
        match x:
            case Binary(op="%", left=a, right=Const(value=int(n))) if g > 1:
                low = [(c, y) for c, y in terms if y != x and not free_vars(y) <= fixed]
                form = linear(sum_of(low))
                if form is not None and _within(form, g, ranges):
                    digit = Binary("%", sum_of([*((c * g, y) for c, y in terms_of(a)), *low]), Const(n * g))
                    return sum_of([(1, digit), *((c, y) for c, y in terms if y != x and (c, y) not in low)])
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
    return sum_of([*((c, Var(v)) for v, c in form.terms.items()), (form.constant, Const(1))])
