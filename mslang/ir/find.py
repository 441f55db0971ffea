"""What is in a program, and where: loops, blocks and buffers by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from mslang.ir.annotations import ATOMIC, JOINED
from mslang.ir.by_identity import by_identity
from mslang.ir.expr import Const
from mslang.ir.nodes import Block, Buffer, For, Let, Stmt, Store
from mslang.ir.visit import CACHED, Path, bodies

if TYPE_CHECKING:
    from mslang.ir.program import Program

BOUND = ("threadIdx", "blockIdx", "vthread")
"""How the kinds of loops begin that are bound to an axis of a GPU."""


class Contents(msgspec.Struct, frozen=True):
    """The names in statements at any depth, their own included: of loops, blocks, buffers, and all that are taken; how
    many loops bound to GPU axes are in them, the names of the vectorized loops whose lanes may be joined, how deep
    their deepest loop nest is, whether a block is in a block, the buffers in them that have no elements, and the blocks
    whose updates are to be atomic.

    Names only: equal statements need not be the same object, nor print alike (0.0 equals -0.0).
    """

    loops: frozenset[str]
    blocks: frozenset[str]
    buffers: frozenset[str]
    names: frozenset[str]
    bound: int = 0
    joined: frozenset[str] = frozenset()
    nesting: int = 0
    nested: bool = False
    empty: tuple[str, ...] = ()
    atomic: frozenset[str] = frozenset()


@by_identity(size=CACHED)
def contents(s: Stmt) -> Contents:
    """What is in a statement. Kept for each, so that after a rewrite only what changed is looked at again."""
    c = _together([contents(x) for b in bodies(s) for x in b])
    match s:
        case For(var=v, kind=kind):
            return replace(
                c,
                loops=c.loops | {v},
                names=c.names | {v},
                bound=c.bound + kind.startswith(BOUND),
                joined=c.joined | {v} if joins_lanes(s) else c.joined,
                nesting=c.nesting + 1,
            )
        case Let(name=n):
            return replace(c, names=c.names | {n})
        case Block(name=n, axes=axes, allocs=allocs, views=views):
            own = {*(b.name for b in allocs), *(v.buffer.name for v in views)}
            names = c.names | own | {n} | {a.name for a in axes}
            empty = (*without_elements(allocs), *c.empty)
            return replace(
                c,
                blocks=c.blocks | {n},
                buffers=c.buffers | own,
                names=names,
                nested=bool(c.blocks),
                empty=empty,
                atomic=c.atomic | {n} if (ATOMIC, True) in s.annotations else c.atomic,
            )
    return c


@by_identity(size=CACHED)
def contents_of(body: tuple[Stmt, ...]) -> Contents:
    """What is in the statements of a body, together."""
    return _together([contents(s) for s in body])


def _together(parts: Sequence[Contents]) -> Contents:
    if len(parts) == 1:
        return parts[0]
    return Contents(
        frozenset[str]().union(*(c.loops for c in parts)),
        frozenset[str]().union(*(c.blocks for c in parts)),
        frozenset[str]().union(*(c.buffers for c in parts)),
        frozenset[str]().union(*(c.names for c in parts)),
        sum(c.bound for c in parts),
        frozenset[str]().union(*(c.joined for c in parts)),
        max((c.nesting for c in parts), default=0),
        any(c.nested for c in parts),
        tuple(b for c in parts for b in c.empty),
        frozenset[str]().union(*(c.atomic for c in parts)),
    )


def path_to_loop(p: Program, var: str) -> Path | None:
    """The path to the loop `var`, or None."""
    path: list[Stmt] = []
    body = p.body
    while True:
        for s in body:
            if var in contents(s).loops:
                break
        else:
            return None
        path.append(s)
        if isinstance(s, For) and s.var == var:
            return tuple(path)
        body = _below(s)


def path_to_block(p: Program, name: str) -> Path | None:
    """The path to the block `name`, or None."""
    path: list[Stmt] = []
    body = p.body
    while True:
        for s in body:
            if name in contents(s).blocks:
                break
        else:
            return None
        path.append(s)
        if isinstance(s, Block) and s.name == name:
            return tuple(path)
        body = _below(s)


def _below(s: Stmt) -> tuple[Stmt, ...]:
    """The statements directly in a statement, all its bodies together."""
    match bodies(s):
        case (body,):
            return body
        case parts:
            return tuple([x for b in parts for x in b])


def blocks_of(body: tuple[Stmt, ...], into_blocks: bool = True) -> tuple[Block, ...]:
    """The blocks in program order."""
    found: list[Block] = []
    for s in body:
        if isinstance(s, Block) and not into_blocks:
            found.append(s)
        else:
            found += _blocks_within(s) if into_blocks else _leaves_below(s)
    return tuple(found)


@by_identity(size=CACHED)
def _blocks_within(s: Stmt) -> tuple[Block, ...]:
    """The statement itself, if it is a block, and the blocks below it."""
    if isinstance(s, Store):
        return ()
    below = [x for b in bodies(s) for x in blocks_of(b)]
    return (s, *below) if isinstance(s, Block) else tuple(below)


@by_identity(size=CACHED)
def _leaves_below(s: Stmt) -> tuple[Block, ...]:
    """The blocks below a statement that is none, without those within blocks."""
    return () if isinstance(s, Store) else tuple([x for b in bodies(s) for x in blocks_of(b, into_blocks=False)])


def loops_of(path: Path) -> tuple[For, ...]:
    """The loops of a path below the innermost enclosing block (outermost first)."""
    start = max((k + 1 for k, s in enumerate(path[:-1]) if isinstance(s, Block)), default=0)
    return tuple(s for s in path[start:-1] if isinstance(s, For))


@by_identity(size=CACHED)
def block_paths(body: tuple[Stmt, ...]) -> tuple[Path, ...]:
    """The paths of the blocks in some statements, at any depth, in program order."""
    found: list[Path] = []
    for s in body:
        if isinstance(s, Block):
            found.append((s,))
        if contents(s).blocks:
            found += [(s, *q) for b in bodies(s) for q in block_paths(b)]
    return tuple(found)


def leaf_paths(path: Path) -> tuple[Path, ...]:
    """The paths of the blocks at or under the last statement of a path that are in no other one under it."""
    wanted = {id(b) for b in blocks_of((path[-1],), into_blocks=False)}
    return tuple([(*path[:-1], *q) for q in block_paths((path[-1],)) if id(q[-1]) in wanted])


def all_buffers(p: Program) -> dict[str, Buffer]:
    """Every buffer by name: parameters, allocations at any depth, views."""
    found = {q.buffer.name: q.buffer for q in p.params} | {b.name: b for b in p.allocs}
    for b in blocks_of(p.body):
        found |= {x.name: x for x in b.allocs} | {v.buffer.name: v.buffer for v in b.views}
    return found


@by_identity(size=CACHED)
def used_names(p: Program) -> frozenset[str]:
    """Every name that a new loop, block, buffer or axis must not take."""
    own = {*(q.buffer.name for q in p.params), *(b.name for b in p.allocs)}
    return contents_of(p.body).names | own


def joins_lanes(loop: For) -> bool:
    """Whether a loop is vectorized with the permission that its lanes combine parts of one reduction."""
    return loop.kind == "vectorized" and dict(loop.annotations).get(JOINED) is True


def without_elements(buffers: Iterable[Buffer]) -> tuple[str, ...]:
    """The names of the buffers that have a dimension of no elements, whatever the sizes are."""
    return tuple(b.name for b in buffers if any(isinstance(n, Const) and n.value < 1 for n in b.shape))
