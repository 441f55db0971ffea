"""Where statements stand: paths, scopes, loops above, common ancestors.

A *scope* is the body of a block, or of the program, in which loops and leaf blocks stand. Dependences, producers
and legality are meant within one scope; the blocks nested in a leaf block belong to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mslang.ir.expr import Const, Expr
from mslang.ir.find import all_buffers, blocks_of, loops_of, path_to_block, path_to_loop, used_names
from mslang.ir.program import Block, Buffer, For, Program, Range, Region, Stmt
from mslang.ir.symbols import symbols_of
from mslang.ir.visit import Path, bodies, substitute, walk
from mslang.transform.outcome import BlockRef, BufferRef, Handle, LoopRef, refuse


# ------------------------------------------------------------------ finding what a handle names
def loop_path(program: Program, loop: LoopRef, primitive: str) -> Path:
    """The path to the loop that a handle names.

    Raises:
        ScheduleError: MS301, there is no such loop.
    """
    path = path_to_loop(program, loop.name)
    if path is None:
        names = ", ".join(s.var for s in walk(program.body) if isinstance(s, For))
        raise refuse("MS301", primitive, f"there is no loop `{loop.name}`", help=f"the loops are: {names or 'none'}")
    return path


def block_path(program: Program, block: BlockRef, primitive: str) -> Path:
    """The path to the block that a handle names.

    Raises:
        ScheduleError: MS301, there is no such block.
    """
    path = path_to_block(program, block.name)
    if path is None:
        names = ", ".join(b.name for b in blocks_of(program.body))
        raise refuse("MS301", primitive, f"there is no block `{block.name}`", help=f"the blocks are: {names or 'none'}")
    return path


def path_of(program: Program, target: LoopRef | BlockRef, primitive: str) -> Path:
    """The path to the loop or block that a handle names (MS301 if there is none)."""
    return (
        loop_path(program, target, primitive) if isinstance(target, LoopRef) else block_path(program, target, primitive)
    )


def buffer_named(program: Program, buffer: BufferRef, primitive: str) -> Buffer:
    """The buffer that a handle names.

    Raises:
        ScheduleError: MS301, there is no such buffer.
    """
    found = all_buffers(program)
    if buffer.name not in found:
        raise refuse(
            "MS301", primitive, f"there is no buffer `{buffer.name}`", help=f"the buffers are: {', '.join(found)}"
        )
    return found[buffer.name]


def loop_at(path: Path) -> For:
    """The loop that a path ends in."""
    end = path[-1]
    if not isinstance(end, For):
        raise TypeError(f"the path ends in no loop: {end!r}")
    return end


def block_at(path: Path) -> Block:
    """The block that a path ends in."""
    end = path[-1]
    if not isinstance(end, Block):
        raise TypeError(f"the path ends in no block: {end!r}")
    return end


def taken_names(program: Program) -> set[str]:
    """Names that a new loop, block, buffer or axis must not take, as a set to add to."""
    return {*used_names(program), *(s.name for s in symbols_of(program))}


# ------------------------------------------------------------------ scopes
def scope_path(path: Path) -> Path:
    """The path to the innermost block around the last statement; empty: the program itself is the scope."""
    last = max((k + 1 for k, s in enumerate(path[:-1]) if isinstance(s, Block)), default=0)
    return path[:last]


def scope_block(path: Path) -> Block | None:
    """The innermost block around the last statement of a path; None: the program itself is the scope."""
    above = scope_path(path)
    return block_at(above) if above else None


def within_scope(path: Path) -> Path:
    """The part of a path below the block around its last statement."""
    return path[len(scope_path(path)) :]


def scope_body(program: Program, path: Path) -> tuple[Stmt, ...]:
    """The statements of the scope in which the last statement of a path stands."""
    scope = scope_block(path)
    if scope is None:
        return program.body
    first = within_scope(path)[0]
    return next(body for body in bodies(scope) if any(s is first for s in body))


def memory_at(path: Path, names: Iterable[str]) -> frozenset[str]:
    """The buffers whose memory names stand for at the end of a path: of a view of a block on it what it looks at."""
    views = {v.buffer.name: v.source.buffer for s in path if isinstance(s, Block) for v in s.views}

    def root(name: str) -> str:
        return root(views[name]) if name in views else name

    return frozenset(map(root, names)) if views else frozenset(names)


def same_scope(a: Path, b: Path) -> bool:
    """Do the last statements of two paths stand in one scope? (A block's init and its body are two.)"""
    scope, other = scope_block(a), scope_block(b)
    if scope is None or scope is not other:
        return scope is other
    firsts = (within_scope(a)[0], within_scope(b)[0])
    return any(all(any(s is first for s in body) for first in firsts) for body in bodies(scope))


def leaves(*stmts: Stmt) -> tuple[Block, ...]:
    """The blocks at or under some statements that belong to the scope of these (none nested in another)."""
    return blocks_of(stmts, into_blocks=False)


def scope_buffers(program: Program, path: Path) -> tuple[Buffer, ...]:
    """The buffers allocated in the scope in which the last statement of a path stands."""
    scope = scope_block(path)
    return program.allocs if scope is None else scope.allocs


def loops_above(path: Path) -> tuple[For, ...]:
    """The loops of its scope above the last statement of a path, outermost first."""
    return loops_of(path)


def is_under(path: Path, ancestor: Stmt) -> bool:
    """Does the path lead through (not only to) a statement?"""
    return any(s is ancestor for s in path[:-1])


# ------------------------------------------------------------------ ranges and regions
def loop_range(loop: For) -> Range:
    """The values of a loop's variable."""
    return Range(loop.start, loop.extent)


def loop_ranges(loops: Iterable[For]) -> dict[str, Range]:
    """The values of some loops' variables, by name."""
    return {loop.var: loop_range(loop) for loop in loops}


def ranges_above(path: Path) -> dict[str, Range]:
    """The ranges of all variables that the last statement of a path may use in its bindings: the axes of the block
    around it and the loops above it."""
    scope = scope_block(path)
    return (axis_ranges(scope) if scope is not None else {}) | loop_ranges(loops_above(path))


def axis_ranges(block: Block) -> dict[str, Range]:
    """The ranges of a block's axes."""
    return {a.name: Range(Const(0), a.extent) for a in block.axes}


def bindings(block: Block) -> dict[str, Expr]:
    """The values of a block's axes in terms of what is around it."""
    return {a.name: a.binding for a in block.axes}


def region_outside(block: Block, region: Region) -> tuple[Range, ...]:
    """The box of a region of a block in terms of the loops around the block."""
    values = bindings(block)
    return tuple(Range(substitute(r.start, values), substitute(r.extent, values)) for r in region.ranges)


def predicate_outside(block: Block) -> Expr:
    """The predicate of a block in terms of the loops around the block; its axes hide loops of the same name."""
    return substitute(block.predicate, bindings(block))


def whole_box(buffer: Buffer) -> tuple[Range, ...]:
    """All of a buffer."""
    return tuple(Range(Const(0), n) for n in buffer.shape)


# ------------------------------------------------------------------ several paths
def common_path(*paths: Path) -> Path:
    """The statements that all paths lead through (or end in), outermost first: the last is the lowest common
    ancestor; empty if there is none but the program."""
    out: list[Stmt] = []
    for level in zip(*paths, strict=False):
        if any(s is not level[0] for s in level):
            break
        out.append(level[0])
    return tuple(out)


def loops_between(path: Path, above: Path) -> tuple[For, ...]:
    """The loops of its scope above the end of `path` that are not in its prefix `above`, outermost first."""
    skip = {id(s) for s in above}
    return tuple(loop for loop in loops_above(path) if id(loop) not in skip)


def index_of(body: Sequence[Stmt], stmt: Stmt) -> int:
    """The position of a statement in a list, by identity."""
    return next(k for k, s in enumerate(body) if s is stmt)


def shown(handle: Handle) -> str:
    """How a handle is called in messages: ``loop `i```."""
    match handle:
        case LoopRef(name=n):
            return f"loop `{n}`"
        case BlockRef(name=n):
            return f"block `{n}`"
        case BufferRef(name=n):
            return f"buffer `{n}`"
