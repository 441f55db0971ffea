"""Bounds of polynomials over variables that run over ranges, and the proofs that follow from them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from mslang.ir.arith.divide import choice, constant_quotient, merge, quotient
from mslang.ir.arith.domain import Limits, atom_limits, factor_limits, limits, product_limits, scale_limits
from mslang.ir.arith.sign import at_least_0, coefficient, positive, replace_factor, size_sign
from mslang.ir.arith.size import CHOICES, Factor, Poly, collect, number
from mslang.ir.arith.verdict import Verdict

Side = Literal[-1, 1]
LOW: Side = -1
HIGH: Side = 1


class Span:
    """The values of a variable: `low <= v <= high`."""

    __slots__ = ("high", "low", "vars")

    def __init__(self, low: Poly, high: Poly) -> None:
        self.low, self.high = low, high
        self.vars = low.vars | high.vars


class Scope:
    """The variables that run, each over its span; a span may mention variables further out. Implements `Facts`."""

    __slots__ = ("_hash", "key", "plain", "spans")

    def __init__(self, spans: Iterable[tuple[str, Poly, Poly]]) -> None:
        self.key = tuple(sorted(spans, key=lambda s: s[0]))
        self._hash = hash(self.key)
        self.spans = _acyclic({v: Span(lo, hi) for v, lo, hi in self.key})
        self.plain = all(s.low.constant is not None and s.high.constant is not None for s in self.spans.values())

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Scope) and self.key == other.key)

    def constant_quotient(self, x: Poly, d: Poly) -> int | None:
        """The value of `x // d` if it is provably one constant."""
        k = d.constant
        if k is not None:
            lo, hi = numeric(x, self)
            if lo is not None and hi is not None and k > 0:
                if lo // k == hi // k:
                    return lo // k
                if self.plain and not any(f.is_size for m in x.terms for f in m):
                    return None
        low = extreme(x, self, LOW)
        high = None if low is None else extreme(x, self, HIGH)
        if low is None or high is None or not d.vars.isdisjoint(self.spans):
            return None
        return constant_quotient(low, high, d)

    def never_negative(self, x: Poly) -> bool:
        """Whether `x >= 0` provably."""
        return not_negative(x, self)


def _acyclic(spans: dict[str, Span]) -> dict[str, Span]:
    """The spans without those that mention themselves (a name used twice): nothing is known of such variables."""

    def reaches(v: str) -> bool:
        seen: set[str] = set()
        todo = list(spans[v].vars)
        while todo:
            w = todo.pop()
            if w == v:
                return True
            if w in spans and w not in seen:
                seen.add(w)
                todo.extend(spans[w].vars)
        return False

    return {v: s for v, s in spans.items() if not (s.vars and reaches(v))}


EMPTY = Scope(())


# ------------------------------------------------------------------ numbers
@lru_cache(maxsize=32768)
def numeric(p: Poly, scope: Scope) -> Limits:
    """Numeric limits of a polynomial over its variables and symbols."""
    lo: int | None = 0
    hi: int | None = 0
    for m, c in p.terms.items():
        a, b = scale_limits(product_limits([_numeric_factor(f, scope) for f in m]), c)
        lo = None if lo is None or a is None else lo + a
        hi = None if hi is None or b is None else hi + b
    return lo, hi


def _numeric_factor(f: Factor, scope: Scope) -> Limits:
    if f.is_size:
        return factor_limits(f)
    if f.args:
        return atom_limits(f.op, tuple(numeric(a, scope) for a in f.args))
    if f.op == "var":
        span = scope.spans.get(f.name)
        if span is not None:
            return numeric(span.low, scope)[0], numeric(span.high, scope)[1]
    return None, None


# ------------------------------------------------------------------ elimination
@lru_cache(maxsize=32768)
def extreme(p: Poly, scope: Scope, side: Side) -> Poly | None:
    """A polynomial without the scope's variables that bounds `p` from below (LOW) or above (HIGH); None where none is
    found. It is reached if `p` is linear in variables whose ranges are not empty."""
    straight = _linear_extreme(p, scope, side)
    if straight is not None:
        return straight
    while True:
        f = _next_factor(p, scope)
        if f is None:
            return p
        c = coefficient(p, f)
        sign = 1 if not_negative(c, scope) else -1 if not_negative(-c, scope) else 0
        if not sign:
            either = _either_end(p, f, c, scope, side)
            if either is None:
                return None
            p = either
            continue
        by = _factor_bound(f, scope, LOW if side * sign < 0 else HIGH)
        if by is None:
            return None
        p = merge(replace_factor(p, f, by))


def _either_end(p: Poly, f: Factor, c: Poly, scope: Scope, side: Side) -> Poly | None:
    """`p` with `c * f` bounded where the sign of the size `c` differs from one value of its symbols to another."""
    low, high = _factor_bound(f, scope, LOW), _factor_bound(f, scope, HIGH)
    if low is None or high is None or not c.is_size:
        return None
    return p - c * Poly({(f,): 1}) + choice("min" if side == LOW else "max", c * low, c * high)


def _linear_extreme(p: Poly, scope: Scope, side: Side) -> Poly | None:
    """`extreme` in one pass for a sum of variables whose ranges mention no variable; None if it is something else."""
    out = number(0)
    for v, c in collect(p).items():
        if not v:
            out = out + c
            continue
        f = v[0]
        if len(v) > 1 or f.op != "var":
            return None
        span = scope.spans.get(f.name)
        if span is None:
            out = out + c * Poly({v: 1})
            continue
        lo, hi = limits(c)
        if span.vars or not ((lo is not None and lo >= 0) or (hi is not None and hi <= 0)):
            return None
        out = out + c * (span.low if (side == LOW) == (lo is not None and lo >= 0) else span.high)
    return out


def _next_factor(p: Poly, scope: Scope) -> Factor | None:
    """The factor to eliminate next: atoms first, then the variable that no other's span mentions."""
    spans = scope.spans
    found = {f for m in p.terms for f in m if f.vars and not f.vars.isdisjoint(spans)}
    if not found:
        return None
    atoms = [f for f in found if f.op != "var"]
    if atoms:
        return max(atoms, key=lambda f: f.key)
    present = {v for f in found for v in f.vars}
    ordered = sorted(found, key=lambda f: f.key)
    for f in ordered:
        if not any(f.vars <= spans[w].vars for w in present if w not in f.vars):
            return f
    return ordered[0]


