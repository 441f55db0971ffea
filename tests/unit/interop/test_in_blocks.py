"""Assignments outside of blocks get one, so that what is imported is a file."""

from pathlib import Path

import pytest

from mslang.cli.main import main
from mslang.diagnostics import MsError
from mslang.interop import tvmscript
from mslang.interop.in_blocks import in_blocks
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.sema.modules import load
from tests.property.block_programs import same_meaning

HEAD = """from tvm.script import tir as T

@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
"""


def made(body: str) -> Program:
    program = tvmscript.parse_one(HEAD + body)
    blocked = in_blocks(program)
    same_meaning(program, blocked, {}, 1)
    assert load("f.ms", print_program(blocked)).errors == ()
    return blocked


def test_axes_are_spatial_where_they_say_which_element_is_written_and_reduce_where_it_is_updated() -> None:
    text = print_program(
        made("""
    for i in range(8):
        C[i] = 0.0
        for j in range(8):
            C[i] = C[i] + A[i, j] * B[j, i]
""")
    )
    assert "block C_block[i: 8 = i] { C[i] = 0.0 }" in text
    assert "block C_block_1[i: 8 = i | j: 8 = j] {" in text


def test_axes_are_opaque_where_an_order_may_matter() -> None:
    text = print_program(
        made("""
    C[0] = A[0, 0]
    for i in range(1, 8):
        if A[i, i] > 0.0:
            C[i] = C[i - 1] + A[i, 0]
        else:
            C[i] = A[i, 0] * 2.0
""")
    )
    assert "block C_block { C[0] = A[0, 0] }" in text
    assert "block C_block_1[i: 8 @ opaque = i] {\n                where 1 <= i" in text
    assert "block C_block_2[i: 8 = i] {" in text


def test_what_has_blocks_stays_as_it_is() -> None:
    program = tvmscript.parse_one(
        HEAD
        + """
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            C[v] = A[v, v]
"""
    )
    assert in_blocks(program) == program


def test_a_triangle_is_refused_and_the_others_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "k.py"
    triangle = "    for i in range(8):\n        for j in range(i):\n            B[i, j] = A[i, j]\n"
    source.write_text(
        HEAD + triangle + HEAD.replace("def f", "def g") + "    for i in range(8):\n        C[i] = A[i, 0]\n"
    )
    assert main(["import", str(source), "-o", str(tmp_path / "k.ms")]) == 1
    assert "error[MS731]" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "k.ms")]) == 0


def test_an_axis_of_a_loop_that_begins_below_0_begins_at_0() -> None:
    text = print_program(
        made("""
    for i in range(-2, 6):
        C[i + 2] = A[i + 2, 0] + T.Cast("float32", T.max(i, 0))
""")
    )
    assert "block C_block[i_axis: 8 @ opaque = i + 2] {" in text


def test_a_loop_may_begin_where_another_one_says() -> None:
    text = print_program(
        made("""
    for i in range(4):
        for j in range(i - 3, 5):
            C[j + 3] = A[i, j + 3] + T.Cast("float32", T.max(j, 0))
""")
    )
    assert "block C_block[i: 4 @ opaque = i, j_axis: 8 @ opaque = j + 3] {" in text
    assert "where i - 3 <= j" in text


BESIDE = """
    for i in range(8):
        x = {value}
        with T.block("b"):
            v = T.axis.spatial(8, i)
            {block}
        C[i] = {stored}
"""


@pytest.mark.parametrize(
    ("value", "stored", "wanted"),
    [
        ("A[i, 0]", "x", "block C_block[i: 8 = i] { C[i] = A[i, 0] }"),
        ("i * 2", "T.Cast('float32', x)", "block C_block[i: 8 = i] { C[i] = f32(i * 2) }"),
        ("A[i, 0]\n        y = x * x", "y + 1.0", "block C_block[i: 8 = i] { C[i] = A[i, 0] * A[i, 0] + 1.0 }"),
    ],
)
def test_a_let_outside_of_the_block_is_replaced_by_its_value(value: str, stored: str, wanted: str) -> None:
    text = print_program(made(BESIDE.format(value=value, block="B[v, v] = B[v, v] + A[v, v]", stored=stored)))
    assert wanted in text and "let" not in text


def test_a_let_that_a_binding_uses_stays() -> None:
    text = print_program(
        made("""
    for i in range(4):
        x = i * 2
        with T.block("b"):
            v = T.axis.spatial(8, x)
            B[v, v] = B[v, v] + A[v, v]
        C[x] = C[x] + 1.0
""")
    )
    assert "let x = i * 2" in text and "block C_block[i: 4 @ opaque = i] { C[i * 2] += 1.0 }" in text


@pytest.mark.parametrize("block", ["A[v, 0] = 1.0", "W = T.match_buffer(A[v, 0:8], (8,))\n            W[0] = 1.0"])
def test_a_value_that_may_be_overwritten_is_refused(block: str) -> None:
    body = BESIDE.format(value="A[i, 0]", block=block, stored="x")
    with pytest.raises(MsError, match="`A`, which `x` is read from, may be written") as caught:
        in_blocks(tvmscript.parse_one(HEAD + body))
    assert caught.value.diagnostic.code == "MS731"


def test_an_import_whose_text_has_an_error_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "k.py"
    source.write_text(HEAD + BESIDE.format(value="A[i, 0]", block="B[v, v] = B[v, v] + A[v, v]", stored="x"))
    assert main(["import", str(source)]) == 0
    monkeypatch.setattr("mslang.interop.in_blocks._without_lets", lambda s, lets: s)
    for words in (["import", str(source)], ["import", str(source), "-o", str(tmp_path / "k.ms")]):
        capsys.readouterr()
        assert main(words) == 1
        said = capsys.readouterr().err
        assert said.count("error[") == 1 and "error[MS115]" in said and ".ms:" in said
