"""Copying a buffer into another: where the copy stands, what it copies, who uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Expr, Load, Symbol, Var
from mslang.ir.find import all_buffers, path_to_block, path_to_loop
from mslang.ir.program import SCOPES, Axis, Block, Buffer, Program, Range, Region, Stmt, Store
from mslang.ir.visit import Path, fresh, loads_of, stmt_exprs, walk
from mslang.transform.analysis.carried_dependence import why_not_independent
from mslang.transform.analysis.cover import Box, consumed_box, produced_box, produces_for, why_not_covered
from mslang.transform.analysis.definite_writes import viewed
from mslang.transform.analysis.dependence import (
    buffers_read,
    buffers_written,
    readers,
    storage_of,
    storages_read,
    storages_written,
    writers,
)
from mslang.transform.analysis.initialization import declaring_all, reads_only_its_own, regions_read
from mslang.transform.analysis.instances import runs_once
from mslang.transform.analysis.position import (
    axis_ranges,
    block_at,
    block_path,
    buffer_named,
    common_path,
    index_of,
    leaves,
    loops_above,
    scope_block,
    scope_body,
    scope_buffers,
    scope_path,
    taken_names,
    whole_box,
)
from mslang.transform.analysis.spans import kept_inside
from mslang.transform.analysis.stability import why_not_stable
from mslang.transform.outcome import BlockRef, BufferRef, refuse
from mslang.transform.rewriting.nest import nest
from mslang.transform.rewriting.rewrite import put


class Copy(msgspec.Struct, frozen=True):
    """A new buffer, and the block under loops of its own that copies from or to it."""

    buffer: Buffer
    block: str
    stmt: Stmt


def subject(program: Program, block: BlockRef, buffer: BufferRef, scope: str, primitive: str) -> tuple[Path, Buffer]:
    """The path of the block and the buffer that a caching primitive is about (MS334: there is no such scope)."""
    if scope not in SCOPES:
        raise refuse(
            "MS334", primitive, f"unknown storage scope `{scope}`", help=f"the scopes are: {', '.join(sorted(SCOPES))}"
        )
    return block_path(program, block, primitive), buffer_named(program, buffer, primitive)


def only_writer(program: Program, path: Path, buffer: Buffer, primitive: str) -> Block | None:
    """The block that writes a buffer in the scope of the block at the end of a path, if any (MS331: there are
    several)."""
    found = writers(program, scope_body(program, path), buffer.name)
    if len(found) > 1:
        names = ", ".join(f"`{b.name}`" for b in found)
        raise refuse(
            "MS331",
            primitive,
            f"`{buffer.name}` has several writers: {names}",
            why="no single place comes after the one block that writes it",
            help="use the primitive before the reduction is decomposed or the loop peeled",
        )
    return found[0] if found else None


def users_of(
    program: Program,
    path: Path,
    buffer: Buffer,
    writer: Block | None,
    chosen: Sequence[BlockRef] | None,
    primitive: str,
) -> tuple[Block, ...]:
    """The blocks that are to read the new buffer.

    Raises:
        ScheduleError: MS330 one does not read the old buffer, MS333 the writer is among them, MS344 one stands before
            the writer.
    """
    body = scope_body(program, path)
    order = leaves(*body)
    start = -1 if writer is None else index_of(order, writer)
    reading = [b for b in readers(program, body, buffer.name) if buffer.name in buffers_read(b)]
    if chosen is None:
        return tuple(b for b in reading if index_of(order, b) > start)
    users = []
    for ref in chosen:
        found = next((b for b in reading if b.name == ref.name), None)
        if found is None:
            names = ", ".join(f"`{b.name}`" for b in reading)
            raise refuse(
                "MS330",
                primitive,
                f"block `{ref.name}` does not read `{buffer.name}` in this scope",
                help=f"it is read by {names or 'no block'}",
            )
        if found is writer:
            raise refuse(
                "MS333",
                primitive,
                f"block `{ref.name}` reads and writes `{buffer.name}`",
                why="what it reads changes while it runs",
            )
        if index_of(order, found) < start:
            raise refuse(
                "MS344",
                primitive,
                f"block `{ref.name}` reads `{buffer.name}` before it is written",
                why="the copy would stand after the writer",
            )
        users.append(found)
    return tuple(users)


def after_writer(writer: Path, others: Sequence[Path]) -> Path:
    """The path to the statement after which a copy of what a block writes stands: the one around the block that is
    nearest to the program and holds none of the others."""
    depth = max((len(common_path(writer[:-1], q[:-1])) for q in others), default=0)
    return writer[: max(depth, len(scope_path(writer))) + 1]


def readable(path: Path, buffer: Buffer) -> Box:
    """What may be read of a buffer in the scope of the end of a path: all of it, or what the block around declares."""
    scope = scope_block(path)
    if scope is None:
        return whole_box(buffer)
    source, viewing = viewed(scope, buffer.name)
    declared = [r.ranges for r in scope.reads if r.buffer == source]
    if len(declared) != 1:
        return whole_box(buffer)
    if not viewing:
        return declared[0]
    kept = zip(declared[0], viewing, strict=True)
    inside = [Range(arith.sub(r.start, at.start), r.extent) for r, at in kept][len(viewing) - len(buffer.shape) :]
    return arith.intersect_box(tuple(inside), whole_box(buffer), axis_ranges(scope))


def read_box(users: Sequence[Path], buffer: Buffer, above: Path, limits: Box, ranges: Mapping[str, Range]) -> Box:
    """All that some blocks read of a buffer, inside of `limits`, in one iteration of the loops of `above`."""
    joined: Box | None = None
    for path in users:
        for region in regions_read(path, above):
            if region.buffer == buffer.name:
                box = consumed_box(path, region, above, buffer)
                joined = box if joined is None else arith.union_box(joined, box, limits, ranges)
    return limits if joined is None else joined


def provably_written(path: Path, buffer: Buffer, above: Path, primitive: str) -> Box:
    """Exactly what the block at the end of a path writes of a buffer in one iteration of the loops of `above`
    (MS332: that is not known)."""
    regions = [r for r in block_at(path).writes if r.buffer == buffer.name]
    box = produced_box(path, regions[0], above) if len(regions) == 1 else None
    if box is None:
        raise refuse(
            "MS332",
            primitive,
            f"it is not known which part of `{buffer.name}` block `{block_at(path).name}` writes",
            why="a copy must not access what is not written",
        )
    return box


def copy_between(
    program: Program,
    old: Buffer,
    scope: str,
    box: Box,
    limits: Box,
    ranges: Mapping[str, Range],
    *,
    into: bool,
    other: Buffer | None = None,
) -> Copy:
    """A new buffer like `old`, and a block that copies a box of `old` into it (`into`) or of it to `old`.

    Args:
        program: the program, for names.
        old: the buffer.
        scope: where the new buffer lives.
        box: what is to be copied.
        limits: what must not be left: parts of the box outside are guarded away where they are not proved absent.
        ranges: of the variables that the box mentions.
        into: whether the new buffer is written.
        other: a buffer that is there already, to take the place of the new one.
    """
    taken = taken_names(program)
    name = fresh(staged_name(old, scope) if other is None else f"{staged_name(old, scope)}_back", taken)
    taken.add(name)
    others = {*all_buffers(program), *(s.name for s in program.dynamic if isinstance(s, Symbol))}
    new = other if other is not None else Buffer(fresh(name, taken), old.dtype, old.shape, scope)
    taken.add(new.name)
    source, target = (old, new) if into else (new, old)
    names = [fresh(f"ax{d}", others) for d in range(len(old.shape))]
    index: tuple[Expr, ...] = tuple(Var(n) for n in names)
    spans: dict[str, Range] = {}
    kept: list[Expr] = []
    for n, span, limit, extent in zip(names, box, limits, old.shape, strict=True):
        spans[n] = span
        if not (arith.equal(limit.start, ZERO) and arith.equal(limit.extent, extent)):
            inside = kept_inside(span, Var(n), limit, ranges)
            spans[n] = inside.span
            kept.extend(inside.guards)
    everything = tuple(Range(i, ONE) for i in index)
    block = Block(
        name,
        tuple(Axis(n, extent, "spatial", ZERO) for n, extent in zip(names, old.shape, strict=True)),
        (Region(source.name, everything),),
        (Region(target.name, everything),),
        (Store(target.name, index, Load(source.name, index, old.dtype)),),
    )
    return Copy(new, name, nest(block, spans, tuple(kept), ranges, taken).stmt)


def with_settled_axes(program: Program, copy: str) -> Program:
    """The program in which the axes of a copy are opaque if its instances run several times and may find other values
    each time: spatial axes promise the same result. So they do in a block with opaque axes, which makes no promise."""
    path = path_to_block(program, copy) or ()
    block, loops = block_at(path), loops_above(path)
    within = [b for b in path[:-1] if isinstance(b, Block) and any(a.kind == "opaque" for a in b.axes)]
    if not within and runs_once(path, loops):
        return program
    storages = sorted(storages_read(program, block))
    above = [path_to_loop(program, s.var) or () for s in loops]
    stable = not within and all(why_not_stable(program, storage, q) is None for q in above for storage in storages)
    if stable and all(why_not_covered(program, path, under=s) is None for s in loops):
        return program
    axes = tuple(replace(a, kind="opaque") for a in block.axes)
    return put(
        program, path, replace(block, axes=axes or (Axis(fresh("o", taken_names(program)), ONE, "opaque", ZERO),))
    )


def staged_name(old: Buffer, scope: str) -> str:
    """What a copy of a buffer in a scope is called: `A_shared`."""
    return f"{old.name}_{scope.replace('.', '_')}"


def with_block(program: Program, name: str, change: Callable[[Stmt], Stmt]) -> Program:
    """The program with the block of a name changed."""
    path = path_to_block(program, name) or ()
    return put(program, path, change(path[-1]))


def with_alloc(program: Program, path: Path, buffer: Buffer) -> Program:
    """The program with a buffer allocated in the scope in which the end of a path (of an older program) stood."""
    scope = scope_path(path)
    if not scope:
        return replace(program, allocs=(*program.allocs, buffer))

    def allocate(s: Stmt) -> Stmt:
        return replace(s, allocs=(*s.allocs, buffer)) if isinstance(s, Block) else s

    return with_block(program, block_at(scope).name, allocate)


def require_users_covered(program: Program, maker: str, buffer: Buffer, users: Sequence[Block], primitive: str) -> None:
    """A block must provably write all that others read of a buffer (MS332)."""
    path = path_to_block(program, maker) or ()
    for user in users:
        using = path_to_block(program, user.name) or ()
        if not produces_for(program, path, declaring_all(using, common_path(path, using)), buffer.name):
            raise refuse(
                "MS332",
                primitive,
                f"block `{user.name}` would read elements that are not provably written",
                why=f"block `{maker}` does not provably write all elements of `{buffer.name}` that it reads",
            )


def require_filled(program: Program, reader: str, buffer: Buffer, primitive: str) -> None:
    """All that a block reads of a buffer must hold something: it is an argument of the program, or blocks before have
    provably written it (MS332)."""
    storage = storage_of(program, buffer.name)
    if any(q.buffer.name == storage and q.direction != "out" for q in program.params):
        return
    path = path_to_block(program, reader) or ()
    body = scope_body(program, path)
    order = leaves(*body)
    before = [
        b
        for b in writers(program, body, storage)
        if b is not path[-1] and index_of(order, b) < index_of(order, path[-1])
    ]
    around = scope_path(path)
    if not before and around and all(b.name != storage for b in scope_buffers(program, path)):
        require_filled(program, block_at(around).name, buffer, primitive)
        return
    reason = why_not_covered(program, path) if before else f"nothing has written `{buffer.name}` before"
    if reason is not None:
        raise refuse(
            "MS332", primitive, f"not all that would be copied of `{buffer.name}` is provably written", why=reason
        )


def require_begun(program: Program, path: Path, buffer: Buffer, above: Path, primitive: str) -> None:
    """What the block at the end of a path reads of a buffer that it writes must be what it has started in the same
    iteration of the loops of `above`: with its init, or with blocks inside of it before those that read (MS333)."""
    block = block_at(path)
    if reads_only_its_own(path, buffer.name, above):
        return
    storage = storage_of(program, buffer.name)
    inside = [path_to_block(program, b.name) or () for b in leaves(*block.body)]
    direct = [x for s in walk(block.body, into_blocks=False) for e in stmt_exprs(s) for x in loads_of(e)]
    if (
        inside
        and all(x.buffer != buffer.name for x in direct)
        and all(
            # What is read through a view is not known.
            all(r.buffer == buffer.name for r in read)
            and any(
                produces_for(program, m, declaring_all(q, path), buffer.name)
                for m in inside[:k]
                if buffer.name in buffers_written(block_at(m))
            )
            for k, q in enumerate(inside)
            for read in ([r for r in regions_read(q, path) if storage_of(program, r.buffer) == storage],)
            if read
        )
    ):
        return
    raise refuse(
        "MS333",
        primitive,
        f"block `{block.name}` reads and writes `{buffer.name}`",
        why="the new buffer would hold nothing when it is read",
    )


def others_touching(program: Program, path: Path, buffer: str) -> tuple[Path, ...]:
    """The paths of the other leaf blocks in the scope of the block at the end of a path that access the memory of a
    buffer."""
    block, storage = block_at(path), storage_of(program, buffer)
    return tuple(
        path_to_block(program, b.name) or ()
        for b in leaves(*scope_body(program, path))
        if b is not block and storage in storages_read(program, b) | storages_written(program, b)
    )


def require_plain(program: Program, block: Block, buffer: Buffer, primitive: str) -> None:
    """A block must access the memory of a buffer by no other name (MS352)."""
    storage = storage_of(program, buffer.name)
    other = [
        b
        for b in dict.fromkeys((*buffers_read(block), *buffers_written(block)))
        if b != buffer.name and storage_of(program, b) == storage
    ]
    if other:
        raise refuse(
            "MS352",
            primitive,
            f"block `{block.name}` accesses `{buffer.name}` as `{other[0]}` too",
            why="a copy would stand for one of the names only",
        )


def require_apart(program: Program, copy: str, primitive: str, *, only: str | None = None) -> None:
    """Loops around a new block whose iterations run at the same time must still be apart (MS346), or as far as accesses
    to the memory `only` decide: a copy may access more than the block that it serves."""
    path = path_to_block(program, copy) or ()
    others = frozenset[str]() if only is None else frozenset(all_buffers(program)) - {only}
    for loop in loops_above(path):
        if loop.kind in ("serial", "unrolled"):
            continue
        reason = why_not_independent(program, path_to_loop(program, loop.var) or (), others)
        if reason is not None:
            raise refuse(
                "MS346",
                primitive,
                f"iterations of the {loop.kind} loop `{loop.var}` would access the same elements",
                why=reason,
                help="stage the buffer before the loop gets its kind",
            )
