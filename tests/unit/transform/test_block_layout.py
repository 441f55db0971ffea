"""transform_block_layout and reorder_block_iter_var."""

from __future__ import annotations

from typing import Any

import pytest

from mslang.ir.find import blocks_of
from mslang.ir.program import Program
from mslang.sema.program import parse_program
from mslang.transform.outcome import Gone, LoopRef
from mslang.transform.primitives.decompose_reduction import decompose_reduction
from mslang.transform.primitives.loop_kinds import bind, parallel, vectorize
from mslang.transform.primitives.loops import split
from mslang.transform.primitives.transform_block_layout import reorder_block_iter_var, transform_block_layout
from tests.unit.transform.layouts import fn, reads_as, same_meaning
from tests.unit.transform.programs import block, loop, matmul, refused, sizes


def copied() -> Program:
    return parse_program("""program p(A: f32[8, 4], out B: f32[8, 4]) {
        for i in 8, j in 4 { block b[x: 8 = i, y: 4 = j] { B[x, y] = A[x, y] } }
    }""")


# ------------------------------------------------------------------ transform_block_layout
def test_fused_axes() -> None:
    p = copied()
    done = transform_block_layout(p, block("b"), fn(lambda x, y: [x * 4 + y]))
    reads_as(
        done.program,
        """program p(A: f32[8, 4], out B: f32[8, 4]) {
        for i in 32 { block b[v: 32 = i] { B[v // 4, v % 4] = A[v // 4, v % 4] } }
        }""",
    )
    assert [a.name for a in blocks_of(done.program.body)[0].axes] == ["x_y_fused"]
    gone = Gone("transform_block_layout", (LoopRef("x_y_fused"),))
    assert dict(done.forward) == {LoopRef("i"): gone, LoopRef("j"): gone}
    same_meaning(p, done.program)


