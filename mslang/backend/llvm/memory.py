"""Loads and stores: scalar, contiguous vectors, masked ones, gathers and scatters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mslang.backend.llvm import arithmetic
from mslang.backend.llvm.scope import Memory, Scope
from mslang.backend.llvm.streaming import streamed
from mslang.backend.llvm.types import Value, constant, mangled, memory_type
from mslang.ir.arith.linear import Form, Linear, add, scale
from mslang.ir.dtype import is_float, size_of
from mslang.ir.expr import Const, Expr, Load, MaskedLoad
from mslang.kernel.lanes import active_lanes, lanes_of
from mslang.kernel.nodes import Prefetch, Store
from mslang.lower.substitute import LANE

if TYPE_CHECKING:
    from mslang.backend.llvm.expression import ExpressionWriter


def load(writer: ExpressionWriter, e: Load | MaskedLoad, scope: Scope) -> Value:
    """`buffer[indices]`; one lane where the address is the same in all and there is no mask."""
    place = scope.memory[e.buffer]
    # Indices or a condition may have turned out the same in all lanes.
    lanes = max(map(lanes_of, (*e.indices, e.mask) if isinstance(e, MaskedLoad) else e.indices), default=1)
    mask = arithmetic.widen(writer.fn, writer.value(e.mask, scope), lanes) if isinstance(e, MaskedLoad) else None
    offset = _offset(writer, place, e.indices, scope)
    dtype = _stored(e.dtype)
    if not isinstance(offset, Form):
        return _as_value(writer, _gather(writer, place, offset, dtype, mask), e.dtype)
    lane = offset.terms.get(LANE, 0)
    if lane == 0 and mask is None:
        ref = writer.fn.op(f"load {memory_type(dtype)}, ptr {_pointer(writer, place, offset)}{place.tag}")
        return _as_value(writer, Value(ref, dtype), e.dtype)
    if lane == 1:
        return _as_value(writer, _contiguous(writer, place, offset, dtype, lanes, mask), e.dtype)
    if lane == -1 and mask is None:
        first = _contiguous(writer, place, add(offset, _last(lanes), -1), dtype, lanes, None)
        return _as_value(writer, _reversed(writer, first), e.dtype)
    active = active_lanes(e.mask) if isinstance(e, MaskedLoad) else lanes
    if lane == 2 and active is not None:
        return _as_value(writer, _every_second(writer, place, offset, dtype, lanes, active), e.dtype)
    index = arithmetic.widen(writer.fn, writer.materialise(offset, lanes), lanes)
    return _as_value(writer, _gather(writer, place, index, dtype, mask), e.dtype)


def store(writer: ExpressionWriter, s: Store, scope: Scope) -> None:
    """`buffer[indices] = value`."""
    fn = writer.fn
    place = scope.memory[s.buffer]
    value = writer.value(s.value, scope)
    lanes = max(map(lanes_of, s.indices if s.mask is None else (*s.indices, s.mask)), default=1)
    mask = None if s.mask is None else arithmetic.widen(fn, writer.value(s.mask, scope), lanes)
    offset = _offset(writer, place, s.indices, scope)
    value = _as_stored(writer, value)
    # LLVM's pointers have no type, so a wider value would overwrite what lies behind the element.
    assert value.dtype == _stored(place.buffer.dtype), f"{value.dtype} is stored in {s.buffer}: {place.buffer.dtype}"
    align = size_of(value.dtype)
    lane = offset.terms.get(LANE, 0) if isinstance(offset, Form) else None
    if isinstance(offset, Form) and lane == 0 and mask is None:
        if value.lanes > 1:
            # Of lanes that write one element the last one wins, as in the loop.
            value = arithmetic.shuffle(fn, [value], [value.lanes - 1])
        fn.do(f"store {value.typed}, ptr {_pointer(writer, place, offset)}, align {align}{place.tag}")
        return
    value = arithmetic.widen(fn, value, lanes)
    if isinstance(offset, Form) and lane == -1 and mask is None:
        offset = add(offset, _last(lanes), -1)
        value, lane = _reversed(writer, value), 1
    if isinstance(offset, Form) and lane == 1:
        pointer = _pointer(writer, place, offset)
        if mask is None:
            plain = f"store {value.typed}, ptr {pointer}, align {align}{place.tag}"
            if _is_streamed(writer, s, place):
                streamed(fn, value, pointer, plain, place.tag)
            else:
                fn.do(plain)
            return
        _call_void(writer, "masked.store", value, f"ptr align {align} {pointer}", mask, place.tag)
        return
    index = arithmetic.widen(fn, writer.materialise(offset, lanes), lanes) if isinstance(offset, Form) else offset
    every = constant(True, "bool", lanes) if mask is None else mask
    pointers = _pointers(writer, place, index)
    _call_void(writer, "masked.scatter", value, f"<{lanes} x ptr> align {align} {pointers}", every, place.tag)


def _last(lanes: int) -> Linear:
    """What distinguishes the last lane of a reversed vector, the first in memory: `LANE` turned round."""
    return Form(lanes - 1, {LANE: -2})


def _is_streamed(writer: ExpressionWriter, s: Store, place: Memory) -> bool:
    """Does a store bypass the caches, and not only the stack?"""
    on = isinstance(s.stream, Const) and s.stream.value > 0
    return on and place.buffer.scope != "local" and writer.guard is None


def address(writer: ExpressionWriter, e: Load, scope: Scope) -> str:
    """Where `buffer[indices]` is."""
    place = scope.memory[e.buffer]
    offset = _offset(writer, place, e.indices, scope)
    if not isinstance(offset, Form) or LANE in offset.terms:
        raise AssertionError("an operand of an instruction is the same in all lanes")
    return _pointer(writer, place, offset)


def prefetch(writer: ExpressionWriter, s: Prefetch, scope: Scope) -> None:
    """Have the line of `buffer[indices]` brought into all caches; it may lie outside of the buffer."""
    place = scope.memory[s.buffer]
    offset = _offset(writer, place, s.indices, scope)
    ref = writer.scalar(offset).ref if isinstance(offset, Form) else offset.ref
    pointer = writer.fn.pure(f"getelementptr {base_type(place.buffer.dtype)}, ptr {place.pointer}, i64 {ref}")
    writer.fn.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    writer.fn.do(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")


def base_type(dtype: str) -> str:
    """The element type that addresses count in."""
    return memory_type(dtype)


def _stored(dtype: str) -> str:
    return "u8" if dtype == "bool" else dtype


def _as_value(writer: ExpressionWriter, v: Value, dtype: str) -> Value:
    return arithmetic.cast(writer.fn, v, "bool") if dtype == "bool" else v


def _as_stored(writer: ExpressionWriter, v: Value) -> Value:
    return arithmetic.cast(writer.fn, v, "u8") if v.dtype == "bool" else v


def _offset(writer: ExpressionWriter, place: Memory, indices: tuple[Expr, ...], scope: Scope) -> Linear | Value:
    """The element number as a form, or as a vector where it is none."""
    if writer.guard is not None:
        writer.guard.check(writer, place, indices, scope)
    quick = writer.flat(place, indices, scope)
    if quick is not None:
        return quick
    total: Linear = Form(0, {})
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
    lanes = max(v.lanes for v in loose)
    wide = arithmetic.widen(writer.fn, writer.materialise(total, lanes), lanes)
    for v in loose:
        wide = arithmetic.binary(writer.fn, "+", wide, v)
    return wide


def _product(writer: ExpressionWriter, form: Linear, stride: Expr, scope: Scope) -> Linear | None:
    """A form times a stride; None if it is none in the lanes."""
    by = writer.affine(stride, scope)
    if by is None:
        return None
    if not form.terms:
        return scale(by, form.constant)
    if not by.terms:
        return scale(form, by.constant)
    if LANE in form.terms or LANE in by.terms:
        return None
    ref = writer.fn.pure(f"mul i64 {writer.scalar(form).ref}, {writer.scalar(by).ref}")
    return Form(0, {ref: 1})


def _pointer(writer: ExpressionWriter, place: Memory, offset: Linear) -> str:
    """The address of the first lane: the variable part apart from the constant one, so that copies share it."""
    element = base_type(place.buffer.dtype)
    pointer = place.pointer
    if any(atom != LANE for atom in offset.terms):
        base = writer.scalar(Form(0, offset.terms))
        pointer = writer.fn.pure(f"getelementptr inbounds {element}, ptr {pointer}, i64 {base.ref}")
    if offset.constant:
        pointer = writer.fn.pure(f"getelementptr inbounds {element}, ptr {pointer}, i64 {offset.constant}")
    return pointer


def _pointers(writer: ExpressionWriter, place: Memory, index: Value) -> str:
    element = base_type(place.buffer.dtype)
    return writer.fn.pure(f"getelementptr {element}, ptr {place.pointer}, {index.typed}")


def _contiguous(
    writer: ExpressionWriter, place: Memory, offset: Linear, dtype: str, lanes: int, mask: Value | None
) -> Value:
    fn = writer.fn
    pointer = _pointer(writer, place, offset)
    align = size_of(dtype)
    kind = memory_type(dtype, lanes)
    if mask is None:
        return Value(fn.op(f"load {kind}, ptr {pointer}, align {align}{place.tag}"), dtype, lanes)
    name = f"@llvm.masked.load.{mangled(dtype, lanes)}.p0"
    fn.declarations.add(f"declare {kind} {name}(ptr, {mask.type}, {kind})")
    return Value(
        fn.op(f"call {kind} {name}(ptr align {align} {pointer}, {mask.typed}, {kind} zeroinitializer){place.tag}"),
        dtype,
        lanes,
    )


def _every_second(
    writer: ExpressionWriter, place: Memory, offset: Linear, dtype: str, lanes: int, active: int
) -> Value:
    """Elements two apart, as a convolution of stride 2 reads: two vectors that hold them, and nothing beyond the last.

    Lanes that are not active are 0.
    """
    fn = writer.fn
    reach = 2 * (active - 1) + 1
    second = lanes if active < lanes else reach - lanes
    parts: list[Value] = []
    for start in (0, second):
        held = min(reach - start, lanes)
        mask = None if held == lanes else _first_lanes(max(held, 0), lanes)
        part = _contiguous(writer, place, add(offset, Form(start, {})), dtype, lanes, mask)
        parts.append(part)
    order = [2 * k if 2 * k < lanes else lanes + 2 * k - second for k in range(active)]
    found = arithmetic.shuffle(fn, parts, [*order, *[0] * (lanes - active)])
    if active == lanes:
        return found
    zero = constant(0.0 if is_float(dtype) else 0, dtype, lanes)
    return arithmetic.choose(fn, _first_lanes(active, lanes), found, zero)


def _first_lanes(count: int, lanes: int) -> Value:
    """The mask of the first lanes."""
    bits = ", ".join(f"i1 {'true' if k < count else 'false'}" for k in range(lanes))
    return Value(f"<{bits}>", "bool", lanes)


def _gather(writer: ExpressionWriter, place: Memory, index: Value, dtype: str, mask: Value | None) -> Value:
    fn = writer.fn
    lanes = index.lanes
    kind = memory_type(dtype, lanes)
    name = f"@llvm.masked.gather.{mangled(dtype, lanes)}.v{lanes}p0"
    every = constant(True, "bool", lanes) if mask is None else mask
    fn.declarations.add(f"declare {kind} {name}(<{lanes} x ptr>, {every.type}, {kind})")
    pointers = _pointers(writer, place, index)
    args = f"<{lanes} x ptr> align {size_of(dtype)} {pointers}, {every.typed}, {kind} zeroinitializer"
    return Value(fn.op(f"call {kind} {name}({args}){place.tag}"), dtype, lanes)


def _call_void(writer: ExpressionWriter, intrinsic: str, value: Value, pointer: str, mask: Value, tag: str) -> None:
    kind = "p0" if intrinsic == "masked.store" else f"v{value.lanes}p0"
    name = f"@llvm.{intrinsic}.{mangled(value.dtype, value.lanes)}.{kind}"
    type_ = "ptr" if kind == "p0" else f"<{value.lanes} x ptr>"
    writer.fn.declarations.add(f"declare void {name}({value.type}, {type_}, {mask.type})")
    writer.fn.do(f"call void {name}({value.typed}, {pointer}, {mask.typed}){tag}")


def _reversed(writer: ExpressionWriter, v: Value) -> Value:
    return arithmetic.shuffle(writer.fn, [v], range(v.lanes)[::-1])
