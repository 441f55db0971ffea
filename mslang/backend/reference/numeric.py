"""Arithmetic as the language defines it, on Python's numbers.

Every operation rounds to its type: `f32`, `f16` and `bf16` are computed in double precision and rounded once
after each operation (exact for `+ - * /` and `sqrt`), integers wrap. Index arithmetic (`i64` not made of data) is
exact, and must fit in 64 bits where it is stored. `min` and `max` of floats are `minimum` and `maximum` of IEEE
754-2019: NaN propagates, and -0 is less than +0. `round` goes to the nearest even. Division by zero of integers, a
shift by a count outside of the type's width, a conversion to an integer type that cannot hold the value, and an index
that does not fit are faults.
"""

from __future__ import annotations

import math
from ctypes import c_float
from types import MappingProxyType

from mslang.brevity import brief
from mslang.ir.dtype import bits, is_float, is_unsigned
from mslang.ir.functions import FUNCTIONS, maximum, minimum
from mslang.ir.rounding import bf16, f16, to_odd


class Undefined(ArithmeticError):
    """An operation without a defined result."""


def f32(x: float) -> float:
    """`x` rounded to single precision."""
    return c_float(x).value


def limits(dtype: str) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    n = bits(dtype)
    return (0, (1 << n) - 1) if is_unsigned(dtype) else (-(1 << (n - 1)), (1 << (n - 1)) - 1)


def poison(dtype: str) -> float | int | bool:
    """The value of an element that was not written, as in `runtime.arrays`: NaN, bytes 0xA5, or true."""
    if is_float(dtype):
        return math.nan
    return dtype == "bool" or int.from_bytes(b"\xa5" * (bits(dtype) // 8), "little", signed=not is_unsigned(dtype))


def wrapped(text: str, dtype: str) -> str:
    """Source that brings the integer `text` into the range of `dtype`, modulo two to its width."""
    n = bits(dtype)
    if is_unsigned(dtype):
        return f"({text} & {(1 << n) - 1})"
    half = 1 << (n - 1)
    return f"(({text} + {half} & {(1 << n) - 1}) - {half})"


def rounded(text: str, dtype: str) -> str:
    """Source that rounds the double `text` to the floating type `dtype`."""
    match dtype:
        case "f64":
            return text
        case "f32":
            return f"c_float({text}).value"
    return f"{dtype}({text})"


def literal(value: int | float | bool, dtype: str) -> str:
    """Source of a constant of type `dtype`."""
    if dtype == "bool":
        return "True" if value else "False"
    if not is_float(dtype):
        return f"({int(value)})" if value < 0 else str(int(value))
    number = {"f32": f32, "f16": f16, "bf16": bf16}.get(dtype, float)(float(value))
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "(-inf)"
    return f"({number!r})"


# ------------------------------------------------------------------ operations that need more than an operator
def divide(a: float, b: float) -> float:
    """IEEE division."""
    if b != 0:
        return a / b
    if a == 0 or a != a or b != b:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def to_int(x: float, lo: int, hi: int) -> int:
    """`x` truncated to an integer from `lo` to `hi`."""
    if not math.isfinite(x) or not lo <= int(x) <= hi:
        raise Undefined(f"{x} cannot be converted to an integer from {lo} to {hi}")
    return int(x)


def index(x: int) -> int:
    """`x`, computed from indices, exactly."""
    if not -(1 << 63) <= x < 1 << 63:
        raise Undefined(f"{brief(x)}, computed from indices, does not fit in 64 bits")
    return x


def shift_left(a: int, n: int, width: int) -> int:
    """`a << n`."""
    if not 0 <= n < width:
        raise Undefined(f"a shift by {n} in a type of {width} bits")
    return a << n


def shift_right(a: int, n: int, width: int) -> int:
    """`a >> n`, arithmetic for signed types."""
    if not 0 <= n < width:
        raise Undefined(f"a shift by {n} in a type of {width} bits")
    return a >> n


NAMESPACE: MappingProxyType[str, object] = MappingProxyType(
    {
        "c_float": c_float,
        "f16": f16,
        "bf16": bf16,
        "to_odd": to_odd,
        "inf": math.inf,
        "nan": math.nan,
        "divide": divide,
        "to_int": to_int,
        "index": index,
        "minimum": minimum,
        "maximum": maximum,
        "shift_left": shift_left,
        "shift_right": shift_right,
    }
    | {f"fn_{name}": f.evaluate for name, f in FUNCTIONS.items()}
)
"""What the generated source may name."""
