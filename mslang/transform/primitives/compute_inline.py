"""The primitive that puts a block's formula where its result is used: compute_inline."""

from __future__ import annotations

from collections.abc import Mapping

from mslang.ir.expr import Expr
from mslang.ir.find import all_buffers, path_to_block
from mslang.ir.program import Block, Let, Program, Range, Region
from mslang.ir.region import hidden
from mslang.ir.visit import Path, loads_of, substitute, walk
from mslang.transform.analysis.cover import produces_for
from mslang.transform.analysis.dependence import (
    buffers_read,
    consumers,
    producers,
    storages_read,
    writers,
)
from mslang.transform.analysis.formula import at_element, inverse, tidy_value
from mslang.transform.analysis.inlining import complete_formula, require_covered, require_inner
from mslang.transform.analysis.loop_kinds import require_shared_apart
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
from mslang.transform.rewriting.block_moving import require_final, require_order, require_same_values
from mslang.transform.rewriting.inlining import with_loads, with_reads, without_alloc
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
        told = frozenset(s.name for s in (*found, *walk(user.body)) if isinstance(s, Let))

        def value(indices: tuple[Expr, ...], ranges: Mapping[str, Range] = ranges, told: frozenset[str] = told) -> Expr:
            return tidy_value(substitute(formula.value, at_element(inverted, indices)), ranges, told)

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