def _factor_bound(f: Factor, scope: Scope, side: Side) -> Poly | None:
    if f.op == "var":
        span = scope.spans[f.name]
        return span.low if side == LOW else span.high
    if f.op in CHOICES:
        ends = [extreme(a, scope, side) for a in f.args]
        out = ends[0]
        for e in ends[1:]:
            out = None if out is None or e is None else choice(f.op, out, e)
        return out
    if not f.args:
        return None
    x, d = f.args
    if d.vars.isdisjoint(scope.spans) and positive(d):
        if f.op == "%":
            return number(0) if side == LOW else d - 1
        end = extreme(x, scope, side)
        return None if end is None else quotient(end, d)
    k = _numeric_factor(f, scope)[0 if side == LOW else 1]
    return None if k is None else number(k)


@lru_cache(maxsize=32768)
def not_negative(p: Poly, scope: Scope) -> bool:
    """Whether `p >= 0` for all values of the scope's variables and of all symbols (and of all other variables)."""
    lo, hi = numeric(p, scope)
    if lo is not None and lo >= 0:
        return True
    if hi is not None and hi < 0:
        return False
    if p.vars.isdisjoint(scope.spans):
        return at_least_0(p)
    choices = [f for m in p.terms for f in m if f.op in CHOICES and m.count(f) == 1]
    if choices:
        chosen = max(choices, key=lambda f: f.key)
        cases = (not_negative(merge(replace_factor(p, chosen, x)), scope) for x in chosen.args)
        c = coefficient(p, chosen)
        if not_negative(c if chosen.op == "max" else -c, scope):
            return any(cases)
        return all(cases)
    low = extreme(p, scope, LOW)
    return low is not None and at_least_0(low)


@lru_cache(maxsize=32768)
def sign_verdict(p: Poly, scope: Scope) -> Verdict:
    """The verdict on `p >= 0`."""
    if p.vars.isdisjoint(scope.spans) and p.is_size:
        return size_sign(p)
    lo, hi = numeric(p, scope)
    if scope.plain and lo is not None and hi is not None and lo < 0 <= hi and _straight(p, scope, numbers=True):
        return Verdict.DEPENDS
    if not_negative(p, scope):
        return Verdict.PROVED
    if not_negative(-p - 1, scope):
        return Verdict.REFUTED
    if _straight(p, scope):
        low, high = extreme(p, scope, LOW), extreme(p, scope, HIGH)
        if low is not None and high is not None and at_least_0(high) and at_least_0(-low - 1):
            return Verdict.DEPENDS
    return Verdict.UNKNOWN


def _straight(p: Poly, scope: Scope, numbers: bool = False) -> bool:
    """Whether both bounds of `p` are reached: it is linear in variables of constant ranges that are not empty. (With
    `numbers`: and has no sizes in it.)"""
    for m in p.terms:
        outer = [f for f in m if not f.is_size]
        if len(outer) > 1 or (numbers and len(outer) < len(m)) or any(f.op != "var" for f in outer):
            return False
        for f in outer:
            span = scope.spans.get(f.name)
            if span is None or span.vars or not at_least_0(span.high - span.low):
                return False
    return True
