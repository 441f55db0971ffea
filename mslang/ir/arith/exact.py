"""Exact division of polynomials, modulo what the factors of tiles multiply to."""

from __future__ import annotations

from functools import lru_cache

from mslang.ir.arith.size import NOTHING, Mono, Poly, common, join, number, reduced, relations_of, without


def exact_div(a: Poly, d: Poly) -> Poly | None:
    """`a / d` if `d` divides `a` as polynomials modulo the product relations, else None."""
    k = d.constant
    if k is not None:
        if k == 1:
            return a
        if k == 0 or any(c % k for c in a.terms.values()):
            return None
        return Poly({m: c // k for m, c in a.terms.items()})
    if a == d:
        return number(1)
    return _exact_div(a, d)


@lru_cache(maxsize=16384)
def _exact_div(a: Poly, d: Poly) -> Poly | None:
    lead, lead_c = leading(d)
    quotient, rest, steps = NOTHING, a, 0
    while rest:
        steps += 1
        if steps > 64:
            return None
        m, c = leading(rest)
        found = divide_term(m, c, lead, lead_c)
        if found is None:
            return None
        piece = Poly({found[0]: found[1]})
        quotient, rest = quotient + piece, rest - piece * d
    return reduced(dict(quotient.terms))


def leading(p: Poly) -> tuple[Mono, int]:
    """The leading term: highest degree, then first by name."""
    m = min(p.terms, key=lambda n: (-len(n), tuple(f.key for f in n)))
    return m, p.terms[m]


def divide_term(m: Mono, c: int, n: Mono, d: int) -> tuple[Mono, int] | None:
    """`c*m / d*n`, writing extents back as products of tile factors where that helps (`512 = t[0]*t[1]*t[2]`)."""
    if c % d == 0:
        rest = without(m, n)
        if rest is not None:
            return rest, c // d
    for r in relations_of(n):
        if len(r.extent.terms) != 1:
            continue
        ((em, ec),) = r.extent.terms.items()
        base = without(m, em)
        if c % ec == 0 and base is not None and without(base, r.factors) is None:
            lifted, missing = join(base, r.factors), without(n, common(m, n)) or ()
            if any(f in r.factors for f in missing):
                # the tile's own factors in `n` are now covered: what is left has fewer of them
                shared = common(lifted, n)
                left_m, left_n = without(lifted, shared), without(n, shared)
                if left_m is not None and left_n is not None and len(left_n) < len(n):
                    return divide_term(left_m, c // ec, left_n, d)
    return None
