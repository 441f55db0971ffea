"""Instructions on fragments in TVMScript (`wmma`), read by their meaning.

A fragment is addressed by its number: fragments are counted row by row in their buffer. Here an operand is the tile
that the block declares, or a view, and the number must be that of this tile.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from mslang.interop.tvmscript.frame import Frame
from mslang.interop.tvmscript.meanings import copy, fill, multiply
from mslang.interop.tvmscript.pointers import alike, begin, buffer, check_pointer, declared, extents, number
from mslang.interop.tvmscript.scope import Array, Scope
from mslang.interop.tvmscript.source import refuse, text_of
from mslang.interop.tvmscript.values import as_data, as_index
from mslang.ir.arith import equal, simplify
from mslang.ir.expr import ZERO, Binary, Const, Expr, Var
from mslang.ir.intrin import Intrin
from mslang.ir.program import Buffer, For, Stmt, Store
from mslang.ir.visit import free_vars

if TYPE_CHECKING:
    from mslang.interop.tvmscript.statements import Statements

Built = tuple[Intrin, Mapping[str, Array]]
"""The meaning of an instruction, and the buffer or view of each of its operands."""


def _arguments(e: ast.Call, *names: str) -> list[ast.expr]:
    if len(e.args) != len(names):
        raise refuse("MS733", e, f"`{text_of(e.func)}` takes {', '.join(names)}")
    return e.args


def _tile(
    made: Statements, of: Buffer, sizes: Sequence[ast.expr], which: ast.expr, scope: Scope, frame: Frame, first: str
) -> tuple[int, int]:
    """The height and width of a fragment: the shape allowed by its scope that the block declares."""
    m, n, k = (as_index(made.read.number(x, scope), x) for x in sizes)
    if not (isinstance(m, Const) and isinstance(n, Const) and isinstance(k, Const)):
        raise refuse("MS731", sizes[0], "the sizes of a fragment are numbers")
    allowed = {"wmma.a": ((m, k), (k, m)), "wmma.b": ((k, n), (n, k))}.get(of.scope, ((m, n),))
    there = extents(made, of, frame, first)[-2:]
    height, width = next((t for t in allowed if alike(there, t)), allowed[0])
    tile = int(height.value), int(width.value)
    _check_number(made, of, tile, which, scope, frame, first)
    return tile


def _check_number(
    made: Statements, of: Buffer, tile: tuple[int, int], which: ast.expr, scope: Scope, frame: Frame, first: str
) -> None:
    """Check that a fragment is the tile that the block declares."""
    strides = made.declared.place(of)[1]
    if len(strides) < 2:
        raise refuse("MS731", which, f"`{of.name}` has no tiles: it has one dimension")
    at, row = begin(made, of, frame, first), strides[-2]
    rows = Binary("*", Binary("//", at, Binary("*", row, Const(tile[0]))), Binary("//", row, Const(tile[1])))
    wanted = Binary("+", rows, Binary("//", Binary("%", at, row), Const(tile[1])))
    if not equal(number(made, which, scope), scope.expanded(wanted), scope.ranges()):
        raise refuse(
            "MS731", which, f"`{text_of(which)}` is not the tile of `{of.name}` that the block declares",
            "fragments are counted row by row", "declare the tile in `T.reads` or `T.writes`",
        )  # fmt: skip


def filled(made: Statements, e: ast.Call, scope: Scope, frame: Frame) -> Built:
    """`T.tvm_fill_fragment(C.data, m, n, k, index, value)`."""
    target, m, n, k, which, given = _arguments(e, "a fragment", "m", "n", "k", "its number", "a value")
    of = buffer(made, target, scope)
    value = as_data(made.read.number(given, scope), of.buffer.dtype)
    tile = _tile(made, of.buffer, (m, n, k), which, scope, frame, "write")
    return fill(of.buffer.dtype, tile, value, (m, n, k)), {"C": of}


def filled_by(made: Statements, e: ast.Call, scope: Scope, frame: Frame) -> tuple[Stmt, ...]:
    """A fragment filled with a value that depends on the iteration, which is not an operand of an intrinsic: as
    stores."""
    target, *sizes, which, given = _arguments(e, "a fragment", "m", "n", "k", "its number", "a value")
    of = buffer(made, target, scope).buffer
    value = as_data(made.read.number(given, scope), of.dtype)
    if not free_vars(value):
        return ()
    tile = _tile(made, of, sizes, which, scope, frame, "write")
    starts: list[Expr] = [ZERO for _ in of.shape]
    if of.name not in made.declared.views:
        starts = [r.start for r in declared(of, frame, "write").ranges]
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
    fragment, m, n, k, which, pointer, stride, layout = _arguments(e, *names)
    to, of = buffer(made, fragment, scope), buffer(made, pointer, scope)
    order = _order(made, layout, scope)
    # By columns a fragment holds the transposed tile, as the second factor of a product only: so it is multiplied.
    if order == "col_major" and to.buffer.scope != "wmma.b":
        raise refuse("MS731", layout, "only the second factor of a product is loaded by columns here")
    _keep_order(made, to.buffer, order, layout)
    check_pointer(made, pointer, stride, of.buffer, scope, frame, "read")
    tile = _tile(made, to.buffer, (m, n, k), which, scope, frame, "write")
    return copy("load", of.buffer.dtype, to.buffer.dtype, tile, (m, n, k), order), {"C": to, "A": of}


def _stored(made: Statements, e: ast.Call, scope: Scope, frame: Frame) -> Built:
    """`T.tvm_store_matrix_sync(A.data, m, n, k, index, pointer, stride, layout)`: a copy of a tile."""
    names = ("a fragment", "m", "n", "k", "its number", "a pointer", "a stride", "a layout")
    fragment, m, n, k, which, pointer, stride, layout = _arguments(e, *names)
    of, to = buffer(made, fragment, scope), buffer(made, pointer, scope)
    order = _order(made, layout, scope)
    if order == "col_major":
        raise refuse("MS731", layout, "a fragment is not stored by columns here")
    check_pointer(made, pointer, stride, to.buffer, scope, frame, "write")
    tile = _tile(made, of.buffer, (m, n, k), which, scope, frame, "read")
    return copy("store", of.buffer.dtype, to.buffer.dtype, tile, (m, n, k), order), {"C": to, "A": of}


def _multiplied(made: Statements, e: ast.Call, scope: Scope, frame: Frame) -> Built:
    """`T.tvm_mma_sync(C.data, c, A.data, a, B.data, b, C.data, c)`: a product of fragments, added up."""
    to, c_at, a, a_at, b, b_at, start, start_at = _arguments(e, "D", "its number", "A", "…", "B", "…", "C", "…")
    c, first, second, before = (buffer(made, x, scope) for x in (to, a, b, start))
    scopes = tuple(x.buffer.scope for x in (c, first, second))
    if c.buffer.name != before.buffer.name or scopes != ("wmma.acc", "wmma.a", "wmma.b"):
        raise refuse(
            "MS731", e, "what this product means is not known",
            "the scopes of the fragments say which operand is which, and the result is added to itself",
            "give the intrinsic with its description",
        )  # fmt: skip
    shapes = [extents(made, x.buffer, frame) for x in (c, first)]
    if len(shapes[0]) < 2 or len(shapes[1]) < 2 or not all(isinstance(x, Const) for s in shapes for x in s[-2:]):
        raise refuse("MS731", e, "the block does not declare the tiles that its instruction accesses")
    m, n, k = (int(x.value) for x in (*shapes[0][-2:], shapes[1][-1]) if isinstance(x, Const))
    transposed = made.orders.setdefault(_root(made, second.buffer), "row_major") == "col_major"
    tiles = ((c, c_at, (m, n)), (before, start_at, (m, n)), (first, a_at, (m, k)))
    for operand, which, tile in (*tiles, (second, b_at, (n, k) if transposed else (k, n))):
        _check_number(made, operand.buffer, tile, which, scope, frame, "read")
    types = (first.buffer.dtype, second.buffer.dtype, c.buffer.dtype)
    return multiply(types, (m, n, k), transposed), {"C": c, "A": first, "B": second}


def _keep_order(made: Statements, fragment: Buffer, order: str, at: ast.expr) -> None:
    """Record the order in which a fragment holds its tile; it must be the same in all loads."""
    if made.orders.setdefault(_root(made, fragment), order) != order:
        raise refuse("MS731", at, f"`{fragment.name}` is loaded by rows here and by columns there")


def _root(made: Statements, of: Buffer) -> str:
    name = of.name
    while (source := made.declared.views.get(name)) is not None:
        name = source.buffer
    return name


def _order(made: Statements, e: ast.expr, scope: Scope) -> str:
    order = made.read.value(e, scope)
    if order not in ("row_major", "col_major"):
        raise refuse("MS731", e, f"there is no layout {text_of(e)} here")
    return str(order)


BUILDERS: Mapping[str, Callable[[Statements, ast.Call, Scope, Frame], Built]] = {
    "tvm_fill_fragment": filled,
    "tvm_load_matrix_sync": _loaded,
    "tvm_store_matrix_sync": _stored,
    "tvm_mma_sync": _multiplied,
}
