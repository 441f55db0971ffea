"""Predicates moved out of the loops that do not change them.

The predicate of a tail depends on blocks and threads; it stands in the innermost loops, where every iteration would ask
it again, and keep what only the first iteration does from standing before the loop.
"""

from __future__ import annotations

from msgspec.structs import replace

from mslang.ir.visit import conjunction, conjuncts, free_vars, loads_of
from mslang.kernel import Body, For, If, Module, Stmt
from mslang.kernel.visit import bodies, map_functions, with_bodies
from mslang.target.description import Target


def lifted(module: Module, target: Target) -> Module:
    """The module with the conditions around all of a loop's body that the loop does not change around the loop."""
    return map_functions(module, _body)


def _body(body: Body) -> Body:
    return tuple(_statement(s) for s in body)


def _statement(s: Stmt) -> Stmt:
    s = with_bodies(s, tuple(_body(b) for b in bodies(s)))
    match s:
        case For(kind="serial" | "unrolled", var=v, body=(If(condition=c, then=then, otherwise=()),)):
            fixed = tuple(p for p in conjuncts(c) if v not in free_vars(p) and not any(loads_of(p)))
            left = tuple(p for p in conjuncts(c) if p not in fixed)
            if fixed:
                inner = (If(conjunction(left), then),) if left else then
                return If(conjunction(fixed), (replace(s, body=inner),))
        case If(condition=c, then=(If(condition=inner, then=then, otherwise=()),), otherwise=()):
            return If(conjunction((*conjuncts(c), *conjuncts(inner))), then)
    return s
