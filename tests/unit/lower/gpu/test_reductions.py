"""Reductions that threads share out: shuffles among lanes, shared memory across warps, and what is refused."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from mslang.backend.reference import interpret
from mslang.diagnostics import TargetError
from mslang.ir.expr import Call
from mslang.ir.program import Program
from mslang.ir.visit import walk_expr
from mslang.kernel import Module
from mslang.kernel.visit import expressions, walk
from tests.property.arrays import difference, outputs_equal
from tests.unit.lower.gpu import simulator
from tests.unit.lower.gpu.support import barriers, lowered, program, same_meaning

ROWS = """program rows(A: f32[4, 96], out B: f32[4]) {
    for b in 4 @ blockIdx.x, k in OUTER, t in THREADS @ threadIdx.x {
        block s[i: 4 = b | r: 96 = k * THREADS + t] { where k * THREADS + t < 96
            init { B[i] = 0.0 }
            B[i] = B[i] + A[i, r]
        }
    }
}"""


def rows(threads: int) -> str:
    return ROWS.replace("THREADS", str(threads)).replace("OUTER", str(-(-96 // threads)))


def shuffles(module: Module) -> int:
    return sum(
        isinstance(x, Call) and x.name == "shuffle_xor"
        for f in module.functions
        for s in walk(f.body)
        for e in expressions(s)
        for x in walk_expr(e)
    )


@pytest.mark.parametrize(
    ("threads", "shuffled", "waits"),
    [(2, 1, 0), (16, 4, 0), (32, 5, 0), (64, 6, 1), (96, 7, 1), (128, 7, 1), (24, 0, 1), (48, 0, 1)],
)
def test_lanes_shuffle_and_warps_meet_in_shared_memory(threads: int, shuffled: int, waits: int):
    p = program(rows(threads))
    module = lowered(p)
    assert (shuffles(module), barriers(module)) == (shuffled, waits)
    same_meaning(p, module)


@pytest.mark.parametrize("threads", [16, 64])
def test_softmax(threads: int):
    text = """program softmax(A: f32[3, 128], out C: f32[3, 128]) {
        alloc M: f32[3] @ shared
        alloc S: f32[3] @ SCOPE
        for b in 3 @ blockIdx.x {
            for k0 in OUTER, t0 in THREADS @ threadIdx.x {
                block m[i: 3 = b | k: 128 = k0 * THREADS + t0] { init { M[i] = f32(-inf) } M[i] = max(M[i], A[i, k]) }
            }
            for k1 in OUTER, t1 in THREADS @ threadIdx.x {
                block s[i: 3 = b | k: 128 = k1 * THREADS + t1] { init { S[i] = 0.0 } S[i] = S[i] + (A[i, k] - M[i]) }
            }
            for k2 in OUTER, t2 in THREADS @ threadIdx.x {
                block c[i: 3 = b, k: 128 = k2 * THREADS + t2] { C[i, k] = (A[i, k] - M[i]) * S[i] }
            }
        }
    }"""
    text = text.replace("THREADS", str(threads)).replace("OUTER", str(128 // threads))
    for scope in ("shared", "local"):
        p = program(text.replace("SCOPE", scope))
        module = lowered(p)
        # across warps each sum takes one, and M and S are written by one thread; what is local, by all
        assert barriers(module) == (2 if threads == 64 else 0) + (2 if scope == "shared" else 1)
        same_meaning(p, module)


def test_several_rows_a_block_and_elements_inside():
    text = """program p(A: f32[4, 6, 32], out B: f32[4, 6]) {
        for b in 2 @ blockIdx.x, y in 2 @ threadIdx.y, k in 2, j in 6, t in 16 @ threadIdx.x {
            block s[i: 4 = b * 2 + y, e: 6 = j | r: 32 = k * 16 + t] {
                init { B[i, e] = 1.0 }
                B[i, e] = B[i, e] + A[i, e, r]
            }
        }
    }"""
    p = program(text)
    module = lowered(p)
    assert barriers(module) == 0
    same_meaning(p, module)
    wide = program(
        text.replace("k in 2,", "k in 1,")
        .replace("t in 16", "t in 64")
        .replace("k * 16 + t]", "k * 64 + t] { where t < 32")
        .replace("where t < 32 {", "where t < 32 ")
    )
    module = lowered(wide)
    assert barriers(module) == 1
    same_meaning(wide, module)


def test_tails_and_shorter_loops():
    text = """program p(A: f32[5, 20], out B: f32[5], out C: f32[40]) {
        for b in 3 @ blockIdx.x {
            for t in 16 @ threadIdx.x, j in 2, k in 2 {
                block s[i: 5 = b * 2 + j | r: 20 = k * 16 + t] { where b * 2 + j < 5 and k * 16 + t < 20
                    init { B[i] = 0.0 }
                    B[i] = B[i] + A[i, r]
                }
            }
            for u in 32 @ threadIdx.x {
                block c[x: 40 = b * 32 + u] { where b * 32 + u < 40
                    C[x] = A[0, x % 20] }
            }
        }
    }"""
    same_meaning(program(text))


def test_threads_of_a_reduction_must_be_a_number():
    text = """program p[N: dyn(1..256)](A: f32[4, N], out B: f32[4]) {
        for b in 4 @ blockIdx.x, t in N @ threadIdx.x {
            block s[i: 4 = b | r: N = t] { init { B[i] = 0.0 } B[i] += A[i, r] }
        }
    }"""
    with pytest.raises(TargetError) as refused:
        lowered(program(text))
    assert refused.value.diagnostic.code == "MS431"


PART = """program part(A: f32[4, 64], F: i32[4], inout B: f32[4]) {
    for b in 1 @ blockIdx.x, y in 4 @ threadIdx.y {
        if CONDITION {
            for k in OUTER, t in THREADS @ threadIdx.x {
                block s[i: 4 = y | r: 64 = k * THREADS + t] {
                    init { B[i] = 0.0 }
                    B[i] += A[i, r]
                }
            }
        }
    }
}"""


@pytest.mark.parametrize(
    ("condition", "threads", "shuffled"),
    [("F[y] > 0", 16, 0), ("y < 3", 8, 0), ("F[b] > 0", 16, 4), ("F[y] > 0", 32, 5)],
)
def test_rows_that_share_a_warp_do_not_shuffle_where_only_some_of_them_come(
    condition: str, threads: int, shuffled: int
):
    text = PART.replace("CONDITION", condition).replace("THREADS", str(threads)).replace("OUTER", str(64 // threads))
    p = program(text)
    module = lowered(p)
    assert shuffles(module) == shuffled
    assert (barriers(module) > 0) is (shuffled == 0)
    same_meaning(p, module)


def test_rows_that_share_a_warp_and_reduce_differently_often_are_refused():
    text = PART.replace("if CONDITION", "for n in y + 1").replace("THREADS", "16").replace("OUTER", "4")
    with pytest.raises(TargetError) as caught:
        lowered(program(text))
    assert caught.value.diagnostic.code == "MS433"


def test_two_results_at_once():
    text = """program p(A: f32[2, 32], out V: f32[2], out N: i32[2]) {
        for b in 2 @ blockIdx.x, k in 2, t in 16 @ threadIdx.x {
            block s[i: 2 = b | r: 32 = k * 16 + t] {
                init { N[i] = -1  V[i] = f32(-inf) }
                let value = A[i, r]
                let index = i32(r)
                let where_ = select(V[i] >= value, N[i], index)
                let best = select(V[i] >= value, V[i], value)
                N[i] = where_
                V[i] = best
            }
        }
    }"""
    p = program(text)
    module = lowered(p)
    assert shuffles(module) == 8
    same_meaning(p, module)


ARGMAX = """program p(A: f32[2, 32], out V: f32[2], out N: i32[2]) {
    for b in 2 @ blockIdx.x, LOOPS {
        block s[i: 2 = b | r: 32 = k * 8 + t] {
            init { N[i] = START  V[i] = f32(-inf) }
            let n = select(KEEP, N[i], WHERE)
            let v = max(V[i], A[i, r])
            N[i] = n
            V[i] = v
        }
    }
}"""
LAST, LEAST = "V[i] > A[i, r]", "V[i] > A[i, r] or V[i] == A[i, r] and N[i] < i32(r)"


def argmax(keep: str, start: str = "-1", where: str = "i32(r)", loops: str = "k in 4, t in 8 @ threadIdx.x") -> Program:
    parts = {"LOOPS": loops, "START": start, "KEEP": keep, "WHERE": where}
    return program(reduce(lambda text, part: text.replace(*part), parts.items(), ARGMAX))


@pytest.mark.parametrize("keep", [LAST, LAST.replace(">", ">="), LEAST])
def test_the_greatest_and_where_it_is_among_ties(keep: str):
    p = argmax(keep)
    ties = np.array([[0, 3, 1, 3] * 8, [-np.inf] * 32], "f4")
    want = interpret.run(p, {"A": ties}, check=False)
    got = simulator.run(lowered(p), {"A": ties}, 0)
    assert outputs_equal(want, got), difference(want, got)


def test_the_greatest_of_values_with_nan_is_nan():
    """The index is then unspecified, the value is not."""
    values = np.arange(64, dtype="f4").reshape(2, 32)
    values[0, 5] = values[1, 31] = np.nan
    for keep in (LAST, LEAST):
        got = simulator.run(lowered(argmax(keep)), {"A": values}, 0)
        assert np.isnan(got["V"]).all()


@pytest.mark.parametrize("start", ["0", "40"])
def test_what_an_ordered_reduction_starts_from_comes_first(start: str):
    p = argmax(LAST.replace(">", ">="), start)
    arrays = {"A": np.full((2, 32), -np.inf, "f4")}
    want = interpret.run(p, arrays, check=False)
    got = simulator.run(lowered(p), arrays, 0)
    assert outputs_equal(want, got), difference(want, got)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keep": LAST, "loops": "t in 8 @ threadIdx.x, k in 4"}, "do not provably rise"),
        ({"keep": LAST, "where": "i32(31 - r)"}, "do not provably rise"),
        ({"keep": LAST, "where": "i32(r - 3)"}, "do not provably rise from 0"),
        ({"keep": LEAST, "start": "0"}, "`N` does not start from -1"),
    ],
)
def test_positions_that_do_not_tell_the_order_are_refused(options: dict[str, str], words: str):
    with pytest.raises(TargetError, match=words) as found:
        lowered(argmax(**options))
    assert found.value.diagnostics[0].code == "MS435"


def test_over_two_axes():
    text = """program p(A: f32[2, 32], out B: f32[2]) {
        for b in 2 @ blockIdx.x, y in 4 @ threadIdx.y, t in 8 @ threadIdx.x {
            block s[i: 2 = b | r: 32 = y * 8 + t] { init { B[i] = 0.0 } B[i] = B[i] + A[i, r] }
        }
    }"""
    p = program(text)
    module = lowered(p)
    assert (shuffles(module), barriers(module)) == (0, 1)
    same_meaning(p, module)


def test_a_loop_that_counts_elements_and_parts_is_refused():
    text = """program p(A: f32[4, 8], out B: f32[4]) {
        for b in 1 @ blockIdx.x, t in 32 @ threadIdx.x {
            block s[i: 4 = t // 8 | k: 8 = t % 8] { init { B[i] = 0.0 } B[i] = B[i] + A[i, k] }
        }
    }"""
    with pytest.raises(TargetError, match="loop `t` counts elements") as found:
        lowered(program(text))
    assert found.value.diagnostics[0].code == "MS435"


def test_a_reducer_that_is_not_known_is_refused():
    text = """program p(A: f32[32], out B: f32[1]) {
        for t in 32 @ threadIdx.x {
            block s[i: 1 = 0 | k: 32 = t] { init { B[i] = 0.0 } B[i] = B[i] * 0.5 + A[k] }
        }
    }"""
    with pytest.raises(TargetError, match="how it combines values is not known"):
        lowered(program(text))


CUT = """program cut(A: f32[3, 8], inout B: f32[3]) {
    for b in 2, y in 2 @ threadIdx.y, t in 8 @ threadIdx.x {
        block s[i: 3 = b * 2 + y | r: 8 = t] {
            where PREDICATE
            init { B[i] = 0.0 }
            B[i] = B[i] + A[i, r]
        }
    }
}"""


@pytest.mark.parametrize("predicate", ["(b * 2 + y) * 8 + t < 24", "24 > b * 16 + y * 8 + t"])
def test_a_predicate_over_elements_and_terms_guards_the_result(predicate: str):
    """The fourth row does not exist: its sum was written behind the end of `B`."""
    same_meaning(program(CUT.replace("PREDICATE", predicate)))


def test_a_sum_without_terms_leaves_the_result_as_it_was():
    p = program("""program none(A: f32[3, 8], inout B: f32[3]) {
        for b in 3 @ blockIdx.x, k in 0, t in 8 @ threadIdx.x {
            block s[i: 3 = b | r: 8 = k * 8 + t] { init { B[i] = 0.0 } B[i] = B[i] + A[i, r] }
        }
    }""")
    same_meaning(p)


def test_terms_that_data_decide_are_refused():
    p = program(CUT.replace("PREDICATE", "A[0, t] > 0.0 and b * 2 + y < 3"))
    with pytest.raises(TargetError, match="MS435"):
        lowered(p)
