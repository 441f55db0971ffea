"""pad_einsum: rounder extents that change nothing, and what is refused."""

import pytest

from mslang.ir.expr import Choice, Symbol
from mslang.ir.find import all_buffers, blocks_of, path_to_block
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.sema.program import parse_program
from mslang.transform.primitives.compute_at import reverse_compute_at
from mslang.transform.primitives.loops import split
from mslang.transform.primitives.pad_einsum import pad_einsum
from tests.unit.transform.programs import block, loop, matmul, refused, sizes
from tests.unit.transform.test_rfactor import same


def shapes(p: Program) -> dict[str, list[int]]:
    return {b.name: [int(n.value) for n in b.shape] for b in all_buffers(p).values()}


def test_all_axes():
    p = matmul(6, 5, 10)
    out = pad_einsum(p, block("mm"), (4, 8, 3))
    found = shapes(out.program)
    assert (found["A_pad_1"], found["B_pad_1"], found["C_pad_1"]) == ([8, 12], [12, 8], [8, 8])
    assert [b.name for b in blocks_of(out.program.body)] == ["A_pad", "B_pad", "mm", "C_pad"] and out.handles == ()
    same(p, out.program)


def test_what_needs_no_padding_stays():
    p = matmul(8, 4, 10)
    assert pad_einsum(p, block("mm"), (4, 2, 5)).program is p
    out = pad_einsum(p, block("mm"), (1, 3, 1)).program
    assert [b.name for b in blocks_of(out.body)] == ["B_pad", "mm", "C_pad"]
    same(p, out)


def tensors(body: str, params: str) -> Program:
    return parse_program(f"program p({params}) {{ {body} }}")


@pytest.mark.parametrize(
    ("params", "body", "padding"),
    [
        ("A: f32[6, 10], out C: f32[6]", "block s[i: 6 | k: 10] { C[i] = max(C[i], A[i, k]) }", (4, 4)),
        ("A: i32[6, 10], out C: i32[6]", "block s[i: 6 | k: 10] { C[i] = min(C[i], A[i, k]) }", (1, 4)),
        ("A: f32[6, 5], out C: f32[6]", "block s[i: 6 | k: 5] { C[i] *= A[i, k] }", (4, 4)),
        ("A: i8[6, 10], w: i8[6], out C: i32[6]", "block s[i: 6 | k: 10] { C[i] += i32(A[i, k]) * i32(w[i]) }", (4, 4)),
        ("A: f32[6, 10], B: f32[10], out C: f32[6]", "block s[i: 6 | k: 10] { C[i] += -A[i, k] * B[k] }", (4, 4)),
        ("A: f32[7, 7], out C: f32[]", "block s[| k: 7] { C[] += A[k, k] }", (4,)),
        ("A: f32[6, 10], w: f32[6], out C: f32[6, 3]", "block s[i: 5] { C[i, 2] = A[i, 3] * w[i] }", (4,)),
        ("A: f32[6, 10], b: f32[6], out C: f32[6]",
         "block s[i: 6 | k: 9] { init { C[i] = b[i] } C[i] += A[i, k] }", (4, 4)),
        ("A: f32[3, 6, 5], B: f32[3, 5, 7], out C: f32[3, 6, 7]",
         "block s[n: 3, i: 6, j: 7 | k: 5] { C[n, i, j] += A[n, i, k] * B[n, k, j] }", (1, 4, 4, 4)),
    ],
)  # fmt: skip
def test_other_products(params, body, padding):
    p = tensors(body, params)
    if "6, 3" in params or "i: 5" in body:
        p = tensors(body, params.replace("out C", "inout C"))
    same(p, pad_einsum(p, block("s"), padding).program)


def test_what_is_filled_in():
    p = tensors("block s[i: 6 | k: 10] { C[i] = max(C[i], A[i, k]) }", "A: f32[6, 10], out C: f32[6]")
    assert "-inf)" in print_program(pad_einsum(p, block("s"), (1, 4)).program)


def test_a_sampled_multiple():
    p, width = matmul(6, 5, 10), Symbol("w", Choice((2, 4, 16)))
    out = pad_einsum(p, block("mm"), (width, width, 1)).program
    for w in (2, 4, 16):
        same(p, out, {"w": w})


def test_afterwards_tiles_divide():
    p = matmul(6, 5, 10)
    out = split(pad_einsum(p, block("mm"), (4, 4, 4)).program, loop("i"), sizes(None, 4)).program
    assert path_to_block(out, "mm")[-1].predicate.value is True
    same(p, out)


