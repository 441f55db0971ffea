"""Primitives that make a block of what stands under a loop: blockize."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Var
from mslang.ir.find import all_buffers
from mslang.ir.program import Axis, Block, Buffer, For, Program, Range, Stmt
from mslang.ir.region import infer_regions
from mslang.ir.text import kind_text
from mslang.ir.visit import Path, conjunction, free_vars, fresh
from mslang.transform.analysis.accesses import updated_regions, why_not_own_elements, why_several_names
from mslang.transform.analysis.initialization import why_may_not_iterate, why_not_overwritten
from mslang.transform.analysis.instances import loops_beyond_spatial, runs_once
from mslang.transform.analysis.position import (
    block_at,
    loop_at,
    loop_path,
    loops_above,
    loops_between,
    ranges_above,
    taken_names,
)
from mslang.transform.kinds import LoopOrBlocks
from mslang.transform.outcome import BlockRef, LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.block_division import (
    PRIMITIVE,
    Part,
    divided,
    outer_axes,
    predicates,
    require_told_once,
    with_regions,
)
from mslang.transform.rewriting.block_of_blocks import of_blocks
from mslang.transform.rewriting.init_nest import init_nest
from mslang.transform.rewriting.rewrite import put, tidy


@primitive(family="blocks", gives=(BlockRef,))
def blockize(program: Program, target: LoopOrBlocks) -> Outcome:
    """Make what stands under a loop, or several blocks that stand side by side, one block.

    The new block, `mm_o`, has an axis `i_o` for each axis `i` of the old one: the part of `i` that the loops outside
    give. The old block stays inside, under the loops from `target` on, and keeps its name; its axes add the
    rest to it. An init is lifted: it runs for the whole of the new block, in a block `mm_init` under loops of its own.
    What the predicate says of the loops outside becomes the predicate of the new block.

    What the blocks inside hide that they access the new one hides, too.

    Given blocks, the new one, `a_b_o`, holds them in their order, each under the loops that it alone is under; its axes
    come from the loops around all of them. Their inits stay where they are.

    Before:
        for io in 0..4, jo in 0..4, it in 0..16, jt in 0..16 {
            block b[i: 64 = io * 16 + it, j: 64 = jo * 16 + jt] { B[i, j] = A[i, j] * 2.0 }
        }

    After:
        # blockize(it)
        for io in 0..4, jo in 0..4 {
            block b_o[i_o: 4 = io, j_o: 4 = jo] {
                reads A[i_o * 16..i_o * 16 + 16, j_o * 16..j_o * 16 + 16]
                writes B[i_o * 16..i_o * 16 + 16, j_o * 16..j_o * 16 + 16]
                for it in 0..16, jt in 0..16 {
                    block b[i: 64 = i_o * 16 + it, j: 64 = j_o * 16 + jt] { B[i, j] = A[i, j] * 2.0 }
                }
            }
        }

    Rejects:
        - a loop under which several statements stand, or something else than loops and a block
        - a block of which an axis is not a multiple of what the loops inside run over, plus these
        - a binding or a predicate that loads what the blocks inside write
        - a predicate that leaves out some of what the axes run over, or tells apart instances that are the same by
          loops outside and inside
        - an init that would not run as often as before, as where the loops inside give an opaque or a scan axis
        - a block with an init that hides what it accesses
        - blocks that do not stand side by side, that are in different scopes, or of which loops around all reduce

    Source: TVM blockize
    """
    if isinstance(target, LoopRef):
        return _of_loop(program, target)
    return of_blocks(program, tuple(target))


def _of_loop(program: Program, loop: LoopRef) -> Outcome:
    top = loop_path(program, loop, PRIMITIVE)
    path = _single_block(top)
    block = block_at(path)
    inner = (loop_at(top), *loops_between(path, top))
    parts = divided(path, inner)
    taken = taken_names(program)
    axes = outer_axes(program, block, parts)
    told = _told(block, axes, parts, ranges_above(path))
    outside, inside = predicates(path, axes, parts, inner)
    if not all(arith.proved(Binary("<=", s.extent, ONE)) for s in inner):
        bound = {f"the binding of axis `{a.name}`": p.outer for a, p in zip(block.axes, parts, strict=True)}
        require_told_once(program, (block,), {**bound, "the predicate": conjunction(outside)})
    small = replace(block, axes=told, predicate=conjunction(inside))
    init: tuple[Stmt, ...] | None = None
    if block.init is not None and block.allocs:
        raise refuse(
            "MS378",
            PRIMITIVE,
            f"the init of block `{block.name}` cannot be lifted",
            why="the block allocates buffers, which init and updates would each need",
        )
    if block.init is not None:
        _require_liftable(path, inner)
        init = (_lifted(small, axes, inner, taken, all_buffers(program)),)
        small = _without_init(small)
    body: Stmt = small
    for s in reversed(inner):
        body = replace(s, body=(body,))
    name = fresh(f"{block.name}_o", taken)
    made = with_regions(program, Block(name, axes, (), (), (body,), init, conjunction(outside)))
    return Outcome(put(program, top, made), (BlockRef(name),))


def _single_block(top: Path) -> Path:
    """The path to the one block under a loop (MS375: there is not exactly one, or something else stands there)."""
    path = top
    while not isinstance(path[-1], Block):
        s = path[-1]
        if not isinstance(s, For) or len(s.body) != 1:
            what = f"{kind_text(s)} stands" if not isinstance(s, For) else f"{len(s.body)} statements stand"
            raise refuse(
                "MS375",
                PRIMITIVE,
                f"not only one block is under loop `{loop_at(top).var}`",
                why=f"{what} under it",
                help="give the list of blocks, or use fission to give each block loops of its own",
            )
        path = (*path, s.body[0])
    return path


def _told(block: Block, axes: Sequence[Axis], parts: Sequence[Part], ranges: Mapping[str, Range]) -> tuple[Axis, ...]:
    """The axes of the old block, bound to those of the new one and to the loops inside."""
    inside = {**ranges, **{a.name: Range(ZERO, a.extent) for a in axes}}
    return tuple(
        replace(a, binding=tidy(arith.add(arith.mul(p.extent, Var(o.name)), p.inner), inside))
        for a, o, p in zip(block.axes, axes, parts, strict=True)
    )


# ------------------------------------------------------------------ init
_IN_ORDER = ("serial", "unrolled", "vectorized")


def _require_liftable(path: Path, inner: Sequence[For]) -> None:
    """The init of a block may run before all that the loops inside do (MS378).

    That its reduction begins with their first iteration follows from how its bindings were divided.
    """
    block = block_at(path)

    def refused(why: str) -> Exception:
        return refuse("MS378", PRIMITIVE, f"the init of block `{block.name}` cannot be lifted", why=why)

    reasons = (why_not_overwritten(block, r.buffer) for r in updated_regions(block))
    reason = why_several_names(path) or why_not_own_elements(block) or next(filter(None, reasons), None)
    if reason is not None:
        raise refused(reason)
    spatial = frozenset(v for a in block.axes if a.kind == "spatial" for v in free_vars(a.binding))
    empty = why_may_not_iterate(path, [s for s in inner if s.var not in spatial])
    if empty is not None:
        raise refused(empty)
    used = frozenset(v for a in block.axes for v in free_vars(a.binding))
    idle = next((s for s in inner if s.var not in used and not arith.proved(Binary("<=", s.extent, ONE))), None)
    if idle is not None:
        raise refused(f"loop `{idle.var}` repeats the whole reduction, and no axis depends on it")
    if not runs_once(path, inner):
        raise refused(f"the loops from `{inner[0].var}` on may run an instance of the block twice")
    beyond = loops_beyond_spatial(path)
    at_once = next((s for s in loops_above(path) if s.var in beyond and s.kind not in _IN_ORDER), None)
    if at_once is not None:
        raise refused(f"loop `{at_once.var}`, which reduces, is {at_once.kind}: its iterations are concurrent")
    own = {s.var for s in inner}
    repeating = {s.var for s in inner if not arith.proved(Binary("<=", s.extent, ONE))}
    for a in block.axes:
        if a.kind not in ("spatial", "reduce") and free_vars(a.binding) & repeating:
            raise refused(f"it runs for each value of the {a.kind} axis `{a.name}`, which the loops inside give")
        mixed = free_vars(a.binding) & own & spatial
        if a.kind != "spatial" and mixed:
            raise refused(f"loop `{min(mixed)}` serves spatial and reduction axes")


def _lifted(
    small: Block, axes: Sequence[Axis], inner: Sequence[For], taken: set[str], buffers: Mapping[str, Buffer]
) -> Stmt:
    """The init of the old block as a nest, for all that the new block does."""
    around = Block("", tuple(axes), (), (), (), None)
    spatial = frozenset(v for a in small.axes if a.kind == "spatial" for v in free_vars(a.binding))
    kept = [s for s in inner if s.var in spatial]
    dropped = [s for s in inner if s.var not in spatial]
    # In the init all that is reduced is 0, so what is left of the predicate is about spatial axes.
    return init_nest((around, *inner, replace(small, annotations=())), kept, dropped, taken, PRIMITIVE, buffers).nest


def _without_init(block: Block) -> Block:
    """A block that updates what another has started."""
    started = {r.buffer for r in block.writes}
    read = {r.buffer for r in block.reads}
    reads, _ = infer_regions(replace(block, init=None))
    own = tuple(r for r in block.writes if r.buffer in {x.buffer for x in reads} & started - read)
    return replace(block, init=None, reads=(*own, *block.reads))


__all__ = ["blockize"]
