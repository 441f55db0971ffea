"""Words, types and functions of other languages, and what is written here instead: for messages about unknown names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

WORDS: Mapping[str, str] = MappingProxyType(
    {
        "None": "write `_` for a factor that is inferred, `none` for no value",
        "null": "write `none`",
        "True": "write `true`",
        "False": "write `false`",
    }
)
"""Words of other languages, and what to write instead."""

TYPES: Mapping[str, str] = MappingProxyType(
    {"float": "f32", "double": "f64", "half": "f16", "bfloat16": "bf16", "int": "i32", "uint": "u32", "char": "i8"}
    | {f"float{n}": f"f{n}" for n in (16, 32, 64)}
    | {f"int{n}": f"i{n}" for n in (8, 16, 32, 64)}
    | {f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)}
)
"""Element types as other languages write them."""


_SUM = "a block with a reduction axis sums: `block b[i: N | k: K] { B[i] += A[i, k] }`"
FUNCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "relu": "write `max(x, 0.0)`",
        "maximum": "write `max(x, y)`",
        "fmax": "write `max(x, y)`",
        "minimum": "write `min(x, y)`",
        "fmin": "write `min(x, y)`",
        "fabs": "write `abs(x)`",
        "where": "write `select(condition, x, y)`",
        "if_then_else": "write `select(condition, x, y)`",
        "Select": "write `select(condition, x, y)`",
        "clip": "write `min(max(x, low), high)`",
        "clamp": "write `min(max(x, low), high)`",
        "cast": "write the type as a function: `f32(x)`",
        "astype": "write the type as a function: `f32(x)`",
        "sum": _SUM,
        "reduce_sum": _SUM,
        "dot": _SUM,
    }
)
"""Functions of other languages, and what to write instead."""
