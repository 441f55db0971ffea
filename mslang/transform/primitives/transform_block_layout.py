"""Primitives that change what a block's axes are: transform_block_layout, reorder_block_iter_var."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Expr, Var
from mslang.ir.index_map import IndexMap
from mslang.ir.print import print_expr
from mslang.ir.program import Axis, Block, For, Program, Range, Stmt, View
from mslang.ir.reducers import combines_in_any_order
from mslang.ir.visit import Path, free_vars, fresh, map_region, substitute
from mslang.transform.analysis.accesses import why_not_own_elements, why_several_names
from mslang.transform.analysis.index_maps import NoImage, image, why_not_fitting
from mslang.transform.analysis.initialization import why_not_from_scratch
from mslang.transform.analysis.instances import loops_beyond_spatial
from mslang.transform.analysis.position import bindings, block_at, block_path, taken_names
from mslang.transform.analysis.reducers import known_reducers
from mslang.transform.outcome import BlockRef, Gone, LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.access_rewriting import Scope, map_accesses
from mslang.transform.rewriting.layout_filling import trivial_nest
from mslang.transform.rewriting.rewrite import put, substitute_loops, tidy


@primitive(family="blocks")
def transform_block_layout(program: Program, block: BlockRef, map: IndexMap) -> Outcome:
    """Give a block other axes, computed from its own by an index map, and loops over them.

    Axis `i // 4` is called `i_0` and `i % 4` is `i_1`, one of several axes `i_j_fused`, and one that only changes place
    keeps its name; the loops are called after them. Their order is that of the map's results. They are serial: marks of
    the old loops, and annotations, go with these.

    Before:
        for i in 0..8, j in 0..4 { block b[x: 8 = i, y: 4 = j] { B[x, y] = A[x, y] } }

    After:
        # b.transform_block_layout(fn (x, y) -> [x * 4 + y])
        for x_y_fused in 0..32 {
            block b[v: 32 = x_y_fused] { B[v // 4, v % 4] = A[v // 4, v % 4] }
        }

    Rejects:
        - a map that takes another number of indices than the block has axes, or uses other names than its own
        - a block that is not alone in a nest of loops, one for each axis and none bound to threads
        - a scan or opaque axis, or a reduction that must keep its order: its iterations have an order
        - a map that is not known to be one to one, and onto a box from 0
        - a new axis of both spatial and reduction axes

    Source: TVM transform_block_layout
    """
    primitive = "transform_block_layout"
    path = block_path(program, block, primitive)
    old = block_at(path)
    reason = why_not_fitting(map, len(old.axes))
    if reason is not None:
        raise refuse("MS383", primitive, f"the map does not fit the axes of block `{old.name}`", why=reason)
    loops = trivial_nest(path, marked=True)
    if not loops:
        raise refuse(
            "MS389",
            primitive,
            f"block `{old.name}` is not alone in a nest of loops, one for each axis",
            why="all of its iterations are renumbered",
            help="use the primitive before its loops are split, fused or bound to threads",
        )
    for a in old.axes:
        if a.kind not in ("spatial", "reduce"):
            raise refuse("MS389", primitive, f"axis `{a.name}` is {a.kind}", why="its iterations have an order")
    reason = why_several_names(path) or why_not_own_elements(old)
    if reason is not None:
        raise refuse(
            "MS389",
            primitive,
            f"the instances of block `{old.name}` must keep their order",
            why=reason,
        )
    if any(a.kind == "reduce" and a.extent != ONE for a in old.axes) and not combines_in_any_order(
        old, known_reducers()
    ):
        raise refuse(
            "MS389",
            primitive,
            f"the order in which block `{old.name}` combines values must be kept",
            why="no known reducer says that it may come in another",
        )
    renamed = IndexMap(tuple(a.name for a in old.axes), map.at([Var(a.name) for a in old.axes]))
    ranges = {a.name: Range(ZERO, a.extent) for a in old.axes}
    kinds = tuple(_kind(arith.simplify(e, ranges), old, primitive) for e in renamed.results)
    taken = taken_names(program)
    names = _names(renamed.results, old, set(taken))
    found = image(renamed, [a.extent for a in old.axes], names)
    if isinstance(found, NoImage) or not found.is_onto:
        why = found.reason if isinstance(found, NoImage) else "its values leave gaps"
        raise refuse(
            "MS384",
            primitive,
            f"the map is not known to be one to one onto the new axes of block `{old.name}`",
            why=why,
            help="use factors that divide the extents",
        )
    inverse = dict(zip(renamed.params, found.inverse, strict=True))
    _require_same_init(path, inverse, dict(zip(names, kinds, strict=True)))
    axes: list[Axis] = []
    into: list[LoopRef] = []
    for name, extent, kind in zip(names, found.shape, kinds, strict=True):
        var = fresh(name, taken)
        taken.add(var)
        axes.append(Axis(name, extent, kind, Var(var)))
        into.append(LoopRef(var))
    # Each loop of the nest is an axis: the predicate may call it by either name. Axes hide loops of the same name.
    called = {s.var: Var(a.name) for s, a in _pairs(loops, old) if s.var not in ranges}
    looped = replace(old, predicate=substitute(old.predicate, called))
    made = _over(looped, tuple(axes), inverse)
    stmt: Stmt = made
    for ref, a in zip(reversed(into), reversed(axes), strict=True):
        stmt = For(ref.name, a.extent, (stmt,))
    done = put(program, path[: len(path) - len(loops)], stmt)
    return Outcome(done, (), {LoopRef(s.var): Gone(primitive, tuple(into)) for s in loops})


def _require_same_init(path: Path, values: Mapping[str, Expr], kinds: Mapping[str, str]) -> None:
    """The init must run where it ran, where the old reduction axes are 0; or else in any other instance of a reduction
    that starts from scratch, if all of its instances run."""
    block = block_at(path)
    begin = {n: ZERO for n, kind in kinds.items() if kind == "reduce"}
    reduced = [a.name for a in block.axes if a.kind == "reduce"]
    if block.init is None or all(arith.equal(substitute(values[n], begin), ZERO) for n in reduced):
        return
    reason: str | None = "the predicate may leave out the instance in which the new reduction axes are 0"
    if free_vars(substitute(block.predicate, bindings(block))).isdisjoint(loops_beyond_spatial(path)):
        reason = why_not_from_scratch(path)
    if reason is not None:
        raise refuse(
            "MS318",
            "transform_block_layout",
            f"the init of block `{block.name}` would run in other instances",
            why=reason,
            help="keep the direction of the reduction axes in the map",
        )


def _pairs(loops: Sequence[For], block: Block) -> list[tuple[For, Axis]]:
    """The loops of a nest with the axes that they are."""
    return [(s, a) for s in loops for a in block.axes if a.binding == Var(s.var)]


def _over(block: Block, axes: tuple[Axis, ...], values: Mapping[str, Expr]) -> Block:
    """A block over other axes; `values` are its old axes in terms of them."""
    ranges = {a.name: Range(ZERO, a.extent) for a in axes}

    def index(e: Expr) -> Expr:
        return tidy(substitute(e, values), ranges)

    def several(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return map_accesses(substitute_loops(body, values, ranges), ranges, _tidy_index)

    return replace(
        block,
        axes=axes,
        reads=tuple(map_region(r, index) for r in block.reads),
        writes=tuple(map_region(r, index) for r in block.writes),
        predicate=index(block.predicate),
        views=tuple(View(v.buffer, map_region(v.source, index)) for v in block.views),
        init=None if block.init is None else several(block.init),
        body=several(block.body),
    )


def _tidy_index(buffer: str, indices: tuple[Expr, ...], scope: Scope) -> tuple[Expr, ...]:
    return tuple(tidy(e, scope) for e in indices)


def _kind(e: Expr, block: Block, primitive: str) -> str:
    """The kind of a new axis: that of the old ones it is made of."""
    used = [a for a in block.axes if a.name in free_vars(e)]
    kinds = sorted({a.kind for a in used})
    if len(kinds) > 1:
        raise refuse(
            "MS392",
            primitive,
            f"`{print_expr(e)}` is made of axes of several kinds: {', '.join(f'`{a.name}` is {a.kind}' for a in used)}",
            why="an axis is either spatial or of a reduction",
            help="keep spatial and reduction axes apart in the map",
        )
    return kinds[0] if kinds else "spatial"


def _names(results: Sequence[Expr], block: Block, taken: set[str]) -> tuple[str, ...]:
    """Names of the new axes, added to `taken`."""
    bases = []
    for e in results:
        used = [a.name for a in block.axes if a.name in free_vars(e)]
        bases.append(e.name if isinstance(e, Var) else "_".join(used) + "_fused" * (len(used) > 1) if used else "u")
    plain = {e.name for e in results if isinstance(e, Var)}
    many = Counter(bases)
    seen: Counter[str] = Counter()
    names: list[str] = []
    for e, base in zip(results, bases, strict=True):
        if isinstance(e, Var) and many[base] == 1:
            names.append(base)
            continue
        numbered = many[base] > 1 or base in plain or not free_vars(e) or "fused" not in base
        name = fresh(f"{base}_{seen[base]}" if numbered else base, taken)
        seen[base] += 1
        taken.add(name)
        names.append(name)
    return tuple(names)


@primitive(family="blocks")
def reorder_block_iter_var(program: Program, block: BlockRef, order: Sequence[object]) -> Outcome:
    """Permute the axes of a block: axis `order[k]` comes to stand at place `k`.

    The loops stay as they are. Only what goes by the order of axes sees a difference: `tensorize`, a layout map.

    Before:
        for i in 0..8, j in 0..4 { block b[x: 8 = i, y: 4 = j] { B[x, y] = A[x, y] } }

    After:
        # b.reorder_block_iter_var([1, 0])
        for i in 0..8, j in 0..4 { block b[y: 4 = j, x: 8 = i] { B[x, y] = A[x, y] } }

    Rejects:
        - a list that does not name each axis once, by its number from 0

    Source: TVM reorder_block_iter_var
    """
    path = block_path(program, block, "reorder_block_iter_var")
    old = block_at(path)
    numbers = [x for x in order if isinstance(x, int) and not isinstance(x, bool)]
    if len(numbers) != len(order) or sorted(numbers) != list(range(len(old.axes))):
        raise refuse(
            "MS393",
            "reorder_block_iter_var",
            f"{list(order)} is not an order of the axes of block `{old.name}`",
            why=f"it must hold each number of 0..{len(old.axes)} once",
            help=f"its axes are: {', '.join(a.name for a in old.axes) or 'none'}",
        )
    return Outcome(put(program, path, replace(old, axes=tuple(old.axes[k] for k in numbers))))
