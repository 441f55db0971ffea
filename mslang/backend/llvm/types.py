"""LLVM's spelling of element types and constants."""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from typing import NamedTuple

from mslang.ir.dtype import is_float
from mslang.ir.rounding import bf16_bits

_NAMES = {
    "bool": "i1",
    "f16": "half",
    # The bits of one: LLVM's `bfloat` calls a library function wherever a CPU cannot round to it.
    "bf16": "i16",
    "f32": "float",
    "f64": "double",
    **{f"{s}{b}": f"i{b}" for s in "iu" for b in (8, 16, 32, 64)},
}
_MANGLED = _NAMES | {"f16": "f16", "f32": "f32", "f64": "f64"}


class Value(NamedTuple):
    """A value in a function: how it is referred to, its element type, its lanes (1: a scalar)."""

    ref: str
    dtype: str
    lanes: int = 1

    @property
    def type(self) -> str:
        """The LLVM type."""
        return type_of(self.dtype, self.lanes)

    @property
    def typed(self) -> str:
        """Type and reference, as an operand is written."""
        return f"{self.type} {self.ref}"


@lru_cache(maxsize=1024)
def type_of(dtype: str, lanes: int = 1) -> str:
    """The type of a value: `type_of("f32", 16) == "<16 x float>"`."""
    name = _NAMES[dtype]
    return name if lanes == 1 else f"<{lanes} x {name}>"


def memory_type(dtype: str, lanes: int = 1) -> str:
    """The type in memory: a bool takes a byte there."""
    return type_of("u8" if dtype == "bool" else dtype, lanes)


def mangled(dtype: str, lanes: int = 1) -> str:
    """The type's part of an overloaded intrinsic's name: `v16f32`."""
    name = _MANGLED[dtype]
    return name if lanes == 1 else f"v{lanes}{name}"


def literal(value: float | bool, dtype: str) -> str:
    """A scalar constant's spelling."""
    if dtype == "bool":
        return "true" if value else "false"
    if not is_float(dtype):
        return str(_wrapped(int(value), dtype))
    if dtype == "f64":
        return "0x" + struct.pack(">d", float(value)).hex().upper()
    if dtype == "bf16":
        return str(_wrapped(bf16_bits(float(value)), "i16"))
    if dtype == "f16":
        return "0xH" + _half(float(value)).hex().upper()
    return "0x" + struct.pack(">d", _single(float(value))).hex().upper()


def constant(value: float | bool, dtype: str, lanes: int = 1) -> Value:
    """A constant, the same in every lane."""
    text = literal(value, dtype)
    return Value(text if lanes == 1 else f"splat ({type_of(dtype)} {text})", dtype, lanes)


def vector(values: list[int], dtype: str = "i64") -> Value:
    """A vector of integer constants (booleans for "bool")."""
    name = type_of(dtype)
    items = ", ".join(f"{name} {literal(v, dtype)}" for v in values)
    return Value(f"<{items}>", dtype, len(values))


def _wrapped(value: int, dtype: str) -> int:
    width = int(dtype[1:])
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def _single(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _half(value: float) -> bytes:
    try:
        return struct.pack(">e", value)
    except OverflowError:
        return struct.pack(">e", math.copysign(math.inf, value))
