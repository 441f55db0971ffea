"""Functions and launches: what is one kernel, its extents, guards, and what no launch can be."""

from __future__ import annotations

import pytest

from mslang.diagnostics import TargetError
from mslang.ir.expr import ONE, Const
from mslang.kernel import If, Launch
from mslang.kernel.visit import walk
from tests.unit.lower.gpu.support import barriers, lowered, program, same_meaning

TWO = """program p(A: f32[64], out B: f32[64]) {
    alloc T: f32[64]
    for a in 2 @ blockIdx.x, b in 32 @ threadIdx.x { block t[i: 64 = a * 32 + b] { T[i] = A[i] * 2.0 } }
    for c in 4 @ blockIdx.x, d in 16 @ threadIdx.x { block u[i: 64 = c * 16 + d] { B[i] = T[63 - i] + 1.0 } }
}"""


def refused(text: str, code: str, *words: str) -> None:
    with pytest.raises(TargetError) as found:
        lowered(program(text))
    (diagnostic,) = found.value.diagnostics
    assert diagnostic.code == code, diagnostic
    said = f"{diagnostic.message} {diagnostic.why} {diagnostic.help}"
    assert all(w in said for w in words), said


def test_each_nest_is_a_launch():
    module = lowered(program(TWO))
    assert [f.name for f in module.functions] == ["p_0", "p_1"]
    grids = [f.launch for f in module.functions]
    assert grids == [
        Launch((Const(2), ONE, ONE), (Const(32), ONE, ONE)),
        Launch((Const(4), ONE, ONE), (Const(16), ONE, ONE)),
    ]
    assert [b.name for b in module.workspaces] == ["T"]
    assert [[b.name for b in f.params] for f in module.functions] == [["A", "T"], ["B", "T"]]
    same_meaning(program(TWO), module)


def test_a_nest_without_threads_runs_in_one():
    p = program("program p(A: f32[8], out B: f32[8]) { for i in 8 { block b[x: 8 = i] { B[x] = A[x] } } }")
    module = lowered(p)
    assert module.functions[0].launch == Launch((ONE, ONE, ONE), (ONE, ONE, ONE))
    same_meaning(p, module)


def test_a_loop_around_kernels_is_several_launches():
    p = program("""program p(A: f32[16], out B: f32[3, 16]) {
        for r in 3, t in 16 @ blockIdx.x { block b[y: 3 = r, x: 16 = t] { B[y, x] = A[x] } }
    }""")
    module = lowered(p)
    assert [f.name for f in module.functions] == ["p_0", "p_1", "p_2"]
    same_meaning(p, module)


def test_a_loop_around_too_many_kernels_is_refused():
    text = """program p(A: f32[100, 16], out B: f32[100, 16]) {
        for r in 100, t in 16 @ blockIdx.x { block b[y: 100 = r, x: 16 = t] { B[y, x] = A[y, x] } }
    }"""
    refused(text, "MS430", "loop `r`", "100 iterations", "reorder")


def test_loops_shorter_than_the_launch_are_guarded():
    p = program("""program p(A: f32[2, 24], out B: f32[2, 24], out C: f32[2, 8]) {
        for b in 2 @ blockIdx.x {
            for t in 24 @ threadIdx.x { block one[y: 2 = b, x: 24 = t] { B[y, x] = A[y, x] } }
            for u in 8 @ threadIdx.x { block two[y: 2 = b, x: 8 = u] { C[y, x] = A[y, x] * 2.0 } }
        }
    }""")
    module = lowered(p)
    assert module.functions[0].launch == Launch((Const(2), ONE, ONE), (Const(24), ONE, ONE))
    assert sum(isinstance(s, If) for s in walk(module.functions[0].body)) == 1
    assert barriers(module) == 0
    same_meaning(p, module)


def test_what_stands_outside_of_threads_is_done_once():
    p = program("""program p(A: f32[4, 8], out B: f32[4, 8], out C: f32[4]) {
        for b in 4 @ blockIdx.x {
            block first[y: 4 = b] { C[y] = A[y, 0] }
            for t in 8 @ threadIdx.x { block rest[y: 4 = b, x: 8 = t] { B[y, x] = A[y, x] } }
        }
    }""")
    same_meaning(p)


def test_blocks_that_depend_on_one_another_are_refused():
    text = """program p(A: f32[8, 8], out B: f32[8, 8]) {
        alloc T: f32[8, 8]
        for a in 8 @ blockIdx.x {
            for b in 8 @ blockIdx.y { block one[y: 8 = a, x: 8 = b] { T[y, x] = A[y, x] } }
            for c in 8 @ blockIdx.y { block two[y: 8 = a, x: 8 = c] { B[y, x] = T[y, 7 - x] } }
        }
    }"""
    refused(text, "MS434", "`T`", "blockIdx.y", "no order")
    own = program(text.replace("7 - x", "x"))
    same_meaning(own)


