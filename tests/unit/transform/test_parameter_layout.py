"""transform_layout of parameters: the program says how its caller's arrays are packed, and means what it meant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import mslang as ms
from mslang.backend.reference import interpret
from mslang.diagnostics import MsError
from mslang.ir.equal import alpha_equal, structural_hash
from mslang.ir.expr import Const, DynamicRange, Symbol
from mslang.ir.index_map import IndexMap
from mslang.ir.print import print_program
from mslang.ir.program import Packing, Param, Program
from mslang.ir.verify import verify
from mslang.ir.visit import map_program_exprs
from mslang.sema.program import parse_program
from mslang.transform.primitives.transform_layout import transform_layout
from mslang.tune.verification import SPARSE, Difference, compare, make_arguments, make_inputs
from tests.unit.transform.layouts import fn, reads_as, same_meaning
from tests.unit.transform.programs import block, buffer, refused

FOURS = fn(lambda i: [i // 4, i % 4])
PACKED_A = "A: f32[4, 4] = packed([14], fn (i) -> [i // 4, i % 4], pad = 5.0)"


def copying(n: int = 14, direction: str = "out") -> Program:
    return parse_program(f"""program p(A: f32[{n}], {direction} B: f32[{n}]) {{
        for i in {n} {{ block b[x: {n} = i] {{ B[x] = A[x] * 2.0 }} }}
    }}""")


def packed(p: Program, name: str) -> Packing | None:
    return next(q.packing for q in p.params if q.buffer.name == name)


# ------------------------------------------------------------------ what comes out
def test_an_input_says_how_it_is_packed() -> None:
    done = transform_layout(copying(), block("b"), buffer("A"), FOURS, pad=5).program
    reads_as(
        done,
        f"""program p({PACKED_A}, out B: f32[14]) {{
        for i in 14 {{ block b[x: 14 = i] {{ B[x] = A[x // 4, x % 4] * 2.0 }} }}
    }}""",
    )
    same_meaning(copying(), done)


def test_an_output_is_written_with_its_padding_and_unpacked_without() -> None:
    done = transform_layout(copying(), block("b"), buffer("B"), FOURS, pad=5).program
    assert "out B: f32[4, 4] = packed([14], fn (i) -> [i // 4, i % 4], pad = 5.0)" in print_program(done)
    same_meaning(copying(), done)
    kernel = ms.build(done)
    a = np.arange(14, dtype=np.float32)
    out = kernel.pack("B", np.zeros(14, np.float32))
    kernel(a, out)
    assert out.array.tolist()[3] == [24.0, 26.0, 5.0, 5.0]


def test_what_is_read_and_written_is_packed_and_unpacked() -> None:
    p = parse_program("""program p(A: f32[6], inout U: f32[6, 4]) {
        for i in 6, j in 4 { block b[x: 6 = i, y: 4 = j] { U[x, y] = U[x, y] + A[x] } }
    }""")
    done = transform_layout(p, block("b"), buffer("U"), fn(lambda i, j: [j, i // 4, i % 4]), pad=1).program
    same_meaning(p, done)


def test_a_map_without_padding_says_no_pad() -> None:
    done = transform_layout(copying(16), block("b"), buffer("A"), FOURS).program
    assert "A: f32[4, 4] = packed([16], fn (i) -> [i // 4, i % 4])" in print_program(done)
    same_meaning(copying(16), done)


def test_maps_one_after_the_other_are_one() -> None:
    once = transform_layout(copying(), block("b"), buffer("A"), FOURS, pad=5).program
    twice = transform_layout(once, block("b"), buffer("A"), fn(lambda i, j: [j, i])).program
    assert "A: f32[4, 4] = packed([14], fn (i) -> [i % 4, i // 4], pad = 5.0)" in print_program(twice)
    same_meaning(copying(), twice)
    padded = transform_layout(twice, block("b"), buffer("A"), fn(lambda i, j: [i // 3, i % 3, j]), pad=5).program
    same_meaning(copying(), padded)


def test_a_map_and_its_inverse_leave_nothing() -> None:
    p = copying(16)
    once = transform_layout(p, block("b"), buffer("A"), FOURS).program
    back = transform_layout(once, block("b"), buffer("A"), fn(lambda i, j: [i * 4 + j])).program
    assert packed(back, "A") is None and alpha_equal(back, p)


def test_a_map_and_its_inverse_leave_the_shape_that_sizes_are_inferred_from() -> None:
    p = parse_program("""program p[M: dyn(2..8, multiple = 2)](A: f32[M], out B: f32[M]) {
        for i in M { block b[x: M = i] { B[x] = A[x] * 2.0 } }
    }""")
    done = p
    for name in "AB":
        once = transform_layout(done, block("b"), buffer(name), fn(lambda i: [i // 2, i % 2])).program
        done = transform_layout(once, block("b"), buffer(name), fn(lambda i, j: [i * 2 + j])).program
    assert alpha_equal(done, p)
    a = np.arange(6, dtype=np.float32)
    assert np.array_equal(ms.build(done)(a), a * 2)


def test_a_map_may_depend_on_a_dynamic_size() -> None:
    p = parse_program("""program p[n: dyn(1..32)](A: f32[n, 4], out B: f32[n, 4]) {
        for i in n, j in 4 { block b[x: n = i, y: 4 = j] { B[x, y] = A[x, y] + 1.0 } }
    }""")
    done = transform_layout(p, block("b"), buffer("A"), fn(lambda n, j: [j, n])).program
    assert "A: f32[4, n] = packed([n, 4], fn (n_1, j) -> [j, n_1])" in print_program(done)
    assert parse_program(print_program(done)) == done
    a = np.arange(20, dtype=np.float32).reshape(5, 4)
    assert np.array_equal(interpret.run(done, {"A": a}, sizes={"n": 5})["B"], a + 1)
    kernel = ms.build(done)
    assert np.array_equal(kernel(a), a + 1)
    assert np.array_equal(kernel(kernel.pack("A", a)), a + 1)


def test_a_decision_in_the_map_is_replaced_when_it_is_made() -> None:
    v = Symbol("v", DynamicRange(2, 8, 1))
    p = copying(16)
    symbolic = fn(lambda i: [i // 4, i % 4])
    done = transform_layout(p, block("b"), buffer("A"), symbolic).program
    found = packed(done, "A")
    assert found is not None
    open_ = replace(done, params=(replace(done.params[0], packing=replace(found, shape=(v,))), *done.params[1:]))
    closed = map_program_exprs(open_, lambda e: Const(16) if e == v else e)
    assert closed == done


# ------------------------------------------------------------------ identity
def test_the_packing_counts_in_the_hash_and_the_names_of_its_indices_do_not() -> None:
    texts = [
        "[14], fn (i) -> [i // 4, i % 4], pad = 5.0",
        "[14], fn (i) -> [i // 4, i % 4], pad = 6.0",
        "[14], fn (i) -> [i // 4, i % 4]",
        "[14], fn (i) -> [i % 4, i // 4]",
        "[13], fn (i) -> [i // 4, i % 4]",
    ]
    programs = [parse_program(f"program p(A: f32[4, 4] = packed({t}), out B: f32[1]) {{}}") for t in texts]
    assert len({structural_hash(p) for p in programs}) == len(texts)
    again = parse_program("program p(A: f32[4, 4] = packed([14], fn (k) -> [k // 4, k % 4]), out B: f32[1]) {}")
    assert structural_hash(again) == structural_hash(programs[2]) and alpha_equal(again, programs[2])


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("3", "MS110", "no default"),
        ("packed([14], fn (i) -> [i])", "MS105", "2 dimensions"),
        ("packed([14], fn (i, j) -> [i, j])", "MS105", "takes 2 indices"),
        ("packed([14], fn (i) -> [i // 4, k])", "MS101", "`k`"),
        ("packed([14], fn (i) -> [i // 4, i % 4], pad = true)", "MS104", "`f32`"),
        ("packed([14], fn (i) -> [i // 4, i % 4], pad = A[0])", "MS101", "`A`"),
    ],
)
def test_what_is_no_packing(text: str, code: str, words: str) -> None:
    with pytest.raises(MsError, match=words) as found:
        parse_program(f"program p(A: f32[4, 4] = {text}, out B: f32[14]) {{}}")
    assert found.value.diagnostic.code == code


def test_verify_sees_a_packing_that_does_not_fit() -> None:
    p = transform_layout(copying(), block("b"), buffer("A"), FOURS, pad=5).program
    found = packed(p, "A")
    assert found is not None and not verify(p)
    for wrong, words in (
        (replace(found, shape=(Const(7), Const(2))), "number of indices"),
        (replace(found, results=found.results[:1]), "number of indices"),
        (replace(found, params=("k",)), "`i`"),
        (replace(found, pad=Const(5)), "padding"),
    ):
        faulty = replace(p, params=(Param(p.params[0].buffer, "in", wrong), *p.params[1:]))
        assert any(words in d.message for d in verify(faulty)), words


def test_an_operand_of_an_intrinsic_is_not_packed() -> None:
    source = """intrin x(A: f32[4, 4] = packed([16], fn (i) -> [i // 4, i % 4]), out B: f32[4]) {
        desc { block b[i: 4] { B[i] = A[i, 0] } }
        impl { block b[i: 4] { B[i] = A[i, 0] } }
    }"""
    with pytest.raises(MsError, match="as it lies"):
        ms.parse(source)


# ------------------------------------------------------------------ arrays
def test_what_does_not_keep_elements_apart_is_not_packed() -> None:
    for bad in ("i % 4, i % 4", "i // 2, i % 4"):
        p = parse_program(f"""program p(A: f32[4, 4] = packed([14], fn (i) -> [{bad}]), out B: f32[1]) {{
            block b[i: 1] {{ B[i] = A[0, 0] }}
        }}""")
        a = np.zeros(14, np.float32)
        for run in (lambda p=p, a=a: interpret.run(p, {"A": a}), lambda p=p, a=a: ms.build(p)(a)):
            with pytest.raises(MsError) as found:
                run()
            assert found.value.diagnostic.code == "MS420"


def test_a_kernel_takes_arrays_as_they_were_or_packed() -> None:
    p = transform_layout(copying(), block("b"), buffer("A"), FOURS, pad=5).program
    kernel = ms.build(transform_layout(p, block("b"), buffer("B"), FOURS, pad=5).program)
    a, b = np.arange(14, dtype=np.float32), np.zeros(14, np.float32)
    weights = kernel.pack("A", a)
    assert weights.array.shape == (4, 4) and weights.array.tolist()[3] == [12.0, 13.0, 5.0, 5.0]
    for given in (a, weights):
        b[:] = 0
        kernel(given, b)
        assert np.array_equal(b, a * 2) and np.array_equal(kernel(given), a * 2)
    bound = kernel.bind(a, b)
    a += 1
    bound.run()
    assert np.array_equal(b, a * 2), "arrays are packed again at each run"
    assert bound.time().median > 0


def test_an_array_packed_for_another_layout_is_refused() -> None:
    fours = ms.build(transform_layout(copying(16), block("b"), buffer("A"), FOURS).program)
    other = ms.build(transform_layout(copying(16), block("b"), buffer("A"), fn(lambda i: [i % 4, i // 4])).program)
    a = np.arange(16, dtype=np.float32)
    for call, code, words in (
        (lambda: other(fours.pack("A", a)), "MS413", "packed in another layout"),
        (lambda: ms.build(copying(16))(fours.pack("A", a)), "MS413", "packed in another layout"),
        (lambda: fours.pack("B", a), "MS410", "not packed"),
        (lambda: fours.pack("no", a), "MS410", "no parameter"),
        (lambda: fours.pack("A", a[:8]), "MS412", "shape"),
        (lambda: fours(np.zeros((4, 4), np.float32)), "MS412", "shape"),
    ):
        with pytest.raises(MsError, match=words) as found:
            call()
        assert found.value.diagnostic.code == code


def test_half_floats_are_padded_with_their_bits() -> None:
    p = parse_program("""program p(A: bf16[3], out B: bf16[3]) {
        for i in 3 { block b[x: 3 = i] { B[x] = A[x] } }
    }""")
    done = transform_layout(p, block("b"), buffer("A"), fn(lambda i: [i // 2, i % 2]), pad=1.5).program
    assert ms.build(done).pack("A", np.zeros(3, np.uint16)).array.tolist() == [[0, 0], [0, 0x3FC0]]


def test_verification_catches_a_packing_that_is_not_that_of_the_body() -> None:
    p = copying(16)
    done = transform_layout(p, block("b"), buffer("A"), FOURS).program
    found = packed(done, "A")
    assert found is not None
    planted = replace(found, results=(found.results[1], found.results[0]))
    wrong = replace(done, params=(replace(done.params[0], packing=planted), *done.params[1:]))
    inputs = make_inputs(p, SPARSE, 1)
    for scheduled, is_right in ((done, True), (wrong, False)):
        arrays = make_arguments(p, inputs)
        ms.build(scheduled).bind(**arrays).run()
        assert isinstance(compare(p, interpret.run(p, inputs), arrays, SPARSE), Difference) is not is_right
        assert np.array_equal(interpret.run(scheduled, inputs)["B"], interpret.run(p, inputs)["B"]) is is_right


# ------------------------------------------------------------------ refused
STRIDED = """program p(A: f32[14] @ global(strides = [2]), out B: f32[14]) {
    for i in 14 { block b[x: 14 = i] { B[x] = A[x] } }
}"""


@pytest.mark.parametrize(
    ("p", "name", "named", "code", "words"),
    [
        (copying(), "A", {}, "MS386", ["[4, 4]", "pad"]),
        (parse_program(STRIDED), "A", {"pad": 0}, "MS385", ["strides", "cache_read"]),
        (copying(), "A", {"pad": "x"}, "MS387", ["f32"]),
    ],
)
def test_refused(p: Program, name: str, named: dict[str, Any], code: str, words: list[str]) -> None:
    with refused(code, *words):
        transform_layout(p, block("b"), buffer(name), FOURS, **named)


def test_two_paddings_are_refused() -> None:
    once = transform_layout(copying(), block("b"), buffer("A"), FOURS, pad=5).program
    with refused("MS385", "padded with 5.0 already", "6.0"):
        transform_layout(once, block("b"), buffer("A"), fn(lambda i, j: [i // 3, i % 3, j]), pad=6)


@pytest.mark.parametrize(
    "index_map",
    [fn(lambda i, j: [i, 0 - j]), fn(lambda i, j: [5 - i, j]), fn(lambda i, j: [1 - j, 5 - i])],
    ids=["negated", "reversed", "both"],
)
def test_whatever_is_accepted_can_be_packed(index_map: IndexMap) -> None:
    width = 1 if index_map == fn(lambda i, j: [i, 0 - j]) else 2
    p = parse_program(f"""program p(A: f32[6, {width}], out B: f32[6, {width}]) {{
        for i in 6, j in {width} {{ block b[x: 6 = i, y: {width} = j] {{ B[x, y] = A[x, y] * 2.0 }} }}
    }}""")
    for name in ("A", "B"):
        done = transform_layout(p, block("b"), buffer(name), index_map).program
        same_meaning(p, done)
        a = np.arange(6 * width, dtype=np.float32).reshape(6, width)
        assert np.array_equal(ms.build(done)(a), a * 2)


def test_a_packing_in_text_may_choose() -> None:
    p = parse_program("""program p(
        A: f32[6] = packed([6], fn (i) -> [select(i < 3, i + 3, i - 3)]), out B: f32[6]
    ) { block b[x: 6] { B[x] = A[x] } }""")
    a = np.arange(6, dtype=np.float32)
    assert np.array_equal(ms.build(p)(a), [3, 4, 5, 0, 1, 2])


@pytest.mark.parametrize("index", ["abs(i)", "i64(i)"])
def test_a_packing_is_arithmetic_of_indices(index: str) -> None:
    with pytest.raises(MsError) as caught:
        parse_program(f"""program p(A: f32[6] = packed([6], fn (i) -> [{index}]), out B: f32[6]) {{
            block b[x: 6] {{ B[x] = A[x] }}
        }}""")
    assert caught.value.diagnostic.code == "MS110"
