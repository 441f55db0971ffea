"""Which buffers concurrent iterations may share, inferred from the loops around their accesses."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mslang.ir.atomics import is_atomic
from mslang.ir.expr import Expr
from mslang.ir.find import joins_lanes
from mslang.ir.program import LOOP_KINDS, Block, Buffer, For, Program, Stmt, Store
from mslang.ir.visit import bodies, free_vars, loads_of, stmt_exprs, walk
from mslang.transform.analysis.loop_kinds import why_not_joined_lanes

CONCURRENT = LOOP_KINDS - {"serial", "unrolled"}
"""The kinds of concurrent loops."""


def is_concurrent(loop: For) -> bool:
    """Whether the iterations of a loop run concurrently."""
    return loop.kind in CONCURRENT


class Sharing(msgspec.Struct, frozen=True):
    """`raced`: a store is in a concurrent loop that the buffer outlives.

    `private`: the concurrent loops around all accesses of an allocated buffer. Each of their iterations has
    the buffer to itself (lowering puts it there), so that they may well use the same elements one after another;
    but none may read what another has written.

    `joined`: the loops of threads or lanes that share out a reduction into the buffer, or threads of a GPU that update
    it atomically, and access it for nothing else: they combine what each has summed.
    """

    raced: bool
    private: frozenset[str]
    joined: frozenset[str]


class _Access(msgspec.Struct, frozen=True):
    buffer: str
    loops: tuple[str, ...]
    write: bool
    joins: frozenset[str]


def sharing_of(program: Program) -> dict[str, Sharing]:
    """The sharing of every parameter and allocated buffer, by name."""
    accesses: list[_Access] = []
    homes: dict[str, tuple[str, ...]] = {}
    allocated = {b.name for b in program.allocs}
    # Atomic updates are those of a GPU: on cores of a CPU a block updates by a load and a store.
    cores = {s.var for s in walk(program.body) if isinstance(s, For) and s.kind == "parallel"}
    _declare((*(q.buffer for q in program.params), *program.allocs), (), homes)

    def expression(e: Expr, loops: tuple[str, ...], views: Mapping[str, str], joins: frozenset[str]) -> None:
        accesses.extend(_Access(views.get(x.buffer, x.buffer), loops, False, joins) for x in loads_of(e))

    def visit(
        body: tuple[Stmt, ...],
        loops: tuple[str, ...],
        views: Mapping[str, str],
        joins: frozenset[str],
        threads: frozenset[str],
        lanes: frozenset[str],
    ) -> None:
        for s in body:
            inner, seen, joining, bound, vector = loops, views, joins, threads, lanes
            match s:
                case Block():
                    _declare(s.allocs, loops, homes)
                    allocated.update(b.name for b in s.allocs)
                    for e in (s.predicate, *(a.binding for a in s.axes)):
                        expression(e, loops, views, joins)
                    alone = is_atomic(s)
                    joining = joins | lanes | (frozenset(loops) - cores if alone else _joined_by(s) & threads)
                    for v in s.views:
                        seen = {**seen, v.buffer.name: seen.get(v.source.buffer, v.source.buffer)}
                case Store(buffer=b):
                    accesses.append(_Access(views.get(b, b), loops, True, joins))
                case For(var=v) if is_concurrent(s):
                    inner = (*loops, v)
                    bound = threads | {v} if s.kind.startswith("threadIdx") else threads
                    vector = lanes | {v} if joins_lanes(s) and why_not_joined_lanes((s,)) is None else lanes
            if not isinstance(s, Block):
                for e in stmt_exprs(s):
                    expression(e, loops, views, joins)
            for part in bodies(s):
                visit(part, inner, seen, joining, bound, vector)

    visit(program.body, (), {}, frozenset(), frozenset(), frozenset())
    found: dict[str, Sharing] = {}
    for name, home in homes.items():
        mine = [a for a in accesses if a.buffer == name]
        around = [a.loops[len(home) :] for a in mine]
        raced = any(a.write and loops for a, loops in zip(mine, around, strict=True))
        private = frozenset(_common(around)) if name in allocated else frozenset[str]()
        apart = {v for a in mine for v in a.loops if v not in a.joins}
        joined = frozenset(v for a in mine for v in a.loops if v not in apart)
        found[name] = Sharing(raced, private, joined)
    return found


def _joined_by(block: Block) -> frozenset[str]:
    """The loops over which a reduction block reduces."""
    reduced = (free_vars(a.binding) for a in block.axes if a.kind == "reduce" and block.init is not None)
    return frozenset[str]().union(*reduced)


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