def test_memory_of_one_thread_is_not_that_of_another():
    text = """program p(A: f32[32], out B: f32[32]) {
        alloc L: f32[32] @ local
        for b in 1 @ blockIdx.x {
            for t in 32 @ threadIdx.x { block one[x: 32 = t] { L[x] = A[x] } }
            for u in 32 @ threadIdx.x { block two[x: 32 = u] { B[x] = L[31 - x] } }
        }
    }"""
    refused(text, "MS432", "`L`", "threadIdx.x", 'set_scope` the buffer to "shared"')
    wider = text.replace("@ local", "@ warp").replace("32", "64").replace("31", "63")
    refused(wider, "MS432", "`L`", "`warp`", "threadIdx.x")
    same_meaning(program(text.replace("31 - x", "x")))
    same_meaning(program(text.replace("31 - x", "x").replace("@ local", "@ warp")))
    same_meaning(program(text.replace("@ local", "@ shared")))


def test_memory_of_a_thread_is_not_shared_by_blocks():
    """Beyond its predicate a thread would access what a thread of the next block does, in its own memory."""
    text = """program p(A: f32[4, 8], out B: f32[32]) {
        alloc L: f32[32] @ local
        for h in 4 @ blockIdx.x {
            for t in 32 @ threadIdx.x { block one[x: 4 = h, y: 8 = t] { where t < 8  L[x * 8 + y] = A[x, y] } }
            for u in 32 @ threadIdx.x { block two[x: 32 = h * 8 + u] { where u < 8  B[x] = L[x] } }
        }
    }"""
    same_meaning(program(text))
    refused(text.replace("L[x] }", "L[x // 8 * 8 + 7 - x % 8] }"), "MS432", "`L`", "threadIdx.x")


def test_threads_that_write_different_values_to_one_element_are_refused():
    text = """program p(A: f32[8, 4], out B: f32[8, 4]) {
        alloc S: f32[8, 4] @ shared
        for b in 1 @ blockIdx.x, t in 8 @ threadIdx.x {
            for k in 4 { block one[y: 8 = t, x: 4 = k] { S[0, x] = A[y, x] } }
            for l in 4 { block two[y: 8 = t, x: 4 = l] { B[y, x] = S[0, x] } }
        }
    }"""
    refused(text, "MS436", "`S`", "threadIdx.x", "local")
    same_meaning(program(text.replace("@ shared", "@ local")))


def test_memory_on_the_chip_is_of_one_launch():
    refused(TWO.replace("alloc T: f32[64]", "alloc T: f32[64] @ shared"), "MS437", "`T`", "shared", "set_scope")


def test_too_many_threads_are_refused():
    text = """program p(A: f32[64, 32], out B: f32[64, 32]) {
        for i in 64 @ threadIdx.y, j in 32 @ threadIdx.x { block b[y: 64 = i, x: 32 = j] { B[y, x] = A[y, x] } }
    }"""
    refused(text, "MS431", "2048", "1024")


def test_loops_without_iterations_make_no_launch():
    p = program("""program p(A: f32[4, 3], out B: f32[4, 3]) {
        for i in 4 @ blockIdx.y {
            for j in 0 @ blockIdx.x, t in 32 @ threadIdx.x {
                block a[y: 4 = i, x: 3 = j * 32 + t] { B[y, x] = A[y, x] }
            }
            for k in 3 { block b[y: 4 = i, x: 3 = k] { B[y, x] = A[y, x] } }
        }
    }""")
    module = lowered(p)
    assert module.functions[0].launch == Launch((ONE, Const(4), ONE), (ONE, ONE, ONE))
    same_meaning(p, module)


def test_a_copy_with_more_threads_than_elements():
    p = program(
        """program p(A: f32[16, 16], out B: f32[16, 16]) {
        alloc S: f32[16, 16] @ shared
        for i0 in 2 @ blockIdx.y, k0 in 2 {
            for f1 in 16 @ threadIdx.y, f2 in 8 @ threadIdx.x {
                block s[i: 16 = i0 * 8 + (f1 * 8 + f2) // 8, k: 16 = k0 * 8 + (f1 * 8 + f2) % 8] {
                    where f1 * 8 + f2 < 64
                    S[i, k] = A[i, k]
                }
            }
            for t in 8 @ threadIdx.y, u in 8 @ threadIdx.x {
                block b[i: 16 = i0 * 8 + t, k: 16 = k0 * 8 + u] { B[i, k] = S[i, k0 * 8 + (7 - u)] }
            }
        }
    }""".replace("S[i, k0 * 8 + (7 - u)]", "S[i, k // 8 * 8 + (7 - k % 8)]")
    )
    module = lowered(p)
    assert barriers(module) == 2
    same_meaning(p, module)


def test_a_parameter_is_memory_of_the_caller_whatever_its_scope():
    same_meaning(
        program("""program p(A: f32[64], inout T: f32[64] @ local) {
            for i in 2 @ blockIdx.x, j in 32 @ threadIdx.x { block b[x: 64 = i * 32 + j] { T[x] = T[x] + A[x] } }
        }""")
    )
