"""Loads and stores: scalar, contiguous vectors, masked ones, gathers and scatters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mslang.backend.llvm import arithmetic
from mslang.backend.llvm.affine import Affine, add, scale
from mslang.backend.llvm.scope import Memory, Scope
from mslang.backend.llvm.types import Value, constant, mangled, memory_type
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const, Expr, Load
from mslang.kernel.nodes import Store

if TYPE_CHECKING:
    from mslang.backend.llvm.expression import ExpressionWriter


def load(writer: ExpressionWriter, e: Load, scope: Scope) -> Value:
    """`buffer[indices]`; one lane where the address is the same in all."""
    place = scope.memory[e.buffer]
    offset = _offset(writer, place, e.indices, scope)
    dtype = _stored(e.dtype)
    lanes = scope.lanes
    if not isinstance(offset, Affine):
        return _as_value(writer, _gather(writer, place, offset, dtype, scope), e.dtype)
    masked = scope.mask is not None and not scope.mask.tail
    if offset.lane == 0:
        if masked:
            everywhere = arithmetic.widen(writer.fn, writer.scalar(offset), lanes)
            return _as_value(writer, _gather(writer, place, everywhere, dtype, scope), e.dtype)
        ref = writer.fn.op(f"load {memory_type(dtype)}, ptr {_pointer(writer, place, offset)}{place.tag}")
        return _as_value(writer, Value(ref, dtype), e.dtype)
    if offset.lane == 1:
        return _as_value(writer, _contiguous(writer, place, offset, e, scope), e.dtype)
    if offset.lane == -1 and scope.mask is None:
        first = _contiguous(writer, place, offset._replace(constant=offset.constant - lanes + 1), e, scope)
        return _as_value(writer, _reversed(writer, first), e.dtype)
    return _as_value(writer, _gather(writer, place, writer.materialise(offset, lanes), dtype, scope), e.dtype)


def store(writer: ExpressionWriter, s: Store, scope: Scope) -> None:
    """`buffer[indices] = value`."""
    fn = writer.fn
    place = scope.memory[s.buffer]
    value = writer.value(s.value, scope)
    offset = _offset(writer, place, s.indices, scope)
    value = _as_stored(writer, value)
    lanes = scope.lanes
    align = size_of(value.dtype)
    masked = scope.mask is not None and not scope.mask.tail
    if isinstance(offset, Affine) and offset.lane == 0 and not masked:
        if value.lanes > 1:
            # Of lanes that write one element the last one wins, as in the loop.
            last = (scope.mask.active if scope.mask is not None else lanes) - 1
            value = Value(fn.pure(f"extractelement {value.typed}, i64 {last}"), value.dtype)
        fn.do(f"store {value.typed}, ptr {_pointer(writer, place, offset)}, align {align}{place.tag}")
        return
    value = arithmetic.widen(fn, value, lanes)
    if isinstance(offset, Affine) and offset.lane == -1 and scope.mask is None:
        offset = offset._replace(constant=offset.constant - lanes + 1, lane=1)
        value = _reversed(writer, value)
    if isinstance(offset, Affine) and offset.lane == 1:
        pointer = _pointer(writer, place, offset)
        if scope.mask is None or _overruns(writer, place, s.indices, scope, stores=True):
            fn.do(f"store {value.typed}, ptr {pointer}, align {align}{place.tag}")
            return
        _call_void(writer, "masked.store", value, f"ptr align {align} {pointer}", scope.mask.value, place.tag)
        return
    index = arithmetic.widen(fn, writer.materialise(offset, lanes), lanes) if isinstance(offset, Affine) else offset
    mask = constant(True, "bool", lanes) if scope.mask is None else scope.mask.value
    pointers = _pointers(writer, place, index)
    _call_void(writer, "masked.scatter", value, f"<{lanes} x ptr> align {align} {pointers}", mask, place.tag)


def address(writer: ExpressionWriter, e: Load, scope: Scope) -> str:
    """Where `buffer[indices]` is."""
    place = scope.memory[e.buffer]
    offset = _offset(writer, place, e.indices, scope)
    if not isinstance(offset, Affine) or offset.lane:
        raise AssertionError("an operand of an instruction is the same in all lanes")
    return _pointer(writer, place, offset)


def base_type(dtype: str) -> str:
    """The element type that addresses count in."""
    return memory_type(dtype)


def _stored(dtype: str) -> str:
    return "u8" if dtype == "bool" else dtype


def _as_value(writer: ExpressionWriter, v: Value, dtype: str) -> Value:
    return arithmetic.cast(writer.fn, v, "bool") if dtype == "bool" else v


def _as_stored(writer: ExpressionWriter, v: Value) -> Value:
    return arithmetic.cast(writer.fn, v, "u8") if v.dtype == "bool" else v


def _offset(writer: ExpressionWriter, place: Memory, indices: tuple[Expr, ...], scope: Scope) -> Affine | Value:
    """The element number as a form, or as a vector where it is none."""
    if writer.guard is not None:
        writer.guard.check(writer, place, indices, scope)
    quick = writer.flat(place, indices, scope)
    if quick is not None:
        return quick
    total = Affine(0)
    loose: list[Value] = []
    if place.buffer.offset is not None:
        start = writer.affine(place.buffer.offset, scope)
        if start is None:
            loose.append(writer.value(place.buffer.offset, scope))
        else:
            total = start
    for e, stride in zip(indices, place.strides, strict=True):
        form = writer.affine(e, scope)
        part = None if form is None else _product(writer, form, stride, scope)
        if part is None:
            # It differs between lanes by no constant: data as an index, or a stride known only at run time.
            loose.append(arithmetic.binary(writer.fn, "*", writer.value(e, scope), writer.value(stride, scope)))
        else:
            total = add(total, part)
    if not loose:
        return total
    wide = arithmetic.widen(writer.fn, writer.materialise(total, scope.lanes), scope.lanes)
    for v in loose:
        wide = arithmetic.binary(writer.fn, "+", wide, v)
    return wide


def _product(writer: ExpressionWriter, form: Affine, stride: Expr, scope: Scope) -> Affine | None:
    """A form times a stride; None if it is none in the lanes."""
    by = writer.affine(stride, scope)
    if by is None:
        return None
    if form.is_constant:
        return scale(by, form.constant)
    if by.is_constant:
        return scale(form, by.constant)
    if form.lane or by.lane:
        return None
    ref = writer.fn.pure(f"mul i64 {writer.scalar(form).ref}, {writer.scalar(by).ref}")
    return Affine(0, ((ref, 1),))


def _pointer(writer: ExpressionWriter, place: Memory, offset: Affine) -> str:
    """The address of the first lane: the variable part apart from the constant one, so that copies share it."""
    element = base_type(place.buffer.dtype)
    pointer = place.pointer
    if offset.terms:
        base = writer.scalar(Affine(0, offset.terms))
        pointer = writer.fn.pure(f"getelementptr inbounds {element}, ptr {pointer}, i64 {base.ref}")
    if offset.constant:
        pointer = writer.fn.pure(f"getelementptr inbounds {element}, ptr {pointer}, i64 {offset.constant}")
    return pointer


def _pointers(writer: ExpressionWriter, place: Memory, index: Value) -> str:
    element = base_type(place.buffer.dtype)
    return writer.fn.pure(f"getelementptr {element}, ptr {place.pointer}, {index.typed}")


def _contiguous(writer: ExpressionWriter, place: Memory, offset: Affine, e: Load, scope: Scope) -> Value:
    fn = writer.fn
    dtype = _stored(e.dtype)
    pointer = _pointer(writer, place, offset)
    align = size_of(dtype)
    kind = memory_type(dtype, scope.lanes)
    if scope.mask is None or _overruns(writer, place, e.indices, scope):
        return Value(fn.op(f"load {kind}, ptr {pointer}, align {align}{place.tag}"), dtype, scope.lanes)
    name = f"@llvm.masked.load.{mangled(dtype, scope.lanes)}.p0"
    mask = scope.mask.value
    fn.declarations.add(f"declare {kind} {name}(ptr, {mask.type}, {kind})")
    return Value(
        fn.op(f"call {kind} {name}(ptr align {align} {pointer}, {mask.typed}, {kind} zeroinitializer){place.tag}"),
        dtype,
        scope.lanes,
    )


def _overruns(
    writer: ExpressionWriter, place: Memory, indices: tuple[Expr, ...], scope: Scope, *, stores: bool = False
) -> bool:
    """Whether lanes that do not act may be read too, or stored: they hit the rest of a row of registers, or only the
    padding of it."""
    if not place.row or scope.mask is None or not scope.mask.tail:
        return False
    last = writer.affine(indices[-1], scope)
    if last is None or last.terms or last.lane != 1 or not 0 <= last.constant <= place.row - scope.lanes:
        return False
    match place.buffer.shape[-1]:
        case Const(value=n):
            return not stores or last.constant + scope.mask.active >= n
    return not stores


def _gather(writer: ExpressionWriter, place: Memory, index: Value, dtype: str, scope: Scope) -> Value:
    fn = writer.fn
    lanes = index.lanes
    kind = memory_type(dtype, lanes)
    name = f"@llvm.masked.gather.{mangled(dtype, lanes)}.v{lanes}p0"
    mask = constant(True, "bool", lanes) if scope.mask is None else scope.mask.value
    fn.declarations.add(f"declare {kind} {name}(<{lanes} x ptr>, {mask.type}, {kind})")
    pointers = _pointers(writer, place, index)
    args = f"<{lanes} x ptr> align {size_of(dtype)} {pointers}, {mask.typed}, {kind} zeroinitializer"
    return Value(fn.op(f"call {kind} {name}({args}){place.tag}"), dtype, lanes)


def _call_void(writer: ExpressionWriter, intrinsic: str, value: Value, pointer: str, mask: Value, tag: str) -> None:
    kind = "p0" if intrinsic == "masked.store" else f"v{value.lanes}p0"
    name = f"@llvm.{intrinsic}.{mangled(value.dtype, value.lanes)}.{kind}"
    type_ = "ptr" if kind == "p0" else f"<{value.lanes} x ptr>"
    writer.fn.declarations.add(f"declare void {name}({value.type}, {type_}, {mask.type})")
    writer.fn.do(f"call void {name}({value.typed}, {pointer}, {mask.typed}){tag}")


def _reversed(writer: ExpressionWriter, v: Value) -> Value:
    order = ", ".join(f"i32 {k}" for k in reversed(range(v.lanes)))
    ref = writer.fn.pure(f"shufflevector {v.typed}, {v.type} poison, <{v.lanes} x i32> <{order}>")
    return Value(ref, v.dtype, v.lanes)
