"""How often each statement of a kernel runs, conditions counted: the padding of tiles that do not divide is not
work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from math import prod
from typing import NamedTuple

from mslang.diagnostics import MsError
from mslang.ir import arith
from mslang.ir.arith.arrays import compile_arrays
from mslang.ir.expr import Binary, Const, Expr, Unary
from mslang.ir.visit import conjuncts, free_vars, substitute
from mslang.kernel.nodes import Atomic, Evaluate, For, If, Let, Module, Stmt, Store, While
from mslang.kernel.visit import bodies

MOST = 1 << 22
"""Iterations that are tried at most to count those in which conditions hold."""


def runs(module: Module) -> tuple[int | None, ...]:
    """The number of times that each statement runs, in the order of a summary's statements.

    None where that depends on data or on what is known at the call, or is too much to count.
    """
    return tuple(n for f in module.functions for s in f.body for n in _visit(s, _Place({}, {}, ())))


class _Place(NamedTuple):
    """The loops around by their first value and extent (None: not known), what names stand for, and the conditions."""

    loops: Mapping[str, tuple[int, int] | None]
    values: Mapping[str, Expr]
    conditions: tuple[Expr, ...]


def _visit(s: Stmt, place: _Place) -> Iterator[int | None]:
    inner = [place] * len(bodies(s))
    match s:
        case Store() | Atomic() | Evaluate():
            yield _count(place)
        case Let(name=name, value=value):
            inner = [place._replace(values={**place.values, name: substitute(value, place.values)})]
        case If(condition=c):
            holds = substitute(c, place.values)
            then, otherwise = ((*place.conditions, x) for x in (holds, Unary("not", holds)))
            inner = [place._replace(conditions=then), place._replace(conditions=otherwise)]
        case For():
            inner = [_in_loop(s, place)]
        case While():
            inner = [place._replace(loops={**place.loops, "while": None})]
    for body, at in zip(bodies(s), inner, strict=True):
        for x in body:
            yield from _visit(x, at)


def _in_loop(s: For, place: _Place) -> _Place:
    start, extent = (arith.simplify(substitute(e, place.values)) for e in (s.start, s.extent))
    span = None
    if isinstance(start, Const) and isinstance(extent, Const):
        span = int(start.value), int(extent.value)
    return place._replace(loops={**place.loops, s.var: span})


def _count(place: _Place) -> int | None:
    spans = {var: span for var, span in place.loops.items() if span is not None}
    if len(spans) < len(place.loops):
        return None
    total, free = 1, dict(spans)
    for group in _together([c for e in place.conditions for c in conjuncts(e)]):
        names = sorted({v for c in group for v in free_vars(c)})
        if not all(v in spans for v in names):
            return None
        held = _held(group, {v: free.pop(v) for v in names})
        if held is None:
            return None
        total *= held
    return total * prod(extent for _, extent in free.values())


def _together(conditions: Sequence[Expr]) -> list[list[Expr]]:
    """Conditions in groups that share no variable."""
    groups: list[list[Expr]] = []
    for c in dict.fromkeys(conditions):
        shared = [g for g in groups if any(free_vars(c) & free_vars(x) for x in g)]
        groups = [g for g in groups if g not in shared] + [[x for g in shared for x in g] + [c]]
    return groups


def _held(conditions: Sequence[Expr], spans: Mapping[str, tuple[int, int]]) -> int | None:
    """For how many values of loops conditions hold; None where they ask for more than loops."""
    import numpy as np

    shape = [extent for _, extent in spans.values()]
    if prod(shape) > MOST:
        return None
    axes = np.meshgrid(*(np.arange(a, a + n, dtype=np.int64) for a, n in spans.values()), indexing="ij", sparse=True)
    try:
        compiled = compile_arrays([reduce(lambda a, b: Binary("and", a, b), conditions)])
        (found,) = compiled(dict(zip(spans, axes, strict=True)))
    except MsError:
        return None
    return int(np.count_nonzero(np.broadcast_to(found, shape)))


__all__ = ["runs"]
