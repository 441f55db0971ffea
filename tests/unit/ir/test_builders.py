"""The builder and tensor expressions give the programs that the same text gives."""

from __future__ import annotations

import numpy as np
import pytest

from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError
from mslang.ir import te
from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.equal import alpha_equal
from mslang.ir.operators import call, maximum, select
from mslang.ir.reduction import highest, identity, lowest
from mslang.ir.verify import verify
from mslang.sema.program import parse_program

MATMUL = """program matmul(A: f32[6, 5], B: f32[5, 4], out C: f32[6, 4]) {
    block mm[i: 6, j: 4 | k: 5] { C[i, j] += A[i, k] * B[k, j] } }"""


def test_builder_infers_loops_init_and_regions():
    b = ProgramBuilder("matmul")
    x, y, z = b.input("A", (6, 5)), b.input("B", (5, 4)), b.output("C", (6, 4))
    with b.block("mm", spatial("i", 6), spatial("j", 4), reduce("k", 5)) as (i, j, k):
        z[i, j] += x[i, k] * y[k, j]
    assert b.finish() == parse_program(MATMUL)


def test_second_writer_and_inout_get_no_init():
    b = ProgramBuilder("p")
    x, y, z = b.input("x", (4, 3)), b.output("y", (4,)), b.inout("z", (4,))
    for out in (y, y, z):
        with b.block(
            "s",
            spatial("i", 4),
            reduce("k", 3),
        ) as (i, k):
            out[i] += x[i, k]
    p = b.finish()
    inits = [s.body[0].body[0].init for s in p.body]  # type: ignore[attr-defined]
    assert inits[0] is not None and inits[1] is None and inits[2] is None
    assert verify(p) == ()


def test_operators_and_literals():
    b = ProgramBuilder("p")
    x, y = b.input("x", (4,), "i32"), b.output("y", (4,), "i32")
    with b.block("s", spatial("i", 4)) as (i,):
        v = (x[i] + 1) * 2 - 3
        v = maximum(v // 2 % 5, -v) ^ (x[i] & 6 | 1)
        y[i] = select((i < 2) & ~i.equals(0) | i.differs(3), v << 1, 7 - (v >> 1)) + i.cast("i32") + call("abs", x[i])
    p = b.finish()
    text = """program p(x: i32[4], out y: i32[4]) { block s[i: 4] {
        y[i] = select(i < 2 and not i == 0 or i != 3,
            shift_left(bit_xor(max(((x[i] + 1) * 2 - 3) // 2 % 5, -((x[i] + 1) * 2 - 3)),
                               bit_or(bit_and(x[i], 6), 1)), 1),
            7 - shift_right(bit_xor(max(((x[i] + 1) * 2 - 3) // 2 % 5, -((x[i] + 1) * 2 - 3)),
                                    bit_or(bit_and(x[i], 6), 1)), 1)) + i32(i) + abs(x[i]) } }"""
    assert p == parse_program(text)


def test_functions_are_known():
    b = ProgramBuilder("p")
    with pytest.raises(ValueError, match="no function exq of 1 arguments"):
        call("exq", b.input("x", (4,))[0])


@pytest.mark.parametrize(
    ("op", "dtype", "value"),
    [
        ("+", "f32", 0.0),
        ("*", "i8", 1),
        ("max", "i8", -128),
        ("min", "i8", 127),
        ("max", "u8", 0),
        ("min", "u16", 65535),
        ("max", "f64", float("-inf")),
        ("min", "bf16", float("inf")),
    ],
)
def test_identities(op: str, dtype: str, value: float):
    assert identity(op, dtype).value == value and identity(op, dtype).dtype == dtype


def test_bounds_of_bool():
    assert (lowest("bool").value, highest("bool").value) == (False, True)


def test_tensor_expressions_give_the_same_program():
    x, y = te.placeholder((6, 5), name="A"), te.placeholder((5, 4), name="B")
    k = te.reduce_axis(5, "k")
    z = te.compute((6, 4), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), "C")
    p = te.program("matmul", z)
    assert alpha_equal(p, parse_program(MATMUL.replace("block mm", "block C_block")))


def test_chains_with_several_results_and_dynamic_sizes():
    n = te.size("N", 1, 64)
    x = te.placeholder((n, 8), name="x")
    k, m = te.reduce_axis(8, "k"), te.reduce_axis(8, "m")
    top = te.compute((n,), lambda i: te.max(x[i, k], axis=[k]), "top")
    shifted = te.compute((n, 8), lambda i, j: x[i, j] - top[i], "shifted")
    total = te.compute((n,), lambda i: te.sum(shifted[i, m], axis=m), "total")
    least = te.compute((n,), lambda i: te.min(x[i, k], axis=k), "least")
    p = te.program("p", total, least)
    assert [q.buffer.name for q in p.params] == ["x", "total", "least"]
    assert [b.name for b in p.allocs] == ["top", "shifted"]
    data = np.random.default_rng(0).integers(-9, 9, (5, 8)).astype(np.float32)
    out = run(p, {"x": data}, sizes={"N": 5})
    assert np.array_equal(out["total"], (data - data.max(1, keepdims=True)).sum(1))
    assert np.array_equal(out["least"], data.min(1))


def test_tensor_expressions_refuse_what_does_not_fit():
    x = te.placeholder((4, 4), name="x")
    with pytest.raises(MsError, match="2 dimensions, but 1 are indexed"):
        x[0]
    with pytest.raises(MsError, match="takes 2 indices"):
        te.compute((4,), lambda i, j: x[i, j], "y")
    same = te.compute((4, 4), lambda i, j: x[i, j], "x")
    with pytest.raises(MsError, match="`x` is the name of 2 tensors"):
        te.program("p", same)


def test_tensors_of_numbers_and_sums_over_no_axis():
    x = te.placeholder((4, 4), name="A")
    values = te.compute((4,), lambda i: te.sum(x[i, i], axis=()), "C")
    p = te.program("p", values, te.compute((2,), lambda i: 5, "n"), te.compute((2,), lambda i: 0.5, "h"))
    a = np.arange(16, dtype=np.float32).reshape(4, 4)
    results = run(p, {"A": a})
    assert results["C"].tolist() == [0, 5, 10, 15]
    assert results["n"].tolist() == [5, 5] and results["n"].dtype == np.int32
    assert results["h"].tolist() == [0.5, 0.5] and results["h"].dtype == np.float32


def test_tensor_expressions_that_make_no_program():
    x, k = te.placeholder((8, 4), name="A"), te.reduce_axis(4, "k")
    same = te.compute((8,), lambda i: te.sum(x[i, k], axis=k), "A")
    for results, code, what in (
        ((same,), "MS150", "`A` is the name of 2 tensors"),
        ((x,), "MS159", "`A` is given, not computed"),
        ((), "MS159", "without results"),
    ):
        with pytest.raises(MsError, match=what) as caught:
            te.program("p", *results)
        assert caught.value.diagnostic.code == code
