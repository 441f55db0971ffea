"""The primitive that puts the use of a result where it is computed: reverse_compute_inline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import Expr, Load
from mslang.ir.find import all_buffers, path_to_block
from mslang.ir.program import Block, For, Program, Range, Region, Stmt, Store
from mslang.ir.region import infer_regions, point
from mslang.ir.visit import Path, conjunction, conjuncts, guarded, loads_of, map_expr, substitute
from mslang.transform.analysis.dependence import (
    buffers_read,
    buffers_written,
    consumers,
    is_output,
    producers,
    storage_of,
)
from mslang.transform.analysis.formula import at_element, formula_of, inverse, tidy_value
from mslang.transform.analysis.inlining import (
    complete_formula,
    limits,
    made_for_all,
    require_complete,
    require_covered,
    require_inner,
)
from mslang.transform.analysis.instances import conditions_of, domains_of, portable_predicate, runs_all, with_predicate
from mslang.transform.analysis.loop_kinds import require_own_writes, require_shared_apart
from mslang.transform.analysis.outer_accesses import require_in_blocks
from mslang.transform.analysis.position import (
    axis_ranges,
    block_at,
    block_path,
    loop_ranges,
    loops_above,
    scope_body,
    whole_box,
)
from mslang.transform.outcome import BlockRef, BufferRef, Gone, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.block_moving import (
    require_final,
    require_finished,
    require_order,
    require_same_results,
    require_same_values,
)
from mslang.transform.rewriting.inlining import without_alloc
from mslang.transform.rewriting.nest import vanished, without
from mslang.transform.rewriting.rewrite import put

PRIMITIVE = "reverse_compute_inline"


@primitive(family="inlining", consumes=("block",))
def reverse_compute_inline(program: Program, block: BlockRef) -> Outcome:
    """Put a block's formula into the block that produces what it reads; block and buffer go.

    The producer keeps its name, its loops and its axes, and stores what the block stored. Where the block covers less
    than the producer, the producer's predicate says so; the block may leave out elements in between, too.

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
        - a block with an init, or that is not complete, or that does anything but one store (`let`s apart), or that
          computes with views or buffers of its own
        - a last producer that is not complete, or does anything but one store, in loops and blocks of its own or not
          (it may have an init where it reduces over nothing); that writes an output of its scope, has another consumer,
          or a predicate that leaves out what the block needs
        - loads of the producer's buffer that differ, or whose indices are not an affine map of the axes that is
          provably one to one
        - a buffer that is read through a view, by a block that hides it, or outside of blocks
        - a block that does not provably run for all values of its axes, unless it writes what only its scope needs and
          accesses nothing out of bounds; one that reads what its producer does not provably write
        - another block that writes what the block reads after the producer, or reads what it writes before it, also in
          another iteration of a loop around both
        - a producer that would store the same element in iterations that run at the same time

    Source: TVM reverse_compute_inline
    """
    path = block_path(program, block, PRIMITIVE)
    formula = complete_formula(program, path, PRIMITIVE)
    maker, buffer = _maker(program, path)
    source = _source(program, maker, buffer)
    made, axes = source.store, source.ranges
    require_inner(program, maker, buffer, PRIMITIVE)
    require_order(program, path, PRIMITIVE)
    require_same_values(program, path, (maker,), PRIMITIVE, frozenset({storage_of(program, buffer)}))
    _require_folds(program, path, formula)
    folded = block_at(path)
    kept = portable_predicate(path) or ()
    several = (formula.value, *formula.indices, *kept)
    loads = tuple(dict.fromkeys(x.indices for e in several for x in loads_of(e) if x.buffer == buffer))
    inverted = inverse(loads[0], axis_ranges(folded), onto=False) if len(loads) == 1 else None
    if inverted is None or inverse(made.indices, axes) is None:
        raise refuse(
            "MS353",
            PRIMITIVE,
            f"the loads of `{buffer}` in block `{block.name}`, or the indices at which "
            f"block `{block_at(maker).name}` stores, cannot be inverted",
            why="each element must come from one value of the axes, by one affine map",
        )
    domains = domains_of(path)
    always = _unconditional(source, loads[0], domains, kept)
    if not made_for_all(always, source.region, arith.relax(loads[0], domains)):
        raise refuse(
            "MS332",
            PRIMITIVE,
            f"block `{block.name}` may have instances for which `{block_at(maker).name}` has none",
            why=f"they mean elements of `{buffer}` that are not provably written",
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
    return _folded(program, path, source, store, conditions, buffer)


class _Source(msgspec.Struct, frozen=True):
    """A producer's one store, which stands in the producer or in what is inside of it."""

    maker: Path
    """Of the producer."""
    inner: Path
    """Of the block in which the store stands: the producer, or one inside of it."""
    loops: tuple[For, ...]
    """The loops in that block around the store."""
    store: Store
    region: Region
    """What the producer stores, in terms of its axes."""

    @property
    def blocks(self) -> tuple[Path, ...]:
        """The producer and the blocks inside of it around the store."""
        ends = range(len(self.maker), len(self.inner) + 1)
        return tuple(self.inner[:k] for k in ends if isinstance(self.inner[k - 1], Block))

    @property
    def ranges(self) -> dict[str, Range]:
        """The ranges of the axes and loops that the store is about."""
        return {**axis_ranges(block_at(self.inner)), **loop_ranges(self.loops)}


