"""`min` and `max` of floats: IEEE 754-2019's `minimum` and `maximum`, in the interpreter, in LLVM and in NumPy."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import mslang as ms
from mslang.backend.reference.interpret import run as interpret
from mslang.ir.build import ProgramBuilder, spatial
from mslang.ir.operators import Value, maximum, minimum
from mslang.ir.program import Program
from mslang.sema.modules import load
from mslang.sema.targets import describe
from mslang.target.description import AVX2, AVX512, GENERIC, Target
from tests.unit.llvm.support import binary_program, executable, run

VALUES = [0.0, -0.0, 1.0, -1.0, 1.5, -2.0, math.inf, -math.inf, math.nan]
X, Z = (np.array(v) for v in zip(*itertools.product(VALUES, VALUES), strict=True))
NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
OPERATIONS = {"min": minimum, "max": maximum}


def reference(op: str, x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """NumPy's answer; of two zeros it keeps the first, where IEEE takes -0 for the lesser."""
    wanted = np.minimum(x, z) if op == "min" else np.maximum(x, z)
    zeros = (x == 0) & (z == 0)
    sign = np.signbit(x) | np.signbit(z) if op == "min" else np.signbit(x) & np.signbit(z)
    return np.where(zeros, np.where(sign, -0.0, 0.0).astype(x.dtype), wanted)


def bfloat(x: np.ndarray) -> np.ndarray:
    """The bits of values that bf16 holds exactly."""
    return (x.view(np.uint32) >> 16).astype(np.uint16)


def widened(bits: Any) -> np.ndarray:
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def same(actual: Any, wanted: Any) -> bool:
    """Equal in every bit but those of a NaN."""
    a, w = np.asarray(actual), np.asarray(wanted)
    return bool(np.all((np.isnan(a) & np.isnan(w)) | ((a == w) & (np.signbit(a) == np.signbit(w)))))


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("dtype", NUMPY)
def test_llvm_and_numpy_agree_on_all_pairs_of_special_values(dtype: str, kind: str, op: str):
    x, z = X.astype(NUMPY[dtype]), Z.astype(NUMPY[dtype])
    actual = run(binary_program(OPERATIONS[op], len(x), dtype, kind), x, z)
    assert same(actual, reference(op, x, z))


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("kind", ["serial", "vectorized"])
def test_bfloat_agrees_too(kind: str, op: str):
    x, z = X.astype(np.float32), Z.astype(np.float32)
    bits = [bfloat(v) for v in (x, z)]
    actual = run(binary_program(OPERATIONS[op], len(x), "bf16", kind), *bits)
    assert same(widened(actual), reference(op, x, z))


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_the_interpreter_agrees(dtype: str, op: str):
    x, z = X.astype(np.float64), Z.astype(np.float64)
    given = {
        k: bfloat(v.astype(np.float32)) if dtype == "bf16" else v.astype(NUMPY[dtype])
        for k, v in zip("XZ", (x, z), strict=True)
    }
    actual = interpret(binary_program(OPERATIONS[op], len(x), dtype, "serial"), given, bits=True)["Y"]
    assert same(widened(actual) if dtype == "bf16" else actual, reference(op, x, z))


def with_constant(op: str, value: float, dtype: str, kind: str, swapped: bool) -> Program:
    b = ProgramBuilder("apply")
    x, y = b.input("X", (len(VALUES),), dtype), b.output("Y", (len(VALUES),), dtype)
    with b.loop("i0", len(VALUES), kind=kind) as i0, b.block("y", spatial("i", len(VALUES), at=i0)) as (i,):
        loaded: Value = x[i]
        y[i] = OPERATIONS[op](value, loaded) if swapped else OPERATIONS[op](loaded, value)
    return b.finish()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_constant_on_either_side(op: str, value: float, swapped: bool):
    for dtype, kind in itertools.product(NUMPY, ("serial", "vectorized")):
        x = np.array(VALUES, NUMPY[dtype])
        actual = run(with_constant(op, value, dtype, kind, swapped), x)
        assert same(actual, reference(op, x, np.full_like(x, value))), (dtype, kind)


@pytest.mark.parametrize("target", [GENERIC, AVX2, AVX512], ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("kind", ["serial", "vectorized"])
def test_no_library_is_called_and_nothing_branches_on_a_value(target: Target, dtype: str, kind: str):
    for program in (binary_program(maximum, 64, dtype, kind), with_constant("max", 0.0, dtype, kind, False)):
        code = executable(program, target).assembly
        assert not re.search(r"\bcallq?\s+\S*(max|min)", code)
        assert not re.search(r"\bj(s|ns|p|np)\b", code)


def test_a_target_may_promise_that_there_is_no_nan():
    text = """
        target quick = cpu { nan_free = true }
        program p(A: f32[64], B: f32[64], out C: f32[64]) { block c[i: 64] { C[i] = max(A[i], B[i]) } }
        schedule v for p on quick { c.i.vectorize() }
        schedule w for p { c.i.vectorize() }
    """
    m = ms.parse(text)
    program = m.space("v").sample(0).program
    promised, plain = replace(AVX512, nan_free=True), AVX512
    assert "maximum" in executable(program, plain).llvm and "maximum" not in executable(program, promised).llvm
    x = np.arange(64, dtype=np.float32)
    quick = describe(load("main.ms", text), "quick")
    assert quick.nan_free and quick.fields["nan_free"] is True
    assert np.array_equal(run(program, x, x[::-1].copy(), target=quick), np.maximum(x, x[::-1]))


def test_the_promise_is_a_truth_value():
    with pytest.raises(ms.MsError, match="`nan_free` is `true` or `false`"):
        describe(load("main.ms", "target quick = cpu { nan_free = 1 }"), "quick")


@pytest.mark.parametrize("steps", ["", "reorder(b, a)", "let r = b.rfactor()", "let r = b.rfactor() r.b.vectorize()"])
def test_schedules_keep_a_maximum_with_nan_and_zeros(steps: str):
    m = ms.parse(
        "program t(X: f32[4, 8], out Y: f32[4]) { block m[i: 4 | k: 8] { Y[i] = max(Y[i], X[i, k]) } }\n"
        f"schedule s for t {{ let a, b = m.k.split([2, 4]) {steps} }}"
    )
    x = np.full((4, 8), -1, np.float32)
    x[0, 3], x[0, 5], x[1, 2], x[2, 6], x[2, 1], x[3, :] = 100, np.nan, np.nan, 0.0, -0.0, -0.0
    program = m.space("s").sample(0).program
    wanted = np.array([np.nan, np.nan, 0.0, -0.0], np.float32)
    assert same(ms.build(program)(x), wanted)
    assert same(interpret(program, {"X": x})["Y"], wanted)
