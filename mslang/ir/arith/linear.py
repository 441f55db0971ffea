"""Linear forms: a constant plus coefficients times variables.

One form serves two kinds of coefficients. Lowering and code generation ask about numbers: `linear` gives plain
integers. Legality asks about sizes that may depend on decisions: `symbolic` gives polynomials (`arith.size`), in which
the variables that were not asked for count as constants. The variables of a form are names; a code generator's lane
number is one more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

from mslang.ir.arith.convert import read_size
from mslang.ir.arith.size import NOTHING, Poly, number
from mslang.ir.arith.write import write
from mslang.ir.dtype import INDEX
from mslang.ir.expr import Binary, Const, Expr, Unary, Var, dtype_of
from mslang.ir.visit import CACHED, free_vars

C = TypeVar("C", int, Poly)

Interval = tuple[int, int]
"""Inclusive bounds."""


class Form(NamedTuple, Generic[C]):
    """`constant + Σ coefficient·variable`; no coefficient is 0, `terms` are in order of appearance."""

    constant: C
    terms: Mapping[str, C]


Linear = Form[int]
"""A form with integer coefficients."""


class Condition(NamedTuple):
    """`form < 0`, `form == 0` or `form != 0`, by `relation`."""

    relation: str
    form: Linear


# ------------------------------------------------------------------ reading and writing
@lru_cache(maxsize=CACHED)
def linear(e: Expr) -> Linear | None:
    """The linear form of an index in all of its variables; None if it has none with integer coefficients."""
    return _read(e, _numeric)


def symbolic(e: Expr, names: frozenset[str]) -> Form[Poly] | None:
    """The linear form of an index in the variables `names`; None if it is not linear in them, or no index.

    Everything else, other variables included, is part of the coefficients. Numbers of other types wrap round at their
    own width, or are rounded: sums of them cannot be regrouped.
    """
    if dtype_of(e) != INDEX:
        return None

    def leaf(x: Expr) -> Form[Poly] | None:
        if isinstance(x, Var) and x.name in names:
            return Form(NOTHING, {x.name: number(1)})
        return None if free_vars(x) & names else Form(read_size(x), {})

    return _read(e, leaf)


def coefficients(e: Expr, names: frozenset[str]) -> dict[str, Expr] | None:
    """The coefficients of an index that is linear in the variables `names`; None if it is not.

    Example:
        >>> coefficients(Binary("+", Binary("*", Var("i"), Const(8)), Var("j")), frozenset({"i"}))
        {'i': Const(value=8, dtype='i64')}
    """
    if not free_vars(e) & names:
        return {}
    form = symbolic(e, names)
    return None if form is None else {name: write(k) for name, k in form.terms.items()}


def _numeric(e: Expr) -> Linear | None:
    match e:
        case Const(value=v, dtype=d) if d == INDEX:
            return Form(int(v), {})
        case Var(name=n, dtype=d) if d == INDEX:
            return Form(0, {n: 1})
    return None


def _read(e: Expr, leaf: Callable[[Expr], Form[Any] | None]) -> Form[Any] | None:
    """The form of sums, differences and products of what `leaf` gives a form to."""
    found = leaf(e)
    if found is not None:
        return found
    match e:
        case Binary(op="+" | "-" as op, left=left, right=right):
            a, b = _read(left, leaf), _read(right, leaf)
            return None if a is None or b is None else add(a, b, 1 if op == "+" else -1)
        case Binary(op="*", left=left, right=right):
            a, b = _read(left, leaf), _read(right, leaf)
            if a is None or b is None or (a.terms and b.terms):
                return None
            return scale(a, b.constant) if a.terms else scale(b, a.constant)
        case Unary(op="-", operand=x):
            a = _read(x, leaf)
            return None if a is None else scale(a, -1)
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
    """An index with equal terms collected, if it is linear with integer coefficients; else the index itself."""
    form = linear(e)
    return e if form is None else expression(form)


@lru_cache(maxsize=CACHED)
def condition(e: Expr) -> Condition | None:
    """A comparison of indices in normal form; None if it is none, or not linear."""
    if not isinstance(e, Binary):
        return None
    a, b = linear(e.left), linear(e.right)
    if a is None or b is None:
        return None
    match e.op:
        case "<":
            return Condition("<", add(a, b, -1))
        case "<=":  # `a <= b` is `a - b - 1 < 0`
            return Condition("<", _plus(add(a, b, -1), -1))
        case ">":
            return Condition("<", add(b, a, -1))
        case ">=":
            return Condition("<", _plus(add(b, a, -1), -1))
        case "==" | "!=":
            return Condition(e.op, add(a, b, -1))
    return None


# ------------------------------------------------------------------ arithmetic
def add(a: Form[C], b: Form[C], sign: int = 1) -> Form[C]:
    """`a + sign * b`."""
    constant = a.constant + b.constant * sign
    if not b.terms:
        return Form(constant, a.terms)
    terms = dict(a.terms)
    for name, k in b.terms.items():
        old = terms.get(name)
        terms[name] = k * sign if old is None else old + k * sign
    return Form(constant, {n: k for n, k in terms.items() if k})


def scale(a: Form[C], k: C | int) -> Form[C]:
    """`k * a`."""
    return Form(a.constant * k, {n: c * k for n, c in a.terms.items()} if k else {})


def divide(a: Linear, by: int, ranges: Mapping[str, Interval]) -> tuple[Linear, Linear] | None:
    """Floor quotient and remainder by a positive number, where both are linear; None if they are not known to be."""
    even = {n: k for n, k in a.terms.items() if k % by == 0}
    whole = Form(a.constant // by * by, even)
    rest = add(a, whole, -1)
    bounds = interval(rest, ranges)
    if bounds is None or bounds[0] // by != bounds[1] // by:
        return None
    extra = bounds[0] // by
    quotient = Form(whole.constant // by + extra, {n: k // by for n, k in even.items()})
    return quotient, _plus(rest, -extra * by)


def _plus(a: Linear, n: int) -> Linear:
    return Form(a.constant + n, a.terms)


# ------------------------------------------------------------------ bounds and decisions
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


def compare(op: str, a: Linear, b: Linear, ranges: Mapping[str, Interval]) -> bool | None:
    """Whether `a op b`, a comparison, holds everywhere (True) or nowhere (False)."""
    match op:
        case "<":
            return decide(Condition("<", add(a, b, -1)), ranges)
        case "<=":
            return decide(Condition("<", _plus(add(a, b, -1), -1)), ranges)
        case ">" | ">=":
            return compare("<" if op == ">" else "<=", b, a, ranges)
    return decide(Condition(op, add(a, b, -1)), ranges)
