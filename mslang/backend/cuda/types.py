"""The language's element types in CUDA C: names, literals."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from mslang.ir.dtype import INDEX, is_float
from mslang.ir.rounding import bf16, f16

INT = "i32"
"""The type of indices whose values provably fit in 32 bits."""

FITS = (-(1 << 31), (1 << 31) - 1)
"""The values of `INT`."""

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "bool": "bool",
        "i8": "signed char",
        "i16": "short",
        "i32": "int",
        "i64": "long long",
        "u8": "unsigned char",
        "u16": "unsigned short",
        "u32": "unsigned int",
        "u64": "unsigned long long",
        "f16": "__half",
        "bf16": "__nv_bfloat16",
        "f32": "float",
        "f64": "double",
    }
)
"""C's name of each element type."""

HEADERS: Mapping[str, str] = MappingProxyType({"f16": "cuda_fp16.h", "bf16": "cuda_bf16.h"})
"""The header that declares a type."""

Bounds = tuple[int, int]
"""Inclusive bounds of an integer."""


class Level:
    """How tightly an operator binds, as C has it."""

    TERNARY = 1
    OR = 2
    AND = 3
    BIT_OR = 4
    BIT_XOR = 5
    BIT_AND = 6
    EQUAL = 7
    ORDER = 8
    SHIFT = 9
    SUM = 10
    PRODUCT = 11
    UNARY = 12
    ATOM = 13


class Value(NamedTuple):
    """The text of a value.

    `dtype` is its type in C: an index (`i64` in the kernel) whose values fit is an `i32`. `bounds` are those of an
    integer, where they are known; `literal` is the number of an integer constant. `modular` is the text of the same
    number in the unsigned type of its width, where it was computed there.
    """

    text: str
    dtype: str
    level: int = Level.ATOM
    bounds: Bounds | None = None
    literal: int | None = None
    modular: str | None = None

    def at(self, level: int) -> str:
        """The text as an operand of an operator that binds as tightly as `level`."""
        return self.text if self.level >= level else f"({self.text})"


def memory_name(dtype: str) -> str:
    """C's name of the type that elements in memory have: a bool is a byte, true if it is not 0."""
    return NAMES["u8" if dtype == "bool" else dtype]


def fits(bounds: Bounds | None) -> bool:
    """Whether all values are an `int`."""
    return bounds is not None and FITS[0] <= bounds[0] and bounds[1] <= FITS[1]


def constant(value: int | float | bool, dtype: str) -> Value:
    """A literal; an index that fits is an `int`."""
    if dtype == "bool":
        return Value("true" if value else "false", "bool")
    if is_float(dtype):
        return _float(float(value), dtype)
    return integer(int(value), INT if dtype == INDEX and fits((int(value), int(value))) else dtype)


def integer(n: int, dtype: str) -> Value:
    """An integer literal of exactly this type."""
    bounds = (n, n)
    match dtype:
        case "i32":
            # The least number has no literal: it is the negation of one that is too large.
            text = "(-2147483647 - 1)" if n == FITS[0] else str(n)
        case "i64":
            text = "(-9223372036854775807LL - 1)" if n == -(1 << 63) else f"{n}LL"
        case "u32":
            text = f"{n}U"
        case "u64":
            text = f"{n}ULL"
        case _:
            return Value(f"({NAMES[dtype]}){n}", dtype, Level.UNARY, bounds, n)
    return Value(text, dtype, Level.UNARY if text.startswith("-") else Level.ATOM, bounds, n)


def _float(x: float, dtype: str) -> Value:
    match dtype:
        case "f64":
            return _double(x)
        case "f32":
            return _single(x)
        case "f16":
            return Value(f"__float2half_rn({_single(f16(x)).text})", dtype)
    return Value(f"__float2bfloat16_rn({_single(bf16(x)).text})", dtype)


def _double(x: float) -> Value:
    if not math.isfinite(x):
        (word,) = struct.unpack("<Q", struct.pack("<d", x))
        return Value(f"__longlong_as_double(0x{word:x}LL)", "f64")
    return Value(repr(x), "f64", Level.UNARY if math.copysign(1.0, x) < 0 else Level.ATOM)


def _packed(x: float) -> bytes:
    """The nearest f32; an infinity beyond the finite ones."""
    try:
        return struct.pack("<f", x)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, x))


def _single(x: float) -> Value:
    packed = _packed(x)
    near: float = struct.unpack("<f", packed)[0]
    if not math.isfinite(near):
        (word,) = struct.unpack("<I", packed)
        return Value(f"__int_as_float(0x{word:x})", "f32")
    text = next(t for n in range(1, 10) if _packed(float(t := f"{near:.{n}g}")) == packed)
    if not any(c in text for c in ".e"):
        text += ".0"
    return Value(f"{text}f", "f32", Level.UNARY if math.copysign(1.0, near) < 0 else Level.ATOM)
