"""Expressions to their normal form.

`read` gives the polynomial of an index expression, `simplify_in` the canonical form of any expression; they use each
other: an index may contain a condition, a condition compares indices. The extents of tiles are read along with their
symbols, so that all that is proved about polynomials needs no expression.
"""

from __future__ import annotations

from functools import lru_cache

from mslang.ir.arith.compare import compare, negate
from mslang.ir.arith.data import fits, may_overflow
from mslang.ir.arith.divide import choice, first_factor, merge, quotient, remainder
from mslang.ir.arith.interval import EMPTY, Scope
from mslang.ir.arith.size import Decision, Poly, indeterminate, number, opaque, variable
from mslang.ir.arith.write import write
from mslang.ir.dtype import INDEX
from mslang.ir.expr import (
    COMPARISONS,
    FALSE,
    LOGICAL,
    TRUE,
    Binary,
    Const,
    Domain,
    Expr,
    FreeTile,
    PartitionedTile,
    PerfectTile,
    Select,
    Symbol,
    Unary,
    Var,
    children,
    dtype_of,
    with_children,
)

RING = frozenset({"+", "-", "*", "//", "%", "min", "max"})


def read_size(e: Expr) -> Poly:
    """The normal form of an expression over symbols."""
    return read(e, EMPTY)


@lru_cache(maxsize=65536)
def read(e: Expr, scope: Scope) -> Poly:
    """The normal form of an index expression, using what the scope's ranges prove."""
    match e:
        case Const(value=int(k), dtype="i64"):
            return number(k)
        case Var(name=n, dtype="i64"):
            return variable(n)
        case Symbol():
            return read_symbol(e)
        case Unary(op="-", operand=x) if dtype_of(x) == INDEX:
            return -read(x, scope)
        case Binary(op="//" | "%" | "min" | "max" as op, left=a, right=b) if may_overflow(e) and dtype_of(a) == INDEX:
            return opaque(Binary(op, write(read(a, scope)), write(read(b, scope))))
        case Binary(op=op, left=a, right=b) if op in RING and dtype_of(a) == INDEX:
            return _combine(op, read(a, scope), read(b, scope), scope)
    x = simplify_in(e, scope)
    if isinstance(e, Select) and not isinstance(x, Select):
        return read(x, scope)
    return opaque(x)


def _combine(op: str, a: Poly, b: Poly, scope: Scope) -> Poly:
    match op:
        case "+":
            return merge(a + b)
        case "-":
            return merge(a - b)
        case "*":
            return merge(a * b)
        case "//":
            return merge(quotient(a, b, scope))
        case "%":
            return merge(remainder(a, b, scope))
    return merge(choice(op, a, b, scope))


@lru_cache(maxsize=4096)
def read_symbol(s: Symbol) -> Poly:
    """A symbol; factor 0 of a free tile is the quotient that it is defined by."""
    decision = read_decision(s.name, s.domain)
    if isinstance(s.domain, FreeTile) and s.position == 0:
        return first_factor(decision)
    return indeterminate(decision, s.position)


@lru_cache(maxsize=4096)
def read_decision(name: str, domain: Domain) -> Decision:
    """A decision by its name and domain, with the extent of a tile."""
    match domain:
        case PerfectTile(extent=e) | PartitionedTile(extent=e) | FreeTile(extent=e):
            return Decision(name, domain, read_size(e))
    return Decision(name, domain)


# ------------------------------------------------------------------ expressions that are no polynomials
@lru_cache(maxsize=65536)
def simplify_in(e: Expr, scope: Scope) -> Expr:
    """`simplify` in a scope."""
    match e:
        case Const() | Var():
            return e
        case Symbol():
            return write(read(e, scope))
        case Binary(op=op, left=a) if op in RING and dtype_of(a) == INDEX:
            return write(read(e, scope))
        case Unary(op="-", operand=x) if dtype_of(x) == INDEX:
            return write(read(e, scope))
        case Binary(op=op) if op in LOGICAL:
            return _simplify_logical(e, scope)
        case Binary(op=op, left=a, right=b) if op in COMPARISONS and dtype_of(a) == INDEX:
            if may_overflow(a) or may_overflow(b):
                return _compare_data(op, simplify_in(a, scope), simplify_in(b, scope), scope)
            made = compare(op, merge(read(a, scope) - read(b, scope)), scope)
            return Binary(op, simplify_in(a, scope), simplify_in(b, scope)) if _sides_overflow(made) else made
        case Unary(op="not", operand=x):
            return negate(simplify_in(x, scope))
        case Select(condition=c, then=t, otherwise=o):
            chosen = simplify_in(c, scope)
            if isinstance(chosen, Const):
                return simplify_in(t if chosen.value else o, scope)
    return with_children(e, tuple(simplify_in(x, scope) for x in children(e)))


def _simplify_logical(e: Binary, scope: Scope) -> Expr:
    """`and`/`or` with decided and repeated parts dropped, in the order written."""
    absorbing, neutral = (FALSE, TRUE) if e.op == "and" else (TRUE, FALSE)
    out: Expr | None = None
    for x in dict.fromkeys(simplify_in(x, scope) for x in _parts(e, e.op)):
        for y in _parts(x, e.op):
            if y == absorbing:
                return absorbing
            if y != neutral:
                out = y if out is None else Binary(e.op, out, y)
    return neutral if out is None else out


def _parts(e: Expr, op: str) -> list[Expr]:
    if isinstance(e, Binary) and e.op == op:
        return _parts(e.left, op) + _parts(e.right, op)
    return [e]


def _compare_data(op: str, a: Expr, b: Expr, scope: Scope) -> Expr:
    """A comparison whose sides, simplified, are left as they are where they may overflow."""
    if a == b:
        return Const(op in ("==", "<=", ">="), "bool")
    compared = Binary(op, a, b)
    return compared if may_overflow(a) or may_overflow(b) else simplify_in(compared, scope)


def _sides_overflow(e: Expr) -> bool:
    """Whether a comparison of data was brought to a form whose sides may overflow: `U[0] >= k` to `k < U[0] + 1`."""
    return isinstance(e, Binary) and any(
        may_overflow(x) or (isinstance(x, Const) and not fits(x)) for x in (e.left, e.right)
    )
