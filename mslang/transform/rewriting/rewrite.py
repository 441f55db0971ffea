"""Rewriting under loops: substituting loop variables, guarding what is below, tidying indices."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import COMPARISONS, LOGICAL, ONE, ZERO, Binary, Expr, Select, Var
from mslang.ir.find import contents
from mslang.ir.program import Block, Evaluate, For, If, Let, Program, Range, Stmt, Store, While
from mslang.ir.visit import Path, free_vars, fresh, guarded, loads_of, map_region, replace_at, substitute
from mslang.transform.analysis.let_data import as_data
from mslang.transform.analysis.position import loop_range


def put(program: Program, path: Path, *new: Stmt) -> Program:
    """The program with the last statement of a path replaced."""
    return replace(program, body=replace_at(program.body, path, new))


def tidy(e: Expr, ranges: Mapping[str, Range]) -> Expr:
    """An index in normal form, in which loops that run once still stand: whether a loop happens to run once must not
    decide which axis it serves. What has no range is named by a `let`, and may be data."""
    return as_data(e, free_vars(e) - ranges.keys(), lambda x: _tidied(x, ranges))


def _tidied(e: Expr, ranges: Mapping[str, Range]) -> Expr:
    simple = arith.simplify(e, ranges)
    lost = free_vars(e) - free_vars(simple)
    unit = {v for v in lost if v in ranges and arith.equal(ranges[v].extent, ONE)}
    return arith.simplify(e, {v: r for v, r in ranges.items() if v not in unit}) if unit else simple


def substitute_loops(
    body: tuple[Stmt, ...],
    values: Mapping[str, Expr],
    ranges: Mapping[str, Range] | None,
) -> tuple[Stmt, ...]:
    """Statements with loop variables replaced and the indices that change tidied.

    `ranges` are those of the variables around the statements (None: nothing is tidied). Nothing inside a block sees
    loops but its bindings and its predicate; in the predicate the block's own axes hide loops of the same name: those
    that would hide a loop of the new values get other names.
    """
    return tuple(_substituted(s, values, ranges) for s in body)


def _substituted(s: Stmt, values: Mapping[str, Expr], ranges: Mapping[str, Range] | None) -> Stmt:
    def index(e: Expr) -> Expr:
        if not free_vars(e) & values.keys():
            return e
        return value(e) if ranges is None else tidy(value(e), ranges)

    def value(e: Expr) -> Expr:
        return substitute(e, values)

    match s:
        case For():
            loop = replace(s, start=index(s.start), extent=index(s.extent))
            inside = None if ranges is None else {**ranges, s.var: loop_range(loop)}
            return replace(loop, body=substitute_loops(s.body, values, inside))
        case Block():
            hidden = {a.name for a in s.axes}
            seen = {v: e for v, e in values.items() if v not in hidden and v in free_vars(s.predicate)}
            s = admitting(s, frozenset[str]().union(*map(free_vars, seen.values())))
            return replace(
                s,
                axes=tuple(replace(a, binding=index(a.binding)) for a in s.axes),
                predicate=_condition(s.predicate, seen, ranges),
            )
        case Store():
            return Store(s.buffer, tuple(value(x) for x in s.indices), value(s.value))
        case Let():
            inner = {v: e for v, e in values.items() if v != s.name}
            return Let(s.name, value(s.value), substitute_loops(s.body, inner, ranges))
        case If():
            return If(
                value(s.condition),
                substitute_loops(s.then, values, ranges),
                substitute_loops(s.otherwise, values, ranges),
            )
        case While():
            return While(value(s.condition), substitute_loops(s.body, values, ranges))
        case Evaluate():
            return Evaluate(value(s.value))
    raise TypeError(f"not a statement: {s!r}")


def _condition(e: Expr, values: Mapping[str, Expr], ranges: Mapping[str, Range] | None) -> Expr:
    """A predicate with loops replaced; both sides of a comparison come to normal form, the comparison stays."""
    if not free_vars(e) & values.keys():
        return e
    match e:
        case Binary(op=op, left=a, right=b) if op in LOGICAL:
            return Binary(op, _condition(a, values, ranges), _condition(b, values, ranges))
        case Binary(op=op, left=a, right=b) if op in COMPARISONS and ranges is not None:
            return Binary(op, tidy(substitute(a, values), ranges), tidy(substitute(b, values), ranges))
    return substitute(e, values)


def guard(body: tuple[Stmt, ...], condition: Expr) -> tuple[Stmt, ...]:
    """Statements that do nothing where a condition on the loops around them is false: it joins the predicate of each
    block, and an `if` around each statement that stands in no block. Nor are bounds loaded there, which may be out of
    bounds."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case For():
                start, extent = _loaded_where(condition, s.start), _loaded_where(condition, s.extent)
                out.append(replace(s, start=start, extent=extent, body=guard(s.body, condition)))
            case Block():
                shown = admitting(s, free_vars(condition))
                out.append(replace(shown, predicate=guarded(shown.predicate, (condition,))))
            case _:
                out.append(If(condition, (s,)))
    return tuple(out)


def admitting(block: Block, loops: Collection[str]) -> Block:
    """The block with axes that hide none of some loops, so that a condition on these can join its predicate."""
    hiding = sorted({a.name for a in block.axes}.intersection(loops))
    if not hiding:
        return block
    taken = {*contents(block).names, *loops, *free_vars(block.predicate)}
    taken.update(r.buffer for r in (*block.reads, *block.writes))
    names: dict[str, str] = {}
    for n in hiding:
        names[n] = fresh(n, taken)
        taken.add(names[n])
    return with_axes(block, names)


def with_axes(block: Block, names: Mapping[str, str]) -> Block:
    """The block with some of its axes called otherwise."""
    values: dict[str, Expr] = {n: Var(m) for n, m in names.items()}

    def called(e: Expr) -> Expr:
        return substitute(e, values)

    return replace(
        block,
        axes=tuple(replace(a, name=names.get(a.name, a.name)) for a in block.axes),
        reads=tuple(map_region(r, called) for r in block.reads),
        writes=tuple(map_region(r, called) for r in block.writes),
        body=substitute_loops(block.body, values, None),
        init=None if block.init is None else substitute_loops(block.init, values, None),
        predicate=called(block.predicate),
        views=tuple(replace(v, source=map_region(v.source, called)) for v in block.views),
    )


def _loaded_where(condition: Expr, bound: Expr) -> Expr:
    """The bound of a loop, 0 where a condition is false on which it depends where it loads."""
    used = free_vars(condition)
    where = any(not used.isdisjoint(free_vars(i)) for x in loads_of(bound) for i in x.indices)
    return Select(condition, bound, ZERO) if where else bound