def test_axes_cut_and_moved_with_a_reduction() -> None:
    p = matmul(8, 4, 6)
    done = transform_block_layout(p, block("mm"), fn(lambda x, y, z: [z // 3, x // 2, y, z % 3, x % 2])).program
    found = blocks_of(done.body)[0]
    assert [(a.name, a.kind) for a in found.axes] == [
        ("z_0", "reduce"),
        ("x_0", "spatial"),
        ("y", "spatial"),
        ("z_1", "reduce"),
        ("x_1", "spatial"),
    ]
    reads_as(
        done,
        """program matmul(A: f32[8, 6], B: f32[6, 4], out C: f32[8, 4]) {
        for z0 in 2, x0 in 4, y in 4, z1 in 3, x1 in 2 {
            block mm[a: 2 @ reduce = z0, b: 4 = x0, c: 4 = y, d: 3 @ reduce = z1, e: 2 = x1] {
                reads A[b * 2 + e, a * 3 + d], B[a * 3 + d, c]
                writes C[b * 2 + e, c]
                init { C[b * 2 + e, c] = 0.0 }
                C[b * 2 + e, c] += A[b * 2 + e, a * 3 + d] * B[a * 3 + d, c]
            }
        }
        }""",
    )
    same_meaning(p, done)


def test_the_init_stays_first_where_a_reduction_runs_backwards() -> None:
    p = matmul(4, 4, 6)
    same_meaning(p, transform_block_layout(p, block("mm"), fn(lambda x, y, z: [5 - z, x, y])).program)


def test_an_update_and_a_block_under_other_loops() -> None:
    p = matmul(4, 4, 6)
    q = decompose_reduction(p, block("mm"), loop("k")).program
    name = next(b.name for b in blocks_of(q.body) if b.name.endswith("update"))
    with refused("MS389", "alone"):
        transform_block_layout(q, block(name), fn(lambda x, y, z: [x, y, z]))
    inner = parse_program("""program p(A: f32[8, 4], out B: f32[8, 4]) {
        alloc T: f32[8, 4]
        for t in 2 {
            for i in 8, j in 4 { block a[x: 8 = i, y: 4 = j] { T[x, y] = A[x, y] } }
            for k in 8, l in 4 { block b[x: 8 = k, y: 4 = l] { B[x, y] = T[x, y] } }
        }
    }""")
    same_meaning(inner, transform_block_layout(inner, block("a"), fn(lambda x, y: [y, x])).program)


def test_a_block_of_blocks() -> None:
    p = parse_program("""program p(A: f32[16, 4], out B: f32[16, 4]) {
        for i in 4 {
            block o[v: 4 = i] {
                reads A[v * 4 .. v * 4 + 4, 0 .. 4]
                writes B[v * 4 .. v * 4 + 4, 0 .. 4]
                for j in 4, l in 4 { block a[x: 16 = v * 4 + j, y: 4 = l] { B[x, y] = A[x, y] } }
            }
        }
    }""")
    same_meaning(p, transform_block_layout(p, block("o"), fn(lambda v: [v // 2, v % 2])).program)
    same_meaning(p, transform_block_layout(p, block("o"), fn(lambda v: [3 - v])).program)


@pytest.mark.parametrize(
    ("f", "code", "words"),
    [
        (fn(lambda x: [x]), "MS383", ["1 indices, not 2"]),
        (fn(lambda x, y: [x]), "MS384", ["one to one"]),
        (fn(lambda x, y: [x // 3, x % 3, y]), "MS384", ["gaps"]),
        (fn(lambda x, y: [x + 1, y]), "MS384", ["gaps"]),
        (fn(lambda x, y: [x % 4, y]), "MS384", ["different"]),
    ],
)
def test_maps_refused(f: Any, code: str, words: list[str]) -> None:
    with refused(code, *words):
        transform_block_layout(copied(), block("b"), f)


def test_axes_of_two_kinds_are_refused() -> None:
    with refused("MS392", "`y` is spatial", "`z` is reduce"):
        transform_block_layout(matmul(4, 4, 6), block("mm"), fn(lambda x, y, z: [x, y * 6 + z]))


@pytest.mark.parametrize("kind", ["scan", "opaque"])
def test_axes_with_an_order_are_refused(kind: str) -> None:
    p = parse_program(f"""program p(A: f32[8], out B: f32[8]) {{
        for i in 8 {{ block b[x: 8 @ {kind} = i] {{ B[x] = A[x] }} }}
    }}""")
    with refused("MS389", kind, "order"):
        transform_block_layout(p, block("b"), fn(lambda x: [x // 2, x % 2]))


def test_loops_that_are_no_nest_of_the_axes_are_refused() -> None:
    flat = fn(lambda x, y: [x * 4 + y])
    p = copied()
    beside = parse_program("""program p(A: f32[8, 4], out B: f32[8, 4], out C: f32[8]) {
        for i in 8 {
            for j in 4 { block b[x: 8 = i, y: 4 = j] { B[x, y] = A[x, y] } }
            block c[x: 8 = i] { C[x] = A[x, 0] }
        }
    }""")
    for q in (
        split(p, loop("i"), sizes(None, 2)).program,
        bind(p, loop("i"), "threadIdx.x").program,
        beside,
    ):
        with refused("MS389", "alone"):
            transform_block_layout(q, block("b"), flat)


@pytest.mark.parametrize("condition", ["i + j < 5", "x * 2 >= 3 and y < 3", "k < 2 or y + i == 3"])
def test_a_predicate_goes_with_the_axes(condition: str) -> None:
    p = parse_program(f"""program p(A: f32[8, 4], inout B: f32[8, 4]) {{
        for k in 3 {{
            for i in 8, j in 4 {{ block b[x: 8 = i, y: 4 = j] {{ where {condition}  B[x, y] = A[x, y] + 1.0 }} }}
        }}
    }}""")
    for f in (lambda x, y: [x * 4 + y], lambda x, y: [y % 2, x, y // 2]):
        same_meaning(p, transform_block_layout(p, block("b"), fn(f)).program)


def test_what_is_an_axis_of_one_kind_when_it_is_simplified() -> None:
    p = matmul(8, 4, 6)
    done = transform_block_layout(p, block("mm"), fn(lambda x, y, z: [x, y, z * 1 + y % 1])).program
    same_meaning(p, done)


def test_marks_of_the_old_loops_go_with_them() -> None:
    p = vectorize(parallel(copied(), loop("i")).program, loop("j")).program
    done = transform_block_layout(p, block("b"), fn(lambda x, y: [y, x])).program
    reads_as(
        done,
        """program p(A: f32[8, 4], out B: f32[8, 4]) {
        for j in 4, i in 8 { block b[y: 4 = j, x: 8 = i] { B[x, y] = A[x, y] } }
        }""",
    )
    same_meaning(p, done)


# ------------------------------------------------------------------ reorder_block_iter_var
def test_axes_change_places_and_loops_do_not() -> None:
    p = matmul(4, 5, 6)
    done = reorder_block_iter_var(p, block("mm"), (2, 0, 1))
    assert [a.name for a in blocks_of(done.program.body)[0].axes] == ["z", "x", "y"]
    same_meaning(p, done.program)
    assert reorder_block_iter_var(done.program, block("mm"), (1, 2, 0)).program == p


@pytest.mark.parametrize("order", [(0, 1), (0, 1, 1), (0, 1, 3), (0, 1, 2, 3), ("x", 1, 2), (True, 0, 2), (-1, 0, 1)])
def test_what_is_no_order_is_refused(order: tuple[object, ...]) -> None:
    with refused("MS393", "x, y, z"):
        reorder_block_iter_var(matmul(4, 5, 6), block("mm"), order)
