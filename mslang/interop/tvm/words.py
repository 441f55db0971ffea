"""Corresponding names in TVM and mslang: element types, memory scopes, loop and axis kinds, functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from mslang.ir.dtype import parts

_SCALARS: Mapping[str, str] = {
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)},
    **{f"float{n}": f"f{n}" for n in (16, 32, 64)},
    "bfloat16": "bf16",
    "bool": "bool",
    "uint1": "bool",
}
_TVM_SCALARS = {ours: theirs for theirs, ours in _SCALARS.items() if theirs != "uint1"}


def dtype_in(text: str) -> str | None:
    """An element type of TVM's (`float32x4`) as ours (`f32x4`); None if there is no such type here."""
    found = re.fullmatch(r"(bool|[a-z]+\d+)(x\d+)?", text)
    if found is None or found[1] not in _SCALARS:
        return None
    return _SCALARS[found[1]] + (found[2] or "")


def dtype_out(dtype: str) -> str:
    """An element type of ours as TVM's."""
    found = parts(dtype)
    assert found is not None
    return _TVM_SCALARS[found.scalar] + (f"x{found.lanes}" if found.lanes > 1 else "")


_SCOPES: Mapping[str, str] = {
    "": "global",
    "wmma.matrix_a": "wmma.a",
    "wmma.matrix_b": "wmma.b",
    "wmma.accumulator": "wmma.acc",
    "m16n8k8.matrixA": "mma.a",
    "m16n8k8.matrixB": "mma.b",
    "m16n8k8.matrixC": "mma.acc",
}
_TVM_SCOPES = {ours: theirs for theirs, ours in _SCOPES.items() if theirs}


def scope_in(text: str) -> str:
    """A memory scope of TVM's as ours."""
    return _SCOPES.get(text, text)


def scope_out(scope: str) -> str:
    """A memory scope of ours as TVM's."""
    return _TVM_SCOPES.get(scope, scope)


AXIS_KINDS: Mapping[int, str] = MappingProxyType({0: "spatial", 2: "reduce", 3: "scan", 4: "opaque"})
LOOP_KINDS: Mapping[int, str] = MappingProxyType({0: "serial", 1: "parallel", 2: "vectorized", 3: "unrolled"})
THREAD_BINDING = 4
"""The loop kind of loops bound to a thread axis."""

OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        "Add": "+",
        "Sub": "-",
        "Mul": "*",
        "Div": "/",
        "FloorDiv": "//",
        "FloorMod": "%",
        "Min": "min",
        "Max": "max",
        "EQ": "==",
        "NE": "!=",
        "LT": "<",
        "LE": "<=",
        "GT": ">",
        "GE": ">=",
        "And": "and",
        "Or": "or",
        "LShift": "<<",
        "RShift": ">>",
        "BitwiseAnd": "&",
        "BitwiseOr": "|",
        "BitwiseXor": "^",
    }
)
"""Expression nodes with two operands."""

CALL_OPERATORS: Mapping[str, str] = MappingProxyType(
    {"shift_left": "<<", "shift_right": ">>", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
)
"""Operators that older TVM wrote as calls."""

CALLS: Mapping[str, str] = MappingProxyType(
    {
        "exp": "exp",
        "log": "log",
        "tanh": "tanh",
        "sigmoid": "sigmoid",
        "erf": "erf",
        "sqrt": "sqrt",
        "rsqrt": "rsqrt",
        "pow": "pow",
        "floor": "floor",
        "ceil": "ceil",
        "round": "round",
        "nearbyint": "round",
        "fabs": "abs",
        "abs": "abs",
        **{
            name: name
            for name in ("exp2", "log2", "log1p", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan")
        },
        **{name: name for name in ("atan2", "fmod", "trunc", "isnan", "isinf", "popcount", "clz")},
    }
)
"""Functions."""

OTHER_CALLS = frozenset({"tir.round"})
"""Functions of older versions that compute something else: `tir.round` rounds halves away from zero; `tirx.round` is
`nearbyint`, which rounds them to even, as our `round` does."""

_ROOT = "root_block"


def block_out(name: str) -> str:
    """A block's name in output for TVM, whose outermost block is `root`."""
    return _ROOT if name == "root" else name


def block_in(name: str) -> str:
    """The block of ours that was written so."""
    return "root" if name == _ROOT else name


_IN_SHARED = {"shared": "", "shared_dyn": "_dyn"}
_STORED_IN = {"global": "", "shared": "_shared", "shared_dyn": "_dyn"}


def _wmma() -> Iterator[tuple[str, str]]:
    """TVM's instructions on fragments of 16 x 16 x 16, with ours."""
    for dtype, file, sums in (("f16", "wmma", ("f32", "f16")), ("s8", "wmma_s8", ("s32",))):
        own = f"std.cuda.{file}"
        for scope, suffix in _IN_SHARED.items():
            for part in ("a", "b", "b_trans"):
                yield f"wmma_load_16x16x16_{dtype}_{part}_{scope}", f"{own}.load_{part}{suffix}"
        for acc in sums:
            yield f"wmma_fill_16x16x16_{acc}", f"{own}.fill_{acc}"
            for scope, suffix in _STORED_IN.items():
                yield f"wmma_store_16x16x16_{acc}_{scope}", f"{own}.store_{acc}{suffix}"
            for order in ("", "_trans"):
                yield f"wmma_sync_16x16x16_{dtype}{dtype}{acc}{order}", f"{own}.{dtype}{dtype}{acc}{order}"


def _mma() -> Iterator[tuple[str, str]]:
    """TVM's instructions on fragments of 16 x 8 x 8, with ours. What TVM calls a store to global memory is one to
    dynamic shared memory."""
    yield "mma_load_m16n8k8_f16_A_shared_dyn", "std.cuda.mma.load_a_32x8_dyn"
    yield "mma_load_m16n8k8_f16_B_shared_dyn", "std.cuda.mma.load_b_8x32_dyn"
    for acc in ("f32", "f16"):
        yield f"mma_init_m16n8k8_{acc}", f"std.cuda.mma.fill_{acc}"
        yield f"mma_sync_m16n8k8_f16f16{acc}", f"std.cuda.mma.f16f16{acc}_k8"
        yield f"mma_store_m16n8k8_{acc}_global", f"std.cuda.mma.store_{acc}_dyn"


_INTRINS: Mapping[str, str] = {
    "dot_16x4_vnni": "std.cpu.dot.u8s8_vnni",
    "dot_16x4_avx512": "std.cpu.dot.u8s8_16x4_avx512bw",
    **{name: f"std.cuda.dot.{name}" for name in ("dp4a_s8s8s32", "dp4a_u8s8s32", "dp4a_s8u8s32", "dp4a_u8u8u32")},
    **dict(_wmma()),
    **dict(_mma()),
}
_TVM_INTRINS = {ours: theirs for theirs, ours in _INTRINS.items()}


def intrin_in(name: str) -> str | None:
    """The intrinsic of our library that corresponds to TVM's; None if there is none."""
    return _INTRINS.get(name)


def intrin_out(name: str) -> str | None:
    """The TVM intrinsic that corresponds to our library's; None if there is none."""
    return _TVM_INTRINS.get(name)
