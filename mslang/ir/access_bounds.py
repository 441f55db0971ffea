"""Whether accesses stay inside their buffers: those that provably do not, and whether all provably do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod

import msgspec

from mslang.diagnostics import Diagnostic, MsError, problem
from mslang.ir.accesses import Access, accesses_of
from mslang.ir.arith import Verdict, decide, evaluate, substitute_symbols
from mslang.ir.arith.evaluate import is_exact
from mslang.ir.expr import ONE, ZERO, Binary, Const, DynamicRange, Expr, Symbol
from mslang.ir.find import all_buffers
from mslang.ir.program import Program, Range
from mslang.ir.visit import conjuncts, free_vars, loads_of, walk_expr

MOST_SIZES = 8
"""Combinations of the smallest and largest dynamic sizes that are tried."""

MOST_POINTS = 256
"""Values of an index that are tried at most: corners of its loops, or all of them if they are so few."""


class Outside(msgspec.Struct, frozen=True):
    """An access that is out of bounds at a point that the program reaches."""

    access: Access
    dimension: int
    index: int
    extent: int
    point: tuple[tuple[str, int], ...]
    """The loops and sizes on which the index depends, with their values."""

    @property
    def why(self) -> str:
        """The index and where it is taken, in words."""
        at = ", ".join(f"{n} = {v}" for n, v in self.point)
        return f"index {self.dimension} is {self.index}{f' at {at}' if at else ''}, of {self.extent} elements"


def outside(program: Program) -> Iterator[Outside]:
    """The accesses that are provably out of bounds, each once."""
    shapes = {n: b.shape for n, b in all_buffers(program).items()}
    seen: set[tuple[str | None, tuple[str, tuple[Expr, ...]]]] = set()
    for a in accesses_of(program):
        key = (a.block, a.written)
        if key in seen or not a.certain:
            continue
        found = _outside(a, shapes[a.buffer])
        if found is not None:
            seen.add(key)
            yield found


def require_inside(program: Program) -> None:
    """Check that no access is provably out of bounds.

    Raises:
        MsError: MS118, one is.
    """
    found = next(outside(program), None)
    if found is not None:
        raise MsError(out_of_bounds(found))


def out_of_bounds(found: Outside) -> Diagnostic:
    """The error for an access, without a place in a text."""
    block = f" in block `{found.access.block}`" if found.access.block else ""
    return problem("MS118", f"`{found.access.written[0]}` is accessed out of bounds{block}", why=found.why)


def provably_inside(program: Program) -> bool:
    """Whether every access is provably inside its buffer, whatever the data are."""
    shapes = {n: b.shape for n, b in all_buffers(program).items()}
    return all(_inside(a, shapes[a.buffer]) for a in accesses_of(program))


# ------------------------------------------------------------------ provably outside
def _outside(a: Access, shape: tuple[Expr, ...]) -> Outside | None:
    ranges = tuple(x for r in a.ranges.values() for x in (r.start, r.extent))
    symbols = {
        x.text: x for e in (*a.indices, *a.guards, *shape, *ranges) for x in walk_expr(e) if isinstance(x, Symbol)
    }
    sizes = [_sizes(s) for s in symbols.values()]
    if any(not c for c in sizes) or prod(map(len, sizes)) > MOST_SIZES:
        return None
    for values in product(*sizes):
        found = _outside_at(a, shape, dict(zip(symbols, values, strict=True)))
        if found is not None:
            return found
    return None


def _outside_at(a: Access, shape: tuple[Expr, ...], sizes: Mapping[str, int]) -> Outside | None:
    """Whether the access is out of bounds where sizes known only at the call have these values."""

    def at(e: Expr) -> Expr:
        return substitute_symbols(e, sizes) if sizes else e

    ranges = {n: _values(Range(at(r.start), at(r.extent))) for n, r in a.ranges.items()}
    if not all(ranges.values()):
        return None  # One of the loops may not run at all.
    guards = tuple(at(g) for g in a.guards)
    for dimension, (index, extent) in enumerate(zip(a.indices, shape, strict=True)):
        size = at(extent)
        if not isinstance(size, Const):
            continue
        point = _point_outside(at(index), size, guards, ranges)
        if point is not None:
            named = {x.text for x in walk_expr(index) if isinstance(x, Symbol)}
            shown = {**{n: v for n, v in sizes.items() if n in named}, **point[1]}
            return Outside(a, dimension, point[0], int(size.value), tuple(sorted(shown.items())))
    return None


def _point_outside(
    index: Expr, size: Const, guards: tuple[Expr, ...], ranges: Mapping[str, range]
) -> tuple[int, dict[str, int]] | None:
    """An index that is not below the size, with the loop variables on which it depends, at a point that is reached."""
    if any(any(loads_of(e)) or not is_exact(e) for e in (index, *guards)):
        return None
    names = sorted(free_vars(index).union(*(free_vars(g) for g in guards)))
    if any(n not in ranges for n in names):
        return None
    choices = [ranges[n] for n in names]
    if prod(map(len, choices)) > MOST_POINTS:
        # The corners: of what is linear, the extremes.
        choices = [c[:: max(1, len(c) - 1)] for c in choices]
    if prod(map(len, choices)) > MOST_POINTS:
        return None
    for values in product(*choices):
        point = dict(zip(names, values, strict=True))
        try:
            value = evaluate(index, point)
            if not 0 <= value < size.value and all(evaluate(g, point) for g in guards):
                return int(value), {n: v for n, v in point.items() if n in free_vars(index)}
        except (ArithmeticError, MsError, LookupError, TypeError, ValueError):
            return None
    return None


def _values(r: Range | None) -> range:
    """The values that a loop variable takes; none if they are not known."""
    match r:
        case Range(start=Const(value=int() as a), extent=Const(value=int() as n)):
            return range(a, a + n)
    return range(0)


def _sizes(s: Symbol) -> tuple[int, ...]:
    """The smallest and the largest value of a dynamic size; none of a decision, as it may never be drawn."""
    match s.domain:
        case DynamicRange(lo=lo, hi=hi, multiple=m):
            ends = (-(-lo // m) * m, hi // m * m)
            return ends if lo <= ends[0] <= ends[1] else ()
    return ()


# ------------------------------------------------------------------ provably inside
def _inside(a: Access, shape: tuple[Expr, ...]) -> bool:
    guards = [g for whole in a.guards for g in conjuncts(whole) if not any(loads_of(g))]
    known = [k for g in guards if (k := _not_negative(g)) is not None]
    return all(
        not any(loads_of(x)) and _holds(x, known, a.ranges) and _holds(_below(x, n), known, a.ranges)
        for x, n in zip(a.indices, shape, strict=True)
    )


def _holds(e: Expr, known: list[Expr], ranges: Mapping[str, Range]) -> bool:
    """Whether an expression is provably not negative, by the loops' ranges or by one of the conditions."""
    if decide(Binary(">=", e, ZERO), ranges) is Verdict.PROVED:
        return True
    return any(decide(Binary(">=", Binary("-", e, k), ZERO), ranges) is Verdict.PROVED for k in known)


def _below(a: Expr, b: Expr) -> Expr:
    """What is not negative where `a < b`."""
    return Binary("-", Binary("-", b, a), ONE)


def _not_negative(condition: Expr) -> Expr | None:
    """What is not negative where a condition holds."""
    match condition:
        case Binary(op="<", left=a, right=b):
            return _below(a, b)
        case Binary(op=">", left=a, right=b):
            return _below(b, a)
        case Binary(op="<=", left=a, right=b):
            return Binary("-", b, a)
        case Binary(op=">=", left=a, right=b):
            return Binary("-", a, b)
    return None
