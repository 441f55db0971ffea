"""Init moved out of reduction loops: what only the first iteration does first is done before the loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from mslang.ir.arith.linear import Condition, condition
from mslang.ir.expr import TRUE, ZERO, Binary, Const, Expr, Var
from mslang.ir.visit import conjunction, conjuncts
from mslang.kernel.nodes import Body, For, If, Stmt
from mslang.kernel.visit import bodies, expressions, walk, with_bodies
from mslang.lower.analysis import mentions


def hoist(body: Body, counted: Mapping[str, int] | None = None) -> Body:
    """Statements with `for v { if v == 0 { I } S }` made `I; for v { S }`, from the inside out.

    `counted` are the loops around, each with its first value.
    """
    counted = counted or {}
    out: list[Stmt] = []
    for s in body:
        inner = counted
        if isinstance(s, For) and isinstance(s.start, Const):
            inner = {**counted, s.var: int(s.start.value)}
        made = with_bodies(s, tuple(hoist(b, inner) for b in bodies(s)))
        if isinstance(made, If):
            made = replace(made, condition=_each_zero(made.condition, counted))
        out.extend(_hoisted(made))
    return tuple(out)


def _hoisted(s: Stmt) -> Iterator[Stmt]:
    match s:
        case For(
            var=v,
            start=Const(value=0),
            extent=Const(value=n),
            kind="serial" | "unrolled",
            body=(If(condition=c, then=then, otherwise=()), *rest),
        ) if int(n) > 0:
            first = Binary("==", Var(v), ZERO)
            parts = conjuncts(c)
            if first in parts and not any(mentions(e, v) for x in walk(then) for e in expressions(x)):
                left = conjunction(tuple(p for p in parts if p != first))
                if not mentions(left, v):
                    yield from then if left == TRUE else (If(left, then),)
                    if rest:
                        yield replace(s, body=tuple(rest))
                    return
    yield s


def _each_zero(c: Expr, starts: Mapping[str, int]) -> Expr:
    """`a*4 + b == 0` of loops that count from 0 as `a == 0 and b == 0`."""
    parts: list[Expr] = []
    for part in conjuncts(c):
        match condition(part):
            case Condition(relation="==", form=form) if (
                form.constant == 0
                and form.terms
                and all(k > 0 and starts.get(name) == 0 for name, k in form.terms.items())
            ):
                parts.extend(Binary("==", Var(name), ZERO) for name in form.terms)
            case _:
                parts.append(part)
    return conjunction(tuple(parts))
