"""The primitive that puts a block's formula where its result is used: compute_inline."""

from __future__ import annotations

from collections.abc import Mapping

from mslang.ir.expr import Expr
from mslang.ir.program import Block, Program, Range, Region, Store
from mslang.ir.region import hidden
from mslang.ir.visit import (
    Path,
    all_buffers,
    blocks_of,
    loads_of,
    path_to_block,
    substitute,
    walk,
)
from mslang.transform.analysis.cover import produces_for, why_not_covered
from mslang.transform.analysis.dependence import (
    buffers_read,
    consumers,
    is_output,
    producers,
    storages_read,
    writers,
)
from mslang.transform.analysis.legality import why_not_complete
from mslang.transform.analysis.position import (
    axis_ranges,
    block_at,
    block_path,
    leaves,
    loops_above,
    scope_body,
)
from mslang.transform.outcome import BlockRef, BufferRef, Gone, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.primitives.loop_kinds import require_shared_apart
from mslang.transform.rewriting.block_moving import require_final, require_order, require_same_values
from mslang.transform.rewriting.formula import (
    at_element,
    begun,
    formula_of,
    inverse,
    is_viewed,
    tidy_value,
    with_loads,
    with_reads,
    without_alloc,
)
from mslang.transform.rewriting.nest import vanished, without
from mslang.transform.rewriting.rewrite import put


@primitive(family="inlining", consumes=("block",))
def compute_inline(program: Program, block: BlockRef) -> Outcome:
    """Put the formula of a block into all that read its result; block and buffer go.

    Each load of the buffer is replaced by the formula for the element loaded. The block's own predicate goes: it
    only said which elements exist. A block whose result nobody reads just goes.

    Before:
        block add[i: 64, j: 64] { T[i, j] = A[i, j] + bias[j] }
        block relu[i: 64, j: 64] { B[i, j] = max(T[i, j], 0.0) }

    After:
        # add.compute_inline()
        block relu[i: 64, j: 64] { B[i, j] = max(A[i, j] + bias[j], 0.0) }

    Rejects:
        - a block with an init, or that is not complete, or that does anything but one store (`let`s apart), or that
          computes with views or buffers of its own
        - a store whose indices are not an invertible affine map of the axes
        - a block that writes an output of its scope
        - a result that is read through a view, by a block that hides it, or outside of blocks; but predicates may read
          it if the block reads nothing that its scope writes
        - another block that writes what the block reads after it

    Source: TVM compute_inline
    """
    primitive = "compute_inline"
    path = block_path(program, block, primitive)
    formula = complete_formula(program, path, primitive)
    require_inner(program, path, formula.buffer, primitive)
    inlined = block_at(path)
    users = _users(program, path, formula.buffer)
    require_order(program, path, primitive, predicates=not _lasts(program, path))
    inverted = inverse(formula.indices, axis_ranges(inlined))
    if inverted is None:
        raise refuse(
            "MS353",
            primitive,
            f"the indices at which block `{block.name}` stores cannot be inverted",
            why="each element must come from one value of the axes, by an affine map",
        )
    using = [path_to_block(program, b.name) or () for b in users]
    served = all(
        formula.buffer in buffers_read(b) and produces_for(program, path, q, formula.buffer)
        for b, q in zip(users, using, strict=True)
    )
    require_same_values(program, path, using, primitive, keeps=lambda loop: served)
    done = without_alloc(without(program, path), path, formula.buffer)
    for user in users:
        found = path_to_block(done, user.name) or ()
        ranges = {} if any(isinstance(s, Block) for s in walk(user.body)) else axis_ranges(user)

        def value(indices: tuple[Expr, ...], ranges: Mapping[str, Range] = ranges) -> Expr:
            return tidy_value(substitute(formula.value, at_element(inverted, indices)), ranges)

        changed = with_reads(
            with_loads(found[-1], formula.buffer, value),
            formula.buffer,
            frozenset(buffers_read(inlined)) | hidden(inlined, "read"),
            all_buffers(program),
        )
        done = put(done, found, changed)
    for user in users:
        after = path_to_block(done, user.name) or ()
        require_final(program, producers(program, path), loops_above(after), user.name, primitive)
        require_covered(done, after, primitive, _new_reads(program, path, user, after))
    require_shared_apart(program, done, primitive)
    into = tuple(BlockRef(b.name) for b in users)
    return Outcome(
        done,
        (),
        {
            **vanished(program, done, primitive, into),
            block: Gone(primitive, into),
            BufferRef(formula.buffer): Gone(primitive),
        },
    )


