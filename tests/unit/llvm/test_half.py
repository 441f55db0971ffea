"""f16 where a processor cannot convert it: every value, and every way of rounding to one."""

import numpy as np
import pytest

import mslang as ms
from mslang.backend.llvm.half import conversions
from mslang.target.description import AVX2, GENERIC

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def kernel(body: str, given: str, result: str, count: int):
    text = f"program p(x: {given}[{count}], out y: {result}[{count}]) {{ block b[i: {count}] {{ y[i] = {body} }} }}"
    return ms.build(ms.parse(text).program("p"), target=GENERIC)


def test_all_halves_widened():
    for wide, dtype in (("f32", np.float32), ("f64", np.float64)):
        y = kernel(f"{wide}(x[i])", "f16", wide, len(HALVES))(HALVES)
        assert np.array_equal(y, HALVES.astype(dtype), equal_nan=True)
        assert np.array_equal(np.signbit(y), np.signbit(HALVES))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_between_all_halves(dtype: type):
    finite = np.sort(HALVES[np.isfinite(HALVES)].astype(np.float64))
    middle = (finite[1:] + finite[:-1]) / 2
    edges = np.array([65519.99, 65520.0, 65536.0, 1e30, np.inf, -np.inf, np.nan, 2.0**-25, 2.0**-26, -(2.0**-25)])
    exact = np.concatenate([finite, middle, edges]).astype(dtype)
    x = np.concatenate([exact, np.nextafter(exact, dtype(np.inf)), np.nextafter(exact, dtype(-np.inf))])
    y = kernel("f16(x[i])", "f32" if dtype is np.float32 else "f64", "f16", len(x))(x)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    assert np.array_equal(y, expected, equal_nan=True) and np.array_equal(np.signbit(y), np.signbit(expected))


def test_arithmetic_rounds_each_operation():
    random = np.random.default_rng(1)
    x = random.integers(0, 1 << 16, 4096, np.uint16).view(np.float16)
    y = kernel("x[i] * x[i] + f16(1.0)", "f16", "f16", len(x))(x)
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.array_equal(y, x * x + np.float16(1), equal_nan=True)


def test_what_converts_by_instructions_has_no_functions():
    triple = "x86_64-unknown-linux-gnu"
    assert "@__truncsfhf2" in conversions("load half", GENERIC, triple)
    assert not conversions("load half", AVX2, triple)
    assert not conversions("load float", GENERIC, triple)
    assert not conversions("load half", GENERIC, "aarch64-unknown-linux-gnu")
