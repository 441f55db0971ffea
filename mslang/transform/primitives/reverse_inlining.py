"""The primitive that puts the use of a result where it is computed: reverse_compute_inline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Expr, Load
from mslang.ir.program import Block, Program, Range, Region, Store
from mslang.ir.region import infer_regions
from mslang.ir.visit import (
    Path,
    all_buffers,
    conjunction,
    conjuncts,
    loads_of,
    map_expr,
    path_to_block,
    substitute,
)
from mslang.transform.analysis.cover import produced_box
from mslang.transform.analysis.dependence import buffers_read, buffers_written, consumers, is_output, producers
from mslang.transform.analysis.instances import (
    conditions_of,
    domains_of,
    portable_predicate,
    runs_all,
    runs_once,
    with_predicate,
)
from mslang.transform.analysis.outside import require_in_blocks
from mslang.transform.analysis.position import axis_ranges, block_at, block_path, loops_above, scope_body, whole_box
from mslang.transform.analysis.stored import Box
from mslang.transform.outcome import BlockRef, BufferRef, Gone, Outcome, refuse
from mslang.transform.primitives.inlining import complete_formula, require_covered, require_inner
from mslang.transform.primitives.kinds import require_shared_apart
from mslang.transform.rewriting.formula import at_element, inverse, tidy_value, without_alloc
from mslang.transform.rewriting.moving import require_final, require_order
from mslang.transform.rewriting.nest import vanished, without
from mslang.transform.rewriting.rewrite import put


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
          of its scope, has another consumer, or a predicate that leaves out what the block needs
        - loads of the producer's buffer that differ, or whose indices are not an invertible affine map of the axes
        - a buffer that is read through a view, by a block that hides it, or outside of blocks
        - a block that does not surely run for all values of its axes, unless it writes what only its scope needs and
          touches nothing out of bounds; one that reads what its producer does not surely write
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
    _require_folds(program, path, maker, formula, primitive)
    folded, axes = block_at(path), axis_ranges(block_at(maker))
    kept = portable_predicate(path) or ()
    several = (formula.value, *formula.indices, *kept)
    loads = tuple(dict.fromkeys(x.indices for e in several for x in loads_of(e) if x.buffer == buffer))
    inverted = inverse(loads[0], axis_ranges(folded)) if len(loads) == 1 else None
    if inverted is None or inverse(made.indices, axes) is None:
        raise refuse(
            "MS353",
            primitive,
            f"the loads of `{buffer}` in block `{block.name}`, or the indices at which "
            f"block `{block_at(maker).name}` stores, cannot be inverted",
            why="each element must come from one value of the axes, by one affine map",
        )
    always = _unconditional(maker, made, loads[0], axis_ranges(folded), kept)
    if not made_for_all(always, made, arith.relax(loads[0], axis_ranges(folded))):
        raise refuse(
            "MS332",
            primitive,
            f"block `{block.name}` may have instances for which `{block_at(maker).name}` has none",
            why=f"they mean elements of `{buffer}` that are not surely written",
        )
    values = {n: arith.simplify(e, axes) for n, e in at_element(inverted, made.indices).items()}

    def moved(e: Expr) -> Expr:
        return map_expr(substitute(e, values), lambda x: made.value if _is_load(x, buffer) else None)

    conditions = (*limits(folded, values, loads[0], made.indices, axes), *map(moved, kept))
    store = Store(
        formula.buffer,
        tuple(arith.simplify(moved(i), axes) for i in formula.indices),
        tidy_value(moved(formula.value), axes),
    )
    return _folded(program, path, maker, store, conditions, buffer)


def _is_load(x: Expr, buffer: str) -> bool:
    return isinstance(x, Load) and x.buffer == buffer


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


def _require_folds(program: Program, path: Path, maker: Path, formula: Store, primitive: str) -> None:
    """A block can be run where its producer runs: for all its instances, and for each once where that matters."""
    block, makes = block_at(path), block_at(maker)
    if not runs_all(path, domains_of(path)) and (
        is_output(program, path) or not _stays_inside(program, block, formula)
    ):
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


def _stays_inside(program: Program, block: Block, formula: Store) -> bool:
    """Does a formula touch no element out of bounds, whatever the values of its block's axes?"""
    buffers, axes = all_buffers(program), axis_ranges(block)
    loads = (x for e in (formula.value, *formula.indices) for x in loads_of(e))
    touched = [(formula.buffer, formula.indices), *((x.buffer, x.indices) for x in loads)]
    return all(
        arith.covers(whole_box(buffers[b]), arith.relax(indices, axes)) is arith.Verdict.PROVED
        for b, indices in touched
    )


def _unconditional(
    maker: Path, made: Store, loaded: Sequence[Expr], domain: Mapping[str, Range], known: tuple[Expr, ...]
) -> Path:
    """The path of a producer without what its predicate says besides keeping its axes in their domains, which must hold
    wherever it makes an element that the consumer loads (MS347); `known` holds of the consumer."""
    makes, found = block_at(maker), conditions_of(maker)
    inverted = inverse(made.indices, axis_ranges(makes))
    if found is not None and inverted is not None:
        values = at_element(inverted, loaded)
        wanted = [arith.simplify(substitute(c, values), domain) for c in found.kept]
        said = {arith.simplify(c, domain) for c in known}
        if all(c in said or arith.proved(c, domain) for c in wanted):
            return with_predicate(maker, conjunction(found.guards))
    raise refuse(
        "MS347",
        "reverse_compute_inline",
        f"block `{makes.name}` has a predicate",
        why="what follows it would not run where that is false, and needs to",
    )


def made_for_all(maker: Path, made: Store, read: Box) -> bool:
    """Does a block surely store each element of a box, of which parts may lie outside of the buffer?"""
    stored = Region(made.buffer, tuple(Range(i, ONE) for i in made.indices))
    written = produced_box(maker, stored, ())
    domain = arith.relax(stored.ranges, axis_ranges(block_at(maker)))
    return written is not None and all(arith.covers(box, read) is arith.Verdict.PROVED for box in (written, domain))


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
    before = conditions_of(maker)
    said = conjuncts(makes.predicate) if before is None else (*before.guards, *before.kept)
    fused = replace(
        makes,
        body=(store,),
        init=None,
        predicate=conjunction(tuple(dict.fromkeys((*said, *conditions)))),
        annotations=(*makes.annotations, *(n for n in block.annotations if n[0] not in own)),
    )
    read, written = infer_regions(fused, all_buffers(program))
    done = put(program, maker, replace(fused, reads=read, writes=written))
    done = without_alloc(without(done, path_to_block(done, block.name) or ()), path, buffer)

    after = path_to_block(done, fused.name) or ()
    require_in_blocks(done, scope_body(done, after), primitive, read=(buffer,))
    require_order(done, after, primitive)
    require_final(done, producers(done, after), loops_above(after), fused.name, primitive)
    require_covered(done, after, primitive, tuple(r for r in block_at(after).reads if r not in makes.reads))
    for user in consumers(done, after):
        mine = tuple(r for r in user.reads if r.buffer == store.buffer)
        require_covered(done, path_to_block(done, user.name) or (), primitive, mine)
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
