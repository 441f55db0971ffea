"""Output elements that a program provably never writes, so that its caller would get whatever was in memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

import msgspec

from mslang.diagnostics import Diagnostic, MsError, problem
from mslang.ir.accesses import Access, accesses_of
from mslang.ir.arith import evaluate
from mslang.ir.arith.evaluate import is_exact
from mslang.ir.expr import Const, Expr, Symbol, Var
from mslang.ir.program import Evaluate, Param, Program, Range
from mslang.ir.visit import conjuncts, free_vars, loads_of, walk, walk_expr

MOST_POINTS = 4096
"""An index that takes more values than this is taken to take all."""

MOST_CASES = 4096
"""Ways to pass by all writers that are tried."""


class Unwritten(msgspec.Struct, frozen=True):
    """An output of which `element` is never written; None: nothing of it is."""

    buffer: str
    element: tuple[int, ...] | None

    @property
    def message(self) -> str:
        """What is wrong."""
        if self.element is None:
            return f"the output `{self.buffer}` is never written"
        return f"`{self.buffer}[{', '.join(map(str, self.element))}]` is never written"


def unwritten(program: Program) -> Iterator[Unwritten]:
    """For each output of a constant shape that provably is not written whole, an element that is not."""
    if not program.body or any(isinstance(s, Evaluate) for s in walk(program.body)):
        return
    outputs = {p.buffer.name: p for p in program.params if p.direction == "out" and p.packing is None}
    stores: dict[str, list[Access]] = {name: [] for name in outputs}
    for a in accesses_of(program):
        if a.store and a.buffer in stores:
            stores[a.buffer].append(a)
    for name, p in outputs.items():
        found = _unwritten(p, stores[name])
        if found is not None:
            yield found


def require_written(program: Program) -> None:
    """Check that no element of an output is provably never written.

    Raises:
        MsError: MS421, one is.
    """
    found = next(unwritten(program), None)
    if found is not None:
        raise MsError(never_written(found))


def never_written(found: Unwritten) -> Diagnostic:
    """The error, without a place in a text."""
    return problem("MS421", found.message, why=WHY, help=f"write all of it, or declare it `inout {found.buffer}`")


WHY = "an output holds nothing defined before it is written"


def _unwritten(p: Param, stores: list[Access]) -> Unwritten | None:
    shape = [int(n.value) for n in p.buffer.shape if isinstance(n, Const)]
    if len(shape) < len(p.buffer.shape) or not prod(shape):
        return None
    if not stores:
        return Unwritten(p.buffer.name, None)
    gaps = [_gaps(a, shape) for a in stores]
    reachable = [g for g in gaps if g is not None]
    if not reachable:
        return Unwritten(p.buffer.name, None)
    # An element that no store reaches is, for each store, in a gap of one of its dimensions.
    distinct = [[(d, g[d]) for d in range(len(shape)) if g[d]] for g in reachable]
    if any(not choices for choices in distinct) or prod(map(len, distinct)) > MOST_CASES:
        return None
    for case in product(*distinct):
        element = [range(n) for n in shape]
        left: list[frozenset[int] | range] = [*element]
        for d, gap in case:
            left[d] = gap.intersection(left[d])
        if all(left):
            return Unwritten(p.buffer.name, tuple(min(x) for x in left))
    return None


def _gaps(a: Access, shape: list[int]) -> list[frozenset[int]] | None:
    """For each dimension the indices that a store never takes, as far as is known; None if the store never happens."""
    if any(r.extent.value <= 0 for r in a.ranges.values() if isinstance(r.extent, Const)):
        return None
    return [_gap(index, n, a) for index, n in zip(a.indices, shape, strict=True)]


def _gap(index: Expr, n: int, a: Access) -> frozenset[int]:
    names = sorted(free_vars(index))
    guards = [g for whole in a.guards for g in conjuncts(whole) if free_vars(g) <= set(names) and _is_known(g)]
    ranges = [_values(a.ranges.get(name)) for name in names]
    if not _is_known(index) or n > MOST_POINTS or any(r is None for r in ranges):
        return frozenset()
    known = [r for r in ranges if r is not None]
    if isinstance(index, Var) and not guards:
        return frozenset(k for k in range(n) if k not in known[0])
    if prod(map(len, known)) > MOST_POINTS:
        return frozenset()
    taken: set[int] = set()
    for values in product(*known):
        point = dict(zip(names, values, strict=True))
        try:
            if all(evaluate(g, point) for g in guards):
                taken.add(int(evaluate(index, point)))
        except (ArithmeticError, MsError, LookupError, TypeError, ValueError):
            return frozenset()
    return frozenset(range(n)) - taken


def _is_known(e: Expr) -> bool:
    return is_exact(e) and not any(loads_of(e)) and not any(isinstance(x, Symbol) for x in walk_expr(e))


def _values(r: Range | None) -> range | None:
    match r:
        case Range(start=Const(value=int() as a), extent=Const(value=int() as n)):
            return range(a, a + n)
    return None
