"""storage_align: what it leaves on a block, what lowering makes of it, what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mslang.ir.expr import Const
from mslang.ir.find import blocks_of
from mslang.ir.print import print_program
from mslang.ir.program import Buffer, Program
from mslang.kernel.nodes import Allocate, Body
from mslang.kernel.visit import bodies
from mslang.lower.passes import lower
from mslang.sema.intrin import parse_intrin
from mslang.sema.program import parse_program
from mslang.target.detect import host
from mslang.transform.analysis.alignment import ALIGNMENT
from mslang.transform.primitives.annotate import annotate
from mslang.transform.primitives.caching import cache_read
from mslang.transform.primitives.compute_at import compute_at
from mslang.transform.primitives.loop_kinds import parallel
from mslang.transform.primitives.loops import reorder, split
from mslang.transform.primitives.storage_align import storage_align
from mslang.transform.primitives.tensorize import tensorize
from mslang.transform.primitives.transform_layout import transform_layout
from tests.unit.transform.layouts import fn, same_meaning
from tests.unit.transform.programs import block, buffer, loop, loops, matmul, refused, sizes


def two(shape: str = "16, 8") -> Program:
    m, n = shape.split(", ")
    return parse_program(f"""program p(A: f32[{shape}], out B: f32[{shape}]) {{
        alloc T: f32[{shape}]
        for i in {m}, j in {n} {{ block a[x: {m} = i, y: {n} = j] {{ T[x, y] = A[x, y] * 2.0 }} }}
        for k in {m}, l in {n} {{ block b[x: {m} = k, y: {n} = l] {{ B[x, y] = T[x, y] + 1.0 }} }}
    }}""")


def noted(program: Program, name: str = "a") -> Any:
    return dict(next(b for b in blocks_of(program.body) if b.name == name).annotations).get(ALIGNMENT)


def placed(program: Program, name: str) -> Buffer:
    def look(body: Body) -> Iterator[Buffer]:
        for s in body:
            if isinstance(s, Allocate) and s.buffer.name == name:
                yield s.buffer
            for inner in bodies(s):
                yield from look(inner)

    (found,) = look(lower(program, host()).body)
    return found


def strides(program: Program, name: str = "T") -> list[int] | None:
    found = placed(program, name).strides
    return None if found is None else [e.value for e in found if isinstance(e, Const)]


# ------------------------------------------------------------------ accepted
def test_it_is_noted_as_tvm_notes_it() -> None:
    p = two()
    done = storage_align(p, block("a"), -2, 32, 9)
    assert noted(done.program) == ((0, 0, 32, 9),)
    assert 'attr "buffer_dim_align" = [[0, 0, 32, 9]]' in print_program(done.program)
    same_meaning(p, done.program)


@pytest.mark.parametrize(
    ("axis", "factor", "offset", "wanted"),
    [
        (0, 32, 9, [9, 1]),
        (-2, 32, 0, [32, 1]),
        (-2, 32, 5, [37, 1]),
        (0, 8, 0, None),
        (1, 4, 2, [16, 2]),
        (-1, 4, -2, [16, 2]),
    ],
)
def test_the_stride_is_the_least_that_is_offset_modulo_factor(
    axis: int, factor: int, offset: int, wanted: list[int] | None
) -> None:
    p = two()
    done = storage_align(p, block("a"), axis, factor, offset).program
    assert strides(done) == wanted
    same_meaning(p, done)


def test_what_is_asked_last_of_a_dimension_counts() -> None:
    p = storage_align(two(), block("a"), 0, 32, 8).program
    p = storage_align(p, block("a"), 1, 2, 0).program
    p = storage_align(p, block("a"), -2, 16, 1).program
    assert noted(p) == ((0, 1, 2, 0), (0, 0, 16, 1))
    assert strides(p) == [17, 2]
    same_meaning(two(), p)


def test_it_counts_for_what_is_touched_of_the_buffer() -> None:
    """As in sample 3: the tile of an operand in shared memory, its rows 8 modulo 32 apart."""
    p = matmul(64, 48, 32)
    q = cache_read(p, block("mm"), buffer("A"), "shared")
    q = split(q.program, loop("k"), sizes(None, 16))
    q = split(q.program, loop("i"), sizes(None, 8))
    q = reorder(q.program, loops("i_0 k_0 i_1 j k_1"))
    q = compute_at(q.program, block("A_shared"), loop("k_0"))
    done = storage_align(q.program, block("A_shared"), -2, 32, 8).program
    found = placed(done, "A_shared_1")
    assert [e.value for e in found.shape if isinstance(e, Const)] == [8, 16]
    assert strides(done, "A_shared_1") == [40, 1]
    same_meaning(p, done)
    same_meaning(p, parallel(done, loop("i_0")).program)


def test_a_new_layout_forgets_it() -> None:
    p = storage_align(two(), block("a"), 0, 32, 8).program
    done = transform_layout(p, block("a"), buffer("T"), fn(lambda i, j: [j, i])).program
    assert noted(done) is None and strides(done) is None


def test_the_buffer_is_named_where_there_are_several() -> None:
    p = parse_program("""program p(A: f32[8, 4], out B: f32[8, 4]) {
        alloc S: f32[8, 4]
        alloc T: f32[8, 4]
        for i in 8, j in 4 { block a[x: 8 = i, y: 4 = j] { S[x, y] = A[x, y]  T[x, y] = A[x, y] * 2.0 } }
        for k in 8, l in 4 { block b[x: 8 = k, y: 4 = l] { B[x, y] = S[x, y] + T[x, y] } }
    }""")
    with refused("MS394", "several", "`S`, `T`"):
        storage_align(p, block("a"), 0, 16)
    done = storage_align(p, block("a"), 0, 16, buffer=buffer("T")).program
    assert noted(done) == ((1, 0, 16, 0),)
    assert strides(done, "T") == [16, 1] and strides(done, "S") is None
    same_meaning(p, done)


# ------------------------------------------------------------------ refused
@pytest.mark.parametrize(
    ("name", "axis", "factor", "named", "words"),
    [
        ("a", 0, 0, {}, ["factor 0"]),
        ("a", 0, -4, {}, ["factor -4"]),
        ("a", 2, 8, {}, ["no dimension 2"]),
        ("a", -3, 8, {}, ["no dimension -3"]),
        ("b", 0, 8, {}, ["does not allocate `B`", "cache_write"]),
        ("a", 0, 8, {"buffer": buffer("A")}, ["does not write `A`"]),
    ],
)
def test_refused(name: str, axis: int, factor: int, named: dict[str, Any], words: list[str]) -> None:
    with refused("MS394", *words):
        storage_align(two(), block(name), axis, factor, **named)


def test_given_strides_stay() -> None:
    p = parse_program("""program p(A: f32[8], out B: f32[8]) {
        alloc T: f32[8] @ global(strides = [3])
        for i in 8 { block a[x: 8 = i] { T[x] = A[x] } }
        for k in 8 { block b[x: 8 = k] { B[x] = T[x] } }
    }""")
    with refused("MS394", "strides of `T` are given"):
        storage_align(p, block("a"), 0, 4)


@pytest.mark.parametrize("value", ["x", 3, ((0, 1),), ((0, 0, 0, 0),)])
def test_another_annotation_of_that_name_stays(value: Any) -> None:
    p = annotate(two(), block("a"), ALIGNMENT, value).program
    with refused("MS394", "unannotate"):
        storage_align(p, block("a"), 0, 4)


def test_strides_that_a_view_gives_stay() -> None:
    p = parse_program("""program p(A: f32[8, 4], out B: f32[8, 4]) {
        alloc T: f32[8, 4]
        for i in 8, j in 4 { block a[x: 8 = i, y: 4 = j] { T[x, y] = A[x, y] } }
        for k in 8 {
            block b[x: 8 = k] {
                reads T[x, 0 .. 4]
                writes B[x, 0 .. 4]
                view V: f32[1, 4] @ global(strides = [4, 1]) = T[x .. x + 1, 0 .. 4]
                for l in 4 { block c[z: 8 = x, y: 4 = l] { B[z, y] = V[0, y] } }
            }
        }
    }""")
    with refused("MS394", "`V` is a view of `T`"):
        storage_align(p, block("a"), 0, 32)


def test_the_rows_of_an_operand_lie_side_by_side() -> None:
    def row(impl: str, before: Program, at: str) -> Program:
        said = f"desc {{ block c[x: 8] {{ dst[x] = src[x] + 1.0 }} }}  impl {impl}"
        return tensorize(
            before, loop(at), parse_intrin(f"intrin row(src: f32[8], out dst: f32[8]) {{ {said} }}")
        ).program

    p = row('llvm "; nothing"', two(), "l")
    with refused("MS394", "`T` is an operand of an instruction (block `b_o`)", "side by side"):
        storage_align(p, block("a"), -1, 2)
    emulated = row("{ block c[x: 8] { dst[x] = src[x] + 1.0 } }", two(), "l")
    of_a_view = row('llvm "; nothing"', emulated, "x_1")
    with refused("MS394", "`T` is an operand of an instruction (block `c_o`)", "side by side"):
        storage_align(of_a_view, block("a"), -1, 2)
    assert noted(storage_align(p, block("a"), 0, 16).program) == ((0, 0, 16, 0),)
    same_meaning(emulated, storage_align(emulated, block("a"), -1, 2).program)


@pytest.mark.parametrize("at", ["j", "i"])
def test_an_instruction_asks_for_what_the_block_that_it_replaces_asked_for(at: str) -> None:
    shape = {"j": "8", "i": "16, 8"}[at]
    index = {"j": "x", "i": "x, y"}[at]
    axes = {"j": "x: 8", "i": "x: 16, y: 8"}[at]
    does = f"{{ block c[{axes}] {{ dst[{index}] = src[{index}] * 2.0 }} }}"
    twice = parse_intrin(f"intrin twice(src: f32[{shape}], out dst: f32[{shape}]) {{ desc {does} impl {does} }}")
    aligned = storage_align(two(), block("a"), 0, 32, 4).program
    p = tensorize(aligned, loop(at), twice).program
    assert noted(p, "a_o") == ((0, 0, 32, 4),) and strides(p) == [36, 1]
    same_meaning(two(), p)
