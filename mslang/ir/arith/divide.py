"""Canonical floor division, remainder, minimum and maximum of polynomials.

What can be proved of an operand is a parameter: `Facts` answers whether a quotient is one constant everywhere and what
sign a difference has. Without variables' ranges (`SIZE_FACTS`) only symbols are known.

All rules hold for floor division with operands of any sign; where a rule needs a positive divisor it asks for proof.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import NamedTuple, Protocol

from mslang.ir.arith.exact import divide_term, exact_div, leading
from mslang.ir.arith.sign import at_least_0, coefficient, positive, replace_factor
from mslang.ir.arith.size import (
    Decision,
    Factor,
    Mono,
    Poly,
    atom,
    common,
    indeterminate,
    number,
    only_factor,
    product,
    reduced,
    text,
    without,
)
from mslang.ir.expr import FreeTile


class Facts(Protocol):
    """What is known of variables."""

    def constant_quotient(self, x: Poly, d: Poly) -> int | None:
        """The value of `x // d` if it is provably the same everywhere."""

    def never_negative(self, x: Poly) -> bool:
        """Whether `x >= 0` provably."""


class SizeFacts:
    """What symbols alone prove."""

    def constant_quotient(self, x: Poly, d: Poly) -> int | None:
        """The value of `x // d` if it is the same for all values of the symbols."""
        return constant_quotient(x, x, d)

    def never_negative(self, x: Poly) -> bool:
        """Whether `x >= 0` for all values of the symbols."""
        return at_least_0(x)


SIZE_FACTS = SizeFacts()


def constant_quotient(low: Poly, high: Poly, d: Poly) -> int | None:
    """The value of `x // d` for every `low <= x <= high`, if it is one constant (0, 1 or -1 where `d` is symbolic)."""
    least, most, by = low.constant, high.constant, d.constant
    if by is not None and least is not None and most is not None:
        return least // by if by > 0 and least // by == most // by else None
    if not positive(d):
        return None
    if at_least_0(low):
        if at_least_0(d - high - 1):
            return 0
        return 1 if at_least_0(low - d) and at_least_0(d + d - high - 1) else None
    return -1 if at_least_0(-high - 1) and at_least_0(low + d) else None


# ------------------------------------------------------------------ // and %
def split_multiples(a: Poly, d: Poly) -> tuple[Poly, Poly]:
    """`(q, r)` with `a = q * d + r`: the terms that `d` divides are in `q`; a number leaves a remainder in `0 .. d-1`.

    Other coefficients stay whole (`5*i // 4` is not `i + i // 4`): symbols could not be taken apart like that, and
    `x // d` and `x % d` must keep the same `x` to be recognised as digits of one number.
    """
    k = d.constant
    if k is not None:
        q: dict[Mono, int] = {}
        for m, c in a.terms.items():
            if c // k and (not m or c % k == 0):
                q[m] = c // k
        out = Poly(q)
        return out, a - out.scaled(k)
    whole = exact_div(a, d)
    if whole is not None:
        return whole, number(0)
    out, rest = number(0), a
    if len(d.terms) == 1:
        ((dm, dc),) = d.terms.items()
        for m, c in a.terms.items():
            found = divide_term(m, c, dm, dc)
            if found is not None:
                out, rest = out + reduced({found[0]: found[1]}), rest - Poly({m: c})
        return out, rest
    return _divided_by_sum(a, d)


def _divided_by_sum(a: Poly, d: Poly) -> tuple[Poly, Poly]:
    """Polynomial division: no term of the remainder is a multiple of the divisor's leading term."""
    dm, dc = leading(d)
    out, rest = number(0), a
    for _ in range(64):
        for m, c in rest.sorted_terms():
            left = without(m, dm)
            if left is not None and c % dc == 0:
                share = Poly({left: c // dc})
                out, rest = out + share, rest - share * d
                break
        else:
            break
    return out, rest


def quotient(a: Poly, d: Poly, facts: Facts = SIZE_FACTS) -> Poly:
    """`a // d` in canonical form."""
    k = d.constant
    if k is not None:
        if k == 1:
            return a
        if k < 0:
            return quotient(-a, number(-k), facts)
        if k == 0:
            return atom("//", (a, d))
    out, rest = split_multiples(a, d)
    if not rest:
        return out
    whole = facts.constant_quotient(rest, d)
    if whole is not None:
        return out + whole
    if positive(d):
        up = _one_below(rest, d)
        if up is not None:
            return out + up - 1
        inner = _nested(rest, d, facts)
        if inner is not None:
            return out + inner
        shared = _shared(rest, d, facts)
        if shared is not None:
            return out + quotient(shared.x, shared.by, facts)
    return out + atom("//", (rest, d))


def _one_below(rest: Poly, d: Poly) -> Poly | None:
    """`k` where `rest = k * d - 1` for a symbolic `d` (so that rounding 512 up to a tile is not a rounding)."""
    return exact_div(rest + 1, d) if d.constant is None and rest.offset else None


def _nested(rest: Poly, d: Poly, facts: Facts) -> Poly | None:
    """`(x // e + k) // d = (x + e*k) // (e*d)` and `x % (d*k) // d = x // d % k`, for `d > 0`."""
    f = only_factor(rest, "%")
    if f is not None:
        k = exact_div(f.args[1], d)
        if k is not None and positive(k):
            return remainder(quotient(f.args[0], d, facts), k, facts)
    offset = rest.offset
    f = only_factor(rest - offset, "//")
    return None if f is None else quotient(f.args[0] + f.args[1] * offset, f.args[1] * d, facts)


class _Shared(NamedTuple):
    """`a = g * x + r` with `0 <= r < g`, and `d = g * by` with `by > 0`."""

    g: Poly
    x: Poly
    r: Poly
    by: Poly


def _shared(rest: Poly, d: Poly, facts: Facts) -> _Shared | None:
    """The largest part of a one-term divisor that can be taken out of both."""
    if len(d.terms) != 1:
        return None
    ((dm, dc),) = d.terms.items()
    candidates = {(common(m, dm), gcd(c, dc)) for m, c in rest.terms.items() if m}
    for m, c in sorted(candidates, key=lambda g: (-len(g[0]), -g[1], tuple(f.key for f in g[0]))):
        if not m and c == 1:
            continue
        g, by = Poly({m: c}), Poly({without(dm, m) or (): dc // c})
        if not positive(by) or by.constant == 1:
            continue
        x, r = split_multiples(rest, g)
        extra = 0 if not r else facts.constant_quotient(r, g)
        if extra is not None:
            return _Shared(g, x + extra, r - g.scaled(extra), by)
    return None


def remainder(a: Poly, d: Poly, facts: Facts = SIZE_FACTS) -> Poly:
    """`a % d` in canonical form."""
    k = d.constant
    if k is not None:
        if k == 1:
            return number(0)
        if k <= 0:
            return atom("%", (a, d))
    rest = _without_remainders(split_multiples(a, d)[1], d)
    if not rest:
        return rest
    whole = facts.constant_quotient(rest, d)
    if whole is not None:
        return rest - d.scaled(whole)
    if positive(d):
        if _one_below(rest, d) is not None:
            return d - 1
        shared = _shared(rest, d, facts)
        if shared is not None:
            return shared.g * remainder(shared.x, shared.by, facts) + shared.r
    return atom("%", (rest, d))


def _without_remainders(rest: Poly, d: Poly) -> Poly:
    """Modulo `d`, `x % (d*k)` is `x`."""
    while True:
        for m, c in rest.sorted_terms():
            f = next((f for f in m if f.op == "%" and exact_div(f.args[1], d) is not None), None)
            if f is not None:
                others = Poly({without(m, (f,)) or (): c})
                rest = split_multiples(rest - Poly({m: c}) + others * f.args[0], d)[1]
                break
        else:
            return rest


# ------------------------------------------------------------------ putting quotients and remainders together again
def merge(p: Poly) -> Poly:
    """`x // d * d + x % d` becomes `x`, and `x - x // d * d` becomes `x % d`, with any common factor."""
    return _merged(p) if p.divided else p


@lru_cache(maxsize=16384)
def _merged(p: Poly) -> Poly:
    better = _merge_once(p)
    return p if better is None else merge(better)


def _merge_once(p: Poly) -> Poly | None:
    divisions = sorted({f for m in p.terms for f in m if f.op in ("//", "%") and m.count(f) == 1}, key=lambda f: f.key)
    for f in divisions:
        if f.op == "%":
            better = _join_remainder(p, f)
            if better is not None:
                return better
    for f in divisions:
        if f.op == "//":
            better = _make_remainder(p, f, divisions)
            if better is not None:
                return better
    return None


def _join_remainder(p: Poly, f: Factor) -> Poly | None:
    y, b = f.args
    upper = quotient(y, b)
    if len(upper.terms) != 1 or upper.constant is not None:
        return None
    scale = coefficient(p, f)
    rest = p - scale * Poly({(f,): 1})
    high = scale * b * upper
    if not high or not contains(rest, high):
        return None
    return rest - high + scale * y


def _make_remainder(p: Poly, f: Factor, divisions: list[Factor]) -> Poly | None:
    x, d = f.args
    scale = coefficient(p, f)
    for g in divisions:
        # x // e with d = e * b: scale is -b times the other's coefficient
        if g.op == "//" and g != f:
            b = exact_div(d, g.args[1])
            if b is None or not positive(b):
                continue
            other = coefficient(p, g)
            low = Poly({(g,): 1})
            if scale == -(b * other) and quotient(low, b) == Poly({(f,): 1}):
                return p - scale * Poly({(f,): 1}) - other * low + other * remainder(low, b)
    k = exact_div(-scale, d)
    if k is None or x.constant is not None:
        return None
    rest = p - scale * Poly({(f,): 1})
    if not contains(rest, k * x):
        return None
    return rest - k * x + k * remainder(x, d)


def expanded(p: Poly) -> Poly:
    """`p` with every remainder written as `x - x // d * d`: what `merge` does not see cancels here."""
    while True:
        f = next((f for m, _ in p.sorted_terms() for f in m if f.op == "%" and m.count(f) == 1), None)
        if f is None:
            return p
        x, d = f.args
        p = replace_factor(p, f, x - d * quotient(x, d))


def contains(p: Poly, part: Poly) -> bool:
    """Whether every term of `part` but the constant is in `p` with the same coefficient."""
    return all(p.terms.get(m) == c for m, c in part.terms.items() if m)


# ------------------------------------------------------------------ min and max
def choice(op: str, a: Poly, b: Poly, facts: Facts = SIZE_FACTS) -> Poly:
    """`min(a, b)` or `max(a, b)` in canonical form: nested ones flattened, common terms outside, decided ones gone."""
    kept: list[Poly] = []
    for x in dict.fromkeys((*_alternatives(op, a), *_alternatives(op, b))):
        if any(_beats(op, y, x, facts) for y in kept):
            continue
        kept = [y for y in kept if not _beats(op, x, y, facts)]
        kept.append(x)
    if len(kept) == 1:
        return kept[0]
    shared = Poly({m: c for m, c in kept[0].terms.items() if all(y.terms.get(m) == c for y in kept)})
    return shared + atom(op, tuple(sorted((y - shared for y in kept), key=text)))


def _beats(op: str, x: Poly, y: Poly, facts: Facts) -> bool:
    """Whether `y` can be dropped next to `x`."""
    return facts.never_negative(y - x if op == "min" else x - y)


def _alternatives(op: str, p: Poly) -> list[Poly]:
    for m, c in p.terms.items():
        if c == 1 and len(m) == 1 and m[0].op == op:
            rest = p - Poly({m: 1})
            return [x + rest for x in m[0].args]
    return [p]


# ------------------------------------------------------------------ free tiles
@lru_cache(maxsize=4096)
def first_factor(tile: Decision) -> Poly:
    """Factor 0 of a free tile: its extent divided by the product of the others, rounded up."""
    assert isinstance(tile.domain, FreeTile) and tile.extent is not None
    others = product(indeterminate(tile, k) for k in range(1, tile.domain.n))
    return quotient(tile.extent - 1, others) + 1
