"""Pointers in TVMScript: their buffers and positions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mslang.interop.tvmscript.call_arguments import dotted
from mslang.interop.tvmscript.frame import Frame
from mslang.interop.tvmscript.scope import Array, Scope
from mslang.interop.tvmscript.source import refuse, text_of
from mslang.interop.tvmscript.values import as_index, index
from mslang.ir.arith import equal
from mslang.ir.expr import ZERO, Binary, Expr
from mslang.ir.program import Buffer, Region
from mslang.ir.region import whole

if TYPE_CHECKING:
    from mslang.interop.tvmscript.statements import Statements


def target(made: Statements, e: ast.expr, scope: Scope) -> ast.Name | None:
    """The name of the buffer into which an expression points; None if it is not a pointer."""
    match e:
        case ast.Attribute(value=ast.Name() as name, attr="data"):
            pass
        case ast.Call(func=ast.Attribute(value=ast.Name() as name, attr="access_ptr")):
            pass
        case ast.Call(args=[_, inner, *_]) if dotted(e.func, made.read.aliases) == "tvm_access_ptr":
            return target(made, inner, scope)
        case ast.Call(args=[ast.Subscript(value=ast.Name() as name)]) if (
            dotted(e.func, made.read.aliases) == "address_of"
        ):
            pass
        case _:
            return None
    found = scope.names.get(name.id)
    return name if isinstance(found, Array) and found.memory is None else None


def buffer(made: Statements, e: ast.expr, scope: Scope) -> Array:
    """The buffer or view into which an expression points."""
    name = target(made, e, scope)
    if name is None:
        raise refuse("MS731", e, f"`{text_of(e)}` is not a pointer into a buffer")
    found = scope.names[name.id]
    assert isinstance(found, Array)
    return found


def declared(of: Buffer, frame: Frame, first: str = "read") -> Region:
    """The region of a buffer that a block declares, reads or writes first; all of it without a declaration."""
    sides = (frame.reads or (), frame.writes or ())
    regions = [r for side in (sides if first == "read" else sides[::-1]) for r in side]
    return next((r for r in regions if r.buffer == of.name), Region(of.name, whole(of)))


def extents(made: Statements, of: Buffer, frame: Frame, first: str = "read") -> tuple[Expr, ...]:
    """The extents of an instruction's footprint in a buffer: all of a view, otherwise the declared region."""
    if of.name in made.declared.views:
        return of.shape
    return tuple(r.extent for r in declared(of, frame, first).ranges)


def begin(made: Statements, of: Buffer, frame: Frame, first: str = "read") -> Expr:
    """The start of that footprint, in elements from the start of the memory."""
    offset, strides = made.declared.place(of)
    if of.name in made.declared.views:
        return offset
    for r, step in zip(declared(of, frame, first).ranges, strides, strict=True):
        offset = Binary("+", offset, Binary("*", r.start, step))
    return offset


def alike(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Whether sizes are provably equal."""
    return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))


def check_pointer(
    made: Statements, e: ast.expr, stride: ast.expr, of: Buffer, scope: Scope, frame: Frame, first: str
) -> None:
    """Check that a pointer is at the start of an instruction's footprint, and that its rows are those of the buffer."""
    at, strides = _pointed_at(made, e, of, scope), made.declared.place(of)[1]
    rows = number(made, stride, scope)
    ranges = scope.ranges()
    if (
        len(strides) < 2
        or not equal(at, scope.expanded(begin(made, of, frame, first)), ranges)
        or not equal(rows, strides[-2], ranges)
    ):
        raise refuse(
            "MS731", e, f"the pointer is not at the tile of `{of.name}` that the block declares",
            help="declare the tile in `T.reads` or `T.writes`",
        )  # fmt: skip


def _pointed_at(made: Statements, e: ast.expr, of: Buffer, scope: Scope) -> Expr:
    offset, strides = made.declared.place(of)
    match e:
        case ast.Call(args=[_, _, start, *_]) if dotted(e.func, made.read.aliases) == "tvm_access_ptr":
            return number(made, start, scope)
        case ast.Call(func=ast.Attribute(attr="access_ptr"), keywords=given):
            shift = next((k.value for k in given if k.arg == "offset"), None)
            return offset if shift is None else Binary("+", offset, number(made, shift, scope))
        case ast.Call(args=[ast.Subscript() as element]):
            for x, step in zip(made.read.indices(element, of, scope), strides, strict=True):
                offset = Binary("+", offset, Binary("*", x, step))
            return offset
    return ZERO


def number(made: Statements, e: ast.expr, scope: Scope) -> Expr:
    """An index with `A.elem_offset` and `A.strides[0]` replaced by their values."""
    inner = scope.inner()
    changed = _Places(made, inner).visit(ast.parse(ast.unparse(e), mode="eval").body)
    for x in ast.walk(changed):
        ast.copy_location(x, e)
    return scope.expanded(as_index(made.read.number(changed, inner), e))


class _Places(ast.NodeTransformer):
    """Replaces offsets and strides of buffers by names, and binds the names to their values."""

    def __init__(self, made: Statements, scope: Scope) -> None:
        self.made = made
        self.scope = scope

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="elem_offset"):
                return self._named(node, name, lambda offset, strides: offset)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=name), attr="strides"), slice=ast.Constant(value=int() as k)
            ):
                return self._named(node, name, lambda offset, strides: strides[k])
        return node

    def _named(self, node: ast.expr, name: str, which: Callable[[Expr, tuple[Expr, ...]], Expr]) -> ast.AST:
        of = self.scope.names.get(name)
        if not isinstance(of, Array):
            return node
        text = ast.unparse(node)
        self.scope.bind(text, index(which(*self.made.declared.place(of.buffer))))
        return ast.Name(text, ast.Load())
