"""Simplification of integer and boolean expressions where variables have ranges, and the verdict on conditions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from mslang.ir.arith.compare import not_negative, zero_verdict
from mslang.ir.arith.convert import read, simplify_in
from mslang.ir.arith.data import may_overflow
from mslang.ir.arith.divide import merge
from mslang.ir.arith.interval import EMPTY, Scope, sign_verdict
from mslang.ir.arith.scope import Ranges, names_in, scope_for
from mslang.ir.arith.verdict import Verdict, both, verdict
from mslang.ir.dtype import INDEX
from mslang.ir.expr import COMPARISONS, ONE, Binary, Const, Expr, Unary, Var, dtype_of
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
            return sign_verdict(not_negative(op, p), scope)
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
