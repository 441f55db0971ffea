"""Init moved out of reduction loops: what only the first iteration does first is done before the loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from mslang.ir.arith import proved
from mslang.ir.arith.linear import symbolic
from mslang.ir.arith.sign import positive
from mslang.ir.expr import TRUE, ZERO, Binary, Const, Expr, Var
from mslang.ir.visit import conjunction, conjuncts, free_vars, loads_of
from mslang.kernel.nodes import Body, For, If, Stmt
from mslang.kernel.visit import bodies, expressions, walk, with_bodies
from mslang.lower.analysis import mentions, stored


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
            extent=n,
            kind="serial" | "unrolled" | "vectorized",
            body=(If(condition=c, then=then, otherwise=()), *rest),
        ) if _runs(n):
            first = Binary("==", Var(v), ZERO)
            parts = conjuncts(c)
            # The number of iterations is asked for before the first of them.
            settled = stored(then).isdisjoint(x.buffer for x in loads_of(n))
            if first in parts and settled and not any(mentions(e, v) for x in walk(then) for e in expressions(x)):
                left = conjunction(tuple(p for p in parts if p != first))
                if not mentions(left, v):
                    yield from then if left == TRUE else (If(left, then),)
                    if rest:
                        yield replace(s, body=tuple(rest))
                    return
    yield s


def _runs(extent: Expr) -> bool:
    """Whether a loop provably has an iteration."""
    return int(extent.value) > 0 if isinstance(extent, Const) else proved(Binary(">", extent, ZERO))


def _each_zero(c: Expr, starts: Mapping[str, int]) -> Expr:
    """`a*4 + b == 0` of loops that count from 0 as `a == 0 and b == 0`."""
    parts: list[Expr] = []
    for part in conjuncts(c):
        names = _all_zero(part, starts)
        parts.extend((part,) if names is None else (Binary("==", Var(v), ZERO) for v in names))
    return conjunction(tuple(parts))


def _all_zero(part: Expr, starts: Mapping[str, int]) -> tuple[str, ...] | None:
    """The loops that are all at 0 exactly where a condition holds; None if it says something else.

    It is the sum of loops that count from 0, each by a positive number or by a size that provably is one.
    """
    if not (isinstance(part, Binary) and part.op == "=="):
        return None
    difference = Binary("-", part.left, part.right)
    form = symbolic(difference, free_vars(difference))
    if form is None or form.constant or not form.terms:
        return None
    counts = all(starts.get(v) == 0 and k.is_size and positive(k) for v, k in form.terms.items())
    return tuple(form.terms) if counts else None
