"""The functions of the language: errors as `docs/language.md` states them, special values, types."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference.interpret import run as interpret
from mslang.ir import operators
from mslang.ir.build import ProgramBuilder, spatial
from mslang.ir.functions import FUNCTIONS, Domain, evaluated
from mslang.ir.program import Program
from mslang.sema.program import parse_program
from mslang.target.description import AVX2
from mslang.target.detect import host
from tests.unit.llvm.support import function_of_one, function_of_two, loaded, run

COUNT = 1 << 16
NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
DOCS = Path(__file__).parents[3] / "docs" / "language.md"
RANGES: Mapping[str, tuple[float, float]] = {
    "exp": (-746, 710),
    "exp2": (-1080, 1030),
    "expm1": (-50, 710),
    "log": (0, 1e6),
    "log2": (0, 1e6),
    "log1p": (-1, 1e6),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "sinh": (-711, 711),
    "cosh": (-711, 711),
    "tanh": (-22, 22),
    "sigmoid": (-745, 745),
    "erf": (-6, 6),
    "sqrt": (0, 1e9),
    "rsqrt": (0, 1e9),
}
LONG: Mapping[str, Callable[..., np.ndarray]] = {
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "round": np.round,
    "abs": np.abs,
    "pow": np.power,
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log1p", "cbrt", "sqrt", "fmod")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc")},
}
"""NumPy's functions, which compute in as many digits as they are given."""

FLOATS = [name for name, f in FUNCTIONS.items() if f.domain is not Domain.INTEGER and not f.truth]
UNARY = [name for name in FLOATS if FUNCTIONS[name].arity == 1]
BINARY = [name for name in FLOATS if FUNCTIONS[name].arity == 2]
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.5,
    3.0,
    math.inf,
    -math.inf,
    math.nan,
    1e30,
    -1e-30,
    1e-42,
    88.7,
    1e7,
]


def stated() -> dict[str, tuple[int, int]]:
    """The errors that the reference states, f32 and f64."""
    rows = re.findall(r"^\| (`[^|]*`) \| (\d+) \| (\d+) \|", DOCS.read_text(), re.M)
    return {name: (int(a), int(b)) for names, a, b in rows for name in re.findall(r"`(\w+)\(", names)}


