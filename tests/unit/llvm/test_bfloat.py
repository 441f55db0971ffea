"""bf16 is its bits in LLVM's instructions: no form of storing, choosing or copying one calls a library function."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference import interpret
from mslang.ir.expr import Const
from mslang.runtime.arguments import padding
from mslang.sema.program import parse_program
from mslang.tune.verification import SPARSE, make_inputs

PROGRAMS = {
    "an init that loads": """program p(X: bf16[6, 4], inout Y: bf16[6, 4]) {
        for i in 6, j in 4, k in 4 {
            block b[x: 6 = i, y: 4 = j | z: 4 = k] { init { Y[x, y] = X[x, min(x, 3)] } }
        }
    }""",
    "a choice": """program p(X: bf16[6, 4], out Y: bf16[6, 4]) {
        block b[i: 6, j: 4] { Y[i, j] = select(X[i, j] > bf16(0.0), X[i, j], bf16(-1.5)) }
    }""",
    "a predicate": """program p(X: bf16[6, 4], inout Y: bf16[6, 4]) {
        block b[i: 6, j: 4] { where X[i, 0] > bf16(0.0)  Y[i, j] = -X[i, j] }
    }""",
    "a reduction in lanes": """program p(X: bf16[6, 20], out Y: bf16[6]) {
        for i in 6, k in 20 {
            block b[x: 6 = i | z: 20 = k] { Y[x] = max(Y[x], X[x, z]) }
        }
    }""",
    "lanes with a rest": """program p(X: bf16[37], out Y: bf16[37]) {
        for i in 37 @ vectorized { block b[x: 37 = i] { Y[x] = X[x] * bf16(2.0) + bf16(1.0) } }
    }""",
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("target", ["host", "avx2", "generic"])
def test_bf16_needs_no_library(name: str, checked: bool, target: str) -> None:
    program = parse_program(PROGRAMS[name])
    inputs = make_inputs(program, SPARSE, seed=1)
    want = interpret.run(program, inputs, bits=True)["Y"]
    made = {**{n: a.copy() for n, a in inputs.items()}}
    made.setdefault("Y", np.zeros_like(want))
    ms.build(program, target, checked=checked)(**made)
    assert np.array_equal(made["Y"], want)


TIES = [33685505, -33685505, 2**24 + 1, 2**31 - 1, -(2**31), 257, 0]
"""Integers, some of which lie just beside the middle of two numbers of bf16, where f32 has the middle."""

LARGE = [
    2**60 + 2**52 + 1,
    -(2**60) - 2**52 - 1,
    2**60 + 2**36 + 1,
    2**53 + 1,
    -(2**53) - 1,
    2**63 - 1,
    -(2**63),
    *TIES,
]


def test_denormals_are_rounded_too() -> None:
    """The instruction of AVX512-BF16 would take them as zeros."""
    words = np.arange(-40, 40, dtype=np.int64)[:, None] * 0x8000 + np.array([-1, 0, 1])
    bits = np.concatenate([words.ravel() + 0x800000, np.abs(words.ravel()), np.abs(words.ravel()) | 0x80000000])
    x = np.resize(bits.astype(np.uint32), 768)
    program = parse_program("""program p(X: f32[768], out Y: bf16[768]) {
        for i in 48, j in 16 @ vectorized { block b[x: 768 = i * 16 + j] { Y[x] = bf16(X[x]) } }
    }""")
    want = ((x.astype(np.uint64) + 0x7FFF + (x >> 16 & 1)) >> 16).astype(np.uint16)
    assert np.array_equal(np.asarray(ms.build(program)(x.view(np.float32))).view(np.uint16), want)


@pytest.mark.parametrize("dtype", ["i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("to", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("vectorized", [False, True])
def test_integers_are_rounded_once(dtype: str, to: str, vectorized: bool) -> None:
    """The nearest number by exact fractions, of two equally near ones the even one."""
    kind = np.dtype(dtype.replace("i", "int").replace("u", "uint"))
    limits = np.iinfo(kind)
    values = [n for n in LARGE if limits.min <= n <= limits.max]
    values = (values * 16)[:48]
    mark = " @ vectorized" if vectorized else ""
    program = parse_program(f"""program p(X: {dtype}[48], out Y: {to}[48]) {{
        for i in 48{mark} {{ block b[x: 48 = i] {{ Y[x] = {to}(X[x]) }} }}
    }}""")
    x = np.array(values, kind)
    digits = {"bf16": 8, "f16": 11, "f32": 24}[to]
    exact = [_nearest(n, digits) for n in values]
    want = np.array([np.inf * np.sign(n) if to == "f16" and abs(n) > 65504 else n for n in exact], np.float64)
    for found in (ms.build(program)(x), ms.build(program, backend="reference")(x)):
        got = (found.astype(np.uint32) << 16).view(np.float32) if to == "bf16" else found
        assert got.astype(np.float64).tolist() == want.tolist()


def _nearest(n: int, digits: int) -> int:
    drop = max(0, abs(n).bit_length() - digits)
    kept, rest = abs(n) >> drop, abs(n) & ((1 << drop) - 1)
    half = (1 << drop) >> 1
    kept += drop > 0 and (rest > half or (rest == half and kept % 2 == 1))
    return (kept << drop) * (1 if n >= 0 else -1)


def test_constants_and_padding_are_rounded_once() -> None:
    program = parse_program("program p(out Y: bf16[5]) { block b[i: 5] { Y[i] = bf16(1.00390625001) } }")
    for kernel in (ms.build(program), ms.build(program, backend="reference")):
        assert kernel().tolist() == [0x3F81] * 5
    assert padding(Const(1.00390625001, "bf16"), "bf16") == 0x3F81
