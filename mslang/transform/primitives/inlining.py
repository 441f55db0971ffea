"""Primitives that put a block's formula where its result is used, or the use where it is computed: compute_inline,
reverse_compute_inline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Expr, Load
from mslang.ir.program import Block, Program, Range, Region, Store
from mslang.ir.region import hidden, infer_regions
from mslang.ir.visit import (
    Path,
    all_buffers,
    conjunction,
    conjuncts,
    loads_of,
    map_expr,
    path_to_block,
    substitute,
    walk,
)
from mslang.transform.analysis.cover import Box, cuts_only_outside, produced_box, why_not_covered
from mslang.transform.analysis.dependence import buffers_read, buffers_written, consumers, is_output, producers
from mslang.transform.analysis.instances import domains_of, portable_predicate, runs_all, runs_once
from mslang.transform.analysis.legality import why_not_complete
from mslang.transform.analysis.position import axis_ranges, block_at, block_path, loops_above
from mslang.transform.outcome import BlockRef, BufferRef, Gone, Outcome, refuse
from mslang.transform.primitives.kinds import require_shared_apart
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
from mslang.transform.rewriting.moving import require_final, require_order
from mslang.transform.rewriting.nest import vanished, without
from mslang.transform.rewriting.rewrite import put


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
        - a block with an init, or that is not complete, or that does anything but one store (`let`s apart)
        - a store whose indices are not an invertible affine map of the axes
        - a block that writes an output of its scope
        - a result that is read through a view, or outside of blocks
        - another block that writes what the block reads after it

    Source: TVM compute_inline
    """
    primitive = "compute_inline"
    path = block_path(program, block, primitive)
    formula = complete_formula(program, path, primitive)
    require_inner(program, path, formula.buffer, primitive)
    inlined = block_at(path)
    users = consumers(program, path)
    require_order(program, path, primitive)
    inverted = inverse(formula.indices, axis_ranges(inlined))
    if inverted is None:
        raise refuse(
            "MS353",
            primitive,
            f"the indices at which block `{block.name}` stores cannot be inverted",
            why="each element must come from one value of the axes, by an affine map",
        )
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
        require_covered(done, after, primitive)
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


def reverse_compute_inline(program: Program, block: BlockRef) -> Outcome:
    """Put a block's formula into the block that produces what it reads; block and buffer go.

    The producer keeps its name, its loops and its axes, and stores what the block stored. Where the block covers less
    than the producer, the producer's predicate says so.

    Before:
        block add[i: 64, j: 64] { T[i, j] = A[i, j] + bias[j] }
        block relu[x: 64, y: 32] { B[x, y] = max(T[x, y], 0.0) }

    After:
        # relu.reverse_compute_inline()
        block add[i: 64, j: 64] {
            where j < 32
            B[i, j] = max(A[i, j] + bias[j], 0.0)
        }

    Rejects:
        - a block with an init, or that is not complete, or that does anything but one store (`let`s apart)
        - a last producer that is so, though it may have an init where it reduces over nothing; that writes an output
          of its scope, has a predicate, or has another consumer
        - loads of the producer's buffer that differ, or whose indices are not an invertible affine map of the axes
        - a buffer that is read through a view
        - a block that does not surely run for all values of its axes, or reads what its producer does not surely write
        - another block that writes what the block reads after the producer, or reads what it writes before it
        - a producer that would store the same element in iterations that run at the same time

    Source: TVM reverse_compute_inline
    """
    primitive = "reverse_compute_inline"
    path = block_path(program, block, primitive)
    formula = complete_formula(program, path, primitive)
    maker, buffer = _maker(program, path, primitive)
    made = complete_formula(program, maker, primitive, begins=True)
    require_inner(program, maker, buffer, primitive)
    require_order(program, path, primitive)
    _require_folds(path, maker, primitive)
    folded, axes = block_at(path), axis_ranges(block_at(maker))
    loads = tuple(dict.fromkeys(x.indices for x in loads_of(formula.value) if x.buffer == buffer))
    inverted = inverse(loads[0], axis_ranges(folded)) if len(loads) == 1 else None
    if inverted is None or inverse(made.indices, axes) is None:
        raise refuse(
            "MS353",
            primitive,
            f"the loads of `{buffer}` in block `{block.name}`, or the indices at which "
            f"block `{block_at(maker).name}` stores, cannot be inverted",
            why="each element must come from one value of the axes, by one affine map",
        )
    if not made_for_all(maker, made, arith.relax(loads[0], axis_ranges(folded))):
        raise refuse(
            "MS332",
            primitive,
            f"block `{block.name}` may have instances for which `{block_at(maker).name}` has none",
            why=f"they mean elements of `{buffer}` that are not surely written",
        )
    values = {n: arith.simplify(e, axes) for n, e in at_element(inverted, made.indices).items()}
    conditions = (
        *limits(folded, values, loads[0], made.indices, axes),
        *(substitute(c, values) for c in portable_predicate(path) or ()),
    )
    value = map_expr(
        substitute(formula.value, values), lambda x: made.value if isinstance(x, Load) and x.buffer == buffer else None
    )
    store = Store(
        formula.buffer,
        tuple(arith.simplify(substitute(i, values), axes) for i in formula.indices),
        tidy_value(value, axes),
    )
    return _folded(program, path, maker, store, conditions, buffer)


