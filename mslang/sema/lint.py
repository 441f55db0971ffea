"""Warnings about programs that are well-formed and yet cannot be meant: found by looking at the IR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import msgspec

from mslang.diagnostics import Diagnostic, MsError, Span
from mslang.ir.expr import ONE, TRUE, ZERO, Binary, Const, Expr, Load, Select, Unary, children
from mslang.ir.program import Block, Evaluate, For, If, Let, Program, Range, Stmt, Store, While
from mslang.ir.visit import all_buffers, blocks_of, free_vars, substitute, walk, walk_expr
from mslang.sema.declare import Declarations
from mslang.sema.expressions import access
from mslang.sema.refer import nodes
from mslang.sema.report import warning
from mslang.syntax import tree

MOST_CORNERS = 64
"""An index in more variables than this allows is not looked at."""


def lint(item: tree.Program, program: Program, declared: Declarations) -> Iterator[Diagnostic]:
    """The warnings about a program that has no errors; spans count from the item's start."""
    yield from _undefined(program, declared)
    trees = {n.name.text: n for n in nodes(item.body) if isinstance(n, tree.Block)}
    for b in blocks_of(program.body):
        yield from _axes(b, declared)
        yield from _outside(b, program, trees[b.name], declared)


# ------------------------------------------------------------------ what is never, or not yet, written
def _undefined(program: Program, declared: Declarations) -> Iterator[Diagnostic]:
    written = {p.buffer.name for p in program.params if p.direction != "out"}
    ever = written | {r.buffer for b in blocks_of(program.body) for r in b.writes}
    told: set[str] = set()
    for s in program.body:
        inside = blocks_of((s,))
        together = {r.buffer for b in inside for r in b.writes} if len(inside) > 1 else set()
        for b in inside:
            scans = any(a.kind == "scan" for a in b.axes)
            for r in b.reads:
                own = scans and any(w.buffer == r.buffer for w in b.writes)
                if not own and r.buffer not in written | together | told and r.buffer in declared.buffers:
                    told.add(r.buffer)
                    yield _unwritten(b, r.buffer, r.buffer in ever, declared)
        written |= {r.buffer for b in inside for r in b.writes}
    for p in program.params:
        if p.buffer.name not in ever and program.body:
            yield warning("MS126", declared.buffers[p.buffer.name], f"the output `{p.buffer.name}` is never written")


def _unwritten(b: Block, buffer: str, later: bool, declared: Declarations) -> Diagnostic:
    own = any(r.buffer == buffer for r in b.writes)
    why = "nothing is written to it before" if later or own else "nothing writes to it"
    help = f"declare it `inout {buffer}`, or write it first" if own else None
    return warning(
        "MS126",
        declared.blocks[b.name],
        f"block `{b.name}` reads `{buffer}`, which has no value yet",
        why=why,
        help=help,
    )


# ------------------------------------------------------------------ axes that do not fit what is written
def _axes(b: Block, declared: Declarations) -> Iterator[Diagnostic]:
    if len(blocks_of(b.body)) or any(isinstance(s, For | While) for s in walk(b.body)):
        return
    stores = [vars for s, vars in _stores(b.body, {})]
    if not stores:
        return
    somewhere = frozenset[str]().union(*stores)
    for a in b.axes:
        at = declared.axes[b.name, a.name]
        if a.kind == "spatial" and a.name not in somewhere and a.extent != ONE:
            yield warning(
                "MS119",
                at,
                f"axis `{a.name}` is no index of what block `{b.name}` writes",
                why="the same elements would be written once for each of its values",
                help=f"write it after `|` if the block reduces over it: `[… | {a.name}: …]`",
            )


def _stores(body: tuple[Stmt, ...], lets: Mapping[str, Expr]) -> Iterator[tuple[Store, frozenset[str]]]:
    for s in body:
        match s:
            case Store(indices=xs):
                yield s, frozenset[str]().union(*(free_vars(substitute(x, lets)) for x in xs))
            case Let(name=n, value=v, body=inner):
                yield from _stores(inner, {**lets, n: substitute(v, lets)})
            case If(then=t, otherwise=o):
                yield from _stores((*t, *o), lets)


# ------------------------------------------------------------------ accesses out of bounds
class Access(msgspec.Struct, frozen=True):
    """An access under the conditions that must hold for it to happen, lets put in."""

    buffer: str
    indices: tuple[Expr, ...]
    guards: tuple[Expr, ...]
    ranges: Mapping[str, Range]
    key: tuple[str, tuple[Expr, ...]]
    """The access as it is written, lets by name."""


