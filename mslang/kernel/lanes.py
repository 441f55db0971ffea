"""Lanes of expressions. A scalar operand of a vector operation counts in each of its lanes."""

from __future__ import annotations

from functools import lru_cache

from mslang.ir.expr import (
    ZERO,
    Binary,
    Broadcast,
    Const,
    Expr,
    Load,
    MaskedLoad,
    Ramp,
    Select,
    Shuffle,
    Var,
    children,
    with_children,
)
from mslang.ir.text import print_expr
from mslang.ir.visit import CACHED


@lru_cache(maxsize=CACHED)
def lanes_of(e: Expr) -> int:
    """How many lanes an expression has; 1 for a scalar.

    Raises:
        ValueError: it combines vectors of different lengths.
    """
    match e:
        case Ramp(lanes=n) | Broadcast(lanes=n) | Var(lanes=n):
            return n
        case Shuffle(order=order):
            return len(order)
    found = {n for x in children(e) if (n := lanes_of(x)) > 1}
    if len(found) > 1:
        raise ValueError(f"`{print_expr(e)}` mixes vectors of {' and '.join(map(str, sorted(found)))} lanes")
    return max(found, default=1)


def lane(e: Expr, k: int) -> Expr:
    """Lane `k` of a vector as a scalar; a scalar as it is.

    >>> print_expr(lane(Binary("*", Ramp(Var("i"), 2, 4), Const(3)), 1))
    '(i + 2) * 3'
    """
    match e:
        case Ramp(base=base, stride=stride):
            return Binary("+", base, Const(stride * k))
        case Broadcast(value=x):
            return x
        case Var(lanes=n) if n > 1:
            return Shuffle((e,), (k,))
        case Shuffle(operands=xs, order=order):
            at = order[k]
            for x in xs:
                n = lanes_of(x)
                if at < n:
                    return lane(x, at)
                at -= n
            raise IndexError(f"a vector has no lane {order[k]}")
        case MaskedLoad(buffer=b, indices=xs, dtype=d, mask=m):
            read = Load(b, tuple(lane(x, k) for x in xs), d)
            return Select(lane(m, k), read, Const(False if d == "bool" else 0, d))
    return with_children(e, tuple(lane(x, k) for x in children(e)))


def tail_mask(active: int, lanes: int) -> Expr:
    """The mask in which the first `active` lanes act.

    >>> print_expr(tail_mask(3, 4))
    'ramp(0, 1, 4) < 3'
    """
    return Binary("<", Ramp(ZERO, 1, lanes), Const(active))


def active_lanes(mask: Expr) -> int | None:
    """How many lanes act, from the first, if `mask` is what `tail_mask` makes; else None."""
    match mask:
        case Binary(op="<", left=Ramp(base=Const(value=0), stride=1), right=Const(value=n)):
            return int(n)
    return None
