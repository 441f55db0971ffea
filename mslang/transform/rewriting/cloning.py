"""Loops whose range is cut into parts: each part runs a copy of the body, one after the other.

The parts run the same iterations in the same order, so nothing changes but names: loops, blocks and buffers of a copy
get names of their own. A buffer that one iteration of the loop has to itself (it reads there only what it has written
before) is copied too, so that each part can be scheduled for itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, Binary, Expr
from mslang.ir.find import all_buffers, leaf_paths, path_to_block
from mslang.ir.program import Block, Buffer, For, If, Program, Range, Stmt
from mslang.ir.region import infer_regions
from mslang.ir.visit import Path, fresh, loads_of, stmt_exprs, walk
from mslang.transform.analysis.carried_dependence import (
    reaches,
    storages_of,
    touching_paths,
    why_not_private,
)
from mslang.transform.analysis.dependence import paths_touching, storage_of
from mslang.transform.analysis.loop_kinds import require_kinds
from mslang.transform.analysis.position import (
    block_at,
    is_under,
    loop_at,
    loop_range,
    ranges_above,
    scope_block,
    scope_buffers,
    taken_names,
)
from mslang.transform.rename import renamed
from mslang.transform.rewriting.rewrite import put, substitute_loops


class Part(msgspec.Struct, frozen=True):
    """Some iterations of a loop: `loops` around them, `value` of the old loop's variable in terms of these.

    `suffix` is what the names of the copy end in; the empty one keeps the names.
    """

    loops: tuple[For, ...]
    value: Expr
    suffix: str = ""


def parted(program: Program, path: Path, parts: Sequence[Part], primitive: str) -> Program:
    """The program with the loop at the end of a path replaced by its parts, which are its iterations in order.

    Raises:
        ScheduleError: MS310, a loop that runs at once would share something with other iterations.
    """
    old = loop_at(path)
    divided = divided_by(path, (old.var,))
    own = private_buffers(program, path)
    taken = taken_names(program) | {s.var for p in parts for s in p.loops}
    stmts: list[Stmt] = []
    buffers: list[Buffer] = []
    for k, p in enumerate(parts):
        ranges = ranges_above(path) | {s.var: loop_range(s) for s in p.loops}
        body = substitute_loops(old.body, {old.var: p.value}, ranges)
        body = going_on(program, body, divided, ranges) if k else body
        if p.suffix:
            copy = cloned(body, own, p.suffix, taken)
            body, buffers = copy.body, [*buffers, *copy.buffers]
        for s in reversed(p.loops):
            body = (replace(s, body=body),)
        stmts.extend(body)
    result = with_buffers(put(program, path, *stmts), path, buffers)
    require_still_concurrent(result, (*(s for s in path if isinstance(s, For)), *stmts), primitive)
    return result


def require_still_concurrent(program: Program, stmts: Sequence[Stmt], primitive: str) -> None:
    """The loops among some statements, and under them, that run at once still may (MS310, MS311)."""
    names = [s.var for s in stmts if isinstance(s, For) and s.kind not in ("serial", "unrolled")]
    below = [s.var for s in walk(tuple(stmts)) if isinstance(s, For) and s.kind not in ("serial", "unrolled")]
    require_kinds(program, dict.fromkeys((*names, *below)), primitive)


# ------------------------------------------------------------------ copies
class Copy(msgspec.Struct, frozen=True):
    """Statements with names of their own, and the buffers of the scope that they have to themselves."""

    body: tuple[Stmt, ...]
    buffers: tuple[Buffer, ...]


def cloned(body: tuple[Stmt, ...], own: Sequence[Buffer], suffix: str, taken: set[str]) -> Copy:
    """A copy of statements in which every loop and block, and each buffer of `own`, gets a name that ends in
    `suffix`; `taken` are names not to use, those given are added."""

    def named(old: str) -> str:
        new = fresh(f"{old}_{suffix}", taken)
        taken.add(new)
        return new

    loops = {s.var: named(s.var) for s in walk(body) if isinstance(s, For)}
    inside = [s for s in walk(body) if isinstance(s, Block)]
    blocks = {s.name: named(s.name) for s in inside}
    local = [b.name for s in inside for b in (*s.allocs, *(v.buffer for v in s.views))]
    buffers = {n: named(n) for n in (*(b.name for b in own), *local)}
    return Copy(renamed(body, loops, blocks, buffers), tuple(replace(b, name=buffers[b.name]) for b in own))


def private_buffers(program: Program, path: Path) -> tuple[Buffer, ...]:
    """The buffers of its scope that each iteration of the loop at the end of a path has to itself."""
    loop = loop_at(path)
    blocks = leaf_paths(path)
    written = storages_of(program, blocks)
    carried = storages_of(program, (q for q in blocks if _orders(loop.var, q)))
    found = [b for b in scope_buffers(program, path) if b.name in written and b.name not in carried]
    return tuple(
        b
        for b in found
        if all(is_under(q, loop) for q in paths_touching(program, b.name))
        and not used_outside_of_blocks(program, b.name)
        and why_not_private(program, touching_paths(program, blocks, b.name), b.name, path) is None
    )


def _orders(var: str, path: Path) -> bool:
    """Does a loop run along an axis of the block at the end of a path whose iterations build on each other?"""
    return any(a.kind != "spatial" and reaches(var, a.binding, path) for a in block_at(path).axes)


def used_outside_of_blocks(program: Program, buffer: str) -> bool:
    """Is a buffer, by whatever name, read in a bound, a condition or a binding?"""
    storage = storage_of(program, buffer)
    exprs = (
        e
        for s in walk(program.body)
        if isinstance(s, For | If | Block)
        for e in ((*(a.binding for a in s.axes), s.predicate) if isinstance(s, Block) else stmt_exprs(s))
    )
    return any(storage_of(program, x.buffer) == storage for e in exprs for x in loads_of(e))


def with_buffers(program: Program, path: Path, buffers: Sequence[Buffer]) -> Program:
    """The program with more buffers in the scope in which the end of a path stands (or stood)."""
    if not buffers:
        return program
    scope = scope_block(path)
    if scope is None:
        return replace(program, allocs=(*program.allocs, *buffers))
    here = path_to_block(program, scope.name) or ()
    return put(program, here, replace(block_at(here), allocs=(*block_at(here).allocs, *buffers)))


# ------------------------------------------------------------------ reductions that are cut
def divided_by(path: Path, variables: Collection[str]) -> frozenset[str]:
    """The blocks under the loop at the end of a path whose reduction runs along some of the loops around them.

    Inside a block there are none: to say there what is read would make it a read of the block around, which it is not.
    """
    if scope_block(path) is not None:
        return frozenset()
    return frozenset(
        block_at(q).name
        for q in leaf_paths(path)
        if block_at(q).init is not None
        and any(a.kind == "reduce" and reaches(v, a.binding, q) for a in block_at(q).axes for v in variables)
    )


def going_on(
    program: Program, body: tuple[Stmt, ...], divided: frozenset[str], ranges: Mapping[str, Range]
) -> tuple[Stmt, ...]:
    """Statements in which the blocks `divided` go on with a reduction that others began: they say that they read what
    they update, and have no init where it provably never runs."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case For():
                inside = {**ranges, s.var: loop_range(s)}
                out.append(replace(s, body=going_on(program, s.body, divided, inside)))
            case Block(name=n) if n in divided:
                update = replace(s, init=None)
                reads = tuple(r for r in infer_regions(update, all_buffers(program))[0] if r not in s.reads)
                begun = any(a.kind == "reduce" and _above_zero(a.binding, ranges) for a in s.axes)
                out.append(replace(update if begun else s, reads=(*s.reads, *reads)))
            case _:
                out.append(s)
    return tuple(out)


def _above_zero(binding: Expr, ranges: Mapping[str, Range]) -> bool:
    return arith.proved(Binary("<=", ONE, binding), ranges)
