"""Vectorized loops as vector statements: loads and stores of several neighbours at once.

A loop whose body stores neighbours, or loads them, becomes statements over ramps; how many neighbours one instruction
takes the pass `widths` proves. Every other vectorized loop is unrolled.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.arith import linear
from mslang.ir.expr import TRUE, Binary, Const, Expr, Load, Ramp, Select, Var, children, with_children
from mslang.ir.program import Range
from mslang.ir.visit import conjunction, conjuncts, free_vars, map_expr, substitute, walk_expr
from mslang.kernel import Body, For, If, Module, Stmt, Store, Within
from mslang.kernel.visit import bodies, with_bodies
from mslang.lower.fold import fold
from mslang.lower.gpu.axes import axis_ranges, extents_of
from mslang.lower.gpu.indices import multiple_of
from mslang.target.description import Target

WIDEST = 16
"""The most lanes of a vector: 16 bytes of 8-bit elements."""

Ranges = Mapping[str, Range]


def vectorized(module: Module, target: Target) -> Module:
    """The module without vectorized loops: vector statements, or unrolled loops."""
    return replace(
        module,
        functions=tuple(replace(f, body=_body(f.body, axis_ranges(extents_of(f.launch)))) for f in module.functions),
    )


def _body(body: Body, ranges: Ranges) -> Body:
    out: list[Stmt] = []
    for s in body:
        inner = {**ranges, s.var: Range(s.start, s.extent)} if isinstance(s, For) else ranges
        made = with_bodies(s, tuple(_body(b, inner) for b in bodies(s)))
        if isinstance(made, For) and made.kind == "vectorized":
            out.extend(in_lanes(made, ranges))
        else:
            out.append(made)
    return tuple(out)


def in_lanes(s: For, ranges: Ranges) -> Body:
    """A vectorized loop as vector statements, or unrolled."""
    unrolled = (replace(s, kind="unrolled"),)
    if not isinstance(s.extent, Const) or s.extent.value < 2:
        return unrolled
    n = int(s.extent.value)
    lanes = next((k for k in (16, 8, 4, 2) if n % k == 0), 1) if n > WIDEST else n
    if lanes == 1:
        return unrolled
    first: Expr = s.start
    if lanes < n:
        first = fold(Binary("+", s.start, Binary("*", Var(s.var), Const(lanes))))
    made = _Lanes(s.var, first, lanes, {**ranges, s.var: Range(s.start, s.extent)}).body(s.body)
    if made is None:
        return unrolled
    return made if lanes == n else (replace(s, start=Const(0), extent=Const(n // lanes), body=made, kind="unrolled"),)


class _Lanes:
    """Statements for all values of a variable, from `first` on, at once."""

    def __init__(self, var: str, first: Expr, lanes: int, ranges: Ranges) -> None:
        self.var, self.first, self.lanes, self.ranges = var, first, lanes, ranges

    def body(self, body: Body) -> Body | None:
        """The statements as vector statements, or None if one of them cannot be."""
        out: list[Stmt] = []
        for s in body:
            made = self.statement(s)
            if made is None:
                return None
            out.append(made)
        return tuple(out)

    def statement(self, s: Stmt) -> Stmt | None:
        match s:
            case Store(mask=None):
                return self.store(s)
            case If(condition=c, then=then, otherwise=()):
                one, inner = self.one_for_all(c), self.body(then)
                return None if one is None or inner is None else If(one, inner)
            case Within(body=body, values=values) if not any(self.var in free_vars(e) for e in values):
                inner = self.body(body)
                return None if inner is None else replace(s, body=inner)
        return None

    def store(self, s: Store) -> Store | None:
        indices, value = self.indices(s.indices), self.value(s.value)
        if indices is None or value is None:
            return None
        loads = (x.indices for x in walk_expr(value) if isinstance(x, Load))
        return replace(s, indices=indices, value=value) if any(map(_neighbours, (indices, *loads))) else None

    def indices(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
        found = tuple(self.index(i) for i in indices)
        return None if None in found else tuple(i for i in found if i is not None)

    def index(self, e: Expr) -> Expr | None:
        """An index as a ramp, if it grows by a number from lane to lane."""
        if self.var not in free_vars(e):
            return e
        if any(isinstance(x, Load) for x in walk_expr(e)):
            return None
        e = map_expr(e, self._within_one)
        following = substitute(e, {self.var: Binary("+", Var(self.var), Const(1))})
        step = arith.simplify(Binary("-", following, e), self.ranges)
        if not isinstance(step, Const):
            return None
        base = fold(substitute(e, {self.var: self.first}))
        return base if step.value == 0 else Ramp(base, int(step.value), self.lanes)

    def _within_one(self, e: Expr) -> Expr | None:
        """`x // d` and `x % d` where the lanes are neighbours that no multiple of d parts."""
        match e:
            case Binary(op="//" | "%" as op, left=x, right=Const(value=d) as by) if self.var in free_vars(x):
                one, following = Const(1), Binary("+", Var(self.var), Const(1))
                step = arith.simplify(Binary("-", substitute(x, {self.var: following}), x), self.ranges)
                base = fold(substitute(x, {self.var: self.first}))
                aligned = multiple_of(arith.simplify(base, self.ranges)) % self.lanes == 0
                if step != one or not aligned or int(d) % self.lanes:
                    return None
                divided = Binary(op, base, by)
                return divided if op == "//" else Binary("+", divided, Binary("-", Var(self.var), self.first))
        return None

    def value(self, e: Expr) -> Expr | None:
        """A value for all lanes; what does not depend on the lane stays a scalar."""
        if self.var not in free_vars(e):
            return e
        match e:
            case Load(indices=indices):
                found = self.indices(indices)
                return None if found is None else replace(e, indices=found)
            case Var() | Binary(op="//" | "%"):
                return self.index(e)
            case Select(condition=c, then=then, otherwise=otherwise):
                one, a, b = self.one_for_all(c), self.value(then), self.value(otherwise)
                return None if one is None or a is None or b is None else Select(one, a, b)
        parts = tuple(self.value(x) for x in children(e))
        return None if None in parts else with_children(e, tuple(x for x in parts if x is not None))

    def one_for_all(self, condition: Expr) -> Expr | None:
        """A condition that has one value for all lanes, for the first of them; None if it may differ."""
        parts: list[Expr] = []
        for part in conjuncts(condition):
            if self.var in free_vars(part) and not self._uniform(part):
                return None
            parts.append(fold(substitute(part, {self.var: self.first})))
        return conjunction(tuple(parts)) if parts else TRUE

    def _uniform(self, e: Expr) -> bool:
        """`x + k·v < 0`, where x, and what vectors before add to it, is a multiple of more than the lanes add."""
        found = linear.condition(e)
        if found is None or found.relation != "<":
            return False
        k = found.form.terms.get(self.var, 0)
        rest = gcd(found.form.constant, *(c for v, c in found.form.terms.items() if v != self.var))
        over = self.ranges[self.var]
        if over.extent != Const(self.lanes):
            rest = gcd(rest, k * self.lanes)
        return k > 0 and over.start == Const(0) and k * self.lanes <= rest


def _neighbours(indices: tuple[Expr, ...]) -> bool:
    """Do lanes access neighbours, in the last dimension?"""
    if not indices:
        return False
    *others, last = indices
    return isinstance(last, Ramp) and last.stride == 1 and not any(isinstance(i, Ramp) for i in others)
