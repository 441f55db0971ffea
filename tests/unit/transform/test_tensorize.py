"""tensorize: what becomes an instruction, how it is kept, and what is not as described."""

import numpy as np
import pytest

from mslang.backend.reference.interpret import run
from mslang.ir.find import blocks_of, path_to_block
from mslang.ir.intrin import Guard, Intrin, intrin_of, recorded
from mslang.ir.print import print_program
from mslang.ir.program import Block
from mslang.ir.verify import verify
from mslang.sema.intrin import parse_intrin
from mslang.sema.named_intrin import library_intrin
from mslang.sema.program import parse_program
from mslang.transform.outcome import Gone
from mslang.transform.primitives.blockize import blockize
from mslang.transform.primitives.caching import cache_read
from mslang.transform.primitives.decompose_reduction import decompose_reduction
from mslang.transform.primitives.loop_kinds import parallel
from mslang.transform.primitives.loops import fuse, reorder, split
from mslang.transform.primitives.set_scope import set_scope
from mslang.transform.primitives.tensorize import as_instruction, tensorize
from mslang.transform.primitives.unsafe_set_dtype import unsafe_set_dtype
from tests.unit.transform.programs import block, buffer, loop, loops, matmul, refuses, sizes

PRODUCT = parse_intrin(
    "intrin product(a: f32[4, 4], b: f32[4, 4], inout c: f32[4, 4]) {\n"
    "    desc { block mma[i: 4, j: 4 | k: 4] { c[i, j] += a[i, k] * b[k, j] } }\n"
    '    impl llvm "; nothing"\n}\n'
)
FILL = parse_intrin(
    "intrin fill(out c: f32[4, 4]) on cpu(avx512f) {\n"
    "    desc { block f[i: 4, j: 4] { c[i, j] = 0.0 } }\n"
    "    impl { block f[j: 4, i: 4] { c[i, j] = 0.0 } }\n"
    '    impl cuda "fill({c}, {c.stride});"\n}\n'
)
COPY = parse_intrin(
    "intrin copy_4(src: f32[4], out dst: f32[4]) {\n"
    "    desc { block c[x: 4] { dst[x] = src[x] } }\n"
    "    impl { block c[x: 4] { dst[x] = src[x] } }\n}\n"
)


def tiled(t=4, order="i_0 j_0 k_0 i_1 j_1 k_1"):
    p = matmul(8, 8, 8)
    for name in "ijk":
        p = split(p, loop(name), sizes(None, t)).program
    return reorder(p, loops(order)).program


def block_of(program, name) -> Block:
    return path_to_block(program, name)[-1]


def same(before, after):
    assert not verify(after), verify(after)
    assert parse_program(print_program(after)) == after
    rng = np.random.default_rng(0)
    arrays = {
        q.buffer.name: rng.integers(-3, 4, [int(n.value) for n in q.buffer.shape]).astype(np.float32)
        for q in before.params
    }
    want = run(before, {n: a.copy() for n, a in arrays.items()})
    found = run(after, {n: a.copy() for n, a in arrays.items()})
    assert all(np.array_equal(want[n], found[n]) for n in want)


# ------------------------------------------------------------------ what becomes an instruction
def test_a_loop():
    out = tensorize(tiled(), loop("i_1"), PRODUCT)
    made = block_of(out.program, "mm_o")
    assert intrin_of(made) == "product" and [v.buffer.name for v in made.views] == ["a", "b", "c"]
    assert made.init is not None
    assert out.forward[block("mm")] == Gone("tensorize", (block("mm_o"),))
    assert out.forward[loop("k_1")] == Gone("tensorize", (block("mm_o"),))
    same(tiled(), out.program)


def test_the_program_carries_the_text():
    out = tensorize(tiled(), loop("i_1"), PRODUCT).program
    record = recorded(parse_program(print_program(out)))["product"]
    assert (
        [(x.name, x.dtype) for x in record.params] == [("a", "f32"), ("b", "f32"), ("c", "f32")]
        and not record.emulated
        and record.texts == {"llvm": "; nothing"}
    )


