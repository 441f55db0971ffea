"""Math functions on values: instructions where there are, else own approximations, else the C library (f64)."""

from __future__ import annotations

from mslang.backend.llvm import arithmetic, elementary
from mslang.backend.llvm.function import FunctionWriter
from mslang.backend.llvm.number import Number
from mslang.backend.llvm.types import Value, constant
from mslang.diagnostics import MsError, problem
from mslang.ir.dtype import is_float, is_unsigned

_ROUNDING = {"floor": "floor", "ceil": "ceil", "round": "roundeven"}
_OWN = {"exp": elementary.exp, "log": elementary.log, "tanh": elementary.tanh, "sigmoid": elementary.sigmoid}


def call(fn: FunctionWriter, name: str, args: tuple[Value, ...]) -> Value:
    """`name(args)` of the language's functions; the arguments have equal lanes.

    Raises MsError MS407 for a function or type that this back end does not have.
    """
    v = args[0]
    if v.dtype in ("f16", "bf16"):
        wide = call(fn, name, tuple(arithmetic.cast(fn, a, "f32") for a in args))
        return arithmetic.cast(fn, wide, v.dtype)
    if name == "abs":
        return _absolute(fn, v)
    if name in _ROUNDING and not is_float(v.dtype):
        return v
    if not is_float(v.dtype):
        raise MsError(problem("MS407", f"{name} of {v.dtype} is not known to the LLVM back end"))
    if name in _ROUNDING:
        return fn.intrinsic(_ROUNDING[name], v.dtype, v.lanes, (v,))
    if name in _OWN:
        return _OWN[name](Number(fn, v)).value
    match name:
        case "sqrt":
            return fn.intrinsic("sqrt", v.dtype, v.lanes, (v,))
        case "rsqrt":
            root = fn.intrinsic("sqrt", v.dtype, v.lanes, (v,))
            return arithmetic.binary(fn, "/", constant(1, v.dtype, v.lanes), root)
        case "erf" if v.dtype == "f32":
            return elementary.erf(Number(fn, v)).value
        case "pow" if v.dtype == "f32":
            x, y = (Number(fn, arithmetic.cast(fn, a, "f64")) for a in args)
            return arithmetic.cast(fn, elementary.power(x, y).value, "f32")
        case "erf" | "pow":
            return _library(fn, name, args)
    raise MsError(problem("MS407", f"the function {name} is not known to the LLVM back end"))


def _library(fn: FunctionWriter, name: str, args: tuple[Value, ...]) -> Value:
    """The C library's function for f64, lane by lane."""
    v = args[0]
    fn.declarations.add(f"declare double @{name}({', '.join('double' for _ in args)})")
    if v.lanes == 1:
        return Value(fn.pure(f"call double @{name}({', '.join(a.typed for a in args)})"), "f64")
    total = "poison"
    for k in range(v.lanes):
        picked = [fn.pure(f"extractelement {a.typed}, i64 {k}") for a in args]
        one = fn.pure(f"call double @{name}({', '.join(f'double {p}' for p in picked)})")
        total = fn.pure(f"insertelement {v.type} {total}, double {one}, i64 {k}")
    return Value(total, "f64", v.lanes)


def _absolute(fn: FunctionWriter, v: Value) -> Value:
    if is_float(v.dtype):
        return fn.intrinsic("fabs", v.dtype, v.lanes, (v,))
    if is_unsigned(v.dtype):
        return v
    negative = arithmetic.compare(fn, "<", v, constant(0, v.dtype, v.lanes))
    return arithmetic.choose(fn, negative, arithmetic.negate(fn, v), v)
