"""Comparisons of polynomials with 0: their verdicts and canonical forms."""

from __future__ import annotations

from math import gcd

from mslang.ir.arith.divide import expanded
from mslang.ir.arith.interval import Scope, sign_verdict
from mslang.ir.arith.size import Poly, collect, number
from mslang.ir.arith.verdict import Verdict, verdict
from mslang.ir.arith.write import rank, write
from mslang.ir.dtype import INDEX
from mslang.ir.expr import COMPARISONS, FALSE, TRUE, Binary, Const, Expr, Unary, dtype_of

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


def compare(op: str, p: Poly, scope: Scope) -> Expr:
    """The comparison `p op 0` in canonical form, or its truth value."""
    if op in ("==", "!="):
        answer = zero_verdict(p, scope)
    else:
        p = not_negative(op, p)
        answer = sign_verdict(p, scope)
    if answer in (Verdict.PROVED, Verdict.REFUTED):
        return Const((answer is Verdict.PROVED) == (op != "!="), "bool")
    lead, plus, minus, rest = _sides(_without_content(p))
    if op in ("==", "!="):
        return Binary(op, *map(write, (plus, minus - rest) if lead > 0 else (minus, plus + rest)))
    if not minus:
        return Binary(">=", write(plus), write(-rest))
    return Binary("<", write(minus), write(plus + rest + 1))


def not_negative(op: str, p: Poly) -> Poly:
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
