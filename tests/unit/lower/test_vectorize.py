"""Which vectorized loops become lanes, how many, and what is masked."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from mslang.backend.reference import interpret
from mslang.ir.arith import evaluate
from mslang.ir.expr import Binary, Const, Expr, Ramp, Var
from mslang.ir.program import Program
from mslang.kernel.lanes import lanes_of
from mslang.kernel.nodes import For, Store
from mslang.kernel.visit import walk
from mslang.lower.lanes import chunks, vectorizable
from mslang.lower.passes import LOOPS, lower
from mslang.lower.substitute import Known
from mslang.sema.program import parse_program
from mslang.target.description import AVX512, GENERIC
from tests.unit.llvm.support import run


def lanes(index: str) -> bool:
    """Whether an update at an index of the loop `j` and the loop `i` runs in lanes."""
    p = parse_program(f"""program p(A: f32[8], inout C: f32[512]) {{
        for i in 16, j in 8 @ vectorized {{
            block b[vi: 16 = i, vj: 8 = j] {{ C[{index}] = C[{index}] + A[vj] }}
        }}
    }}""")
    (loop,) = (s for s in walk(lower(p, GENERIC, passes=LOOPS).body) if isinstance(s, For) and s.kind == "vectorized")
    return vectorizable(loop)


@pytest.mark.parametrize(
    "index, expected",
    [
        ("vi * 8 + vj", True),
        # As fused loops leave it: what all lanes share may have any form.
        ("vi // 4 * 128 + vi % 4 * 8 + vj", True),
        ("(vi // 4 + vj) * 2 - vi % 4", True),
        ("vi // 4 * 8 + vj - vj", False),
        ("vi // 4 * 8 + vj // 2", False),
        ("vi * 8", False),
    ],
)
def test_an_update_runs_in_lanes_where_each_has_an_element_of_its_own(index, expected):
    assert lanes(index) is expected


@pytest.mark.parametrize(("extent", "expected"), [("4", True), ("counts[0]", False), ("n", False), ("m + 1", False)])
def test_a_loop_under_a_condition_runs_in_lanes_if_nothing_loads_its_length(extent: str, expected: bool) -> None:
    p = parse_program(f"""program p(counts: i64[1] in 0..5, A: f32[8], inout C: f32[4, 8]) {{
        for j in 8 @ vectorized {{
            block b[vj: 8 = j] {{
                where A[vj] > 0.0
                let n = counts[0]
                let m = n // 2
                for l in {extent} {{ C[l, vj] = C[l, vj] + A[vj] }}
            }}
        }}
    }}""")
    (loop,) = (s for s in walk(lower(p, GENERIC, passes=LOOPS).body) if isinstance(s, For) and s.kind == "vectorized")
    assert vectorizable(loop) is expected
    a, c = np.array([1, -1, 2, 0, 3, -2, 5, 4], np.float32), np.zeros((4, 8), np.float32)
    given = {"counts": np.array([3]), "A": a, "C": c}
    assert np.array_equal(run(p, given["counts"], a, c.copy()), interpret.run(p, given)["C"])


@given(trips=st.integers(1, 200), native=st.sampled_from([1, 2, 4, 8, 16, 64]), wide=st.booleans(), masks=st.booleans())
def test_chunks_run_each_iteration_once(trips: int, native: int, wide: bool, masks: bool) -> None:
    pieces = chunks(trips, native, wide=wide, masks=masks)
    assert [k for p in pieces for k in range(p.start, p.start + p.active)] == list(range(trips))
    for p in pieces:
        assert p.lanes & (p.lanes - 1) == 0
        assert p.active == p.lanes or masks


def divided(op: str, scale: int, first: int, by: int, lanes: int) -> Expr:
    """`(i * scale + first + lane) op by` in normal form, `i` below 100."""
    start = Binary("+", Binary("*", Var("i"), Const(scale)), Const(first))
    return Known({"i": (0, 99)}).index(Binary(op, Ramp(start, 1, lanes), Const(by)), {})


@given(
    scale=st.sampled_from([1, 6, 8, 32, 48, 256]),
    first=st.integers(-40, 40),
    by=st.sampled_from([1, 2, 8, 12, 32, 256]),
    lanes=st.sampled_from([2, 4, 8, 16, 32]),
)
def test_a_vector_within_a_row_has_one_quotient(scale: int, first: int, by: int, lanes: int) -> None:
    rows, places = divided("//", scale, first, by, lanes), divided("%", scale, first, by, lanes)
    for i in range(100):
        at = [i * scale + first + k for k in range(lanes)]
        for e, expected in ((rows, [x // by for x in at]), (places, [x % by for x in at])):
            match e:
                case Ramp(base=base, stride=stride):
                    start = evaluate(base, {"i": i})
                    assert [start + stride * k for k in range(lanes)] == expected
                case Binary(left=Ramp()):
                    pass  # Not known to be in one row.
                case _:
                    assert [evaluate(e, {"i": i})] * lanes == expected


@pytest.mark.parametrize(("lanes", "contiguous"), [(16, True), (32, True), (64, False)])
def test_lanes_that_a_row_holds_are_contiguous_in_it(lanes: int, contiguous: bool) -> None:
    assert isinstance(divided("%", 32, 0, 256, lanes), Ramp) is contiguous


PANELS = """program p[R = {part}](A: {dtype}[{columns}], P: {dtype}[{columns} // R, R], out C: {dtype}[{columns}]) {{
    for j in {columns} @ vectorized {{
        block b[v: {columns} = j] {{ C[v] = A[v] + P[v // R, v % R] }}
    }}
}}"""


def panels(part: int, columns: int, dtype: str) -> Program:
    return parse_program(PANELS.format(part=part, columns=columns, dtype=dtype))


@pytest.mark.parametrize(
    ("part", "columns", "dtype", "lanes"),
    [
        (8, 32, "f32", {8}),
        (4, 32, "f32", {4}),
        (2, 32, "f32", {16}),
        (16, 64, "f32", {16}),
        (12, 48, "f32", {16}),
        (4, 16, "f64", {4}),
        (16, 128, "u8", {16}),
        (8, 64, "u8", {64}),
    ],
)
def test_vectors_are_no_longer_than_what_lies_together(part: int, columns: int, dtype: str, lanes: set[int]) -> None:
    """Panels of 8 columns, as AVX2 has them, are read by vectors of 8 on AVX-512, too: not gathered."""
    p = panels(part, columns, dtype)
    body = lower(p, AVX512).body
    stores = [s for s in walk(body) if isinstance(s, Store)]
    assert {lanes_of(s.value) for s in stores} == lanes
    rng = np.random.default_rng(0)
    element = np.dtype({"f32": "f4", "f64": "f8", "u8": "u1"}[dtype])
    a, q = (rng.integers(0, 9, shape).astype(element) for shape in (columns, (columns // part, part)))
    given = {"A": a, "P": q}
    assert np.array_equal(run(p, a, q, np.empty_like(a)), interpret.run(p, given)["C"])