# ------------------------------------------------------------------ conditions
def complete_formula(program: Program, path: Path, primitive: str, begins: bool = False) -> Store:
    """The formula of the block at the end of a path, which must be complete; `begins`: it may have an init, but must
    then reduce over nothing."""
    block = block_at(path)
    if block.init is not None and (not begins or any(a.kind == "reduce" for a in block.axes)):
        raise refuse("MS350", primitive, f"block `{block.name}` has an init", why="a reduction is no formula")
    reason = why_not_complete(program, path)
    if reason is not None:
        raise refuse("MS345", primitive, f"block `{block.name}` cannot be inlined", why=reason)
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
    return formula


def require_inner(program: Program, path: Path, buffer: str, primitive: str) -> None:
    """What the block at the end of a path writes must be needed in its scope only (MS343), and not viewed (MS352)."""
    if is_output(program, path):
        raise refuse(
            "MS343", primitive, f"block `{block_at(path).name}` is an output block", why=f"`{buffer}` is needed outside"
        )
    if is_viewed(program, buffer):
        raise refuse("MS352", primitive, f"there is a view of `{buffer}`", why="what it stands for would be gone")


def require_covered(program: Program, path: Path, primitive: str) -> None:
    """What the block at the end of a path reads must surely be written before (MS332)."""
    reason = why_not_covered(program, path)
    if reason is not None:
        raise refuse(
            "MS332", primitive, f"block `{block_at(path).name}` would read what is not surely written", why=reason
        )


def _maker(program: Program, path: Path, primitive: str) -> tuple[Path, str]:
    """The last producer of what a block reads, and the buffer."""
    block = block_at(path)
    makers = producers(program, path)
    if not makers:
        raise refuse(
            "MS341",
            primitive,
            f"block `{block.name}` reads nothing that a block of its scope writes",
            why="there is nothing to put it into",
        )
    maker = path_to_block(program, makers[-1].name) or ()
    others = [b.name for b in consumers(program, maker) if b.name != block.name]
    if others:
        raise refuse(
            "MS341",
            primitive,
            f"block `{others[0]}` reads what block `{makers[-1].name}` writes, too",
            why="its result would be gone",
        )
    return maker, next(b for b in buffers_written(makers[-1]) if b in buffers_read(block))


def made_for_all(maker: Path, made: Store, read: Box) -> bool:
    """Does a block surely store each element of a box, of which parts may lie outside of the buffer?"""
    stored = Region(made.buffer, tuple(Range(i, ONE) for i in made.indices))
    written = produced_box(maker, stored, ())
    domain = arith.relax(stored.ranges, axis_ranges(block_at(maker)))
    return written is not None and all(arith.covers(box, read) is arith.Verdict.PROVED for box in (written, domain))


def _require_folds(path: Path, maker: Path, primitive: str) -> None:
    """A block can be run where its producer runs: for all its instances, and for each once where that matters."""
    block, makes = block_at(path), block_at(maker)
    if not cuts_only_outside(maker):
        raise refuse(
            "MS347",
            primitive,
            f"block `{makes.name}` has a predicate",
            why=f"block `{block.name}` would not run where it is false",
        )
    if not runs_all(path, domains_of(path)):
        raise refuse(
            "MS348",
            primitive,
            f"block `{block.name}` does not surely run for all values of its axes",
            why="its loops and its predicate do not surely cover the domains of its axes",
        )
    loops = loops_above(maker)
    concurrent = [s for s in loops if s.kind not in ("serial", "unrolled")]
    if concurrent and not runs_once(maker, loops):
        raise refuse(
            "MS349",
            primitive,
            f"block `{makes.name}` would store the same elements in several iterations of "
            f"the {concurrent[-1].kind} loop `{concurrent[-1].var}`",
            why="its bindings are not surely different in different iterations",
        )


def limits(
    block: Block, values: Mapping[str, Expr], loaded: Sequence[Expr], stored: Sequence[Expr], axes: Mapping[str, Range]
) -> tuple[Expr, ...]:
    """What must hold of the producer's axes for an element to be one that the block loads."""
    found: list[Expr] = []
    for a in block.axes:
        found.append(Binary("<=", ZERO, values[a.name]))
        found.append(Binary("<", values[a.name], a.extent))
    for one, other in zip(loaded, stored, strict=True):
        index = arith.simplify(substitute(one, values), axes)
        if not arith.equal(index, other, axes):
            found.append(Binary("==", index, other))
    return tuple(arith.simplify(c, axes) for c in found if not arith.proved(c, axes))


def _folded(
    program: Program, path: Path, maker: Path, store: Store, conditions: tuple[Expr, ...], buffer: str
) -> Outcome:
    """The program with a producer that stores something else, and without the block at the end of a path."""
    primitive = "reverse_compute_inline"
    block, makes = block_at(path), block_at(maker)
    own = {k for k, _ in makes.annotations}
    fused = replace(
        makes,
        body=(store,),
        init=None,
        predicate=conjunction((*conjuncts(makes.predicate), *conditions)),
        annotations=(*makes.annotations, *(n for n in block.annotations if n[0] not in own)),
    )
    read, written = infer_regions(fused, all_buffers(program))
    done = put(program, maker, replace(fused, reads=read, writes=written))
    done = without_alloc(without(done, path_to_block(done, block.name) or ()), path, buffer)

    after = path_to_block(done, fused.name) or ()
    require_order(done, after, primitive)
    require_final(done, producers(done, after), loops_above(after), fused.name, primitive)
    require_covered(done, after, primitive)
    for user in consumers(done, after):
        require_covered(done, path_to_block(done, user.name) or (), primitive)
    require_shared_apart(program, done, primitive)
    into = (BlockRef(fused.name),)
    return Outcome(
        done,
        (),
        {
            **vanished(program, done, primitive, into),
            BlockRef(block.name): Gone(primitive, into),
            BufferRef(buffer): Gone(primitive),
        },
    )
