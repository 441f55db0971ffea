"""Integer and floating operators, conversions, in scalars and in vectors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import mslang as ms
from mslang.ir.build import ProgramBuilder, spatial
from mslang.ir.operators import maximum, minimum, select
from mslang.target.detect import host
from tests.unit.llvm.support import binary_program, run

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
KINDS = ("serial", "vectorized")
NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bool": np.bool_} | {
    name: np.dtype(("uint" if name[0] == "u" else "int") + name[1:]).type for name in INTEGERS
}


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of values that matter: small ones of both signs and the extremes."""
    info = np.iinfo(NUMPY[dtype])
    values = [v for v in (0, 1, 2, 3, 5, 7, 8, -1, -2, -3, -7, -8, 100) if info.min <= v <= info.max]
    values += [info.min, info.min + 1, info.max, info.max - 1]
    x, z = np.array(list(itertools.product(values, values)), dtype=object).T
    return x.astype(NUMPY[dtype]), z.astype(NUMPY[dtype])


def in_python(op: Any, x: np.ndarray, z: np.ndarray, dtype: str) -> np.ndarray:
    """The operation on unbounded integers, wrapped to the type."""
    width, signed = int(dtype[1:]), dtype[0] == "i"
    out = []
    for a, b in zip(x.tolist(), z.tolist(), strict=True):
        v = op(a, b) & ((1 << width) - 1)
        out.append(v - (1 << width) if signed and v >> (width - 1) else v)
    return np.array(out, dtype=object).astype(NUMPY[dtype])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_arithmetic_wraps_and_division_floors(dtype: str, kind: str):
    x, z = pairs(dtype)
    for op in (lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a & b, lambda a, b: a ^ b):
        actual = run(binary_program(op, len(x), dtype, kind), x, z)
        assert np.array_equal(actual, in_python(op, x, z, dtype))
    some = z != 0
    for op in (lambda a, b: a // b, lambda a, b: a % b):
        actual = run(binary_program(op, len(x), dtype, kind), x, z)
        assert np.array_equal(actual[some], in_python(op, x[some], z[some], dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_by_constants_floors(dtype: str):
    x, _ = pairs(dtype)
    for divisor in (1, 2, 3, 7, 8) if dtype[0] == "u" else (1, 2, 3, 7, 8, -1, -2, -3):
        for op in (lambda a, b, d=divisor: a // d, lambda a, b, d=divisor: a % d):
            actual = run(binary_program(op, len(x), dtype), x, x)
            assert np.array_equal(actual, in_python(op, x, x, dtype)), divisor


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts(dtype: str):
    width = int(dtype[1:])
    x, _ = pairs(dtype)
    count = (np.arange(len(x)) % width).astype(NUMPY[dtype])
    for op in (lambda a, b: a << b, lambda a, b: a >> b):
        actual = run(binary_program(op, len(x), dtype), x, count)
        assert np.array_equal(actual, in_python(op, x, count, dtype))


@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "u8", "i64"])
def test_minimum_maximum_and_comparisons(dtype: str):
    x, z = pairs("i8") if dtype[0] == "f" else pairs(dtype)
    x, z = x.astype(NUMPY[dtype]), z.astype(NUMPY[dtype])
    assert np.array_equal(run(binary_program(minimum, len(x), dtype), x, z), np.minimum(x, z))
    assert np.array_equal(run(binary_program(maximum, len(x), dtype), x, z), np.maximum(x, z))
    chosen = run(binary_program(lambda a, b: select((a < b) | a.equals(b), a, b - a), len(x), dtype), x, z)
    with np.errstate(over="ignore"):
        assert np.array_equal(chosen, np.where(x <= z, x, z - x))


@pytest.mark.parametrize("kind", KINDS)
def test_floating_operators_round_as_ieee(kind: str):
    random = np.random.default_rng(1)
    for dtype in ("f16", "f32", "f64"):
        x, z = (random.uniform(-4, 4, 100).astype(NUMPY[dtype]) for _ in "xz")
        for op in (lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: -a):
            assert np.array_equal(run(binary_program(op, 100, dtype, kind), x, z), op(x, z))


def converting(source: str, dtype: str, count: int) -> Any:
    b = ProgramBuilder("convert")
    x, y = b.input("X", (count,), source), b.output("Y", (count,), dtype)
    with b.loop("i0", count, kind="vectorized") as i0, b.block("y", spatial("i", count, at=i0)) as (i,):
        y[i] = x[i].cast(dtype)
    return b.finish()


@pytest.mark.parametrize("source", ["i8", "u8", "i32", "u64", "f16", "f32", "f64", "bool"])
def test_conversions(source: str):
    x = np.array([0, 1, 2, 3, 100, 0, 7, 50, 1, 120, 5]).astype(NUMPY[source])
    for dtype in ("i8", "u8", "i16", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bool"):
        assert np.array_equal(run(converting(source, dtype, len(x)), x), x.astype(NUMPY[dtype])), dtype
    if source[0] in "if":
        negative = (-x.astype(np.float32)).astype(NUMPY[source])
        for dtype in ("i8", "i32", "f32", "f64"):
            actual = run(converting(source, dtype, len(x)), negative)
            assert np.array_equal(actual, negative.astype(NUMPY[dtype])), dtype


def bfloat(x: np.ndarray) -> np.ndarray:
    """The bits of bf16, rounded to nearest even."""
    word = x.astype(np.float32).view(np.uint32)
    return ((word + 0x7FFF + ((word >> 16) & 1)) >> 16).astype(np.uint16)


def widened(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.uint32) << 16).view(np.float32)


def test_bfloat_is_computed_in_single_precision_and_rounded():
    random = np.random.default_rng(2)
    x, z = (bfloat(random.uniform(-100, 100, 50)) for _ in "xz")
    for op in (lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b):
        actual = run(binary_program(op, 50, "bf16"), x, z)
        assert np.array_equal(actual, bfloat(op(widened(x), widened(z))))


@pytest.mark.parametrize("dtype", ["i8", "i32", "i64"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_integer_divided_by_minus_one_wraps_whatever_is_done_with_it(dtype: str, kind: str):
    x, _ = pairs(dtype)
    actual = run(binary_program(lambda a, _: (a // -1 > 0).cast(dtype), len(x), dtype, kind), x, x)
    with np.errstate(over="ignore"):
        assert np.array_equal(actual, (-x > 0).astype(x.dtype))


@pytest.mark.parametrize("op", ["//", "%"])
@pytest.mark.parametrize(("dtype", "n"), [("i32", 13), ("i64", 7), ("u8", 50), ("i16", 29), ("u32", 13)])
def test_lanes_that_do_not_act_divide_by_nothing(dtype: str, n: int, op: str) -> None:
    """The tail of a row on the stack is not defined, and a vector that is divided by it was not either."""
    text = f"""program p(A: {dtype}[{n}], out B: {dtype}[{n}]) {{
        alloc t: {dtype}[{n}]
        block c[i: {n}] {{ t[i] = {dtype}(3) }}
        block d[i: {n}] {{ B[i] = A[i] {op} t[i] }}
    }}
    schedule s for p {{ c.i.unroll()
        d.i.vectorize()
        c.set_scope(t, local) }}"""
    a = np.arange(n).astype({"i": "int", "u": "uint"}[dtype[0]] + dtype[1:])
    found = ms.build(ms.parse(text).space("s").attempt(0).program)(a)
    assert np.array_equal(found, a // 3 if op == "//" else a % 3)


@pytest.mark.parametrize("target", ["avx2", None])
def test_a_vector_of_constants_may_hold_a_divisor_of_0(target: str | None) -> None:
    text = """program p(A: i64[8], K: bool[8], out B: i64[8]) {
        block d[i: 8] { B[i] = select(K[i], A[i] // i, 7) }
    }
    schedule s for p { d.i.vectorize() }"""
    a, k = np.arange(8) * 9, np.array([0, 1, 0, 1, 1, 1, 0, 1], bool)
    if target is not None and not host().has("avx2"):
        pytest.skip("this machine has no AVX2")
    found = ms.build(ms.parse(text).space("s").attempt(0).program, target)(a, k)
    assert np.array_equal(found, np.where(k, 9, 7))
