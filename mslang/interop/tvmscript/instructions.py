"""Calls of instructions: read as what they mean, on views, in a block that is named after the instruction.

There an instruction is a call with pointers, and what it touches is what the block around declares. Here the block
keeps the instruction's meaning as its body, and the call as the intrinsic's text. A fragment is addressed by its number
there; here it is the tile that the block declares.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mslang.interop.tvmscript.calls import dotted
from mslang.interop.tvmscript.frame import Frame
from mslang.interop.tvmscript.meanings import copy, fill, multiply
from mslang.interop.tvmscript.patterns import TVM, matched
from mslang.interop.tvmscript.scope import Array, Scope, plain
from mslang.interop.tvmscript.source import refuse, text_of
from mslang.interop.tvmscript.values import as_data, as_index
from mslang.ir.arith import equal, simplify
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr, Var
from mslang.ir.intrin import KEY, Intrin, with_record
from mslang.ir.program import Block, Buffer, For, Region, Stmt, Store, View
from mslang.ir.region import infer_regions, whole
from mslang.ir.visit import blocks_of, free_vars, map_expr, map_stmt_exprs, walk
from mslang.transform.rename import renamed
from mslang.transform.rewriting.rewrite import map_bodies

if TYPE_CHECKING:
    from mslang.interop.tvmscript.statements import Statements

Operands = Mapping[str, Array]
"""The buffer or view that stands for each operand of an intrinsic."""


def instruction(made: Statements, e: ast.expr, scope: Scope, frame: Frame) -> tuple[Stmt, ...] | None:
    """What a call of an instruction means; None if it is none that is known."""
    if not isinstance(e, ast.Call):
        return None
    if _is_pointer(made, e, scope):
        _pointed(made, e, scope, frame)
        return ()
    for known in made.read.intrinsics:
        names = matched(dict(known.texts)[TVM], e)
        operands = None if names is None else _operands(names, scope)
        if operands is not None and frame.function:
            found = _own_block(made, known, operands, e, scope, frame)
            if found is not None:
                return found
            continue
        views = None if operands is None else _views(made, known, operands, frame)
        if views is not None:
            return _placed(made, known, views, e, scope, frame)
    name = dotted(e.func, made.read.aliases)
    builder = _BUILDERS.get(name or "")
    if builder is None:
        return None
    if frame.function:
        raise refuse("MS731", e, f"`{text_of(e.func)}` stands outside of a block", "a block tells what it touches")
    if builder is _filled and (computed := _filled_by(made, e, scope, frame)):
        return computed
    intrin, operands = builder(made, e, scope, frame)
    views = _views(made, intrin, operands, frame)
    if views is None:
        why = ", ".join(f"`{q.buffer.name}` of {_sizes(q.buffer.shape)}" for q in intrin.desc.params)
        raise refuse("MS731", e, "the block does not declare the tiles that its instruction touches", f"it takes {why}")
    return _placed(made, intrin, views, e, scope, frame)


# ------------------------------------------------------------------ pointers
def _is_pointer(made: Statements, e: ast.Call, scope: Scope) -> bool:
    """Whether a call only makes a pointer, which does nothing but say that there is one."""
    return _target(made, e, scope) is not None


def _target(made: Statements, e: ast.expr, scope: Scope) -> ast.Name | None:
    """The name of the buffer into which an expression points."""
    match e:
        case ast.Attribute(value=ast.Name() as name, attr="data"):
            pass
        case ast.Call(func=ast.Attribute(value=ast.Name() as name, attr="access_ptr")):
            pass
        case ast.Call(args=[_, inner, *_]) if dotted(e.func, made.read.aliases) == "tvm_access_ptr":
            return _target(made, inner, scope)
        case ast.Call(args=[ast.Subscript(value=ast.Name() as name)]) if (
            dotted(e.func, made.read.aliases) == "address_of"
        ):
            pass
        case _:
            return None
    return name if isinstance(scope.names.get(name.id), Array) else None


def _buffer(made: Statements, e: ast.expr, scope: Scope) -> Array:
    name = _target(made, e, scope)
    if name is None:
        raise refuse("MS731", e, f"`{text_of(e)}` is no pointer into a buffer")
    found = scope.names[name.id]
    assert isinstance(found, Array)
    return found


def _pointed(made: Statements, e: ast.Call, scope: Scope, frame: Frame) -> None:
    """A pointer for its own sake: a view of what the block declares of the buffer."""
    of = _buffer(made, e, scope).buffer
    if frame.function:
        return
    frame.views.append(_view(made, of, of.name, _declared(of, frame)))


def _declared(of: Buffer, frame: Frame, first: str = "read") -> Region:
    """What a block declares of a buffer, the reads or the writes first; all of it if it declares nothing."""
    sides = (frame.reads or (), frame.writes or ())
    regions = [r for side in (sides if first == "read" else sides[::-1]) for r in side]
    return next((r for r in regions if r.buffer == of.name), Region(of.name, whole(of)))


def _view(made: Statements, of: Buffer, name: str, region: Region, shape: tuple[Expr, ...] | None = None) -> View:
    extents = tuple(r.extent for r in region.ranges) if shape is None else shape
    own = made.names.declared(f"{name}_view")
    buffer = replace(of, name=own, shape=extents, strides=None, offset=None, align=None)
    return View(made.declared.add(buffer), region)


# ------------------------------------------------------------------ operands
def _operands(names: Mapping[str, str], scope: Scope) -> Operands | None:
    found = {operand: scope.names.get(name) for operand, name in names.items()}
    arrays = {operand: value for operand, value in found.items() if isinstance(value, Array)}
    return arrays if len(arrays) == len(found) else None


def _views(made: Statements, intrin: Intrin, operands: Operands, frame: Frame) -> tuple[View, ...] | None:
    """A view for each operand, in the order of the intrinsic's; None if one is not what the intrinsic takes."""
    here = {v.buffer.name: v for v in frame.views}
    found: list[View] = []
    for q in intrin.desc.params:
        if q.buffer.name not in operands:
            return None
        of, shape = operands[q.buffer.name].buffer, q.buffer.shape
        view = here.get(of.name)
        if view is None or view in found:
            region = _declared(of, frame, "read" if q.direction == "in" else "write")
            dropped = len(region.ranges) - len(shape)
            extents = tuple(r.extent for r in region.ranges)
            if dropped < 0 or not _alike(extents, (*(ONE for _ in range(dropped)), *shape)):
                return None
            view = _view(made, of, of.name, region, shape)
        if of.dtype != q.buffer.dtype or not _alike(view.buffer.shape, shape):
            return None
        found.append(view)
    return tuple(found)