class Place(msgspec.Struct, frozen=True):
    """Where in a block's body one is: lets, ranges of axes and inner loops, conditions around."""

    lets: Mapping[str, Expr]
    ranges: Mapping[str, Range]
    guards: tuple[Expr, ...] = ()

    def when(self, guard: Expr) -> Place:
        """The place under a further condition."""
        return Place(self.lets, self.ranges, (*self.guards, substitute(guard, self.lets)))

    def accesses(self, e: Expr) -> Iterator[Access]:
        """The loads of an expression."""
        match e:
            case Select(condition=c, then=t, otherwise=o):
                yield from self.accesses(c)
                yield from self.when(c).accesses(t)
                yield from self.when(Unary("not", c)).accesses(o)
                return
            case Binary(op="and", left=a, right=b):
                yield from self.accesses(a)
                yield from self.when(a).accesses(b)
                return
            case Binary(op="or", left=a, right=b):
                yield from self.accesses(a)
                yield from self.when(Unary("not", a)).accesses(b)
                return
            case Load(buffer=b, indices=xs):
                yield self.access(b, xs)
        for x in children(e):
            yield from self.accesses(x)

    def access(self, buffer: str, indices: tuple[Expr, ...]) -> Access:
        """One access."""
        return Access(
            buffer, tuple(substitute(x, self.lets) for x in indices), self.guards, self.ranges, (buffer, indices)
        )


def _outside(b: Block, program: Program, node: tree.Block, declared: Declarations) -> Iterator[Diagnostic]:
    from mslang.ir.arith import evaluate

    shapes = {n: t.shape for n, t in all_buffers(program).items()}
    ranges = {a.name: Range(ZERO, a.extent) for a in b.axes}
    start = Place({}, ranges, () if b.predicate == TRUE else (b.predicate,))
    told: set[tuple[str, tuple[Expr, ...]]] = set()
    for found in (*_accesses(b.init or (), start), *_accesses(b.body, start)):
        if found.key in told:
            continue
        for k, (x, extent) in enumerate(zip(found.indices, shapes[found.buffer])):
            corner = _corner_outside(x, extent, found)
            if corner is None:
                continue
            told.add(found.key)
            at = ", ".join(f"{n} = {v}" for n, v in sorted(corner.items()))
            size = extent.value if isinstance(extent, Const) else "…"
            yield warning(
                "MS118",
                _span(found, node, declared, b.name),
                f"`{found.buffer}` is accessed out of bounds",
                why=f"index {k} is {evaluate(x, corner)}{' at ' if at else ''}{at}, of {size} elements",
            )
            break


def _accesses(body: tuple[Stmt, ...], place: Place) -> Iterator[Access]:
    for s in body:
        match s:
            case Store(buffer=b, indices=xs, value=v):
                yield place.access(b, xs)
                for e in (v, *xs):
                    yield from place.accesses(e)
            case Evaluate(value=v):
                yield from place.accesses(v)
            case Let(name=n, value=v, body=inner):
                yield from place.accesses(v)
                lets = {**place.lets, n: substitute(v, place.lets)}
                yield from _accesses(inner, Place(lets, place.ranges, place.guards))
            case If(condition=c, then=t, otherwise=o):
                yield from place.accesses(c)
                yield from _accesses(t, place.when(c))
                yield from _accesses(o, place.when(Unary("not", c)))
            case For(var=n, start=a, extent=e, body=inner):
                over = Range(substitute(a, place.lets), substitute(e, place.lets))
                yield from _accesses(inner, Place(place.lets, {**place.ranges, n: over}, place.guards))


def _corner_outside(x: Expr, extent: Expr, found: Access) -> dict[str, int] | None:
    """Values that the variables do take, at which an index is out of bounds and the access happens, if any is found."""
    from mslang.ir.arith import evaluate

    if not isinstance(extent, Const) or any(isinstance(n, Load) for e in (x, *found.guards) for n in walk_expr(e)):
        return None
    names = sorted(free_vars(x).union(*(free_vars(g) for g in found.guards)))
    ends = [_ends(found.ranges.get(n)) for n in names]
    if 2 ** len(names) > MOST_CORNERS or any(not e for e in ends):
        return None
    for values in product(*ends):
        corner = dict(zip(names, values))
        try:
            if not 0 <= evaluate(x, corner) < extent.value and all(evaluate(g, corner) for g in found.guards):
                return {n: v for n, v in corner.items() if n in free_vars(x)}
        except (ArithmeticError, MsError, LookupError, TypeError, ValueError):
            return None
    return None


def _ends(r: Range | None) -> tuple[int, ...]:
    match r:
        case Range(start=Const(value=int() as a), extent=Const(value=int() as n)) if n > 0:
            return (a,) if n == 1 else (a, a + n - 1)
    return ()


def _span(found: Access, node: tree.Block, declared: Declarations, block: str) -> Span:
    """The access in the text."""
    scope = declared.scopes[block]
    for n in nodes(node.body):
        if isinstance(n, tree.Index) and isinstance(n.base, tree.Ref) and n.base.name.text == found.buffer:
            try:
                if access(n, scope) == found.key[1]:
                    return n.span
            except MsError:
                continue
    return node.name.span
