"""Programs to TVMScript: the text, and that it is read back."""

import json
from pathlib import Path

import pytest

from mslang.cli.main import main
from mslang.diagnostics import MsError
from mslang.interop import tvmscript
from mslang.ir.equal import alpha_equal
from mslang.sema.modules import load
from mslang.sema.program import instantiate, parse_program

LIBRARY = sorted((Path(__file__).parents[3] / "stdlib" / "workloads").glob("*.ms"))

EVERYTHING = """program everything[n: dyn(1..64, multiple = 4)](
    A: f32[n, 4] @ global(align = 16), inout B: f32[16, 4] @ global(strides = [8, 1], offset = 2), out C: f32[16, 4]
) {
    alloc t: f16[4] @ local
    attr "tvm.layers" = 2
    attr "unroll" = [1, "two", 2.5, i64(3), true]
    for i in 4 @ parallel, j in 2..4 @ unrolled("x" = 1) {
        for k in 2 @ threadIdx.x {
            for l in 1..3 {
                block b[x: 4 = i, y: 4 = j, z: 2 @ scan = k, w: 2 @ opaque = l - 1] {
                    alloc u: i32[] @ shared
                    view v: f32[4] = B[x * 4, 0..4]
                    reads B[x * 4, 0..4]
                    writes C[x * 4 + y, 0..4], B[x * 4, 0..4]
                    where i < 3 and i + 1 < 16
                    attr "key" = "va\\"lue"
                    u[] = i32(x) // 2
                    let value = max(v[y], -inf) * 2.0
                    if u[] < 3 { v[y] = value } else { C[x * 4 + y, z] = -value }
                    while u[] < 3 { u[] += 1 }
                    C[x * 4 + y, w] = select(not x == 2 or y == 1, exp(value), pow(value, 2.0))
                }
            }
        }
    }
    for p in 16, q in 4 { block empty[r: 16 = p, s: 4 = q] { reads [] writes [] } }
    for m in n { block last[r: n = m] { reads A[r, 0..4] writes C[0, 0] init { C[0, 0] = 0.0 } C[0, 0] += A[r, 3] } }
}"""


@pytest.mark.parametrize("dialect", ["tirx", "tir"])
def test_everything_is_read_back(dialect: tvmscript.Dialect) -> None:
    p = parse_program(EVERYTHING)
    text = tvmscript.print(p, dialect=dialect)
    assert alpha_equal(tvmscript.parse_one(text), p)
    assert ("T.sblock(" in text) == (dialect == "tirx")
    assert ("T.block(" in text) == (dialect == "tir")


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.stem)
def test_the_library_is_read_back(path: Path) -> None:
    module = load(str(path))
    for name in module.programs:
        p = instantiate(module, name, {})
        assert alpha_equal(tvmscript.parse_one(tvmscript.print(p)), p)


def test_several_are_one_module() -> None:
    p = parse_program("program p(A: f32[4], out B: f32[4]) { block b[i: 4] { B[i] = A[i] } }")
    text = tvmscript.print(p, p)
    first, second = tvmscript.parse(text)
    assert (first.name, second.name) == ("p", "p_1")
    assert alpha_equal(first, p) and alpha_equal(second, p)


def test_names_that_python_does_not_take() -> None:
    p = parse_program(
        "program `in`(`a.b`: f32[4], out T: f32[4]) { block `x y`[`for`: 4] { T[`for`] = `a.b`[`for`] } }"
    )
    text = tvmscript.print(p)
    assert "def in_1(a_b: T.Buffer" in text
    assert 'T.sblock("x y")' in text
    q = tvmscript.parse_one(text)
    assert [x.buffer.name for x in q.params] == ["a_b", "T_1"]


def test_a_block_alone_is_not_taken_for_the_root() -> None:
    p = parse_program("program p(out A: f32[1]) { block only { writes A[0] reads [] A[0] = 1.0 } }")
    assert alpha_equal(tvmscript.parse_one(tvmscript.print(p)), p)


