"""What symbols can be: numeric limits, and tables of all values where these are few.

Everything comes from a symbol's `domain`, that is from its distribution, never from a value drawn.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from mslang.ir.arith import factorings
from mslang.ir.arith.size import Decision, Factor, Poly
from mslang.ir.expr import (
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
)
from mslang.ir.visit import walk_expr

TABLE_LIMIT = 300_000
"""The most points that an exhaustive proof looks at."""

Limits = tuple[int | None, int | None]
"""A least and a greatest value; None where not known."""


@lru_cache(maxsize=16384)
def factor_limits(f: Factor) -> Limits:
    """The numeric limits of a size factor, over all values of its symbols."""
    s, decision = f.symbol, f.decision
    if s is not None and decision is not None:
        return _symbol_limits(decision, s.position)
    if not f.is_size or not f.args:
        return None, None
    return atom_limits(f.op, tuple(limits(a) for a in f.args))


def atom_limits(op: str, args: tuple[Limits, ...]) -> Limits:
    """The limits of an atom, given those of its arguments."""
    lows, highs = [a[0] for a in args], [a[1] for a in args]
    if op == "min":
        known = [h for h in highs if h is not None]
        return (None if None in lows else min(x for x in lows if x is not None)), min(known, default=None)
    if op == "max":
        known = [x for x in lows if x is not None]
        return max(known, default=None), (None if None in highs else max(x for x in highs if x is not None))
    (lo, hi), (least, most) = args
    if least is None or least <= 0 or (most is not None and most < least):
        return None, None  # (what runs over an empty range has no values)
    if op == "%":
        return 0, (None if most is None else most - 1)
    # floor(x / d) over a box is reached at its corners
    low = None if lo is None else lo // least if lo < 0 else 0 if most is None else lo // most
    high = None if hi is None else hi // least if hi >= 0 else -1 if most is None else hi // most
    return low, high


@lru_cache(maxsize=65536)
def limits(p: Poly) -> Limits:
    """The numeric limits of a size by interval arithmetic (no correlations)."""
    lo: int | None = 0
    hi: int | None = 0
    for m, c in p.terms.items():
        a, b = scale_limits(product_limits([factor_limits(f) for f in m]), c)
        lo = None if lo is None or a is None else lo + a
        hi = None if hi is None or b is None else hi + b
    return lo, hi


def product_limits(parts: list[Limits]) -> Limits:
    """The limits of a product."""
    low: int | None = 1
    high: int | None = 1
    for lo, hi in parts:
        if low is not None and lo is not None and low >= 0 and lo >= 0:
            low, high = low * lo, None if high is None or hi is None else high * hi
        elif low is not None and high is not None and lo is not None and hi is not None:
            corners = (low * lo, low * hi, high * lo, high * hi)
            low, high = min(corners), max(corners)
        else:
            return None, None
    return low, high


def scale_limits(x: Limits, c: int) -> Limits:
    """The limits of `c * x`, c not 0."""
    lo, hi = (None if x[0] is None else x[0] * c), (None if x[1] is None else x[1] * c)
    return (lo, hi) if c > 0 else (hi, lo)


def _symbol_limits(decision: Decision, position: int | None) -> Limits:
    """The least and greatest value of a symbol."""
    match decision.domain:
        case DynamicRange(lo=lo, hi=hi, multiple=m):
            return -(-lo // m) * m, hi // m * m
        case PerfectTile(n=n, max_inner=cap):
            return 1, _capped(_most(decision.extent), cap if position == n - 1 else None)
        case FreeTile(extent=e, n=n, max_inner=cap):
            # an extent known only at the call does not limit what is drawn
            top = None if is_dynamic(e) else _most(decision.extent)
            return 1, _capped(top, cap if position == n - 1 else None)
        case PartitionedTile():
            return 1, _most(decision.extent)
        case Choice(values=vs):
            return min(vs), max(vs)
        case Uniform(lo=lo, hi=hi):
            return lo, hi - 1
    return None, None


def is_dynamic(e: Expr) -> bool:
    """Whether a size is known only at the call."""
    return any(isinstance(x, Symbol) and isinstance(x.domain, DynamicRange) for x in walk_expr(e))


def _capped(top: int | None, cap: int | None) -> int | None:
    return top if cap is None else cap if top is None else min(cap, top)


def _most(extent: Poly | None) -> int | None:
    return None if extent is None else limits(extent)[1]


# ------------------------------------------------------------------ tables
def free_tiles(extent: int, n: int, cap: int | None) -> tuple[tuple[int, ...], ...] | None:
    """The values of a free tile: from the innermost, each factor at most what is left to cover."""
    if (extent ** (n - 1)) // max(1, n - 2) > 4 * TABLE_LIMIT:
        return None
    found: list[tuple[int, ...]] = [()]
    for k in range(n - 1):
        top = cap if cap is not None and k == 0 else extent
        found = [(x, *r) for r in found for x in range(1, min(top, -(-extent // prod(r))) + 1)]
        if len(found) > TABLE_LIMIT:
            return None
    whole = sorted((-(-extent // prod(r)), *r) for r in found)
    return tuple(r for r in whole if cap is None or r[-1] <= cap)


@lru_cache(maxsize=256)
def rows(domain: Domain) -> tuple[tuple[int, ...], ...] | None:
    """Every value of a decision with this domain (a row has one entry a factor), or None where these are too many,
    or depend on other symbols."""
    match domain:
        case DynamicRange(lo=lo, hi=hi, multiple=m):
            span = range(-(-lo // m) * m, hi + 1, m)
            return tuple((v,) for v in span) if len(span) <= TABLE_LIMIT else None
        case PerfectTile(extent=Const(value=int(e)), n=n, max_inner=cap) if e > 0:
            if factorings.count(e, n) > TABLE_LIMIT:
                return None
            return tuple(factorings.factorings(e, n, cap))
        case PartitionedTile(extent=Const(value=int(e)), n=n, at=at, factor=k) if e > 0:
            if factorings.count(e, n) > TABLE_LIMIT:
                return None
            return tuple(r for r in factorings.factorings(e, n) if prod(r[at:]) % k == 0)
        case FreeTile(extent=Const(value=int(e)), n=n, max_inner=cap) if e > 0:
            return free_tiles(e, n, cap)
        case Choice(values=vs):
            return tuple((v,) for v in dict.fromkeys(vs))
        case Uniform(lo=lo, hi=hi):
            return tuple((v,) for v in range(lo, hi)) if hi - lo <= TABLE_LIMIT else None
    return None
