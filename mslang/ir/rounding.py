"""Rounding to the floating types that Python has no numbers of: to nearest, ties to even, and once."""

from __future__ import annotations

import math
import struct
from ctypes import c_float

_EXACT = 1 << 53
"""Integers up to this size are doubles."""

_DROPPED = 16
"""Bits of a larger integer that a double need not hold: a 64-bit one has 48 others."""


def f16(x: float) -> float:
    """`x` rounded to half precision; what is too large becomes infinite."""
    try:
        value: float = struct.unpack("e", struct.pack("e", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)
    return value


def bf16(x: float) -> float:
    """`x` rounded to bfloat16.

    >>> bf16(1.00390625), bf16(1.00390625001)
    (1.0, 1.0078125)
    """
    if math.isnan(x):
        return x
    value: float = struct.unpack("f", struct.pack("I", bf16_bits(x) << 16))[0]
    return value


def bf16_bits(x: float) -> int:
    """The bits of `x` rounded to bfloat16; of a NaN those of a quiet one.

    >>> hex(bf16_bits(1.0)), hex(bf16_bits(float("nan")))
    ('0x3f80', '0x7fc0')
    """
    if math.isnan(x):
        return 0x7FC0
    # Rounded to odd first, so that going over single precision does not round twice.
    near = c_float(x).value
    word: int = struct.unpack("I", struct.pack("f", near))[0]
    if near != x and not math.isinf(near):
        word = (word if abs(near) < abs(x) else word - 1) | 1
    return (word + 0x7FFF + ((word >> 16) & 1)) >> 16 & 0xFFFF


def to_odd(n: int) -> float:
    """A 64-bit integer as a double that rounds to any narrower type as the integer does: to odd, if it is not exact.

    >>> c_float(to_odd(2**60 + 2**36 + 1)).value == 2**60 + 2**37
    True
    """
    if -_EXACT <= n <= _EXACT:
        return float(n)
    kept = n >> _DROPPED
    return math.ldexp(kept | (n != kept << _DROPPED), _DROPPED)