@pytest.mark.parametrize("padding", [(4, 4), (4, 4, 4, 4), (4, 0, 4), (4, -1, 4)])
def test_the_padding_given(padding):
    with refused("MS303", "give one number above 0 for each axis"):
        pad_einsum(matmul(6, 5, 10), block("mm"), padding)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("block s[i: 6 | k: 8] { C[i] += A[i, k + 1] }", ("neither an axis nor a number",)),
        ("block s[i: 6 | k: 8] { C[i] += A[i, k] * A[0, k] }", ("uses `A` more than once",)),
        ("block s[i: 6] { C[i] = f32(i64(A[i, 0]) // i64(B[i])) }", ("it divides",)),
        ("block s[i: 6] { C[i] = C[i] + A[i, 0] }", ()),
        ("block s[i: 6] { alloc t: f32[1] t[0] = A[i, 0] C[i] = t[0] }", ("buffers of its own",)),
        ("block s[i: 6] { if A[i, 0] < 1.0 { C[i] = 1.0 } else { C[i] = 2.0 } }", ("holds more than stores",)),
        ("block s[i: 6] { reads A[i, 0..2] C[i] = A[i, 0] }", ("more than one element",)),
        ("block s[i: 6, j: 6 | k: 8] { C[i] += A[j, k] }", ("spatial axis `j` does not index `C`",)),
    ],
)
def test_no_product_of_tensors(body, words):
    p = tensors(body, "A: f32[6, 10], inout B: f32[6], out C: f32[6]")
    n = len(path_to_block(p, "s")[-1].axes)
    with refused("MS372" if words else "MS345", *words):
        pad_einsum(p, block("s"), (4, 4, 3)[:n] if n != 3 else (1, 4, 1))


@pytest.mark.parametrize(
    "update",
    [
        "C[i] += A[i, k] * w[i]",
        "C[i] += A[i, k] + 1.0",
        "C[i] = max(C[i], w[i] + A[i, k])",
        "C[i] += A[i, k] * f32(k)",
        "C[i] += A[i, k] / 2.0",
    ],
)
def test_what_would_count(update):
    p = tensors(f"block s[i: 6 | k: 10] {{ {update} }}", "A: f32[6, 10], w: f32[6], out C: f32[6]")
    with refused("MS373", "would count"):
        pad_einsum(p, block("s"), (1, 4))


@pytest.mark.parametrize(
    ("params", "body", "padding"),
    [
        ("A: f32[6, 8], out C: f32[6]", "block s[i: 6 | k: 8] { C[i] += A[i, k] * f32(k) }", (4, 4)),
        ("A: f32[6, 8], out C: f32[6]", "block s[i: 6 | k: 8] { C[i] += A[i, k] / 2.0 }", (4, 1)),
        ("A: i64[6], out C: i64[6]", "block s[i: 6] { C[i] = select(A[i] > 1, A[i] // 3, A[i] + i) }", (4,)),
        ("A: f32[6, 8], out B: f32[6], out C: f32[6]", "block s[i: 6] { C[i] = A[i, 0] B[i] = 1.0 }", (4,)),
        ("A: f32[6], out C: f32[8]", "block s[i: 8] { C[i] = select(i < 6, A[i], 0.0) }", (3,)),
        ("A: f32[6, 7], out C: f32[7, 8]",
         "block s[i: 7, j: 8] { C[i, j] = select(i < 6 and j < 7, A[i, j], 0.0) }", (3, 1)),
    ],
)  # fmt: skip
def test_spatial_axes_of_any_formula(params, body, padding):
    p = tensors(body, params)
    same(p, pad_einsum(p, block("s"), padding).program)


def test_a_search_over_rows():
    p = parse_program("""program p(A: f32[6, 5], out at: i32[6], out best: f32[6]) {
        block find[i: 6 | k: 5] {
            init { at[i] = -1 best[i] = -inf }
            let q = select(best[i] >= A[i, k], at[i], i32(k))
            let v = select(best[i] >= A[i, k], best[i], A[i, k])
            at[i] = q
            best[i] = v } }""")
    out = pad_einsum(p, block("find"), (4, 1)).program
    assert [b.name for b in blocks_of(out.body)] == ["A_pad", "find", "at_pad", "best_pad"]
    same(p, out)
    with refused("MS372", "not a sum, product, minimum or maximum"):
        pad_einsum(p, block("find"), (4, 4))