def _source(program: Program, maker: Path, buffer: str) -> _Source:
    """The store of a producer: it alone, or in loops and blocks each of which holds nothing else."""
    chain = _chain(maker)
    if chain == maker:
        store = complete_formula(program, maker, PRIMITIVE, begins=True)
        return _Source(maker, maker, (), store, Region(buffer, tuple(map(point, store.indices))))
    blocks = [chain[: k + 1] for k in range(len(maker) - 1, len(chain)) if isinstance(chain[k], Block)]
    for q in blocks:
        require_complete(program, q, PRIMITIVE)
    inner = block_at(blocks[-1])
    loops = tuple(s for s in chain[len(blocks[-1]) :] if isinstance(s, For))
    found = formula_of(replace(inner, body=_body(chain[-1])))
    regions = [r for r in block_at(maker).writes if r.buffer == buffer]
    plain = (
        all(block_at(q).init is None and not block_at(q).views for q in blocks)
        and all(s.kind in ("serial", "unrolled") for s in chain[len(maker) :] if isinstance(s, For))
        and {a.name for a in inner.axes}.isdisjoint(s.var for s in loops)
    )
    if found is None or found.buffer != buffer or len(regions) != 1 or not plain:
        raise refuse(
            "MS351",
            PRIMITIVE,
            f"block `{block_at(maker).name}` does more than one store",
            why="only a block that does one, under `let`s or not, or in plain loops and blocks alone, is a formula",
        )
    ranges = {**axis_ranges(inner), **loop_ranges(loops)}
    tidy = replace(found, indices=tuple(arith.simplify(i, ranges) for i in found.indices))
    return _Source(maker, blocks[-1], loops, tidy, regions[0])


def _chain(path: Path) -> Path:
    """A path, and on through the loops and blocks that are alone in what is around them."""
    body = _body(path[-1])
    return _chain((*path, body[0])) if len(body) == 1 and isinstance(body[0], For | Block) else path


def _body(s: Stmt) -> tuple[Stmt, ...]:
    return s.body if isinstance(s, For | Block) else ()


def _is_load(x: Expr, buffer: str) -> bool:
    return isinstance(x, Load) and x.buffer == buffer


def _maker(program: Program, path: Path) -> tuple[Path, str]:
    """The last producer of what a block reads, and the buffer."""
    block = block_at(path)
    makers = producers(program, path)
    if not makers:
        raise refuse(
            "MS341",
            PRIMITIVE,
            f"block `{block.name}` reads nothing that a block of its scope writes",
            why="there is nothing to put it into",
        )
    maker = path_to_block(program, makers[-1].name) or ()
    others = [b.name for b in consumers(program, maker) if b.name != block.name]
    if others:
        raise refuse(
            "MS341",
            PRIMITIVE,
            f"block `{others[0]}` reads what block `{makers[-1].name}` writes, too",
            why="its result would be lost",
        )
    shared = next((b for b in buffers_written(makers[-1]) if b in buffers_read(block)), None)
    if shared is None:
        raise refuse(
            "MS341",
            PRIMITIVE,
            f"the body of block `{block.name}` reads nothing that block `{makers[-1].name}` writes",
            why="its init, its predicate or a binding does, or it reads it through a view",
        )
    return maker, shared


def _require_folds(program: Program, path: Path, formula: Store) -> None:
    """A block can be run where its producer runs: for all its instances."""
    block = block_at(path)
    if not runs_all(path, domains_of(path)) and (
        is_output(program, path) or not _stays_inside(program, block, formula)
    ):
        raise refuse(
            "MS348",
            PRIMITIVE,
            f"block `{block.name}` does not provably run for all values of its axes",
            why="its loops and its predicate do not provably cover the domains of its axes",
        )


