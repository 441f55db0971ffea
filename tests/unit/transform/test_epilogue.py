"""fuse_reduction_epilogue: what keeps the result, and what is refused because it does not."""

import pytest

from mslang.ir.find import all_buffers, blocks_of, path_to_block
from mslang.ir.program import Program, Store
from mslang.sema.program import parse_program
from mslang.transform.outcome import BlockRef, BufferRef, Gone
from mslang.transform.primitives.buffer_access import unsafe_hide_buffer_access
from mslang.transform.primitives.fuse_reduction_epilogue import fuse_reduction_epilogue
from mslang.transform.primitives.loops import split
from mslang.transform.primitives.rfactor import rfactor
from tests.unit.transform.programs import block, loop, refused, sizes, text
from tests.unit.transform.test_rfactor import same


def folded(update: str, after: str, axes: str = "i: 6 | k: 10", more: str = "") -> Program:
    return parse_program(f"""program p(A: f32[6, 10], b: f32[6], out D: f32[6]) {{
        alloc T: f32[6]
        block s[{axes}] {{ {update} }}
        block e[i: 6] {{ D[i] = {after} }}
        {more}
    }}""")


@pytest.mark.parametrize(
    ("update", "after", "init", "value"),
    [
        ("T[i] += A[i, k]", "T[i] + b[i]", "b(i)", "D(i) + A(i, k)"),
        ("T[i] += A[i, k]", "b[i] + T[i]", "b(i)", "D(i) + A(i, k)"),
        ("T[i] += A[i, k]", "T[i] - b[i]", "0.0 - b(i)", "D(i) + A(i, k)"),
        ("T[i] += A[i, k]", "T[i]", "0.0", "D(i) + A(i, k)"),
        ("T[i] *= A[i, k]", "b[i] * T[i]", "b(i)", "D(i) * A(i, k)"),
        ("T[i] = max(T[i], A[i, k])", "max(T[i], 1.0)", "1.0", "D(i) max A(i, k)"),
        ("T[i] = max(T[i], A[i, k])", "min(T[i], b[i])", "-inf min b(i)", "D(i) max (A(i, k) min b(i))"),
        (
            "T[i] = min(T[i], A[i, k])",
            "min(max(T[i], b[i]), 2.0)",
            "(inf max b(i)) min 2.0",
            "D(i) min (A(i, k) max b(i))",
        ),
    ],
)
def test_what_keeps_the_result(update, after, init, value):
    p = folded(update, after)
    out = fuse_reduction_epilogue(p, block("s"), block("e"))
    made = path_to_block(out.program, "s")[-1]
    (start,), (store,) = made.init, made.body
    assert isinstance(start, Store) and isinstance(store, Store)
    assert (text(start.value), text(store.value)) == (init, value)
    assert [b.name for b in blocks_of(out.program.body)] == ["s"] and "T" not in all_buffers(out.program)
    assert out.forward[block("e")] == Gone("fuse_reduction_epilogue", (block("s"),))
    assert out.forward[BufferRef("T")] == Gone("fuse_reduction_epilogue")
    same(p, out.program)


def test_indices_in_another_order():
    p = parse_program("""program p(A: f32[6, 10], W: f32[10, 4], b: f32[4], out D: f32[4, 6]) {
        alloc T: f32[6, 4]
        block s[i: 6, j: 4 | k: 10] { T[i, j] += A[i, k] * W[k, j] }
        block e[x: 4, y: 6] { D[x, y] = T[y, x] + b[x] } }""")
    same(p, fuse_reduction_epilogue(p, block("s"), block("e")).program)


def test_under_tiles_and_before_rfactor():
    p = split(folded("T[i] += A[i, k]", "T[i] + b[i]"), loop("k"), sizes(None, 4)).program
    p = split(p, loop("i"), sizes(None, 4)).program
    out = fuse_reduction_epilogue(p, block("s"), block("e")).program
    same(p, out)
    same(p, rfactor(out, loop("k_1")).program)


@pytest.mark.parametrize(
    ("update", "after", "words"),
    [
        ("T[i] += A[i, k]", "max(T[i], 0.0)", ("`max` after a sum", "each partial sum", "reverse_compute_at")),
        ("T[i] += A[i, k]", "max(T[i] + b[i], 0.0)", ("`max` after a sum",)),
        ("T[i] += A[i, k]", "T[i] * b[i]", ("`*` after a sum",)),
        ("T[i] *= A[i, k]", "T[i] + b[i]", ("`+` after a product",)),
        ("T[i] = max(T[i], A[i, k])", "T[i] + b[i]", ("`+` after a maximum",)),
        ("T[i] += A[i, k]", "b[i] - T[i]", ("cannot be done within",)),
        ("T[i] += A[i, k]", "exp(T[i])", ("cannot be done within",)),
        ("T[i] += A[i, k]", "T[i] + T[i]", ("2 times",)),
    ],
)
def test_what_does_not(update, after, words):
    with refused("MS371", *words):
        fuse_reduction_epilogue(folded(update, after), block("s"), block("e"))


def test_no_reduction():
    p = parse_program("""program p(A: f32[6], out D: f32[6]) {
        alloc T: f32[6]
        block s[i: 6] { T[i] = A[i] }
        block e[i: 6] { D[i] = T[i] + 1.0 } }""")
    with refused("MS313", "condition 1"):
        fuse_reduction_epilogue(p, block("s"), block("e"))


def test_another_reducer():
    with refused("MS370", "is not a sum"):
        fuse_reduction_epilogue(
            folded("init { T[i] = 0.0 } T[i] = T[i] - A[i, k]", "T[i] + b[i]"), block("s"), block("e")
        )


