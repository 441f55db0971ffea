"""change_signedness: products of integers with one operand of the other signedness, and what is refused."""

import numpy as np
import pytest

from mslang.backend.reference.interpret import run
from mslang.ir.expr import Const
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.ir.verify import verify
from mslang.runtime.arrays import numpy_name
from mslang.sema.program import parse_program
from mslang.transform.outcome import BufferRef
from mslang.transform.primitives.change_signedness import change_signedness
from mslang.transform.primitives.loops import split
from tests.property.arrays import difference, outputs_equal
from tests.unit.transform.programs import block, loop, refused, sizes

LIMITS = {"i8": (-128, 128), "u8": (0, 256), "i16": (-(2**15), 2**15), "i32": (-(2**31), 2**31), "i64": (-9, 9)}


def product(body: str, left: str = "i8", right: str = "i8", out: str = "i32") -> Program:
    """`body` on A, B and w, into C."""
    params = f"A: {left}[5, 6], B: {right}[6, 7], w: {out}[7], out C: {out}[5, 7]"
    return parse_program(f"program p({params}) {{ {body} }}")


def same(p: Program, q: Program) -> None:
    """Both compute the same, of all values that the types have."""
    assert not verify(q) and parse_program(print_program(q)) == q
    rng = np.random.default_rng(0)
    given = {}
    for x in p.params:
        if x.direction != "out":
            shape = [n.value for n in x.buffer.shape if isinstance(n, Const)]
            given[x.buffer.name] = rng.integers(*LIMITS[x.buffer.dtype], shape).astype(numpy_name(x.buffer.dtype))
    want, got = run(p, given, check=False), run(q, given)
    assert outputs_equal(want, got), difference(want, got)


MM = "block mm[i: 5, j: 7 | k: 6] { C[i, j] += i32(A[i, k]) * i32(B[k, j]) }"


def test_signed_by_signed_becomes_unsigned_by_signed():
    p = product(MM)
    out = change_signedness(p, block("mm"), BufferRef("A"))
    assert [b.name for b in blocks_of(out.program.body)] == ["A_global", "mm_sum", "mm"]
    assert [h.name for h in out.handles] == ["A_global", "mm_sum"]
    found = {
        n: (b.dtype, [int(x.value) for x in b.shape if isinstance(x, Const)])
        for n, b in all_buffers(out.program).items()
    }
    assert found["A_global_1"] == ("u8", [5, 6]) and found["mm_sum_1"] == ("i32", [7])
    assert "init { C[i, j] = -128 * mm_sum_1[j] }" in print_program(out.program)
    same(p, out.program)


@pytest.mark.parametrize(
    ("body", "types", "buffer"),
    [
        (MM, ("i8", "u8", "i32"), "B"),
        (MM, ("u8", "u8", "i32"), "A"),
        (MM, ("i16", "i16", "i32"), "A"),
        ("block mm[i: 5, j: 7 | k: 6] { C[i, j] += A[i, k] * i64(B[k, j]) }", ("i64", "i8", "i64"), "A"),
        # The sum is narrower than what a conversion of the copy holds: integers wrap.
        ("block mm[i: 5, j: 7 | k: 6] { C[i, j] += i8(A[i, k]) * B[k, j] }", ("i16", "i8", "i8"), "A"),
        ("block mm[i: 5, j: 7 | k: 6] { C[i, j] += A[i, k] * B[k, j] }", ("i8", "i8", "i8"), "B"),
        ("block mm[i: 5, j: 7 | k: 6] { C[i, j] += i64(B[k, j]) * i64(A[i, k]) }", ("i32", "i32", "i64"), "A"),
        # Starts from something else, and the other factor is more than a load.
        ("block mm[i: 5, j: 7 | k: 6] { init { C[i, j] = w[j] } C[i, j] += i32(A[i, k]) * (i32(B[k, j]) - w[j]) }",
         ("i8", "i8", "i32"), "A"),
        # The other factor knows no spatial axis, and one axis of what is stored at a number.
        ("alloc T: i32[5] block mm[i: 5 | k: 6] { T[i] += i32(A[i, k]) * i32(B[k, 2]) } "
         "block c[i: 5, j: 7] { C[i, j] = T[i] }", ("i8", "i8", "i32"), "A"),
        ("alloc T: i32[5] block mm[i: 5 | k: 6] { T[i] += i32(A[i, k]) * i32(k) } "
         "block c[i: 5, j: 7] { C[i, j] = T[i] }", ("i8", "i8", "i32"), "A"),
        ("block mm[i: 5, j: 7 | k: 6] { C[i, j] += i32(A[j // 2, k]) * i32(B[k, j]) }", ("i8", "i8", "i32"), "A"),
    ],
)  # fmt: skip
def test_other_products(body, types, buffer):
    p = product(body, *types)
    same(p, change_signedness(p, block("mm"), BufferRef(buffer)).program)


