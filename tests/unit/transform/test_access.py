"""annotate_buffer_access, unsafe_hide_buffer_access and unsafe_set_dtype."""

import pytest

from mslang.ide.findings import findings
from mslang.ir.expr import Const
from mslang.schedule.replay import space_of_text
from mslang.schedule.schedule import Schedule
from mslang.sema.modules import load
from mslang.transform.primitives.blockize import blockize
from mslang.transform.primitives.buffer_access import annotate_buffer_access, unsafe_hide_buffer_access
from mslang.transform.primitives.caching import cache_read, cache_write
from mslang.transform.primitives.compute_at import compute_at
from mslang.transform.primitives.compute_inline import compute_inline
from mslang.transform.primitives.loops import split
from mslang.transform.primitives.unsafe_set_dtype import unsafe_set_dtype
from tests.unit.transform.programs import block, buffer, index_map, loop, refused
from tests.unit.transform.staged import accepted, program

B = program("A: f32[16], out B: f32[12]", "block b[i: 12] { B[i] = A[i + 1] * 2.0 }")
CHAIN = program(
    "A: f32[8], out B: f32[8]",
    "alloc T: f32[8]\n block a[i: 8] { T[i] = A[i] * 2.0 }\n block b[i: 8] { B[i] = T[i] + 1.0 }",
)


# ------------------------------------------------------------------ annotate_buffer_access
def test_a_region_to_read_takes_the_place_of_what_the_body_tells():
    done = annotate_buffer_access(B, block("b"), buffer("A"), "read", index_map("i", lambda i: ((i, i + 4),)))
    text = accepted(B, done)
    assert "reads A[i .. i + 4]" in text
    assert 'attr "explicit_read_region" = [0]' in text
    copied = accepted(B, cache_read(done.program, block("b"), buffer("A")))
    assert "for ax0 in 15" in copied


def test_a_region_to_write_is_what_is_written():
    p = program("A: f32[8], out B: f32[16]", "block b[i: 8] { B[i * 2] = A[i]\n B[i * 2 + 1] = A[i] }")
    given = index_map("i", lambda i: ((i * 2, i * 2 + 2),))
    assert 'attr "explicit_write_region"' in accepted(
        p, annotate_buffer_access(p, block("b"), buffer("B"), "write", given)
    )


def test_more_may_be_declared_than_is_written_and_is_not_taken_for_written():
    wider = index_map("i", lambda i: ((i, i + 2),))
    done = annotate_buffer_access(CHAIN, block("a"), buffer("T"), "write", wider)
    assert "writes T[i .. i + 2]" in accepted(CHAIN, done)
    with refused("MS332", "not provably written"):
        compute_at(done.program, block("a"), loop("i_1"))
    with refused("MS332", "`T`"):
        cache_write(done.program, block("a"), buffer("T"))
    p = program(
        "A: f32[8], out B: f32[16]",
        "alloc T: f32[16]\n block a[i: 8] { T[i * 2] = A[i] }\n block o[i: 8] { T[i * 2 + 1] = 0.0 }\n"
        "block b[i: 16] { B[i] = T[i] }",
    )
    both = index_map("i", lambda i: ((i * 2, i * 2 + 2),))
    claimed = annotate_buffer_access(p, block("a"), buffer("T"), "write", both)
    assert "writes T[i * 2 .. i * 2 + 2]" in accepted(p, claimed)
    with refused("MS365", "does not provably hold"):
        annotate_buffer_access(p, block("a"), buffer("T"), "write", index_map("i", lambda i: (i,)))


def test_more_than_the_block_around_declares_is_refused():
    nested = blockize(B, loop("i")).program
    with refused("MS365", "may hold more", "does not declare that it reads it"):
        annotate_buffer_access(nested, block("b"), buffer("A"), "read", index_map("i", lambda i: ((i - 1, i + 3),)))
    p = program(
        "A: f32[8], out B: f32[16]",
        "for o in 2 { block outer[x: 2 = o] { reads A[x * 4 .. x * 4 + 4]\n writes B[x * 8 .. x * 8 + 4]\n"
        "for i in 4 { block b[z: 2 = x, y: 4 = i] { B[z * 8 + y] = A[z * 4 + y] } } } }",
    )
    with refused("MS365", "may hold more", "does not declare that it writes it"):
        annotate_buffer_access(p, block("b"), buffer("B"), "write", index_map("zy", lambda z, y: ((0, 16),)))