def test_another_intrinsic_of_the_same_name():
    p = decompose_reduction(blockize(tiled(), loop("i_1")).program, block("mm_o"), loop("k_0")).program
    p = tensorize(p, block("mm_o_update"), PRODUCT).program
    other = Intrin("product", FILL.desc, None, None, (("llvm", "; other"),))
    p = tensorize(p, block("mm_o_init"), other).program
    assert set(recorded(p)) == {"product", "product_1"}
    assert intrin_of(block_of(p, "mm_o_init")) == "product_1"
    same(tiled(), p)


def test_an_implementation_as_a_program_takes_the_place():
    p = decompose_reduction(blockize(tiled(), loop("i_1")).program, block("mm_o"), loop("k_0")).program
    p = tensorize(p, block("mm_o_init"), FILL).program
    record = recorded(p)["fill"]
    assert record.emulated and record.guard == Guard("cpu", ("avx512f",)) and set(record.texts) == {"cuda"}
    same(tiled(), p)


@pytest.mark.parametrize("order", ["i_0 j_0 k_0 j_1 i_1 k_1", "i_0 j_0 k_0 k_1 j_1 i_1", "i_0 j_0 k_0 i_1 k_1 j_1"])
def test_loops_in_another_order(order):
    p = tiled(order=order)
    first = order.split()[3]
    same(tiled(), tensorize(p, loop(first), PRODUCT).program)


IN_ORDER = {
    "combined in order": (
        "block m[| q: 4, r: 4] { init {} c[0, 0] = c[0, 0] * 2.0 + a[r, q] }",
        "block s[| x: 4 = i, y: 4 = j] { init {} C[0, 0] = C[0, 0] * 2.0 + A[x, y] }",
    ),
    "handed on": (
        "block m[q: 4, r: 4] { c[r, q + 1] = c[r + 1, q] + a[r, q] }",
        "block s[x: 4 = i, y: 4 = j] { C[x, y + 1] = C[x + 1, y] + A[x, y] }",
    ),
}


@pytest.mark.parametrize(("desc", "tile"), IN_ORDER.values(), ids=IN_ORDER)
def test_loops_that_must_keep_their_order(desc: str, tile: str):
    text = f'intrin ordered(a: f32[4, 4], inout c: f32[5, 5]) {{ desc {{ {desc} }} impl llvm "; nothing" }}'
    before = f"program p(A: f32[4, 4], inout C: f32[5, 5]) {{ for i in 4, j in 4 {{ {tile} }} }}"
    refuses("MS380", lambda: tensorize(parse_program(before), loop("i"), parse_intrin(text)), "index 0 of `")
    turned = before.replace("[x, y]", "[y, x]").replace("C[x, y + 1] = C[x + 1, y]", "C[y, x + 1] = C[y + 1, x]")
    p = parse_program(turned)
    same(p, tensorize(p, loop("i"), parse_intrin(text)).program)


def test_a_reduction_started_by_the_description():
    whole = parse_intrin(
        "intrin whole(a: f32[4, 8], b: f32[8, 4], out c: f32[4, 4]) {\n"
        "    desc { block mma[i: 4, j: 4 | k: 8] { c[i, j] += a[i, k] * b[k, j] } }\n"
        '    impl llvm "; nothing"\n}\n'
    )
    p = matmul(8, 8, 8)
    for name in "ij":
        p = split(p, loop(name), sizes(None, 4)).program
    p = reorder(p, loops("i_0 j_0 i_1 j_1 k")).program
    out = tensorize(p, loop("i_1"), whole).program
    assert block_of(out, "mm_o").init is None
    same(matmul(8, 8, 8), out)
    refuses("MS380", lambda: tensorize(tiled(), loop("i_1"), PRODUCT_STARTED), "goes on over axis `z_o`")


