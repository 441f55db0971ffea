"""Smart constructors of index expressions: constants folded, neutral operands dropped, exact division by what the
symbols prove. Expressions over symbols only come out in canonical form; others keep the form they were given."""

from __future__ import annotations

from collections.abc import Iterable

from mslang.ir.arith.convert import read_size
from mslang.ir.arith.divide import split_multiples
from mslang.ir.arith.scope import names_in
from mslang.ir.arith.write import write
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr, Load
from mslang.ir.visit import walk_expr


def is_size(e: Expr) -> bool:
    """Whether an expression has neither variables nor loads: only numbers and symbols."""
    return not names_in(e) and not any(isinstance(x, Load) for x in walk_expr(e))


def _make(op: str, a: Expr, b: Expr) -> Expr:
    e = Binary(op, a, b)
    return write(read_size(e)) if is_size(e) else e


def add(a: Expr, b: Expr) -> Expr:
    """`a + b`."""
    if a == ZERO or b == ZERO:
        return b if a == ZERO else a
    return _make("+", a, b)


def sub(a: Expr, b: Expr) -> Expr:
    """`a - b`."""
    return a if b == ZERO else ZERO if a == b else _make("-", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    """`a * b`."""
    if ZERO in (a, b):
        return ZERO
    if ONE in (a, b):
        return b if a == ONE else a
    return _make("*", a, b)


def floordiv(a: Expr, b: Expr) -> Expr:
    """`a // b`, rounded down."""
    if b == ONE:
        return a
    if not is_size(a) and is_size(b) and b != ZERO:
        q, r = split_multiples(read_size(a), read_size(b))
        if not r:
            return write(q)
    return _make("//", a, b)


def mod(a: Expr, b: Expr) -> Expr:
    """`a % b`, the remainder of `a // b`."""
    if b == ONE:
        return ZERO
    if not is_size(a) and is_size(b) and b != ZERO and not split_multiples(read_size(a), read_size(b))[1]:
        return ZERO
    return _make("%", a, b)


def ceildiv(a: Expr, b: Expr) -> Expr:
    """`a / b` rounded up, for `b > 0`: `(a + b - 1) // b`."""
    if b == ONE:
        return a
    if isinstance(b, Const):
        return floordiv(add(a, Const(int(b.value) - 1)), b)
    return floordiv(sub(add(a, b), ONE), b)


def minimum(a: Expr, b: Expr) -> Expr:
    """`min(a, b)`."""
    return a if a == b else _make("min", a, b)


def maximum(a: Expr, b: Expr) -> Expr:
    """`max(a, b)`."""
    return a if a == b else _make("max", a, b)


def size_product(xs: Iterable[Expr]) -> Expr:
    """The product of sizes."""
    out: Expr = ONE
    for x in xs:
        out = mul(out, x)
    return out
