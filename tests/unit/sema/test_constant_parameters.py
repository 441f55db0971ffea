"""Parameters that are constant across calls: `const W: f32[K, N]`."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import mslang as ms
from mslang.backend.reference.interpret import run as interpret
from mslang.diagnostics import MsError
from mslang.ide.completion import completions
from mslang.ide.hover import hover
from mslang.interop.tvm.program_in import programs
from mslang.interop.tvm.program_out import to_graph
from mslang.interop.tvmscript.read import parse_one
from mslang.interop.tvmscript.write import print_script
from mslang.ir import te
from mslang.ir.equal import alpha_equal, structural_hash
from mslang.ir.print import print_program
from mslang.ir.program import Param
from mslang.ir.verify import verify
from mslang.sema.program import parse_program
from mslang.syntax.format import format_text
from mslang.transform.primitives.transform_layout import transform_layout
from mslang.tune.verification import SPARSE, make_inputs
from tests.unit.ide.marks import at
from tests.unit.transform.layouts import fn, same_meaning
from tests.unit.transform.programs import block, buffer

DENSE = """program dense[M = 6, N = 8, K = 4](A: f32[M, K], const W: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * W[k, j] }
}
"""


def test_it_is_printed_read_back_and_formatted() -> None:
    p = parse_program(DENSE)
    assert [q.constant for q in p.params] == [False, True, False]
    assert parse_program(print_program(p)) == p
    spread = DENSE.replace("const W", "const   W")
    assert format_text(spread) == format_text(DENSE) and "const W: f32[K, N]" in format_text(spread)


def test_it_is_another_program_that_means_the_same() -> None:
    p, q = parse_program(DENSE), parse_program(DENSE.replace("const ", ""))
    assert structural_hash(p) != structural_hash(q) and not alpha_equal(p, q)
    inputs = make_inputs(p, SPARSE, 3)
    assert (interpret(p, inputs)["C"] == interpret(q, inputs)["C"]).all()


def test_the_word_goes_with_a_range_and_with_a_layout() -> None:
    p = parse_program(DENSE.replace("const W: f32[K, N]", "const W: f32[K, N] in -99.0..99.0"))
    packed = transform_layout(p, block("mm"), buffer("W"), fn(lambda k, j: [j // 4, k, j % 4])).program
    text = "const W: f32[2, 4, 4] in -99.0 .. 99.0 = packed([4, 8], fn (k, j) -> [j // 4, k, j % 4])"
    assert text in print_program(packed)
    assert parse_program(print_program(packed)) == packed
    same_meaning(p, packed)
    back = transform_layout(packed, block("mm"), buffer("W"), fn(lambda j, k, lane: [k, j * 4 + lane])).program
    assert alpha_equal(back, p), "the map and its inverse leave the word and the range"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (DENSE.replace("out C", "const out C"), "MS001", "expected a name"),
        (DENSE.replace("out C", "const C"), "MS111", "`C`"),
        (
            "intrin x(const A: f32[4], out B: f32[4]) {\n    desc { block b[i: 4] { B[i] = A[i] } }\n"
            "    impl { block b[i: 4] { B[i] = A[i] } }\n}\n",
            "MS110",
            "`const`",
        ),
    ],
)
def test_what_is_not_constant(text: str, code: str, message: str) -> None:
    with pytest.raises(MsError) as caught:
        ms.parse(text)
    found = caught.value.diagnostics[0]
    assert found.code == code and message in found.message


def test_verify_sees_a_constant_that_is_written() -> None:
    p = parse_program(DENSE)
    c = p.params[2].buffer
    faulty = replace(p, params=(*p.params[:2], Param(c, "out", constant=True)))
    assert any("constant" in d.message for d in verify(faulty))


def test_builders() -> None:
    a, w = te.placeholder((6, 4), name="A"), te.placeholder((4, 8), name="W", constant=True)
    k = te.reduce_axis(4, "k")
    p = te.program("dense", te.compute((6, 8), lambda i, j: te.sum(a[i, k] * w[k, j], axis=k), "C"))
    assert "const W: f32[4, 8]" in print_program(p)


def test_tvm_says_so_in_an_attribute_of_the_function() -> None:
    p = parse_program(DENSE)
    text = print_script(p)
    assert '"layout_free_buffers": [1]' in text
    assert alpha_equal(parse_one(text), p)
    (found,) = programs(to_graph(p)).values()
    assert alpha_equal(found, p)
    assert alpha_equal(parse_one(text.replace("[1]", "[1, 2]")), p), "what is written is not constant"


def test_the_editor_offers_and_explains_it() -> None:
    labels = {c.label for c in completions(*at("program p(<|>A: f32[4], out B: f32[4]) {}\n"))}
    assert {"const", "out", "inout"} <= labels
    found = hover(*at(DENSE.replace("* W[k", "* <|>W[k")))
    assert found is not None and "const W: f32[4, 8]" in found.text
