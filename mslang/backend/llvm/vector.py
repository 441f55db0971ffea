"""How a vectorized loop is cut into vector operations, and which loops can be."""

from __future__ import annotations

from typing import NamedTuple

from mslang.ir.dtype import size_of
from mslang.ir.expr import Expr, Load, dtype_of
from mslang.ir.program import Evaluate, For, If, Let, Stmt, Store, While
from mslang.ir.visit import free_vars
from mslang.lower.analysis import accesses
from mslang.lower.kernel import Allocate, Body, walk
from mslang.target.description import Target

_WIDE = 4
"""Native vectors at most in one operation, where loops stand inside of the vector loop."""


class Chunk(NamedTuple):
    """Iterations `start` to `start + active`, run in `lanes` lanes."""

    start: int
    lanes: int
    active: int


def native_lanes(body: Body, target: Target) -> int:
    """How many lanes of the body's widest element type a vector register holds."""
    widest = max((size_of(_element(a)) for a in accesses(body)), default=4)
    return max(1, target.vector_bits // 8 // widest)


def _element(access: Load | Store) -> str:
    return access.dtype if isinstance(access, Load) else dtype_of(access.value)


def chunks(trips: int, native: int, *, wide: bool, masks: bool) -> list[Chunk]:
    """Cut `trips` iterations: whole vectors, then a masked one or vectors of half, a quarter, … the lanes."""
    lanes = native * (min(_WIDE, -(-trips // native)) if wide else 1)
    pieces = [Chunk(k, lanes, lanes) for k in range(0, trips - lanes + 1, lanes)]
    done = len(pieces) * lanes
    while done < trips:
        rest = trips - done
        while lanes > rest:
            lanes //= 2
        if lanes < rest and masks:
            pieces.append(Chunk(done, lanes * 2, rest))
            return pieces
        pieces.append(Chunk(done, lanes, lanes))
        done += lanes
    return pieces


def vectorizable(loop: For) -> bool:
    """Whether all iterations can run as lanes: no buffer of their own, no loop bounds or addresses that forbid it."""
    varying = {loop.var}
    return all(_fits(s, varying) for s in walk(loop.body))


def _fits(s: Stmt, varying: set[str]) -> bool:
    match s:
        case For(kind="parallel") | While() | Allocate() | Evaluate():
            return False
        case For(start=a, extent=e):
            return not (_varies(a, varying) or _varies(e, varying))
        case Let(name=n, value=v):
            if _varies(v, varying):
                varying.add(n)
        case Store(indices=xs):
            return any(_varies(x, varying) for x in xs)
        case If():
            return True
    return True


def _varies(e: Expr, varying: set[str]) -> bool:
    return not varying.isdisjoint(free_vars(e))
