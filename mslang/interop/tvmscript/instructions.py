"""Calls of instructions: read by their meaning, on views, in a block named after the instruction.

In TVM an instruction is a call with pointers, and its footprint is declared by the enclosing block. Here the block
keeps the instruction's meaning as its body, and the call as the intrinsic's text. A fragment is addressed by its number
there; here it is the tile that the block declares.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mslang.interop.tvmscript.call_arguments import dotted
from mslang.interop.tvmscript.fragments import BUILDERS, filled, filled_by
from mslang.interop.tvmscript.frame import Frame
from mslang.interop.tvmscript.patterns import TVM, matched
from mslang.interop.tvmscript.pointers import alike, buffer, declared, target
from mslang.interop.tvmscript.scope import Array, Scope, plain
from mslang.interop.tvmscript.source import refuse, text_of
from mslang.ir.arith import equal
from mslang.ir.expr import ONE, ZERO, Const, Expr, Var
from mslang.ir.find import blocks_of
from mslang.ir.intrin import KEY, Intrin, with_record
from mslang.ir.program import Block, Buffer, For, Region, Stmt, View
from mslang.ir.region import infer_regions
from mslang.ir.visit import map_bodies, map_expr, map_stmt_exprs, walk
from mslang.transform.rename import renamed

if TYPE_CHECKING:
    from mslang.interop.tvmscript.statements import Statements

Operands = Mapping[str, Array]
"""The buffer or view of each operand of an intrinsic."""


def instruction(made: Statements, e: ast.expr, scope: Scope, frame: Frame) -> tuple[Stmt, ...] | None:
    """The meaning of a call of an instruction; None if the instruction is unknown."""
    if not isinstance(e, ast.Call):
        return None
    if target(made, e, scope) is not None:
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
        views = None if operands is None else _views(made, known, operands, frame, whole_only=True)
        if views is not None:
            return _placed(made, known, views, e, scope, frame)
    name = dotted(e.func, made.read.aliases)
    builder = BUILDERS.get(name or "")
    if builder is None:
        return None
    if frame.function:
        raise refuse(
            "MS731", e, f"`{text_of(e.func)}` stands outside of a block", "only blocks declare what they access"
        )
    if builder is filled and (computed := filled_by(made, e, scope, frame)):
        return computed
    intrin, operands = builder(made, e, scope, frame)
    views = _views(made, intrin, operands, frame)
    if views is None:
        why = ", ".join(f"`{q.buffer.name}` of {_sizes(q.buffer.shape)}" for q in intrin.desc.params)
        raise refuse(
            "MS731", e, "the block does not declare the tiles that its instruction accesses", f"it takes {why}"
        )
    return _placed(made, intrin, views, e, scope, frame)


# ------------------------------------------------------------------ operands
def _pointed(made: Statements, e: ast.Call, scope: Scope, frame: Frame) -> None:
    """A bare pointer: a view of the region that the block declares of the buffer."""
    of = buffer(made, e, scope).buffer
    if frame.function:
        return
    frame.views.append(_view(made, of, of.name, declared(of, frame)))


def _view(made: Statements, of: Buffer, name: str, region: Region, shape: tuple[Expr, ...] | None = None) -> View:
    extents = tuple(r.extent for r in region.ranges) if shape is None else shape
    own = made.names.declared(f"{name}_view")
    buffer = replace(of, name=own, shape=extents, strides=None, offset=None, align=None)
    made.declared.views[own] = region
    return View(made.declared.add(buffer), region)


def _is_whole(region: Region, of: Buffer) -> bool:
    starts, extents = ([r.start for r in region.ranges], [r.extent for r in region.ranges])
    return all(equal(x, ZERO) for x in starts) and alike(extents, of.shape)


def _operands(names: Mapping[str, str], scope: Scope) -> Operands | None:
    found = {operand: scope.names.get(name) for operand, name in names.items()}
    arrays = {operand: value for operand, value in found.items() if isinstance(value, Array) and value.memory is None}
    return arrays if len(arrays) == len(found) else None


def _views(
    made: Statements, intrin: Intrin, operands: Operands, frame: Frame, *, whole_only: bool = False
) -> tuple[View, ...] | None:
    """A view for each operand, in the order of the intrinsic's; None if one does not match the intrinsic.

    `whole_only`: a buffer that is not a view is an operand as a whole, not only its declared region.
    """
    here = {v.buffer.name: v for v in frame.views}
    found: list[View] = []
    for q in intrin.desc.params:
        if q.buffer.name not in operands:
            return None
        of, shape = operands[q.buffer.name].buffer, q.buffer.shape
        view = here.get(of.name)
        if view is None or view in found:
            region = declared(of, frame, "read" if q.direction == "in" else "write")
            if whole_only and view is None and not _is_whole(region, of):
                return None
            dropped = len(region.ranges) - len(shape)
            extents = tuple(r.extent for r in region.ranges)
            if dropped < 0 or not alike(extents, (*(ONE for _ in range(dropped)), *shape)):
                return None
            view = _view(made, of, of.name, region, shape)
        if of.dtype != q.buffer.dtype or not alike(view.buffer.shape, shape):
            return None
        found.append(view)
    return tuple(found)


# ------------------------------------------------------------------ the block
def _own_block(
    made: Statements, intrin: Intrin, operands: Operands, e: ast.Call, scope: Scope, frame: Frame
) -> tuple[Stmt, ...] | None:
    """A block for an instruction outside of blocks."""
    inner = Frame()
    inner.reads, inner.writes = frame.reads, frame.writes
    views = _views(made, intrin, operands, inner, whole_only=True)
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
    """The meaning of an intrinsic on views, which become the last ones of the current block."""
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
    """The description's body, with names that are free here."""
    body = intrin.desc.body
    loops = {s.var: made.names.loop(s.var, scope.outer) for s in walk(body) if isinstance(s, For)}
    blocks = {b.name: made.names.declared(b.name, f"{b.name}_block") for b in blocks_of(body)}
    return tuple(_own_axes(made, s, scope) for s in renamed(body, loops, blocks, views))


def _own_axes(made: Statements, s: Stmt, scope: Scope) -> Stmt:
    """A statement with fresh names of its axes."""
    if isinstance(s, Block):
        names = {a.name: made.names.inside(a.name, scope.outer) for a in s.axes}
        bound = {a.name: a.binding for a in s.axes}

        def change(e: Expr) -> Expr:
            return map_expr(e, lambda x: Var(names[x.name]) if isinstance(x, Var) and x.name in names else None)

        moved = map_stmt_exprs(s, change)
        assert isinstance(moved, Block)
        s = replace(moved, axes=tuple(replace(a, name=names[a.name], binding=bound[a.name]) for a in s.axes))
    return map_bodies(s, lambda inner: tuple(_own_axes(made, x, scope) for x in inner))


def _sizes(shape: Sequence[Expr]) -> str:
    return " x ".join(str(n.value) if isinstance(n, Const) else "?" for n in shape)
