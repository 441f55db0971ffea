"""Element types: short strings such as "f32", "i8", "bool", "bf16", and vectors of them, "f32x16"."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

INTS = ("i8", "i16", "i32", "i64")
UINTS = ("u8", "u16", "u32", "u64")
FLOATS = ("f16", "bf16", "f32", "f64")
SCALARS = ("bool", *INTS, *UINTS, *FLOATS)
INDEX = "i64"
"""The type of loop variables, axes and sizes."""

_BITS = {"bool": 8, "bf16": 16} | {t: int(t[1:]) for t in (*INTS, *UINTS, "f16", "f32", "f64")}


class Parts(NamedTuple):
    """An element type taken apart: scalar type and number of lanes."""

    scalar: str
    lanes: int


@lru_cache(maxsize=256)
def parts(dtype: str) -> Parts | None:
    """The scalar type and lanes of `dtype`, or None if it is not an element type. `parts("f32x16") == ("f32", 16)`."""
    if dtype in SCALARS:
        return Parts(dtype, 1)
    scalar, x, lanes = dtype.rpartition("x")
    if x and scalar in SCALARS and lanes.isdigit() and int(lanes) > 0:
        return Parts(scalar, int(lanes))
    return None


def size_of(dtype: str) -> int:
    """Bytes of one element (a bool takes one)."""
    found = parts(dtype)
    if found is None:
        raise ValueError(f"no element type: {dtype}")
    return _BITS[found.scalar] // 8 * found.lanes


def is_float(dtype: str) -> bool:
    """Whether the scalar type is a floating one."""
    return dtype.startswith(("f", "bf"))


def is_unsigned(dtype: str) -> bool:
    """Whether the scalar type is an unsigned integer."""
    return dtype.startswith("u")


def is_integer(dtype: str) -> bool:
    """Whether the scalar type is a signed or unsigned integer (bool is not)."""
    return dtype.startswith(("i", "u"))


def bits(dtype: str) -> int:
    """Bits of the scalar type (1 for bool)."""
    found = parts(dtype)
    if found is None:
        raise ValueError(f"no element type: {dtype}")
    return 1 if found.scalar == "bool" else _BITS[found.scalar]


DIGITS = {"bf16": 8, "f16": 11, "f32": 24, "f64": 53}
"""Bits of the significand, the one that is not stored included."""


_TOO_LARGE = {"f16": 65520, "bf16": 511 << 119, "f32": ((1 << 25) - 1) << 103, "f64": ((1 << 54) - 1) << 970}
"""The least finite number that rounds to an infinity: half a unit of the last place above the largest number."""


def has_finite(value: int | float, scalar: str) -> bool:
    """Whether a finite number stays finite when it is rounded to a floating type.

    >>> has_finite(65519.9, "f16"), has_finite(-65520, "f16"), has_finite(1e39, "f32"), has_finite(1e39, "f64")
    (True, False, False, True)
    """
    return abs(value) < _TOO_LARGE[scalar]


def widens(narrow: str, wide: str) -> bool:
    """Whether a type holds every value of another: conversion there and back changes nothing.

    >>> widens("bf16", "f32"), widens("u16", "f32"), widens("i32", "f32"), widens("bf16", "f16"), widens("i8", "u16")
    (True, True, False, False, False)
    """
    a, b = parts(narrow), parts(wide)
    if a is None or b is None or a.lanes != b.lanes or "bool" in (a.scalar, b.scalar):
        return False
    if a.scalar == b.scalar:
        return True
    if is_float(a.scalar):
        return b.scalar == "f64" or (b.scalar == "f32" and a.scalar in ("f16", "bf16"))
    known = _BITS[a.scalar] - (not is_unsigned(a.scalar))
    if is_float(b.scalar):
        # Of f16 the range, too, bounds what it holds: to 65504, by bytes not reached.
        return known <= DIGITS[b.scalar]
    return (is_unsigned(a.scalar) or not is_unsigned(b.scalar)) and known <= _BITS[b.scalar] - (
        not is_unsigned(b.scalar)
    )
