"""Taking a block out of its loops and giving it new ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ZERO, Const, Expr, Var
from mslang.ir.program import Axis, Block, For, Let, Program, Range, Stmt
from mslang.ir.visit import Path, conjunction, fresh, replace_at, walk
from mslang.transform.analysis.spans import Spans, kept_inside
from mslang.transform.outcome import Gone, Handle, LoopRef
from mslang.transform.rewriting.rewrite import tidy

ALL: Spans = MappingProxyType({})
"""No axis is restricted to a part of its domain."""


class Nest(msgspec.Struct, frozen=True):
    """A block under loops of its own."""

    stmt: Stmt
    block: Block
    loops: tuple[LoopRef, ...]


def nest(
    block: Block,
    spans: Spans,
    kept: tuple[Expr, ...],
    ranges: Mapping[str, Range],
    taken: set[str],
    parts: Spans = ALL,
) -> Nest:
    """A block under new loops, one an axis in the order of the axes, named after it.

    Args:
        block: its bindings and predicate are replaced.
        spans: the values of the axes to run over.
        kept: what the predicate has to say besides keeping the axes in their domains.
        ranges: of the variables around the new loops.
        taken: names that the loops must not take; theirs are added.
        parts: the values of axes that are the block's own, where they are only a part of the axis.

    The conditions that keep an axis in its domain are written on the axis, so that they move with the block.
    """
    axes: list[Axis] = []
    loops: list[tuple[str, Expr]] = []
    guards: list[Expr] = []
    inside = dict(ranges)
    for a in block.axes:
        span = spans[a.name]
        for limit in _limits(a, parts.get(a.name), ranges):
            within = kept_inside(span, Var(a.name), limit, ranges)
            span = within.span
            guards.extend(within.guards)
        span = _at_least_empty(span)
        var = fresh(a.name, taken)
        taken.add(var)
        inside[var] = Range(ZERO, span.extent)
        axes.append(replace(a, binding=tidy(arith.add(span.start, Var(var)), inside)))
        loops.append((var, span.extent))
    placed = replace(block, axes=tuple(axes), predicate=conjunction((*guards, *kept)))
    stmt: Stmt = placed
    for var, extent in reversed(loops):
        stmt = For(var, extent, (stmt,))
    return Nest(stmt, placed, tuple(LoopRef(var) for var, _ in loops))


def _limits(axis: Axis, part: Range | None, ranges: Mapping[str, Range]) -> Iterator[Range]:
    """The ranges in which an axis is kept: the part, and its domain where the part is not provably inside of it."""
    domain = Range(ZERO, axis.extent)
    if part is None or part == domain:
        yield domain
        return
    yield part
    if arith.covers((domain,), (part,), ranges) is not arith.Verdict.PROVED:
        yield domain


def _at_least_empty(span: Range) -> Range:
    """A range of a known negative number of values, as one of none."""
    match span.extent:
        case Const(value=int() as n) if n < 0:
            return Range(span.start, ZERO)
    return span


def without(program: Program, path: Path) -> Program:
    """The program without the block at the end of a path, and without the loops that are left with nothing."""
    end = len(path) - 1
    while end > 0 and _holds_one(path[end - 1]):
        end -= 1
    return replace(program, body=replace_at(program.body, path[: end + 1], ()))


def _holds_one(s: Stmt) -> bool:
    return isinstance(s, For) and len(s.body) == 1


def inserted(program: Program, path: Path, index: int, stmt: Stmt) -> Program:
    """The program with a statement put into the body of the loop at the end of a path, at a position.

    Behind a `let`, which holds the rest of its list, it stands at the end of that.
    """
    loop = path[-1]
    if not isinstance(loop, For):
        raise TypeError(f"no loop: {loop!r}")
    body = _put_in(loop.body, index, stmt)
    return replace(program, body=replace_at(program.body, path, (replace(loop, body=body),)))


def _put_in(body: tuple[Stmt, ...], index: int, stmt: Stmt) -> tuple[Stmt, ...]:
    match body[:index]:
        case (*before, Let() as let):
            return (*before, replace(let, body=_put_in(let.body, len(let.body), stmt)))
    return (*body[:index], stmt, *body[index:])


def vanished(before: Program, after: Program, by: str, into: tuple[Handle, ...]) -> dict[Handle, Gone]:
    """What happened to the handles of loops that are not there any more."""
    names = {s.var for s in walk(after.body) if isinstance(s, For)}
    return {LoopRef(s.var): Gone(by, into) for s in walk(before.body) if isinstance(s, For) and s.var not in names}