def _alike(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))


# ------------------------------------------------------------------ the block
def _own_block(
    made: Statements, intrin: Intrin, operands: Operands, e: ast.Call, scope: Scope, frame: Frame
) -> tuple[Stmt, ...] | None:
    """A block for an instruction that stands in the function itself."""
    inner = Frame()
    inner.reads, inner.writes = frame.reads, frame.writes
    views = _views(made, intrin, operands, inner)
    if views is None:
        return None
    body = _placed(made, intrin, views, e, scope, inner)
    name = made.names.declared(plain(intrin.name), f"{intrin.name}_block")
    bare = Block(name, (), (), (), body, views=tuple(inner.views), annotations=inner.notes)
    reads, writes = infer_regions(bare, made.declared.buffers)
    return (replace(bare, reads=reads, writes=writes),)


def _placed(
    made: Statements, intrin: Intrin, views: tuple[View, ...], e: ast.Call, scope: Scope, frame: Frame
) -> tuple[Stmt, ...]:
    """The meaning of an intrinsic on views, which become the last of the block that is being read."""
    if frame.function or frame.instruction is not None:
        raise refuse("MS731", e, "an instruction is a block of its own here", help="put it into a block")
    bare = tuple(replace(v, buffer=replace(v.buffer, strides=None, offset=None, align=None)) for v in views)
    for v in bare:
        made.declared.add(v.buffer)
    frame.views = [*(v for v in frame.views if v not in views), *bare]
    made.record, name = with_record(made.record, intrin)
    if KEY not in dict(frame.notes):
        frame.notes = (*frame.notes, (KEY, name))
    names = {q.buffer.name: v.buffer.name for q, v in zip(intrin.desc.params, bare, strict=True)}
    frame.instruction = _copied(made, intrin, names, scope)
    return frame.instruction