def test_what_the_block_around_declares_may_be_declared_inside():
    nested = blockize(CHAIN, loop("i")).program
    assert "writes T[i - 1 .. i - 1 + 4]" in accepted(
        nested,
        annotate_buffer_access(nested, block("a"), buffer("T"), "write", index_map("i", lambda i: ((i - 1, i + 3),))),
    )


def resize(index: str = "i64(floor((f32(i) + 0.5) * 2.0 - 0.5 + 1e-05))"):
    return program(
        "A: f32[32], out B: f32[16]",
        f"alloc T: f32[32]\n block a[i: 32] {{ T[i] = A[i] * 2.0 }}\n block b[i: 16] {{ B[i] = T[{index}] }}",
    )


def test_rounded_indices_are_tried_for_all_values_of_the_axes():
    p = resize()
    given = index_map("i", lambda i: ((i * 2 - 3, i * 2 + 3),))
    done = annotate_buffer_access(p, block("b"), buffer("T"), "read", given)
    assert "reads T[i * 2 - 3 .. i * 2 - 3 + 6]" in accepted(p, done)
    accepted(p, compute_at(done.program, block("a"), loop("i_1")))
    for wrong in (lambda i: ((i * 2 + 1, i * 2 + 3),), lambda i: ((i * 2 - 3, i * 2),), lambda i: ((0, 30),)):
        with refused("MS365", "does not provably hold"):
            annotate_buffer_access(p, block("b"), buffer("T"), "read", index_map("i", wrong))


def test_without_an_annotation_a_rounded_index_reads_the_whole_dimension():
    p = split(resize(), loop("i_1"), [None, Const(4)]).program
    assert "in 32" in accepted(p, compute_at(p, block("a"), loop("i_1_0")))


@pytest.mark.parametrize(
    "index",
    [
        "i64(floor(f32(i) * 2.0 / 1.0))",
        "i64(exp(f32(i) * 0.0))",
        "i64(i8(i * 16))",
        "i64(f16(i) * f16(5000.0)) // 1000000",
    ],
)
def test_what_cannot_be_computed_as_compiled_code_does_is_refused(index):
    with refused("MS365", "does not provably hold"):
        given = index_map("i", lambda i: ((i * 0 - 100, i * 0 + 31),))
        annotate_buffer_access(resize(index), block("b"), buffer("T"), "read", given)


def test_a_region_that_is_too_small_is_refused():
    with refused("MS365", "does not provably hold"):
        annotate_buffer_access(B, block("b"), buffer("A"), "read", index_map("i", lambda i: (i,)))
    p = program("A: f32[8], idx: i64[8], out B: f32[8]", "block b[i: 8] { B[i] = A[min(max(idx[i], 0), 7)] }")
    with refused("MS365", "does not provably hold"):
        annotate_buffer_access(p, block("b"), buffer("A"), "read", index_map("i", lambda i: ((i, i + 2),)))
    accepted(p, annotate_buffer_access(p, block("b"), buffer("A"), "read", index_map("i", lambda i: ((0, 8),))))


def test_a_map_that_does_not_fit_is_refused():
    with refused("MS361", "takes 2 indices"):
        annotate_buffer_access(B, block("b"), buffer("A"), "read", index_map("ij", lambda i, j: (i,)))
    with refused("MS361", "may be empty"):
        annotate_buffer_access(B, block("b"), buffer("A"), "read", index_map("i", lambda i: ((i, i),)))
    with refused("MS330", "does not read `B`"):
        annotate_buffer_access(B, block("b"), buffer("B"), "read", index_map("i", lambda i: (i,)))


