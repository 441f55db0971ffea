"""Sums and products of data wrap round: no order, quotient or minimum is taken from their exact values."""

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference.interpret import run
from mslang.ir.arith import decide, proved, simplify
from mslang.ir.arith.verdict import Verdict
from mslang.ir.expr import Expr, Select
from mslang.ir.print import print_expr
from mslang.ir.program import Block, Store
from mslang.ir.visit import walk
from mslang.sema.program import parse_program


def condition(text: str) -> Expr:
    program = parse_program(f"""program p(U: i64[4], V: i32[4], F: f64[4], out O: i64[4]) {{
        block b[k: 4] {{ O[k] = select({text}, 1, 0) }}
    }}""")
    (value,) = (s.value for b in walk(program.body) if isinstance(b, Block) for s in b.body if isinstance(s, Store))
    assert isinstance(value, Select)
    return value.condition


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("U[0] + U[0] <= 1", "U[0] * 2 <= 1"),
        ("U[0] < U[0] + 1", "U[0] < U[0] + 1"),
        ("U[0] * 2 // 2 == U[0]", "U[0] * 2 // 2 == U[0]"),
        ("min(U[0] + 1, U[0]) == U[0]", "min(U[0] + 1, U[0]) == U[0]"),
        ("-U[0] < 5", "-U[0] < 5"),
        ("i64(F[0]) + 1 > i64(F[0])", "i64(F[0]) + 1 > i64(F[0])"),
        ("i64(V[0]) * 8589934592 > 0", "i64(V[0]) * 8589934592 > 0"),
        ("i64(V[0]) * i64(V[1]) * i64(V[2]) // i64(V[1]) == 1", "i64(V[0]) * i64(V[1]) * i64(V[2]) // i64(V[1]) == 1"),
        ("U[0] >= k", "U[0] >= k"),
        ("U[0] > k + 3", "U[0] > k + 3"),
        ("U[0] < 5 - k", "U[0] < 5 - k"),
        ("U[0] <= U[1]", "U[0] <= U[1]"),
        ("U[0] <= 9223372036854775807", "U[0] <= 9223372036854775807"),
        ("U[0] // -2 > k", "U[0] // -2 > k"),
    ],
)
def test_what_may_overflow_stays_as_it_is(given: str, made: str) -> None:
    assert print_expr(simplify(condition(given))) == made
    assert decide(condition(given)) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("U[0] + k == k + U[0]", "true"),
        ("U[0] + 3 - U[0] > 2", "true"),
        ("U[0] % 8 + k < 11 + k", "true"),
        ("i64(V[0]) + i64(V[0]) <= 1", "i64(V[0]) < 1"),
        ("i64(V[0]) < i64(V[0]) + 1", "true"),
        ("i64(V[0]) * 1024 + k * 8 + k >= k * 9", "i64(V[0]) >= 0"),
        ("i64(V[0]) * 1024 + k >= i64(V[0]) * 1024", "k >= 0"),
        ("U[0] < 4 + 1", "U[0] < 5"),
    ],
)
def test_what_cannot_overflow_is_simplified(given: str, made: str) -> None:
    assert print_expr(simplify(condition(given))) == made
    assert proved(condition(given)) == (made == "true")


def test_a_predicate_of_data_means_the_same_after_a_change_of_its_axes() -> None:
    """Pair 10807 of the campaign with seed 23, second generator."""
    source = ms.parse("""program t(U: i64[4], X: i32[5, 4], inout Y: i32[5, 4]) {
        block b[i: 5, j: 4] { where U[min(i, 3)] + U[min(i, 3)] <= 1  Y[i, j] = X[i, j] }
    }
    schedule s for t { b.transform_block_layout(fn (i, j) -> [5 - i - 1, j]) }""")
    program, scheduled = source.program("t"), source.space("s").sample(0).program
    least = np.iinfo(np.int64).min
    given = {"U": np.array([1, least, -least - 1, 0], np.int64), "X": np.arange(20, dtype=np.int32).reshape(5, 4)}
    given["Y"] = np.full((5, 4), -1, np.int32)
    want = run(program, given)["Y"]
    assert want[:, 0].tolist() == [-1, 4, 8, 12, 16]
    assert np.array_equal(run(scheduled, given)["Y"], want)
    kernel = ms.build(scheduled)
    assert np.array_equal(kernel(given["U"], given["X"], given["Y"].copy()), want)


@pytest.mark.parametrize(
    "condition", ["x + x <= 1", "-x < 5", "x < x + 1", "x * 2 // 2 == x", "x - y < 0", "x + k < x + 5", "z > x"]
)
@pytest.mark.parametrize("n", [1, 4])
def test_sums_with_variables_of_data_wrap(condition: str, n: int) -> None:
    """A `let` of 64-bit data is no index: neither the interpreter nor a kernel takes sums with it for exact."""
    loaded = condition.replace("z", "(x + 1)").replace("x", "U[k]").replace("y", "V[k]")
    source = ms.parse(f"""program named(U: i64[{n}], V: i64[{n}], out O: i64[{n}]) {{
        block b[k: {n}] {{ let x = U[k]  let y = V[k]  let z = x + 1  O[k] = select({condition}, 1, 0) }}
    }}
    program plain(U: i64[{n}], V: i64[{n}], out O: i64[{n}]) {{
        block b[k: {n}] {{ O[k] = select({loaded}, 1, 0) }}
    }}""")
    ends = np.iinfo(np.int64)
    given = {"U": np.array([ends.max, ends.min, ends.max - 1, 0][:n]), "V": np.array([ends.min, 3, ends.max, 1][:n])}
    want = run(source.program("plain"), given)["O"]
    assert np.array_equal(run(source.program("named"), given)["O"], want)
    assert np.array_equal(ms.build(source.program("named"))(given["U"], given["V"]), want)
    assert np.array_equal(ms.build(source.program("plain"))(given["U"], given["V"]), want)