def _copied(made: Statements, intrin: Intrin, views: Mapping[str, str], scope: Scope) -> tuple[Stmt, ...]:
    """What the description says, with names that are free here."""
    body = intrin.desc.body
    loops = {s.var: made.names.loop(s.var, scope.outer) for s in walk(body) if isinstance(s, For)}
    blocks = {b.name: made.names.declared(b.name, f"{b.name}_block") for b in blocks_of(body)}
    return tuple(_own_axes(made, s, scope) for s in renamed(body, loops, blocks, views))


def _own_axes(made: Statements, s: Stmt, scope: Scope) -> Stmt:
    """A statement whose axes have names that nothing else here has."""
    if isinstance(s, Block):
        names = {a.name: made.names.inside(a.name, scope.outer) for a in s.axes}
        bound = {a.name: a.binding for a in s.axes}

        def change(e: Expr) -> Expr:
            return map_expr(e, lambda x: Var(names[x.name]) if isinstance(x, Var) and x.name in names else None)

        moved = map_stmt_exprs(s, change)
        assert isinstance(moved, Block)
        s = replace(moved, axes=tuple(replace(a, name=names[a.name], binding=bound[a.name]) for a in s.axes))
    return map_bodies(s, lambda inner: tuple(_own_axes(made, x, scope) for x in inner))


# ------------------------------------------------------------------ those with a meaning of their own
Built = tuple[Intrin, Operands]


def _arguments(e: ast.Call, *names: str) -> list[ast.expr]:
    if len(e.args) != len(names):
        raise refuse("MS733", e, f"`{text_of(e.func)}` takes {', '.join(names)}")
    return e.args


def _tile(
    made: Statements, of: Buffer, sizes: Sequence[ast.expr], number: ast.expr, scope: Scope, frame: Frame
) -> tuple[int, int]:
    """The height and width of a fragment: of those that its scope allows the ones that the block declares."""
    m, n, k = (as_index(made.read.number(x, scope), x) for x in sizes)
    if not (isinstance(m, Const) and isinstance(n, Const) and isinstance(k, Const)):
        raise refuse("MS731", sizes[0], "the sizes of a fragment are numbers")
    allowed = {"wmma.a": ((m, k), (k, m)), "wmma.b": ((k, n), (n, k))}.get(of.scope, ((m, n),))
    extents = _extents(made, of, frame, "write")[-2:]
    height, width = next((t for t in allowed if _alike(extents, t)), allowed[0])
    _check_number(made, of, (height, width), number, scope, frame)
    return int(height.value), int(width.value)


def _check_number(
    made: Statements, of: Buffer, tile: tuple[Expr, Expr], number: ast.expr, scope: Scope, frame: Frame
) -> None:
    """That a fragment is the tile that the block declares, where its number says which one it is."""
    if any(isinstance(x, ast.Attribute) and x.attr == "elem_offset" for x in ast.walk(number)):
        return
    view = next((v for v in frame.views if v.buffer.name == of.name), None)
    region = _declared(of, frame, "write") if view is None else view.source
    shape = made.declared.buffers[region.buffer].shape
    if len(shape) != 2:
        return
    row, column = (Binary("//", r.start, n) for r, n in zip(region.ranges, tile, strict=True))
    wanted = Binary("+", Binary("*", row, Binary("//", shape[1], tile[1])), column)
    given = scope.expanded(as_index(made.read.number(number, scope), number))
    if not equal(given, wanted, scope.ranges()):
        raise refuse(
            "MS731", number, f"`{text_of(number)}` is not the tile of `{region.buffer}` that the block declares",
            "fragments are counted row by row", "declare the tile in `T.reads` or `T.writes`",
        )  # fmt: skip


