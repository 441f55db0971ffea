"""Functions on values: instructions where there are any, else own approximations, else the C library (f64)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from mslang.backend.llvm import arithmetic, elementary, library, trigonometric
from mslang.backend.llvm.function import FunctionWriter
from mslang.backend.llvm.number import Number
from mslang.backend.llvm.types import Value, constant
from mslang.diagnostics import MsError, problem
from mslang.ir.dtype import is_float, is_unsigned
from mslang.ir.functions import FUNCTIONS

_ROUNDING = {"floor": "floor", "ceil": "ceil", "round": "roundeven", "trunc": "trunc"}

_OWN: Mapping[str, Callable[..., Number]] = MappingProxyType(
    {
        "exp": elementary.exp,
        "exp2": elementary.exp2,
        "log": elementary.log,
        "tanh": elementary.tanh,
        "sigmoid": elementary.sigmoid,
    }
)
"""Functions that are computed in the type of their argument."""

_DOUBLE: Mapping[str, Callable[..., Number]] = MappingProxyType(
    {
        "acos": trigonometric.acos,
        "asin": trigonometric.asin,
        "atan": trigonometric.atan,
        "atan2": trigonometric.atan2,
        "cbrt": elementary.cbrt,
        "cos": trigonometric.cos,
        "cosh": elementary.cosh,
        "expm1": elementary.expm1,
        "log1p": elementary.log1p,
        "log2": elementary.log2,
        "sin": trigonometric.sin,
        "sinh": elementary.sinh,
        "tan": trigonometric.tan,
    }
)
"""Functions that are computed in f64, for f32 too."""


def call(fn: FunctionWriter, name: str, args: tuple[Value, ...]) -> Value:
    """`name(args)` of the language's functions; the arguments have equal lanes.

    Raises MsError MS407 for a function or type that this back end does not have.
    """
    v = args[0]
    function = FUNCTIONS.get(name)
    if function is None:
        raise MsError(problem("MS407", f"the function {name} is not known to the LLVM back end"))
    if name == "abs":
        return _absolute(fn, v)
    if name in _ROUNDING and not is_float(v.dtype):
        return v
    if not function.takes(v.dtype):
        raise MsError(problem("MS407", f"{name} of {v.dtype} is not known to the LLVM back end"))
    if name == "popcount":
        return fn.intrinsic("ctpop", v.dtype, v.lanes, (v,))
    if name == "clz":
        return fn.leading_zeros(v)
    if v.dtype in ("f16", "bf16"):
        wide = call(fn, name, tuple(arithmetic.cast(fn, a, "f32") for a in args))
        return wide if function.truth else arithmetic.cast(fn, wide, v.dtype)
    return _floating(fn, name, args)


def _floating(fn: FunctionWriter, name: str, args: tuple[Value, ...]) -> Value:
    """A function of f32 or f64."""
    v = args[0]
    if name in _ROUNDING:
        return fn.intrinsic(_ROUNDING[name], v.dtype, v.lanes, (v,))
    if name in _OWN:
        return _OWN[name](Number(fn, v)).value
    if name in _DOUBLE:
        return _in_double(fn, _DOUBLE[name], args)
    match name:
        case "isnan":
            return Value(fn.pure(f"fcmp uno {v.typed}, {v.ref}"), "bool", v.lanes)
        case "isinf":
            return Number(fn, v).magnitude().is_("==", math.inf)
        case "sqrt":
            return fn.intrinsic("sqrt", v.dtype, v.lanes, (v,))
        case "rsqrt":
            root = fn.intrinsic("sqrt", v.dtype, v.lanes, (v,))
            return arithmetic.binary(fn, "/", constant(1, v.dtype, v.lanes), root)
        case "erf" if v.dtype == "f32":
            return elementary.erf(Number(fn, v)).value
        case "pow" if v.dtype == "f32":
            return _in_double(fn, elementary.power, args)
        case "fmod":
            return _in_double(fn, _remainder, args)
        case "erf" | "pow":
            return library.call(fn, name, args)
    raise MsError(problem("MS407", f"the function {name} is not known to the LLVM back end"))


def _in_double(fn: FunctionWriter, function: Callable[..., Number], args: tuple[Value, ...]) -> Value:
    wide = function(*(Number(fn, arithmetic.cast(fn, a, "f64")) for a in args))
    return arithmetic.cast(fn, wide.value, args[0].dtype)


def _remainder(x: Number, y: Number) -> Number:
    large = x.magnitude().over(y.magnitude()).is_(">=", 2.0**52)
    return library.where(large, "fmod", (x, y), elementary.fmod(x, y))


def _absolute(fn: FunctionWriter, v: Value) -> Value:
    if v.dtype in ("f16", "bf16"):
        return arithmetic.cast(fn, _absolute(fn, arithmetic.cast(fn, v, "f32")), v.dtype)
    if is_float(v.dtype):
        return fn.intrinsic("fabs", v.dtype, v.lanes, (v,))
    if is_unsigned(v.dtype):
        return v
    negative = arithmetic.compare(fn, "<", v, constant(0, v.dtype, v.lanes))
    return arithmetic.choose(fn, negative, arithmetic.negate(fn, v), v)
