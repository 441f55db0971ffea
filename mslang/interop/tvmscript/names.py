"""Corresponding names on both sides: element types, scopes, functions, kinds of loops and axes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from mslang.ir.dtype import SCALARS, parts

Table = Mapping[str, str]


def _inverse(table: Table) -> Table:
    return MappingProxyType({theirs: ours for ours, theirs in table.items()})


_WORDS = {"i": "int", "u": "uint", "f": "float", "bf": "bfloat"}
THEIR_TYPES: Table = MappingProxyType(
    {t: "bool" if t == "bool" else _WORDS[t.rstrip("0123456789")] + t.lstrip("biuf") for t in SCALARS}
)
"""Scalar types: `f32` is `float32`."""
_WITHOUT_WIDTH: Table = MappingProxyType({"int": "i32", "uint": "u32", "float": "f32"})
"""Types that TVM takes to be 32 bits wide."""
OUR_TYPES = _inverse(THEIR_TYPES)

THEIR_SCOPES: Table = MappingProxyType(
    {
        **{s: s for s in ("global", "shared", "shared.dyn", "local", "warp")},
        "wmma.a": "wmma.matrix_a",
        "wmma.b": "wmma.matrix_b",
        "wmma.acc": "wmma.accumulator",
        "mma.a": "m16n8k8.matrixA",
        "mma.b": "m16n8k8.matrixB",
        "mma.acc": "m16n8k8.matrixC",
    }
)
OUR_SCOPES = _inverse(THEIR_SCOPES)

THEIR_FUNCTIONS: Table = MappingProxyType({"round": "nearbyint"})
"""Functions with another name in TVM; the others have the same name."""
OUR_FUNCTIONS: Table = MappingProxyType({"nearbyint": "round", "power": "pow", "fabs": "abs"})

LOOPS: Table = MappingProxyType(
    {"serial": "serial", "parallel": "parallel", "vectorized": "vectorized", "unroll": "unrolled"}
)
"""TVM's loops and our kinds."""
THEIR_LOOPS = _inverse(LOOPS)

AXES: Table = MappingProxyType(
    {"S": "spatial", "R": "reduce"} | {kind: kind for kind in ("spatial", "reduce", "scan", "opaque")}
)
"""TVM's constructors of axes and our kinds."""

FUNCTION_ATTRIBUTE = "tvm."
"""The prefix of a program's annotations that are attributes of TVM's function."""
SIZES = "mslang.sizes"
"""The attribute with the ranges of a printed program's dynamic sizes, where they are restricted."""
UNUSED_POINTERS = f"{FUNCTION_ATTRIBUTE}unused_pointers"
"""The annotation of a program with the pointers among the function's parameters that it never uses: the position and
the name of each. Nothing is known of the elements behind them, so they are not parameters of the program."""


@lru_cache(maxsize=256)
def our_type(name: str) -> str | None:
    """The element type called `name` there (`float32x4`), or None if there is no such type here."""
    scalar, x, lanes = name.rpartition("x")
    if name in OUR_TYPES:
        return OUR_TYPES[name]
    if name in _WITHOUT_WIDTH:
        return _WITHOUT_WIDTH[name]
    return f"{OUR_TYPES[scalar]}x{lanes}" if x and scalar in OUR_TYPES and lanes.isdigit() and int(lanes) > 1 else None


def their_type(dtype: str) -> str:
    """TVM's name of an element type."""
    found = parts(dtype)
    assert found is not None
    return THEIR_TYPES[found.scalar] + (f"x{found.lanes}" if found.lanes > 1 else "")