def _filled(made: Statements, e: ast.Call, scope: Scope, frame: Frame) -> Built:
    """`T.tvm_fill_fragment(C.data, m, n, k, index, value)`."""
    target, m, n, k, number, given = _arguments(e, "a fragment", "m", "n", "k", "its number", "a value")
    of = _buffer(made, target, scope)
    value = as_data(made.read.number(given, scope), of.buffer.dtype)
    tile = _tile(made, of.buffer, (m, n, k), number, scope, frame)
    return fill(of.buffer.dtype, tile, value, (m, n, k)), {"C": of}


def _filled_by(made: Statements, e: ast.Call, scope: Scope, frame: Frame) -> tuple[Stmt, ...]:
    """A fragment filled with what each iteration computes, which no intrinsic takes as an operand: stores."""
    target, *sizes, number, given = _arguments(e, "a fragment", "m", "n", "k", "its number", "a value")
    of = _buffer(made, target, scope).buffer
    value = as_data(made.read.number(given, scope), of.dtype)
    if not free_vars(value):
        return ()
    tile = _tile(made, of, sizes, number, scope, frame)
    starts: list[Expr] = [ZERO for _ in of.shape]
    if of.name not in {v.buffer.name for v in frame.views}:
        starts = [r.start for r in _declared(of, frame, "write").ranges]
    loops = [made.names.loop(x, scope.outer) for x in ("x", "y")]
    inner = [Binary("+", at, Var(v)) for at, v in zip(starts[-2:], loops, strict=True)]
    indices = (*starts[:-2], *(simplify(x, scope.ranges()) for x in inner))
    body: tuple[Stmt, ...] = (Store(of.name, indices, value),)
    for v, n in zip(reversed(loops), reversed(tile), strict=True):
        body = (For(v, Const(n), body),)
    return body


def _loaded(made: Statements, e: ast.Call, scope: Scope, frame: Frame) -> Built:
    """`T.tvm_load_matrix_sync(C.data, m, n, k, index, pointer, stride, layout)`: a copy of a tile."""
    names = ("a fragment", "m", "n", "k", "its number", "a pointer", "a stride", "a layout")
    fragment, m, n, k, number, pointer, stride, layout = _arguments(e, *names)
    to, of = _buffer(made, fragment, scope), _buffer(made, pointer, scope)
    order = _order(made, layout, scope)
    if order == "col_major":
        made.columns.add(_root(to.buffer.name, frame))
    _check_pointer(made, pointer, stride, of.buffer, scope, frame)
    tile = _tile(made, to.buffer, (m, n, k), number, scope, frame)
    return copy("load", of.buffer.dtype, to.buffer.dtype, tile, (m, n, k), order), {"C": to, "A": of}


def _stored(made: Statements, e: ast.Call, scope: Scope, frame: Frame) -> Built:
    """`T.tvm_store_matrix_sync(A.data, m, n, k, index, pointer, stride, layout)`: a copy of a tile."""
    names = ("a fragment", "m", "n", "k", "its number", "a pointer", "a stride", "a layout")
    fragment, m, n, k, number, pointer, stride, layout = _arguments(e, *names)
    of, to = _buffer(made, fragment, scope), _buffer(made, pointer, scope)
    order = _order(made, layout, scope)
    _check_pointer(made, pointer, stride, to.buffer, scope, frame)
    tile = _tile(made, of.buffer, (m, n, k), number, scope, frame)
    return copy("store", of.buffer.dtype, to.buffer.dtype, tile, (m, n, k), order), {"C": to, "A": of}


