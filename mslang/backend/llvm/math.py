"""Math functions on values."""

from __future__ import annotations

from mslang.backend.llvm import arithmetic
from mslang.backend.llvm.function import FunctionWriter
from mslang.backend.llvm.types import Value, constant
from mslang.ir.dtype import is_float, is_unsigned

_ROUNDING = {"floor": "floor", "ceil": "ceil", "round": "roundeven"}


def call(fn: FunctionWriter, name: str, args: tuple[Value, ...]) -> Value:
    """`name(args)` of the language's functions."""
    v = args[0]
    if v.dtype in ("f16", "bf16"):
        wide = call(fn, name, tuple(arithmetic.cast(fn, a, "f32") for a in args))
        return arithmetic.cast(fn, wide, v.dtype)
    if name == "abs":
        return _absolute(fn, v)
    if name in _ROUNDING:
        return fn.intrinsic(_ROUNDING[name], v.dtype, v.lanes, (v,)) if is_float(v.dtype) else v
    if name == "sqrt":
        return fn.intrinsic("sqrt", v.dtype, v.lanes, (v,))
    if name == "rsqrt":
        root = fn.intrinsic("sqrt", v.dtype, v.lanes, (v,))
        return arithmetic.binary(fn, "/", constant(1, v.dtype, v.lanes), root)
    raise KeyError(name)


def _absolute(fn: FunctionWriter, v: Value) -> Value:
    if is_float(v.dtype):
        return fn.intrinsic("fabs", v.dtype, v.lanes, (v,))
    if is_unsigned(v.dtype):
        return v
    negative = arithmetic.compare(fn, "<", v, constant(0, v.dtype, v.lanes))
    return arithmetic.choose(fn, negative, arithmetic.negate(fn, v), v)
