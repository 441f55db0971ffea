"""Which buffers iterations that run at the same time may share, told from where the accesses stand."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mslang.ir.expr import Expr
from mslang.ir.program import LOOP_KINDS, Block, Buffer, For, Program, Stmt, Store
from mslang.ir.visit import blocks_of, bodies, free_vars, loads_of, stmt_exprs

CONCURRENT = LOOP_KINDS - {"serial", "unrolled"}
"""The kinds of loops whose iterations run at the same time."""


def is_concurrent(loop: For) -> bool:
    """Do the iterations of a loop run at the same time, each for itself? Threads that share out one reduction do not:
    they combine what each has summed."""
    if loop.kind not in CONCURRENT or not loop.kind.startswith("threadIdx"):
        return loop.kind in CONCURRENT
    inside = blocks_of(loop.body, into_blocks=False)
    reduced = {v for b in inside for a in b.axes if a.kind == "reduce" for v in free_vars(a.binding)}
    return not (len(inside) == 1 and inside[0].init is not None and loop.var in reduced)


class Sharing(msgspec.Struct, frozen=True):
    """`raced`: some store stands in a concurrent loop that the buffer outlives.

    `private`: the concurrent loops that all accesses of an allocated buffer stand in. Each of their iterations has
    the buffer to itself (lowering puts it there), so that they may well use the same elements one after another;
    but none may read what another has written.
    """

    raced: bool
    private: frozenset[str]


class _Access(msgspec.Struct, frozen=True):
    buffer: str
    loops: tuple[str, ...]
    write: bool


def sharing_of(program: Program) -> dict[str, Sharing]:
    """The sharing of every parameter and allocated buffer, by name."""
    accesses: list[_Access] = []
    homes: dict[str, tuple[str, ...]] = {}
    allocated = {b.name for b in program.allocs}
    _declare((*(q.buffer for q in program.params), *program.allocs), (), homes)

    def expression(e: Expr, loops: tuple[str, ...], views: Mapping[str, str]) -> None:
        accesses.extend(_Access(views.get(x.buffer, x.buffer), loops, False) for x in loads_of(e))

    def visit(body: tuple[Stmt, ...], loops: tuple[str, ...], views: Mapping[str, str]) -> None:
        for s in body:
            inner, seen = loops, views
            match s:
                case Block():
                    _declare(s.allocs, loops, homes)
                    allocated.update(b.name for b in s.allocs)
                    for e in (s.predicate, *(a.binding for a in s.axes)):
                        expression(e, loops, views)
                    for v in s.views:
                        seen = {**seen, v.buffer.name: seen.get(v.source.buffer, v.source.buffer)}
                case Store(buffer=b):
                    accesses.append(_Access(views.get(b, b), loops, True))
                case For(var=v) if is_concurrent(s):
                    inner = (*loops, v)
            if not isinstance(s, Block):
                for e in stmt_exprs(s):
                    expression(e, loops, views)
            for part in bodies(s):
                visit(part, inner, seen)

    visit(program.body, (), {})
    found: dict[str, Sharing] = {}
    for name, home in homes.items():
        mine = [a for a in accesses if a.buffer == name]
        around = [a.loops[len(home) :] for a in mine]
        raced = any(a.write and loops for a, loops in zip(mine, around, strict=True))
        private = frozenset(_common(around)) if name in allocated else frozenset[str]()
        found[name] = Sharing(raced, private)
    return found


def _declare(buffers: tuple[Buffer, ...], loops: tuple[str, ...], homes: dict[str, tuple[str, ...]]) -> None:
    for b in buffers:
        homes[b.name] = loops


def _common(paths: list[tuple[str, ...]]) -> tuple[str, ...]:
    if not paths:
        return ()
    first, *others = paths
    n = 0
    while n < len(first) and all(n < len(p) and p[n] == first[n] for p in others):
        n += 1
    return first[:n]
