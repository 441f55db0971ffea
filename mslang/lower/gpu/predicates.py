"""Predicates decided for the threads of a launch: those that always hold go, and loops of one iteration."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.arith import Verdict, linear
from mslang.ir.expr import (
    COMPARISONS,
    FALSE,
    LOGICAL,
    ONE,
    TRUE,
    Binary,
    Const,
    Expr,
    Load,
    MaskedLoad,
)
from mslang.ir.program import Range
from mslang.ir.visit import map_expr, substitute, walk_expr
from mslang.kernel import Allocate, Atomic, Body, For, If, Let, Module, Stmt, Store
from mslang.kernel.visit import bodies, map_deep, map_expressions, with_bodies
from mslang.lower.analysis import has_condition
from mslang.lower.fold import fold, step
from mslang.lower.gpu.axes import axis_ranges, extents_of
from mslang.lower.gpu.indices import simpler
from mslang.target.description import Target

Ranges = Mapping[str, Range]

_CONDITIONS = COMPARISONS | LOGICAL


def decided(module: Module, target: Target) -> Module:
    """The module with the predicates decided that are, for all threads, and empty statements gone."""
    return replace(
        module,
        functions=tuple(replace(f, body=_body(f.body, axis_ranges(extents_of(f.launch)))) for f in module.functions),
    )


def _body(body: Body, ranges: Ranges) -> Body:
    out: list[Stmt] = []
    for s in body:
        out.extend(_statement(s, ranges))
    return tuple(out)


def _statement(s: Stmt, ranges: Ranges) -> Body:
    s = _with_indices(map_expressions(s, lambda e: _expression(e, ranges)), ranges)
    match s:
        case For(var=v, start=start, extent=extent):
            if isinstance(extent, Const) and extent.value <= 0:
                return ()
            if extent == ONE:
                return _body(map_deep(s.body, lambda e: fold(substitute(e, {v: start}))), ranges)
            inner = _body(s.body, {**ranges, v: Range(start, extent)})
            return (replace(s, body=inner),) if inner else ()
        case If(condition=c, then=then, otherwise=otherwise):
            if c in (TRUE, FALSE):
                return _body(then if c == TRUE else otherwise, ranges)
            a, b = _body(then, ranges), _body(otherwise, ranges)
            return (If(c, a, b),) if a or b else ()
        case Let() | Allocate():
            inner = _body(s.body, ranges)
            return (replace(s, body=inner),) if inner else ()
    return (with_bodies(s, tuple(_body(b, ranges) for b in bodies(s))),)


def _with_indices(s: Stmt, ranges: Ranges) -> Stmt:
    """A statement with its indices in canonical form: with the ranges of threads and loops, most `//` and `%` go."""

    def change(x: Expr) -> Expr | None:
        if isinstance(x, Load | MaskedLoad):
            return replace(x, indices=tuple(simpler(i, ranges) for i in x.indices))
        return None

    s = map_expressions(s, lambda e: map_expr(e, change))
    if isinstance(s, Store | Atomic):
        return replace(s, indices=tuple(simpler(i, ranges) for i in s.indices))
    return s


def _expression(e: Expr, ranges: Ranges) -> Expr:
    if not has_condition(e):
        return e

    def change(x: Expr) -> Expr | None:
        folded = step(x)
        if folded is not None or not isinstance(x, Binary) or x.op not in COMPARISONS:
            return folded
        verdict = _verdict(x, ranges)
        return None if verdict is None else TRUE if verdict else FALSE

    return map_expr(e, change)


def _verdict(e: Binary, ranges: Ranges) -> bool | None:
    quick = linear.condition(e)
    bounds = {v: b for v in quick.form.terms if (b := _numbers(ranges.get(v)))} if quick is not None else {}
    if quick is not None and len(bounds) == len(quick.form.terms):
        return linear.decide(quick, bounds)
    if any(isinstance(x, Load) for x in walk_expr(e)):
        return None
    verdict = arith.decide(e, ranges)
    return True if verdict is Verdict.PROVED else False if verdict is Verdict.REFUTED else None


def _numbers(r: Range | None) -> tuple[int, int] | None:
    if r is None or not isinstance(r.start, Const) or not isinstance(r.extent, Const):
        return None
    return int(r.start.value), int(r.start.value) + int(r.extent.value) - 1