def test_axes_without_loops_of_their_own_get_no_iterations():
    p = split(matmul(6, 5, 10), loop("i"), sizes(2, 3)).program
    out = pad_einsum(p, block("mm"), (4, 1, 1)).program
    assert shapes(out)["A_pad_1"] == [8, 10] and shapes(out)["C_pad_1"] == [8, 5]
    made = path_to_block(out, "mm")
    assert [int(s.extent.value) for s in made[:-1]] == [2, 3, 5, 10]
    assert [int(a.extent.value) for a in made[-1].axes] == [8, 5, 10]
    same(p, out)


SUMS = """program p(A: f32[6, 10], out D: f32[6]) {
    alloc C: f32[6]
    block s[i: 6 | k: 10] { C[i] += A[i, k] }
    block d[i: 6] { D[i] = C[i] } }"""


def test_what_is_read_in_the_nest_is_the_padded_copy():
    p = reverse_compute_at(parse_program(SUMS), block("d"), loop("i")).program
    out = pad_einsum(p, block("s"), (4, 4)).program
    assert [b.name for b in blocks_of(out.body)] == ["A_pad", "s", "d", "C_pad"]
    assert path_to_block(out, "d")[-1].reads[0].buffer == "C_pad_1"
    assert [int(s.extent.value) for s in path_to_block(out, "s")[:-1]] == [6, 12]  # `d` must not run more often
    same(p, out)


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("b", "block a[i: 6 = i] { T[i] = A[i] } block b[i: 6 = i] { C[i] = T[i] }", "it writes `T`"),
        ("a", "block a[i: 6 = i] { C[i] = A[i] } block b[i: 6 = i] { C[i] = A[i] + 1.0 }", "it writes `C`"),
        ("b", "block a[i: 6 = i] { T[i] = B[i] } block b[i: 6 = i] { B[i] = A[i] }", "it reads `B` before"),
    ],
)
def test_others_of_the_nest(name, body, words):
    text = "program p(A: f32[6], inout B: f32[6], out C: f32[6]) {{ alloc T: f32[6] for i in 6 {{ {} }} }}"
    p = parse_program(text.format(body))
    with refused("MS372", "is in one nest with block", words):
        pad_einsum(p, block(name), (4,))


def test_what_the_copy_would_not_hold():
    p = parse_program("""program p(A: f32[6], out C: f32[6, 2], out D: f32[6]) {
        block z[i: 6, j: 2] { C[i, j] = 0.0 }
        for i in 6 {
            block a[i: 6 = i] { C[i, 1] = A[i] }
            block b[i: 6 = i] { D[i] = C[i, 0] } } }""")
    with refused("MS372", "elements of `C` that the padded copy does not hold"):
        pad_einsum(p, block("a"), (4,))


def test_blocks_in_blocks():
    p = parse_program("""program p(A: f32[6], out C: f32[6]) {
        for i in 2 {
            block o[io: 2 = i] {
                for j in 3 { block a[i: 6 = io * 3 + j] { C[i] = A[i] } } } } }""")
    with refused("MS372", "stands inside block `o`"):
        pad_einsum(p, block("a"), (4,))


def test_several_writers():
    p = tensors(
        "block t[i: 6] { C[i] = 1.0 } block s[i: 4 | k: 10] { init { C[i] = 0.0 } C[i] += A[i, k] }",
        "A: f32[6, 10], out C: f32[6]",
    )
    same(p, pad_einsum(p, block("s"), (3, 4)).program)
    same(p, pad_einsum(p, block("t"), (4,)).program)


def test_iterations_left_out():
    p = tensors(
        "block s[i: 6, j: 5 | k: 10] { where i < 4 init { C[i, j] = 0.0 } C[i, j] += A[i, k] * B[k, j] }",
        "A: f32[6, 10], B: f32[10, 5], inout C: f32[6, 5]",
    )
    with refused("MS348", "does not provably run"):
        pad_einsum(p, block("s"), (1, 4, 4))
    same(p, pad_einsum(p, block("s"), (1, 1, 4)).program)


def test_a_condition_above_the_block():
    p = parse_program("""program p(A: f32[6], inout C: f32[6]) {
        for i in 6 { if A[i] > 0.0 { block a[x: 6 = i] { C[x] = A[x] } } } }""")
    with refused("MS372", "block `a` does not stand among loops and blocks alone", "`if` under the loops of block `a`"):
        pad_einsum(p, block("a"), (4,))


def test_what_a_condition_reads_of_the_result():
    p = parse_program("""program p(A: f32[6], out C: f32[6], inout D: f32[6]) {
        block a[i: 6] { C[i] = A[i] }
        block d[i: 6] { where C[i] > 0.0 D[i] = A[i] } }""")
    with refused("MS352", "`C` is read outside of blocks", "not known when they run"):
        pad_einsum(p, block("a"), (4,))
