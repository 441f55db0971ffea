"""decompose_padding: a fill and a copy, and what is refused."""

import pytest

from mslang.ir.find import path_to_block
from mslang.ir.program import Program
from mslang.sema.program import parse_program
from mslang.transform.primitives.compute_at import compute_at
from mslang.transform.primitives.decompose_padding import decompose_padding
from mslang.transform.primitives.loop_kinds import vectorize
from mslang.transform.primitives.loops import fuse, split
from tests.unit.transform.programs import block, loop, loops, outline, refused, sizes, text
from tests.unit.transform.test_rfactor import same

BOX = "1 <= i and i < 9 and j >= 2 and 7 > j"


def padded(condition: str = BOX, value: str = "A[i - 1, j - 2]", other: str = "0.0", more: str = "") -> Program:
    return parse_program(f"""program p(A: f32[8, 5], inout P: f32[10, 8]) {{
        block pad[i: 10, j: 8] {{ {more} P[i, j] = select({condition}, {value}, {other}) }} }}""")


def test_at_the_outermost_loop():
    p = padded()
    out = decompose_padding(p, block("pad"), loop("i"))
    assert outline(out.program) == (
        "i_const in 0+10\n  j_const in 0+8\n    pad_const[i = i_const, j = j_const]\n"
        "i in 0+8\n  j in 0+5\n    pad[i = i, j = j]"
    )
    assert out.handles == (block("pad_const"),) and not out.forward
    same(p, out.program)


def test_at_an_inner_loop():
    p = padded()
    out = decompose_padding(p, block("pad"), loop("j")).program
    assert outline(out).startswith(
        "i in 0+10\n  j_const in 0+8\n    pad_const[i = i, j = j_const]\n  j in 0+5\n    pad"
    )
    assert text(path_to_block(out, "pad")[-1].predicate) == "(1 <= i) and (i < 9)"
    same(p, out)


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("0 <= i - 1 and i - 1 < 8 and j < 5", "A[i - 1, j]"),
        ("i >= 1 and i <= 8 and j <= 4 and j < 20", "A[i - 1, j]"),
        ("not_used", "A[h, j - 2] * 2.0"),
        ("i < 3 and i < 7 and j < 5", "A[i, j]"),
    ],
)
def test_ways_to_say_it(condition, value):
    more = "let h = i - 1" if condition == "not_used" else ""
    p = padded(condition if not more else "0 <= h and h < 8 and 2 <= j and j < 7", value, "3.0", more)
    for name in ("i", "j"):
        same(p, decompose_padding(p, block("pad"), loop(name)).program)


def test_tiles_that_do_not_divide_and_fused_loops():
    p = split(padded(), loop("i"), sizes(None, 4)).program
    for name in ("i_0", "i_1", "j"):
        same(p, decompose_padding(p, block("pad"), loop(name)).program)
    p = fuse(padded(), loops("i j")).program
    same(p, decompose_padding(p, block("pad"), loop("i_j_fused")).program)


def test_loops_keep_how_they_run():
    p = vectorize(padded(), loop("j")).program
    assert outline(decompose_padding(p, block("pad"), loop("i")).program).count("@ vectorized") == 2


WINDOW = """program p(A: f32[8], out O: f32[8]) {
    alloc P: f32[10]
    block pad[i: 10] { P[i] = select(1 <= i and i < 9, A[i - 1], 0.0) }
    block window[i: 8 | r: 3] { O[i] += P[i + r] } }"""


def test_beside_its_reader():
    p = parse_program(WINDOW)
    same(p, decompose_padding(p, block("pad"), loop("i")).program)
    near = compute_at(p, block("pad"), loop("i_1")).program
    inner = path_to_block(near, "pad")[-2].var
    same(p, decompose_padding(near, block("pad"), loop(inner)).program)
    same(p, decompose_padding(near, block("pad"), loop("i_1")).program)


def test_no_loop_above_it():
    p = parse_program(WINDOW)
    with refused("MS374", "loop `r` is not above block `pad`", "i"):
        decompose_padding(p, block("pad"), loop("r"))


def test_a_block_that_is_not_complete():
    p = parse_program(WINDOW)
    with refused("MS345", "condition 1"):
        decompose_padding(p, block("window"), loop("i_1"))


@pytest.mark.parametrize(
    ("condition", "value", "other", "words"),
    [
        (BOX, "A[i - 1, j - 2]", "A[0, 0]", ("is not padding",)),
        ("i < 20", "A[i % 8, j % 5]", "0.0", ("always true",)),
        ("i + j < 5", "A[i, j]", "0.0", ("one axis",)),
        ("2 * i < 9", "A[i, j % 5]", "0.0", ("step 1",)),
        ("i < 3 or j < 3", "A[i % 8, j % 5]", "0.0", ("one axis",)),
        ("i == 3", "A[i, j % 5]", "0.0", ("one axis",)),
        ("A[0, 0] < 1.0 and i < 3", "A[i, j % 5]", "0.0", ("one axis",)),
        ("i < 3 and i >= 3", "A[i, j % 5]", "0.0", ("nothing lies provably inside",)),
    ],
)
def test_no_padding(condition, value, other, words):
    with refused("MS374", *words):
        decompose_padding(padded(condition, value, other), block("pad"), loop("i"))


def test_other_bodies():
    p = parse_program("program p(A: f32[8], out P: f32[8]) { block pad[i: 8] { P[i] = A[i] } }")
    with refused("MS374", "is not padding"):
        decompose_padding(p, block("pad"), loop("i"))


TWO = """program p(A: f32[8], inout P: f32[12], out O: f32[10]) {{
    for i in 10 {{
        block pad[i: 10 = i] {{ P[i] = select(1 <= i and i < 9, A[i - 1], 0.0) }}
        {} }}
    for i_1 in 3 {{ block more[i: 3 = i_1] {{ P[i + 9] = 1.0 }} }} }}"""


def test_a_second_writer_in_another_nest():
    p = parse_program(TWO.format("block o[i: 10 = i] { O[i] = A[i % 8] }"))
    same(p, decompose_padding(p, block("pad"), loop("i")).program)


@pytest.mark.parametrize("other", ["P[i + 2] = 3.0", "O[i] = P[i]"])
def test_a_second_writer_that_would_see_the_fill(other):
    p = parse_program(TWO.format(f"block o[i: 10 = i] {{ {other} }}"))
    with refused("MS345", "not the only writer of `P`"):
        decompose_padding(p, block("pad"), loop("i"))


def test_something_else_than_loops_around_the_block():
    p = parse_program("""program p(A: f32[8], inout P: f32[10]) {
        for i in 0..10 {
            if A[0] > 0.0 {
                block pad[x: 10 = i] { P[x] = select(1 <= x and x < 9, A[x - 1], 0.0) }
            }
        }
    }""")
    with refused("MS374", "something else than loops stands above block `pad`", "one after the other"):
        decompose_padding(p, block("pad"), loop("i"))


def test_a_reader_of_what_other_iterations_write():
    p = parse_program("""program p(A: f32[8], inout P: f32[10], out O: f32[10]) {
        for i in 0..10 {
            block pad[x: 10 = i] { P[x] = select(1 <= x and x < 9, A[x - 1], 0.0) }
            block o[x: 10 = i] { O[x] = P[9 - x] }
        }
    }""")
    with refused(
        "MS374", "`o` may read elements of `P` that block `pad` writes in other iterations", "find the constant"
    ):
        decompose_padding(p, block("pad"), loop("i"))
