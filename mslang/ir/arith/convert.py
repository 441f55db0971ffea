"""Expressions to polynomials and back.

`read` brings an index expression to its normal form; `write` renders a polynomial as a readable expression: larger
strides first, names in natural order, sizes after variables, constants last, subtraction instead of negative terms.
"""

from __future__ import annotations

from functools import lru_cache

from mslang.ir.arith.data import may_overflow
from mslang.ir.arith.divide import choice, merge, quotient, remainder
from mslang.ir.arith.domain import is_dynamic
from mslang.ir.arith.interval import EMPTY, Scope
from mslang.ir.arith.size import (
    Factor,
    Mono,
    Poly,
    collect,
    indeterminate,
    natural,
    number,
    opaque,
    product,
    symbol_factor,
    variable,
)
from mslang.ir.dtype import INDEX
from mslang.ir.expr import (
    Binary,
    Const,
    Expr,
    FreeTile,
    Select,
    Symbol,
    Unary,
    Var,
    dtype_of,
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
    from mslang.ir.arith.simplify import simplify_in  # operands of other nodes are simplified in their turn

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
    d = s.domain
    if isinstance(d, FreeTile) and s.position == 0:
        others = product(indeterminate(Symbol(s.name, d, k)) for k in range(1, d.n))
        return quotient(read_size(d.extent) - 1, others) + 1
    return indeterminate(s)


# ------------------------------------------------------------------ writing
def write(p: Poly) -> Expr:
    """A polynomial as an expression; equal polynomials give equal expressions."""
    return _write(p)


@lru_cache(maxsize=65536)
def _write(p: Poly) -> Expr:
    k = p.constant
    if k is not None:
        return Const(k)
    p = _unfold_free_tiles(p)
    parts = collect(p)
    rest = parts.pop((), number(0))
    ordered = sorted(parts.items(), key=lambda t: rank(*t))
    terms = [_signed_term(v, c) for v, c in ordered] + _size_terms(rest)
    first = next((k for k, (plus, _) in enumerate(terms) if plus), 0)
    plus, out = terms.pop(first)
    out = out if plus else Unary("-", out)
    for plus, x in terms:
        out = Binary("+" if plus else "-", out, x)
    return out


def rank(v: Mono, c: Poly) -> tuple[int, int, str]:
    """Larger strides first, then names."""
    degree = max((len(m) for m in c.terms), default=0)
    top = max(abs(k) for m, k in c.terms.items() if len(m) == degree)
    return -degree, -top, "*".join(f.key for f in v)


def _signed_term(v: Mono, c: Poly) -> tuple[bool, Expr]:
    """A product of variables and atoms times a size: whether it is added, and its absolute value."""
    k = c.constant
    plus = k > 0 if k is not None else any(x > 0 for x in c.terms.values())
    out = write_product(v)
    c = c if plus else -c
    return plus, out if c.constant == 1 else Binary("*", out, write(c))


def write_product(m: Mono) -> Expr:
    """The product of factors."""
    out: Expr | None = None
    for f in m:
        x = write_factor(f)
        out = x if out is None else Binary("*", out, x)
    return Const(1) if out is None else out


def write_factor(f: Factor) -> Expr:
    """One factor."""
    if f.expr is not None:
        return f.expr
    xs = [write(a) for a in f.args]
    out = xs[0]
    for x in xs[1:]:
        out = Binary(f.op, out, x)
    return out


def _size_terms(p: Poly) -> list[tuple[bool, Expr]]:
    """The terms of a size: higher degree first, the constant last; `x // d + 1` is written as `(x + d) // d`."""
    out: list[tuple[bool, Expr]] = []
    for f in _ceilings(p):
        scale = Poly({tuple(g for g in m if g is not f): c for m, c in p.terms.items() if f in m})
        if not scale or any(p.terms.get(m) != c for m, c in scale.terms.items()):
            continue
        x, d = f.args
        p = p - scale * Poly({(f,): 1}) - scale
        up = Binary("//", write(x + d), write(d))
        out.append(_scaled_size(up, scale))
    for m, c in sorted(p.terms.items(), key=lambda t: (-len(t[0]), tuple(natural(f.key) for f in t[0]))):
        if not m:
            out.append((c > 0, Const(abs(c))))
        else:
            term = write_product(m)
            out.append((c > 0, term if abs(c) == 1 else Binary("*", term, Const(abs(c)))))
    return out


def _ceilings(p: Poly) -> list[Factor]:
    """The quotients by sizes that are not numbers, which may stand for a rounding up."""
    found = {f for m in p.terms for f in m if f.op == "//" and m.count(f) == 1 and f.args[1].constant is None}
    return sorted(found, key=lambda f: f.key)


def _scaled_size(x: Expr, scale: Poly) -> tuple[bool, Expr]:
    plus = any(c > 0 for c in scale.terms.values())
    scale = scale if plus else -scale
    return plus, x if scale.constant == 1 else Binary("*", x, write(scale))


def _unfold_free_tiles(p: Poly) -> Poly:
    """Quotients that define factor 0 of a free tile, written as that factor."""
    for f in {f for m in p.terms for f in m if f.op == "//" and f.is_size}:
        s = _free_tile_head(f)
        if s is not None and all(m.count(f) <= 1 for m in p.terms):
            head = Poly({(symbol_factor(s),): 1})
            c = Poly({tuple(g for g in m if g != f): c for m, c in p.terms.items() if f in m})
            p = p - c * Poly({(f,): 1}) + c * (head - 1)
    return p


def _free_tile_head(f: Factor) -> Symbol | None:
    d = f.args[1]
    if len(d.terms) != 1:
        return None
    ((m, c),) = d.terms.items()
    s = m[0].symbol if m and c == 1 else None
    if s is None or not isinstance(s.domain, FreeTile) or is_dynamic(s.domain.extent):
        return None  # (with an extent known only at the call the factor has no value of its own)
    head = Symbol(s.name, s.domain, 0)
    return head if read_symbol(head) == Poly({(f,): 1}) + 1 else None