PRODUCT_STARTED = parse_intrin(
    "intrin started(a: f32[4, 4], b: f32[4, 4], out c: f32[4, 4]) {\n"
    "    desc { block mma[i: 4, j: 4 | k: 4] { c[i, j] += a[i, k] * b[k, j] } }\n"
    '    impl llvm "; nothing"\n}\n'
)


def test_a_block_that_is_no_tile_is_tiled_first():
    p = cache_read(tiled(), block("mm"), buffer("A"), "local").program
    out = tensorize(p, block("A_local"), COPY)
    assert intrin_of(block_of(out.program, "A_local_o")) is None
    same(tiled(), out.program)
    direct = tensorize(matmul(8, 8, 8), block("mm"), PRODUCT).program
    assert intrin_of(block_of(direct, "mm_o")) == "product"
    same(matmul(8, 8, 8), direct)


def test_an_operand_that_is_packed_by_the_tile():
    """Where a tile of the axis lies in a dimension of its own (`j % 4`), the axis has the place of the tile's loop."""
    text = """program packed(A: f32[8, 8], B: f32[2, 8, 4], out C: f32[8, 8]) {
        block mm[i: 8, j: 8 | k: 8] { C[i, j] += A[i, k] * B[j // 4, k, j % 4] }
    }"""
    p = parse_program(text)
    direct = tensorize(p, block("mm"), PRODUCT).program
    assert intrin_of(block_of(direct, "mm_o")) == "product"
    same(p, direct)
    other = parse_program(text.replace("[2, 8, 4]", "[3, 8, 3]").replace("j // 4", "j // 3").replace("j % 4", "j % 3"))
    refuses("MS382", lambda: tensorize(other, block("mm"), PRODUCT), "no axis has the place")


def test_commuted_operands():
    swapped = parse_intrin(PRODUCT.text.replace("a[i, k] * b[k, j]", "b[k, j] * a[i, k]"))
    same(tiled(), tensorize(tiled(), loop("i_1"), swapped).program)


def test_decomposed_after_it_became_an_instruction():
    p = tensorize(tiled(), loop("i_1"), PRODUCT).program
    p = decompose_reduction(p, block("mm_o"), loop("k_0")).program
    assert "C" in {r.buffer for r in block_of(p, "mm_o_update").reads}
    same(tiled(), p)


def test_as_an_instruction_alone():
    p = as_instruction(PRODUCT)
    assert [intrin_of(b) for b in blocks_of(p.body, into_blocks=False)] == ["product"]
    assert not verify(p)


def test_names_do_not_clash():
    host = parse_program(
        "program p(i: f32[8], out c: f32[8]) {\n    for src in 8 {\n"
        "        block dst[x: 8 = src] { c[x] = i[x] }\n    }\n}\n"
    )
    named = parse_intrin(
        'intrin n(src: f32[8], out dst: f32[8]) { desc { block c[i: 8] { dst[i] = src[i] } } impl llvm "; no" }'
    )
    out = tensorize(host, loop("src"), named).program
    same(host, out)


def test_the_text_of_an_intrinsic_reads_back():
    for x in (PRODUCT, FILL, COPY, PRODUCT_STARTED, library_intrin("std.cuda.wmma.store_f32")):
        again = parse_intrin(x.text)
        assert (again.desc, again.program, again.guard, again.texts) == (x.desc, x.program, x.guard, x.texts)


# ------------------------------------------------------------------ refusals
def mismatch(says, change, target="i_1", make=tiled):
    old, new = change
    other = parse_intrin(PRODUCT.text.replace(old, new))
    assert other.desc != PRODUCT.desc
    refuses("MS380", lambda: tensorize(make(), loop(target), other), says)


