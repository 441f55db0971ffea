"""prefetch: what it leaves on a loop, what lowering makes of it, what it refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mslang as ms
from mslang.backend.llvm.compile import compile
from mslang.kernel.print import print_module
from mslang.lower.passes import lower
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, AVX512
from mslang.transform.primitives.loop_kinds import parallel, unroll, vectorize
from mslang.transform.primitives.loops import split
from mslang.transform.primitives.prefetch import prefetch
from tests.unit.transform.programs import buffer, loop, refused, sizes

COPY = parse_program("program p(A: f32[64], out B: f32[64]) { for i in 64 { block b[x: 64 = i] { B[x] = A[x] } } }")
ROWS = parse_program("""program p(A: f32[6, 40], out B: f32[6, 40]) {
    for i in 6 { for j in 40 { block b[x: 6 = i, y: 40 = j] { B[x, y] = A[x, y] + A[x, 0] } } }
}""")


def fetched(program: ms.Program) -> list[str]:
    """The elements whose lines are fetched, in order of the text, with vectors of a line each."""
    return re.findall(r"prefetch (.*)", print_module(lower(program, AVX512)))


def ahead(program: ms.Program, at: str, name: str, count: int) -> ms.Program:
    return prefetch(program, loop(at), buffer(name), *sizes(count)).program


def test_a_loop_fetches_what_a_later_iteration_loads():
    assert fetched(ahead(COPY, "i", "A", 8)) == ["A[i + 8]"]
    assert fetched(ahead(ahead(COPY, "i", "A", 8), "i", "A", 4)) == ["A[i + 4]"], "what is said last counts"
    assert not fetched(ahead(COPY, "i", "A", 0))


def test_each_line_is_fetched_once_and_inner_loops_count_if_they_are_written_out():
    assert fetched(ahead(ROWS, "i", "A", 2)) == ["A[i + 2, 0]"], "what the loop `j` goes through is left out"
    wide = vectorize(ROWS, loop("j")).program
    assert fetched(ahead(wide, "i", "A", 2)) == ["A[i + 2, 0]", "A[i + 2, 16]", "A[i + 2, 32]"]


def test_a_reversed_vector_is_fetched_from_its_smallest_index():
    program = parse_program("""program p(A: f32[6, 32], out B: f32[6, 32]) {
        for i in 6 { for j in 32 { block b[x: 6 = i, y: 32 = j] { B[x, y] = A[x, 31 - y] } } }
    }""")
    wide = vectorize(program, loop("j")).program
    assert fetched(ahead(wide, "i", "A", 2)) == ["A[i + 2, 16]", "A[i + 2, 0]"]


def test_an_unrolled_loop_fetches_in_each_copy():
    cut = split(COPY, loop("i"), [None, *sizes(2)]).program
    inner = unroll(cut, loop("i_1")).program
    assert fetched(ahead(inner, "i_1", "A", 3)) == ["A[i_0 * 2 + 3]", "A[i_0 * 2 + 4]"]


def test_results_stay_and_the_machine_code_has_the_instruction():
    program = ahead(ROWS, "i", "A", 1000)
    kernel = ms.build(program)
    a = np.arange(240, dtype=np.float32).reshape(6, 40)
    assert np.array_equal(kernel(a), a + a[:, :1]), "addresses far behind the array do no harm"
    assert "prefetcht0" in compile(lower(program, AVX2), AVX2).assembly


GATHER = """program p(idx: i32[64] in 0..90, t: f32[90, 16], out B: f32[64, 16]) {{
    for i in 64 {{ for j in 16 {{ {block} }} }}
}}"""


def gather(value: str = "t[idx[x], y]", where: str = "") -> ms.Program:
    body = f"block b[x: 64 = i, y: 16 = j] {{ {where} B[x, y] = {value} }}"
    return vectorize(parse_program(GATHER.format(block=body)), loop("j")).program


def test_an_index_that_is_loaded_for_it_is_that_of_an_iteration_which_the_loop_has():
    program = ahead(gather(), "i", "t", 8)
    assert fetched(program) == ["t[i64(idx[min(i + 8, 63)]), 0]"]
    idx = (np.arange(64, dtype=np.int32) * 7) % 90
    t = np.random.default_rng(0).random((90, 16), np.float32)
    assert np.array_equal(ms.build(program)(idx, t), t[idx])
    scalar = parse_program("""program p(idx: i32[64] in 0..90, t: f32[90], out B: f32[64]) {
        for i in 64 { block b[x: 64 = i] { B[x] = t[idx[x]] + t[x] } }
    }""")
    assert fetched(ahead(scalar, "i", "t", 8)) == ["t[i + 8]", "t[i64(idx[min(i + 8, 63)])]"]
    cut = split(scalar, loop("i"), [None, *sizes(2)]).program
    inner = unroll(cut, loop("i_1")).program
    later = [f"t[i64(idx[i_0 * 2 + {k}])]" for k in (1, 1)]
    assert [x for x in fetched(ahead(inner, "i_1", "t", 3)) if "idx" in x] == later


def test_an_index_that_only_some_iterations_load_is_not_loaded_for_it():
    assert not fetched(ahead(gather("select(idx[x] > 3 and x > 4, t[idx[x - 4], y], 0.0)"), "i", "t", 8))
    assert not fetched(ahead(gather("t[idx[x], y]", "where idx[63 - x] > 3"), "i", "t", 8))
    proved = fetched(ahead(gather("t[idx[x - 4], y]", "where x > 3"), "i", "t", 8))
    assert proved == ["t[i64(idx[min(i + 8, 63) - 4]), 0]"], "no later iteration is one of the first four"


@pytest.mark.parametrize(
    ("program", "at", "name", "count", "code", "text"),
    [
        (COPY, "i", "B", 2, "MS335", "nothing of `B` is read in the loop `i`"),
        (COPY, "i", "A", -1, "MS303", "`ahead` is not provably 0 or more"),
        (parallel(COPY, loop("i")).program, "i", "A", 2, "MS335", "the loop is parallel"),
        (vectorize(COPY, loop("i")).program, "i", "A", 2, "MS335", "the loop is vectorized"),
    ],
)
def test_what_is_refused(program: ms.Program, at: str, name: str, count: int, code: str, text: str):
    with refused(code, text):
        ahead(program, at, name, count)


def test_registers_are_not_fetched():
    program = parse_program("""program p(A: f32[64], out B: f32[64]) {
        alloc T: f32[64] @ local
        for i in 64 { block a[x: 64 = i] { T[x] = A[x] } }
        for j in 64 { block b[x: 64 = j] { B[x] = T[x] } }
    }""")
    with refused("MS335", "in registers"):
        ahead(program, "j", "T", 2)


def test_a_drawn_distance_is_put_in_when_it_is_known():
    file = ms.parse("""program p(A: f32[64], out B: f32[64]) { block b[x: 64] { B[x] = A[x] } }
    schedule s for p { let t ~ choose([0, 8])
        b.x.prefetch(A, ahead = t) }""")
    space = file.space("s")
    assert {len(fetched(space.replay({"t": n}).program)) for n in (0, 8)} == {0, 1}


def test_a_buffer_that_each_iteration_has_of_its_own_is_not_fetched():
    p = parse_program("""program p(A: f32[6, 40], out B: f32[6, 40]) {
        alloc T: f32[6, 40]
        for i in 6 {
            for j in 40 { block a[x: 6 = i, y: 40 = j] { T[x, y] = A[x, y] * 2.0 } }
            for k in 40 { block b[x: 6 = i, y: 40 = k] { B[x, y] = T[x, y] + T[x, 0] } }
        }
    }""")
    p = ahead(p, "i", "T", 1)
    assert not fetched(p)
    a = np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32)
    assert np.array_equal(ms.build(p)(a), a * 2 + a[:, :1] * 2)


@pytest.mark.parametrize("indices", ["i32[48]", "i32[48] @ local"])
def test_an_index_that_the_iterations_compute_is_not_loaded_ahead(indices: str):
    p = parse_program(f"""program p(A: i32[48], B: i32[48] in 0..48, out C: i32[48], out D: i32[48]) {{
        alloc T: {indices}
        for i in 48 {{
            block a[x: 48 = i] {{ T[x] = i32(x // 2) }}
            block b[x: 48 = i] {{ C[x] = A[T[x]] }}
            block c[x: 48 = i] {{ D[x] = A[B[T[x]]] }}
        }}
    }}""")
    program = ahead(p, "i", "A", 5)
    assert not fetched(program), "`T` holds no index of a later iteration yet, and `B` may be loaded from anywhere"
    a = np.random.default_rng(0).integers(0, 99, 48, np.int32)
    b = np.random.default_rng(1).integers(0, 48, 48, np.int32)
    at = np.arange(48) // 2
    for found, wanted in zip(ms.build(program)(a, b), (a[at], a[b[at]]), strict=True):
        assert np.array_equal(found, wanted)


INSTRUCTION = """intrin rows(a: f32[2, 32], b: f32[2, 16, 2] @ global(strides = [32, 2, 1]), inout c: f32[2]) on cpu {
    desc { block dot[i: 2 | k: 16, q: 2] { c[i] += a[i, 2 * k + q] * b[i, k, q] } }
    impl llvm "store float 0.0, ptr {c}, align 4"
}
program p(A: f32[2, 320], B: f32[10, 2, 16, 2], out C: f32[2]) {
    block mm[i: 2 | k: 160, q: 2] { C[i] += A[i, 2 * k + q] * B[k // 16, i, k % 16, q] }
}
schedule s for p {
    let k0, k1 = mm.k.split([_, 16])
    reorder(k0, mm.i, k1, mm.q)
    mm.decompose_reduction(k0)
    mm.i.tensorize(rows)
    k0.prefetch(WHAT, ahead = 3)
}"""


def test_of_an_operand_of_an_instruction_each_row_is_fetched():
    """Elements lie side by side along the last dimension, and along those whose strides the instruction declares."""
    of_a, of_b = (fetched(ms.parse(INSTRUCTION.replace("WHAT", b)).space("s").sample(0).program) for b in "AB")
    assert of_a == ["A[0, k0 * 32 + 96]", "A[0, k0 * 32 + 112]", "A[1, k0 * 32 + 96]", "A[1, k0 * 32 + 112]"]
    assert of_b == ["B[k0 + 3, 0, 0, 0]", "B[k0 + 3, 0, 0, 16]", "B[k0 + 3, 0, 0, 32]", "B[k0 + 3, 0, 0, 48]"]