def test_a_region_map_is_checked_run_and_written_in_schedules():
    module = load(
        "region.ms",
        """
        program p(A: f32[16], out B: f32[12]) { block b[i: 12] { B[i] = A[i + 1] * 2.0 } }
        schedule s for p { b.annotate_buffer_access(A, read, fn (i) -> [i .. i + 4]) }
        """,
    )
    assert findings(module) == ()
    made = Schedule(B)
    given = made.index_map(lambda i: [(i, i + 4)])
    made.annotate_buffer_access(made.get("b"), made.get("A"), "read", given)
    assert "fn (i) -> [i .. i + 4]" in made.trace.as_ms("s")
    assert "s.index_map(lambda i: [(i, (i + 4))])" in made.trace.as_python("s")
    again = space_of_text(made.trace.as_ms("s"), B).sample(0)
    assert again.program == made.program
    other = Schedule(B)
    with refused("MS203"):
        other.reindex_cache_read(other.get("b"), other.get("A"), "local", given)


# ------------------------------------------------------------------ unsafe_hide_buffer_access
def test_a_hidden_read_is_not_declared():
    done = unsafe_hide_buffer_access(CHAIN, block("a"), "read", [buffer("A")])
    text = accepted(CHAIN, done)
    assert "reads []" in text
    assert 'attr "hidden_reads" = ["A"]' in text
    assert "B[i] = A[i] * 2.0 + 1.0" in accepted(CHAIN, compute_inline(done.program, block("a")))


def test_what_is_not_declared_cannot_be_hidden():
    with refused("MS330", "does not write `A`"):
        unsafe_hide_buffer_access(CHAIN, block("a"), "write", [buffer("A")])


# ------------------------------------------------------------------ unsafe_set_dtype
def test_what_is_stored_and_loaded_is_converted():
    text = accepted(CHAIN, unsafe_set_dtype(CHAIN, block("a"), buffer("T"), "f64"))
    assert "alloc T: f64[8]" in text
    assert "T[i] = f64(A[i] * 2.0)" in text
    assert "B[i] = f32(T[i]) + 1.0" in text


def widened(stored: str, loaded: str, wide: str) -> str:
    p = program(
        f"A: {stored}[8], out B: {wide}[8]",
        f"alloc T: {stored}[8]\n block a[i: 8] {{ T[i] = A[i] }}\n block b[i: 8] {{ B[i] = {loaded} }}",
    )
    return accepted(p, unsafe_set_dtype(p, block("a"), buffer("T"), wide))


@pytest.mark.parametrize(("narrow", "wide"), [("bf16", "f32"), ("f16", "f32"), ("i8", "f32"), ("u16", "i64")])
def test_what_a_wider_type_holds_is_converted_once(narrow: str, wide: str):
    text = widened(narrow, f"{wide}(T[i])", wide)
    assert f"T[i] = {wide}(A[i])" in text and "B[i] = T[i]" in text


@pytest.mark.parametrize(
    ("narrow", "loaded", "wide", "kept"),
    [
        ("i32", "f32(T[i])", "f32", "f32(i32(T[i]))"),
        ("f32", "bf16(T[i])", "bf16", "bf16(f32(T[i]))"),
        ("i8", "u16(T[i])", "u16", "u16(i8(T[i]))"),
        ("bf16", "f64(T[i])", "f64", "T[i]"),
        ("bf16", "f64(f32(T[i]))", "f64", "f64(f32(bf16(T[i])))"),
    ],
)
def test_what_it_does_not_hold_is_converted_back(narrow: str, loaded: str, wide: str, kept: str):
    assert f"B[i] = {kept}" in widened(narrow, loaded, wide)


def test_views_go_with_the_buffer():
    p = program(
        "A: f32[8], out B: f32[8]",
        """
        alloc T: f32[8]
        block a[i: 8] { T[i] = A[i] }
        for i in 0..8 {
            block b[i: 8 = i] {
                reads T[i]
                writes B[i]
                view V: f32[1] = T[i .. i + 1]
                B[i] = V[0]
            }
        }
        """,
    )
    assert "view V: f64[1]" in accepted(p, unsafe_set_dtype(p, block("a"), buffer("T"), "f64"))


def test_element_types_that_are_refused():
    with refused("MS366", "parameter"):
        unsafe_set_dtype(CHAIN, block("b"), buffer("B"), "f64")
    with refused("MS366", "`f31`"):
        unsafe_set_dtype(CHAIN, block("a"), buffer("T"), "f31")
    with refused("MS330", "does not write `T`"):
        unsafe_set_dtype(CHAIN, block("b"), buffer("T"), "f64")