MISMATCHES = {
    "an operation": (("a[i, k] * b[k, j]", "a[i, k] + b[k, j]"), "expected"),
    "an operation's type": (("b: f32[4, 4]", "b: f64[4, 4]"), "`f32(b[k, j])` expected"),
    "a transposed operand": (("b[k, j]", "b[j, k]"), "index"),
    "an offset": (("a[i, k]", "a[i, k % 2]"), "index 1 of `A`"),
    "a scope": (("a: f32[4, 4]", "a: f32[4, 4] @ shared"), "`a` is in scope shared, `A` in scope global"),
    "strides": (
        ("a: f32[4, 4]", "a: f32[4, 4] @ global(strides = [4, 1])"),
        "dimension 0 of `a` has stride 4, that of `A` 8",
    ),
    "alignment": (("a: f32[4, 4]", "a: f32[4, 4] @ global(align = 64)"), "aligned to 64"),
    "a constant": (("+= a[i, k] * b[k, j]", "+= a[i, k] * 2.0"), "expected"),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_not_as_described(name):
    change, says = MISMATCHES[name]
    if name == "an operation's type":
        text = PRODUCT.text.replace(*change).replace("* b[k, j]", "* f32(b[k, j])")
        refuses("MS380", lambda: tensorize(tiled(), loop("i_1"), parse_intrin(text)), says)
        return
    mismatch(says, change)


def test_another_element_type():
    text = PRODUCT.text.replace("c: f32[4, 4]", "c: f64[4, 4]").replace("a[i, k] * b[k, j]", "f64(a[i, k] * b[k, j])")
    refuses(
        "MS380",
        lambda: tensorize(tiled(), loop("i_1"), parse_intrin(text)),
        "`c` has elements of f64, `C` of f32",
    )


def test_other_extents():
    refuses("MS380", lambda: tensorize(tiled(2), loop("i_1"), PRODUCT), "runs 4 times, loop `i_1` of the tile 2 times")


def test_fewer_loops():
    refuses("MS380", lambda: tensorize(tiled(), loop("j_1"), PRODUCT), "loop")


def test_another_kind_of_axis():
    spatial = parse_intrin(
        "intrin s(a: f32[4], b: f32[4], inout c: f32[4]) {\n"
        '    desc { block d[k: 4] { c[k] = c[k] + a[k] * b[k] } }\n    impl llvm "; no"\n}\n'
    )
    refuses(
        "MS380", lambda: tensorize(tiled(), loop("k_1"), spatial), "serves spatial axes, loop `k_1` of the tile reduce"
    )


def test_the_number_of_statements():
    two = parse_intrin(
        "intrin two(a: f32[4], out c: f32[4], out d: f32[4]) {\n"
        '    desc { block b[k: 4] { c[k] = a[k]\n d[k] = a[k] } }\n    impl llvm "; no"\n}\n'
    )
    p = cache_read(tiled(), block("mm"), buffer("A"), "local").program
    p = split(p, loop("ax1"), sizes(None, 4)).program
    refuses("MS380", lambda: tensorize(p, loop("ax1_1"), two), "2 statements expected in a row, 1 statement found")


def test_a_guard_inside_the_tile():
    p = matmul(8, 8, 7)
    for name in "ijk":
        p = split(p, loop(name), sizes(None, 4)).program
    p = reorder(p, loops("i_0 j_0 k_0 i_1 j_1 k_1")).program
    refuses("MS380", lambda: tensorize(p, loop("i_1"), PRODUCT), "a tile must be whole")


def test_a_tile_loop_that_runs_at_once():
    p = parallel(tiled(), loop("i_1")).program
    refuses("MS380", lambda: tensorize(p, loop("i_1"), PRODUCT), "is parallel")


def test_fragments_must_be_asked_for():
    p = cache_read(tiled(), block("mm"), buffer("A"), "local").program
    p = set_scope(p, block("A_local"), buffer("A_local_1"), "wmma.a").program
    refuses("MS380", lambda: tensorize(p, loop("i_1"), PRODUCT), "in scope wmma.a")


def test_an_instruction_already():
    p = tensorize(tiled(), loop("i_1"), PRODUCT).program
    refuses("MS381", lambda: tensorize(p, block("mm_o"), PRODUCT), "is the instruction `product` already")


def test_an_operand_keeps_its_type():
    p = cache_read(tiled(), block("mm"), buffer("A"), "local").program
    p = tensorize(p, loop("i_1"), PRODUCT).program
    refuses("MS381", lambda: unsafe_set_dtype(p, block("A_local"), buffer("A_local_1"), "f64"), "is an operand")


def test_the_reasons_of_blockize():
    refuses("MS301", lambda: tensorize(tiled(), loop("nowhere"), PRODUCT), "tensorize")
    p = cache_read(tiled(), block("mm"), buffer("A"), "local").program
    refuses("MS380", lambda: tensorize(p, loop("ax0"), PRODUCT), "product")


@pytest.mark.parametrize(
    ("shape", "says"), [((8, 8, 6), "not provably a multiple of 4"), ((6, 8, 8), "loop `i` of axis `x` runs 6 times")]
)
def test_no_place_for_the_tile(shape, says):
    refuses("MS382", lambda: tensorize(matmul(*shape), block("mm"), PRODUCT), says)


def test_no_counterpart_of_a_loop():
    refuses("MS382", lambda: tensorize(matmul(8, 8, 8), block("mm"), COPY), "others than the description's")
    swapped = parse_intrin(PRODUCT.text.replace("a[i, k] * b[k, j]", "a[i, k] * b[j, k]"))
    refuses("MS382", lambda: tensorize(matmul(8, 8, 8), block("mm"), swapped), "no axis has the place")


def test_a_description_that_starts_its_reduction_beside_another_block():
    two = parse_intrin(
        "intrin two(a: f32[4], inout c: f32[4], out d: f32[4]) {\n"
        "    desc {\n"
        "        block s[i: 4 | k: 4] { init { c[i] = 0.0 } c[i] += a[k] }\n"
        "        block t[i: 4] { d[i] = a[i] }\n    }\n"
        '    impl llvm "; no"\n}\n'
    )
    refuses("MS382", lambda: tensorize(matmul(8, 8, 8), block("mm"), two), "with an init is one block under its loops")


def test_an_axis_without_a_loop_of_its_own():
    p = fuse(matmul(8, 8, 8), loops("i j")).program
    says = "no loop runs over axis `x` alone, which has the place of the description's `i`"
    refuses("MS382", lambda: tensorize(p, block("mm"), PRODUCT), says)


def test_an_innermost_loop_that_does_not_step_by_1():
    p = split(matmul(8, 8, 8), loop("i"), sizes(None, 4)).program
    same(p, tensorize(p, block("mm"), PRODUCT).program)
    turned = reorder(p, loops("i_1 i_0")).program
    says = "loop `i_0`, the innermost of axis `x`, does not step by 1"
    refuses("MS382", lambda: tensorize(turned, block("mm"), PRODUCT), says)


ALIGNED = parse_intrin(
    "intrin copy_rows(src: f32[2, 4] @ global(align = 16), out dst: f32[2, 4]) {\n"
    "    desc { block c[x: 2, y: 4] { dst[x, y] = src[x, y] } }\n"
    "    impl { block c[x: 2, y: 4] { dst[x, y] = src[x, y] } }\n}\n"
)


@pytest.mark.parametrize(
    ("columns", "first", "align", "why"),
    [
        (24, 4, 16, None),
        (24, 4, 64, None),
        (24, 4, 8, "is aligned to 16 bytes, `A` to 8"),
        (24, 2, 16, "`A` begins at byte x_o * 192 + y_o * 16 + 8"),
        (22, 4, 16, "`A` has a row at byte 88"),
    ],
)
def test_an_operand_is_aligned_from_its_first_row_to_its_last(columns, first, align, why):
    program = parse_program(
        f"program p(A: f32[8, {columns}] @ global(align = {align}), out B: f32[8, 16]) {{\n"
        f"    for i in 4, j in 4 {{ for r in 2, c in 4 {{ block b[x: 8 = i * 2 + r, y: 16 = j * 4 + c] "
        f"{{ B[x, y] = A[x, y + {first}] }} }} }}\n}}\n"
    )
    if why is None:
        assert "dst[x, y] = src[x, y]" in print_program(tensorize(program, loop("r"), ALIGNED).program)
    else:
        refuses("MS380", lambda: tensorize(program, loop("r"), ALIGNED), why)


def test_rows_are_asked_about_where_the_first_is_aligned():
    program = parse_program(
        "program p(A: f32[2, 6] @ global(align = 16), out B: f32[2, 4]) {\n"
        "    for r in 2, c in 4 { block b[x: 2 = r, y: 4 = c] { B[x, y] = A[x, y] } }\n}\n"
    )
    refuses("MS380", lambda: tensorize(program, loop("r"), ALIGNED), "`A` has a row at byte 24")


def test_a_zero_of_the_other_sign_is_another_number() -> None:
    relu = parse_intrin("""intrin relu(a: f32[4], out c: f32[4]) {
        desc { block d[i: 4] { c[i] = max(a[i], 0.0) } }
        impl { block d[i: 4] { c[i] = max(a[i], 0.0) } }
    }""")
    text = "program p(A: f32[4], out C: f32[4]) { for i in 4 { block b[x: 4 = i] { C[x] = max(A[x], 0.0) } } }"
    tensorize(parse_program(text), loop("i"), relu)
    other = parse_program(text.replace("0.0", "-0.0"))
    refuses("MS380", lambda: tensorize(other, loop("i"), relu), "expected")


DOT = parse_intrin(
    "intrin dot_4(a: f32[4], b: f32[4], inout c: f32[]) {\n"
    "    desc { block d[ | k: 4] { c[] += a[k] * b[k] } }\n"
    "    impl { block d[ | k: 4] { c[] += b[k] * a[k] } }\n}\n"
)


@pytest.mark.parametrize(
    ("written", "read", "apart"),
    [
        ("v + 1", "v", False),
        ("v", "v + 1", False),
        ("v", "v", False),
        ("v", "v + 4", True),
        ("v + 4", "v", True),
        ("v", "v + 3", False),
        ("v", "v - 12 * u + 4", False),
    ],
)
def test_operands_that_are_written_share_no_elements(written: str, read: str, apart: bool) -> None:
    """An instruction may read all of one operand before it writes the other: the loop reads what it wrote."""
    p = parse_program(
        "program p(inout A: f32[32]) { for w in 2, x in 4 {\n"
        f"    block b[u: 2 = w, v: 4 = x] {{ A[16 * u + {written}] = A[16 * u + {read}] }} }} }}"
    )
    if apart:
        same(p, tensorize(p, loop("x"), COPY).program)
    else:
        why = "`dst` is written, and may share elements of `A` with `src`"
        refuses("MS380", lambda: tensorize(p, loop("x"), COPY), why)


def test_a_sum_among_the_terms_is_no_operand_beside_them() -> None:
    p = parse_program(
        "program p(inout A: f32[8], B: f32[4]) { for x in 4 { block b[ | v: 4 = x] { A[2] += A[v] * B[v] } } }"
    )
    refuses("MS380", lambda: tensorize(p, loop("x"), DOT), "`c` is written")
    q = parse_program(print_program(p).replace("A[2]", "A[4]"))
    same(q, tensorize(q, loop("x"), DOT).program)


def test_views_of_one_buffer_are_not_known_to_be_apart() -> None:
    p = parse_program(
        "program p(inout A: f32[8]) { for w in 1 { block o[u: 1 = w] {\n"
        "    view left: f32[4] = A[0..4]\n    view right: f32[4] = A[4..8]\n"
        "    for x in 4 { block b[v: 4 = x] { right[v] = left[v] } } } } }"
    )
    refuses("MS380", lambda: tensorize(p, loop("x"), COPY), "may share elements")
