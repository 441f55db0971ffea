"""Vectors in CUDA C: lane by lane, with loads and stores of up to 16 bytes where addresses are provably aligned."""

from __future__ import annotations

import math

from mslang.backend.cuda.expression import flattened
from mslang.backend.cuda.scope import Place, Scope
from mslang.ir.arith import equal, simplify
from mslang.ir.dtype import size_of
from mslang.ir.expr import (
    LOGICAL,
    Binary,
    Broadcast,
    Const,
    DynamicRange,
    Expr,
    Load,
    MaskedLoad,
    Ramp,
    Select,
    Shuffle,
    Symbol,
    children,
    with_children,
)

WIDEST = 16
"""Bytes that one instruction loads or stores."""


def lanes_of(e: Expr, scope: Scope) -> int:
    """How many elements the value of an expression has."""
    if e in scope.wide:
        return len(scope.wide[e].elements)
    match e:
        case Ramp(lanes=n) | Broadcast(lanes=n):
            return n
        case Shuffle(order=order):
            return len(order)
    return max((lanes_of(x, scope) for x in children(e)), default=1)


def lane(e: Expr, k: int, scope: Scope) -> Expr:
    """Lane `k` of a vector as a scalar expression; a scalar as it is."""
    if e in scope.wide:
        return Shuffle((e,), (k,))
    match e:
        case Ramp(base=base, stride=stride):
            return Binary("+", base, Const(stride * k))
        case Broadcast(value=x):
            return x
        case Shuffle(operands=xs, order=order):
            at = order[k]
            for x in xs:
                n = lanes_of(x, scope)
                if at < n:
                    return lane(x, at, scope)
                at -= n
            raise IndexError(f"a vector has no lane {order[k]}")
        case MaskedLoad(buffer=b, indices=xs, dtype=d, mask=m):
            read = Load(b, tuple(lane(x, k, scope) for x in xs), d)
            return Select(lane(m, k, scope), read, Const(False if d == "bool" else 0, d))
    return with_children(e, tuple(lane(x, k, scope) for x in children(e)))


def unconditional_loads(e: Expr) -> list[Load]:
    """The loads of an expression that happen whatever its conditions are."""
    match e:
        case Load(indices=xs):
            return [e, *(y for x in xs for y in unconditional_loads(x))]
        case Select(condition=c):
            return unconditional_loads(c)
        case Binary(op=op, left=left) if op in LOGICAL:
            return unconditional_loads(left)
        case MaskedLoad(mask=m):
            return unconditional_loads(m)
    return [y for x in children(e) for y in unconditional_loads(x)]


def piece(place: Place, indices: tuple[Expr, ...], scope: Scope) -> int:
    """How many neighbours one instruction may take at once: 1 if they are none, or not provably aligned."""
    lanes = max((lanes_of(x, scope) for x in indices), default=1)
    size = size_of(place.buffer.dtype)
    starts = [flattened(place, tuple(lane(x, k, scope) for x in indices)) for k in range(lanes)]
    if any(not equal(e, Binary("+", starts[0], Const(k)), scope.ranges) for k, e in enumerate(starts)):
        return 1
    first = multiple_of(simplify(starts[0], scope.ranges))
    n = min(WIDEST // size, lanes)
    while n > 1 and (lanes % n or n & (n - 1) or first % n or place.align % (n * size)):
        n -= 1
    return n


def multiple_of(e: Expr) -> int:
    """A number of which an index is a multiple for all values of its variables; 0 if it is always 0."""
    match e:
        case Const(value=v):
            return abs(int(v))
        case Symbol(domain=DynamicRange(multiple=n)):
            return n
        case Binary(op="+" | "-" | "min" | "max", left=a, right=b):
            return math.gcd(multiple_of(a), multiple_of(b))
        case Binary(op="*", left=a, right=b):
            return multiple_of(a) * multiple_of(b)
        case Binary(op="//", left=a, right=Const(value=int() as d)) if d > 0 and multiple_of(a) % d == 0:
            return multiple_of(a) // d
        case Binary(op="%", left=a, right=b):
            return math.gcd(multiple_of(a), multiple_of(b))
        case Select(then=a, otherwise=b):
            return math.gcd(multiple_of(a), multiple_of(b))
    return 1
