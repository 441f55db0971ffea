"""Which vectorized loops can run as lanes, and in vectors of how many."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from mslang.ir.arith.linear import linear
from mslang.ir.dtype import size_of
from mslang.ir.expr import Binary, Const, Expr, Load, Var, dtype_of
from mslang.ir.visit import free_vars, loads_of, walk_expr
from mslang.kernel.nodes import (
    Allocate,
    Atomic,
    Barrier,
    Body,
    Evaluate,
    For,
    If,
    Invoke,
    Let,
    Stmt,
    Store,
    While,
)
from mslang.kernel.visit import walk
from mslang.lower.analysis import Access, accesses, changes_bounds, stored
from mslang.target.description import Target

_WIDE = 4
"""Native vectors that one vector may be as wide as, where a loop inside reuses it."""

_SHORTEST = 4
"""Lanes of the shortest vectors that are taken so that no elements are gathered."""


class Chunk(NamedTuple):
    """Iterations `start` to `start + active`, run in `lanes` lanes."""

    start: int
    lanes: int
    active: int


def native_lanes(body: Body, target: Target) -> int:
    """How many lanes of the body's widest element type a vector register holds."""
    widest = max((size_of(_element(a)) for a in accesses(body)), default=4)
    return max(1, target.vector_bits // 8 // widest)


def adjacent_lanes(loop: For, native: int) -> int:
    """How many of so many lanes access elements beside each other: of `P[j // 8, j % 8]` 8 do, more are gathered.

    Below a quarter of a vector, so many shorter ones are no faster than to gather.
    """
    found = native
    for access in accesses(loop.body):
        for index in access.indices:
            for e in walk_expr(index):
                part = _part(e, loop)
                if part is not None and 4 * part >= native and part >= _SHORTEST and found % part == 0:
                    found = part
    return found


def _part(e: Expr, loop: For) -> int | None:
    """The number `n` of `(j + n·x) // (n·y)` or its remainder where `j` is the loop's variable, which starts at a
    multiple of it."""
    match e:
        case Binary(op="//" | "%", left=a, right=Const(value=int(k))) if k > 0:
            form, start = linear(a), linear(loop.start)
            if form is None or start is None or form.terms.get(loop.var) != 1:
                return None
            others = (k for name, k in form.terms.items() if name != loop.var)
            return gcd(k, form.constant, *others, start.constant, *start.terms.values())
    return None


def _element(access: Access) -> str:
    return dtype_of(access.value) if isinstance(access, Store | Atomic) else access.dtype


def chunks(trips: int, native: int, *, wide: bool, masks: bool) -> list[Chunk]:
    """Cut `trips` iterations: whole vectors, then a masked one or vectors of half, a quarter, … the lanes."""
    lanes = native
    while wide and lanes * 2 <= min(trips, _WIDE * native):
        lanes *= 2
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
    if changes_bounds(loop):
        return False
    loaded = {a.buffer for a in accesses(loop.body) if isinstance(a, Load)}
    if not all(_fits(s, loop.var, varying, loaded) for s in walk(loop.body)):
        return False
    inner = frozenset(s.var if isinstance(s, For) else s.name for s in walk(loop.body) if isinstance(s, For | Let))
    return all(_apart(loop, b, inner) for b in stored(loop.body) & loaded)


def _apart(loop: For, buffer: str, inner: frozenset[str]) -> bool:
    """Whether no lane touches what another one stores: a buffer of its own that an iteration has is one of all lanes.

    In some dimension the indices of all accesses advance from lane to lane, and by nothing else: `T[k + i]` and
    `T[i + 1]` meet those of other lanes.
    """
    found = {a.indices for a in accesses(loop.body) if a.buffer == buffer}
    return any(_steps_apart(loop, d, inner) for d in zip(*found, strict=True))


def _steps_apart(loop: For, several: tuple[Expr, ...], inner: frozenset[str]) -> bool:
    if len(set(several)) == 1 and inner.isdisjoint(free_vars(several[0])):
        return bool(_stride(several[0], loop.var, {loop.var}))
    forms = [f for e in several if (f := linear(e)) is not None]
    around = [{v: k for v, k in f.terms.items() if v not in inner} for f in forms]
    if len(forms) < len(several) or any(terms != around[0] for terms in around):
        return False
    step = abs(around[0].get(loop.var, 0))
    offsets = [f.constant for f in forms]
    spread = max(offsets) - min(offsets)
    # Rows that inner loops step over are longer than what the lanes span.
    rows = gcd(*(k for f in forms for v, k in f.terms.items() if v in inner))
    if not rows:
        return spread < step
    return isinstance(loop.extent, Const) and spread < step and step * (loop.extent.value - 1) + spread < rows


def _fits(s: Stmt, var: str, varying: set[str], loaded: set[str]) -> bool:
    match s:
        case For(kind="parallel") | While() | Allocate() | Evaluate() | Invoke() | Atomic() | Barrier():
            return False
        case For(start=a, extent=e):
            return not (_varies(a, varying) or _varies(e, varying))
        case If(then=t, otherwise=o):
            # Under a mask a load is one of all lanes, as is what a `let` holds of it; a loop's bounds are a scalar.
            bounds = (e for x in walk((*t, *o)) if isinstance(x, For) for e in (x.start, x.extent))
            held = _loaded_names((*t, *o))
            return not any(any(loads_of(e)) or _varies(e, held) for e in bounds)
        case Let(name=n, value=v):
            if _varies(v, varying):
                varying.add(n)
        case Store(buffer=b, indices=xs):
            # Lanes that write one element must not read it.
            return any(_stride(x, var, varying) for x in xs) or (
                b not in loaded and any(_varies(x, varying) for x in xs)
            )
    return True


def _stride(e: Expr, var: str, varying: set[str]) -> int | None:
    """How far an index gets from one lane to the next; None if that is not one known number.

    What does not vary between lanes may have any form (`i // 128 * 256`, as fused loops leave it).
    """
    match e:
        case _ if not _varies(e, varying):
            return None if any(loads_of(e)) else 0
        case Var(name=n):
            return 1 if n == var else None
        case Binary(op="+" | "-" as op, left=left, right=right):
            a, b = _stride(left, var, varying), _stride(right, var, varying)
            return None if a is None or b is None else a + b if op == "+" else a - b
        case Binary(op="*", left=Const(value=k), right=x) | Binary(op="*", left=x, right=Const(value=k)):
            a = _stride(x, var, varying)
            return None if a is None else a * int(k)
    return None


def _varies(e: Expr, varying: set[str]) -> bool:
    return not varying.isdisjoint(free_vars(e))


def _loaded_names(body: Body) -> set[str]:
    """The names of the `let`s in a body whose values are loaded, or made of what is."""
    names: set[str] = set()
    for s in walk(body):
        if isinstance(s, Let) and (any(loads_of(s.value)) or _varies(s.value, names)):
            names.add(s.name)
    return names
