"""Canonical forms of integer and boolean expressions, and the verdict on conditions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import gcd
from types import MappingProxyType

from mslang.ir.arith.convert import RING, rank, read, write
from mslang.ir.arith.data import fits, may_overflow
from mslang.ir.arith.divide import expanded, merge
from mslang.ir.arith.interval import EMPTY, Scope, sign_verdict
from mslang.ir.arith.scope import Ranges, names_in, scope_for
from mslang.ir.arith.size import Poly, collect, number
from mslang.ir.arith.verdict import Verdict, both, verdict
from mslang.ir.dtype import INDEX
from mslang.ir.expr import (
    COMPARISONS,
    FALSE,
    LOGICAL,
    ONE,
    TRUE,
    Binary,
    Const,
    Expr,
    Select,
    Symbol,
    Unary,
    Var,
    children,
    dtype_of,
    with_children,
)
from mslang.ir.visit import substitute

NO_RANGES: Ranges = MappingProxyType({})


def simplify(e: Expr, ranges: Ranges = NO_RANGES, *, fold: bool = False) -> Expr:
    """The canonical form: deterministic, idempotent, equal in value wherever variables keep to their ranges.

    `ranges` say what variables run over; a rule is used only if it holds for all of it and for all values of the
    symbols. `fold` also replaces variables that have one value only (lowering; scheduling keeps them, so that the
    structure of a program does not depend on sizes).
    """
    if fold:
        e = _fold_units(e, ranges)
    if isinstance(e, Const | Var):
        return e
    return simplify_in(e, scope_for((e,), ranges))


def _fold_units(e: Expr, ranges: Ranges) -> Expr:
    units: Mapping[str, Expr] = {n: ranges[n].start for n in names_in(e) if n in ranges and ranges[n].extent == ONE}
    return _fold_units(substitute(e, units), ranges) if units else e


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


# ------------------------------------------------------------------ conditions
NEGATION = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def negate(e: Expr) -> Expr:
    """The negation of a simplified condition; comparisons of integers turn round."""
    match e:
        case Const(value=bool(v)):
            return FALSE if v else TRUE
        case Unary(op="not", operand=x):
            return x
        case Binary(op=op, left=a, right=b) if op in COMPARISONS and dtype_of(a) == INDEX:
            return Binary(NEGATION[op], a, b)
    return Unary("not", e)


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


def compare(op: str, p: Poly, scope: Scope) -> Expr:
    """The comparison `p op 0` in canonical form, or its truth value."""
    if op in ("==", "!="):
        answer = zero_verdict(p, scope)
    else:
        p = _as_not_negative(op, p)
        answer = sign_verdict(p, scope)
    if answer in (Verdict.PROVED, Verdict.REFUTED):
        return Const((answer is Verdict.PROVED) == (op != "!="), "bool")
    lead, plus, minus, rest = _sides(_without_content(p))
    if op in ("==", "!="):
        return Binary(op, *map(write, (plus, minus - rest) if lead > 0 else (minus, plus + rest)))
    if not minus:
        return Binary(">=", write(plus), write(-rest))
    return Binary("<", write(minus), write(plus + rest + 1))


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


def _as_not_negative(op: str, p: Poly) -> Poly:
    """The polynomial that is `>= 0` exactly where `p op 0`."""
    return {"<": -p - 1, "<=": -p, ">": p - 1, ">=": p}[op]


def _without_content(p: Poly) -> Poly:
    """`p >= 0` divided by the common divisor of its coefficients (the constant rounds down)."""
    g = gcd(*(c for m, c in p.terms.items() if m))
    if g <= 1:
        return p
    return Poly({m: c // g for m, c in p.terms.items() if c // g})


def _sides(p: Poly) -> tuple[int, Poly, Poly, Poly]:
    """`(lead, plus, minus, rest)` with `p = plus - minus + rest`: what has variables (else symbols) by sign,
    and the sign of its first term."""
    parts = collect(p)
    rest = parts.pop((), number(0))
    if not parts:
        parts = {m: number(c) for m, c in rest.terms.items() if m}
        rest = number(rest.offset)
    lead = 0
    plus = minus = number(0)
    for v, c in sorted(parts.items(), key=lambda t: rank(*t)):
        positive = any(x > 0 for x in c.terms.values())
        lead = lead or (1 if positive else -1)
        if positive:
            plus = plus + c * Poly({v: 1})
        else:
            minus = minus - c * Poly({v: 1})
    return lead, plus, minus, rest


def zero_verdict(p: Poly, scope: Scope) -> Verdict:
    """The verdict on `p == 0`."""
    k = p.constant
    if k is not None:
        return verdict(k == 0)
    g = gcd(*(c for m, c in p.terms.items() if m))
    if p.offset % g:
        return Verdict.REFUTED
    if p.divided and not expanded(p):
        return Verdict.PROVED
    above, below = sign_verdict(p, scope), sign_verdict(-p, scope)
    if Verdict.REFUTED in (above, below):
        return Verdict.REFUTED
    if above is below is Verdict.PROVED:
        return Verdict.PROVED
    return Verdict.DEPENDS if {above, below} == {Verdict.PROVED, Verdict.DEPENDS} else Verdict.UNKNOWN


def decide(condition: Expr, ranges: Ranges = NO_RANGES) -> Verdict:
    """Whether a condition holds for all values of the variables in `ranges` and of all symbols.

    Pure: it asks nobody and records nothing. Variables without a range can be anything.
    """
    if isinstance(condition, Const):
        return decide_in(condition, EMPTY)
    return decide_in(condition, scope_for((condition,), ranges))


@lru_cache(maxsize=32768)
def decide_in(e: Expr, scope: Scope) -> Verdict:
    """`decide` in a scope."""
    match e:
        case Const(value=bool(v)):
            return verdict(v)
        case Unary(op="not", operand=x):
            return decide_in(x, scope).negated
        case Binary(op="and", left=a, right=b):
            return both(decide_in(a, scope), decide_in(b, scope))
        case Binary(op="or", left=a, right=b):
            return both(decide_in(a, scope).negated, decide_in(b, scope).negated).negated
        case Binary(op=op, left=a, right=b) if op in COMPARISONS and dtype_of(a) == INDEX:
            if may_overflow(a) or may_overflow(b):
                whole = simplify_in(e, scope)
                return verdict(bool(whole.value)) if isinstance(whole, Const) else Verdict.UNKNOWN
            p = merge(read(a, scope) - read(b, scope))
            if op == "==":
                return zero_verdict(p, scope)
            if op == "!=":
                return zero_verdict(p, scope).negated
            return sign_verdict(_as_not_negative(op, p), scope)
    return Verdict.UNKNOWN


def proved(condition: Expr, ranges: Ranges = NO_RANGES) -> bool:
    """Whether a condition provably holds for all values of variables in `ranges` and symbols."""
    return decide(condition, ranges) is Verdict.PROVED


def equal(a: Expr, b: Expr, ranges: Ranges = NO_RANGES) -> bool:
    """Whether two integer expressions are provably equal."""
    if a == b:
        return True
    scope = scope_for((a, b), ranges)
    return zero_verdict(merge(read(a, scope) - read(b, scope)), scope) is Verdict.PROVED
