"""Primitives that keep of a buffer what the next iterations need: rolling_buffer.

Under a loop `i` of which each iteration needs the elements `i * s .. i * s + n`, with `n > s`, a block computes the
first `n - s` of them again. It need not: `n` places used in turn (`x % n`) hold them from the iteration before.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Expr, Load, Var
from mslang.ir.find import blocks_of, path_to_block
from mslang.ir.program import Block, Buffer, For, Program, Range, Region, Stmt, Store
from mslang.ir.region import hidden
from mslang.ir.visit import Path, free_vars, fresh, guarded, map_bodies, map_expr, map_stmt_exprs, substitute, walk
from mslang.transform.analysis.cover import produced_box, produces_for
from mslang.transform.analysis.definite_writes import Box
from mslang.transform.analysis.dependence import (
    DependenceKind,
    buffers_written,
    consumers,
    dependences_of,
    is_output,
    producers,
    storage_of,
    storages_read,
    storages_written,
    writers,
)
from mslang.transform.analysis.legality import why_not_dominant
from mslang.transform.analysis.outer_accesses import require_in_blocks
from mslang.transform.analysis.position import (
    block_at,
    block_path,
    buffer_named,
    common_path,
    index_of,
    leaves,
    loops_above,
    scope_body,
    scope_buffers,
    taken_names,
    within_scope,
)
from mslang.transform.analysis.stride import pace
from mslang.transform.outcome import BlockRef, BufferRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.block_moving import loops_to
from mslang.transform.rewriting.rewrite import with_axes


@primitive(family="memory")
def rolling_buffer(program: Program, block: BlockRef, buffer: BufferRef) -> Outcome:
    """Keep of a buffer only what one iteration of a loop needs, and compute in each only what the one before has not.

    The loop is the outermost one whose iterations overlap in what they need of the buffer: along one dimension
    iteration `i` needs `i * s .. i * s + n`, with `n > s`, or begins at `i * s // d`, so that it gets on by less than
    `n`. The dimension becomes `n` elements used in turn: each index `x` becomes `x % n`. The block runs only for
    elements that are new in the iteration, all of them in the first; so it does along every other dimension in which
    iterations of another loop overlap. The axes concerned become opaque: their order means something now.

    Before:
        alloc T: f32[18]
        for i in 0..16 {
            for x in 0..3 {
                block a[v: 18 = i + x] { T[v] = A[v] * 2.0 }
            }
            block b[v: 16 = i] { B[v] = T[v] + T[v + 1] + T[v + 2] }
        }

    After:
        # a.rolling_buffer(T)
        alloc T: f32[3]
        for i in 0..16 {
            for x in 0..3 {
                block a[v: 18 @ opaque = i + x] {
                    where i < 1 or 2 <= v - i
                    T[v % 3] = A[v] * 2.0
                }
            }
            block b[v: 16 = i] {
                reads T[0..3]
                B[v] = T[v % 3] + T[(v + 1) % 3] + T[(v + 2) % 3]
            }
        }

    Rejects:
        - a block that does not write the buffer, or that writes an output of its scope
        - a buffer that is read before it is written, has other writers, or is used outside of blocks, through a view,
          by a block that hides it, or by no block
        - a block that holds other blocks, of which an axis is called like one of the loops
        - a block and readers that stand in no loop together
        - no dimension of which iterations of a loop around them need overlapping parts, at a distance and of a size
          that are the same in all iterations
        - loops around them, from that one on, that do not run one iteration after the other
        - elements that are not provably computed in each iteration, or that are computed from what changes meanwhile

    Source: TVM rolling_buffer
    """
    primitive = "rolling_buffer"
    path = block_path(program, block, primitive)
    old = buffer_named(program, buffer, primitive)
    users = _users(program, path, old, primitive)
    above = common_path(path[:-1], *(q[:-1] for q in users))
    if not above or not isinstance(above[-1], For):
        raise refuse(
            "MS364",
            primitive,
            f"block `{block.name}` and the readers of `{old.name}` stand in no common loop",
            why="the iterations of such a loop hand elements on",
            help="compute_at the block at a loop of its consumer",
        )
    for user in users:
        if not produces_for(program, path, user, old.name):
            raise refuse(
                "MS332",
                primitive,
                f"block `{block_at(user).name}` reads elements of `{old.name}` that the same iteration has not "
                "provably written",
                why="before it rolls, each iteration must compute all elements that are read in it",
            )
    rolls = _rolls(path, old, above, primitive)
    first = rolls[0]
    around = within_scope(above)
    start = next(k for k, s in enumerate(around) if isinstance(s, For) and s.var == first.loop.var)
    for s in around[start:]:
        if not isinstance(s, For) or s.kind not in ("serial", "unrolled"):
            what = f"loop `{s.var}` is {s.kind}" if isinstance(s, For) else "a branch stands between"
            raise refuse("MS346", primitive, what, why="iterations hand elements on one after the other")
    unfinished = _unfinished(path) & {s.var for s in loops_to(above)}
    if unfinished:
        raise refuse(
            "MS346",
            primitive,
            f"loop `{min(unfinished)}` still reduces in block `{block.name}`",
            why="what is read there is not what a later iteration would compute",
        )
    _require_steady(program, path, first.loop, primitive)
    named = {a.name for a in block_at(path).axes} & {r.loop.var for r in rolls}
    if named and any(isinstance(s, Block) for s in walk(block_at(path).body)):
        raise refuse(
            "MS345",
            primitive,
            f"block `{block.name}` holds other blocks, and an axis is called `{min(named)}` like a loop",
            why="the block's predicate is to be about that loop",
        )
    return Outcome(_rolled(program, path, old, rolls))


# ------------------------------------------------------------------ what is asked for
def _users(program: Program, path: Path, old: Buffer, primitive: str) -> list[Path]:
    """The paths of the readers of a buffer that the block at the end of a path alone writes."""
    block = block_at(path)
    if old.name not in buffers_written(block):
        raise refuse(
            "MS330",
            primitive,
            f"block `{block.name}` does not write `{old.name}`",
            help=f"it writes {', '.join(f'`{b}`' for b in buffers_written(block)) or 'nothing'}",
        )
    if is_output(program, path) or all(b.name != old.name for b in scope_buffers(program, path)):
        raise refuse(
            "MS343",
            primitive,
            f"block `{block.name}` is an output block",
            why=f"all of `{old.name}` is needed outside",
        )
    names = (old.name,)
    require_in_blocks(program, scope_body(program, path), primitive, read=names, written=names)
    if any(storage_of(program, v.source.buffer) == old.name for b in blocks_of(program.body) for v in b.views):
        raise refuse(
            "MS352", primitive, f"`{old.name}` is accessed through a view", why="its elements are reused in turn"
        )
    if old.strides is not None:
        raise refuse("MS352", primitive, f"`{old.name}` has strides of its own", why="its shape changes")
    hiding = next((b.name for b in blocks_of(program.body) if old.name in hidden(b, "read") | hidden(b, "write")), None)
    if hiding is not None:
        raise refuse(
            "MS352",
            primitive,
            f"block `{hiding}` hides that it accesses `{old.name}`",
            why="it is not known what it needs",
        )
    for d in dependences_of(program, path):
        if block.name in (d.source, d.target) and d.kind is not DependenceKind.RAW:
            other = d.source if d.target == block.name else d.target
            raise refuse(
                "MS344",
                primitive,
                f"blocks `{block.name}` and `{other}` depend on each other by more than what one reads of the other",
                why=f"{d.kind} of `{d.buffer}`",
            )
    users = consumers(program, path)
    if not users:
        raise refuse(
            "MS341",
            primitive,
            f"no block reads what block `{block.name}` writes",
            why="a buffer rolls only for its readers",
        )
    return [path_to_block(program, b.name) or () for b in users]


class _Roll(msgspec.Struct, frozen=True):
    """Dimension `dim`: iteration `loop` needs `start .. start + extent`, of which all but `overlap` are new."""

    dim: int
    loop: For
    start: Expr
    extent: Expr
    overlap: Expr


def _rolls(path: Path, old: Buffer, above: Path, primitive: str) -> tuple[_Roll, ...]:
    """The dimensions along which iterations overlap, that of the outermost loop first."""
    block = block_at(path)
    regions = [r for r in block.writes if r.buffer == old.name]
    box = produced_box(path, regions[0], above) if len(regions) == 1 else None
    loops = {s.var: (k, s) for k, s in enumerate(loops_to(above))}
    found: list[_Roll] = []
    if box is not None:
        found = [r for d in range(len(box)) for r in (_roll(d, box, loops),) if r is not None]
    if not found or box is None:
        raise refuse(
            "MS364",
            primitive,
            f"iterations of the enclosing loops overlap along no dimension of `{old.name}`",
            why="each is to need `i * s .. i * s + n` with n > s",
            help="compute_at the block where its consumer needs a part that overlaps with the next one",
        )
    return tuple(sorted(found, key=lambda r: loops[r.loop.var][0]))


def _roll(dim: int, box: Box, loops: Mapping[str, tuple[int, For]]) -> _Roll | None:
    own = box[dim]
    used = sorted(free_vars(own.start) & loops.keys())
    if len(used) != 1 or free_vars(own.start) - set(used) or free_vars(own.extent):
        return None
    var = used[0]
    if any(var in free_vars(r.start) | free_vars(r.extent) for d, r in enumerate(box) if d != dim):
        return None
    found, loop = pace(own.start, var), loops[var][1]
    if found is None:
        return None
    overlap = arith.simplify(arith.sub(own.extent, found.most))
    if not all(arith.proved(Binary("<", ZERO, x)) for x in (found.least, overlap)):
        return None
    if free_vars(loop.start) or free_vars(loop.extent):
        return None
    return _Roll(dim, loop, own.start, own.extent, overlap)


def _require_steady(program: Program, path: Path, loop: For, primitive: str) -> None:
    """What the block computes must be the same whenever it does so under the loop: its producers there, theirs and so
    on must each be the only writer, start from nothing old, and be done when they are read."""
    inside = {b.name for b in leaves(loop)}
    waiting, seen = [path], {block_at(path).name}
    while waiting:
        at = waiting.pop()
        maker = block_at(at)
        reason = _why_not_steady(program, at, loop)
        if reason is not None:
            raise refuse("MS345", primitive, f"what block `{maker.name}` computes may change meanwhile", why=reason)
        for other in producers(program, at):
            if other.name in inside and other.name not in seen:
                seen.add(other.name)
                waiting.append(path_to_block(program, other.name) or ())


def _why_not_steady(program: Program, path: Path, loop: For) -> str | None:
    block = block_at(path)
    dominant = why_not_dominant(program, path)
    if dominant is not None:
        return dominant
    read = storages_read(program, block)
    if read & storages_written(program, block):
        return f"block `{block.name}` reads what it writes"
    if any(a.kind == "scan" for a in block.axes) or (
        block.init is None and any(a.kind == "reduce" for a in block.axes)
    ):
        return f"block `{block.name}` continues from what was there"
    unfinished = _unfinished(path) & {s.var for s in _around(path, loop)}
    if unfinished:
        return f"block `{block.name}` still reduces in loop `{min(unfinished)}`"
    under = leaves(loop)
    for storage in sorted(read):
        for other in writers(program, under, storage):
            if index_of(under, other) > index_of(under, block):
                return f"block `{other.name}` writes `{storage}` after it is read"
            shared = common_path(path[:-1], (path_to_block(program, other.name) or ())[:-1])
            partial = _unfinished(path_to_block(program, other.name) or ()) & {
                s.var for s in shared if isinstance(s, For)
            }
            if partial:
                return f"block `{other.name}` still reduces in loop `{min(partial)}`, in which `{storage}` is read"
    return None


def _unfinished(path: Path) -> frozenset[str]:
    """The loops over which a block reduces."""
    return frozenset[str]().union(*(free_vars(a.binding) for a in block_at(path).axes if a.kind == "reduce"))


def _around(path: Path, loop: For) -> tuple[For, ...]:
    """A loop above the end of a path, and those around it."""
    loops = loops_above(path)
    return loops[: next((k + 1 for k, s in enumerate(loops) if s.var == loop.var), 0)]


# ------------------------------------------------------------------ rewriting
def _rolled(program: Program, path: Path, old: Buffer, rolls: tuple[_Roll, ...]) -> Program:
    first = rolls[0]
    maker = block_at(path)
    written = next(r for r in maker.writes if r.buffer == old.name)
    taken = taken_names(program)

    def buffer(b: Buffer) -> Buffer:
        shape = tuple(first.extent if d == first.dim else n for d, n in enumerate(b.shape))
        return replace(b, shape=shape) if b.name == old.name else b

    def indices(several: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(arith.simplify(arith.mod(x, first.extent)) if d == first.dim else x for d, x in enumerate(several))

    def load(x: Expr) -> Expr | None:
        return Load(x.buffer, indices(x.indices), x.dtype) if isinstance(x, Load) and x.buffer == old.name else None

    def region(r: Region) -> Region:
        if r.buffer != old.name:
            return r
        own = r.ranges[first.dim]
        turned = Range(arith.simplify(arith.mod(own.start, first.extent)), ONE)
        now = turned if arith.equal(own.extent, ONE) else Range(ZERO, first.extent)
        return Region(r.buffer, tuple(now if d == first.dim else x for d, x in enumerate(r.ranges)))

    def visit(s: Stmt) -> Stmt:
        s = map_bodies(s, lambda body: tuple(visit(x) for x in body))
        match s:
            case Store() if s.buffer == old.name:
                return Store(s.buffer, indices(s.indices), s.value)
            case Block():
                s = replace(
                    s,
                    reads=tuple(region(r) for r in s.reads),
                    writes=tuple(region(r) for r in s.writes),
                    allocs=tuple(buffer(b) for b in s.allocs),
                )
                return _only_new(s, written, rolls, taken) if s.name == maker.name else s
        return s

    changed = tuple(visit(map_stmt_exprs(s, lambda e: map_expr(e, load))) for s in program.body)
    return replace(program, body=changed, allocs=tuple(buffer(b) for b in program.allocs))


def _only_new(block: Block, written: Region, rolls: tuple[_Roll, ...], taken: set[str]) -> Block:
    """The block with a predicate that leaves out what the iterations before have computed.

    `written` is what it writes, in terms of its axes. Axes that hide a loop that the predicate is about get new names.
    """
    hiding = {a.name for a in block.axes} & {r.loop.var for r in rolls}
    names = {n: fresh(n, taken) for n in sorted(hiding)}
    values: dict[str, Expr] = {n: Var(m) for n, m in names.items()}
    conditions: list[Expr] = []
    ordered: set[str] = set()
    for roll in rolls:
        own = written.ranges[roll.dim]
        ordered |= free_vars(own.start)
        last = substitute(arith.sub(arith.add(own.start, own.extent), ONE), values)
        begun = Binary("<", Var(roll.loop.var), arith.add(roll.loop.start, ONE))
        conditions.append(Binary("or", begun, Binary("<=", roll.overlap, arith.simplify(arith.sub(last, roll.start)))))
    axes = tuple(replace(a, kind="opaque" if a.name in ordered else a.kind) for a in block.axes)
    renamed = with_axes(replace(block, axes=axes), names)
    return replace(renamed, predicate=guarded(renamed.predicate, tuple(conditions)))


__all__ = ["rolling_buffer"]
