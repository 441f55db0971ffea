"""Linear integer forms over variables, for the questions that lowering asks most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mslang.ir.dtype import INDEX
from mslang.ir.expr import Binary, Const, Expr, Var

Interval = tuple[int, int]
"""Inclusive bounds."""


class Linear(NamedTuple):
    """`constant + Σ coefficient·variable`; no coefficient is 0."""

    constant: int
    terms: Mapping[str, int]


class Condition(NamedTuple):
    """`form < 0`, `form == 0` or `form != 0`, by `relation`."""

    relation: str
    form: Linear


def linear(e: Expr) -> Linear | None:
    """The linear form of an index, or None if it has none with known coefficients."""
    match e:
        case Const(value=v, dtype=d) if d == INDEX:
            return Linear(int(v), {})
        case Var(name=n, dtype=d) if d == INDEX:
            return Linear(0, {n: 1})
        case Binary(op="+" | "-" as op, left=left, right=right):
            a, b = linear(left), linear(right)
            return None if a is None or b is None else _sum(a, b, 1 if op == "+" else -1)
        case Binary(op="*", left=left, right=right):
            a, b = linear(left), linear(right)
            if a is None or b is None or (a.terms and b.terms):
                return None
            return _scaled(a, b.constant) if a.terms else _scaled(b, a.constant)
    return None


def condition(e: Expr) -> Condition | None:
    """A comparison of indices in normal form."""
    if not isinstance(e, Binary):
        return None
    a, b = linear(e.left), linear(e.right)
    if a is None or b is None:
        return None
    match e.op:
        case "<":
            return Condition("<", _sum(a, b, -1))
        case "<=":
            return Condition("<", _plus(_sum(a, b, -1), -1))
        case ">":
            return Condition("<", _sum(b, a, -1))
        case ">=":
            return Condition("<", _plus(_sum(b, a, -1), -1))
        case "==" | "!=":
            return Condition(e.op, _sum(a, b, -1))
    return None


def expression(form: Linear) -> Expr:
    """A form as an expression, the constant last."""
    total: Expr | None = None
    for name, k in form.terms.items():
        term: Expr = Var(name) if abs(k) == 1 else Binary("*", Var(name), Const(abs(k)))
        if total is None:
            total = term if k > 0 else Binary("*", Var(name), Const(k))
        else:
            total = Binary("+" if k > 0 else "-", total, term)
    if total is None:
        return Const(form.constant)
    if form.constant == 0:
        return total
    return Binary("+" if form.constant > 0 else "-", total, Const(abs(form.constant)))


def tidy(e: Expr) -> Expr:
    """An index with what cancels gone, if it is linear."""
    form = linear(e)
    return e if form is None else expression(form)


def interval(form: Linear, ranges: Mapping[str, Interval]) -> Interval | None:
    """The least and greatest value over the ranges of its variables; None if one is not known."""
    lo = hi = form.constant
    for name, k in form.terms.items():
        known = ranges.get(name)
        if known is None:
            return None
        lo += k * (known[0] if k > 0 else known[1])
        hi += k * (known[1] if k > 0 else known[0])
    return lo, hi


def decide(c: Condition, ranges: Mapping[str, Interval]) -> bool | None:
    """Whether the condition holds everywhere (True) or nowhere (False)."""
    bounds = interval(c.form, ranges)
    if bounds is None:
        return None
    lo, hi = bounds
    if c.relation == "<":
        return True if hi < 0 else False if lo >= 0 else None
    apart = lo > 0 or hi < 0
    if lo == hi == 0 or apart:
        return apart == (c.relation == "!=")
    return None


def _sum(a: Linear, b: Linear, sign: int) -> Linear:
    terms = dict(a.terms)
    for name, k in b.terms.items():
        terms[name] = terms.get(name, 0) + sign * k
    return Linear(a.constant + sign * b.constant, {n: k for n, k in terms.items() if k})


def _plus(a: Linear, n: int) -> Linear:
    # `a <= b` is `a - b - 1 < 0`.
    return Linear(a.constant + n, a.terms)


def _scaled(a: Linear, k: int) -> Linear:
    return Linear(a.constant * k, {n: c * k for n, c in a.terms.items() if c * k})
