"""Indices that are linear in some variables: their coefficients."""

from __future__ import annotations

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Expr, Unary, Var
from mslang.ir.visit import free_vars


def linear_terms(e: Expr, inner: frozenset[str]) -> dict[str, Expr] | None:
    """The coefficients of an index that is linear in the variables `inner`; None if it is not."""
    if not free_vars(e) & inner:
        return {}
    match e:
        case Var(name=n):
            return {n: ONE}
        case Unary("-", x):
            return _scaled(linear_terms(x, inner), arith.sub(ZERO, ONE))
        case Binary("+" | "-" as op, left, right):
            a, b = linear_terms(left, inner), linear_terms(right, inner)
            if a is None or b is None:
                return None
            combine = arith.add if op == "+" else arith.sub
            return {v: combine(a.get(v, ZERO), b.get(v, ZERO)) for v in dict.fromkeys((*a, *b))}
        case Binary("*", left, right) if not free_vars(right) & inner:
            return _scaled(linear_terms(left, inner), right)
        case Binary("*", left, right) if not free_vars(left) & inner:
            return _scaled(linear_terms(right, inner), left)
    return None


def _scaled(terms: dict[str, Expr] | None, by: Expr) -> dict[str, Expr] | None:
    return None if terms is None else {v: arith.mul(c, by) for v, c in terms.items()}