def test_under_split_loops():
    p = split(product(MM), loop("k"), sizes(None, 3)).program
    same(p, change_signedness(p, block("mm"), BufferRef("A")).program)


def test_after_the_writer_of_the_operand():
    p = product("alloc T: i8[5, 6] block make[i: 5, k: 6] { T[i, k] = A[i, k] + i8(3) }" + MM.replace("A[", "T["))
    same(p, change_signedness(p, block("mm"), BufferRef("T")).program)


@pytest.mark.parametrize(
    ("body", "types", "code", "words"),
    [
        ("block mm[i: 5, j: 7] { C[i, j] = i32(A[i, 0]) * i32(B[0, j]) }", (), "MS313", ()),
        ("block mm[i: 5, j: 7 | k: 6] { C[i, j] += i32(A[i, k]) + i32(B[k, j]) }", (), "MS399", ("product",)),
        ("block mm[i: 5, j: 7 | k: 6] { C[i, j] = max(C[i, j], i32(A[i, k]) * i32(B[k, j])) }", (), "MS399", ("sum",)),
        ("block mm[i: 5, j: 7 | k: 6] { C[i, j] += i32(A[i, k] + A[i, 0]) * i32(B[k, j]) }", (), "MS399", ("factor",)),
        ("block mm[i: 5, j: 7 | k: 6] { C[i, j] += i32(A[i, k]) * i32(A[i, 0]) }", (), "MS399", ("elsewhere",)),
        ("block mm[i: 5, j: 7 | k: 6] { C[i, j] += i32(f32(A[i, k])) * i32(B[k, j]) }", (), "MS399", ("factor",)),
        ("for i in 5, j in 7, k in 6 { block mm[x: 5 = i, y: 7 = j | z: 6 = k] { where k < 4 "
         "C[x, y] += i32(A[x, z]) * i32(B[z, y]) } }", (), "MS348", ()),
        ("for j in 7 { block make[k: 6, y: 7 = j] { B[k, y] = i8(1) } "
         "block mm[i: 5, y: 7 = j | k: 6] { C[i, y] += i32(A[i, k]) * i32(B[k, y]) } }", ("B",), "MS372", ("make",)),
    ],
)  # fmt: skip
def test_refused(body, types, code, words):
    p = product(body) if not types else parse_program(
        f"program p(A: i8[5, 6], inout B: i8[6, 7], out C: i32[5, 7]) {{ {body} }}"
    )  # fmt: skip
    with refused(code, *words):
        change_signedness(p, block("mm"), BufferRef("A"))


def test_floating_products_are_refused():
    p = parse_program(
        "program p(A: f32[5, 6], B: f32[6, 7], out C: f32[5, 7]) "
        "{ block mm[i: 5, j: 7 | k: 6] { C[i, j] += A[i, k] * B[k, j] } }"
    )
    with refused("MS399", "integers"):
        change_signedness(p, block("mm"), BufferRef("A"))
