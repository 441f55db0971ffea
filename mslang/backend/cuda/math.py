"""The language's functions in CUDA C: those of CUDA's mathematical library, of which the manual states the errors.

Source: CUDA C++ Programming Guide, "Mathematical Functions".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mslang.backend.cuda import arithmetic
from mslang.backend.cuda.arithmetic import HALVES, Used
from mslang.backend.cuda.types import NAMES, Level, Value, constant
from mslang.diagnostics import MsError, problem
from mslang.ir.dtype import bits, is_float, is_unsigned
from mslang.ir.functions import FUNCTIONS

_ROUNDING: Mapping[str, str] = MappingProxyType({"floor": "floor", "ceil": "ceil", "round": "rint", "trunc": "trunc"})

_OTHERWISE: Mapping[str, str] = MappingProxyType({**_ROUNDING, "abs": "fabs"})
"""Functions that the library calls otherwise; all others have their names there."""


def call(used: Used, name: str, args: tuple[Value, ...]) -> Value:
    """`name(args)` of the language's functions.

    Raises:
        MsError: MS440, there is no such function of this type.
    """
    v = args[0]
    function = FUNCTIONS.get(name)
    if function is None or (not function.takes(v.dtype) and name not in _ROUNDING):
        raise MsError(problem("MS440", f"`{name}` of {v.dtype} is unknown to the CUDA back end"))
    if not is_float(v.dtype):
        return _of_integer(used, name, v)
    if v.dtype in HALVES:
        wide = call(used, name, tuple(arithmetic.cast(used, a, "f32") for a in args))
        return wide if function.truth else arithmetic.cast(used, wide, v.dtype)
    texts = [a.text for a in args]
    if function.truth:
        return Value(f"(bool){name}({texts[0]})", "bool", Level.UNARY)
    if name == "sigmoid":
        return Value(used.call("ms_sigmoid", *texts), v.dtype)
    suffix = "f" if v.dtype == "f32" else ""
    return Value(f"{_OTHERWISE.get(name, name)}{suffix}({', '.join(texts)})", v.dtype)


def _of_integer(used: Used, name: str, v: Value) -> Value:
    if name in _ROUNDING or (name == "abs" and is_unsigned(v.dtype)):
        return v
    if name == "abs":
        negative = arithmetic.operation("<", v, constant(0, v.dtype), "bool")
        return arithmetic.choose(negative, arithmetic.negate(used, v), v)
    # Bits are counted in 32 or 64; above a narrow number, zeros.
    width = bits(v.dtype)
    wide, suffix = ("u64", "ll") if width == 64 else ("u32", "")
    short = Value(f"({NAMES[f'u{width}']}){v.at(Level.UNARY)}", f"u{width}", Level.UNARY)
    text = f"__{'popc' if name == 'popcount' else 'clz'}{suffix}({arithmetic.cast(used, short, wide).text})"
    if name == "clz" and width < 32:
        text = f"{text} - {32 - width}"
    return Value(f"({NAMES[v.dtype]})({text})", v.dtype, Level.UNARY, (0, width))
