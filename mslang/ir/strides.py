"""Strides of memory of its own: no two elements of what is written share a place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Expr


def shared_places(strides: Sequence[int], extents: Sequence[int], *, written: bool) -> str | None:
    """Why elements share memory, or lie in front of the first one; None if they do neither.

    A dimension may step by anything above all that smaller strides reach. Elements that are only read may share memory.

    >>> shared_places((4, 1), (8, 4), written=True)
    >>> shared_places((3, 1), (8, 4), written=True)
    'the dimension of 8 elements steps by 3, and smaller strides reach 3'
    """
    if 0 in extents:
        return None
    reach = 0
    for step, extent in sorted(zip(strides, extents, strict=True)):
        if extent == 1:
            continue
        if step < 0:
            return f"the dimension of {extent} elements steps by {step}, and memory begins with the first element"
        if written and step <= reach:
            return f"the dimension of {extent} elements steps by {step}, and smaller strides reach {reach}"
        reach += step * (extent - 1)
    return None


def provably_apart(strides: Sequence[Expr], extents: Sequence[Expr]) -> bool:
    """Whether each element provably has a place of its own, whatever the sizes are."""
    dims = list(zip(strides, extents, strict=True))
    return any(_ascending(order) for order in permutations(reversed(dims)))


def _ascending(dims: Sequence[tuple[Expr, Expr]]) -> bool:
    """Whether each stride is provably above all that those before it reach."""
    reach: Expr = ZERO
    for step, extent in dims:
        if extent == ONE:
            continue
        if not arith.proved(Binary("<", reach, step)):
            return False
        reach = Binary("+", reach, Binary("*", step, Binary("-", extent, ONE)))
    return True


__all__ = ["provably_apart", "shared_places"]