def _stays_inside(program: Program, block: Block, formula: Store) -> bool:
    """Does a formula access no element out of bounds, whatever the values of its block's axes?"""
    buffers, axes = all_buffers(program), axis_ranges(block)
    loads = (x for e in (formula.value, *formula.indices) for x in loads_of(e))
    touched = [(formula.buffer, formula.indices), *((x.buffer, x.indices) for x in loads)]
    return all(
        arith.covers(whole_box(buffers[b]), arith.relax(indices, axes)) is arith.Verdict.PROVED
        for b, indices in touched
    )


def _unconditional(
    source: _Source, loaded: Sequence[Expr], domain: Mapping[str, Range], known: tuple[Expr, ...]
) -> Path:
    """The path of a producer without what its predicate says besides keeping its axes in their domains, which must hold
    wherever it makes an element that the consumer loads (MS347); `known` holds of the consumer."""
    found = conditions_of(source.maker)
    inverted = inverse(source.store.indices, source.ranges)
    inside = [conditions_of(q) for q in source.blocks if q != source.maker]
    if found is not None and inverted is not None and all(c is not None and not c.kept for c in inside):
        values = at_element(inverted, loaded)
        wanted = [arith.simplify(substitute(c, values), domain) for c in found.kept]
        said = {arith.simplify(c, domain) for c in known}
        if all(c in said or arith.proved(c, domain) for c in wanted) and (not inside or not found.kept):
            return with_predicate(source.maker, conjunction(found.guards))
    raise refuse(
        "MS347",
        PRIMITIVE,
        f"block `{block_at(source.maker).name}` has a predicate",
        why="what follows it would not run where that is false, and needs to",
    )


def _declared(program: Program, source: _Source, read: frozenset[str], written: str) -> Program:
    """The program in which the blocks around a store declare what it does now: it reads of the buffers `read`, and
    writes `written`."""
    buffers = all_buffers(program)
    for q in reversed(source.blocks):
        at = path_to_block(program, block_at(q).name) or ()
        block = block_at(at)
        reads, writes = infer_regions(block, buffers)
        if len(source.blocks) > 1:
            stay = tuple(r for r in block.reads if r.buffer not in read)
            reads = (*stay, *(r for r in reads if r.buffer in read))
            writes = tuple(r for r in writes if r.buffer == written)
        program = put(program, at, replace(block, reads=reads, writes=writes))
    return program


def _folded(
    program: Program, path: Path, source: _Source, store: Store, conditions: tuple[Expr, ...], buffer: str
) -> Outcome:
    """The program with a producer that stores something else, and without the block at the end of a path."""
    block, makes, inner = block_at(path), block_at(source.maker), block_at(source.inner)
    if conditions and source.loops:
        raise refuse(
            "MS351",
            PRIMITIVE,
            f"block `{inner.name}` stores in loops of its own",
            why=f"of what it makes block `{block.name}` needs a part, which its predicate cannot express",
        )
    before = conditions_of(source.inner)
    said = conjuncts(inner.predicate) if before is None else (*before.guards, *before.kept)
    stored: Stmt = store
    for s in reversed(source.loops):
        stored = replace(s, body=(stored,))
    done = put(
        program,
        source.inner,
        replace(inner, body=(stored,), init=None, predicate=guarded(conjunction(said), conditions)),
    )
    done = _declared(done, source, frozenset(buffers_read(block)), store.buffer)
    fused = block_at(path_to_block(done, makes.name) or ())
    own = {k for k, _ in fused.annotations}
    fused = replace(fused, annotations=(*fused.annotations, *(n for n in block.annotations if n[0] not in own)))
    done = put(done, path_to_block(done, makes.name) or (), fused)
    done = without_alloc(without(done, path_to_block(done, block.name) or ()), path, buffer)

    after = path_to_block(done, fused.name) or ()
    require_in_blocks(done, scope_body(done, after), PRIMITIVE, read=(buffer,))
    require_order(done, after, PRIMITIVE)
    require_final(done, producers(done, after), loops_above(after), fused.name, PRIMITIVE)
    require_same_results(program, path, done, after, PRIMITIVE)
    require_finished(program, path, done, after, PRIMITIVE)
    require_covered(done, after, PRIMITIVE, tuple(r for r in block_at(after).reads if r not in makes.reads))
    for user in consumers(done, after):
        mine = tuple(r for r in user.reads if r.buffer == store.buffer)
        require_covered(done, path_to_block(done, user.name) or (), PRIMITIVE, mine)
    require_shared_apart(program, done, PRIMITIVE)
    require_own_writes(done, after, PRIMITIVE)
    into = (BlockRef(fused.name),)
    return Outcome(
        done,
        (),
        {
            **vanished(program, done, PRIMITIVE, into),
            BlockRef(block.name): Gone(PRIMITIVE, into),
            BufferRef(buffer): Gone(PRIMITIVE),
        },
    )
