"""Running minima and maxima in registers are kept as integers of the same order."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import mslang as ms
from mslang.backend.reference import interpret
from mslang.ir.program import Program
from mslang.kernel.nodes import Allocate, Module
from mslang.kernel.print import print_module
from mslang.kernel.verify import verify
from mslang.kernel.visit import walk
from mslang.lower.passes import lower, stages
from mslang.resources import stdlib_folder
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, AVX512, GENERIC, Target
from tests.unit.llvm.support import run
from tests.unit.llvm.test_extremes import bfloat, same, widened
from tests.unit.lower import evaluator

VALUES = [0.0, -0.0, 1.0, -1.0, 6e-8, -6e-8, 65504.0, -65504.0, math.inf, -math.inf, math.nan, -math.nan]
NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
WORDS = {2: np.uint16, 4: np.uint32, 8: np.uint64}
START = {"max": "-inf", "min": "inf"}

ROWS = """program rows(A: DT[144, 3], out B: DT[144]) {
    alloc T: DT[1] @ local
    for i in 144 {
        block start[a: 1 = 0] { T[a] = START }
        for k in 3 { block extreme[a: 1 = 0, b: 144 = i, c: 3 @ opaque = k] { T[a] = OP(T[a], A[b, c]) } }
        block last[b: 144 = i] { B[b] = T[0] }
    }
}"""

LANES = """program lanes(A: DT[9, 16], out B: DT[1]) {
    alloc T: DT[1, 16] @ local
    alloc U: DT[1] @ local
    for l in 16 @ vectorized { block start[a: 1 = 0, v: 16 = l] { T[a, v] = START } }
    for k in 9, l in 16 @ vectorized {
        block extreme[a: 1 = 0, v: 16 = l, c: 9 @ opaque = k] { T[a, v] = OP(A[c, v], T[a, v]) }
    }
    block one[a: 1 = 0] { U[a] = START }
    for l in 16 @ unrolled { block join[a: 1 = 0, v: 16 @ opaque = l] { U[a] = OP(U[a], T[a, v]) } }
    block last[a: 1 = 0] { B[a] = U[a] }
}"""


def written(text: str, dtype: str, op: str) -> Program:
    return parse_program(text.replace("DT", dtype).replace("START", f"{dtype}({START[op]})").replace("OP", op))


def allocated(program: Program, target: Target = AVX512, **more: Any) -> dict[str, str]:
    """The type of each buffer that the kernel allocates."""
    module = lower(program, target, **more)
    return {s.buffer.name: s.buffer.dtype for s in walk(module.body) if isinstance(s, Allocate)}


def conversions(module: Module) -> int:
    return print_module(module).count("rank_")


def triples(dtype: str) -> np.ndarray:
    """Rows of three special values, every NaN with its sign and several payloads among them."""
    rows = np.array(list(itertools.product(VALUES, VALUES)), np.float64)
    wide = np.concatenate([rows, rows[:, :1]], 1)
    found = wide.astype(np.float32 if dtype == "bf16" else NUMPY[dtype])
    words = found.view(WORDS[found.dtype.itemsize])
    odd = np.isnan(found)
    odd[::2] = False
    words[odd] ^= words.dtype.type(1 << (16 if dtype == "bf16" else 0))
    return bfloat(found) if dtype == "bf16" else found


@pytest.mark.parametrize("target", [GENERIC, AVX2, AVX512], ids=lambda t: t.name)
@pytest.mark.parametrize("op", START)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_rows_of_special_values(dtype: str, op: str, target: Target) -> None:
    program, given = written(ROWS, dtype, op), triples(dtype)
    assert given.shape == (144, 3)
    assert allocated(program, target)["T"] == {"f16": "i16", "bf16": "i16", "f32": "i32", "f64": "i64"}[dtype]
    wanted = interpret.run(program, {"A": given}, bits=True)["B"]
    actual = run(program, given, target=target)
    assert same(widened(actual), widened(wanted)) if dtype == "bf16" else same(actual, wanted)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", [GENERIC, AVX2, AVX512], ids=lambda t: t.name)
@pytest.mark.parametrize("op", START)
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_lanes_of_special_values(dtype: str, op: str, target: Target) -> None:
    program = written(LANES, dtype, op)
    module = lower(program, target)
    assert {s.buffer.dtype[0] for s in walk(module.body) if isinstance(s, Allocate)} == {"i"}
    # Ranks that one buffer takes from the other need no conversion: both starts, what is read of A, the result.
    assert f"{op}(U[0], T[0, 3])" in print_module(module)
    for first in range(0, 144, 9):
        given = np.repeat(triples(dtype)[first : first + 9, :2], 8, axis=1)
        given[:, 1:] = np.where(np.isnan(given[:, 1:]) & (first % 2 == 0), NUMPY[dtype](0), given[:, 1:])
        assert same(run(program, given, target=target), interpret.run(program, {"A": given})["B"])


@pytest.mark.parametrize("text", [ROWS, LANES], ids=["rows", "lanes"])
@pytest.mark.parametrize("op", START)
def test_the_kernel_means_the_same_after_the_pass(text: str, op: str) -> None:
    program = written(text, "f32", op)
    shape = (144, 3) if text is ROWS else (9, 16)
    given = {"A": np.resize(triples("f32"), shape)}
    wanted = interpret.run(program, given)
    for name, module in stages(program, AVX512):
        verify(module)
        assert same(evaluator.run(module, given)["B"], wanted["B"]), name


ONLINE = """program p(A: f32[8], out B: f32[8]) {
    alloc T: f32[1] @ local
    block start[a: 1 = 0] { T[a] = f32(-inf) }
    for k in 8 {
        block running[a: 1 = 0, c: 8 @ opaque = k] { T[a] = max(T[a], A[c]) }
        block last[c: 8 = k] { B[c] = A[c] - T[0] }
    }
}"""
BOTH = """program p(A: f32[8], out B: f32[1]) {
    alloc T: f32[1] @ local
    block start[a: 1 = 0] { T[a] = 0.5 }
    for k in 8 {
        block lower[a: 1 = 0, c: 8 @ opaque = k] { T[a] = max(T[a], A[c]) }
        block upper[a: 1 = 0, c: 8 @ opaque = k] { T[a] = min(T[a], A[c]) }
    }
    block last[a: 1 = 0] { B[a] = T[a] }
}"""
WHOLE = """program p(A: i32[8], out B: i32[1]) {
    alloc T: i32[1] @ local
    block start[a: 1 = 0] { T[a] = 0 }
    for k in 8 { block most[a: 1 = 0, c: 8 @ opaque = k] { T[a] = max(T[a], A[c]) } }
    block last[a: 1 = 0] { B[a] = T[a] }
}"""


@pytest.mark.parametrize("text", [ONLINE, BOTH, WHOLE], ids=["needed in each iteration", "two operators", "integers"])
def test_where_ranks_do_not_pay_numbers_are_kept(text: str) -> None:
    program = parse_program(text)
    assert conversions(lower(program, AVX512)) == 0


def test_a_promise_and_a_checked_build_keep_numbers() -> None:
    program = written(ROWS, "f32", "max")
    assert allocated(program, replace(AVX512, nan_free=True))["T"] == "f32"
    assert allocated(program, AVX512, checked=True)["T"] == "f32"


MIXED = """program p(A: f32[9, 4], out B: f32[1]) {
    alloc T: f32[4] @ local
    alloc U: f32[1] @ local
    for i in 4 @ unrolled { block start[a: 4 = i] { T[a] = f32(-inf) } }
    for k in 9, i in 4 @ unrolled { block most[a: 4 = i, c: 9 @ opaque = k] { T[a] = max(T[a], A[c, a]) } }
    block one[a: 1 = 0] { U[a] = f32(inf) }
    for i in 4 @ unrolled { block least[a: 1 = 0, v: 4 @ opaque = i] { U[a] = min(U[a], T[v]) } }
    block last[a: 1 = 0] { B[a] = U[a] }
}"""


@pytest.mark.parametrize("odd", [None, 0, 17, 35])
@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00001])
def test_ranks_for_another_operator_are_converted(odd: int | None, bits: int) -> None:
    """A NaN stands last for a maximum and first for a minimum, so the least of maxima ranks the numbers anew."""
    program = parse_program(MIXED)
    module = lower(program, AVX512)
    assert "rank_min(unrank_max(T[" in print_module(module)
    given = np.random.default_rng(3).standard_normal((9, 4)).astype(np.float32)
    if odd is not None:
        given.view(np.uint32).flat[odd] = bits
    wanted = interpret.run(program, {"A": given})["B"]
    assert np.isnan(wanted[0]) == (odd is not None)
    assert same(run(program, given), wanted)
    assert same(evaluator.run(module, {"A": given})["B"], wanted)


def test_the_softmax_by_hand_keeps_ranks() -> None:
    softmax = ms.load(stdlib_folder() / "workloads" / "softmax.ms")
    given = np.random.default_rng(0).standard_normal((6, 37)).astype(np.float32)
    given[2, 5] = np.nan
    for name in ("by_row", "rows_vectorized"):
        scheduled = softmax.space(name, sizes={"M": 6, "N": 37}).sample(0).program
        assert allocated(scheduled)["largest"] == "i32"
        found = run(scheduled, given, target=AVX512)
        assert np.isnan(found[2]).all()
        assert np.allclose(np.delete(found, 2, 0).sum(1), 1.0, atol=1e-5)