def points(low: float, high: float, dtype: type) -> np.ndarray:
    """Even steps, all magnitudes, values around 1, and special ones."""
    random = np.random.default_rng(11)
    even = np.linspace(low, high, COUNT // 2)
    scale = 2.0 ** random.uniform(-60, 25, COUNT // 4) * random.choice([-1, 1], COUNT // 4)
    near = random.uniform(-1.5, 1.5, COUNT // 4 - 64)
    most = float(np.finfo(dtype).max)
    special = np.resize([*SPECIAL, most, -most, float(np.finfo(dtype).smallest_subnormal)], 64)
    with np.errstate(over="ignore"):
        return np.concatenate([even, scale, near, special]).astype(dtype)


def wanted(name: str, *xs: np.ndarray) -> np.ndarray:
    """The results, with more digits than the arguments have."""
    if xs[0].dtype == np.float64 and name in LONG and np.finfo(np.longdouble).nmant > 60:
        with np.errstate(all="ignore"):
            return LONG[name](*(x.astype(np.longdouble) for x in xs))
    dtype = {np.dtype(np.float16): "f16", np.dtype(np.float32): "f32"}.get(xs[0].dtype, "f64")
    return np.array([evaluated(name, tuple(map(float, x)), dtype) for x in zip(*xs, strict=True)])


def units(actual: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The distance in units of the last place; infinite where a special value or the sign of a zero is another."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(actual.dtype)
        step = np.maximum(np.spacing(np.abs(rounded)), np.finfo(actual.dtype).smallest_subnormal)
        error = np.abs(actual.astype(exact.dtype) - exact) / step.astype(exact.dtype)
    same = (actual == rounded) & (np.signbit(actual) == np.signbit(rounded)) | (np.isnan(actual) & np.isnan(rounded))
    zero = (actual == 0) & (rounded == 0)
    special = ~np.isfinite(actual) | ~np.isfinite(rounded) | zero
    wrong = np.where(special | np.isnan(error), np.inf, error)
    return np.where(same, np.minimum(np.nan_to_num(error, nan=0.0), 0.5), wrong).astype(float)


def require(name: str, actual: np.ndarray, xs: tuple[np.ndarray, ...], limit: float) -> None:
    error = units(actual, wanted(name, *xs))
    worst = int(error.argmax())
    at = ", ".join(repr(x[worst]) for x in xs)
    assert error.max() <= max(limit, 0.5), f"{name}({at}) is {actual[worst]!r}, off by {error.max()} units"


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", UNARY)
def test_a_function_is_within_its_stated_error(name: str, dtype: str):
    low, high = RANGES.get(name, (-200.0, 200.0))
    x = points(low, high, NUMPY[dtype])
    require(name, loaded(function_of_one(name, COUNT, dtype))(x), (x,), stated()[name][dtype == "f64"])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_is_within_its_stated_error(name: str, dtype: str):
    random = np.random.default_rng(3)
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)))
    count = COUNT // 2
    small = random.uniform(0.1 if name == "pow" else -20, 20, count), random.uniform(-20, 20, count)
    wide = (2.0 ** random.uniform(-9, 9, count) * random.choice([-1, 1], count) for _ in "xy")
    x, y = (np.concatenate([p, a, b]).astype(NUMPY[dtype]) for p, a, b in zip(pairs.T, small, wide, strict=True))
    actual = loaded(function_of_two(name, len(x), dtype))(x, y)
    require(name, actual, (x, y), stated()[name][dtype == "f64"])


@pytest.mark.parametrize("name", UNARY)
def test_all_halves(name: str):
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    actual = loaded(function_of_one(name, 1 << 16, "f16"))(x)
    require(name, actual, (x,), 1)


@pytest.mark.parametrize("name", UNARY)
def test_all_bfloats(name: str):
    bits = np.arange(1 << 16, dtype=np.uint16)
    actual = loaded(function_of_one(name, 1 << 16, "bf16"))(bits)
    exact = wanted(name, (bits.astype(np.uint32) << 16).view(np.float32)).astype(np.float32)
    got = (actual.astype(np.uint32) << 16).view(np.float32)
    expected = (to_bfloat(exact).astype(np.uint32) << 16).view(np.float32)
    both = np.isnan(got) & np.isnan(expected)
    apart = np.abs(ordered(actual) - ordered(to_bfloat(exact)))
    wrong = ~both & ((apart > 1) | (np.isnan(got) != np.isnan(expected)) | (np.signbit(got) != np.signbit(expected)))
    first = int(wrong.argmax())
    assert not wrong.any(), f"{name} of bits {bits[first]:#x} is {got[first]!r} instead of {expected[first]!r}"


def to_bfloat(x: np.ndarray) -> np.ndarray:
    """Bits of the nearest bf16, ties to even; NaN stays one."""
    word = x.view(np.uint32).astype(np.uint64)
    rounded = (word + 0x7FFF + (word >> 16 & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


def ordered(bits: np.ndarray) -> np.ndarray:
    """Numbers that follow one another as the values of these bf16 do; both zeros are 0."""
    size = (bits & 0x7FFF).astype(np.int64)
    return np.where(bits >> 15 == 1, -size, size)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", UNARY)
def test_a_scalar_gives_the_bits_of_a_vector(name: str, dtype: str):
    low, high = RANGES.get(name, (-200.0, 200.0))
    x = points(low, high, NUMPY[dtype])[::64].copy()
    vector, scalar = (loaded(function_of_one(name, len(x), dtype, kind))(x) for kind in ("vectorized", "serial"))
    assert np.array_equal(vector, scalar, equal_nan=True) and np.array_equal(np.signbit(vector), np.signbit(scalar))


def functions_program(count: int, dtype: str, kind: str, less: bool) -> Program:
    """Every function of `X`, each in a row of `Y`; with `less`, minus the same element of `Z`."""
    b = ProgramBuilder("rows")
    x, z = b.input("X", (count,), dtype), b.input("Z", (len(UNARY), count), dtype)
    y = b.output("Y", (len(UNARY), count), dtype)
    for row, name in enumerate(UNARY):
        with b.loop(f"i_{name}", count, kind=kind) as i0, b.block(name, spatial("i", count, at=i0)) as (i,):
            value = operators.call(name, x[i])
            y[row, i] = value - z[row, i] if less else value
    return b.finish()


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_function_rounds_before_what_is_done_with_it(dtype: str, kind: str):
    # A last product that is fused with a sum outside keeps too many digits, and infinities stay finite.
    x = points(-1080, 1030, NUMPY[dtype])[::128].copy()
    target = AVX2 if host().has("avx2") else None
    none = np.zeros((len(UNARY), len(x)), x.dtype)
    plain = run(functions_program(len(x), dtype, kind, less=False), x, none, target=target)
    rest = run(functions_program(len(x), dtype, kind, less=True), x, plain, target=target)
    with np.errstate(invalid="ignore"):
        wrong = ~np.equal(rest, plain - plain) & ~np.isnan(plain - plain)
        wrong |= np.isnan(plain - plain) & ~np.isnan(rest)
    found = [(UNARY[row], float(x[i])) for row, i in zip(*wrong.nonzero(), strict=True)]
    assert not found, found[:8]


@pytest.mark.campaign
@pytest.mark.parametrize("name", UNARY)
def test_sixteen_million_singles(name: str):
    """One of each 256 neighbours, at a place that changes."""
    step = 1 << 20
    kernel, double = loaded(function_of_one(name, step)), loaded(function_of_one(name, step, "f64"))
    limit = max(stated()[name][0], 0.5)
    for start in range(0, 1 << 24, step):
        k = np.arange(start, start + step, dtype=np.uint64)
        x = ((k << 8) + (k * 2654435761 >> 7 & 255)).astype(np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            error = units(kernel(x), double(x.astype(np.float64)))
        worst = int(error.argmax())
        assert error.max() <= limit, f"{name}({x[worst]!r}) is off by {error.max()} units"


@pytest.mark.campaign
@pytest.mark.parametrize("name", UNARY)
def test_every_single(name: str):
    step = 1 << 22
    kernel = loaded(function_of_one(name, step))
    double = LONG.get(name) or loaded(function_of_one(name, step, "f64"))
    limit = max(stated()[name][0], 0.5)
    for start in range(0, 1 << 32, step):
        x = np.arange(start, start + step, dtype=np.uint64).astype(np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            error = units(kernel(x), double(x.astype(np.float64)))
        worst = int(error.argmax())
        assert error.max() <= limit, f"{name}({x[worst]!r}) is off by {error.max()} units"


# ------------------------------------------------------------------ the others
@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
def test_bits_of_integers(dtype: str, kind: str):
    info = np.iinfo(("uint" if dtype[0] == "u" else "int") + dtype[1:])
    values = [0, 1, 2, 3, 5, 100, 127, info.max, info.max - 1, info.min, info.min + 1]
    x = np.array(values, info.dtype)
    for name in ("popcount", "clz"):
        expected = [evaluated(name, (v,), dtype) for v in values]
        program = function_of_one(name, len(x), dtype, kind)
        assert run(program, x).tolist() == expected
        assert interpret(program, {"X": x})["Y"].tolist() == expected


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_kinds_of_numbers(dtype: str):
    text = f"""program p(x: {dtype}[17], out n: bool[17], out i: bool[17], out y: {dtype}[17]) {{
        block b[k: 17] {{ n[k] = isnan(x[k])  i[k] = isinf(x[k])
            y[k] = select(n[k] or i[k], 0.0, x[k]) }}
    }}
    schedule v for p {{ b.k.vectorize() }}"""
    m = ms.parse(text)
    x = np.array(SPECIAL).astype(NUMPY[dtype])
    for program in (m.program(), m.space("v").sample(0).program):
        for n, i, y in (ms.build(program)(x), interpret(program, {"x": x}).values()):
            assert np.array_equal(np.asarray(n, bool), np.isnan(x)) and np.array_equal(np.asarray(i, bool), np.isinf(x))
            assert np.isfinite(y).all()


def test_every_function_is_documented_and_interpreted():
    assert set(stated()) | {"popcount", "clz"} == set(FUNCTIONS)
    for name, f in FUNCTIONS.items():
        dtype = "i32" if f.domain is Domain.INTEGER else "f32"
        result = f.result(dtype)
        args = ", ".join(["x[i]"] * f.arity)
        text = f"program p(x: {dtype}[3], out y: {result}[3]) {{ block b[i: 3] {{ y[i] = {name}({args}) }} }}"
        program = parse_program(text)
        x = np.array([1, 1, 1], np.int32 if dtype == "i32" else np.float32)
        expected = evaluated(name, (1,) * f.arity, dtype)
        found = interpret(program, {"x": x})["y"]
        assert np.allclose(found, expected), name


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("sin(n[i])", "`sin` needs a floating-point number, not `i32`"),
        ("popcount(x[i])", "`popcount` needs an integer, not `f32`"),
        ("isnan(x[i])", "`bool`"),
        ("atan2(x[i])", "`atan2` takes 2 arguments, not 1"),
    ],
)
def test_types_are_checked(call: str, message: str):
    text = f"program p(x: f32[3], n: i32[3], out y: f32[3]) {{ block b[i: 3] {{ y[i] = {call} }} }}"
    with pytest.raises(ms.MsError) as error:
        parse_program(text)
    assert message in error.value.diagnostic.message