def test_readers():
    p = folded("T[i] += A[i, k]", "b[i] + 1.0")
    with refused("MS341", "block `e` does not read"):
        fuse_reduction_epilogue(p, block("s"), block("e"))
    p = parse_program("""program p(A: f32[6, 10], out D: f32[6], out E: f32[6]) {
        alloc T: f32[6]
        block s[i: 6 | k: 10] { T[i] += A[i, k] }
        block e[i: 6] { D[i] = T[i] + 1.0 }
        block f[i: 6] { E[i] = T[i] } }""")
    with refused("MS341", "block `f` reads"):
        fuse_reduction_epilogue(p, block("s"), block("e"))


def test_a_result_that_is_needed():
    p = parse_program("""program p(A: f32[6, 10], out T: f32[6], out D: f32[6]) {
        block s[i: 6 | k: 10] { T[i] += A[i, k] }
        block e[i: 6] { D[i] = T[i] + 1.0 } }""")
    with refused("MS343", "output block"):
        fuse_reduction_epilogue(p, block("s"), block("e"))


def test_an_epilogue_of_another_kind():
    p = parse_program("""program p(A: f32[6, 10], out D: f32[]) {
        alloc T: f32[6]
        block s[i: 6 | k: 10] { T[i] += A[i, k] }
        block e[| i: 6] { D[] += T[i] } }""")
    with refused("MS350", "has an init"):
        fuse_reduction_epilogue(p, block("s"), block("e"))


def test_other_elements():
    p = parse_program("""program p(A: f32[6, 10], out D: f32[6]) {
        alloc T: f32[6]
        block s[i: 6 | k: 10] { T[i] += A[i, k] }
        block e[i: 4] { D[i] = T[i] + 1.0 } }""")
    with refused("MS332", "for just the elements"):
        fuse_reduction_epilogue(p, block("s"), block("e"))
    with refused("MS353", "cannot be inverted"):
        fuse_reduction_epilogue(folded("T[i] += A[i, k]", "T[i // 2] + 1.0"), block("s"), block("e"))


def test_the_order_of_blocks():
    p = parse_program("""program p(A: f32[6, 10], inout b: f32[6], out D: f32[6]) {
        alloc T: f32[6]
        block s[i: 6 | k: 10] { T[i] += A[i, k] }
        block w[i: 6] { b[i] = 1.0 }
        block e[i: 6] { D[i] = T[i] + b[i] } }""")
    with refused("MS344", "block `w` writes `b`"):
        fuse_reduction_epilogue(p, block("s"), block("e"))


BESIDE = """program p(A: i32[8, 4], B: i32[20], inout O: i32[40], inout P: i32[8]) {{
    alloc T: i32[8]
    block t[i: 8 | k: 4] {{ T[i] += A[i, k] }}
    block u[i: 8] {{ {after} }}
    {more}
}}"""
OTHER = "block v[i: 8] { where T[i] < 4 P[i] = 1 }"


@pytest.mark.parametrize(
    ("after", "more", "code", "words"),
    [
        ("writes O[0..40] O[i64(T[i])] = T[i]", "", "MS371", "reads `T` 2 times"),
        ("reads T[i], B[0..20] O[i] = T[i] + B[i64(T[i])]", "", "MS371", "reads `T` 2 times"),
        ("O[i] = T[i] + B[i]", OTHER, "MS341", "block `v` reads what block `t` writes"),
        ("view W: i32[1] = B[i .. i + 1] reads T[i], B[i] writes O[i] O[i] = T[i] + W[0]", "", "MS352", "its own"),
    ],
)
def test_the_result_must_not_be_named_elsewhere(after, more, code, words):
    p = parse_program(BESIDE.format(after=after, more=more))
    with refused(code, words):
        fuse_reduction_epilogue(p, BlockRef("t"), BlockRef("u"))


def test_a_result_that_is_read_unseen():
    p = parse_program(BESIDE.format(after="O[i] = T[i] + B[i]", more="block v[i: 8] { P[i] = T[i] }"))
    p = unsafe_hide_buffer_access(p, BlockRef("v"), "read", [BufferRef("T")]).program
    with refused("MS352", "block `v` hides that it accesses `T`"):
        fuse_reduction_epilogue(p, BlockRef("t"), BlockRef("u"))


def test_another_scope():
    p = parse_program("""program p(A: f32[6, 10], out D: f32[6]) {
        alloc T: f32[6]
        for o in 6 {
            block outer[x: 6 = o] {
                for k in 10 { block s[i: 6 = x | r: 10 = k] { init { T[i] = 0.0 } T[i] = T[i] + A[i, r] } }
            }
        }
        block e[i: 6] { D[i] = T[i] + 1.0 } }""")
    with refused("MS340", "`s` and `e` are in different scopes", "in the same block, or in none"):
        fuse_reduction_epilogue(p, block("s"), block("e"))


@pytest.mark.parametrize(("extent", "condition"), [(3, ""), (6, "where x < 3")])
def test_an_epilogue_of_some_elements(extent, condition):
    p = parse_program(f"""program p(A: f32[6, 10], inout D: f32[6]) {{
        alloc T: f32[6]
        block s[i: 6 | k: 10] {{ T[i] += A[i, k] }}
        for j in {extent} {{ block e[x: 6 = j] {{ {condition} D[x] = T[x] + 1.0 }} }} }}""")
    with refused("MS348", "`e` does not provably run for all values", "do not provably cover the domains"):
        fuse_reduction_epilogue(p, block("s"), block("e"))
