"""From the ranges that callers give to the scopes that proofs use: only what matters to an expression, hashable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from mslang.ir.arith.convert import read_size
from mslang.ir.arith.interval import EMPTY, Scope
from mslang.ir.arith.size import Poly
from mslang.ir.expr import Expr
from mslang.ir.nodes import Range
from mslang.ir.visit import free_vars

Ranges = Mapping[str, Range]
"""Loop or axis variable -> the range it runs over; starts and extents over symbols and outer variables."""


@lru_cache(maxsize=65536)
def names_in(e: Expr) -> frozenset[str]:
    """The variables of an expression."""
    return free_vars(e)


def scope_for(es: Iterable[Expr], ranges: Ranges) -> Scope:
    """The scope of the variables in these expressions, and of those that their ranges mention."""
    if not ranges:
        return EMPTY
    wanted: dict[str, Range] = {}
    todo = [n for e in es for n in names_in(e)]
    while todo:
        n = todo.pop()
        if n in wanted or n not in ranges:
            continue
        r = wanted[n] = ranges[n]
        todo.extend(names_in(r.start))
        todo.extend(names_in(r.extent))
    return _scope(tuple(sorted(wanted.items(), key=lambda item: item[0]))) if wanted else EMPTY


@lru_cache(maxsize=8192)
def _scope(items: tuple[tuple[str, Range], ...]) -> Scope:
    return Scope(_span(n, r) for n, r in items)


@lru_cache(maxsize=16384)
def _span(name: str, r: Range) -> tuple[str, Poly, Poly]:
    low = read_size(r.start)
    return name, low, low + read_size(r.extent) - 1