def test_an_annotation_may_hold_buffers() -> None:
    p = parse_program("""program p(A: f32[4], W: f32[4], out C: f32[4]) {
        block c[i: 4] {
            attr "layout_free_placeholders" = ["W"]
            C[i] = A[i] * W[i]
        }
    }""")
    text = tvmscript.print(p)
    assert '{"layout_free_placeholders": [W]}' in text
    (again,) = tvmscript.parse(text)
    assert alpha_equal(again, p)


def test_open_decisions_cannot_be_written() -> None:
    p = parse_program(
        "program p[t: perfect_tile(16, n = 2)](out A: f32[16]) "
        "{ for i in t[0], j in t[1] { block b[x: 16 = i * t[1] + j] { A[x] = 1.0 } } }"
    )
    with pytest.raises(MsError) as caught:
        tvmscript.print(p)
    assert caught.value.diagnostic.code == "MS737"


# ------------------------------------------------------------------ the command
KERNEL = """from tvm.script import tir as T

@T.prim_func
def scale(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
"""
BAD = """
@T.prim_func
def bad(A: T.Buffer((8,), "float32")):
    A[0] = T.lgamma(A[0])
"""
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text(KERNEL)
    return tmp_path / "kernel.py"


def test_import_prints_what_parses(kernel: Path, capsys: Captured) -> None:
    assert main(["import", "kernel.py"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert alpha_equal(parse_program(shown.out), tvmscript.parse_one(KERNEL))


def test_import_writes_a_file(kernel: Path, capsys: Captured) -> None:
    assert main(["import", "kernel.py", "-o", "kernel.ms"]) == 0
    assert capsys.readouterr().out == ""
    assert load("kernel.ms").diagnostics == ()
    assert list(load("kernel.ms").programs) == ["scale"]


def test_import_brings_what_it_can(kernel: Path, capsys: Captured) -> None:
    kernel.write_text(KERNEL + BAD)
    assert main(["import", "kernel.py"]) == 1
    shown = capsys.readouterr()
    assert "program scale(" in shown.out
    assert "error[MS731]" in shown.err and "kernel.py:12:12" in shown.err
    assert main(["import", "kernel.py", "--json"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(x["kind"], x.get("code", x.get("name"))) for x in lines] == [("diagnostic", "MS731"), ("program", "scale")]


@pytest.mark.parametrize(
    ("name", "text", "status"),
    [("kernel.txt", KERNEL, 2), ("none.py", None, 1), ("broken.py", "x = (", 1), ("host.py", "x = 1", 1)],
)
def test_import_says_what_is_wrong(name: str, text: str | None, status: int, kernel: Path, capsys: Captured) -> None:
    if text is not None:
        (kernel.parent / name).write_text(text)
    assert main(["import", name]) == status
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("error[MS7")


@pytest.mark.parametrize(
    "condition, written",
    [
        ("A[x] == x", "A[x_1] == T.int64(x_1)"),
        ("x + 1 != A[x]", "T.int64(x_1 + 1) != A[x_1]"),
        ("A[x] == 3", "A[x_1] == 3"),
        ("x == 5000000000", "T.int64(x_1) == T.int64(5000000000)"),
        ("x < A[x]", "x_1 < A[x_1]"),
        ("x == x * 2", "x_1 == x_1 * 2"),
        ("A[x] == A[x] * 2", "A[x_1] == A[x_1] * 2"),
        ("select(x < 3, x, A[x]) == x", "T.if_then_else(x_1 < 3, x_1, A[x_1]) == T.int64(x_1)"),
    ],
)
def test_equalities_compare_operands_of_one_width(condition: str, written: str) -> None:
    """TVM gives indices 32 bits, and refuses `==` and `!=` of them and data of 64."""
    p = parse_program(f"program p(A: i64[8], out B: i32[8]) {{ block b[x: 8] {{ B[x] = select({condition}, 1, 0) }} }}")
    text = tvmscript.print(p)
    assert f"T.if_then_else({written}, T.int32(1), T.int32(0))" in text
    (again,) = tvmscript.parse(text)
    assert alpha_equal(again, p)
