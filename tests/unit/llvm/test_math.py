"""Accuracy of the math functions against the C library in double precision, and special values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mslang.backend.reference.numeric import FLOAT_FUNCTIONS
from tests.unit.llvm.support import function_of_one, function_of_two, loaded

COUNT = 1 << 16


def units(actual: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The distance in units of the last place of the wanted value (0 where both are NaN or equal)."""
    step = np.maximum(np.spacing(np.abs(wanted)), np.finfo(wanted.dtype).smallest_subnormal)
    same = (actual == wanted) | (np.isnan(actual) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        return np.where(same, 0.0, np.abs(actual.astype(np.float64) - wanted.astype(np.float64)) / step)


def exact(name: str, *xs: np.ndarray) -> np.ndarray:
    f = FLOAT_FUNCTIONS[name]
    return np.array([f(*map(float, x)) for x in zip(*xs, strict=True)])


def points(low: float, high: float, dtype: type) -> np.ndarray:
    """Evenly spread values, values spread over all magnitudes, and the special ones."""
    random = np.random.default_rng(7)
    even = np.linspace(low, high, COUNT // 2)
    scale = 2.0 ** random.uniform(-60, 7, COUNT // 2 - 64) * random.choice([-1, 1], COUNT // 2 - 64)
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.625, -0.625, 1e-38, -1e-38, 1e-45, 88.7, -103.9]
    padded = np.resize(np.array(special), 64)
    return np.concatenate([even, scale, padded]).astype(dtype)


@pytest.mark.parametrize(
    ("name", "low", "high", "limit"),
    [
        ("exp", -104, 89, 2),
        ("log", 0, 1e6, 2),
        ("tanh", -10, 10, 3),
        ("sigmoid", -100, 100, 3),
        ("erf", -5, 5, 3),
        ("sqrt", 0, 1e9, 0.5),
        ("rsqrt", 0, 1e9, 1.5),
        ("floor", -1e6, 1e6, 0),
        ("ceil", -1e6, 1e6, 0),
        ("round", -1e3, 1e3, 0),
        ("abs", -1, 1, 0),
    ],
)
def test_f32_functions_are_within_their_stated_error(name: str, low: float, high: float, limit: float):
    x = points(low, high, np.float32)
    with np.errstate(over="ignore"):
        wanted = exact(name, x).astype(np.float32)
    error = units(loaded(function_of_one(name, COUNT))(x), wanted)
    worst = int(error.argmax())
    assert error.max() <= max(limit, 0.5), f"{name}({x[worst]!r}) is off by {error.max()} units"


@pytest.mark.parametrize(
    ("name", "low", "high", "limit"),
    [
        ("exp", -746, 710, 2),
        ("log", 0, 1e6, 2),
        ("tanh", -20, 20, 3),
        ("sigmoid", -700, 700, 4),
        ("erf", -5, 5, 1),
    ],
)
def test_f64_functions_are_within_their_stated_error(name: str, low: float, high: float, limit: float):
    x = points(low, high, np.float64)
    error = units(loaded(function_of_one(name, COUNT, "f64"))(x), exact(name, x))
    worst = int(error.argmax())
    assert error.max() <= limit, f"{name}({x[worst]!r}) is off by {error.max()} units"


def test_pow_is_right_on_values_and_special_cases():
    random = np.random.default_rng(3)
    x = random.uniform(0, 20, COUNT).astype(np.float32)
    y = random.uniform(-25, 25, COUNT).astype(np.float32)
    special = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 2.5, math.inf, -math.inf, math.nan, 1e30, -7.0]
    pairs = [(a, b) for a in special for b in special]
    x[: len(pairs)], y[: len(pairs)] = np.array(pairs, np.float32).T
    with np.errstate(over="ignore"):
        wanted = exact("pow", x, y).astype(np.float32)
    error = units(loaded(function_of_two("pow", COUNT))(x, y), wanted)
    worst = int(error.argmax())
    assert error.max() <= 2, f"pow({x[worst]!r}, {y[worst]!r}) is off by {error.max()} units"


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "erf"])
def test_a_scalar_gives_the_bits_of_a_vector(name: str):
    x = points(-10, 10, np.float32)
    vector = loaded(function_of_one(name, COUNT))(x)
    scalar = loaded(function_of_one(name, COUNT, kind="serial"))(x)
    assert np.array_equal(vector.view(np.uint32), scalar.view(np.uint32))


def test_half_precision_functions_round_the_single_precision_result():
    x = np.linspace(-8, 8, 1024).astype(np.float16)
    wanted = np.tanh(x.astype(np.float64)).astype(np.float16)
    error = units(loaded(function_of_one("tanh", 1024, "f16"))(x), wanted)
    assert error.max() <= 1
