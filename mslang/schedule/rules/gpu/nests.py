"""What a nest does, as default schedules for GPUs ask it: axes, extents, which axes an access varies with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod

from msgspec.structs import replace

from mslang.diagnostics import MsError
from mslang.ir.expr import Call, Const, Expr, Load
from mslang.ir.find import blocks_of, path_to_block
from mslang.ir.program import Block, For, Program, Stmt, Store
from mslang.ir.visit import free_vars, loads_of, stmt_exprs, walk, walk_expr
from mslang.schedule.decisions import Drawing
from mslang.schedule.rules.nests import leaf_blocks, loops_around
from mslang.schedule.session import Session
from mslang.transform.analysis.dependence import storage_of
from mslang.transform.analysis.position import leaves
from mslang.transform.getters import consumers, is_injective, is_output
from mslang.transform.outcome import BlockRef

Step = Callable[[Session], None]
Accepts = Callable[[Program], bool]


def possible(session: Session, step: Step, accepts: Accepts) -> bool:
    """Whether a step can be taken whole, and its result is accepted; the session is not changed."""
    trial = Session(session.program, Drawing(0))
    try:
        step(trial)
    except MsError:
        return False
    return accepts(trial.program)


def take(session: Session, steps: Iterable[Step], accepts: Accepts) -> bool:
    """Take the first of some steps that is possible; False if none is."""
    for step in steps:
        if possible(session, step, accepts):
            step(session)
            return True
    return False


def loop_names(program: Program, block: Block, kind: str) -> list[str]:
    """The loops around a block that occur in axes of a kind and in no others, outermost first."""
    mine = {v for a in block.axes if a.kind == kind for v in free_vars(a.binding)}
    others = {v for a in block.axes if a.kind != kind for v in free_vars(a.binding)}
    return [s.var for s in loops_around(program, block) if s.var in mine - others]


def is_bound(program: Program, block: Block) -> bool:
    """Whether a loop around a block is bound to blocks or threads of a GPU."""
    return any("Idx." in s.kind for s in loops_around(program, block))


def has_bound_loop(program: Program) -> bool:
    """Whether any loop of a program is bound to blocks or threads of a GPU."""
    return any(isinstance(s, For) and "Idx." in s.kind for s in walk(program.body))


def unbound(program: Program) -> list[Block]:
    """The leaf blocks alone under loops of the program's body, none of which is bound, in program order."""
    tops = {b.name for s in program.body for b in leaves(s) if len(leaves(s)) == 1}
    return [b for b in leaf_blocks(program) if b.name in tops and not is_bound(program, b)]


def kept_between(program: Program) -> list[tuple[str, str]]:
    """The buffers on the chip that more than one nest accesses, none of which has a bound loop: each nest becomes a
    kernel, and what is on the chip lives no longer than one. For each a block that writes it, and the buffer."""
    free = [s for s in program.body if not has_bound_loop(replace(program, body=(s,)))]
    found: list[tuple[str, str]] = []
    for buffer in (b.name for b in program.allocs if b.scope != "global"):
        writer = next((b.name for b in blocks_of(program.body) if any(r.buffer == buffer for r in b.writes)), None)
        users = [s for s in program.body if buffer in _accessed(program, s)]
        if writer is not None and len(users) > 1 and all(s in free for s in users):
            found.append((writer, buffer))
    return found


def _accessed(program: Program, nest: Stmt) -> frozenset[str]:
    """The buffers whose memory a nest accesses, in the bounds and conditions of its statements too."""
    names: set[str] = set()
    for s in walk((nest,)):
        names.update(x.buffer for e in stmt_exprs(s) for x in loads_of(e))
        if isinstance(s, Store):
            names.add(s.buffer)
        elif isinstance(s, Block):
            names.update(r.buffer for r in (*s.reads, *s.writes))
    return frozenset(storage_of(program, n) for n in names)


def extent(program: Program, block: Block, names: Iterable[str]) -> int | None:
    """How many iterations loops have together; None if a size is known only at the call."""
    found = [s.extent for s in loops_around(program, block) if s.var in set(names)]
    sizes = [int(e.value) for e in found if isinstance(e, Const)]
    return prod(sizes) if len(sizes) == len(found) else None


def loads(block: Block) -> Iterator[Load]:
    """The loads in a block's body."""
    for s in walk(block.body):
        for e in stmt_exprs(s):
            yield from loads_of(e)


def inputs(block: Block) -> list[Load]:
    """The loads of buffers that a block does not write, each access once."""
    written = {r.buffer for r in block.writes}
    return list(dict.fromkeys(x for x in loads(block) if x.buffer not in written))


def axes_in(block: Block, indices: Iterable[Expr]) -> frozenset[str]:
    """The axes of a block that occur in indices."""
    return frozenset(a.name for a in block.axes) & frozenset().union(*map(free_vars, indices))


def last_axes(block: Block, load: Load) -> frozenset[str]:
    """The axes along which an access is contiguous, or nearly so: those of the last index."""
    return axes_in(block, load.indices[-1:])


def written_axes(block: Block) -> tuple[frozenset[str], ...]:
    """For each dimension of the first buffer that a block writes, the axes in its index."""
    return tuple(axes_in(block, (r.start,)) for r in block.writes[0].ranges) if block.writes else ()


def is_cheap(block: Block) -> bool:
    """Whether a block computes without calls of functions."""
    return not any(isinstance(x, Call) for s in walk(block.body) for e in stmt_exprs(s) for x in walk_expr(e))


def inlined_by_default(program: Program, block: Block) -> bool:
    """Whether a block only prepares operands, and inlining it computes nothing dear more than once."""
    ref = BlockRef(block.name)
    if not is_injective(program, ref) or is_output(program, ref):
        return False
    buffer = block.writes[0].buffer
    readers = [_found(program, x.name) for x in consumers(program, ref)]
    uses = [(b, x) for b in readers for x in loads(b) if x.buffer == buffer]
    reused = any(axes_in(b, x.indices) != {a.name for a in b.axes} for b, x in uses)
    return bool(uses) and not reused and (is_cheap(block) or len(uses) == 1)


def _found(program: Program, name: str) -> Block:
    found = (path_to_block(program, name) or ())[-1]
    assert isinstance(found, Block)
    return found


def tiled_axes(program: Program, block: Block) -> tuple[str, str, str] | None:
    """For a product of two operands, the axes to tile: a row's, a column's, and that of the sum; None for others.

    A row's axis occurs in the first operand and the result alone, a column's in the second and the result, the sum's
    in both operands. Of several, the one of most iterations is taken, the innermost of equals.
    """
    read = inputs(block)
    if block.init is None or len(block.writes) != 1 or len({x.buffer for x in read}) != 2 or len(read) != 2:
        return None
    used = [axes_in(block, x.indices) for x in read]
    kinds = {a.name: a.kind for a in block.axes}

    def best(names: Iterable[str], kind: str) -> str | None:
        wanted = [a for a in block.axes if a.name in set(names) and kinds[a.name] == kind]
        sized = [(int(a.extent.value), n, a.name) for n, a in enumerate(wanted) if isinstance(a.extent, Const)]
        return max(sized)[2] if sized else None

    first, second = used
    out = written_axes(block)
    if out and out[-1] & first and not out[-1] & second:
        first, second = second, first  # Columns of the result are contiguous.
    m, n, k = best(first - second, "spatial"), best(second - first, "spatial"), best(first & second, "reduce")
    return None if m is None or n is None or k is None else (m, n, k)