def _users(program: Program, path: Path, buffer: str) -> tuple[Block, ...]:
    """The blocks of its scope that read what the block at the end of a path writes, or of which the predicate does."""
    reading = consumers(program, path)
    return tuple(
        b
        for b in leaves(*scope_body(program, path))
        if b in reading or any(x.buffer == buffer for x in loads_of(b.predicate))
    )


def _new_reads(program: Program, inlined: Path, user: Block, after: Path) -> tuple[Region, ...]:
    """What a reader of the block at the end of a path `inlined` reads that it did not before, but for what both read
    when it is all done."""
    done = [b for b in buffers_read(block_at(inlined)) if all(_done(program, b, q) for q in (inlined, after))]
    return tuple(r for r in block_at(after).reads if r not in user.reads and r.buffer not in done)


def _done(program: Program, buffer: str, path: Path) -> bool:
    """Is no block that writes a buffer in a loop with the end of a path?"""
    made = writers(program, scope_body(program, path), buffer)
    around = {s.var for s in loops_above(path)}
    return not any(around & {s.var for s in loops_above(path_to_block(program, b.name) or ())} for b in made)


# ------------------------------------------------------------------ conditions
def _lasts(program: Program, path: Path) -> bool:
    """Is what the block at the end of a path computes the same throughout its scope: does nothing there write what it
    reads?"""
    body = scope_body(program, path)
    return not any(writers(program, body, storage) for storage in storages_read(program, block_at(path)))


def complete_formula(program: Program, path: Path, primitive: str, begins: bool = False) -> Store:
    """The formula of the block at the end of a path, which must be complete; `begins`: it may have an init, but must
    then reduce over nothing."""
    block = block_at(path)
    if block.init is not None and (not begins or any(a.kind == "reduce" for a in block.axes)):
        raise refuse(
            "MS350",
            primitive,
            f"block `{block.name}` has an init",
            why="a reduction is no formula",
            help="`compute_at` moves it to where its result is read" if primitive == "compute_inline" else None,
        )
    require_complete(program, path, primitive)
    formula = formula_of(block)
    if formula is not None and block.init is not None:
        formula = begun(block, formula)
    if formula is None:
        raise refuse(
            "MS351",
            primitive,
            f"block `{block.name}` does more than one store",
            why="only a block whose body is one store, under `let`s or not, is a formula",
        )
    own = {*(b.name for b in block.allocs), *(v.buffer.name for v in block.views)}
    used = own & {formula.buffer, *(x.buffer for e in (formula.value, *formula.indices) for x in loads_of(e))}
    if used and not begins:
        raise refuse(
            "MS352",
            primitive,
            f"block `{block.name}` computes with `{min(used)}`, which is its own",
            why="views and buffers of a block go with it",
        )
    return formula


def require_complete(program: Program, path: Path, primitive: str) -> None:
    """The block at the end of a path must be complete (MS345)."""
    reason = why_not_complete(program, path)
    if reason is not None:
        raise refuse("MS345", primitive, f"block `{block_at(path).name}` cannot be inlined", why=reason)


def require_inner(program: Program, path: Path, buffer: str, primitive: str) -> None:
    """What the block at the end of a path writes must be needed in its scope only (MS343), and neither viewed nor
    hidden (MS352)."""
    if is_output(program, path):
        raise refuse(
            "MS343", primitive, f"block `{block_at(path).name}` is an output block", why=f"`{buffer}` is needed outside"
        )
    if is_viewed(program, buffer):
        raise refuse("MS352", primitive, f"there is a view of `{buffer}`", why="what it stands for would be gone")
    hiding = next((b.name for b in blocks_of(program.body) if buffer in hidden(b, "read") | hidden(b, "write")), None)
    if hiding is not None:
        raise refuse(
            "MS352",
            primitive,
            f"block `{hiding}` hides that it touches `{buffer}`",
            why="it would be left with what is gone",
        )


def require_covered(program: Program, path: Path, primitive: str, regions: tuple[Region, ...] | None = None) -> None:
    """What the block at the end of a path reads, or these regions of it, must provably be written before (MS332)."""
    reason = why_not_covered(program, path, regions)
    if reason is not None:
        raise refuse(
            "MS332", primitive, f"block `{block_at(path).name}` would read what is not provably written", why=reason
        )
