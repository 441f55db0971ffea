"""Primitives that change where the elements of a buffer lie: transform_layout."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.dtype import INDEX
from mslang.ir.expr import ZERO, Cast, Const, Expr, Symbol, Var
from mslang.ir.find import all_buffers, blocks_of, path_to_block
from mslang.ir.index_map import IndexMap
from mslang.ir.print import print_expr
from mslang.ir.program import Block, Buffer, Packing, Param, Program, Range, Stmt, Store
from mslang.ir.visit import fresh, map_bodies, walk_expr
from mslang.transform.analysis.alignment import without_alignment
from mslang.transform.analysis.dependence import buffers_read, buffers_written, writers
from mslang.transform.analysis.index_maps import Image, hull, image, why_not_fitting
from mslang.transform.analysis.outer_accesses import require_in_blocks
from mslang.transform.analysis.position import block_at, block_path, buffer_named, taken_names
from mslang.transform.kinds import PadValue
from mslang.transform.outcome import BlockRef, BufferRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.layout_change import Relayout
from mslang.transform.rewriting.layout_filling import filled_after, filled_by_writer, literal, own_loops

_PRIMITIVE = "transform_layout"


@primitive(family="layout")
def transform_layout(
    program: Program,
    block: BlockRef,
    buffer: BufferRef,
    map: IndexMap,
    *,
    pad: PadValue = None,
    assume_injective: bool = False,
) -> Outcome:
    """Give a buffer another layout: element `[i, j]` becomes `map(i, j)`.

    The buffer's shape and all accesses of it, everywhere, are rewritten. The new shape holds all values of the
    map. Where that holds more elements than before, `pad` is what they are to be, a number or a map from a new index
    to one: the only writer of the buffer writes them too, if it writes each element once by a formula of its index in
    a nest of its own (which gets new loops `ax0`, `ax1`, …); else a block `T_pad` fills them after the last writer.

    A parameter keeps, after `= packed`, the shape that its caller's array has, and the map: the array is packed before
    the program runs and unpacked after it, outside of what is timed; padding of an input then holds `pad`.

    With `assume_injective` it is your word that different elements stay different where that cannot be proved, and
    elements that are added hold anything.

    Before:
        alloc T: f32[64, 64]
        block a[i: 64, j: 64] { T[i, j] = A[i, j] }
        block b[i: 64, j: 64] { B[i, j] = T[i, j] }

    After:
        # a.transform_layout(T, fn (i, j) -> [i // 16, j, i % 16])
        alloc T: f32[4, 64, 16]
        block a[i: 64, j: 64] { T[i // 16, j, i % 16] = A[i, j] }
        block b[i: 64, j: 64] { B[i, j] = T[i // 16, j, i % 16] }

    Rejects:
        - a buffer that the block does not access, or that is looked at through a view
        - a parameter with strides or an offset, or one that is padded already, with another number
        - a map that takes another number of indices than the buffer has dimensions, or uses other names than its own
        - a map of which it is not known that it keeps different elements apart
        - a map that adds elements, without `pad` (the message says which elements those are)
        - a `pad` that the buffer's elements cannot hold, or a map as that of a parameter that is read
        - padding to be filled inside of a loop of threads or lanes

    Source: TVM transform_layout
    """
    path = block_path(program, block, _PRIMITIVE)
    old = buffer_named(program, buffer, _PRIMITIVE)
    _require_own(program, block_at(path), old)
    found, shape = _image(program, map, old, assume_injective)
    new = replace(old, shape=shape, strides=None, offset=None)
    adds = found is not None and not found.is_onto
    if pad is None:
        if adds and not assume_injective:
            assert found is not None
            _refuse_padding(map, old, found)
        return Outcome(_relaid(program, old, new, map, Padding(found is None or adds, None)))
    value = _padding(pad, old, shape, None if found is None else found.names)
    if found is None:
        raise refuse(
            "MS384",
            _PRIMITIVE,
            "it is not known which elements the map adds",
            why="`pad` fills what comes from no old element, and that takes the inverse of the map",
            help="leave out `pad`, or use a map of //, % and sums of its parameters",
        )
    moved = _relaid(program, old, new, map, Padding(adds, value))
    if not adds:
        return Outcome(moved)
    home = _scope_of(program, old.name)
    require_in_blocks(program, home, _PRIMITIVE, read=(old.name,), written=(old.name,))
    makers = writers(program, home, old.name)
    if not makers:
        return Outcome(moved)
    source = path_to_block(program, makers[0].name) or ()
    if own_loops(program, source, old) is None:
        return Outcome(filled_after(moved, new, found, value, _PRIMITIVE))
    store = block_at(source).body[0]
    assert isinstance(store, Store)
    return filled_by_writer(moved, path_to_block(moved, makers[0].name) or (), store, new, found, value, _PRIMITIVE)


def _require_own(program: Program, block: Block, buffer: Buffer) -> None:
    touched = (*buffers_read(block), *buffers_written(block))
    if buffer.name not in touched:
        raise refuse(
            "MS385",
            _PRIMITIVE,
            f"block `{block.name}` does not access `{buffer.name}`",
            help=f"it accesses {', '.join(f'`{b}`' for b in dict.fromkeys(touched)) or 'nothing'}",
        )
    is_parameter = any(q.buffer.name == buffer.name for q in program.params)
    if is_parameter and (buffer.strides is not None or buffer.offset is not None):
        raise refuse(
            "MS385",
            _PRIMITIVE,
            f"`{buffer.name}` is a parameter with strides or an offset",
            why="its caller's array would have to be packed from where it lies",
            help="`cache_read` or `cache_write` it first, and give the copy the layout",
        )
    for b in blocks_of(program.body):
        for view in b.views:
            if buffer.name in (view.buffer.name, view.source.buffer):
                raise refuse(
                    "MS385",
                    _PRIMITIVE,
                    f"`{view.buffer.name}` is a view of `{view.source.buffer}` in block `{b.name}`",
                    why="a view stands for a box of the buffer as it is laid out",
                    help="transform the layout before the block is tensorized",
                )


def _image(
    program: Program, index_map: IndexMap, buffer: Buffer, assume_injective: bool
) -> tuple[Image | None, tuple[Expr, ...]]:
    reason = why_not_fitting(index_map, len(buffer.shape))
    if reason is not None:
        raise refuse("MS383", _PRIMITIVE, f"the map does not fit `{buffer.name}`", why=reason)
    taken = {*taken_names(program), *index_map.params}
    names: list[str] = []
    for k in range(len(index_map.results)):
        names.append(fresh(f"v{k}", taken))
        taken.add(names[-1])
    found = image(index_map, buffer.shape, names)
    if isinstance(found, Image):
        return found, found.shape
    shape = hull(index_map, buffer.shape) if assume_injective else None
    if shape is None:
        raise refuse(
            "MS384",
            _PRIMITIVE,
            f"the map is not known to keep the elements of `{buffer.name}` apart",
            why=found.reason,
            help="`assume_injective = true` takes your word for it, where the new shape is known",
        )
    return None, shape


def _refuse_padding(index_map: IndexMap, buffer: Buffer, found: Image) -> None:
    values = ", ".join(found.names)
    shape = ", ".join(print_expr(e) for e in found.shape)
    raise refuse(
        "MS386",
        _PRIMITIVE,
        f"the map adds elements to `{buffer.name}`: the new shape is [{shape}]",
        why=f"nothing comes to [{values}] where {print_expr(found.padding)}",
        help="say what they hold, for example `pad = 0`, or use a map whose factors divide the shape",
    )


def _padding(pad: object, buffer: Buffer, shape: Sequence[Expr], names: Sequence[str] | None) -> Expr:
    """What an element that is added holds, by the names of its indices."""
    if not isinstance(pad, IndexMap):
        return literal(pad, buffer.dtype, _PRIMITIVE)
    reason = why_not_fitting(pad, len(shape))
    if reason is None and len(pad.results) != 1:
        reason = f"it gives {len(pad.results)} numbers"
    if reason is not None:
        raise refuse("MS387", _PRIMITIVE, "`pad` gives no number for each element that is added", why=reason)
    (value,) = pad.at([Var(n) for n in names or pad.params])
    return value if buffer.dtype == INDEX else Cast(buffer.dtype, value)


class Padding(msgspec.Struct, frozen=True):
    """Whether a map may add elements, and what they hold (None: anything)."""

    adds: bool
    value: Expr | None


def _packed(q: Param, new: Buffer, index_map: IndexMap, padding: Padding) -> Param:
    """A parameter in its new layout, which says how its caller's array is packed."""
    given, before = q.given.shape, q.packing
    sizes = {x.name for e in (*index_map.results, *given) for x in walk_expr(e) if isinstance(x, Symbol)}
    params: tuple[str, ...] = ()
    for p in index_map.params if before is None else before.params:
        params = (*params, fresh(p, sizes | set(params)))
    own = tuple(Var(p) for p in params)
    found = index_map.at(own if before is None else IndexMap(before.params, before.results).at(own))
    ranges = {p: Range(ZERO, n) for p, n in zip(params, given, strict=True)}
    results = tuple(arith.simplify(e, ranges) for e in found)
    pad = padding.value if padding.adds else None
    if pad is not None and not isinstance(pad, Const):
        if q.direction != "out":
            raise refuse(
                "MS387",
                _PRIMITIVE,
                f"the padding of the parameter `{new.name}` is not a number",
                why="a parameter is packed with one number",
            )
        pad = None
    if before is not None and not _onto(before, q.buffer):
        if before.pad is not None and pad is not None and before.pad != pad:
            both = f"{print_expr(before.pad, new.dtype)} already, and would be with {print_expr(pad, new.dtype)} too"
            raise refuse(
                "MS385",
                _PRIMITIVE,
                f"`{new.name}` is padded with {both}",
                why="a parameter is packed at once, with one padding",
                help="use the same `pad`, or both maps in one",
            )
        pad = before.pad if pad is None else pad
    if results == own and _same_shape(given, new.shape):
        # The shape as the caller knows it, of which dynamic sizes are inferred.
        return replace(q, buffer=replace(new, shape=given), packing=None)
    return replace(q, buffer=new, packing=Packing(given, params, results, pad))


def _onto(packing: Packing, buffer: Buffer) -> bool:
    """Whether a packing leaves no padding: there are as many elements as places."""
    return arith.equal(arith.size_product(packing.shape), arith.size_product(buffer.shape))


def _same_shape(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    return len(a) == len(b) and all(arith.equal(x, y) for x, y in zip(a, b, strict=True))


def _relaid(program: Program, old: Buffer, new: Buffer, index_map: IndexMap, padding: Padding) -> Program:
    buffers = all_buffers(program) | {new.name: new}
    moved = Relayout(old.name, index_map, buffers, frozenset(taken_names(program))).program(program)

    def allocated(b: Buffer) -> Buffer:
        return new if b.name == old.name else b

    def visit(s: Stmt) -> Stmt:
        inner = map_bodies(s, lambda body: tuple(visit(x) for x in body))
        if not isinstance(inner, Block):
            return inner
        return without_alignment(replace(inner, allocs=tuple(map(allocated, inner.allocs))), old.name)

    params = tuple(_packed(q, new, index_map, padding) if q.buffer.name == old.name else q for q in moved.params)
    allocs = tuple(map(allocated, moved.allocs))
    return replace(moved, params=params, allocs=allocs, body=tuple(visit(s) for s in moved.body))


def _scope_of(program: Program, buffer: str) -> tuple[Stmt, ...]:
    """The statements of the scope that allocates a buffer."""
    for b in blocks_of(program.body):
        if buffer in {x.name for x in b.allocs}:
            return b.body
    return program.body
