"""Loops without the iterations in which the predicates of all blocks below are false.

A tiling whose factors are written out runs them all, whatever the sizes are: a dimension of 8192 in tiles of
16 · 8 · 8 · 8, cut down to 6, still makes 8192 iterations, of which 6 do something. So what is verified on small sizes
is trimmed first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from mslang.ir.arith.linear import Interval, condition
from mslang.ir.expr import Const, Expr
from mslang.ir.program import Block, For, If, Program, Stmt
from mslang.ir.visit import bodies, conjuncts, substitute, walk

TRIMMED = frozenset({"serial", "parallel", "unrolled"})
"""The kinds of loops that are trimmed: a vector or a thread has as many lanes as it has."""


def trimmed(program: Program) -> Program:
    """The program with shorter loops; it computes the same."""
    ends: dict[str, int | None] = {}
    for var, end in _ends(program.body, {}, {}):
        known = ends.get(var, end)
        ends[var] = None if end is None or known is None else max(known, end)
    return replace(program, body=_cut(program.body, {v: n for v, n in ends.items() if n is not None}))


def iterations(program: Program) -> int | None:
    """How often the innermost statements run; None if the extent of a loop is not a number."""
    return _iterations(program.body)


def _iterations(body: tuple[Stmt, ...]) -> int | None:
    total = 0
    for s in body:
        inside = [_iterations(b) for b in ((s.body,) if isinstance(s, Block) else bodies(s))]
        if any(n is None for n in inside):
            return None
        once = max(1, sum(n for n in inside if n is not None))
        if isinstance(s, For):
            if not isinstance(s.extent, Const):
                return None
            once *= int(s.extent.value)
        total += once
    return total


def _ends(
    body: tuple[Stmt, ...], loops: Mapping[str, Interval], axes: Mapping[str, Expr]
) -> Iterator[tuple[str, int | None]]:
    """For each statement and each loop around it, the first value of the loop from which on the statement does nothing;
    None if there is none."""
    for s in body:
        match s:
            case For(var=v, start=Const(value=start), extent=Const(value=n)) if n > 0:
                yield from _ends(s.body, {**loops, v: (int(start), int(start + n) - 1)}, axes)
            case For(var=v):
                yield from ((name, None) for name in loops)
                yield from ((x.var, None) for x in walk((s,)) if isinstance(x, For))
            case Block(axes=own, predicate=predicate):
                here = {**axes, **{a.name: substitute(a.binding, axes) for a in own}}
                wholes = [substitute(c, here) for c in conjuncts(predicate)]
                for name in loops:
                    found = [end for c in wholes if (end := _end(c, name, loops)) is not None]
                    yield name, min(found) if found else None
                yield from _ends(s.body, {}, here)
            case If(then=then, otherwise=otherwise):
                yield from ((name, None) for name in loops)
                yield from _ends((*then, *otherwise), {}, axes)
            case _:
                yield from ((name, None) for name in loops)


def _end(e: Expr, name: str, loops: Mapping[str, Interval]) -> int | None:
    """The first value of a loop from which on a condition is false, whatever the other loops are at."""
    c = condition(e)
    if c is None or c.relation != "<" or not c.form.terms.keys() <= loops.keys():
        return None
    step = c.form.terms.get(name, 0)
    if step <= 0:
        return None
    least = c.form.constant
    for other, k in c.form.terms.items():
        if other != name:
            least += k * loops[other][0 if k > 0 else 1]
    # step · v + least < 0 must hold
    return -(least // step)


def _cut(body: tuple[Stmt, ...], ends: Mapping[str, int]) -> tuple[Stmt, ...]:
    done: list[Stmt] = []
    for s in body:
        match s:
            case For(var=v, start=Const(value=start), extent=Const(value=n)) if v in ends and s.kind in TRIMMED:
                extent = max(1, min(int(n), ends[v] - int(start)))
                s = replace(s, extent=Const(extent), body=_cut(s.body, ends))
            case For() | Block():
                s = replace(s, body=_cut(s.body, ends))
            case If(then=then, otherwise=otherwise):
                s = replace(s, then=_cut(then, ends), otherwise=_cut(otherwise, ends))
        done.append(s)
    return tuple(done)