def _multiplied(made: Statements, e: ast.Call, scope: Scope, frame: Frame) -> Built:
    """`T.tvm_mma_sync(C.data, c, A.data, a, B.data, b, C.data, c)`: a product of fragments, added up."""
    to, _, a, _, b, _, start, _ = _arguments(e, "D", "its number", "A", "…", "B", "…", "C", "…")
    c, first, second, before = (_buffer(made, x, scope) for x in (to, a, b, start))
    scopes = tuple(x.buffer.scope for x in (c, first, second))
    if c.buffer.name != before.buffer.name or scopes != ("wmma.acc", "wmma.a", "wmma.b"):
        raise refuse(
            "MS731", e, "what this product means is not known",
            "fragments tell by their scopes which is which, and the result is added to itself",
            "give the intrinsic with its description",
        )  # fmt: skip
    shapes = [_extents(made, x.buffer, frame, "read") for x in (c, first)]
    if len(shapes[0]) < 2 or len(shapes[1]) < 2 or not all(isinstance(x, Const) for s in shapes for x in s[-2:]):
        raise refuse("MS731", e, "the block does not declare the tiles that its instruction touches")
    m, n, k = (int(x.value) for x in (*shapes[0][-2:], shapes[1][-1]) if isinstance(x, Const))
    transposed = _root(second.buffer.name, frame) in made.columns
    types = (first.buffer.dtype, second.buffer.dtype, c.buffer.dtype)
    return multiply(types, (m, n, k), transposed), {"C": c, "A": first, "B": second}


def _extents(made: Statements, of: Buffer, frame: Frame, first: str) -> tuple[Expr, ...]:
    """The sizes of what a block touches of a buffer."""
    held = next((v.buffer.shape for v in frame.views if v.buffer.name == of.name), None)
    return tuple(r.extent for r in _declared(of, frame, first).ranges) if held is None else held


def _order(made: Statements, e: ast.expr, scope: Scope) -> str:
    order = made.read.value(e, scope)
    if order not in ("row_major", "col_major"):
        raise refuse("MS731", e, f"there is no layout {text_of(e)} here")
    return str(order)


def _root(name: str, frame: Frame) -> str:
    return next((v.source.buffer for v in frame.views if v.buffer.name == name), name)


def _check_pointer(
    made: Statements, pointer: ast.expr, stride: ast.expr, of: Buffer, scope: Scope, frame: Frame
) -> None:
    """That a pointer is at the beginning of what the block declares of the buffer, where it says so in numbers."""
    if of.strides is not None or of.name in {v.buffer.name for v in frame.views}:
        return
    region = _declared(of, frame, "read")
    rows: Expr = ONE
    offset: Expr = ZERO
    for r, n in zip(reversed(region.ranges), reversed(of.shape), strict=True):
        offset = Binary("+", offset, Binary("*", r.start, rows))
        rows = Binary("*", rows, n)
    row = of.shape[-1] if of.shape else ONE
    match pointer:
        case ast.Call(args=[_, _, begin, *_]) if dotted(pointer.func, made.read.aliases) == "tvm_access_ptr":
            ranges = scope.ranges()
            given = scope.expanded(as_index(made.read.number(begin, scope), begin))
            step = as_index(made.read.number(stride, scope), stride)
            if not equal(given, offset, ranges) or not equal(step, row, ranges):
                raise refuse(
                    "MS731", pointer, f"the pointer is not at the tile of `{of.name}` that the block declares",
                    help="declare the tile in `T.reads` or `T.writes`",
                )  # fmt: skip


def _sizes(shape: Sequence[Expr]) -> str:
    return " x ".join(str(n.value) if isinstance(n, Const) else "?" for n in shape)


_BUILDERS: Mapping[str, Callable[[Statements, ast.Call, Scope, Frame], Built]] = {
    "tvm_fill_fragment": _filled,
    "tvm_load_matrix_sync": _loaded,
    "tvm_store_matrix_sync": _stored,
    "tvm_mma_sync": _multiplied,
}
