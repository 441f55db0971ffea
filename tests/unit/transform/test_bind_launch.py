"""bind: what one launch of a kernel fixes, and reductions that threads share out."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError
from mslang.ir.expr import Choice, Const, DynamicRange, Expr, Symbol
from mslang.ir.program import For, Program
from mslang.ir.visit import map_expr, map_program_exprs, walk
from mslang.sema.program import parse_program
from mslang.transform.primitives.compute_at import compute_at, reverse_compute_at
from mslang.transform.primitives.decompose_reduction import decompose_reduction
from mslang.transform.primitives.loop_kinds import bind, vectorize
from mslang.transform.primitives.loops import split
from tests.unit.transform.layouts import same_meaning
from tests.unit.transform.programs import block, loop, refused, sizes

SIBLINGS = """program p(A: f32[8, 32], out B: f32[8, 64]) {
    alloc T: f32[8, 32]
    for i in 8 {
        for j in 32 { block a[x: 8 = i, y: 32 = j] { T[x, y] = A[x, y] } }
        for k in 64 { block b[x: 8 = i, y: 64 = k] { B[x, y] = T[x, y // 2] } }
    }
}"""


def bound(program: Program, *axes: tuple[str, str]) -> Program:
    for name, axis in axes:
        program = bind(program, loop(name), axis).program
    return program


def kinds(program: Program) -> dict[str, str]:
    return {s.var: s.kind for s in walk(program.body) if isinstance(s, For)}


# ------------------------------------------------------------------ extents of threads
@pytest.mark.parametrize(
    "order",
    [
        [("i", "blockIdx.x"), ("j", "threadIdx.x"), ("k", "threadIdx.x")],
        [("j", "threadIdx.x"), ("k", "threadIdx.x"), ("i", "blockIdx.x")],
        [("j", "threadIdx.x"), ("i", "blockIdx.y"), ("k", "threadIdx.x")],
    ],
)
def test_one_launch_has_one_extent_an_axis(order: list[tuple[str, str]]) -> None:
    with refused("MS395", "threadIdx.x", "32", "64", "split"):
        bound(parse_program(SIBLINGS), *order)


def test_other_axes_and_equal_extents_go_together() -> None:
    p = parse_program(SIBLINGS)
    done = bound(p, ("i", "blockIdx.x"), ("j", "threadIdx.x"), ("k", "threadIdx.y"))
    same_meaning(p, done)
    halves = split(p, loop("k"), sizes(None, 32)).program
    done = bound(halves, ("i", "blockIdx.x"), ("j", "threadIdx.x"), ("k_1", "threadIdx.x"))
    assert kinds(done) == {"i": "blockIdx.x", "j": "threadIdx.x", "k_0": "serial", "k_1": "threadIdx.x"}
    same_meaning(p, done)


def test_virtual_threads_and_other_launches_have_extents_of_their_own() -> None:
    p = parse_program(SIBLINGS)
    same_meaning(p, bound(p, ("i", "blockIdx.x"), ("j", "vthread.x"), ("k", "vthread.x")))
    # Without a loop bound around them each of the two is a launch.
    same_meaning(p, bound(p, ("j", "threadIdx.x"), ("k", "threadIdx.x")))


def test_extents_that_may_be_equal_are_left_to_the_decision() -> None:
    width = Symbol("w", Choice((32, 64)))
    p = split(parse_program(SIBLINGS), loop("k"), [None, width]).program
    done = bound(p, ("i", "blockIdx.x"), ("j", "threadIdx.x"), ("k_1", "threadIdx.x"))
    assert kinds(done)["k_1"] == "threadIdx.x"
    other = split(parse_program(SIBLINGS), loop("k"), [None, Symbol("w", Choice((8, 16)))]).program
    with refused("MS395", "different extents"):
        bound(other, ("i", "blockIdx.x"), ("j", "threadIdx.x"), ("k_1", "threadIdx.x"))


def test_sizes_known_at_the_call_are_for_blocks_only() -> None:
    m: Expr = Symbol("M", DynamicRange(1, 64))
    fixed = parse_program("""program p(A: f32[61], out B: f32[61]) {
        for i in 61 { block b[x: 61 = i] { B[x] = A[x] } }
    }""")
    p = replace(map_program_exprs(fixed, lambda e: map_expr(e, lambda x: m if x == Const(61) else None)), dynamic=(m,))
    assert kinds(bound(p, ("i", "blockIdx.x"))) == {"i": "blockIdx.x"}
    for axis in ("threadIdx.x", "vthread.y"):
        with refused("MS395", "`M`", "known only at the call", "split"):
            bound(p, ("i", axis))


@pytest.mark.parametrize("axis", ["blockIdx.x", "threadIdx.x", "vthread.x"])
def test_bounds_that_depend_on_a_loop_are_refused(axis: str) -> None:
    p = parse_program("""program p(A: f32[8, 8], out B: f32[8, 8]) {
        for i in 8, j in i + 1 { block b[x: 8 = i, y: 8 = j] { B[x, y] = A[x, y] } }
    }""")
    with refused("MS395", "depend on `i`"):
        bound(p, ("j", axis))


def test_no_thread_is_a_lane() -> None:
    p = parse_program("""program p(A: f32[8, 8], out B: f32[8, 8]) {
        for i in 8, j in 8 { block b[x: 8 = i, y: 8 = j] { B[x, y] = A[x, y] } }
    }""")
    lanes = vectorize(p, loop("j")).program
    with refused("MS311", "inside the vectorized loop `i`"):
        bound(vectorize(p, loop("i")).program, ("j", "threadIdx.x"))
    same_meaning(p, bound(lanes, ("j", "threadIdx.x")))
    same_meaning(p, bound(lanes, ("i", "threadIdx.x")))


# ------------------------------------------------------------------ reductions over threads
SUM = """program p(A: f32[8, 4], out S: f32[8]) {
    alloc T: f32[8, 4]
    for i in 8, j in 4 { block t[x: 8 = i, y: 4 = j] { T[x, y] = A[x, y] + 1.0 } }
    for k in 8, l in 4 { block s[x: 8 = k | y: 4 = l] { S[x] += T[x, y] } }
}"""


def test_a_sum_shared_out_to_threads_is_not_decomposed() -> None:
    p = parse_program(SUM)
    done = bound(p, ("l", "threadIdx.x"))
    same_meaning(p, done)
    with refused("MS310", "`l`"):
        decompose_reduction(done, block("s"), loop("l"))
    same_meaning(p, bound(decompose_reduction(p, block("s"), loop("l")).program, ("k", "threadIdx.x")))


def test_what_moves_in_beside_it_is_each_threads_own() -> None:
    p = parse_program(SUM)
    same_meaning(p, compute_at(bound(p, ("l", "threadIdx.x")), block("t"), loop("l")).program)
    more = SUM.replace("out S: f32[8]", "out S: f32[8], out R: f32[8]")
    beside = parse_program(more[:-1] + "    for m in 8 { block r[x: 8 = m] { R[x] = A[x, 0] } } }")
    with refused("MS309", "share out a reduction", "may access the same elements of `R`"):
        reverse_compute_at(bound(beside, ("l", "threadIdx.x")), block("r"), loop("l"))
    moved = compute_at(bound(p, ("l", "threadIdx.x")), block("t"), loop("k")).program
    same_meaning(p, moved)
    q = parse_program(
        SUM.replace("out S: f32[8]", "out S: f32[8], out R: f32[8]").replace(
            "S[x] += T[x, y] } }", "S[x] += T[x, y] } } for m in 8 { block r[x: 8 = m] { R[x] = S[x] } }"
        )
    )
    bound_first = bound(q, ("l", "threadIdx.x"))
    same_meaning(q, reverse_compute_at(bound_first, block("r"), loop("k")).program)


def test_what_threads_do_beside_a_reduction_may_race() -> None:
    text = """program p(A: f32[8], out S: f32[1], out R: f32[8]) {
        for i in 8 @ threadIdx.x {
            block s[x: 1 = 0 | y: 8 = i] { S[x] += A[y] }
            block r[x: 8 = WHERE] { R[x] = A[x] }
        }
    }"""
    arrays = {"A": np.arange(8, dtype=np.float32)}
    assert run(parse_program(text.replace("WHERE", "i")), arrays)["S"][0] == 28.0
    with pytest.raises(MsError) as found:
        run(parse_program(text.replace("WHERE", "i // 2")), arrays)
    assert found.value.diagnostic.code == "MS483"
