"""Proofs about sizes: is a polynomial in symbols `>= 0` for all of their values?

In order: numeric intervals; the shift `s = lo + u` of every symbol, after writing extents back as tile products; the
facts that bound quotients, remainders, minima and maxima; and a table of all values where these are few. All pure;
nothing here records a guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import comb

from mslang.ir.arith.domain import factor_limits, limits
from mslang.ir.arith.exact import exact_div
from mslang.ir.arith.size import (
    CHOICES,
    DIVISIONS,
    Factor,
    Mono,
    Poly,
    accumulate,
    join,
    relations_of,
    without,
)
from mslang.ir.arith.table import by_table
from mslang.ir.arith.verdict import Verdict, verdict

DEPTH = 4
"""How many atoms in a row a proof replaces by their facts."""


def at_least_0(p: Poly) -> bool:
    """Whether a size is provably `>= 0`."""
    k = p.constant
    return k >= 0 if k is not None else size_sign(p) is Verdict.PROVED


def positive(p: Poly) -> bool:
    """Whether a size is provably `> 0`."""
    k = p.constant
    if k is not None:
        return k > 0
    lo = limits(p)[0]
    return (lo is not None and lo > 0) or size_sign(p - 1) is Verdict.PROVED


@lru_cache(maxsize=32768)
def size_sign(p: Poly) -> Verdict:
    """The verdict on `p >= 0` for a size."""
    k = p.constant
    if k is not None:
        return verdict(k >= 0)
    lo, hi = limits(p)
    if lo is not None and lo >= 0:
        return Verdict.PROVED
    if hi is not None and hi < 0:
        return Verdict.REFUTED
    if _nonnegative(p, DEPTH):
        return Verdict.PROVED
    if _nonnegative(-p - 1, DEPTH):
        return Verdict.REFUTED
    return by_table(p)


@lru_cache(maxsize=32768)
def _nonnegative(p: Poly, depth: int) -> bool:
    lo = limits(p)[0]
    if lo is not None and lo >= 0:
        return True
    if any(_shift_nonnegative(q) for q in _lifts(p)):
        return True
    if depth == 0:
        return False
    f = _first_atom(p)
    if f is None:
        return False
    if f.op in CHOICES:
        chosen = (_nonnegative(replace_factor(p, f, x), depth - 1) for x in f.args)
        c = coefficient(p, f)
        sign = _sign(c)
        # max occurs positively or min negatively: one case suffices; otherwise every case must hold
        return any(chosen) if (f.op == "max" and sign > 0) or (f.op == "min" and sign < 0) else all(chosen)
    return any(_nonnegative(q, depth - 1) for q in _by_facts(p, f))


def _sign(p: Poly) -> int:
    lo, hi = limits(p)
    return 1 if lo is not None and lo >= 0 else -1 if hi is not None and hi <= 0 else 0


def _first_atom(p: Poly) -> Factor | None:
    atoms = {f for m in p.terms for f in m if f.args and m.count(f) == 1}
    # The facts of an atom speak of what is in it: ceil(M / t) * t is taken apart before a quotient that is in t.
    return max(atoms, key=lambda f: (f.op in CHOICES, _depth(f), f.key), default=None)


@lru_cache(maxsize=16384)
def _depth(f: Factor) -> int:
    return max((1 + _depth(g) for x in f.args for m in x.terms for g in m), default=0)


def coefficient(p: Poly, f: Factor) -> Poly:
    """The sum of the terms with `f`, divided by it."""
    out: dict[Mono, int] = {}
    for m, c in p.terms.items():
        if f in m:
            out[without(m, (f,)) or ()] = c
    return Poly(out)


def replace_factor(p: Poly, f: Factor, by: Poly) -> Poly:
    """`p` with `f`, where it occurs once, replaced."""
    c = coefficient(p, f)
    return p - c * Poly({(f,): 1}) + c * by


def _by_facts(p: Poly, f: Factor) -> Iterator[Poly]:
    """Polynomials that bound `p` from below, without the quotient or remainder `f`."""
    if f.op not in DIVISIONS:
        return
    x, d = f.args
    if not positive(d):
        return
    c = coefficient(p, f)
    sign = _sign(c)
    if not sign or any(f in m for m in c.terms):
        return
    rest = p - c * Poly({(f,): 1})
    if f.op == "%":
        yield rest if sign > 0 else rest + c * (d - 1)
        return
    # x - d + 1 <= d * (x // d) <= x
    low = c * (x - d + 1) if sign > 0 else c * x
    k = exact_div(c, d)
    if k is not None:
        yield rest + (k * (x - d + 1) if sign > 0 else k * x)
    # d * p >= -(d - 1) is p >= 0 for an integer p
    yield rest * d + low + d - 1


def _lifts(p: Poly) -> Iterator[Poly]:
    """`p`, and `p` with extents written back as products of tile factors (512 -> t[0]*t[1]*t[2])."""
    yield p
    seen = {r for m in p.terms for r in relations_of(m)}
    for r in sorted(seen, key=lambda r: r.factors[0].key):
        if len(r.extent.terms) != 1:
            continue
        ((em, ec),) = r.extent.terms.items()
        out: dict[Mono, int] = {}
        for m, c in p.terms.items():
            rest = without(m, em)
            lift = rest is not None and c % ec == 0 and not any(f in r.factors for f in m)
            accumulate(out, join(rest or (), r.factors) if lift else m, c // ec if lift else c)
        if out != p.terms:
            yield Poly(out)


def _shift_nonnegative(p: Poly) -> bool:
    """Substitute `s = lo + u` with `u >= 0` for every factor: only non-negative coefficients prove `p >= 0`.

    Factors that are not negative and occur together in every term are shifted as one, by the product of their bounds;
    those that occur in all terms alike are divided out. Neither changes the sign of a coefficient.
    """
    monos = list(p.terms)
    together: dict[tuple[int, ...], int] = {}
    shifted: list[tuple[tuple[int, ...], int]] = []
    for f in sorted({f for m in monos for f in m}, key=lambda f: f.key):
        lo = factor_limits(f)[0]
        if lo is None:
            return False
        powers = tuple(m.count(f) for m in monos)
        if lo < 0:
            shifted.append((powers, lo))
        else:
            together[powers] = together.get(powers, 1) * lo
    shifted += [(x, lo) for x, lo in together.items() if len(set(x)) > 1]
    powers_of = zip(*(x for x, _ in shifted), strict=True) if shifted else ((),) * len(monos)
    terms: dict[tuple[int, ...], int] = {}
    for m, c in zip(powers_of, p.terms.values(), strict=True):
        terms[m] = terms.get(m, 0) + c
    for k, (_, lo) in enumerate(shifted):
        if lo:
            terms = _shifted(terms, k, lo)
        if len(terms) > 2000:
            return False
    return all(c >= 0 for c in terms.values())


def _shifted(terms: dict[tuple[int, ...], int], k: int, lo: int) -> dict[tuple[int, ...], int]:
    """A polynomial, by powers of its indeterminates, with `lo + u` in the place of one of them."""
    out: dict[tuple[int, ...], int] = {}
    for m, c in terms.items():
        for j in range(m[k] + 1):
            power = (*m[:k], j, *m[k + 1 :])
            out[power] = out.get(power, 0) + c * comb(m[k], j) * lo ** (m[k] - j)
    return out
