"""Ranges of parameters: `at: i32[N] in 0..V sorted`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference.interpret import run as interpret
from mslang.ir.equal import alpha_equal
from mslang.ir.print import print_program
from mslang.runtime.ranges import Bounds, violation
from mslang.sema.program import parse_program
from mslang.syntax.format import format_text
from mslang.tune.equivalence import difference
from mslang.tune.inputs import drawn
from mslang.tune.verification import DENSE, SPARSE, make_inputs
from tests.unit.llvm.support import loaded

GATHER = """program g[N = 8, V = 64](at: i32[N] {range}, table: f32[V], out y: f32[N]) {{
    block g[i: N] {{ y[i] = table[at[i]] }}
}}
"""


def gather(range: str) -> str:
    return GATHER.format(range=range)


@pytest.mark.parametrize("range", ["in 0..V", "in 1 .. V - 1 sorted", "in 0..V unique", "in 0..V sorted unique"])
def test_it_is_printed_and_read_back(range: str) -> None:
    p = parse_program(gather(range))
    assert parse_program(print_program(p)) == p and alpha_equal(parse_program(print_program(p)), p)
    assert alpha_equal(p, parse_program(gather(""))), "a range says what is given, not what is computed"
    formatted = format_text(gather(range))
    assert parse_program(formatted) == p and format_text(formatted) == formatted


@pytest.mark.parametrize(
    ("range", "message"),
    [
        ("in V", "the values of `at` are not a range"),
        ("in 5..5", "no value is at least 5 and less than 5"),
        ("in 0..V rising", "unknown property of an array `rising`"),
        ("in 0..V sorted sorted", "`sorted` stands twice"),
        ("in 0.5..1.5", "an index or size must be an integer"),
    ],
)
def test_what_is_no_range(range: str, message: str) -> None:
    with pytest.raises(ms.MsError) as error:
        parse_program(gather(range))
    assert message in error.value.diagnostic.message


def test_outputs_and_bools_have_none() -> None:
    for param in ("out y: f32[8] in 0..1", "b: bool[8] in 0..1, out y: f32[8]"):
        with pytest.raises(ms.MsError) as error:
            parse_program(f"program g({param}) {{ block g[i: 8] {{ y[i] = 0.0 }} }}")
        assert error.value.diagnostic.code == "MS129"


def rejected(arrays: dict[str, np.ndarray], range: str) -> Iterator[str]:
    p = parse_program(gather(range))
    for call in (lambda: interpret(p, arrays), lambda: loaded(p, checked=True)(*arrays.values())):
        with pytest.raises(ms.MsError) as error:
            call()
        assert error.value.diagnostic.code == "MS162"
        yield error.value.diagnostic.message


@pytest.mark.parametrize(
    ("range", "values", "message"),
    [
        ("in 0..V", [0, 1, 2, 63, 64, 5, 6, 7], "at[4] is 64, outside of 0..64"),
        ("in 2..V", [2, 3, 4, 1, 5, 5, 5, 5], "at[3] is 1, outside of 2..64"),
        ("in 0..V sorted", [0, 1, 2, 2, 1, 5, 6, 7], "at[4] is 1, less than the element before it"),
        ("in 0..V unique", [0, 1, 2, 3, 4, 5, 2, 7], "at[6] is 2, which it also holds before"),
    ],
)
def test_values_outside_are_refused(range: str, values: list[int], message: str) -> None:
    arrays = {"at": np.array(values, np.int32), "table": np.zeros(64, np.float32)}
    assert list(rejected(arrays, range)) == [message, message]


def test_values_inside_are_taken() -> None:
    p = parse_program(gather("in 0..V sorted"))
    arrays = {"at": np.array([0, 1, 1, 2, 9, 9, 63, 63], np.int32), "table": np.arange(64, dtype=np.float32)}
    assert np.array_equal(interpret(p, arrays)["y"], arrays["at"])
    assert np.array_equal(loaded(p, checked=True)(*arrays.values()), arrays["at"])


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "i64", "u16", "f16", "bf16", "f32", "f64"])
def test_what_is_drawn_keeps_to_the_range(dtype: str, whole: bool) -> None:
    from mslang.runtime.ranges import numbers

    for bounds in (Bounds(0, 100), Bounds(3, 100, sorted=True), Bounds(0, 101, unique=True), Bounds(7, 8)):
        for shape in ((), (1,), (50,), (2, 25)):
            if bounds.unique and dtype[0] in "fb":
                continue
            for seed in range(3):
                array = numbers(drawn(shape, dtype, bounds, whole, seed), dtype)
                assert violation("x", array, bounds) is None


def test_a_real_range_is_of_real_numbers() -> None:
    p = parse_program("program p(x: f32[200] in 0.25..0.5, out y: f32[200]) { block b[i: 200] { y[i] = log(x[i]) } }")
    for kind in (SPARSE, DENSE):
        x = make_inputs(p, kind, 1)["x"]
        assert x.min() >= 0.25 and x.max() < 0.5 and len(np.unique(x)) > 50


@pytest.mark.parametrize("kind", [SPARSE, DENSE])
@pytest.mark.parametrize(
    "range",
    [
        "f32[80] in 0.0..inf",
        "f32[80] in -inf..inf",
        "f16[80] in 50000.0..inf",
        "bf16[80] in -inf..-7.5",
        "f64[80] in 0.0..1e308",
        "f64[80] in -1e308..1.7e308",
        "f16[80] in 0.0..4096.0",
        "f16[80] in -3.0..65504.0",
        "f32[80] in 0.0..1073741824.0",
        "f32[80] in 0.0..1.0 unique",
        "f16[80] in 0.0..100.0 unique",
    ],
)
def test_ranges_of_floats_without_an_end_or_up_to_the_largest(range: str, kind: str) -> None:
    from mslang.runtime.ranges import numbers

    dtype = range.partition("[")[0]
    p = parse_program(f"program p(x: {range}, out y: {dtype}[80]) {{ block b[i: 80] {{ y[i] = x[i] }} }}")
    held = p.params[0].within
    assert held is not None
    low, high = (e.value for e in (held.low, held.high))
    x = numbers(make_inputs(p, kind, 1)["x"], dtype).astype(np.float64)
    assert np.isfinite(x).all() and len(np.unique(x)) > 5
    assert violation("x", x, Bounds(low, high, held.sorted, held.unique)) is None


def test_a_bound_that_the_type_does_not_have_is_refused() -> None:
    with pytest.raises(ms.MsError) as error:
        parse_program("program p(x: f16[8] in -3.0..1e9, out y: f16[8]) { block b[i: 8] { y[i] = x[i] } }")
    assert error.value.diagnostic.code == "MS123" and "does not fit into `f16`" in str(error.value)


def test_the_ends_are_among_what_is_drawn() -> None:
    x = drawn((40,), "i32", Bounds(0, 1000, sorted=True), False, 5)
    assert x[0] == 0 and x[-1] == 999


def test_too_many_different_values_are_one_message() -> None:
    with pytest.raises(ms.MsError) as error:
        make_inputs(parse_program(gather("in 0..4 unique")), DENSE, 0)
    assert error.value.diagnostic.code == "MS129"


CSR = """program spmv[N = 9, NNZ = 40](
    ptr: i32[N + 1] in 0 .. NNZ + 1 sorted, col: i32[NNZ] in 0..N, val: f32[NNZ], x: f32[N], out y: f32[N]
) {
    for i in N {
        block zero[r: N = i] { y[r] = 0.0 }
        for p in ptr[i]..ptr[i + 1] { block acc[r: N = i | q: NNZ = p] { init {} y[r] += val[q] * x[col[q]] } }
    }
}
schedule s for spmv { zero.loops()[0].unroll() }"""


def test_a_sparse_product_is_verified_on_valid_matrices() -> None:
    m = ms.parse(CSR)
    p = m.program()
    inputs = make_inputs(p, DENSE, 3)
    assert inputs["ptr"][0] == 0 and inputs["ptr"][-1] == 40 and (np.diff(inputs["ptr"]) >= 0).all()
    dense = np.zeros((9, 9))
    for i in range(9):
        for k in range(inputs["ptr"][i], inputs["ptr"][i + 1]):
            dense[i, inputs["col"][k]] += inputs["val"][k]
    assert np.allclose(interpret(p, inputs)["y"], dense @ inputs["x"], atol=1e-5)
    assert difference(p, m.space("s").sample(0).program, 1e-4, 1e-5, 0) is None
