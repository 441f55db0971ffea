"""Polynomials as readable expressions: larger strides first, names in natural order, sizes after variables, constants
last, subtraction instead of negative terms."""

from __future__ import annotations

from functools import lru_cache

from mslang.ir.arith.divide import first_factor
from mslang.ir.arith.domain import is_dynamic
from mslang.ir.arith.size import Decision, Factor, Mono, Poly, collect, natural, number, symbol_factor
from mslang.ir.expr import Binary, Const, Expr, FreeTile, Unary


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
        tile = _free_tile(f)
        if tile is not None and all(m.count(f) <= 1 for m in p.terms):
            head = Poly({(symbol_factor(tile, 0),): 1})
            c = Poly({tuple(g for g in m if g != f): c for m, c in p.terms.items() if f in m})
            p = p - c * Poly({(f,): 1}) + c * (head - 1)
    return p


def _free_tile(f: Factor) -> Decision | None:
    """The free tile whose factor 0 is this quotient and 1."""
    d = f.args[1]
    if len(d.terms) != 1:
        return None
    ((m, c),) = d.terms.items()
    tile = m[0].decision if m and c == 1 else None
    if tile is None or not isinstance(tile.domain, FreeTile) or is_dynamic(tile.domain.extent):
        return None  # (with an extent known only at the call the factor has no value of its own)
    return tile if first_factor(tile) == Poly({(f,): 1}) + 1 else None
